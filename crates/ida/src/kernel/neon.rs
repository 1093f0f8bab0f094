//! 16 bytes at a time on 64-bit ARM: each nibble looks its product up in a table of 16 bytes.

#![allow(unsafe_code, reason = "vector instructions")]

use super::Group;
use super::vector::{self, Vector};
use crate::field::NIBBLES;
use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

#[target_feature(enable = "neon")]
pub(super) fn run(group: &mut Group<'_, '_, '_>) {
    // SAFETY: this function has the instructions enabled, and the parent has audited the group.
    unsafe { vector::run::<Neon>(group) }
}

#[derive(Clone, Copy)]
struct Neon(uint8x16_t);

impl Vector for Neon {
    const BYTES: usize = 16;
    type Table = [uint8x16_t; 2];
    type Factor = [uint8x16_t; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has neon.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(source: *const u8) -> Self {
        // SAFETY: 16 bytes are readable, by the contract of the trait.
        Self(unsafe { vld1q_u8(source) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut u8) {
        // SAFETY: 16 bytes are writable, by the contract of the trait.
        unsafe { vst1q_u8(target, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has neon.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(self) -> Self::Factor {
        // SAFETY: the caller has neon.
        unsafe { [vandq_u8(self.0, vdupq_n_u8(15)), vshrq_n_u8::<4>(self.0)] }
    }

    #[inline(always)]
    unsafe fn table(constant: u8) -> Self::Table {
        let table = &NIBBLES[usize::from(constant)];
        // SAFETY: each half has 16 bytes.
        [&table.low, &table.high].map(|half| unsafe { vld1q_u8(half.as_ptr()) })
    }

    #[inline(always)]
    unsafe fn add_product(self, factor: Self::Factor, table: Self::Table) -> Self {
        // SAFETY: the caller has neon.
        unsafe {
            let low = vqtbl1q_u8(table[0], factor[0]);
            let high = vqtbl1q_u8(table[1], factor[1]);
            Self(veorq_u8(self.0, veorq_u8(low, high)))
        }
    }
}
