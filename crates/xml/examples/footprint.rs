//! What a document takes in each mapping, packed and not, and how fast it goes in and comes out:
//! `cargo run --release -p nandu-xml --example footprint FILE…`. Databases are made one after the
//! other in a scratch directory.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::cast_precision_loss, reason = "shares and speeds in a report")]
#![allow(clippy::disallowed_types, reason = "an example may look at a clock")]

use nandu::{DatabaseOptions, create_database};
use nandu_xml::{Compression, Document, ImportOptions, MappingKind, check, export, import_with};
use std::fs::File;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    println!("mapping            stored / text  pages  height  in MB/s  out MB/s  check MB/s");
    for file in std::env::args().skip(1) {
        println!("{file}");
        let kinds =
            Compression::ALL.map(|packing| MappingKind::ALL.map(|mapping| (mapping, packing)));
        for (mapping, compression) in kinds.into_iter().flatten() {
            let directory = place.path().join(mapping.label());
            let database = create_database(&directory, &DatabaseOptions::default())?;
            let begun = Instant::now();
            let mut write = database.write()?;
            let text = (file.as_str(), File::open(&file)?);
            let options = ImportOptions { mapping, compression, ..ImportOptions::default() };
            let report = import_with(&mut write, "doc", &options, text, &mut ())?;
            write.commit()?;
            let mb_per_s =
                |begun: Instant| report.plain_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64();
            let into = mb_per_s(begun);
            let read = database.read();
            let document = Document::open(&read, "doc")?;
            let begun = Instant::now();
            export(&read, &document, &mut std::io::sink())?;
            let out_of = mb_per_s(begun);
            let begun = Instant::now();
            let findings = check(&read, &document)?.findings;
            assert!(findings.is_empty(), "{findings:?}");
            let checked = mb_per_s(begun);
            let stat = document.stat(&read)?;
            println!(
                "  {:<12} {:<4} {:>11.3} {:>8} {:>5} {into:>9.1} {out_of:>9.1} {checked:>9.1}",
                mapping.label(),
                compression.label(),
                stat.file_bytes as f64 / stat.plain_bytes as f64,
                stat.page_count,
                stat.height,
            );
            drop(read);
            database.close()?;
            std::fs::remove_dir_all(&directory)?;
        }
    }
    Ok(())
}
