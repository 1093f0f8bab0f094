//! What tests of files that nobody vouches for share: an allocator that counts, and ways to spoil bytes and
//! texts by seed. Tests of other crates take it in by its path.

#![allow(dead_code, reason = "not every test spoils texts")]

use nandu_base::{Rng, to_index};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what this thread allocates.
struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
    static MOST_BYTES: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "an allocator can be counted in no other way")]
// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LIVE_BYTES.try_with(|live| {
            live.set(live.get().saturating_add(layout.size()));
            let _ = MOST_BYTES.try_with(|most| most.set(most.get().max(live.get())));
        });
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        let _ = LIVE_BYTES.try_with(|live| live.set(live.get().saturating_sub(layout.size())));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `call`, and says how many bytes this thread had allocated at most for it.
pub(crate) fn measured<T>(call: impl FnOnce() -> T) -> (T, usize) {
    LIVE_BYTES.set(0);
    MOST_BYTES.set(0);
    let result = call();
    (result, MOST_BYTES.get())
}

/// Spoils some bytes.
pub(crate) fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let Some(last) = bytes.len().checked_sub(1) else { return };
    // Structure is at the front, and at the front of pages.
    let at = match rng.below(3) {
        0 => to_index(rng.below(256)).min(last),
        1 => (to_index(rng.below(last as u64 + 1)) / 512 * 512 + to_index(rng.below(24))).min(last),
        _ => to_index(rng.below(last as u64 + 1)),
    };
    match rng.below(6) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF][to_index(rng.below(6))],
        2 => {
            let value = [0, 1, u32::MAX, 1 << 31, (1 << 31) - 1, 0xFFFF][to_index(rng.below(6))];
            let end = (at + 4).min(bytes.len());
            bytes[at..end].copy_from_slice(&value.to_be_bytes()[..end - at]);
        }
        3 => {
            let from = to_index(rng.below(last as u64 + 1));
            let length = to_index(rng.below(64)).min(bytes.len() - at.max(from));
            let copy = bytes[from..from + length].to_vec();
            bytes[at..at + length].copy_from_slice(&copy);
        }
        4 if rng.below(4) == 0 => bytes.truncate(at),
        _ => {
            let end = (at + to_index(rng.below(16))).min(bytes.len());
            rng.fill(&mut bytes[at..end]);
        }
    }
}

/// Numbers that a text seldom has.
const EXTREMES: [&str; 12] = [
    "0",
    "1",
    "-1",
    "65536",
    "4294967295",
    "4294967296",
    "999999999",
    "9007199254740993",
    "5000000000000000000",
    "9223372036854775807",
    "18446744073709551615",
    "1e308",
];

/// Spoils a text: a number becomes another, a line comes twice or not at all, two change places, a word goes,
/// or bytes are spoiled as in any file.
pub(crate) fn mutate_text(text: &mut String, rng: &mut Rng) {
    let pick = |count: usize, rng: &mut Rng| to_index(rng.below(count.max(1) as u64));
    match rng.below(8) {
        0..=3 => {
            let numbers = runs(text, |letter| letter.is_ascii_digit());
            if let Some(&(start, end)) = numbers.get(pick(numbers.len(), rng)) {
                text.replace_range(start..end, EXTREMES[pick(EXTREMES.len(), rng)]);
            }
        }
        4 => {
            let words = runs(text, |letter| letter.is_ascii_alphanumeric() || letter == b'_');
            if let Some(&(start, end)) = words.get(pick(words.len(), rng)) {
                text.replace_range(start..end, ["", "x", "true", "\"\"", "[]"][pick(5, rng)]);
            }
        }
        5 => {
            let mut lines: Vec<&str> = text.lines().collect();
            let (one, other) = (pick(lines.len(), rng), pick(lines.len(), rng));
            match rng.below(3) {
                0 if !lines.is_empty() => lines.swap(one, other),
                1 if !lines.is_empty() => lines.insert(one, lines[other]),
                _ if !lines.is_empty() => {
                    lines.remove(one);
                }
                _ => {}
            }
            *text = lines.join("\n");
        }
        _ => {
            let mut bytes = std::mem::take(text).into_bytes();
            mutate(&mut bytes, rng);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

/// Where letters of a kind stand together.
fn runs(text: &str, is_it: impl Fn(u8) -> bool) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, byte) in text.bytes().chain([b'\n']).enumerate() {
        match (is_it(byte), start) {
            (true, None) => start = Some(at),
            (false, Some(first)) => {
                found.push((first, at));
                start = None;
            }
            _ => {}
        }
    }
    found
}
