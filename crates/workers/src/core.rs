//! Who runs next: the state of a schedule, whatever switches between its workers.
//!
//! 1. A worker is in `ready` if and only if its state is `Ready`, with its time.
//! 2. `waiter_count` of a source is how many workers wait for one of its completions.
//! 3. At most one worker is `Running`.
//! 4. Whoever has a timer is `Blocked`.

use crate::SwitchKind;
use nandu_base::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often workers may look in vain for what another should do, while no other can move.
const VAIN_COUNT_MAX: u32 = 100_000;

/// Where completions come from: a volume with requests in flight.
pub trait EventSource: Send + Sync {
    /// Takes the completion that comes next, if one comes at or before `until`, keeps it for him who
    /// waits for it, and gives its ticket and time. Nothing will be issued to the source before that
    /// time. Must not touch the schedule.
    fn next_completion(&self, until: Nanos) -> Option<(u64, Nanos)>;
}

/// A schedule as its workers share it.
pub(crate) struct Shared {
    core: Mutex<Core>,
    kind: SwitchKind,
    /// Told when another worker has the baton.
    pub(crate) passed: Condvar,
}

impl Shared {
    pub(crate) fn new(kind: SwitchKind, core: Core) -> Self {
        Self { core: Mutex::new(core), kind, passed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // A worker that panics does so outside of this lock.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn kind(&self) -> SwitchKind {
        self.kind
    }
}

/// What a schedule knows.
pub(crate) struct Core {
    workers: Vec<Worker>,
    ready: BinaryHeap<Reverse<(Nanos, u32)>>,
    sources: Vec<Source>,
    /// Who waits for a lock or a word, in the order in which they came.
    blocked: VecDeque<Blocked>,
    /// Until when some of them wait at most.
    timers: BTreeSet<(Nanos, u32)>,
    /// Who lets others go first.
    yielding: Vec<u32>,
    /// How often they went on since anybody else did.
    vain_count: u32,
    /// When each core is free.
    cores: BinaryHeap<Reverse<Nanos>>,
    pub(crate) switch_count: u64,
    /// The worker that runs; of interest to the baton alone.
    pub(crate) running: Option<u32>,
    /// Who waits for what, once nobody can run any more.
    pub(crate) deadlock: Option<String>,
}

struct Worker {
    time: Nanos,
    state: State,
    /// Whether it let others go before, and comes to its turn for the first time since.
    has_yielded: bool,
    /// Whether it lets others go though it waits for nothing, and goes on rather than that time passes.
    is_busy: bool,
    /// Whether it waited for a word, and its time came first.
    has_timed_out: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    Waiting { source: usize, ticket: u64, mask: u64 },
    Blocked { what: &'static str },
    Yielding,
    Done,
}

struct Source {
    source: Arc<dyn EventSource>,
    waiter_count: usize,
}

struct Blocked {
    key: usize,
    number: u32,
}

impl Core {
    /// `worker_count` workers that are ready at `start`.
    pub(crate) fn new(worker_count: u32, cores: u32, start: Nanos) -> Self {
        let worker = |_| Worker {
            time: start,
            state: State::Ready,
            has_yielded: false,
            is_busy: false,
            has_timed_out: false,
        };
        Self {
            workers: (0..worker_count).map(worker).collect(),
            ready: (0..worker_count).map(|number| Reverse((start, number))).collect(),
            sources: Vec::new(),
            blocked: VecDeque::new(),
            timers: BTreeSet::new(),
            yielding: Vec::new(),
            vain_count: 0,
            cores: (0..cores).map(|_| Reverse(start)).collect(),
            switch_count: 0,
            running: None,
            deadlock: None,
        }
    }

    pub(crate) fn time_of(&self, number: u32) -> Nanos {
        self.workers[number as usize].time
    }

    /// The latest time that any worker has.
    pub(crate) fn latest(&self) -> Nanos {
        self.workers.iter().map(|worker| worker.time).max().unwrap_or_default()
    }

    /// The worker computes, on the core that is free first.
    pub(crate) fn compute(&mut self, number: u32, time: Nanos) {
        let Reverse(free_at) = self.cores.pop().expect("there is a core");
        let end = self.time_of(number).max(free_at) + time;
        self.cores.push(Reverse(end));
        self.make_ready(number, end);
    }

