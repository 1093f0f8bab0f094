//! Generators: the first requests of a seed never change, and shares, sizes and rates are those that
//! the text says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::Nanos;
use nandu_device::Operation;
use nandu_trace::{Pacing, RequestSource, TraceRequest, WorkloadSpec};
use proptest::prelude::*;

const CAPACITY: u64 = 1 << 30;

fn draw(text: &str, count: usize) -> Vec<TraceRequest> {
    let mut source = WorkloadSpec::parse(text).unwrap().source(CAPACITY, 4096, 42).unwrap();
    let mut requests = Vec::new();
    while requests.len() < count {
        let limit = (count - requests.len()).min(1000);
        source.next_batch(&mut requests, limit).unwrap();
        source.audit();
    }
    requests
}

#[test]
fn the_first_requests_of_a_seed_never_change() {
    let slots = |text: &str| -> Vec<u64> {
        draw(text, 4).iter().map(|request| request.offset_bytes / 4096).collect()
    };
    for (text, golden) in [
        ("uniform", [91_214, 244_998, 236_333, 141_802]),
        ("permuted", [137_356, 152_994, 129_691, 128_271]),
        ("sequential", [0, 1, 2, 3]),
        ("zipf:0.9", [148_582, 179_636, 44_661, 25_793]),
        ("zipf:0.9,clustered=yes", [300, 95_149, 115_434, 180_707]),
        ("zones", [48_999, 165_870, 225_169, 133_908]),
        ("zones:clustered=no", [172_047, 132_768, 167_333, 188_924]),
        ("oltp", [9_800, 165_870, 225_169, 133_908]),
        ("jesd219", [12_248, 165_861, 225_156, 133_901]),
    ] {
        assert_eq!(slots(text), golden, "{text}");
    }
    let times: Vec<u64> =
        draw("uniform:rate=1000,arrival=exponential", 4).iter().map(|r| r.at.0).collect();
    assert_eq!(times, [0, 665_467, 958_461, 1_019_181]);
}

#[test]
fn operations_have_their_shares_and_change_no_address() {
    let mixed = draw("uniform:read=30,trim=5", 200_000);
    let share = |operation| {
        mixed.iter().filter(|request| request.operation == operation).count() as f64 / 2e5
    };
    assert!((share(Operation::Read) - 0.30).abs() < 0.005);
    assert!((share(Operation::Trim) - 0.05).abs() < 0.0025);
    let written = draw("uniform", 200_000);
    assert!(written.iter().all(|request| request.operation == Operation::Write));
    assert!(
        mixed.iter().zip(&written).all(|(left, right)| left.offset_bytes == right.offset_bytes)
    );
    assert!(draw("uniform:read=100", 1000).iter().all(|r| r.operation == Operation::Read));
}

#[test]
fn the_enterprise_mix_has_the_sizes_that_fio_states() {
    let requests = draw("jesd219", 400_000);
    let share = |bytes: u64| {
        requests.iter().filter(|request| request.length_bytes == bytes).count() as f64 / 4e5
    };
    for (bytes, percent) in [
        (512, 4.0),
        (1024, 1.0),
        (1536, 1.0),
        (2048, 1.0),
        (2560, 1.0),
        (3072, 1.0),
        (3584, 1.0),
        (4096, 67.0),
        (8192, 10.0),
        (16_384, 7.0),
        (32_768, 3.0),
        (65_536, 3.0),
    ] {
        assert!((share(bytes) * 100.0 - percent).abs() < 0.3, "{bytes}: {}", share(bytes));
    }
    assert!(requests.iter().all(|request| request.offset_bytes % 4096 == 0));
    let reads = requests.iter().filter(|r| r.operation == Operation::Read).count() as f64 / 4e5;
    assert!((reads - 0.4).abs() < 0.004);
    for (first, last, access) in [(0.0, 0.05, 0.5), (0.05, 0.2, 0.3), (0.2, 1.0, 0.2)] {
        let inside = |r: &&TraceRequest| {
            let place = r.offset_bytes as f64 / CAPACITY as f64;
            (first..last).contains(&place)
        };
        let found = requests.iter().filter(inside).count() as f64 / 4e5;
        assert!((found - access).abs() < 0.004, "{found} {access}");
    }
}

#[test]
fn the_stream_of_a_request_is_its_class() {
    for request in draw("oltp", 10_000) {
        let place = request.offset_bytes as f64 / CAPACITY as f64;
        let class = if place < 0.04 {
            0
        } else if place < 0.2 {
            1
        } else {
            2
        };
        assert_eq!(request.stream, class);
    }
}

#[test]
fn arrivals_tell_whether_times_matter() {
    let closed =
        WorkloadSpec::parse("uniform:think=3us").unwrap().source(CAPACITY, 4096, 1).unwrap();
    assert_eq!(closed.pacing(), Pacing::Closed { think_ns: Nanos(3000) });
    let open = WorkloadSpec::parse("uniform:rate=9").unwrap().source(CAPACITY, 4096, 1).unwrap();
    assert_eq!(open.pacing(), Pacing::Open);
    assert!(draw("uniform:think=3us", 10).iter().all(|request| request.at == Nanos::ZERO));
    let times: Vec<u64> = draw("uniform:rate=1000000", 4).iter().map(|r| r.at.0).collect();
    assert_eq!(times, [0, 1000, 2000, 3000]);
    let last = draw("uniform:rate=5000,arrival=exponential", 100_001).last().unwrap().at;
    assert!((last.as_seconds_f64() - 20.0).abs() < 0.3, "{last}");
}

