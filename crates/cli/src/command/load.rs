//! `nandu load`: makes tables in a database from generated rows, CSV, Parquet or files of SQLite, and
//! documents of XML.
//!
//! 1. All tables of one call are made in one transaction: after an error or Ctrl-C there is none of
//!    them, nor a database that was made for them.

mod tpcc;
mod tpox;

pub(super) use tpcc::{
    ScaleArgument as TpccScaleArgument, Watch as TpccWatch, check_room as check_tpcc_room,
};

use crate::Context;
use crate::database;
use crate::failure::Failure;
use crate::input::Input;
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;
use clap::{Args, Subcommand, ValueEnum};
use nandu::{
    Column, ColumnType, DatabaseOptions, RestartReport, SPAN_PAGES_MAX, TableKind, check_name,
};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_load::{
    CsvOptions, CsvRows, Dataset, IndexOn, KeyOrder, Layout, LayoutKind, LoadError, LoadJob,
    LoadObserver, LoadOptions, LoadReport, NewTable, ParquetRows, RowSource, RowWidth, SqliteRows,
    TpchTable, load_tables,
};
use nandu_probe::table::Table;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Make tables from generated rows, CSV, Parquet or a file of SQLite, or documents of XML
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu load tpch --scale-factor 2 --tables customer,orders \\
      --index orders.o_custkey shop
  nandu load tpch --scale-factor 30 --row-width s001 \\
      --tables customer,orders join
  nandu load csv people.csv --table people --types phone:text shop
  zcat rows.csv.gz | nandu load csv - --table rows --no-header shop
  nandu load parquet rides.parquet --table rides --key id shop
  nandu load csv people.csv --table people --pax shop
  nandu load sqlite chinook.db music
  nandu load sqlite chinook.db --table Track --as tracks --key TrackId music
  nandu load tpcc --warehouses 10 shop
  nandu load tpox --size 10MB bank

The database is made if there is none. Rows do not pass the log, so any number will do, and \
a load that ends early leaves nothing. `nandu db` reads and checks what was loaded.")]
pub(crate) struct LoadArguments {
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    /// Rows of the benchmark TPC-H, or of the papers that joined its tables
    Tpch(TpchArguments),
    /// A CSV file, or - for standard input
    Csv(CsvArguments),
    /// A Parquet file of flat columns
    Parquet(ParquetArguments),
    /// A file in SQLite's format, of any program: all its tables, or some
    Sqlite(SqliteArguments),
    /// The nine tables of the benchmark TPC-C, by warehouses
    Tpcc(tpcc::TpccArguments),
    /// XML documents of the benchmark TPoX: customers, orders and securities
    Tpox(tpox::TpoxArguments),
}

#[derive(Debug, Args)]
struct TpchArguments {
    /// The directory of the database
    database: PathBuf,
    /// 1 has 150,000 customers and 1,500,000 orders, about 1 GB; fractions are fine
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    scale_factor: f64,
    /// Tables, with commas between them
    #[arg(long, value_delimiter = ',', value_parser = parse_table, value_name = "TABLES",
          default_value = "region,nation,part,supplier,partsupp,customer,orders,lineitem")]
    tables: Vec<TpchTable>,
    /// The order in which rows come
    #[arg(long, value_enum, default_value = "random")]
    order: OrderArgument,
    /// Of the random order, and of the padding of the papers' rows
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Heap files; B+-trees by primary key, into which random rows are inserted one by one; or PAX pages,
    /// where columns lie apart
    #[arg(long, value_enum, default_value = "heap")]
    layout: LayoutArgument,
    /// All columns, or the key and padding of S001 (section 4.1) or S000 (chapter 5)
    #[arg(long, value_enum, default_value = "tpch")]
    row_width: WidthArgument,
    /// Index a column, TABLE.COLUMN; of a clustered table it is a table TABLE_COLUMN
    #[arg(long, value_name = "COLUMN", value_parser = parse_index)]
    index: Vec<IndexOn>,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
