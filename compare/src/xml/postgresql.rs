//! `PostgreSQL` of the system: a cluster of its own for each run, a socket, prepared statements by
//! pgbench.
//!
//! ```text
//!   initdb, postgres ─► psql: COPY, CREATE INDEX ─► pgbench: lookups ─► pgbench: updates ─► psql: check
//! ```
//!
//! 1. A commit is durable: fsync and synchronous_commit are on, as they are by themselves.
//! 2. The server of a run ends with the run, whatever becomes of it.

use super::{NAMESPACE, NEW_WORD, Taken, Task, failure_at, wrong};
use crate::Failure;
use crate::postgresql::{Cluster, Server, USER, output_of};
use crate::stock::write;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

/// An operation on a document that is one value takes so long that a few are enough.
const WHOLE_COUNT_MAX: u64 = 5;

/// How the document lies in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Each customer is a row.
    Rows,
    /// All of it is one value.
    Whole,
}

/// What version is installed.
///
/// # Errors
/// If none is.
pub(super) fn version() -> Result<String, Failure> {
    crate::postgresql::version()
}

/// A server over a cluster of its own.
fn start(task: &Task) -> Result<Server, Failure> {
    let cluster = Cluster::at(&task.scratch.join("postgresql"))?;
    cluster.make()?;
    let memory = format!("shared_buffers={}kB", task.pool_bytes >> 10);
    cluster.start(&[memory, "max_wal_size=4GB".to_owned()])
}

/// The mean latency of a script's transactions, in milliseconds.
fn bench(server: &Server, task: &Task, script: &str, count: u64) -> Result<f64, Failure> {
    let path = server.directory().join("bench.sql");
    write(&path, script)?;
    let last = task.first_id + task.customer_count - 1;
    let mut command = server.client("pgbench");
    command.args(["-n", "-M", "prepared", "-c", "1", "-j", "1", "-t", &count.to_string()]);
    command.arg(format!("--random-seed={}", task.seed));
    command.args(["-D", &format!("first={}", task.first_id), "-D", &format!("last={last}")]);
    command.arg("-f").arg(&path).arg(USER);
    let told = output_of(&mut command, "pgbench")?;
    latency_ms(&told).ok_or_else(|| Failure::Run(format!("pgbench tells no latency: {told}")))
}

fn latency_ms(told: &str) -> Option<f64> {
    let line = told.lines().find_map(|line| line.strip_prefix("latency average = "))?;
    line.strip_suffix(" ms")?.parse().ok()
}

/// Imports, looks up, changes.
///
/// # Errors
/// If it is not installed, fails, or does something else.
pub(super) fn take(task: &Task, layout: Layout) -> Result<Taken, Failure> {
    let server = start(task)?;
    let rows = task.scratch.join("rows.txt");
    write_rows(task, layout, &rows)?;
    let started = Instant::now();
    server.sql(&import_script(layout, &rows))?;
    let import_s = started.elapsed().as_secs_f64();
    let few = |count: u64| if layout == Layout::Whole { count.min(WHOLE_COUNT_MAX) } else { count };
    let (look_up, update) = (lookup_script(layout), update_script(layout));
    bench(&server, task, &look_up, few(task.lookup_count))?;
    let lookup_ms = bench(&server, task, &look_up, few(task.lookup_count))?;
    let update_ms = bench(&server, task, &update, few(task.update_count))?;
    let first = task.first_id;
    let is_there = server.sql(&check_script(layout, first))?;
    server.stop()?;
    if is_there != "t t" {
        return Err(wrong(
            "postgresql",
            &format!("a customer or a changed word is not there: {is_there}"),
        ));
    }
    Ok(Taken { import_s, lookup_ms, update_ms })
}

/// The document as lines of COPY: one for each customer, or one of all. It has neither backslashes nor
/// tabs, which COPY would take for others.
fn write_rows(task: &Task, layout: Layout, path: &Path) -> Result<(), Failure> {
    let input = File::open(&task.file).map_err(failure_at(&task.file))?;
    let mut output = BufWriter::new(File::create(path).map_err(failure_at(path))?);
    for line in BufReader::with_capacity(1 << 20, input).lines() {
        let line = line.map_err(failure_at(&task.file))?;
        if line.contains(['\\', '\t']) {
            return Err(Failure::Run("a line of the document is none of COPY".to_owned()));
        }
        let is_customer = line.starts_with("<Customer");
        match layout {
            Layout::Rows if is_customer => writeln!(output, "{line}"),
            Layout::Rows => Ok(()),
            Layout::Whole => write!(output, "{line}"),
        }
        .map_err(failure_at(path))?;
    }
    if layout == Layout::Whole {
        writeln!(output).map_err(failure_at(path))?;
    }
    output.flush().map_err(failure_at(path))
}

