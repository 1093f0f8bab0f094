//! `nandu xml`: documents of XML and JSON in a database: in, out, how large, whether sound.
//!
//! 1. A document is stored in one transaction: after an error or Ctrl-C there is nothing of it, nor
//!    a database that was made for it.

mod explain;
mod query;
mod update;

use crate::Context;
use crate::database;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::{DataStream, OutputFiles, cannot_write};
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;
use clap::{Args, Subcommand, ValueEnum};
use nandu::{Database, DatabaseOptions, RestartReport};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_probe::table::Table;
use nandu_xml::{
    Compression, CompressionStat, Document, DocumentCheck, DocumentFormat, DocumentStat,
    ImportObserver, ImportOptions, ImportReport, IndexDefinition, MappingKind, XmlError,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Store documents of XML or JSON, and get them back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu xml import orders.xml shop
  zcat orders.xml.gz | nandu xml import --mapping prefix - shop
  nandu xml import orders.xml shop --index elements --index text://order/@id
  nandu xml export shop | xmllint --c14n - | sha256sum
  nandu xml stat shop
  nandu xml query shop '//order[@id = 7]/total'
  nandu xml explain shop '//order[@id = 7]/total' --analyze
  nandu xml update shop '//order[@id = 7]/status' --set sent
  nandu xml check shop
  nandu xml drop shop
  nandu xml import orders.json shop --name orders
  nandu xml query shop --name orders '/json/orders/_[total > 100]/id'

A document comes out equal to what went in by canonical XML (xmllint --c14n): quotes, sections \
of CDATA, references and white space in tags are not kept. It is UTF-8, and no entity outside \
of it is ever read. A document of JSON comes out with the same keys in the same order, and numbers as \
they were written; its outermost value is the element json, keys are elements, items of arrays are \
elements _. A database may have several documents, each with its --name.")]
pub(crate) struct XmlArguments {
    #[command(subcommand)]
    action: Action,
    /// Print JSON, and nothing else on stdout
    #[arg(long, global = true)]
    json: bool,
    /// What the document is called in the database
    #[arg(long, global = true, default_value = "document")]
    name: String,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store a document, in a database that is made if there is none
    Import {
        /// The file, or - for standard input
        file: PathBuf,
        /// The directory of the database
        directory: PathBuf,
        /// What the file has; without it, JSON if its name ends in .json, else XML
        #[arg(long, value_enum)]
        format: Option<FormatArgument>,
        /// What is stored of it: elementless leaves out what follows from the rest
        #[arg(long, value_enum, default_value = "elementless")]
        mapping: MappingArgument,
        /// Pack containers where that makes them smaller, by LZ4
        #[arg(long)]
        compress: bool,
        /// An index: elements, elements:PATH, text:PATH or number:PATH, such as text://order/@id
        #[arg(long, value_name = "INDEX")]
        index: Vec<String>,
        /// What a prefix in paths of indexes stands for
        #[arg(long, value_name = "PREFIX=URI", value_parser = query::parse_namespace)]
        namespace: Vec<(String, String)>,
        /// Memory for the buffer pool
        #[arg(long, default_value = "64MiB", value_parser = super::parse_size, value_name = "SIZE")]
        memory: ByteCount,
        /// Bytes of a page of a new database, a power of two from 2 KiB to 64 KiB; 4096 without it
        #[arg(long, value_parser = super::parse_size, value_name = "SIZE")]
        page_size: Option<ByteCount>,
        /// Any setting of the engine, such as propagation=log_structured
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Write a document as text, to standard output or a file
    Export {
        /// The directory of the database
        directory: PathBuf,
        /// The file; standard output without it
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        files: OutputFiles,
    },
    /// Find nodes or values by an expression of XPath
    Query(query::QueryArguments),
    /// Say how an expression is answered, and what that costs on a device
    Explain(explain::ExplainArguments),
    /// Change the nodes that an expression chooses
    Update(update::UpdateArguments),
    /// Remove a document, with its names and indexes
    Drop {
        /// The directory of the database
        directory: PathBuf,
    },
    /// Show how large a document is, and what it has in it
    Stat {
        /// The directory of the database
        directory: PathBuf,
    },
    /// Verify a document record by record, and every page of the database
    Check {
        /// The directory of the database
        directory: PathBuf,
    },
}

/// A format by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArgument {
    /// XML 1.0 in UTF-8
    Xml,
    /// JSON in UTF-8, one value
    Json,
}

/// A mapping by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MappingArgument {
    /// A record for each node, with its whole label
    Full,
    /// A record for each node, with what differs from the label before
    Prefix,
    /// Records of what has a value, and of empty elements
    Elementless,
}

