//! `BaseX` of Maven Central, in a virtual machine of its own for each run, called without a server in
//! between: a page of Java, which `java` compiles as it starts.
//!
//! 1. Its jar has the checksum that is known here, or is not used.
//! 2. `BaseX` writes a change to its files and does not sync them; the table says so.

use super::{NAMESPACE, NEW_WORD, Taken, Task, wrong};
use crate::Failure;
use crate::stock::{complete, make_directory, write};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "12.4";
const JAR: &str = "basex-12.4.jar";
const URL: &str = "https://repo.maven.apache.org/maven2/org/basex/basex/12.4/basex-12.4.jar";
const SHA_256: &str = "3975bc91acfadd1c139872dd9fc154f2fc7a166792509c7665501089edf5e301";
const INSTALL: &str =
    "BaseX (Debian: apt-get install default-jdk-headless curl; its jar comes from Maven Central)";
const PROGRAM: (&str, &str) = ("BaseXPeer.java", include_str!("peers/BaseXPeer.java"));
/// Memory of the virtual machine, which has no part that is for pages.
const HEAP: &str = "-Xmx2g";

/// Brings the jar into `directory`, if it is not there, and says what version it is.
///
/// # Errors
/// If there is no Java that compiles, or the jar does not come as it is known.
pub(super) fn version(directory: &Path) -> Result<String, Failure> {
    let compiler = Command::new("javac").arg("-version").output();
    if !compiler.is_ok_and(|output| output.status.success()) {
        return Err(Failure::Missing(format!("{INSTALL}: there is no javac")));
    }
    let directory = programs(directory);
    make_directory(&directory)?;
    let jar = directory.join(JAR);
    if !is_known(&jar) {
        let mut fetch = Command::new("curl");
        fetch.args(["--fail", "--silent", "--show-error", "--location", "--output"]);
        complete(fetch.arg(&jar).arg(URL), INSTALL)
            .map_err(|error| Failure::Missing(error.to_string()))?;
        if !is_known(&jar) {
            let jar = jar.display();
            return Err(Failure::Missing(format!("{INSTALL}: {jar} has another checksum")));
        }
    }
    write(&directory.join(PROGRAM.0), PROGRAM.1)?;
    Ok(format!("BaseX {VERSION}"))
}

/// Where its jar lies, of everything that the comparison has in `directory`.
fn programs(directory: &Path) -> PathBuf {
    directory.join("programs")
}

fn is_known(jar: &Path) -> bool {
    let output = Command::new("sha256sum").arg(jar).output();
    output.is_ok_and(|output| output.stdout.starts_with(SHA_256.as_bytes()))
}

/// Imports, looks up, changes.
///
/// # Errors
/// If it is not installed, fails, or does something else.
pub(super) fn take(task: &Task) -> Result<Taken, Failure> {
    let programs = programs(&task.directory);
    let home = task.scratch.join("basex");
    make_directory(&home)?;
    let mut command = Command::new("java");
    command.arg(HEAP).arg("-cp").arg(programs.join(JAR));
    for (option, place) in [("path", ""), ("DBPATH", "data"), ("REPOPATH", "repo")] {
        command.arg(format!("-Dorg.basex.{option}={}", home.join(place).display()));
    }
    command.arg(programs.join(PROGRAM.0)).arg(&task.file).arg(NAMESPACE);
    let counts = [task.first_id, task.customer_count, task.lookup_count, task.update_count];
    command.args(counts.map(|count| count.to_string()));
    command.arg(NEW_WORD).arg(task.seed.to_string()).current_dir(&home);
    let output = command.output().map_err(|error| Failure::Missing(format!("java: {error}")))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Engine(format!("basex: {}", errors.trim())));
    }
    let told: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| wrong("basex", &format!("it tells no JSON: {error}")))?;
    let figure = |name: &str| {
        told[name].as_f64().ok_or_else(|| wrong("basex", &format!("it tells no {name}")))
    };
    Ok(Taken {
        import_s: figure("import_s")?,
        lookup_ms: figure("lookup_ms")?,
        update_ms: figure("update_ms")?,
    })
}
