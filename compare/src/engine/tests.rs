//! Every engine that is installed gives back what it was given, whatever it was opened for.

use super::*;
use crate::workload::{Workload, check_current, check_value, updated_value};

fn settings(directory: &Path, purpose: Purpose) -> Settings<'_> {
    Settings {
        directory,
        cache_bytes: 32 << 20,
        limit_bytes: 96 << 20,
        page_bytes: 4096,
        queue_depth: 8,
        purpose,
        thread_count: 1,
    }
}

fn installed() -> Vec<EngineKind> {
    EngineKind::ALL.into_iter().filter(|kind| kind.version().is_ok()).collect()
}

#[test]
fn what_was_inserted_is_found_and_scanned_in_order_and_nothing_else() {
    let workload = Workload { seed: 3, random_ppm: 500_000, record_count: 1_200 };
    for kind in installed() {
        let directory = tempfile::tempdir().unwrap();
        let mut keys = workload.keys();
        let mut expected = Vec::new();
        for (purpose, count) in [(Purpose::Load, 1_000), (Purpose::LoadDurably, 100)] {
            let mut store = kind.open(&settings(directory.path(), purpose)).unwrap();
            for _ in 0..2 {
                let records = keys.records(count / 2);
                expected.extend(records.iter().map(|record| record.key));
                store.insert(&records).unwrap();
            }
            store.close().unwrap();
        }
        let store = kind.open(&settings(directory.path(), Purpose::Read)).unwrap();
        let mut reader = store.reader().unwrap();
        for &key in &expected {
            assert!(
                reader.get(key, &mut |key, value| check_value(key, value)).unwrap(),
                "{kind:?}"
            );
        }
        assert!(!reader.get(u64::MAX - 5, &mut |_, _| Ok(())).unwrap(), "{kind:?}");

        expected.sort_unstable();
        let start = expected[200] - 1;
        let start = if start == expected[199] { expected[200] } else { start };
        let mut visited = Vec::new();
        let mut visit = |key, value: &[u8]| {
            visited.push(key);
            check_value(key, value)
        };
        reader.scan(start, 300, &mut visit).unwrap();
        reader.scan(expected[1_090], 300, &mut visit).unwrap();
        assert_eq!(visited[..300], expected[200..500], "{kind:?}");
        assert_eq!(visited[300..], expected[1_090..], "{kind:?}");
        drop(reader);
        store.close().unwrap();
    }
}

#[test]
fn two_threads_read_at_once() {
    let workload = Workload { seed: 4, random_ppm: 1_000_000, record_count: 2_000 };
    for kind in installed() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = kind.open(&settings(directory.path(), Purpose::Load)).unwrap();
        store.insert(&workload.keys().records(2_000)).unwrap();
        store.close().unwrap();
        let read = Settings { thread_count: 2, ..settings(directory.path(), Purpose::Read) };
        let store = kind.open(&read).unwrap();
        std::thread::scope(|scope| {
            for part in 0..2 {
                let store = &store;
                scope.spawn(move || {
                    let mut reader = store.reader().unwrap();
                    for key in workload.uniform(2_000, part) {
                        let found = reader.get(key, &mut |key, value| check_value(key, value));
                        assert!(found.unwrap(), "{kind:?}");
                    }
                });
            }
        });
        store.close().unwrap();
    }
}

#[test]
fn a_batch_finds_what_single_lookups_find() {
    let workload = Workload { seed: 5, random_ppm: 1_000_000, record_count: 2_000 };
    for kind in installed().into_iter().filter(|kind| kind.has_batches()) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = kind.open(&settings(directory.path(), Purpose::Load)).unwrap();
        store.insert(&workload.keys().records(2_000)).unwrap();
        store.close().unwrap();
        let store = kind.open(&settings(directory.path(), Purpose::Read)).unwrap();
        let mut keys = workload.uniform(500, 1);
        keys.push(42);
        let mut reader = store.reader().unwrap();
        let found = reader.get_batch(&keys, &mut |key, value| check_value(key, value)).unwrap();
        assert_eq!(found, Some(500), "{kind:?}");
        drop(reader);
        store.close().unwrap();
    }
}

#[test]
fn what_clients_put_is_found_by_the_others_and_after_an_opening() {
    let workload = Workload { seed: 6, random_ppm: 500_000, record_count: 1_000 };
    for kind in installed() {
        for purpose in [Purpose::Serve, Purpose::ServeDurably] {
            let directory = tempfile::tempdir().unwrap();
            let mut store = kind.open(&settings(directory.path(), Purpose::Load)).unwrap();
            store.insert(&workload.keys().records(1_000)).unwrap();
            store.close().unwrap();
            let serve = Settings { thread_count: 3, ..settings(directory.path(), purpose) };
            let store = kind.open(&serve).unwrap();
            let changed = |part: u32| workload.uniform(40, part);
            std::thread::scope(|scope| {
                for part in 0..3 {
                    let store = &store;
                    scope.spawn(move || {
                        let mut client = store.client().unwrap();
                        for key in changed(part) {
                            let value = updated_value(key, 5);
                            client.put(&Record { key, value }).unwrap();
                            let mut seen = Vec::new();
                            let mut visit = |_, value: &[u8]| {
                                seen = value.to_vec();
                                Ok(())
                            };
                            assert!(client.get(key, &mut visit).unwrap(), "{kind:?}");
                            assert_eq!(seen, value, "{kind:?} {purpose:?}");
                        }
                    });
                }
            });
            store.close().unwrap();
            let store = kind.open(&settings(directory.path(), Purpose::Read)).unwrap();
            let mut reader = store.reader().unwrap();
            let mut count = 0;
            reader
                .scan(0, 2_000, &mut |key, value| {
                    count += 1;
                    check_current(key, value)
                })
                .unwrap();
            assert_eq!(count, 1_000, "{kind:?} {purpose:?}: no record was added or lost");
            for key in (0..3).flat_map(changed) {
                let expected = updated_value(key, 5);
                reader
                    .get(key, &mut |_, value| {
                        assert_eq!(value, expected, "{kind:?} {purpose:?}");
                        Ok(())
                    })
                    .unwrap();
            }
            drop(reader);
            store.close().unwrap();
        }
    }
}
