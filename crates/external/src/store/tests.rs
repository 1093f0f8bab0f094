//! Flights by themselves.

use super::*;
use crate::testing::store;
use crate::{RecordStream, Vector};

#[test]
fn who_gives_up_waits_for_what_is_in_flight() {
    let store = store(512, 2, 4);
    let mut blocks = Blocks::new(&store, 4);
    let mut buffers = Buffers::new(&store, "test", 4).unwrap();
    for _ in 0..4 {
        let place = blocks.push_back().unwrap();
        drop(store.write(place, buffers.take()).unwrap());
    }
    let flight = store.read(blocks.place(3), buffers.take()).unwrap();
    assert!(flight.is_at(blocks.place(3)) && !flight.is_at(blocks.place(2)));
    assert_eq!(store.counts().read_blocks, 1);
    assert_eq!(flight.wait().unwrap().len(), 512);
    assert_eq!(store.counts().write_bytes, 4 * 512);
    assert!(store.counts().wait_ns > 0, "devices in memory take their time");
}

/// A volume whose files outlive stores.
fn io() -> Io {
    crate::testing::memory_io(4 << 20)
}

fn store_on(io: &Io) -> Store {
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    Store::new(std::slice::from_ref(io), settings, Grant::new(1 << 20)).unwrap()
}

fn resumed(io: &Io, kept: &KeptStore, vectors: &[&KeptVector]) -> Result<Store, ExternalError> {
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    let volumes = std::slice::from_ref(io);
    Store::resume(volumes, settings, Grant::new(1 << 20), Arc::default(), (kept, vectors))
}

fn counting(store: &Store, count: u64) -> Vector<u64> {
    let mut writer = Vector::writer_of(store, count).unwrap();
    (0..count).for_each(|number| writer.push(number).unwrap());
    writer.finish().unwrap()
}

fn sum(vector: &Vector<u64>) -> u64 {
    let (mut scanner, mut sum) = (vector.scanner().unwrap(), 0);
    while let Some(number) = scanner.next_record().unwrap() {
        sum += number;
    }
    sum
}

#[test]
fn a_vector_that_was_kept_is_there_again_and_nothing_is_written_over_it() {
    let io = io();
    let store = store_on(&io);
    let gone = counting(&store, 700);
    let vector = counting(&store, 1000);
    let kept_vector = vector.kept();
    let kept = store.keep().unwrap();
    drop(gone);
    // What a run writes later, before it ends.
    let later = counting(&store, 3000);
    drop((later, vector, store));
    let store = resumed(&io, &kept, &[&kept_vector]).unwrap();
    let vector = Vector::<u64>::resume(&store, &kept_vector).unwrap();
    vector.audit();
    let other = counting(&store, 5000);
    store.audit();
    assert_eq!((sum(&vector), sum(&other)), (999 * 500, 4999 * 2500));
    assert!(store.keep().unwrap() != kept, "stamps go on");
    store.let_go();
    drop((vector, other));
    assert_eq!(store.used_blocks(), 0);
    drop(store);
    assert_eq!(io.files().len(), 0);
}

#[test]
fn what_was_kept_on_several_volumes_may_end_on_any_of_them() {
    let io = [io(), io(), io()];
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    for count in 1..8 {
        let store = Store::new(&io, settings, Grant::new(1 << 20)).unwrap();
        // 63 numbers a block.
        let vector = counting(&store, 63 * count);
        let (kept_vector, kept) = (vector.kept(), store.keep().unwrap());
        drop((vector, store));
        let what = (&kept, &[&kept_vector][..]);
        let store =
            Store::resume(&io, settings, Grant::new(1 << 20), Arc::default(), what).unwrap();
        let vector = Vector::<u64>::resume(&store, &kept_vector).unwrap();
        assert_eq!(sum(&vector), (63 * count - 1) * 63 * count / 2);
        store.let_go();
    }
}

#[test]
fn vectors_that_were_kept_may_all_end_before_they_come_to_a_volume() {
    let io = [io(), io()];
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    let store = Store::new(&io, settings, Grant::new(1 << 20)).unwrap();
    let vectors = [5, 6, 7].map(|count| counting(&store, count));
    let (kept_vectors, kept) = (vectors.each_ref().map(Vector::kept), store.keep().unwrap());
    drop((vectors, store));
    let what = (&kept, &kept_vectors.each_ref()[..]);
    let store = Store::resume(&io, settings, Grant::new(1 << 20), Arc::default(), what).unwrap();
    let sums = kept_vectors.map(|kept| sum(&Vector::<u64>::resume(&store, &kept).unwrap()));
    assert_eq!(sums, [10, 15, 21]);
    store.let_go();
}

