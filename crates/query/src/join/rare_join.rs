//! RARE-join (Shah and others, DaMoN 2008), for tables in PAX pages: the join index is sorted by the row numbers
//! of one side, whose rows are fetched in one pass over its pages; with these it is sorted by those of the
//! other side, which is fetched likewise. No page is fetched twice; what is on its way may have to be written.
//!
//! ```text
//!   kernel ══► (r, s) ══sort by r══► fetch R ══► (s, row of R) ══sort by s══► fetch S
//!
//!   memory   │ kernel            │ sort │
//!            │ sort │ fetch      │ sort │
//!            │ rows of S │ fetch │ sort │
//! ```
//!
//! The paper has the analytic costs only. Where it stitches columns that were written apart, rows travel
//! through the second sort here, so that each is written once.
//!
//! 1. Of each side a page is fetched once at most.
//! 2. What fits into a sort's memory is not written.

use super::late::{JoinIndex, LateJoin, NO_ROW, Places, distinct};
use super::{Join, JoinStream, Side, hybrid_hash};
use crate::allocation::RunFormation;
use crate::execution::Memory;
use crate::relation::pax::PaxFetch;
use crate::relation::{RelationSize, TupleStream};
use crate::sort::runs::RunFormer;
use crate::sort::{self, Sort};
use crate::tuple::{Area, NO_TUPLE, PairBatch, RowArea, Tuple, read_cell};
use crate::work::Work;
use crate::{Execution, Key, QueryError};
use nandu_storage::sqlite::{ValueRef, encode_record};
use std::sync::LazyLock;

/// The operator's name in errors.
const OPERATOR: &str = "RARE-join";
/// Pages of the smallest sort: to write by, and two to merge.
pub(crate) const SORT_PAGES_MIN: u32 = 3;
/// What rows on their way are sorted by: the number of the row that is fetched next.
static BY_ROW: LazyLock<Key> = LazyLock::new(|| Key::of(&[0]));

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of the kernel, with its pages.
    pub kernel: hybrid_hash::Settings,
    /// Pages of each sort, of which there are two beside the fetch.
    pub sort_pages: u32,
    /// Pages through which rows are fetched.
    pub fetch_pages: u32,
    /// Pages of rows of the second side that were fetched.
    pub row_pages: u32,
}

/// How far it is.
enum Stage<'x> {
    Begin(Box<JoinIndex<'x>>),
    Pairs(Box<Pairs<'x>>),
    End,
}

/// The last pass: sorted pairs, and what is fetched for each.
struct Pairs<'x> {
    sorted: Sort<'x>,
    fetch: PaxFetch<'x>,
    /// The next row of the sort's batch.
    next: usize,
    area: RowArea,
    wanted: Vec<i64>,
    addresses: Vec<u64>,
    _memory: Memory<'x>,
}

/// RARE-join as a stream of pairs: see the module.
pub struct RareJoin<'x> {
    execution: &'x Execution,
    late: LateJoin<'x>,
    settings: Settings,
    stage: Stage<'x>,
    pairs: Vec<(u64, u64)>,
}

impl<'x> RareJoin<'x> {
    /// Begins.
    ///
    /// # Errors
    /// If a side cannot be read by columns, there is less memory than the settings say or than fetching takes, or
    /// the keys do not match.
    pub fn new(
        execution: &'x Execution,
        join: Join<'x>,
        settings: Settings,
    ) -> Result<Self, QueryError> {
        let late = LateJoin::of(&join, OPERATOR)?;
        let Settings { kernel, sort_pages, fetch_pages, row_pages } = settings;
        late.check_fetch(OPERATOR, fetch_pages)?;
        if sort_pages < SORT_PAGES_MIN || row_pages == 0 {
            return Err(QueryError::TooLittleMemory {
                operator: OPERATOR.to_owned(),
                needed_pages: u64::from(2 * SORT_PAGES_MIN + 1),
                granted_pages: u64::from(row_pages + 2 * sort_pages),
            });
        }
        for pages in [kernel.pages + sort_pages, 2 * sort_pages + fetch_pages + row_pages] {
            drop(execution.take(OPERATOR, pages)?);
        }
        let index = Box::new(JoinIndex::new(late.kernel(execution, join, kernel)?));
        Ok(Self { execution, late, settings, stage: Stage::Begin(index), pairs: Vec::new() })
    }

