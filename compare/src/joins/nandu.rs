//! Ours: the joins of `nandu_query` over heap tables in a directory of real files, with direct I/O.
//!
//! ```text
//!   Parquet ─► lines of DuckDB ─► heap tables           once, the same rows in the same order
//!   heap tables ─► join ─► pairs of records ─► row      measured
//! ```
//!
//! 1. The memory of a join is a grant of the pool's frames, and the pool is the limit: nothing else
//!    grows with it.
//! 2. Money is in cents and a date the number yyyymmdd.

use super::contender::Format;
use super::process::Job;
use super::query::Query;
use crate::Failure;
use nandu::{
    Column, ColumnType, Database, DatabaseOptions, Settings, StorageError, TableKind, ValueRef,
    open_database,
};
use nandu_base::{to_index, to_u32};
use nandu_query::columns::ColumnRows;
use nandu_query::cost::{CostModel, CpuCosts, DeviceCosts};
use nandu_query::join::{ColumnPairs, ColumnSink, Join, JoinInput, JoinType, PairSink};
use nandu_query::key::KeyColumn;
use nandu_query::plan::{
    self, Budget, ChunkRule, Indexes, JoinQuestion, JoinSide, Plan, PoolShape,
};
use nandu_query::relation::{HeapRelation, PaxRelation};
use nandu_query::{Execution, JoinKind, Key, Limits, PairBatch, QueryError, Relation};
use nandu_storage::database::{LoadOptions, NewTable};
use nandu_storage::sqlite::FillFactor;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The directory of a query's database beside the other formats: queries over the same tables share
/// it.
pub(super) fn directory_of(query: Query, format: Format) -> String {
    let layout = if format == Format::NanduPax { "nandu-pax" } else { "nandu" };
    format!("{layout}-{}", query.tables()[1])
}

const PAGE_BYTES: u32 = 16 << 10;
/// Pages of a PAX page: a column of it is some pages long.
const SPAN_PAGES: u32 = 128;
/// Memory where nothing limits it.
const UNLIMITED_BYTES: u64 = 1 << 30;
/// What stays of the pool beside the grant: the catalogue, and the paths to leaves.
const POOL_FRAMES: u32 = 64;
/// What plans are made for: any flash drive, roughly. A request takes so long beside its bytes, and
/// these go so fast.
const REQUEST_NS: u64 = 100_000;
const READ_BYTES_PER_SECOND: u64 = 1_500_000_000;
const WRITE_BYTES_PER_SECOND: u64 = 500_000_000;

const CUSTOMER: [(&str, ColumnType); 8] = [
    ("c_custkey", ColumnType::Integer),
    ("c_name", ColumnType::Text),
    ("c_address", ColumnType::Text),
    ("c_nationkey", ColumnType::Integer),
    ("c_phone", ColumnType::Text),
    ("c_acctbal", ColumnType::Integer),
    ("c_mktsegment", ColumnType::Text),
    ("c_comment", ColumnType::Text),
];
const ORDERS: [(&str, ColumnType); 9] = [
    ("o_orderkey", ColumnType::Integer),
    ("o_custkey", ColumnType::Integer),
    ("o_orderstatus", ColumnType::Text),
    ("o_totalprice", ColumnType::Integer),
    ("o_orderdate", ColumnType::Integer),
    ("o_orderpriority", ColumnType::Text),
    ("o_clerk", ColumnType::Text),
    ("o_shippriority", ColumnType::Integer),
    ("o_comment", ColumnType::Text),
];

const LINEITEM: [(&str, ColumnType); 16] = [
    ("l_orderkey", ColumnType::Integer),
    ("l_partkey", ColumnType::Integer),
    ("l_suppkey", ColumnType::Integer),
    ("l_linenumber", ColumnType::Integer),
    ("l_quantity", ColumnType::Integer),
    ("l_extendedprice", ColumnType::Integer),
    ("l_discount", ColumnType::Integer),
    ("l_tax", ColumnType::Integer),
    ("l_returnflag", ColumnType::Text),
    ("l_linestatus", ColumnType::Text),
    ("l_shipdate", ColumnType::Integer),
    ("l_commitdate", ColumnType::Integer),
    ("l_receiptdate", ColumnType::Integer),
    ("l_shipinstruct", ColumnType::Text),
    ("l_shipmode", ColumnType::Text),
    ("l_comment", ColumnType::Text),
];

