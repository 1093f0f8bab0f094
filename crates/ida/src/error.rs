//! What can be wrong with a request for coding, each with what to do about it.

use crate::{FragmentSet, Kernel};
use std::fmt;

/// Why a code could not be made or used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdaError {
    /// There is no code of this shape.
    Shape {
        /// Fragments that suffice.
        m: usize,
        /// Fragments in all.
        n: usize,
    },
    /// This processor has not the instructions of the kernel.
    Kernel(Kernel),
    /// A list has another length than the code asks for.
    FragmentCount {
        /// Which parameter of the call the list is.
        list: &'static str,
        /// How many fragments it must hold.
        expected: usize,
        /// How many it holds.
        found: usize,
    },
    /// A fragment is longer or shorter than the first of the call, or than the part to update.
    FragmentLength {
        /// Which parameter of the call the list is.
        list: &'static str,
        /// Position in that list.
        position: usize,
        /// Bytes that it must have.
        expected: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// No fragment has this number.
    FragmentNumber {
        /// The number asked for.
        number: usize,
        /// Numbers below this one exist.
        limit: usize,
    },
    /// The fragment is plain data, of which nothing has to be computed.
    NotCoded {
        /// The number of the fragment.
        number: usize,
    },
    /// A part ends behind its fragment.
    Range {
        /// First byte of the part.
        offset: usize,
        /// Bytes of the part.
        length: usize,
        /// Bytes of the fragment.
        fragment_length: usize,
    },
    /// Fewer fragments than needed are left.
    TooFewFragments {
        /// Fragments that are needed.
        m: usize,
        /// Fragments that were not given, or not intact.
        lost: FragmentSet,
        /// Positions in the list given of those whose checksum failed; empty where none was checked.
        damaged: FragmentSet,
        /// Fragments that are left.
        left: FragmentSet,
    },
    /// A fragment was made by another code.
    ForeignCode {
        /// Position of the fragment.
        position: usize,
        /// Fragments that suffice in that code.
        m: u8,
        /// Fragments of that code.
        n: u8,
    },
    /// Two fragments belong to different objects.
    Mixed {
        /// Position of the first intact fragment.
        first: usize,
        /// Position of the one that does not match it.
        other: usize,
        /// In what they differ.
        field: &'static str,
    },
}

impl fmt::Display for IdaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { m, n } => write!(
                formatter,
                "ida: no code has m = {m} of n = {n} fragments; choose 1 <= m <= n <= 255"
            ),
            Self::Kernel(kernel) => write!(
                formatter,
                "ida: this processor cannot run the kernel {kernel}; it can run {}",
                Kernel::available().map(Kernel::name).collect::<Vec<_>>().join(", ")
            ),
            Self::FragmentCount { list, expected, found } => write!(
                formatter,
                "ida: {list} holds {found} fragments; this code needs {expected} there"
            ),
            Self::FragmentLength { list, position, expected, found } => write!(
                formatter,
                "ida: {list}[{position}] has {found} bytes, but {expected} are expected; \
                 pad all fragments to one length"
            ),
            Self::FragmentNumber { number, limit } => {
                write!(formatter, "ida: there is no fragment {number}; take one below {limit}")
            }
            Self::NotCoded { number } => {
                write!(formatter, "ida: fragment {number} is plain data; write the new bytes there")
            }
            Self::Range { offset, length, fragment_length } => write!(
                formatter,
                "ida: a part of {length} bytes at {offset} ends behind its fragment of \
                 {fragment_length} bytes; shorten it"
            ),
            Self::TooFewFragments { m, lost, damaged, left } => {
                write!(formatter, "ida: fragments {lost} are lost")?;
                if !damaged.is_empty() {
                    write!(formatter, ", for the checksum failed at positions {damaged}")?;
                }
                write!(
                    formatter,
                    "; {} of the {m} needed are left ({left}); provide {} more",
                    left.count(),
                    m.saturating_sub(left.count())
                )
            }
            Self::ForeignCode { position, m, n } => write!(
                formatter,
                "ida: fragments[{position}] is of another code, m = {m} of n = {n}; collect it \
                 with that code and its matrix"
            ),
            Self::Mixed { first, other, field } => write!(
                formatter,
                "ida: fragments[{first}] and fragments[{other}] differ in their {field}; \
                 collect fragments of one object only"
            ),
        }
    }
}

impl std::error::Error for IdaError {}
