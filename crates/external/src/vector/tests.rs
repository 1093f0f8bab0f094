//! Vectors beside vectors in memory, the blocks they read and write, and what happens in trouble.

use super::*;
use crate::RecordStream;
use crate::testing::{GRANT_BYTES, faulty_io, memory_io, store, store_with};
use crate::{Grant, Settings};
use nandu_device::{FaultPlan, IoBuffer, Operation};
use nandu_storage::StorageError;
use nandu_storage::volume::{Io, IoOwner};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Triple = (u64, u32, [u8; 5]);

fn triples(count: u64) -> Vec<Triple> {
    (0..count).map(|n| (n * 7919, nandu_base::to_u32(n), [n.to_be_bytes()[7]; 5])).collect()
}

fn vector_of<R: Record>(store: &Store, records: &[R]) -> Vector<R> {
    let mut writer = Vector::writer(store).unwrap();
    records.iter().for_each(|&record| writer.push(record).unwrap());
    assert_eq!(writer.len(), records.len() as u64);
    let vector = writer.finish().unwrap();
    vector.audit();
    vector
}

fn collect<S: RecordStream>(mut stream: S) -> Vec<S::Record> {
    let mut records = Vec::new();
    while let Some(record) = stream.next_record().unwrap() {
        records.push(record);
    }
    assert_eq!(stream.next_record(), Ok(None));
    records
}

