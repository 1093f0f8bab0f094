//! Energy of simulated drives against the formula over their states, which is written here apart:
//! S004's model, a sum over states of power times time, and figures for each command of a chip.

use nandu_base::{ByteCount, Nanos, Picojoules, Rng};
use nandu_device::energy::drawn;
use nandu_device::testing::run;
use nandu_device::{Device, EnergyParts, MeteredDevice, OneClock, PowerLog, Request};
use nandu_drives::profile::{Profile, SimOptions};

const DISK: &str = r#"title = "A disk"
kind = "hdd"
capacity = "1GB"
sector_bytes = 512
[hdd]
model = "simple"
read_overhead_ns = 50000
write_overhead_ns = 70000
revolution_ns = 8000000
seek_average_ns = 9000000
outer_bytes_per_second = 50000000
inner_bytes_per_second = 50000000
[hdd.power]
idle_milliwatts = 7500
seek_milliwatts = 12500
transfer_milliwatts = 12000
"#;

const STANDBY: &str = r"
[hdd.power.standby]
standby_after_ns = 60000000000
standby_milliwatts = 1500
spin_up_ns = 5000000000
spin_up_milliwatts = 24000
";

const MECHANICS: &str = r#"
[hdd.mechanics]
seek_min_ns = 1700000
seek_max_ns = 21000000
seek_shape = "linear"
head_count = 2
head_switch_ns = 1000000
zone_count = 16
interface_bytes_per_second = 300000000
command_queue_depth = 32
[hdd.cache]
read_segment_count = 2
read_ahead_bytes = 2097152
write_cache_bytes = 4194304
write_extent_count_max = 32
destage_delay_ns = 50000000
"#;

const FLASH: &str = r#"title = "A flash drive"
kind = "ssd"
capacity = "4MiB"
sector_bytes = 512
[ssd]
chip = "myers_slc"
channel_count = 2
dies_per_channel = 2
over_provisioning_ppm = 250000
ftl = { kind = "page" }
native_queue_depth = 8
read_command_ns = 10000
write_command_ns = 20000
link_bytes_per_second = 100000000
[ssd.power]
idle_milliwatts = 400
active_milliwatts = 2500
"#;

const STATES: &str = r"
[[ssd.power.states]]
milliwatts = 300
after_idle_ns = 1000000
entry_ns = 0
exit_ns = 0
is_operational = true
[[ssd.power.states]]
milliwatts = 50
after_idle_ns = 100000000
entry_ns = 2000000
exit_ns = 3000000
[[ssd.power.states]]
milliwatts = 5
after_idle_ns = 2000000000
entry_ns = 10000000
exit_ns = 40000000
";

fn open(text: &str) -> Box<dyn Device + Send> {
    let profile = Profile::parse("drive", "drive.toml", text).unwrap();
    profile.open(SimOptions { capacity: None, seed: 1, keep_data: false }).unwrap()
}

fn energy(device: &(dyn Device + Send)) -> EnergyParts {
    device.counters().energy.unwrap()
}

/// Watts times seconds, in joules.
fn joules(parts: &EnergyParts) -> f64 {
    parts.total().0 as f64 / 1e12
}

fn assert_close(found: f64, expected: f64, what: &str) {
    let off = (found / expected - 1.0).abs();
    assert!(off < 0.01, "{what}: {found} J, the formula says {expected} J");
}

#[test]
fn a_disk_uses_the_power_of_each_state_times_its_time() {
    let mut disk = open(DISK);
    let mut rng = Rng::new(3);
    let (count, sectors) = (500_u64, 128_u32);
    for id in 0..count {
        let first = rng.below(1_900_000);
        let request = if id % 2 == 0 { Request::read } else { Request::write };
        run(&mut *disk, request(id, first, sectors, None));
        if id % 50 == 0 {
            disk.idle_until(disk.now() + Nanos::from_millis(700));
        }
    }
    let seek_seconds = count as f64 * 0.009;
    let transfer_seconds = count as f64 * f64::from(sectors) * 512.0 / 50e6;
    let busy_seconds = count as f64 * (0.009 + 0.004 + (50e-6 + 70e-6) / 2.0) + transfer_seconds;
    let seconds = busy_seconds + 10.0 * 0.7;
    assert!((disk.now().as_seconds_f64() / seconds - 1.0).abs() < 1e-6);
    let idle_seconds = seconds - seek_seconds - transfer_seconds;
    let expected = 7.5 * idle_seconds + 12.5 * seek_seconds + 12.0 * transfer_seconds;
    assert_close(joules(&energy(&*disk)), expected, "a disk");
}

