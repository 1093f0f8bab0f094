//! An array over members that fail, go stale and lose power, beside what its sectors may hold.
//!
//! ```text
//!   possible   what was flushed last, and every later write that was issued ── after a power cut
//!   session    of these, what may still be read: one, once it was read or written ── until then
//! ```
//!
//! 1. A read returns one of the session's contents of each sector, whole, and from then on that.
//! 2. A flush that succeeds leaves of the possible contents those of the session at its issue, and what
//!    was issued since.
//! 3. With at most f - m bad members nothing fails but sectors in the write hole: of stripes that a power
//!    cut found between two flushes, where fragments were torn inside or a member was bad. With more,
//!    anything may fail, and stripes stay lost until they are written whole.
//! 4. A member is bad from when it fails, is away, or is new, until the array calls it healthy.
//! 5. The array gives nobody up without a reason.

use nandu_array::{
    AdaptiveConfig, ArrayConfig, ArrayDevice, Layout, MemberDevice, MemberState, WriteReturn,
};
use nandu_base::{Nanos, to_index, to_u32};
use nandu_device::faulty::{FaultPlan, FaultyDevice, UnflushedFate};
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, Geometry, IoBuffer, MemoryConfig,
    MemoryDevice, Operation, Rejected, Request, SharedDevice,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;
const FLUSH: u64 = u64::MAX / 2;

/// The code and the size of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) member_count: u8,
    pub(crate) needed_count: u8,
    pub(crate) written_count: u8,
    pub(crate) fragment_sectors: u32,
    pub(crate) row_count: u64,
    pub(crate) write_return: WriteReturn,
}

type Member = SharedDevice<FaultyDevice<MemoryDevice>>;

/// What all members hang on.
#[derive(Default)]
struct Plug {
    members: Vec<Member>,
    /// Requests until it is pulled.
    left_count: Option<u64>,
    /// What each member then keeps of what it did not flush.
    fates: Vec<UnflushedFate>,
    seed: u64,
    is_pulled: bool,
}

impl Plug {
    fn pull(&mut self) {
        self.left_count = None;
        self.is_pulled = true;
        for ((member, fate), number) in self.members.iter().zip(&self.fates).zip(0..) {
            cut(member, *fate, self.seed.wrapping_mul(31).wrapping_add(number));
        }
    }
}

type SharedPlug = Arc<Mutex<Plug>>;

fn lock(plug: &SharedPlug) -> MutexGuard<'_, Plug> {
    plug.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A member on the plug.
struct Plugged {
    member: Member,
    plug: SharedPlug,
}

impl Device for Plugged {
    fn info(&self) -> &DeviceInfo {
        self.member.info()
    }
    fn now(&self) -> Nanos {
        self.member.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        let mut plug = lock(&self.plug);
        if let Some(left) = &mut plug.left_count {
            *left -= 1;
            if *left == 0 {
                plug.pull();
            }
        }
        self.member.submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.member.next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        self.member.in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.member.idle_until(time)
    }
    fn counters(&self) -> Counters {
        self.member.counters()
    }
}

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// It failed, or is to fail, or is away.
    Broken,
    /// It works, and does not have everything.
    Behind,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) write_count: u64,
    pub(crate) flush_count: u64,
    pub(crate) read_count: u64,
    pub(crate) cut_count: u64,
    pub(crate) bad_count: u64,
    pub(crate) rebuilt_count: u64,
    pub(crate) hole_count: u64,
    pub(crate) refused_count: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.write_count += other.write_count;
        self.flush_count += other.flush_count;
        self.read_count += other.read_count;
        self.cut_count += other.cut_count;
        self.bad_count += other.bad_count;
        self.rebuilt_count += other.rebuilt_count;
        self.hole_count += other.hole_count;
        self.refused_count += other.refused_count;
    }
}

/// What a flush makes durable.
struct Snapshot {
    session: Vec<Vec<u32>>,
    round: u32,
    may_be_lost: Vec<bool>,
}

