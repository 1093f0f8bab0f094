//! What a read of a page costs: resident ones by one thread and by two, and ones that must first come
//! from a device in memory, alone and in batches. Medians of 201 short runs, and the best
//! one, which other work on the machine disturbed least. Run by `cargo test` it only checks
//! that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Rng, to_u32};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::pool::{NoLog, ReplacementKind, WriteBack};
use nandu_storage::propagation::{InPlace, Media, Placement};
use nandu_storage::volume::{DeviceVolume, Io};
use nandu_storage::{FileId, PageAddress, Pool, PoolConfig, Volume};
use std::sync::{Arc, Barrier};
use std::time::Instant;

const PAGE_BYTES: u32 = 4096;
/// Bytes of a page that are 1.
const USED_BYTES: usize = 4032;

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (read_count, runs) = if measure { (100_000, 201) } else { (1000, 1) };
    for frame_count in if measure { vec![1024, 8192, 65_536] } else { vec![16] } {
        for replacement in ReplacementKind::ALL {
            let (pool, file) = filled_pool(frame_count, frame_count, replacement);
            let words = random_pages(frame_count);
            let mut one = Vec::new();
            let mut two = Vec::new();
            for _ in 0..runs {
                one.push(ns_per_read(&pool, file, &words, 1, read_count));
                two.push(ns_per_read(&pool, file, &words, 2, read_count));
            }
            let ((one, best_one), (two, best_two)) = (summary(one), summary(two));
            println!(
                "{frame_count:6} frames, {replacement:?}: resident {one:.1} ns, best {best_one:.1}; \
                 by two threads {two:.1} ns, best {best_two:.1}: {:.2} times the reads of one, \
                 {:.2} at best",
                2.0 * one / two,
                2.0 * best_one / best_two
            );
            pool.audit();
        }
    }
    for replacement in ReplacementKind::ALL {
        let (frame_count, page_count) = if measure { (1024, 65_536) } else { (16, 64) };
        let (pool, file) = filled_pool(frame_count, page_count, replacement);
        let words = random_pages(page_count);
        let count = read_count / 10;
        let runs_of = |run: &dyn Fn() -> f64| summary((0..runs).map(|_| run()).collect());
        let (alone, best_alone) = runs_of(&|| ns_per_read(&pool, file, &words, 1, count));
        let (batched, best_batched) = runs_of(&|| ns_per_batched(&pool, file, &words, count));
        println!(
            "{replacement:?}: missing {alone:.0} ns, best {best_alone:.0}; in batches of 64 \
             {batched:.0} ns, best {best_batched:.0}"
        );
        pool.audit();
    }
}

/// A pool over a device in memory whose file has `page_count` pages; as many as fit are resident.
fn filled_pool(frame_count: u32, page_count: u32, replacement: ReplacementKind) -> (Pool, FileId) {
    let bytes = u64::from(page_count + 4096) * u64::from(PAGE_BYTES);
    let geometry =
        Geometry { sector_bytes: PAGE_BYTES, sector_count: bytes / u64::from(PAGE_BYTES) };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let mut volume = DeviceVolume::format(Box::new(device)).expect("a fresh device");
    let file = volume.create("pages").expect("there is room");
    let io = Io::new(Box::new(volume), Arc::default());
    let in_place = InPlace::new(Media::of_data(io), PAGE_BYTES).expect("pages of a sector");
    let config = PoolConfig { page_bytes: PAGE_BYTES, frame_count, replacement };
    let placement = Placement::new(Box::new(in_place), PAGE_BYTES, None);
    let mut pool = Pool::new(config, placement, Box::new(NoLog)).expect("a valid pool");
    for page in 1..=page_count {
        let mut frame = pool.create(PageAddress::new(file, page)).expect("a frame");
        frame.bytes_mut()[..USED_BYTES].fill(1);
        frame.note_change(0..1);
        frame.set_lsn(nandu_storage::Lsn(1));
    }
    pool.write_back(&WriteBack::default()).expect("a device without faults");
    (pool, file)
}

fn random_pages(page_count: u32) -> Vec<u32> {
    let mut rng = Rng::new(1);
    (0..1 << 16).map(|_| 1 + to_u32(rng.below(u64::from(page_count)))).collect()
}

/// What a read took in the thread that was slower; they start together.
fn ns_per_read(pool: &Pool, file: FileId, pages: &[u32], threads: usize, count: usize) -> f64 {
    let barrier = &Barrier::new(threads);
    let read_all = move |thread: usize| {
        let mut sum = 0_u64;
        barrier.wait();
        let start = Instant::now();
        for &page in pages.iter().cycle().skip(thread * 1000).take(count) {
            // Not the first byte of each: those are all in the same few sets of the caches.
            let at = page as usize * 64 % USED_BYTES;
            let found = pool.read(PageAddress::new(file, page), |bytes| bytes[at]);
            sum += u64::from(found.expect("a device without faults"));
        }
        let elapsed = start.elapsed();
        assert_eq!(sum, count as u64);
        elapsed.as_nanos() as f64 / count as f64
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || read_all(thread))).collect();
        let ends = threads.into_iter().map(|thread| thread.join().expect("no thread fails"));
        ends.fold(0.0, f64::max)
    })
}

fn ns_per_batched(pool: &Pool, file: FileId, pages: &[u32], count: usize) -> f64 {
    let start = Instant::now();
    let mut sum = 0_u64;
    let mut done_count = 0;
    for batch in pages.chunks(64).cycle().take(count.div_ceil(64)) {
        let addresses: Vec<PageAddress> =
            batch.iter().map(|&page| PageAddress::new(file, page)).collect();
        let read = pool.read_batch(&addresses, |_, bytes| sum += u64::from(bytes[0]));
        read.expect("a device without faults");
        done_count += batch.len();
    }
    assert_eq!(sum, done_count as u64);
    start.elapsed().as_nanos() as f64 / done_count as f64
}

/// Median and least.
fn summary(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0])
}