struct CsvArguments {
    /// The file
    file: PathBuf,
    /// The directory of the database
    database: PathBuf,
    #[command(flatten)]
    table: TableArguments,
    /// Types of columns, NAME:TYPE with commas between them; the rest is inferred
    #[arg(long, value_delimiter = ',', value_parser = parse_type, value_name = "TYPES")]
    types: Vec<(String, ColumnType)>,
    /// What stands between two fields: one character, or \t
    #[arg(long, default_value = ",", value_parser = parse_delimiter)]
    delimiter: u8,
    /// The first line is a row; columns are called `column_1` and so on
    #[arg(long)]
    no_header: bool,
    /// The text that is null
    #[arg(long, default_value = "", value_name = "TEXT")]
    null: String,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
struct ParquetArguments {
    /// The file
    file: PathBuf,
    /// The directory of the database
    database: PathBuf,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
struct SqliteArguments {
    /// The file
    file: PathBuf,
    /// The directory of the database
    database: PathBuf,
    /// A table of the file; once for each that is wanted, all without it
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// What the one table is called in the database
    #[arg(long = "as", value_name = "NAME")]
    rename: Option<String>,
    /// Columns that identify a row and order the one table, with commas between them; without them
    /// tables are heaps
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    key: Vec<String>,
    /// Index a column of the one table, a heap
    #[arg(long, value_name = "COLUMN")]
    index: Vec<String>,
    /// Types of columns of the one table, NAME:TYPE with commas between them; the rest have the type
    /// that all their values have
    #[arg(long, value_delimiter = ',', value_parser = parse_type, value_name = "TYPES")]
    types: Vec<(String, ColumnType)>,
    /// Store tables in PAX pages: columns lie apart, and nothing of them can be changed
    #[arg(long, conflicts_with_all = ["key", "index"])]
    pax: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// Where rows of a file go.
#[derive(Debug, Args)]
struct TableArguments {
    /// The table to make
    #[arg(long)]
    table: String,
    /// Columns that identify a row and order the table, with commas between them; without them the
    /// table is a heap
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    key: Vec<String>,
    /// Index a column of a heap
    #[arg(long, value_name = "COLUMN")]
    index: Vec<String>,
    /// Store the table in PAX pages: columns lie apart, and nothing of it can be changed
    #[arg(long, conflicts_with_all = ["key", "index"])]
    pax: bool,
    /// Make a raw tree of the two columns, both blobs: the first is the key of the second
    #[arg(long, conflicts_with_all = ["key", "index", "pax"])]
    raw: bool,
}

#[derive(Debug, Args)]
struct CommonArguments {
    /// How full pages are made, in percent
    #[arg(long, default_value = "80", value_name = "PERCENT",
          value_parser = clap::value_parser!(u32).range(50..=100))]
    fill: u32,
    /// Pages of the database that a PAX page spans
    #[arg(long, default_value = "256", value_name = "PAGES",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(SPAN_PAGES_MAX)))]
    span_pages: u32,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Of the database that is filled, whatever goes into it.
#[derive(Debug, Args)]
struct PlaceArguments {
    /// Memory: three quarters for the buffer pool, one to sort in
    #[arg(long, default_value = "256MiB", value_parser = super::parse_size, value_name = "SIZE")]
    memory: ByteCount,
    /// Bytes of a page of a new database, a power of two from 512 to 64 KiB; 4096 without it
    #[arg(long, value_parser = super::parse_size, value_name = "SIZE")]
    page_size: Option<ByteCount>,
    /// Bytes of the log of a new database, which bound what one transaction changes; 64 MiB without it
    #[arg(long, alias = "log-bytes", value_parser = super::parse_size, value_name = "SIZE")]
    log_size: Option<ByteCount>,
    /// A directory for the log alone, on another disk, say; whoever opens the database names it
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Any setting of the engine, such as propagation=log_structured
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderArgument {
    Random,
    Key,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutArgument {
    Heap,
    Clustered,
    Pax,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WidthArgument {
    Tpch,
    S001,
    S000,
}

/// What is printed in the end.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    tables: Vec<TableSummary<'a>>,
    seconds: f64,
    /// What opening the database took, if it had not been closed.
    restart: Option<RestartReport>,
}

#[derive(Debug, Serialize)]
struct TableSummary<'a> {
    table: &'a str,
    #[serde(flatten)]
    report: LoadReport,
}

/// Loads what the command names.
pub(crate) fn run(arguments: &LoadArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.source {
        Source::Tpch(arguments) => {
            // The text of comments takes seconds.
            let jobs = context.interrupt.before_work(|| tpch_jobs(arguments))?;
            load(&arguments.database, jobs, &arguments.common, context)
        }
        Source::Csv(arguments) => {
            let options = CsvOptions {
                delimiter: arguments.delimiter,
                has_header: !arguments.no_header,
                null: arguments.null.clone(),
                types: arguments.types.clone(),
            };
            let (input, name) = open_input(&arguments.file, context)?;
            let byte_count = input.byte_count();
            let rows = CsvRows::open(Box::new(input), &name, byte_count, &options)?;
            let columns = rows.columns().to_vec();
            let job = file_job(&arguments.table, columns, Box::new(rows), &arguments.common)?;
            load(&arguments.database, vec![job], &arguments.common, context)
        }
        Source::Parquet(arguments) => {
            let rows = context.interrupt.before_work(|| ParquetRows::open(&arguments.file))?;
            let columns = rows.columns().to_vec();
            let job = file_job(&arguments.table, columns, Box::new(rows), &arguments.common)?;
            load(&arguments.database, vec![job], &arguments.common, context)
        }
        Source::Sqlite(arguments) => {
            let jobs = context.interrupt.before_work(|| sqlite_jobs(arguments))?;
            load(&arguments.database, jobs, &arguments.common, context)
        }
        Source::Tpcc(arguments) => tpcc::run(arguments, context),
        Source::Tpox(arguments) => tpox::run(arguments, context),
    }
}

fn sqlite_jobs(arguments: &SqliteArguments) -> Result<Vec<LoadJob>, Failure> {
    let SqliteArguments { file, table, rename, key, index, types, pax, common, .. } = arguments;
    let names = if table.is_empty() { SqliteRows::tables(file)? } else { table.clone() };
    let is_of_one = rename.is_some() || [key.len(), index.len(), types.len()] != [0; 3];
    if names.is_empty() {
        return Err(Failure::input(format!("{}: it has no tables", file.display())));
    }
    if is_of_one && names.len() > 1 {
        return Err(Failure::input(format!(
            "--as, --key, --index and --types are of one table; name it with --table: {}",
            names.join(", ")
        )));
    }
    if rename.is_none() {
        // Before any table is loaded.
        for name in &names {
            let refused = |error| {
                Failure::input(format!("{error}; load it with --table {name:?} --as ANOTHER"))
            };
            check_name(name).map_err(refused)?;
        }
    }
    let job = |name: &String| {
        let rows = SqliteRows::open(file, name, types)?;
        let columns = rows.columns().to_vec();
        let table = rename.clone().unwrap_or_else(|| rows.table().to_owned());
        let target =
            TableArguments { table, key: key.clone(), index: index.clone(), pax: *pax, raw: false };
        file_job(&target, columns, Box::new(rows), common)
    };
    names.iter().map(job).collect()
}

/// What the generator takes for the text that it cuts comments out of.
const COMMENT_POOL: ByteCount = ByteCount::mib(320);

fn tpch_jobs(arguments: &TpchArguments) -> Result<Vec<LoadJob>, Failure> {
    let width = match arguments.row_width {
        WidthArgument::Tpch => RowWidth::Tpch,
        WidthArgument::S001 => RowWidth::S001,
        WidthArgument::S000 => RowWidth::S000,
    };
    let order = match arguments.order {
        OrderArgument::Random => KeyOrder::Random,
        OrderArgument::Key => KeyOrder::Key,
    };
    let seed = arguments.seed;
    let dataset = Dataset { order, seed, ..Dataset::new(width, arguments.scale_factor) };
    dataset.check_scale(&arguments.tables)?;
    if matches!(width, RowWidth::Tpch) {
        let what = "the text of which TPC-H's comments are parts";
        let advice = "allow it more (ulimit -v), or load rows without it (--row-width s001)";
        crate::memory::check_possible(COMMENT_POOL, what, advice)?;
    }
    let kind = match arguments.layout {
        LayoutArgument::Heap => LayoutKind::Heap,
        LayoutArgument::Clustered => LayoutKind::Clustered,
        LayoutArgument::Pax => LayoutKind::Pax { span_pages: arguments.common.span_pages },
    };
    let layout = Layout { kind, indexes: arguments.index.clone() };
    Ok(dataset.jobs(&arguments.tables, &layout, &arguments.common.options())?)
}

fn file_job(
    arguments: &TableArguments,
    columns: Vec<Column>,
    source: Box<dyn RowSource>,
    common: &CommonArguments,
) -> Result<LoadJob, Failure> {
    let index_of = |name: &String| {
        let place = columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        place.ok_or_else(|| {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            Failure::input(format!("there is no column {name}; there are {}", names.join(", ")))
        })
    };
    let key: Result<Vec<usize>, Failure> = arguments.key.iter().map(index_of).collect();
    let kind = match key? {
        _ if arguments.raw => TableKind::Raw,
        _ if arguments.pax => TableKind::Pax { span_pages: common.span_pages },
        key if key.is_empty() => TableKind::Heap,
        key => TableKind::Clustered { key },
    };
    let mut indexes = Vec::new();
    for name in &arguments.index {
        let column = columns[index_of(name)?].name.clone();
        indexes.push((column.clone(), vec![column]));
    }
    let types = |columns: &[Column]| -> Vec<ColumnType> {
        columns.iter().map(|column| column.column_type).collect()
    };
    let columns = match kind.own_columns() {
        // Their names are the table's, and what is null is refused row by row.
        Some(own) if types(&own) == types(&columns) => own,
        _ => columns,
    };
    let table = NewTable { name: arguments.table.clone(), columns, kind, indexes };
    Ok(LoadJob { table, options: common.options(), source })
}

fn load(
    directory: &Path,
    mut jobs: Vec<LoadJob>,
    common: &CommonArguments,
    context: &Context,
) -> Result<(), Failure> {
    let stopwatch = Stopwatch::start();
    let memory = common.place.memory;
    let options = common.place.options(memory.0 - memory.0 / 4)?;
    let wishes = common.place.wishes();
    let (reports, restart) = database::fill(directory, options, wishes, |database| {
        let progress = Progress::new(context, jobs.len());
        let mut watch = Watch { progress, table: String::new() };
        Ok(load_tables(database, &mut jobs, &mut watch)?)
    })?;
    let seconds = stopwatch.elapsed().as_secs_f64();
    let pairs = jobs.iter().zip(reports);
    let tables: Vec<TableSummary<'_>> =
        pairs.map(|(job, report)| TableSummary { table: &job.table.name, report }).collect();
    let rows = |loaded: &TableSummary<'_>| {
        format!("{} in {}", counted(loaded.report.row_count, "row"), loaded.table)
    };
    let done = tables.iter().map(rows).collect::<Vec<_>>().join(", ");
    let told = tell(Summary { tables, seconds, restart }, common.place.json, context);
    database::answered(told, &done)
}

/// Tells what was loaded.
fn tell(summary: Summary<'_>, as_json: bool, context: &Context) -> Result<(), Failure> {
    if as_json {
        return context.output.json("load", &summary);
    }
    let Summary { tables, seconds, .. } = summary;
    let mut table = Table::new(&["table", "rows", "index entries", "data", "files"]);
    for TableSummary { table: name, report } in &tables {
        table.row(vec![
            (*name).to_owned(),
            report.row_count.to_string(),
            report.index_entry_count.to_string(),
            ByteCount(report.record_bytes).to_string(),
            ByteCount(report.file_bytes).to_string(),
        ]);
    }
    context.output.table(&table)?;
    context.output.line(&format!("{seconds:.1} s"))
}

impl PlaceArguments {
    /// How a database is opened, with a buffer pool of so many bytes.
    fn options(&self, pool_bytes: u64) -> Result<DatabaseOptions, Failure> {
        let what = format!("--memory {}", self.memory);
        crate::memory::check_possible(self.memory, &what, "give less")?;
        let log_directory = self.log.clone();
        let mut options = DatabaseOptions { log_directory, ..DatabaseOptions::default() };
        options.settings.pool_bytes = pool_bytes;
        Ok(options)
    }