/// What `import --json` prints.
#[derive(Serialize)]
struct ImportAnswer<'a> {
    name: &'a str,
    format: &'static str,
    mapping: &'static str,
    compression: &'static str,
    #[serde(flatten)]
    report: ImportReport,
    seconds: f64,
    /// What opening the database took, if it had not been closed.
    restart: Option<RestartReport>,
}

/// What `export --json` prints.
#[derive(Serialize)]
struct ExportAnswer<'a> {
    name: &'a str,
    file: String,
    byte_count: u64,
}

/// What `drop --json` prints.
#[derive(Serialize)]
struct DropAnswer<'a> {
    name: &'a str,
}

/// What `stat --json` prints.
#[derive(Serialize)]
struct StatAnswer<'a> {
    name: &'a str,
    #[serde(flatten)]
    stat: DocumentStat,
    /// Of containers that are packed.
    packed: Option<CompressionStat>,
}

/// What `check --json` prints.
#[derive(Serialize)]
struct CheckAnswer<'a> {
    name: &'a str,
    #[serde(flatten)]
    report: DocumentCheck,
}

/// Does what the command line asks.
pub(crate) fn run(arguments: &XmlArguments, context: &Context) -> Result<(), Failure> {
    let (name, json) = (arguments.name.as_str(), arguments.json);
    match &arguments.action {
        Action::Import {
            file,
            directory,
            format,
            mapping,
            compress,
            index,
            namespace,
            memory,
            page_size,
            set,
        } => {
            let namespaces = namespace.iter().cloned().collect();
            let indexes = index.iter().map(|index| IndexDefinition::parse(index, &namespaces));
            let indexes = indexes.collect::<Result<_, XmlError>>()?;
            let (mapping, format) = (mapping.kind(), format_of(*format, file));
            let compression = if *compress { Compression::Lz4 } else { Compression::None };
            let stored_as = ImportOptions { mapping, format, compression, indexes };
            let what = format!("--memory {memory}");
            crate::memory::check_possible(*memory, &what, "give less")?;
            let mut options = DatabaseOptions::default();
            options.settings.pool_bytes = memory.0;
            let wishes = database::Wishes { page: *page_size, log: None, set };
            let answer = import((file, directory), (name, &stored_as), (options, wishes), context);
            let (answer, done) = answer?;
            database::answered(tell_import(&answer, json, context), &done)
        }
        Action::Export { directory, output: Some(file), files } => {
            export_to_file(directory, name, (file, *files), json, context)
        }
        Action::Export { output: None, .. } if json => {
            Err(Failure::input("--json is of an export to a file; name one with --output"))
        }
        Action::Export { directory, .. } => read(directory, name, |database, document| {
            let mut stream = DataStream::new(context.output);
            let written = nandu_xml::export(&database.read(), document, &mut stream);
            Ok(written.map(drop)?)
        }),
        Action::Query(arguments) => query::run(arguments, name, json, context),
        Action::Explain(arguments) => explain::run(arguments, name, json, context),
        Action::Update(arguments) => update::run(arguments, name, json, context),
        Action::Drop { directory } => drop_document(directory, name, json, context),
        Action::Stat { directory } => stat(directory, name, json, context),
        Action::Check { directory } => check(directory, name, json, context),
    }
}

