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
    /// A value taken from a minipage to make a row.
    Assemble,
}

/// How many kinds there are.
const KIND_COUNT: usize = 9;

/// How often each kind of work was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkCounts([u64; KIND_COUNT]);

/// Picoseconds for a unit of each kind. What an older version wrote lacks the kinds that it did not know, which
/// then take no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>")]
pub struct WorkCosts([u64; KIND_COUNT]);

impl Work {
    /// All kinds of work, in the order of their counts.
    pub const ALL: [Self; KIND_COUNT] = [
        Self::Scan,
        Self::Build,
        Self::Probe,
        Self::Compare,
        Self::Copy,
        Self::Descend,
        Self::Emit,
        Self::Fetch,
        Self::Assemble,
    ];
}

impl WorkCounts {
    /// Adds `count` times this kind of work.
    pub const fn add(&mut self, work: Work, count: u64) {
        self.0[work as usize] += count;
    }

    /// Adds what another worker did.
    pub fn add_all(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// How often `work` was done.
    #[must_use]
    pub const fn get(&self, work: Work) -> u64 {
        self.0[work as usize]
    }
}

impl TryFrom<Vec<u64>> for WorkCosts {
    type Error = String;

    fn try_from(costs: Vec<u64>) -> Result<Self, String> {
        if costs.len() > KIND_COUNT {
            return Err(format!("{} kinds of work, of which {KIND_COUNT} are known", costs.len()));
        }
        let mut found = Self::NONE;
        found.0[..costs.len()].copy_from_slice(&costs);
        Ok(found)
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

    /// The same kinds, each with what `change` makes of its picoseconds.
    #[must_use]
    pub fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self(self.0.map(change))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_that_an_older_version_wrote_are_read() {
        let old: WorkCosts = serde_json::from_str("[1, 2, 3]").unwrap();
        assert_eq!((old.picoseconds(Work::Compare), old.picoseconds(Work::Build)), (0, 2));
        let whole = WorkCosts::NONE.with(Work::Assemble, 7);
        let written = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<WorkCosts>(&written).unwrap(), whole);
        let told = serde_json::from_str::<WorkCosts>("[1,2,3,4,5,6,7,8,9,10]").unwrap_err();
        assert!(told.to_string().contains("10 kinds of work"), "{told}");
    }
}
