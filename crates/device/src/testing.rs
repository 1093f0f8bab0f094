//! The contract suite: what every device, real or simulated, must pass. Call [`check_contract`] from
//! a test with a maker of fresh devices; it writes over them and panics where a rule is broken.

mod raw_flash;

pub use raw_flash::{MakeFlash, check_raw_flash_contract};

use crate::{Completion, Device, DeviceError, IoBuffer, Operation, Request, TimeSource};
use nandu_base::{FixedHashMap, Nanos, Rng, to_index};

/// A maker of fresh, equal devices.
pub type MakeDevice<'a> = &'a mut dyn FnMut() -> Box<dyn Device>;

/// Checks rules 1 to 7 of [`crate::contract`].
///
/// # Panics
/// Where a rule is broken, naming it.
pub fn check_contract(make: MakeDevice<'_>) {
    bad_requests_are_handed_back(make().as_mut());
    reads_return_what_was_written(make().as_mut());
    every_request_completes_once_and_in_order(make().as_mut());
    counters_add_up(make().as_mut());
    time_limits_and_idling_hold(make().as_mut());
    trimmed_sectors_stay_readable(make().as_mut());
    if make().info().time_source == TimeSource::Virtual {
        let first = random_trace(make().as_mut());
        assert_eq!(first, random_trace(make().as_mut()), "the same seed gives the same times");
    }
}

/// A zeroed buffer for `sector_count` sectors of `device`.
#[must_use]
pub fn buffer_for(device: &dyn Device, sector_count: u32) -> IoBuffer {
    let bytes = to_index(device.info().geometry.bytes_of(sector_count));
    IoBuffer::with_alignment(bytes, device.info().buffer_alignment.max(1) as usize)
}

/// Submits one request now and waits for its end.
///
/// # Panics
/// If the device rejects it or has other requests in flight.
pub fn run(device: &mut dyn Device, request: Request) -> Completion {
    let id = request.id;
    device.submit(device.now(), request).expect("the device accepts the request");
    let completion = device.next_completion(Nanos::MAX).expect("a request in flight completes");
    assert_eq!(completion.id, id);
    completion
}

fn bad_requests_are_handed_back(device: &mut dyn Device) {
    let sector_count = device.info().geometry.sector_count;
    let buffer = |device: &dyn Device, count| Some(buffer_for(device, count));
    let cases = [
        Request::read(1, sector_count, 1, buffer(device, 1)),
        Request::write(2, sector_count - 1, 2, buffer(device, 2)),
        Request::read(3, u64::MAX, 1, buffer(device, 1)),
        Request::read(4, 0, 0, None),
        Request::write(5, 0, 2, buffer(device, 1)),
        Request::trim(6, sector_count, 1),
    ];
    for request in cases {
        let (id, had_buffer) = (request.id, request.buffer.is_some());
        let rejected = device.submit(device.now(), request).expect_err("a bad request");
        assert_eq!(rejected.request.id, id, "rule 7: handed back unchanged");
        assert_eq!(rejected.request.buffer.is_some(), had_buffer, "rule 7: with its buffer");
        assert!(!rejected.to_string().is_empty());
    }
    if device.info().needs_buffers {
        let rejected = device.submit(device.now(), Request::read(7, 0, 1, None)).expect_err("none");
        assert_eq!(rejected.error, DeviceError::BufferMissing);
    }
    assert_eq!(device.in_flight(), 0, "rule 7: a rejected request costs nothing");
    assert!(device.next_completion(Nanos::MAX).is_none());
    assert_eq!(device.counters().reads.request_count, 0);
}

fn reads_return_what_was_written(device: &mut dyn Device) {
    let geometry = device.info().geometry;
    let sector_bytes = geometry.sector_bytes as usize;
    let area = geometry.sector_count.min(600);
    let start = geometry.sector_count - area;
    let mut model: FixedHashMap<u64, Vec<u8>> = FixedHashMap::default();
    let mut rng = Rng::new(11);
    for id in 0..400 {
        let count = nandu_base::to_u32(1 + rng.below(area.min(9)));
        let first = start + rng.below(area - u64::from(count) + 1);
        let mut buffer = buffer_for(device, count);
        if rng.below(2) == 0 {
            rng.fill(&mut buffer);
            for (sector, bytes) in (first..).zip(buffer.chunks(sector_bytes)) {
                model.insert(sector, bytes.to_vec());
            }
            let done = run(device, Request::write(id, first, count, Some(buffer)));
            done.result.expect("a write succeeds");
            assert!(done.buffer.is_some(), "rule 1: the buffer comes back");
        } else {
            let done = run(device, Request::read(id, first, count, Some(buffer)));
            done.result.expect("a read succeeds");
            let buffer = done.buffer.expect("rule 1: the buffer comes back");
            for (sector, bytes) in (first..).zip(buffer.chunks(sector_bytes)) {
                if let Some(expected) = model.get(&sector) {
                    assert_eq!(bytes, &expected[..], "rule 5: sector {sector}");
                }
            }
        }
        if rng.below(16) == 0 {
            run(device, Request::flush(1000 + id)).result.expect("a flush succeeds");
        }
    }
}

