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