pub(crate) struct World {
    config: ArrayConfig,
    members: Vec<Member>,
    plug: SharedPlug,
    health: Vec<Health>,
    /// Members whose requests fail now and then.
    is_disturbed: Vec<bool>,
    /// Members that have what was flushed last.
    is_holder: Vec<bool>,
    array: Option<ArrayDevice>,
    sector_count: u64,
    stripe_sectors: u64,
    possible: Vec<Vec<u32>>,
    session: Vec<Vec<u32>>,
    /// Whether there ever were too many bad members: lines of members that went on may contradict.
    has_exceeded: bool,
    /// Writes in flight, by request: first sector, count, round.
    in_flight: BTreeMap<u64, (u64, u32, u32)>,
    /// The session's contents when each flush in flight was issued, and the round then.
    flushes: BTreeMap<u64, Snapshot>,
    /// Stripes that may be lost by invariant 3: after a power cut, and now.
    may_be_lost: Vec<bool>,
    may_be_lost_now: Vec<bool>,
    /// Stripes that a power cut found between two flushes and that were not read or written since.
    is_undecided: Vec<bool>,
    round: u32,
    next_id: u64,
    pub(crate) tally: Tally,
}

/// What is wrong with the array.
pub(crate) type Violation = String;

/// Members are not equally fast, so that fragments of a write are done one after the other.
fn member(setup: &Setup, index: usize) -> Member {
    let rows = setup.row_count * u64::from(setup.fragment_sectors + 1) + 2;
    let geometry = Geometry::new(512, rows).expect("a member has sectors");
    let access_ns = Nanos(10_000 + 4000 * index as u64);
    let config =
        MemoryConfig { geometry, access_ns, queue_depth_max: 4, ..MemoryConfig::default() };
    SharedDevice::new(FaultyDevice::new(MemoryDevice::new(config), FaultPlan::default()))
}

fn members(setup: &Setup) -> Vec<Member> {
    (0..usize::from(setup.member_count)).map(|index| member(setup, index)).collect()
}

