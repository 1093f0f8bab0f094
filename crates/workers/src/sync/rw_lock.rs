//! Readers together, or one writer. Readers on several cores write to no memory together: each thread counts
//! itself in one of a few cache lines. One count for all goes from core to core, which takes longer than a
//! resident lookup; the idea is Linux's brlock and Dice and Kogan's BRAVO (USENIX ATC 2019).
//!
//! ```text
//!   reader   slot += 1, then a writer?  no ─► reads                  slot -= 1, then a writer who sleeps?
//!                                yes ─► slot -= 1, waits at `turn`, slot += 1         yes ─► tells `left`
//!   writer   turn, then writer := COMES, then looks at the slots for a while, then writer := SLEEPS,
//!            until all slots are 0 ─► writes
//! ```
//!
//! Each of the two writes before it reads, all four in one order (`SeqCst`), so at least one of them sees the
//! other: the reader gives way.
//!
//! 1. While a writer has the lock every slot is 0, but for readers who are about to see it and give way.
//! 2. Who adds to a slot and sees no writer, or holds `turn` to read meanwhile, has the lock until he takes
//!    his one away.

#![allow(
    unsafe_code,
    reason = "who may reach the value is known by counts, not by a lock around it"
)]

use super::Waiting;
use crate::current;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{PoisonError, TryLockError};

/// More threads than these share slots, which is slower, no more.
const SLOT_COUNT: usize = 8;

/// No writer has the lock or waits for readers to leave it.
const NONE: u8 = 0;
/// A writer has the lock, or looks whether the readers have left.
const COMES: u8 = 1;
/// A writer waits for a word of the reader who leaves last.
const SLEEPS: u8 = 2;

/// How often a writer looks before it sleeps: a few microseconds, about as long as a resident lookup. To fall
/// asleep and be woken takes longer, and costs the reader who does it a call of the system.
const LOOK_COUNT: u32 = 200;

/// How often whoever lets others in looks whether one has come: a millisecond at most.
const LET_IN_LOOK_COUNT: u32 = 1000;

/// Numbers for threads, so that the first ones have slots of their own.
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SLOT: usize = NEXT_SLOT.fetch_add(1, Ordering::Relaxed) % SLOT_COUNT;
}

/// How many readers of some threads have the lock. Two lines, since processors fetch pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(AtomicU32);

/// Readers together, or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T> {
    slots: [Slot; SLOT_COUNT],
    /// [`NONE`], [`COMES`] or [`SLEEPS`].
    writer: AtomicU8,
    /// Held alone by the writer, shared by readers who waited for him.
    turn: std::sync::RwLock<()>,
    gate: std::sync::Mutex<()>,
    /// Told when a reader has left while a writer waits.
    left: std::sync::Condvar,
    waiting: Waiting,
    waiting_writers: AtomicU32,
    /// Threads that wait for `turn`.
    waiting_threads: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: as of the standard library's: readers lend `&T` to several threads at once, a writer lends `&mut T`
// to one after the other; invariants 1 and 2 keep them apart.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}

/// An [`RwLock`] that is held by a reader.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    slot: &'a Slot,
}

/// An [`RwLock`] that is held by a writer.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    turn: Option<std::sync::RwLockWriteGuard<'a, ()>>,
}

