//! The frames of a pool, and who may look into them when: hazard pointers (Michael, IEEE TPDS 15(6),
//! 2004), one note for each thread that is looking, in a cache line of its own.
//!
//! ```text
//!   tag of a frame     EMPTY ──try_claim──► CLAIMED ──publish(word)──► word (a page's address)
//!                        ▲                    │  ▲                       │
//!                        └──── drop, empty ───┘  └─────── try_claim ─────┘
//!
//!   reader             note the frame in a slot, then check that the tag still is the word
//!   claimer            set the tag to CLAIMED, then check that no slot notes the frame
//! ```
//!
//! Each of the two writes before it reads, all four in one order (`SeqCst`), so at least one of them
//! sees the other and gives way.
//!
//! 1. While a reader holds a [`ResidentPage`], its frame's tag was the page's word after the note was
//!    made, and no [`Claim`] of the frame begins to exist.
//! 2. At most one claim of a frame exists, and nobody is looking into the frame then.
//! 3. Nobody looks into a frame that is EMPTY: it became so under a claim, or under `&mut`.
//! 4. Only the thread that holds a slot writes to it; a hit writes nothing else, but for the flags of
//!    a frame that did not have them yet.
//! 5. Beside the tag of a page stands the LSN in its trailer, so that who wants only that one touches
//!    no further line of memory.

#![allow(unsafe_code, reason = "readers look into frames that other threads refill later")]

use super::ReferenceBits;
use crate::Lsn;
use crate::page::page_lsn;
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Slots for readers: as many threads can look at once; more wait for each other.
const READER_SLOT_COUNT: usize = 64;
/// The tag of a frame without a page. No page's word is that large.
const EMPTY: u64 = u64::MAX;
/// The tag of a frame that somebody has for himself.
const CLAIMED: u64 = u64::MAX - 1;

/// The page was wanted since the replacement looked last.
const REFERENCED: u8 = 1;
/// The page came by prefetch, and nobody has wanted it yet.
const PREFETCHED: u8 = 2;

/// One page's memory with what readers need to know of it, in one cache line.
#[repr(align(64))]
struct Frame {
    tag: AtomicU64,
    flags: AtomicU8,
    lsn: AtomicU64,
    buffer: UnsafeCell<IoBuffer>,
}

// SAFETY: `tag`, `flags` and `lsn` are atomic. `buffer` is reached through `ResidentPage` (shared), `Claim`
// (exclusive) and `&mut Frames` (exclusive) only. Invariants 1 and 2 of the module keep the first two
// apart, and both borrow the `Frames`, so that neither exists during the third. An `IoBuffer` may be
// used from any thread, as `_buffers_may_be_shared` checks.
unsafe impl Sync for Frame {}

const fn _buffers_may_be_shared() {
    const fn check<T: Send + Sync>() {}
    check::<IoBuffer>();
}

/// Where one reader notes which frame it looks into. Two lines, since processors fetch pairs.
#[repr(align(128))]
#[derive(Default)]
struct ReaderSlot {
    /// One more than the frame; 0 if the slot is free.
    noted: AtomicU32,
    hit_count: AtomicU64,
    prefetch_hit_count: AtomicU64,
}

/// All frames of a pool.
pub(super) struct Frames {
    frames: Box<[Frame]>,
    slots: Box<[ReaderSlot]>,
}

/// A page that stays as it is while somebody looks at it.
pub(crate) struct ResidentPage<'a> {
    frame: &'a Frame,
    slot: &'a ReaderSlot,
}

/// A frame that somebody has for himself. Dropped, it is empty.
pub(super) struct Claim<'a> {
    frame: &'a Frame,
    /// The tag that the frame gets.
    next_tag: u64,
}

