//! `PostgreSQL` of the system: a cluster of its own for each run, a socket, prepared statements by
//! pgbench.
//!
//! ```text
//!   initdb, pg_ctl start ─► psql: COPY, CREATE INDEX ─► pgbench: lookups ─► pgbench: updates ─► psql: check
//! ```
//!
//! 1. A commit is durable: fsync and synchronous_commit are on, as they are by themselves.
//! 2. The server of a run ends with the run, whatever becomes of it. It does not run as root, so root
//!    has the user that the package made run it.

use super::{NAMESPACE, NEW_WORD, Taken, Task, failure_at, wrong};
use crate::Failure;
use crate::stock::{complete, write};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const INSTALL: &str = "PostgreSQL with pgbench (Debian: apt-get install postgresql)";
/// The user of Debian's package.
const USER: &str = "postgres";
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

/// What version is installed, and where.
///
/// # Errors
/// If none is.
pub(super) fn version() -> Result<String, Failure> {
    let mut command = Command::new(programs()?.join("postgres"));
    let output = command.arg("--version").output();
    let output = output.map_err(|error| Failure::Missing(format!("{INSTALL}: {error}")))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The newest version's programs.
fn programs() -> Result<PathBuf, Failure> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| {
        let name = path.parent()?.file_name()?.to_str()?;
        name.parse::<u32>().ok()
    };
    versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| {
            ["initdb", "pg_ctl", "psql", "pgbench"].iter().all(|it| bin.join(it).exists())
        })
        .max_by_key(number)
        .ok_or_else(|| Failure::Missing(format!("{INSTALL} is not installed")))
}

/// A server that ends when this goes.
struct Server {
    programs: PathBuf,
    directory: PathBuf,
    runs_as_user: bool,
}

impl Server {
    fn start(task: &Task) -> Result<Self, Failure> {
        let directory = task.scratch.join("postgresql");
        crate::stock::make_directory(&directory)?;
        let own = fs::metadata(&directory).map_err(failure_at(&directory))?;
        let runs_as_user = std::os::unix::fs::MetadataExt::uid(&own) == 0;
        let server = Self { programs: programs()?, directory, runs_as_user };
        if runs_as_user {
            let mut own = Command::new("chown");
            complete(own.arg(USER).arg(&server.directory), "chown to the user of PostgreSQL")?;
        }
        complete(
            server.command("initdb").args(["-A", "trust", "-U", USER, "-D"]).arg(server.data()),
            "initdb",
        )?;
        let settings = format!(
            "-k {} -c listen_addresses='' -c shared_buffers={}kB -c max_wal_size=4GB",
            server.directory.display(),
            task.pool_bytes >> 10
        );
        let mut start = server.command("pg_ctl");
        start.arg("-D").arg(server.data()).args(["-w", "-o", &settings, "-l"]);
        // Its own output would stay open as long as the server.
        let status = start
            .arg(server.directory.join("log"))
            .arg("start")
            .stdout(std::process::Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(server),
            _ => Err(Failure::Run("pg_ctl start: the server does not come up".to_owned())),
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// A program of the server's side.
    fn command(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        if !self.runs_as_user {
            return Command::new(program);
        }
        let mut command = Command::new("runuser");
        // It cannot look into the directory of whoever runs this.
        command.args(["-u", USER, "--"]).arg(program).current_dir("/");
        command
    }

    /// What a script of SQL prints.
    fn sql(&self, script: &str) -> Result<String, Failure> {
        let path = self.directory.join("script.sql");
        write(&path, script)?;
        let mut command = Command::new(self.programs.join("psql"));
        command.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            USER,
            "-d",
            USER,
            "-h",
        ]);
        command.arg(&self.directory).arg("-f").arg(&path);
        output_of(&mut command, "psql")
    }

    /// The mean latency of a script's transactions, in milliseconds.
    fn bench(&self, task: &Task, script: &str, count: u64) -> Result<f64, Failure> {
        let path = self.directory.join("bench.sql");
        write(&path, script)?;
        let last = task.first_id + task.customer_count - 1;
        let mut command = Command::new(self.programs.join("pgbench"));
        command.args(["-n", "-M", "prepared", "-c", "1", "-j", "1", "-t", &count.to_string()]);
        command.arg(format!("--random-seed={}", task.seed));
        command.args(["-D", &format!("first={}", task.first_id), "-D", &format!("last={last}")]);
        command.arg("-f").arg(&path).arg("-h").arg(&self.directory).args(["-U", USER, USER]);
        let told = output_of(&mut command, "pgbench")?;
        latency_ms(&told).ok_or_else(|| Failure::Run(format!("pgbench tells no latency: {told}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        // There is nobody to tell.
        let _ = stop.arg("-D").arg(self.data()).args(["stop", "-m", "immediate", "-s"]).status();
    }
}

fn output_of(command: &mut Command, what: &str) -> Result<String, Failure> {
    let output = command.output().map_err(|error| Failure::Missing(format!("{what}: {error}")))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Engine(format!("{what}: {}", errors.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
    let server = Server::start(task)?;
    let rows = task.scratch.join("rows.txt");
    write_rows(task, layout, &rows)?;
    let started = Instant::now();
    server.sql(&import_script(layout, &rows))?;
    let import_s = started.elapsed().as_secs_f64();
    let few = |count: u64| if layout == Layout::Whole { count.min(WHOLE_COUNT_MAX) } else { count };
    let (look_up, update) = (lookup_script(layout), update_script(layout));
    server.bench(task, &look_up, few(task.lookup_count))?;
    let lookup_ms = server.bench(task, &look_up, few(task.lookup_count))?;
    let update_ms = server.bench(task, &update, few(task.update_count))?;
    let first = task.first_id;
    let is_there = server.sql(&check_script(layout, first))?;
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
