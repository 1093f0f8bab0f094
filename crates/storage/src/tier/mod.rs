//! What a tier of flash between the pool and the disk keeps (S003, flash as extended buffer): siblings
//! behind one trait, which know numbers of pages and slots and do nothing themselves.
//!
//! ```text
//!   pool ── misses a page ──────────► read ───► the slot that has a copy, or none: it is in its place
//!   pool ── a page leaves ──────────► arrive ─► steps, to be taken in their order:
//!             changed or unchanged                WriteBack  slot ─► place of its page
//!                                                 Move       slot ─► slot
//!                                                 Fill       page ─► slot
//!                                                 Write      page ─► its place
//!
//!   lru, two_q      the replacements of the pool      tac   warm extents, clean copies only
//!   lazy_cleaning   LRU-2, changed pages wait         face, face_gsc   a queue that is only appended to
//! ```
//!
//! 1. Whatever the steps were, once they are taken: if there is a copy it is the newest version; if there
//!    is none, or it is clean, so is what lies in its place.
//! 2. A slot that is filled, or moved to, had no copy that counts when `arrive` was called. So no version
//!    is written over the one before it, and none over another that leaves meanwhile.
//! 3. Once as many pages were met as there will be, nothing is allocated any more.

mod by_replacement;
mod face;
mod face_gsc;
mod frames;
mod heap;
mod lazy_cleaning;
mod queue;
mod sequences;
mod tac;

pub use by_replacement::ByReplacement;
pub use face::Face;
pub use face_gsc::FaceSecondChance;
pub use lazy_cleaning::LazyCleaning;
pub use sequences::Sequences;
pub use tac::TemperatureAware;

use crate::StorageError;
use crate::pool::ReplacementKind;
use serde::{Deserialize, Serialize};

/// The fewest slots of a tier.
pub const SLOT_COUNT_MIN: u32 = 8;

/// The kinds of policy.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TierPolicyKind {
    /// What was not wanted for the longest time leaves.
    Lru,
    /// What came once leaves before what came again.
    TwoQ,
    /// What lies in warm extents stays: [`TemperatureAware`].
    Tac,
    /// Changed pages stay until there are too many of them: [`LazyCleaning`].
    LazyCleaning,
    /// A queue of versions, which is only appended to: [`Face`].
    Face,
    /// The same, and what was wanted goes round once more: [`FaceSecondChance`].
    #[default]
    FaceGsc,
}

/// Of how many slots a tier is, and what goes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TierConfig {
    /// What is kept.
    pub policy: TierPolicyKind,
    /// Slots for a page each, at least [`SLOT_COUNT_MIN`].
    pub slot_count: u32,
    /// How many pages leave, or are written to their places, at a time; no more than a quarter of the
    /// slots count.
    pub group_page_count: u32,
    /// Whether a changed page goes to its place at once, so that no copy is newer than that.
    pub writes_through: bool,
}

/// How a page was found by whoever read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By itself.
    #[default]
    Random,
    /// Behind the one before it.
    Sequential,
}

/// A page that leaves the pool, or is written from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the page.
    pub page: u64,
    /// Whether it is newer than what lies anywhere else.
    pub is_changed: bool,
    /// How it was read.
    pub access: Access,
}

/// What is to be done, at once and in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write the copy in `slot` to the place of its page. From then on it is clean, or gone.
    WriteBack {
        /// The page.
        page: u64,
        /// Where its copy lies.
        slot: u32,
    },
    /// Write the copy in a slot to another one, where it counts from then on.
    Move {
        /// The page.
        page: u64,
        /// Where its copy lies.
        from: u32,
        /// Where it is to lie.
        to: u32,
    },
    /// Write the page that arrives to a slot.
    Fill {
        /// Where it is to lie.
        slot: u32,
    },
    /// Write the page that arrives to its place.
    Write,
}

/// A copy in the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TierCopy {
    /// Of which page.
    pub page: u64,
    /// Where it lies.
    pub slot: u32,
    /// Whether it is newer than what lies in the page's place.
    pub is_dirty: bool,
}

