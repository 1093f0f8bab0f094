//! Every available kernel computes the bytes of the scalar one, which computes those of the field.

use super::*;
use crate::field::multiply;
use proptest::prelude::*;

/// Bytes that differ from place to place, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// The sums by the definition.
fn definition(rows: &[&[u8]], inputs: &[&[u8]], before: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut outputs = before.to_vec();
    for (output, row) in outputs.iter_mut().zip(rows) {
        for (input, &coefficient) in inputs.iter().zip(*row) {
            for (target, &source) in output.iter_mut().zip(*input) {
                *target ^= multiply(coefficient, source);
            }
        }
    }
    outputs
}

/// Runs every available kernel on fragments that begin `skew` bytes behind an allocation, each at
/// another distance from a vector's alignment.
fn check(coefficients: &[Vec<u8>], inputs: usize, length: usize, skew: usize, accumulate: bool) {
    let storage: Vec<Vec<u8>> =
        (0..inputs).map(|seed| noise(seed as u64 + 1, length + 80 + skew)).collect();
    let data: Vec<&[u8]> = storage
        .iter()
        .enumerate()
        .map(|(index, bytes)| &bytes[(skew + index) % 64..][..length])
        .collect();
    let rows: Vec<&[u8]> = coefficients.iter().map(|row| &row[..inputs]).collect();
    let before: Vec<Vec<u8>> =
        (0..rows.len()).map(|seed| noise(seed as u64 + 99, length)).collect();
    let zero = vec![vec![0; length]; rows.len()];
    let expected = definition(&rows, &data, if accumulate { &before } else { &zero });
    for kernel in Kernel::available() {
        let mut storage = vec![vec![0xA5_u8; length + 64]; rows.len()];
        let mut outputs: Vec<&mut [u8]> = Vec::new();
        for (index, bytes) in storage.iter_mut().enumerate() {
            let output = &mut bytes[(skew + 3 * index) % 64..][..length];
            output.copy_from_slice(&before[index]);
            outputs.push(output);
        }
        let mut group = Group {
            rows: std::array::from_fn(|row| *rows.get(row).unwrap_or(&rows[0])),
            inputs: &data,
            outputs: &mut outputs,
            accumulate,
        };
        run(kernel, &mut group);
        for (index, bytes) in storage.iter().enumerate() {
            let start = (skew + 3 * index) % 64;
            assert!(bytes[start..][..length] == expected[index], "{kernel:?} output {index}");
            let around = bytes[..start].iter().chain(&bytes[start + length..]);
            assert!(around.clone().all(|&byte| byte == 0xA5), "{kernel:?} wrote outside");
        }
    }
}

#[test]
fn every_kernel_multiplies_every_pair() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for kernel in Kernel::available() {
        for coefficient in (0..=u8::MAX).step_by(if cfg!(miri) { 15 } else { 1 }) {
            let mut product = vec![0; 256];
            run(
                kernel,
                &mut Group {
                    rows: [&[coefficient]; GROUP_OUTPUTS],
                    inputs: &[&all],
                    outputs: &mut [&mut product],
                    accumulate: false,
                },
            );
            let expected: Vec<u8> = all.iter().map(|&byte| multiply(coefficient, byte)).collect();
            assert_eq!(product, expected, "{kernel:?} times {coefficient}");
        }
    }
}

#[test]
fn every_kernel_agrees_at_every_length_around_its_vectors() {
    let limit = if cfg!(miri) { 140 } else { 300 };
    for length in (0..limit).step_by(if cfg!(miri) { 23 } else { 1 }) {
        for outputs in 1..=GROUP_OUTPUTS {
            let mut coefficients: Vec<Vec<u8>> =
                (0..outputs).map(|row| noise(row as u64 + 7, 3)).collect();
            check(&coefficients, 3, length, length % 61, false);
            coefficients[0].fill(1);
            check(&coefficients, 3, length, length % 59, true);
        }
    }
}

#[test]
fn kernels_are_listed_slow_ones_first_and_scalar_is_everywhere() {
    let available: Vec<Kernel> = Kernel::available().collect();
    assert_eq!(available[0], Kernel::Scalar);
    assert_eq!(available.last(), Some(&Kernel::best()));
    assert!(available.is_sorted());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]
    #[test]
    fn every_kernel_agrees_with_the_definition(
        coefficients in prop::collection::vec(
            prop_oneof![
                3 => prop::collection::vec(any::<u8>(), GROUP_INPUTS),
                1 => Just(vec![1; GROUP_INPUTS]),
            ],
            1..=GROUP_OUTPUTS,
        ),
        inputs in 0..=GROUP_INPUTS,
        length in 0..700_usize,
        skew in 0..64_usize,
        accumulate: bool,
    ) {
        check(&coefficients, inputs, length, skew, accumulate);
    }
}