fn columns_of(table: &str) -> &'static [(&'static str, ColumnType)] {
    match table {
        "customer" => &CUSTOMER,
        "lineitem" => &LINEITEM,
        _ => &ORDERS,
    }
}

fn options(pool_bytes: u64) -> DatabaseOptions {
    let settings = Settings {
        page_bytes: PAGE_BYTES,
        pool_bytes,
        log_bytes: 16 << 20,
        checkpoint_bytes: 4 << 20,
        ..Settings::default()
    };
    DatabaseOptions { settings, ..DatabaseOptions::default() }
}

/// Makes a database of a query's tables in `directory`, which is new, of the rows that `lines_of` gives for each table.
///
/// # Errors
/// If a line is no row, or the database cannot be written.
pub(super) fn make_database<R: BufRead>(
    directory: &Path,
    (query, format): (Query, Format),
    mut lines_of: impl FnMut(&str) -> Result<R, Failure>,
) -> Result<(), Failure> {
    std::fs::create_dir(directory)
        .map_err(|error| Failure::Run(format!("{}: {error}", directory.display())))?;
    let database = nandu::create_database(directory, &options(64 << 20)).map_err(failure)?;
    for name in query.tables() {
        let kind = match format {
            Format::NanduPax => TableKind::Pax { span_pages: SPAN_PAGES },
            _ => TableKind::Heap,
        };
        load(&database, name, (columns_of(name), kind), lines_of(name)?)?;
    }
    database.close().map_err(failure)
}

/// Why a load stopped.
enum LoadError {
    Storage(StorageError),
    Source(String),
}

impl From<StorageError> for LoadError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

fn load(
    database: &Database,
    name: &str,
    (columns, kind): (&[(&str, ColumnType)], TableKind),
    lines: impl BufRead,
) -> Result<(), Failure> {
    let table = NewTable {
        name: name.into(),
        columns: columns.iter().map(|&(name, kind)| Column::new(name, kind).not_null()).collect(),
        kind,
        indexes: Vec::new(),
    };
    let mut write = database.write().map_err(failure)?;
    // The peers' files are full, too.
    let fill = FillFactor { low_permille: 1000, high_permille: 1000, seed: 0 };
    let options = LoadOptions { fill, ..LoadOptions::default() };
    let loaded = write.load_table(&table, &options, |rows| {
        for (number, line) in lines.lines().enumerate() {
            let bad = |what: &dyn std::fmt::Display| {
                LoadError::Source(format!("line {} of {name}: {what}", number + 1))
            };
            let line = line.map_err(|error| bad(&error))?;
            let row = row_of(&line, columns).map_err(|what| bad(&what))?;
            rows.push(&row)?;
        }
        Ok(())
    });
    loaded.map_err(|error| match error {
        LoadError::Storage(error) => failure(error),
        LoadError::Source(what) => Failure::Run(what),
    })?;
    write.commit().map_err(failure)
}

/// The values of a line, divided by tabs.
fn row_of<'l>(line: &'l str, columns: &[(&str, ColumnType)]) -> Result<Vec<ValueRef<'l>>, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    if fields.len() != columns.len() {
        return Err(format!("{} fields where {} belong", fields.len(), columns.len()));
    }
    fields
        .into_iter()
        .zip(columns)
        .map(|(field, (name, kind))| match kind {
            ColumnType::Integer => field
                .parse()
                .map(ValueRef::Integer)
                .map_err(|error| format!("{name} is `{field}`: {error}")),
            _ => Ok(ValueRef::Text(field.as_bytes())),
        })
        .collect()
}

/// Joins by `kind`, or by what the planner takes; the row of the query, and which join it was.
///
/// # Errors
/// The engine's.
pub(super) fn answer(
    job: &Job,
    kind: Option<JoinKind>,
) -> Result<(Vec<String>, JoinKind), Failure> {
    let memory_bytes = if job.memory_bytes == 0 { UNLIMITED_BYTES } else { job.memory_bytes };
    let format = job.contender.format();
    let directory = job.data.join(directory_of(job.query, format));
    let (database, _) = open_database(&directory, &options(memory_bytes)).map_err(failure)?;
    let worker_count = job.thread_count;
    let asked = (job.query, format);
    let answer = answer_of(&database, asked, (memory_bytes, worker_count), kind);
    let answer = answer.map_err(failure)?;
    database.close().map_err(failure)?;
    Ok(answer)
}

