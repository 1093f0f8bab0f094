//! Splits a file into fragments beside it, or puts it together again from those that are left:
//!
//! ```text
//! cargo run --example disperse_file -- split 3 5 thesis.txt     writes thesis.txt.0 to thesis.txt.4
//! rm thesis.txt.0 thesis.txt.3
//! cargo run --example disperse_file -- join 3 5 thesis.txt      writes thesis.txt.joined
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to the terminal")]

use nandu_ida::{Code, Dispersal, Matrix};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [action, m, n, path] = &arguments[..] else {
        return Err("give: split|join M N FILE".into());
    };
    let dispersal = Dispersal::new(Code::new(m.parse()?, n.parse()?, Matrix::Cauchy)?);
    match action.as_str() {
        "split" => split(&dispersal, path),
        "join" => join(&dispersal, path),
        _ => Err(format!("{action}: unknown; give split or join").into()),
    }
}

fn split(dispersal: &Dispersal, path: &str) -> Result<(), Box<dyn Error>> {
    let object = std::fs::read(path)?;
    // The fragments of two versions of the file never match: the checksum names the version.
    let object_id = u64::from(nandu_ida::checksum(&object));
    for (number, fragment) in dispersal.disperse(object_id, &object).iter().enumerate() {
        std::fs::write(format!("{path}.{number}"), fragment)?;
    }
    println!("{} bytes in {} fragments", object.len(), dispersal.code().n());
    Ok(())
}

fn join(dispersal: &Dispersal, path: &str) -> Result<(), Box<dyn Error>> {
    let numbers = 0..dispersal.code().n();
    let fragments: Vec<Vec<u8>> =
        numbers.filter_map(|number| std::fs::read(format!("{path}.{number}")).ok()).collect();
    let collected = dispersal.collect(&fragments)?;
    std::fs::write(format!("{path}.joined"), &collected.object)?;
    println!("{} bytes; lost fragments: {}", collected.object.len(), collected.lost);
    Ok(())
}