    pub(crate) fn advance(&mut self, number: u32, time: Nanos) {
        self.make_ready(number, time);
    }

    pub(crate) fn wait_for(
        &mut self,
        number: u32,
        source: &Arc<dyn EventSource>,
        ticket: u64,
        mask: u64,
    ) {
        let is_same = |known: &Source| Arc::ptr_eq(&known.source, source);
        let index = self.sources.iter().position(is_same).unwrap_or_else(|| {
            self.sources.push(Source { source: Arc::clone(source), waiter_count: 0 });
            self.sources.len() - 1
        });
        self.sources[index].waiter_count += 1;
        self.workers[number as usize].state = State::Waiting { source: index, ticket, mask };
    }

    /// The worker waits for `key`; before the others, if it was woken and came too late.
    pub(crate) fn block(&mut self, number: u32, key: usize, what: &'static str, is_again: bool) {
        self.workers[number as usize].state = State::Blocked { what };
        let blocked = Blocked { key, number };
        match is_again {
            true => self.blocked.push_front(blocked),
            false => self.blocked.push_back(blocked),
        }
    }

    /// The worker waits for `key`, until `deadline` at most.
    pub(crate) fn block_until(
        &mut self,
        number: u32,
        key: usize,
        what: &'static str,
        deadline: Nanos,
    ) {
        self.timers.insert((deadline, number));
        self.block(number, key, what, false);
    }

    /// Whether the last wait of a worker ended since its time had come.
    pub(crate) fn take_timed_out(&mut self, number: u32) -> bool {
        std::mem::take(&mut self.workers[number as usize].has_timed_out)
    }

    /// Wakes the worker whose wait ends first, if it ends before anybody is ready, and before the present of one
    /// that only lets others go first.
    fn take_timer(&mut self) -> bool {
        let limit = match self.ready.peek() {
            Some(Reverse((time, _))) => *time,
            None => self.busy().map(|number| self.time_of(number)).min().unwrap_or(Nanos::MAX),
        };
        let Some(&(time, number)) = self.timers.first().filter(|&&(time, _)| time <= limit) else {
            return false;
        };
        self.timers.remove(&(time, number));
        self.blocked.retain(|blocked| blocked.number != number);
        self.workers[number as usize].has_timed_out = true;
        self.make_ready(number, time);
        true
    }

    pub(crate) fn let_others_go(&mut self, number: u32, is_busy: bool) {
        let worker = &mut self.workers[number as usize];
        worker.state = State::Yielding;
        worker.has_yielded = true;
        worker.is_busy = is_busy;
        self.yielding.push(number);
    }

    /// Those who let others go first and wait for nothing.
    fn busy(&self) -> impl Iterator<Item = u32> {
        self.yielding.iter().copied().filter(|&number| self.workers[number as usize].is_busy)
    }

    /// Wakes up to `count` of those who wait for `key`, at the time of `by`. Gives how many there were.
    pub(crate) fn wake(&mut self, key: usize, count: usize, by: u32) -> u32 {
        let time = self.time_of(by);
        let mut woken_count = 0;
        for _ in 0..count {
            let Some(at) = self.blocked.iter().position(|blocked| blocked.key == key) else {
                break;
            };
            let blocked = self.blocked.remove(at).expect("it was found there");
            self.timers.retain(|&(_, number)| number != blocked.number);
            self.make_ready(blocked.number, time);
            woken_count += 1;
        }
        woken_count
    }

