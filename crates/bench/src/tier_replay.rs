//! Has tiers between a pool and a disk meet the page reads and writes of a trace, and counts what each of
//! them finds, and what it asks of its flash and of the disk (S003, flash as extended buffer).
//!
//! ```text
//!   record ─► pages come to the pool and leave it ─┬─► tier ─► found, written to flash, to the disk
//!                                                  └─► tier ─► …     all of them at once
//! ```
//!
//! 1. The trace tells when a page came to the pool, not when it left. It is taken to have left, unchanged,
//!    when so many others came behind it, and at the latest when it comes again. Which page leaves next
//!    depends on the pool's replacement, so that is a guess; with more pages than the pool had, many would
//!    leave only when they come again, and be found for certain.
//! 2. What is written is what the pool wrote. Its copies count for both, tier and pool.
//! 3. What comes before the warm-up is over fills the tiers, and counts for nothing.
//! 4. Memory is that of the tiers' maps and of the pages in the pool.

use nandu_base::FixedHashMap;
use nandu_storage::tier::{Access, Arrival, Sequences, Step, TierPolicy};
use nandu_storage::{FileId, PageAddress};
use nandu_trace::engine_trace::{PageEvent, PageRecord};
use serde::Serialize;
use std::collections::VecDeque;

pub use nandu_storage::tier::{SLOT_COUNT_MIN, TierConfig, TierPolicyKind};

/// Tiers that meet the same pages.
#[derive(Debug)]
pub struct TierReplay {
    tiers: Vec<Tier>,
    pool: Pool,
    sequences: Sequences,
    steps: Vec<Step>,
    is_counting: bool,
}

#[derive(Debug)]
struct Tier {
    config: TierConfig,
    policy: Box<dyn TierPolicy>,
    counts: TierCounts,
}

/// The pages that are taken to be in the pool, in the order in which they came.
#[derive(Debug)]
struct Pool {
    page_count_max: usize,
    /// Each with the number of its coming; those that came again, or went, are left over here.
    order: VecDeque<(u64, u64)>,
    held: FixedHashMap<u64, HeldPage>,
    next_number: u64,
}

#[derive(Clone, Copy, Debug)]
struct HeldPage {
    number: u64,
    access: Access,
}

/// What a tier did behind the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TierCounts {
    /// Pages that the pool read.
    pub read_count: u64,
    /// Those of them that the tier had.
    pub hit_count: u64,
    /// Pages that the pool wrote.
    pub write_count: u64,
    /// Pages that were read from the disk.
    pub disk_read_count: u64,
    /// Pages that were written to the disk.
    pub disk_write_count: u64,
    /// Pages that were read from the tier: those that it had, and what it wrote elsewhere.
    pub tier_read_count: u64,
    /// Pages that were written to the tier.
    pub tier_write_count: u64,
}

/// A tier at the end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TierOutcome {
    /// What it keeps.
    pub policy: TierPolicyKind,
    /// Slots that it has, each for a page.
    pub slot_count: u32,
    /// What it did behind the warm-up.
    #[serde(flatten)]
    pub counts: TierCounts,
    /// Share of the pool's reads that it had; `None` if there were none.
    pub hit_share: Option<f64>,
    /// Share of the pool's writes that the disk was spared; `None` if there were none, less than zero if it
    /// was written more.
    pub write_reduction: Option<f64>,
    /// Copies that it has.
    pub copy_count: u32,
    /// Those of them that are newer than the disk.
    pub dirty_count: u32,
}

impl TierReplay {
    /// Empty tiers below a pool of so many pages.
    ///
    /// # Panics
    /// If a tier cannot be ([`TierConfig::check`]).
    #[must_use]
    pub fn new(configs: &[TierConfig], pool_page_count: u32) -> Self {
        let tier = |config: &TierConfig| Tier {
            config: *config,
            policy: config.build(),
            counts: TierCounts::default(),
        };
        let pool = Pool {
            page_count_max: pool_page_count.max(1) as usize,
            order: VecDeque::new(),
            held: FixedHashMap::default(),
            next_number: 0,
        };
        Self {
            tiers: configs.iter().map(tier).collect(),
            pool,
            sequences: Sequences::default(),
            steps: Vec::new(),
            is_counting: false,
        }
    }

