//! What indexes cost and give: `cargo run --release -p nandu-xml --example lookups FILE PATH ATTRIBUTE
//! TEXT [INDEX…]` imports a document with the index `text:PATH/@ATTRIBUTE` and others, without and with
//! them, looks up elements by that attribute, and gives new words to what is at TEXT below them, each in
//! a transaction of its own. Medians; a sync is that of an empty change beside it.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::cast_precision_loss, reason = "speeds in a report")]
#![allow(clippy::disallowed_types, reason = "an example may look at a clock")]

use nandu::{Database, DatabaseOptions, create_database};
use nandu_xml::xpath::{Found, Namespaces, QueryLimits, QueryPlan, locate, parse, query};
use nandu_xml::{
    Document, Editor, ImportOptions, IndexDefinition, MappingKind, XmlError, check, import_with,
};
use std::fs::File;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const IMPORT_COUNT: usize = 5;
const LOOKUP_COUNT: usize = 1000;
const UPDATE_COUNT: usize = 300;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, path, attribute, text, others @ ..] = &words[..] else {
        return Err("give FILE PATH ATTRIBUTE TEXT [INDEX…]".into());
    };
    let place = tempfile::tempdir()?;
    let mut indexes = vec![format!("text:{path}/@{attribute}")];
    indexes.extend(others.iter().cloned());
    for count in [0, indexes.len()] {
        let mut speeds = Vec::new();
        for round in 0..IMPORT_COUNT {
            let directory = place.path().join(format!("{count}-{round}"));
            let (database, speed) = stored(&directory, file, &indexes[..count])?;
            speeds.push(speed);
            let is_last = round + 1 == IMPORT_COUNT;
            if is_last && count > 0 {
                ask_and_change(&database, path, attribute, text)?;
            }
            database.close()?;
            std::fs::remove_dir_all(&directory)?;
        }
        speeds.sort_by(f64::total_cmp);
        println!("import with {count} indexes: {:.1} MB/s", speeds[IMPORT_COUNT / 2]);
    }
    Ok(())
}

fn stored(directory: &std::path::Path, file: &str, indexes: &[String]) -> Outcome<(Database, f64)> {
    let database = create_database(directory, &DatabaseOptions::default())?;
    let names = Namespaces::new();
    let indexes: Result<Vec<_>, _> =
        indexes.iter().map(|index| IndexDefinition::parse(index, &names)).collect();
    let options = ImportOptions { mapping: MappingKind::Elementless, indexes: indexes? };
    let begun = Instant::now();
    let mut write = database.write()?;
    let report = import_with(&mut write, "doc", &options, (file, File::open(file)?), &mut ())?;
    write.commit()?;
    Ok((database, report.plain_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ask_and_change(database: &Database, path: &str, attribute: &str, text: &str) -> Outcome<()> {
    let ids = values(database, &format!("{path}/@{attribute}"))?;
    let chosen = |round: usize| &ids[round * 7919 % ids.len()];
    let mut lookups = Vec::new();
    for round in 0..LOOKUP_COUNT {
        let expression = format!("{path}[@{attribute} = '{}']", chosen(round));
        let begun = Instant::now();
        assert_eq!(values(database, &expression)?.len(), 1, "{expression}");
        lookups.push(begun.elapsed());
    }
    let (mut updates, mut syncs) = (Vec::new(), Vec::new());
    for round in 0..UPDATE_COUNT {
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
        let done = begun.elapsed();
        write.commit()?;
        updates.push(done);
        syncs.push(begun.elapsed() - done);
    }
    println!(
        "lookup by {path}[@{attribute} = …], parsed and planned each time: {:?}",
        median(lookups)
    );
    println!("one-word update: {:?} beside its commit, {:?}", median(updates), median(syncs));
    let read = database.read();
    let document = Document::open(&read, "doc")?;
    assert_eq!(check(&read, &document)?.findings, Vec::<String>::new());
    for index in document.stat(&read)?.indexes {
        println!("{}: {} entries, {} pages", index.index, index.entry_count, index.page_count);
    }
    Ok(())
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
