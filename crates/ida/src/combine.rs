//! From fragments of any number and length to passes of a kernel: groups of outputs by groups of
//! inputs, block by block.
//!
//! ```text
//!              bytes 0 .. block   .. 2 · block  ..         for each block:
//!   inputs   0 ┌───────┬───────┬───────┐                     for each group of outputs:
//!            … │       │       │       │  group of inputs      for each group of inputs:
//!            7 ├───────┼───────┼───────┤                         one pass
//!            … │       │       │       │  group of inputs
//!              └───────┴───────┴───────┘
//! ```
//!
//! A block of the outputs stays in the processor's first cache while groups of inputs are added, one
//! of the inputs in the second while groups of outputs are computed. Nothing is allocated.
//!
//! 1. Each byte of each output is visited once by every group of inputs.

use crate::kernel::{self, GROUP_INPUTS, GROUP_OUTPUTS, Group, Kernel};
use crate::matrix::Rows;
use std::ops::Range;

/// Bytes of all inputs together that a block has, less than a second-level cache.
const BLOCK_BYTES: usize = 128 << 10;
/// The shortest block: a page, which the processor fetches ahead.
const LEAST_BLOCK_BYTES: usize = 4 << 10;

/// Fragments that some coding reads and writes.
pub(crate) trait Fragments {
    /// Calls `work` with the part `bytes` of the given inputs and of the given outputs, of which
    /// there are at most as many as a group has.
    fn visit(
        &mut self,
        inputs: Range<usize>,
        outputs: Range<usize>,
        bytes: Range<usize>,
        work: impl FnOnce(&[&[u8]], &mut [&mut [u8]]),
    );
}

/// Inputs and outputs in lists of their own.
pub(crate) struct Separate<'a, D, C> {
    pub(crate) inputs: &'a [D],
    pub(crate) outputs: &'a mut [C],
    /// Where in each output the first byte of an input belongs.
    pub(crate) output_offset: usize,
}

impl<D: AsRef<[u8]>, C: AsMut<[u8]>> Fragments for Separate<'_, D, C> {
    fn visit(
        &mut self,
        inputs: Range<usize>,
        outputs: Range<usize>,
        bytes: Range<usize>,
        work: impl FnOnce(&[&[u8]], &mut [&mut [u8]]),
    ) {
        let (input_count, output_count) = (inputs.len(), outputs.len());
        let mut parts = [&[][..]; GROUP_INPUTS];
        for (part, input) in parts.iter_mut().zip(&self.inputs[inputs]) {
            *part = &input.as_ref()[bytes.clone()];
        }
        let mut sums: [&mut [u8]; GROUP_OUTPUTS] = std::array::from_fn(|_| &mut [][..]);
        for (sum, output) in sums.iter_mut().zip(&mut self.outputs[outputs]) {
            *sum = &mut output.as_mut()[self.output_offset..][bytes.clone()];
        }
        work(&parts[..input_count], &mut sums[..output_count]);
    }
}

/// Inputs and outputs in one list; the numbers of either ascend.
pub(crate) struct Together<'a, F> {
    pub(crate) fragments: &'a mut [F],
    pub(crate) inputs: &'a [u8],
    pub(crate) outputs: &'a [u8],
}

impl<F: AsRef<[u8]> + AsMut<[u8]>> Fragments for Together<'_, F> {
    fn visit(
        &mut self,
        inputs: Range<usize>,
        outputs: Range<usize>,
        bytes: Range<usize>,
        work: impl FnOnce(&[&[u8]], &mut [&mut [u8]]),
    ) {
        let (mut inputs, mut outputs) = (&self.inputs[inputs], &self.outputs[outputs]);
        let (input_count, output_count) = (inputs.len(), outputs.len());
        let mut parts = [&[][..]; GROUP_INPUTS];
        let mut sums: [&mut [u8]; GROUP_OUTPUTS] = std::array::from_fn(|_| &mut [][..]);
        for (fragment, number) in self.fragments.iter_mut().zip(0..=u8::MAX) {
            if inputs.first() == Some(&number) {
                let part = input_count - inputs.len();
                parts[part] = &(*fragment).as_ref()[bytes.clone()];
                inputs = &inputs[1..];
            } else if outputs.first() == Some(&number) {
                let sum = output_count - outputs.len();
                sums[sum] = &mut fragment.as_mut()[bytes.clone()];
                outputs = &outputs[1..];
            }
        }
        work(&parts[..input_count], &mut sums[..output_count]);
    }
}

/// Which part of a product to compute.
pub(crate) struct Product<'a> {
    /// The matrix with a row for each output.
    pub(crate) rows: &'a Rows,
    /// The rows to use, the first of them for the first output.
    pub(crate) used_rows: Range<usize>,
    /// The columns to use, the first of them for the first input.
    pub(crate) used_columns: Range<usize>,
    /// Bytes of each fragment.
    pub(crate) length: usize,
    /// Whether the product is added to the outputs, or replaces them.
    pub(crate) accumulate: bool,
}

impl Product<'_> {
    /// Multiplies the inputs of `fragments` by the rows into its outputs.
    pub(crate) fn compute(&self, kernel: Kernel, fragments: &mut impl Fragments) {
        let input_count = self.used_columns.len();
        let single_pass = self.used_rows.len() <= GROUP_OUTPUTS && input_count <= GROUP_INPUTS;
        let block = if single_pass { self.length } else { block_bytes(input_count) };
        let mut start = 0;
        while start < self.length {
            let end = self.length.min(start + block);
            for outputs in groups(self.used_rows.len(), GROUP_OUTPUTS) {
                for inputs in groups(input_count, GROUP_INPUTS) {
                    self.pass(kernel, fragments, inputs, outputs.clone(), start..end);
                }
            }
            start = end;
        }
    }

    fn pass(
        &self,
        kernel: Kernel,
        fragments: &mut impl Fragments,
        inputs: Range<usize>,
        outputs: Range<usize>,
        bytes: Range<usize>,
    ) {
        let first_row = self.used_rows.start + outputs.start;
        let columns = self.used_columns.start + inputs.start..self.used_columns.start + inputs.end;
        let last = outputs.len() - 1;
        let rows =
            std::array::from_fn(|row| &self.rows.row(first_row + row.min(last))[columns.clone()]);
        let accumulate = self.accumulate || inputs.start > 0;
        fragments.visit(inputs, outputs, bytes, |inputs, outputs| {
            kernel::run(kernel, &mut Group { rows, inputs, outputs, accumulate });
        });
    }
}

/// Bytes of each input in a block, a multiple of every vector.
fn block_bytes(input_count: usize) -> usize {
    (BLOCK_BYTES / input_count / LEAST_BLOCK_BYTES * LEAST_BLOCK_BYTES).max(LEAST_BLOCK_BYTES)
}

/// `count` things in groups of at most `size`.
fn groups(count: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(size).map(move |start| start..count.min(start + size))
}
