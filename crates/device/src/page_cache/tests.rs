//! The page cache against a plain map, and request by request: what the drive below is asked for.

use super::*;
use crate::{FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, Recorder};
use nandu_base::Rng;

const PAGE: u64 = 4096;
const SECTORS: u64 = 8;

fn config() -> PageCacheConfig {
    PageCacheConfig {
        byte_count: 256 * PAGE,
        page_bytes: 4096,
        read_ahead_bytes: 65_536,
        read_around_bytes: 0,
        dirty_bytes_max: 16 * PAGE,
        indirect_mapped_bytes: 0,
        flushes_drive: true,
        replacement: Replacement::Lru,
        keeps_data: true,
    }
}

/// A drive of some thousand pages, the last of which is short.
fn drive() -> MemoryDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: 20_003 };
    MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() })
}

fn cache(config: PageCacheConfig) -> PageCache<Recorder<MemoryDevice>> {
    PageCache::new(Recorder::new(drive()), config).unwrap()
}

fn run<D: Device>(cache: &mut PageCache<D>, request: Request) -> Completion {
    cache.submit(cache.now(), request).unwrap();
    let done = cache.next_completion(Nanos::MAX).unwrap();
    cache.audit();
    done
}

fn read_page<D: Device>(cache: &mut PageCache<D>, page: u64) -> Nanos {
    run(cache, Request::read(1, page * SECTORS, 8, None)).latency()
}

fn write_page<D: Device>(cache: &mut PageCache<D>, page: u64) {
    run(cache, Request::write(1, page * SECTORS, 8, None)).result.unwrap();
}

/// What the drive was asked for, in pages: operation, first, count.
fn asked(cache: &PageCache<Recorder<MemoryDevice>>) -> Vec<(Operation, u64, u64)> {
    let records = cache.drive().records().iter();
    let pages = |sectors: u64| sectors.div_ceil(SECTORS);
    records
        .map(|record| {
            let count = pages(u64::from(record.sector_count));
            (record.operation, record.first_sector.0 / SECTORS, count)
        })
        .collect()
}

fn all_kinds() -> Vec<PageCacheConfig> {
    let lists = PageCacheConfig { replacement: Replacement::TwoLists, ..config() };
    let blocks = PageCacheConfig { indirect_mapped_bytes: 32 * PAGE, ..lists.clone() };
    let around = PageCacheConfig { read_around_bytes: 8 * PAGE, ..config() };
    let through = PageCacheConfig { dirty_bytes_max: 0, read_ahead_bytes: 0, ..config() };
    let large = PageCacheConfig { page_bytes: 16_384, byte_count: 1 << 21, ..config() };
    vec![config(), lists, blocks, around, through, large]
}

#[test]
fn a_page_cache_keeps_the_contract() {
    for config in all_kinds() {
        crate::testing::check_contract(&mut || Box::new(cache(config.clone())));
    }
}

#[test]
fn contents_are_those_of_a_plain_map_and_reach_the_drive_with_a_flush() {
    for (config, seed) in all_kinds().into_iter().zip(1..) {
        let mut cache = PageCache::new(drive(), config).unwrap();
        let mut model = vec![0_u8; 20_003];
        let mut rng = Rng::new(seed);
        for step in 0..3000 {
            let count = 1 + rng.below(if step % 50 == 0 { 700 } else { 20 });
            let first = match rng.below(3) {
                // A part is visited often, the end of the drive among others.
                0 => rng.below(300),
                1 => 20_003 - count - rng.below(50),
                _ => rng.below(20_003 - count),
            };
            let sectors = to_index(first)..to_index(first + count);
            let fill = u8::try_from(rng.below(256)).unwrap();
            let buffer = Some(IoBuffer::copy_of(&vec![fill; to_index(count) * 512]));
            match rng.below(8) {
                0..4 => {
                    let done = run(&mut cache, Request::read(1, first, to_u32(count), buffer));
                    let buffer = done.buffer.unwrap();
                    for (bytes, expected) in buffer.chunks(512).zip(&model[sectors]) {
                        assert!(bytes.iter().all(|byte| byte == expected), "step {step}");
                    }
                }
                4..7 => {
                    run(&mut cache, Request::write(1, first, to_u32(count), buffer));
                    model[sectors].fill(fill);
                }
                _ if step % 5 == 0 => {
                    run(&mut cache, Request::flush(1)).result.unwrap();
                    assert!(cache.dirty.is_empty(), "invariant 4");
                }
                _ => {
                    run(&mut cache, Request::trim(1, first, to_u32(count)));
                    model[sectors].fill(0);
                }
            }
        }
        run(&mut cache, Request::flush(1)).result.unwrap();
        let mut bytes = vec![0; 20_003 * 512];
        crate::Inspect::peek(&cache.drive, nandu_base::SectorIndex(0), &mut bytes);
        for (sector, expected) in bytes.chunks(512).zip(&model) {
            assert!(sector.iter().all(|byte| byte == expected), "what the drive holds");
        }
    }
}