    pub(crate) fn end(&mut self, number: u32) {
        // Of a worker that panicked while it left its turn, something may be left.
        self.blocked.retain(|blocked| blocked.number != number);
        self.timers.retain(|&(_, waiting)| waiting != number);
        self.yielding.retain(|&yielding| yielding != number);
        let state = &mut self.workers[number as usize].state;
        if let State::Waiting { source, .. } = std::mem::replace(state, State::Done) {
            self.sources[source].waiter_count -= 1;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.workers.iter().all(|worker| worker.state == State::Done)
    }

    /// The worker that runs next; `None` when all are done, or nobody can run (`deadlock` says so).
    pub(crate) fn pick(&mut self) -> Option<u32> {
        if let Some(running) = self.running.take()
            && self.workers[running as usize].state == State::Running
        {
            unreachable!("a worker that leaves has said why");
        }
        while self.take_completion() || self.take_timer() {}
        if self.ready.is_empty() && !self.resume_busy() {
            self.resume_yielding();
        }
        let Some(Reverse((time, number))) = self.ready.pop() else {
            if !self.is_over() {
                self.deadlock = Some(self.told());
            }
            return None;
        };
        self.workers[number as usize].state = State::Running;
        self.running = Some(number);
        self.switch_count += 1;
        // One of those who yield is no reason for the others to look again: they would keep each other
        // ready, and no completion later than they would ever be taken.
        if !std::mem::take(&mut self.workers[number as usize].has_yielded) {
            self.vain_count = 0;
            for number in std::mem::take(&mut self.yielding) {
                self.make_ready(number, time);
            }
        }
        Some(number)
    }

    /// Nobody else can move, so those go on who have something to do.
    fn resume_busy(&mut self) -> bool {
        let busy: Vec<u32> = self.busy().collect();
        self.yielding.retain(|number| !busy.contains(number));
        for &number in &busy {
            // What they do is a reason for the others to look again.
            self.workers[number as usize].has_yielded = false;
            self.make_ready(number, Nanos::ZERO);
        }
        !busy.is_empty()
    }

    /// Nobody else can move, so those go on who let others go first; unless they did so very often in
    /// vain, since what they look for is done by nobody then.
    fn resume_yielding(&mut self) {
        self.vain_count += 1;
        if self.vain_count < VAIN_COUNT_MAX {
            for number in std::mem::take(&mut self.yielding) {
                self.make_ready(number, Nanos::ZERO);
            }
        }
    }

    /// Wakes who waits for the next completion, if one comes before anybody is ready.
    fn take_completion(&mut self) -> bool {
        for index in 0..self.sources.len() {
            if self.sources[index].waiter_count == 0 {
                continue;
            }
            let limit = self.ready.peek().map_or(Nanos::MAX, |Reverse((time, _))| *time);
            let limit = self.timers.first().map_or(limit, |&(time, _)| limit.min(time));
            let Some((id, at)) = self.sources[index].source.next_completion(limit) else {
                continue;
            };
            for number in 0..self.workers.len() {
                let State::Waiting { source, ticket, mask } = self.workers[number].state else {
                    continue;
                };
                if source == index && id & mask == ticket {
                    self.sources[index].waiter_count -= 1;
                    self.make_ready(nandu_base::to_u32(number as u64), at);
                }
            }
            return true;
        }
        false
    }

    fn make_ready(&mut self, number: u32, time: Nanos) {
        let worker = &mut self.workers[number as usize];
        worker.time = worker.time.max(time);
        worker.state = State::Ready;
        self.ready.push(Reverse((worker.time, number)));
    }

    /// Who waits for what.
    fn told(&self) -> String {
        let mut lines = vec!["every worker waits, and nothing is in flight:".to_owned()];
        for (number, worker) in self.workers.iter().enumerate() {
            let what = match worker.state {
                State::Waiting { ticket, .. } => format!("for the completion {ticket:#x}"),
                State::Blocked { what } => format!("for {what}"),
                State::Yielding => "for others to move".to_owned(),
                State::Ready | State::Running | State::Done => continue,
            };
            lines.push(format!("worker {number} waits {what} since {}", worker.time));
        }
        lines.join("\n  ")
    }

    /// Asserts the numbered invariants.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let mut ready: Vec<u32> = self.ready.iter().map(|Reverse((_, number))| *number).collect();
        ready.sort_unstable();
        let with = |wanted: fn(&State) -> bool| {
            (0_u32..)
                .zip(&self.workers)
                .filter(move |(_, worker)| wanted(&worker.state))
                .map(|(number, _)| number)
        };
        assert_eq!(ready, with(|state| *state == State::Ready).collect::<Vec<_>>());
        for Reverse((time, number)) in &self.ready {
            assert_eq!(*time, self.time_of(*number), "a worker is ready at its own time");
        }
        assert!(with(|state| *state == State::Running).count() <= 1);
        for &(_, number) in &self.timers {
            let state = self.workers[number as usize].state;
            assert!(matches!(state, State::Blocked { .. }), "invariant 4");
        }
        for (index, source) in self.sources.iter().enumerate() {
            let waits = |worker: &&Worker| matches!(worker.state, State::Waiting { source, .. } if source == index);
            assert_eq!(self.workers.iter().filter(waits).count(), source.waiter_count);
        }
    }
}