/// The detailed model of the disk, of one rate everywhere, so that places are shares of the capacity.
fn detailed_disk() -> Box<dyn Device + Send> {
    open(&format!("{}{MECHANICS}", DISK.replace("simple", "detailed")))
}

/// Keeps `depth` requests in flight to the end of all; the requests in the order in which they ended. Looks
/// at the energy at every moment: in no interval does the disk draw more than its profile's most.
fn keep_busy(disk: &mut (dyn Device + Send), depth: u32, requests: Vec<Request>) -> Vec<u64> {
    let mut left = requests.into_iter();
    let mut ended = Vec::new();
    let mut before = (disk.now(), energy(disk).total());
    loop {
        while disk.in_flight() < depth
            && let Some(request) = left.next()
        {
            disk.submit(disk.now(), request).unwrap();
        }
        let Some(done) = disk.next_completion(Nanos::MAX) else { return ended };
        ended.push(done.id);
        let now = (disk.now(), energy(disk).total());
        let most = drawn(12_500, now.0 - before.0);
        assert!(now.1 - before.1 <= most, "depth {depth}, at {}", now.0);
        before = now;
    }
}

#[test]
fn a_disk_that_streams_draws_what_passing_sectors_do_at_any_depth() {
    for depth in [1, 2, 16, 64] {
        let mut disk = detailed_disk();
        run(&mut *disk, Request::read(0, 400_000, 8, None));
        let (begin, before) = (disk.now(), energy(&*disk));
        let reads = (1..4000).map(|id| Request::read(id, 400_000 + id * 8, 8, None)).collect();
        keep_busy(&mut *disk, depth, reads);
        let seconds = (disk.now() - begin).as_seconds_f64();
        let used = energy(&*disk).since(&before);
        let mebibytes = 3999.0 * 4096.0 / 50e6;
        assert!((seconds / mebibytes - 1.0).abs() < 0.01, "depth {depth}: {seconds} s");
        assert_close(joules(&used), 12.0 * seconds, &format!("sequential reads, depth {depth}"));
        assert_eq!(used.seek, Picojoules(0));
    }
}

#[test]
fn read_ahead_is_counted_to_its_end_though_nobody_waits_for_it() {
    let mut disk = detailed_disk();
    let mut rng = Rng::new(21);
    let count = 200;
    for id in 0..count {
        run(&mut *disk, Request::read(id, rng.below(1_900_000), 128, None));
        disk.idle_until(disk.now() + Nanos::from_seconds(1));
    }
    let used = energy(&*disk);
    let passed_seconds = count as f64 * (65_536.0 + 2_097_152.0) / 50e6;
    assert_close(used.transfer.0 as f64 / 1e12, 4.5 * passed_seconds, "with read-ahead");
    // Without segments the head reads what it is asked for and no more.
    let none = MECHANICS.replace("read_segment_count = 2", "read_segment_count = 0");
    let mut disk = open(&format!("{}{none}", DISK.replace("simple", "detailed")));
    for id in 0..count {
        run(&mut *disk, Request::read(id, rng.below(1_900_000), 128, None));
        disk.idle_until(disk.now() + Nanos::from_millis(100));
    }
    let passed_seconds = count as f64 * 65_536.0 / 50e6;
    let passed = energy(&*disk).transfer.0 as f64 / 1e12 / 4.5;
    assert!((passed / passed_seconds - 1.0).abs() < 0.1, "{passed} s, {passed_seconds} s");
}

/// Where a byte lies in tracks: a cylinder takes two revolutions, a switch of heads and one of cylinders at
/// the rate that the profile sustains.
fn track_of(byte: f64) -> f64 {
    let cylinder_bytes = 50e6 * (2.0 * 0.008 + 0.001 + 0.0017);
    (byte / cylinder_bytes * 2.0).floor()
}

