//! Who is taken for current after the power went: a member that is being rebuilt only when all is on
//! it, and those that were away when nobody could go on without them.

use super::*;

type Member = SharedDevice<FaultyDevice<MemoryDevice>>;

/// Ten slots of two sectors and their heads, and the records.
const SMALL_SECTORS: u64 = 32;

fn member(plan: FaultPlan) -> Member {
    let geometry = Geometry::new(512, SMALL_SECTORS).unwrap();
    let config = MemoryConfig { geometry, queue_depth_max: 4, ..MemoryConfig::default() };
    SharedDevice::new(FaultyDevice::new(MemoryDevice::new(config), plan))
}

fn boxed(members: &[Member]) -> Vec<MemberDevice> {
    members.iter().map(|member| Box::new(member.clone()) as MemberDevice).collect()
}

/// The power of all goes, and comes back for those that are not `away`.
fn restart(members: &[Member], away: &[usize]) {
    for (index, member) in members.iter().enumerate() {
        let mut device = member.lock();
        if device.is_powered() {
            device.cut_power();
        }
        device.set_plan(FaultPlan::default());
        if !away.contains(&index) {
            device.power_on();
        }
        drop(device);
        member.forget_completions();
    }
}

fn filled_and_flushed(config: ArrayConfig, members: &[Member]) -> ArrayDevice {
    let mut array = ArrayDevice::create(config, boxed(members)).unwrap();
    fill(&mut array, 1);
    run(&mut array, Request::flush(1)).result.unwrap();
    array
}

/// A mirror whose second member is replaced and loses its power at its request `at`, when any of its
/// sectors that it did not flush are lost; then the first one is gone. Whether all was there.
fn second_alone_after(at: u64, seed: u64) -> bool {
    let config = config(2, 1, 2, 2);
    let mut members = vec![member(FaultPlan::default()), member(FaultPlan::default())];
    let mut array = filled_and_flushed(config, &members);
    array.fail_member(1);
    let plan = FaultPlan {
        power_cut_at_request: Some(at),
        unflushed: UnflushedFate::Torn,
        seed,
        ..FaultPlan::default()
    };
    members[1] = member(plan);
    array.replace_member(1, Box::new(members[1].clone())).unwrap();
    settle(&mut array);
    array.idle_until(array.now() + Nanos::from_millis(10));
    let sector_count = array.info().geometry.sector_count;
    drop(array);
    restart(&members, &[0]);
    let Ok(mut array) = ArrayDevice::open(config, boxed(&members)) else { return false };
    let mut read_count = 0;
    for sector in 0..sector_count {
        if let Ok(bytes) = read(&mut array, sector, 1) {
            assert!(bytes == content(sector, 1), "cut at {at}, seed {seed}: sector {sector}");
            read_count += 1;
        }
    }
    read_count == sector_count
}

#[test]
fn a_member_is_not_recorded_as_current_before_what_was_rebuilt_is_durable() {
    let runs = (1..60).flat_map(|at| (0..6).map(move |seed| (at, seed)));
    let (whole, not): (Vec<_>, Vec<_>) = runs.partition(|&(at, seed)| second_alone_after(at, seed));
    assert!(whole.len() > 60, "in the end all is there: {}", whole.len());
    assert!(not.len() > 60, "before that it is not: {}", not.len());
}

#[test]
fn members_that_were_away_are_current_where_the_others_were_too_few_to_go_on() {
    for (n, m, f) in [(3, 2, 3), (4, 3, 4), (4, 2, 4), (2, 2, 2)] {
        let config = config(n, m, f, 2);
        let members: Vec<Member> = (0..n).map(|_| member(FaultPlan::default())).collect();
        drop(filled_and_flushed(config, &members));
        let too_many: Vec<usize> = (0..=usize::from(config.layout.spare_count())).collect();
        restart(&members, &too_many);
        let mut array = ArrayDevice::open(config, boxed(&members)).unwrap();
        assert!(read(&mut array, 0, 1).is_err(), "too few are left");
        assert!(run(&mut array, Request::flush(1)).result.is_err(), "and none is answered");
        drop(array);
        restart(&members, &[]);
        let mut array = ArrayDevice::open(config, boxed(&members)).unwrap();
        for index in 0..usize::from(n) {
            assert_eq!(array.member_state(index), Some(MemberState::Healthy), "m{m}w{f} {index}");
        }
        assert_filled(&mut array, 1);
    }
}

