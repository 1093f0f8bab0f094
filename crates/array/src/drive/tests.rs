//! The contract over every kind of layout, and what happens when members fail, lie or forget.

use super::*;
use crate::StandardLayout;
use nandu_device::faulty::{FaultPlan, UnflushedFate};
use nandu_device::{FaultyDevice, MemoryConfig, MemoryDevice, SharedDevice};
use std::collections::BTreeMap;

mod adaptive;
mod cuts;
mod rebuilding;
mod silence;

const SECTOR: usize = 512;
const MEMBER_SECTORS: u64 = 600;
/// What a member is asked when an array is made: its two records, a new one, a flush.
const CREATION_REQUESTS: u64 = 4;

fn config(n: u8, m: u8, f: u8, fragment_sector_count: u32) -> ArrayConfig {
    ArrayConfig {
        layout: Layout::new(n, m, f).unwrap(),
        fragment_sector_count,
        write_return: WriteReturn::All,
        queue_depth_max: 32,
        member_error_count_max: 3,
        member_timeout: Some(Nanos::from_millis(50)),
        keeps_data: true,
    }
}

fn memory() -> MemoryDevice {
    let geometry = Geometry::new(512, MEMBER_SECTORS).unwrap();
    MemoryDevice::new(MemoryConfig { geometry, queue_depth_max: 4, ..MemoryConfig::default() })
}

fn blank(count: u8) -> Vec<MemberDevice> {
    (0..count).map(|_| Box::new(memory()) as MemberDevice).collect()
}

/// An array whose member `index` follows `plan`.
fn with_faults(config: ArrayConfig, index: usize, plan: FaultPlan) -> ArrayDevice {
    let mut members = blank(config.layout.member_count());
    members[index] = Box::new(FaultyDevice::new(memory(), plan));
    ArrayDevice::create(config, members).unwrap()
}

fn run(device: &mut ArrayDevice, request: Request) -> Completion {
    device.submit(device.now(), request).unwrap();
    device.next_completion(Nanos::MAX).unwrap()
}

fn content(sector: u64, round: u8) -> Vec<u8> {
    let mut rng = nandu_base::Rng::new(sector << 8 | u64::from(round));
    let mut bytes = vec![0; SECTOR];
    rng.fill(&mut bytes);
    bytes
}

fn write(device: &mut ArrayDevice, first: u64, count: u32, round: u8) -> Result<(), DeviceError> {
    let bytes: Vec<u8> =
        (first..first + u64::from(count)).flat_map(|sector| content(sector, round)).collect();
    run(device, Request::write(1, first, count, Some(IoBuffer::copy_of(&bytes)))).result
}

fn read(device: &mut ArrayDevice, first: u64, count: u32) -> Result<Vec<u8>, DeviceError> {
    let buffer = IoBuffer::zeroed(count as usize * SECTOR);
    let done = run(device, Request::read(2, first, count, Some(buffer)));
    done.result.map(|()| done.buffer.unwrap().to_vec())
}

fn fill(device: &mut ArrayDevice, round: u8) {
    for first in (0..device.info().geometry.sector_count).step_by(8) {
        let left = device.info().geometry.sector_count - first;
        write(device, first, to_u32(left.min(8)), round).unwrap();
    }
}

fn assert_filled(device: &mut ArrayDevice, round: u8) {
    for sector in 0..device.info().geometry.sector_count {
        assert!(read(device, sector, 1).unwrap() == content(sector, round), "sector {sector}");
    }
    settle(device);
    device.audit();
}

/// Idles until all repairs are done.
fn settle(device: &mut ArrayDevice) {
    for _ in 0..1000 {
        device.idle_until(device.now() + Nanos::from_millis(10));
        if device.repair_count() == 0 {
            return;
        }
    }
    panic!("repairs do not end");
}

