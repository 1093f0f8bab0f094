//! `nandu xml explain`: how an expression is answered over a document, and what that costs on a device.
//!
//! 1. What is expected follows from counts of paths and sizes of trees; a page that was read is taken to
//!    stay in memory. What a run does is counted, from an empty pool.

use super::query::{PlanAnswer, asked, parse_namespace, shown, tell_plan};
use super::read;
use crate::Context;
use crate::command::explain::costs;
use crate::failure::Failure;
use crate::run_facts::RunFacts;
use crate::stopwatch::Stopwatch;
use clap::Args;
use nandu::Database;
use nandu_base::words::{counted, wrap};
use nandu_base::{Nanos, to_index};
use nandu_probe::table::Table;
use nandu_query::cost::{DeviceCosts, Pattern};
use nandu_xml::xpath::{Access, ContainerCosts, Found, Namespaces, QueryLimits, QueryPlan, query};
use nandu_xml::{Document, DocumentStat, XmlError};
use serde::Serialize;
use std::path::PathBuf;

/// How many leaves a scan asks for at once.
const AHEAD_COUNT: u64 = 32;

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// The directory of the database
    directory: PathBuf,
    /// An expression of `XPath` 1.0, such as `//book[@year > 1990]/title`
    expression: String,
    /// What a prefix of the expression stands for
    #[arg(long, value_name = "PREFIX=URI", value_parser = parse_namespace)]
    namespace: Vec<(String, String)>,
    /// The profile of the device, as JSON
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Answer it in each way, too, from an empty pool
    #[arg(long)]
    analyze: bool,
}

/// What `explain --json` prints.
#[derive(Serialize)]
struct ExplainAnswer<'a> {
    name: &'a str,
    /// The expression with abbreviations spelt out.
    expression: String,
    plan: PlanAnswer,
    /// How many entries of indexes were read to find elements.
    entry_count: Option<u64>,
    device: String,
    /// The chosen way first.
    ways: Vec<Way>,
    run: RunFacts,
}

/// One way to answer.
#[derive(Serialize)]
struct Way {
    /// By an index, or by reading the document.
    way: &'static str,
    container_count: u64,
    request_count: u64,
    /// On the device.
    device_ns: u64,
    actual: Option<Actual>,
}

/// What a run did.
#[derive(Serialize)]
struct Actual {
    request_count: u64,
    read_bytes: u64,
    /// Of nodes or values.
    found_count: u64,
    wall_ns: u64,
}

/// Explains an expression.
pub(super) fn run(
    arguments: &ExplainArguments,
    name: &str,
    as_json: bool,
    context: &Context,
) -> Result<(), Failure> {
    let (expression, namespaces) = asked(&arguments.expression, &arguments.namespace)?;
    let (costs, device) = costs::device(arguments.profile.as_deref())?;
    read(&arguments.directory, name, |database, document| {
        let scan = QueryPlan::new(&expression, document, &namespaces)?;
        let tables = database.read();
        let plan = scan.clone().choose(&tables, document, &namespaces)?;
        let stat = document.stat(&tables)?;
        let page_bytes = u64::from(tables.engine().settings().page_bytes);
        drop(tables);
        let mut ways = Vec::new();
        let mut entry_count = None;
        if let Access::Found(found) = &plan.access {
            entry_count = Some(found.entry_count);
            ways.push((expected(&plan, document, &stat, (&costs, page_bytes)), &plan));
        }
        if !scan.classes.is_empty() {
            ways.push((expected(&scan, document, &stat, (&costs, page_bytes)), &scan));
        }
        let mut told = Vec::new();
        for (mut way, plan) in ways {
            if arguments.analyze {
                way.actual = Some(answered(database, document, plan, &namespaces, context)?);
            }
            told.push(way);
        }
        let plan = shown(&plan, document);
        let expression = expression.to_string();
        let run = RunFacts::since(context.started);
        let answer = ExplainAnswer { name, expression, plan, entry_count, device, ways: told, run };
        if as_json { context.output.json("xml explain", &answer) } else { tell(&answer, context) }
    })
}

