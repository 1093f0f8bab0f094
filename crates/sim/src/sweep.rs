//! Many simulations: every combination of the values of some settings, on several threads.
//!
//! ```text
//!   axes a=1,2 b=x,y ─▶ (1,x) (1,y) (2,x) (2,y) ─▶ workers take the next one ─▶ reports in that order
//! ```
//!
//! 1. The order of the reports is that of the grid, the last axis turning fastest, whatever thread
//!    ran what and when.
//! 2. A sweep that is stopped keeps what was finished.

use crate::{Job, Phase, SimError, SimObserver, SimReport};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the caller is told of the progress.
const LOOK: Duration = Duration::from_millis(100);
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
    jobs: Vec<Job>,
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
        let mut sweep = Self { jobs: Vec::with_capacity(count), points: Vec::new() };
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
            sweep.jobs.push(job);
            sweep.points.push(point);
        }
        Ok(sweep)
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
        clock: Option<&(dyn Fn() -> u64 + Sync)>,
        watch: &mut dyn FnMut(SweepProgress) -> bool,
    ) -> Vec<Option<Result<SimReport, SimError>>> {
        let mut reports: Vec<Option<Result<SimReport, SimError>>> = Vec::new();
        reports.resize_with(self.jobs.len(), || None);
        let shared = Shared::default();
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            for _ in 0..thread_count.clamp(1, self.jobs.len().max(1)) {
                let (sender, shared) = (sender.clone(), &shared);
                scope.spawn(move || {
                    while let Some((index, job)) = shared.next(&self.jobs) {
                        let before = clock.map(|clock| clock());
                        let mut report = job.run(&mut Worker::new(shared));
                        if let (Ok(report), Some(clock), Some(before)) =
                            (&mut report, clock, before)
                        {
                            report.wall_ns = Some(clock().saturating_sub(before));
                        }
                        if sender.send((index, report)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut done_count = 0;
            loop {
                match receiver.recv_timeout(LOOK) {
                    Ok((_, Err(SimError::Cancelled))) => {}
                    Ok((index, report)) => {
                        reports[index] = Some(report);
                        done_count += 1;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                let parts = shared.parts.load(Ordering::Relaxed) as f64 / PARTS as f64;
                let run_count = self.jobs.len();
                let fraction = (parts / run_count.max(1) as f64).min(1.0);
                if !watch(SweepProgress { done_count, run_count, fraction }) {
                    shared.is_stopped.store(true, Ordering::Relaxed);
                }
            }
        });
        reports
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
    fn next<'a>(&self, jobs: &'a [Job]) -> Option<(usize, &'a Job)> {
        if self.is_stopped.load(Ordering::Relaxed) {
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
}

impl<'a> Worker<'a> {
    const fn new(shared: &'a Shared) -> Self {
        Self { shared, told: 0 }
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
        let share = done.saturating_mul(PARTS / 2).checked_div(total).unwrap_or(0).min(PARTS / 2);
        self.tell(match phase {
            Phase::WarmUp => share,
            Phase::Measure => PARTS / 2 + share,
        });
    }

    fn is_cancelled(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Relaxed)
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