#[test]
fn arrays_of_every_kind_keep_the_contract() {
    for (n, m, f, fragment) in
        [(4, 1, 1, 8), (4, 4, 4, 1), (4, 1, 2, 8), (4, 3, 4, 2), (5, 2, 4, 3), (3, 2, 2, 4)]
    {
        for write_return in [WriteReturn::Needed, WriteReturn::All] {
            let config = ArrayConfig { write_return, ..config(n, m, f, fragment) };
            nandu_device::testing::check_contract(&mut || {
                Box::new(ArrayDevice::create(config, blank(n)).unwrap())
            });
            nandu_device::testing::check_contract(&mut || {
                let members = ArrayDevice::create(config, blank(n)).unwrap().into_members();
                Box::new(ArrayDevice::open(config, members).unwrap())
            });
        }
    }
}

#[test]
fn any_failures_that_the_code_bears_are_masked_and_one_more_is_named() {
    for (n, m, f) in [(4, 3, 4), (4, 1, 2), (5, 3, 5), (4, 2, 4)] {
        let layout = Layout::new(n, m, f).unwrap();
        let spare = usize::from(layout.spare_count());
        for first in 0..usize::from(n) {
            let mut device = ArrayDevice::create(config(n, m, f, 2), blank(n)).unwrap();
            fill(&mut device, 1);
            for index in 0..spare {
                device.fail_member((first + index) % usize::from(n));
            }
            assert_filled(&mut device, 1);
            fill(&mut device, 2);
            assert_filled(&mut device, 2);
            (0..usize::from(n)).for_each(|index| device.fail_member(index));
            let error = read(&mut device, 5, 1).unwrap_err();
            let start = 5 / data_sectors(&device.config) * data_sectors(&device.config);
            assert!(error.to_string().contains(&format!("sectors {start} to")), "{error}");
            assert!(write(&mut device, 5, 1, 3).is_err());
            assert!(run(&mut device, Request::flush(1)).result.is_err());
        }
    }
}

#[test]
fn two_failures_of_a_parity_array_lose_ranges_that_the_error_names() {
    let mut device = ArrayDevice::create(config(4, 3, 4, 2), blank(4)).unwrap();
    fill(&mut device, 1);
    device.fail_member(1);
    device.fail_member(2);
    // Stripe 4 is sectors 24 to 29; row 4 starts on member 0, so members 1 and 2 hold data 1 and 2.
    assert_eq!(read(&mut device, 24, 1).unwrap(), content(24, 1), "a fragment that is left");
    let error = read(&mut device, 26, 1).unwrap_err().to_string();
    assert!(error.contains("sectors 24 to 29 are lost"), "{error}");
    assert!(error.contains("restore members 1, 2"), "{error}");
}

#[test]
fn a_fragment_with_a_flipped_byte_counts_as_lost_and_is_repaired() {
    for (m, f) in [(3, 4), (1, 2)] {
        let config = config(4, m, f, 2);
        let mut members: Vec<MemoryDevice> = (0..4).map(|_| memory()).collect();
        let boxed = |members: Vec<MemoryDevice>| -> Vec<MemberDevice> {
            members.into_iter().map(|member| Box::new(member) as MemberDevice).collect()
        };
        // A stand-in that is written alike, and whose first member is then damaged.
        let mut recorded = ArrayDevice::create(config, blank(4)).unwrap();
        fill(&mut recorded, 1);
        let mut contents = recorded.into_members();
        for (member, content) in members.iter_mut().zip(&mut contents) {
            copy(content.as_mut(), member);
        }
        for sector in (0..MEMBER_SECTORS).step_by(3) {
            let mut bytes = vec![0; SECTOR];
            nandu_device::Inspect::peek(
                &members[0],
                nandu_base::SectorIndex(sector + 1),
                &mut bytes,
            );
            bytes[17] ^= 4;
            nandu_device::Inspect::poke(
                &mut members[0],
                nandu_base::SectorIndex(sector + 1),
                &bytes,
            );
        }
        let mut device = ArrayDevice::open(config, boxed(members)).unwrap();
        assert_filled(&mut device, 1);
        for index in 1..=usize::from(f - m) {
            device.fail_member(index);
        }
        assert_filled(&mut device, 1);
        assert_eq!(device.lost_stripe_count(), 0);
    }
}

