//! How many actions of 130 bytes a second the log takes without a flush, with flushes to a device in
//! memory, and durably one by one; and how many a scan reads: the median of five. Also what a durable
//! record costs the device. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::log::{LogConfig, LogFile, RecordBuilder, Room, SharedLog};
use nandu_storage::volume::{DeviceVolume, Io, Volume};
use nandu_storage::{FileId, Lsn, PageAddress, PageOperation};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Two changes and an undo, as an insert into a tree with 8-byte keys and 100-byte values makes them.
const RECORD_BYTES: usize = 130;

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let count = if measure { 400_000 } else { 1000 };
    let mut requests = [0.0; 3];
    let mut rates = [(); 4].map(|()| Vec::new());
    for _ in 0..if measure { 5 } else { 1 } {
        let (io, file) = volume();
        let log = create(&io, file, 64 << 20);
        rates[0].push(rate(count, || append(&log, count)));
        log.flush().expect("a device without faults");
        rates[1].push(rate(count, || scan(&io, file, count)));
        let (io, file) = volume();
        let log = create(&io, file, 1 << 20);
        rates[2].push(rate(count, || append(&log, count)));
        let before = io.counters();
        rates[3].push(rate(count / 50, || append_durably(&log, count / 50)));
        let after = io.counters();
        let per_commit = |after: u64, before: u64| (after - before) as f64 / (count / 50) as f64;
        requests = [
            per_commit(after.writes.request_count, before.writes.request_count),
            per_commit(after.flushes.request_count, before.flushes.request_count),
            per_commit(after.writes.byte_count, before.writes.byte_count),
        ];
    }
    let names = ["appended", "scanned", "appended, buffer of 1 MiB", "appended durably"];
    for (name, mut rates) in names.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        println!("{name}: {:.3} M records/s", rates[rates.len() / 2]);
    }
    let [writes, flushes, bytes] = requests;
    println!("one durable record: {writes:.3} writes, {flushes:.3} flushes, {bytes:.0} bytes");
}

fn volume() -> (Io, FileId) {
    let geometry = Geometry { sector_bytes: 4096, sector_count: 50_000 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let mut volume = DeviceVolume::format(Box::new(device)).expect("a sound geometry");
    let file = volume.create("log").expect("an empty volume");
    (Io::new(Box::new(volume), Arc::new(AtomicU64::new(0))), file)
}

fn create(io: &Io, file: FileId, buffer_bytes: u32) -> SharedLog {
    let config = LogConfig { capacity_bytes: 128 << 20, buffer_bytes };
    LogFile::create(io.clone(), file, &config, 4096, 1).expect("there is room")
}

fn rate(count: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn append_one(log: &SharedLog, builder: &mut RecordBuilder, number: u64, previous: Lsn) -> Lsn {
    builder.begin_action(number, previous);
    let key = number.to_le_bytes();
    let insert = PageOperation { code: 0x20, operand: 7, first: &key, second: &[3; 90] };
    builder.add_change(PageAddress::new(FileId(1), 1000), &insert);
    let undo = [5; RECORD_BYTES];
    let undo = &undo[..RECORD_BYTES - builder.byte_count()];
    log.append(&builder.finish(undo), Room::Free).expect("the log has room")
}

fn append(log: &SharedLog, count: u64) {
    let (mut builder, mut previous) = (RecordBuilder::new(), Lsn(0));
    for number in 1..=count {
        previous = append_one(log, &mut builder, number, previous);
    }
}

fn append_durably(log: &SharedLog, count: u64) {
    let mut builder = RecordBuilder::new();
    for number in 1..=count {
        let lsn = append_one(log, &mut builder, number, Lsn(0));
        log.make_durable(lsn).expect("a device without faults");
    }
}

fn scan(io: &Io, file: FileId, count: u64) {
    let log = LogFile::open(io.clone(), file).expect("a log");
    let mut reader = log.scan(Lsn(0)).expect("a log has a tail");
    let mut found = 0;
    while reader.next_record().expect("a sound log").is_some() {
        found += 1;
    }
    assert_eq!(found, count);
}
