//! The way back: any m fragments give the data and every other fragment (S000 section 8.3).
//!
//! ```text
//!   fragments = A · data        A_S: the rows of A for the m fragments S that are read
//!   data      = A_S⁻¹ · S       a lost fragment with row a:  a · A_S⁻¹ · S
//! ```
//!
//! A [`Decoder`] is the product of the needed rows with the inverse, made once for a set of fragments.
//! A [`Reconstructor`] keeps those it has made, since the same members stay lost for long.
//!
//! 1. A decoder has m sources in ascending order, and a row of m coefficients for each output.
//! 2. A reconstructor keeps at most `limit` decoders; the one used longest ago leaves.

use crate::code::{check_count, check_lengths};
use crate::combine::{Product, Separate, Together};
use crate::matrix::Rows;
use crate::{Code, FragmentSet, IdaError, Kernel};
use std::collections::BTreeMap;

/// Computes certain fragments, or certain data, from m fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoder {
    m: usize,
    n: usize,
    kernel: Kernel,
    sources: Vec<u8>,
    outputs: Vec<u8>,
    rows: Rows,
}

impl Code {
    /// What computes the data fragments `data`, numbers below m, from m of the fragments `present`.
    /// With [`Matrix::Cauchy`](crate::Matrix::Cauchy) a present data fragment is the data: ask for
    /// the others only.
    ///
    /// # Errors
    /// [`IdaError::TooFewFragments`], [`IdaError::FragmentNumber`].
    pub fn decoder(&self, present: FragmentSet, data: FragmentSet) -> Result<Decoder, IdaError> {
        check_members(data, self.m())?;
        self.decoder_with(present, data, |inverse| inverse.select(data.iter()))
    }

    /// What computes the fragments `lost`, numbers below n, from m of the fragments `present`: data
    /// first, then coded ones in ascending order. Nothing that is lost is read.
    ///
    /// # Errors
    /// [`IdaError::TooFewFragments`], [`IdaError::FragmentNumber`].
    pub fn rebuilder(&self, present: FragmentSet, lost: FragmentSet) -> Result<Decoder, IdaError> {
        check_members(lost, self.n())?;
        let present = present.without(&lost);
        self.decoder_with(present, lost, |inverse| self.rows().select(lost.iter()).times(inverse))
    }

    fn decoder_with(
        &self,
        present: FragmentSet,
        outputs: FragmentSet,
        rows_of: impl FnOnce(&Rows) -> Rows,
    ) -> Result<Decoder, IdaError> {
        check_members(present, self.n())?;
        if present.count() < self.m() {
            let lost = FragmentSet::first(self.n()).without(&present);
            let damaged = FragmentSet::EMPTY;
            return Err(IdaError::TooFewFragments { m: self.m(), lost, damaged, left: present });
        }
        let sources: Vec<u8> = present.iter().take(self.m()).collect();
        let square = self.rows().select(sources.iter().copied());
        let inverse = square.inverse().expect("any m rows of a coding matrix are independent");
        let (m, n, kernel) = (self.m(), self.n(), self.kernel());
        Ok(Decoder {
            m,
            n,
            kernel,
            sources,
            outputs: outputs.iter().collect(),
            rows: rows_of(&inverse),
        })
    }
}

impl Decoder {
    /// The m fragments that it reads, ascending.
    #[must_use]
    pub fn sources(&self) -> &[u8] {
        &self.sources
    }

    /// The fragments, or data, that it computes, ascending.
    #[must_use]
    pub fn outputs(&self) -> &[u8] {
        &self.outputs
    }

    /// Computes the [`outputs`](Self::outputs) from the [`sources`](Self::sources), each list in its
    /// order, all of one length. Nothing is allocated.
    ///
    /// # Errors
    /// [`IdaError::FragmentCount`] and [`IdaError::FragmentLength`] for lists that do not fit; nothing
    /// is written then.
    pub fn decode<D, C>(&self, sources: &[D], outputs: &mut [C]) -> Result<(), IdaError>
    where
        D: AsRef<[u8]>,
        C: AsMut<[u8]>,
    {
        check_count("sources", sources.len(), self.m)?;
        check_count("outputs", outputs.len(), self.outputs.len())?;
        let length = sources[0].as_ref().len();
        check_lengths("sources", sources.iter().map(|source| source.as_ref().len()), length)?;
        check_lengths("outputs", outputs.iter_mut().map(|part| part.as_mut().len()), length)?;
        let fragments = &mut Separate { inputs: sources, outputs, output_offset: 0 };
        self.product(length).compute(self.kernel, fragments);
        Ok(())
    }

