//! No join and no sort takes more memory than it was allotted, counted by the allocator of this program.
//!
//! 1. What is counted is everything but the device's own memory: buffers, rows, tables, trees, keys.
//! 2. On top of the allotment an operator has its fixed parts: batches of pairs, addresses of the rows of a
//!    page, the spill file's books. They do not grow with the tables: [`FIXED_BYTES`].

#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; it hands everything on")]

mod common;

use common::{Control, Inputs, Scale, controlled_device, database, execution_on, plans_in};
use nandu_query::join::{JoinStream, JoinType};
use nandu_query::plan::ChunkRule;
use nandu_query::relation::TupleStream;
use nandu_query::sort::{RunFormation, Settings, Sort};
use nandu_query::{JoinKind, Key};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// What operators take beside their allotment.
const FIXED_BYTES: i64 = 192 << 10;
const PAGE_BYTES: u32 = 4096;
const SCALE: Scale = Scale { customer_count: 4000, orders_each: 10, page_bytes: PAGE_BYTES };

/// The system's allocator, and how much it has given.
struct Counting;

static HELD_BYTES: AtomicI64 = AtomicI64::new(0);
static PEAK_BYTES: AtomicI64 = AtomicI64::new(0);
static CONTROL: OnceLock<Arc<Control>> = OnceLock::new();

fn count(bytes: i64) {
    let is_of_device =
        CONTROL.get().is_some_and(|control| control.is_device_at_work.load(Ordering::Relaxed));
    if !is_of_device {
        let held = HELD_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK_BYTES.fetch_max(held, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(i64::try_from(layout.size()).unwrap_or(0));
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-i64::try_from(layout.size()).unwrap_or(0));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that was held at once while `work` was done, beyond what was held before.
fn peak_of(work: impl FnOnce()) -> i64 {
    let before = HELD_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    work();
    PEAK_BYTES.load(Ordering::Relaxed) - before
}

/// Goes through a join; through nested loops, which take no more later than at first, only for a while.
fn count_some_pairs(stream: &mut dyn JoinStream, kind: JoinKind) {
    let mut left = if kind == JoinKind::NestedLoops { 50 } else { u32::MAX };
    while left > 0 && stream.advance().expect("nothing is wrong") {
        left -= 1;
    }
}

#[test]
fn joins_and_sorts_stay_within_their_allotment() {
    let (device, control) = controlled_device(64 << 20);
    let database = database(device, SCALE);
    CONTROL.set(control).expect("there is one test");
    let tables = database.read();
    let inputs = Inputs::open(&tables).unwrap();
    let question = inputs.question(SCALE);
    let key = Key::of(&[0]);
    let mut taken = Vec::new();
    for (memory_pages, reads_ahead) in
        [20, 64, 200, 600].into_iter().flat_map(|pages| [(pages, false), (pages, true)])
    {
        let limits = common::limits(PAGE_BYTES, memory_pages, reads_ahead);
        let allotted = i64::from(memory_pages) * i64::from(PAGE_BYTES);
        let mut note = |what: String, peak: i64| {
            let extra = peak - allotted;
            if extra > FIXED_BYTES {
                taken.push(format!("{what} in {memory_pages} pages: {extra} bytes more"));
            }
        };
        for plan in plans_in(&question, memory_pages, reads_ahead) {
            // An outer join marks what has met a partner, too.
            for join_type in [JoinType::Inner, JoinType::Left] {
                if !plan.kind.does(join_type, plan.outer_side()) {
                    continue;
                }
                let join = inputs.join(join_type);
                let peak = peak_of(|| {
                    let execution = execution_on(&tables, limits.clone());
                    let stream = plan.open(&execution, join, inputs.indexes(), ChunkRule::ByBytes);
                    count_some_pairs(stream.unwrap().as_mut(), plan.kind);
                });
                note(format!("{} {} {reads_ahead}", plan.kind, join_type.name()), peak);
            }
        }
        for formation in [RunFormation::ReplacementSelection, RunFormation::Quicksort] {
            let settings = Settings {
                input_pages: 4,
                output_pages: 4,
                workspace_pages: memory_pages - 8,
                formation,
            };
            let peak = peak_of(|| {
                let execution = execution_on(&tables, limits.clone());
                let mut sort = Sort::new(&execution, &inputs.right, &key, settings).unwrap();
                while sort.advance().unwrap() {}
            });
            note(format!("a sort, {formation:?}"), peak);
        }
    }
    assert!(taken.is_empty(), "{}", taken.join("\n"));
}
