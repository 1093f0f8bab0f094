//! Clients as threads of a process that is killed: what they say of their transactions while it lives, and
//! whether what is found afterwards goes with it.
//!
//! 1. What is to be committed is told before it is, and that it was after it was, each in one piece. So a
//!    process that dies anywhere has told of all that it promised.

use super::client::{self, Came, Client, Mix, Scene};
use super::moments::{self, Contents, Deed, Found};
use nandu_base::{Rng, to_u32};
use nandu_storage::{Database, StorageError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What these clients do.
const MIX: Mix = Mix {
    step_count_max: 5,
    value_bytes_max: 200,
    rolls_back: true,
    changes_catalog: true,
    has_bags: true,
    isolation: None,
    is_durable: true,
};

/// What a client says of a transaction; the last word on it counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Word(Deed);

/// What a process did that was killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KilledLife {
    /// Transactions of which something was heard.
    pub transaction_count: u64,
    /// Of them, those that are known to have committed.
    pub committed_count: u64,
}

/// Has clients on threads do transactions until `tell` refuses to hear more, or something fails.
///
/// # Errors
/// What failed, other than by other transactions being in the way.
pub fn work_on_threads(
    database: &Database,
    seed: u64,
    client_count: u32,
    last_element: u32,
    tell: &(dyn Fn(&Word) -> bool + Sync),
) -> Result<(), StorageError> {
    let scene = Scene::new(MIX, last_element.into(), u64::MAX);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for number in 0..client_count {
            let (scene, failed) = (&scene, &failed);
            let rng = Rng::for_part(seed, &format!("client {number}"));
            scope.spawn(move || {
                let mut client = Client { scene, rng };
                let mut is_heard = true;
                while is_heard {
                    let mut note = |deed: &Deed| is_heard &= tell(&Word(deed.clone()));
                    match client.transact(database, &mut note) {
                        Came::Done | Came::GaveWay | Came::Died => {}
                        Came::Failed(error) | Came::Stopped(error) => {
                            if let Ok(mut failed) = failed.lock() {
                                failed.get_or_insert(error);
                            }
                            break;
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().ok().flatten().map_or(Ok(()), Err)
}

/// A database from one life to the next.
#[derive(Debug, Default)]
pub struct Survivor {
    contents: Contents,
    last_element: u32,
}

impl Survivor {
    /// Makes the tables of the clients in an empty database.
    ///
    /// # Errors
    /// If there is no room, or a device fails.
    pub fn begin(database: &Database) -> Result<Self, StorageError> {
        client::create_tables(database)?;
        database.flush()?;
        Ok(Self::default())
    }

    /// From which elements the next life goes on.
    #[must_use]
    pub const fn last_element(&self) -> u32 {
        self.last_element
    }

    /// Whether what is found now goes with what was heard of a life.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn judge(
        &mut self,
        database: &Database,
        words: impl IntoIterator<Item = Word>,
    ) -> Result<KilledLife, String> {
        let mut deeds: BTreeMap<u64, Deed> = BTreeMap::new();
        for Word(deed) in words {
            deeds.insert(deed.began, deed);
        }
        let deeds: Vec<Deed> = deeds.into_values().collect();
        let tables = database.read();
        let contents =
            client::contents(&tables).map_err(|error| format!("reading it failed: {error}"))?;
        let elements = contents.lists.values().flatten();
        let found_last = elements.chain(contents.bags.values().flatten()).max().copied();
        let used_last = deeds.iter().flat_map(Deed::elements).max();
        self.last_element = self.last_element.max(found_last.max(used_last).unwrap_or(0));
        // Those of whom nothing was heard may have taken some more.
        self.last_element += to_u32(deeds.len() as u64) + 10_000;
        let found = Found { contents: contents.clone(), durable_before: u64::MAX };
        let told = moments::check(&self.contents, &deeds, &found)?;
        self.contents = contents;
        let report = tables.check().map_err(|error| format!("the check failed: {error}"))?;
        if let Some(finding) = report.findings.first() {
            return Err(format!("the check found: {finding}"));
        }
        tables.engine().audit();
        let transaction_count = deeds.len() as u64;
        Ok(KilledLife { transaction_count, committed_count: told.committed_count })
    }
}
