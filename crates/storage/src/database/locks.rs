//! Locks on rows and on ranges of keys, held until a transaction ends (strict two-phase locking: Eswaran,
//! Gray, Lorie and Traiger, CACM 19(11), 1976; on ranges rather than on the next key, so that no structure
//! has to know of them).
//!
//! ```text
//!                     key, shared   key, exclusive   range, shared   range, exclusive
//!   key, shared            ·              ×                ·           × if inside
//!   key, exclusive         ×              ×           × if inside      × if inside
//!   range, shared          ·         × if inside           ·           × if they meet
//!   range, exclusive  × if inside    × if inside    × if they meet     × if they meet
//! ```
//!
//! A key whose value several are about to add something to is theirs together: it is merging, which excludes
//! what exclusive would, but for others that merge.
//!
//!
//! A row of a heap is locked by its number, one of a clustered table by its key, an entry of an index by
//! its bytes; each in the space of its file. The catalogue is a file like the others, with the names of
//! tables as its keys: shared for who uses the table, or finds that there is none; exclusive for who makes,
//! drops, loads or indexes it, who has [`CHANGING`] as well, so that one at a time does; all of them shared for
//! who lists tables.
//!
//! Beside its keys a file has names, which are locked in another way (`names`).
//!
//! 1. No two transactions hold locks that exclude each other.
//! 2. Who waits, waits for somebody who will end: before each wait the graph of who waits for whom is
//!    followed, and who would close a circle gets [`StorageError::Deadlock`] instead.
//! 3. A transaction holds at most [`KEYS_PER_FILE_MAX`] keys of a file, unless others hold some of it,
//!    too: past that it holds the file as a whole. The same holds of ranges.
//! 4. Who asks first has first: nobody takes a lock past one who has waited longer for one that it excludes,
//!    unless that one waits for him in the end (`queue`). So nobody waits for a stream of others that never
//!    ends, and who has a lock already and wants more of it comes first.

mod names;
mod queue;
#[cfg(test)]
mod tests;

pub(super) use self::names::{NameMode, PathTaking};

use self::names::Names;
use self::queue::{Asked, Queue};
use super::key;
use crate::sqlite::ValueRef;
use crate::{FileId, StorageError};
use nandu_base::Nanos;
use nandu_workers::sync::{Condvar, Mutex};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// In the space of the catalogue, the key of the transaction that changes tables. No name is like that.
pub(super) const CHANGING: &[u8] = &[0xFF];

/// Keys of one file that a transaction locks one by one.
const KEYS_PER_FILE_MAX: usize = 4096;

/// What may be done under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// To look; others may look, too.
    Shared,
    /// To add something at the end; others may do that, too, but not look. Of single keys.
    Merging,
    /// To change.
    Exclusive,
}

impl Mode {
    const fn excludes(self, other: Self) -> bool {
        !matches!((self, other), (Self::Shared, Self::Shared) | (Self::Merging, Self::Merging))
    }
}

/// Keys of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span<'a> {
    /// One key.
    Key(&'a [u8]),
    /// All between two bounds, those too that nobody has.
    Range(Bound<&'a [u8]>, Bound<&'a [u8]>),
}

impl Span<'_> {
    /// All keys of a file.
    pub(super) const ALL: Self = Self::Range(Bound::Unbounded, Bound::Unbounded);

    /// Whether there may be a key that lies in both.
    fn meets(self, other: Self) -> bool {
        use std::ops::RangeBounds;
        match (self, other) {
            (Self::Key(one), Self::Key(other)) => one == other,
            (Self::Key(key), Self::Range(lower, upper))
            | (Self::Range(lower, upper), Self::Key(key)) => {
                RangeBounds::<[u8]>::contains(&(lower, upper), key)
            }
            (Self::Range(lower, upper), Self::Range(other_lower, other_upper)) => {
                !is_empty(later(lower, other_lower), earlier(upper, other_upper))
            }
        }
    }
}

/// Whose locks of what, and who waits.
#[derive(Debug, Default)]
pub(super) struct Locks {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<FileId, FileLocks>,
    held: BTreeMap<u64, Held>,
    waiting: Queue,
}

