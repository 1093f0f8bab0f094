//! Runs the program as a user would, in a directory of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot start its program has failed")]

pub(crate) mod schema;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The program, ready to run in `directory`.
pub(crate) fn nandu(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandu"));
    command.args(arguments).current_dir(directory).env("NO_COLOR", "1").env("COLUMNS", "100");
    command.stdin(Stdio::null());
    // Measuring the processor takes half a minute; what is about that says so.
    let measures = ["--calibrate", "--no-calibrate", "--processor"];
    let is_explain = arguments.first() == Some(&"explain");
    if is_explain && !arguments.iter().any(|argument| measures.contains(argument)) {
        command.arg("--no-calibrate");
    }
    command
}

/// Runs the program to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    nandu(directory, arguments).output().unwrap()
}

/// Runs the program under a limit of the shell, such as `-v 60000`.
pub(crate) fn run_under(directory: &Path, limit: &str, arguments: &[&str]) -> Output {
    run_after(directory, &format!("ulimit {limit}"), arguments)
}

/// Runs the program where no file may be longer than this: a write beyond it fails as one to a full disk
/// does, once the signal that comes with it is ignored.
pub(crate) fn run_full(directory: &Path, file_bytes_max: u64, arguments: &[&str]) -> Output {
    let blocks = file_bytes_max / 512;
    run_after(directory, &format!("trap '' XFSZ; ulimit -f {blocks}"), arguments)
}

/// Runs the program in a shell that did something to itself first.
fn run_after(directory: &Path, commands: &str, arguments: &[&str]) -> Output {
    let script = format!("{commands}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_nandu")]).args(arguments);
    shell.current_dir(directory).env("NO_COLOR", "1").env("COLUMNS", "100").stdin(Stdio::null());
    shell.output().unwrap()
}

/// Somebody who may not write everywhere. Root may, so its program runs as nobody, from where nobody can
/// reach it.
pub(crate) struct Nobody {
    place: Option<tempfile::TempDir>,
}

impl Nobody {
    pub(crate) fn new() -> Self {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let place = is_root.then(|| {
            let place = tempfile::tempdir().unwrap();
            let program = place.path().join("nandu");
            std::fs::copy(env!("CARGO_BIN_EXE_nandu"), &program).unwrap();
            set_mode(place.path(), 0o755);
            set_mode(&program, 0o755);
            place
        });
        Self { place }
    }

    /// Runs the program to its end, in a directory that all may enter.
    pub(crate) fn run(&self, directory: &Path, arguments: &[&str]) -> Output {
        let Some(place) = &self.place else { return run(directory, arguments) };
        let mut command = Command::new(place.path().join("nandu"));
        command.args(arguments).current_dir(directory).uid(65_534).gid(65_534);
        command.env("NO_COLOR", "1").env("COLUMNS", "100").stdin(Stdio::null());
        command.output().unwrap()
    }
}

/// Says who may do what with a file or directory.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs the program, which must succeed, and returns its stdout.
pub(crate) fn stdout_of(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program, which must fail with `code`, and returns its stderr.
pub(crate) fn failure_of(directory: &Path, arguments: &[&str], code: i32) -> String {
    let output = run(directory, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    stderr(&output)
}

/// What the program wrote to stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts the program with both outputs piped.
pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Child {
    nandu(directory, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Presses Ctrl-C, so to speak.
pub(crate) fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// The names of what a directory holds, hidden files included.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
