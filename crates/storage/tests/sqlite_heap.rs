//! Tables that the engine writes, judged by SQLite and by a model.

#![allow(clippy::unwrap_used, reason = "test helpers fail like tests")]

use crate::sqlite_support::{
    FILE, LoggingPages, integrity, our_rows, replay, sqlite_rows, write_file,
};
use nandu_base::Rng;
use nandu_storage::ReadPages;
use nandu_storage::access::MemoryPages;
use nandu_storage::sqlite::{self, FillFactor, HeapTable, TableSchema, Value, encode_record};
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;

const TWO_COLUMNS: &str = "CREATE TABLE t(k INT NOT NULL, pad BLOB)";

fn record_of(key: i64, pad: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    encode_record([sqlite::ValueRef::Integer(key), sqlite::ValueRef::Blob(pad)], &mut record);
    record
}

fn new_table(page_bytes: u32, fill: FillFactor) -> (LoggingPages, HeapTable) {
    let mut pages = LoggingPages::new(page_bytes);
    let schema = TableSchema::parse(TWO_COLUMNS).unwrap();
    let table = HeapTable::create(&mut pages, FILE, schema, fill, "t.db").unwrap();
    (pages, table)
}

/// Hands the file to SQLite: it has to find it sound, with the rows that we see.
fn judge(pages: &MemoryPages, table: &HeapTable) -> Vec<(i64, Vec<Value>)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.db");
    write_file(pages, table.page_counts().0, &path);
    let connection = Connection::open(&path).unwrap();
    assert_eq!(integrity(&connection), "ok");
    let free: u32 = connection.query_row("PRAGMA freelist_count", [], |row| row.get(0)).unwrap();
    assert_eq!(free, table.page_counts().1);
    let rows = sqlite_rows(&connection, "t");
    table.audit(pages);
    assert_eq!(our_rows(pages, table.schema(), table.tree()).unwrap(), rows);
    rows
}

#[test]
fn appended_rows_are_a_database_on_every_page_size() {
    for shift in 9..=16 {
        let (mut pages, mut table) = new_table(1 << shift, FillFactor::default());
        let mut rng = Rng::new(shift);
        let mut pad = vec![0; 130];
        let count = if shift < 12 { 3000 } else { 6000 };
        for key in 0..count {
            rng.fill(&mut pad);
            let length = 60 + usize::try_from(rng.below(70)).unwrap();
            let record = record_of(key * 7, &pad[..length]);
            assert_eq!(table.append(&mut pages, &record, &mut Vec::new()).unwrap(), key + 1);
        }
        let rows = judge(&pages.pages, &table);
        assert_eq!(rows.len() as i64, count);
        assert!(rows.iter().all(|(rowid, values)| values[0] == Value::Integer((rowid - 1) * 7)));
    }
}

#[test]
fn a_new_table_is_an_empty_database_and_a_long_schema_takes_a_page_of_its_own() {
    for (page_bytes, columns) in [(512, 1), (512, 45), (512, 60), (4096, 500), (65_536, 3)] {
        let names: Vec<String> = (0..columns).map(|n| format!("column{n}")).collect();
        let sql = format!("CREATE TABLE t({})", names.join(","));
        let schema = TableSchema::parse(&sql).unwrap();
        let mut pages = LoggingPages::new(page_bytes);
        let fill = FillFactor::default();
        let mut table = HeapTable::create(&mut pages, FILE, schema, fill, "t.db").unwrap();
        assert!(judge(&pages.pages, &table).is_empty());
        let record = vec![sqlite::ValueRef::Integer(5); columns];
        let mut bytes = Vec::new();
        table.schema().encode_row(&record, &mut bytes).unwrap();
        table.append(&mut pages, &bytes, &mut Vec::new()).unwrap();
        let file_bytes = u64::from(table.page_counts().0) * u64::from(page_bytes);
        let opened = HeapTable::open(&pages, FILE, file_bytes, fill, "t.db").unwrap();
        assert_eq!(opened.schema(), table.schema());
        assert_eq!(judge(&pages.pages, &opened).len(), 1);
    }
}

