//! Sorts of bytes beside a sort of slices by what the layout says.

use super::*;
use crate::testing::{GRANT_BYTES, memory_io, store};
use crate::{Grant, Settings};
use nandu_base::Rng;
use proptest::prelude::*;

/// How a sort that is watched ends.
#[derive(Debug, PartialEq)]
enum Why {
    Enough,
    Failed(ExternalError),
}
impl From<ExternalError> for Why {
    fn from(error: ExternalError) -> Self {
        Self::Failed(error)
    }
}

/// The key of a record by its layout alone.
fn key_of(record: &[u8], key: KeyLayout) -> Vec<u8> {
    let bytes = record[key.start..key.start + key.bytes].iter().copied();
    match key.kind {
        KeyKind::Bytes => bytes.collect(),
        KeyKind::LittleEndian => bytes.rev().collect(),
    }
}

/// Records of few different bytes, so that keys are often alike.
fn records_of(record_bytes: usize, count: usize, rng: &mut Rng) -> Vec<u8> {
    let byte = |_| {
        let drawn = rng.next_u64().to_le_bytes();
        if drawn[0].is_multiple_of(2) { 7 } else { drawn[1] }
    };
    (0..record_bytes * count).map(byte).collect()
}

fn expected(records: &[u8], record_bytes: usize, key: KeyLayout) -> Vec<u8> {
    let mut slices: Vec<&[u8]> = records.chunks(record_bytes).collect();
    slices.sort_by_key(|record| (key_of(record, key), *record));
    slices.concat()
}

/// All that comes out, by targets of so many bytes.
fn collect(mut sorted: ByteSorted, target_bytes: usize) -> Vec<u8> {
    let (mut all, mut target) = (Vec::new(), vec![0; target_bytes]);
    loop {
        match sorted.read(&mut target).unwrap() {
            0 => return all,
            bytes => all.extend_from_slice(&target[..bytes]),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn bytes_come_out_in_the_order_of_their_keys(
        record_bytes in prop_oneof![1_usize..20, Just(16), Just(100), 1_usize..300],
        (start, bytes) in (any::<prop::sample::Index>(), 0_usize..=KEY_BYTES_MAX),
        is_big_endian: bool,
        (count, batch, target) in (0_usize..3000, 1_usize..70, 1_usize..70),
        seed: u64,
    ) {
        let kind = if is_big_endian { KeyKind::Bytes } else { KeyKind::LittleEndian };
        let bytes = bytes.min(record_bytes);
        let key = KeyLayout { start: start.index(record_bytes - bytes + 1), bytes, kind };
        let records = records_of(record_bytes, count, &mut Rng::new(seed));
        let store = store(512, 1, 1);
        let mut sorter = ByteSorter::with_bytes(&store, record_bytes, key, 16 << 10).unwrap();
        for part in records.chunks(batch * record_bytes) {
            sorter.push_all(part).unwrap();
        }
        prop_assert_eq!(sorter.runs().record_count(), count as u64);
        let sorted = collect(sorter.finish().unwrap(), target * record_bytes + target % record_bytes);
        prop_assert!(sorted == expected(&records, record_bytes, key));
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
    }
}

#[test]
fn a_word_is_what_its_bytes_say() {
    let record: [u8; 12] = std::array::from_fn(|index| 0xa0 + u8::try_from(index).unwrap());
    let word = |start, bytes, kind| Word::new((start, bytes), kind, 12).of(&record);
    assert_eq!(word(0, 8, KeyKind::Bytes), 0xa0a1_a2a3_a4a5_a6a7);
    assert_eq!(word(10, 2, KeyKind::Bytes), 0xaaab_0000_0000_0000);
    assert_eq!(word(3, 1, KeyKind::Bytes), 0xa300_0000_0000_0000);
    assert_eq!(word(4, 8, KeyKind::LittleEndian), 0xabaa_a9a8_a7a6_a5a4);
    assert_eq!(word(10, 2, KeyKind::LittleEndian), 0xabaa_0000_0000_0000);
    assert_eq!(word(1, 3, KeyKind::LittleEndian), 0xa3a2_a100_0000_0000);
    assert_eq!(word(5, 0, KeyKind::LittleEndian), 0);
    let short = [1, 2, 3, 4];
    let word = |start, bytes, kind| Word::new((start, bytes), kind, 4).of(&short);
    assert_eq!(word(1, 3, KeyKind::Bytes), 0x0203_0400_0000_0000);
    assert_eq!(word(1, 2, KeyKind::LittleEndian), 0x0302_0000_0000_0000);
}

#[test]
fn sizes_that_people_have_are_exact_and_others_the_next() {
    assert!(SIZES.is_sorted());
    for bytes in [8, 16, 100, RECORD_BYTES_MAX] {
        assert_eq!(sorted_bytes(bytes), Ok(bytes));
    }
    assert_eq!(sorted_bytes(13), Ok(16));
    for none in [0, RECORD_BYTES_MAX + 1] {
        assert!(sorted_bytes(none).unwrap_err().to_string().contains("1 to 4096"), "{none}");
    }
}

#[test]
fn a_key_that_does_not_lie_in_records_is_refused() {
    let store = store(512, 1, 1);
    for (start, bytes, told) in [
        (0, 17, "the longest one has 16"),
        (9, 8, "does not lie in records of 16 bytes"),
        (usize::MAX, 2, "does not lie in records"),
    ] {
        let key = KeyLayout { start, bytes, kind: KeyKind::Bytes };
        let error = ByteSorter::with_bytes(&store, 16, key, 16 << 10).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn runs_are_kept_and_what_watches_may_end_the_sort() {
    let io = memory_io(16 << 20);
    let settings = Settings { block_bytes: 512, in_flight: 1 };
    let volumes = std::slice::from_ref(&io);
    let key = KeyLayout { start: 0, bytes: 8, kind: KeyKind::LittleEndian };
    let records = records_of(16, 4000, &mut Rng::new(1));
    let store = Store::new(volumes, settings, Grant::new(1 << 20)).unwrap();
    let mut sorter = ByteSorter::with_bytes(&store, 16, key, 4 << 10).unwrap();
    sorter.push_all(&records).unwrap();
    let mut kept = None;
    let ended = sorter.finish_watched(|runs| {
        assert_eq!((runs.record_count(), runs.written_count()), (4000, 4000));
        assert!(runs.run_count() > 8 && runs.merged_left_count() > 0);
        kept = Some((store.keep()?, runs.kept_runs()));
        Err(Why::Enough)
    });
    assert_eq!(ended.err(), Some(Why::Enough));
    drop(store);
    let (kept_store, runs) = kept.unwrap();
    let all: Vec<&KeptVector> = runs.iter().collect();
    let (grant, stop) = (Grant::new(1 << 20), Default::default());
    let store = Store::resume(volumes, settings, grant, stop, (&kept_store, &all)).unwrap();
    let sorter = ByteSorter::resume(&store, 16, key, 4 << 10, &runs).unwrap();
    assert_eq!(sorter.runs().record_count(), 4000);
    let sorted = sorter.finish().unwrap();
    assert!(collect(sorted, 1 << 10) == expected(&records, 16, key));
    store.let_go();
}