fn copy(from: &mut dyn Device, to: &mut MemoryDevice) {
    for sector in 0..MEMBER_SECTORS {
        let request = Request::read(sector, sector, 1, Some(IoBuffer::zeroed(SECTOR)));
        from.submit(from.now(), request).unwrap();
        let bytes = from.next_completion(Nanos::MAX).unwrap().buffer.unwrap();
        nandu_device::Inspect::poke(to, nandu_base::SectorIndex(sector), &bytes);
    }
}

#[test]
fn a_replaced_member_is_rebuilt_beside_requests() {
    for (m, f) in [(3, 4), (1, 2), (2, 3)] {
        let mut device = ArrayDevice::create(config(4, m, f, 2), blank(4)).unwrap();
        fill(&mut device, 1);
        device.fail_member(2);
        write(&mut device, 3, 2, 2).unwrap();
        device.replace_member(2, Box::new(memory())).unwrap();
        assert_eq!(device.member_state(2), Some(MemberState::Rebuilding));
        // Requests go on, and are right, while it is rebuilt.
        for sector in 10..40 {
            write(&mut device, sector, 1, 3).unwrap();
            assert_eq!(read(&mut device, sector, 1).unwrap(), content(sector, 3));
        }
        settle(&mut device);
        assert_eq!(device.member_state(2), Some(MemberState::Healthy));
        let spare = usize::from(f - m);
        (0..spare).for_each(|index| device.fail_member([0, 1, 3][index]));
        assert_eq!(read(&mut device, 3, 1).unwrap(), content(3, 2));
        assert_eq!(read(&mut device, 39, 1).unwrap(), content(39, 3));
        assert_eq!(read(&mut device, 50, 1).unwrap(), content(50, 1));
    }
}

#[test]
fn media_errors_are_borne_and_a_member_with_many_is_left_alone() {
    let fail_requests = [3, 9, 14].map(|number| CREATION_REQUESTS + number).into();
    let plan = FaultPlan { fail_requests, ..FaultPlan::default() };
    let mut device = with_faults(config(4, 3, 4, 2), 1, plan);
    fill(&mut device, 1);
    settle(&mut device);
    assert_eq!(device.member_state(1), Some(MemberState::Healthy));
    assert_filled(&mut device, 1);
    let plan = FaultPlan { fail_requests: (5..100).collect(), ..FaultPlan::default() };
    let mut device = with_faults(config(4, 3, 4, 2), 1, plan);
    fill(&mut device, 1);
    assert_eq!(device.member_state(1), Some(MemberState::Failed));
    assert_filled(&mut device, 1);
}

#[test]
fn a_member_without_power_is_masked() {
    for at in [1, 4, 30, 77] {
        let plan = FaultPlan {
            power_cut_at_request: Some(at),
            torn_sector_count: Some(1),
            unflushed: UnflushedFate::Torn,
            seed: at,
            ..FaultPlan::default()
        };
        let mut device = with_faults(config(4, 2, 3, 2), 3, plan);
        fill(&mut device, 1);
        assert_eq!(device.member_state(3), Some(MemberState::Failed));
        assert_filled(&mut device, 1);
    }
}

#[test]
fn an_opened_array_finds_the_newest_version_on_any_m_members() {
    for (m, f) in [(3, 4), (1, 3), (2, 4)] {
        let config = config(4, m, f, 2);
        let mut device = ArrayDevice::create(config, blank(4)).unwrap();
        fill(&mut device, 1);
        // Member 0 misses the second round and comes back stale.
        device.fail_member(0);
        fill(&mut device, 2);
        settle(&mut device);
        let mut device = ArrayDevice::open(config, device.into_members()).unwrap();
        assert_filled(&mut device, 2);
        // What was stale was repaired as it was read.
        (1..=usize::from(f - m)).for_each(|index| device.fail_member(index));
        assert_filled(&mut device, 2);
    }
}

