//! Tests from outside, in one program: it is linked once, and those of several files run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod bench;
mod choose;
mod common;
mod crash;
mod db;
mod energy;
mod errors;
mod explain;
mod explain_trouble;
mod external;
mod full_disk;
mod help_and_lists;
mod json;
mod least_room;
mod limits;
mod load;
mod places;
mod probe;
mod resume;
mod run;
mod settings;
mod sim;
mod sim_ends;
mod xml;