    /// A sort of rows that are pushed.
    fn former(&self, size: RelationSize) -> Result<Box<dyn RunFormer<'x> + 'x>, QueryError> {
        let (pages, output_pages) =
            (self.settings.sort_pages, output_pages(self.settings.sort_pages));
        let settings = sort::Settings {
            input_pages: 0,
            output_pages,
            workspace_pages: pages - output_pages,
            formation: RunFormation::ReplacementSelection,
        };
        sort::former(self.execution, &BY_ROW, settings, (size, None))
    }

    /// The join index in the order of the rows that are fetched first, those of the side that the kernel builds.
    fn sort_index(&self, mut index: JoinIndex<'x>) -> Result<Sort<'x>, QueryError> {
        let mut former = self.former(RelationSize::default())?;
        let (mut record, mut key) = (Vec::new(), Vec::new());
        let is_swapped = self.settings.kernel.build == Side::Right;
        let is_done = index.advance(|[left, right]| {
            let (first, second) = if is_swapped { (right, left) } else { (left, right) };
            record.clear();
            encode_record([ValueRef::Integer(first), ValueRef::Integer(second)], &mut record);
            push(former.as_mut(), &record, &mut key)?;
            Ok(true)
        })?;
        assert!(is_done, "all of it was taken");
        former.book_work();
        drop(index);
        Sort::of(self.execution, &BY_ROW, former.finish()?, self.settings.sort_pages)
    }

    /// Fetches the first rows, and sorts them with the numbers of the second ones.
    fn fetch_first(&self, mut index: Sort<'x>) -> Result<Sort<'x>, QueryError> {
        let rows = self.late.rows(self.settings.kernel.build);
        let memory = self.execution.take(OPERATOR, self.settings.fetch_pages)?;
        let mut fetch = PaxFetch::new(self.execution, rows, memory)?;
        let mut former = self.former(RelationSize::default())?;
        let (mut record, mut key, mut cell) = (Vec::new(), Vec::new(), Vec::new());
        let (mut entries, mut wanted) = (Vec::<[i64; 2]>::new(), Vec::new());
        while index.advance()? {
            entries.clear();
            for tuple in index.batch().tuples() {
                entries.push(tuple.first_values::<2>()?.map(|value| match value {
                    ValueRef::Integer(number) => number,
                    _ => NO_ROW,
                }));
            }
            let mut next = 0;
            let mut take = |first: i64, cell: Option<&[u8]>| -> Result<(), QueryError> {
                while let Some(entry) = entries.get(next).filter(|entry| entry[0] == first) {
                    let row = cell.map_or(ValueRef::Null, ValueRef::Blob);
                    record.clear();
                    encode_record([ValueRef::Integer(entry[1]), row], &mut record);
                    push(former.as_mut(), &record, &mut key)?;
                    next += 1;
                }
                Ok(())
            };
            take(NO_ROW, None)?;
            distinct(entries.iter().map(|entry| entry[0]), &mut wanted);
            fetch.fetch(&wanted, |place, tuple| {
                cell.clear();
                tuple.push_cell(&mut cell);
                take(wanted[place], Some(&cell))?;
                Ok(true)
            })?;
            former.book_work();
        }
        drop((index, fetch));
        Sort::of(self.execution, &BY_ROW, former.finish()?, self.settings.sort_pages)
    }

    /// Everything up to the last pass.
    fn begin(&self, index: JoinIndex<'x>) -> Result<Pairs<'x>, QueryError> {
        let index = self.sort_index(index)?;
        let sorted = self.fetch_first(index)?;
        let memory = self.execution.take(OPERATOR, self.settings.fetch_pages)?;
        let fetch = PaxFetch::new(
            self.execution,
            self.late.rows(self.settings.kernel.build.other()),
            memory,
        )?;
        let memory = self.execution.take(OPERATOR, self.settings.row_pages)?;
        Ok(Pairs {
            sorted,
            fetch,
            next: 0,
            area: RowArea::new(memory.bytes()),
            wanted: Vec::new(),
            addresses: Vec::new(),
            _memory: memory,
        })
    }
}

/// Pages through which a sort of so many writes its runs.
pub(crate) const fn output_pages(sort_pages: u32) -> u32 {
    if sort_pages < 32 { 1 } else { sort_pages / 16 }
}

/// Hands a row to a sort.
fn push(
    former: &mut (dyn RunFormer<'_> + '_),
    record: &[u8],
    key_bytes: &mut Vec<u8>,
) -> Result<(), QueryError> {
    let tuple = Tuple { row_number: 0, record };
    key_bytes.clear();
    BY_ROW.encode(tuple, key_bytes)?;
    former.push(key_bytes, tuple)
}

impl Pairs<'_> {
    /// Makes pairs of the rows of the sort's batch, or of as many as there is room for; false at the end.
    fn advance(&mut self, pairs: &mut Vec<(u64, u64)>) -> Result<bool, QueryError> {
        let Self { sorted, fetch, next, area, wanted, addresses, .. } = self;
        while *next == sorted.batch().cells.len() {
            *next = 0;
            if !sorted.advance()? {
                return Ok(false);
            }
        }
        let batch = sorted.batch();
        let second_of = |address: u64| -> Result<i64, QueryError> {
            let [second] = batch.area.tuple(address).first_values::<1>()?;
            Ok(if let ValueRef::Integer(number) = second { number } else { NO_ROW })
        };
        let numbers: Result<Vec<i64>, _> =
            batch.cells[*next..].iter().map(|&address| second_of(address)).collect();
        let numbers = numbers?;
        distinct(numbers.iter().copied(), wanted);
        area.clear();
        addresses.clear();
        let taken = fetch.fetch(wanted, |_, tuple| {
            let address = area.push(tuple);
            addresses.extend(address);
            Ok(address.is_some())
        })?;
        let end = wanted.get(taken).copied();
        let mut places = Places::default();
        for (&address, &number) in batch.cells[*next..].iter().zip(&numbers) {
            if Some(number) == end {
                break;
            }
            let second = places.address(number, addresses);
            pairs.push((first_of(batch.area, address)?, second));
            *next += 1;
        }
        Ok(true)
    }
}

/// Where in a sorted row the first row lies, whose cell is its last value.
fn first_of(area: Area<'_>, address: u64) -> Result<u64, QueryError> {
    let (tuple, length) = read_cell(area.bytes_at(address)).expect("a batch names whole cells");
    let [_, row] = tuple.first_values::<2>()?;
    Ok(match row {
        ValueRef::Blob(cell) => address + (length - cell.len()) as u64,
        _ => NO_TUPLE,
    })
}

impl JoinStream for RareJoin<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        if let Stage::Begin(_) = self.stage {
            let Stage::Begin(index) = std::mem::replace(&mut self.stage, Stage::End) else {
                return Ok(false);
            };
            self.stage = Stage::Pairs(Box::new(self.begin(*index)?));
        }
        let Stage::Pairs(pairs) = &mut self.stage else { return Ok(false) };
        if !pairs.advance(&mut self.pairs)? {
            self.stage = Stage::End;
            return Ok(false);
        }
        self.execution.work(Work::Emit, self.pairs.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> PairBatch<'_> {
        let Stage::Pairs(pairs) = &self.stage else { return PairBatch::EMPTY };
        PairBatch {
            first: pairs.sorted.batch().area,
            second: pairs.area.area(),
            first_side: self.settings.kernel.build,
            pairs: &self.pairs,
        }
    }
}
