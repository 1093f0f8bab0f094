//! Tables in PAX pages: rows in the order of arrival, found by their numbers, each column apart. Loaded as a
//! whole and never changed.

use super::{HeapReader, ReadAs, RowLoad, Rows, StoredScan, TableKind, TableRows};
use crate::btree::Tree;
use crate::database::check::{Check, Findings, trouble_of};
use crate::database::copies::RowCopies;
use crate::database::core::Core;
use crate::database::key_values::KeyBounds;
use crate::database::load::{LoadOptions, NewRow, stored_values};
use crate::database::open_table::{OpenTable, pages_there};
use crate::database::row_scan::RowRange;
use crate::database::schema::TableDefinition;
use crate::database::tables::{TableStat, Tables};
use crate::database::turns::Turns;
use crate::database::view::EngineView;
use crate::engine::UnloggedPages;
use crate::pax::{PaxTable, PaxWriter, check_span_pages};
use crate::sqlite::{HeapTable, RecordView, ValueRef};
use crate::{Engine, StorageError};
use std::sync::Arc;

/// Pages of a PAX page for each column: with one, half of each would be empty.
const PAGES_OF_COLUMN_MIN: usize = 2;

/// What is told to whoever wants to change rows.
const NOT_CHANGED: &str = "in PAX pages, which are never changed; drop it and load it anew";

/// The rows of an open table in PAX pages.
#[derive(Debug)]
pub(in crate::database) struct PaxRows(Arc<PaxTable>);

/// A table in PAX pages that is being filled.
pub(in crate::database) struct PaxLoad(Box<PaxWriter>);

/// The rows of a table in PAX pages, one after the other.
pub(in crate::database) struct PaxScan {
    table: Arc<PaxTable>,
    next_page: usize,
    rows: RowCopies,
}

impl TableRows for PaxRows {
    const LABEL: &'static str = "pax";
    const FILE_SUFFIX: &'static str = "pax";
    const TAKES_CHANGES: bool = false;
    const READ_AS: Option<ReadAs> = Some(ReadAs::Pax);

    fn check(definition: &TableDefinition) -> Result<(), StorageError> {
        let span_pages = span_pages(definition);
        check_span_pages(span_pages)?;
        let least = PAGES_OF_COLUMN_MIN * definition.columns.len();
        if (span_pages as usize) < least {
            let (name, count) = (&definition.name, definition.columns.len());
            let what = format!(
                "table {name} has {count} columns, each on a page of its own: let PAX pages \
                 span {least} pages or more"
            );
            return Err(StorageError::InvalidSetting { what });
        }
        Ok(())
    }

    fn create(_engine: &mut Engine, _definition: &TableDefinition) -> Result<(), StorageError> {
        unreachable!("a table that takes no changes is not made empty")
    }