proptest! {
    #[test]
    fn what_is_written_is_scanned_from_anywhere_in_so_many_blocks(
        count in 0_u64..400, volumes in 1_usize..4, in_flight in 0_u32..5,
        from in 0_u64..400, length in 0_u64..400, ahead in 0_u32..5,
    ) {
        let store = store(512, volumes, in_flight);
        let records = triples(count);
        let vector = vector_of(&store, &records);
        // 504 bytes of a block are for records, of 17 bytes each.
        let per_block = 29;
        prop_assert_eq!(store.counts().write_blocks, count.div_ceil(per_block));
        prop_assert_eq!(vector.block_count(), count.div_ceil(per_block));

        let range = from.min(count)..(from + length).min(count).max(from.min(count));
        let slice = &records[nandu_base::to_index(range.start)..nandu_base::to_index(range.end)];
        let blocks = match slice.is_empty() {
            true => 0,
            false => range.end.div_ceil(per_block) - range.start / per_block,
        };
        let scanner = vector.scanner_of(range, ahead).unwrap();
        prop_assert_eq!(collect(scanner), slice);
        prop_assert_eq!(store.counts().read_blocks, blocks);

        prop_assert_eq!(collect(vector.into_stream().unwrap()), records);
        prop_assert_eq!(store.counts().read_blocks, blocks + count.div_ceil(per_block));
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        store.audit();
    }

    #[test]
    fn ranges_are_gathered_in_the_order_in_which_they_are_named(
        count in 1_u64..2000, in_flight in 0_u32..5, is_ascending: bool,
        streams in vec((vec((any::<Index>(), 0_u64..150), 0..400), any::<Index>()), 1..4),
    ) {
        let store = store(512, 1, in_flight);
        let records: Vec<u64> = (0..count).map(|n| n * 3).collect();
        let vector = vector_of(&store, &records);
        let mut gatherer = vector.gatherer().unwrap();
        let (mut at_hand, mut reads) = (None, 0);
        for (ranges, taken) in streams {
            let mut ranges: Vec<(u64, u64)> = { ranges.into_iter() }
                .map(|(first, length)| (first.index(records.len()) as u64, length))
                .map(|(first, length)| (first, length.min(count - first)))
                .collect();
            if is_ascending {
                ranges.sort_unstable();
            }
            let expected: Vec<u64> =
                ranges.iter().flat_map(|&(first, length)| first..first + length).collect();
            let named = vector_of(&store, &ranges);
            let before = store.counts();
            let named_blocks = named.block_count();
            let gathered = gatherer.gather(named.into_stream().unwrap());
            if is_ascending || taken.index(2) == 0 {
                let found = collect(gathered);
                prop_assert!(found.iter().copied().eq(expected.iter().map(|index| index * 3)));
                for index in expected {
                    reads += u64::from(at_hand != Some(index / 63));
                    at_hand = Some(index / 63);
                }
                let counts = store.counts().since(&before);
                prop_assert_eq!(counts.read_blocks, reads + named_blocks);
            } else {
                // Some are taken, then others are named.
                let mut gathered = gathered;
                for index in expected.iter().take(taken.index(expected.len() + 1)) {
                    prop_assert_eq!(gathered.next_record(), Ok(Some(index * 3)));
                    at_hand = Some(index / 63);
                }
            }
            reads = 0;
        }
        drop(gatherer);
        prop_assert_eq!(store.grant().free_bytes(), GRANT_BYTES);
    }

    #[test]
    fn blocks_that_are_kept_are_not_read_again(
        count in 1_u64..2000, kept_count in 0_u64..6, in_flight in 0_u32..3,
        streams in vec(vec((any::<Index>(), 0_u64..150), 0..200), 1..4),
    ) {
        let store = store(512, 1, in_flight);
        let records: Vec<u64> = (0..count).map(|n| n * 3).collect();
        let vector = vector_of(&store, &records);
        let granted = store.grant().free_bytes();
        let mut gatherer = vector.keeping_gatherer(kept_count).unwrap();
        let taken = granted - store.grant().free_bytes();
        prop_assert_eq!(taken, 8192 + kept_count * (512 + 128) + (u64::from(in_flight) + 1) * 512);
        // The least recently used goes, as from a list; what is asked for ahead may go earlier.
        let (mut blocks, mut changes, mut misses) = (Vec::new(), 0, 0);
        for ranges in streams {
            let ranges: Vec<(u64, u64)> = { ranges.into_iter() }
                .map(|(first, length)| (first.index(records.len()) as u64, length))
                .map(|(first, length)| (first, length.min(count - first)))
                .collect();
            let indices = ranges.iter().flat_map(|&(first, length)| first..first + length);
            let named = vector_of(&store, &ranges);
            let (before, named_blocks) = (store.counts(), named.block_count());
            let found = collect(gatherer.gather(named.into_stream().unwrap()));
            prop_assert!(found.iter().copied().eq(indices.clone().map(|index| index * 3)));
            for block in indices.map(|index| index / 63) {
                changes += u64::from(blocks.last() != Some(&block));
                match blocks.iter().position(|&other| other == block) {
                    Some(index) => _ = blocks.remove(index),
                    None => misses += 1,
                }
                blocks.push(block);
                if blocks.len() as u64 > kept_count + 1 {
                    blocks.remove(0);
                }
            }
            let reads = store.counts().since(&before).read_blocks - named_blocks;
            prop_assert!(reads <= changes);
            prop_assert!(in_flight > 0 || reads == misses, "{} of {}", reads, misses);
            (changes, misses) = (0, 0);
        }
        drop(gatherer);
        prop_assert_eq!(store.grant().free_bytes(), granted);
    }

    #[test]
    fn a_paged_vector_is_a_vector(
        count in 1_u64..200, frames in 1_u32..6,
        steps in vec((any::<bool>(), any::<Index>(), any::<u64>()), 0..300),
    ) {
        let store = store(512, 2, 2);
        let mut model: Vec<u64> = (0..count).collect();
        let mut paged = vector_of(&store, &model).paged(frames).unwrap();
        for (is_change, index, value) in steps {
            let index = index.index(model.len());
            if is_change {
                paged.set(index as u64, value).unwrap();
                model[index] = value;
            } else {
                prop_assert_eq!(paged.get(index as u64), Ok(model[index]));
            }
            paged.audit();
        }
        let out_of_range =
            ExternalError::OutOfRange { what: "a vector".to_owned(), index: count, count };
        prop_assert_eq!(paged.get(count), Err(out_of_range));
        let vector = paged.into_vector().unwrap();
        prop_assert_eq!(collect(vector.scanner().unwrap()), model);
        drop(vector);
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
    }
}

