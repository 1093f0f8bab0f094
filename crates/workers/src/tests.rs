//! The same program over both kinds of switch, and what each rule promises.

use crate::sync::{Condvar, Mutex, RwLock};
use crate::{EventSource, Schedule, SwitchKind, Work, now, number, sleep_until, spend, wait_for};
use nandu_base::{Nanos, Rng};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A device of several servers: each request takes the one that is free first.
#[derive(Default)]
struct Servers {
    state: std::sync::Mutex<ServersState>,
}

#[derive(Default)]
struct ServersState {
    free_at: Vec<Nanos>,
    in_flight: BTreeMap<(Nanos, u64), ()>,
    arrived: BTreeMap<u64, Nanos>,
    told: Nanos,
    next_ticket: u64,
}

impl Servers {
    fn new(count: usize) -> Arc<Self> {
        let servers = Self::default();
        servers.state.lock().unwrap().free_at = vec![Nanos::ZERO; count];
        Arc::new(servers)
    }

    fn request(self: &Arc<Self>, service: Nanos) {
        let issued_at = now().unwrap();
        let ticket = {
            let mut state = self.state.lock().unwrap();
            assert!(issued_at >= state.told, "nothing is issued before what was told");
            let index = (0..state.free_at.len()).min_by_key(|&at| state.free_at[at]).unwrap();
            let end = state.free_at[index].max(issued_at) + service;
            state.free_at[index] = end;
            state.next_ticket += 1;
            let ticket = state.next_ticket;
            state.in_flight.insert((end, ticket), ());
            ticket
        };
        let source: Arc<dyn EventSource> = Arc::<Self>::clone(self);
        loop {
            let arrived = self.state.lock().unwrap().arrived.remove(&ticket);
            if let Some(at) = arrived {
                assert!(now().unwrap() >= at);
                return;
            }
            wait_for(&source, ticket, u64::MAX);
        }
    }
}

impl EventSource for Servers {
    fn next_completion(&self, until: Nanos) -> Option<(u64, Nanos)> {
        let mut state = self.state.lock().unwrap();
        let (&(at, ticket), ()) = state.in_flight.first_key_value()?;
        if at > until {
            return None;
        }
        state.in_flight.pop_first();
        state.arrived.insert(ticket, at);
        state.told = state.told.max(at);
        Some((ticket, at))
    }
}

fn schedule(kind: SwitchKind, cores: u32) -> Schedule {
    Schedule { kind, cores, ..Schedule::default() }
}

/// Runs one body in so many workers.
fn run<T: Send + 'static>(
    schedule: &Schedule,
    count: u32,
    body: impl Fn(u32) -> T + Send + Sync + 'static,
) -> crate::Ran<T> {
    let body = Arc::new(body);
    let work = |number| -> Work<T> {
        let body = Arc::clone(&body);
        Box::new(move || body(number))
    };
    schedule.run((0..count).map(work).collect())
}

/// A word that comes wakes before its deadline, one that never comes at it; both kinds of switch agree.
#[test]
fn who_waits_for_a_word_waits_until_its_deadline_at_most() {
    for kind in [SwitchKind::Coroutines, SwitchKind::Baton] {
        let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let mut work: Vec<Work<()>> = Vec::new();
        for (deadline, hears) in [(100, true), (30, false), (200, true), (31, false)] {
            let shared = Arc::clone(&shared);
            work.push(Box::new(move || {
                let (heard, word) = &*shared;
                let (guard, is_over) = word.wait_for(heard.lock(), Nanos(0), Nanos(deadline));
                drop(guard);
                assert_eq!(is_over, !hears, "{deadline}");
                let at = now().unwrap();
                assert_eq!(at, Nanos(if hears { 50 } else { deadline }), "{deadline}");
                heard.lock().push((at, number().unwrap()));
            }));
        }
        let teller = Arc::clone(&shared);
        work.push(Box::new(move || {
            sleep_until(Nanos(50));
            teller.1.notify_all();
        }));
        Schedule { kind, cores: 1, start: Nanos(0), ..Schedule::default() }.run(work);
        let mut order = shared.0.lock().clone();
        order.dedup();
        let expected = [(30, 1), (31, 3), (50, 0), (50, 2)].map(|(at, number)| (Nanos(at), number));
        assert_eq!(order, expected);
    }
}

#[test]
fn requests_of_many_workers_are_in_flight_together() {
    for kind in SwitchKind::ALL {
        for (workers, servers, expected) in [(1, 4, 1000), (4, 4, 1000), (8, 4, 2000)] {
            let device = Servers::new(servers);
            let ran = run(&schedule(kind, 1), workers, move |_| {
                for _ in 0..10 {
                    device.request(Nanos(100));
                }
            });
            assert_eq!(ran.end, Nanos(expected), "{kind:?} {workers}");
        }
    }
}

