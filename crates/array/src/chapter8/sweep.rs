//! Many scenarios on all cores.
//!
//! 1. Results stand in the order of the scenarios and do not depend on how many threads there are.

use super::{Scenario, Summary};
use crate::ArrayError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs all `scenarios` with the same `seed` on `thread_count` threads, at least one.
///
/// # Errors
/// The first scenario, in their order, that has a value out of range.
pub fn run_all(
    scenarios: &[Scenario],
    seed: u64,
    thread_count: usize,
) -> Result<Vec<Summary>, ArrayError> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; scenarios.len()]);
    let work = || {
        loop {
            // The index alone passes between threads; the results have their lock.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(scenario) = scenarios.get(index) else { return };
            let result = scenario.run(seed);
            results.lock().expect("no thread panics while it stores")[index] = Some(result);
        }
    };
    thread::scope(|scope| {
        let threads = thread_count.clamp(1, scenarios.len().max(1));
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_inner().expect("no thread panics while it stores");
    results
        .into_iter()
        .map(|result| result.expect("every scenario was taken by a thread"))
        .collect()
}
