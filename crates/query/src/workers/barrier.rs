//! Where the workers of one join wait for each other, and hand over what each has.
//!
//! ```text
//!   worker 0 ── mine ─┐
//!   worker 1 ── mine ─┼─► merge, by who comes last ─► one result, read by all
//!   worker 2 ── mine ─┘
//! ```
//!
//! 1. All workers come to the same meetings in the same order.
//! 2. Where one fails, whoever waits or comes later gets [`QueryError::Cancelled`]; nobody waits for ever.

use crate::{Execution, QueryError};
use nandu_workers::sync::{Condvar, Mutex};
use std::any::Any;
use std::sync::Arc;
use std::thread::Builder;

/// The meetings of some workers.
pub(crate) struct Barrier {
    worker_count: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Meetings that are over.
    meeting_count: u64,
    /// What those who came to this meeting have, by worker.
    brought: Vec<Option<Box<dyn Any + Send>>>,
    /// What the last meeting came to.
    result: Option<Arc<dyn Any + Send + Sync>>,
    has_failed: bool,
}

impl Barrier {
    /// Meetings of so many.
    pub(crate) fn new(worker_count: usize) -> Self {
        let brought = (0..worker_count).map(|_| None).collect();
        let state = Mutex::new(State { brought, ..State::default() });
        Self { worker_count, state, changed: Condvar::default() }
    }

    pub(crate) const fn worker_count(&self) -> usize {
        self.worker_count
    }

    /// Waits for all. Who comes last makes one thing of what all brought, in the order of workers.
    ///
    /// # Errors
    /// [`QueryError::Cancelled`] if a worker failed.
    pub(crate) fn meet<T: Send + 'static, R: Send + Sync + 'static>(
        &self,
        worker: usize,
        mine: T,
        merge: impl FnOnce(Vec<T>) -> R,
    ) -> Result<Arc<R>, QueryError> {
        let mut state = self.state.lock();
        if state.has_failed {
            return Err(QueryError::Cancelled);
        }
        state.brought[worker] = Some(Box::new(mine));
        if state.brought.iter().all(Option::is_some) {
            let all = state.brought.iter_mut().map(|brought| {
                let brought = brought.take().expect("all are here");
                *brought.downcast().expect("all are at the same meeting")
            });
            let all = all.collect();
            state.result = Some(Arc::new(merge(all)));
            state.meeting_count += 1;
            self.changed.notify_all();
        } else {
            let before = state.meeting_count;
            while state.meeting_count == before {
                if state.has_failed {
                    return Err(QueryError::Cancelled);
                }
                state = self.changed.wait(state);
            }
        }
        let result = state.result.clone().expect("the meeting is over");
        Ok(result.downcast().expect("all are at the same meeting"))
    }

    /// Waits for all, who bring nothing.
    ///
    /// # Errors
    /// As [`Self::meet`].
    pub(crate) fn wait(&self, worker: usize) -> Result<(), QueryError> {
        self.meet(worker, (), |_| ()).map(|_| ())
    }

    /// Waits until something is so that others do; they call [`Self::tell`] then.
    ///
    /// # Errors
    /// [`QueryError::Cancelled`] if a worker failed.
    pub(crate) fn wait_until(&self, is_so: impl Fn() -> bool) -> Result<(), QueryError> {
        let mut state = self.state.lock();
        while !is_so() {
            if state.has_failed {
                return Err(QueryError::Cancelled);
            }
            state = self.changed.wait(state);
        }
        Ok(())
    }

    /// Lets those look again who wait for something to be so.
    pub(crate) fn tell(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }

    fn fail(&self) {
        self.state.lock().has_failed = true;
        self.changed.notify_all();
    }

    /// Does a worker's part; whoever waits for him is told if he ends without success.
    fn guard(&self, work: impl FnOnce() -> Result<(), QueryError>) -> Result<(), QueryError> {
        struct Guard<'b> {
            barrier: &'b Barrier,
            is_done: bool,
        }
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if !self.is_done {
                    self.barrier.fail();
                }
            }
        }
        let mut guard = Guard { barrier: self, is_done: false };
        let answer = work();
        guard.is_done = answer.is_ok();
        answer
    }
}

/// Does `work` once for each of `sinks`, each in a thread and a context of its own, the first in the caller's. Gives
/// what is wrong, if anything, with the first worker that failed by itself.
///
/// # Errors
/// What `work` returns, or if the system has no thread for one of them.
///
/// # Panics
/// If `work` does.
pub(crate) fn run_workers<S: Send>(
    execution: &Execution,
    sinks: &mut [S],
    work: impl Fn(&Execution, &Barrier, usize, &mut S) -> Result<(), QueryError> + Sync,
) -> Result<(), QueryError> {
    run_threads(execution, sinks, Builder::new, work)
}

