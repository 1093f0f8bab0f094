//! Which erase block is cleaned next (flash reference 2.1.3): one index for each pool of a die.
//!
//! ```text
//! greedy        fewest valid units                     lists by valid count, constant time
//! fifo          closed first                           queue
//! windowed      fewest among the oldest                queue, its front part in lists
//! random        any                                    array
//! d_choices     fewest among d drawn                   array
//! cost_benefit  greatest age * (1 - u) / 2u            lists by valid count, oldest of each
//! ```
//!
//! 1. The index holds exactly the closed groups of its pool.
//! 2. A group that loses a valid unit costs constant time, whatever the policy.

mod buckets;
mod cost_benefit;
mod greedy;
mod windowed;

pub(crate) use buckets::Buckets;
use cost_benefit::CostBenefit;
use greedy::Greedy;
use nandu_base::{Rng, to_index};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use windowed::Windowed;

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VictimPolicy {
    /// The fewest valid units; among equals the one that got there last.
    #[default]
    Greedy,
    /// The one that was closed first: "cleaning in order" of log-structured file systems.
    Fifo,
    /// The fewest valid units among the oldest (Hu et al. 2009).
    Windowed,
    /// Any closed one (S000 section 2.2 on reference 1: asymptotically optimal for wear).
    Random,
    /// The fewest valid units among some drawn at random (Van Houdt 2013).
    DChoices,
    /// The greatest age * (1 - u) / 2u (Kawaguchi, Nishioka, Motoda 1995).
    CostBenefit,
}

impl VictimPolicy {
    /// Every policy, in the order in which they are listed.
    pub const ALL: [Self; 6] =
        [Self::Greedy, Self::Fifo, Self::Windowed, Self::Random, Self::DChoices, Self::CostBenefit];

    /// Whether a victim without anything to gain means that there is none.
    pub(crate) const fn finds_the_emptiest(self) -> bool {
        matches!(self, Self::Greedy | Self::CostBenefit)
    }
}

/// What an index is built from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VictimShape {
    pub(crate) policy: VictimPolicy,
    pub(crate) choices: u32,
    pub(crate) window_ppm: u32,
    pub(crate) group_count: u32,
    pub(crate) units_per_group: u32,
}

impl VictimShape {
    fn buckets(&self) -> Buckets {
        Buckets::new(self.group_count, self.units_per_group)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum VictimIndex {
    Greedy(Greedy),
    Fifo(VecDeque<u32>),
    Windowed(Windowed),
    Drawn { groups: Vec<u32>, choices: u32 },
    CostBenefit(CostBenefit),
}

impl VictimIndex {
    pub(crate) fn new(shape: &VictimShape) -> Self {
        match shape.policy {
            VictimPolicy::Greedy => Self::Greedy(Greedy::new(shape)),
            VictimPolicy::Fifo => Self::Fifo(VecDeque::new()),
            VictimPolicy::Windowed => Self::Windowed(Windowed::new(shape)),
            VictimPolicy::Random => Self::Drawn { groups: Vec::new(), choices: 1 },
            VictimPolicy::DChoices => {
                Self::Drawn { groups: Vec::new(), choices: shape.choices.max(1) }
            }
            VictimPolicy::CostBenefit => Self::CostBenefit(CostBenefit::new(shape)),
        }
    }

    /// A group was closed at `now`, which only ages are measured in.
    pub(crate) fn insert(&mut self, group: u32, now: u64, valid_of: impl Fn(u32) -> u32) {
        match self {
            Self::Greedy(greedy) => greedy.insert(group, valid_of(group)),
            Self::Fifo(queue) => queue.push_back(group),
            Self::Windowed(windowed) => windowed.insert(group, valid_of),
            Self::Drawn { groups, .. } => groups.push(group),
            Self::CostBenefit(lists) => lists.insert(group, valid_of(group), now),
        }
    }

    /// The valid count from which on downwards [`Self::lowered`] matters. It may rise with
    /// [`Self::take`].
    pub(crate) const fn told_at(&self) -> u32 {
        match self {
            Self::Greedy(greedy) => greedy.watermark(),
            Self::Windowed(_) | Self::CostBenefit(_) => u32::MAX,
            Self::Fifo(_) | Self::Drawn { .. } => 0,
        }
    }

    /// A closed group lost a valid unit and now has `valid`.
    #[inline]
    pub(crate) fn lowered(&mut self, group: u32, valid: u32, now: u64) {
        match self {
            Self::Greedy(greedy) => greedy.lower(group, valid),
            Self::Windowed(windowed) => windowed.lower(group, valid),
            Self::CostBenefit(lists) => lists.lower(group, valid, now),
            Self::Fifo(_) | Self::Drawn { .. } => {}
        }
    }

    /// Takes the next victim out.
    pub(crate) fn take(
        &mut self,
        rng: &mut Rng,
        now: u64,
        valid_of: impl Fn(u32) -> u32,
    ) -> Option<u32> {
        match self {
            Self::Greedy(greedy) => greedy.take(valid_of),
            Self::Fifo(queue) => queue.pop_front(),
            Self::Windowed(windowed) => windowed.take(valid_of),
            Self::Drawn { groups, .. } if groups.is_empty() => None,
            Self::Drawn { groups, choices } => {
                let mut draw = || to_index(rng.below(groups.len() as u64));
                let mut best = draw();
                for _ in 1..*choices {
                    let other = draw();
                    if valid_of(groups[other]) < valid_of(groups[best]) {
                        best = other;
                    }
                }
                Some(groups.swap_remove(best))
            }
            Self::CostBenefit(lists) => lists.take(now),
        }
    }

    /// Takes a certain group out; time in proportion to the groups for some policies.
    pub(crate) fn remove(&mut self, group: u32, valid_of: impl Fn(u32) -> u32) {
        match self {
            Self::Greedy(greedy) => greedy.remove(group, valid_of(group)),
            Self::Fifo(queue) => queue.retain(|&other| other != group),
            Self::Windowed(windowed) => windowed.remove(group, valid_of),
            Self::Drawn { groups, .. } => groups.retain(|&other| other != group),
            Self::CostBenefit(lists) => lists.remove(group, valid_of(group)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Greedy(greedy) => greedy.is_empty(),
            Self::Fifo(queue) => queue.is_empty(),
            Self::Windowed(windowed) => windowed.is_empty(),
            Self::Drawn { groups, .. } => groups.is_empty(),
            Self::CostBenefit(lists) => lists.is_empty(),
        }
    }

    /// Every group in the index, in no order that means anything.
    pub(crate) fn groups(&self) -> Vec<u32> {
        match self {
            Self::Greedy(greedy) => greedy.groups(),
            Self::Fifo(queue) => queue.iter().copied().collect(),
            Self::Windowed(windowed) => windowed.groups(),
            Self::Drawn { groups, .. } => groups.clone(),
            Self::CostBenefit(lists) => lists.groups(),
        }
    }
}
