//! When a request may start and when it is done: the modes of a simulation, one sibling file each.
//!
//! 1. Start times never run backwards, if arrivals do not.
//! 2. All modes call the layer in the order of arrival, so all issue the same chip commands; what
//!    differs is when.
//! 3. Every request that was admitted is recorded once, at the latest by `drain`.

mod priority;
mod server;
mod window;

pub(crate) use priority::PriorityWindow;
pub(crate) use server::SingleServer;
pub(crate) use window::Window;

use crate::recorder::Recorder;
use nandu_base::Nanos;
use nandu_device::Operation;
use nandu_nand::{NandArray, Promise};

/// A request that the layer has served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) operation: Operation,
    /// From when on its response time counts.
    pub(crate) since: Nanos,
    /// When it is done, as far as is known.
    pub(crate) done: Nanos,
    /// From its completion to the next request.
    pub(crate) think: Nanos,
    /// The chip command that it waits for, if any.
    pub(crate) promise: Option<Promise>,
}

/// Decides when a request starts.
pub(crate) trait Admission {
    /// Whether the parts of a request follow one another, instead of being issued together.
    const SERIAL: bool;

    /// When a request that arrives at `arrival` starts.
    fn admit(&mut self, arrival: Nanos, nand: &NandArray, recorder: &mut Recorder) -> Nanos;

    /// The request that was admitted last has been served.
    fn finish(&mut self, served: Served, recorder: &mut Recorder);

    /// The background work before the next request lasts until `time`.
    fn delay(&mut self, time: Nanos);

    /// Records what is still in flight; answers when the last request was done.
    fn drain(&mut self, nand: &NandArray, recorder: &mut Recorder) -> Nanos;
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_nand::NandProfile;

    /// Admits requests that arrive at zero and are done at the given times; answers their starts.
    fn starts(admission: &mut impl Admission, ends: &[u64]) -> Vec<u64> {
        let profile = NandProfile {
            preset: "myers_slc".into(),
            channel_count: 1,
            dies_per_channel: 1,
            erase_blocks_per_plane: 1,
            ..NandProfile::default()
        };
        let nand = NandArray::new(profile.resolve().unwrap()).unwrap();
        let mut recorder = Recorder::default();
        let mut start_of = |&end: &u64| {
            let start = admission.admit(Nanos::ZERO, &nand, &mut recorder);
            let (since, done) = (Nanos::ZERO, Nanos(end));
            let operation = Operation::Write;
            let served = Served { operation, since, done, think: Nanos::ZERO, promise: None };
            admission.finish(served, &mut recorder);
            start.0
        };
        let starts = ends.iter().map(&mut start_of).collect();
        let last = admission.drain(&nand, &mut recorder);
        assert_eq!(Some(&last.0), ends.iter().max());
        assert_eq!(recorder.summaries()["write"].count, ends.len() as u64);
        starts
    }

    #[test]
    fn a_server_starts_one_request_when_the_one_before_is_done() {
        assert_eq!(starts(&mut SingleServer::new(Nanos(5)), &[25, 30, 100]), [5, 25, 30]);
    }

    #[test]
    fn a_full_window_waits_for_its_earliest_completion() {
        let ends = [300, 100, 150, 400, 500];
        let expected = [0, 0, 100, 150, 300];
        assert_eq!(starts(&mut Window::new(2, Nanos::ZERO), &ends), expected);
        assert_eq!(starts(&mut PriorityWindow::new(2, Nanos::ZERO), &ends), expected);
    }
}
