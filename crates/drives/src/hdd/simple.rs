//! The access time of the textbooks, S004 3.1: t_d(b) = average seek + revolution / 2 + b / F.
//!
//! 1. One command at a time, in the order of issue; where it lies does not matter.
//! 2. Writes are durable when they end; flush and trim cost the overhead alone.

use super::config::HddConfig;
use super::engine::{Command, Done, Engine, Pass, WorkAccount, WorkTimes};
use nandu_base::Nanos;
use nandu_device::Operation;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct SimpleEngine {
    config: HddConfig,
    sector_bytes: u64,
    free_at: Nanos,
    done: VecDeque<Done>,
    work: WorkAccount,
}

impl SimpleEngine {
    pub(crate) fn new(config: HddConfig, sector_bytes: u32) -> Self {
        Self {
            config,
            sector_bytes: u64::from(sector_bytes),
            free_at: Nanos::ZERO,
            done: VecDeque::new(),
            work: WorkAccount::default(),
        }
    }
}

impl Engine for SimpleEngine {
    fn accept(&mut self, command: Command) {
        let overhead = match command.operation {
            Operation::Read => self.config.read_overhead_ns,
            _ => self.config.write_overhead_ns,
        };
        let mut time = self.free_at.max(command.issued_at) + overhead;
        self.work.add_bus(overhead);
        self.work.settle(command.issued_at);
        if matches!(command.operation, Operation::Read | Operation::Write) {
            let rates = self.config.outer_bytes_per_second + self.config.inner_bytes_per_second;
            let transfer = Nanos::of_transfer(command.count * self.sector_bytes, rates / 2);
            let rotation = Nanos(self.config.revolution_ns.0 / 2);
            let moves_from = time;
            let waits_from = moves_from + self.config.seek_average_ns;
            let passes_from = waits_from + rotation;
            time = passes_from + transfer;
            self.work.add(Pass { moves_from, waits_from, passes_from, ends_at: time });
        }
        self.free_at = time;
        self.done.push_back(Done { at: time, tag: command.tag });
    }

    fn next_done(&mut self, until: Nanos) -> Option<Done> {
        if self.done.front().is_some_and(|done| done.at <= until) {
            self.done.pop_front()
        } else {
            None
        }
    }

    fn advance(&mut self, _time: Nanos) {}

    fn rests_since(&self) -> Option<Nanos> {
        Some(self.free_at)
    }

    fn work_by(&self, now: Nanos) -> WorkTimes {
        self.work.by(now)
    }

    fn ahead_to(&self, _time: Nanos) -> Option<Box<dyn Engine>> {
        None
    }

    fn audit(&self) {
        assert!(self.done.iter().is_sorted(), "rule 1: in the order of issue");
        assert!(self.done.back().is_none_or(|last| last.at == self.free_at));
    }
}