#[test]
fn a_paged_vector_reads_what_it_misses_and_writes_what_was_changed() {
    let store = store(512, 1, 0);
    // 63 numbers a block: 10 blocks.
    let mut paged = Vector::filled(&store, 630, 5_u64).unwrap().paged(3).unwrap();
    let before = store.counts();
    for round in 0..4 {
        for block in 0..3 {
            paged.get(block * 63 + round).unwrap();
        }
    }
    assert_eq!(store.counts().since(&before).read_blocks, 3);
    (0..10).for_each(|block| paged.set(block * 63, block).unwrap());
    // All blocks pass the three frames; what is there stays until it has to go.
    let counts = store.counts().since(&before);
    assert_eq!((paged.miss_count(), counts.read_blocks, counts.write_blocks), (10, 10, 7));
    drop(paged.into_vector().unwrap());
    assert_eq!(store.counts().since(&before).write_blocks, 10);
}

#[test]
fn striped_blocks_go_round_all_volumes() {
    let volumes = [memory_io(1 << 20), memory_io(1 << 20), memory_io(1 << 20)];
    let settings = Settings { block_bytes: 512, in_flight: 3 };
    let store = Store::new(&volumes, settings, Grant::new(1 << 20)).unwrap();
    let vector = Vector::filled(&store, 63 * 9, 1_u64).unwrap();
    for io in &volumes {
        let (file, name) = io.files().pop().unwrap();
        assert_eq!((name.as_str(), io.byte_count(file)), ("external-1", 3 * 512));
    }
    // Another store on the same volumes has files of its own.
    let other = Store::new(&volumes[..1], settings, Grant::new(1 << 20)).unwrap();
    assert_eq!(volumes[0].files().len(), 2);
    drop((store, other));
    assert!(volumes.iter().all(|io| io.files().len() == 1), "the vector holds the store");
    drop(vector);
    assert!(volumes.iter().all(|io| io.files().is_empty()));
}

#[test]
fn memory_is_refused_by_name() {
    let store = store_with(512, 1, 3, 4 * 512 - 1);
    let error = Vector::<u64>::writer(&store).unwrap_err();
    let expected = ExternalError::TooLittleMemory {
        operator: "a writer".to_owned(),
        needed_bytes: 2048,
        granted_bytes: 2047,
    };
    assert_eq!(error, expected);
    assert!(error.to_string().contains("a writer needs 2"), "{error}");
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let io = memory_io(1 << 20);
    let new = |block_bytes, volumes: &[Io]| {
        let settings = Settings { block_bytes, in_flight: 1 };
        Store::new(volumes, settings, Grant::new(1 << 20))
    };
    for (block_bytes, word) in [(0, "sectors"), (1000, "sectors of 512 bytes")] {
        let error = new(block_bytes, std::slice::from_ref(&io)).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(new(512, &[]).unwrap_err().to_string().contains("needs a volume"));
    let store = new(512, std::slice::from_ref(&io)).unwrap();
    for error in
        [Vector::<[u8; 505]>::writer(&store).map(drop), Vector::<[u8; 0]>::writer(&store).map(drop)]
    {
        assert!(matches!(error, Err(ExternalError::Invalid { .. })), "{error:?}");
    }
    assert!(Vector::<u64>::filled(&store, 3, 1).unwrap().paged(0).is_err());
    assert!(io.files().len() == 1);
}

#[test]
fn a_full_volume_is_an_error_and_gives_its_room_back() {
    let io = memory_io(64 << 10);
    for in_flight in [0, 1, 4] {
        let settings = Settings { block_bytes: 4096, in_flight };
        let store = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20)).unwrap();
        let mut writer = Vector::<u64>::writer(&store).unwrap();
        let error = (0..1 << 20).find_map(|n| writer.push(n).err()).unwrap();
        let is_no_space = matches!(error, ExternalError::Storage(StorageError::NoSpace { .. }));
        assert!(is_no_space && error.to_string().contains("external-1"), "{error}");
        // The records so far have a gap: nothing is made of them.
        assert_eq!(writer.push(1), Err(error.clone()));
        assert_eq!(writer.finish().unwrap_err(), error);
        assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 1 << 20));
        drop(store);
        assert!(io.files().is_empty());
    }
}

