//! What depends on the run itself: the key `run` of JSON documents.
//!
//! 1. Nothing else in a document of a simulation differs between two runs of one command.

use crate::command::command_line;
use crate::stopwatch::{Stopwatch, date};
use nandu_lab::machine::{COMMIT, Machine};
use serde::Serialize;

/// When, where, by which program and how long.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunFacts {
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) commit: &'static str,
    pub(crate) machine: Machine,
    pub(crate) seconds: f64,
}

impl RunFacts {
    /// Of a run that began with `stopwatch` and ends now.
    pub(crate) fn since(stopwatch: Stopwatch) -> Self {
        Self {
            date: date(),
            command: command_line(),
            commit: COMMIT,
            machine: Machine::here(),
            seconds: stopwatch.elapsed().as_secs_f64(),
        }
    }
}
