//! A code: n fragments of which any m give back all others, after Rabin ("Efficient dispersal of
//! information for security, load balancing, and fault tolerance", J. ACM 36(2), 1989) as S000 section
//! 8.3 tells it.
//!
//! ```text
//!   data 0  ┐          ┌ fragment 0  ┐ = data 0      The thesis fills the matrix of data column by
//!    …      ├─ matrix ─┤  …          ├ = …           column, here each data fragment is a run of
//!   data m-1┘  n × m   ├ fragment m-1┘ = data m-1    the object: no byte is moved to encode.
//!                      ├ fragment m    coded
//!                      └ fragment n-1  coded         Vandermonde: all n are coded.
//! ```
//!
//! Special cases with [`Matrix::Cauchy`]: m = n is striping, m = 1 mirroring, m = n − 1 RAID 5.
//!
//! 1. 1 <= m <= n <= 255, and the matrix has n rows and m columns.
//! 2. With [`Matrix::Cauchy`] the first m rows are the identity.
//! 3. The kernel is available.

use crate::combine::{Product, Separate};
use crate::matrix::Rows;
use crate::{FragmentSet, IdaError, Kernel, Matrix, checksum};
use std::ops::Range;

/// Bytes of a difference that is computed before it is multiplied; it stays in the cache.
const DELTA_BYTES: usize = 4 << 10;

/// A code of m of n fragments. Cheap to share, costly to make: make one and keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    m: usize,
    n: usize,
    matrix: Matrix,
    rows: Rows,
    kernel: Kernel,
}

impl Code {
    /// A code of `n` fragments of which any `m` suffice, with the fastest kernel of this processor.
    ///
    /// # Errors
    /// [`IdaError::Shape`] unless 1 <= m <= n <= 255.
    pub fn new(m: usize, n: usize, matrix: Matrix) -> Result<Self, IdaError> {
        if m == 0 || m > n || n > 255 {
            return Err(IdaError::Shape { m, n });
        }
        let rows = Rows::coding(matrix, m, n);
        Ok(Self { m, n, matrix, rows, kernel: Kernel::best() })
    }

    /// The same code with another kernel; its fragments are the same.
    ///
    /// # Errors
    /// [`IdaError::Kernel`] if this processor cannot run it.
    pub fn with_kernel(self, kernel: Kernel) -> Result<Self, IdaError> {
        if !kernel.is_available() {
            return Err(IdaError::Kernel(kernel));
        }
        Ok(Self { kernel, ..self })
    }

    /// How many fragments suffice, which is how many data fragments there are.
    #[must_use]
    pub fn m(&self) -> usize {
        self.m
    }

    /// How many fragments there are.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// How many fragments may be lost: n − m.
    #[must_use]
    pub fn spare_count(&self) -> usize {
        self.n - self.m
    }

    /// Which matrix it uses.
    #[must_use]
    pub fn matrix(&self) -> Matrix {
        self.matrix
    }

    /// Which instructions it uses.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The fragments that [`encode`](Self::encode) computes: m to n with [`Matrix::Cauchy`], whose
    /// first m fragments are the data, and 0 to n with [`Matrix::Vandermonde`].
    #[must_use]
    pub fn coded_fragments(&self) -> Range<usize> {
        match self.matrix {
            Matrix::Cauchy => self.m..self.n,
            Matrix::Vandermonde => 0..self.n,
        }
    }

    /// Bytes of each fragment of an object of `object_bytes`: the m-th part, rounded up. The object is
    /// to be padded with zeros to m times that; its length has to be kept elsewhere. A
    /// [`Dispersal`](crate::Dispersal) does both.
    #[must_use]
    pub fn fragment_length(&self, object_bytes: usize) -> usize {
        object_bytes.div_ceil(self.m)
    }

    /// Computes the [`coded_fragments`](Self::coded_fragments), in that order, from the m fragments
    /// of `data`. All have one length, which may be any, also 0. Nothing is allocated.
    ///
    /// # Errors
    /// [`IdaError::FragmentCount`] and [`IdaError::FragmentLength`] for lists that do not fit; nothing
    /// is written then.
    pub fn encode<D, C>(&self, data: &[D], coded: &mut [C]) -> Result<(), IdaError>
    where
        D: AsRef<[u8]>,
        C: AsMut<[u8]>,
    {
        check_count("data", data.len(), self.m)?;
        check_count("coded", coded.len(), self.coded_fragments().len())?;
        let length = data[0].as_ref().len();
        check_lengths("data", data.iter().map(|fragment| fragment.as_ref().len()), length)?;
        check_lengths("coded", coded.iter_mut().map(|part| part.as_mut().len()), length)?;
        let product = Product {
            rows: &self.rows,
            used_rows: self.coded_fragments(),
            used_columns: 0..self.m,
            length,
            accumulate: false,
        };
        let fragments = &mut Separate { inputs: data, outputs: coded, output_offset: 0 };
        product.compute(self.kernel, fragments);
        Ok(())
    }

