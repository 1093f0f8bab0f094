//! The power goes from all members at once, at every request that any of them is sent.
//!
//! A first run notes which member each request went to; a second run with the same times cuts each
//! member at its first request past the moment. So every point between two fragments of one write is
//! among them.

use super::*;
use std::sync::{Arc, Mutex};

/// Notes its number at each request.
struct Noting {
    inner: MemoryDevice,
    number: usize,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Device for Noting {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn now(&self) -> Nanos {
        self.inner.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        self.order.lock().unwrap().push(self.number);
        self.inner.submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.inner.next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

/// What a sector may hold: the last that was flushed, or anything written since.
type Possible = BTreeMap<u64, Vec<u8>>;

const SECTORS: u64 = 48;

/// Writes rounds 1 to 3 and flushes after the second; returns what each sector may hold and which
/// sectors' stripes were written since the flush.
fn work(device: &mut ArrayDevice) -> (Possible, Vec<(u64, u32)>) {
    let mut possible = Possible::new();
    let mut unflushed = Vec::new();
    for round in 1..=3_u8 {
        for (first, count) in [(0, 12), (13, 1), (18, 5), (31, 2), (3, 3)] {
            for sector in first..first + u64::from(count) {
                possible.entry(sector).or_insert_with(|| vec![0]).push(round);
            }
            unflushed.push((first, count));
            let _ = write(device, first, count, round);
        }
        if round == 2 && run(device, Request::flush(1)).result.is_ok() {
            for rounds in possible.values_mut() {
                *rounds = vec![*rounds.last().expect("it has the first round")];
            }
            unflushed.clear();
        }
    }
    (possible, unflushed)
}

fn order_of(config: ArrayConfig) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let noting = |number| -> MemberDevice {
        Box::new(Noting { inner: memory(), number, order: order.clone() })
    };
    let members = (0..usize::from(config.layout.member_count())).map(noting).collect();
    work(&mut ArrayDevice::create(config, members).unwrap());
    let order = order.lock().unwrap();
    order.clone()
}

fn expected(sector: u64, round: u8) -> Vec<u8> {
    if round == 0 { vec![0; SECTOR] } else { content(sector, round) }
}

/// Cuts at request `at` of `order`; returns how many sectors are reported as lost.
fn cut(config: ArrayConfig, order: &[usize], at: usize, fate: UnflushedFate) -> u64 {
    let member_count = usize::from(config.layout.member_count());
    let before = |member| order[..at].iter().filter(|other| **other == member).count() as u64;
    let devices: Vec<_> = (0..member_count)
        .map(|member| {
            let plan = FaultPlan {
                power_cut_at_request: Some(before(member) + 1),
                torn_sector_count: (fate == UnflushedFate::Torn).then_some(to_u32(at as u64 % 4)),
                unflushed: fate,
                seed: (at * member_count + member) as u64,
                ..FaultPlan::default()
            };
            SharedDevice::new(FaultyDevice::new(memory(), plan))
        })
        .collect();
    let members = || -> Vec<MemberDevice> {
        devices.iter().map(|device| Box::new(device.clone()) as MemberDevice).collect()
    };
    let mut array = ArrayDevice::create(config, members()).unwrap();
    let (possible, unflushed) = work(&mut array);
    drop(array);
    for device in &devices {
        device.lock().cut_power();
        device.forget_completions();
        device.lock().power_on();
        device.lock().set_plan(FaultPlan::default());
    }
    let mut array = ArrayDevice::open(config, members()).unwrap();
    let stripe_sectors = data_sectors(&config);
    let stripe_of = |sector: u64| sector / stripe_sectors;
    let mut lost_count = 0;
    for sector in 0..SECTORS {
        match read(&mut array, sector, 1) {
            Ok(bytes) => {
                let rounds = possible.get(&sector).map_or(&[0][..], Vec::as_slice);
                let is_possible = rounds.iter().any(|round| bytes == expected(sector, *round));
                assert!(is_possible, "cut at {at}, sector {sector}: neither old nor new");
            }
            Err(error) => {
                let is_touched = unflushed.iter().any(|(first, count)| {
                    (stripe_of(*first)..=stripe_of(first + u64::from(*count) - 1))
                        .contains(&stripe_of(sector))
                });
                assert!(is_touched, "cut at {at}, sector {sector} was flushed: {error}");
                assert!(error.to_string().contains("are lost"), "{error}");
                lost_count += 1;
            }
        }
    }
    // Whole stripes can be written, whatever the cut did, and are then as good as any.
    let step = to_u32(stripe_sectors);
    let starts = || (0..SECTORS).step_by(step as usize);
    starts().for_each(|first| write(&mut array, first, step, 7).unwrap());
    (0..usize::from(config.layout.spare_count())).for_each(|index| array.fail_member(index));
    for first in starts() {
        let all = first..first + stripe_sectors;
        let all: Vec<u8> = all.flat_map(|sector| content(sector, 7)).collect();
        assert!(read(&mut array, first, step).unwrap() == all, "cut at {at}, stripe at {first}");
    }
    lost_count
}

#[test]
fn a_cut_at_every_request_of_a_member_loses_nothing_flushed_without_saying_so() {
    for (m, f, write_return) in [
        (1, 2, WriteReturn::Needed),
        (3, 4, WriteReturn::All),
        (2, 4, WriteReturn::Needed),
        (4, 4, WriteReturn::All),
    ] {
        let config = ArrayConfig { write_return, ..config(4, m, f, 2) };
        let order = order_of(config);
        assert!(order.len() > 50, "there is something to cut");
        // Before it is made, there is no array to be opened.
        let made = to_index(CREATION_REQUESTS * u64::from(config.layout.member_count()));
        for at in made..order.len() {
            let fate = [UnflushedFate::Dropped, UnflushedFate::Kept][at % 2];
            let lost = cut(config, &order, at, fate);
            assert_eq!(lost, 0, "m{m}w{f}: whole fragments are old or new");
            cut(config, &order, at, UnflushedFate::Torn);
        }
    }
}

/// Writes everything, loses the power of as many members as the code bears at request `at` of each,
/// tearing what they had, and opens the array again.
fn torn_on_spare_members(config: ArrayConfig, at: u64) -> ArrayDevice {
    let (n, spare) = (config.layout.member_count(), config.layout.spare_count());
    let is_torn = |member: u8| (member + 1) % n < spare;
    let devices: Vec<_> = (0..n)
        .map(|member| {
            let plan = FaultPlan {
                power_cut_at_request: is_torn(member).then_some(at),
                torn_sector_count: Some(1),
                unflushed: UnflushedFate::Torn,
                seed: at + u64::from(member),
                ..FaultPlan::default()
            };
            SharedDevice::new(FaultyDevice::new(memory(), plan))
        })
        .collect();
    let members = || -> Vec<MemberDevice> {
        devices.iter().map(|device| Box::new(device.clone()) as MemberDevice).collect()
    };
    let mut array = ArrayDevice::create(config, members()).unwrap();
    fill(&mut array, 1);
    fill(&mut array, 2);
    drop(array);
    for device in &devices {
        device.forget_completions();
        device.lock().power_on();
        device.lock().set_plan(FaultPlan::default());
    }
    ArrayDevice::open(config, members()).unwrap()
}

#[test]
fn fragments_torn_inside_are_repaired_where_enough_of_a_version_are_left() {
    for (m, f) in [(1, 2), (3, 4), (2, 4), (1, 3)] {
        let config = config(4, m, f, 2);
        let (n, spare) = (4_u8, config.layout.spare_count());
        let others = (0..n).filter(|member| (member + 1) % n >= spare);
        for (at, scrubs) in [(5, false), (40, true), (100, false), (171, true)] {
            let mut array = torn_on_spare_members(config, at);
            if scrubs {
                // Nobody reads, and yet all is repaired.
                array.scrub();
                settle(&mut array);
            } else {
                assert_filled(&mut array, 2);
            }
            assert_eq!((array.repair_count(), array.lost_stripe_count()), (0, 0));
            for member in others.clone().take(usize::from(spare)) {
                array.fail_member(usize::from(member));
            }
            assert_filled(&mut array, 2);
        }
    }
}
