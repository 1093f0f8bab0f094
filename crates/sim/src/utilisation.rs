//! The utilisation law as a check: what the event core says dies and channels worked, against the
//! counters. (Little's law is checked where requests end, in `event.rs`.)
//!
//! ```text
//!   busy = command + array + transfer, over all commands that have begun
//!   held = busy + waits for the channel, over all dies        two commands at once, where dies overlap
//! ```
//!
//! 1. No die is held, and no channel busy, for longer than time passed.
//! 2. Without transfers, dies were busy as long as the counted commands take. The counters give the very
//!    sum, or bounds where a command of several planes counts once for each, and where flash pages of
//!    several types take different times. What was issued and waits for a row that nobody has filled
//!    is counted, too, though it has not begun.
//! 3. Dies were held at least as long as they were busy: half as long, with a cache register.

use crate::engine::Engine;
use nandu_base::{Cause, FlashCounters, FlashOperation, Nanos};
use nandu_nand::{NandConfig, Usage};

/// What dies, channels and counters say at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    at: Nanos,
    busy: Nanos,
    /// Work that was issued and has not begun.
    waiting: Nanos,
    usage: Usage,
    counters: FlashCounters,
}

impl Books {
    /// Lets everything end that can, and takes note.
    pub(crate) fn of(engine: &mut Engine) -> Self {
        let nand = &mut engine.nand;
        let at = nand.idle_at();
        let waiting = Nanos(nand.backlog_ns().iter().sum());
        let (busy, usage, counters) = (nand.busy(), nand.usage(), *nand.counters());
        Self { at, busy, waiting, usage, counters }
    }

    /// Checks the invariants of this file for what came since `earlier`.
    pub(crate) fn check_since(&self, earlier: &Self, config: &NandConfig) -> Result<(), String> {
        let work = Work {
            elapsed: self.at - earlier.at,
            busy: self.busy - earlier.busy,
            waiting: (earlier.waiting, self.waiting),
            usage: self.usage.since(&earlier.usage),
            counters: self.counters.since(&earlier.counters),
        };
        work.check_limits()?;
        work.check_counters(config)?;
        work.check_held(config)
    }
}

/// What was done between two moments.
#[derive(Clone, Debug)]
struct Work {
    elapsed: Nanos,
    busy: Nanos,
    /// At the beginning and at the end.
    waiting: (Nanos, Nanos),
    usage: Usage,
    counters: FlashCounters,
}

impl Work {
    /// Checks invariant 1, the limits of time.
    fn check_limits(&self) -> Result<(), String> {
        let Self { elapsed, usage, .. } = self;
        let lists = [("die", "held", &usage.die_held), ("channel", "busy", &usage.channel_busy)];
        for (what, state, times) in lists {
            if let Some((number, time)) = (0_u32..).zip(times).find(|(_, time)| *time > elapsed) {
                let (time_ns, elapsed_ns) = (time.0, elapsed.0);
                return Err(format!(
                    "{what} {number} was {state} for {time_ns} ns, but {elapsed_ns} ns passed"
                ));
            }
        }
        Ok(())
    }

    /// Checks invariant 2, times against counters.
    fn check_counters(&self, config: &NandConfig) -> Result<(), String> {
        let transfers: Nanos = self.usage.channel_busy.iter().copied().sum();
        let (begun_before, not_begun) = self.waiting;
        let worked = self.busy.saturating_sub(transfers);
        let issued = worked.saturating_sub(begun_before)..=worked + not_begun;
        let (least, most) = self.time_of_counted(config);
        if least <= *issued.end() && *issued.start() <= most {
            return Ok(());
        }
        Err(format!(
            "dies worked {} ns without transfers, but what is counted takes {} to {} ns",
            worked.0, least.0, most.0
        ))
    }

