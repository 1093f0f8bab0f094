//! The peers: what of them is built or made before a run, and how each is called.
//!
//! ```text
//!   DIRECTORY/environment/   Python with DuckDB
//!             programs/      stxxl_sort, stxxl_bfs and mmap_bfs, built here; duckdb_sort.py, harness.py
//!             data/N-seed/   sort.duckdb, sort.txt; edges, adjacency
//!             temporary/     where all write
//! ```

use super::contender::Contender;
use super::graph;
use super::program;
use super::question::{GraphName, Question};
use super::{Checksum, Job, RECORD_BYTES, key_of};
use crate::Failure;
use crate::process::Meter;
use crate::stock::{complete, failure_at, make_directory, python, write};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `pip` installs; the figures are those of these versions.
pub(super) const REQUIREMENTS: &str = "duckdb==2.0.0\nnumpy==2.3.5\n";
const DUCKDB_SCRIPT: &str = include_str!("peers/duckdb_sort.py");
/// What it shares with the scripts of joins: the counts of a process.
const HARNESS_SCRIPT: &str = include_str!("../joins/peers/harness.py");
/// What programs of C++ share.
const MEASURE: (&str, &str) = ("measure.hpp", include_str!("peers/measure.hpp"));
const STXXL_SORT: (&str, &str) = ("stxxl_sort", include_str!("peers/stxxl_sort.cpp"));
const STXXL_BFS: (&str, &str) = ("stxxl_bfs", include_str!("peers/stxxl_bfs.cpp"));
const MMAP_BFS: (&str, &str) = ("mmap_bfs", include_str!("peers/mmap_bfs.cpp"));
/// How they are built: as fast as the compiler makes it for this machine.
pub(super) const CPP_FLAGS: [&str; 6] =
    ["-O3", "-march=native", "-DNDEBUG", "-fopenmp", "-D_GLIBCXX_PARALLEL", "-pthread"];

/// From so many bytes on memory of C++ programs is mapped, and unmapped when it is freed.
const MALLOC_MMAP_THRESHOLD_BYTES: &str = "262144";

/// The directory with all of it.
pub(super) struct Stock {
    directory: PathBuf,
}

impl Stock {
    /// Builds and installs in `directory` what is missing for `contenders`.
    ///
    /// # Errors
    /// If a compiler, a library, Python or the registry are missing.
    pub(super) fn open(directory: &Path, contenders: &[Contender]) -> Result<Self, Failure> {
        make_directory(directory)?;
        let directory = directory.canonicalize().map_err(|error| failure_at(directory, &error))?;
        let stock = Self { directory };
        make_directory(&stock.programs())?;
        make_directory(&stock.temporary())?;
        if contenders.contains(&Contender::Duckdb) {
            write(&stock.programs().join("harness.py"), HARNESS_SCRIPT)?;
            write(&stock.programs().join("duckdb_sort.py"), DUCKDB_SCRIPT)?;
            python::install(&stock.environment(), REQUIREMENTS)?;
        }
        for contender in contenders {
            match contender {
                Contender::StxxlSort | Contender::StxxlKsort => stock.build(STXXL_SORT)?,
                Contender::StxxlMr => stock.build(STXXL_BFS)?,
                Contender::Mmap => stock.build(MMAP_BFS)?,
                _ => {}
            }
        }
        Ok(stock)
    }

