//! Coding allocates nothing once code and decoder are made: counted by the allocator itself.

#![allow(unsafe_code, reason = "an allocator that counts")]

use nandu_ida::{Code, FragmentSet, Matrix, Reconstructor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATION_COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.set(ALLOCATION_COUNT.get() + 1);
        // SAFETY: handed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: handed on to the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `work` allocates on this thread.
fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATION_COUNT.get();
    work();
    ALLOCATION_COUNT.get() - before
}

#[test]
fn the_allocator_counts() {
    assert_eq!(allocations_of(|| drop(std::hint::black_box(vec![0_u8; 100]))), 1);
}

#[test]
fn coding_allocates_nothing() {
    for (m, n, matrix) in
        [(3, 4, Matrix::Cauchy), (20, 30, Matrix::Cauchy), (40, 60, Matrix::Vandermonde)]
    {
        let code = Code::new(m, n, matrix).unwrap();
        let length = 70_001;
        let data = vec![vec![7; length]; m];
        let mut coded = vec![vec![0; length]; code.coded_fragments().len()];
        assert_eq!(allocations_of(|| code.encode(&data, &mut coded).unwrap()), 0);
        let new = vec![9; 5000];
        let update = || code.update(1, 100, &data[1][..5000], &new, &mut coded).unwrap();
        assert_eq!(allocations_of(update), 0);

        let mut fragments = vec![vec![1; length]; n];
        let mut reconstructor = Reconstructor::new(code, 2);
        let present: FragmentSet = FragmentSet::first(n).iter().skip(n - m).collect();
        let mut reconstruct = || reconstructor.reconstruct(&mut fragments, present).unwrap();
        assert!(allocations_of(&mut reconstruct) > 0, "the decoder is made");
        assert_eq!(allocations_of(&mut reconstruct), 0);
        let decoder = reconstructor.code().decoder(present, FragmentSet::first(m)).unwrap();
        let mut decoded = vec![vec![0; length]; m];
        let sources = vec![vec![3; length]; m];
        assert_eq!(allocations_of(|| decoder.decode(&sources, &mut decoded).unwrap()), 0);
    }
}