impl Frames {
    /// `frame_count` empty frames of `page_bytes`, aligned in memory to `alignment`; `None` where the system
    /// does not give the memory.
    pub(super) fn new(frame_count: u32, page_bytes: u32, alignment: usize) -> Option<Self> {
        // From one allocation, so that a frame costs no more than its page.
        let buffers = IoBuffer::try_batch(frame_count as usize, page_bytes as usize, alignment)?;
        let frame = |buffer| Frame {
            tag: AtomicU64::new(EMPTY),
            flags: AtomicU8::new(0),
            lsn: AtomicU64::new(0),
            buffer: UnsafeCell::new(buffer),
        };
        let slots = (0..READER_SLOT_COUNT).map(|_| ReaderSlot::default()).collect();
        Some(Self { frames: buffers.into_iter().map(frame).collect(), slots })
    }

    /// The word of the page in `frame`; `None` if there is none or the frame is claimed.
    pub(super) fn word(&self, frame: u32) -> Option<u64> {
        let tag = self.frames[frame as usize].tag.load(Ordering::Acquire);
        (tag < CLAIMED).then_some(tag)
    }

    /// Holds the page in `frame` in place, if it is that of `word`.
    #[inline]
    pub(super) fn protect(&self, frame: u32, word: u64) -> Option<ResidentPage<'_>> {
        let frame_index = frame;
        let frame = &self.frames[frame_index as usize];
        let slot = self.take_slot(frame_index + 1);
        // Made before the comparison, so that dropping it frees the slot whether the frame turns
        // out to hold that page or another one.
        let page = ResidentPage { frame, slot };
        (frame.tag.load(Ordering::SeqCst) == word).then_some(page)
    }

    /// Takes `frame` away from readers; `None` while one is looking, or another claim exists.
    pub(super) fn try_claim(&self, frame: u32) -> Option<Claim<'_>> {
        let noted = frame + 1;
        let frame = &self.frames[frame as usize];
        let before = frame.tag.load(Ordering::Relaxed);
        let swap =
            |tag| frame.tag.compare_exchange(tag, CLAIMED, Ordering::SeqCst, Ordering::Relaxed);
        if before == CLAIMED || swap(before).is_err() {
            return None;
        }
        // A late reader may note an empty frame, but finds out by the tag (invariant 3).
        let is_noted = |slot: &ReaderSlot| slot.noted.load(Ordering::SeqCst) == noted;
        if before != EMPTY && self.slots.iter().any(is_noted) {
            frame.tag.store(before, Ordering::SeqCst);
            return None;
        }
        Some(Claim { frame, next_tag: EMPTY })
    }

    /// The page in a frame and the LSN beside it, while there are no readers. Whoever changes the one sets the
    /// other (invariant 5).
    pub(super) fn page_mut(&mut self, frame: u32) -> (&mut [u8], &mut u64) {
        let frame = &mut self.frames[frame as usize];
        (&mut *frame.buffer.get_mut(), frame.lsn.get_mut())
    }

    /// Notes that the page in `frame` was wanted, by the one writer.
    pub(super) fn note_hit_exclusive(&mut self, frame: u32) {
        let was_prefetched = note_flags(&self.frames[frame as usize].flags);
        let slot = &mut self.slots[0];
        *slot.hit_count.get_mut() += 1;
        *slot.prefetch_hit_count.get_mut() += u64::from(was_prefetched);
    }

    /// Sets what a page that has just arrived starts with.
    pub(super) fn set_flags(&self, frame: u32, is_prefetched: bool) {
        let flags = if is_prefetched { PREFETCHED } else { 0 };
        self.frames[frame as usize].flags.store(flags, Ordering::Relaxed);
    }

    /// Hits so far, and how many of them were the first of a prefetched page.
    pub(super) fn hit_counts(&self) -> (u64, u64) {
        let sum = |count: fn(&ReaderSlot) -> &AtomicU64| {
            self.slots.iter().map(|slot| count(slot).load(Ordering::Relaxed)).sum()
        };
        (sum(|slot| &slot.hit_count), sum(|slot| &slot.prefetch_hit_count))
    }

    /// Notes a frame in a free slot. Where a thread starts to look for one depends on where its stack
    /// lies, so each finds a slot that is still in its own cache.
    #[inline]
    fn take_slot(&self, noted: u32) -> &ReaderSlot {
        const SLOT_BITS: u32 = READER_SLOT_COUNT.ilog2();
        const STACK_BITS: u32 = 16;
        let on_the_stack = 0_u8;
        let place = (&raw const on_the_stack).addr() as u64 >> STACK_BITS;
        let start = place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOT_BITS);
        for step in 0.. {
            let slot = &self.slots[(to_index(start) + step) % READER_SLOT_COUNT];
            let swap = slot.noted.compare_exchange(0, noted, Ordering::SeqCst, Ordering::Relaxed);
            if swap.is_ok() {
                return slot;
            }
            if step % READER_SLOT_COUNT == READER_SLOT_COUNT - 1 {
                // More threads than slots: whoever holds one waits for nothing, so one gets free.
                nandu_workers::yield_now();
            }
        }
        unreachable!("the loop ends with a slot only")
    }

    /// Asserts that no claim and no reader is left over, while there can be none.
    pub(super) fn audit(&self) {
        for slot in &self.slots {
            assert_eq!(slot.noted.load(Ordering::SeqCst), 0, "readers have left");
        }
        for (number, frame) in (0..).zip(&self.frames) {
            assert_ne!(frame.tag.load(Ordering::SeqCst), CLAIMED, "claims have ended");
            let page = self.word(number).and_then(|word| self.protect(number, word));
            assert!(
                page.is_none_or(|page| page.lsn() == page_lsn(&page)),
                "LSNs stand beside pages"
            );
        }
    }
}

