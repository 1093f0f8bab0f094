//! An account of memory, from which all buffers come.
//!
//! ```text
//!   Grant: bytes granted ──take(operator, bytes)──► Memory ──split_off, join──► Memory
//!      ▲                                               │
//!      └───────────────── given back when dropped ◄────┘
//! ```
//!
//! 1. The bytes taken never pass the bytes granted.
//! 2. What was taken is what the living `Memory` of the grant add up to.

use crate::ExternalError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that operators may take, all together. Clones are the same account.
#[derive(Clone, Debug)]
pub struct Grant {
    account: Arc<Account>,
}

#[derive(Debug)]
struct Account {
    granted_bytes: u64,
    taken_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

/// Memory that somebody took, given back when dropped.
#[derive(Debug)]
pub struct Memory {
    account: Arc<Account>,
    bytes: u64,
}

impl Grant {
    /// An account of so many bytes.
    #[must_use]
    pub fn new(granted_bytes: u64) -> Self {
        let (taken_bytes, peak_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { account: Arc::new(Account { granted_bytes, taken_bytes, peak_bytes }) }
    }

    /// Takes memory.
    ///
    /// # Errors
    /// If less than that is left.
    pub fn take(&self, operator: &str, bytes: u64) -> Result<Memory, ExternalError> {
        let account = &self.account;
        let more = |taken: u64| {
            (bytes <= account.granted_bytes.saturating_sub(taken)).then(|| taken + bytes)
        };
        let taken = account.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        match taken {
            Ok(before) => {
                account.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(Memory { account: Arc::clone(account), bytes })
            }
            Err(taken) => Err(ExternalError::TooLittleMemory {
                operator: operator.to_owned(),
                needed_bytes: bytes,
                granted_bytes: account.granted_bytes - taken,
            }),
        }
    }

    /// Bytes of the account.
    #[must_use]
    pub fn granted_bytes(&self) -> u64 {
        self.account.granted_bytes
    }

    /// Bytes that nobody took.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.account.granted_bytes - self.account.taken_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that were taken at once.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.account.peak_bytes.load(Ordering::Relaxed)
    }

    /// Asserts invariant 1, also while others take: the peak follows what is taken a moment
    /// later, so each of them is held against the bytes granted, and not one against the other.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn audit(&self) {
        assert!(self.peak_bytes() <= self.granted_bytes(), "invariant 1");
        let taken_bytes = self.account.taken_bytes.load(Ordering::Relaxed);
        assert!(taken_bytes <= self.granted_bytes(), "invariant 1");
    }
}

impl Memory {
    /// How many bytes were taken.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The account it is of.
    #[must_use]
    pub fn grant(&self) -> Grant {
        Grant { account: Arc::clone(&self.account) }
    }

    /// Splits so many bytes off.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn split_off(&mut self, bytes: u64) -> Self {
        assert!(bytes <= self.bytes, "an operator splits what it took");
        self.bytes -= bytes;
        Self { account: Arc::clone(&self.account), bytes }
    }

    /// Puts `other` to this.
    ///
    /// # Panics
    /// If it is of another account.
    pub fn join(&mut self, mut other: Self) {
        assert!(Arc::ptr_eq(&self.account, &other.account), "memory of one account is joined");
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.account.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_was_granted_and_all_is_given_back() {
        let grant = Grant::new(100);
        let mut first = grant.take("first", 60).unwrap();
        let error = grant.take("second", 41).unwrap_err();
        let (operator, needed_bytes, granted_bytes) = ("second".to_owned(), 41, 40);
        let expected = ExternalError::TooLittleMemory { operator, needed_bytes, granted_bytes };
        assert_eq!(error, expected);
        let mut part = first.split_off(20);
        drop(first);
        assert_eq!((grant.free_bytes(), part.bytes()), (80, 20));
        part.join(grant.take("second", 80).unwrap());
        assert_eq!((grant.free_bytes(), part.bytes()), (0, 100));
        drop(part);
        assert_eq!((grant.free_bytes(), grant.peak_bytes()), (100, 100));
        grant.audit();
    }
}
