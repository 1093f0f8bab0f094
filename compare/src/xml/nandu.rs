//! Our store: a document in the elementless mapping, an index of its ids, a reader that is kept open.
//!
//! 1. A lookup is a snapshot of its own, an update a transaction of its own, synced.

use super::{NAMESPACE, NEW_WORD, Taken, Task, failure_at, wrong};
use crate::Failure;
use crate::measure::as_float;
use nandu::{Database, DatabaseOptions, create_database};
use nandu_base::Rng;
use nandu_load::TpoxCollection;
use nandu_storage::database::Tables;
use nandu_xml::xpath::{Expression, Namespaces, Value, evaluate, parse, write_node};
use nandu_xml::{
    Editor, ImportOptions, IndexDefinition, MappingKind, Sought, Subtree, SubtreeReader, XmlError,
    find, import_with,
};
use std::fs::File;
use std::time::Instant;

const DOCUMENT: &str = "custacc";
/// The level of customers.
const CUSTOMER_LEVEL: usize = 2;

fn engine(error: impl std::fmt::Display) -> Failure {
    Failure::Engine(format!("nandu: {error}"))
}

/// A customer by its id.
struct Customers {
    reader: SubtreeReader,
    key: IndexDefinition,
}

impl Customers {
    fn read(&mut self, tables: &Tables, id: u64) -> Result<Subtree<'_>, Failure> {
        let text = id.to_string();
        let sought = Some(Sought::Text(&text));
        let told: Result<_, XmlError> = self
            .reader
            .renew(tables)
            .and_then(|()| find(tables, self.reader.document(), &self.key, sought, 2));
        let found = told.map_err(engine)?;
        let label = match &found.labels[..] {
            [label] => label.ancestor(CUSTOMER_LEVEL),
            _ => None,
        };
        let label = label.ok_or_else(|| wrong("nandu", "an id does not lead to one customer"))?;
        let subtree = self.reader.read(tables, &label).map_err(engine)?;
        subtree.ok_or_else(|| wrong("nandu", "there is no customer of an id"))
    }
}

/// What is changed in a customer: the text of its mnemonic.
struct Word {
    expression: Expression,
    namespaces: Namespaces,
}

/// Imports, looks up, changes.
///
/// # Errors
/// If the engine fails or does something else.
pub(super) fn take(task: &Task) -> Result<Taken, Failure> {
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = task.pool_bytes;
    let database = create_database(&task.scratch.join("nandu"), &options).map_err(engine)?;
    let import_s = import(task, &database)?;
    let read = database.read();
    let reader = SubtreeReader::open(&read, DOCUMENT).map_err(engine)?;
    drop(read);
    let mut customers = Customers { reader, key: TpoxCollection::Custacc.key_index() };
    let mut rng = Rng::for_part(task.seed, "lookups");
    let mut id = || task.first_id + rng.below(task.customer_count);
    let mut text = Vec::new();
    let mut look_up = |count: u64| -> Result<f64, Failure> {
        let started = Instant::now();
        for _ in 0..count {
            let id = id();
            let snapshot = database.read();
            let customer = customers.read(&snapshot, id)?;
            text.clear();
            write_node(customer.fragment(), 1, &mut text);
            let is_right = text.ends_with(b"</Customer>") && has(&text, &format!("id=\"{id}\""));
            if !is_right {
                return Err(wrong("nandu", "a customer has not the id that was looked for"));
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1e3 / as_float(count))
    };
    look_up(task.lookup_count)?;
    let lookup_ms = look_up(task.lookup_count)?;
    let word = Word {
        expression: parse("c:Mnemonic/text()").map_err(engine)?,
        namespaces: Namespaces::from([("c".to_owned(), NAMESPACE.to_owned())]),
    };
    let started = Instant::now();
    for number in 0..task.update_count {
        let id = task.first_id + number * 7919 % task.customer_count;
        update(&database, &mut customers, &word, (id, number))?;
    }
    let update_ms = started.elapsed().as_secs_f64() * 1e3 / as_float(task.update_count);
    let read = database.read();
    for number in 0..task.update_count.min(task.customer_count) {
        let customer =
            customers.read(&read, task.first_id + number * 7919 % task.customer_count)?;
        text.clear();
        write_node(customer.fragment(), 1, &mut text);
        if !has(&text, &format!("<Mnemonic>{NEW_WORD}")) {
            return Err(wrong("nandu", "a word that was changed is not there"));
        }
    }
    drop(read);
    database.close().map_err(engine)?;
    Ok(Taken { import_s, lookup_ms, update_ms })
}

fn import(task: &Task, database: &Database) -> Result<f64, Failure> {
    let indexes = vec![TpoxCollection::Custacc.key_index()];
    let mapping = MappingKind::Elementless;
    let options = ImportOptions { mapping, indexes, ..ImportOptions::default() };
    let file = File::open(&task.file).map_err(failure_at(&task.file))?;
    let started = Instant::now();
    let mut write = database.write().map_err(engine)?;
    import_with(&mut write, DOCUMENT, &options, ("custacc.xml", file), &mut ()).map_err(engine)?;
    write.commit().map_err(engine)?;
    Ok(started.elapsed().as_secs_f64())
}

fn update(
    database: &Database,
    customers: &mut Customers,
    word: &Word,
    (id, number): (u64, u64),
) -> Result<(), Failure> {
    let mut write = database.write().map_err(engine)?;
    let mut editor = Editor::begin(&mut write, DOCUMENT).map_err(engine)?;
    let customer = customers.read(editor.tables(), id)?;
    let answer = evaluate(&word.expression, customer.fragment(), 1, &word.namespaces, &|| false);
    let label = match answer {
        Ok(Value::Nodes(nodes)) if nodes.len() == 1 => customer.label(nodes[0]),
        _ => return Err(wrong("nandu", "a customer has not one mnemonic")),
    };
    if !editor.set_value(&label, &format!("{NEW_WORD}{number}")).map_err(engine)? {
        return Err(wrong("nandu", "a word to change is not there"));
    }
    editor.finish().map_err(engine)?;
    write.commit().map_err(engine)
}

fn has(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}
