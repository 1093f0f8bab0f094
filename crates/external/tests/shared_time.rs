//! Time of two drives on one clock, beside a model that knows the time of each request and nothing
//! else.
//!
//! A drive serves one request after the other, each in the same time. What is asked of both at once
//! is done when the slower one has done it; what waits for the other takes as long as both.

use nandu_base::{Nanos, Rng};
use nandu_device::{Geometry, IoBuffer, MemoryConfig, MemoryDevice, Operation};
use nandu_external::basic::{measure, scan, write_random};
use nandu_external::{Grant, Io, Settings, Store, Vector, on_one_clock};
use nandu_storage::FileId;
use nandu_storage::volume::{DeviceVolume, IoOwner, Volume};
use std::collections::VecDeque;

const BLOCK_BYTES: u32 = 4096;
const FILE_BLOCK_COUNT: u64 = 64;
/// What a request of each drive takes.
const SERVICES: [Nanos; 2] = [Nanos(10_000), Nanos(70_000)];

fn drive(access_ns: Nanos) -> Box<dyn Volume> {
    let config = MemoryConfig {
        geometry: Geometry { sector_bytes: 512, sector_count: 32_768 },
        access_ns,
        bytes_per_second: 0,
        server_count: 1,
        ..MemoryConfig::default()
    };
    let volume = DeviceVolume::format(Box::new(MemoryDevice::new(config)));
    Box::new(volume.expect("the device is empty"))
}

fn drives() -> Vec<Io> {
    on_one_clock(SERVICES.map(drive).into())
}

/// A file on each drive, written.
fn files(drives: &[Io]) -> Vec<FileId> {
    let file = |io: &Io| {
        let file = io.create("file").expect("there is room");
        for block in 0..FILE_BLOCK_COUNT {
            let ticket = submit(io, file, Operation::Write, block);
            io.wait(ticket).result.expect("the device is sound");
        }
        file
    };
    drives.iter().map(file).collect()
}

fn submit(io: &Io, file: FileId, operation: Operation, block: u64) -> u64 {
    let buffer = IoBuffer::with_alignment(BLOCK_BYTES as usize, 512);
    let offset_bytes = block * u64::from(BLOCK_BYTES);
    let ticket = io.submit_ahead(IoOwner::Operator, file, operation, offset_bytes, buffer);
    ticket.expect("it is of whole sectors")
}

#[test]
fn requests_of_two_drives_overlap_and_those_that_wait_add_up() {
    let drives = drives();
    let files = files(&drives);
    let read = |index: usize, block| submit(&drives[index], files[index], Operation::Read, block);
    let before = drives[0].now();
    let tickets = [read(0, 3), read(1, 5)];
    drives[1].wait(tickets[1]);
    drives[0].wait(tickets[0]);
    assert_eq!(drives[0].now() - before, SERVICES[1], "both at once");
    assert_eq!(drives[1].now(), drives[0].now());

    let before = drives[0].now();
    for index in [0, 1, 0] {
        drives[index].wait(read(index, 7));
    }
    let all = Nanos(2 * SERVICES[0].0 + SERVICES[1].0);
    assert_eq!(drives[1].now() - before, all, "one after the other");
}

#[test]
fn a_store_that_is_made_takes_time_of_all_volumes() {
    let drives = drives();
    let settings = Settings { block_bytes: BLOCK_BYTES, in_flight: 1 };
    let store_on = |index: usize| {
        let before = drives[0].now();
        let store = Store::new(&drives[index..=index], settings, Grant::new(1 << 20));
        (store.expect("there is room"), drives[0].now() - before)
    };
    // The table of files is a request, and a few more make it durable; the other drive waits for all.
    let (_slow, time) = store_on(1);
    assert!(time >= SERVICES[1] && time.0.is_multiple_of(SERVICES[1].0), "{time}");
    assert_eq!(drives[0].now(), drives[1].now());
    // What begins later is not done in the past of its drive.
    let (_fast, time) = store_on(0);
    assert!(time >= SERVICES[0] && time.0.is_multiple_of(SERVICES[0].0), "{time}");
}

/// What a drive of the model has to do.
#[derive(Default)]
struct Queue {
    free_at: u64,
    flights: VecDeque<(u64, u64)>,
}

#[test]
fn any_order_of_asking_and_waiting_takes_as_long_as_the_model_says() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let drives = drives();
        let files = files(&drives);
        let mut now = drives[0].now().0;
        let mut queues = [Queue::default(), Queue::default()];
        for _ in 0..500 {
            let index = usize::try_from(rng.below(2)).unwrap();
            let queue = &mut queues[index];
            if queue.flights.len() < 16 && rng.below(2) == 0 {
                let operation = if rng.below(2) == 0 { Operation::Read } else { Operation::Write };
                let block = rng.below(FILE_BLOCK_COUNT);
                let ticket = submit(&drives[index], files[index], operation, block);
                queue.free_at = queue.free_at.max(now) + SERVICES[index].0;
                queue.flights.push_back((ticket, queue.free_at));
            } else if let Some((ticket, done_at)) = queue.flights.pop_front() {
                let completion = drives[index].wait(ticket);
                assert_eq!(completion.completed_at, Nanos(done_at), "seed {seed}");
                now = now.max(done_at);
            }
            assert_eq!(drives.iter().map(Io::now).collect::<Vec<_>>(), [Nanos(now); 2]);
        }
    }
}

#[test]
fn a_striped_store_takes_the_slower_half_and_two_stores_in_turn_take_both() {
    let store = |volumes: &[Io], in_flight| {
        let settings = Settings { block_bytes: BLOCK_BYTES, in_flight };
        Store::new(volumes, settings, Grant::new(1 << 20)).unwrap()
    };
    let per_block = 511_u64;
    let write = |store: &Store, blocks| -> Vector<u64> {
        write_random(store, blocks * per_block, &mut Rng::new(1)).unwrap()
    };
    let volumes = drives();
    let striped = store(&volumes, 8);
    let vector = write(&striped, 200);
    let scanned = measure(&striped, || scan(&vector)).unwrap();
    // The fast drive begins and waits for the slow one, which never rests.
    let slow_half = 100 * SERVICES[1].0;
    let most = slow_half + SERVICES[0].0;
    assert!((slow_half..=most).contains(&scanned.elapsed_ns.0), "{scanned:?}");

    let volumes = drives();
    let (fast, slow) = (store(&volumes[..1], 0), store(&volumes[1..], 0));
    let vectors = [write(&fast, 50), write(&slow, 50)];
    let before = slow.now();
    for vector in &vectors {
        scan(vector).unwrap();
    }
    let both = 50 * (SERVICES[0].0 + SERVICES[1].0);
    assert_eq!(fast.now() - before, Nanos(both));
}
