//! Who waits, on a virtual clock: who asks first has first, and whatever is asked for in which order, everybody
//! gets on.

use super::super::*;
use nandu_base::Rng;
use nandu_workers::{Schedule, Work, now, sleep_until};

const FILE: FileId = FileId(1);

fn micros(count: u64) -> Nanos {
    Nanos::from_micros(count)
}

fn present() -> Nanos {
    now().unwrap()
}

fn take(locks: &Locks, id: u64, wanted: &Wanted, limit: Nanos) -> Result<(), StorageError> {
    locks.lock(id, wanted, limit, present, String::new)
}

/// Readers of whom there always is one, each for 10 µs, and somebody who would change what they read: how long
/// that one waits.
fn wait_beside_readers(read: &Wanted, change: &Wanted) -> Result<Nanos, StorageError> {
    let locks = Arc::new(Locks::default());
    let reader = |place: u64| -> Work<Result<Nanos, StorageError>> {
        let (locks, read) = (Arc::clone(&locks), read.clone());
        Box::new(move || {
            sleep_until(micros(3 * place));
            for turn in 0..200 {
                let id = 10 + 4 * turn + place;
                take(&locks, id, &read, micros(5_000))?;
                sleep_until(present() + micros(10));
                locks.release(id);
            }
            Ok(Nanos(0))
        })
    };
    let writer: Work<Result<Nanos, StorageError>> = {
        let (locks, change) = (Arc::clone(&locks), change.clone());
        Box::new(move || {
            sleep_until(micros(25));
            take(&locks, 1, &change, micros(1_000))?;
            let waited = present() - micros(25);
            sleep_until(present() + micros(5));
            locks.release(1);
            Ok(waited)
        })
    };
    let works = (0..4).map(reader).chain(std::iter::once(writer)).collect();
    let ran = Schedule::default().run(works);
    assert!(locks.state.lock().files.is_empty());
    ran.values.into_iter().try_fold(Nanos(0), |longest, value| Ok(longest.max(value?)))
}

/// Invariant 4: a writer waits for those who were there before, and for no other.
#[test]
fn a_stream_of_readers_keeps_nobody_out() {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let key = Span::Key(b"key");
    let name = |mode| Wanted::name(FILE, b"name", mode);
    let cases = [
        (Wanted::new(FILE, key, Mode::Shared), Wanted::new(FILE, key, Mode::Exclusive)),
        (Wanted::new(FILE, Span::ALL, Mode::Shared), Wanted::new(FILE, key, Mode::Exclusive)),
        (
            Wanted::new(FILE, key, Mode::Merging),
            Wanted::new(FILE, Span::Range(all.0, all.1), Mode::Exclusive),
        ),
        (name(NameMode::Read), name(NameMode::IntendChange)),
        (name(NameMode::IntendChange), name(NameMode::Change)),
    ];
    for (read, change) in cases {
        let waited = wait_beside_readers(&read, &change);
        assert!(
            waited.as_ref().is_ok_and(|waited| *waited <= micros(10)),
            "{change:?}: {waited:?}"
        );
    }
}