#[derive(Debug, Default)]
struct FileLocks {
    keys: BTreeMap<Arc<[u8]>, Holders>,
    ranges: Vec<RangeLock>,
    names: Names,
}

/// Who has a key. Of those who share it one may merge, too, if it is the only one, and so may whoever has it
/// alone.
#[derive(Debug, Default)]
struct Holders {
    exclusive: Option<u64>,
    shared: Vec<u64>,
    merging: Vec<u64>,
}

#[derive(Debug)]
struct RangeLock {
    transaction: u64,
    mode: Mode,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

/// What one transaction has: the keys by file, and the files of which it has ranges, or names.
#[derive(Debug, Default)]
struct Held {
    keys: BTreeMap<FileId, Vec<Arc<[u8]>>>,
    range_files: BTreeSet<FileId>,
    name_files: BTreeSet<FileId>,
}

/// A lock that somebody waits for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    file: FileId,
    lock: WantedLock,
}

#[derive(Clone, Debug)]
enum WantedLock {
    Span(OwnedSpan, Mode),
    Name(Vec<u8>, NameMode),
}

#[derive(Clone, Debug)]
enum OwnedSpan {
    Key(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Wanted {
    pub(super) fn new(file: FileId, span: Span<'_>, mode: Mode) -> Self {
        let span = match span {
            Span::Key(key) => OwnedSpan::Key(key.to_vec()),
            Span::Range(lower, upper) => {
                OwnedSpan::Range(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec))
            }
        };
        Self { file, lock: WantedLock::Span(span, mode) }
    }

    /// A name of a file.
    pub(super) fn name(file: FileId, name: &[u8], mode: NameMode) -> Self {
        Self { file, lock: WantedLock::Name(name.to_vec(), mode) }
    }
}

/// The key by which a row of a heap is locked: numbers in their order.
pub(super) fn key_of_number(number: i64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10);
    key::encode_key(ValueRef::Integer(number), &mut bytes);
    bytes
}

/// What came of asking for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// The transaction has this one already, or more.
    Had,
    /// It has it now.
    Taken,
    /// Others have locks that exclude it.
    Excluded,
}

impl Locks {
    /// Takes a lock if nobody's excludes it. One that the transaction has already is enough.
    pub(super) fn try_lock(
        &self,
        transaction: u64,
        file: FileId,
        span: Span<'_>,
        mode: Mode,
    ) -> Taking {
        self.state.lock().try_lock(transaction, file, span, mode)
    }

    /// Takes names from above, the last one in `mode`, unless somebody's exclude one; see [`Names::try_path`].
    pub(super) fn try_path(
        &self,
        transaction: u64,
        file: FileId,
        path: &[&[u8]],
        mode: NameMode,
    ) -> PathTaking {
        self.state.lock().try_path(transaction, file, path, mode)
    }

    /// How many names of a file a transaction has.
    pub(super) fn name_count(&self, transaction: u64, file: FileId) -> usize {
        let state = self.state.lock();
        state.files.get(&file).map_or(0, |locks| locks.names.count(transaction))
    }

    /// Takes a name in the place of all below it; see [`Names::try_widen`].
    pub(super) fn try_widen(&self, transaction: u64, file: FileId, name: &[u8]) -> bool {
        // Nobody waits for what is given back: who wants something below has something of the name, too.
        let mut state = self.state.lock();
        let Some(locks) = state.files.get(&file) else { return false };
        let asked = Asked::Name(name, locks.names.widened_mode(transaction));
        if state.is_kept_back(transaction, file, asked) {
            return false;
        }
        let locks = state.files.get_mut(&file).expect("it was just there");
        locks.names.try_widen(transaction, name)
    }

