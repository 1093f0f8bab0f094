//! A table that comes, gets an index and goes again, while others read it, write to it and to all others; and
//! a list that tells how often that was.
//!
//! ```text
//!   elements of the list   0          1                2                3
//!                          no table ─► made or loaded ─► with an index ─► no table ─► …
//! ```
//!
//! 1. Whoever looks finds as many turns as the list tells. All rows of the table hold the element of the turn
//!    that made it, and the index has all of them.

use super::client::{Client, LISTS, number_of, read_list, store_list};
use super::moments::Step;
use nandu_storage::StorageError;
use nandu_storage::database::{
    Column, ColumnType, Flow, Isolation, LoadOptions, NewTable, Row, TableKind, TableLoad, Tables,
    WriteTransaction,
};
use nandu_storage::sqlite::{Value, ValueRef};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The list of turns, far from all others.
const TURNS: u32 = 1_000_000_000;
/// The table that comes and goes.
const PASSING: &str = "passing";
/// The index that it gets.
const BY_TURN: &str = "by_turn";
/// So many states there are.
const STATE_COUNT: usize = 3;
/// With so many rows it is made.
const ROW_COUNT: usize = 20;

/// The table as somebody finds it.
struct Found {
    /// What each row holds.
    rows: BTreeMap<i64, u32>,
    /// The rows that its index names, if it has one.
    indexed: Option<Vec<i64>>,
}

/// Looks at the list and at the table. Gives the list.
///
/// # Errors
/// If a page cannot be read, others are in the way, or the two do not go together.
fn look(tables: &Tables, is_list_first: bool) -> Result<Vec<u32>, StorageError> {
    let (turns, found) = if is_list_first {
        (read_list(tables, TURNS)?, find(tables)?)
    } else {
        let found = find(tables)?;
        (read_list(tables, TURNS)?, found)
    };
    compare(&turns, found.as_ref())?;
    Ok(turns)
}

/// What somebody sees who looks.
///
/// # Errors
/// As [`look`].
pub(super) fn seen(tables: &Tables, is_list_first: bool) -> Result<Step, StorageError> {
    let elements = look(tables, is_list_first)?;
    Ok(Step::ReadList { list: TURNS, elements })
}

fn find(tables: &Tables) -> Result<Option<Found>, StorageError> {
    let has_index = match tables.definition(PASSING) {
        Ok(definition) => !definition.indexes.is_empty(),
        Err(StorageError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut rows = BTreeMap::new();
    tables.scan(PASSING, |number, record| {
        rows.insert(number, number_of(record));
        Flow::Continue(())
    })?;
    let mut numbers = Vec::new();
    if has_index {
        tables.index_scan(PASSING, BY_TURN, (Bound::Unbounded, Bound::Unbounded), |number| {
            numbers.push(number);
            Flow::Continue(())
        })?;
        numbers.sort_unstable();
    }
    Ok(Some(Found { rows, indexed: has_index.then_some(numbers) }))
}

/// Whether a table goes with the turns.
fn compare(turns: &[u32], found: Option<&Found>) -> Result<(), StorageError> {
    let state = turns.len() % STATE_COUNT;
    let maker = turns.len().checked_sub(state).and_then(|first| turns.get(first));
    let is_so = match (state, found) {
        (0, None) => true,
        (1 | 2, Some(Found { rows, indexed })) => {
            let is_indexed = indexed.as_ref().is_none_or(|all| rows.keys().eq(all.iter()));
            let holds = |element: &u32| Some(element) == maker;
            indexed.is_some() == (state == 2)
                && is_indexed
                && rows.len() >= ROW_COUNT
                && rows.values().all(holds)
        }
        _ => false,
    };
    if is_so {
        return Ok(());
    }
    let told = found.map(|Found { rows, indexed }| (rows.len(), rows.first_key_value(), indexed));
    let what = format!("after {} turns, the last of {maker:?}, it is {told:?}", turns.len());
    Err(StorageError::Corrupt { place: "the passing table".to_owned(), what })
}

impl Client<'_> {
    /// The next turn, as part of a transaction.
    pub(super) fn turn(
        &mut self,
        write: &mut WriteTransaction<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StorageError> {
        if self.rng.below(2) == 0 {
            write.claim_by_key(LISTS, &[ValueRef::Integer(TURNS.into())])?;
        }
        let mut turns = look(write, self.rng.below(2) == 0)?;
        steps.push(Step::ReadList { list: TURNS, elements: turns.clone() });
        self.pause();
        let element = self.scene.next_element();
        if self.scene.mix.rolls_back && self.rng.below(4) == 0 {
            let mark = write.savepoint();
            self.advance(write, &turns, element)?;
            self.pause();
            write.rollback_to(mark)?;
            compare(&turns, find(write)?.as_ref())?;
        }
        self.advance(write, &turns, element)?;
        self.pause();
        turns.push(element);
        store_list(write, TURNS, &turns)?;
        steps.push(Step::Append { list: TURNS, element });
        // One of level snapshot does not see what it made of the table.
        if write.isolation() == Isolation::Serializable {
            compare(&turns, find(write)?.as_ref())?;
            for _ in 0..self.rng.below(3) {
                self.pause();
                self.step(write, steps)?;
            }
        }
        Ok(())
    }

    fn advance(
        &mut self,
        write: &mut WriteTransaction<'_>,
        turns: &[u32],
        element: u32,
    ) -> Result<(), StorageError> {
        match turns.len() % STATE_COUNT {
            0 => self.make(write, element),
            1 => write.create_index(PASSING, BY_TURN, &["turn"]),
            _ => write.drop_table(PASSING),
        }
    }

    fn make(&mut self, write: &mut WriteTransaction<'_>, element: u32) -> Result<(), StorageError> {
        let columns =
            vec![Column::new("turn", ColumnType::Integer), Column::new("value", ColumnType::Blob)];
        let value = self.padded(element);
        let row: Row = vec![Value::Integer(element.into()), Value::Blob(value)];
        // A transaction of level snapshot does not see a table that it made row by row.
        if write.isolation() == Isolation::Serializable && self.rng.below(2) == 0 {
            write.create_table(PASSING, columns, TableKind::Heap)?;
            return write.insert_all(PASSING, &vec![row; ROW_COUNT]);
        }
        let (name, indexes) = (PASSING.to_owned(), Vec::new());
        let table = NewTable { name, columns, kind: TableKind::Heap, indexes };
        let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let rows = |load: &mut TableLoad<'_>| -> Result<(), StorageError> {
            for number in 0..ROW_COUNT {
                load.push(&refs)?;
                if number % 8 == 7 {
                    self.pause();
                }
            }
            Ok(())
        };
        write.load_table(&table, &LoadOptions::default(), rows).map(drop)
    }

    /// Looks at the table, and perhaps adds a row like those that are there.
    pub(super) fn visit(
        &mut self,
        write: &mut WriteTransaction<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StorageError> {
        let turns = look(write, self.rng.below(2) == 0)?;
        let first = turns.len() - turns.len() % STATE_COUNT;
        if let Some(&maker) = turns.get(first)
            && self.rng.below(2) == 0
        {
            self.pause();
            let value = self.padded(maker);
            write.insert(PASSING, &[ValueRef::Integer(maker.into()), ValueRef::Blob(&value)])?;
        }
        steps.push(Step::ReadList { list: TURNS, elements: turns });
        Ok(())
    }
}