fn every_request_completes_once_and_in_order(device: &mut dyn Device) {
    let depth = device.info().queue_depth_max.min(32);
    let sector_count = device.info().geometry.sector_count;
    let mut rng = Rng::new(12);
    for id in 0..u64::from(depth) {
        let first = rng.below(sector_count.saturating_sub(8).max(1));
        let count = nandu_base::to_u32(1 + rng.below(8.min(sector_count)));
        let buffer = Some(buffer_for(device, count));
        let request = match rng.below(2) {
            0 => Request::read(id, first, count, buffer),
            _ => Request::write(id, first, count, buffer),
        };
        device.submit(device.now(), request).expect("there is room in the queue");
    }
    assert_eq!(device.in_flight(), depth);
    if depth == device.info().queue_depth_max {
        let rejected = device.submit(device.now(), Request::flush(9999)).expect_err("it is full");
        assert_eq!(rejected.error, DeviceError::QueueFull { queue_depth_max: depth });
    }
    let mut seen = vec![false; depth as usize];
    let mut last = Nanos::ZERO;
    while let Some(completion) = device.next_completion(Nanos::MAX) {
        completion.result.as_ref().expect("no fault was planned");
        let slot = &mut seen[to_index(completion.id)];
        assert!(!*slot, "rule 1: request {} completed twice", completion.id);
        *slot = true;
        assert!(completion.completed_at >= completion.issued_at, "rule 2: time runs forwards");
        assert!(completion.completed_at >= last, "rule 2: completions come in order");
        last = completion.completed_at;
    }
    assert!(seen.iter().all(|&done| done), "rule 1: every request completes");
    assert_eq!(device.in_flight(), 0);
    assert!(device.now() >= last);
}

fn counters_add_up(device: &mut dyn Device) {
    let bytes = u64::from(device.info().geometry.sector_bytes);
    for id in 0..5 {
        let buffer = Some(buffer_for(device, 2));
        run(device, Request::write(id, 2 * id, 2, buffer)).result.expect("a write succeeds");
    }
    let buffer = Some(buffer_for(device, 3));
    run(device, Request::read(9, 0, 3, buffer)).result.expect("a read succeeds");
    run(device, Request::flush(10)).result.expect("a flush succeeds");
    let counters = device.counters();
    assert_eq!((counters.writes.request_count, counters.writes.byte_count), (5, 10 * bytes));
    assert_eq!((counters.reads.request_count, counters.reads.byte_count), (1, 3 * bytes));
    assert_eq!((counters.flushes.request_count, counters.trims.request_count), (1, 0));
    assert_eq!(counters.reads.error_count + counters.writes.error_count, 0);
    assert!(counters.busy > Nanos::ZERO, "a device that works is busy");
}

fn time_limits_and_idling_hold(device: &mut dyn Device) {
    let before = device.now();
    let buffer = Some(buffer_for(device, 1));
    device.submit(before, Request::read(1, 0, 1, buffer)).expect("an empty queue has room");
    if device.info().time_source == TimeSource::Virtual {
        let early = device.next_completion(before);
        assert!(early.is_none_or(|c| c.completed_at <= before), "rule 2: not before its time");
    }
    while device.next_completion(Nanos::MAX).is_some() {}
    let target = device.now() + Nanos::from_millis(2);
    assert!(device.idle_until(target) >= target, "idle time passes");
    assert!(device.now() >= target);
}

fn trimmed_sectors_stay_readable(device: &mut dyn Device) {
    if !device.info().supports_trim {
        return;
    }
    let mut buffer = buffer_for(device, 8);
    buffer.fill(0xA5);
    run(device, Request::write(1, 0, 8, Some(buffer))).result.expect("a write succeeds");
    run(device, Request::trim(2, 2, 4)).result.expect("a trim succeeds");
    let buffer = Some(buffer_for(device, 8));
    let done = run(device, Request::read(3, 0, 8, buffer));
    done.result.expect("a read succeeds");
    let bytes = done.buffer.expect("rule 1: the buffer comes back");
    let sector_bytes = device.info().geometry.sector_bytes as usize;
    assert!(bytes[..2 * sector_bytes].iter().all(|&b| b == 0xA5), "neighbours are untouched");
    assert!(bytes[6 * sector_bytes..].iter().all(|&b| b == 0xA5), "neighbours are untouched");
    if device.info().time_source == TimeSource::Virtual {
        let trimmed = &bytes[2 * sector_bytes..6 * sector_bytes];
        assert!(trimmed.iter().all(|&b| b == 0), "rule 5: trimmed sectors read as zeros");
    }
}

/// A mixed run at several queue depths; what came back, with its times.
fn random_trace(device: &mut dyn Device) -> Vec<(u64, Operation, Nanos, Nanos)> {
    let sector_count = device.info().geometry.sector_count;
    let depth = device.info().queue_depth_max.min(8);
    let mut rng = Rng::new(13);
    let mut trace = Vec::new();
    let mut record = |completion: Completion| {
        let Completion { id, operation, issued_at, completed_at, .. } = completion;
        trace.push((id, operation, issued_at, completed_at));
    };
    for id in 0..300 {
        if device.in_flight() == depth {
            record(device.next_completion(Nanos::MAX).expect("some are in flight"));
        }
        let count = nandu_base::to_u32(1 + rng.below(8.min(sector_count)));
        let first = rng.below(sector_count - u64::from(count) + 1);
        let request = match rng.below(10) {
            0 => Request::flush(id),
            1 => Request::trim(id, first, count),
            2..6 => Request::read(id, first, count, None),
            _ => Request::write(id, first, count, None),
        };
        device.submit(device.now(), request).expect("a virtual device needs no buffers");
    }
    while let Some(completion) = device.next_completion(Nanos::MAX) {
        record(completion);
    }
    trace
}
