//! 32 bytes at a time: each nibble looks its product up by a byte shuffle (Plank, Greenan and Miller,
//! "Screaming fast Galois field arithmetic using Intel SIMD instructions", FAST 2013).

#![allow(unsafe_code, reason = "vector instructions")]

use super::Group;
use super::vector::{self, Vector};
use crate::field::NIBBLES;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_load_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

#[target_feature(enable = "avx2")]
pub(super) fn run(group: &mut Group<'_, '_, '_>) {
    // SAFETY: this function has the instructions enabled, and the parent has audited the group.
    unsafe { vector::run::<Avx2>(group) }
}

#[derive(Clone, Copy)]
struct Avx2(__m256i);

impl Vector for Avx2 {
    const BYTES: usize = 32;
    type Table = [__m256i; 2];
    type Factor = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has avx2.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(source: *const u8) -> Self {
        // SAFETY: 32 bytes are readable, by the contract of the trait.
        Self(unsafe { _mm256_loadu_si256(source.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut u8) {
        // SAFETY: 32 bytes are writable, by the contract of the trait.
        unsafe { _mm256_storeu_si256(target.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has avx2.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(self) -> Self::Factor {
        // SAFETY: the caller has avx2.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            let high = _mm256_srli_epi64::<4>(self.0);
            [_mm256_and_si256(self.0, mask), _mm256_and_si256(high, mask)]
        }
    }

    #[inline(always)]
    unsafe fn table(constant: u8) -> Self::Table {
        let table = &NIBBLES[usize::from(constant)];
        // SAFETY: each half has 16 bytes and is aligned to 16, the first of the two to 32.
        [&table.low, &table.high].map(|half| unsafe {
            _mm256_broadcastsi128_si256(_mm_load_si128(half.as_ptr().cast::<__m128i>()))
        })
    }

    #[inline(always)]
    unsafe fn add_product(self, factor: Self::Factor, table: Self::Table) -> Self {
        // SAFETY: the caller has avx2.
        unsafe {
            let low = _mm256_shuffle_epi8(table[0], factor[0]);
            let high = _mm256_shuffle_epi8(table[1], factor[1]);
            Self(_mm256_xor_si256(self.0, _mm256_xor_si256(low, high)))
        }
    }
}
