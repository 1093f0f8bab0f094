//! The drive against the contract, hand-computed times and a plain array.

use super::*;
use nandu_device::IoBuffer;
use nandu_device::testing::{check_contract, run};
use proptest::prelude::*;

const SECTORS: u64 = 8192;
/// Of the chip below.
const ERASE_BLOCK_BYTES: u64 = 64 * 2048;

/// A 4 MiB drive with the SLC chip of S000 (20/200/1500 us, transfer folded in).
fn config(ftl: &str) -> SsdConfig {
    let text = format!(
        "chip = \"myers_slc\"\nchannel_count = 2\ndies_per_channel = 2\n\
         over_provisioning_ppm = 250000\nnative_queue_depth = 8\nread_command_ns = 10000\n\
         write_command_ns = 20000\nlink_bytes_per_second = 100000000\nftl = {ftl}"
    );
    toml::from_str(&text).unwrap()
}

const PAGE: &str = "{ kind = \"page\" }";
const CHUNK_TABLE: &str = "kind = \"chunk\"\nchunk_bytes = 524288";
const CHUNK: &str = "{ kind = \"chunk\", chunk_bytes = 524288 }";

fn drive(config: &SsdConfig) -> Ssd {
    let geometry = Geometry::new(512, SECTORS).unwrap();
    Ssd::new("test", geometry, config, true, 1).unwrap()
}

#[test]
fn every_translation_layer_keeps_the_contract() {
    for kind in nandu_ftl::FtlKind::ALL {
        for write_buffer_bytes in [0, 65_536] {
            let ftl = kind.small(ERASE_BLOCK_BYTES);
            let config = SsdConfig { ftl, write_buffer_bytes, ..config(PAGE) };
            check_contract(&mut || Box::new(drive(&config)));
        }
    }
    let config = SsdConfig { write_hold_ns: Nanos::from_millis(20), ..config(CHUNK) };
    check_contract(&mut || Box::new(drive(&config)));
}

#[test]
fn writes_that_would_move_a_chunk_are_held_side_by_side() {
    const HOLD: Nanos = Nanos::from_millis(500);
    // Chunks of 1024 sectors; ends of writes issued together, at the sectors given, after two others.
    let ends = |hold, sectors: &[u64]| {
        let mut ssd = drive(&SsdConfig {
            write_hold_ns: hold,
            native_queue_depth: 1,
            native_write_depth: Some(3),
            ..config(CHUNK)
        });
        ssd.fill_at_once().unwrap();
        let opens = run(&mut ssd, Request::write(1, 40, 4, None)).latency();
        let goes_on = run(&mut ssd, Request::write(2, 44, 4, None)).latency();
        assert!(opens.max(goes_on) < HOLD, "nothing is moved that a neighbour could spare");
        let start = ssd.now();
        for (id, &sector) in (3..).zip(sectors) {
            ssd.submit(start, Request::write(id, sector, 4, None)).unwrap();
        }
        let ends: Vec<Nanos> = std::iter::from_fn(|| ssd.next_completion(Nanos::MAX))
            .map(|done| done.completed_at - start)
            .collect();
        ssd.audit();
        ends
    };
    let (at_once, held) = (ends(Nanos::ZERO, &[2048]), ends(HOLD, &[2048]));
    assert_eq!(held[0], at_once[0] + HOLD);
    let (at_once, held) = (ends(Nanos::ZERO, &[2048, 4096, 6144]), ends(HOLD, &[2048, 4096, 6144]));
    assert!(held.iter().max() < Some(&(HOLD + at_once[2] + Nanos::from_micros(1))), "{held:?}");
    // What goes on where the replacement ended passes those that are held.
    let held = ends(HOLD, &[2048, 48]);
    assert!(held[0] < Nanos::from_millis(1) && held[1] > HOLD, "{held:?}");
}

#[test]
fn a_single_read_takes_command_chip_and_link() {
    let mut ssd = drive(&config(PAGE));
    ssd.fill_at_once().unwrap();
    let done = run(&mut ssd, Request::read(1, 0, 4, None));
    // 10 us command + 20 us chip + 2048 B at 100 MB/s.
    assert_eq!(done.latency(), Nanos(10_000 + 20_000 + 20_480));
}

