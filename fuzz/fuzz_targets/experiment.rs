//! Any text as an experiment.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_lab::Experiment;

fuzz_target!(|text: &str| {
    let _ = Experiment::parse("x", "x.toml", text);
});