#[test]
fn a_random_read_brings_its_page_alone_and_is_free_the_second_time() {
    let mut cache = cache(config());
    assert!(read_page(&mut cache, 100) > Nanos::ZERO);
    assert_eq!(read_page(&mut cache, 100), Nanos::ZERO);
    read_page(&mut cache, 700);
    assert_eq!(asked(&cache), [(Operation::Read, 100, 1), (Operation::Read, 700, 1)]);
}

#[test]
fn a_stream_is_read_in_windows_that_grow_to_the_longest() {
    let mut cache = cache(config());
    for page in 0..200 {
        read_page(&mut cache, page);
    }
    let sizes: Vec<u64> = asked(&cache).iter().map(|request| request.2).collect();
    assert_eq!(sizes[..6], [1, 4, 8, 16, 16, 16]);
    let end = asked(&cache).last().map(|request| request.1 + request.2).unwrap();
    assert!((200..=232).contains(&end), "{end}: a window ahead at most");
    let places: Vec<u64> = asked(&cache).iter().map(|request| request.1).collect();
    assert!(places.is_sorted(), "no page is brought twice");
}

#[test]
fn two_streams_and_random_reads_between_do_not_disturb_each_other() {
    let mut cache = cache(config());
    for index in 0..64 {
        read_page(&mut cache, index);
        read_page(&mut cache, 1000 + index);
        read_page(&mut cache, 2400 - 7 * index);
    }
    let sizes = |from: u64, to: u64| -> Vec<u64> {
        let requests = asked(&cache);
        requests.iter().filter(|r| (from..to).contains(&r.1)).map(|r| r.2).collect()
    };
    assert_eq!(sizes(0, 900)[..4], [1, 4, 8, 16]);
    assert_eq!(sizes(1000, 1900)[..4], [1, 4, 8, 16]);
    assert!(sizes(1900, 2500).iter().all(|&size| size == 1));
}

#[test]
fn read_around_brings_the_neighbours_of_a_miss() {
    let around = PageCacheConfig { read_around_bytes: 16 * PAGE, ..config() };
    let mut cache = cache(around);
    read_page(&mut cache, 1000);
    read_page(&mut cache, 993);
    read_page(&mut cache, 3);
    assert_eq!(asked(&cache), [(Operation::Read, 993, 16), (Operation::Read, 0, 16)]);
}

#[test]
fn the_first_read_of_a_region_reads_the_blocks_that_map_it() {
    let blocks = PageCacheConfig { indirect_mapped_bytes: 64 * PAGE, ..config() };
    let mut cache = cache(blocks);
    read_page(&mut cache, 130);
    let double_indirect_data = [(Operation::Read, 0, 1), (Operation::Read, 128, 1)];
    assert_eq!(asked(&cache)[..2], double_indirect_data);
    read_page(&mut cache, 150);
    read_page(&mut cache, 700);
    let later: Vec<u64> = asked(&cache)[2..].iter().map(|request| request.1).collect();
    assert_eq!(later, [130, 150, 640, 700], "each block of pointers is read once");
}

#[test]
fn a_write_asks_where_its_page_lies_too() {
    let blocks = PageCacheConfig { indirect_mapped_bytes: 64 * PAGE, ..config() };
    let mut cache = cache(blocks);
    write_page(&mut cache, 130);
    write_page(&mut cache, 131);
    assert_eq!(asked(&cache), [(Operation::Read, 0, 1), (Operation::Read, 128, 1)]);
}