/// Stores a document. Gives the answer, and what was done in words.
fn import<'n>(
    (file, directory): (&Path, &Path),
    (name, stored_as): (&'n str, &ImportOptions),
    (options, wishes): (DatabaseOptions, database::Wishes<'_>),
    context: &Context,
) -> Result<(ImportAnswer<'n>, String), Failure> {
    let stopwatch = Stopwatch::start();
    let (input, file_name) = Input::named(file, &context.interrupt)?;
    let byte_count = input.byte_count();
    let (report, restart) = database::fill(directory, options, wishes, |database| {
        if Document::open(&database.read(), name).is_ok() {
            return Err(Failure::input(format!(
                "the document {name} exists in {}; give another --name, or remove it with nandu xml drop",
                directory.display()
            )));
        }
        let mut watch = Watch { progress: Progress::new(context, 1), byte_count };
        let mut write = database.write()?;
        let text = (file_name.as_str(), input);
        let report = nandu_xml::import_with(&mut write, name, stored_as, text, &mut watch)?;
        write.commit()?;
        Ok(report)
    })?;
    let seconds = stopwatch.elapsed().as_secs_f64();
    let done = format!("{} in {name}", counted(report.counts.node_count(), "node"));
    let (mapping, format) = (stored_as.mapping.label(), stored_as.format.label());
    let compression = stored_as.compression.label();
    Ok((ImportAnswer { name, format, mapping, compression, report, seconds, restart }, done))
}

fn tell_import(answer: &ImportAnswer<'_>, as_json: bool, context: &Context) -> Result<(), Failure> {
    if as_json {
        return context.output.json("xml import", answer);
    }
    let ImportAnswer { name, format, mapping, report, seconds, .. } = answer;
    context.output.line(&format!(
        "{name}: {} of {} in {} ({format}, {mapping}), {seconds:.1} s",
        counted(report.counts.node_count(), "node"),
        ByteCount(report.plain_bytes),
        ByteCount(report.file_bytes),
    ))
}

/// Opens a document to read it.
fn read<T>(
    directory: &Path,
    name: &str,
    read: impl FnOnce(&Database, &Document) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (database, _) = database::open_to_read(directory, &DatabaseOptions::default())?;
    let document = Document::open(&database.read(), name);
    let answer = document.map_err(Failure::from).and_then(|document| read(&database, &document));
    database::close(database, directory)?;
    answer
}

fn export_to_file(
    directory: &Path,
    name: &str,
    (path, files): (&Path, OutputFiles),
    as_json: bool,
    context: &Context,
) -> Result<(), Failure> {
    let byte_count = read(directory, name, |database, document| {
        let file = files.begin(path, &context.interrupt)?;
        let written = nandu_xml::export(&database.read(), document, &mut file.as_file());
        let byte_count = written.map_err(|error| match error {
            XmlError::Write { error } => cannot_write(path, &error),
            error => error.into(),
        })?;
        files.finish(file, path)?;
        Ok(byte_count)
    })?;
    let file = path.display().to_string();
    if as_json {
        return context.output.json("xml export", &ExportAnswer { name, file, byte_count });
    }
    context.output.line(&format!("{} in {file}", ByteCount(byte_count)))
}

fn drop_document(
    directory: &Path,
    name: &str,
    as_json: bool,
    context: &Context,
) -> Result<(), Failure> {
    let (database, _) = database::open(directory, &DatabaseOptions::default())?;
    let dropped = (|| -> Result<(), Failure> {
        let mut write = database.write()?;
        nandu_xml::drop_document(&mut write, name)?;
        Ok(write.commit().map(drop)?)
    })();
    let closed = database::close(database, directory);
    dropped?;
    closed?;
    let done = format!("{name} is removed");
    let answered = match as_json {
        true => context.output.json("xml drop", &DropAnswer { name }),
        false => context.output.line(&done),
    };
    database::answered(answered, &done)
}

fn stat(directory: &Path, name: &str, as_json: bool, context: &Context) -> Result<(), Failure> {
    let (stat, packed) = read(directory, name, |database, document| {
        let tables = database.read();
        let is_packed = document.compression() != Compression::None;
        let packed = is_packed.then(|| document.compression_stat(&tables)).transpose()?;
        Ok((document.stat(&tables)?, packed))
    })?;
    if as_json {
        return context.output.json("xml stat", &StatAnswer { name, stat, packed });
    }
    let counts = stat.counts;
    let mut table = Table::new(&["what", "how much"]);
    let mut row = |what: &str, value: String| table.row(vec![what.to_owned(), value]);
    row("format", stat.format.to_owned());
    row("mapping", stat.mapping.to_owned());
    row("compression", stat.compression.to_owned());
    for (what, count) in [
        ("elements", counts.element_count),
        ("attributes", counts.attribute_count),
        ("namespace declarations", counts.namespace_count),
        ("texts", counts.text_count),
        ("comments", counts.comment_count),
        ("processing instructions", counts.instruction_count),
        ("levels", counts.level_count),
        ("paths", stat.class_count),
        ("names", stat.name_count),
        ("containers", stat.container_count),
        ("pages", stat.page_count),
        ("height", stat.height),
    ] {
        row(what, count.to_string());
    }
    if let Some(packed) = packed {
        row("packed containers", packed.packed_count.to_string());
        row("containers, unpacked", ByteCount(packed.record_bytes).to_string());
        row("containers, packed", ByteCount(packed.stored_bytes).to_string());
    }
    row("values", ByteCount(counts.value_bytes).to_string());
    row("text", ByteCount(stat.plain_bytes).to_string());
    row("stored", ByteCount(stat.file_bytes).to_string());
    #[allow(clippy::cast_precision_loss, reason = "a share in a report")]
    let share = 100.0 * stat.file_bytes as f64 / stat.plain_bytes.max(1) as f64;
    row("stored / text", format!("{share:.0} %"));
    context.output.table(&table)?;
    if stat.indexes.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["index", "entries", "pages", "height", "stored"]);
    for index in &stat.indexes {
        let counts = [index.entry_count, index.page_count, index.height].map(|it| it.to_string());
        let [entries, pages, height] = counts;
        let stored = ByteCount(index.file_bytes).to_string();
        table.row(vec![index.index.clone(), entries, pages, height, stored]);
    }
    context.output.table(&table)
}

