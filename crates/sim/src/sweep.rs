//! Many simulations: every combination of the values of some settings, on several threads.
//!
//! ```text
//!   axes a=1,2 b=x,y ─▶ (1,x) (1,y) (2,x) (2,y) ─▶ workers take the next one ─▶ reports in that order
//! ```
//!
//! 1. The order of the reports is that of the grid, the last axis turning fastest, whatever thread
//!    ran what and when.
//! 2. A sweep that is stopped keeps what was finished, and answers soon: what does not end in order, since
//!    a large drive is being filled, is left to itself.
//! 3. A simulation's share of the progress grows with the units that it moves, in warm-up and measurement.

use crate::{Job, Phase, SimError, SimObserver, SimReport};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often the caller is told of the progress.
const LOOK: Duration = Duration::from_millis(100);
/// After so many looks without news a sweep that is stopped waits no longer.
const LOOKS_AFTER_STOP: u32 = 10;
/// Most simulations of a sweep.
const RUN_COUNT_MAX: usize = 1_000_000;

/// A setting and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The setting's name, as [`Job::set`] takes it.
    pub key: String,
    /// The values as text, in the order in which they are tried.
    pub values: Vec<String>,
}

/// A grid of simulations.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    jobs: Arc<Vec<Job>>,
    points: Vec<Vec<String>>,
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepProgress {
    /// Simulations that are done.
    pub done_count: usize,
    /// Simulations of the grid.
    pub run_count: usize,
    /// Share of the work that is done, counting those under way.
    pub fraction: f64,
}

impl Axis {
    /// Reads `key=a,b,c`; values that hold commas are separated by semicolons.
    ///
    /// # Errors
    /// [`SimError::Setting`] says what is missing.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let fail = |what: &str| {
            SimError::Setting(format!(
                "sweep `{text}` {what}; write for example victim=greedy,fifo"
            ))
        };
        let (key, values) = text.split_once('=').ok_or_else(|| fail("has no `=`"))?;
        let separator = if values.contains(';') { ';' } else { ',' };
        let values: Vec<String> =
            values.split(separator).map(|value| value.trim().to_string()).collect();
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(fail("has an empty key or value"));
        }
        Ok(Self { key: key.into(), values })
    }
}

impl Sweep {
    /// Every combination of the values of `axes` in `job`.
    ///
    /// # Errors
    /// If a value does not fit its setting or the grid is too large.
    pub fn new(job: &Job, axes: &[Axis]) -> Result<Self, SimError> {
        let mut sizes = axes.iter().map(|axis| axis.values.len());
        let count = sizes.try_fold(1_usize, usize::checked_mul);
        let count = count.filter(|&count| count <= RUN_COUNT_MAX).ok_or_else(|| {
            SimError::Setting(format!("the sweep has more than {RUN_COUNT_MAX} simulations"))
        })?;
        let (mut jobs, mut points) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for number in 0..count {
            let (mut job, mut point, mut rest) =
                (job.clone(), vec![String::new(); axes.len()], number);
            for (index, axis) in axes.iter().enumerate().rev() {
                point[index].clone_from(&axis.values[rest % axis.values.len()]);
                rest /= axis.values.len();
            }
            for (axis, value) in axes.iter().zip(&point) {
                job.set(&axis.key, value)?;
            }
            jobs.push(job);
            points.push(point);
        }
        Ok(Self { jobs: Arc::new(jobs), points })
    }

    /// The simulations, in order.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The values of the axes of each simulation.
    #[must_use]
    pub fn points(&self) -> &[Vec<String>] {
        &self.points
    }