#[test]
fn dirty_pages_are_written_by_address_in_runs_when_there_are_too_many() {
    let mut cache = cache(config());
    for page in [500, 3, 501, 2, 900, 502, 4] {
        write_page(&mut cache, page);
    }
    assert!(asked(&cache).is_empty(), "writes stay in memory");
    for page in 1000..1010 {
        write_page(&mut cache, page);
    }
    let runs = [(2, 3), (500, 3), (900, 1), (1000, 10)].map(|(at, n)| (Operation::Write, at, n));
    assert_eq!(asked(&cache), runs);
}

#[test]
fn a_flush_goes_on_to_the_drive_only_where_the_kernel_sends_one() {
    for flushes_drive in [true, false] {
        let mut cache = cache(PageCacheConfig { flushes_drive, ..config() });
        write_page(&mut cache, 7);
        run(&mut cache, Request::flush(1)).result.unwrap();
        let requests = asked(&cache);
        assert_eq!(requests[0], (Operation::Write, 7, 1));
        assert_eq!(requests.len(), if flushes_drive { 2 } else { 1 });
    }
}

#[test]
fn a_part_of_a_page_is_written_over_what_the_drive_has() {
    let mut cache = cache(config());
    run(&mut cache, Request::write(1, 8, 3, None)).result.unwrap();
    assert_eq!(asked(&cache), [(Operation::Read, 1, 1)]);
}

#[test]
fn pages_used_again_survive_a_scan_on_two_lists_and_not_on_one() {
    for (replacement, survives) in [(Replacement::Lru, false), (Replacement::TwoLists, true)] {
        let mut cache = cache(PageCacheConfig { replacement, ..config() });
        for _ in 0..3 {
            (2000..2050).for_each(|page| {
                read_page(&mut cache, page);
            });
        }
        (0..1000).for_each(|page| {
            read_page(&mut cache, page);
        });
        assert_eq!(read_page(&mut cache, 2020) == Nanos::ZERO, survives, "{replacement:?}");
    }
}

#[test]
fn dropped_pages_are_written_first_and_read_again() {
    let mut cache = cache(config());
    write_page(&mut cache, 9);
    cache.drop_pages();
    cache.audit();
    assert!(read_page(&mut cache, 9) > Nanos::ZERO);
    assert_eq!(asked(&cache), [(Operation::Write, 9, 1), (Operation::Read, 9, 1)]);
}

#[test]
fn an_emptied_cache_is_paid_for_before_the_next_request() {
    let mut cache = cache(config());
    write_page(&mut cache, 9);
    let before = cache.now();
    assert_eq!(cache.empty_cache(), Ok(true));
    assert!(cache.now() > before, "the page was written back");
    let alone = read_page(&mut cache, 700);
    assert_eq!(read_page(&mut cache, 9), alone, "and is read like any other");
    let plan = FaultPlan { fail_requests: vec![1], ..FaultPlan::default() };
    let mut failing = PageCache::new(FaultyDevice::new(drive(), plan), config()).unwrap();
    write_page(&mut failing, 9);
    assert!(failing.empty_cache().is_err(), "what could not be written is told");
    assert_eq!(drive().empty_cache(), Ok(false), "a drive is not the host's memory");
}

#[test]
fn a_write_that_failed_is_told_by_the_next_flush_alone() {
    let plan = FaultPlan { fail_requests: vec![1], ..FaultPlan::default() };
    let mut cache = PageCache::new(FaultyDevice::new(drive(), plan), config()).unwrap();
    write_page(&mut cache, 9);
    assert!(run(&mut cache, Request::flush(1)).result.is_err());
    run(&mut cache, Request::flush(2)).result.unwrap();
}

#[test]
fn a_read_that_fails_brings_nothing() {
    let plan = FaultPlan { fail_requests: vec![1], ..FaultPlan::default() };
    let mut cache = PageCache::new(FaultyDevice::new(drive(), plan), config()).unwrap();
    assert!(run(&mut cache, Request::read(1, 0, 8, None)).result.is_err());
    run(&mut cache, Request::read(2, 0, 8, None)).result.unwrap();
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let wrong = [
        PageCacheConfig { byte_count: 100 * PAGE, ..config() },
        PageCacheConfig { page_bytes: 256, ..config() },
        PageCacheConfig { read_ahead_bytes: 1 << 30, ..config() },
        PageCacheConfig { indirect_mapped_bytes: 1000, ..config() },
    ];
    for config in wrong {
        assert!(PageCache::new(drive(), config.clone()).is_err(), "{config:?}");
    }
}
