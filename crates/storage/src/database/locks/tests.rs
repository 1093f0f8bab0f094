//! Locks beside a model that knows only points: a range is the set of all points in it.
//!
//! ```text
//!   point    0      1      2       3      4       5     …      15      16
//!   key     []     [0]   [0,0]    [1]   [1,0]    [2]    …      [7]    [7,0]
//! ```
//!
//! Bounds are keys of one byte, so that between any two of them, before the first and after the last there
//! is a point: two ranges meet where they share one.

use super::*;
use proptest::prelude::*;

const POINT_COUNT: u8 = 17;

impl Locks {
    /// Whether a transaction has this lock, or more.
    fn has(&self, transaction: u64, file: FileId, span: Span<'_>, mode: Mode) -> bool {
        let state = self.state.lock();
        state.files.get(&file).is_some_and(|locks| locks.has(transaction, span, mode))
    }
}

fn key_of(point: u8) -> Vec<u8> {
    match (point.div_ceil(2), point % 2) {
        (0, _) => vec![],
        (byte, 1) => vec![byte - 1],
        (byte, _) => vec![byte - 1, 0],
    }
}

/// A lock as the model has it.
#[derive(Clone, Debug)]
struct Lock {
    transaction: u64,
    file: FileId,
    mode: Mode,
    is_range: bool,
    points: BTreeSet<u8>,
}

impl Lock {
    fn suffices_for(&self, asked: &Self) -> bool {
        let is_mine = self.transaction == asked.transaction && self.file == asked.file;
        let is_as_large = self.points.is_superset(&asked.points) && self.is_range >= asked.is_range;
        let is_as_strong = self.mode == Mode::Exclusive || self.mode == asked.mode;
        is_mine && is_as_large && is_as_strong
    }

    /// Whether two ranges are one: they have the same owner and mode, and no point lies between.
    fn goes_on_in(&self, other: &Self) -> bool {
        let all: BTreeSet<u8> = self.points.union(&other.points).copied().collect();
        let has_gap = all.iter().zip(all.iter().skip(1)).any(|(one, next)| one + 1 < *next);
        self.is_range
            && other.is_range
            && (self.transaction, self.file, self.mode)
                == (other.transaction, other.file, other.mode)
            && !has_gap
    }

    fn excludes(&self, asked: &Self) -> bool {
        let is_other = self.transaction != asked.transaction && self.file == asked.file;
        let may_change = self.mode != asked.mode || self.mode == Mode::Exclusive;
        is_other && may_change && !self.points.is_disjoint(&asked.points)
    }
}

fn answer_of_model(locks: &mut Vec<Lock>, asked: &Lock) -> Taking {
    if locks.iter().any(|lock| lock.suffices_for(asked)) {
        return Taking::Had;
    }
    if locks.iter().any(|lock| lock.excludes(asked)) {
        return Taking::Excluded;
    }
    let mut new = asked.clone();
    while let Some(place) = locks.iter().position(|lock| lock.goes_on_in(&new)) {
        new.points.extend(locks.swap_remove(place).points);
    }
    locks.push(new);
    Taking::Taken
}

#[derive(Clone, Debug)]
enum Operation {
    Take(u64, FileId, OwnedSpan, Mode),
    Release(u64),
}

fn points_of(span: &OwnedSpan) -> BTreeSet<u8> {
    use std::ops::RangeBounds;
    let is_in = |point: &u8| match span {
        OwnedSpan::Key(key) => *key == key_of(*point),
        OwnedSpan::Range(lower, upper) => {
            RangeBounds::<[u8]>::contains(&(as_bytes(lower), as_bytes(upper)), &key_of(*point)[..])
        }
    };
    (0..POINT_COUNT).filter(is_in).collect()
}

fn any_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        (0..8u8).prop_map(|byte| Bound::Included(vec![byte])),
        (0..8u8).prop_map(|byte| Bound::Excluded(vec![byte])),
    ]
}

fn any_span() -> impl Strategy<Value = OwnedSpan> {
    let ranges =
        (any_bound(), any_bound()).prop_map(|(lower, upper)| OwnedSpan::Range(lower, upper));
    prop_oneof![
        4 => (0..POINT_COUNT).prop_map(|point| OwnedSpan::Key(key_of(point))),
        1 => ranges.prop_filter("a range holds keys", |range| !points_of(range).is_empty()),
    ]
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let mode = prop_oneof![Just(Mode::Shared), Just(Mode::Merging), Just(Mode::Exclusive)];
    let take = (0..4u64, 0..2u16, any_span(), mode)
        .prop_filter("keys are merged one by one", |(_, _, span, mode)| {
            *mode != Mode::Merging || matches!(span, OwnedSpan::Key(_))
        })
        .prop_map(|(id, file, span, mode)| Operation::Take(id, FileId(file), span, mode));
    prop_oneof![12 => take, 1 => (0..4u64).prop_map(Operation::Release)]
}