#[test]
fn one_of_twenty_that_missed_a_flush_is_rebuilt_when_they_are_opened() {
    let config = config(20, 18, 20, 2);
    let mut device = ArrayDevice::create(config, blank(20)).unwrap();
    fill(&mut device, 1);
    device.fail_member(18);
    fill(&mut device, 2);
    run(&mut device, Request::flush(1)).result.unwrap();
    let mut device = ArrayDevice::open(config, device.into_members()).unwrap();
    let states = (0..20).map(|index| device.member_state(index).unwrap());
    let rebuilding = states.enumerate().filter(|(_, state)| *state != MemberState::Healthy);
    assert_eq!(rebuilding.collect::<Vec<_>>(), [(18, MemberState::Rebuilding)]);
    assert_filled(&mut device, 2);
    [0, 19].into_iter().for_each(|index| device.fail_member(index));
    assert_filled(&mut device, 2);
}

#[test]
fn after_a_power_cut_flushed_sectors_are_there_and_no_sector_is_neither_old_nor_new() {
    let fates = [UnflushedFate::Dropped, UnflushedFate::Kept, UnflushedFate::Torn];
    for (fate, seed) in fates.into_iter().cycle().zip(0..24_u64) {
        let (m, f) = [(1, 2), (3, 4), (4, 4), (2, 4)][to_index(seed % 4)];
        let write_return = [WriteReturn::Needed, WriteReturn::All][to_index(seed / 4 % 2)];
        let config = ArrayConfig { write_return, ..config(4, m, f, 2) };
        let plan =
            |member| FaultPlan { unflushed: fate, seed: seed * 4 + member, ..FaultPlan::default() };
        let device = |member| SharedDevice::new(FaultyDevice::new(memory(), plan(member)));
        let devices: Vec<_> = (0..4).map(device).collect();
        let members = || -> Vec<MemberDevice> {
            devices.iter().map(|device| Box::new(device.clone()) as MemberDevice).collect()
        };
        let mut array = ArrayDevice::create(config, members()).unwrap();
        fill(&mut array, 1);
        run(&mut array, Request::flush(1)).result.unwrap();
        // Some writes complete, some are in flight when the power goes.
        for (id, sector) in (0..20).zip((0..).step_by(3)) {
            let buffer = Some(IoBuffer::copy_of(&content(sector, 2)));
            array.submit(array.now(), Request::write(id, sector, 1, buffer)).unwrap();
        }
        for _ in 0..seed % 20 {
            array.next_completion(Nanos::MAX).unwrap().result.unwrap();
        }
        for device in &devices {
            device.lock().cut_power();
        }
        drop(array);
        for device in &devices {
            device.forget_completions();
            device.lock().power_on();
        }
        let mut array = ArrayDevice::open(config, members()).unwrap();
        for sector in 0..array.info().geometry.sector_count {
            let stripe = sector / data_sectors(&config);
            let is_rewritten = stripe <= 57 / data_sectors(&config);
            match read(&mut array, sector, 1) {
                Ok(bytes) => {
                    let is_new = is_rewritten && sector % 3 == 0 && bytes == content(sector, 2);
                    assert!(is_new || bytes == content(sector, 1), "seed {seed}, {sector}");
                }
                Err(error) => {
                    // The write hole: only where sectors of unflushed writes were torn apart.
                    assert!(is_rewritten && fate == UnflushedFate::Torn, "seed {seed}: {error}");
                }
            }
        }
    }
}

#[test]
fn neighbours_in_one_stripe_do_not_undo_each_other() {
    for write_return in [WriteReturn::Needed, WriteReturn::All] {
        let config = ArrayConfig { write_return, ..config(4, 3, 4, 4) };
        let mut device = ArrayDevice::create(config, blank(4)).unwrap();
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut rng = nandu_base::Rng::new(3);
        for round in 0..60 {
            // Different sectors, all in flight at once.
            let mut sectors: Vec<u64> = (0..36).collect();
            rng.shuffle(&mut sectors);
            for (&sector, id) in sectors[..20].iter().zip(0..) {
                let bytes = content(sector, round);
                let buffer = Some(IoBuffer::copy_of(&bytes));
                device.submit(device.now(), Request::write(id, sector, 1, buffer)).unwrap();
                model.insert(sector, bytes);
            }
            while let Some(done) = device.next_completion(Nanos::MAX) {
                done.result.unwrap();
            }
        }
        for (sector, bytes) in model {
            assert_eq!(read(&mut device, sector, 1).unwrap(), bytes, "sector {sector}");
        }
        settle(&mut device);
        device.audit();
    }
}

