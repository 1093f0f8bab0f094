//! Locks and words that workers and threads wait for alike: as those of the standard library, but that
//! a worker which has to wait lets the next one run. A lock that a panicking holder left is taken as it is.
//!
//! 1. Among workers who wait for a mutex the one that asked first is woken, and comes first again if
//!    another took the lock in between. Of those who wait for an [`RwLock`] the one with the least time
//!    has it.
//! 2. Among workers a reader that comes after a waiting writer waits behind him.

mod rw_lock;

pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Current, current};
use nandu_base::Nanos;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// A value that one worker or thread has at a time.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: std::sync::Mutex<T>,
    waiting: Waiting,
}

/// A [`Mutex`] that is held.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    inner: Option<std::sync::MutexGuard<'a, T>>,
    lock: &'a Mutex<T>,
}

/// A word that others wait for.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
    waiting: Waiting,
}

/// How many workers wait for something; threads wait in the standard library.
#[derive(Debug, Default)]
struct Waiting(AtomicU32);

impl Waiting {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn block(&self, current: &Current, what: &'static str, is_again: bool) {
        self.0.fetch_add(1, Ordering::Relaxed);
        current.block(self.key(), what, is_again);
    }

    /// Wakes up to `count` workers.
    fn wake(&self, count: u32) {
        let waiting = self.0.load(Ordering::Relaxed);
        if waiting == 0 {
            return;
        }
        let Some(current) = current() else { return };
        let count = waiting.min(count) as usize;
        // Not those whose time has come and who have not run since: they count themselves out.
        let woken = current.shared.lock().wake(self.key(), count, current.number);
        self.0.fetch_sub(woken, Ordering::Relaxed);
    }

    /// Nothing else has this address while somebody waits here.
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl<T> Mutex<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self { inner: std::sync::Mutex::new(value), waiting: Waiting::new() }
    }

    /// Takes the lock, waiting for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let mut is_again = false;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            match current() {
                Some(current) => {
                    self.waiting.block(&current, "a lock", std::mem::replace(&mut is_again, true))
                }
                None => {
                    let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                    return MutexGuard { inner: Some(inner), lock: self };
                }
            }
        }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { inner: Some(inner), lock: self })
    }

    /// What is behind the lock, which nobody else can hold.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was behind the lock.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condvar {
    /// A word for which nobody waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { inner: std::sync::Condvar::new(), waiting: Waiting::new() }
    }

    /// Leaves the lock, waits for the word, and takes the lock again. What was waited for has to be
    /// looked at again.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match current() {
            Some(current) => {
                let lock = guard.lock;
                // Nobody else runs before this worker waits, so no word falls in between.
                drop(guard);
                self.waiting.block(&current, "a word of another worker", false);
                lock.lock()
            }
            None => {
                let inner = guard.inner.take().expect("a guard holds its lock");
                let inner = self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner);
                guard.inner = Some(inner);
                guard
            }
        }
    }

    /// As [`Self::wait`], but until `deadline` at most, on the clock on which it is `present` now; and whether
    /// that came first. A thread waits for as long on the clock of the machine: a virtual one may stand still
    /// meanwhile, so what it says afterwards is no answer.
    pub fn wait_for<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        present: Nanos,
        deadline: Nanos,
    ) -> (MutexGuard<'a, T>, bool) {
        match current() {
            Some(current) => {
                let lock = guard.lock;
                drop(guard);
                self.waiting.0.fetch_add(1, Ordering::Relaxed);
                let key = self.waiting.key();
                let is_over = current.block_until(key, "a word of another worker", deadline);
                if is_over {
                    self.waiting.0.fetch_sub(1, Ordering::Relaxed);
                }
                (lock.lock(), is_over)
            }
            None => {
                let inner = guard.inner.take().expect("a guard holds its lock");
                let limit = Duration::from_nanos(deadline.0.saturating_sub(present.0));
                let (inner, waited) =
                    self.inner.wait_timeout(inner, limit).unwrap_or_else(PoisonError::into_inner);
                guard.inner = Some(inner);
                (guard, waited.timed_out())
            }
        }
    }

    /// Tells all who wait.
    pub fn notify_all(&self) {
        self.inner.notify_all();
        self.waiting.wake(u32::MAX);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("a guard holds its lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("a guard holds its lock")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            self.lock.waiting.wake(1);
        }
    }
}
