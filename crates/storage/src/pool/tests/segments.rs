//! A pool whose pages are placed log-structured, in segments so few that they are written again while
//! somebody reads a page without the pool.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::{FILE, FakeLog, Model, PAGE_BYTES, address};
use crate::Lsn;
use crate::page::{Checksum, TRAILER_BYTES};
use crate::pool::{Pool, PoolConfig, ReplacementKind};
use crate::propagation::log_structured::PagePacking;
use crate::propagation::{
    ChangedRanges, LogStructured, LogStructuredSettings, Media, PagePlace, PageWrite, Placement,
};
use crate::volume::testing::SharedDevice;
use crate::volume::{DeviceVolume, Io, IoOwner};
use nandu_device::{Geometry, IoBuffer, MemoryConfig, MemoryDevice, Operation};
use nandu_workers::{Schedule, Work};
use std::sync::Arc;

const PAGE_COUNT: usize = 30;

fn model(packing: PagePacking, seed: u64) -> Model {
    let geometry = Geometry::new(512, 4096).unwrap();
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let volume = DeviceVolume::format(Box::new(SharedDevice::new(memory))).unwrap();
    let io = Io::new(Box::new(volume), Arc::default());
    let settings = LogStructuredSettings {
        page_bytes: PAGE_BYTES,
        segment_bytes: 4096,
        write_bytes: 2048,
        spare_segment_count: 7,
        reserve_segment_count: 4,
        checkpoint_segment_count: 3,
        packing,
        ..LogStructuredSettings::default()
    };
    let placed = LogStructured::create(Media::of_data(io), settings).unwrap();
    let placement = Placement::new(Box::new(placed), PAGE_BYTES, None);
    let (frame_count, replacement) = (4, ReplacementKind::Lru);
    let config = PoolConfig { page_bytes: PAGE_BYTES, frame_count, replacement };
    let log = Box::new(FakeLog::default());
    let mut pool = Pool::new(config, placement, log).unwrap();
    pool.name_file(FILE, "table", Checksum::Trailer);
    Model::new(pool, PAGE_COUNT, seed)
}

/// Only a worker, or a volume that is read past its queue, reads without the pool.
fn as_worker(work: impl FnOnce() + Send + 'static) {
    let work: Work<()> = Box::new(work);
    Schedule::default().run(vec![work]);
}

#[test]
fn pages_that_move_while_they_are_read_aside_come_as_they_are_now() {
    for packing in [PagePacking::Whole, PagePacking::Packed] {
        for seed in 0..60 {
            as_worker(move || {
                let mut model = model(packing, seed);
                for step in 0..1000 {
                    model.step().unwrap();
                    if step % 64 == 0 {
                        model.pool.audit();
                    }
                }
                model.check_all();
                assert!(model.aside_count > 30, "{} were read aside", model.aside_count);
                let io = &model.pool.io;
                let files = io.files();
                let segments = files.iter().find(|(_, name)| name == "segments").unwrap().0;
                let (written, held) = (io.counters().writes.byte_count, io.byte_count(segments));
                assert!(written > 3 * held, "{written} bytes fill {held} again and again");
            });
        }
    }
}

#[test]
fn a_page_without_a_checksum_is_not_read_where_another_may_lie_by_then() {
    as_worker(|| {
        let mut model = model(PagePacking::Packed, 1);
        model.change(1).unwrap();
        model.pool.drop_all().unwrap();
        assert!(model.pool.plan_aside(address(1)).is_none(), "it waits for its segment");
        model.pool.sync().unwrap();
        assert!(model.pool.plan_aside(address(1)).is_some());
        model.pool.name_file(FILE, "table", Checksum::None);
        assert!(model.pool.plan_aside(address(1)).is_none());
    });
}

#[test]
fn zeros_where_a_page_lay_are_not_taken_for_one_that_was_never_written() {
    as_worker(|| {
        let mut model = model(PagePacking::Whole, 1);
        while model.fills[0] == 0 {
            model.change(1).unwrap();
        }
        model.pool.drop_all().unwrap();
        model.pool.sync().unwrap();
        let plan = model.pool.plan_aside(address(1)).unwrap();
        // It moves, as cleaning would move it, and its segment is written again.
        let place = {
            let mut state = model.pool.lock();
            let place = state.locate(address(1), PAGE_BYTES);
            let placement = state.placement();
            placement.start_read(address(1), IoBuffer::zeroed(PAGE_BYTES as usize)).unwrap();
            let buffer = placement.next_read().unwrap().buffer;
            let (address, changed) = (address(1), ChangedRanges::default());
            let moved = PageWrite { address, buffer, changed, is_new: false };
            placement.write(&mut [moved]).unwrap();
            placement.sync().unwrap();
            place
        };
        let Some(PagePlace::Whole { file, offset_bytes }) = place else { panic!("{place:?}") };
        let (io, zeros) = (model.pool.io.clone(), IoBuffer::zeroed(PAGE_BYTES as usize));
        let write = io.submit(IoOwner::Operator, file, Operation::Write, offset_bytes, zeros);
        io.wait(write.unwrap()).result.unwrap();
        let read = model.pool.page_reader().read(plan);
        assert_eq!(model.pool.finish_aside(read, |bytes| bytes[0]), Ok(model.fills[0]));
    });
}

#[test]
fn a_difference_covers_what_the_one_before_covered_however_the_page_was_read() {
    for read_aside in [false, true] {
        as_worker(move || {
            let mut model = model(PagePacking::Packed, 1);
            model.change(1).unwrap();
            let mut expected = vec![model.fills[0]; PAGE_BYTES as usize - TRAILER_BYTES];
            for (at, lsn) in (0..12).map(|at| at * 40).zip(2..) {
                model.pool.drop_all().unwrap();
                model.pool.sync().unwrap();
                if read_aside {
                    let plan = model.pool.plan_aside(address(1)).unwrap();
                    let read = model.pool.page_reader().read(plan);
                    model.pool.finish_aside(read, |_| ()).unwrap();
                }
                let mut frame = model.pool.page_mut(address(1)).unwrap();
                frame.bytes_mut()[at] ^= 0xFF;
                frame.note_change(at as u32..at as u32 + 1);
                frame.set_lsn(Lsn(lsn));
                expected[at] ^= 0xFF;
            }
            model.pool.drop_all().unwrap();
            let found = model.pool.read(address(1), |bytes| bytes[..expected.len()] == expected);
            assert!(found.unwrap(), "read aside: {read_aside}");
        });
    }
}
