//! Generated tables: which data, how large, in which order, laid out how.
//!
//! 1. A data set follows from its fields alone: the same ones give the same rows in the same order.

use crate::job::LoadJob;
use crate::keyed::{KeyedRows, KeyedTable};
use crate::source::Projected;
use crate::tpch::{TpchComments, TpchRows, TpchTable};
use crate::{LoadError, RowSource};
use nandu_storage::database::{Column, LoadOptions, NewTable, RowOrder, TableKind};

/// What the rows look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowWidth {
    /// All columns of TPC-H.
    #[default]
    Tpch,
    /// The customer's key and padding: the tables of S001, section 4.1.
    S001,
    /// Keys and padding: the tables of S000, chapter 5.
    S000,
}

/// The order in which rows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// A seeded permutation.
    #[default]
    Random,
    /// By ascending primary keys.
    Key,
}

/// A set of tables to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dataset {
    /// What the rows look like.
    pub width: RowWidth,
    /// 1 has 150,000 customers and 1,500,000 orders; fractions are fine.
    pub scale_factor: f64,
    /// The order of rows.
    pub order: KeyOrder,
    /// Of the order, and of the values where they are not those of TPC-H.
    pub seed: u64,
    /// Where TPC-H's comments come from.
    pub comments: TpchComments,
}

/// How a table's rows are stored, and which columns are indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// How rows are stored.
    pub kind: LayoutKind,
    /// Columns to index.
    pub indexes: Vec<IndexOn>,
}

/// How rows of generated tables are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutKind {
    /// In heap tables, as rows come.
    #[default]
    Heap,
    /// B+-trees by primary key. Rows in random order are inserted one by one, so that leaves are
    /// scattered.
    Clustered,
    /// PAX pages, which have no indexes.
    Pax {
        /// Database pages that a PAX page spans.
        span_pages: u32,
    },
}

/// A secondary index over one column. That of a heap is called like its column. That of a clustered
/// table is a table itself, called TABLE_COLUMN and clustered by that column and the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOn {
    /// The table's name.
    pub table: String,
    /// The column that is indexed.
    pub column: String,
}

impl Dataset {
    /// Tables in random order, with seed 1.
    #[must_use]
    pub fn new(width: RowWidth, scale_factor: f64) -> Self {
        let (order, comments) = (KeyOrder::default(), TpchComments::default());
        Self { width, scale_factor, order, seed: 1, comments }
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// If rows of this width have no such table.
    pub fn columns(&self, table: TpchTable) -> Result<Vec<Column>, LoadError> {
        match self.width {
            RowWidth::Tpch => Ok(table.columns()),
            RowWidth::S001 | RowWidth::S000 => Ok(self.keyed(table)?.columns()),
        }
    }

    /// The primary key's columns, by index; none for the orders of S001.
    ///
    /// # Errors
    /// As [`Self::columns`].
    pub fn key(&self, table: TpchTable) -> Result<&'static [usize], LoadError> {
        match self.width {
            RowWidth::Tpch => Ok(table.key()),
            RowWidth::S001 | RowWidth::S000 => Ok(self.keyed(table)?.key()),
        }
    }

    /// The rows of a table.
    ///
    /// # Errors
    /// As [`Self::columns`], and if the scale makes no sense.
    pub fn rows(&self, table: TpchTable) -> Result<Box<dyn RowSource>, LoadError> {
        let Self { width, scale_factor, order, seed, comments } = *self;
        Ok(match width {
            RowWidth::Tpch => Box::new(TpchRows::new(table, scale_factor, order, seed, comments)?),
            RowWidth::S001 | RowWidth::S000 => {
                Box::new(KeyedRows::new(self.keyed(table)?, scale_factor, order, seed)?)
            }
        })
    }

    /// Whether all of `tables` have rows at this scale, which costs nothing: the first rows of TPC-H need
    /// its text, which takes seconds and memory.
    ///
    /// # Errors
    /// If the scale makes no sense, or one of them has no row or too many.
    pub fn check_scale(&self, tables: &[TpchTable]) -> Result<(), LoadError> {
        for &table in tables {
            match self.width {
                RowWidth::Tpch => table.units_at(self.scale_factor).map(drop)?,
                RowWidth::S001 | RowWidth::S000 => {
                    self.keyed(table)?.counts(self.scale_factor).map(drop)?;
                }
            }
        }
        Ok(())
    }

