//! Clients as threads of a process that is killed, all of them changing one document, and whether what is
//! found afterwards goes with what they said.
//!
//! ```text
//!   <n k="root"><n k="0">17<n …/>…</n><n k="1">16…</n>…</n>
//!                        └ so many transactions of client 0 are in it
//! ```
//!
//! 1. What a client does next follows from the seed of the document, its number, how often it did something,
//!    and what is in its part: so whoever knows the part as it was knows it as it has to be.
//! 2. A client counts in the transaction that changes its part. It tells before a commit, and after it.

use super::tree::{Edit, Element};
use super::{change, findings, indexes_of, mapping, of_engine, read, store_with};
use crate::crowd::threads::KilledLife;
use nandu_base::Rng;
use nandu_storage::database::Isolation;
use nandu_storage::{Database, StorageError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Most bytes of a value, some longer than a container may be.
const VALUE_BYTES_MAX: u64 = 3000;
/// Most changes of a transaction.
const EDIT_COUNT_MAX: u64 = 4;

/// What a client says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Update {
    client: u32,
    /// Which of its transactions it is, from 1 on.
    number: u64,
    has_committed: bool,
}

impl Update {
    pub(super) const fn new(client: u32, number: u64, has_committed: bool) -> Self {
        Self { client, number, has_committed }
    }
}

/// What the transaction of this number does to a part, that which counts it among it.
pub(super) fn edits(seed: u64, client: u32, number: u64, part: &Element) -> Vec<Edit> {
    let mut rng = Rng::for_part(seed, &format!("update {number} of client {client}"));
    let mut part = part.clone();
    let mut edits = vec![Edit::SetValue { key: part.key.clone(), value: number.to_string() }];
    for _ in 0..=rng.below(EDIT_COUNT_MAX) {
        let edit = part.draw(&mut rng, VALUE_BYTES_MAX);
        part.apply(&edit);
        edits.push(edit);
    }
    edits
}

/// How many transactions are in a part.
pub(super) fn number_of(part: &Element) -> Result<u64, String> {
    part.value.parse().map_err(|_| format!("part {} counts `{}`", part.key, part.value))
}

/// Has clients on threads change the document until `tell` refuses to hear more, or something fails.
///
/// # Errors
/// What failed, other than by other transactions being in the way.
pub fn update_on_threads(
    database: &Database,
    seed: u64,
    client_count: u32,
    tell: &(dyn Fn(&Update) -> bool + Sync),
) -> Result<(), StorageError> {
    let tree = read(&database.read()).map_err(of_engine)?;
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for client in 0..client_count {
            let (tree, failed) = (&tree, &failed);
            scope.spawn(move || {
                if let Err(error) = update(database, (seed, client), tree, tell)
                    && let Ok(mut failed) = failed.lock()
                {
                    failed.get_or_insert(error);
                }
            });
        }
    });
    failed.into_inner().ok().flatten().map_or(Ok(()), Err)
}

/// The transactions of one client.
fn update(
    database: &Database,
    (seed, client): (u64, u32),
    tree: &Element,
    tell: &(dyn Fn(&Update) -> bool + Sync),
) -> Result<(), StorageError> {
    let damaged = |what: String| StorageError::Corrupt { place: "a document".to_owned(), what };
    let part = tree.find(&client.to_string());
    let mut part = part.ok_or_else(|| damaged(format!("part {client} is missing")))?.clone();
    loop {
        let number = number_of(&part).map_err(damaged)? + 1;
        let edits = edits(seed, client, number, &part);
        let mut is_heard = true;
        database.transact(Isolation::Serializable, |write| {
            change(write, &edits).map_err(of_engine)?;
            is_heard = tell(&Update { client, number, has_committed: false });
            Ok(())
        })?;
        is_heard &= tell(&Update { client, number, has_committed: true });
        if !is_heard {
            return Ok(());
        }
        edits.iter().for_each(|edit| {
            part.apply(edit);
        });
    }
}

/// A document from one life to the next.
#[derive(Debug)]
pub struct SurvivingDocument {
    seed: u64,
    tree: Element,
}

impl SurvivingDocument {
    /// Makes the document in an empty database, with a part for each client.
    ///
    /// # Errors
    /// If there is no room, or a device fails.
    pub fn begin(database: &Database, seed: u64, client_count: u32) -> Result<Self, StorageError> {
        let mut tree = Element::new("root", "");
        tree.children = (0..client_count).map(|it| Element::new(it.to_string(), "0")).collect();
        let mut write = database.write()?;
        let mapping = mapping(&mut Rng::for_part(seed, "document"));
        store_with(&mut write, mapping, &tree, indexes_of(seed)).map_err(of_engine)?;
        write.commit()?;
        database.flush()?;
        Ok(Self { seed, tree })
    }

    /// Whether what is found now goes with what was heard of a life.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn judge(
        &mut self,
        database: &Database,
        updates: impl IntoIterator<Item = Update>,
    ) -> Result<KilledLife, String> {
        let tables = database.read();
        let found = read(&tables).map_err(|error| format!("reading it failed: {error}"))?;
        let life = self.take(&found, updates)?;
        let findings = findings(&tables).map_err(|error| format!("its check failed: {error}"))?;
        if let Some(finding) = findings.first() {
            return Err(format!("the check of the document found: {finding}"));
        }
        let report = tables.check().map_err(|error| format!("the check failed: {error}"))?;
        if let Some(finding) = report.findings.first() {
            return Err(format!("the check found: {finding}"));
        }
        tables.engine().audit();
        Ok(life)
    }

    /// The same of what was found, whatever else there is of it.
    pub(super) fn take(
        &mut self,
        found: &Element,
        updates: impl IntoIterator<Item = Update>,
    ) -> Result<KilledLife, String> {
        let mut last: BTreeMap<u32, Update> = BTreeMap::new();
        let mut life = KilledLife::default();
        for update in updates {
            life.committed_count += u64::from(update.has_committed);
            last.insert(update.client, update);
        }
        let mut expected = self.tree.clone();
        for part in &mut expected.children {
            let before = number_of(part)?;
            let found =
                found.find(&part.key).ok_or_else(|| format!("part {} is gone", part.key))?;
            let found_count = number_of(found)?;
            let client: u32 = part.key.parse().map_err(|_| format!("part {}", part.key))?;
            let (least, most) = match last.get(&client) {
                // Its first word of the next one may not have been heard; it comes before the commit.
                Some(Update { number, has_committed: true, .. }) => (*number, *number),
                Some(Update { number, has_committed: false, .. }) => (number - 1, *number),
                None => (before, before),
            };
            if !(least..=most).contains(&found_count) {
                return Err(format!(
                    "client {client} has {found_count} updates there, and {least} to {most} were told"
                ));
            }
            life.transaction_count += last.get(&client).map_or(0, |told| told.number - before);
            for number in before + 1..=found_count {
                let edits = edits(self.seed, client, number, part);
                edits.iter().for_each(|edit| {
                    part.apply(edit);
                });
            }
        }
        if *found != expected {
            return Err("the document is not what all updates make of it".to_owned());
        }
        self.tree = expected;
        Ok(life)
    }

    /// The part of each client.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Element> {
        self.tree.children.iter()
    }
}