/// How long the arm moves from one track to another: S004 3.1, linear in two sections, in seconds.
fn seek_seconds(from: f64, to: f64) -> f64 {
    let cylinder_count = track_of(1e9) / 2.0;
    let (third, distance) =
        (cylinder_count / 3.0, ((from / 2.0).floor() - (to / 2.0).floor()).abs());
    match distance {
        0.0 if from == to => 0.0,
        0.0 => 0.001,
        near if near < third => 0.0017 + (0.009 - 0.0017) * (near - 1.0) / (third - 1.0),
        far => 0.009 + (0.021 - 0.009) * (far - third) / (cylinder_count - 1.0 - third),
    }
}

#[test]
fn a_detailed_disk_uses_the_power_of_each_state_times_its_time_at_any_depth() {
    for depth in [1, 4, 32] {
        let mut disk = detailed_disk();
        let mut rng = Rng::new(8);
        let (count, sectors) = (1000_u64, 128_u32);
        let places: Vec<u64> = (0..count).map(|_| rng.below(1_900_000)).collect();
        let read = |id: u64| Request::read(id, places[nandu_base::to_index(id)], sectors, None);
        let ended = keep_busy(&mut *disk, depth, (0..count).map(read).collect());
        // Requests end in the order in which the arm came to them.
        let (mut seeks, mut arm) = (0.0, 0.0);
        for id in ended {
            let place = places[nandu_base::to_index(id)] as f64 * 512.0;
            seeks += seek_seconds(track_of(arm), track_of(place));
            arm = place + (f64::from(sectors) - 1.0) * 512.0;
        }
        let mut passing = count as f64 * f64::from(sectors) * 512.0 / 50e6;
        if depth == 1 {
            // Until the next one has reached the disk, the head reads ahead.
            passing += count as f64 * 50e-6;
        }
        let used = energy(&*disk);
        let seconds = disk.now().as_seconds_f64();
        let expected = 7.5 * seconds + 5.0 * seeks + 4.5 * passing;
        assert_close(joules(&used), expected, &format!("random reads, depth {depth}"));
        assert_close(used.seek.0 as f64 / 1e12, 5.0 * seeks, "of that seeks");
        let off = used.transfer.0 as f64 / 1e12 / (4.5 * passing) - 1.0;
        assert!(off.abs() < 0.05, "passing sectors, depth {depth}: {off}");
    }
}

#[test]
fn no_disk_ever_draws_more_than_its_most() {
    for model in ["simple", "detailed"] {
        for depth in [1, 3, 40] {
            let text = DISK.replace("simple", model);
            let more = if model == "simple" { "" } else { MECHANICS };
            let mut disk = open(&format!("{text}{more}"));
            let mut rng = Rng::new(5);
            let requests = (0..2000).map(|id| {
                // Around one place, so that reads and writes meet in the caches.
                let first = 500_000 + rng.below(4_000) * 8;
                match rng.below(40) {
                    0 => Request::flush(id),
                    1..15 => Request::write(id, first, 8, None),
                    15..30 => Request::read(id, 500_000 + id * 8, 8, None),
                    _ => Request::read(id, rng.below(1_900_000), 64, None),
                }
            });
            keep_busy(&mut *disk, depth, requests.collect());
        }
    }
}

#[test]
fn a_reading_ahead_of_a_disk_knows_what_it_will_have_written_by_then() {
    for rest in [1_000_000, 60_000_000, 900_000_000, 200_000_000_000] {
        let mut disk = open(&format!("{}{STANDBY}{MECHANICS}", DISK.replace("simple", "detailed")));
        for id in 0..20 {
            run(&mut *disk, Request::write(id, id * 90_000, 8, None));
        }
        run(&mut *disk, Request::read(20, 1_000_000, 8, None));
        let then = disk.now() + Nanos(rest);
        let ahead = disk.energy_by(then).unwrap();
        disk.idle_until(then);
        assert_eq!(ahead, energy(&*disk), "{rest} ns later");
    }
}

#[test]
fn an_idle_disk_uses_exactly_idle_power_and_one_that_stands_its_own() {
    let mut disk = open(DISK);
    disk.idle_until(Nanos::from_seconds(3600));
    let expected =
        EnergyParts { idle: Picojoules(7_500 * 3_600_000_000_000), ..Default::default() };
    assert_eq!(energy(&*disk), expected);

    let mut disk = open(&format!("{DISK}{STANDBY}"));
    disk.idle_until(Nanos::from_seconds(3600));
    let rested = energy(&*disk);
    assert_eq!(rested.idle, Picojoules(7_500 * 60_000_000_000));
    assert_eq!(rested.standby, Picojoules(1_500 * 3_540_000_000_000));
    assert_eq!(rested.spin_up, Picojoules(0));
}

