//! The compact trace: what is written is read, what is damaged is noticed, and a recorded device
//! behaves as one that is not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::Nanos;
use nandu_device::{Device, MemoryConfig, MemoryDevice, Operation, Request};
use nandu_trace::{
    CompactWriter, RequestSource, TraceError, TraceOptions, TraceRecorder, TraceRequest,
    WorkloadSpec, open_reader,
};
use proptest::prelude::*;
use std::io::{Cursor, Write};

fn written(requests: &[TraceRequest]) -> Vec<u8> {
    let mut writer = CompactWriter::new(Vec::new(), "t").unwrap();
    for request in requests {
        writer.push(request).unwrap();
        writer.audit();
    }
    assert_eq!(writer.request_count(), requests.len() as u64);
    writer.finish().unwrap()
}

fn read(bytes: &[u8], options: &TraceOptions) -> (Vec<TraceRequest>, Result<(), TraceError>, u64) {
    let mut source = open_reader(Cursor::new(bytes.to_vec()), "t", options).unwrap();
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        source.audit();
        if let Err(error) = source.next_batch(&mut requests, 1000) {
            return (requests, Err(error), source.statistics().skipped_count);
        }
        if requests.len() == before {
            return (requests, Ok(()), source.statistics().skipped_count);
        }
    }
}

fn workload(text: &str, count: usize) -> Vec<TraceRequest> {
    let spec = WorkloadSpec::parse(text).unwrap();
    let mut requests = Vec::new();
    spec.source(1 << 30, 4096, 1).unwrap().next_batch(&mut requests, count).unwrap();
    requests
}