#[test]
fn cores_queue_those_who_compute() {
    for kind in SwitchKind::ALL {
        for (cores, expected) in [(1, 600), (2, 300), (3, 200), (6, 100), (9, 100)] {
            let ran = run(&schedule(kind, cores), 6, |_| spend(Nanos(100)));
            assert_eq!(ran.end, Nanos(expected));
        }
    }
}

#[test]
fn a_lock_is_had_by_one_and_costs_the_others_time() {
    for kind in SwitchKind::ALL {
        let lock = Arc::new(Mutex::new(0));
        let device = Servers::new(16);
        let ran = run(&schedule(kind, 16), 5, move |_| {
            let mut count = lock.lock();
            *count += 1;
            device.request(Nanos(100));
            (*count, now().unwrap())
        });
        let expected: Vec<_> = (1..=5).map(|count| (count, Nanos(count * 100))).collect();
        assert_eq!(ran.values, expected, "{kind:?}");
    }
}

#[test]
fn readers_share_and_wait_behind_a_writer() {
    for kind in SwitchKind::ALL {
        let lock = Arc::new(RwLock::new(()));
        let ran = run(&schedule(kind, 16), 4, move |number| {
            // Readers at 0, 1 and 3; the writer comes at 2.
            sleep_until(Nanos(u64::from(number)));
            if number == 2 {
                let _guard = lock.write();
                sleep_until(now().unwrap() + Nanos(100));
            } else {
                let _guard = lock.read();
                sleep_until(now().unwrap() + Nanos(100));
            }
            now().unwrap()
        });
        assert_eq!(ran.values, [Nanos(100), Nanos(101), Nanos(201), Nanos(301)], "{kind:?}");
    }
}

#[test]
fn a_word_at_the_very_deadline_of_one_is_heard_by_the_others_and_so_is_the_next() {
    for kind in SwitchKind::ALL {
        let place = Arc::new((Mutex::new(()), Condvar::new()));
        let ran = run(&schedule(kind, 16), 3, move |number| {
            let (lock, word) = &*place;
            match number {
                // It is the first of two whose time is 10, so the other has not run when it tells.
                0 => [10, 20].map(Nanos).into_iter().for_each(|time| {
                    sleep_until(time);
                    word.notify_all();
                }),
                1 => drop(word.wait_for(lock.lock(), Nanos(0), Nanos(10))),
                _ => drop(word.wait(word.wait(lock.lock()))),
            }
            now().unwrap()
        });
        assert_eq!(ran.values, [20, 10, 20].map(Nanos), "{kind:?}");
    }
}

#[test]
fn a_word_is_heard_by_all_at_its_time() {
    for kind in SwitchKind::ALL {
        let place = Arc::new((Mutex::new(false), Condvar::new()));
        let ran = run(&schedule(kind, 16), 3, move |number| {
            let (lock, word) = &*place;
            if number == 0 {
                sleep_until(Nanos(50));
                *lock.lock() = true;
                word.notify_all();
            } else {
                let mut is_told = lock.lock();
                while !*is_told {
                    is_told = word.wait(is_told);
                }
            }
            now().unwrap()
        });
        assert_eq!(ran.values, [Nanos(50); 3], "{kind:?}");
    }
}

#[test]
fn whoever_lets_others_go_runs_after_the_next() {
    for kind in SwitchKind::ALL {
        let is_done = Arc::new(Mutex::new(false));
        let ran = run(&schedule(kind, 2), 2, move |number| {
            if number == 1 {
                sleep_until(Nanos(70));
                *is_done.lock() = true;
            }
            while !*is_done.lock() {
                crate::yield_now();
            }
            now().unwrap()
        });
        assert_eq!(ran.values, [Nanos(70); 2], "{kind:?}");
    }
}

#[test]
fn who_lets_others_in_does_not_end_their_patience() {
    for (kind, patience) in SwitchKind::ALL.into_iter().flat_map(|kind| [(kind, 5), (kind, 1000)]) {
        let (long_work, word) = (Arc::new(RwLock::new(0)), Arc::new(Condvar::default()));
        let is_done = Arc::new(Mutex::new(false));
        let ran = run(&schedule(kind, 2), 2, move |number| {
            if number == 0 {
                sleep_until(Nanos(10));
                for _ in 0..100 {
                    *long_work.write() += 1;
                    long_work.let_others_in();
                }
                *is_done.lock() = true;
                word.notify_all();
                return (now().unwrap(), false);
            }
            let (_guard, is_over) = word.wait_for(is_done.lock(), Nanos(0), Nanos(patience));
            (now().unwrap(), is_over)
        });
        let heard = if patience == 5 { (Nanos(5), true) } else { (Nanos(10), false) };
        assert_eq!(ran.values, [(Nanos(10), false), heard], "{kind:?}");
    }
}

