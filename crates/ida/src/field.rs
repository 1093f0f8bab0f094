//! The field GF(2^8): bytes that can be added, multiplied and divided, as S000 section 8.3 needs them
//! and Rabin (J. ACM 36(2), 1989) uses them. Addition is exclusive or; multiplication is that of
//! polynomials modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D), of which x, that is 2, generates every
//! non-zero element.
//!
//! ```text
//!                            ┌ LOW[c][x & 15]  ┐
//!   NIBBLES[c]: c · x   =    │        +        │   two lookups, since · distributes over +
//!                            └ HIGH[c][x >> 4] ┘
//!   AFFINE[c]:  c · x   =    an 8 × 8 matrix of bits times the bits of x
//! ```
//!
//! 1. `NIBBLES` and `AFFINE` say the same as `multiply`, for each of the 65536 pairs.

/// The reducing polynomial without its leading term.
const POLYNOMIAL: u8 = 0x1D;
/// Order of the multiplicative group.
const ORDER: usize = 255;

/// Powers of 2, twice over, so that a sum of two logarithms needs no reduction.
const POWERS: [u8; 2 * ORDER] = powers();
/// Logarithm to base 2 of each non-zero element; that of 0 is meaningless.
const LOGARITHMS: [u8; 256] = logarithms();

/// For each constant the products with 0 to 15, then those with 0, 16, 32, … 240.
pub(crate) static NIBBLES: [Nibbles; 256] = nibbles();
/// For each constant the matrix that `gf2p8affineqb` multiplies with: row i in byte 7 − i.
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) static AFFINE: [u64; 256] = affine();

/// The two lookup tables of one constant, in one half of a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Nibbles {
    pub(crate) low: [u8; 16],
    pub(crate) high: [u8; 16],
}

/// The sum of two elements, which is their difference, too.
#[must_use]
pub const fn add(left: u8, right: u8) -> u8 {
    left ^ right
}

/// The product of two elements.
#[must_use]
pub const fn multiply(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[left as usize] as usize + LOGARITHMS[right as usize] as usize]
}

/// The element that multiplies with `element` to 1; `None` for 0, which has none.
#[must_use]
pub const fn inverse(element: u8) -> Option<u8> {
    if element == 0 {
        return None;
    }
    Some(POWERS[ORDER - LOGARITHMS[element as usize] as usize])
}

/// `base` multiplied `exponent` times with itself; 1 for exponent 0, also for base 0.
#[must_use]
pub const fn power(base: u8, exponent: usize) -> u8 {
    if exponent == 0 {
        return 1;
    }
    if base == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[base as usize] as usize * (exponent % ORDER) % ORDER]
}

/// Twice an element: a shift, reduced if it overflows.
const fn double(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { POLYNOMIAL }
}

const fn powers() -> [u8; 2 * ORDER] {
    let mut table = [0; 2 * ORDER];
    let mut element = 1;
    let mut exponent = 0;
    while exponent < 2 * ORDER {
        table[exponent] = element;
        element = double(element);
        exponent += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut exponent: u8 = 0;
    while (exponent as usize) < ORDER {
        table[POWERS[exponent as usize] as usize] = exponent;
        exponent += 1;
    }
    table
}

const fn nibbles() -> [Nibbles; 256] {
    let mut tables = [Nibbles { low: [0; 16], high: [0; 16] }; 256];
    let mut constant: u8 = 0;
    loop {
        let table = &mut tables[constant as usize];
        let mut nibble: u8 = 0;
        while nibble < 16 {
            table.low[nibble as usize] = multiply(constant, nibble);
            table.high[nibble as usize] = multiply(constant, nibble << 4);
            nibble += 1;
        }
        if constant == u8::MAX {
            return tables;
        }
        constant += 1;
    }
}

#[cfg(any(target_arch = "x86_64", test))]
const fn affine() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut constant: u8 = 0;
    loop {
        let mut input_bit = 0;
        while input_bit < 8 {
            let product = multiply(constant, 1 << input_bit);
            let mut output_bit = 0;
            while output_bit < 8 {
                if product >> output_bit & 1 == 1 {
                    matrices[constant as usize] |= 1 << ((7 - output_bit) * 8 + input_bit);
                }
                output_bit += 1;
            }
            input_bit += 1;
        }
        if constant == u8::MAX {
            return matrices;
        }
        constant += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product as schoolbook arithmetic on polynomials, without a table.
    fn schoolbook(left: u8, right: u8) -> u8 {
        let mut product: u16 = 0;
        for bit in 0..8 {
            if right >> bit & 1 == 1 {
                product ^= u16::from(left) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11D << (bit - 8);
            }
        }
        u8::try_from(product).expect("reduced below the eighth power")
    }

    #[test]
    fn every_product_is_that_of_polynomials() {
        for left in 0..=u8::MAX {
            for right in 0..=u8::MAX {
                assert_eq!(multiply(left, right), schoolbook(left, right), "{left} * {right}");
            }
        }
    }

    #[test]
    fn the_axioms_of_a_field_hold_for_every_element() {
        for left in 0..=u8::MAX {
            assert_eq!(multiply(left, 1), left);
            assert_eq!(multiply(left, 0), 0);
            assert_eq!(add(left, left), 0);
            for right in 0..=u8::MAX {
                let product = multiply(left, right);
                assert_eq!(product, multiply(right, left));
                assert_eq!(product == 0, left == 0 || right == 0, "zero divisors");
                for third in 0..=u8::MAX {
                    assert_eq!(multiply(product, third), multiply(left, multiply(right, third)));
                    assert_eq!(
                        multiply(left, add(right, third)),
                        add(product, multiply(left, third))
                    );
                }
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        assert_eq!(inverse(0), None);
        for element in 1..=u8::MAX {
            assert_eq!(multiply(element, inverse(element).expect("not zero")), 1);
        }
    }

    #[test]
    fn a_power_is_a_repeated_product() {
        for base in 0..=u8::MAX {
            let mut product = 1;
            for exponent in 0..600 {
                assert_eq!(power(base, exponent), product, "{base} ^ {exponent}");
                product = multiply(product, base);
            }
        }
    }

    #[test]
    fn both_tables_of_the_kernels_say_what_multiply_says() {
        for constant in 0..=u8::MAX {
            let table = &NIBBLES[usize::from(constant)];
            let rows = AFFINE[usize::from(constant)].to_le_bytes();
            for element in 0..=u8::MAX {
                let product = multiply(constant, element);
                let low = table.low[usize::from(element & 15)];
                assert_eq!(low ^ table.high[usize::from(element >> 4)], product);
                let affine: u32 =
                    (0..8).map(|bit| ((rows[7 - bit] & element).count_ones() & 1) << bit).sum();
                assert_eq!(affine, u32::from(product));
            }
        }
    }
}
