//! Extents that change their layout beside requests: no sector is lost, none is stale.

use super::*;
use crate::{AdaptiveConfig, MemberTimes};
use nandu_base::Rng;
use proptest::prelude::*;

const STRIPE_SECTORS: u32 = 8;
const EXTENT_STRIPES: u32 = 4;

/// Two objects, the first of two extents, on four members with all layouts.
fn adaptive() -> AdaptiveConfig {
    AdaptiveConfig {
        layouts: Layout::all(4).collect(),
        stripe_sector_count: STRIPE_SECTORS,
        extent_stripe_count: EXTENT_STRIPES,
        object_sector_counts: vec![64, 64],
        // Layouts change when the tests say so.
        observe: Nanos::from_seconds(1_000_000),
        gain_ppm: 10_000,
        migration_bytes_per_second: 20_000_000,
        member_times: MemberTimes {
            read_ns: Nanos::from_micros(10),
            read_sector_ns: Nanos(512),
            read_unit_sectors: 1,
            write_ns: Nanos::from_micros(10),
            write_sector_ns: Nanos(512),
        },
    }
}

fn device(m: u8, f: u8) -> ArrayDevice {
    ArrayDevice::create_adaptive(config(4, m, f, 1), adaptive(), blank(4)).unwrap()
}

/// Idles until nothing migrates.
fn settle_migration(device: &mut ArrayDevice) {
    for _ in 0..10_000 {
        if device.migration.is_none() && device.wanted_places.is_empty() {
            return;
        }
        device.idle_until(device.now() + Nanos::from_millis(1));
    }
    panic!("migration does not end");
}

#[test]
fn an_adaptive_array_keeps_the_contract_also_while_it_migrates() {
    for (m, f) in [(1, 1), (3, 4), (4, 4)] {
        nandu_device::testing::check_contract(&mut || Box::new(device(m, f)));
        nandu_device::testing::check_contract(&mut || {
            let mut device = device(m, f);
            device.set_layout(0, Layout::new(4, 2, 3).unwrap()).unwrap();
            device.set_layout(1, Layout::new(4, 1, 2).unwrap()).unwrap();
            Box::new(device)
        });
    }
}

#[test]
fn an_object_moves_through_all_layouts_with_its_data() {
    let mut device = device(1, 1);
    fill(&mut device, 1);
    for layout in Layout::all(4) {
        device.set_layout(0, layout).unwrap();
        settle_migration(&mut device);
        let layouts: Vec<Layout> = device.layouts().collect();
        assert_eq!(layouts[..2], [layout; 2]);
        assert_eq!(layouts[2..4], [Layout::new(4, 1, 1).unwrap(); 2], "of the other object");
        assert_filled(&mut device, 1);
    }
}

#[test]
fn a_moved_object_bears_the_failures_of_its_new_layout() {
    let mut device = device(1, 1);
    fill(&mut device, 1);
    device.set_layout(0, Layout::new(4, 2, 4).unwrap()).unwrap();
    settle_migration(&mut device);
    device.fail_member(0);
    device.fail_member(2);
    for sector in 0..64 {
        assert_eq!(read(&mut device, sector, 1).unwrap(), content(sector, 1));
    }
    let lost = (64..128).filter(|sector| read(&mut device, *sector, 1).is_err()).count();
    assert_eq!(lost, 32, "half of what lies in one copy");
}

#[test]
fn migration_keeps_to_its_bandwidth() {
    let mut device = device(1, 1);
    fill(&mut device, 1);
    device.set_layout(0, Layout::new(4, 4, 4).unwrap()).unwrap();
    let begin = device.now();
    settle_migration(&mut device);
    let bytes = device.migrated_stripe_count() * u64::from(STRIPE_SECTORS) * 512;
    assert_eq!(bytes, 64 * 512, "each sector once, as nothing was written meanwhile");
    let least = Nanos::of_transfer(bytes, 20_000_000);
    let taken = device.now() - begin;
    assert!(taken.0 > least.0 * 3 / 4, "{taken} for {least}");
}

#[test]
fn an_extent_that_is_written_all_the_time_migrates_all_the_same() {
    let mut device = device(1, 1);
    fill(&mut device, 1);
    device.set_layout(0, Layout::new(4, 1, 2).unwrap()).unwrap();
    let mut rng = Rng::new(8);
    let mut model = BTreeMap::new();
    for round in 2..40_u8 {
        for _ in 0..20 {
            let sector = rng.below(64);
            write(&mut device, sector, 1, round).unwrap();
            model.insert(sector, round);
        }
    }
    assert!(device.layouts().take(2).all(|layout| layout == Layout::new(4, 1, 2).unwrap()));
    for sector in 0..64 {
        let round = model.get(&sector).copied().unwrap_or(1);
        assert_eq!(read(&mut device, sector, 1).unwrap(), content(sector, round));
    }
}

#[test]
fn a_stripe_that_cannot_be_read_ends_its_migration_and_nothing_else() {
    let mut device = device(1, 1);
    fill(&mut device, 1);
    device.fail_member(1);
    device.set_layout(0, Layout::new(4, 1, 2).unwrap()).unwrap();
    settle_migration(&mut device);
    assert!(device.layouts().all(|layout| layout == Layout::new(4, 1, 1).unwrap()));
    let readable = (0..128).filter(|sector| read(&mut device, *sector, 1).is_ok()).count();
    assert_eq!(readable, 96, "all but what the failed member holds");
    device.audit();
}

