//! The kernel without vector instructions, against which all others are checked: two lookups a byte.

use super::Group;
use crate::field::NIBBLES;

pub(super) fn run(group: &mut Group<'_, '_, '_>) {
    for (output, row) in group.outputs.iter_mut().zip(&group.rows) {
        if !group.accumulate {
            output.fill(0);
        }
        for (input, &coefficient) in group.inputs.iter().zip(*row) {
            add_multiple(output, coefficient, input);
        }
    }
}

/// `output + coefficient * input`, byte by byte.
fn add_multiple(output: &mut [u8], coefficient: u8, input: &[u8]) {
    let pairs = output.iter_mut().zip(input);
    if coefficient == 1 {
        pairs.for_each(|(output, &input)| *output ^= input);
        return;
    }
    let table = &NIBBLES[usize::from(coefficient)];
    pairs.for_each(|(output, &input)| {
        *output ^= table.low[usize::from(input & 15)] ^ table.high[usize::from(input >> 4)];
    });
}