fn any_request() -> impl Strategy<Value = TraceRequest> {
    let bytes = prop_oneof![0_u64..100_000, (0_u64..1 << 50).prop_map(|n| n * 512), any::<u64>()];
    (0_u64..1 << 40, 0..4, bytes.clone(), bytes, any::<u8>()).prop_map(
        |(at, operation, offset, length, stream)| {
            let operation = [Operation::Read, Operation::Write, Operation::Trim, Operation::Flush]
                [usize::try_from(operation).unwrap()];
            let located = u64::from(operation != Operation::Flush);
            let length = length.max(1).min(u64::MAX - offset);
            TraceRequest {
                at: Nanos(at),
                operation,
                offset_bytes: offset * located,
                length_bytes: length * located,
                stream,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(mut requests in proptest::collection::vec(any_request(), 1..200)) {
        requests.retain(|r| r.length_bytes > 0 || r.operation == Operation::Flush);
        prop_assume!(!requests.is_empty());
        requests.sort_by_key(|request| request.at);
        let first = requests[0].at;
        for request in &mut requests {
            request.at -= first;
        }
        let (found, outcome, _) = read(&written(&requests), &TraceOptions::default());
        prop_assert_eq!(outcome, Ok(()));
        prop_assert_eq!(found, requests);
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        changes in proptest::collection::vec((0_usize..2000, any::<u8>()), 1..8),
        skip_bad: bool,
    ) {
        let mut bytes = written(&workload("zipf:0.9,read=30,rate=1000,flush=5", 200));
        for (position, byte) in changes {
            let length = bytes.len();
            bytes[8 + position % (length - 8)] = byte;
        }
        let _ = read(&bytes, &TraceOptions { skip_bad, ..TraceOptions::default() });
    }
}

#[test]
fn requests_take_few_bytes_over_many_chunks() {
    for (text, most) in [
        ("sequential", 1.01),
        ("uniform", 5.0),
        ("zipf:0.9,read=30,rate=10000,arrival=exponential", 8.0),
    ] {
        let requests = workload(text, 100_000);
        let bytes = written(&requests);
        let each = bytes.len() as f64 / requests.len() as f64;
        assert!(each < most, "{text}: {each}");
        let (found, outcome, _) = read(&bytes, &TraceOptions::default());
        assert_eq!((found == requests, outcome), (true, Ok(())));
    }
}

#[test]
fn a_cut_file_is_noticed_at_every_length() {
    let bytes = written(&workload("uniform:read=50", 300));
    for length in 8..bytes.len() {
        let (_, outcome, _) = read(&bytes[..length], &TraceOptions::default());
        assert!(outcome.unwrap_err().to_string().contains("ends early"), "{length}");
    }
}

#[test]
fn a_chunk_that_claims_to_be_shorter_ends_what_can_be_read() {
    let requests = workload("uniform", 40_000);
    let mut bytes = written(&requests);
    let first_payload = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let first_count = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    let second = 24 + usize::try_from(first_payload).unwrap();
    let second_count: [u8; 4] = bytes[second + 4..second + 8].try_into().unwrap();
    bytes[second..second + 4].copy_from_slice(&second_count);
    let lenient = TraceOptions { skip_bad: true, ..TraceOptions::default() };
    let (found, outcome, skipped) = read(&bytes, &lenient);
    assert_eq!(outcome, Ok(()));
    assert_eq!(found[..], requests[..usize::try_from(first_count).unwrap()]);
    assert!(skipped >= u64::from(u32::from_le_bytes(second_count)));
}

#[test]
fn a_damaged_chunk_costs_its_own_requests_only() {
    let requests = workload("uniform", 40_000);
    let mut bytes = written(&requests);
    let first_payload = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let first_count = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    let second = 24 + usize::try_from(first_payload).unwrap();
    bytes[second + 16 + 5] ^= 1;
    let strict = TraceOptions::default();
    let (found, outcome, _) = read(&bytes, &strict);
    assert_eq!(found.len(), usize::try_from(first_count).unwrap());
    let error = outcome.unwrap_err().to_string();
    assert_eq!(error, "t:2: the checksum of the chunk does not match");
    let lenient = TraceOptions { skip_bad: true, ..strict };
    let (found, outcome, skipped) = read(&bytes, &lenient);
    assert_eq!(outcome, Ok(()));
    assert_eq!(found.len() as u64 + skipped, requests.len() as u64);
    assert_eq!(found.last(), requests.last());
}

#[test]
fn a_recorded_device_keeps_the_contract() {
    nandu_device::testing::check_contract(&mut || {
        let device = MemoryDevice::new(MemoryConfig::default());
        Box::new(TraceRecorder::new(device, Vec::new(), "t").unwrap())
    });
}

#[test]
fn a_recording_replays_what_was_accepted() {
    let device = MemoryDevice::new(MemoryConfig::default());
    let mut recorder = TraceRecorder::new(device, Vec::new(), "t").unwrap();
    recorder.submit(Nanos(500), Request::write(1, 8, 16, None)).unwrap();
    recorder.submit(Nanos(700), Request::read(2, 1 << 40, 1, None)).unwrap_err();
    recorder.submit(Nanos(900), Request::trim(3, 0, 8)).unwrap();
    recorder.submit(Nanos(950), Request::flush(4)).unwrap();
    let (device, bytes) = recorder.finish().unwrap();
    assert_eq!(device.in_flight(), 3);
    let (requests, outcome, _) = read(&bytes, &TraceOptions::default());
    outcome.unwrap();
    let short: Vec<_> = requests
        .iter()
        .map(|r| (r.at.0, r.operation.label(), r.offset_bytes, r.length_bytes))
        .collect();
    assert_eq!(short, [(0, "write", 4096, 8192), (400, "trim", 0, 4096), (450, "flush", 0, 0)]);
}

/// Takes so many bytes, then is full.
struct FullDisk(usize);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(std::io::Error::other("no space left"));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_ends_the_recording_but_not_the_device() {
    let device = MemoryDevice::new(MemoryConfig::default());
    let mut recorder = TraceRecorder::new(device, FullDisk(100), "rec").unwrap();
    for id in 0..70_000 {
        let now = Nanos::from_micros(20 * id);
        recorder.submit(now, Request::write(id, id % 2000, 1, None)).unwrap();
        assert!(recorder.next_completion(Nanos::MAX).is_some());
    }
    let error = recorder.finish().err().unwrap().to_string();
    assert_eq!(error, "rec: cannot be written: no space left");
    assert!(CompactWriter::new(FullDisk(3), "rec").is_err());
}