    /// Runs all of them on `thread_count` threads. `watch` is called in this thread again and again,
    /// and stops the sweep by answering false; what was not finished then is missing from the answer.
    /// `clock` is read around each simulation, in ns; a report holds the difference as `wall_ns`.
    pub fn run(
        &self,
        thread_count: usize,
        clock: Option<Clock>,
        watch: &mut dyn FnMut(SweepProgress) -> bool,
    ) -> Vec<Option<Result<SimReport, SimError>>> {
        let run_count = self.jobs.len();
        let mut reports: Vec<Option<Result<SimReport, SimError>>> = Vec::new();
        reports.resize_with(run_count, || None);
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = channel();
        let worker = || {
            let (jobs, shared) = (Arc::clone(&self.jobs), Arc::clone(&shared));
            let (clock, sender) = (clock.clone(), sender.clone());
            thread::spawn(move || work(&jobs, &shared, clock.as_deref(), &sender))
        };
        let threads: Vec<_> =
            (0..thread_count.clamp(1, run_count.max(1))).map(|_| worker()).collect();
        drop(sender);
        let (mut done_count, mut looks_left) = (0, LOOKS_AFTER_STOP);
        while looks_left > 0 {
            match receiver.recv_timeout(LOOK) {
                Ok((_, Err(SimError::Cancelled))) => {}
                Ok((index, report)) => {
                    reports[index] = Some(report);
                    done_count += 1;
                }
                Err(RecvTimeoutError::Timeout) if shared.is_stopped() => looks_left -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let parts = shared.parts.load(Ordering::Relaxed) as f64 / PARTS as f64;
            let fraction = (parts / run_count.max(1) as f64).min(1.0);
            if !watch(SweepProgress { done_count, run_count, fraction }) {
                shared.is_stopped.store(true, Ordering::Relaxed);
            }
        }
        for thread in threads {
            // Invariant 2: who is still at work then is not waited for.
            if looks_left > 0
                && let Err(panic) = thread.join()
            {
                std::panic::resume_unwind(panic);
            }
        }
        reports
    }
}

/// What tells nanoseconds, wherever it is asked.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Runs one job after the other, until there is none or the sweep is stopped.
fn work(
    jobs: &[Job],
    shared: &Shared,
    clock: Option<&(dyn Fn() -> u64 + Send + Sync)>,
    sender: &Sender<(usize, Result<SimReport, SimError>)>,
) {
    while let Some((index, job)) = shared.next(jobs) {
        let before = clock.map(|clock| clock());
        let mut report = job.run(&mut Worker::new(shared, job));
        if let (Ok(report), Some(clock), Some(before)) = (&mut report, clock, before) {
            report.wall_ns = Some(clock().saturating_sub(before));
        }
        if sender.send((index, report)).is_err() {
            return;
        }
    }
}

/// A simulation's share of the progress.
const PARTS: u64 = 1000;

/// What the workers share.
#[derive(Debug, Default)]
struct Shared {
    next: AtomicUsize,
    parts: AtomicU64,
    is_stopped: Arc<AtomicBool>,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn next<'a>(&self, jobs: &'a [Job]) -> Option<(usize, &'a Job)> {
        if self.is_stopped() {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        jobs.get(index).map(|job| (index, job))
    }
}

/// Watches one simulation for the sweep.
struct Worker<'a> {
    shared: &'a Shared,
    told: u64,
    /// What the warm-up moves, once it is known.
    warm_up_units: u64,
    /// What the measurement moves, as far as it is known before it ends.
    measured_units: Option<u64>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, job: &Job) -> Self {
        Self { shared, told: 0, warm_up_units: 0, measured_units: job.measured_units() }
    }

    fn tell(&mut self, parts: u64) {
        let parts = parts.clamp(self.told, PARTS);
        self.shared.parts.fetch_add(parts - self.told, Ordering::Relaxed);
        self.told = parts;
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // One that was stopped is not done.
        if !self.is_cancelled() {
            self.tell(PARTS);
        }
    }
}