/// Answers flushes a millisecond late.
struct SlowFlushes {
    inner: Member,
    flushes: std::collections::BTreeSet<u64>,
    late: Option<Completion>,
}

impl Device for SlowFlushes {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn now(&self) -> Nanos {
        self.inner.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if request.operation == Operation::Flush {
            self.flushes.insert(request.id);
        }
        self.inner.submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            let late_at = self.late.as_ref().map_or(until, |late| late.completed_at.min(until));
            let Some(mut done) = self.inner.next_completion(late_at) else {
                return self.late.take_if(|late| late.completed_at <= until);
            };
            if !self.flushes.remove(&done.id) {
                return Some(done);
            }
            done.completed_at += Nanos::from_millis(1);
            assert!(self.late.replace(done).is_none(), "the array flushes once at a time");
        }
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight() + u32::from(self.late.is_some())
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

/// Overwrites a sector of a member that has nothing to do, durably.
fn damage(member: &mut Member, sector: u64) {
    let bytes = Some(IoBuffer::copy_of(&[0xAB; SECTOR]));
    for request in [Request::write(0, sector, 1, bytes), Request::flush(0)] {
        member.submit(member.now(), request).unwrap();
        member.next_completion(Nanos::MAX).unwrap().result.unwrap();
    }
}

/// A mirror whose second member was replaced and rebuilt. While the flush that is to make it current
/// is under way, a fragment on it goes bad and is repaired; then it loses its power at its request `at`,
/// and the first one is gone. Gives how many sectors are left, of how many.
fn second_alone_after_a_late_repair(at: u64, seed: u64) -> (u64, u64) {
    let config = config(2, 1, 2, 2);
    let mut members = vec![member(FaultPlan::default()), member(FaultPlan::default())];
    let flushes = std::collections::BTreeSet::new();
    let slow = SlowFlushes { inner: members[0].clone(), flushes, late: None };
    let both: Vec<MemberDevice> = vec![Box::new(slow), Box::new(members[1].clone())];
    let mut array = ArrayDevice::create(config, both).unwrap();
    fill(&mut array, 1);
    run(&mut array, Request::flush(1)).result.unwrap();
    array.fail_member(1);
    members[1] = member(FaultPlan::default());
    array.replace_member(1, Box::new(members[1].clone())).unwrap();
    while array.flushes.is_empty() || members[1].in_flight() > 0 {
        array.idle_until(array.now() + Nanos::from_micros(20));
    }
    assert!(array.repairs.is_empty() && members[0].in_flight() == 0, "the first one flushes late");
    damage(&mut members[1], 1);
    let plan = FaultPlan {
        power_cut_at_request: Some(members[1].lock().submitted_count() + at),
        unflushed: UnflushedFate::Torn,
        seed,
        ..FaultPlan::default()
    };
    members[1].lock().set_plan(plan);
    array.scrub();
    settle(&mut array);
    let sector_count = array.info().geometry.sector_count;
    drop(array);
    restart(&members, &[0]);
    let Ok(mut array) = ArrayDevice::open(config, boxed(&members)) else {
        return (0, sector_count);
    };
    let is_left = |sector: &u64| match read(&mut array, *sector, 1) {
        Ok(bytes) => {
            assert!(bytes == content(*sector, 1), "cut at {at}, seed {seed}: sector {sector}");
            true
        }
        Err(_) => false,
    };
    ((0..sector_count).filter(is_left).count() as u64, sector_count)
}

#[test]
fn a_member_is_not_recorded_as_current_before_what_was_repaired_last_is_durable() {
    let (mut none_count, mut all_count) = (0, 0);
    for (at, seed) in (1..30).flat_map(|at| (0..12).map(move |seed| (at, seed))) {
        let (left, all) = second_alone_after_a_late_repair(at, seed);
        assert!(left == 0 || left == all, "cut at {at}, seed {seed}: {left} of {all} are left");
        none_count += u32::from(left == 0);
        all_count += u32::from(left == all);
    }
    assert!(none_count > 60 && all_count > 60, "{none_count} before it, {all_count} after it");
}
