//! Coding matrices of n rows and m columns of which every m rows are independent, after S000 section
//! 8.3, which asks for n vectors of which any m are; and their inverses.
//!
//! ```text
//!                 Cauchy (systematic)               Vandermonde
//!             ┌ 1  0  0 … 0 ┐                ┌ 1  1  1 … 1            ┐
//!      m rows │ 0  1  0 … 0 │                │ 1  2  4 … 2^(m−1)      │  row i: the powers
//!             │      …      │                │ 1  3  5 … 3^(m−1)      │  of i + 1
//!             ├ 1  1  1 … 1 ┤                │        …               │
//!  n − m rows │ 1  c  d … e │ 1/(x_i + y_j), └ 1  n  n² … n^(m−1)     ┘
//!             └ 1  f  g … h ┘ scaled
//! ```
//!
//! Scaling a row or a column of a Cauchy matrix by a non-zero constant leaves every square submatrix
//! invertible. So columns are scaled until the first row of parity is all ones, then rows until the
//! first column is: one parity fragment is the exclusive or of the data, as in RAID 5, and with m = 1
//! every fragment is a copy.
//!
//! 1. The matrix is stored by rows; `bytes.len()` is `rows * columns`.

use crate::field::{inverse, multiply, power};

/// Which coding matrix a [`Code`](crate::Code) uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Matrix {
    /// The identity above a scaled Cauchy matrix: the first m fragments are the data as it is.
    #[default]
    Cauchy,
    /// Powers of distinct elements, as the thesis describes Rabin's scheme: no fragment is plain
    /// data, unless m is 1.
    Vandermonde,
}

/// Some rows of field elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    columns: usize,
    bytes: Vec<u8>,
}

impl Rows {
    fn zero(rows: usize, columns: usize) -> Self {
        Self { columns, bytes: vec![0; rows * columns] }
    }

    fn identity(size: usize) -> Self {
        let mut rows = Self::zero(size, size);
        (0..size).for_each(|index| rows.row_mut(index)[index] = 1);
        rows
    }

    /// The coding matrix of kind `matrix` for `m` of `n` fragments, 1 <= m <= n <= 255.
    pub(crate) fn coding(matrix: Matrix, m: usize, n: usize) -> Self {
        match matrix {
            Matrix::Cauchy => Self::cauchy(m, n),
            Matrix::Vandermonde => Self::vandermonde(m, n),
        }
    }

    fn vandermonde(m: usize, n: usize) -> Self {
        let mut rows = Self::zero(n, m);
        for (row, base) in (0..n).zip(1..=u8::MAX) {
            for (column, entry) in rows.row_mut(row).iter_mut().enumerate() {
                *entry = power(base, column);
            }
        }
        rows
    }

    fn cauchy(m: usize, n: usize) -> Self {
        let mut rows = Self::zero(n, m);
        (0..m).for_each(|index| rows.row_mut(index)[index] = 1);
        // x_i is i for parity row i >= m and y_j is j for column j < m, so no two are equal.
        let reciprocal = |element: u8| inverse(element).expect("x_i differs from every y_j");
        for (row, x) in (0..=u8::MAX).enumerate().take(n).skip(m) {
            let first = multiply(reciprocal(x), to_element(m));
            let row_scale = reciprocal(first);
            for (entry, y) in rows.row_mut(row).iter_mut().zip(0..=u8::MAX) {
                let column_scale = to_element(m) ^ y;
                *entry = multiply(multiply(reciprocal(x ^ y), column_scale), row_scale);
            }
        }
        rows
    }