impl ReferenceBits for Frames {
    fn take_reference(&self, frame: u32) -> bool {
        let flags = &self.frames[frame as usize].flags;
        let was_set = flags.load(Ordering::Relaxed) & REFERENCED != 0;
        if was_set {
            flags.fetch_and(!REFERENCED, Ordering::Relaxed);
        }
        was_set
    }
}

impl ResidentPage<'_> {
    /// The LSN in the page's trailer.
    #[inline]
    pub(crate) fn lsn(&self) -> Lsn {
        // Stored before the tag, which was read with acquire, and changed under `&mut Frames` only.
        Lsn(self.frame.lsn.load(Ordering::Relaxed))
    }

    /// Counts a hit, and notes it for the replacement.
    #[inline]
    pub(super) fn note_hit(&self) {
        // The slot is this reader's, so nobody else adds meanwhile.
        let add = |count: &AtomicU64| {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        add(&self.slot.hit_count);
        if self.frame.flags.load(Ordering::Relaxed) != REFERENCED && note_flags(&self.frame.flags) {
            add(&self.slot.prefetch_hit_count);
        }
    }
}

impl Deref for ResidentPage<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: by invariant 1 no claim exists until this is dropped, and `&mut Frames` cannot be had
        // while `self` borrows them. The tag was read with acquire from the release store that
        // published the page, so what the claimer wrote is seen.
        unsafe { &*self.frame.buffer.get() }
    }
}

impl Drop for ResidentPage<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was read is behind us before a claimer sees the slot free and writes.
        self.slot.noted.store(0, Ordering::Release);
    }
}

impl Claim<'_> {
    /// The frame's buffer. Another may be put in its place.
    pub(super) fn buffer_mut(&mut self) -> &mut IoBuffer {
        // SAFETY: by invariant 2 this is the only claim and nobody looks; `&mut self` keeps what is
        // lent unique, and `&mut Frames` cannot be had while `self` borrows them.
        unsafe { &mut *self.frame.buffer.get() }
    }

    /// Ends the claim: the frame holds the page of `word` now, for everybody to see.
    pub(super) fn publish(mut self, word: u64) {
        assert!(word < CLAIMED, "an address has 48 bits");
        let lsn = page_lsn(self.buffer_mut());
        self.frame.lsn.store(lsn.0, Ordering::Relaxed);
        self.next_tag = word;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.frame.tag.store(self.next_tag, Ordering::SeqCst);
    }
}

/// Sets the flag of a hit; says whether the page was prefetched and not wanted until now.
#[inline]
fn note_flags(flags: &AtomicU8) -> bool {
    flags.swap(REFERENCED, Ordering::Relaxed) & PREFETCHED != 0
}
