//! Grace hash join: both sides cut into buckets by a hash of the key, then bucket by bucket joined in
//! memory (Kitsuregawa, Tanaka, Moto-Oka 1983; S001 section 3.3).
//!
//! ```text
//!   phase 1   │ input │ output 1 │ output 2 │ … │ output k │     rows ═► buckets, both sides
//!   phase 2   │ table of one bucket │ input │                    `buckets`
//! ```
//!
//! 1. Every row is written once and read once more, unless its bucket has to be cut again.

use super::buckets::{BucketJoin, BucketPair, Cutter};
use super::split::Split;
use super::{Join, JoinStream, Side};
use crate::relation::Span;
use crate::spill::Bucket;
use crate::tuple::PairBatch;
use crate::work::Work;
use crate::{Execution, QueryError};

/// The operator's name in errors.
const OPERATOR: &str = "a Grace hash join";

/// How the memory is divided in phase 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many buckets.
    pub bucket_count: u32,
    /// Pages through which both sides are read.
    pub input_pages: u32,
    /// Pages through which each bucket is written.
    pub output_pages: u32,
}

/// Grace hash join as a stream of pairs: see the module.
pub struct GraceHash<'x> {
    execution: &'x Execution,
    join: Join<'x>,
    settings: Settings,
    phase_two: Option<BucketJoin<'x>>,
}

impl<'x> GraceHash<'x> {
    /// Begins; nothing is read yet.
    ///
    /// # Errors
    /// If there is less memory than the settings say, or the keys do not match.
    pub fn new(
        execution: &'x Execution,
        join: Join<'x>,
        settings: Settings,
    ) -> Result<Self, QueryError> {
        join.check()?;
        let Settings { bucket_count, input_pages, output_pages } = settings;
        if bucket_count == 0 || input_pages == 0 || output_pages == 0 {
            let what = format!("{OPERATOR} needs a bucket, and a page for input and output");
            return Err(QueryError::Invalid { what });
        }
        drop(execution.take(OPERATOR, settings.pages())?);
        Ok(Self { execution, join, settings, phase_two: None })
    }

    /// Cuts the rows of one side into buckets by their hash.
    fn cut(&self, side: Side) -> Result<Vec<Bucket>, QueryError> {
        let Settings { bucket_count, input_pages, output_pages } = self.settings;
        let input = self.join.input(side);
        let mut memory = self.execution.take(OPERATOR, self.settings.pages())?;
        let writers = memory.split_off(bucket_count * output_pages);
        let split = Split::even(0, bucket_count as usize);
        let size = input.relation.size();
        let expected =
            size.cell_bytes / u64::from(bucket_count) / self.execution.page_bytes() as u64;
        // What is left of an extent is given back; a second one costs a request.
        let expected = expected + expected / 4 + 1;
        let buckets = bucket_count as usize;
        let mut cutter = Cutter::new(self.execution, writers, buckets, output_pages, expected)?;
        debug_assert_eq!(memory.pages(), input_pages, "the rest is for input");
        let mut stream = input.relation.scan(self.execution, memory, Span::ALL)?;
        let keeps_null_keys = self.join.keeps_null_keys(side);
        while stream.advance()? {
            let batch = stream.batch();
            for tuple in batch.tuples() {
                let hash = input.key.hash(tuple)?;
                if hash.is_some() || keeps_null_keys {
                    cutter.push(split.piece(hash), tuple)?;
                }
            }
            self.execution.work(Work::Copy, batch.cells.len() as u64);
        }
        drop(stream);
        cutter.finish()
    }
}

impl Settings {
    /// The pages of all buffers together.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.input_pages + self.bucket_count * self.output_pages
    }
}

impl JoinStream for GraceHash<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        if self.phase_two.is_none() {
            let (left, right) = (self.cut(Side::Left)?, self.cut(Side::Right)?);
            let pair = |(left, right)| BucketPair { left, right, level: 0, parent_bytes: u64::MAX };
            let tasks = left.into_iter().zip(right).rev().map(pair).collect();
            let pages = self.settings.pages();
            self.phase_two =
                Some(BucketJoin::new(self.execution, self.join, OPERATOR, pages, tasks));
        }
        self.phase_two.as_mut().expect("it was made").advance()
    }

    fn batch(&self) -> PairBatch<'_> {
        self.phase_two.as_ref().map_or(PairBatch::EMPTY, BucketJoin::batch)
    }
}