    /// How many rows there are.
    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / self.columns
    }

    pub(crate) fn row(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.columns..][..self.columns]
    }

    fn row_mut(&mut self, row: usize) -> &mut [u8] {
        &mut self.bytes[row * self.columns..][..self.columns]
    }

    /// The given rows of this matrix, in the given order.
    pub(crate) fn select(&self, rows: impl Iterator<Item = u8>) -> Self {
        let mut selected = Self { columns: self.columns, bytes: Vec::new() };
        rows.for_each(|row| selected.bytes.extend_from_slice(self.row(usize::from(row))));
        selected
    }

    /// This matrix times `right`, which has as many rows as this one has columns.
    pub(crate) fn times(&self, right: &Self) -> Self {
        let mut product = Self::zero(self.count(), right.columns);
        for row in 0..self.count() {
            for (inner, &factor) in self.row(row).iter().enumerate() {
                add_multiple(product.row_mut(row), factor, right.row(inner));
            }
        }
        product
    }

    /// The inverse of a square matrix by elimination, `None` if its rows are dependent.
    pub(crate) fn inverse(mut self) -> Option<Self> {
        let size = self.columns;
        assert_eq!(self.bytes.len(), size * size, "only square matrices have an inverse");
        let mut result = Self::identity(size);
        let mut pivot_row = Vec::with_capacity(2 * size);
        for column in 0..size {
            let pivot = (column..size).find(|&row| self.row(row)[column] != 0)?;
            self.swap(pivot, column);
            result.swap(pivot, column);
            let scale = inverse(self.row(column)[column])?;
            for matrix in [&mut self, &mut result] {
                let row = matrix.row_mut(column);
                row.iter_mut().for_each(|entry| *entry = multiply(*entry, scale));
            }
            pivot_row.clear();
            pivot_row.extend_from_slice(self.row(column));
            pivot_row.extend_from_slice(result.row(column));
            for row in (0..size).filter(|&row| row != column) {
                let factor = self.row(row)[column];
                add_multiple(self.row_mut(row), factor, &pivot_row[..size]);
                add_multiple(result.row_mut(row), factor, &pivot_row[size..]);
            }
        }
        Some(result)
    }

    fn swap(&mut self, left: usize, right: usize) {
        for column in 0..self.columns {
            self.bytes.swap(left * self.columns + column, right * self.columns + column);
        }
    }

    /// Asserts the numbered invariants of this file.
    pub(crate) fn audit(&self) {
        assert!(self.columns > 0, "a matrix has columns");
        assert!(self.bytes.len().is_multiple_of(self.columns), "rows are whole (invariant 1)");
    }
}

/// `target + factor * source`, entry by entry.
fn add_multiple(target: &mut [u8], factor: u8, source: &[u8]) {
    if factor != 0 {
        let pairs = target.iter_mut().zip(source);
        pairs.for_each(|(target, &source)| *target ^= multiply(factor, source));
    }
}

fn to_element(number: usize) -> u8 {
    u8::try_from(number).expect("m is at most 255")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_parity_row_is_raid_5_and_one_data_column_is_copies() {
        for m in 1..=254 {
            assert!(Rows::cauchy(m, m + 1).row(m).iter().all(|&entry| entry == 1));
        }
        let copies = Rows::cauchy(1, 255);
        assert!(copies.bytes.iter().all(|&entry| entry == 1));
        assert_eq!(copies, Rows::vandermonde(1, 255));
    }

    #[test]
    fn m_equal_to_n_is_plain_striping_with_cauchy() {
        assert_eq!(Rows::cauchy(255, 255), Rows::identity(255));
    }

    #[test]
    fn any_m_rows_of_every_code_up_to_eight_fragments_have_an_inverse() {
        for matrix in [Matrix::Cauchy, Matrix::Vandermonde] {
            for n in 1..=8_u8 {
                for chosen in 1_u32..1 << n {
                    let rows = || (0..n).filter(move |row| chosen >> row & 1 == 1);
                    let m = rows().count();
                    let square = Rows::coding(matrix, m, usize::from(n)).select(rows());
                    let inverse = square.clone().inverse().expect("independent rows");
                    assert_eq!(square.times(&inverse), Rows::identity(m));
                }
            }
        }
    }

    #[test]
    fn dependent_rows_have_no_inverse() {
        let rows = Rows::vandermonde(3, 5).select([0, 4, 4].into_iter());
        assert_eq!(rows.inverse(), None);
        assert_eq!(Rows::zero(2, 2).inverse(), None);
    }

    #[test]
    fn wide_codes_invert_their_last_rows() {
        for (matrix, m) in [(Matrix::Cauchy, 127), (Matrix::Vandermonde, 100)] {
            let rows = Rows::coding(matrix, m, 254);
            let last = rows.select((0..254).skip(254 - m));
            let inverse = last.clone().inverse().expect("independent rows");
            assert_eq!(inverse.times(&last), Rows::identity(m));
        }
    }
}
