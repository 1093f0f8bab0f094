//! A join as a planner sees it: two relations, what qualifies, and how many pairs there are.

use super::relation::{Footprint, IndexStats, LateStats, RelationStats};
use super::scale_up;
use crate::Relation;
use crate::allocation::JoinSizes;
use crate::join::JoinType;
use serde::{Deserialize, Serialize};

/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// One side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinSide {
    /// What is known of the stored table: its pages, rows and bytes.
    pub stats: RelationStats,
    /// An index on the join key, if there is one.
    pub index: Option<IndexStats>,
    /// How many tuples its predicate lets through, in millionths.
    pub selectivity_ppm: u64,
    /// Whether that predicate is a range of the join key, so that an index finds what qualifies.
    pub is_key_range: bool,
    /// How its rows may be put together late, if they may.
    #[serde(default)]
    pub late: Option<LateStats>,
}

impl JoinSide {
    /// A side without index and predicate.
    #[must_use]
    pub const fn new(stats: RelationStats) -> Self {
        Self { stats, index: None, selectivity_ppm: MILLION, is_key_range: false, late: None }
    }

    /// What a relation says of itself, without index and predicate.
    #[must_use]
    pub fn of(relation: &dyn Relation, page_bytes: u64) -> Self {
        let late = relation.late().map(|late| late.stats(page_bytes));
        Self { late, ..Self::new(relation.stats(page_bytes)) }
    }

    /// With an index on the join key.
    #[must_use]
    pub const fn with_index(mut self, index: IndexStats) -> Self {
        self.index = Some(index);
        self
    }

    /// How many pages and tuples of it a join sees.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        Footprint::new(&self.stats, self.selectivity_ppm)
    }

    /// How many of its tuples qualify.
    #[must_use]
    pub fn qualifying_count(&self) -> u64 {
        scale_up(self.stats.tuple_count, self.selectivity_ppm.min(MILLION), MILLION)
    }

    /// Entries of its index that have to be read: those in the range, or all.
    #[must_use]
    pub fn walked_count(&self) -> u64 {
        if self.is_key_range { self.qualifying_count() } else { self.stats.tuple_count }
    }
}

/// A join on equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinQuestion {
    /// R: the side that is hashed, or that leads.
    pub outer: JoinSide,
    /// The side that the joins call inner, S.
    pub inner: JoinSide,
    /// Pairs of equal keys, were there no predicates.
    pub pair_count: u64,
    /// Whether nobody knows that number: then joins whose writes depend on it keep to no budget.
    #[serde(default)]
    pub pairs_are_guessed: bool,
    /// Which rows come out, where R is the left side before anybody swaps.
    #[serde(default)]
    pub join_type: JoinType,
}

impl JoinQuestion {
    /// A question where each outer tuple meets so many inner tuples on average.
    #[must_use]
    pub const fn new(outer: JoinSide, inner: JoinSide, duplicates_per_key: u64) -> Self {
        let pair_count = outer.stats.tuple_count.saturating_mul(duplicates_per_key);
        let join_type = JoinType::Inner;
        Self { outer, inner, pair_count, pairs_are_guessed: false, join_type }
    }

    /// With another type than inner.
    #[must_use]
    pub const fn with_join_type(mut self, join_type: JoinType) -> Self {
        self.join_type = join_type;
        self
    }

    /// With a range of the join key as predicate: what holds for one side's key holds for the other's.
    #[must_use]
    pub const fn with_key_range(mut self, selectivity_ppm: u64) -> Self {
        self.outer.selectivity_ppm = selectivity_ppm;
        self.outer.is_key_range = true;
        self.inner.selectivity_ppm = selectivity_ppm;
        self.inner.is_key_range = true;
        self
    }

    /// With a predicate on other columns of the outer side.
    #[must_use]
    pub const fn with_outer_filter(mut self, selectivity_ppm: u64) -> Self {
        self.outer.selectivity_ppm = selectivity_ppm;
        self.outer.is_key_range = false;
        self
    }

