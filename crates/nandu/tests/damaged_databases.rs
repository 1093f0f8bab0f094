//! Databases in directories that somebody damaged: bits flipped, stretches overwritten, files cut, made
//! longer or removed. Opening, reading and checking either say so or show what was there; they never panic, and
//! what cannot be read is found by the check.
//!
//! 1. After closing in order nothing may be missing. After a crash, damage to the log may cost the last
//!    commits, which cannot be told from flushes that were torn; the state is still that after some commit.
//! 2. `NANDU_DAMAGE_SEEDS` sets how many damages of each way are tried.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::{
    Column, ColumnType, Database, DatabaseOptions, DirectoryOptions, Flow, PropagationKind,
    RecordView, Settings, StorageError, TableKind, Tables, TornPages, Value, ValueRef,
};
use nandu_base::{Rng, to_index};
use nandu_storage::database::{LoadOptions, NewTable};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Each row's values in words, of each table, in the order of ids.
type State = BTreeMap<&'static str, BTreeMap<i64, String>>;

const TABLES: [&str; 3] = ["heap", "tree", "pax"];
const LOG: &str = "log";
const PAGE_BYTES: u32 = 1024;

fn ways() -> [(PropagationKind, TornPages); 4] {
    [
        (PropagationKind::InPlace, TornPages::LogImages),
        (PropagationKind::InPlace, TornPages::DoubleWrite),
        (PropagationKind::InPlace, TornPages::Trust),
        (PropagationKind::LogStructured, TornPages::Trust),
    ]
}

fn options((propagation, torn_pages): (PropagationKind, TornPages)) -> DatabaseOptions {
    let settings = Settings {
        propagation: propagation.into(),
        torn_pages,
        page_bytes: PAGE_BYTES,
        pool_bytes: 64 << 10,
        log_bytes: 96 << 10,
        checkpoint_bytes: 16 << 10,
        ..Settings::default()
    };
    let files = DirectoryOptions { queue_depth: 8, ..DirectoryOptions::default() };
    DatabaseOptions { settings, files, ..DatabaseOptions::default() }
}

fn columns() -> Vec<Column> {
    vec![Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Text)]
}

fn text_of(id: i64, round: i64) -> String {
    format!("{id} of round {round} ").repeat(to_index(3 + id.unsigned_abs() % 5))
}

/// Makes a database; gives the state after each commit.
fn make(directory: &Path, options: &DatabaseOptions, is_closed: bool) -> Vec<State> {
    let database = nandu::create_database(directory, options).unwrap();
    let mut states = Vec::new();
    let mut state: State = TABLES.map(|table| (table, BTreeMap::new())).into();
    let mut write = database.write().unwrap();
    write.create_table("heap", columns(), TableKind::Heap).unwrap();
    write.create_index("heap", "by_id", &["id"]).unwrap();
    write.create_table("tree", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    let kind = TableKind::Pax { span_pages: 4 };
    let pax = NewTable { name: "pax".into(), columns: columns(), kind, indexes: Vec::new() };
    let load = |load: &mut nandu_storage::database::TableLoad<'_>| -> Result<(), StorageError> {
        (0..60).try_for_each(|id| {
            load.push(&[ValueRef::Integer(id), ValueRef::Text(text_of(id, 0).as_bytes())])
        })
    };
    write.load_table(&pax, &LoadOptions::default(), load).unwrap();
    write.commit().unwrap();
    state.get_mut("pax").unwrap().extend((0..60).map(|id| (id, text_of(id, 0))));
    states.push(state.clone());
    for round in 1..14 {
        let mut write = database.write().unwrap();
        for id in round * 7..round * 7 + 14 {
            let values = [Value::from(id), Value::from(text_of(id, round).as_str())];
            let row = [values[0].as_ref(), values[1].as_ref()];
            write.put("tree", &row).unwrap();
            state.get_mut("tree").unwrap().insert(id, text_of(id, round));
            if id >= round * 7 + 7 || round == 1 {
                write.insert("heap", &row).unwrap();
                state.get_mut("heap").unwrap().insert(id, text_of(id, round));
            }
        }
        write.commit().unwrap();
        states.push(state.clone());
    }
    if is_closed {
        database.close().unwrap();
    }
    states
}