    /// Takes a lock, waiting for those whose locks exclude it, for `limit` on the clock of `now`; a thread
    /// without a schedule on a virtual clock, which stands still meanwhile, for as long of the machine's time
    /// in which nobody gives a lock back.
    ///
    /// # Errors
    /// [`StorageError::Deadlock`], [`StorageError::LockTimeout`]; `told` is what it is called there.
    pub(super) fn lock(
        &self,
        transaction: u64,
        wanted: &Wanted,
        limit: Nanos,
        now: impl Fn() -> Nanos,
        told: impl Fn() -> String,
    ) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        let mut deadline = None;
        let mut is_over = false;
        loop {
            if state.try_wanted(transaction, wanted) {
                // Whoever was behind it is kept out by what it has now.
                state.waiting.leave(transaction);
                return Ok(());
            }
            let has_freed = state.enter(transaction, wanted);
            let present = now();
            // A limit past the end of time is none.
            let deadline = *deadline.get_or_insert(present.saturating_add(limit));
            let trouble = if state.closes_circle(transaction) {
                Some(StorageError::Deadlock { what: told() })
            } else if is_over || present >= deadline {
                Some(StorageError::LockTimeout { what: told() })
            } else {
                None
            };
            if trouble.is_some() {
                state.waiting.leave(transaction);
            }
            if has_freed || trouble.is_some() && !state.waiting.is_empty() {
                self.freed.notify_all();
            }
            if let Some(error) = trouble {
                return Err(error);
            }
            (state, is_over) = self.freed.wait_for(state, present, deadline);
        }
    }

    /// Gives all locks of a transaction back.
    pub(super) fn release(&self, transaction: u64) {
        let mut state = self.state.lock();
        state.release(transaction);
        let is_waited_for = !state.waiting.is_empty();
        drop(state);
        if is_waited_for {
            self.freed.notify_all();
        }
    }

    /// Asserts the numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn audit(&self) {
        let state = self.state.lock();
        for locks in state.files.values() {
            locks.names.audit();
            for (key, holders) in &locks.keys {
                for (transaction, mode) in holders.all() {
                    assert!(state.held.contains_key(&transaction), "a lock has an owner");
                    let is_excluded =
                        |(other, held): (u64, Mode)| other != transaction && held.excludes(mode);
                    assert!(!holders.all().any(is_excluded), "invariant 1");
                    for range in locks.ranges.iter().filter(|range| range.contains(key)) {
                        assert!(!is_excluded((range.transaction, range.mode)), "invariant 1");
                    }
                }
            }
        }
    }
}

impl State {
    /// Takes what somebody waits for, if nobody's lock excludes it.
    fn try_wanted(&mut self, transaction: u64, Wanted { file, lock }: &Wanted) -> bool {
        match lock {
            WantedLock::Span(span, mode) => {
                self.try_lock(transaction, *file, span.as_span(), *mode) != Taking::Excluded
            }
            WantedLock::Name(name, mode) => {
                self.try_path(transaction, *file, &[name], *mode) == PathTaking::Taken
            }
        }
    }

    fn try_path(
        &mut self,
        transaction: u64,
        file: FileId,
        path: &[&[u8]],
        mode: NameMode,
    ) -> PathTaking {
        let end = self.first_kept_back(transaction, file, path, mode);
        self.held.entry(transaction).or_default().name_files.insert(file);
        self.files.entry(file).or_default().names.try_path(transaction, (path, end), mode)
    }

    fn try_lock(&mut self, transaction: u64, file: FileId, span: Span<'_>, mode: Mode) -> Taking {
        if self.is_kept_back(transaction, file, Asked::Span(span, mode)) {
            let locks = self.files.get(&file);
            let has_it = locks.is_some_and(|locks| locks.has(transaction, span, mode));
            return if has_it { Taking::Had } else { Taking::Excluded };
        }
        let locks = self.files.entry(file).or_default();
        if let Some(answer) = locks.answer_of_ranges(transaction, span, mode) {
            return answer;
        }
        match span {
            Span::Key(key) => self.try_key(transaction, file, key, mode),
            Span::Range(lower, upper) => {
                let mut is_free = true;
                locks.each_key_blocker(transaction, (lower, upper), mode, |_| is_free = false);
                if !is_free {
                    return Taking::Excluded;
                }
                self.take_range(transaction, file, (lower, upper), mode);
                Taking::Taken
            }
        }
    }