#[test]
fn a_request_to_a_standing_disk_waits_until_the_platters_run() {
    for model in ["simple", "detailed"] {
        let text = DISK.replace("simple", model);
        let text = format!("{text}{STANDBY}{}", if model == "simple" { "" } else { MECHANICS });
        let mut disk = open(&text);
        disk.idle_until(Nanos::from_seconds(100));
        let from = disk.now();
        // One that comes while the platters get up to speed waits for the rest.
        disk.submit(from, Request::read(1, 1_000_000, 8, None)).unwrap();
        disk.submit(from + Nanos::from_seconds(2), Request::read(2, 5_000, 8, None)).unwrap();
        for _ in 0..2 {
            let done = disk.next_completion(Nanos::MAX).unwrap();
            assert!(done.completed_at > from + Nanos::from_seconds(5), "{model}: {done:?}");
            assert!(done.completed_at < from + Nanos::from_millis(5_100), "{model}: {done:?}");
        }
        let woken = energy(&*disk);
        assert_eq!(woken.standby, Picojoules(1_500 * 40_000_000_000), "{model}");
        assert_eq!(woken.spin_up, Picojoules(24_000 * 5_000_000_000), "{model}");
        let running = disk.now() - Nanos::from_seconds(45);
        assert_eq!(woken.idle, drawn(7_500, running), "{model}");
        // The second does not: the platters run.
        let next = run(&mut *disk, Request::read(3, 9_000, 8, None));
        assert!(next.latency() < Nanos::from_millis(40), "{model}");
    }
}

#[test]
fn dirty_data_reach_the_platters_before_these_stop() {
    let text = format!("{}{STANDBY}{MECHANICS}", DISK.replace("simple", "detailed"));
    let mut disk = open(&text);
    for id in 0..20 {
        run(&mut *disk, Request::write(id, id * 90_000, 8, None));
    }
    let written_at = disk.now();
    disk.idle_until(written_at + Nanos::from_seconds(200));
    let rested = energy(&*disk);
    // 20 seeks and revolutions after the writes were answered; then a minute; then it stands.
    let standing = rested.standby.0 as f64 / 1_500.0 / 1e9;
    assert!((139.0..140.0).contains(&standing), "{standing} s");
    assert!(rested.seek > Picojoules(0));
    let flush = run(&mut *disk, Request::flush(100));
    assert!(
        (5.0..5.001).contains(&flush.latency().as_seconds_f64()),
        "nothing is dirty: {flush:?}"
    );
}

#[test]
fn flash_uses_power_by_state_and_its_chips_by_command() {
    let mut drive = open(FLASH);
    for id in 0..512 {
        run(&mut *drive, Request::write(id, id * 16, 16, None));
    }
    drive.idle_until(drive.now() + Nanos::from_millis(100));
    let (before, start) = (drive.counters(), drive.now());
    let mut rng = Rng::new(5);
    let mut busy = Nanos::ZERO;
    for id in 0..400 {
        busy += run(&mut *drive, Request::read(id, rng.below(1000) * 8, 4, None)).latency();
        drive.idle_until(drive.now() + Nanos::from_micros(200));
    }
    let after = drive.counters();
    let used = after.energy.unwrap().since(&before.energy.unwrap());
    let seconds = (drive.now() - start).as_seconds_f64();
    let reads = after.flash.unwrap().commands.since(&before.flash.unwrap().commands);
    // 3.3 V x 25 mA x 20 us for each flash page; this chip's bus is folded in.
    let page_joules = 3.3 * 0.025 * 20e-6;
    let pages = reads.total(nandu_base::FlashOperation::Read) as f64;
    let expected = 0.4 * seconds + 2.1 * busy.as_seconds_f64() + pages * page_joules;
    assert_close(joules(&used), expected, "flash");
    assert_eq!(used.active, drawn(2_100, busy), "reads leave no work behind");
    assert_eq!(used.idle, drawn(400, drive.now() - start));
    assert!(used.cells > Picojoules(0) && used.erase == Picojoules(0));

    // Where the figure was measured at the plug, the chips are in it.
    let mut whole = open(&FLASH.replace("[ssd.power]", "[ssd.power]\nincludes_chips = true"));
    run(&mut *whole, Request::write(1, 0, 16, None));
    assert_eq!(energy(&*whole).cells, Picojoules(0));
}

