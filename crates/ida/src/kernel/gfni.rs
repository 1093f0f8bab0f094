//! One instruction a product: `gf2p8affineqb` multiplies the bits of each byte by an 8 × 8 matrix of
//! bits. It serves any polynomial, while `gf2p8mulb` knows 0x11B only. 32 bytes at a time with AVX2
//! registers, 64 with those of AVX-512.

#![allow(unsafe_code, reason = "vector instructions")]

use super::Group;
use super::vector::{self, Vector};
use crate::field::AFFINE;
use std::arch::x86_64::{
    __m256i, __m512i, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256, _mm512_gf2p8affine_epi64_epi8,
    _mm512_loadu_si512, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_xor_si512,
};

#[target_feature(enable = "gfni,avx2")]
pub(super) fn run_avx2(group: &mut Group<'_, '_, '_>) {
    // SAFETY: this function has the instructions enabled, and the parent has audited the group.
    unsafe { vector::run::<Gfni256>(group) }
}

#[target_feature(enable = "gfni,avx512f")]
pub(super) fn run_avx512(group: &mut Group<'_, '_, '_>) {
    // SAFETY: this function has the instructions enabled, and the parent has audited the group.
    unsafe { vector::run::<Gfni512>(group) }
}

#[derive(Clone, Copy)]
struct Gfni256(__m256i);

impl Vector for Gfni256 {
    const BYTES: usize = 32;
    type Table = __m256i;
    type Factor = __m256i;

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
        self.0
    }

    #[inline(always)]
    unsafe fn table(constant: u8) -> Self::Table {
        // SAFETY: the caller has avx2.
        unsafe { _mm256_set1_epi64x(AFFINE[usize::from(constant)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add_product(self, factor: Self::Factor, table: Self::Table) -> Self {
        // SAFETY: the caller has gfni and avx2.
        unsafe { self.add(Self(_mm256_gf2p8affine_epi64_epi8::<0>(factor, table))) }
    }
}

#[derive(Clone, Copy)]
struct Gfni512(__m512i);

impl Vector for Gfni512 {
    const BYTES: usize = 64;
    type Table = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has avx512f.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(source: *const u8) -> Self {
        // SAFETY: 64 bytes are readable, by the contract of the trait.
        Self(unsafe { _mm512_loadu_si512(source.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut u8) {
        // SAFETY: 64 bytes are writable, by the contract of the trait.
        unsafe { _mm512_storeu_si512(target.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has avx512f.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(self) -> Self::Factor {
        self.0
    }

    #[inline(always)]
    unsafe fn table(constant: u8) -> Self::Table {
        // SAFETY: the caller has avx512f.
        unsafe { _mm512_set1_epi64(AFFINE[usize::from(constant)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add_product(self, factor: Self::Factor, table: Self::Table) -> Self {
        // SAFETY: the caller has gfni and avx512f.
        unsafe { self.add(Self(_mm512_gf2p8affine_epi64_epi8::<0>(factor, table))) }
    }
}
