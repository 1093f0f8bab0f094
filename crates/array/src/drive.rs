//! A device over several: blocks dispersed by Rabin's scheme (S000 section 8.3) with checksums.
//!
//! ```text
//!   request ─► a part for each stripe ─► fragments ─► members
//!   member     │ slot │ slot │ …    a slot = head sector + fragment (drive::fragment)
//!   n = 4, f = 3     row 0: stripe 0 on members 0 1 2, the first of stripe 1 on 3; row 1: …
//! ```
//!
//! 1. A stripe's fragments lie on different members; each row of slots is full, rotated by its number.
//! 2. A stripe's version grows with each write; a fragment of another version counts as lost.
//! 3. Reads take the fragments of the data they ask for, or m of those with the least work; what
//!    fails, is stale, or has a wrong checksum is lost, and all others are tried.
//! 4. A member that is given a request and does not answer in time is left alone.
//! 5. A request succeeds while m fragments of each of its stripes are left; else the error names the
//!    sectors.
//! 6. Lost fragments on members in use are rebuilt one stripe at a time, beside requests and when idle.
//!
//! A write of a part of a stripe reads the rest and writes the stripe anew. If the power fails in the
//! middle and members lose different fragments, the stripe may be lost: the write hole of RAID 5.
//! Members are asked for completions in steps of growing length, so that none runs ahead of the
//! others by more than a quarter of the time that passes anyway.

mod fragment;
mod job;
mod member;

pub use member::{MemberDevice, MemberState};

use crate::{ArrayError, Layout};
use fragment::{Fragment, from_slot, to_slot};
use job::{Job, JobKind, StripeLock};
use member::Member;
use nandu_base::{Nanos, VirtualClock, to_index, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, Geometry, IoBuffer,
    Operation, Rejected, Request, TimeSource,
};
use nandu_ida::{Code, FragmentSet, Matrix, Reconstructor};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of a stripe that was not read since the array was opened.
const UNKNOWN: u64 = u64::MAX;
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
}

/// When a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteReturn {
    /// When m fragments are written, as in S000 section 8.4.
    Needed,
    /// When all are.
    #[default]
    All,
}

/// Whom an answer of a member is for.
#[derive(Clone, Copy, Debug)]
enum Addressee {
    Fragment { job: u64, number: u8 },
    Flush { request: u64 },
}

struct Pending {
    origin: InFlight,
    byte_count: u64,
    part_count: u32,
    failed_flush_count: u32,
    error: Option<DeviceError>,
}