fn answer_of(
    database: &Database,
    (query, format): (Query, Format),
    (memory_bytes, worker_count): (u64, u32),
    kind: Option<JoinKind>,
) -> Result<(Vec<String>, JoinKind), QueryError> {
    let tables = database.read();
    let [smaller, larger] = query.tables();
    let [smaller_key, larger_key] = query.keys().map(|place| Key::of(&[place]));
    let wanted = query.money().map(|place| [place]);
    let open = |name: &str, key: &Key, wanted: &[usize]| -> Result<Box<dyn Relation>, QueryError> {
        let wanted = (query != Query::Wide).then_some(wanted);
        Ok(match format {
            Format::NanduPax => Box::new(PaxRelation::open(&tables, name, key, wanted)?),
            _ => Box::new(HeapRelation::open(&tables, name)?),
        })
    };
    let smaller = open(smaller, &smaller_key, &wanted[0])?;
    let larger = open(larger, &larger_key, &wanted[1])?;
    let join = Join {
        left: JoinInput { relation: smaller.as_ref(), key: &smaller_key },
        right: JoinInput { relation: larger.as_ref(), key: &larger_key },
        join_type: JoinType::Inner,
    };
    let frames = to_u32(memory_bytes / u64::from(PAGE_BYTES));
    let memory_pages = frames.saturating_sub(POOL_FRAMES);
    let plan = plan_of(&join, (memory_pages, worker_count), kind)?;
    let grant = tables.engine().grant(memory_pages)?;
    let limits = Limits {
        page_bytes: PAGE_BYTES,
        memory_pages,
        write_budget_bytes: None,
        reads_ahead: true,
        work_costs: None,
    };
    let io = tables.engine().data_io();
    let stop = Arc::new(AtomicBool::new(false));
    let execution = Execution::new(limits, io.clone(), io, Some(grant), stop);
    let worker_count = to_index(worker_count.into());
    let (indexes, rule) = (Indexes::NONE, ChunkRule::ByBytes);
    let row = if query == Query::Wide {
        let mut parts = vec![WideRow::default(); worker_count];
        plan.run(&execution, join, indexes, rule, &mut parts)?;
        WideRow::sum(&parts).as_text()
    } else {
        let money = query.money().map(|place| [KeyColumn::Stored(place)]);
        let wanted = [money[0].as_slice(), &money[1]];
        let mut parts = vec![Money::default(); worker_count];
        plan.run_columns(&execution, join, wanted, (indexes, rule), &mut parts)?;
        let count: i64 = parts.iter().map(|part| part.count).sum();
        let cents: i64 = parts.iter().map(|part| part.cents).sum();
        vec![count.to_string(), cents.to_string()]
    };
    execution.audit();
    Ok((row, plan.kind))
}

/// How many pairs one worker found, and the money in them.
#[derive(Clone, Copy, Default)]
struct Money {
    count: i64,
    cents: i64,
}

impl ColumnSink for Money {
    fn take(&mut self, pairs: ColumnPairs<'_>) -> Result<(), QueryError> {
        let sum_of = |rows: Option<ColumnRows<'_>>| -> i64 {
            rows.and_then(|rows| rows.integers(0)).map_or(0, Iterator::sum)
        };
        self.count += i64::try_from(pairs.row_count()).unwrap_or(i64::MAX);
        self.cents += sum_of(pairs.left) + sum_of(pairs.right);
        Ok(())
    }
}

impl PairSink for WideRow {
    fn take(&mut self, pairs: PairBatch<'_>) -> Result<(), QueryError> {
        for (left, right) in pairs.tuples() {
            let (Some(left), Some(right)) = (left, right) else { continue };
            self.add(left.first_values()?, right.first_values()?)?;
        }
        Ok(())
    }
}

