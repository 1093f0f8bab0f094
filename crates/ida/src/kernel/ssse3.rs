//! 16 bytes at a time, otherwise as `avx2`: for processors before 2013.

#![allow(unsafe_code, reason = "vector instructions")]

use super::Group;
use super::vector::{self, Vector};
use crate::field::NIBBLES;
use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_load_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_setzero_si128,
    _mm_shuffle_epi8, _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128,
};

#[target_feature(enable = "ssse3")]
pub(super) fn run(group: &mut Group<'_, '_, '_>) {
    // SAFETY: this function has the instructions enabled, and the parent has audited the group.
    unsafe { vector::run::<Ssse3>(group) }
}

#[derive(Clone, Copy)]
struct Ssse3(__m128i);

impl Vector for Ssse3 {
    const BYTES: usize = 16;
    type Table = [__m128i; 2];
    type Factor = [__m128i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has ssse3.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(source: *const u8) -> Self {
        // SAFETY: 16 bytes are readable, by the contract of the trait.
        Self(unsafe { _mm_loadu_si128(source.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut u8) {
        // SAFETY: 16 bytes are writable, by the contract of the trait.
        unsafe { _mm_storeu_si128(target.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has ssse3.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(self) -> Self::Factor {
        // SAFETY: the caller has ssse3.
        unsafe {
            let mask = _mm_set1_epi8(15);
            let high = _mm_srli_epi64::<4>(self.0);
            [_mm_and_si128(self.0, mask), _mm_and_si128(high, mask)]
        }
    }

    #[inline(always)]
    unsafe fn table(constant: u8) -> Self::Table {
        let table = &NIBBLES[usize::from(constant)];
        // SAFETY: each half has 16 bytes and is aligned to 16, the first of the two to 32.
        [&table.low, &table.high].map(|half| unsafe { _mm_load_si128(half.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn add_product(self, factor: Self::Factor, table: Self::Table) -> Self {
        // SAFETY: the caller has ssse3.
        unsafe {
            let low = _mm_shuffle_epi8(table[0], factor[0]);
            let high = _mm_shuffle_epi8(table[1], factor[1]);
            Self(_mm_xor_si128(self.0, _mm_xor_si128(low, high)))
        }
    }
}
