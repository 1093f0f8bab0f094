//! How much room documents take in the store of XML, in each mapping, beside their text: documents that
//! somebody else wrote for other ends, such as those in Debian's packages.
//!
//! ```text
//!   for each FILE, for each mapping: nandu xml import ─► nandu xml stat ─► bytes of its pages / bytes of text
//!         ─► the sum over all files, and each ─► OUT/real-documents.json
//! ```
//!
//! 1. Whole pages count, of the document and its synopsis, without indexes and the log.
//! 2. What misses the target is told first. It is of elementless documents as they are by themselves; packed
//!    ones are elementless with `--compress`.

use crate::compare_fio::{build_program, capture, json_of, number};
use crate::kept;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command line of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The documents, plain XML.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A release build of `nandu` that is there already.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Where `real-documents.json` is kept, such as results/MACHINE/xml; without it figures are shown only.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What they are called, with the options of `nandu xml import`, from the largest to the smallest.
const MAPPINGS: [(&str, &[&str]); 4] = [
    ("full", &["--mapping", "full"]),
    ("prefix", &["--mapping", "prefix"]),
    ("elementless", &["--mapping", "elementless"]),
    ("packed", &["--mapping", "elementless", "--compress"]),
];
/// Bytes of elementless documents by those of their text, at most.
const TARGET: f64 = 0.80;

/// Stores every file in every mapping, shows what they take, and keeps it.
///
/// # Errors
/// If something cannot be built, or a file is no document that the store takes.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build_program(root)?,
    };
    let scratch = std::env::temp_dir().join(format!("nandu-footprints-{}", std::process::id()));
    let measured: Result<Vec<Document>, String> =
        options.files.iter().map(|file| Document::of(&program, file, &scratch)).collect();
    // A run that failed leaves one behind; there may be none.
    let _ = fs::remove_dir_all(&scratch);
    let documents = measured?;
    let total = Document::sum(&documents);
    let [_, _, elementless, _] = total.shares();
    let verdict = if elementless > TARGET { "**missed**" } else { "met" };
    println!("elementless {elementless:.3} of the text, {TARGET} at most: {verdict}");
    for document in documents.iter().chain([&total]) {
        println!("{}", document.line());
    }
    let Some(directory) = &options.out else { return Ok(()) };
    let kept = json!({
        "command": "cargo xtask xml-footprints FILE... --out results/MACHINE/xml",
        "commit": kept::commit_of(root)?,
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?,
        "target_elementless_over_text": TARGET,
        "total": total.told(),
        "documents": documents.iter().map(Document::told).collect::<Vec<Value>>(),
    });
    kept::store(directory, "real-documents.json", &kept)
}

/// A document, or the sum of several.
struct Document {
    name: String,
    text_bytes: f64,
    /// Bytes of its pages by mapping.
    page_bytes: [f64; 4],
}

impl Document {
    /// What `file` takes, by a database of its own in `scratch` for each mapping.
    fn of(program: &Path, file: &Path, scratch: &Path) -> Result<Self, String> {
        let name =
            file.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
        let mut document = Self { name, text_bytes: 0.0, page_bytes: [0.0; 4] };
        for ((_, options), page_bytes) in MAPPINGS.iter().zip(&mut document.page_bytes) {
            if scratch.exists() {
                fs::remove_dir_all(scratch)
                    .map_err(|error| format!("{}: cannot go: {error}", scratch.display()))?;
            }
            let mut import = Command::new(program);
            capture(import.args(["xml", "import", "-q"]).args(*options).arg(file).arg(scratch))?;
            let stat = json_of(Command::new(program).args(["xml", "stat", "--json"]).arg(scratch))?;
            document.text_bytes = number(&stat["plain_bytes"])?;
            *page_bytes = number(&stat["file_bytes"])?;
        }
        Ok(document)
    }

    fn sum(documents: &[Self]) -> Self {
        let mut total = Self { name: "all".to_owned(), text_bytes: 0.0, page_bytes: [0.0; 4] };
        for document in documents {
            total.text_bytes += document.text_bytes;
            for (sum, bytes) in total.page_bytes.iter_mut().zip(document.page_bytes) {
                *sum += bytes;
            }
        }
        total
    }

    /// By the bytes of the text.
    fn shares(&self) -> [f64; 4] {
        self.page_bytes.map(|bytes| bytes / self.text_bytes)
    }

    fn line(&self) -> String {
        let shares = self.shares().map(|share| format!("{share:5.2}")).join(" ");
        format!("{:30} {:9.0} kB {shares}", self.name, self.text_bytes / 1e3)
    }

    fn told(&self) -> Value {
        let mut told = json!({ "name": self.name, "text_bytes": self.text_bytes });
        for (((mapping, _), bytes), share) in
            MAPPINGS.iter().zip(self.page_bytes).zip(self.shares())
        {
            told[format!("{mapping}_bytes")] = json!(bytes);
            told[format!("{mapping}_over_text")] = json!(share);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_weighed_by_the_bytes_of_text() {
        let of = |text_bytes: f64, bytes: f64| Document {
            name: String::new(),
            text_bytes,
            page_bytes: [2.0 * bytes, bytes, bytes / 2.0, bytes / 4.0],
        };
        let total = Document::sum(&[of(300.0, 300.0), of(100.0, 500.0)]);
        assert_eq!(total.text_bytes.to_bits(), 400.0_f64.to_bits());
        assert_eq!(total.shares().map(f64::to_bits), [4.0, 2.0, 1.0, 0.5].map(f64::to_bits));
        assert_eq!(total.told()["elementless_over_text"], json!(1.0));
    }
}