#[test]
fn what_cannot_be_adaptive_is_refused() {
    let make =
        |adaptive| ArrayDevice::create_adaptive(config(4, 1, 1, 1), adaptive, blank(4)).map(|_| ());
    assert!(make(adaptive()).is_ok());
    for wrong in [
        AdaptiveConfig { layouts: Layout::all(3).collect(), ..adaptive() },
        AdaptiveConfig { layouts: Vec::new(), ..adaptive() },
        AdaptiveConfig { object_sector_counts: vec![33], ..adaptive() },
        AdaptiveConfig { object_sector_counts: vec![1 << 40], ..adaptive() },
        AdaptiveConfig { extent_stripe_count: 4096, ..adaptive() },
        AdaptiveConfig { observe: Nanos::ZERO, ..adaptive() },
    ] {
        assert!(make(wrong).is_err());
    }
    let mut fixed = ArrayDevice::create(config(4, 1, 1, 1), blank(4)).unwrap();
    assert!(fixed.set_layout(0, Layout::new(4, 1, 1).unwrap()).is_err());
}

#[test]
fn members_of_an_array_that_followed_the_load_are_refused_and_never_read_as_old_data() {
    for has_moved in [false, true] {
        let mut device = device(1, 1);
        fill(&mut device, 1);
        if has_moved {
            device.set_layout(0, Layout::new(4, 1, 2).unwrap()).unwrap();
            settle_migration(&mut device);
            fill(&mut device, 2);
        }
        device.replace_member(0, Box::new(memory())).unwrap();
        settle(&mut device);
        let mut members = device.into_members();
        // Any one of them is enough to know.
        for _ in 0..4 {
            let one = members.remove(0);
            let mut some = blank(3);
            some.insert(1, one);
            let error = ArrayDevice::open(config(4, 1, 1, 8), some).err().unwrap().to_string();
            assert!(error.contains("number 1, of an array that followed the load"), "{error}");
        }
    }
}

#[test]
fn an_array_that_follows_the_load_is_not_made_over_a_member_that_takes_no_record() {
    let mut members = blank(4);
    let plan = FaultPlan { fail_requests: vec![CREATION_REQUESTS], ..FaultPlan::default() };
    members[2] = Box::new(FaultyDevice::new(memory(), plan));
    assert!(ArrayDevice::create_adaptive(config(4, 1, 1, 1), adaptive(), members).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Write { first: u64, count: u32 },
    Read { first: u64, count: u32 },
    Trim { first: u64, count: u32 },
    Change { object: usize, layout: usize },
    Idle,
    Fail { member: usize },
    Replace { member: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0_u64..112, 1_u32..16);
    prop_oneof![
        6 => range.clone().prop_map(|(first, count)| Step::Write { first, count }),
        4 => range.clone().prop_map(|(first, count)| Step::Read { first, count }),
        1 => range.prop_map(|(first, count)| Step::Trim { first, count }),
        2 => (0_usize..2, 0_usize..8).prop_map(|(object, layout)| Step::Change { object, layout }),
        1 => Just(Step::Idle),
        1 => (0_usize..4).prop_map(|member| Step::Fail { member }),
        1 => (0_usize..4).prop_map(|member| Step::Replace { member }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Under layouts that bear one failure, with at most one member out at a time, an array is a
    /// plain map of sectors, whatever migrates and is rebuilt.
    #[test]
    fn an_adaptive_array_is_a_map_of_sectors(steps in prop::collection::vec(step(), 1..120)) {
        let bearing: Vec<Layout> =
            Layout::all(4).filter(|layout| layout.spare_count() > 0).collect();
        let mut device = device(1, 2);
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut out = None;
        for (step, round) in steps.into_iter().zip((1..=u8::MAX).cycle()) {
            match step {
                Step::Write { first, count } => {
                    write(&mut device, first, count, round).unwrap();
                    let sectors = first..first + u64::from(count);
                    model.extend(sectors.map(|sector| (sector, content(sector, round))));
                }
                Step::Read { first, count } => {
                    let sectors = first..first + u64::from(count);
                    let zeros = || vec![0; SECTOR];
                    let expected: Vec<u8> = sectors
                        .flat_map(|sector| model.get(&sector).cloned().unwrap_or_else(zeros))
                        .collect();
                    prop_assert!(read(&mut device, first, count).unwrap() == expected);
                }
                Step::Trim { first, count } => {
                    run(&mut device, Request::trim(1, first, count)).result.unwrap();
                    (first..first + u64::from(count)).for_each(|sector| {
                        model.remove(&sector);
                    });
                }
                Step::Change { object, layout } => {
                    device.set_layout(object, bearing[layout % bearing.len()]).unwrap();
                }
                Step::Idle => {
                    device.idle_until(device.now() + Nanos::from_micros(300));
                }
                Step::Fail { member } => {
                    if out.is_none() {
                        device.fail_member(member);
                        out = Some(member);
                    }
                }
                Step::Replace { member } => {
                    if out == Some(member) {
                        device.replace_member(member, Box::new(memory())).unwrap();
                        settle(&mut device);
                        out = None;
                    }
                }
            }
            device.audit();
        }
        for (sector, bytes) in model {
            prop_assert!(read(&mut device, sector, 1).unwrap() == bytes, "sector {}", sector);
        }
    }
}