    /// The same join of tables that are larger than known by so many millionths, in rows and in bytes, through
    /// the same indexes.
    #[must_use]
    pub fn larger_by(&self, ppm: u64) -> Self {
        let grown = |count: u64| scale_up(count, MILLION.saturating_add(ppm), MILLION);
        let relation = |stats: RelationStats| RelationStats {
            page_count: grown(stats.page_count),
            tuple_count: grown(stats.tuple_count),
            cell_bytes: grown(stats.cell_bytes),
            ..stats
        };
        let side = |side: &JoinSide| {
            let late = side.late.map(|late| LateStats {
                keys: relation(late.keys),
                row_count: grown(late.row_count),
                cell_bytes: grown(late.cell_bytes),
                ..late
            });
            JoinSide { stats: relation(side.stats), late, ..*side }
        };
        Self {
            outer: side(&self.outer),
            inner: side(&self.inner),
            pair_count: grown(self.pair_count),
            ..*self
        }
    }

    /// The same join with the sides in each other's place.
    #[must_use]
    pub const fn swapped(&self) -> Self {
        Self { outer: self.inner, inner: self.outer, ..*self }
    }

    /// Pairs that come out.
    #[must_use]
    pub fn result_count(&self) -> u64 {
        let of_outer = scale_up(self.pair_count, self.outer.selectivity_ppm.min(MILLION), MILLION);
        if self.outer.is_key_range && self.inner.is_key_range {
            return of_outer;
        }
        scale_up(of_outer, self.inner.selectivity_ppm.min(MILLION), MILLION)
    }

    /// Pairs that qualifying outer tuples make with inner tuples of any kind.
    #[must_use]
    pub fn outer_pair_count(&self) -> u64 {
        scale_up(self.pair_count, self.outer.selectivity_ppm.min(MILLION), MILLION)
    }

    /// The sizes of the outer and the inner side.
    #[must_use]
    pub fn footprints(&self) -> [Footprint; 2] {
        let each = |side: &JoinSide, partners: u64| {
            let of_key = self.pair_count.checked_div(partners).unwrap_or(1);
            side.footprint().with_tuples_per_key(of_key)
        };
        let sides = [
            each(&self.outer, self.inner.stats.tuple_count),
            each(&self.inner, self.outer.stats.tuple_count),
        ];
        let file_bytes = sides[0].spilled_bytes.saturating_add(sides[1].spilled_bytes);
        sides.map(|side| Footprint { spill_file_bytes: file_bytes, ..side })
    }

    /// The sizes that the allocation of a join by hashing needs.
    #[must_use]
    pub fn sizes(&self) -> JoinSizes {
        sizes_of(&self.outer.footprint(), &self.inner.footprint())
    }

    /// The sizes that the allocation of a sort needs.
    #[must_use]
    pub fn sort_sizes(&self) -> JoinSizes {
        let (outer, inner) = (self.outer.footprint(), self.inner.footprint());
        let (outer_fudge, inner_fudge) = (outer.sort_fudge(), inner.sort_fudge());
        JoinSizes { outer_fudge, inner_fudge, ..sizes_of(&outer, &inner) }
    }
}

/// The sizes that an allocation needs.
fn sizes_of(outer: &Footprint, inner: &Footprint) -> JoinSizes {
    JoinSizes {
        outer_pages: outer.stored_pages,
        inner_pages: inner.stored_pages,
        outer_fudge: outer.fudge(),
        inner_fudge: inner.fudge(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customers_and_orders() -> JoinQuestion {
        let customers = JoinSide::new(RelationStats::heap(100, 1000, 100, 8192));
        let orders = JoinSide::new(RelationStats::heap(1000, 10_000, 100, 8192));
        JoinQuestion::new(customers, orders, 10)
    }

    #[test]
    fn a_range_of_keys_binds_both_sides_once() {
        let question = customers_and_orders().with_key_range(10_000);
        assert_eq!(question.result_count(), 100);
        assert_eq!((question.outer.walked_count(), question.inner.walked_count()), (10, 100));
        assert_eq!(question.swapped().result_count(), 100);
    }

    #[test]
    fn another_predicate_leaves_the_index_to_be_read_whole() {
        let question = customers_and_orders().with_outer_filter(10_000);
        assert_eq!(question.result_count(), 100);
        assert_eq!((question.outer.walked_count(), question.inner.walked_count()), (1000, 10_000));
        assert_eq!(question.swapped().result_count(), 100);
    }
}