impl<T> RwLock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self {
            slots: [const { Slot(AtomicU32::new(0)) }; SLOT_COUNT],
            writer: AtomicU8::new(NONE),
            turn: std::sync::RwLock::new(()),
            gate: std::sync::Mutex::new(()),
            left: std::sync::Condvar::new(),
            waiting: Waiting::new(),
            waiting_writers: AtomicU32::new(0),
            waiting_threads: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock together with other readers, waiting for it.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_read() {
                return guard;
            }
            if let Some(guard) = self.wait_to_read() {
                return guard;
            }
        }
    }

    #[cold]
    fn wait_to_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        if let Some(current) = current() {
            self.waiting.block(&current, "a lock, to read", false);
            return None;
        }
        self.waiting_threads.fetch_add(1, Ordering::Relaxed);
        let _turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        self.waiting_threads.fetch_sub(1, Ordering::Relaxed);
        let slot = self.slot();
        slot.0.fetch_add(1, Ordering::SeqCst);
        Some(RwLockReadGuard { lock: self, slot })
    }

    /// Takes the lock to read, if no writer holds it or waits for it.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        if self.waiting_writers.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let slot = self.slot();
        slot.0.fetch_add(1, Ordering::SeqCst);
        if self.writer.load(Ordering::SeqCst) != NONE {
            self.leave(slot);
            return None;
        }
        Some(RwLockReadGuard { lock: self, slot })
    }

    #[inline]
    fn slot(&self) -> &Slot {
        &self.slots[SLOT.with(|slot| *slot)]
    }

    /// Takes a reader out of a slot.
    #[inline]
    fn leave(&self, slot: &Slot) {
        slot.0.fetch_sub(1, Ordering::SeqCst);
        if self.writer.load(Ordering::SeqCst) == SLEEPS {
            self.tell_writer();
        }
    }

    #[cold]
    fn tell_writer(&self) {
        // Under the gate, so that it does not fall between the writer's look and his wait.
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.left.notify_all();
    }

    /// Takes the lock alone, waiting for it.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let mut waits = false;
        loop {
            if let Some(guard) = self.try_write() {
                if waits {
                    self.waiting_writers.fetch_sub(1, Ordering::Relaxed);
                }
                return guard;
            }
            match current() {
                Some(current) => {
                    if !waits {
                        waits = true;
                        self.waiting_writers.fetch_add(1, Ordering::Relaxed);
                    }
                    self.waiting.block(&current, "a lock, to write", false);
                }
                None => return self.wait_to_write(),
            }
        }
    }

    #[cold]
    fn wait_to_write(&self) -> RwLockWriteGuard<'_, T> {
        self.waiting_threads.fetch_add(1, Ordering::Relaxed);
        let turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        self.waiting_threads.fetch_sub(1, Ordering::Relaxed);
        self.writer.store(COMES, Ordering::SeqCst);
        let mut looks = 0..LOOK_COUNT;
        while self.has_readers() {
            if looks.next().is_none() {
                self.sleep_until_readers_left();
                break;
            }
            std::hint::spin_loop();
        }
        RwLockWriteGuard { lock: self, turn: Some(turn) }
    }

    /// Of the writer whose turn it is. A reader who leaves either sees it asleep, or was seen to have left.
    fn sleep_until_readers_left(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.writer.store(SLEEPS, Ordering::SeqCst);
        while self.has_readers() {
            gate = self.left.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        drop(gate);
        // Who gives way from now on need not say so.
        self.writer.store(COMES, Ordering::SeqCst);
    }

    /// Takes the lock alone, if nobody holds it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let turn = match self.turn.try_write() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.writer.store(COMES, Ordering::SeqCst);
        if self.has_readers() {
            self.writer.store(NONE, Ordering::SeqCst);
            return None;
        }
        Some(RwLockWriteGuard { lock: self, turn: Some(turn) })
    }

    /// Lets those in who wait. Of whoever has just left the lock and is going to take it again: a thread that was
    /// woken needs longer to come than that takes, and would find it taken each time.
    pub fn let_others_in(&self) {
        if current().is_some() {
            return crate::yield_busy();
        }
        let waiting_count = self.waiting_threads.load(Ordering::Relaxed);
        let mut looks = 0..LET_IN_LOOK_COUNT;
        while waiting_count > 0
            && self.waiting_threads.load(Ordering::Relaxed) >= waiting_count
            && looks.next().is_some()
        {
            crate::yield_now();
        }
    }

    fn has_readers(&self) -> bool {
        self.slots.iter().any(|slot| slot.0.load(Ordering::SeqCst) > 0)
    }

    /// What was behind the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by invariant 2 this reader has the lock until it is dropped, so that no writer has it.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave(self.slot);
        self.lock.waiting.wake(u32::MAX);
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by invariant 1 nobody else reaches the value until this is dropped.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` keeps what is lent unique.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.writer.store(NONE, Ordering::SeqCst);
        drop(self.turn.take());
        self.lock.waiting.wake(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Two halves that are always equal to whoever has the lock.
    type Halves = (u64, u64);

    fn add_to(halves: &mut Halves) {
        halves.0 += 1;
        thread::yield_now();
        halves.1 += 1;
    }

    #[test]
    fn threads_never_see_what_a_writer_is_about() {
        const ROUNDS: u64 = if cfg!(miri) { 30 } else { 3000 };
        let lock = RwLock::new((0, 0));
        thread::scope(|scope| {
            for number in 0..2 * SLOT_COUNT {
                let lock = &lock;
                scope.spawn(move || {
                    let mut before = 0;
                    for round in 0..ROUNDS {
                        match (number % 4, round % 3) {
                            (0, 0) => add_to(&mut lock.write()),
                            (0, 1) => {
                                if let Some(mut halves) = lock.try_write() {
                                    add_to(&mut halves);
                                    drop(halves);
                                    add_to(&mut lock.write());
                                } else {
                                    add_to(&mut lock.write());
                                    add_to(&mut lock.write());
                                }
                            }
                            _ => {
                                let halves = match lock.try_read() {
                                    Some(halves) => halves,
                                    None => lock.read(),
                                };
                                assert_eq!(halves.0, halves.1);
                                assert!(halves.0 >= before, "time runs forwards");
                                before = halves.0;
                            }
                        }
                    }
                });
            }
        });
        let sum = ROUNDS * 3 / 3 * (2 * SLOT_COUNT as u64) / 4;
        assert_eq!(lock.into_inner(), (sum, sum));
    }

    #[test]
    fn a_writer_waits_for_every_reader_and_readers_for_him() {
        let lock = RwLock::new(1);
        let (one, two) = (lock.read(), lock.read());
        assert!(lock.try_write().is_none());
        drop(one);
        assert!(lock.try_write().is_none(), "one of two readers is left");
        thread::scope(|scope| {
            let writer = scope.spawn(|| *lock.write() += 1);
            // Once the writer has his turn, nobody else begins to read.
            while lock.try_read().is_some() {
                thread::yield_now();
            }
            let reader = scope.spawn(|| *lock.read());
            assert_eq!(*two, 1);
            drop(two);
            writer.join().unwrap();
            assert_eq!(reader.join().unwrap(), 2);
        });
        let mut alone = lock.try_write().unwrap();
        *alone += 1;
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        drop(alone);
        assert_eq!(*lock.try_read().unwrap(), 3);
    }

    #[test]
    fn who_takes_the_lock_again_and_again_can_let_others_in() {
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 1000 };
        let lock = RwLock::new(0_u64);
        thread::scope(|scope| {
            let mut held = lock.write();
            let other = scope.spawn(|| *lock.write());
            while lock.waiting_threads.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            for round in 1..=ROUNDS {
                *held = round;
                drop(held);
                lock.let_others_in();
                held = lock.write();
            }
            drop(held);
            let round = other.join().unwrap();
            assert!(round < ROUNDS / 2, "it came in after round {round} of {ROUNDS}");
        });
    }

    #[test]
    fn who_panics_leaves_the_lock_to_the_others() {
        let lock = RwLock::new(1);
        for writes in [true, false] {
            let ended = thread::scope(|scope| {
                let panics = scope.spawn(|| {
                    let (_alone, _together) = match writes {
                        true => (Some(lock.write()), None),
                        false => (None, Some(lock.read())),
                    };
                    panic!("as it is meant to");
                });
                panics.join()
            });
            assert!(ended.is_err());
            *lock.write() += 1;
        }
        assert_eq!(*lock.read(), 3);
    }
}