    /// Builds a program unless it was built from the same text.
    fn build(&self, (name, text): (&str, &str)) -> Result<(), Failure> {
        let (source, program) =
            (self.programs().join(name).with_extension("cpp"), self.programs().join(name));
        let header = self.programs().join(MEASURE.0);
        let is_same =
            |path: &Path, text: &str| std::fs::read_to_string(path).is_ok_and(|it| it == text);
        let flags = format!("// {}\n", CPP_FLAGS.join(" "));
        let text = flags + text;
        if is_same(&source, &text) && is_same(&header, MEASURE.1) && program.exists() {
            return Ok(());
        }
        eprintln!("building {}", program.display());
        write(&header, MEASURE.1)?;
        // Written last, so that what was not built is built anew.
        let part = source.with_extension("part.cpp");
        write(&part, &text)?;
        let mut compiler = Command::new("g++");
        compiler.args(CPP_FLAGS).arg("-o").arg(&program).arg(&part).arg("-lstxxl");
        complete(&mut compiler, "g++ with STXXL (Debian: apt-get install g++ libstxxl-dev)")?;
        std::fs::rename(&part, &source).map_err(|error| failure_at(&source, &error))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn environment(&self) -> PathBuf {
        self.directory.join("environment")
    }

    pub(super) fn python(&self) -> PathBuf {
        python::interpreter(&self.environment())
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.directory.join("programs")
    }

    /// Where everybody writes.
    pub(super) fn temporary(&self) -> PathBuf {
        self.directory.join("temporary")
    }

    /// Where inputs of a question lie.
    pub(super) fn data(&self, question: Question, seed: u64) -> PathBuf {
        let name = match question {
            Question::Sort { records } => records.to_string(),
            Question::Bfs { graph, nodes } => format!("{}-{nodes}", graph.label()),
        };
        self.directory.join(format!("data/{name}-seed{seed}"))
    }

    /// Removes what was written.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(super) fn clear_temporary(&self) -> Result<(), Failure> {
        let temporary = self.temporary();
        std::fs::remove_dir_all(&temporary).map_err(|error| failure_at(&temporary, &error))?;
        make_directory(&temporary)
    }