/// Who has something for which another one waits is not kept back by that one's turn.
#[test]
fn who_is_waited_for_goes_first() {
    let locks = Locks::default();
    let mut state = locks.state.lock();
    let shared = Span::Range(Bound::Included(&b"a"[..]), Bound::Excluded(&b"m"[..]));
    let wider = Span::Range(Bound::Included(&b"a"[..]), Bound::Excluded(&b"z"[..]));
    assert_eq!(state.try_lock(1, FILE, shared, Mode::Shared), Taking::Taken);
    assert_eq!(state.try_path(1, FILE, &[b"", b"x"], NameMode::Read), PathTaking::Taken);
    assert!(!state.enter(2, &Wanted::new(FILE, Span::ALL, Mode::Exclusive)));
    assert!(!state.enter(3, &Wanted::name(FILE, b"", NameMode::Change)));
    // Others come after them; who has what they want has it.
    assert_eq!(state.try_lock(4, FILE, Span::Key(b"q"), Mode::Shared), Taking::Excluded);
    assert_eq!(state.try_lock(1, FILE, Span::Key(b"b"), Mode::Shared), Taking::Had);
    assert_eq!(state.try_lock(1, FILE, wider, Mode::Shared), Taking::Taken);
    assert_eq!(state.try_lock(1, FILE, Span::Key(b"b"), Mode::Exclusive), Taking::Taken);
    let path: [&[u8]; 2] = [b"", b"y"];
    let excluded = PathTaking::Excluded(0, NameMode::IntendRead);
    assert_eq!(state.try_path(4, FILE, &path, NameMode::Read), excluded);
    assert_eq!(state.try_path(1, FILE, &path, NameMode::Change), PathTaking::Taken);
    // Order alone closes no circle: 4 waits behind 2 and 3, and 1, for whom these wait, comes to wait for it.
    assert_eq!(state.try_lock(4, FileId(2), Span::Key(b"k"), Mode::Exclusive), Taking::Taken);
    assert!(!state.enter(4, &Wanted::new(FILE, Span::Key(b"zz"), Mode::Shared)));
    assert!(!state.try_wanted(4, &Wanted::new(FILE, Span::Key(b"zz"), Mode::Shared)));
    assert!(state.enter(1, &Wanted::new(FileId(2), Span::Key(b"k"), Mode::Shared)));
    assert!(!state.closes_circle(1));
    assert!(state.try_wanted(4, &Wanted::new(FILE, Span::Key(b"zz"), Mode::Shared)));
}

fn any_wanted(rng: &mut Rng) -> Wanted {
    let file = FileId(u16::try_from(1 + rng.below(2)).unwrap());
    let mut key = || vec![u8::try_from(rng.below(5)).unwrap()];
    let (one, other) = (key(), key());
    let mode = [Mode::Shared, Mode::Exclusive][usize::from(rng.below(3) == 0)];
    let names = [NameMode::IntendRead, NameMode::IntendChange, NameMode::Read, NameMode::Change];
    match rng.below(6) {
        0..=2 => Wanted::new(file, Span::Key(&one), mode),
        3 => {
            let (lower, upper) = (one.clone().min(other.clone()), one.max(other));
            Wanted::new(file, Span::Range(Bound::Included(&lower), Bound::Included(&upper)), mode)
        }
        4 => Wanted::new(file, Span::Key(&one), Mode::Merging),
        _ => Wanted::name(file, &one[..], names[usize::try_from(rng.below(4)).unwrap()]),
    }
}

/// Nobody waits for ever who was not told of a circle: the limit is longer than all the work there is.
#[test]
fn whatever_is_asked_for_everybody_gets_on() {
    let mut circle_count = 0;
    for seed in 0..300 {
        let locks = Arc::new(Locks::default());
        let ids = Arc::new(std::sync::atomic::AtomicU64::new(1));
        let work = |worker: u64| -> Work<u64> {
            let (locks, ids) = (Arc::clone(&locks), Arc::clone(&ids));
            let mut rng = Rng::new(seed * 16 + worker);
            Box::new(move || {
                let mut circle_count = 0;
                for _ in 0..12 {
                    let id = ids.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    for _ in 0..1 + rng.below(4) {
                        match take(&locks, id, &any_wanted(&mut rng), Nanos(1_000_000_000)) {
                            Ok(()) => {}
                            Err(StorageError::Deadlock { .. }) => {
                                circle_count += 1;
                                break;
                            }
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                        locks.audit();
                        sleep_until(present() + Nanos(rng.below(5_000)));
                    }
                    locks.release(id);
                }
                circle_count
            })
        };
        let ran = Schedule::default().run((0..5).map(work).collect());
        circle_count += ran.values.iter().sum::<u64>();
        let state = locks.state.lock();
        assert!(state.files.is_empty() && state.waiting.is_empty(), "nothing is left");
    }
    assert!(circle_count > 300, "{circle_count}: there is something to be found");
}
