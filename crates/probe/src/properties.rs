//! Properties of any pattern and any text, tried with generated ones.

use crate::*;
use nandu_base::{ByteCount, FixedHashMap, Nanos};
use nandu_device::{Device, Geometry, MemoryConfig, MemoryDevice, Operation, Recorder};
use proptest::prelude::*;

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let shape = (any::<bool>(), 0_u8..=100, 1_u64..20, 0_u64..20, 1_u32..=16);
    let place = (0_u64..500, proptest::option::of(1_u64..500), 0_u32..5, 0_u64..50_000);
    let limit = (1_u64..300, proptest::option::of(1_u64..5_000_000));
    (shape, place, limit, any::<u64>()).prop_map(|(shape, place, limit, seed)| {
        let (is_random, read_percent, sectors, offset, queue_depth) = shape;
        let (start, length, flush_every, think) = place;
        let access = if is_random { Access::Random } else { Access::Sequential };
        let limit = Limit { request_count: Some(limit.0), duration: limit.1.map(Nanos) };
        Pattern {
            alignment_offset_bytes: ByteCount(512 * offset),
            area: Area {
                start: ByteCount(512 * start),
                length: length.map(|sectors| ByteCount(512 * sectors)),
            },
            queue_depth,
            flush_every,
            think_ns: Nanos(think),
            timeline_period_ns: Nanos(1 + think),
            seed,
            ..Pattern::new(access, read_percent, 512 * sectors, limit)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_valid_pattern_keeps_its_promises(pattern in any_pattern()) {
        let geometry = Geometry::new(512, 1000).unwrap();
        let config = MemoryConfig { geometry, server_count: 3, ..MemoryConfig::default() };
        let mut device = Recorder::new(MemoryDevice::new(config));
        let valid = pattern.validate(device.info());
        let result = run_pattern(&mut device, &pattern, &mut Silent);
        if let Err(error) = valid {
            prop_assert_eq!(result, Err(error));
            return Ok(());
        }
        let run = result.unwrap().runs.remove(0);
        let (first, length) = (pattern.area.start.0, pattern.area.length_on(geometry.capacity()).0);
        let slot_count = pattern.slot_count(device.info());
        let mut uses: FixedHashMap<u64, u64> = FixedHashMap::default();
        let mut flush_count = 0;
        for record in device.records() {
            if record.operation == Operation::Flush {
                flush_count += 1;
                continue;
            }
            let address = record.first_sector.0 * 512;
            let offset = address - first - pattern.alignment_offset_bytes.0;
            prop_assert_eq!(offset % pattern.request_bytes.0, 0);
            prop_assert!(address + pattern.request_bytes.0 <= first + length);
            *uses.entry(offset).or_default() += 1;
        }
        let count: u64 = uses.values().sum();
        prop_assert_eq!(count, run.request_count);
        prop_assert_eq!(run.read.count + run.write.count, run.request_count);
        prop_assert_eq!(run.flush.count, flush_count);
        prop_assert!(run.request_count <= pattern.limit.request_count.unwrap());
        if pattern.limit.duration.is_none() {
            prop_assert_eq!(Some(run.request_count), pattern.limit.request_count);
        }
        // Both kinds of access use every slot once before any twice.
        let most = uses.values().max().copied().unwrap_or(0);
        prop_assert_eq!(most, run.request_count.div_ceil(slot_count));
        let on_timeline: u64 = run.timeline.iter().map(|point| point.byte_count).sum();
        prop_assert_eq!(on_timeline, run.byte_count);
        prop_assert_eq!(device.in_flight(), 0);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "[a-z0-9=\\[\\]{}.\"%:;# \n-]{0,200}") {
        let device = MemoryDevice::new(MemoryConfig::default());
        let _ = Plan::from_toml("any.toml", &text);
        let _ = parse_fio_job("any.fio", &text, device.info(), CachePath::Past);
        let _ = DeviceProfile::from_json("any.json", &text);
        let _ = text::parse_duration(&text);
    }

    #[test]
    fn no_fio_value_makes_the_parser_panic(
        key in prop::sample::select(vec![
            "rw", "bs", "size", "offset", "runtime", "iodepth", "numjobs", "io_size", "thinktime",
            "random_distribution", "rwmixread", "fsync", "loops", "sync",
        ]),
        value in "[0-9]{0,22}[a-z%.:]{0,3}",
    ) {
        let device = MemoryDevice::new(MemoryConfig::default());
        let job = format!("[a]\nrw=randrw\n{key}={value}\n");
        if let Ok(jobs) = parse_fio_job("any.fio", &job, device.info(), CachePath::Past) {
            prop_assert_eq!(jobs.steps[0].pattern.validate(device.info()), Ok(()));
        }
    }
}