/// The planner's best plan for `kind`, or of all that can be opened.
fn plan_of(
    join: &Join<'_>,
    (memory_pages, worker_count): (u32, u32),
    kind: Option<JoinKind>,
) -> Result<Plan, QueryError> {
    let device =
        DeviceCosts::from_rates(0, REQUEST_NS, READ_BYTES_PER_SECOND, WRITE_BYTES_PER_SECOND);
    let model = CostModel { device: &device, processor: &CpuCosts::MODELLED, reads_ahead: true };
    let side = |input: JoinInput<'_>| JoinSide::of(input.relation, u64::from(PAGE_BYTES));
    let (customer, orders) = (side(join.left), side(join.right));
    let orders_per_customer = orders.stats.tuple_count / customer.stats.tuple_count.max(1);
    let question = JoinQuestion::new(customer, orders, orders_per_customer);
    let pool = PoolShape { page_count: POOL_FRAMES.into(), ..PoolShape::NONE };
    let memory_pages = memory_pages.into();
    let budget = Budget { memory_pages, write_bytes: None, pool, worker_count };
    let found = plan::plans(&model, &question, &budget);
    let is_wanted = |plan: &&Plan| match kind {
        Some(kind) => plan.kind == kind,
        None => plan.is_opened_with(Indexes::NONE),
    };
    found.feasible.iter().find(is_wanted).copied().ok_or_else(|| {
        let of = |(other, why): &(JoinKind, _)| format!("{other} {why}");
        let why: Vec<String> = found.rejected.iter().map(of).collect();
        QueryError::Invalid { what: format!("there is no plan: {}", why.join(", ")) }
    })
}

/// The wide query's row so far, of one worker.
#[derive(Clone, Copy, Default)]
struct WideRow {
    count: i64,
    cents: i64,
    /// Pairs whose string of customer is below that of orders, for each of the five comparisons.
    below: [i64; 5],
    order_keys: i64,
    customer_keys: i64,
    nation_keys: i64,
    ship_priorities: i64,
    customer_key_max: i64,
    /// The latest date, as a number yyyymmdd.
    date_max: i64,
}