    fn begin_load<'l>(
        pages: &mut UnloggedPages<'_>,
        definition: &TableDefinition,
        _options: &LoadOptions,
        _heap: &'l mut Option<HeapTable>,
    ) -> Result<RowLoad<'l>, StorageError> {
        let (types, span_pages) = (definition.column_types(), span_pages(definition));
        let writer = PaxWriter::create(pages, definition.file, &types, span_pages)?;
        Ok(RowLoad::Pax(PaxLoad(Box::new(writer))))
    }

    fn open(
        engine: &Engine,
        definition: &TableDefinition,
        _known: Option<&Rows>,
    ) -> Result<(Rows, Option<HeapTable>), StorageError> {
        let (file, types) = (definition.file, definition.column_types());
        let table = PaxTable::open(engine, file, pages_there(engine, file), types)?;
        Ok((Rows::Pax(Self(Arc::new(table))), None))
    }

    fn heap(&self) -> Result<&Arc<HeapReader>, &'static str> {
        Err(NOT_CHANGED)
    }

    fn keyed(&self) -> Result<Tree, &'static str> {
        Err("in PAX pages: its rows are found by number")
    }

    fn pax(&self) -> Option<&PaxTable> {
        Some(&self.0)
    }

    fn page_count(&self, _engine: &Engine) -> Result<Option<u32>, StorageError> {
        // The opening compared the directory with the length of the file already.
        Ok(None)
    }

    fn get<R>(
        &self,
        tables: &Tables,
        _table: &OpenTable,
        row_number: i64,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        let Some((pax_page, _)) = self.0.place_of(row_number) else { return Ok(None) };
        let mut look = Some(look);
        let mut answer = None;
        // That of a transaction that locks what it reads is of no moment before it reads.
        let pages = &*tables.statement()?;
        let looked = self.0.look_at(pages, pax_page, |number, record| {
            if number == row_number
                && let Some(look) = look.take()
            {
                answer = Some(look(RecordView::new(record).expect("it was just encoded")));
            }
            number < row_number
        });
        looked.map_err(tables.named())?;
        Ok(answer)
    }

    fn insert(
        &self,
        _core: &mut Core,
        table: &OpenTable,
        _row: &[ValueRef<'_>],
        _record: &[u8],
    ) -> Result<i64, StorageError> {
        Err(table.wrong_kind(NOT_CHANGED))
    }

    fn scan(&self, _view: &EngineView, _range: &RowRange<'_>, _bounds: &KeyBounds) -> StoredScan {
        let table = Arc::clone(&self.0);
        StoredScan::Pax(PaxScan { table, next_page: 0, rows: RowCopies::default() })
    }

    fn check_rows(&self, check: &mut Check<'_>, table: &OpenTable) -> Result<(), StorageError> {
        let Self(pax) = self;
        let definition = &table.definition;
        let mut findings = Findings::of(&format!("table {}", definition.name));
        // The directory was read when the table was opened; what lies on the device may have been
        // damaged since, so it is read again.
        match PaxTable::open(check.pages, pax.file(), None, pax.column_types().to_vec()) {
            Err(error) if error.is_damage() => findings.tell(&error.to_string()),
            opened => opened.map(drop)?,
        }
        for pax_page in 0..pax.pax_pages().len() {
            let looked = pax.look_at(check.pages, pax_page, |number, record| {
                let record = RecordView::new(record).expect("it was just encoded");
                if let Some(trouble) = trouble_of(definition, record) {
                    findings.tell(&format!("row {number}: {trouble}"));
                }
                check.report.row_count += 1;
                true
            });
            match looked {
                Err(error) if error.is_damage() => findings.tell(&error.to_string()),
                looked => looked?,
            }
        }
        check.keep(findings);
        check.report.file_count += 1;
        check.report.page_count += u64::from(pax.page_count());
        Ok(())
    }

    fn stat(
        &self,
        tables: &Tables,
        _pages: &EngineView,
        definition: &TableDefinition,
    ) -> Result<TableStat, StorageError> {
        Ok(TableStat {
            name: definition.name.clone(),
            kind: Self::LABEL,
            row_count: self.0.row_count(),
            page_count: u64::from(self.0.page_count()),
            level_count: 1,
            file_bytes: tables.view.file_bytes(definition.file),
        })
    }
}

impl PaxLoad {
    pub(super) fn push(
        &mut self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
        row: &NewRow<'_>,
    ) -> Result<i64, StorageError> {
        let values = stored_values(definition, row.values);
        turns.step(|core| self.0.push(&mut core.engine.unlogged_pages(definition.file)?, values))
    }

    pub(super) fn finish(
        self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
    ) -> Result<(), StorageError> {
        let file = definition.file;
        turns.step(|core| {
            self.0.finish(&mut core.engine.unlogged_pages(file)?)?;
            core.engine.make_unlogged_durable(file)
        })
    }
}

impl PaxScan {
    pub(super) fn advance(
        &mut self,
        pages: &EngineView,
        row_number: &mut i64,
    ) -> Result<bool, StorageError> {
        let Self { table, next_page, rows } = self;
        while !rows.show_next(row_number) {
            rows.clear();
            if *next_page == table.pax_pages().len() {
                return Ok(false);
            }
            table.look_at(pages, *next_page, |number, record| {
                rows.add(number, record);
                true
            })?;
            *next_page += 1;
        }
        Ok(true)
    }

    pub(super) fn record(&self) -> &[u8] {
        self.rows.shown()
    }
}

fn span_pages(definition: &TableDefinition) -> u32 {
    let TableKind::Pax { span_pages } = definition.kind else {
        unreachable!("the definition is of this kind")
    };
    span_pages
}
