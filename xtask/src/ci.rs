//! Every check of the repository, cheap ones first, each with its time.
//!
//! 1. The first failure ends the run and names the command that repeats it.
//! 2. What a step prints goes straight to the terminal.

use crate::tidy;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// One command line with its environment.
struct Step {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
    /// Whether `--skip-tests` leaves it out.
    is_test_suite: bool,
}

/// What tidy does not cover, in order. Tidy itself runs after the first three.
const STEPS: &[Step] = &[
    step("format", &["fmt", "--all", "--check"]),
    step("clippy", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    // Everywhere else simulated drives and joins are wanted by somebody, and so are there for all.
    step("clippy alone", &["clippy", "-qp", "nandu", "--no-default-features", "--", "-Dwarnings"]),
    step("tidy", &["xtask", "tidy"]),
    Step { is_test_suite: true, ..step("test", &["test"]) },
    // By their binaries and not as packages: so the crates below keep the features that the tests above had, and
    // are not built once more. Peers that are not installed are left out; those of crates.io are always there.
    step(
        "test of tools",
        &["test", "--quiet", "--workspace", "--bin", "xtask", "--bin", "nandu-compare"],
    ),
    Step {
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        ..step("documentation", &["doc", "--quiet", "--workspace", "--no-deps"])
    },
    step("verify", &["run", "--release", "--quiet", "--", "verify", "--out", "target/verify"]),
];

const fn step(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, environment: &[], arguments, is_test_suite: false }
}

impl Step {
    /// The line that a person types to repeat this step.
    fn command_line(&self) -> String {
        let mut words: Vec<String> =
            self.environment.iter().map(|(key, value)| format!("{key}='{value}'")).collect();
        words.push("cargo".into());
        words.extend(self.arguments.iter().map(ToString::to_string));
        words.join(" ")
    }

    /// Runs it in `root`; tidy runs in this process, which is already built.
    fn run(&self, root: &Path) -> Result<(), String> {
        if self.arguments == ["xtask", "tidy"] {
            return tidy::report(root);
        }
        let status = Command::new("cargo")
            .current_dir(root)
            .args(self.arguments)
            .envs(self.environment.iter().copied())
            .status()
            .map_err(|error| format!("cargo does not start: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
    }
}

/// Runs all steps in the repository at `root`.
///
/// # Errors
/// The first step that fails, with the command that repeats it.
pub(crate) fn run(root: &Path, skip_tests: bool) -> Result<(), String> {
    run_steps(STEPS, skip_tests, |step| step.run(root))
}

fn run_steps(
    steps: &[Step],
    skip_tests: bool,
    mut run_step: impl FnMut(&Step) -> Result<(), String>,
) -> Result<(), String> {
    let started = Instant::now();
    for step in steps {
        if skip_tests && step.is_test_suite {
            println!("ci: {:<15} left out", step.name);
            continue;
        }
        let step_started = Instant::now();
        run_step(step).map_err(|error| {
            format!("ci: {} failed: {error}\n  rerun with: {}", step.name, step.command_line())
        })?;
        println!("ci: {:<15} passed in {:.1} s", step.name, step_started.elapsed().as_secs_f64());
    }
    println!("ci: everything passed in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_run_and_names_its_command() {
        let mut names = Vec::new();
        let outcome = run_steps(STEPS, true, |step| {
            names.push(step.name);
            if step.name == "documentation" { Err("broken link".into()) } else { Ok(()) }
        });
        assert_eq!(names.last(), Some(&"documentation"));
        let message = outcome.unwrap_err();
        assert!(message.starts_with("ci: documentation failed: broken link"), "{message}");
        let command = "RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps";
        assert!(message.ends_with(command), "{message}");

        names.clear();
        run_steps(STEPS, true, |step| {
            names.push(step.name);
            Err("stop".into())
        })
        .unwrap_err();
        assert_eq!(names, ["format"]);
    }

    #[test]
    fn exactly_the_readme_test_command_can_be_left_out() {
        let suites: Vec<String> =
            STEPS.iter().filter(|step| step.is_test_suite).map(Step::command_line).collect();
        assert_eq!(suites, ["cargo test"]);
    }
}