fn config(setup: &Setup) -> ArrayConfig {
    let Setup { member_count, needed_count, written_count, .. } = *setup;
    ArrayConfig {
        layout: Layout::new(member_count, needed_count, written_count).expect("it is a layout"),
        fragment_sector_count: setup.fragment_sectors,
        write_return: setup.write_return,
        queue_depth_max: 64,
        member_error_count_max: 2,
        member_timeout: Some(Nanos::from_millis(5)),
        keeps_data: true,
    }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let (members, plug) = (members(setup), SharedPlug::default());
        let config = config(setup);
        let array = ArrayDevice::create(config, boxed(&members, &plug)).expect("members fit");
        let stripe_sectors = u64::from(setup.needed_count) * u64::from(setup.fragment_sectors);
        Self::over(config, members, plug, array, stripe_sectors)
    }

    /// An array that follows the load; it cannot be opened again.
    pub(crate) fn following(setup: &Setup, adaptive: AdaptiveConfig) -> Self {
        let (members, plug) = (members(setup), SharedPlug::default());
        let (config, stripe_sectors) = (config(setup), u64::from(adaptive.stripe_sector_count));
        let array = ArrayDevice::create_adaptive(config, adaptive, boxed(&members, &plug));
        Self::over(config, members, plug, array.expect("members fit"), stripe_sectors)
    }

    fn over(
        config: ArrayConfig,
        members: Vec<Member>,
        plug: SharedPlug,
        array: ArrayDevice,
        stripe_sectors: u64,
    ) -> Self {
        let sector_count = array.info().geometry.sector_count;
        let blank = vec![vec![0]; to_index(sector_count)];
        Self {
            config,
            health: vec![Health::Good; members.len()],
            is_disturbed: vec![false; members.len()],
            is_holder: vec![true; members.len()],
            members,
            plug,
            array: Some(array),
            sector_count,
            stripe_sectors,
            possible: blank.clone(),
            session: blank,
            has_exceeded: false,
            in_flight: BTreeMap::new(),
            flushes: BTreeMap::new(),
            may_be_lost: vec![false; to_index(sector_count / stripe_sectors)],
            may_be_lost_now: vec![false; to_index(sector_count / stripe_sectors)],
            is_undecided: vec![false; to_index(sector_count / stripe_sectors)],
            round: 0,
            next_id: 0,
            tally: Tally::default(),
        }
    }

    pub(crate) const fn sector_count(&self) -> u64 {
        self.sector_count
    }

    pub(crate) const fn stripe_sectors(&self) -> u64 {
        self.stripe_sectors
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn bad_count(&self) -> usize {
        self.health.iter().filter(|health| **health != Health::Good).count()
    }

    pub(crate) fn spare_count(&self) -> usize {
        usize::from(self.config.layout.spare_count())
    }

    pub(crate) fn is_good(&self, index: usize) -> bool {
        self.health[index] == Health::Good
    }

    pub(crate) fn is_broken(&self, index: usize) -> bool {
        self.health[index] == Health::Broken
    }

    fn array(&mut self) -> &mut ArrayDevice {
        self.array.as_mut().expect("it is open")
    }

    fn stripe_of(&self, sector: u64) -> usize {
        to_index(sector / self.stripe_sectors)
    }

    fn make_bad(&mut self, index: usize, health: Health) {
        self.health[index] = health;
        // What is worse than a disturbance does not end with it.
        self.is_disturbed[index] = false;
        self.tally.bad_count += 1;
        self.note_excess();
    }

    /// Invariant 3: with too many bad members, everything may be lost; with any, what is undecided.
    fn note_excess(&mut self) {
        self.has_exceeded |= self.bad_count() > self.spare_count();
        for stripe in 0..self.is_undecided.len() {
            let is_hit = self.bad_count() > 0 && self.is_undecided[stripe];
            if is_hit || self.bad_count() > self.spare_count() {
                self.may_be_lost[stripe] = true;
                self.may_be_lost_now[stripe] = true;
            }
        }
    }

    /// Whether the power of all members has gone.
    pub(crate) fn is_dark(&self) -> bool {
        lock(&self.plug).is_pulled
    }

    fn is_excused(&self) -> bool {
        self.is_dark() || self.bad_count() > self.spare_count()
    }

    /// Compares what the array says of its members with what is known of them.
    fn look(&mut self) -> Result<(), Violation> {
        if self.is_dark() {
            return Ok(());
        }
        for index in 0..self.members.len() {
            let state = self.array().member_state(index).expect("there is such a member");
            match (self.health[index], state) {
                (Health::Good, MemberState::Failed | MemberState::Rebuilding) => {
                    return Err(format!("member {index} is {state:?} without a reason"));
                }
                (Health::Behind, MemberState::Healthy) => {
                    self.health[index] = Health::Good;
                    self.is_holder[index] = true;
                    self.tally.rebuilt_count += 1;
                }
                (Health::Behind, MemberState::Failed) => self.health[index] = Health::Broken,
                _ => {}
            }
        }
        Ok(())
    }

    // What is asked of the array.

    /// Issues a write of new contents, unless one of its sectors is being written.
    pub(crate) fn begin_write(&mut self, first: u64, count: u32) -> bool {
        let overlaps = |&(other, its_count, _): &(u64, u32, u32)| {
            first < other + u64::from(its_count) && other < first + u64::from(count)
        };
        if self.in_flight.values().any(overlaps) {
            return false;
        }
        self.round += 1;
        self.next_id += 1;
        let (id, round) = (self.next_id, self.round);
        let sectors = first..first + u64::from(count);
        let bytes: Vec<u8> = sectors.clone().flat_map(|sector| content(sector, round)).collect();
        for sector in sectors {
            self.possible[to_index(sector)].push(round);
            self.session[to_index(sector)].push(round);
        }
        self.in_flight.insert(id, (first, count, round));
        self.submit(Request::write(id, first, count, Some(IoBuffer::copy_of(&bytes))));
        self.tally.write_count += 1;
        true
    }

    pub(crate) fn begin_flush(&mut self) {
        self.next_id += 1;
        let id = FLUSH + self.next_id;
        let (session, may_be_lost) = (self.session.clone(), self.may_be_lost_now.clone());
        self.flushes.insert(id, Snapshot { session, round: self.round, may_be_lost });
        self.submit(Request::flush(id));
        self.tally.flush_count += 1;
    }

    fn submit(&mut self, request: Request) {
        let now = self.array().now();
        self.array().submit(now, request).expect("there is room in the queue");
    }

    /// Takes the next completion of a write or flush, if any is in flight.
    pub(crate) fn take_one(&mut self) -> Result<bool, Violation> {
        let Some(done) = self.array().next_completion(Nanos::MAX) else {
            if self.array().in_flight() > 0 {
                return Err("a request is never answered".into());
            }
            return Ok(false);
        };
        match done.operation {
            Operation::Flush => self.flush_ended(done.id, &done.result)?,
            _ => self.write_ended(done.id, &done.result)?,
        }
        self.look()?;
        Ok(true)
    }

    pub(crate) fn take_all(&mut self) -> Result<(), Violation> {
        while self.take_one()? {}
        Ok(())
    }

    fn write_ended(&mut self, id: u64, result: &Result<(), DeviceError>) -> Result<(), Violation> {
        let (first, count, round) = self.in_flight.remove(&id).expect("it was issued");
        let sectors = first..first + u64::from(count);
        if let Err(error) = result {
            self.tally.refused_count += 1;
            let is_excused = self.is_excused()
                || sectors.into_iter().any(|sector| self.may_be_lost_now[self.stripe_of(sector)]);
            return if is_excused { Ok(()) } else { Err(format!("a write fails: {error}")) };
        }
        for sector in sectors.clone() {
            self.session[to_index(sector)].retain(|other| *other >= round);
        }
        if self.bad_count() <= self.spare_count() {
            for stripe in self.stripe_of(first)..=self.stripe_of(sectors.end - 1) {
                let start = stripe as u64 * self.stripe_sectors;
                let is_whole = sectors.start <= start && start + self.stripe_sectors <= sectors.end;
                self.may_be_lost_now[stripe] &= !is_whole;
                self.is_undecided[stripe] = false;
            }
        }
        Ok(())
    }

    fn flush_ended(&mut self, id: u64, result: &Result<(), DeviceError>) -> Result<(), Violation> {
        let Snapshot { session, round, may_be_lost } =
            self.flushes.remove(&id).expect("it was issued");
        if let Err(error) = result {
            self.tally.refused_count += 1;
            let is_excused = self.is_excused();
            return if is_excused { Ok(()) } else { Err(format!("a flush fails: {error}")) };
        }
        for (is_holder, health) in self.is_holder.iter_mut().zip(&self.health) {
            *is_holder &= *health == Health::Good;
        }
        for (possible, flushed) in self.possible.iter_mut().zip(session) {
            possible.retain(|other| *other > round || flushed.contains(other));
        }
        // What became so meanwhile, by bad members, stays so.
        for (stripe, may_be_lost) in may_be_lost.into_iter().enumerate() {
            self.may_be_lost[stripe] &= may_be_lost || self.may_be_lost_now[stripe];
        }
        Ok(())
    }

    /// Reads one sector; nothing is in flight.
    pub(crate) fn read(&mut self, sector: u64) -> Result<(), Violation> {
        self.take_all()?;
        self.tally.read_count += 1;
        self.submit(Request::read(0, sector, 1, Some(IoBuffer::zeroed(SECTOR))));
        let done = self.array().next_completion(Nanos::MAX);
        let done = done.ok_or("a read is never answered")?;
        self.look()?;
        let stripe = self.stripe_of(sector);
        if let Err(error) = done.result {
            self.tally.hole_count += 1;
            let is_excused = self.is_excused() || self.may_be_lost_now[stripe];
            return if is_excused { Ok(()) } else { Err(format!("a read fails: {error}")) };
        }
        let bytes = done.buffer.ok_or("a read gives no buffer back")?;
        let round = round_of(sector, &bytes);
        let allowed = &mut self.session[to_index(sector)];
        match round.filter(|round| allowed.contains(round)) {
            Some(round) => {
                *allowed = vec![round];
                self.is_undecided[stripe] = false;
            }
            None => {
                let possible = &self.possible[to_index(sector)];
                return Err(format!(
                    "sector {sector} reads as round {round:?}; may be {allowed:?} of {possible:?}"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn read_all(&mut self) -> Result<(), Violation> {
        (0..self.sector_count).try_for_each(|sector| self.read(sector))
    }

    pub(crate) fn scrub(&mut self) {
        self.array().scrub();
    }

    pub(crate) fn idle(&mut self, time: Nanos) -> Result<(), Violation> {
        self.take_all()?;
        let until = self.array().now() + time;
        self.array().idle_until(until);
        self.look()
    }

    /// Idles until nothing is left to be repaired.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..200 {
            self.idle(Nanos::from_millis(1))?;
            if self.is_dark() {
                return Ok(());
            }
            if self.array().repair_count() == 0 {
                self.array().audit();
                return Ok(());
            }
        }
        Err("repairs do not end".into())
    }

    /// Gives `object` another layout, to which it moves in the background.
    pub(crate) fn set_layout(&mut self, object: usize, layout: Layout) {
        self.array().set_layout(object, layout).expect("there is such an object and layout");
    }

    /// How many stripes were copied so far.
    pub(crate) fn migrated_stripe_count(&mut self) -> u64 {
        self.array().migrated_stripe_count()
    }

    // What happens to members.

    /// The array is told to leave member `index` alone.
    pub(crate) fn fail(&mut self, index: usize) {
        self.make_bad(index, Health::Broken);
        self.array().fail_member(index);
    }

    /// Member `index` takes requests and answers none.
    pub(crate) fn silence(&mut self, index: usize) {
        self.make_bad(index, Health::Broken);
        let first = self.members[index].lock().submitted_count() + 1;
        let plan = FaultPlan { silent_from_request: Some(first), ..FaultPlan::default() };
        self.members[index].lock().set_plan(plan);
    }

    /// The power of member `index` alone goes, and with it what it did not flush, by `fate`.
    pub(crate) fn unplug(&mut self, index: usize, fate: UnflushedFate, seed: u64) {
        self.make_bad(index, Health::Broken);
        cut(&self.members[index], fate, seed);
    }

    /// Some of the next requests to member `index` fail. One that is bad already stays as it is: its requests that
    /// nobody will answer would be held against it when the disturbance is over.
    pub(crate) fn disturb(&mut self, index: usize, after: u64, count: u64) {
        if self.health[index] != Health::Good {
            return;
        }
        self.make_bad(index, Health::Broken);
        self.is_disturbed[index] = true;
        let first = self.members[index].lock().submitted_count() + 1 + after;
        let fail_requests = (first..first + count).collect();
        self.members[index].lock().set_plan(FaultPlan { fail_requests, ..FaultPlan::default() });
    }

    /// Ends all disturbances: a member is good again if the array has borne them and made up for them.
    pub(crate) fn calm(&mut self) -> Result<(), Violation> {
        let disturbed = std::mem::replace(&mut self.is_disturbed, vec![false; self.members.len()]);
        for index in (0..self.members.len()).filter(|index| disturbed[*index]) {
            self.members[index].lock().set_plan(FaultPlan::default());
        }
        self.settle()?;
        for index in (0..self.members.len()).filter(|index| disturbed[*index]) {
            self.health[index] = Health::Behind;
        }
        self.look()
    }

    /// A broken member is replaced, by a blank one or by itself, and rebuilding begins.
    pub(crate) fn replace(
        &mut self,
        setup: &Setup,
        index: usize,
        by_itself: bool,
    ) -> Result<(), Violation> {
        self.take_all()?;
        if self.is_dark() {
            return Ok(());
        }
        if by_itself {
            let device = &self.members[index];
            cut(device, UnflushedFate::Dropped, 0);
            device.forget_completions();
            device.lock().power_on();
            device.lock().set_plan(FaultPlan::default());
        } else {
            self.members[index] = member(setup, index);
            lock(&self.plug).members = self.members.clone();
        }
        self.health[index] = Health::Behind;
        self.is_holder[index] = false;
        self.is_disturbed[index] = false;
        let device = self.members[index].clone();
        let device = Box::new(Plugged { member: device, plug: self.plug.clone() });
        let replaced = self.array().replace_member(index, device);
        replaced.map(|_| ()).map_err(|error| format!("a member cannot be replaced: {error}"))?;
        self.look()
    }

    /// The power of all members is to go at their `count`th request from now on; each keeps of what it
    /// did not flush what its fate says.
    pub(crate) fn plan_cut(&mut self, count: u64, fates: &[UnflushedFate], seed: u64) {
        let mut plug = lock(&self.plug);
        plug.members = self.members.clone();
        plug.left_count = Some(count);
        plug.fates = fates.to_vec();
        plug.seed = seed;
    }

    /// The power goes, as it was planned, if it has not gone yet. The array is gone with it.
    pub(crate) fn cut(&mut self) {
        let is_torn = {
            let mut plug = lock(&self.plug);
            plug.members = self.members.clone();
            if !plug.is_pulled {
                plug.pull();
            }
            plug.is_pulled = false;
            plug.fates.contains(&UnflushedFate::Torn)
        };
        self.tally.cut_count += 1;
        let is_bad = self.bad_count() > 0;
        for sector in 0..self.sector_count {
            let stripe = self.stripe_of(sector);
            let is_open = self.possible[to_index(sector)].len() > 1;
            self.may_be_lost[stripe] |= is_open && (is_torn || is_bad);
            self.is_undecided[stripe] |= is_open;
        }
        self.array = None;
        self.in_flight.clear();
        self.flushes.clear();
        for member in &self.members {
            member.forget_completions();
        }
        self.session.clone_from(&self.possible);
        self.may_be_lost_now.clone_from(&self.may_be_lost);
    }

    /// Opens the array; members that are `away` have no power.
    ///
    /// Returns whether it is open: with too many bad members it may be refused, and the power may go.
    pub(crate) fn open(&mut self, away: &[usize]) -> Result<bool, Violation> {
        self.is_disturbed.fill(false);
        for (index, member) in self.members.iter().enumerate() {
            if !away.contains(&index) {
                member.lock().power_on();
                member.lock().set_plan(FaultPlan::default());
            } else if self.health[index] == Health::Good {
                self.health[index] = Health::Broken;
                self.tally.bad_count += 1;
            }
        }
        self.note_excess();
        let knows = |index: &usize| self.is_holder[*index] && !away.contains(index);
        if !(0..self.members.len()).any(|index| knows(&index)) {
            // Nobody is there who has what was flushed last, or knows that there is more.
            return Ok(false);
        }
        let array = ArrayDevice::open(self.config, boxed(&self.members, &self.plug));
        if self.is_dark() {
            return Ok(false);
        }
        let mut array = match array {
            Ok(array) => array,
            Err(_) if self.has_exceeded => {
                self.tally.refused_count += 1;
                return Ok(false);
            }
            Err(error) => return Err(format!("the array cannot be opened: {error}")),
        };
        for index in 0..self.members.len() {
            let state = array.member_state(index).expect("there is such a member");
            self.health[index] = match (state, self.health[index]) {
                _ if away.contains(&index) => Health::Broken,
                (MemberState::Healthy, _) => Health::Good,
                (_, Health::Good) if !self.has_exceeded => {
                    return Err(format!("member {index} is {state:?} without a reason"));
                }
                (MemberState::Rebuilding, _) => Health::Behind,
                (MemberState::Failed, _) => Health::Broken,
            };
        }
        array.audit();
        array.reset_counters();
        self.array = Some(array);
        Ok(true)
    }
}

fn boxed(members: &[Member], plug: &SharedPlug) -> Vec<MemberDevice> {
    let plugged = |member: &Member| Plugged { member: member.clone(), plug: plug.clone() };
    members.iter().map(|member| Box::new(plugged(member)) as MemberDevice).collect()
}

fn cut(member: &Member, unflushed: UnflushedFate, seed: u64) {
    let mut device = member.lock();
    if device.is_powered() {
        device.set_plan(FaultPlan { unflushed, seed, ..FaultPlan::default() });
        device.cut_power();
    }
}

/// What `round` writes to `sector`, all along it, so that no other mixture looks so.
fn content(sector: u64, round: u32) -> Vec<u8> {
    if round == 0 {
        return vec![0; SECTOR];
    }
    let word = (u64::from(round) << 32 | (sector + 1)).to_le_bytes();
    word.repeat(SECTOR / word.len())
}

/// Which round wrote `bytes` to `sector`, if one did.
fn round_of(sector: u64, bytes: &[u8]) -> Option<u32> {
    let word = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    let round = to_u32(word >> 32);
    (bytes == content(sector, round)).then_some(round)
}