fn rows(
    scan: impl FnOnce(&mut dyn FnMut(RecordView<'_>) -> Flow) -> Result<(), StorageError>,
) -> Rows {
    let mut found = BTreeMap::new();
    let mut twice = None;
    scan(&mut |row| {
        let values = (row.get(0).to_value(), row.get(1).to_value());
        let (id, text) = match values {
            (Value::Integer(id), Value::Text(text)) => (id, text.to_string()),
            other => (i64::MIN, format!("{other:?}")),
        };
        if found.insert(id, text).is_some() {
            twice = Some(id);
        }
        Flow::Continue(())
    })?;
    assert_eq!(twice, None, "a row is there twice");
    Ok(found)
}

/// All that can be read, of each table in each way: the rows or the error.
fn read(tables: &Tables) -> Vec<(&'static str, Rows)> {
    let mut all: Vec<_> =
        TABLES.map(|table| (table, rows(|look| tables.scan(table, |_, row| look(row))))).into();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    all.push(("tree", rows(|look| tables.scan_by_key("tree", everything, 4, look))));
    all.push(("heap", rows(|look| by_index(tables, look))));
    all
}

fn by_index(
    tables: &Tables,
    look: &mut dyn FnMut(RecordView<'_>) -> Flow,
) -> Result<(), StorageError> {
    let mut numbers = Vec::new();
    tables.index_scan("heap", "by_id", (Bound::Unbounded, Bound::Unbounded), |number| {
        numbers.push(number);
        Flow::Continue(())
    })?;
    for number in numbers {
        let found = tables.get("heap", number, |row| {
            let _ = look(row);
        })?;
        if found.is_none() {
            let (place, what) = ("an index".into(), format!("row {number} is missing"));
            return Err(StorageError::Corrupt { place, what });
        }
    }
    Ok(())
}

/// The rows of a table, or why they cannot be read.
type Rows = Result<BTreeMap<i64, String>, StorageError>;

type Files = BTreeMap<String, Vec<u8>>;

fn files_of(directory: &Path) -> Files {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

/// Damages one file; says what was done to which, or nothing if it is as it was.
fn damage(files: &mut Files, rng: &mut Rng) -> Option<(String, String)> {
    let names: Vec<String> = files.keys().filter(|name| *name != "nandu.lock").cloned().collect();
    let name = names[to_index(rng.below(names.len() as u64))].clone();
    let bytes = files.get_mut(&name).unwrap();
    let before = bytes.clone();
    let length = bytes.len() as u64;
    if rng.below(20) == 0 {
        files.remove(&name);
        return Some((name, "removed".into()));
    }
    if length == 0 {
        return None;
    }
    let what = match rng.below(10) {
        0..=3 => {
            let count = 1 + rng.below(3);
            for _ in 0..count {
                bytes[to_index(rng.below(length))] ^= 1 << rng.below(8);
            }
            format!("{count} bits flipped")
        }
        4 => {
            bytes.truncate(to_index(rng.below(length)));
            format!("cut to {} of {length}", bytes.len())
        }
        5 => {
            bytes.truncate(to_index(rng.below(length) / 512 * 512));
            format!("cut to {} of {length}", bytes.len())
        }
        6 => {
            let page = rng.below(length) / 1024 * 1024;
            let end = (page + 1024).min(length);
            bytes[to_index(page)..to_index(end)].fill(0);
            format!("zeros at {page}")
        }
        7 => {
            let (from, to) = (rng.below(length) / 1024, rng.below(length) / 1024);
            let (from, to) = (to_index(from * 1024), to_index(to * 1024));
            let count = 1024.min(bytes.len() - from).min(bytes.len() - to);
            bytes.copy_within(from..from + count, to);
            format!("{count} bytes from {from} at {to}")
        }
        8 => {
            let start = to_index(rng.below(length));
            let end = (start + to_index(1 + rng.below(3000))).min(bytes.len());
            rng.fill(&mut bytes[start..end]);
            format!("noise at {start}..{end}")
        }
        _ => {
            let more = to_index(1 + rng.below(5000));
            let from = bytes.len();
            bytes.resize(from + more, 0);
            rng.fill(&mut bytes[from..]);
            format!("{more} bytes of noise behind the end")
        }
    };
    (*files[&name] != before).then_some((name, what))
}

/// What a damage led to.
#[derive(Debug, Default)]
struct Tally {
    refused: u32,
    told: u32,
    whole: u32,
    older: u32,
}

struct Case<'a> {
    options: &'a DatabaseOptions,
    states: &'a [State],
    is_closed: bool,
    /// What was damaged.
    name: &'a str,
}

impl Case<'_> {
    fn run(&self, directory: &Path, tally: &mut Tally) {
        let database = match nandu::open_database(directory, self.options) {
            Ok((database, _)) => database,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                tally.refused += 1;
                return;
            }
        };
        let last = self.states.last().unwrap();
        let may_lose_commits = self.name == LOG && !self.is_closed;
        let first_possible = if may_lose_commits { 0 } else { self.states.len() - 1 };
        let possible = &self.states[first_possible..];
        let tables = database.read();
        let found = read(&tables);
        let is_possible = |state: &State| {
            found.iter().all(|(table, rows)| rows.as_ref().is_ok_and(|rows| *rows == state[table]))
        };
        let checked = tables.check();
        let is_clean = checked.as_ref().is_ok_and(|report| report.findings.is_empty());
        let has_failed = found.iter().any(|(_, rows)| rows.is_err());
        for (table, rows) in &found {
            let Ok(rows) = rows else { continue };
            let is_known = possible.iter().any(|state| *rows == state[table]);
            assert!(is_known, "wrong rows of {table}");
        }
        assert!(!(has_failed && is_clean), "what cannot be read is found: {found:?}");
        if has_failed || !is_clean {
            tally.told += 1;
            return;
        }
        assert!(possible.iter().any(is_possible), "all is of one state");
        if is_possible(last) {
            tally.whole += 1;
        } else {
            tally.older += 1;
        }
        drop(tables);
        go_on(&database);
    }
}

/// A database that shows no damage can be changed, unless that is refused.
fn go_on(database: &Database) {
    let Ok(mut write) = database.write() else { return };
    let values = [Value::from(5000), Value::from("new")];
    let row = [values[0].as_ref(), values[1].as_ref()];
    let put = write.put("tree", &row).and_then(|_| write.insert("heap", &row).map(drop));
    if put.is_err() || write.commit().is_err() {
        return;
    }
    let tables = database.read();
    for (table, rows) in read(&tables) {
        assert!(table == "pax" || rows.unwrap().contains_key(&5000), "{table}");
    }
    assert_eq!(tables.check().unwrap().findings, [""; 0]);
}

fn seed_count() -> u64 {
    std::env::var("NANDU_DAMAGE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

#[test]
fn a_damaged_database_says_so_or_shows_what_was_there() {
    let root = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    let mut total = Tally::default();
    for (number, way) in ways().into_iter().enumerate() {
        for is_closed in [true, false] {
            let options = options(way);
            let original = root.path().join(format!("original-{number}-{is_closed}"));
            let states = make(&original, &options, is_closed);
            let mut sound = files_of(&original);
            // As who knows that nobody wrote meanwhile does with a copy of what was not closed.
            sound.remove("nandu.lock");
            let place = root.path().join("damaged");
            for seed in 0..seed_count() {
                let mut files = sound.clone();
                let mut rng = Rng::for_part(seed, "damage");
                let Some((name, what)) = damage(&mut files, &mut rng) else { continue };
                std::fs::create_dir(&place).unwrap();
                for (name, bytes) in &files {
                    std::fs::write(place.join(name), bytes).unwrap();
                }
                let case = Case { options: &options, states: &states, is_closed, name: &name };
                let outcome = catch_unwind(AssertUnwindSafe(|| case.run(&place, &mut total)));
                if outcome.is_err() {
                    failures
                        .push(format!("{way:?} closed {is_closed} seed {seed}: {name}: {what}"));
                }
                std::fs::remove_dir_all(&place).unwrap();
            }
        }
    }
    let Tally { refused, told, whole, .. } = total;
    assert!(refused > 5 && told > 5 && whole > 5, "all kinds of damage were there: {total:?}");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn settings_that_were_cut_or_made_longer_are_told_with_what_mends_them() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, options) = (scratch.path().join("shop"), options(ways()[1]));
    make(&directory, &options, true);
    let path = directory.join("settings");
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(whole.len(), 4096);
    for length in [4095, 4000, 3584, 1024, 4097, 4608, 8192] {
        let mut bytes = whole.clone();
        bytes.resize(length, b'x');
        std::fs::write(&path, bytes).unwrap();
        let error = nandu::open_database(&directory, &options).unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{length}: {error}");
        let said = error.to_string();
        assert!(said.contains("the file settings of "), "{said}");
        assert!(said.contains(&format!("it has {length} bytes")), "{said}");
        assert!(said.contains("truncate -s 4096 settings"), "{said}");
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        nandu::open_database(&directory, &options).unwrap().0.close().unwrap();
    }
    // Where the text itself was cut there is nothing to mend.
    std::fs::write(&path, &whole[..100]).unwrap();
    let said = nandu::open_database(&directory, &options).unwrap_err().to_string();
    assert!(said.contains("the file settings of ") && said.contains("from a copy"), "{said}");
}