#[test]
fn what_was_kept_and_is_read_away_stays_whole_while_room_is_held() {
    let io = io();
    let store = store_on(&io);
    let vector = counting(&store, 1000);
    let kept_vector = vector.kept();
    let kept = store.keep().unwrap();
    store.hold();
    let mut drain = vector.into_stream().unwrap();
    while drain.next_record().unwrap().is_some() {}
    drop(drain);
    let used = store.used_blocks();
    let later = counting(&store, 1000);
    assert_eq!(store.used_blocks(), 2 * used, "it is not written over");
    store.audit();
    let (later_vector, later_kept) = (later.kept(), store.keep().unwrap());
    drop((later, store));
    let read = |kept: &KeptStore, vector: &KeptVector| {
        let store = resumed(&io, kept, &[vector]).unwrap();
        sum(&Vector::<u64>::resume(&store, vector).unwrap())
    };
    assert_eq!(read(&kept, &kept_vector), 999 * 500);
    assert_eq!(read(&later_kept, &later_vector), 999 * 500);
    let store = resumed(&io, &later_kept, &[&later_vector]).unwrap();
    let later = Vector::<u64>::resume(&store, &later_vector).unwrap();
    store.hold();
    drop(later);
    assert_eq!(store.used_blocks(), used);
    store.hold();
    assert_eq!(store.used_blocks(), 0, "the next phase has the room of the one before");
    store.let_go();
}

#[test]
fn files_of_another_store_are_an_error_though_all_lies_at_the_same_places() {
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    let kept_of = |io: &Io, identity, first| {
        let (volumes, grant) = (std::slice::from_ref(io), Grant::new(1 << 20));
        let store = Store::identified(volumes, settings, grant, Arc::default(), identity).unwrap();
        let mut writer = Vector::writer_of(&store, 1000).unwrap();
        (first..first + 1000).for_each(|number: u64| writer.push(number).unwrap());
        let vector = writer.finish().unwrap();
        (store.keep().unwrap(), vector.kept())
    };
    let (one, other) = (io(), io());
    let (kept, vector) = kept_of(&one, 0x1234_5678_9abc_def0, 0);
    let (other_kept, other_vector) = kept_of(&other, 0x1234_5678_9abc_def1, 7);
    assert_eq!(vector, other_vector, "all lies at the same places");
    let sum_of = |io: &Io, kept: &KeptStore| {
        let store = resumed(io, kept, &[&vector])?;
        Vector::<u64>::resume(&store, &vector).map(|vector| sum(&vector))
    };
    assert_eq!(sum_of(&one, &kept), Ok(999 * 500));
    assert_eq!(sum_of(&other, &other_kept), Ok(999 * 500 + 7000));
    for (io, kept) in [(&other, &kept), (&one, &other_kept)] {
        let error = sum_of(io, kept).unwrap_err().to_string();
        assert!(error.contains("not what was written there"), "{error}");
    }
}

/// Makes something of a vector that was kept into something else.
type Change<'c> = &'c dyn Fn(&mut KeptVector);

#[test]
fn what_was_kept_and_does_not_fit_its_files_is_an_error() {
    let io = io();
    let store = store_on(&io);
    let vector = counting(&store, 1000);
    let (kept_vector, kept) = (vector.kept(), store.keep().unwrap());
    drop((vector, store));
    let error = |kept: &KeptStore, vectors: &[&KeptVector]| {
        resumed(&io, kept, vectors).map(drop).unwrap_err().to_string()
    };
    let longer = KeptStore { block_bytes: 1024, ..kept.clone() };
    assert!(error(&longer, &[&kept_vector]).contains("its blocks have 1024 bytes"));
    let missing = KeptStore { files: vec!["external-7".to_owned()], ..kept.clone() };
    assert!(error(&missing, &[&kept_vector]).contains("external-7 is missing"));
    assert!(error(&kept, &[&kept_vector, &kept_vector]).contains("not where vectors can be"));
    let with = |change: Change<'_>| {
        let mut changed = kept_vector.clone();
        change(&mut changed);
        let store = resumed(&io, &kept, &[&changed])?;
        Vector::<u64>::resume(&store, &changed).map(drop)
    };
    assert_eq!(with(&|_| {}), Ok(()));
    let changes: [(Change<'_>, &str); 6] = [
        (&|vector: &mut KeptVector| vector.len = 2000, "longer or shorter"),
        (&|vector: &mut KeptVector| vector.len = 1, "longer or shorter"),
        (&|vector: &mut KeptVector| vector.record_bytes = 4, "records of another size"),
        (&|vector: &mut KeptVector| vector.extents[0].stamp += 1, "not what was written"),
        (&|vector: &mut KeptVector| vector.extents[0].first += 1, ""),
        (&|vector: &mut KeptVector| vector.extents[0].count = u64::MAX, "not where vectors can be"),
    ];
    for (change, told) in changes {
        let error = with(change).unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
    let file = io.files()[0].0;
    io.set_byte_count(file, 512).unwrap();
    assert!(error(&kept, &[&kept_vector]).contains("has 512 bytes"));
}