    /// Makes the files that `job`'s contender reads, unless they are there.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn make_input(&self, job: &Job) -> Result<(), Failure> {
        make_directory(&job.data)?;
        match (job.contender, job.question) {
            (Contender::GnuSort, Question::Sort { records }) if !text_of(job).exists() => {
                make_text(job, records)
            }
            (Contender::NanduProgram, Question::Sort { records }) => {
                program::make_records(job, records)
            }
            (Contender::Duckdb, _) if !job.data.join("made").exists() => {
                eprintln!("making a table of DuckDB");
                let making = Job { make: true, memory_bytes: 2 << 30, ..job.clone() };
                let text = serde_json::to_string(&making)
                    .map_err(|error| Failure::Run(error.to_string()))?;
                let mut command = Command::new(&job.python);
                command.arg(job.programs.join("duckdb_sort.py")).arg(text);
                complete(&mut command, "making a table")?;
                write(&job.data.join("made"), "")
            }
            (contender, Question::Bfs { graph, nodes }) => {
                let class = graph::class_of(graph, nodes);
                if !graph::edges_of(&job.data).exists() {
                    graph::make_edges(class, job.seed, &job.data)?;
                }
                if contender == Contender::Mmap && !graph::adjacency_of(&job.data).exists() {
                    graph::make_adjacency(class, &job.data)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn text_of(job: &Job) -> PathBuf {
    job.data.join("sort.txt")
}

/// Lines of a key and a payload, in hexadecimal digits, so that text and numbers have one order.
fn make_text(job: &Job, record_count: u64) -> Result<(), Failure> {
    let path = text_of(job);
    eprintln!("writing {}", path.display());
    let part = path.with_extension("part");
    let fail = |error: std::io::Error| failure_at(&part, &error);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&part).map_err(fail)?);
    for number in 0..record_count {
        writeln!(file, "{:016x} {number:016x}", key_of(number, job.seed)).map_err(fail)?;
    }
    file.into_inner().map_err(|error| fail(error.into_error()))?.sync_all().map_err(fail)?;
    std::fs::rename(&part, &path).map_err(fail)
}

/// Becomes STXXL's sort.
pub(super) fn become_stxxl_sort(
    job: &Job,
    variant: &str,
    record_count: u64,
) -> Result<String, Failure> {
    let mut command = Command::new(job.programs.join(STXXL_SORT.0));
    command
        .arg(variant)
        .arg(job.temp.join("stxxl"))
        .args([job.memory_bytes, record_count, job.seed].map(|number| number.to_string()));
    become_program(job, command)
}

/// Becomes STXXL's search.
pub(super) fn become_stxxl_bfs(job: &Job, graph: GraphName, nodes: u64) -> Result<String, Failure> {
    let mut command = Command::new(job.programs.join(STXXL_BFS.0));
    let node_count = graph::class_of(graph, nodes).node_count();
    command
        .arg(job.temp.join("stxxl"))
        .arg(graph::edges_of(&job.data))
        .args([job.memory_bytes, node_count].map(|number| number.to_string()));
    become_program(job, command)
}

/// Becomes the search over a mapped file.
pub(super) fn become_mmap(job: &Job, graph: GraphName, nodes: u64) -> Result<String, Failure> {
    let mut command = Command::new(job.programs.join(MMAP_BFS.0));
    let node_count = graph::class_of(graph, nodes).node_count();
    command.arg(graph::adjacency_of(&job.data)).arg(node_count.to_string());
    become_program(job, command)
}

fn become_program(job: &Job, mut command: Command) -> Result<String, Failure> {
    let error = command
        .env("OMP_NUM_THREADS", job.thread_count.to_string())
        .env("STXXLLOGFILE", "/dev/null")
        .env("STXXLERRLOGFILE", "/dev/null")
        // STXXL takes and frees its memory for each level: what it frees goes back to the group, where
        // a heap would keep it in pieces until the group has no more.
        .env("MALLOC_MMAP_THRESHOLD_", MALLOC_MMAP_THRESHOLD_BYTES)
        .exec();
    Err(failure_at(Path::new(command.get_program()), &error))
}

/// Becomes `DuckDB` in Python.
pub(super) fn become_duckdb(job: &Job, text: &str) -> Result<String, Failure> {
    let error = Command::new(&job.python).arg(job.programs.join("duckdb_sort.py")).arg(text).exec();
    Err(failure_at(&job.python, &error))
}

/// GNU sort from a file into another one, which then is durable.
pub(super) fn gnu_sort(job: &Job) -> Result<String, Failure> {
    let sorted = job.temp.join("sorted.txt");
    let meter = Meter::start()?;
    let mut command = Command::new("sort");
    command
        .arg("--buffer-size")
        .arg(format!("{}b", job.memory_bytes))
        .arg("--parallel")
        .arg(job.thread_count.to_string())
        .arg("--temporary-directory")
        .arg(&job.temp)
        .arg("--output")
        .arg(&sorted)
        .arg(text_of(job))
        .env("LC_ALL", "C");
    complete(&mut command, "sort")?;
    let fail = |error: std::io::Error| failure_at(&sorted, &error);
    let file = File::open(&sorted).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    let spent = meter.stop()?.of_programs();
    let mut checksum = Checksum::default();
    for line in BufReader::with_capacity(1 << 20, file).lines() {
        let line = line.map_err(fail)?;
        let key = line.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        checksum.add(key.ok_or_else(|| Failure::Wrong(format!("a line is `{line}`")))?);
    }
    spent.answer(checksum.row(), None)
}

/// Two reads and two writes of all records' bytes by fio, with the blocks and requests in flight that
/// our streams have.
pub(super) fn fio(job: &Job, record_count: u64) -> Result<String, Failure> {
    let file = job.temp.join("fio");
    let meter = Meter::start()?;
    let mut seconds = 0.0;
    for pattern in ["write", "read", "write", "read"] {
        let output = Command::new("fio")
            .args(["--name=job", "--output-format=json", "--direct=1", "--ioengine=io_uring"])
            .arg(format!("--filename={}", file.display()))
            .arg(format!("--size={}", record_count * RECORD_BYTES))
            .arg(format!("--bs={}", job.block_bytes))
            .arg(format!("--iodepth={}", job.in_flight + 1))
            .arg(format!("--rw={pattern}"))
            .arg("--end_fsync=1")
            .output()
            .map_err(|error| Failure::Missing(format!("fio: {error}")))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let answer: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::Run(format!("fio: {error}: {}", errors.trim())))?;
        let runtime_ms = answer["jobs"][0][pattern]["runtime"].as_f64();
        seconds += runtime_ms.ok_or_else(|| Failure::Run("fio tells no time".into()))? / 1e3;
    }
    let mut spent = meter.stop()?.of_programs();
    // Without what its processes take to start.
    spent.seconds = seconds;
    spent.answer(Vec::new(), None)
}
