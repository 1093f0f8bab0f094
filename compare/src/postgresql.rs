//! `PostgreSQL` of the system: a cluster of its own, and its server as a child of this process, so that it
//! is in the control group and in the account of whoever starts it.
//!
//! 1. The server ends with its owner. It does not run as root, so root has the user that the package made
//!    run it.
//! 2. It says on its output that it is ready; the rest of what it says goes to a file.

use crate::Failure;
use crate::stock::{complete, failure_at, make_directory, write};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) const INSTALL: &str = "PostgreSQL (Debian: apt-get install postgresql)";
/// The user of Debian's package, and the one who may do all in the cluster.
pub(crate) const USER: &str = "postgres";
/// What the server says once it can be asked.
const READY: &str = "database system is ready to accept connections";

/// What version is installed.
///
/// # Errors
/// If none is.
pub(crate) fn version() -> Result<String, Failure> {
    let output = Command::new(programs()?.join("postgres")).arg("--version").output();
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
    let has_all = |bin: &PathBuf| {
        ["initdb", "pg_ctl", "postgres", "psql", "pgbench"].iter().all(|it| bin.join(it).exists())
    };
    versions
        .map(|version| version.path().join("bin"))
        .filter(has_all)
        .max_by_key(number)
        .ok_or_else(|| Failure::Missing(format!("{INSTALL} is not installed")))
}

/// Where a cluster and what belongs to it lie.
pub(crate) struct Cluster {
    programs: PathBuf,
    directory: PathBuf,
    /// Who runs the server, if it is not whoever runs this.
    user: Option<(u32, u32)>,
}

impl Cluster {
    /// The cluster in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// If the system refuses, or there is no user to run a server.
    pub(crate) fn at(directory: &Path) -> Result<Self, Failure> {
        make_directory(directory)?;
        let fail = |error| failure_at(directory, &error);
        let directory = directory.canonicalize().map_err(fail)?;
        let user = match fs::metadata("/proc/self").map_err(fail)?.uid() {
            0 => Some(user_of_package()?),
            _ => None,
        };
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(&directory, Some(uid), Some(gid)).map_err(fail)?;
        }
        Ok(Self { programs: programs()?, directory, user })
    }

    /// Makes an empty cluster.
    ///
    /// # Errors
    /// If initdb fails; it tells why.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        let mut command = self.command("initdb");
        command.args(["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "-D"]);
        complete(
            command.arg(self.data()),
            "initdb, whose user has to be able to look into --directory",
        )
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    /// If it does not come up; the end of what it said is told.
    pub(crate) fn start(self, settings: &[String]) -> Result<Server, Failure> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.directory);
        command.args(["-c", "listen_addresses="]);
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let fail = |error: std::io::Error| Failure::Run(format!("postgres: {error}"));
        let mut child = command.spawn().map_err(fail)?;
        let said = child.stderr.take().expect("it is piped");
        let mut server = Server { cluster: self, child };
        let log = server.cluster.directory.join("log");
        let mut log = File::create(&log).map_err(|error| failure_at(&log, &error))?;
        let mut lines = BufReader::new(said);
        let mut line = String::new();
        while !line.contains(READY) {
            line.clear();
            if lines.read_line(&mut line).map_err(fail)? == 0 {
                let status = server.child.wait().map_err(fail)?;
                let log = server.cluster.directory.join("log");
                let said = fs::read_to_string(log).unwrap_or_default();
                return Err(Failure::Run(format!("postgres ended with {status}: {}", said.trim())));
            }
            log.write_all(line.as_bytes()).map_err(fail)?;
        }
        // It ends when the server closes its output.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut log));
        Ok(server)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// A program of the server's side.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        if let Some((uid, gid)) = self.user {
            // It cannot look into the directory of whoever runs this.
            command.uid(uid).gid(gid).current_dir("/");
        }
        command
    }
}

/// User and group of the package.
fn user_of_package() -> Result<(u32, u32), Failure> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let numbers = |line: &str| {
        let mut words = line.split(':');
        let is_it = words.next() == Some(USER);
        let uid = words.nth(1)?.parse().ok()?;
        let gid = words.next()?.parse().ok()?;
        is_it.then_some((uid, gid))
    };
    users
        .lines()
        .find_map(numbers)
        .ok_or_else(|| Failure::Missing(format!("{INSTALL}: there is no user {USER}")))
}

/// A server that ends when this goes.
pub(crate) struct Server {
    cluster: Cluster,
    child: Child,
}

impl Server {
    /// Where its socket lies, and what else belongs to it.
    pub(crate) fn directory(&self) -> &Path {
        &self.cluster.directory
    }

    /// A program of a client's side, with the words that lead to the server.
    pub(crate) fn client(&self, name: &str) -> Command {
        let mut command = Command::new(self.cluster.programs.join(name));
        command.args(["-U", USER, "-h"]).arg(&self.cluster.directory);
        command
    }

    /// What a script of SQL prints.
    ///
    /// # Errors
    /// If a statement fails.
    pub(crate) fn sql(&self, script: &str) -> Result<String, Failure> {
        let path = self.cluster.directory.join("script.sql");
        write(&path, script)?;
        let mut command = self.client("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", USER, "-f"]);
        output_of(command.arg(&path), "psql")
    }

    /// Ends it in order, with a checkpoint.
    ///
    /// # Errors
    /// If it does not end so.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        self.end("fast")?;
        let status = self.child.wait();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(Failure::Engine(format!("postgres ended with {other:?}"))),
        }
    }

    fn end(&self, mode: &str) -> Result<(), Failure> {
        let mut stop = self.cluster.command("pg_ctl");
        stop.arg("-D").arg(self.cluster.data()).args(["stop", "-m", mode, "-s", "-t", "600"]);
        complete(&mut stop, "pg_ctl stop")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // There is nobody to tell.
            let _ = self.end("immediate");
            let _ = self.child.wait();
        }
    }
}

/// Ends a server whose owner was killed, if there is one.
pub(crate) fn end_left_behind(directory: &Path) {
    if !directory.join("data/postmaster.pid").exists() {
        return;
    }
    if let Ok(cluster) = Cluster::at(directory) {
        let mut stop = cluster.command("pg_ctl");
        // There is nobody to tell.
        let _ = stop.arg("-D").arg(cluster.data()).args(["stop", "-m", "immediate", "-s"]).status();
    }
}

/// What a program prints.
///
/// # Errors
/// If it is missing, or fails.
pub(crate) fn output_of(command: &mut Command, what: &str) -> Result<String, Failure> {
    let output = command.output().map_err(|error| Failure::Missing(format!("{what}: {error}")))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Engine(format!("{what}: {}", errors.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