    /// Brings the coded fragments up to date after a part of data fragment `changed` has changed at
    /// `offset` from `old` to `new`, which have one length. It reads and writes that part only of
    /// each of `coded`, which are whole [`coded_fragments`](Self::coded_fragments), in that order.
    ///
    /// # Errors
    /// [`IdaError::FragmentNumber`] unless `changed` < m; [`IdaError::FragmentCount`],
    /// [`IdaError::FragmentLength`] and [`IdaError::Range`] for lists and parts that do not fit;
    /// nothing is written then.
    pub fn update<C: AsMut<[u8]>>(
        &self,
        changed: usize,
        offset: usize,
        old: &[u8],
        new: &[u8],
        coded: &mut [C],
    ) -> Result<(), IdaError> {
        check_number(changed, self.m)?;
        check_count("coded", coded.len(), self.coded_fragments().len())?;
        check_lengths("[old, new]", [old.len(), new.len()].into_iter(), old.len())?;
        for fragment in coded.iter_mut() {
            check_range(offset, old.len(), fragment.as_mut().len())?;
        }
        let mut delta = [0; DELTA_BYTES];
        for start in (0..old.len()).step_by(DELTA_BYTES) {
            let length = DELTA_BYTES.min(old.len() - start);
            let delta = &mut delta[..length];
            delta.copy_from_slice(&new[start..][..length]);
            delta.iter_mut().zip(&old[start..]).for_each(|(new, &old)| *new ^= old);
            self.add_delta(self.coded_fragments(), changed, delta, coded, offset + start);
        }
        Ok(())
    }

    /// Brings a part of one coded fragment up to date: `delta` is the exclusive or of the old and the
    /// new bytes of data fragment `changed`, `part` the bytes of `fragment` at the same place. For
    /// members that keep their fragments apart.
    ///
    /// # Errors
    /// [`IdaError::FragmentNumber`] unless `changed` < m and `fragment` < n; [`IdaError::NotCoded`] if
    /// `fragment` is plain data; [`IdaError::FragmentLength`] if `part` and `delta` differ in length.
    pub fn update_fragment(
        &self,
        fragment: usize,
        changed: usize,
        delta: &[u8],
        part: &mut [u8],
    ) -> Result<(), IdaError> {
        check_number(changed, self.m)?;
        check_number(fragment, self.n)?;
        if !self.coded_fragments().contains(&fragment) {
            return Err(IdaError::NotCoded { number: fragment });
        }
        check_lengths("[delta, part]", [delta.len(), part.len()].into_iter(), delta.len())?;
        self.add_delta(fragment..fragment + 1, changed, delta, &mut [part], 0);
        Ok(())
    }

    fn add_delta<C: AsMut<[u8]>>(
        &self,
        used_rows: Range<usize>,
        changed: usize,
        delta: &[u8],
        coded: &mut [C],
        output_offset: usize,
    ) {
        let product = Product {
            rows: &self.rows,
            used_rows,
            used_columns: changed..changed + 1,
            length: delta.len(),
            accumulate: true,
        };
        let fragments = &mut Separate { inputs: &[delta], outputs: coded, output_offset };
        product.compute(self.kernel, fragments);
    }

    /// The fragments that are given and have their checksum: those that the others can be computed
    /// from. One that does not is as good as lost. `fragments` are all n, `None` where one is missing;
    /// `checksums` are what [`checksum`](crate::checksum) said of each.
    ///
    /// # Errors
    /// [`IdaError::FragmentCount`] unless both lists hold n.
    pub fn intact<D: AsRef<[u8]>>(
        &self,
        fragments: &[Option<D>],
        checksums: &[u32],
    ) -> Result<FragmentSet, IdaError> {
        check_count("fragments", fragments.len(), self.n)?;
        check_count("checksums", checksums.len(), self.n)?;
        let all = (0..=u8::MAX).zip(fragments.iter().zip(checksums));
        let intact = all.filter(|(_, (fragment, expected))| {
            fragment.as_ref().is_some_and(|fragment| checksum(fragment.as_ref()) == **expected)
        });
        Ok(intact.map(|(number, _)| number).collect())
    }

    /// The rows of the coding matrix.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Asserts the numbered invariants of this file.
    pub fn audit(&self) {
        self.rows.audit();
        assert!((1..=self.n).contains(&self.m), "1 <= m <= n (invariant 1)");
        assert!(self.n <= 255, "n <= 255 (invariant 1)");
        assert!(self.kernel.is_available(), "the kernel is available (invariant 3)");
        for row in 0..self.coded_fragments().start {
            let ones = self.rows.row(row).iter().enumerate();
            let unit = ones.map(|(column, &entry)| entry == u8::from(column == row));
            assert!(unit.into_iter().all(|fits| fits), "data rows are unit vectors (invariant 2)");
        }
    }
}

/// # Errors
/// [`IdaError::FragmentCount`] unless `found` is `expected`.
pub(crate) fn check_count(
    list: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), IdaError> {
    if found == expected {
        return Ok(());
    }
    Err(IdaError::FragmentCount { list, expected, found })
}

/// # Errors
/// [`IdaError::FragmentLength`] for the first of `lengths` that is not `expected`.
pub(crate) fn check_lengths(
    list: &'static str,
    lengths: impl Iterator<Item = usize>,
    expected: usize,
) -> Result<(), IdaError> {
    match lengths.enumerate().find(|&(_, found)| found != expected) {
        Some((position, found)) => {
            Err(IdaError::FragmentLength { list, position, expected, found })
        }
        None => Ok(()),
    }
}

fn check_number(number: usize, limit: usize) -> Result<(), IdaError> {
    if number < limit { Ok(()) } else { Err(IdaError::FragmentNumber { number, limit }) }
}

fn check_range(offset: usize, length: usize, fragment_length: usize) -> Result<(), IdaError> {
    match offset.checked_add(length) {
        Some(end) if end <= fragment_length => Ok(()),
        _ => Err(IdaError::Range { offset, length, fragment_length }),
    }
}
