//! Records of a fixed number of bytes, and the orders in which they are sorted.
//!
//! 1. The bytes of two records compare as the records do. So their first eight bytes, as a number,
//!    tell most pairs apart without a look at the rest.
//! 2. An order is total: records of which neither comes first are equal. What is sorted is
//!    therefore the same whatever sorts it.

use std::cmp::Ordering;
use std::fmt::Debug;

/// A value of a fixed number of bytes.
pub trait Record: Copy + Ord + Debug + Send + Sync + 'static {
    /// How many bytes it has.
    const BYTES: usize;

    /// Fills `bytes`, which has [`Self::BYTES`], in the order of the values (invariant 1).
    fn encode(&self, bytes: &mut [u8]);

    /// The inverse of [`Self::encode`]. Whoever can meet bytes that no record has gives some record
    /// for them: what is stored has a checksum.
    fn decode(bytes: &[u8]) -> Self;

    /// The first eight bytes as a number, filled up with zeros.
    #[inline]
    fn prefix(&self) -> u64 {
        debug_assert!(Self::BYTES <= ENCODED_BYTES_MAX, "long records say their prefix themselves");
        let mut bytes = [0; ENCODED_BYTES_MAX];
        self.encode(&mut bytes[..Self::BYTES]);
        first_eight(&bytes[..Self::BYTES])
    }
}

/// Bytes of the longest record that does not say itself what its prefix is.
const ENCODED_BYTES_MAX: usize = 64;

fn first_eight(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let count = bytes.len().min(8);
    first[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(first)
}

/// Unsigned numbers, the most significant byte first.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Record for $number {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            fn encode(&self, bytes: &mut [u8]) {
                // As an array, so that it is one store and not a call that copies.
                let bytes: &mut [u8; Self::BYTES] =
                    bytes.try_into().expect("a record has its bytes");
                *bytes = self.to_be_bytes();
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                Self::from_be_bytes(bytes.try_into().expect("a record has its bytes"))
            }

            #[inline]
            fn prefix(&self) -> u64 {
                u64::from(*self) << (64 - 8 * Self::BYTES)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl Record for i64 {
    const BYTES: usize = 8;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        self.prefix().encode(bytes);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        (u64::decode(bytes) ^ 1 << 63).cast_signed()
    }

    #[inline]
    fn prefix(&self) -> u64 {
        self.cast_unsigned() ^ 1 << 63
    }
}

impl<const N: usize> Record for [u8; N] {
    const BYTES: usize = N;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        let bytes: &mut [u8; N] = bytes.try_into().expect("a record has its bytes");
        *bytes = *self;
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        bytes.try_into().expect("a record has its bytes")
    }

    #[inline]
    fn prefix(&self) -> u64 {
        first_eight(self)
    }
}

impl<A: Record, B: Record> Record for (A, B) {
    const BYTES: usize = A::BYTES + B::BYTES;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        self.0.encode(&mut bytes[..A::BYTES]);
        self.1.encode(&mut bytes[A::BYTES..]);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        (A::decode(&bytes[..A::BYTES]), B::decode(&bytes[A::BYTES..]))
    }

    #[inline]
    fn prefix(&self) -> u64 {
        match A::BYTES {
            0 => self.1.prefix(),
            1..8 => self.0.prefix() | self.1.prefix() >> (8 * A::BYTES),
            _ => self.0.prefix(),
        }
    }
}

impl<A: Record, B: Record, C: Record> Record for (A, B, C) {
    const BYTES: usize = A::BYTES + B::BYTES + C::BYTES;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        self.0.encode(&mut bytes[..A::BYTES]);
        self.1.encode(&mut bytes[A::BYTES..A::BYTES + B::BYTES]);
        self.2.encode(&mut bytes[A::BYTES + B::BYTES..]);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        let (first, rest) = bytes.split_at(A::BYTES);
        let (second, third) = rest.split_at(B::BYTES);
        (A::decode(first), B::decode(second), C::decode(third))
    }

    #[inline]
    fn prefix(&self) -> u64 {
        (self.0, (self.1, self.2)).prefix()
    }
}

/// An order of records. A thread may sort by it.
pub trait Order<R>: Clone + Send + 'static {
    /// A number that is never greater for a record that comes first.
    fn prefix(&self, record: &R) -> u64;

    /// Which of two comes first; equal only where they are.
    fn compare(&self, left: &R, right: &R) -> Ordering;

    /// The same, by their prefixes where these tell.
    #[inline]
    fn compare_by_prefix(&self, left: &R, right: &R) -> Ordering {
        self.prefix(left).cmp(&self.prefix(right)).then_with(|| self.compare(left, right))
    }
}

/// The order of the values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Natural;

impl<R: Record> Order<R> for Natural {
    #[inline]
    fn prefix(&self, record: &R) -> u64 {
        record.prefix()
    }

    #[inline]
    fn compare(&self, left: &R, right: &R) -> Ordering {
        left.cmp(right)
    }
}

/// The order of a key that a function gives; of the values where keys are equal.
#[derive(Clone, Copy, Debug)]
pub struct By<F>(pub F);

impl<R: Record, K: Record, F: Fn(&R) -> K + Clone + Send + 'static> Order<R> for By<F> {
    #[inline]
    fn prefix(&self, record: &R) -> u64 {
        self.0(record).prefix()
    }

    #[inline]
    fn compare(&self, left: &R, right: &R) -> Ordering {
        self.0(left).cmp(&self.0(right)).then_with(|| left.cmp(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of a record.
    fn bytes_of<R: Record>(record: R) -> Vec<u8> {
        let mut bytes = vec![0; R::BYTES];
        record.encode(&mut bytes);
        bytes
    }

    /// Invariant 1 for two records, and that they come back.
    fn check<R: Record>(left: R, right: R) {
        let (left_bytes, right_bytes) = (bytes_of(left), bytes_of(right));
        assert_eq!((R::decode(&left_bytes), R::decode(&right_bytes)), (left, right));
        assert_eq!(left_bytes.cmp(&right_bytes), left.cmp(&right));
        assert_eq!(left.prefix(), first_eight(&left_bytes));
        assert_eq!(Natural.compare_by_prefix(&left, &right), left.cmp(&right));
    }

    proptest! {
        #[test]
        fn bytes_compare_as_records_do(
            left: (u64, u32, u16), right: (u64, u32, u16), narrow in 0_u64..3,
            arrays: ([u8; 11], [u8; 11]), signed: (i64, i64),
        ) {
            check(left.0, right.0);
            check(left.1, right.1);
            check(signed.0, signed.1);
            check(arrays.0, arrays.1);
            check((left.1, left.2), (right.1, right.2));
            check((left.1, left.0), (left.1, right.0));
            check((left.2, left.1, left.0), (left.2, right.1, right.0));
            check((narrow, left.1, signed.0), (narrow, right.1, signed.1));
            check([left.2.to_be_bytes()[0]; 3], [right.2.to_be_bytes()[0]; 3]);
        }

        #[test]
        fn an_order_by_a_key_is_total(left: (u64, u32), right: (u64, u32), same in 0_u32..2) {
            let order = By(|pair: &(u64, u32)| pair.1 / 1_000_000_000);
            let (left, right) = ((left.0, same), (right.0, right.1));
            let expected = (left.1 / 1_000_000_000, left).cmp(&(right.1 / 1_000_000_000, right));
            prop_assert_eq!(order.compare(&left, &right), expected);
            prop_assert_eq!(order.compare_by_prefix(&left, &right), expected);
        }
    }
}
