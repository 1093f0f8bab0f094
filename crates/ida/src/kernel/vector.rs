//! The loop that all vector kernels share; a sibling says what a vector is and how it is multiplied.
//!
//! ```text
//!   inputs[0]  ─┬──┬──┬──┬─ tail      one step: WIDE vectors of each input are loaded once and
//!   inputs[1]  ─┴──┴──┴──┴─           multiplied for each of ROWS outputs, whose sums stay in
//!   outputs[0] ─┬──┬──┬──┬─           registers; then the sums are stored
//!                WIDE × BYTES
//! ```
//!
//! The tail, shorter than a vector, goes through buffers of one vector. Where all coefficients of the
//! first output are 1, as in RAID 5, it is added without a product (`SUM`).
//!
//! Everything here is inlined into a function of a sibling, which enables the instructions.

#![allow(unsafe_code, reason = "vector instructions on raw pointers")]

use super::{GROUP_INPUTS, GROUP_OUTPUTS, Group};

/// Bytes of the widest vector.
const MOST_BYTES: usize = 64;

/// One register of bytes.
///
/// # Safety
/// Each function may be called only where the processor has the instructions of the implementor.
pub(super) trait Vector: Copy {
    /// Bytes of the register, at most [`MOST_BYTES`].
    const BYTES: usize;
    /// What a constant becomes to multiply with.
    type Table: Copy;
    /// What a vector becomes to be multiplied, once for all constants.
    type Factor: Copy;

    /// A vector all of whose bytes are 0.
    unsafe fn zero() -> Self;
    /// The bytes at `source`, which is readable for [`Self::BYTES`] and need not be aligned.
    unsafe fn load(source: *const u8) -> Self;
    /// Stores the bytes at `target`, which is writable for [`Self::BYTES`] and need not be aligned.
    unsafe fn store(self, target: *mut u8);
    /// The sum, byte by byte.
    unsafe fn add(self, other: Self) -> Self;
    /// Prepares this vector to be multiplied.
    unsafe fn factor(self) -> Self::Factor;
    /// The table of a constant.
    unsafe fn table(constant: u8) -> Self::Table;
    /// The sum of this vector and the product of `factor` by the constant of `table`.
    unsafe fn add_product(self, factor: Self::Factor, table: Self::Table) -> Self;
}

/// Runs one pass with the vectors `V`.
///
/// # Safety
/// The processor has the instructions of `V`, and `group.audit()` holds.
#[inline(always)]
pub(super) unsafe fn run<V: Vector>(group: &mut Group<'_, '_, '_>) {
    let sum = group.rows[0].iter().all(|&coefficient| coefficient == 1);
    // SAFETY: handed on to the caller.
    unsafe {
        match (group.outputs.len(), sum) {
            (1, false) => pass::<V, 1, false>(group),
            (1, true) => pass::<V, 1, true>(group),
            (2, false) => pass::<V, 2, false>(group),
            (2, true) => pass::<V, 2, true>(group),
            (3, false) => pass::<V, 3, false>(group),
            (3, true) => pass::<V, 3, true>(group),
            (_, false) => pass::<V, 4, false>(group),
            (_, true) => pass::<V, 4, true>(group),
        }
    }
}

/// One pass with `ROWS` outputs.
///
/// # Safety
/// As [`run`], with `ROWS` outputs.
#[inline(always)]
unsafe fn pass<V: Vector, const ROWS: usize, const SUM: bool>(group: &mut Group<'_, '_, '_>) {
    let length = group.length();
    let mut inputs = [std::ptr::null(); GROUP_INPUTS];
    for (pointer, input) in inputs.iter_mut().zip(group.inputs) {
        *pointer = input.as_ptr();
    }
    let inputs = &inputs[..group.inputs.len()];
    let outputs: [*mut u8; ROWS] = std::array::from_fn(|row| group.outputs[row].as_mut_ptr());
    let rows: [&[u8]; ROWS] = std::array::from_fn(|row| &group.rows[row][..inputs.len()]);
    let accumulate = group.accumulate;
    let mut at = 0;
    // SAFETY: a step reads and writes as many vectors at `at` as its condition finds within the
    // `length` bytes that each input and output has (invariant 1 of the parent).
    unsafe {
        // As many sums as leave registers for the tables.
        if ROWS <= 2 {
            while length - at >= 4 * V::BYTES {
                step::<V, ROWS, 4, SUM>(rows, inputs, outputs, at, accumulate);
                at += 4 * V::BYTES;
            }
        }
        while length - at >= 2 * V::BYTES {
            step::<V, ROWS, 2, SUM>(rows, inputs, outputs, at, accumulate);
            at += 2 * V::BYTES;
        }
        while length - at >= V::BYTES {
            step::<V, ROWS, 1, SUM>(rows, inputs, outputs, at, accumulate);
            at += V::BYTES;
        }
    }
    if at < length {
        // SAFETY: handed on to the caller; fewer bytes than a vector remain at `at`.
        unsafe { tail::<V, ROWS, SUM>(rows, inputs, outputs, at, length - at, accumulate) };
    }
}