#[test]
fn rows_at_the_edges_of_overflow_are_sound_on_every_page_size() {
    for shift in 9..=16 {
        let (mut pages, mut table) = new_table(1 << shift, FillFactor::default());
        let usable = pages.usable_bytes();
        let all = usable - 35;
        let least = (usable - 12) * 32 / 255 - 23;
        // Where the local part falls back from all that fits to the least.
        let fold = all - least;
        let mut lengths = vec![0, 1, all - 1, all, all + 1, usable - 4, 2 * usable];
        for chunks in 1..3 {
            let base = least + chunks * (usable - 4);
            lengths.extend([base - 1, base, base + 1, base + fold, base + fold + 1]);
        }
        for &length in &lengths {
            // The record's header and key take a few bytes: cover the edge from both sides.
            for payload in length.saturating_sub(4)..=length + 1 {
                let pad = vec![0xAB; payload.saturating_sub(6)];
                table.append(&mut pages, &record_of(1, &pad), &mut Vec::new()).unwrap();
            }
        }
        judge(&pages.pages, &table);
    }
}

/// The mean fill of leaves, as SQLite's own statistics see it.
fn dbstat_fill(path: &std::path::Path) -> f64 {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT avg(1.0 - unused * 1.0 / pgsize) FROM dbstat
               WHERE name = 't' AND pagetype = 'leaf'";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn leaves_are_four_fifths_full_appended_or_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.db");
    for (bulk, fill, expected) in [
        (false, FillFactor::default(), 0.785..0.801),
        (true, FillFactor::default(), 0.785..0.801),
        (true, FillFactor::jittered(5), 0.77..0.81),
    ] {
        let (mut pages, mut table) = new_table(8192, fill);
        let mut rng = Rng::new(1);
        let mut pad = [0; 130];
        let mut records = (0..20_000).map(|key| {
            let length = 65 + usize::try_from(rng.below(66)).unwrap();
            pad.fill(7);
            record_of(key, &pad[..length])
        });
        if bulk {
            let mut load = table.bulk_load(&pages).unwrap();
            records.try_for_each(|record| load.push(&mut pages, &record).map(|_| ())).unwrap();
            assert_eq!(load.finish(&mut pages).unwrap(), 20_000);
        } else {
            let mut append =
                |record: Vec<u8>| table.append(&mut pages, &record, &mut Vec::new()).map(|_| ());
            records.try_for_each(&mut append).unwrap();
        }
        assert_eq!(judge(&pages.pages, &table).len(), 20_000);
        write_file(&pages.pages, table.page_counts().0, &path);
        let found = dbstat_fill(&path);
        // The 16 reserved bytes of 8,192 count as used there.
        assert!(expected.contains(&found), "{found} is not in {expected:?}");
        let stat = table.check(&pages).unwrap();
        let ours = stat.leaf_used_bytes as f64 / stat.leaf_usable_bytes as f64;
        assert!((ours - found).abs() < 0.003, "{ours} {found}");
    }
}

#[test]
fn a_load_puts_leaves_in_a_row_and_stays_invisible_until_it_is_finished() {
    for (page_bytes, count, length) in
        [(512, 0, 9), (512, 1, 9), (512, 9000, 9), (4096, 70_000, 9), (1024, 300, 3000)]
    {
        let (mut pages, mut table) = new_table(page_bytes, FillFactor::default());
        let mut load = table.bulk_load(&pages).unwrap();
        for key in 0..count {
            load.push(&mut pages, &record_of(key, &vec![1; length])).unwrap();
        }
        drop(load);
        let mut scanned = 0;
        table.tree().scan_all(&pages, |_, _| scanned += 1).unwrap();
        assert_eq!(scanned, 0, "a load that was dropped left nothing");
        assert_eq!(table.append(&mut pages, &record_of(1, b""), &mut Vec::new()).unwrap(), 1);
        table.delete(&mut pages, 1, &mut Vec::new()).unwrap();
        assert!(judge(&pages.pages, &table).is_empty());

        let mut load = table.bulk_load(&pages).unwrap();
        for key in 0..count {
            assert_eq!(load.push(&mut pages, &record_of(key, &vec![1; length])).unwrap(), key + 1);
        }
        assert_eq!(load.finish(&mut pages).unwrap(), count);
        judge(&pages.pages, &table);
        let runs = table.tree().leaf_runs(&pages, u32::MAX).unwrap();
        let leaf_count = table.check(&pages).unwrap().leaf_count;
        assert_eq!(runs.iter().map(|run| run.end - run.start).sum::<u32>(), leaf_count);
        assert!(length > 9 || runs.len() == 1, "{runs:?}");
        let next = table.append(&mut pages, &record_of(0, b"x"), &mut Vec::new()).unwrap();
        assert_eq!(next, count + 1);
        judge(&pages.pages, &table);
        assert!(count == 0 || table.bulk_load(&pages).is_err());
    }
}