    fn wishes(&self) -> database::Wishes<'_> {
        database::Wishes { page: self.page_size, log: self.log_size, set: &self.set }
    }
}

impl CommonArguments {
    fn options(&self) -> LoadOptions {
        let sort_bytes = self.place.memory.0 / 4;
        let mut options = LoadOptions { sort_bytes, ..LoadOptions::default() };
        (options.fill.low_permille, options.fill.high_permille) = (self.fill * 10, self.fill * 10);
        options
    }
}

/// Progress and Ctrl-C.
struct Watch {
    progress: Progress,
    table: String,
}

impl LoadObserver for Watch {
    fn rows_loaded(&mut self, table: &str, row_count: u64, fraction: f64) {
        if self.table != table {
            if !self.table.is_empty() {
                self.progress.step_done();
            }
            table.clone_into(&mut self.table);
        }
        self.progress.show(fraction, &format!("{table}: {}", counted(row_count, "row")));
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_interrupted()
    }
}

/// What has this name, and how it is called.
fn open_input(path: &Path, context: &Context) -> Result<(Input, String), Failure> {
    let (opened, name) = match path == Path::new("-") {
        true => (Input::stdin(&context.interrupt), "standard input".to_owned()),
        false => (Input::open(path, &context.interrupt), path.display().to_string()),
    };
    match opened {
        Ok(input) => Ok((input, name)),
        Err(error) => Err(LoadError::File { file: name, error }.into()),
    }
}

/// For clap: a table of the benchmark.
fn parse_table(text: &str) -> Result<TpchTable, String> {
    let found = TpchTable::ALL.into_iter().find(|table| table.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names = TpchTable::ALL.map(TpchTable::name).join(", ");
        format!("there is no table `{text}`; there are {names}")
    })
}

