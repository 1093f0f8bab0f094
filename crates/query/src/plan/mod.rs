//! Which join, with which side as outer and which division of memory: every way that fits into the memory
//! and the bytes that may be written, by estimated time.
//!
//! ```text
//!   JoinQuestion ──► for each kind and role: divide memory ──► cost ──► plans, cheapest first
//!   memory, write budget, device, processor ──────┘                      │
//!                                                                        └──► Explanation
//! ```
//!
//! 1. Plans are sorted by time, then by bytes written, then by kind, so that equal questions give equal
//!    answers.
//! 2. What workers share takes each of them its part of the processor's time, and the device as long as one.
//! 3. No plan writes more than the budget, were the tables 8 % larger than known: estimates are a few percent
//!    off, and a run that passes its budget ends without a result. What depends on a number of pairs that
//!    was guessed has no plan then.

mod divide;
mod explanation;
pub mod joins;
mod open;
mod stored;
#[cfg(test)]
mod tests;

pub use crate::cost::{JoinQuestion, JoinSide, PoolShape};
pub use crate::kind::Division;
pub use explanation::{Actual, Explanation, ExplanationRow};
pub use open::{ChunkRule, Indexes};
pub use stored::{StoredSides, StoredTable};

use crate::cost::{CostModel, Estimate};
use crate::join::workers::SHARE_PAGES_MIN;
use crate::join::{JoinType, Side};
use crate::{JoinKind, QueryError};
use nandu_base::words::counted;
use nandu_base::{ByteCount, Nanos};
use serde::Serialize;
use std::fmt;

/// What an execution may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Pages of memory.
    pub memory_pages: u64,
    /// Bytes that may be written; `None` for as many as it takes.
    pub write_bytes: Option<u64>,
    /// The buffer pool beside that memory, through which joins by index read.
    pub pool: PoolShape,
    /// Workers, each with a core of its own, among whom [`Plan::run`] divides what can be divided.
    pub worker_count: u32,
}

impl Budget {
    /// How many workers there are in so much memory, where what is read takes no more of it than a page.
    fn worker_count_in_use(&self) -> u32 {
        let most = u32::try_from(self.memory_pages / SHARE_PAGES_MIN).unwrap_or(u32::MAX);
        self.worker_count.min(most).max(1)
    }
}

/// One way to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The join that the plan runs.
    pub kind: JoinKind,
    /// Whether the question's inner side is this plan's outer side.
    pub is_swapped: bool,
    /// How the memory is divided among the parts of the join.
    pub division: Division,
    /// What it is thought to cost.
    pub estimate: Estimate,
    /// How long that takes; device and processor may overlap.
    pub time: Nanos,
    /// Bytes that it is thought to write.
    pub written: ByteCount,
}

/// Why a join has no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// It needs an index on the join key of one side or both.
    NoIndex,
    /// It needs tables whose columns can be read apart.
    NoColumns,
    /// It needs more memory.
    TooLittleMemory {
        /// Pages that it needs at least.
        needed_pages: u64,
    },
    /// It does no such type of join.
    JoinType(JoinType),
    /// It writes what pairs take, may not write any number of bytes, and nobody knows how many pairs there are.
    UnknownPairs,
    /// It would write more than it may.
    WriteBudget {
        /// Bytes that it may come to write, at the least.
        written: ByteCount,
    },
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JoinType(join_type) => write!(formatter, "does no {} join", join_type.name()),
            Self::NoIndex => formatter.write_str("needs an index on the join key"),
            Self::NoColumns => formatter.write_str("needs both tables in PAX pages"),
            Self::TooLittleMemory { needed_pages } => {
                write!(formatter, "needs {} of memory", counted(*needed_pages, "page"))
            }
            Self::UnknownPairs => {
                formatter.write_str("may write all pairs, and nobody said how many there are")
            }
            Self::WriteBudget { written } => {
                write!(
                    formatter,
                    "may write {written} of temporary data, more than the write budget"
                )
            }
        }
    }
}

/// All plans for a question, and the joins that have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plans {
    /// What can be done, cheapest first: at most one plan for each kind and role.
    pub feasible: Vec<Plan>,
    /// The joins that cannot be run, each with the reason why.
    pub rejected: Vec<(JoinKind, Rejection)>,
}

/// Finds all plans.
#[must_use]
pub fn plans(model: &CostModel<'_>, question: &JoinQuestion, budget: &Budget) -> Plans {
    let mut feasible = Vec::new();
    let mut rejected = Vec::new();
    let worker_count = budget.worker_count_in_use();
    let processor = (worker_count > 1).then(|| model.processor.shared_by(worker_count));
    for kind in JoinKind::ALL {
        let mut reason = None;
        let before = feasible.len();
        let (alone, shared) = (*model, processor.as_ref().map(|it| model.on(it)));
        let model = &shared.filter(|_| kind.is_shared()).unwrap_or(alone);
        for is_swapped in kind.roles(question) {
            let outer = if *is_swapped { Side::Right } else { Side::Left };
            if !kind.does(question.join_type, outer) {
                reason = reason.or(Some(Rejection::JoinType(question.join_type)));
                continue;
            }
            let roles = if *is_swapped { question.swapped() } else { *question };
            match divide::divide(model, &roles, kind, budget) {
                Ok((division, estimate)) => feasible.push(Plan {
                    kind,
                    is_swapped: *is_swapped,
                    division,
                    estimate,
                    time: model.time(&estimate),
                    written: written_by(&estimate, question),
                }),
                Err(found) => {
                    let other = reason.filter(|why| !matches!(why, Rejection::JoinType(_)));
                    reason = other.or(Some(found));
                }
            }
        }
        if feasible.len() == before {
            rejected.extend(reason.map(|reason| (kind, reason)));
        }
    }
    feasible.sort_by_key(|plan| (plan.time, plan.written, plan.kind, plan.is_swapped));
    Plans { feasible, rejected }
}

/// The cheapest plan.
///
/// # Errors
/// [`QueryError::Invalid`] if there is none, with what each join would need.
pub fn choose(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    budget: &Budget,
) -> Result<Plan, QueryError> {
    let found = plans(model, question, budget);
    found.feasible.first().copied().ok_or_else(|| {
        let reasons: Vec<String> =
            found.rejected.iter().map(|(kind, reason)| format!("{kind} {reason}")).collect();
        QueryError::Invalid {
            what: format!(
                "no join can be done with {} of memory: {}",
                counted(budget.memory_pages, "page"),
                reasons.join(", ")
            ),
        }
    })
}

fn written_by(estimate: &Estimate, question: &JoinQuestion) -> ByteCount {
    ByteCount(estimate.pages_written.saturating_mul(question.outer.stats.page_bytes))
}