    /// Counts from now on.
    pub fn end_warm_up(&mut self) {
        self.is_counting = true;
    }

    /// Has all tiers meet what a record tells.
    pub fn apply(&mut self, record: &PageRecord) {
        let address = PageAddress::new(FileId(record.file), record.page);
        let page = address.to_word();
        match record.event {
            PageEvent::Read => {
                if let Some(held) = self.pool.take(page) {
                    self.arrive(page, false, held.access);
                }
                let access = self.sequences.read(page);
                for tier in &mut self.tiers {
                    tier.read(page, access, self.is_counting);
                }
                self.come(page, access);
            }
            PageEvent::Write => {
                let held = self.pool.held.get(&page).copied();
                let access = held.map_or(Access::Random, |held| held.access);
                self.arrive(page, true, access);
                if held.is_none() {
                    self.come(page, access);
                }
            }
            PageEvent::Sync => {}
            PageEvent::Cut => self.cut(address),
        }
    }

    /// What the tiers did, in their order.
    #[must_use]
    pub fn outcomes(&self) -> Vec<TierOutcome> {
        self.tiers.iter().map(Tier::outcome).collect()
    }

    /// Asserts what must hold between records.
    ///
    /// # Panics
    /// If it does not.
    pub fn audit(&self) {
        self.tiers.iter().for_each(|tier| tier.policy.audit());
        let Pool { held, order, page_count_max, .. } = &self.pool;
        assert!(held.len() <= *page_count_max, "the pool has no more pages than frames");
        assert!(held.len() <= order.len(), "pages leave in their order");
        for TierCounts { read_count, hit_count, disk_read_count, .. } in
            self.tiers.iter().map(|tier| tier.counts)
        {
            assert_eq!(hit_count + disk_read_count, read_count, "a page is here or there");
        }
    }

    /// A page came to the pool; whichever has to leaves.
    fn come(&mut self, page: u64, access: Access) {
        if let Some((left, held)) = self.pool.add(page, access) {
            self.arrive(left, false, held.access);
        }
    }

    fn arrive(&mut self, page: u64, is_changed: bool, access: Access) {
        let Self { tiers, steps, is_counting, .. } = self;
        for tier in tiers {
            steps.clear();
            tier.policy.arrive(Arrival { page, is_changed, access }, steps);
            if *is_counting {
                tier.counts.write_count += u64::from(is_changed);
                steps.iter().for_each(|step| tier.counts.note(*step));
            }
        }
    }

    fn cut(&mut self, from: PageAddress) {
        let end = PageAddress::new(from.file, u32::MAX).to_word();
        let is_cut = |page: u64| (from.to_word()..=end).contains(&page);
        self.pool.held.retain(|&page, _| !is_cut(page));
        for tier in &mut self.tiers {
            let mut pages = Vec::new();
            tier.policy.copies().for_each(&mut |copy| pages.push(copy.page));
            for page in pages.into_iter().filter(|&page| is_cut(page)) {
                tier.policy.forget(page);
            }
        }
    }
}

impl Pool {
    /// Takes a page out, if it is there.
    fn take(&mut self, page: u64) -> Option<HeldPage> {
        self.held.remove(&page)
    }

    /// Takes in a page that is not there, and gives back the one that leaves.
    fn add(&mut self, page: u64, access: Access) -> Option<(u64, HeldPage)> {
        self.next_number += 1;
        let number = self.next_number;
        self.held.insert(page, HeldPage { number, access });
        self.order.push_back((page, number));
        let mut left = None;
        // Those that are left over at the front go with the one that leaves.
        while let Some(&(page, number)) = self.order.front() {
            let is_there = self.held.get(&page).is_some_and(|held| held.number == number);
            if is_there && self.held.len() <= self.page_count_max {
                break;
            }
            self.order.pop_front();
            if is_there {
                left = self.held.remove(&page).map(|held| (page, held));
            }
        }
        left
    }
}

impl Tier {
    fn read(&mut self, page: u64, access: Access, is_counting: bool) {
        let is_hit = self.policy.read(page, access).is_some();
        if is_counting {
            let (hit, miss) = (u64::from(is_hit), u64::from(!is_hit));
            self.counts.read_count += 1;
            self.counts.hit_count += hit;
            self.counts.tier_read_count += hit;
            self.counts.disk_read_count += miss;
        }
    }

