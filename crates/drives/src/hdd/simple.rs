//! The access time of the textbooks, S004 3.1: t_d(b) = average seek + revolution / 2 + b / F.
//!
//! 1. One command at a time, in the order of issue; where it lies does not matter.
//! 2. Writes are durable when they end; flush and trim cost the overhead alone.

use super::config::HddConfig;
use super::engine::{Command, Done, Engine, WorkTimes};
use nandu_base::Nanos;
use nandu_device::Operation;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct SimpleEngine {
    config: HddConfig,
    sector_bytes: u64,
    free_at: Nanos,
    done: VecDeque<Done>,
    work: WorkTimes,
}

impl SimpleEngine {
    pub(crate) fn new(config: HddConfig, sector_bytes: u32) -> Self {
        Self {
            config,
            sector_bytes: u64::from(sector_bytes),
            free_at: Nanos::ZERO,
            done: VecDeque::new(),
            work: WorkTimes::default(),
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
        self.work.bus += overhead;
        if matches!(command.operation, Operation::Read | Operation::Write) {
            let rates = self.config.outer_bytes_per_second + self.config.inner_bytes_per_second;
            let transfer = Nanos::of_transfer(command.count * self.sector_bytes, rates / 2);
            let rotation = Nanos(self.config.revolution_ns.0 / 2);
            self.work.seek += self.config.seek_average_ns;
            self.work.rotation += rotation;
            self.work.transfer += transfer;
            time += self.config.seek_average_ns + rotation + transfer;
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

    fn work(&self) -> WorkTimes {
        self.work
    }

    fn audit(&self) {
        assert!(self.done.iter().is_sorted(), "rule 1: in the order of issue");
        assert!(self.done.back().is_none_or(|last| last.at == self.free_at));
    }
}