#[test]
fn the_inside_of_a_drive_accounts_for_every_request() {
    let mut ssd = drive(&config(PAGE));
    ssd.fill_at_once().unwrap();
    // Two reads at once: the second waits for the controller, then for the link, over which 2048 B take 20.48 us.
    for id in 0..2 {
        ssd.submit(Nanos::ZERO, Request::read(id, id * 4, 4, None)).unwrap();
    }
    while ssd.next_completion(Nanos::MAX).is_some() {}
    run(&mut ssd, Request::write(3, 0, 4, None));
    let (inside, now) = (ssd.inside(), ssd.now());
    let (read, written) = (inside.link_to_host, inside.link_to_drive);
    assert_eq!((read.request_count, written.request_count), (2, 1));
    assert_eq!((read.busy, written.busy), (Nanos(2 * 20_480), Nanos(20_480)));
    // Commands are taken one after the other, 10 us each: so much later the second one's data are there.
    assert_eq!((read.waited, written.waited), (Nanos(20_480 - 10_000), Nanos::ZERO));
    assert_eq!(inside.flash.reads.command_count, 2);
    assert_eq!(inside.flash.reads.array, Nanos(2 * 20_000));
    assert!(inside.controller_busy >= Nanos(2 * 10_000));
    let held = inside.flash.die_held.iter().chain([&inside.controller_busy, &read.busy]);
    assert!(held.clone().all(|time| *time <= now) && held.copied().sum::<Nanos>() > Nanos(60_000));
}

#[test]
fn dies_work_side_by_side() {
    let config = SsdConfig {
        link_bytes_per_second: 0,
        read_command_ns: Nanos(100),
        native_queue_depth: 64,
        ..config(PAGE)
    };
    let elapsed = |depth: u64| {
        let mut ssd = drive(&config);
        ssd.fill_at_once().unwrap();
        let mut sent = 0;
        let mut last = Nanos::ZERO;
        while sent < 400 || ssd.in_flight() > 0 {
            while sent < 400 && u64::from(ssd.in_flight()) < depth {
                ssd.submit(ssd.now(), Request::read(sent, (sent * 4 * 7) % SECTORS, 4, None))
                    .unwrap();
                sent += 1;
            }
            last = ssd.next_completion(Nanos::MAX).unwrap().completed_at;
        }
        ssd.audit();
        last.0 as f64
    };
    let gain = elapsed(1) / elapsed(16);
    assert!((3.0..4.1).contains(&gain), "four dies give up to four times: {gain}");
}

#[test]
fn a_write_buffer_takes_a_burst_and_then_runs_at_the_speed_of_the_chips() {
    let config = SsdConfig {
        write_buffer_bytes: 16 * 2048,
        link_bytes_per_second: 0,
        write_command_ns: Nanos(1000),
        ..config(PAGE)
    };
    let mut ssd = drive(&config);
    let latencies: Vec<u64> = (0..400)
        .map(|page| run(&mut ssd, Request::write(page, page * 4, 4, None)).latency().0)
        .collect();
    assert!(latencies[..16].iter().all(|&latency| latency == 1000), "{:?}", &latencies[..16]);
    let sustained: u64 = latencies[200..].iter().sum::<u64>() / 200;
    // 200 us of program on each of four dies.
    assert!(sustained.abs_diff(50_000) < 2_000, "{sustained}");
}

#[test]
fn sequential_reads_come_from_the_read_ahead() {
    let config = SsdConfig { read_ahead_bytes: 16_384, ..config(PAGE) };
    let mut ssd = drive(&config);
    ssd.fill_at_once().unwrap();
    let latencies: Vec<u64> = (0..50)
        .map(|page| run(&mut ssd, Request::read(page, page * 4, 4, None)).latency().0)
        .collect();
    assert_eq!(latencies[0], 50_480, "the first read waits for the chip");
    assert!(latencies[10..].iter().all(|&latency| latency == 30_480), "command and link remain");
}