#[test]
fn a_write_that_returns_early_takes_less_time() {
    let latency = |write_return| {
        let config = ArrayConfig { write_return, ..config(2, 1, 2, 8) };
        let slow = MemoryConfig { access_ns: Nanos::from_millis(1), ..MemoryConfig::default() };
        let members: Vec<MemberDevice> = vec![
            Box::new(MemoryDevice::new(MemoryConfig::default())),
            Box::new(MemoryDevice::new(slow)),
        ];
        let mut device = ArrayDevice::create(config, members).unwrap();
        run(&mut device, Request::write(1, 0, 8, None)).latency()
    };
    assert!(latency(WriteReturn::Needed) < Nanos::from_micros(20));
    assert!(latency(WriteReturn::All) > Nanos::from_millis(1));
}

#[test]
fn reads_spread_over_replicas_and_stripes() {
    let elapsed = |layout: StandardLayout| {
        let layout = layout.on(4).unwrap();
        let config = ArrayConfig { layout, ..config(4, 1, 1, 8) };
        let one = MemoryConfig { server_count: 1, ..MemoryConfig::default() };
        let members = (0..4).map(|_| Box::new(MemoryDevice::new(one.clone())) as MemberDevice);
        let mut device = ArrayDevice::create(config, members.collect()).unwrap();
        let begin = device.now();
        for id in 0..16 {
            device.submit(begin, Request::read(id, 0, 8, None)).unwrap();
        }
        while device.next_completion(Nanos::MAX).is_some() {}
        device.now() - begin
    };
    let (one, two) = (elapsed(StandardLayout::OneCopy), elapsed(StandardLayout::Replication));
    assert_eq!(one.0, 2 * two.0, "a second copy halves the queue of a hot block");
}

#[test]
fn without_data_an_array_takes_the_same_time_and_masks_failures() {
    let run_all = |keeps_data| {
        let config = ArrayConfig { keeps_data, ..config(4, 3, 4, 4) };
        let mut device = ArrayDevice::create(config, blank(4)).unwrap();
        let mut rng = nandu_base::Rng::new(5);
        for id in 0..300 {
            let (first, count) = (rng.below(200), to_u32(1 + rng.below(30)));
            let request = match rng.below(3) {
                0 => Request::write(id, first, count, None),
                _ => Request::read(id, first, count, None),
            };
            run(&mut device, request).result.unwrap();
            if id == 150 {
                device.fail_member(1);
            }
        }
        device.audit();
        device.now()
    };
    assert_eq!(run_all(true), run_all(false));
}

#[test]
fn an_array_has_the_size_that_its_members_were_made_for() {
    for layout in Layout::all(5) {
        let config = ArrayConfig { layout, ..config(5, 1, 1, 3) };
        for sector_count in [1, 100, 1000, 12_345] {
            let members = config.member_sector_count_for(sector_count);
            let stripe = data_sectors(&config);
            let least = (sector_count / stripe).max(1) * stripe;
            let sectors = config.sector_count_over(members);
            assert!(sectors >= least && sectors < least + 5 * stripe, "{layout:?}");
        }
    }
}

#[test]
fn members_that_do_not_fit_are_refused() {
    assert!(ArrayDevice::create(config(4, 1, 1, 1), blank(3)).is_err());
    assert!(ArrayDevice::create(config(4, 1, 1, 0), blank(4)).is_err());
    assert!(ArrayDevice::create(config(4, 1, 1, 600), blank(4)).is_err());
    let mut device = ArrayDevice::create(config(4, 1, 2, 8), blank(4)).unwrap();
    let small = MemoryDevice::try_from((512, 10)).unwrap();
    assert!(device.replace_member(0, Box::new(small)).is_err());
    assert!(device.replace_member(9, Box::new(memory())).is_err());
}