#[test]
fn chips_that_work_after_the_answer_keep_a_drive_at_work() {
    let text = FLASH.replace("[ssd.power]", "write_buffer_bytes = 65536\n[ssd.power]");
    let mut drive = open(&text);
    let answered = run(&mut *drive, Request::write(1, 0, 64, None)).latency();
    run(&mut *drive, Request::flush(2));
    let until = drive.now();
    drive.idle_until(until + Nanos::from_millis(50));
    let active = energy(&*drive).active;
    assert!(active >= drawn(2_100, answered), "{active:?}");
    assert!(active <= drawn(2_100, until), "{active:?}");
}

#[test]
fn a_reading_ahead_of_flash_knows_when_its_chips_are_done() {
    let buffered = FLASH.replace("[ssd.power]", "write_buffer_bytes = 65536\n[ssd.power]");
    for text in [FLASH.to_owned(), buffered.clone(), format!("{buffered}{STATES}")] {
        for rest in [1_000, 1_000_000, 500_000_000, 1_000_000_000_000] {
            let mut drive = open(&text);
            for id in 0..20 {
                run(&mut *drive, Request::write(id, id * 64, 64, None));
            }
            let then = drive.now() + Nanos(rest);
            let ahead = drive.energy_by(then).unwrap();
            drive.idle_until(then);
            assert_eq!(ahead, energy(&*drive), "{rest} ns later");
            let most = drawn(2_500, drive.now());
            assert!(ahead.total() - ahead.cells <= most, "never more than at work all the time");
        }
    }
}

#[test]
fn a_drive_that_rests_goes_through_its_low_power_states_and_comes_back_late() {
    let text = format!("{FLASH}{STATES}");
    let second = 1_000_000_000_u64;
    let mut drive = open(&text);
    run(&mut *drive, Request::write(1, 0, 16, None));
    let usual = run(&mut *drive, Request::read(2, 0, 4, None)).latency();
    // After so long a rest: how much later, and what the states used, each power times time.
    let cases = [
        (500_000, 0, 0),
        (50_000_000, 0, 300 * 49_000_000),
        (101_000_000, 1_000_000 + 3_000_000, 300 * 100_000_000),
        (second, 3_000_000, 300 * 101_000_000 + 50 * (second - 102_000_000)),
        (
            10 * second,
            40_000_000,
            300 * 101_000_000
                + 50 * (2_010_000_000 - 102_000_000)
                + 5 * (10 * second - 2_010_000_000),
        ),
    ];
    for (rest, later, low) in cases {
        let before = energy(&*drive);
        drive.idle_until(drive.now() + Nanos(rest));
        let rested = energy(&*drive).since(&before);
        assert_eq!(rested.standby, Picojoules(u128::from(low)), "after {rest} ns");
        assert_eq!(rested.idle, drawn(400, Nanos(rest.min(1_000_000))), "after {rest} ns");
        let latency = run(&mut *drive, Request::read(3, 0, 4, None)).latency();
        assert_eq!(latency, usual + Nanos(later), "after {rest} ns");
    }
}

#[test]
fn energy_is_additive_over_phases() {
    for text in [format!("{DISK}{STANDBY}"), format!("{FLASH}{STATES}")] {
        let mut drive = open(&text);
        let mut sum = EnergyParts::default();
        let mut last = energy(&*drive);
        let mut rng = Rng::new(9);
        for id in 0..300 {
            match rng.below(3) {
                0 => {
                    drive.idle_until(drive.now() + Nanos(rng.below(90_000_000_000)));
                }
                1 => {
                    run(&mut *drive, Request::read(id, rng.below(8000), 4, None));
                }
                _ => {
                    run(&mut *drive, Request::write(id, rng.below(8000), 4, None));
                }
            }
            let reading = energy(&*drive);
            let parts = reading.values().into_iter().zip(last.values());
            assert!(parts.into_iter().all(|(now, then)| now >= then), "readings only grow");
            sum += reading.since(&last);
            last = reading;
        }
        assert_eq!(sum, last);
    }
}

