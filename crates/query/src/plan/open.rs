//! From a plan to the operator that carries it out.
//!
//! 1. What is opened takes no more memory than the plan says.

use super::{Division, Plan};
use crate::allocation::{self, GraceHash as GraceParts, HybridHash as HybridParts};
use crate::cost::join::{IndexMergeMemory, OuterAccess};
use crate::index::{FetchOrder, IndexLookup, KeyRange};
use crate::join::hybrid_hash::BuiltSide;
use crate::join::{
    BlockNestedLoops, FlashJoin, GraceHash, HybridHash, IndexNestedLoops, IndexSortMerge, Join,
    JoinStream, NestedLoops, RareJoin, Side, SortMerge, block_nested_loops, flash_join, grace_hash,
    hybrid_hash, index_nested_loops, index_sort_merge, nested_loops, rare_join, sort_merge,
};
use crate::{Execution, QueryError, sort};
use serde::{Deserialize, Serialize};

/// Where a chunk of block nested loops ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkRule {
    /// When its table is full.
    #[default]
    ByBytes,
    /// After as many pages of the outer side as S001 counts: the table over F.
    ByPages,
}

/// The indexes on the join key, of the sides that have one.
#[derive(Clone, Copy, Default)]
pub struct Indexes<'x> {
    /// The index on the left side's key, if there is one.
    pub left: Option<&'x dyn IndexLookup>,
    /// The index on the right side's key, if there is one.
    pub right: Option<&'x dyn IndexLookup>,
}

impl<'x> Indexes<'x> {
    /// No index on either side.
    pub const NONE: Self = Self { left: None, right: None };

    /// The index of one of the two sides.
    #[must_use]
    pub const fn of(&self, side: Side) -> Option<&'x dyn IndexLookup> {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }
}

impl Plan {
    /// The side of `join` that this plan's question calls outer. The question has the left side there.
    #[must_use]
    pub const fn outer_side(&self) -> Side {
        if self.is_swapped { Side::Right } else { Side::Left }
    }

    /// Whether [`Self::open`] opens it with these indexes.
    #[must_use]
    pub fn is_opened_with(&self, indexes: Indexes<'_>) -> bool {
        match self.division {
            Division::IndexNestedLoops { access, .. } => {
                access == OuterAccess::TableScan && indexes.of(self.outer_side().other()).is_some()
            }
            Division::IndexSortMerge(_) => indexes.left.is_some() && indexes.right.is_some(),
            _ => true,
        }
    }

    /// Opens the join in all memory of the execution; the plan was made for as much. `indexes` are those that
    /// the plan's question had.
    ///
    /// # Errors
    /// If there is less memory, an index is missing, or this kind does not do the type of join with this side
    /// as outer one.
    pub fn open<'x>(
        &self,
        execution: &'x Execution,
        join: Join<'x>,
        indexes: Indexes<'x>,
        rule: ChunkRule,
    ) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let (outer, pages) = (self.outer_side(), execution.limits().memory_pages);
        let missing = || QueryError::Invalid { what: format!("{} needs its index", self.kind) };
        Ok(match self.division {
            Division::NestedLoops => {
                let settings = nested_loops_settings(join, outer, pages);
                Box::new(NestedLoops::new(execution, join, settings)?)
            }
            Division::BlockNestedLoops(parts) => {
                let settings = block_nested_loops_settings(&parts, outer, rule);
                Box::new(BlockNestedLoops::new(execution, join, settings)?)
            }
            Division::IndexNestedLoops { memory, order, .. } => {
                let index = indexes.of(outer.other()).filter(|_| self.is_opened_with(indexes));
                let settings = index_nested_loops::Settings {
                    outer,
                    input_pages: narrow(memory.input_pages),
                    batch_pages: narrow(memory.batch_pages),
                    inner_pages: narrow(memory.inner_pages),
                    batch_rows_max: None,
                    order,
                };
                let index = index.ok_or_else(missing)?;
                Box::new(IndexNestedLoops::new(execution, join, index, settings)?)
            }
            Division::IndexSortMerge(parts) => {
                let both = indexes.left.zip(indexes.right).ok_or_else(missing)?;
                let settings = index_sort_merge_settings(&parts, outer);
                Box::new(IndexSortMerge::new(execution, join, both, &settings)?)
            }
            Division::SortMerge(parts) => Box::new(SortMerge::new(
                execution,
                join,
                sort_merge_settings(&parts, outer, pages),
            )?),
            Division::GraceHash(parts) => {
                let settings = grace_hash_settings(&parts);
                Box::new(GraceHash::new(execution, join, settings)?)
            }
            Division::HybridHash(parts) => {
                let settings = hybrid_hash_settings(&parts, join, outer, execution);
                Box::new(HybridHash::new(execution, join, settings)?)
            }
            Division::FlashJoin(parts) => {
                let kernel = (parts.kernel_pages, &parts.kernel);
                let settings = flash_join::Settings {
                    kernel: kernel_settings(kernel, join, outer, execution),
                    batch_pages: narrow(parts.batch_pages),
                    fetch_pages: narrow(parts.fetch_pages),
                };
                Box::new(FlashJoin::new(execution, join, settings)?)
            }
            Division::RareJoin(parts) => {
                let kernel = (parts.kernel_pages, &parts.kernel);
                let settings = rare_join::Settings {
                    kernel: kernel_settings(kernel, join, outer, execution),
                    sort_pages: narrow(parts.sort_pages),
                    fetch_pages: narrow(parts.fetch_pages),
                    row_pages: narrow(parts.row_pages),
                };
                Box::new(RareJoin::new(execution, join, settings)?)
            }
        })
    }
}

