//! Miri over the `unsafe` code that it can run: it finds undefined behaviour where a test only sees
//! that the answer was right.
//!
//! ```text
//!   frames of the pool     read by threads while others refill them     storage::pool
//!   lock of the engine     readers who count themselves                 workers::sync
//!   kernels of the codes   vector instructions on raw pointers          ida::kernel
//! ```
//!
//! 1. A part that Miri cannot run (rings of the kernel, direct I/O, calls of the system) is named in
//!    what is kept, so that nobody takes it for checked.
//! 2. What is kept says which tests ran, on which commit, by which version of Miri, and how each part
//!    ended.

use crate::kept;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Some tests of one crate.
struct Part {
    package: &'static str,
    /// Tests whose names begin so.
    tests: &'static [&'static str],
    /// Tests among them that take hours, or call the system.
    skipped: &'static [&'static str],
    /// Instructions that the processor under Miri has.
    target_features: &'static str,
}

const PARTS: [Part; 3] = [
    Part {
        package: "nandu-workers",
        tests: &["sync::rw_lock::tests"],
        skipped: &[],
        target_features: "",
    },
    Part {
        package: "nandu-storage",
        tests: &["pool::tests::threads"],
        skipped: &[],
        target_features: "",
    },
    Part {
        package: "nandu-ida",
        tests: &["kernel::"],
        skipped: &[],
        target_features: "+ssse3,+avx2",
    },
];

/// `unsafe` code that Miri has no way to run.
const NOT_RUN: [&str; 5] = [
    "workers::coroutines: switches between stacks, in assembly",
    "drives::file::uring, drives::file::queue: rings of the kernel",
    "drives::file::system: calls of the system on files",
    "base::memory: a wish for large pages, to the kernel",
    "ida::kernel::gfni and neon: instructions that Miri, or this processor, does not have",
];

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where `miri.json` is kept, such as results/MACHINE/miri; without it the outcome is shown only.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs all parts in `root`.
///
/// # Errors
/// If Miri is not installed, or finds something.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let version =
        crate::compare_fio::capture(Command::new("cargo").args(["+nightly", "miri", "-V"]))
            .map_err(|error| {
                format!("{error}; install it: rustup +nightly component add miri rust-src")
            })?;
    let mut parts = Vec::new();
    for part in &PARTS {
        let Part { package, tests, skipped, target_features } = *part;
        println!("miri: {package} {}", tests.join(" "));
        let mut command = Command::new("cargo");
        command.current_dir(root).args(["+nightly", "miri", "test", "--package", package, "--lib"]);
        command.args(["--", "--test-threads", "1"]).args(tests);
        for name in skipped {
            command.args(["--skip", name]);
        }
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        if !target_features.is_empty() {
            command.env("RUSTFLAGS", format!("-Ctarget-feature={target_features}"));
        }
        let output = crate::compare_fio::capture(&mut command)?;
        let passed: Vec<&str> = output.lines().filter_map(passed_test).collect();
        if passed.is_empty() {
            return Err(format!("miri: no test of {package} ran; look at PARTS"));
        }
        println!("miri: {package}: {} tests passed", passed.len());
        parts.push(json!({
            "package": package,
            "target_features": target_features,
            "passed": passed,
            "skipped": skipped,
        }));
    }
    if let Some(directory) = &options.out {
        let kept = json!({
            "command": format!("cargo xtask miri --out {}", directory.display()),
            "commit": kept::commit_of(root)?,
            "miri": version.trim(),
            "parts": parts,
            "not_run": NOT_RUN,
        });
        kept::store(&root.join(directory), "miri.json", &kept)?;
    }
    Ok(())
}

/// The name in a line that says that a test passed.
fn passed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_passed_are_counted() {
        assert_eq!(passed_test("test pool::frame::tests::a ... ok"), Some("pool::frame::tests::a"));
        assert_eq!(passed_test("test pool::frame::tests::a ... ignored"), None);
        assert_eq!(passed_test("test result: ok. 3 passed"), None);
    }
}
