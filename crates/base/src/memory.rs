//! Large memory: whether the system gives so much, asked before it is needed, and large pages, where
//! the system gives them on request. A buffer pool whose frames lie side by side in them hands the
//! kernel one piece for a request of many pages, not one for each.
//!
//! 1. What the memory holds is the same with large pages and without; systems without ignore the wish.

#![allow(
    unsafe_code,
    reason = "neither large pages nor zeros that may be refused have a safe interface"
)]

use std::alloc::{Layout, alloc_zeroed};

/// Bytes from which on a piece of memory holds a large page wherever it begins.
const LARGE_BYTES: usize = 2 * LARGE_PAGE_BYTES - 1;
/// Bytes of a large page of x86-64, and of ARM64 with small pages of 4 KiB.
pub const LARGE_PAGE_BYTES: usize = 2 << 20;
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;

/// Asks for large pages where `memory` has not been touched yet; does nothing for less than
/// twice [`LARGE_PAGE_BYTES`] (a byte less is enough).
pub fn prefer_large_pages(memory: &mut [u8]) {
    if memory.len() >= LARGE_BYTES {
        advise(memory);
    }
}

/// Whether the system would give so many bytes now, beside what is taken: a program that takes them all
/// the same ends on the spot. A limit of the process (`ulimit -v`) says no, and so does a system that
/// could never hold them; a limit on what is touched, as that of a group of processes, is not seen.
#[must_use]
pub fn has_room(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// So many zeros, which the system has at hand for large pieces and nobody has to write; `None` where it
/// does not give as many.
#[must_use]
pub fn zeros(count: usize) -> Option<Vec<u8>> {
    let layout = Layout::array::<u8>(count).ok().filter(|_| count > 0);
    let Some(layout) = layout else { return (count == 0).then(Vec::new) };
    // SAFETY: the layout has a size.
    let first = unsafe { alloc_zeroed(layout) };
    // SAFETY: the allocator gave as many bytes as a vector of this capacity has, by the layout that it frees
    // them by, and all of them are zero.
    (!first.is_null()).then(|| unsafe { Vec::from_raw_parts(first, count, count) })
}

#[cfg(target_os = "linux")]
fn advise(memory: &mut [u8]) {
    let skipped = memory.as_ptr().addr().wrapping_neg() % PAGE_BYTES;
    let length = memory.len().saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: the range lies in `memory`, which is borrowed; the advice changes no byte of it. Where
    // the system's pages are larger than assumed it refuses, which is as good as not having asked.
    unsafe {
        libc::madvise(memory.as_mut_ptr().add(skipped).cast(), length, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_memory: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_some_and_not_for_all() {
        assert!(has_room(0) && has_room(1 << 20));
        assert!(!has_room(1 << 62) && !has_room(u64::MAX));
    }

    #[test]
    fn zeros_are_given_or_refused() {
        for count in [0, 1, 4097, 3 << 20] {
            let zeros = zeros(count).unwrap();
            assert_eq!((zeros.len(), zeros.capacity()), (count, count));
            assert!(zeros.iter().all(|byte| *byte == 0));
        }
        assert!(zeros(1 << 62).is_none() && zeros(usize::MAX).is_none());
    }

    #[test]
    fn asking_changes_nothing() {
        for length in [0, 1, 4096, LARGE_BYTES, LARGE_BYTES + 4099] {
            let mut bytes: Vec<u8> = (0..=255).cycle().take(length).collect();
            let before = bytes.clone();
            prefer_large_pages(&mut bytes);
            if let Some(odd) = bytes.get_mut(3..) {
                prefer_large_pages(odd);
            }
            assert_eq!(bytes, before);
        }
    }
}