/// A device over several. It goes from thread to thread where its members do; real devices, which
/// do not, are members of an `ArrayDevice<dyn Device>`.
pub struct ArrayDevice<D: Device + ?Sized = dyn Device + Send> {
    config: ArrayConfig,
    info: DeviceInfo,
    clock: VirtualClock,
    members: Vec<Member<D>>,
    reconstructor: Reconstructor,
    sector_bytes: usize,
    versions: Vec<u64>,
    locks: BTreeMap<u64, StripeLock>,
    jobs: BTreeMap<u64, Job>,
    requests: BTreeMap<u64, Pending>,
    addressees: BTreeMap<u64, Addressee>,
    next_id: u64,
    completions: CompletionQueue,
    counters: Counters,
    /// Stripes with lost fragments on members in use.
    repairs: BTreeSet<u64>,
    is_repairing: bool,
    /// Whether no repair is to begin.
    is_draining: bool,
    lost_stripe_count: u64,
}

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// An array over blank members; they read as zeros.
    ///
    /// # Errors
    /// [`ArrayError`] if members do not fit the layout or each other.
    pub fn create(config: ArrayConfig, members: Vec<Box<D>>) -> Result<Self, ArrayError> {
        Self::new(config, members, 0)
    }

    /// An array over members that were written by one of the same configuration; each stripe is read
    /// whole when it is first used, so that its newest version is found.
    ///
    /// # Errors
    /// As [`ArrayDevice::create`].
    pub fn open(config: ArrayConfig, members: Vec<Box<D>>) -> Result<Self, ArrayError> {
        Self::new(config, members, UNKNOWN)
    }

    fn new(config: ArrayConfig, members: Vec<Box<D>>, version: u64) -> Result<Self, ArrayError> {
        let layout = config.layout;
        let geometry = geometry_of(&config, &members)?;
        let infos = || members.iter().map(|member| member.info());
        let info = DeviceInfo {
            name: format!("array {} of {}", layout.name(), layout.member_count()),
            geometry,
            queue_depth_max: config.queue_depth_max,
            time_source: members[0].info().time_source,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: infos().any(|info| info.volatile_cache),
            supports_trim: true,
        };
        let code = Code::new(
            usize::from(layout.needed_count()),
            usize::from(layout.written_count()),
            Matrix::Cauchy,
        );
        let code = code.expect("a layout has 1 <= m <= f <= 16");
        let member = |device| Member::new(device, MemberState::Healthy, Nanos::ZERO);
        Ok(Self {
            config,
            info,
            clock: VirtualClock::new(),
            members: members.into_iter().map(member).collect(),
            reconstructor: Reconstructor::new(code, DECODER_COUNT_MAX),
            sector_bytes: geometry.sector_bytes as usize,
            versions: vec![version; to_index(geometry.sector_count / data_sectors(&config))],
            locks: BTreeMap::new(),
            jobs: BTreeMap::new(),
            requests: BTreeMap::new(),
            addressees: BTreeMap::new(),
            next_id: 0,
            completions: CompletionQueue::default(),
            counters: Counters::default(),
            repairs: BTreeSet::new(),
            is_repairing: false,
            is_draining: false,
            lost_stripe_count: 0,
        })
    }

    /// Whether member `index` is used.
    #[must_use]
    pub fn member_state(&self, index: usize) -> Option<MemberState> {
        self.members.get(index).map(|member| member.state)
    }

    /// Stripes that wait to be repaired.
    #[must_use]
    pub fn repair_count(&self) -> u64 {
        self.repairs.len() as u64 + u64::from(self.is_repairing)
    }

    /// Stripes of which repairs found fewer than m fragments.
    #[must_use]
    pub const fn lost_stripe_count(&self) -> u64 {
        self.lost_stripe_count
    }

    /// Leaves member `index` alone from now on.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn fail_member(&mut self, index: usize) {
        self.members[index].state = MemberState::Failed;
    }

    /// Puts a blank `device` in the place of member `index` and begins to rebuild it. Returns the old
    /// one.
    ///
    /// # Errors
    /// [`ArrayError::Value`] if requests are in flight or the device does not fit.
    pub fn replace_member(&mut self, index: usize, device: Box<D>) -> Result<Box<D>, ArrayError> {
        let refuse = |what: &str| Err(ArrayError::Value { name: "member", what: what.into() });
        self.drain();
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
        self.repairs.extend(0..self.versions.len() as u64);
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
        let layout = self.config.layout;
        for stripe in 0..self.versions.len().min(64) as u64 {
            let members: BTreeSet<usize> = (0..layout.written_count())
                .map(|number| slot_of(layout, stripe, number).0)
                .collect();
            assert_eq!(members.len(), usize::from(layout.written_count()), "invariant 1");
        }
        let is_busy = self.members.iter().any(Member::is_busy);
        assert_eq!(is_busy, !self.addressees.is_empty(), "every answer has an addressee");
        if !is_busy {
            assert!(self.jobs.is_empty(), "no job is forgotten");
            assert!(self.locks.is_empty(), "no stripe stays locked");
            assert!(self.requests.is_empty(), "no request is forgotten");
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
    let slots = smallest / slot_sectors * u64::from(layout.member_count());
    let stripes = slots / u64::from(layout.written_count());
    let geometry = Geometry::new(sector_bytes, stripes * data_sectors(config));
    geometry.or_else(|_| refuse("members", format!("need {slot_sectors} sectors or more each")))
}

/// Data sectors of a stripe.
fn data_sectors(config: &ArrayConfig) -> u64 {
    u64::from(config.layout.needed_count()) * u64::from(config.fragment_sector_count)
}

/// Member and slot of a fragment: invariant 1.
fn slot_of(layout: Layout, stripe: u64, number: u8) -> (usize, u64) {
    let members = u64::from(layout.member_count());
    let position = stripe * u64::from(layout.written_count()) + u64::from(number);
    let row = position / members;
    (to_index((position + row) % members), row)
}

mod device;
mod work;

#[cfg(test)]
mod tests;