    /// What [`crate::load_tables`] needs to make `tables`. Of `options` the order is replaced by the
    /// one that fits.
    ///
    /// # Errors
    /// As [`Self::rows`]; if an index names a table or column that is not there, or a table without
    /// primary key is to be clustered.
    pub fn jobs(
        &self,
        tables: &[TpchTable],
        layout: &Layout,
        options: &LoadOptions,
    ) -> Result<Vec<LoadJob>, LoadError> {
        self.check_scale(tables)?;
        let mut jobs = Vec::new();
        for &table in tables {
            let (columns, key) = (self.columns(table)?, self.key(table)?);
            let indexed = self.indexed_columns(table, &columns, layout)?;
            let mut options = *options;
            options.order = match self.order {
                KeyOrder::Key => RowOrder::Ascending,
                KeyOrder::Random => RowOrder::Insert,
            };
            let name = table.name().to_owned();
            let mut kind = TableKind::Heap;
            let mut indexes = Vec::new();
            let mut index_jobs = Vec::new();
            if layout.kind == LayoutKind::Clustered {
                if key.is_empty() {
                    return Err(LoadError::invalid(format!(
                        "{name} has no primary key in these data; only a heap can hold it"
                    )));
                }
                kind = TableKind::Clustered { key: key.to_vec() };
                for &column in &indexed {
                    let options = LoadOptions { order: RowOrder::Sort, ..options };
                    index_jobs.push(self.index_table(table, &columns, column, options)?);
                }
            } else {
                if let LayoutKind::Pax { span_pages } = layout.kind {
                    kind = TableKind::Pax { span_pages };
                }
                let index = |&column: &usize| {
                    let column = columns[column].name.clone();
                    (column.clone(), vec![column])
                };
                indexes = indexed.iter().map(index).collect();
            }
            let new = NewTable { name, columns, kind, indexes };
            jobs.push(LoadJob { table: new, options, source: self.rows(table)? });
            jobs.extend(index_jobs);
        }
        Self::check_index_tables(tables, layout)?;
        Ok(jobs)
    }

    /// The index of a clustered table: a table of the column and the primary key.
    fn index_table(
        &self,
        table: TpchTable,
        columns: &[Column],
        column: usize,
        options: LoadOptions,
    ) -> Result<LoadJob, LoadError> {
        let mut part = vec![column];
        part.extend(self.key(table)?.iter().filter(|&&other| other != column));
        let new = NewTable {
            name: format!("{}_{}", table.name(), columns[column].name),
            columns: part.iter().map(|&column| columns[column].clone()).collect(),
            kind: TableKind::Clustered { key: (0..part.len()).collect() },
            indexes: Vec::new(),
        };
        let source = Box::new(Projected::new(self.rows(table)?, part));
        Ok(LoadJob { table: new, options, source })
    }

    fn indexed_columns(
        &self,
        table: TpchTable,
        columns: &[Column],
        layout: &Layout,
    ) -> Result<Vec<usize>, LoadError> {
        let of_table = |index: &&IndexOn| index.table.eq_ignore_ascii_case(table.name());
        let place = |index: &IndexOn| {
            let named = |column: &Column| column.name.eq_ignore_ascii_case(&index.column);
            columns.iter().position(named).ok_or_else(|| {
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                let IndexOn { table, column } = index;
                let names = names.join(", ");
                LoadError::invalid(format!("{table} has no column {column}; it has {names}"))
            })
        };
        layout.indexes.iter().filter(of_table).map(place).collect()
    }

    fn check_index_tables(tables: &[TpchTable], layout: &Layout) -> Result<(), LoadError> {
        let is_loaded = |index: &IndexOn| {
            tables.iter().any(|table| table.name().eq_ignore_ascii_case(&index.table))
        };
        match layout.indexes.iter().find(|index| !is_loaded(index)) {
            None => Ok(()),
            Some(IndexOn { table, column }) => Err(LoadError::invalid(format!(
                "the index {table}.{column} is of a table that is not loaded; add it to the tables"
            ))),
        }
    }

    fn keyed(&self, table: TpchTable) -> Result<KeyedTable, LoadError> {
        KeyedTable::of(self.width, table).ok_or_else(|| {
            LoadError::invalid(format!(
                "the papers' rows are customer and orders only; {} has the width tpch",
                table.name()
            ))
        })
    }
}
