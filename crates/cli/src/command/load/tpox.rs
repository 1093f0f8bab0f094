//! `nandu load tpox`: the collections of TPoX as documents of XML, which `nandu xml` reads.

use super::PlaceArguments;
use crate::Context;
use crate::command::xml::MappingArgument;
use crate::database;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;
use clap::{Args, ValueEnum};
use nandu::RestartReport;
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_load::{Tpox, TpoxCollection, TpoxIndexes, TpoxObserver};
use nandu_probe::table::Table;
use nandu_xml::ImportReport;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu load tpox --size 10MB bank
  nandu xml stat bank --name order
  nandu xml query bank --name security \
      --namespace s=http://tpox-benchmark.com/security \
      '//s:Security[s:Symbol = \"AB\"]/s:Price/s:LastTrade'

Each collection is one document, in its name: custacc, order, security. The same size and seed \
give the same documents; with --index keys they are those over which `nandu bench tpox` runs.")]
pub(super) struct TpoxArguments {
    /// The directory of the database
    database: PathBuf,
    /// How much text, about, from 20KB to 100GB: 10MB, 100MB, 1GB and 10GB have the documents of S004
    #[arg(long, default_value = "100MB", value_parser = super::super::parse_size)]
    size: ByteCount,
    /// Of everything that is drawn
    #[arg(long, default_value = "1")]
    seed: u64,
    /// What is stored: elementless leaves out what follows from the rest
    #[arg(long, value_enum, default_value = "elementless")]
    mapping: MappingArgument,
    /// Which indexes they get
    #[arg(long, value_enum, default_value = "keys")]
    index: IndexArgument,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Indexes by their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IndexArgument {
    /// No index at all
    None,
    /// Of the ids of customers and orders and of the symbols of securities, by which the benchmark's
    /// queries RQ1 to RQ5 find them
    Keys,
    /// Those, and one of all elements
    All,
}

impl IndexArgument {
    const fn indexes(self) -> TpoxIndexes {
        match self {
            Self::None => TpoxIndexes::Without,
            Self::Keys => TpoxIndexes::Keys,
            Self::All => TpoxIndexes::All,
        }
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Summary {
    size_bytes: u64,
    seed: u64,
    mapping: &'static str,
    documents: Vec<DocumentSummary>,
    seconds: f64,
    /// What opening the database took, if it had not been closed.
    restart: Option<RestartReport>,
}

#[derive(Serialize)]
struct DocumentSummary {
    name: &'static str,
    /// Customers, orders or securities.
    subtree_count: u64,
    /// Its indexes, as `xml import --index` takes them.
    indexes: Vec<String>,
    #[serde(flatten)]
    report: ImportReport,
}

/// Stores the three collections.
pub(super) fn run(arguments: &TpoxArguments, context: &Context) -> Result<(), Failure> {
    let stopwatch = Stopwatch::start();
    let tpox = Tpox::new(arguments.size.0, arguments.seed)?;
    let (place, mapping) = (&arguments.place, arguments.mapping.kind());
    let indexes = arguments.index.indexes();
    let options = place.options(place.memory.0)?;
    let (reports, restart) =
        database::fill(&arguments.database, options, place.wishes(), |database| {
            let progress = Progress::new(context, TpoxCollection::ALL.len());
            let mut watch = Watch { progress, collection: TpoxCollection::ALL[0] };
            let mut write = database.write()?;
            let reports = tpox.store(&mut write, (mapping, indexes), &mut watch)?;
            write.commit()?;
            Ok(reports)
        })?;
    let document = |(collection, report): (TpoxCollection, ImportReport)| DocumentSummary {
        name: collection.name(),
        subtree_count: tpox.count(collection),
        indexes: indexes.of(collection).iter().map(ToString::to_string).collect(),
        report,
    };
    let summary = Summary {
        size_bytes: arguments.size.0,
        seed: arguments.seed,
        mapping: mapping.label(),
        documents: TpoxCollection::ALL.into_iter().zip(reports).map(document).collect(),
        seconds: stopwatch.elapsed().as_secs_f64(),
        restart,
    };
    let said = |document: &DocumentSummary| {
        format!("{} in {}", counted(document.report.counts.node_count(), "node"), document.name)
    };
    let done = summary.documents.iter().map(said).collect::<Vec<_>>().join(", ");
    database::answered(tell(&summary, place.json, context), &done)
}

/// Tells what was stored.
fn tell(summary: &Summary, as_json: bool, context: &Context) -> Result<(), Failure> {
    if as_json {
        return context.output.json("load tpox", summary);
    }
    let mut table = Table::new(&["document", "subtrees", "nodes", "text", "stored"]);
    for DocumentSummary { name, subtree_count, report, .. } in &summary.documents {
        table.row(vec![
            (*name).to_owned(),
            subtree_count.to_string(),
            report.counts.node_count().to_string(),
            ByteCount(report.plain_bytes).to_string(),
            ByteCount(report.file_bytes).to_string(),
        ]);
    }
    context.output.table(&table)?;
    context.output.line(&format!("{}, {:.1} s", summary.mapping, summary.seconds))
}

/// Progress and Ctrl-C.
struct Watch {
    progress: Progress,
    collection: TpoxCollection,
}

impl TpoxObserver for Watch {
    fn bytes_stored(&mut self, collection: TpoxCollection, byte_count: u64, fraction: f64) {
        if self.collection != collection {
            self.progress.step_done();
            self.collection = collection;
        }
        let stored = ByteCount(byte_count);
        self.progress.show(fraction, &format!("{}: {stored}", collection.name()));
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_interrupted()
    }
}