    /// Command and array times of what is counted, for as few commands as it may be and as many.
    fn time_of_counted(&self, config: &NandConfig) -> (Nanos, Nanos) {
        let timing = &config.timing;
        let planes = u64::from(config.geometry.planes_per_die);
        // The page register serves reads of the host that no read of the array is counted for.
        let host_reads = timing.command_ns * self.usage.reads.command_count;
        let (mut least, mut most) = (host_reads, host_reads);
        let types = timing.program_type_ns.times().iter().copied();
        let fastest = types.clone().min().unwrap_or(timing.program_ns);
        let slowest = types.max().unwrap_or(timing.program_ns);
        for (operation, cause, count) in self.counters.cells() {
            let array = |program: Nanos| match operation {
                FlashOperation::Read | FlashOperation::SpareRead => timing.read_ns,
                FlashOperation::Program | FlashOperation::PartialProgram => program,
                FlashOperation::CopyBack => timing.read_ns + program,
                FlashOperation::Erase => timing.erase_ns,
            };
            let is_host_read = (operation, cause) == (FlashOperation::Read, Cause::Host);
            let command = if is_host_read { Nanos::ZERO } else { timing.command_ns };
            least += (array(fastest) + command) * count.div_ceil(planes);
            most += (array(slowest) + command) * count;
        }
        (least, most)
    }

    /// Checks invariant 3, time held against time busy.
    fn check_held(&self, config: &NandConfig) -> Result<(), String> {
        let held: Nanos = self.usage.die_held.iter().copied().sum();
        let at_once = if config.timing.cache_register { 2 } else { 1 };
        match held * at_once >= self.busy {
            true => Ok(()),
            false => Err(format!(
                "dies were held {} ns, but their commands took {} ns",
                held.0, self.busy.0
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DriveChoice;
    use nandu_nand::{NandArray, Ticket};

    /// Two reads and an erase on one die, as the event core books them.
    fn work() -> (Work, NandConfig) {
        let choice = DriveChoice {
            name: "myers_slc".into(),
            physical_erase_blocks: Some(64),
            ..DriveChoice::default()
        };
        let mut config = choice.resolve(false).unwrap().nand;
        config.timing.bus_bytes_per_second = 40_000_000;
        config.timing.command_ns = Nanos(300);
        let mut nand = NandArray::new(config).unwrap();
        let page = nand.geometry().flash_page(0, 0);
        for _ in 0..2 {
            nand.read(Ticket::READY, page, 2048, Cause::Host).unwrap();
        }
        nand.erase(Ticket::READY, 1, Cause::Cleaning).unwrap();
        let elapsed = nand.idle_at();
        let (busy, usage, counters) = (nand.busy(), nand.usage(), *nand.counters());
        let waiting = (Nanos::ZERO, Nanos::ZERO);
        (Work { elapsed, busy, waiting, usage, counters }, config)
    }

    #[test]
    fn sound_books_balance_to_the_nanosecond() {
        let (work, config) = work();
        let transfers: Nanos = work.usage.channel_busy.iter().copied().sum();
        let sum = work.busy - transfers;
        assert_eq!(work.time_of_counted(&config), (sum, sum));
        work.check_limits().unwrap();
        work.check_counters(&config).unwrap();
        work.check_held(&config).unwrap();
    }

    #[test]
    fn a_wrong_entry_is_named() {
        let (sound, config) = work();
        let mut short = sound.clone();
        short.elapsed = short.usage.die_held[0] - Nanos(1);
        let said = short.check_limits().unwrap_err();
        assert!(said.starts_with("die 0 was held") && said.ends_with("passed"), "{said}");
        let mut busy = sound.clone();
        busy.busy += Nanos(1);
        let said = busy.check_counters(&config).unwrap_err();
        assert!(said.contains("but what is counted takes"), "{said}");
        assert!(busy.check_held(&config).is_err());
        busy.waiting.0 = Nanos(1);
        assert!(busy.check_counters(&config).is_ok(), "it was counted before");
        let mut uncounted = sound;
        uncounted.counters.add(FlashOperation::Program, Cause::Host, 1);
        assert!(uncounted.check_counters(&config).is_err());
    }
}
