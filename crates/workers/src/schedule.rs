//! A run of workers to its end.

use crate::core::{Core, Shared};
use crate::{baton, coroutines};
use nandu_base::Nanos;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// How one worker makes room for the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwitchKind {
    /// A stack for each worker, all on the thread that calls: a tenth of a microsecond for a switch.
    #[default]
    Coroutines,
    /// A thread of the system for each worker, of which one runs: slower by a factor of hundreds, and
    /// free of `unsafe`. Tests hold its results against those of the coroutines.
    Baton,
}

impl SwitchKind {
    /// Both ways to switch, for tests that compare them.
    pub const ALL: [Self; 2] = [Self::Coroutines, Self::Baton];
}

/// How workers are run on one virtual clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How many workers compute at once, from 1.
    pub cores: u32,
    /// When all begin.
    pub start: Nanos,
    /// How they switch.
    pub kind: SwitchKind,
    /// Bytes of the stack of each. What is not touched takes no memory.
    pub stack_bytes: usize,
}

/// How a run of workers ended.
#[derive(Debug)]
pub struct Ran<T> {
    /// What each worker gave back, by number.
    pub values: Vec<T>,
    /// When the last one was done.
    pub end: Nanos,
    /// How often a worker was given its turn.
    pub switch_count: u64,
}

/// What a worker does.
pub type Work<T> = Box<dyn FnOnce() -> T + Send>;

pub(crate) type Body = Box<dyn FnOnce() + Send>;

impl Default for Schedule {
    fn default() -> Self {
        Self { cores: 1, start: Nanos::ZERO, kind: SwitchKind::default(), stack_bytes: 1 << 20 }
    }
}

impl Schedule {
    /// Runs all workers to their ends.
    ///
    /// # Panics
    /// With the panic of the first worker that panicked, after the others have ended; with a report of
    /// who waits for what, if nobody can go on; or if this is a worker itself.
    pub fn run<T: Send + 'static>(&self, workers: Vec<Work<T>>) -> Ran<T> {
        assert!(!crate::is_worker(), "a worker runs no workers");
        assert!(self.cores > 0, "somebody must compute");
        let worker_count = nandu_base::to_u32(workers.len() as u64);
        let core = Core::new(worker_count, self.cores, self.start);
        let shared = Arc::new(Shared::new(self.kind, core));
        let ends: Ends<T> = Arc::new(Mutex::new((0..workers.len()).map(|_| None).collect()));
        let body = |(number, work): (usize, Work<T>)| -> Body {
            let ends = Arc::clone(&ends);
            Box::new(move || {
                let end = catch_unwind(AssertUnwindSafe(work));
                ends.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(end);
            })
        };
        let bodies: Vec<Body> = workers.into_iter().enumerate().map(body).collect();
        match self.kind {
            SwitchKind::Coroutines => coroutines::run(&shared, bodies, self.stack_bytes),
            SwitchKind::Baton => baton::run(&shared, bodies, self.stack_bytes),
        }
        let core = shared.lock();
        if let Some(report) = &core.deadlock {
            panic!("{report}");
        }
        let (end, switch_count) = (core.latest(), core.switch_count);
        drop(core);
        let ends = std::mem::take(&mut *ends.lock().unwrap_or_else(PoisonError::into_inner));
        let value = |end: Option<std::thread::Result<T>>| match end.expect("every worker has ended")
        {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        };
        Ran { values: ends.into_iter().map(value).collect(), end, switch_count }
    }
}

type Ends<T> = Arc<Mutex<Vec<Option<Result<T, Box<dyn Any + Send>>>>>>;
