//! A device over several: blocks dispersed by Rabin's scheme (S000 section 8.3) with checksums.
//!
//! ```text
//!   request ─► a part for each stripe ─► fragments ─► members
//!   member     │ slot │ slot │ …    a slot = head sector + fragment (drive::fragment)
//!   n = 4, f = 3     row 0: stripe 0 on members 0 1 2, the first of stripe 1 on 3; row 1: …
//! ```
//!
//! 1. A stripe's fragments lie on different members; each row of slots is full, rotated by its number.
//! 2. Each write has an id that no other has; a fragment of another write counts as lost.
//! 3. Reads take the fragments of the data they ask for, or m of those with the least work; what
//!    fails, is stale, or has a wrong checksum is lost, and all others are tried.
//! 4. A member that is given a request and does not answer in time is left alone.
//! 5. A request succeeds while m fragments of each of its stripes are left; else the error names the
//!    sectors.
//! 6. Lost fragments on members in use are rebuilt one stripe at a time, beside requests and when idle.
//! 7. What a stripe holds after a power cut is decided once, by members that are current alone, and
//!    stored on all of them before anybody learns it: each sector is what was flushed last, or written
//!    later, and stays so.
//! 8. A flush covers all that was answered before it, and a record on the members says who has it
//!    (`record`, `membership`, `flush`).
//!
//! A write of a part of a stripe reads the rest and writes the stripe anew. If the power fails in the
//! middle and members lose different fragments, the stripe may be lost: the write hole of RAID 5.
//! Members are asked for completions in steps of growing length, so that none runs ahead of the
//! others by more than a quarter of the time that passes anyway.

mod adaptive;
mod cells;
mod decide;
mod flush;
mod fragment;
mod job;
mod map;
mod member;
mod membership;
mod migration;
mod record;

pub use adaptive::{AdaptiveConfig, MemberTimes};
pub use member::{MemberDevice, MemberState};
pub(crate) use record::RECORD_SECTOR_COUNT;

use crate::{ArrayError, Layout};
use adaptive::Chooser;
use cells::Cells;
use flush::Flush;
use fragment::{Fragment, WriteId, from_slot, lost_slot, to_slot};
use job::{Job, JobKind, StripeLock, StripePart, StripeVersion};
use map::{Place, Shape, StripeMap};
use member::Member;
use membership::Membership;
use migration::Migration;
use nandu_base::{Nanos, VirtualClock, to_index, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, EnergyParts, Geometry,
    IoBuffer, Operation, Rejected, Request, TimeSource,
};
use nandu_ida::FragmentSet;
use record::RecordShape;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Inverted matrices that are kept.
const DECODER_COUNT_MAX: usize = 64;

/// How an array works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayConfig {
    /// How blocks lie on members.
    pub layout: Layout,
    /// Sectors of a fragment, 1 to 65536.
    pub fragment_sector_count: u32,
    /// When a write returns.
    pub write_return: WriteReturn,
    /// Most requests in flight, 1 or more.
    pub queue_depth_max: u32,
    /// Media errors that a member may have before it is left alone.
    pub member_error_count_max: u32,
    /// How long a request may be with a member before the member is given up; `None` waits for ever.
    pub member_timeout: Option<Nanos>,
    /// Whether bytes are stored. Without it only the time counts: members get requests without
    /// buffers, reads return zeros, and no fragment is ever found damaged.
    pub keeps_data: bool,
}

impl ArrayConfig {
    /// Sectors of an array over members of `member_sector_count` sectors each.
    #[must_use]
    pub fn sector_count_over(&self, member_sector_count: u64) -> u64 {
        let slot_sectors = u64::from(self.fragment_sector_count) + 1;
        let sectors = member_sector_count.saturating_sub(RECORD_SECTOR_COUNT);
        let slots = sectors / slot_sectors * u64::from(self.layout.member_count());
        slots / u64::from(self.layout.written_count()) * data_sectors(self)
    }

    /// The sectors that each member needs for an array of `sector_count`, rounded down to stripes
    /// but not to none.
    #[must_use]
    pub fn member_sector_count_for(&self, sector_count: u64) -> u64 {
        let stripes = (sector_count / data_sectors(self)).max(1);
        let slots = stripes.saturating_mul(u64::from(self.layout.written_count()));
        let rows = slots.div_ceil(u64::from(self.layout.member_count()));
        let sectors = rows.saturating_mul(u64::from(self.fragment_sector_count) + 1);
        sectors.saturating_add(RECORD_SECTOR_COUNT)
    }
}

/// When a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteReturn {
    /// When m fragments are written, as in S000 section 8.4.
    Needed,
    /// When all fragments are written.
    #[default]
    All,
}

/// Whom an answer of a member is for.
#[derive(Clone, Copy, Debug)]
enum Addressee {
    Fragment { job: u64, number: u8, byte_count: u64 },
    Flush { flush: u64, byte_count: u64 },
}