#[test]
fn an_array_uses_what_its_members_use() {
    let array = |members: &str| {
        let text = format!(
            "title = \"An array\"\nkind = \"array\"\ncapacity = \"64MiB\"\nsector_bytes = 512\n\
             [array]\nlayout = \"stripe\"\nfragment_bytes = 65536\nmembers = [{members}]\n\
             queue_depth = 16\nmember_error_count_max = 8\nmember_timeout_ns = 30000000000\n"
        );
        let profile = Profile::parse("array", "array.toml", &text).unwrap();
        let capacity = Some(ByteCount::mib(64));
        profile.open(SimOptions { capacity, seed: 1, keep_data: false }).unwrap()
    };
    let mut disks = array("\"wd800aajs*4\"");
    let begin = disks.now();
    let before = energy(&*disks);
    disks.idle_until(begin + Nanos::from_seconds(10));
    let idle = energy(&*disks).since(&before);
    let profile = Profile::load("wd800aajs").unwrap();
    let watts =
        profile.figures().into_iter().find(|figure| figure.path == "hdd.power.idle_milliwatts");
    let milliwatts: u64 = watts.unwrap().value.parse().unwrap();
    assert_eq!(idle.total(), drawn(4 * milliwatts, Nanos::from_seconds(10)));

    // Also where it is read ahead of its members' clocks: their caches are written back, their chips end.
    for members in ["\"wd800aajs*2\"", "\"nvme-apst-2024*2\""] {
        for rest in [2_000_000, 900_000_000, 300_000_000_000] {
            let mut drives = array(members);
            for id in 0..20 {
                run(&mut *drives, Request::write(id, id * 4096, 64, None));
            }
            let then = drives.now() + Nanos(rest);
            let ahead = drives.energy_by(then).unwrap();
            drives.idle_until(then);
            assert_eq!(ahead, energy(&*drives), "{members}, {rest} ns later");
        }
    }

    let silent = array("\"wd800aajs\", \"dram-like\"");
    assert_eq!(silent.counters().energy, None, "one of them says nothing");
}

#[test]
fn a_profile_without_power_tells_no_joules() {
    for text in [DISK, FLASH] {
        let without = &text[..text.find("[hdd.power]").or(text.find("[ssd.power]")).unwrap()];
        let mut drive = open(without);
        run(&mut *drive, Request::write(1, 0, 16, None));
        assert_eq!(drive.counters().energy, None);
    }
}

#[test]
fn figures_that_contradict_each_other_are_named() {
    let cases = [
        (FLASH.replace("active_milliwatts = 2500", "active_milliwatts = 399"), "active_milliwatts"),
        (format!("{FLASH}{}", STATES.replace("= 300", "= 401")), "at most the milliwatts"),
        (format!("{FLASH}{}", STATES.replace("= 100000000", "= 10")), "after_idle_ns"),
        (format!("{FLASH}{}", STATES.replace("entry_ns", "enter_ns")), "entry_ns"),
        (DISK.replace("seek_milliwatts = 12500", "seek_milliwatts = 7000"), "seek_milliwatts"),
        (format!("{DISK}{}", STANDBY.replace("= 1500", "= 7501")), "standby_milliwatts"),
        (format!("{DISK}{}", STANDBY.replace("= 60000000000", "= 0")), "standby_after_ns"),
        (format!("{DISK}{}", STANDBY.replace("= 60000000000", "= 90000000000000")), "at most"),
    ];
    for (text, named) in cases {
        let error = Profile::parse("drive", "drive.toml", &text).unwrap_err().to_string();
        assert!(error.contains(named), "{error} does not name {named}");
    }
}