    /// A key about which no range decides. Most keys are new, and a walk to a key costs more than a copy of
    /// it: so there is one walk, with a copy that stays if the key is new.
    fn try_key(&mut self, transaction: u64, file: FileId, key: &[u8], mode: Mode) -> Taking {
        let entry = self.files.entry(file).or_default().keys.entry(Arc::from(key));
        if let Entry::Occupied(holders) = &entry
            && let Some(answer) = holders.get().answer(transaction, mode)
        {
            return answer;
        }
        let key = Arc::clone(entry.key());
        let holders = entry.or_default();
        let is_new = !holders.has(transaction);
        holders.add(transaction, mode);
        if is_new {
            let held = self.held.entry(transaction).or_default();
            let keys = held.keys.entry(file).or_default();
            keys.push(key);
            if keys.len().is_multiple_of(KEYS_PER_FILE_MAX) {
                self.take_file(transaction, file);
            }
        }
        Taking::Taken
    }

    fn take_range(
        &mut self,
        transaction: u64,
        file: FileId,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        mode: Mode,
    ) {
        let (lower, upper) = (lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
        let mut range = RangeLock { transaction, mode, lower, upper };
        let ranges = &mut self.files.entry(file).or_default().ranges;
        while let Some(place) = ranges.iter().position(|other| other.goes_on_in(&range)) {
            range = range.with(ranges.swap_remove(place));
        }
        ranges.push(range);
        let own_count = ranges.iter().filter(|range| range.transaction == transaction).count();
        self.held.entry(transaction).or_default().range_files.insert(file);
        if own_count.is_multiple_of(KEYS_PER_FILE_MAX) {
            self.take_file(transaction, file);
        }
    }

    /// Invariant 3: the file in place of its keys and ranges, if nobody else has any that excludes it, or was
    /// there before.
    fn take_file(&mut self, transaction: u64, file: FileId) {
        let locks = self.files.entry(file).or_default();
        let has_changed = |holders: &Holders| {
            holders.exclusive == Some(transaction) || holders.merging.contains(&transaction)
        };
        let is_to_change =
            |range: &RangeLock| range.transaction == transaction && range.mode == Mode::Exclusive;
        let may_change =
            locks.keys.values().any(has_changed) || locks.ranges.iter().any(is_to_change);
        let mode = if may_change { Mode::Exclusive } else { Mode::Shared };
        let mut is_free = true;
        locks.each_blocker(transaction, Span::ALL, mode, |_| is_free = false);
        if is_free && !self.is_kept_back(transaction, file, Asked::Span(Span::ALL, mode)) {
            let keys = self.held.get_mut(&transaction).and_then(|held| held.keys.remove(&file));
            let locks = self.files.entry(file).or_default();
            locks.give_back(transaction, keys.unwrap_or_default());
            locks.ranges.retain(|range| range.transaction != transaction);
            self.take_range(transaction, file, (Bound::Unbounded, Bound::Unbounded), mode);
        }
    }

    fn release(&mut self, transaction: u64) {
        let Some(held) = self.held.remove(&transaction) else { return };
        for file in held.range_files {
            let locks = self.files.entry(file).or_default();
            locks.ranges.retain(|range| range.transaction != transaction);
        }
        for file in held.name_files {
            self.files.entry(file).or_default().names.release(transaction);
        }
        for (file, keys) in held.keys {
            self.files.entry(file).or_default().give_back(transaction, keys);
        }
        self.files.retain(|_, locks| !locks.is_empty());
    }
}

impl FileLocks {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty() && self.names.is_empty()
    }

    /// Tells each other transaction whose locks exclude this one, perhaps more than once.
    fn each_blocker(
        &self,
        transaction: u64,
        span: Span<'_>,
        mode: Mode,
        mut tell: impl FnMut(u64),
    ) {
        for range in &self.ranges {
            if range.excludes(transaction, span, mode) {
                tell(range.transaction);
            }
        }
        match span {
            Span::Key(key) => {
                if let Some(holders) = self.keys.get(key) {
                    holders.each_blocker(transaction, mode, tell);
                }
            }
            Span::Range(lower, upper) => {
                self.each_key_blocker(transaction, (lower, upper), mode, tell);
            }
        }
    }