#[test]
fn a_file_that_was_cut_is_an_error_with_its_place() {
    let io = memory_io(1 << 20);
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    let store = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20)).unwrap();
    let vector = vector_of(&store, &(0..630).collect::<Vec<u64>>());
    io.set_byte_count(io.files()[0].0, 512 * 4).unwrap();
    let mut scanner = vector.scanner().unwrap();
    let mut count = 0;
    let error = loop {
        match scanner.next_record() {
            Ok(record) => assert_eq!(record, Some(count)),
            Err(error) => break error,
        }
        count += 1;
    };
    assert_eq!(count, 4 * 63);
    assert!(
        error.to_string().contains("external-1") && error.to_string().contains("2048"),
        "{error}"
    );
    assert_eq!(scanner.next_record(), Err(error));
    drop(scanner);
    let mut stream = vector.into_stream().unwrap();
    let errors = (0..1000).filter(|_| stream.next_record().is_err()).count();
    assert_eq!(errors, 1000 - 4 * 63);
    drop(stream);
    assert_eq!(store.used_blocks(), 0);
}

#[test]
fn a_range_that_is_none_is_an_error_for_good() {
    let store = store(512, 1, 2);
    let vector = vector_of(&store, &[7_u64; 100]);
    let named = vector_of(&store, &[(0_u64, 2_u64), (99, 2), (0, 1)]);
    let mut gatherer = vector.gatherer().unwrap();
    let mut gathered = gatherer.gather(named.into_stream().unwrap());
    let error = (0..3).find_map(|_| gathered.next_record().err()).unwrap();
    let expected =
        ExternalError::OutOfRange { what: "a vector".to_owned(), index: 100, count: 100 };
    assert_eq!(error, expected);
    assert_eq!(gathered.next_record(), Err(expected.clone()));
    let named = vector_of(&store, &[(0_u64, 2_u64)]).into_stream().unwrap();
    assert_eq!(gatherer.gather(named).next_record(), Err(expected));
}

#[test]
fn who_is_stopped_ends_with_an_error_and_gives_all_back() {
    let (io, stop) = (memory_io(1 << 20), Arc::new(AtomicBool::new(false)));
    let settings = Settings { block_bytes: 512, in_flight: 1 };
    let volumes = std::slice::from_ref(&io);
    let store = Store::stoppable(volumes, settings, Grant::new(4096), Arc::clone(&stop)).unwrap();
    let mut stream = vector_of(&store, &[3_u64; 630]).into_stream().unwrap();
    (0..100).for_each(|_| assert_eq!(stream.next_record(), Ok(Some(3))));
    stop.store(true, Ordering::Relaxed);
    let error = (0..630).find_map(|_| stream.next_record().err());
    assert_eq!(error, Some(ExternalError::Cancelled));
    assert_eq!(stream.next_record(), Err(ExternalError::Cancelled));
    drop(stream);
    assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 4096));
}

#[test]
fn blocks_of_an_earlier_owner_are_not_taken_for_others() {
    let io = memory_io(1 << 20);
    let settings = Settings { block_bytes: 512, in_flight: 0 };
    let store = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20)).unwrap();
    let file = io.files()[0].0;
    drop(vector_of(&store, &[1_u64; 63]));
    let block = |operation, buffer| {
        let ticket = io.submit(IoOwner::Operator, file, operation, 0, buffer).unwrap();
        io.wait(ticket).buffer.unwrap()
    };
    let stale = block(Operation::Read, IoBuffer::zeroed(512));
    let vector = vector_of(&store, &[2_u64; 63]);
    // The drive loses the second write.
    block(Operation::Write, stale);
    let error = vector.scanner().unwrap().next_record().unwrap_err();
    assert!(error.to_string().contains("not what was written"), "{error}");
}

#[test]
fn a_device_that_fails_anywhere_ends_in_an_error_and_gives_all_back() {
    let mut failed_count = 0;
    for request in 0..60 {
        let plan = FaultPlan { fail_requests: vec![request], ..FaultPlan::default() };
        let Ok(io) = faulty_io(1 << 20, plan) else { continue };
        let settings = Settings { block_bytes: 512, in_flight: 2 };
        let Ok(store) = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20)) else {
            continue;
        };
        let run = || -> Result<(), ExternalError> {
            let mut paged = Vector::filled(&store, 630, 1_u64)?.paged(3)?;
            for index in (0..630).step_by(40) {
                paged.set(index, index)?;
            }
            let mut stream = paged.into_vector()?.into_stream()?;
            while stream.next_record()?.is_some() {}
            Ok(())
        };
        failed_count += u64::from(run().is_err());
        assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 1 << 20));
        store.audit();
    }
    assert!(failed_count > 20, "{failed_count} runs met a failure");
}