impl SimObserver for Worker<'_> {
    fn progress(&mut self, phase: Phase, done: u64, total: u64) {
        let Some(measured_units) = self.measured_units else {
            // A trace of unknown length: what is known of it comes with its end.
            return;
        };
        let units = match phase {
            Phase::WarmUp => {
                self.warm_up_units = total;
                u128::from(done)
            }
            Phase::Measure => {
                let share = u128::from(measured_units) * u128::from(done);
                u128::from(self.warm_up_units) + share.checked_div(total.into()).unwrap_or(0)
            }
        };
        let whole = u128::from(self.warm_up_units) + u128::from(measured_units);
        let parts = (units * u128::from(PARTS)).checked_div(whole).unwrap_or(0);
        self.tell(u64::try_from(parts).unwrap_or(PARTS));
    }

    fn is_cancelled(&self) -> bool {
        self.shared.is_stopped()
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.is_stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DriveChoice, Input, RunConfig};

    fn job() -> Job {
        Job {
            drive: DriveChoice {
                name: "myers_slc".into(),
                physical_erase_blocks: Some(64),
                ..DriveChoice::default()
            },
            input: Input::Workload("uniform".into()),
            request_limit: Some(500),
            run: RunConfig { warm_up: Some(0.1), ..RunConfig::default() },
        }
    }

    fn sweep(axes: &[&str]) -> Sweep {
        let axes: Vec<Axis> = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
        Sweep::new(&job(), &axes).unwrap()
    }

    #[test]
    fn axes_are_lists_and_values_with_commas_are_kept_whole() {
        let axis = Axis::parse("workload=uniform;zipf:0.9,read=30").unwrap();
        assert_eq!(axis.values, ["uniform", "zipf:0.9,read=30"]);
        for text in ["victim", "=a", "victim=", "victim=a,,b"] {
            assert!(Axis::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reports_come_in_the_order_of_the_grid_whatever_the_threads() {
        let sweep = sweep(&["victim=greedy,fifo", "seed=1,2,3"]);
        let points: Vec<String> = sweep.points().iter().map(|point| point.join(" ")).collect();
        let expected = ["greedy 1", "greedy 2", "greedy 3", "fifo 1", "fifo 2", "fifo 3"];
        assert_eq!(points, expected);
        let run = |threads| -> Vec<SimReport> {
            let reports = sweep.run(threads, None, &mut |_| true).into_iter();
            reports.map(|report| report.unwrap().unwrap()).collect()
        };
        let (one, many) = (run(1), run(4));
        assert_eq!(one, many);
        assert_eq!(one[4].seed, 2);
        assert_ne!(one[1].nand, one[2].nand);
    }

    #[test]
    fn warm_up_and_measurement_count_by_the_units_that_they_move() {
        let parts_of = |job: &Job, warm_up: (u64, u64), measured: (u64, u64)| {
            let shared = Shared::default();
            let mut worker = Worker::new(&shared, job);
            let parts = || shared.parts.load(Ordering::Relaxed);
            worker.progress(Phase::WarmUp, warm_up.0, warm_up.1);
            let early = parts();
            worker.progress(Phase::Measure, measured.0, measured.1);
            (early, parts())
        };
        let mut job = job();
        assert_eq!(parts_of(&job, (4750, 9500), (250, 500)), (475, 975));
        assert_eq!(parts_of(&job, (0, 0), (250, 500)), (0, 500));
        // Requests of four units each, on pages of 2 KiB.
        job.set("workload", "uniform:size=8KiB").unwrap();
        assert_eq!(parts_of(&job, (1000, 2000), (250, 500)), (250, 750));
        job.input = Input::Trace { file: "none".into(), options: Default::default() };
        job.request_limit = None;
        assert_eq!(parts_of(&job, (0, 0), (250, 0)), (0, 0));
    }

    #[test]
    fn a_sweep_that_is_stopped_waits_for_no_drive_that_is_being_filled() {
        let mut job = job();
        job.set("physical_erase_blocks", "524288").unwrap();
        let sweep = Sweep::new(&job, &[Axis::parse("seed=1,2").unwrap()]).unwrap();
        let mut looks = 0;
        let reports = sweep.run(1, None, &mut |progress| {
            looks += 1;
            assert_eq!(progress.done_count, 0);
            false
        });
        assert!(reports.iter().all(Option::is_none));
        assert_eq!(looks, LOOKS_AFTER_STOP + 1);
    }

    #[test]
    fn a_stopped_sweep_keeps_what_was_finished_and_fails_no_row() {
        let sweep = sweep(&["seed=1,2,3,4,5,6,7,8"]);
        let mut fraction = 0.0;
        let reports = sweep.run(1, None, &mut |progress| {
            assert!(progress.fraction >= fraction, "progress never falls");
            fraction = progress.fraction;
            progress.done_count < 2
        });
        assert!(reports.iter().flatten().all(Result::is_ok));
        assert!(reports[0].is_some() && reports[1].is_some());
    }
}