    /// Of them those whose locks of single keys exclude a range.
    fn each_key_blocker(
        &self,
        transaction: u64,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        mode: Mode,
        mut tell: impl FnMut(u64),
    ) {
        if !is_empty(range.0, range.1) {
            for holders in self.keys.range::<[u8], _>(range).map(|(_, holders)| holders) {
                holders.each_blocker(transaction, mode, &mut tell);
            }
        }
    }

    /// What the ranges say about a lock that is asked for, if they decide.
    fn answer_of_ranges(&self, transaction: u64, span: Span<'_>, mode: Mode) -> Option<Taking> {
        if self.range_covers(transaction, span, mode) {
            return Some(Taking::Had);
        }
        let is_excluded = self.ranges.iter().any(|range| range.excludes(transaction, span, mode));
        is_excluded.then_some(Taking::Excluded)
    }

    /// Whether a transaction has this lock, or more.
    fn has(&self, transaction: u64, span: Span<'_>, mode: Mode) -> bool {
        let has_key = match span {
            Span::Key(key) => self.keys.get(key).is_some_and(|it| it.suffices(transaction, mode)),
            Span::Range(..) => false,
        };
        has_key || self.range_covers(transaction, span, mode)
    }

    fn range_covers(&self, transaction: u64, span: Span<'_>, mode: Mode) -> bool {
        self.ranges.iter().any(|range| {
            range.transaction == transaction && range.mode >= mode && range.covers(span)
        })
    }

    fn give_back(&mut self, transaction: u64, keys: Vec<Arc<[u8]>>) {
        // One writer alone: all keys are its own.
        let is_alone = |holders: &Holders| holders.is_only(transaction);
        if keys.len() == self.keys.len() && self.keys.values().all(is_alone) {
            self.keys.clear();
            return;
        }
        for key in keys {
            let Entry::Occupied(mut entry) = self.keys.entry(key) else {
                unreachable!("what is held is there");
            };
            let holders = entry.get_mut();
            holders.shared.retain(|&holder| holder != transaction);
            holders.merging.retain(|&holder| holder != transaction);
            if holders.exclusive == Some(transaction) {
                holders.exclusive = None;
            }
            if holders.all().next().is_none() {
                entry.remove();
            }
        }
    }
}

impl Holders {
    /// Everybody who has the key, in each mode.
    fn all(&self) -> impl Iterator<Item = (u64, Mode)> {
        let shared = self.shared.iter().map(|&holder| (holder, Mode::Shared));
        let merging = self.merging.iter().map(|&holder| (holder, Mode::Merging));
        shared.chain(merging).chain(self.exclusive.map(|holder| (holder, Mode::Exclusive)))
    }

    /// What those who have the key say to one who asks for it, if they decide.
    fn answer(&self, transaction: u64, mode: Mode) -> Option<Taking> {
        if self.suffices(transaction, mode) {
            return Some(Taking::Had);
        }
        let mut is_free = true;
        self.each_blocker(transaction, mode, |_| is_free = false);
        (!is_free).then_some(Taking::Excluded)
    }

    fn suffices(&self, transaction: u64, mode: Mode) -> bool {
        self.exclusive == Some(transaction)
            || match mode {
                Mode::Shared => self.shared.contains(&transaction),
                Mode::Merging => self.merging.contains(&transaction),
                Mode::Exclusive => false,
            }
    }

    fn is_only(&self, transaction: u64) -> bool {
        self.all().all(|(holder, _)| holder == transaction)
    }

    fn has(&self, transaction: u64) -> bool {
        self.all().any(|(holder, _)| holder == transaction)
    }

    /// Notes a lock that the transaction does not have.
    fn add(&mut self, transaction: u64, mode: Mode) {
        match mode {
            Mode::Exclusive => {
                self.shared.retain(|&holder| holder != transaction);
                self.merging.retain(|&holder| holder != transaction);
                self.exclusive = Some(transaction);
            }
            Mode::Merging => self.merging.push(transaction),
            Mode::Shared => self.shared.push(transaction),
        }
    }

