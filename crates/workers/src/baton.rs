//! Workers as threads of the system, of which one has the baton.

use crate::core::Shared;
use crate::schedule::Body;
use crate::{CURRENT, Current};
use std::sync::{Arc, PoisonError};

/// Runs all to their ends, or until nobody can go on; the threads that wait are left to themselves then.
pub(crate) fn run(shared: &Arc<Shared>, bodies: Vec<Body>, stack_bytes: usize) {
    let mut threads = Vec::new();
    for (number, body) in (0..).zip(bodies) {
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().stack_size(stack_bytes);
        let thread = thread.spawn(move || {
            await_turn(&shared, number);
            CURRENT.set(Some(Current { shared: Arc::clone(&shared), number }));
            body();
            CURRENT.set(None);
            let mut core = shared.lock();
            core.end(number);
            core.running = None;
            core.pick();
            shared.passed.notify_all();
        });
        threads.push(thread.expect("the system has room for a thread"));
    }
    let mut core = shared.lock();
    core.pick();
    shared.passed.notify_all();
    while !core.is_over() && core.deadlock.is_none() {
        core = shared.passed.wait(core).unwrap_or_else(PoisonError::into_inner);
    }
    let is_over = core.is_over();
    drop(core);
    if is_over {
        for thread in threads {
            thread.join().expect("what a worker panics with is caught");
        }
    }
}

/// Gives the baton to whoever was picked, and waits for it to come back.
pub(crate) fn pass(shared: &Shared, number: u32) {
    shared.passed.notify_all();
    await_turn(shared, number);
}

fn await_turn(shared: &Shared, number: u32) {
    let mut core = shared.lock();
    while core.running != Some(number) {
        core = shared.passed.wait(core).unwrap_or_else(PoisonError::into_inner);
    }
}