/// The copies of a tier that count.
pub trait TierCopies {
    /// The copy of a page, without a use.
    fn copy_of(&self, page: u64) -> Option<TierCopy>;

    /// How many there are.
    fn count(&self) -> u32;

    /// How many of them are newer than what lies in the place of their page.
    fn dirty_count(&self) -> u32;

    /// Shows every one.
    fn for_each(&self, look: &mut dyn FnMut(TierCopy));
}

/// What a tier keeps. Whoever asks does the steps, and tells of every page that is read, written, left
/// and cut.
pub trait TierPolicy: Send + std::fmt::Debug {
    /// The pool wants a page that it does not have: where a copy lies. This counts as a use.
    fn read(&mut self, page: u64, access: Access) -> Option<u32>;

    /// The copies that count.
    fn copies(&self) -> &dyn TierCopies;

    /// A page leaves the pool or is written: appends what is to be done.
    fn arrive(&mut self, arrival: Arrival, steps: &mut Vec<Step>);

    /// The page is no more, or was written past the tier: its copy counts no more.
    fn forget(&mut self, page: u64);

    /// Takes over copies that an empty tier of the same settings had, the last of which was written in front
    /// of `next_slot`. What cannot be kept is left out: clean ones alone, if the copies are those of one
    /// moment between two steps. How often and when they were wanted is forgotten.
    fn restore(&mut self, copies: &[TierCopy], next_slot: u32);

    /// Asserts the kind's numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    fn audit(&self);
}

impl Default for TierConfig {
    fn default() -> Self {
        Self {
            policy: TierPolicyKind::default(),
            slot_count: 1 << 16,
            group_page_count: 64,
            writes_through: false,
        }
    }
}

impl TierConfig {
    /// Checks that there is a tier.
    ///
    /// # Errors
    /// If it has too few slots, or nothing goes at a time.
    pub fn check(&self) -> Result<(), StorageError> {
        let what = match self {
            Self { slot_count: ..SLOT_COUNT_MIN, .. } => format!(
                "slot_count is {}, and a tier has {SLOT_COUNT_MIN} at least; choose 65536, say",
                self.slot_count
            ),
            Self { group_page_count: 0, .. } => {
                "group_page_count is 0; choose 64, say, or 1 for no groups".to_owned()
            }
            _ => return Ok(()),
        };
        Err(StorageError::InvalidSetting { what })
    }

    /// An empty tier.
    ///
    /// # Panics
    /// If [`Self::check`] refuses it.
    #[must_use]
    pub fn build(&self) -> Box<dyn TierPolicy> {
        self.check().expect("whoever builds a tier has checked its settings");
        match self.policy {
            TierPolicyKind::Lru => Box::new(ByReplacement::new(ReplacementKind::Lru, self)),
            TierPolicyKind::TwoQ => Box::new(ByReplacement::new(ReplacementKind::TwoQ, self)),
            TierPolicyKind::Tac => Box::new(TemperatureAware::new(self)),
            TierPolicyKind::LazyCleaning => Box::new(LazyCleaning::new(self)),
            TierPolicyKind::Face => Box::new(Face::new(self)),
            TierPolicyKind::FaceGsc => Box::new(FaceSecondChance::new(self)),
        }
    }

    /// How many pages go at a time.
    fn group(&self) -> u32 {
        self.group_page_count.min(self.slot_count / 4).max(1)
    }
}

impl TierPolicyKind {
    /// All kinds, for tests and sweeps.
    pub const ALL: [Self; 6] =
        [Self::Lru, Self::TwoQ, Self::Tac, Self::LazyCleaning, Self::Face, Self::FaceGsc];

    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::TwoQ => "two_q",
            Self::Tac => "tac",
            Self::LazyCleaning => "lazy_cleaning",
            Self::Face => "face",
            Self::FaceGsc => "face_gsc",
        }
    }
}

impl std::fmt::Display for TierPolicyKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for TierPolicyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("a policy is one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests;