/// For clap: `orders.o_custkey`.
fn parse_index(text: &str) -> Result<IndexOn, String> {
    match text.split_once('.') {
        Some((table, column)) if !table.is_empty() && !column.is_empty() => {
            Ok(IndexOn { table: table.to_owned(), column: column.to_owned() })
        }
        _ => Err(format!("`{text}` is no column of a table; write orders.o_custkey, say")),
    }
}

/// For clap: `name:text`.
fn parse_type(text: &str) -> Result<(String, ColumnType), String> {
    super::db::parse_column(text).map(|column| (column.name, column.column_type))
}

/// For clap: one character.
fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !b"\"\r\n".contains(&byte) => Ok(byte),
        _ => Err(format!("`{text}` is no delimiter; one character as , ; | or \\t will do")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_tables_indexes_and_delimiters() {
        assert_eq!(parse_table("Orders"), Ok(TpchTable::Orders));
        assert!(parse_table("order").unwrap_err().contains("lineitem"));
        let index = parse_index("orders.o_custkey").unwrap();
        assert_eq!((index.table.as_str(), index.column.as_str()), ("orders", "o_custkey"));
        assert!(parse_index("o_custkey").is_err());
        assert_eq!(parse_delimiter("\\t"), Ok(b'\t'));
        assert!(parse_delimiter("::").is_err());
        assert!(parse_delimiter("\"").is_err());
    }
}
