//! Figures as products: a derived series is the ratio of two others, which may be derived as well; taken apart
//! to the end it is a product of powers of measured series.
//!
//! ```text
//!   faster  = a.read / b.read          a.read ^ 1   b.read ^ -1
//!   slower  = b.read / a.read          a.read ^ -1  b.read ^ 1      a multiple of the row above
//!   gain    = faster / c.ratio         …
//! ```
//!
//! A product is a row of exponents. What products of several figures, of any powers, reach is what their rows
//! span: who knows those knows this.
//!
//! A whole and its parts are tied as well: who knows the ratios of all of them but one to one of them, knows that one's.
//!
//! 1. No exponent is 0, so that what cancels is the empty product.

use std::collections::BTreeMap;

/// A product of powers of measured series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Product(BTreeMap<String, i64>);

impl Product {
    /// The product that is one measured series.
    pub(crate) fn of(series: &str) -> Self {
        Self(BTreeMap::from([(series.to_owned(), 1)]))
    }

    /// Multiplies by `other` to the power of `exponent`.
    pub(crate) fn multiply(&mut self, other: &Self, exponent: i64) {
        for (series, power) in &other.0 {
            *self.0.entry(series.clone()).or_insert(0) += power * exponent;
        }
        self.0.retain(|_, power| *power != 0);
    }

    /// Whether everything cancels: it is 1, whatever is measured.
    pub(crate) fn is_one(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a series is in both.
    pub(crate) fn shares_series_with(&self, other: &Self) -> bool {
        self.0.keys().any(|series| other.0.contains_key(series))
    }

    /// Takes out the leading series of `pivot`, by the smallest whole multiples of both.
    fn reduce_by(&mut self, pivot: &Self) {
        let (series, lead) = pivot.0.iter().next().expect("the empty product is no pivot");
        let Some(&power) = self.0.get(series) else { return };
        let divisor = common(lead.abs(), power.abs());
        self.0.values_mut().for_each(|value| *value *= lead / divisor);
        self.multiply(pivot, -power / divisor);
    }
}

/// Whether `wanted` is a product of powers of `figures`.
pub(crate) fn follows(wanted: &Product, figures: &[&Product]) -> bool {
    // Elimination: no row has the leading series of one before it.
    let mut rows: Vec<Product> = Vec::new();
    let rest = |product: &Product, rows: &[Product]| {
        let mut rest = product.clone();
        rows.iter().for_each(|row| rest.reduce_by(row));
        rest
    };
    for figure in figures {
        let row = rest(figure, &rows);
        if !row.is_one() {
            rows.push(row);
        }
    }
    rest(wanted, &rows).is_one()
}

/// `figures`, and with them what follows from the `sums` in which all but one of whole and parts are known beside
/// each other.
pub(crate) fn with_sums(figures: &[&Product], sums: &[Vec<Product>]) -> Vec<Product> {
    let mut known: Vec<Product> = figures.iter().map(|figure| (*figure).clone()).collect();
    loop {
        let mut found = None;
        for sum in sums {
            let is_named =
                |one: &&Product| known.iter().any(|figure| figure.shares_series_with(one));
            if sum.iter().filter(is_named).count() + 1 < sum.len() {
                continue;
            }
            let figures: Vec<&Product> = known.iter().collect();
            let over = |one: &Product, other: &Product| {
                let mut ratio = one.clone();
                ratio.multiply(other, -1);
                ratio
            };
            for (index, missing) in sum.iter().enumerate() {
                let mut others = sum.iter().enumerate().filter(|(at, _)| *at != index);
                let Some((_, base)) = others.next() else { continue };
                let mut rest = others.map(|(_, other)| over(other, base));
                let ratio = over(missing, base);
                if rest.all(|other| follows(&other, &figures)) && !follows(&ratio, &figures) {
                    found = Some(ratio);
                }
            }
        }
        match found {
            Some(ratio) => known.push(ratio),
            None => return known,
        }
    }
}

/// The greatest common divisor.
fn common(one: i64, other: i64) -> i64 {
    if other == 0 { one } else { common(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(powers: &[(&str, i64)]) -> Product {
        let mut product = Product::default();
        for (series, power) in powers {
            product.multiply(&Product::of(series), *power);
        }
        product
    }

    #[test]
    fn what_cancels_is_one() {
        assert!(product(&[("a", 1), ("b", 2), ("a", -1), ("b", -2)]).is_one());
        assert!(!product(&[("a", 1), ("b", -1)]).is_one());
    }

    #[test]
    fn what_follows_is_what_the_rows_span() {
        let over = |one: &'static str, other: &'static str| product(&[(one, 1), (other, -1)]);
        let (ab, bc, cd) = (over("a", "b"), over("b", "c"), over("c", "d"));
        assert!(follows(&over("a", "d"), &[&cd, &ab, &bc]), "a chain of ratios");
        assert!(follows(&over("c", "a"), &[&ab, &bc]), "the inverse");
        assert!(follows(&product(&[("a", 2), ("b", -1), ("c", -1)]), &[&bc, &ab]));
        assert!(!follows(&over("a", "d"), &[&ab, &bc]));
        assert!(!follows(&Product::of("a"), &[&ab, &bc, &cd]), "ratios make no value");
        assert!(follows(
            &Product::of("a"),
            &[&product(&[("a", 3), ("b", 3)]), &product(&[("b", 2)])]
        ));
        assert!(!follows(&ab, &[]) && follows(&Product::default(), &[]));
    }

    #[test]
    fn a_sum_follows_from_all_of_its_parts_and_a_part_from_the_rest() {
        let [whole, io, user, kernel] = ["whole", "io", "user", "kernel"].map(Product::of);
        let sums = [vec![whole.clone(), io.clone(), user.clone(), kernel.clone()]];
        let follows_from = |wanted: &Product, figures: &[&Product]| {
            let known = with_sums(figures, &sums);
            follows(wanted, &known.iter().collect::<Vec<_>>())
        };
        assert!(follows_from(&whole, &[&io, &user, &kernel]));
        assert!(!follows_from(&whole, &[&io, &user]));
        assert!(follows_from(&kernel, &[&io, &user, &whole]));
        let over = |one: &'static str, other: &'static str| product(&[(one, 1), (other, -1)]);
        let [by_user, by_kernel] = [over("user", "io"), over("kernel", "io")];
        assert!(follows_from(&over("whole", "kernel"), &[&by_user, &by_kernel]), "all over one");
        assert!(!follows_from(&whole, &[&by_user, &by_kernel]), "ratios make no value");
    }
}
