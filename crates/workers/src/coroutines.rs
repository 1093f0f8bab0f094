//! Workers as coroutines: each has a stack, and all are on one thread.

#![allow(unsafe_code, reason = "a worker that waits deep in its stack needs the way out of it")]

use crate::core::Shared;
use crate::schedule::Body;
use crate::{CURRENT, Current};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::RefCell;
use std::sync::Arc;

type Way = Yielder<(), Option<u32>>;
type Stacked = Coroutine<(), Option<u32>, ()>;

thread_local! {
    /// The way out of the stack of each worker that has begun.
    static WAYS: RefCell<Vec<*const Way>> = const { RefCell::new(Vec::new()) };
}

/// Runs all to their ends, or until nobody can go on.
pub(crate) fn run(shared: &Arc<Shared>, bodies: Vec<Body>, stack_bytes: usize) {
    WAYS.set(vec![std::ptr::null(); bodies.len()]);
    let coroutine = |(number, body): (usize, Body)| {
        let stack = DefaultStack::new(stack_bytes).expect("there is room for the stacks");
        Stacked::with_stack(stack, move |way: &Way, ()| {
            WAYS.with_borrow_mut(|ways| ways[number] = way);
            body();
        })
    };
    let mut stacks = Stacks(bodies.into_iter().enumerate().map(coroutine).map(Some).collect());
    let mut next = shared.lock().pick();
    while let Some(number) = next {
        CURRENT.set(Some(Current { shared: Arc::clone(shared), number }));
        let stacked =
            stacks.0[number as usize].as_mut().expect("a worker that was picked is not done");
        next = match stacked.resume(()) {
            CoroutineResult::Yield(next) => next,
            CoroutineResult::Return(()) => {
                stacks.0[number as usize] = None;
                let mut core = shared.lock();
                core.end(number);
                core.running = None;
                core.pick()
            }
        };
    }
}

/// The stacks of workers that are not done.
struct Stacks(Vec<Option<Stacked>>);

impl Drop for Stacks {
    fn drop(&mut self) {
        CURRENT.set(None);
        for stacked in self.0.drain(..).flatten().filter(|stacked| stacked.started()) {
            // To drop it would run the destructors on its stack, some of which wait: it is left as it is.
            std::mem::forget(stacked);
        }
    }
}

/// Leaves the stack of worker `number`, so that `next` runs; returns when it is its turn again.
pub(crate) fn leave(number: u32, next: Option<u32>) {
    let way = WAYS.with_borrow(|ways| ways[number as usize]);
    // SAFETY: the worker that runs is `number`, so this is called on its stack, at the root of which
    // its `Yielder` lies until the worker ends.
    unsafe { &*way }.suspend(next);
}