fn run_threads<S: Send>(
    execution: &Execution,
    sinks: &mut [S],
    thread: impl Fn() -> Builder,
    work: impl Fn(&Execution, &Barrier, usize, &mut S) -> Result<(), QueryError> + Sync,
) -> Result<(), QueryError> {
    let barrier = Barrier::new(sinks.len());
    let Some((first, others)) = sinks.split_first_mut() else { return Ok(()) };
    std::thread::scope(|scope| {
        let (barrier, work) = (&barrier, &work);
        let (mut handles, worker_count) = (Vec::with_capacity(others.len()), others.len() + 1);
        let mut refused = None;
        for (worker, sink) in (1..).zip(others) {
            let execution = execution.fork();
            let spawned = thread().spawn_scoped(scope, move || {
                let answer = barrier.guard(|| work(&execution, barrier, worker, sink));
                (execution, answer)
            });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    let what = format!(
                        "the system has no thread for worker {} of {worker_count}: {error}; take \
                         fewer workers",
                        worker + 1
                    );
                    refused = Some(QueryError::Invalid { what });
                    break;
                }
            }
        }
        let mut answer = barrier.guard(|| match refused {
            // Those that have begun wait for those that never will.
            Some(refused) => Err(refused),
            None => work(execution, barrier, 0, first),
        });
        for handle in handles {
            let (other, its_answer) = match handle.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            execution.absorb(other);
            let has_reason = |it: &Result<(), QueryError>| {
                it.as_ref().is_err_and(|error| *error != QueryError::Cancelled)
            };
            if answer.is_ok() || (!has_reason(&answer) && has_reason(&its_answer)) {
                answer = its_answer;
            }
        }
        answer
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{execution, limits};

    #[test]
    fn what_all_bring_is_merged_once_and_read_by_all() {
        let main = execution(limits(1024, 8));
        let mut sums = [0_u64; 3];
        let work = |_: &Execution, barrier: &Barrier, worker: usize, sum: &mut u64| {
            for round in 0..1000_u64 {
                let mine = round + worker as u64;
                let all = barrier.meet(worker, mine, |all| all)?;
                assert_eq!(*all, [round, round + 1, round + 2]);
                *sum += all.iter().sum::<u64>();
                barrier.wait(worker)?;
            }
            Ok(())
        };
        run_workers(&main, &mut sums, work).unwrap();
        assert_eq!(sums, [3 * 999 * 500 + 3000; 3]);
    }

    #[test]
    fn nobody_waits_for_a_worker_that_no_thread_is_there_for() {
        let main = execution(limits(1024, 8));
        let begun_count = std::sync::atomic::AtomicUsize::new(0);
        let threads = || match begun_count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => Builder::new(),
            // More than there are addresses.
            _ => Builder::new().stack_size(1 << 60),
        };
        let work =
            |_: &Execution, barrier: &Barrier, worker: usize, _: &mut ()| barrier.wait(worker);
        let refused = run_threads(&main, &mut [(); 5], threads, work).unwrap_err();
        let told = refused.to_string();
        assert!(told.starts_with("the system has no thread for worker 4 of 5: "), "{told}");
    }

    #[test]
    fn nobody_waits_for_a_worker_that_failed_or_panicked() {
        let main = execution(limits(1024, 8));
        for failing in 0..3 {
            let invalid = QueryError::Invalid { what: format!("worker {failing}") };
            let work = |_: &Execution, barrier: &Barrier, worker: usize, _: &mut ()| {
                barrier.wait(worker)?;
                if worker == failing {
                    return Err(invalid.clone());
                }
                barrier.wait(worker)
            };
            assert_eq!(run_workers(&main, &mut [(); 3], work), Err(invalid.clone()));
        }
        let work = |_: &Execution, barrier: &Barrier, worker: usize, _: &mut ()| {
            assert!(worker != 1, "worker 1 gives up");
            barrier.wait(worker)
        };
        let panicked = std::panic::AssertUnwindSafe(|| run_workers(&main, &mut [(); 3], work));
        let told = std::panic::catch_unwind(panicked).unwrap_err();
        assert_eq!(told.downcast_ref(), Some(&"worker 1 gives up"));
    }
}
