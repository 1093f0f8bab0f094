//! What indexes cost and give: `cargo run --release -p nandu-xml --example lookups FILE PATH ATTRIBUTE
//! TEXT [INDEX…]` imports a document with the index `text:PATH/@ATTRIBUTE` and others, without and with
//! them, looks up elements by that attribute, and gives new words to what is at TEXT below them, each in
//! a transaction of its own; JSON on standard output. Databases are made in the directory that TMPDIR
//! names and removed at the end.
//!
//! 1. A sync is that of a page that is written again in a file beside the database, in turn with the
//!    updates, so that both meet the same weather of the disk.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::cast_precision_loss, reason = "speeds in a report")]
#![allow(clippy::disallowed_types, reason = "an example may look at a clock")]

use nandu::{Database, DatabaseOptions, create_database};
use nandu_xml::xpath::{Found, Namespaces, QueryLimits, QueryPlan, locate, parse, query};
use nandu_xml::{
    Document, Editor, ImportOptions, IndexDefinition, MappingKind, XmlError, check, import_with,
};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const IMPORT_COUNT: usize = 5;
const LOOKUP_COUNT: usize = 1000;
const UPDATE_COUNT: usize = 300;
const PAGE_BYTES: usize = 4096;
/// Pages of the file that is synced in turn with updates.
const SYNCED_PAGE_COUNT: usize = 1024;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, path, attribute, text, others @ ..] = &words[..] else {
        return Err("give FILE PATH ATTRIBUTE TEXT [INDEX…]".into());
    };
    let place = tempfile::tempdir()?;
    let mut indexes = vec![format!("text:{path}/@{attribute}")];
    indexes.extend(others.iter().cloned());
    let (mut imports, mut answers) = (Vec::new(), Value::Null);
    for count in [0, indexes.len()] {
        let mut speeds = Vec::new();
        for round in 0..IMPORT_COUNT {
            let directory = place.path().join(format!("{count}-{round}"));
            let (database, speed) = stored(&directory, file, &indexes[..count])?;
            speeds.push(speed);
            let is_last = round + 1 == IMPORT_COUNT;
            if is_last && count > 0 {
                answers = ask_and_change(&database, place.path(), (path, attribute, text))?;
            }
            database.close()?;
            std::fs::remove_dir_all(&directory)?;
        }
        speeds.sort_by(f64::total_cmp);
        imports.push(json!({
            "index_count": count,
            "mb_per_second": {
                "median": speeds[IMPORT_COUNT / 2],
                "least": speeds[0],
                "most": speeds[IMPORT_COUNT - 1],
            },
        }));
    }
    let plain_bytes = std::fs::metadata(file)?.len();
    let told = json!({ "plain_bytes": plain_bytes, "imports": imports, "answers": answers });
    println!("{told:#}");
    Ok(())
}

fn stored(directory: &Path, file: &str, indexes: &[String]) -> Outcome<(Database, f64)> {
    let database = create_database(directory, &DatabaseOptions::default())?;
    let names = Namespaces::new();
    let indexes: Result<Vec<_>, _> =
        indexes.iter().map(|index| IndexDefinition::parse(index, &names)).collect();
    let (mapping, indexes) = (MappingKind::Elementless, indexes?);
    let options = ImportOptions { mapping, indexes, ..ImportOptions::default() };
    let begun = Instant::now();
    let mut write = database.write()?;
    let report = import_with(&mut write, "doc", &options, (file, File::open(file)?), &mut ())?;
    write.commit()?;
    Ok((database, report.plain_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()))
}

/// Median and 99th percentile, in microseconds.
fn told(mut times: Vec<Duration>) -> Value {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    json!({ "median": at(50), "p99": at(99) })
}

fn ask_and_change(
    database: &Database,
    place: &Path,
    (path, attribute, text): (&str, &str, &str),
) -> Outcome<Value> {
    let ids = values(database, &format!("{path}/@{attribute}"))?;
    let chosen = |round: usize| &ids[round * 7919 % ids.len()];
    let mut lookups = Vec::new();
    for round in 0..LOOKUP_COUNT {
        let expression = format!("{path}[@{attribute} = '{}']", chosen(round));
        let begun = Instant::now();
        assert_eq!(values(database, &expression)?.len(), 1, "{expression}");
        lookups.push(begun.elapsed());
    }
    let beside = File::create(place.join("synced"))?;
    beside.write_all_at(&vec![1; SYNCED_PAGE_COUNT * PAGE_BYTES], 0)?;
    beside.sync_all()?;
    let (mut updates, mut whole, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..UPDATE_COUNT {
        let begun = Instant::now();
        let at = round % SYNCED_PAGE_COUNT * PAGE_BYTES;
        beside.write_all_at(&[2; PAGE_BYTES], at as u64)?;
        beside.sync_data()?;
        syncs.push(begun.elapsed());
        let expression = format!("{path}[@{attribute} = '{}']{text}", chosen(round));
        let begun = Instant::now();
        let mut write = database.write()?;
        let names = Namespaces::new();
        let mut editor = Editor::begin(&mut write, "doc")?;
        let plan = QueryPlan::new(&parse(&expression)?, editor.document(), &names)?;
        let plan = plan.choose(editor.tables(), editor.document(), &names)?;
        let asked = (&names, QueryLimits::default());
        let found = locate(editor.tables(), editor.document(), &plan, asked, &|| false)?;
        let node = found.first().ok_or("there is no such text")?;
        editor.set_value(&node.labels[0], &format!("word{round}"))?;
        editor.finish()?;
        updates.push(begun.elapsed());
        write.commit()?;
        whole.push(begun.elapsed());
    }
    let read = database.read();
    let document = Document::open(&read, "doc")?;
    assert_eq!(check(&read, &document)?.findings, Vec::<String>::new());
    Ok(json!({
        "lookup_us": told(lookups),
        "update_before_commit_us": told(updates),
        "update_with_commit_us": told(whole),
        "sync_us": told(syncs),
        "indexes": document.stat(&read)?.indexes,
    }))
}

/// The strings of what an expression finds.
fn values(database: &Database, text: &str) -> Outcome<Vec<String>> {
    let read = database.read();
    let document = Document::open(&read, "doc")?;
    let names = Namespaces::new();
    let plan = QueryPlan::new(&parse(text)?, &document, &names)?;
    let plan = plan.choose(&read, &document, &names)?;
    let mut found = Vec::new();
    let mut tell = |node: Found<'_>| -> Result<(), XmlError> {
        if let Found::Node(fragment, node) = node {
            found.push(fragment.string(node));
        }
        Ok(())
    };
    query(&read, &document, &plan, (&names, QueryLimits::default()), &|| false, &mut tell)?;
    Ok(found)
}