#[test]
fn a_flush_follows_every_so_many_writes() {
    let requests = draw("uniform:read=50,flush=3", 10_000);
    let mut writes = 0;
    for request in &requests {
        match request.operation {
            Operation::Write => writes += 1,
            Operation::Flush => {
                assert_eq!(std::mem::take(&mut writes), 3);
                assert_eq!((request.offset_bytes, request.length_bytes), (0, 0));
            }
            _ => {}
        }
        assert!(writes <= 3);
    }
}

#[test]
fn a_workload_with_a_count_ends() {
    let spec = WorkloadSpec::parse("uniform:requests=10").unwrap();
    let mut source = spec.source(CAPACITY, 4096, 1).unwrap();
    let mut requests = Vec::new();
    for expected in [7, 10, 10] {
        source.next_batch(&mut requests, 7).unwrap();
        assert_eq!(requests.len(), expected);
    }
    assert_eq!(source.statistics().request_count, 10);
    assert_eq!(source.description(), "workload uniform:requests=10, seed 1");
}

#[test]
fn a_drive_that_is_too_small_is_refused() {
    for (text, message) in [
        ("uniform:size=2GiB", "do not fit a drive of 1073741824 bytes"),
        ("uniform:start=1GiB", "do not fit"),
        ("uniform:start=1MiB,area=1GiB", "do not fit"),
        ("zones:s0.0000001f0.5+s0.9999999f0.5", "class 0 would have no slot"),
    ] {
        let spec = WorkloadSpec::parse(text).unwrap();
        let error = spec.source(CAPACITY, 4096, 1).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    assert!(WorkloadSpec::parse("uniform").unwrap().source(CAPACITY, 0, 1).is_err());
}

#[test]
fn a_workload_is_a_string_in_files() {
    let spec: WorkloadSpec = serde_json::from_str("\"zipf:0.9,read=30\"").unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), "\"zipf:0.9,read=30\"");
    let error = serde_json::from_str::<WorkloadSpec>("\"zpif\"").unwrap_err().to_string();
    assert!(error.contains("did you mean `zipf`?"), "{error}");
}

proptest! {
    #[test]
    fn requests_stay_inside_their_area(
        kind in 0_usize..6,
        capacity in 70_000_u64..1 << 40,
        start in 0_u64..4000,
        size in 1_u64..60_000,
        align in 1_u64..9000,
        seed: u64,
    ) {
        let kind = ["uniform", "permuted", "sequential", "zipf", "zipf:clustered=yes", "zones"][kind];
        let separator = if kind.contains(':') { ',' } else { ':' };
        let text = format!("{kind}{separator}start={start},size={size}/60+512/40,align={align}");
        let spec = WorkloadSpec::parse(&text).unwrap();
        if let Ok(mut source) = spec.source(capacity, 4096, seed) {
            let mut requests = Vec::new();
            source.next_batch(&mut requests, 300).unwrap();
            prop_assert_eq!(requests.len(), 300);
            for request in requests {
                prop_assert!(request.offset_bytes >= start);
                prop_assert_eq!((request.offset_bytes - start) % align, 0);
                prop_assert!(request.offset_bytes + request.length_bytes <= capacity);
            }
        }
    }
}

#[test]
fn every_unit_is_said_to_be_of_the_stream_that_writes_it() {
    const UNIT: u64 = 4096;
    for text in [
        "zones:s0.1f0.9+s0.9f0.1",
        "zones:s0.1f0.9+s0.9f0.1,clustered=no",
        "zones:s0.2f0.3+s0.3f0+s0.5f0.7,start=1MiB,area=2MiB",
        "zones:s0.2f0.3+s0.8f0.7,size=16KiB,clustered=no",
        "zipf",
    ] {
        let spec = WorkloadSpec::parse(text).unwrap();
        let streams = spec.unit_streams(8 << 20, UNIT, 5).unwrap();
        assert_eq!(streams.len(), 2048);
        let mut requests = Vec::new();
        let mut source = spec.source(8 << 20, UNIT, 5).unwrap();
        source.next_batch(&mut requests, 40_000).unwrap();
        for request in &requests {
            let end = (request.offset_bytes + request.length_bytes) / UNIT;
            for unit in request.offset_bytes / UNIT..end {
                let unit = usize::try_from(unit).unwrap();
                assert_eq!(streams[unit], request.stream, "{text}: unit {unit}");
            }
        }
        let used = streams.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(used, spec.stream_count(), "{text}: {used} streams");
    }
    let spec = WorkloadSpec::parse("zones:s0.1f1+s0.9f0,start=1MiB,area=2MiB").unwrap();
    let streams = spec.unit_streams(8 << 20, UNIT, 5).unwrap();
    let used: Vec<usize> = (0..streams.len()).filter(|&unit| streams[unit] == 1).collect();
    // What is never written belongs to its class; what lies outside the part used, to none.
    assert_eq!((used.first(), used.last(), used.len()), (Some(&307), Some(&767), 461));
}
