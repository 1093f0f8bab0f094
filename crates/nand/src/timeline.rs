//! When dies and channels are busy: two numbers for a die, three for a channel, no event queue.
//!
//! ```text
//! read      die  [command+array read][ wait ][ transfer ]        transfer holds the channel
//! program   die  [command][ wait ][ transfer ][ array program ]
//! erase     die  [command+array erase]
//! ```
//!
//! 1. A die does one thing at a time; with a cache register the transfer of the next program may
//!    overlap the array, and the array may read on while the register empties.
//! 2. A channel moves one transfer at a time. The gap before its last reservation is kept, so that a
//!    transfer that is ready earlier and fits does not queue behind one that waits for its array.
//! 3. Reservations are made in the order of the calls, each from the earliest time that fits.
//! 4. The page register of a die holds the flash page of its last read, until any other command.

use nandu_base::Nanos;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    free: u64,
    gap_start: u64,
    gap_end: u64,
}

impl Channel {
    /// Reserves `length` from `earliest` on; answers when the transfer starts.
    #[inline]
    fn reserve(&mut self, earliest: u64, length: u64) -> u64 {
        if length == 0 {
            return earliest;
        }
        let in_gap = earliest.max(self.gap_start);
        if in_gap + length <= self.gap_end {
            self.gap_start = in_gap + length;
            return in_gap;
        }
        let start = earliest.max(self.free);
        if start > self.free {
            (self.gap_start, self.gap_end) = (self.free, start);
        }
        self.free = start + length;
        start
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    array_free: u64,
    register_free: u64,
    /// One more than the flash page in the page register; zero for none.
    register_page: u64,
}

/// Start and end of a command on its die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    dies: Vec<Die>,
    channels: Vec<Channel>,
    cache_register: bool,
    busy: u64,
}

impl Timeline {
    pub(crate) fn new(die_count: usize, channel_count: usize, cache_register: bool) -> Self {
        Self {
            dies: vec![Die::default(); die_count],
            channels: vec![Channel::default(); channel_count],
            cache_register,
            busy: 0,
        }
    }

    /// Array first, then `transfer` over the channel.
    #[inline]
    pub(crate) fn array_then_bus(
        &mut self,
        (die, channel): (usize, usize),
        now: Nanos,
        array: u64,
        transfer: u64,
    ) -> Span {
        let die = &mut self.dies[die];
        die.register_page = 0;
        let start = now.0.max(die.array_free);
        let ready = (start + array).max(die.register_free);
        let end = self.channels[channel].reserve(ready, transfer) + transfer;
        die.register_free = end;
        die.array_free = if self.cache_register { ready } else { end };
        self.busy += array + transfer;
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// `command` on the die, `transfer` over the channel, then the array.
    #[inline]
    pub(crate) fn bus_then_array(
        &mut self,
        (die, channel): (usize, usize),
        now: Nanos,
        (command, transfer, array): (u64, u64, u64),
    ) -> Span {
        let die = &mut self.dies[die];
        die.register_page = 0;
        let free = if self.cache_register { die.register_free } else { die.array_free };
        let ready = now.0.max(free) + command;
        let loaded = self.channels[channel].reserve(ready, transfer) + transfer;
        let start = loaded.max(die.array_free);
        let end = start + array;
        die.array_free = end;
        // The cache register is handed to the array at its start and free for the next transfer.
        die.register_free = start;
        self.busy += command + transfer + array;
        Span { start: Nanos(ready - command), end: Nanos(end) }
    }

    /// Whether the page register of `die` holds `flash_page`.
    pub(crate) fn register_holds(&self, die: usize, flash_page: u64) -> bool {
        self.dies[die].register_page == flash_page + 1
    }

    /// The command just reserved left `flash_page` in the page register of `die`.
    pub(crate) fn load_register(&mut self, die: usize, flash_page: u64) {
        self.dies[die].register_page = flash_page + 1;
    }

    pub(crate) fn die_free_at(&self, die: usize) -> Nanos {
        Nanos(self.dies[die].array_free)
    }

    pub(crate) fn all_free_at(&self) -> Nanos {
        let dies = self.dies.iter().map(|die| die.array_free.max(die.register_free));
        Nanos(dies.max().unwrap_or(0))
    }

    pub(crate) fn busy(&self) -> Nanos {
        Nanos(self.busy)
    }

    /// Forgets every reservation past `at`: the power went.
    pub(crate) fn cut(&mut self, at: Nanos) {
        for die in &mut self.dies {
            die.array_free = die.array_free.min(at.0);
            die.register_free = die.register_free.min(at.0);
        }
        for channel in &mut self.channels {
            channel.free = channel.free.min(at.0);
            (channel.gap_start, channel.gap_end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(spans: &[Span]) -> Vec<u64> {
        spans.iter().map(|span| span.end.0).collect()
    }

    #[test]
    fn two_dies_on_one_channel_share_only_the_bus() {
        let mut timeline = Timeline::new(2, 1, false);
        let reads = [0, 1, 0].map(|die| timeline.array_then_bus((die, 0), Nanos(0), 20, 50));
        // Die 1 reads beside die 0 and waits for the bus; die 0 starts again when its own is done.
        assert_eq!(ends(&reads), [70, 120, 170]);
    }

    #[test]
    fn two_channels_share_nothing() {
        let mut timeline = Timeline::new(2, 2, false);
        let reads = [0, 1].map(|die| timeline.array_then_bus((die, die), Nanos(5), 20, 50));
        assert_eq!(ends(&reads), [75, 75]);
    }

    #[test]
    fn programs_transfer_first_and_overlap_in_the_array() {
        let mut timeline = Timeline::new(2, 1, false);
        let programs =
            [0, 1, 0].map(|die| timeline.bus_then_array((die, 0), Nanos(0), (0, 50, 200)));
        assert_eq!(ends(&programs), [250, 300, 500]);
    }

    #[test]
    fn a_cache_register_hides_the_transfer() {
        let mut timeline = Timeline::new(1, 1, true);
        let programs = [0; 3].map(|die| timeline.bus_then_array((die, 0), Nanos(0), (0, 50, 200)));
        assert_eq!(ends(&programs), [250, 450, 650]);
    }

    #[test]
    fn a_transfer_that_is_ready_uses_the_gap_before_one_that_waits() {
        let mut timeline = Timeline::new(2, 1, false);
        let read = timeline.array_then_bus((0, 0), Nanos(0), 100, 50);
        let program = timeline.bus_then_array((1, 0), Nanos(0), (0, 50, 200));
        assert_eq!((read.end, program.end), (Nanos(150), Nanos(250)));
        // What is left of the gap is 50..100.
        let late = timeline.array_then_bus((1, 0), Nanos(0), 0, 60);
        assert_eq!(late.end, Nanos(310));
    }
}