proptest! {
    #[test]
    fn locks_answer_as_sets_of_points_do(
        operations in prop::collection::vec(any_operation(), 1..120),
    ) {
        let locks = Locks::default();
        let mut model = Vec::new();
        for operation in operations {
            match operation {
                Operation::Take(transaction, file, span, mode) => {
                    let is_range = matches!(span, OwnedSpan::Range(..));
                    let asked =
                        Lock { transaction, file, mode, is_range, points: points_of(&span) };
                    let has = model.iter().any(|lock: &Lock| lock.suffices_for(&asked));
                    prop_assert_eq!(locks.has(transaction, file, span.as_span(), mode), has);
                    let answer = locks.try_lock(transaction, file, span.as_span(), mode);
                    prop_assert_eq!(answer, answer_of_model(&mut model, &asked));
                }
                Operation::Release(transaction) => {
                    locks.release(transaction);
                    model.retain(|lock| lock.transaction != transaction);
                }
            }
            locks.audit();
        }
        (0..4).for_each(|transaction| locks.release(transaction));
        let state = locks.state.lock();
        prop_assert!(state.files.is_empty() && state.held.is_empty(), "nothing is left");
    }
}

/// Invariant 3: a transaction that holds many keys of a file holds all of it.
#[test]
fn who_locks_many_keys_has_the_file_unless_others_are_in_it() {
    const FILE: FileId = FileId(3);
    let fill = |locks: &Locks| {
        for number in 0..i64::try_from(KEYS_PER_FILE_MAX).unwrap() {
            let key = key_of_number(number);
            let taking = locks.try_lock(1, FILE, Span::Key(&key), Mode::Exclusive);
            assert_eq!(taking, Taking::Taken);
        }
        locks.audit();
    };
    let far = key_of_number(1_000_000);
    let asked = |locks: &Locks| locks.try_lock(2, FILE, Span::Key(&far), Mode::Shared);

    let alone = Locks::default();
    fill(&alone);
    assert!(alone.has(1, FILE, Span::ALL, Mode::Exclusive));
    assert_eq!(alone.state.lock().files[&FILE].keys.len(), 0);
    assert_eq!(asked(&alone), Taking::Excluded);
    alone.release(1);
    assert_eq!(asked(&alone), Taking::Taken);

    let beside = Locks::default();
    assert_eq!(asked(&beside), Taking::Taken);
    fill(&beside);
    assert!(!beside.has(1, FILE, Span::ALL, Mode::Exclusive));
    assert_eq!(beside.state.lock().files[&FILE].keys.len(), KEYS_PER_FILE_MAX + 1);
    beside.release(1);
    assert_eq!(beside.state.lock().files[&FILE].keys.len(), 1, "the other keeps its own");
    beside.audit();
}

#[test]
fn a_limit_past_the_end_of_time_is_none() {
    let (locks, file) = (Locks::default(), FileId(1));
    let key = Span::Key(b"key");
    assert_eq!(locks.try_lock(1, file, key, Mode::Exclusive), Taking::Taken);
    let waits = || {
        let wanted = Wanted::new(file, key, Mode::Exclusive);
        locks.lock(2, &wanted, Nanos(u64::MAX), || Nanos(5), String::new)
    };
    std::thread::scope(|scope| {
        let waiter = scope.spawn(waits);
        while locks.state.lock().waiting.is_empty() && !waiter.is_finished() {
            std::thread::yield_now();
        }
        locks.release(1);
        waiter.join().unwrap().unwrap();
    });
    assert!(locks.has(2, file, key, Mode::Exclusive));
}

#[test]
fn who_waits_for_a_name_is_in_the_same_circles_as_who_waits_for_a_key() {
    let (locks, file) = (Locks::default(), FileId(1));
    let name: [&[u8]; 2] = [b"", b"name"];
    assert_eq!(locks.try_path(1, file, &name, NameMode::Change), PathTaking::Taken);
    assert_eq!(locks.try_lock(2, file, Span::Key(b"key"), Mode::Exclusive), Taking::Taken);
    let waits = || {
        let wanted = Wanted::name(file, name[1], NameMode::Read);
        locks.lock(2, &wanted, Nanos(u64::MAX), || Nanos(5), String::new)
    };
    std::thread::scope(|scope| {
        let waiter = scope.spawn(waits);
        while locks.state.lock().waiting.is_empty() && !waiter.is_finished() {
            std::thread::yield_now();
        }
        let wanted = Wanted::new(file, Span::Key(b"key"), Mode::Shared);
        let refused = locks.lock(1, &wanted, Nanos(u64::MAX), || Nanos(5), String::new);
        assert!(matches!(refused, Err(StorageError::Deadlock { .. })));
        locks.release(1);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(locks.name_count(2, file), 1);
    locks.audit();
    locks.release(2);
    assert!(locks.state.lock().files.is_empty());
}