#[test]
fn a_tree_of_many_levels_shrinks_soundly_in_any_order() {
    // One row fills a leaf of 512 bytes, so 3,500 rows make three levels above the leaves.
    let count = 3500_i64;
    let full = |fill| {
        let (mut pages, mut table) = new_table(512, fill);
        for key in 0..count {
            table.append(&mut pages, &record_of(key, &[3; 300]), &mut Vec::new()).unwrap();
        }
        (pages, table)
    };
    let mut orders = vec![
        (1..=count).collect::<Vec<_>>(),
        (1..=count).rev().collect(),
        // Pages in the middle run out of children while their neighbours are full.
        (1000..1200).chain((2000..2300).rev()).chain(1..1000).chain(1200..2000).collect(),
    ];
    orders.push((1..=count).collect());
    Rng::new(4).shuffle(&mut orders[3]);
    for order in orders {
        let (mut pages, mut table) = full(FillFactor::default());
        pages.log.clear();
        assert!(table.check(&pages).unwrap().level_count >= 3);
        for (done, rowid) in order.iter().enumerate() {
            table.delete(&mut pages, *rowid, &mut Vec::new()).unwrap();
            pages.log.clear();
            if done % 97 == 0 || done % 500 > 490 {
                table.audit(&pages);
            }
            if done % 1200 == 300 {
                judge(&pages.pages, &table);
            }
        }
        let left = table.check(&pages).unwrap().row_count;
        assert_eq!(left + order.len() as u64, count.unsigned_abs());
        judge(&pages.pages, &table);
    }
}

#[test]
fn freed_pages_are_used_again() {
    let (mut pages, mut table) = new_table(512, FillFactor::default());
    let mut page_count = 0;
    for round in 0..3 {
        for key in 0..600 {
            let length = if key % 5 == 0 { 2500 } else { 300 };
            let record = record_of(key, &vec![1; length]);
            assert_eq!(table.append(&mut pages, &record, &mut Vec::new()).unwrap(), key + 1);
        }
        judge(&pages.pages, &table);
        if round > 0 {
            assert_eq!(table.page_counts().0, page_count, "the file does not grow");
        }
        page_count = table.page_counts().0;
        for rowid in 1..=600 {
            table.delete(&mut pages, rowid, &mut Vec::new()).unwrap();
        }
        assert_eq!(table.page_counts(), (page_count, page_count - 2));
        judge(&pages.pages, &table);
    }
}