/// `WIDE` vectors of each output.
///
/// # Safety
/// The processor has the instructions of `V`; `inputs` and `outputs` reach `WIDE * V::BYTES` bytes
/// beyond `at`.
#[inline(always)]
unsafe fn step<V: Vector, const ROWS: usize, const WIDE: usize, const SUM: bool>(
    rows: [&[u8]; ROWS],
    inputs: &[*const u8],
    outputs: [*mut u8; ROWS],
    at: usize,
    accumulate: bool,
) {
    // SAFETY: handed on to the caller.
    unsafe {
        let mut sums = [[V::zero(); WIDE]; ROWS];
        if accumulate {
            for (output, sums) in outputs.iter().zip(&mut sums) {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(output.add(at + lane * V::BYTES));
                }
            }
        }
        for (column, input) in inputs.iter().enumerate() {
            let vectors: [V; WIDE] =
                std::array::from_fn(|lane| V::load(input.add(at + lane * V::BYTES)));
            let factors = vectors.map(|vector| vector.factor());
            for (row, sums) in sums.iter_mut().enumerate() {
                if SUM && row == 0 {
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        *sum = sum.add(vector);
                    }
                } else {
                    let table = V::table(*rows[row].get_unchecked(column));
                    for (sum, factor) in sums.iter_mut().zip(factors) {
                        *sum = sum.add_product(factor, table);
                    }
                }
            }
        }
        for (output, sums) in outputs.iter().zip(sums) {
            for (lane, sum) in sums.into_iter().enumerate() {
                sum.store(output.add(at + lane * V::BYTES));
            }
        }
    }
}

/// The last bytes, fewer than a vector has.
///
/// # Safety
/// The processor has the instructions of `V`; `inputs` and `outputs` reach `length` bytes beyond
/// `at`, and `length` is less than `V::BYTES`.
#[inline(never)]
unsafe fn tail<V: Vector, const ROWS: usize, const SUM: bool>(
    rows: [&[u8]; ROWS],
    inputs: &[*const u8],
    outputs: [*mut u8; ROWS],
    at: usize,
    length: usize,
    accumulate: bool,
) {
    let mut input_ends = [[0_u8; MOST_BYTES]; GROUP_INPUTS];
    let mut output_ends = [[0_u8; MOST_BYTES]; GROUP_OUTPUTS];
    let mut input_pointers = [std::ptr::null(); GROUP_INPUTS];
    // SAFETY: `length` bytes are copied, which both sides have; a step works on one vector, which
    // each buffer holds.
    unsafe {
        for (index, input) in inputs.iter().enumerate() {
            std::ptr::copy_nonoverlapping(input.add(at), input_ends[index].as_mut_ptr(), length);
            input_pointers[index] = input_ends[index].as_ptr();
        }
        let output_pointers = std::array::from_fn(|row| output_ends[row].as_mut_ptr());
        for row in 0..ROWS {
            std::ptr::copy_nonoverlapping(outputs[row].add(at), output_pointers[row], length);
        }
        let input_pointers = &input_pointers[..inputs.len()];
        step::<V, ROWS, 1, SUM>(rows, input_pointers, output_pointers, 0, accumulate);
        for row in 0..ROWS {
            std::ptr::copy_nonoverlapping(output_pointers[row], outputs[row].add(at), length);
        }
    }
}