impl WideRow {
    #[inline]
    fn add(
        &mut self,
        customer: [ValueRef<'_>; CUSTOMER.len()],
        orders: [ValueRef<'_>; ORDERS.len()],
    ) -> Result<(), QueryError> {
        use ValueRef::{Integer, Text};
        let [
            Integer(customer_key),
            Text(name),
            Text(address),
            Integer(nation_key),
            Text(phone),
            Integer(balance),
            Text(segment),
            Text(customer_comment),
        ] = customer
        else {
            return Err(QueryError::Invalid {
                what: "a row of customer is not of its types".into(),
            });
        };
        let [
            Integer(order_key),
            Integer(customer_key_of_order),
            Text(status),
            Integer(price),
            Integer(date),
            Text(priority),
            Text(clerk),
            Integer(ship_priority),
            Text(comment),
        ] = orders
        else {
            return Err(QueryError::Invalid { what: "a row of orders is not of its types".into() });
        };
        self.count += 1;
        self.cents += price + balance;
        for (below, is_below) in self.below.iter_mut().zip([
            name < comment,
            address < clerk,
            phone < priority,
            segment < status,
            customer_comment < comment,
        ]) {
            *below += i64::from(is_below);
        }
        self.order_keys += order_key;
        self.customer_keys += customer_key_of_order;
        self.nation_keys += nation_key;
        self.ship_priorities += ship_priority;
        self.customer_key_max = self.customer_key_max.max(customer_key);
        self.date_max = self.date_max.max(date);
        Ok(())
    }

    /// What all workers found.
    fn sum(parts: &[Self]) -> Self {
        let mut sum = Self::default();
        for part in parts {
            sum.count += part.count;
            sum.cents += part.cents;
            sum.below.iter_mut().zip(part.below).for_each(|(all, more)| *all += more);
            sum.order_keys += part.order_keys;
            sum.customer_keys += part.customer_keys;
            sum.nation_keys += part.nation_keys;
            sum.ship_priorities += part.ship_priorities;
            sum.customer_key_max = sum.customer_key_max.max(part.customer_key_max);
            sum.date_max = sum.date_max.max(part.date_max);
        }
        sum
    }

    /// As every engine tells it.
    fn as_text(&self) -> Vec<String> {
        let date = self.date_max;
        let [a, b, c, d, e] = self.below;
        let mut fields: Vec<String> = [
            self.count,
            self.cents,
            a,
            b,
            c,
            d,
            e,
            self.order_keys,
            self.customer_keys,
            self.nation_keys,
            self.ship_priorities,
            self.customer_key_max,
        ]
        .map(|field| field.to_string())
        .into();
        fields.push(format!("{:04}-{:02}-{:02}", date / 10_000, date / 100 % 100, date % 100));
        fields
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Engine(format!("nandu: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::contender::{Contender, Means};
    use super::*;

    fn customer_line(key: u32) -> String {
        format!("{key}\tCustomer#{key}\taddress\t{}\t10-1\t{}\tBUILDING\tnone", key % 25, key * 100)
    }

    fn orders_line(key: u32, customer: u32) -> String {
        format!("{key}\t{customer}\tF\t250\t1995010{}\t1-URGENT\tClerk#1\t0\tquick", key % 9 + 1)
    }

    /// Both kinds of databases, with 3000 customers and 9000 orders of 3500.
    fn make_databases(place: &Path) {
        for format in [Format::Nandu, Format::NanduPax] {
            let directory = place.join(directory_of(Query::Wide, format));
            let lines = |table: &str| -> Vec<String> {
                match table {
                    "customer" => (0..3000).map(|key| customer_line(key * 7 % 3000 + 1)).collect(),
                    _ => (0..9000).map(|key| orders_line(key, key * 11 % 3500 + 1)).collect(),
                }
            };
            make_database(&directory, (Query::Wide, format), |table| {
                Ok(std::io::Cursor::new(lines(table).join("\n")))
            })
            .unwrap();
        }
    }

    #[test]
    fn the_row_is_that_of_the_tables_at_the_least_memory() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        make_databases(place.path());
        let customers: Vec<i64> = (0..9000).map(|key| key * 11 % 3500 + 1).collect();
        let matched: Vec<(i64, i64)> = customers
            .into_iter()
            .zip(0..)
            .filter(|(customer, _)| *customer <= 3000)
            .map(|(customer, key)| (key, customer))
            .collect();
        let job = Job {
            contender: Contender::NanduPlanned,
            query: Query::Wide,
            tables: Query::Wide.tables().map(String::from).into(),
            data: place.path().into(),
            temp: place.path().into(),
            memory_bytes: 2_000_000,
            thread_count: 1,
            timeout_s: 60,
            processes_file: None,
            python: "python".into(),
            scripts: place.path().into(),
            variant: String::new(),
            slice_count: 0,
        };
        let (row, _) = answer(&job, None).unwrap();
        for kind in Contender::ALL.map(Contender::means) {
            if let Means::Nandu(Some(kind)) = kind {
                for thread_count in [1, 2] {
                    let job = Job { thread_count, ..job.clone() };
                    assert_eq!(answer(&job, Some(kind)).unwrap(), (row.clone(), kind));
                }
            }
        }
        for (thread_count, memory_bytes) in [(1, 8_000_000), (2, 8_000_000), (2, 20_000_000)] {
            let contender = Contender::NanduPax;
            let job = Job { contender, thread_count, memory_bytes, ..job.clone() };
            assert_eq!(answer(&job, None).unwrap().0, row);
            let narrow = Job { query: Query::Narrow, ..job };
            assert_eq!(answer(&narrow, None).unwrap().0, row[..2]);
        }
        let count = i64::try_from(matched.len()).unwrap();
        let cents: i64 = matched.iter().map(|(_, customer)| 250 + customer * 100).sum();
        let order_keys: i64 = matched.iter().map(|(key, _)| key).sum();
        let customer_keys: i64 = matched.iter().map(|(_, customer)| customer).sum();
        let nation_keys: i64 = matched.iter().map(|(_, customer)| customer % 25).sum();
        // "Customer#" and "address" against "quick" and "Clerk#1"; "10-1" against "1-URGENT";
        // "BUILDING" against "F"; "none" against "quick".
        let expected = [
            count,
            cents,
            count,
            0,
            0,
            count,
            count,
            order_keys,
            customer_keys,
            nation_keys,
            0,
            3000,
        ];
        assert_eq!(row[..12], expected.map(|field| field.to_string()));
        assert_eq!(row[12], "1995-01-09");
        let narrow = Job { query: Query::Narrow, ..job };
        assert_eq!(answer(&narrow, None).unwrap().0, row[..2]);
    }

    #[test]
    fn a_line_that_is_no_row_is_named() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let told = |number: usize, line: &str| {
            let lines = format!("{}\n{line}\n", customer_line(1));
            let directory = place.path().join(number.to_string());
            match make_database(&directory, (Query::Wide, Format::Nandu), |_| {
                Ok(std::io::Cursor::new(lines.clone()))
            }) {
                Err(Failure::Run(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told(1, "2\tb"), "line 2 of customer: 2 fields where 8 belong");
        let text = told(2, &customer_line(1).replace("1\tC", "one\tC"));
        assert!(text.starts_with("line 2 of customer: c_custkey is `one`"), "{text}");
    }
}