#[test]
fn drives_on_one_clock_use_what_they_do_until_the_last_of_them_is_done() {
    let (log, clock) = (PowerLog::default(), OneClock::default());
    let open = || MeteredDevice::tallied_beside(open(DISK), log.clone(), clock.clone());
    let (mut worker, mut other) = (open(), open());
    let mut rng = Rng::new(9);
    for id in 0..300 {
        run(&mut worker, Request::read(id, rng.below(1_900_000), 128, None));
    }
    run(&mut other, Request::read(0, 0, 128, None));
    let (end, other_end) = (worker.now(), other.now());
    let [worked, rested] = [&worker, &other].map(|disk| disk.counters().energy.unwrap());
    // The one that was done first rests until the other is, whoever is gone first.
    drop(other);
    assert_eq!(log.of_gone(), None, "one of them is at work");
    drop(worker);
    let report = log.of_gone().unwrap();
    let rest = drawn(7500, end - other_end);
    let expected = joules(&worked) + joules(&rested) + rest.0 as f64 / 1e12;
    assert!((report.joules / expected - 1.0).abs() < 1e-9, "{report:?} for {expected}");
    assert_eq!(report.seconds, end.as_seconds_f64(), "their time is one");
    assert!((report.operations_per_joule.unwrap() * report.joules - 301.0).abs() < 1e-6);
    // Both are ready all the time; one seeks on top.
    let course = report.watts_over_time.clone().unwrap();
    let (count, interval) = (course.watts.len(), course.interval_seconds);
    assert!((2..=32).contains(&count), "{course:?}");
    let last = report.seconds - (count - 1) as f64 * interval;
    let sum: f64 = course.watts[..count - 1].iter().sum::<f64>() * interval;
    let all = sum + course.watts[count - 1] * last;
    assert!((all / expected - 1.0).abs() < 1e-6, "{all} J in {course:?}");
    assert!(course.watts.iter().all(|watts| (15.0..20.1).contains(watts)), "{course:?}");
    let uses = log.uses();
    assert_eq!(uses["sim:drive"].request_count, 301, "both have one name");
    assert_eq!(log.of_gone_by_name()["sim:drive"], Some(report.clone()));
    // Who comes after them has a time of its own.
    drop(MeteredDevice::tallied(open_after(Nanos::from_seconds(10)), log.clone()));
    let both = log.of_gone().unwrap();
    assert!((both.seconds - report.seconds - 10.0).abs() < 1e-9);
    assert!((both.joules - report.joules - 75.0).abs() < 1e-6);
}

#[test]
fn drives_of_two_names_are_told_apart_and_who_tells_nothing_is_named() {
    let log = PowerLog::default();
    let silent = DISK.split("[hdd.power]").next().unwrap();
    for (name, text) in [("disk", DISK), ("flash", FLASH), ("silent", silent)] {
        let profile = Profile::parse(name, "drive.toml", text).unwrap();
        let options = SimOptions { capacity: None, seed: 1, keep_data: false };
        let mut drive = MeteredDevice::tallied(profile.open(options).unwrap(), log.clone());
        drive.idle_until(Nanos::from_seconds(2));
    }
    assert_eq!(log.of_gone(), None);
    let by_name = log.of_gone_by_name();
    let joules = |name: &str| by_name[name].as_ref().map(|report| report.joules);
    assert_eq!(
        (joules("sim:disk"), joules("sim:flash"), joules("sim:silent")),
        (Some(15.0), Some(0.8), None)
    );
}

#[test]
fn a_rest_is_seen_to_fall_asleep() {
    let rest = Nanos::from_seconds(128);
    let drives = [
        // In the first 6.6 s 1 ms at 400 mW, 99 ms at 300, 1.9 s at 50, and 5 mW from then on.
        (format!("{FLASH}{STATES}"), 0.02..0.03, 0.004..0.006),
        (format!("{DISK}{STANDBY}"), 7.49..7.51, 1.49..1.51),
    ];
    for (text, awake, asleep) in drives {
        for is_idle in [true, false] {
            let log = PowerLog::default();
            let mut drive = MeteredDevice::tallied(open(&text), log.clone());
            if is_idle {
                drive.idle_until(rest);
            } else {
                drive.submit(rest, Request::read(1, 0, 8, None)).unwrap();
                drive.next_completion(Nanos(u64::MAX)).unwrap();
            }
            drop(drive);
            let course = log.of_gone().unwrap().watts_over_time.unwrap();
            let [first, late] = [course.watts[0], course.watts[15]];
            assert!(awake.contains(&first) && asleep.contains(&late), "{is_idle} {course:?}");
        }
    }
}

/// A disk that has rested until `time`.
fn open_after(time: Nanos) -> Box<dyn Device + Send> {
    let mut disk = open(DISK);
    disk.idle_until(time);
    disk
}