#[test]
fn a_change_that_fails_anywhere_is_forgotten_with_its_pages() {
    let (mut pages, mut table) = new_table(512, FillFactor::default());
    for key in 0..300 {
        table.append(&mut pages, &record_of(key, &[2; 120]), &mut Vec::new()).unwrap();
    }
    for round in 0..40 {
        let rowid = 1 + round * 7;
        let mut failed = 0;
        for allowed in 0.. {
            let mark = pages.log.len();
            let before = table.page_counts();
            pages.changes_left = Some(allowed);
            let mut ignored = Vec::new();
            let result = match round % 4 {
                0 => table.append(&mut pages, &record_of(1, &[4; 900]), &mut ignored).map(|_| ()),
                1 => table.update(&mut pages, rowid, &record_of(2, &[5; 380]), &mut ignored),
                2 => table.delete(&mut pages, rowid, &mut ignored),
                _ => table.append(&mut pages, &record_of(1, &[4; 350]), &mut ignored).map(|_| ()),
            };
            pages.changes_left = None;
            if result.is_ok() {
                break;
            }
            // What the engine does: the pages are as before.
            failed += 1;
            pages.log.truncate(mark);
            pages.pages = replay(&pages.log, 512, sqlite::apply);
            table.last_rowid(&pages).unwrap();
            assert_eq!(table.page_counts(), before);
            table.audit(&pages);
        }
        assert!(failed > 0);
    }
    judge(&pages.pages, &table);
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Insert(i64, usize),
    Update(usize, usize),
    Delete(usize),
    DeleteRange(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![8 => 0_usize..60, 3 => 100_usize..480, 1 => 480_usize..3000];
    let step = prop_oneof![
        8 => length.clone().prop_map(Step::Append),
        2 => (-500_i64..500, length.clone()).prop_map(|(rowid, n)| Step::Insert(rowid, n)),
        4 => (any::<usize>(), length).prop_map(|(row, n)| Step::Update(row, n)),
        2 => any::<usize>().prop_map(Step::Delete),
        1 => (any::<usize>(), 0_usize..60).prop_map(|(row, n)| Step::DeleteRange(row, n)),
    ];
    proptest::collection::vec(step, 1..250)
}

/// Does one step on table and model, and gives back the undo of each change.
fn perform(
    step: &Step,
    pages: &mut LoggingPages,
    table: &mut HeapTable,
    model: &mut BTreeMap<i64, Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut undo = Vec::new();
    let pick = |model: &BTreeMap<i64, Vec<u8>>, row: usize| {
        (!model.is_empty()).then(|| *model.keys().nth(row % model.len()).unwrap())
    };
    let fresh = |n: usize, model: &BTreeMap<i64, Vec<u8>>| {
        record_of(n as i64, &vec![model.len().to_le_bytes()[0]; n])
    };
    match *step {
        Step::Append(n) => {
            let record = fresh(n, model);
            let rowid = table.append(pages, &record, &mut undo).unwrap();
            let expected = model.last_key_value().map_or(0, |(&last, _)| last.max(0)) + 1;
            assert_eq!(rowid, expected);
            model.insert(rowid, record);
        }
        Step::Insert(rowid, n) => {
            let record = fresh(n, model);
            let result = table.insert(pages, rowid, &record, &mut undo);
            assert_eq!(result.is_ok(), !model.contains_key(&rowid));
            model.entry(rowid).or_insert(record);
        }
        Step::Update(row, n) => {
            let Some(rowid) = pick(model, row) else { return Vec::new() };
            let record = fresh(n, model);
            table.update(pages, rowid, &record, &mut undo).unwrap();
            model.insert(rowid, record);
        }
        Step::Delete(row) => {
            let Some(rowid) = pick(model, row) else { return Vec::new() };
            table.delete(pages, rowid, &mut undo).unwrap();
            model.remove(&rowid);
        }
        Step::DeleteRange(row, n) => {
            let Some(first) = pick(model, row) else { return Vec::new() };
            let rowids: Vec<i64> = model.range(first..).take(n).map(|(&rowid, _)| rowid).collect();
            let mut all = Vec::new();
            for rowid in rowids {
                let mut undo = Vec::new();
                table.delete(pages, rowid, &mut undo).unwrap();
                model.remove(&rowid);
                all.push(undo);
            }
            return all;
        }
    }
    if undo.is_empty() { Vec::new() } else { vec![undo] }
}

fn records(pages: &impl ReadPages, table: &HeapTable) -> BTreeMap<i64, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut scan = |rowid, record: sqlite::RecordView<'_>| {
        let mut bytes = Vec::new();
        encode_record(record.columns(), &mut bytes);
        found.insert(rowid, bytes);
    };
    table.tree().scan_all(pages, &mut scan).unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn changes_keep_table_model_and_sqlite_together(
        steps in steps(), page_shift in 9_u32..12, grow in 0_usize..400, jitter: bool
    ) {
        let page_bytes = 1 << page_shift;
        let fill = if jitter { FillFactor::jittered(3) } else { FillFactor::default() };
        let (mut pages, mut table) = new_table(page_bytes, fill);
        let mut model = BTreeMap::new();
        for _ in 0..grow {
            perform(&Step::Append(30), &mut pages, &mut table, &mut model);
        }
        let before = model.clone();
        let mut undos = Vec::new();
        for step in &steps {
            undos.extend(perform(step, &mut pages, &mut table, &mut model));
        }
        prop_assert_eq!(&records(&pages, &table), &model);
        for (rowid, record) in &model {
            let same = |view: sqlite::RecordView<'_>| {
                let mut bytes = Vec::new();
                encode_record(view.columns(), &mut bytes);
                bytes == *record
            };
            prop_assert_eq!(table.get(&pages, *rowid, same).unwrap(), Some(true));
        }
        judge(&pages.pages, &table);
        let again = replay(&pages.log, page_bytes, sqlite::apply);
        prop_assert!(again.pages().eq(pages.pages.pages()), "redo gives what was done");
        for undo in undos.iter().rev() {
            table.apply_undo(&mut pages, undo).unwrap();
        }
        prop_assert_eq!(&records(&pages, &table), &before);
        judge(&pages.pages, &table);
    }
}