    fn each_blocker(&self, transaction: u64, mode: Mode, mut tell: impl FnMut(u64)) {
        for (holder, held) in self.all() {
            if holder != transaction && held.excludes(mode) {
                tell(holder);
            }
        }
    }
}

impl RangeLock {
    /// Whether another one of the same transaction and mode begins where this one ends or before, or ends
    /// where it begins or behind.
    fn goes_on_in(&self, other: &Self) -> bool {
        let touches = |upper: &Bound<Vec<u8>>, lower: &Bound<Vec<u8>>| match (upper, lower) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Excluded(upper), Bound::Excluded(lower)) => lower < upper,
            (Bound::Included(upper) | Bound::Excluded(upper), Bound::Included(lower))
            | (Bound::Included(upper), Bound::Excluded(lower)) => lower <= upper,
        };
        self.transaction == other.transaction
            && self.mode == other.mode
            && touches(&self.upper, &other.lower)
            && touches(&other.upper, &self.lower)
    }

    /// The range of all keys of both.
    fn with(self, other: Self) -> Self {
        let is_first =
            later(as_bytes(&self.lower), as_bytes(&other.lower)) == as_bytes(&other.lower);
        let is_last =
            earlier(as_bytes(&self.upper), as_bytes(&other.upper)) == as_bytes(&other.upper);
        let lower = if is_first { self.lower } else { other.lower };
        let upper = if is_last { self.upper } else { other.upper };
        Self { lower, upper, transaction: self.transaction, mode: self.mode }
    }

    fn contains(&self, key: &[u8]) -> bool {
        use std::ops::RangeBounds;
        RangeBounds::<[u8]>::contains(&(as_bytes(&self.lower), as_bytes(&self.upper)), key)
    }

    /// Whether it keeps a transaction from a lock, which it asks for.
    fn excludes(&self, transaction: u64, span: Span<'_>, mode: Mode) -> bool {
        self.transaction != transaction && self.mode.excludes(mode) && self.meets(span)
    }

    /// Whether a key of `span` may lie in the range.
    fn meets(&self, span: Span<'_>) -> bool {
        Span::Range(as_bytes(&self.lower), as_bytes(&self.upper)).meets(span)
    }

    /// Whether all keys of `span` lie in the range.
    fn covers(&self, span: Span<'_>) -> bool {
        match span {
            Span::Key(key) => self.contains(key),
            Span::Range(lower, upper) => {
                later(as_bytes(&self.lower), lower) == lower
                    && earlier(as_bytes(&self.upper), upper) == upper
            }
        }
    }
}

fn as_bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The later of two lower bounds.
fn later<'a>(first: Bound<&'a [u8]>, second: Bound<&'a [u8]>) -> Bound<&'a [u8]> {
    use Bound::{Excluded, Included, Unbounded};
    match (first, second) {
        (Unbounded, other) | (other, Unbounded) => other,
        (Included(a), Included(b)) => Included(a.max(b)),
        (Excluded(a), Excluded(b)) => Excluded(a.max(b)),
        (Included(a), Excluded(b)) | (Excluded(b), Included(a)) => {
            if a > b {
                Included(a)
            } else {
                Excluded(b)
            }
        }
    }
}

/// The earlier of two upper bounds.
fn earlier<'a>(first: Bound<&'a [u8]>, second: Bound<&'a [u8]>) -> Bound<&'a [u8]> {
    use Bound::{Excluded, Included, Unbounded};
    match (first, second) {
        (Unbounded, other) | (other, Unbounded) => other,
        (Included(a), Included(b)) => Included(a.min(b)),
        (Excluded(a), Excluded(b)) => Excluded(a.min(b)),
        (Included(a), Excluded(b)) | (Excluded(b), Included(a)) => {
            if a < b {
                Included(a)
            } else {
                Excluded(b)
            }
        }
    }
}

/// Whether no key can lie between two bounds.
fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    use Bound::{Excluded, Included, Unbounded};
    match (lower, upper) {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(a), Included(b)) => a > b,
        (Included(a) | Excluded(a), Included(b) | Excluded(b)) => a >= b,
    }
}