fn check(directory: &Path, name: &str, as_json: bool, context: &Context) -> Result<(), Failure> {
    let report = read(directory, name, |database, document| {
        let tables = database.read();
        let mut report = nandu_xml::check(&tables, document)?;
        report.findings.extend(tables.check()?.findings);
        Ok(report)
    })?;
    let finding_count = report.findings.len();
    let (node_count, container_count) = (report.counts.node_count(), report.container_count);
    let index_entry_count = report.index_entry_count;
    let output = context.output;
    if as_json {
        output.json("xml check", &CheckAnswer { name, report })?;
    } else {
        for finding in &report.findings {
            output.line(finding)?;
        }
        let (nodes, containers) =
            (counted(node_count, "node"), counted(container_count, "container"));
        let entries = match index_entry_count {
            0 => String::new(),
            count => format!(", and {} of indexes,", counted(count, "entry")),
        };
        output.line(&format!("{nodes} in {containers}{entries} looked at"))?;
    }
    match finding_count {
        0 => Ok(()),
        count => {
            let rules =
                if count == 1 { "1 rule is".to_owned() } else { format!("{count} rules are") };
            Err(Failure::shape(format!("{rules} broken; restore a copy")))
        }
    }
}

/// What a file has: what is said, or what its name says.
fn format_of(said: Option<FormatArgument>, file: &Path) -> DocumentFormat {
    let is_json = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    match said {
        Some(FormatArgument::Json) => DocumentFormat::Json,
        None if is_json => DocumentFormat::Json,
        Some(FormatArgument::Xml) | None => DocumentFormat::Xml,
    }
}

impl MappingArgument {
    /// What it names.
    pub(crate) const fn kind(self) -> MappingKind {
        match self {
            Self::Full => MappingKind::Full,
            Self::Prefix => MappingKind::Prefix,
            Self::Elementless => MappingKind::Elementless,
        }
    }
}

/// Progress and Ctrl-C.
struct Watch {
    progress: Progress,
    byte_count: Option<u64>,
}

impl ImportObserver for Watch {
    fn bytes_read(&mut self, byte_count: u64) {
        let fraction = self.byte_count.map_or(0.0, |all| byte_count as f64 / all.max(1) as f64);
        self.progress.show(fraction.min(1.0), &format!("{} read", ByteCount(byte_count)));
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_interrupted()
    }
}
