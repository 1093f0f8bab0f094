//! What every unit may hold after a cut, given what was issued and what was promised.
//!
//! 1. A unit's history begins with what was durable at the last cut; what follows was issued later.
//! 2. A value names its unit and is never issued twice.

use nandu_base::{Lpn, Nanos, to_index, to_u32};
use nandu_nand::Content;
use std::sync::Arc;

/// What a flushed trim is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trims {
    /// Old values may return until a later write is durable.
    Volatile,
    /// As durable as a flushed write.
    Journaled,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    /// None is a trim, or that nothing was ever there.
    value: Option<u32>,
    is_trim: bool,
    /// Whether it was refused; what it said may have come true nevertheless.
    failed: bool,
    /// `Nanos::MAX` is not yet.
    acknowledged_at: Nanos,
    durable_at: Nanos,
}

impl Event {
    const fn durable(value: Option<u32>) -> Self {
        let (acknowledged_at, durable_at) = (Nanos::ZERO, Nanos::ZERO);
        Self { value, is_trim: false, failed: false, acknowledged_at, durable_at }
    }

    /// Just issued, or refused.
    const fn issued(value: Option<u32>, failed: bool) -> Self {
        let (acknowledged_at, durable_at) = (Nanos::MAX, Nanos::MAX);
        Self { value, is_trim: value.is_none(), failed, acknowledged_at, durable_at }
    }
}

/// The host's side of a run.
#[derive(Debug)]
pub(crate) struct Model {
    units: Vec<Vec<Event>>,
    trims: Trims,
    next_value: u32,
}

impl Model {
    pub(crate) fn new(unit_count: u64, trims: Trims) -> Self {
        let units = vec![vec![Event::durable(None)]; to_index(unit_count)];
        Self { units, trims, next_value: 0 }
    }

    /// A fresh value for `lpn`, with its encoding.
    pub(crate) fn draw(&mut self, lpn: Lpn) -> (u32, Content) {
        self.next_value += 1;
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&to_u32(lpn.0).to_le_bytes());
        bytes[4..].copy_from_slice(&self.next_value.to_le_bytes());
        (self.next_value, Some(Arc::from(bytes.as_slice())))
    }

    /// `lpn` was told to hold `value`; answers what names the event to [`Self::acknowledge`].
    pub(crate) fn wrote(&mut self, lpn: Lpn, value: u32, failed: bool) -> (Lpn, usize) {
        let history = &mut self.units[to_index(lpn.0)];
        history.push(Event::issued(Some(value), failed));
        (lpn, history.len() - 1)
    }

    /// An event was acknowledged, and where `is_durable` needs no flush.
    pub(crate) fn acknowledge(&mut self, (lpn, number): (Lpn, usize), at: Nanos, is_durable: bool) {
        let event = &mut self.units[to_index(lpn.0)][number];
        event.acknowledged_at = at;
        if is_durable {
            event.durable_at = event.durable_at.min(at);
        }
    }

    /// A trim, acknowledged at that time; `Nanos::MAX` is never, `failed` if it was refused.
    pub(crate) fn trimmed(
        &mut self,
        (first, count): (Lpn, u64),
        acknowledged_at: Nanos,
        failed: bool,
    ) {
        for lpn in first.0..first.0 + count {
            let event = Event { acknowledged_at, ..Event::issued(None, failed) };
            self.units[to_index(lpn)].push(event);
        }
    }

    /// A flush, issued and done at these times, covers what was acknowledged before it was issued.
    pub(crate) fn flushed(&mut self, issued_at: Nanos, done_at: Nanos) {
        for event in self.units.iter_mut().flatten() {
            if event.acknowledged_at <= issued_at {
                event.durable_at = event.durable_at.min(done_at);
            }
        }
    }

    /// Whether a read may return `value` while the power is on: the last that was taken, or of a write
    /// after it that failed.
    pub(crate) fn may_hold(&self, lpn: Lpn, value: Option<u32>) -> bool {
        let history = &self.units[to_index(lpn.0)];
        let failed = |event: &&Event| event.failed;
        let failed_count = history.iter().rev().take_while(failed).count();
        history.iter().rev().take(failed_count + 1).any(|event| event.value == value)
    }

    /// Checks what a cut at `at` left of `lpn`; from here on that is durable.
    pub(crate) fn survived(&mut self, lpn: Lpn, found: &Content, at: Nanos) -> Result<(), String> {
        let history = &mut self.units[to_index(lpn.0)];
        let value = decode(lpn, found)?;
        let counts = |event: &Event| {
            let forgotten = event.is_trim && self.trims == Trims::Volatile;
            event.durable_at <= at && !forgotten
        };
        let durable = history.iter().rposition(counts).unwrap_or(0);
        let later = &history[durable..];
        let issued = later.iter().any(|event| event.value == value);
        let revived = self.trims == Trims::Volatile && later.iter().any(|event| event.is_trim);
        if !issued && !revived {
            return Err(format!("unit {} holds {value:?} after {history:?}", lpn.0));
        }
        *history = vec![Event::durable(value)];
        Ok(())
    }

    pub(crate) fn unit_count(&self) -> u64 {
        self.units.len() as u64
    }
}

/// The value in `content`; an error if it belongs to another unit.
pub(crate) fn decode(lpn: Lpn, content: &Content) -> Result<Option<u32>, String> {
    let Some(bytes) = content else { return Ok(None) };
    let (owner, value) = (word(&bytes[..4]), word(&bytes[4..]));
    if u64::from(owner) != lpn.0 {
        return Err(format!("unit {} holds a value of unit {owner}", lpn.0));
    }
    Ok(Some(value))
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}