struct Pending {
    origin: InFlight,
    byte_count: u64,
    part_count: u32,
    error: Option<DeviceError>,
    first_sector: u64,
    /// Whether it writes, if it is one that the chooser looks at.
    observed: Option<bool>,
}

/// A device over several. It goes from thread to thread where its members do; real devices, which
/// do not, are members of an `ArrayDevice<dyn Device>`.
pub struct ArrayDevice<D: Device + ?Sized = dyn Device + Send> {
    config: ArrayConfig,
    info: DeviceInfo,
    clock: VirtualClock,
    members: Vec<Member<D>>,
    map: StripeMap,
    sector_bytes: usize,
    versions: Vec<StripeVersion>,
    membership: Membership,
    flushes: BTreeMap<u64, Flush>,
    locks: BTreeMap<u64, StripeLock>,
    jobs: BTreeMap<u64, Job>,
    requests: BTreeMap<u64, Pending>,
    addressees: BTreeMap<u64, Addressee>,
    next_id: u64,
    completions: CompletionQueue,
    counters: Counters,
    /// What members had been busy when counting began.
    busy_before: Nanos,
    /// What members had used then.
    energy_before: EnergyParts,
    /// What had been done to their cells.
    cells_before: Cells,
    /// What was done since then to cells of members that were replaced.
    cells_gone: Cells,
    /// Stripes with lost fragments on members in use; what lies on members under rebuilding is not
    /// trusted before their repair has ended.
    repairs: BTreeSet<u64>,
    /// Those of them that a member in use missed a write of.
    behind: BTreeSet<u64>,
    is_repairing: bool,
    repairs_begun: u64,
    /// Whether no repair may begin, so that those under way come to an end.
    is_draining: bool,
    lost_stripe_count: u64,
    /// What chooses layouts, in an adaptive array.
    chooser: Option<Chooser>,
    migration: Option<Migration>,
    /// The shapes that extents are to have, by extent.
    wanted_places: BTreeMap<usize, usize>,
    free_cells: Vec<u64>,
    migrated_stripe_count: u64,
}

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// An array over blank members; they read as zeros. Each is given a record of the array, and one
    /// that does not take it fails.
    ///
    /// # Errors
    /// [`ArrayError`] if members do not fit the layout or each other.
    pub fn create(config: ArrayConfig, members: Vec<Box<D>>) -> Result<Self, ArrayError> {
        let mut array = Self::over(config, members)?;
        array.record_creation();
        array.reset_counters();
        Ok(array)
    }

    /// An array over members that were written by one of the same configuration. Members that are not
    /// current, since others went on without them, are rebuilt; a device without a record of the array
    /// is left alone until [`ArrayDevice::replace_member`] takes it. Each stripe is read whole when it
    /// is first used, and what it holds is decided.
    ///
    /// # Errors
    /// As [`ArrayDevice::create`], if members are of no array, of another, in another order or of one
    /// that followed the load, and if two of them were written without each other.
    pub fn open(config: ArrayConfig, members: Vec<Box<D>>) -> Result<Self, ArrayError> {
        let mut array = Self::over(config, members)?;
        array.versions.fill(StripeVersion::undecided(WriteId::NEVER));
        array.take_up_records()?;
        array.reset_counters();
        Ok(array)
    }

    /// An array over `members` that nothing is known of.
    fn over(config: ArrayConfig, members: Vec<Box<D>>) -> Result<Self, ArrayError> {
        let geometry = geometry_of(&config, &members)?;
        let stripe_count = geometry.sector_count / data_sectors(&config);
        let shape = Shape::new(config.layout, config.fragment_sector_count);
        Ok(Self::new(config, members, StripeMap::fixed(shape, stripe_count), false))
    }

    /// An array over blank members that gives each object the layout that suits its load
    /// ([`AdaptiveConfig`]). Its map is in memory only: it cannot be opened again, and its members say
    /// so to [`ArrayDevice::open`], which refuses them.
    ///
    /// # Errors
    /// As [`ArrayDevice::create`], if the members have no room for an extent and a free cell, and if one
    /// of them cannot be written.
    pub fn create_adaptive(
        config: ArrayConfig,
        adaptive: AdaptiveConfig,
        members: Vec<Box<D>>,
    ) -> Result<Self, ArrayError> {
        adaptive.check(config.layout.member_count())?;
        geometry_of(&config, &members)?;
        let member_sectors = members.iter().map(|member| member.info().geometry.sector_count).min();
        let map = StripeMap::adaptive(&config, &adaptive, member_sectors.unwrap_or(0))?;
        let extent_count = map.places.len() as u64;
        let objects: u64 = adaptive.object_sector_counts.iter().sum();
        if objects > extent_count * map.stripes_per_extent * map.stripe_sectors {
            let what = format!("are more than the {extent_count} extents that the members hold");
            return Err(ArrayError::Value { name: "object_sector_counts", what });
        }
        let mut array = Self::new(config, members, map, true);
        if config.keeps_data && !array.record_creation() {
            let what = "must all take the record of the array".into();
            return Err(ArrayError::Value { name: "members", what });
        }
        array.reset_counters();
        // The cell past the last extent's is the one that extents move through.
        array.free_cells.push(extent_count);
        array.chooser = Some(Chooser::new(adaptive, to_index(extent_count)));
        Ok(array)
    }

    fn new(config: ArrayConfig, members: Vec<Box<D>>, map: StripeMap, follows_load: bool) -> Self {
        let infos = || members.iter().map(|member| member.info());
        let layout = config.layout;
        let stripe_count = map.places.len() as u64 * map.stripes_per_extent;
        let sector_bytes = members[0].info().geometry.sector_bytes;
        let info = DeviceInfo {
            name: format!("array {} of {}", layout.name(), layout.member_count()),
            geometry: Geometry { sector_bytes, sector_count: stripe_count * map.stripe_sectors },
            queue_depth_max: config.queue_depth_max,
            time_source: members[0].info().time_source,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: infos().any(|info| info.volatile_cache),
            supports_trim: true,
        };
        let member = |device| Member::new(device, MemberState::Healthy, Nanos::ZERO);
        let fragment_sector_count = config.fragment_sector_count;
        let shape = RecordShape { layout, fragment_sector_count, follows_load };
        Self {
            config,
            info,
            clock: VirtualClock::new(),
            members: members.into_iter().map(member).collect(),
            map,
            sector_bytes: sector_bytes as usize,
            versions: vec![StripeVersion::decided(WriteId::NEVER); to_index(stripe_count)],
            membership: Membership::new(shape),
            flushes: BTreeMap::new(),
            locks: BTreeMap::new(),
            jobs: BTreeMap::new(),
            requests: BTreeMap::new(),
            addressees: BTreeMap::new(),
            next_id: 0,
            completions: CompletionQueue::default(),
            counters: Counters::default(),
            busy_before: Nanos::ZERO,
            energy_before: EnergyParts::default(),
            cells_before: Cells::default(),
            cells_gone: Cells::default(),
            repairs: BTreeSet::new(),
            behind: BTreeSet::new(),
            is_repairing: false,
            repairs_begun: 0,
            is_draining: false,
            lost_stripe_count: 0,
            chooser: None,
            migration: None,
            wanted_places: BTreeMap::new(),
            free_cells: Vec::new(),
            migrated_stripe_count: 0,
        }
    }

    /// The same array called `name`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.info.name);
        self
    }

    /// Counts from here on: what filled the array is no part of a measurement.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.busy_before = self.members_busy();
        self.energy_before = self.members_energy(Device::now(self)).unwrap_or_default();
        (self.cells_before, self.cells_gone) = (self.members_cells(), Cells::default());
    }

    /// Whether member `index` is used; `None` if there is no such member.
    #[must_use]
    pub fn member_state(&self, index: usize) -> Option<MemberState> {
        self.members.get(index).map(|member| member.state)
    }

    /// Stripes that are to be repaired, and one while rebuilt members are not yet current.
    #[must_use]
    pub fn repair_count(&self) -> u64 {
        let has_rebuilt = self.members_in(MemberState::Rebuilding) != 0;
        self.repairs.len() as u64 + u64::from(has_rebuilt)
    }

    /// Stripes of which repairs found fewer than m fragments.
    #[must_use]
    pub const fn lost_stripe_count(&self) -> u64 {
        self.lost_stripe_count
    }

    /// Has every stripe read whole in the background, and rewritten where fragments are lost: damage that
    /// no request has met is found while enough fragments are left.
    pub fn scrub(&mut self) {
        self.repairs.extend(0..self.versions.len() as u64);
    }

    /// Gives `object` another layout; its extents migrate in the background. The chooser may change it
    /// again as the load shifts.
    ///
    /// # Errors
    /// [`ArrayError::Value`] if the array is not adaptive, or has no such object or layout.
    pub fn set_layout(&mut self, object: usize, layout: Layout) -> Result<(), ArrayError> {
        let refuse = |what: &str| Err(ArrayError::Value { name: "layout", what: what.into() });
        let shape = self.map.shapes.iter().position(|shape| shape.layout == layout);
        let Some(shape) = shape else {
            return refuse("must be one that the array was made with");
        };
        let target = self.chooser.as_mut().and_then(|chooser| chooser.targets.get_mut(object));
        let Some(target) = target else {
            return refuse("is that of an object; the array has no such object");
        };
        *target = shape;
        self.want_targets(&[object]);
        self.begin_migration();
        Ok(())
    }

    /// The layout of each extent.
    pub fn layouts(&self) -> impl Iterator<Item = Layout> {
        self.map.places.iter().map(|place| self.map.shapes[place.shape].layout)
    }

    /// Stripes that were copied to follow the load, those that were copied again included.
    #[must_use]
    pub const fn migrated_stripe_count(&self) -> u64 {
        self.migrated_stripe_count
    }

    /// Leaves member `index` alone from now on.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn fail_member(&mut self, index: usize) {
        self.members[index].state = MemberState::Failed;
    }

    /// Puts `device`, whose content does not matter, in the place of member `index` and begins to
    /// rebuild it. Returns the old one. The new one is current, and may be relied on after a power cut,
    /// once it is [`MemberState::Healthy`].
    ///
    /// # Errors
    /// [`ArrayError::Value`] if requests are in flight or the device does not fit.
    pub fn replace_member(&mut self, index: usize, device: Box<D>) -> Result<Box<D>, ArrayError> {
        let refuse = |what: &str| Err(ArrayError::Value { name: "member", what: what.into() });
        self.drain();
        let gone = self.cells().gone();
        let Some(member) = self.members.get_mut(index) else {
            return refuse("has a number past the last member's");
        };
        let (old, new) = (member.device.info(), device.info());
        if new.geometry.sector_bytes != old.geometry.sector_bytes
            || new.geometry.sector_count < old.geometry.sector_count
            || new.time_source != old.time_source
        {
            return refuse(
                "must be as large as the old one, of its sectors, and simulated as it is",
            );
        }
        if member.is_busy() {
            return refuse("is in use; take the completions of all requests first");
        }
        let now = member.now();
        let new = Member::new(device, MemberState::Rebuilding, now);
        let old = std::mem::replace(member, new);
        (self.cells_before, self.cells_gone) = (self.members_cells(), gone);
        self.record_replacement(index);
        self.scrub();
        Ok(old.device)
    }

    /// The members, when nothing is in flight or what is may be lost.
    #[must_use]
    pub fn into_members(self) -> Vec<Box<D>> {
        self.members.into_iter().map(|member| member.device).collect()
    }

    /// Asserts that nothing is left over where nothing is in flight.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn audit(&self) {
        self.map.audit();
        let is_busy = self.members.iter().any(Member::is_busy);
        assert_eq!(is_busy, !self.addressees.is_empty(), "every answer has an addressee");
        if !is_busy {
            assert!(self.behind.is_subset(&self.repairs), "who missed a write is repaired");
            assert!(self.jobs.is_empty(), "no job is forgotten");
            assert!(self.locks.is_empty(), "no stripe stays locked");
            assert!(self.requests.is_empty(), "no request is forgotten");
            assert!(self.flushes.is_empty(), "no flush is forgotten");
            assert!(self.behind.is_empty(), "a member that missed a write has it, or has failed");
        }
    }
}

