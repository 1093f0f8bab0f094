//! The move of one extent to another cell in another shape, beside requests.
//!
//! ```text
//!   begin: every stripe is to be copied ─► copy one, no sooner than the bandwidth allows ◄─┐
//!                                              │ few are left              written again ──┘
//!   freeze: new work on the extent waits ─► copy the rest ─► nobody works on it ─► commit: it lies
//!                                                            in the new cell, the old one is free
//! ```
//!
//! 1. Until the commit the old cell is right and whole; requests use it alone.
//! 2. At the commit each stripe's copy holds what the old cell holds, as a write of its own.
//! 3. A migration that is given up ends with its last copy under way, so that no copy outlives it.
//! 4. Each stripe is copied at most twice, on average, before its extent is frozen: writes cannot put
//!    off the commit.

use super::map::Place;
use super::*;

/// Copies under way at a time.
const COPY_DEPTH: u32 = 4;
/// After so many copies of a stripe, on average, an extent is frozen however many are left.
const LAP_COUNT_MAX: u64 = 2;

pub(super) struct Migration {
    pub(super) extent: usize,
    pub(super) target: Place,
    /// Stripes whose copy is missing or old.
    to_copy: BTreeSet<u64>,
    /// The write by which each copy stores its stripe, by the copy's job.
    copies: BTreeMap<u64, WriteId>,
    is_given_up: bool,
    copying_count: u32,
    copied_count: u64,
    next_copy_at: Nanos,
    is_frozen: bool,
    /// Jobs that wait for the end of the freeze.
    held: Vec<Job>,
}

impl Migration {
    pub(super) fn new(
        extent: usize,
        target: Place,
        stripes: std::ops::Range<u64>,
        now: Nanos,
    ) -> Self {
        Self {
            extent,
            target,
            to_copy: stripes.collect(),
            copies: BTreeMap::new(),
            is_given_up: false,
            copying_count: 0,
            copied_count: 0,
            next_copy_at: now,
            is_frozen: false,
            held: Vec::new(),
        }
    }

    /// Whether `job` on `extent` has to wait; if so it is kept.
    pub(super) fn holds(&mut self, extent: usize, job: &mut Option<Job>) -> bool {
        let is_held = self.is_frozen
            && extent == self.extent
            && job.as_ref().is_some_and(|job| job.kind != JobKind::Move);
        if is_held {
            self.held.extend(job.take());
        }
        is_held
    }

    /// Notes that `stripe` is written in the old cell.
    pub(super) fn note_write(&mut self, extent: usize, stripe: u64) {
        if extent == self.extent {
            self.to_copy.insert(stripe);
        }
    }
}

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// When a migration goes on by itself, without an answer of a member.
    pub(super) fn migration_due(&self) -> Option<Nanos> {
        let migration = self.migration.as_ref()?;
        let has_room = migration.copying_count < COPY_DEPTH;
        let is_open = !migration.is_frozen && !migration.is_given_up;
        let waits = has_room && is_open && !migration.to_copy.is_empty();
        waits.then_some(migration.next_copy_at)
    }

    /// Copies stripes, freezes, or commits, whatever is next and possible now.
    pub(super) fn advance_migration(&mut self) {
        let now = Device::now(self);
        let interval = self.migration_interval();
        let per_extent = self.map.stripes_per_extent;
        while let Some(migration) = self.migration.as_mut() {
            if migration.is_given_up {
                return self.end_given_up();
            }
            let has_lapped = migration.copied_count >= per_extent;
            let left_count = migration.to_copy.len() as u64;
            migration.is_frozen |= left_count == 0
                || has_lapped && left_count <= per_extent / 4
                || migration.copied_count >= LAP_COUNT_MAX * per_extent;
            let Some(&stripe) = migration.to_copy.first() else {
                return self.commit_migration();
            };
            let is_early = !migration.is_frozen && now < migration.next_copy_at;
            if is_early || migration.copying_count >= COPY_DEPTH {
                return;
            }
            migration.to_copy.remove(&stripe);
            migration.copying_count += 1;
            // What members were too busy for is made up for, but not more than is under way at a time.
            let late = now.saturating_sub(Nanos(interval.0 * u64::from(COPY_DEPTH)));
            migration.next_copy_at = migration.next_copy_at.max(late).saturating_add(interval);
            let job = self.whole_stripe_job(JobKind::Move, stripe);
            self.enqueue(job);
        }
    }

    /// A copy has ended, well or not.
    pub(super) fn move_ended(&mut self, job: &Job, is_whole: bool) {
        let Some(migration) = self.migration.as_mut() else { return };
        migration.copying_count -= 1;
        migration.copied_count += 1;
        if is_whole {
            self.migrated_stripe_count += 1;
            migration.copies.insert(job.stripe, job.id);
        } else {
            migration.to_copy.insert(job.stripe);
        }
    }

    /// Gives up the migration: a stripe cannot be read, or its copy not be stored by `job`.
    pub(super) fn give_up_migration(&mut self, job: &Job) {
        self.wanted_places.clear();
        if let Some(migration) = &mut self.migration {
            migration.is_given_up = true;
        }
        self.move_ended(job, false);
    }

    /// Ends a migration that was given up, with its last copy.
    fn end_given_up(&mut self) {
        if self.migration.as_ref().is_some_and(|migration| migration.copying_count == 0) {
            let migration = self.migration.take().expect("it was just there");
            self.free_cells.push(migration.target.cell);
            self.thaw(migration.held);
            self.begin_migration();
        }
    }

    /// Makes the new cell the extent's own, if nobody works on it: invariant 2.
    fn commit_migration(&mut self) {
        let extent = self.migration.as_ref().expect("it is being advanced").extent;
        if self.jobs.values().any(|job| self.map.extent_of(job.stripe) == extent) {
            return;
        }
        let migration = self.migration.take().expect("it is being advanced");
        assert_eq!(migration.copying_count, 0, "a copy under way is a job on the extent");
        let per_extent = self.map.stripes_per_extent;
        let first = extent as u64 * per_extent;
        for stripe in first..first + per_extent {
            self.versions[to_index(stripe)] = StripeVersion::decided(migration.copies[&stripe]);
        }
        let old = std::mem::replace(&mut self.map.places[extent], migration.target);
        self.free_cells.push(old.cell);
        self.thaw(migration.held);
        self.begin_migration();
    }

    fn thaw(&mut self, held: Vec<Job>) {
        for job in held {
            self.enqueue(job);
        }
    }

    /// Begins the migration of the hottest extent that is to move, if none is under way and a cell is free.
    pub(super) fn begin_migration(&mut self) {
        while self.migration.is_none() {
            let heat = |extent| self.chooser.as_ref().map_or(0, |chooser| chooser.heat(extent));
            let hottest = self.wanted_places.keys().rev().max_by_key(|extent| heat(**extent));
            let Some(extent) = hottest.copied() else { return };
            let shape = self.wanted_places.remove(&extent).expect("it was just there");
            if self.map.places[extent].shape == shape {
                continue;
            }
            let Some(cell) = self.free_cells.pop() else { return };
            let per_extent = self.map.stripes_per_extent;
            let first = extent as u64 * per_extent;
            let target = Place { shape, cell };
            self.migration =
                Some(Migration::new(extent, target, first..first + per_extent, Device::now(self)));
            self.advance_migration();
        }
    }
}
