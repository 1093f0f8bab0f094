//! `nandu load tpcc`: the nine tables of TPC-C and their two indexes, warehouse by warehouse.

use super::{PlaceArguments, TableSummary};
use crate::Context;
use crate::database;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;
use clap::Args;
use nandu::{Database, RestartReport};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_load::tpcc::TpccObserver;
use nandu_load::{LoadOptions, Tpcc, TpccScale, TpccTable};
use nandu_probe::table::Table;
use serde::Serialize;
use std::path::PathBuf;

/// Of what the tables are expected to take they take so much at least, however full their pages are.
const LEAST_PERCENT: u64 = 75;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu load tpcc --warehouses 10 shop
  nandu db check-tpcc shop
  nandu db get shop customer 1 1 7

A warehouse takes about 100 MB, of 69 MB of rows. Tables are B+-trees by their keys, history is a heap; \
customer_by_name and orders_by_customer are the indexes. Amounts are cents, taxes and discounts \
hundredths of a percent, dates microseconds since 1970. The same seed gives the same bytes.")]
pub(super) struct TpccArguments {
    /// The directory of the database
    database: PathBuf,
    /// How many warehouses
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    warehouses: u32,
    /// Of everything that is drawn
    #[arg(long, default_value = "1")]
    seed: u64,
    #[command(flatten)]
    scale: ScaleArgument,
    /// How full pages are made, in percent
    #[arg(long, default_value = "80", value_name = "PERCENT",
          value_parser = clap::value_parser!(u32).range(50..=100))]
    fill: u32,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Less rows than TPC-C has, for tests; what is told names them.
#[derive(Debug, Args)]
pub(in crate::command) struct ScaleArgument {
    /// Items, and customers of a district
    #[arg(long, hide = true, value_parser = parse_scale, value_name = "ITEMS,CUSTOMERS")]
    scale: Option<TpccScale>,
}

impl ScaleArgument {
    /// The rows of so many warehouses.
    pub(in crate::command) fn tpcc(&self, warehouses: u32, seed: u64) -> Result<Tpcc, Failure> {
        let scale = self.scale.unwrap_or(TpccScale::STANDARD);
        Ok(Tpcc::with_scale(warehouses, scale, seed)?)
    }
}

/// For clap: `100,10`.
fn parse_scale(text: &str) -> Result<TpccScale, String> {
    let wrong = || format!("`{text}` is no scale; write 100,10, say");
    let (items, customers) = text.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| text.parse().map_err(|_| wrong());
    Ok(TpccScale { item_count: number(items)?, customer_count: number(customers)? })
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Summary {
    warehouse_count: u32,
    item_count: u32,
    customer_count: u32,
    seed: u64,
    tables: Vec<TableSummary<'static>>,
    seconds: f64,
    /// What opening the database took, if it had not been closed.
    restart: Option<RestartReport>,
}

/// Makes and fills the tables.
pub(super) fn run(arguments: &TpccArguments, context: &Context) -> Result<(), Failure> {
    let stopwatch = Stopwatch::start();
    let tpcc = arguments.scale.tpcc(arguments.warehouses, arguments.seed)?;
    let place = &arguments.place;
    let options = place.options(place.memory.0)?;
    let mut load_options = LoadOptions::default();
    let fill_permille = arguments.fill * 10;
    (load_options.fill.low_permille, load_options.fill.high_permille) =
        (fill_permille, fill_permille);
    let (reports, restart) =
        database::fill(&arguments.database, options, place.wishes(), |database| {
            check_room(&tpcc, database)?;
            let warehouse_count = f64::from(arguments.warehouses);
            let mut watch = Watch { progress: Progress::new(context, 1), warehouse_count };
            Ok(tpcc.store(database, &load_options, &mut watch)?)
        })?;
    let table = |(table, report): (TpccTable, _)| TableSummary { table: table.name(), report };
    let summary = Summary {
        warehouse_count: arguments.warehouses,
        item_count: tpcc.scale().item_count,
        customer_count: tpcc.scale().customer_count,
        seed: arguments.seed,
        tables: TpccTable::ALL.into_iter().zip(reports).map(table).collect(),
        seconds: stopwatch.elapsed().as_secs_f64(),
        restart,
    };
    let done = format!(
        "{} in {}",
        counted(u64::from(arguments.warehouses), "warehouse"),
        arguments.database.display()
    );
    database::answered(tell(&summary, place.json, context), &done)
}

/// Refuses warehouses for which there is sure to be no room where the database lies.
pub(in crate::command) fn check_room(tpcc: &Tpcc, database: &Database) -> Result<(), Failure> {
    let least = ByteCount(tpcc.expected_bytes() / 100 * LEAST_PERCENT);
    match database.read().engine().data_io().free_bytes() {
        Some(free) if free < least.0 => Err(Failure::input(format!(
            "{} take at least {least}, and where the database lies there are {} free; load fewer, or \
             name a larger place",
            counted(u64::from(tpcc.warehouse_count()), "warehouse"),
            ByteCount(free)
        ))),
        _ => Ok(()),
    }
}

/// Tells what was loaded, and how fast.
fn tell(summary: &Summary, as_json: bool, context: &Context) -> Result<(), Failure> {
    if as_json {
        return context.output.json("load tpcc", summary);
    }
    let mut table = Table::new(&["table", "rows", "data", "files"]);
    for TableSummary { table: name, report } in &summary.tables {
        table.row(vec![
            (*name).to_owned(),
            report.row_count.to_string(),
            ByteCount(report.record_bytes).to_string(),
            ByteCount(report.file_bytes).to_string(),
        ]);
    }
    context.output.table(&table)?;
    let file_bytes: u64 = summary.tables.iter().map(|table| table.report.file_bytes).sum();
    context.output.line(&format!(
        "{} in {:.1} s, {:.0} MB/s",
        ByteCount(file_bytes),
        summary.seconds,
        file_bytes as f64 / 1e6 / summary.seconds
    ))
}

/// Progress and Ctrl-C, of a load by itself or before a run.
pub(crate) struct Watch {
    pub(crate) progress: Progress,
    pub(crate) warehouse_count: f64,
}

impl TpccObserver for Watch {
    fn warehouses_stored(&mut self, warehouse_count: f64) {
        let told = format!("{warehouse_count:.1} of {} warehouses", self.warehouse_count);
        self.progress.show(warehouse_count / self.warehouse_count, &told);
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_interrupted()
    }
}
