//! Ours: a clustered B+-tree over the storage engine, in a directory of real files with direct I/O,
//! so that the page cache has no part in it.
//!
//! 1. Loading commits without durability, durable batches wait for the log. Either way every change
//!    is logged: the engine has no mode without a log.
//! 2. The threads that read share one engine, thus one pool.

use super::{Purpose, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::workload::Record;
use nandu::{DirectoryOptions, DirectoryVolume, FileId};
use nandu_storage::btree::{Direction, Tree};
use nandu_storage::engine::{Engine, StructureKind, TornPages, Volumes};
use nandu_storage::log::Durability;
use nandu_storage::propagation::PropagationKind;
use std::ops::Bound;

const TREE_FILE: &str = "records.tree";
/// Tells databases apart; there is one in a directory.
const IDENTITY: u64 = 1;
/// Of the memory limit, what the process needs beside the pool; of the rest an eighth goes to what
/// the pool keeps about its frames.
const OTHER_BYTES: u64 = 16 << 20;
/// Records in one transaction where nothing asks for durability: what it logs has to fit the log.
const TRANSACTION_RECORDS: usize = 1000;
/// Keys whose leaves are fetched together.
const FETCH_KEYS: usize = 250;
/// Leaves that a scan asks for ahead: 100 records lie on about four.
const AHEAD_COUNT: usize = 4;

/// What differs between our rows of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    /// Whether the pool gets what the peers have with the page cache, not only their own cache.
    pub(super) has_wide_pool: bool,
    /// What is done about torn pages, which is fixed when a database is made.
    pub(super) torn_pages: TornPages,
    /// How changed pages are placed, which is fixed, too.
    pub(super) propagation: PropagationKind,
}

struct Nandu {
    engine: Engine,
    file: FileId,
    durability: Durability,
}

struct NanduReader<'a>(&'a Nandu);

/// Opens or makes a database.
pub(super) fn open(settings: &Settings<'_>, variant: Variant) -> Result<Box<dyn Store>, Failure> {
    let pool_bytes = if variant.has_wide_pool {
        (settings.limit_bytes.saturating_sub(OTHER_BYTES) / 8 * 7).max(settings.cache_bytes)
    } else {
        settings.cache_bytes
    };
    let durability = match settings.purpose {
        Purpose::LoadDurably => Durability::EveryCommit,
        Purpose::Load | Purpose::Read => Durability::None,
    };
    let chosen = nandu_storage::Settings {
        page_bytes: settings.page_bytes,
        pool_bytes,
        durability,
        torn_pages: variant.torn_pages,
        propagation: variant.propagation,
        log_bytes: settings.cache_bytes,
        checkpoint_bytes: settings.cache_bytes / 4,
        ..nandu_storage::Settings::default()
    };
    let options =
        DirectoryOptions { queue_depth: settings.queue_depth, ..DirectoryOptions::default() };
    let is_new = std::fs::read_dir(settings.directory).is_ok_and(|mut it| it.next().is_none());
    if is_new {
        let data = DirectoryVolume::create(settings.directory, options).map_err(failure)?;
        let volumes = Volumes { data: Box::new(data), log: None };
        let mut engine = Engine::create(volumes, &chosen, IDENTITY).map_err(failure)?;
        let file = engine.create_file(TREE_FILE).map_err(failure)?;
        engine.begin().map_err(failure)?;
        engine.act(|pages| Tree::create(pages, file)).map_err(failure)?;
        engine.commit().map_err(failure)?;
        return Ok(Box::new(Nandu { engine, file, durability }));
    }
    let data = DirectoryVolume::open(settings.directory, options).map_err(failure)?;
    let volumes = Volumes { data: Box::new(data), log: None };
    let (engine, _) = Engine::open(volumes, &chosen).map_err(failure)?;
    let file = engine.files().into_iter().find(|(_, name)| name == TREE_FILE);
    let (file, _) = file.ok_or_else(|| Failure::Wrong("the tree's file is gone".into()))?;
    Ok(Box::new(Nandu { engine, file, durability }))
}

impl Nandu {
    fn commit(&mut self, records: &[Record]) -> Result<(), Failure> {
        let file = self.file;
        let tree = Tree::at(file);
        let mut pairs: Vec<([u8; 8], &[u8])> =
            records.iter().map(|record| (record.key.to_be_bytes(), &record.value[..])).collect();
        // Whoever hands over many records at once has those that are neighbours inserted at once, and
        // their leaves read at once.
        pairs.sort_unstable_by_key(|pair| pair.0);
        self.engine.begin().map_err(failure)?;
        for ahead in pairs.chunks(FETCH_KEYS) {
            let keys: Vec<[u8; 8]> = ahead.iter().map(|pair| pair.0).collect();
            tree.fetch_leaves(&self.engine, &keys).map_err(failure)?;
            let mut rest = ahead;
            while !rest.is_empty() {
                let inserted = self.engine.act(|pages| {
                    let mut undo = pages.begin_undo(StructureKind::Tree, file);
                    let count = tree.insert_run(pages, rest, &mut undo)?;
                    pages.set_undo(undo);
                    pages.set_undo_change_count(count as u64);
                    Ok(count)
                });
                match inserted.map_err(failure)? {
                    0 => {
                        let key = u64::from_be_bytes(rest[0].0);
                        return Err(Failure::Wrong(format!("key {key:#018x} was there")));
                    }
                    count => rest = &rest[count..],
                }
            }
        }
        if let Some(commit) = self.engine.commit().map_err(failure)? {
            self.engine.log().make_commit_durable(commit, self.durability).map_err(failure)?;
        }
        Ok(())
    }
}

impl Store for Nandu {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        records.chunks(TRANSACTION_RECORDS).try_for_each(|records| self.commit(records))
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        Ok(Box::new(NanduReader(self)))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.engine.close().map_err(failure)
    }
}

impl Reader for NanduReader<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        let Nandu { engine, file, .. } = self.0;
        let seen = Tree::at(*file).get(engine, &key.to_be_bytes(), |value| visit(key, value));
        seen.map_err(failure)?.map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        let Nandu { engine, file, .. } = self.0;
        let start = start.to_be_bytes();
        let range = (Bound::Included(start.as_slice()), Bound::Unbounded);
        let scan = Tree::at(*file).scan(range, Direction::Forward);
        let mut scan = scan.with_ahead_count(AHEAD_COUNT);
        for _ in 0..count {
            let Some((key, value)) = scan.next(engine).map_err(failure)? else { return Ok(()) };
            visit(super::key_of(key)?, value)?;
        }
        Ok(())
    }

    fn get_batch(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<Option<u64>, Failure> {
        let Nandu { engine, file, .. } = self.0;
        let wanted: Vec<[u8; 8]> = keys.iter().map(|key| key.to_be_bytes()).collect();
        let mut found = 0;
        let mut outcome = Ok(());
        let look = |index: usize, value: Option<&[u8]>| {
            if let Some(value) = value {
                found += 1;
                if outcome.is_ok() {
                    outcome = visit(keys[index], value);
                }
            }
        };
        Tree::at(*file).get_batch(engine, &wanted, look).map_err(failure)?;
        outcome.map(|()| Some(found))
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Engine(format!("nandu: {error}"))
}
