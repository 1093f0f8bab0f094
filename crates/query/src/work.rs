//! What the processor does for each row: counted always, turned into time on a virtual clock.
//!
//! S001 found that on flash the processor matters as much as the device; so its time is a term of the
//! cost model, measured once per machine, or given.

use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// A kind of work. What one unit is, each kind says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A row of a page looked at.
    Scan,
    /// A row put into a hash table.
    Build,
    /// A row looked up in a hash table.
    Probe,
    /// Two keys compared, in a sort or a merge.
    Compare,
    /// A row copied, into a run or a bucket.
    Copy,
    /// A key looked up in a tree.
    Descend,
    /// A pair of rows handed on.
    Emit,
    /// A row taken from its page by its number, which an index gave.
    Fetch,
}

/// How many kinds there are.
const KIND_COUNT: usize = 8;

/// How often each kind of work was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkCounts([u64; KIND_COUNT]);

/// Picoseconds for a unit of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkCosts([u64; KIND_COUNT]);

impl Work {
    /// All of them.
    pub const ALL: [Self; KIND_COUNT] = [
        Self::Scan,
        Self::Build,
        Self::Probe,
        Self::Compare,
        Self::Copy,
        Self::Descend,
        Self::Emit,
        Self::Fetch,
    ];
}

impl WorkCounts {
    /// Counts work.
    pub const fn add(&mut self, work: Work, count: u64) {
        self.0[work as usize] += count;
    }

    /// How often `work` was done.
    #[must_use]
    pub const fn get(&self, work: Work) -> u64 {
        self.0[work as usize]
    }
}

impl WorkCosts {
    /// No time at all.
    pub const NONE: Self = Self([0; KIND_COUNT]);

    /// The same costs but for `work`, of which one unit takes so many picoseconds.
    #[must_use]
    pub const fn with(mut self, work: Work, picoseconds: u64) -> Self {
        self.0[work as usize] = picoseconds;
        self
    }

    /// Picoseconds of one unit.
    #[must_use]
    pub const fn picoseconds(&self, work: Work) -> u64 {
        self.0[work as usize]
    }

    /// The time that `count` units take, rounded up.
    #[must_use]
    pub const fn time(&self, work: Work, count: u64) -> Nanos {
        Nanos((self.0[work as usize] * count).div_ceil(1000))
    }

    /// The time of everything counted.
    #[must_use]
    pub fn total(&self, counts: &WorkCounts) -> Nanos {
        Work::ALL
            .iter()
            .fold(Nanos(0), |sum, &work| Nanos(sum.0 + self.time(work, counts.get(work)).0))
    }
}
