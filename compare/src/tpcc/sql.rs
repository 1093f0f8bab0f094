//! What engines of SQL have in common here: a statement with parameters gives rows, a transaction is
//! done, and done again where others were in its way.
//!
//! 1. A parameter is `$1` and so on in a statement.

use super::contender::Session;
use crate::Failure;
use nandu_base::Rng;
use nandu_bench::tpcc::{Input, Output};
use std::time::Duration;

/// Transactions that are begun again so often find no end.
const ATTEMPT_COUNT_MAX: u32 = 1000;
/// After so many clients wait before the next attempt: without that eight of them had a transaction of
/// PostgreSQL fail a thousand times, each time by another one that was begun again as fast.
const HASTY_COUNT: u32 = 3;
/// What they wait then: anything up to this, twice as much with each attempt, up to the most.
const WAIT_US: u64 = 200;
const WAIT_US_MAX: u64 = 20_000;

/// What stands for a `$` in a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parameter<'a> {
    Integer(i64),
    Text(&'a str),
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Text(String),
}

/// The values of a row, which are taken one after the other.
#[derive(Debug)]
pub(super) struct Row(pub(super) std::vec::IntoIter<Cell>);

/// Why a transaction did not come to its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// Others were in its way; done again it may succeed.
    Again,
    /// It failed.
    Failed(Failure),
}

/// Statements within a transaction.
pub(super) trait Statements {
    /// All rows of a statement.
    ///
    /// # Errors
    /// If the engine fails, or others are in the way.
    fn rows(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Stop>;

    /// The row of a statement that gives one, or none.
    ///
    /// # Errors
    /// As [`Self::rows`]; or if there are more.
    fn row_if_any(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, Stop> {
        let mut rows = self.rows(statement, parameters)?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            count => Err(wrong(&format!("{count} rows, not one, of {statement}"))),
        }
    }

    /// The one row of a statement.
    ///
    /// # Errors
    /// As [`Self::rows`]; or if it is not one.
    fn row(&mut self, statement: &'static str, parameters: &[Parameter<'_>]) -> Result<Row, Stop> {
        let row = self.row_if_any(statement, parameters)?;
        row.ok_or_else(|| wrong(&format!("no row of {statement}")))
    }
}

/// A client's connection, on which a transaction can be tried.
pub(super) trait Connection: Send {
    /// Tries a transaction, once.
    ///
    /// # Errors
    /// If the engine fails, or others are in the way; then nothing of it is there.
    fn attempt(&mut self, input: &Input) -> Result<Output, Stop>;
}

/// A connection whose transactions are done as often as it takes.
pub(super) struct SqlSession<C> {
    connection: C,
    retry_count: u64,
    /// What waits are drawn from, another one for each client: else those who failed together would be
    /// back together.
    rng: Rng,
}

impl<C> SqlSession<C> {
    /// The session of the client of this number.
    pub(super) fn new(connection: C, number: u32) -> Self {
        Self { connection, retry_count: 0, rng: Rng::new(u64::from(number)) }
    }

    /// Waits before another attempt, if there were many.
    #[allow(clippy::disallowed_methods, reason = "others are at work in another process meanwhile")]
    fn give_way(&mut self, attempt_count: u32) {
        if let Some(longest_us) = longest_wait_us(attempt_count) {
            std::thread::sleep(Duration::from_micros(self.rng.below(longest_us + 1)));
        }
    }
}

impl<C: Connection> Session for SqlSession<C> {
    fn execute(&mut self, input: &Input) -> Result<Output, Failure> {
        for attempt_count in 1..=ATTEMPT_COUNT_MAX {
            match self.connection.attempt(input) {
                Ok(output) => return Ok(output),
                Err(Stop::Again) => {
                    self.retry_count += 1;
                    self.give_way(attempt_count);
                }
                Err(Stop::Failed(failure)) => return Err(failure),
            }
        }
        Err(Failure::Engine(format!("a transaction was begun {ATTEMPT_COUNT_MAX} times in vain")))
    }

    fn retry_count(&self) -> u64 {
        self.retry_count
    }
}

/// How long a client waits at most after so many attempts; `None` where it does not.
fn longest_wait_us(attempt_count: u32) -> Option<u64> {
    let doublings = attempt_count.checked_sub(HASTY_COUNT)?;
    Some(WAIT_US_MAX.min(WAIT_US << doublings.min(20)))
}

/// Whether a transaction changes something.
pub(super) const fn is_writing(input: &Input) -> bool {
    !matches!(input, Input::OrderStatus(_) | Input::StockLevel(_))
}

/// Whether a transaction that came to its end is rolled back, since it has to be.
pub(super) const fn is_rolled_back(output: &Output) -> bool {
    matches!(output, Output::NewOrder(order) if order.is_rolled_back)
}

/// That an engine gave something else than it should.
pub(super) fn wrong(what: &str) -> Stop {
    Stop::Failed(Failure::Wrong(what.to_owned()))
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Row {
    /// The next value, which is a number.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn integer(&mut self) -> Result<i64, Stop> {
        self.integer_or_null()?.ok_or_else(|| wrong("a number is null"))
    }

    /// The next value, which is a number or null.
    ///
    /// # Errors
    /// If it is something else.
    pub(super) fn integer_or_null(&mut self) -> Result<Option<i64>, Stop> {
        match self.0.next() {
            Some(Cell::Integer(number)) => Ok(Some(number)),
            Some(Cell::Null) => Ok(None),
            other => Err(wrong(&format!("{other:?} where a number was asked for"))),
        }
    }

    /// The next value, which is a text.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn text(&mut self) -> Result<String, Stop> {
        match self.0.next() {
            Some(Cell::Text(text)) => Ok(text),
            other => Err(wrong(&format!("{other:?} where a text was asked for"))),
        }
    }

    /// The next values, which are texts.
    ///
    /// # Errors
    /// If one is none.
    pub(super) fn texts<const N: usize>(&mut self) -> Result<[String; N], Stop> {
        let mut texts = std::array::from_fn(|_| String::new());
        for text in &mut texts {
            *text = self.text()?;
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_often_waits_longer_but_not_forever() {
        let waits = [1, 2, 3, 4, 9, 10, 1000].map(longest_wait_us);
        let expected = [0, 0, 200, 400, 12_800, 20_000, 20_000];
        assert_eq!(waits.map(Option::unwrap_or_default), expected);
    }
}