    fn outcome(&self) -> TierOutcome {
        let counts = self.counts;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let written = share(counts.disk_write_count, counts.write_count);
        TierOutcome {
            policy: self.config.policy,
            slot_count: self.config.slot_count,
            counts,
            hit_share: share(counts.hit_count, counts.read_count),
            write_reduction: written.map(|written| 1.0 - written),
            copy_count: self.policy.copies().count(),
            dirty_count: self.policy.copies().dirty_count(),
        }
    }
}

impl TierCounts {
    fn note(&mut self, step: Step) {
        match step {
            Step::WriteBack { .. } => {
                self.tier_read_count += 1;
                self.disk_write_count += 1;
            }
            Step::Move { .. } => {
                self.tier_read_count += 1;
                self.tier_write_count += 1;
            }
            Step::Fill { .. } => self.tier_write_count += 1,
            Step::Write => self.disk_write_count += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: PageEvent, page: u32) -> PageRecord {
        PageRecord { event, file: 1, page, ..PageRecord::default() }
    }

    fn config(policy: TierPolicyKind) -> TierConfig {
        TierConfig { policy, slot_count: 32, ..TierConfig::default() }
    }

    fn replay(policy: TierPolicyKind, pool: u32, records: &[(PageEvent, u32)]) -> TierReplay {
        let mut replay = TierReplay::new(&[config(policy)], pool);
        replay.end_warm_up();
        for &(event, page) in records {
            replay.apply(&record(event, page));
            replay.audit();
        }
        replay
    }

    #[test]
    fn a_page_that_comes_again_has_left_and_is_found() {
        use PageEvent::{Read, Write};
        for kind in TierPolicyKind::ALL {
            let events = [(Read, 7), (Write, 7), (Read, 7), (Read, 9), (Read, 9)];
            let outcome = replay(kind, 100, &events).outcomes()[0];
            let TierCounts { read_count, hit_count, write_count, .. } = outcome.counts;
            assert_eq!((read_count, hit_count, write_count), (4, 2, 1), "{kind}");
            assert_eq!(outcome.hit_share, Some(0.5));
        }
    }

    #[test]
    fn a_pool_that_is_full_lets_the_page_go_that_came_first() {
        use PageEvent::Read;
        let mut found = Vec::new();
        let replay = replay(TierPolicyKind::Lru, 2, &[(Read, 1), (Read, 2), (Read, 3), (Read, 4)]);
        replay.tiers[0]
            .policy
            .copies()
            .for_each(&mut |copy| found.push(PageAddress::from_word(copy.page).page));
        found.sort_unstable();
        assert_eq!(found, [1, 2], "two are in the pool");
    }

    #[test]
    fn what_is_cut_is_found_no_more_and_what_is_changed_again_spares_the_disk() {
        use PageEvent::{Cut, Read, Write};
        let outcome =
            replay(TierPolicyKind::Face, 2, &[(Write, 5), (Cut, 5), (Read, 5)]).outcomes()[0];
        assert_eq!((outcome.counts.hit_count, outcome.copy_count), (0, 0));
        let events = [(Write, 5); 10];
        let back = replay(TierPolicyKind::Face, 2, &events).outcomes()[0];
        assert_eq!((back.write_reduction, back.dirty_count), (Some(1.0), 1));
        let through = replay(TierPolicyKind::Tac, 2, &events).outcomes()[0];
        assert_eq!((through.write_reduction, through.dirty_count), (Some(0.0), 0));
    }

    #[test]
    fn what_comes_before_the_warm_up_is_over_counts_for_nothing() {
        let mut replay = TierReplay::new(&[config(TierPolicyKind::FaceGsc)], 1);
        replay.apply(&record(PageEvent::Write, 1));
        replay.apply(&record(PageEvent::Read, 2));
        assert_eq!(replay.outcomes()[0].counts, TierCounts::default());
        assert_eq!(replay.outcomes()[0].hit_share, None);
        replay.end_warm_up();
        replay.apply(&record(PageEvent::Read, 1));
        assert_eq!(replay.outcomes()[0].hit_share, Some(1.0), "but it filled the tier");
    }
}