/// The addressable space of an array of `members`, if they fit `config` and each other.
fn geometry_of<D: Device + ?Sized>(
    config: &ArrayConfig,
    members: &[Box<D>],
) -> Result<Geometry, ArrayError> {
    let refuse = |name, what: String| Err(ArrayError::Value { name, what });
    let layout = config.layout;
    if members.len() != usize::from(layout.member_count()) {
        let what = format!("are {}; the layout has {}", members.len(), layout.member_count());
        return refuse("members", what);
    }
    if config.fragment_sector_count == 0 || config.fragment_sector_count > 65_536 {
        return refuse("fragment_sector_count", "must be 1 to 65536".into());
    }
    if config.queue_depth_max == 0 {
        return refuse("queue_depth_max", "must be above 0".into());
    }
    if config.member_timeout == Some(Nanos::ZERO) {
        return refuse("member_timeout", "must be above 0".into());
    }
    let first = members[0].info();
    let infos = || members.iter().map(|member| member.info());
    if infos().any(|info| info.time_source != first.time_source) {
        return refuse("members", "must be all simulated or all real".into());
    }
    let sector_bytes = first.geometry.sector_bytes;
    if infos().any(|info| info.geometry.sector_bytes != sector_bytes) {
        return refuse("members", "must have sectors of one size".into());
    }
    let smallest = infos().map(|info| info.geometry.sector_count).min().unwrap_or(0);
    let slot_sectors = u64::from(config.fragment_sector_count) + 1;
    let geometry = Geometry::new(sector_bytes, config.sector_count_over(smallest));
    geometry.or_else(|_| refuse("members", format!("need {slot_sectors} sectors or more each")))
}

/// Data sectors of a stripe.
fn data_sectors(config: &ArrayConfig) -> u64 {
    u64::from(config.layout.needed_count()) * u64::from(config.fragment_sector_count)
}

mod device;
mod work;

#[cfg(test)]
mod tests;
