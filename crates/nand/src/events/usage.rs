//! Where time went: who was held how long, and what commands of the host waited for.

use nandu_base::Nanos;

/// What commands of the host of one kind waited for and took, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Commands that have begun.
    pub command_count: u64,
    /// For other commands on which they depend: a map on flash, a merge.
    pub held_back: Nanos,
    /// In the queue of the die, behind commands of the host.
    pub die: Nanos,
    /// In the queue of the die, behind copies, erases and other work of the layer.
    pub cleaning: Nanos,
    /// Time spent waiting for the channel.
    pub channel: Nanos,
    /// Time of command cycles and of the array of cells.
    pub array: Nanos,
    /// Time of the data on the channel.
    pub transfer: Nanos,
}

impl Waits {
    /// The counts and times of what came after `earlier` was taken.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            command_count: self.command_count - earlier.command_count,
            held_back: self.held_back - earlier.held_back,
            die: self.die - earlier.die,
            cleaning: self.cleaning - earlier.cleaning,
            channel: self.channel - earlier.channel,
            array: self.array - earlier.array,
            transfer: self.transfer - earlier.transfer,
        }
    }
}

/// How dies and channels were used since the array was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of each die: time in which a command was in flight on it, waiting for the channel included.
    pub die_held: Vec<Nanos>,
    /// Of each channel: time in which it moved data.
    pub channel_busy: Vec<Nanos>,
    /// What reads of the host waited for and took.
    pub reads: Waits,
    /// What programs of the host waited for and took.
    pub programs: Waits,
}

impl Usage {
    /// What came since `earlier`.
    ///
    /// # Panics
    /// If that is the usage of another array.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |now: &[Nanos], then: &[Nanos]| {
            assert_eq!(now.len(), then.len(), "usages of one array");
            now.iter().zip(then).map(|(&now, &then)| now - then).collect()
        };
        Self {
            die_held: difference(&self.die_held, &earlier.die_held),
            channel_busy: difference(&self.channel_busy, &earlier.channel_busy),
            reads: self.reads.since(&earlier.reads),
            programs: self.programs.since(&earlier.programs),
        }
    }
}