    /// Computes those of the n `fragments` that are [`outputs`](Self::outputs) from those that are
    /// [`sources`](Self::sources), in place; for a decoder that [`Code::rebuilder`] has made.
    fn rebuild<F>(&self, fragments: &mut [F]) -> Result<(), IdaError>
    where
        F: AsRef<[u8]> + AsMut<[u8]>,
    {
        check_count("fragments", fragments.len(), self.n)?;
        let length = fragments[usize::from(self.sources[0])].as_ref().len();
        let lengths = fragments.iter().map(|fragment| fragment.as_ref().len());
        check_lengths("fragments", lengths, length)?;
        let (inputs, outputs) = (&self.sources[..], &self.outputs[..]);
        let fragments = &mut Together { fragments, inputs, outputs };
        self.product(length).compute(self.kernel, fragments);
        Ok(())
    }

    fn product(&self, length: usize) -> Product<'_> {
        Product {
            rows: &self.rows,
            used_rows: 0..self.outputs.len(),
            used_columns: 0..self.m,
            length,
            accumulate: false,
        }
    }

    /// Asserts the numbered invariants of this file.
    pub fn audit(&self) {
        self.rows.audit();
        assert_eq!(self.sources.len(), self.m, "m sources (invariant 1)");
        assert!(self.sources.is_sorted(), "sources ascend (invariant 1)");
        assert_eq!(self.rows.count(), self.outputs.len(), "a row an output (invariant 1)");
    }
}

/// A code that remembers its decoders.
#[derive(Clone, Debug)]
pub struct Reconstructor {
    code: Code,
    limit: usize,
    uses: u64,
    kept: BTreeMap<(FragmentSet, FragmentSet), Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    last_use: u64,
    decoder: Decoder,
}

impl Reconstructor {
    /// Reconstructs with `code` and keeps up to `limit` decoders, at least one.
    #[must_use]
    pub fn new(code: Code, limit: usize) -> Self {
        Self { code, limit: limit.max(1), uses: 0, kept: BTreeMap::new() }
    }

    /// The code that it decodes.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// How many decoders it keeps now.
    #[must_use]
    pub fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// Computes every fragment that is not `present` from those that are, in place. `fragments` are
    /// all n, of one length; what those that are not present hold is not read. Nothing is allocated
    /// when the same fragments were present before.
    ///
    /// # Errors
    /// [`IdaError::TooFewFragments`] names the lost ones if fewer than m are present; else
    /// [`IdaError::FragmentCount`], [`IdaError::FragmentLength`], [`IdaError::FragmentNumber`].
    /// Nothing is written then.
    pub fn reconstruct<F>(
        &mut self,
        fragments: &mut [F],
        present: FragmentSet,
    ) -> Result<(), IdaError>
    where
        F: AsRef<[u8]> + AsMut<[u8]>,
    {
        let lost = FragmentSet::first(self.code.n()).without(&present);
        self.rebuilder(present, lost)?.rebuild(fragments)
    }

    /// As [`Code::rebuilder`], from memory if it was asked for lately.
    ///
    /// # Errors
    /// As [`Code::rebuilder`].
    pub fn rebuilder(
        &mut self,
        present: FragmentSet,
        lost: FragmentSet,
    ) -> Result<&Decoder, IdaError> {
        self.uses += 1;
        let key = (present, lost);
        if !self.kept.contains_key(&key) {
            let decoder = self.code.rebuilder(present, lost)?;
            if self.kept.len() >= self.limit {
                let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.last_use);
                let oldest = *oldest.expect("the limit is at least 1").0;
                self.kept.remove(&oldest);
            }
            self.kept.insert(key, Kept { last_use: self.uses, decoder });
        }
        let kept = self.kept.get_mut(&key).expect("it was there or has been made");
        kept.last_use = self.uses;
        Ok(&kept.decoder)
    }

    /// Asserts the numbered invariants of this file.
    pub fn audit(&self) {
        self.code.audit();
        assert!(self.kept.len() <= self.limit, "the limit is kept (invariant 2)");
        for kept in self.kept.values() {
            kept.decoder.audit();
            assert!(kept.last_use <= self.uses, "uses are counted (invariant 2)");
        }
    }
}

fn check_members(set: FragmentSet, limit: usize) -> Result<(), IdaError> {
    match set.without(&FragmentSet::first(limit)).iter().next() {
        Some(number) => Err(IdaError::FragmentNumber { number: usize::from(number), limit }),
        None => Ok(()),
    }
}