/// What a plan reads, by counts and sizes.
fn expected(
    plan: &QueryPlan,
    document: &Document,
    stat: &DocumentStat,
    (costs, page_bytes): (&DeviceCosts, u64),
) -> Way {
    let ContainerCosts { scan_count, element_count } = plan.container_costs(document);
    let Access::Found(found) = &plan.access else {
        let request_count = stat.page_count;
        let runs = request_count.div_ceil(AHEAD_COUNT);
        let device_ns = runs * costs.read.time_ns(Pattern::Sequential, AHEAD_COUNT * page_bytes);
        let (way, container_count, actual) = ("scan", scan_count, None);
        return Way { way, container_count, request_count, device_ns, actual };
    };
    let container_count = element_count * found.labels.len() as u64;
    let page_count = stat.page_count.max(1);
    let containers_per_page = scan_count.div_ceil(page_count).max(1);
    let pages = element_count.div_ceil(containers_per_page) * found.labels.len() as u64;
    // Inner nodes are read once.
    let mut request_count = pages.min(page_count);
    request_count += if pages > 0 { stat.height.saturating_sub(1) } else { 0 };
    for index in &stat.indexes {
        if found.indexes.iter().any(|used| used.to_string() == index.index) {
            let entries_per_page = (index.entry_count / index.page_count.max(1)).max(1);
            request_count += index.height + found.entry_count / entries_per_page;
        }
    }
    let device_ns = request_count * costs.read.time_ns(Pattern::Random, page_bytes);
    Way { way: "index", container_count, request_count, device_ns, actual: None }
}

/// Answers by a plan, from an empty pool. What finds elements by an index is done again.
fn answered(
    database: &Database,
    document: &Document,
    plan: &QueryPlan,
    namespaces: &Namespaces,
    context: &Context,
) -> Result<Actual, Failure> {
    database.drop_cached_pages()?;
    let tables = database.read();
    let reads = || tables.engine().device_counters().0.reads;
    let (before, stopwatch) = (reads(), Stopwatch::start());
    let plan = match plan.access {
        Access::Scan => plan.clone(),
        Access::Found(_) => plan.clone().choose(&tables, document, namespaces)?,
    };
    let mut found_count = 0;
    let mut count = |_: Found<'_>| {
        found_count += 1;
        Ok(())
    };
    let limits = QueryLimits { fragment_bytes: to_index(u64::from(u32::MAX)) };
    let is_stopped = || context.interrupt.is_set();
    query(&tables, document, &plan, (namespaces, limits), &is_stopped, &mut count).map_err(
        |error| match error {
            XmlError::Cancelled => Failure::interrupted("the answer is not whole"),
            error => error.into(),
        },
    )?;
    let wall_ns = u64::try_from(stopwatch.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let after = reads();
    let request_count = after.request_count - before.request_count;
    let read_bytes = after.byte_count - before.byte_count;
    Ok(Actual { request_count, read_bytes, found_count, wall_ns })
}

fn tell(answer: &ExplainAnswer<'_>, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    tell_plan(&answer.plan, context)?;
    if let Some(count) = answer.entry_count {
        output.line(&format!("{} of indexes read to find them", counted(count, "entry")))?;
    }
    for line in wrap(&format!("device: {}", answer.device), output.width()) {
        output.line(&line)?;
    }
    let mut table = Table::new(&["way", "containers", "requests", "time", "did", "in"]);
    for way in &answer.ways {
        let [containers, requests] =
            [way.container_count, way.request_count].map(|count| count.to_string());
        let time = Nanos(way.device_ns).to_string();
        let (did, took) = way.actual.as_ref().map_or_else(Default::default, |actual| {
            (counted(actual.request_count, "request"), Nanos(actual.wall_ns).to_string())
        });
        table.row(vec![way.way.to_owned(), containers, requests, time, did, took]);
    }
    output.table(&table)
}
