//! Memory of sort-merge (S001 section 3.2 and table 1): a reading buffer, a tournament tree and a writing
//! buffer while runs are formed, then a reading buffer for each run.
//!
//! The published I = O = ((sqrt(2z) - 4) B) / (z - 8) is 0/0 at z = 8. Multiplied out it is
//! B sqrt(2) / (sqrt(z) + 2 sqrt(2)), which is what is computed here.
//!
//! 1. `input_pages + output_pages + workspace_pages` is the memory, and each is at least 1.
//! 2. `merge_pages` times the number of runs is at most the memory, or else `merge_pages` is 1.

use super::{Fudge, JoinSizes, MILLION, RequestTimes, ceil_pages, require, saturate};
use crate::QueryError;
use serde::{Deserialize, Serialize};

/// Memory below which nothing works: a page of each part.
const MEMORY_PAGES_MIN: u64 = 3;

/// How runs are formed, and so how long they get on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFormation {
    /// By a tournament tree: twice the workspace (Knuth, volume 3).
    #[default]
    ReplacementSelection,
    /// By loading, sorting and storing: the workspace.
    Quicksort,
}

impl RunFormation {
    /// How often a run fills the workspace.
    #[must_use]
    pub const fn workspaces_per_run(self) -> u64 {
        match self {
            Self::ReplacementSelection => 2,
            Self::Quicksort => 1,
        }
    }
}

/// Whether the head moves between reading input and writing runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunSeeks {
    /// It does not, as Haas and others assume: two arms.
    #[default]
    Free,
    /// It does: one spindle, as in S001.
    Charged,
}

/// The parts of memory in both passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortMerge {
    /// I: the buffer that reads R, then S.
    pub input_pages: u64,
    /// O: the buffer that writes runs.
    pub output_pages: u64,
    /// WS: the tournament tree and its tuples.
    pub workspace_pages: u64,
    /// Runs of R.
    pub outer_run_count: u64,
    /// Runs of S.
    pub inner_run_count: u64,
    /// The buffer of each run in the last pass, at least 1.
    pub merge_pages: u64,
}

impl SortMerge {
    /// The closed form, with runs of twice the workspace.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 3 pages.
    pub fn allocate(
        sizes: &JoinSizes,
        memory_pages: u64,
        times: &RequestTimes,
        seeks: RunSeeks,
    ) -> Result<Self, QueryError> {
        let z = Self::seek_weight(sizes, memory_pages, times, seeks);
        let input_pages = ceil_pages(Self::ideal_input_pages(memory_pages, z));
        Self::with_input(sizes, memory_pages, input_pages, RunFormation::default())
    }

    /// The allocation with so many pages for reading and as many for writing, as far as memory allows.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 3 pages.
    pub fn with_input(
        sizes: &JoinSizes,
        memory_pages: u64,
        input_pages: u64,
        formation: RunFormation,
    ) -> Result<Self, QueryError> {
        require("sort-merge", MEMORY_PAGES_MIN, memory_pages)?;
        let input_pages = input_pages.clamp(1, (memory_pages - 1) / 2);
        let workspace_pages = memory_pages - 2 * input_pages;
        let runs = |pages: u64, fudge: Fudge| {
            let run = u128::from(formation.workspaces_per_run()) * u128::from(workspace_pages);
            saturate(fudge.scaled(pages).div_ceil(run * MILLION))
        };
        let outer_run_count = runs(sizes.outer_pages, sizes.outer_fudge);
        let inner_run_count = runs(sizes.inner_pages, sizes.inner_fudge);
        let run_count = outer_run_count.saturating_add(inner_run_count).max(1);
        Ok(Self {
            input_pages,
            output_pages: input_pages,
            workspace_pages,
            outer_run_count,
            inner_run_count,
            merge_pages: (memory_pages / run_count).max(1),
        })
    }

    /// All runs together.
    #[must_use]
    pub const fn run_count(&self) -> u64 {
        self.outer_run_count.saturating_add(self.inner_run_count)
    }

    /// Pages of data in a run by replacement selection, on average: 2 WS / F.
    #[must_use]
    pub fn average_run_pages(&self, fudge: Fudge) -> u64 {
        fudge.data_pages(2 * self.workspace_pages)
    }

    /// z: how much the requests of the merge weigh against those of run formation.
    pub(super) fn seek_weight(
        sizes: &JoinSizes,
        memory_pages: u64,
        times: &RequestTimes,
        seeks: RunSeeks,
    ) -> f64 {
        let data_ppm = sizes.outer_fudge.scaled(sizes.outer_pages)
            + sizes.inner_fudge.scaled(sizes.inner_pages);
        let data_pages = data_ppm as f64 / MILLION as f64;
        let (latency, seek) = (times.latency_ps as f64, times.seek_ps as f64);
        let per_request = match seeks {
            RunSeeks::Free if times.latency_ps > 0 => (latency + seek) / latency,
            RunSeeks::Free if times.seek_ps > 0 => f64::INFINITY,
            RunSeeks::Free | RunSeeks::Charged => 1.0,
        };
        per_request * data_pages / memory_pages.max(1) as f64
    }

    /// I before it is rounded.
    pub(super) fn ideal_input_pages(memory_pages: u64, z: f64) -> f64 {
        let root_of_two = 2.0_f64.sqrt();
        memory_pages as f64 * root_of_two / (z.sqrt() + 2.0 * root_of_two)
    }
}
