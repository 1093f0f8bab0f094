//! One of many clients: transactions of both levels over lists, bags and a table that comes and goes
//! (`passing`), and what it saw in them.
//!
//! 1. A step is noted once it has succeeded; what a savepoint takes back is noted no more.
//! 2. Before a commit begins, all that it is to make durable is noted, and behind its answer, that it did.

use super::moments::{Apart, Contents, Deed, Ending, Step};
use super::passing;
use nandu_base::{Nanos, Rng, to_index, to_u32};
use nandu_storage::database::{
    Column, ColumnType, FetchOrder, Flow, Isolation, TableKind, Tables, WriteTransaction,
};
use nandu_storage::sqlite::{RecordView, ValueRef};
use nandu_storage::{Database, StorageError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clustered table: a row for each list, its elements in one value.
pub(crate) const LISTS: &str = "lists";
/// The heap: a row for each element of a bag.
pub(crate) const BAGS: &str = "bags";
/// The heap's index.
const BY_BAG: &str = "by_bag";
/// Lists and bags that are in use at once; after so many elements for each of them come others.
const THING_COUNT: u64 = 6;
const ELEMENTS_PER_THING: u64 = 8;
/// Most lists that are read as a range, and most steps of a transaction.
const RANGE_COUNT_MAX: u64 = 3;
/// Most that a client computes or waits between two steps, in nanoseconds.
const PAUSE_NS_MAX: u64 = 60_000;

/// What clients share beside the database.
pub(crate) struct Scene {
    /// Counts beginnings and ends.
    time: AtomicU64,
    /// The number of the last element.
    element: AtomicU64,
    /// Commits that were acknowledged before this were promised to be durable.
    durable_before: AtomicU64,
    /// The process ends at this time.
    pub(crate) dies_at: u64,
    /// How the workload is.
    pub(crate) mix: Mix,
}

/// How often clients do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) step_count_max: u64,
    pub(crate) value_bytes_max: u64,
    pub(crate) rolls_back: bool,
    pub(crate) changes_catalog: bool,
    pub(crate) has_bags: bool,
    /// Of what levels transactions are; both if there is none.
    pub(crate) isolation: Option<Isolation>,
    /// Whether what is acknowledged is durable.
    pub(crate) is_durable: bool,
}

impl Scene {
    /// A life that begins where elements up to `element` were used.
    pub(crate) const fn new(mix: Mix, element: u64, dies_at: u64) -> Self {
        let (time, durable_before) = (AtomicU64::new(1), AtomicU64::new(0));
        Self { time, element: AtomicU64::new(element), durable_before, dies_at, mix }
    }