fn index_sort_merge_settings(parts: &IndexMergeMemory, outer: Side) -> index_sort_merge::Settings {
    let (outer_pages, inner_pages) = (narrow(parts.outer_pages), narrow(parts.inner_pages));
    let (left_pages, right_pages) = match outer {
        Side::Left => (outer_pages, inner_pages),
        Side::Right => (inner_pages, outer_pages),
    };
    index_sort_merge::Settings {
        left_pages,
        right_pages,
        order: FetchOrder::Address,
        left_range: KeyRange::ALL,
        right_range: KeyRange::ALL,
    }
}

fn block_nested_loops_settings(
    parts: &allocation::BlockNestedLoops,
    outer: Side,
    rule: ChunkRule,
) -> block_nested_loops::Settings {
    block_nested_loops::Settings {
        outer,
        table_pages: narrow(parts.outer_pages),
        input_pages: narrow(parts.inner_pages),
        chunk_pages: match rule {
            ChunkRule::ByBytes => None,
            ChunkRule::ByPages => Some(narrow(parts.chunk_pages)),
        },
    }
}

fn nested_loops_settings(join: Join<'_>, outer: Side, pages: u32) -> nested_loops::Settings {
    let outer_pages = join.input(outer).relation.scan_pages_min();
    let inner_pages = pages.saturating_sub(outer_pages);
    nested_loops::Settings { outer, outer_pages, inner_pages, inner_is_unique: false }
}

fn grace_hash_settings(parts: &GraceParts) -> grace_hash::Settings {
    grace_hash::Settings {
        bucket_count: narrow(parts.bucket_count),
        input_pages: narrow(parts.input_pages),
        output_pages: narrow(parts.output_pages),
    }
}

fn sort_merge_settings(
    parts: &allocation::SortMerge,
    outer: Side,
    pages: u32,
) -> sort_merge::Settings {
    sort_merge::Settings {
        sort: sort::Settings::of(parts, allocation::RunFormation::ReplacementSelection),
        group: outer,
        group_pages: sort_merge::group_pages(pages),
    }
}

fn hybrid_hash_settings(
    parts: &HybridParts,
    join: Join<'_>,
    build: Side,
    execution: &Execution,
) -> hybrid_hash::Settings {
    let size = join.input(build).relation.size();
    let built = BuiltSide { tuple_count: size.tuple_count, cell_bytes: size.cell_bytes };
    let memory = (execution.limits().memory_pages, execution.page_bytes() as u64);
    hybrid_hash::Settings::of(parts, built, build, memory)
}

/// Of the kernel of a late join, in so many pages.
fn kernel_settings(
    (pages, parts): (u64, &HybridParts),
    join: Join<'_>,
    build: Side,
    execution: &Execution,
) -> hybrid_hash::Settings {
    let relation = join.input(build).relation;
    let size = relation.late().map_or_else(|| relation.size(), |late| late.keys.size());
    let built = BuiltSide { tuple_count: size.tuple_count, cell_bytes: size.cell_bytes };
    let memory = (narrow(pages), execution.page_bytes() as u64);
    hybrid_hash::Settings::of(parts, built, build, memory)
}

fn narrow(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Convention, CostModel, CpuCosts, DeviceCosts, Estimate};
    use crate::cost::{JoinQuestion, JoinSide, RelationStats};
    use crate::join::JoinType;
    use crate::plan::{Budget, plans};
    use crate::testing::{RowShape, collect, execution, join, limits, random_rows};
    use crate::{JoinKind, Key, Relation};
    use nandu_base::Rng;

    /// Pages read and written, as a run books them.
    fn pages(counts: &crate::execution::IoCounts) -> (u64, u64) {
        (counts.read_bytes / 1024, counts.write_bytes / 1024)
    }

    #[test]
    fn plans_give_equal_results_and_write_as_much_as_they_say() {
        let shape = |row_count| RowShape {
            row_count,
            key_count: 2000,
            is_skewed: false,
            null_percent: 0,
            payload_bytes_max: 150,
        };
        let mut rng = Rng::new(11);
        let left = random_rows("left", shape(2000), 1024, &mut rng);
        let right = random_rows("right", shape(9000), 1024, &mut rng);
        let key = Key::of(&[0]);
        let device = DeviceCosts::from_rates(0, 100_000, 200_000_000, 100_000_000);
        let convention = Convention::AsBuilt { reads_ahead: false };
        let model = CostModel { device: &device, processor: &CpuCosts::NONE, convention };
        let side = |rows: &dyn Relation| JoinSide::new(RelationStats::of(rows.size(), 1024));
        let question = JoinQuestion::new(side(&left), side(&right), 5);
        for memory_pages in [24_u32, 60, 120, 400] {
            let budget =
                Budget { memory_pages: u64::from(memory_pages), write_bytes: None, pool_pages: 0 };
            let mut results = None;
            for plan in plans(&model, &question, &budget).feasible {
                if matches!(plan.kind, JoinKind::NestedLoops) {
                    continue;
                }
                let execution = execution(limits(1024, memory_pages));
                let join = join(&left, &right, &key, JoinType::Inner);
                let mut stream =
                    plan.open(&execution, join, Indexes::NONE, ChunkRule::ByBytes).unwrap();
                let pairs = collect(stream.as_mut()).unwrap();
                let expected = results.get_or_insert_with(|| pairs.clone());
                assert_eq!(&pairs, expected, "{} in {memory_pages}", plan.kind);
                let Estimate { pages_written, .. } = plan.estimate;
                let (_, written) = pages(&execution.io_counts());
                assert!(
                    written.abs_diff(pages_written) * 10 <= written.max(100),
                    "{memory_pages} pages: wrote {written}, estimated {pages_written}: {plan:?}"
                );
            }
        }
    }
}