#[test]
fn a_misaligned_write_reads_what_it_does_not_replace() {
    let mut ssd = drive(&config(PAGE));
    let fill =
        |value: u8, sectors: u32| Some(IoBuffer::copy_of(&vec![value; 512 * sectors as usize]));
    run(&mut ssd, Request::write(1, 0, 8, fill(1, 8))).result.unwrap();
    run(&mut ssd, Request::write(2, 3, 2, fill(2, 2))).result.unwrap();
    run(&mut ssd, Request::flush(3)).result.unwrap();
    let done = run(&mut ssd, Request::read(4, 0, 8, fill(0, 8)));
    let bytes: Vec<u8> = done.buffer.unwrap().chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(bytes, [1, 1, 1, 2, 2, 1, 1, 1]);
    let flash = ssd.counters().flash.unwrap().commands;
    assert_eq!(flash.host_write_pages, 4, "two whole units, then two halves after a merge");
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let geometry = Geometry::new(512, SECTORS).unwrap();
    let refuse = |change: &dyn Fn(&mut SsdConfig)| {
        let mut config = config(PAGE);
        change(&mut config);
        assert!(Ssd::new("bad", geometry, &config, false, 1).is_err(), "{config:?}");
    };
    refuse(&|config| config.channel_count = 0);
    refuse(&|config| config.native_queue_depth = 0);
    refuse(&|config| config.over_provisioning_ppm = 0);
    refuse(&|config| config.chip = "no such chip".into());
    refuse(&|config| config.write_hold_ns = Nanos(1));
    refuse(&|config| {
        config.ftl = toml::from_str(CHUNK_TABLE).unwrap();
        (config.write_hold_ns, config.write_buffer_bytes) = (Nanos(1), 65_536);
    });
    let wide = Geometry::new(4096, 1024).unwrap();
    assert!(Ssd::new("bad", wide, &config(PAGE), false, 1).is_err(), "sector above mapping unit");
}

#[test]
fn a_drive_is_built_with_room_for_erase_blocks_that_come_bad() {
    let geometry = Geometry::new(512, SECTORS).unwrap();
    for layer in [
        PAGE,
        "{ kind = \"dftl\" }",
        "{ kind = \"fast\", log_block_count = 4 }",
        "{ kind = \"chunk\", chunk_bytes = 262144 }",
    ] {
        let mut config = config(layer);
        let sound = config.nand_config(geometry, false).unwrap().geometry.erase_block_count();
        config.chip_overrides.factory_bad_ppm = Some(150_000);
        let chips = config.nand_config(geometry, false).unwrap();
        let lost = config.ftl.lost_erase_blocks(&chips);
        assert!(lost > 0, "{layer}");
        assert!(u64::from(chips.geometry.erase_block_count()) - lost >= sound.into(), "{layer}");
        let mut ssd = Ssd::new("bad", geometry, &config, false, 1).unwrap();
        for page in 0..SECTORS / 4 {
            run(&mut ssd, Request::write(page, page * 4, 4, None)).result.unwrap();
        }
        ssd.audit();
        // Whoever says how many there are is told how many there should be.
        config.physical_erase_blocks = Some(sound / 8 * 4);
        let said = Ssd::new("bad", geometry, &config, false, 1).err().unwrap().to_string();
        assert!(said.contains("good erase blocks"), "{layer}: {said}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u32, u8),
    Read(u64, u32),
    Trim(u64, u32),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..SECTORS - 40, 1_u32..40);
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|((first, count), fill)| Step::Write(first, count, fill)),
        2 => place().prop_map(|(first, count)| Step::Read(first, count)),
        1 => place().prop_map(|(first, count)| Step::Trim(first, count)),
        1 => Just(Step::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn it_behaves_like_a_plain_array(
        steps in proptest::collection::vec(step(), 1..120),
        chunked: bool,
        buffered: bool,
    ) {
        let config = SsdConfig {
            write_buffer_bytes: if buffered { 32_768 } else { 0 },
            write_hold_ns: if chunked && !buffered { Nanos::from_millis(5) } else { Nanos::ZERO },
            read_ahead_bytes: 8192,
            open_unit_count: 2,
            ..config(if chunked { CHUNK } else { PAGE })
        };
        let mut ssd = drive(&config);
        let mut model = vec![0_u8; to_index(SECTORS)];
        for (id, step) in (0..).zip(steps) {
            match step {
                Step::Write(first, count, fill) => {
                    let buffer = IoBuffer::copy_of(&vec![fill; 512 * count as usize]);
                    run(&mut ssd, Request::write(id, first, count, Some(buffer))).result.unwrap();
                    model[to_index(first)..][..count as usize].fill(fill);
                }
                Step::Trim(first, count) => {
                    run(&mut ssd, Request::trim(id, first, count)).result.unwrap();
                    model[to_index(first)..][..count as usize].fill(0);
                }
                Step::Flush => run(&mut ssd, Request::flush(id)).result.unwrap(),
                Step::Read(first, count) => {
                    let buffer = IoBuffer::zeroed(512 * count as usize);
                    let done = run(&mut ssd, Request::read(id, first, count, Some(buffer)));
                    for (sector, bytes) in done.buffer.unwrap().chunks(512).enumerate() {
                        let expected = model[to_index(first) + sector];
                        prop_assert!(bytes.iter().all(|&byte| byte == expected));
                    }
                }
            }
        }
        ssd.audit();
    }
}