    pub(crate) fn next_time(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn last_element(&self) -> u64 {
        self.element.load(Ordering::SeqCst)
    }

    /// Before which acknowledged commits were promised to be durable.
    pub(crate) fn durable_before(&self) -> u64 {
        match self.mix.is_durable {
            true => u64::MAX,
            false => self.durable_before.load(Ordering::SeqCst),
        }
    }

    pub(super) fn next_element(&self) -> u32 {
        to_u32(self.element.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn has_ended(&self) -> bool {
        self.time.load(Ordering::SeqCst) >= self.dies_at
    }

    /// The number of a list or bag in use.
    fn thing(&self, rng: &mut Rng) -> u32 {
        let first = self.last_element() / (THING_COUNT * ELEMENTS_PER_THING);
        to_u32(first * THING_COUNT / 2 + rng.below(THING_COUNT))
    }
}

/// How a transaction ended for its client.
pub(crate) enum Came {
    /// As it was meant to.
    Done,
    /// Others were in its way; it was taken back.
    GaveWay,
    /// This failed, and it was taken back.
    Failed(StorageError),
    /// This failed, and nobody knows what became of it.
    Stopped(StorageError),
    /// The process is to end; it was left as it was.
    Died,
}

impl Came {
    /// By an error after which nothing of the transaction is left.
    fn by(error: StorageError) -> Self {
        if error.is_transient() { Self::GaveWay } else { Self::Failed(error) }
    }
}

/// The tables of clients.
///
/// # Errors
/// If there is no room, or a device fails.
pub(crate) fn create_tables(database: &Database) -> Result<(), StorageError> {
    let columns = |first: &str| {
        vec![
            Column::new(first, ColumnType::Integer).not_null(),
            Column::new("value", ColumnType::Blob),
        ]
    };
    let mut write = database.write()?;
    write.create_table(LISTS, columns("list"), TableKind::Clustered { key: vec![0] })?;
    write.create_table(BAGS, columns("bag"), TableKind::Heap)?;
    write.create_index(BAGS, BY_BAG, &["bag"])?;
    write.commit()
}

/// All that lists and bags hold.
///
/// # Errors
/// If a page cannot be read, or the passing table is not as its list tells.
pub(crate) fn contents(tables: &Tables) -> Result<Contents, StorageError> {
    passing::seen(tables, true)?;
    let mut contents = Contents::default();
    tables.scan(LISTS, |_, record| {
        contents.lists.insert(number_of(record), elements_of(record));
        Flow::Continue(())
    })?;
    tables.scan(BAGS, |_, record| {
        let bag = contents.bags.entry(number_of(record)).or_default();
        bag.extend(elements_of(record).first());
        Flow::Continue(())
    })?;
    Ok(contents)
}

pub(super) fn number_of(record: RecordView<'_>) -> u32 {
    match record.get(0) {
        ValueRef::Integer(number) => u32::try_from(number).unwrap_or(u32::MAX),
        _ => u32::MAX,
    }
}

fn elements_of(record: RecordView<'_>) -> Vec<u32> {
    let ValueRef::Blob(bytes) = record.get(1) else { return vec![u32::MAX] };
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// A client at work.
pub(crate) struct Client<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) rng: Rng,
}

impl Client<'_> {
    /// One transaction. `note` is told of it before it commits (with [`Ending::Unknown`]) and at its end.
    pub(crate) fn transact(&mut self, database: &Database, note: &mut dyn FnMut(&Deed)) -> Came {
        match self.rng.below(24) {
            0 | 1 => self.look(database, note),
            2 if self.scene.mix.changes_catalog => self.change(database, Self::turn, note),
            3 => self.save(database),
            _ => self.change(database, Self::steps, note),
        }
    }

    /// A transaction of such steps.
    fn change(
        &mut self,
        database: &Database,
        work: fn(&mut Self, &mut WriteTransaction<'_>, &mut Vec<Step>) -> Result<(), StorageError>,
        note: &mut dyn FnMut(&Deed),
    ) -> Came {
        let isolation = self.scene.mix.isolation.unwrap_or_else(|| {
            Isolation::ALL[to_index(self.rng.below(Isolation::ALL.len() as u64))]
        });
        let apart = match isolation {
            Isolation::Snapshot => Apart::Snapshot,
            Isolation::Serializable => Apart::Serializable,
        };
        let began = self.scene.next_time();
        let mut write = match database.write_with(isolation) {
            Ok(write) => write,
            Err(error) => return Came::by(error),
        };
        let begun = self.scene.next_time();
        let steps = Vec::new();
        let mut deed = Deed { apart, began, begun, steps, ending: Ending::Unknown };
        let gone = work(self, &mut write, &mut deed.steps);
        if self.scene.has_ended() {
            deed.ending = Ending::Refused { at: self.scene.next_time() };
            note(&deed);
            write.abandon();
            return Came::Died;
        }
        let rolls_back = self.scene.mix.rolls_back && self.rng.below(8) == 0;
        if gone.is_err() || rolls_back {
            return self.take_back(write, deed, gone.err(), note);
        }
        note(&deed);
        match write.commit() {
            Ok(()) => {
                deed.ending = Ending::Committed { at: self.scene.next_time() };
                note(&deed);
                Came::Done
            }
            Err(error) => Came::Stopped(error),
        }
    }

    fn take_back(
        &self,
        write: WriteTransaction<'_>,
        mut deed: Deed,
        cause: Option<StorageError>,
        note: &mut dyn FnMut(&Deed),
    ) -> Came {
        let taken_back = write.rollback();
        deed.ending = Ending::Refused { at: self.scene.next_time() };
        note(&deed);
        match (taken_back, cause) {
            (Err(error), _) => Came::Stopped(error),
            (Ok(()), None) => Came::Done,
            (Ok(()), Some(error)) => Came::by(error),
        }
    }

    fn steps(
        &mut self,
        write: &mut WriteTransaction<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StorageError> {
        let mut mark = None;
        for _ in 0..1 + self.rng.below(self.scene.mix.step_count_max) {
            if self.scene.has_ended() {
                break;
            }
            self.pause();
            match (self.rng.below(12), mark) {
                (0, _) if self.scene.mix.rolls_back => {
                    mark = Some((write.savepoint(), steps.len()))
                }
                (1, Some((savepoint, step_count))) => {
                    write.rollback_to(savepoint)?;
                    steps.truncate(step_count);
                }
                _ => self.step(write, steps)?,
            }
        }
        Ok(())
    }

    /// Computes, or waits, so that others come in between.
    pub(super) fn pause(&mut self) {
        let time = Nanos(self.rng.below(PAUSE_NS_MAX));
        match (self.rng.below(4), nandu_workers::now()) {
            (0, Some(now)) => nandu_workers::sleep_until(now + time),
            (1, _) => nandu_workers::spend(time),
            _ => {}
        }
    }

    pub(super) fn step(
        &mut self,
        write: &mut WriteTransaction<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StorageError> {
        if self.scene.mix.changes_catalog && self.rng.below(12) == 0 {
            return self.visit(write, steps);
        }
        let thing = self.scene.thing(&mut self.rng);
        let choice = self.rng.below(10);
        match choice {
            0..=2 => {
                if self.rng.below(3) == 0 {
                    write.claim_by_key(LISTS, &[ValueRef::Integer(thing.into())])?;
                }
                let mut elements = read_list(write, thing)?;
                steps.push(Step::ReadList { list: thing, elements: elements.clone() });
                let element = self.scene.next_element();
                elements.push(element);
                store_list(write, thing, &elements)?;
                steps.push(Step::Append { list: thing, element });
            }
            5 => {
                let count = to_u32(1 + self.rng.below(RANGE_COUNT_MAX));
                steps.extend(read_lists(write, thing, count)?);
            }
            6 | 7 if self.scene.mix.has_bags => {
                let element = self.scene.next_element();
                let value = self.padded(element);
                write.insert(BAGS, &[ValueRef::Integer(thing.into()), ValueRef::Blob(&value)])?;
                steps.push(Step::Add { bag: thing, element });
            }
            8 | 9 if self.scene.mix.has_bags => {
                let rows = read_bag(write, thing)?;
                let elements = rows.values().copied().collect();
                steps.push(Step::ReadBag { bag: thing, elements });
                // A row of another length, with the same element.
                if let (8, Some((&number, &element))) = (choice, rows.iter().next()) {
                    let value = self.padded(element);
                    let row = [ValueRef::Integer(thing.into()), ValueRef::Blob(&value)];
                    write.update(BAGS, number, &row)?;
                }
            }
            _ => {
                let elements = read_list(write, thing)?;
                steps.push(Step::ReadList { list: thing, elements });
            }
        }
        Ok(())
    }

    pub(super) fn padded(&mut self, element: u32) -> Vec<u8> {
        let mut value = vec![0; 4 + to_index(self.rng.below(self.scene.mix.value_bytes_max + 1))];
        value[..4].copy_from_slice(&element.to_le_bytes());
        value
    }

    /// A snapshot, looked at for a while.
    fn look(&mut self, database: &Database, note: &mut dyn FnMut(&Deed)) -> Came {
        let began = self.scene.next_time();
        let snapshot = database.snapshot();
        let begun = self.scene.next_time();
        let mut steps = Vec::new();
        let mut looked = || -> Result<(), StorageError> {
            for _ in 0..1 + self.rng.below(4) {
                self.pause();
                let thing = self.scene.thing(&mut self.rng);
                if self.scene.mix.changes_catalog && self.rng.below(3) == 0 {
                    steps.push(passing::seen(&snapshot, self.rng.below(2) == 0)?);
                } else if self.rng.below(2) == 0 {
                    steps.extend(read_lists(&snapshot, thing, 3)?);
                } else {
                    let elements = read_bag(&snapshot, thing)?.into_values().collect();
                    steps.push(Step::ReadBag { bag: thing, elements });
                }
            }
            Ok(())
        };
        let looked = looked();
        let ending = Ending::Refused { at: self.scene.next_time() };
        note(&Deed { apart: Apart::Snapshot, began, begun, steps, ending });
        looked.map_or_else(Came::Failed, |()| Came::Done)
    }

    /// Makes durable what was committed.
    fn save(&mut self, database: &Database) -> Came {
        let until = self.scene.next_time();
        let saved = match self.rng.below(2) {
            0 => database.checkpoint(),
            _ => database.flush(),
        };
        match saved {
            Ok(()) => {
                self.scene.durable_before.fetch_max(until, Ordering::SeqCst);
                Came::Done
            }
            Err(error) => Came::Failed(error),
        }
    }
}

pub(super) fn read_list(tables: &Tables, list: u32) -> Result<Vec<u32>, StorageError> {
    let found = tables.get_by_key(LISTS, &[ValueRef::Integer(list.into())], elements_of)?;
    Ok(found.unwrap_or_default())
}

pub(super) fn store_list(
    write: &mut WriteTransaction<'_>,
    list: u32,
    elements: &[u32],
) -> Result<(), StorageError> {
    let bytes: Vec<u8> = elements.iter().flat_map(|word| word.to_le_bytes()).collect();
    write.put(LISTS, &[ValueRef::Integer(list.into()), ValueRef::Blob(&bytes)]).map(drop)
}

/// Reads so many lists from this one on; those that have no row, too.
fn read_lists(tables: &Tables, from: u32, count: u32) -> Result<Vec<Step>, StorageError> {
    let end = from + count;
    let (lower, upper) = ([ValueRef::Integer(from.into())], [ValueRef::Integer(end.into())]);
    let bounds = (Bound::Included(&lower[..]), Bound::Excluded(&upper[..]));
    let mut lists: BTreeMap<u32, Vec<u32>> = (from..end).map(|list| (list, Vec::new())).collect();
    tables.scan_by_key(LISTS, bounds, 0, |record| {
        lists.insert(number_of(record), elements_of(record));
        Flow::Continue(())
    })?;
    Ok(lists.into_iter().map(|(list, elements)| Step::ReadList { list, elements }).collect())
}

/// The rows of a bag, by number, each with its element.
fn read_bag(tables: &Tables, bag: u32) -> Result<BTreeMap<i64, u32>, StorageError> {
    let value = [ValueRef::Integer(bag.into())];
    let bounds = (Bound::Included(&value[..]), Bound::Included(&value[..]));
    let mut rows = BTreeMap::new();
    let mut seen = BTreeSet::new();
    tables.index_rows(BAGS, BY_BAG, bounds, FetchOrder::Key, |number, record| {
        seen.insert(number_of(record));
        let element = elements_of(record).first().copied();
        rows.insert(number, element.unwrap_or(u32::MAX));
    })?;
    match seen.iter().all(|&number| number == bag) {
        true => Ok(rows),
        false => Err(StorageError::Corrupt {
            place: "the index of bags".to_owned(),
            what: format!("entries of {bag} lead to rows of {seen:?}"),
        }),
    }
}