fn import_script(layout: Layout, rows: &Path) -> String {
    let rows = rows.display();
    let names = format!("ARRAY[ARRAY['c','{NAMESPACE}']]");
    // A function, since pgbench takes a colon in a text for a variable.
    match layout {
        Layout::Rows => format!(
            "CREATE FUNCTION id_of(doc xml) RETURNS text LANGUAGE sql IMMUTABLE AS \
             $$ SELECT (xpath('/c:Customer/@id', doc, {names}))[1]::text $$;\n\
             CREATE TABLE custacc (doc xml);\n\\copy custacc from '{rows}'\n\
             CREATE INDEX custacc_id ON custacc (id_of(doc));\nANALYZE custacc;\n"
        ),
        Layout::Whole => format!(
            "CREATE FUNCTION customer_of(doc xml, id text) RETURNS xml LANGUAGE sql IMMUTABLE AS \
             $$ SELECT (xpath('/custacc/c:Customer[@id=\"' || id || '\"]', doc, {names}))[1] $$;\n\
             CREATE TABLE custacc (doc xml);\n\\copy custacc from '{rows}'\n"
        ),
    }
}

fn lookup_script(layout: Layout) -> String {
    let select = match layout {
        Layout::Rows => "SELECT doc FROM custacc WHERE id_of(doc) = CAST(:id AS text);",
        Layout::Whole => "SELECT customer_of(doc, CAST(:id AS text)) FROM custacc;",
    };
    format!("\\set id random(:first, :last)\n{select}\n")
}

fn update_script(layout: Layout) -> String {
    let update = match layout {
        Layout::Rows => format!(
            "UPDATE custacc SET doc = xmlparse(DOCUMENT regexp_replace(doc::text, \
             '<Mnemonic>[^<]*', '<Mnemonic>{NEW_WORD}' || CAST(:word AS text))) \
             WHERE id_of(doc) = CAST(:id AS text);"
        ),
        Layout::Whole => format!(
            "UPDATE custacc SET doc = xmlparse(DOCUMENT regexp_replace(doc::text, \
             '( id=\"' || CAST(:id AS text) || '\"><Mnemonic>)[^<]*', \
             '\\1{NEW_WORD}' || CAST(:word AS text)));"
        ),
    };
    format!("\\set id random(:first, :last)\n\\set word random(1, 1000000)\n{update}\n")
}

/// Whether a customer is found by its id, and some word is a new one.
fn check_script(layout: Layout, id: u64) -> String {
    let found = match layout {
        Layout::Rows => format!("SELECT doc FROM custacc WHERE id_of(doc) = '{id}'"),
        Layout::Whole => format!("SELECT customer_of(doc, '{id}') FROM custacc"),
    };
    format!(
        "SELECT concat(({found})::text LIKE '%<Customer%id=\"{id}\"%', ' ', \
         EXISTS (SELECT 1 FROM custacc WHERE doc::text LIKE '%<Mnemonic>{NEW_WORD}%'));\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_tells_its_latency_in_a_line() {
        let told = "number of failed transactions: 0 (0.000%)\nlatency average = 0.065 ms\ntps = 1";
        assert_eq!(latency_ms(told), Some(0.065));
        assert_eq!(latency_ms("latency average = much"), None);
    }

    #[test]
    fn scripts_have_no_colon_but_of_variables_where_pgbench_reads_them() {
        for layout in [Layout::Rows, Layout::Whole] {
            for script in [lookup_script(layout), update_script(layout)] {
                let others = script.replace("::text", "");
                let names = others.split(':').skip(1);
                for name in names {
                    let is_known =
                        ["id", "first", "last", "word"].iter().any(|it| name.starts_with(it));
                    assert!(is_known, "{script}");
                }
            }
        }
    }
}
