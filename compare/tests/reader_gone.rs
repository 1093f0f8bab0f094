//! Lists are cut by `head` without a word.

use std::process::{Command, Stdio};

#[test]
fn a_reader_who_goes_away_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_nandu-compare"));
    program.args(["joins", "--list"]).stdin(Stdio::null()).stdout(writer);
    let output = program.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
