//! Volumes of one algorithm, which lie on devices of their own and have one time.

use nandu_storage::volume::{Io, Volume};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Shares `volumes`, all on one clock: whoever waited for one of them comes to the others that much
/// later, and what these had in flight went on meanwhile. So requests of several simulated drives
/// overlap where one does not wait for the other, and add up where one does. It starts at the latest
/// that a volume knows of.
#[must_use]
pub fn on_one_clock(volumes: Vec<Box<dyn Volume>>) -> Vec<Io> {
    let clock = Arc::new(AtomicU64::new(0));
    volumes.into_iter().map(|volume| Io::new(volume, Arc::clone(&clock))).collect()
}