#[test]
fn those_who_yield_do_not_keep_each_other_from_the_completion_they_wait_for() {
    for kind in SwitchKind::ALL {
        let device = Servers::new(1);
        let is_done = Arc::new(Mutex::new(false));
        let ran = run(&schedule(kind, 4), 4, move |number| {
            if number == 0 {
                device.request(Nanos(100));
                *is_done.lock() = true;
            }
            while !*is_done.lock() {
                crate::yield_now();
            }
        });
        assert_eq!(ran.end, Nanos(100), "{kind:?}");
    }
}

#[test]
fn a_deadlock_is_told_with_who_waits_for_what() {
    for kind in SwitchKind::ALL {
        let told = std::panic::catch_unwind(|| {
            let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
            run(&schedule(kind, 2), 2, move |number| {
                let _first = locks[number as usize].lock();
                sleep_until(Nanos(10));
                let _second = locks[1 - number as usize].lock();
            });
        });
        let told = told.unwrap_err().downcast::<String>().unwrap();
        assert!(told.contains("worker 0 waits for a lock since 10"), "{told}");
        assert!(told.contains("worker 1 waits for a lock since 10"), "{told}");
        assert!(!crate::is_worker(), "this thread is no worker any more");
    }
}

#[test]
fn a_panic_of_a_worker_is_that_of_the_run_after_the_others_ended() {
    for kind in SwitchKind::ALL {
        let ended = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&ended);
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&schedule(kind, 2), 3, move |number| {
                sleep_until(Nanos(10));
                let mut ended = ended.lock();
                assert!(number != 1, "this one fails");
                *ended += 1;
            });
        }));
        let told = told.unwrap_err();
        assert!(told.downcast_ref::<&str>().is_some_and(|told| told.contains("this one fails")));
        assert_eq!(*seen.lock(), 2, "a lock that a panic left is taken");
    }
}

#[test]
fn outside_of_a_schedule_all_is_as_in_the_standard_library() {
    assert_eq!((now(), number()), (None, None));
    spend(Nanos(5));
    sleep_until(Nanos(5));
    let place = Arc::new((Mutex::new(0), Condvar::new(), RwLock::new(0)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let place = Arc::clone(&place);
            std::thread::spawn(move || {
                for _ in 0..1000 {
                    *place.0.lock() += 1;
                    *place.2.write() += 1;
                    assert!(*place.2.read() > 0);
                }
                place.1.notify_all();
            })
        })
        .collect();
    let mut count = place.0.lock();
    while *count < 4000 {
        count = place.1.wait(count);
    }
    drop(count);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*place.2.read(), 4000);
}

/// What workers do, drawn from a seed: requests, work, locks of both kinds.
fn history(kind: SwitchKind, seed: u64, workers: u32, cores: u32) -> (Vec<u64>, Nanos) {
    let device = Servers::new(3);
    let log = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::new((Mutex::new(0_u64), RwLock::new(0_u64)));
    let notes = Arc::clone(&log);
    let ran = run(&schedule(kind, cores), workers, move |number| {
        let mut rng = Rng::new(seed ^ u64::from(number) << 32);
        let mut last = Nanos::ZERO;
        for _ in 0..40 {
            match rng.below(6) {
                0 => spend(Nanos(rng.below(50))),
                1 => device.request(Nanos(1 + rng.below(90))),
                2 => {
                    let mut held = shared.0.lock();
                    device.request(Nanos(1 + rng.below(30)));
                    *held += 1;
                }
                3 => {
                    let held = shared.1.read();
                    let before = *held;
                    spend(Nanos(rng.below(20)));
                    assert_eq!(*held, before, "nobody writes while one reads");
                }
                4 => {
                    let mut held = shared.1.write();
                    spend(Nanos(rng.below(20)));
                    *held += 1;
                }
                _ => crate::yield_now(),
            }
            let present = now().unwrap();
            assert!(present >= last, "time does not run backwards");
            last = present;
            let mut notes = notes.lock();
            notes.push(present.0 << 8 | u64::from(number));
            crate::current().unwrap().shared.lock().audit();
        }
    });
    let log = log.lock().clone();
    (log, ran.end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn both_kinds_of_switch_and_every_repeat_give_the_same(
        seed in any::<u64>(),
        workers in 1_u32..9,
        cores in 1_u32..4,
    ) {
        let first = history(SwitchKind::Coroutines, seed, workers, cores);
        // What a worker notes, it notes at its turn, so the times ascend.
        prop_assert!(first.0.windows(2).all(|pair| pair[0] >> 8 <= pair[1] >> 8));
        prop_assert_eq!(&history(SwitchKind::Coroutines, seed, workers, cores), &first);
        prop_assert_eq!(&history(SwitchKind::Baton, seed, workers, cores), &first);
    }
}
