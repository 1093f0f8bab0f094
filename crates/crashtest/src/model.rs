//! What the tables must hold: one state after each commit that a reopening may show.
//!
//! 1. The first state that counts is the last one that is surely durable; a reopening shows it or one
//!    behind it, and after n bits flipped in a log that was not closed perhaps one of the n before.

use crate::Scenario;
use crate::documents::{self, tree::Element};
use nandu_storage::StorageError;
use nandu_storage::database::{Flow, Tables};
use nandu_storage::sqlite::{RecordView, ValueRef};
use std::collections::BTreeMap;

/// The name of the table with a key, clustered or a raw tree, which is always there.
pub(crate) const KEYED: &str = "keyed";
/// The name of the heap.
pub(crate) const HEAP: &str = "heap";
/// The name of the heap's index.
pub(crate) const INDEX: &str = "by_key";
/// The name of a table that comes and goes.
pub(crate) const PASSING: &str = "passing";

/// Key and value of a row.
pub(crate) type KeyValue = (i64, Vec<u8>);

/// The contents of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) keyed: BTreeMap<i64, Vec<u8>>,
    pub(crate) heap: BTreeMap<i64, KeyValue>,
    /// The rows of the table that comes and goes, in its order, while it is there.
    pub(crate) passing: Option<Vec<KeyValue>>,
    /// The document, where there is one.
    pub(crate) document: Option<Element>,
}

impl State {
    /// A word about the document, for whoever reads of a promise that was broken.
    pub(crate) fn told_document(&self) -> String {
        self.document.as_ref().map_or(String::new(), |tree| format!(" and {} ", tree.text()))
    }
}

/// Commits before the last durable one that are kept, since flipped bits may cost some.
pub(crate) const KEPT_COUNT: usize = 3;

/// The states that a reopening may show.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    states: Vec<State>,
    /// The first of them that may be the last durable one. Those before it are of commits that the log
    /// alone holds.
    durable: usize,
}

impl History {
    /// Only this state counts.
    pub(crate) fn settle(&mut self, state: State) {
        *self = Self { states: vec![state], durable: 0 };
    }

    /// A commit that is durable, by a flush of the log.
    pub(crate) fn add_durable(&mut self, state: State) {
        self.add(state);
        self.note_durable();
    }

    /// A commit that may or may not be durable. One that changed nothing is no state of its own: it puts
    /// nothing into the log, so losing the last flush loses the commit before it.
    pub(crate) fn add(&mut self, state: State) {
        if state != *self.last() {
            self.states.push(state);
        }
    }

    /// All that was committed is durable, by the log and by what it says of itself.
    pub(crate) fn note_durable(&mut self) {
        self.states.drain(..(self.states.len() - 1).saturating_sub(KEPT_COUNT));
        self.durable = self.states.len() - 1;
    }

    /// The state after the latest commit.
    pub(crate) fn last(&self) -> &State {
        self.states.last().expect("there is always a state")
    }

    /// All that was committed is durable, and the log was closed.
    pub(crate) fn settle_last(&mut self) {
        let last = self.last().clone();
        self.settle(last);
    }

    /// Whether a reopening may show this state, if the log lost so many of its last flushes.
    pub(crate) fn contains(&self, state: &State, lost_count: usize) -> bool {
        self.states[self.durable.saturating_sub(lost_count)..].contains(state)
    }

    /// How many states count, if the log lost nothing.
    pub(crate) fn len(&self) -> usize {
        self.states.len() - self.durable
    }
}

/// What the tables hold.
pub(crate) fn read_state(tables: &Tables, scenario: &Scenario) -> Result<State, StorageError> {
    let mut state = State::default();
    tables.scan(KEYED, |_, record| {
        let (key, value) = key_value(record);
        state.keyed.insert(key, value);
        Flow::Continue(())
    })?;
    if scenario.has_heap {
        tables.scan(HEAP, |number, record| {
            state.heap.insert(number, key_value(record));
            Flow::Continue(())
        })?;
    }
    if tables.definition(PASSING).is_ok() {
        let mut rows = Vec::new();
        tables.scan(PASSING, |_, record| {
            rows.push(key_value(record));
            Flow::Continue(())
        })?;
        state.passing = Some(rows);
    }
    if scenario.document.is_some() {
        state.document = Some(documents::read(tables).map_err(documents::of_engine)?);
    }
    Ok(state)
}

pub(crate) fn key_value(record: RecordView<'_>) -> KeyValue {
    let key = match record.get(0) {
        ValueRef::Integer(key) => key,
        ValueRef::Blob(bytes) => bytes.try_into().map_or(i64::MIN, i64::from_be_bytes),
        _ => i64::MIN,
    };
    match record.get(1) {
        ValueRef::Blob(bytes) => (key, bytes.to_vec()),
        _ => (key, b"no blob".to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_changed_nothing_is_no_flush_that_can_be_lost() {
        let state = |key| State { keyed: [(key, Vec::new())].into(), ..State::default() };
        let mut history = History::default();
        history.settle(state(1));
        history.add_durable(state(2));
        history.add_durable(state(2));
        assert!(!history.contains(&state(1), 0));
        assert!(history.contains(&state(1), 1), "one flush was lost, and with it one state");
        history.add_durable(state(3));
        assert!(!history.contains(&state(1), 1));
    }
}
