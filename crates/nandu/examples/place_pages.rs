//! What placing pages in place and log-structured costs, side by side: random inserts of 108 bytes into
//! a tree, then cold lookups, with a pool of a seventh of the data. Log-structured with pages written
//! as a whole always, then with differences, in a short file and in one of the default length.
//!
//! `cargo run --release -p nandu --example place_pages -- /some/directory 500000`

#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use nandu::{DirectoryOptions, DirectoryVolume};
use nandu_base::Rng;
use nandu_storage::StorageError;
use nandu_storage::btree::Tree;
use nandu_storage::engine::{Engine, Settings, StructureKind, TornPages, Volumes};
use nandu_storage::log::Durability;
use nandu_storage::propagation::{LogStructuredSettings, PropagationConfig};
use std::path::{Path, PathBuf};

const VALUE_BYTES: usize = 100;
const RECORD_BYTES: u64 = 108;
const COMMIT_INTERVAL: u64 = 100;
const LOOKUP_COUNT: u64 = 5000;

fn measure(directory: &Path, chosen: Settings, record_count: u64) -> Result<(), StorageError> {
    let user_bytes = record_count * RECORD_BYTES;
    let settings = Settings {
        pool_bytes: user_bytes / 7,
        durability: Durability::None,
        log_bytes: 256 << 20,
        checkpoint_bytes: 48 << 20,
        ..chosen
    };
    let Settings { torn_pages, .. } = settings;
    let propagation = settings.propagation.config();
    let data = Box::new(DirectoryVolume::create(directory, DirectoryOptions::default())?);
    let mut engine = Engine::create(Volumes::new(data, None), &settings, 1)?;
    let file = engine.create_file("rows")?;
    engine.begin()?;
    engine.act(|pages| Tree::create(pages, file).map(drop))?;
    engine.commit()?;
    let (start, before) = (engine.now(), engine.device_counters().0);
    let (mut keys, mut value) = (Rng::new(1), [0; VALUE_BYTES]);
    let mut values = Rng::new(2);
    for number in 0..record_count {
        if number % COMMIT_INTERVAL == 0 {
            engine.begin()?;
        }
        let key = keys.next_u64().to_be_bytes();
        values.fill(&mut value);
        engine.act(|pages| {
            let mut undo = pages.begin_undo(StructureKind::Tree, file);
            Tree::at(file).upsert(pages, &key, &value, &mut undo)?;
            pages.set_undo(undo);
            Ok(())
        })?;
        if number % COMMIT_INTERVAL == COMMIT_INTERVAL - 1 {
            engine.commit()?;
        }
    }
    engine.checkpoint_fully()?;
    let (built, after) = (engine.now(), engine.device_counters().0);
    let per_user_byte = |bytes: u64| bytes as f64 / user_bytes as f64;
    let build_s = (built.0 - start.0) as f64 / 1e9;
    println!("{:?}, {torn_pages:?}: build {build_s:.2} s", propagation.kind());
    if let PropagationConfig::LogStructured(settings) = &propagation {
        let LogStructuredSettings { file_percent_max, difference_percent_max, .. } = settings;
        println!("  file up to {file_percent_max} %, differences to {difference_percent_max} %");
    }
    let written = after.writes.byte_count - before.writes.byte_count;
    let read = after.reads.byte_count - before.reads.byte_count;
    println!(
        "  written {:.2}, read {:.2} per user byte",
        per_user_byte(written),
        per_user_byte(read)
    );
    let page_bytes = engine.pool_counters().write_count * u64::from(settings.page_bytes);
    let log_bytes = engine.log().counts().flush_bytes;
    println!(
        "  written pages hold {:.2}, the log {:.2} per user byte",
        per_user_byte(page_bytes),
        per_user_byte(log_bytes)
    );
    look_up(&mut engine, Tree::at(file))?;
    engine.close()?;
    let file_bytes = bytes_below(directory).map_err(|error| StorageError::InvalidSetting {
        what: format!("{}: {error}", directory.display()),
    })?;
    println!("  files without the log {:.2} per user byte", per_user_byte(file_bytes));
    Ok(())
}

/// Looks for the first keys again, from an empty pool.
fn look_up(engine: &mut Engine, tree: Tree) -> Result<(), StorageError> {
    engine.drop_cached_pages()?;
    let mut keys = Rng::new(1);
    let start = engine.now();
    for _ in 0..LOOKUP_COUNT {
        let key = keys.next_u64().to_be_bytes();
        let found = tree.get(&*engine, &key, |value| value.len())?;
        assert_eq!(found, Some(VALUE_BYTES), "what was inserted is there");
    }
    let lookup_us = (engine.now().0 - start.0) as f64 / 1e3 / LOOKUP_COUNT as f64;
    println!("  cold lookup {lookup_us:.1} us");
    Ok(())
}

/// Bytes of the files of a database, but for its log.
fn bytes_below(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let is_log = entry.file_name().to_string_lossy().contains("log");
        bytes += if is_log { 0 } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

fn main() -> Result<(), StorageError> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(|| PathBuf::from("placing"), PathBuf::from);
    let record_count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(500_000);
    std::fs::create_dir_all(&directory).map_err(|error| StorageError::InvalidSetting {
        what: format!("{}: {error}", directory.display()),
    })?;
    let in_place = |torn_pages| Settings { torn_pages, ..Settings::default() };
    let segments = |file_percent_max, difference_percent_max| Settings {
        propagation: PropagationConfig::LogStructured(LogStructuredSettings {
            file_percent_max,
            difference_percent_max,
            ..LogStructuredSettings::default()
        })
        .into(),
        ..in_place(TornPages::Trust)
    };
    let LogStructuredSettings { file_percent_max, difference_percent_max, .. } =
        LogStructuredSettings::default();
    for (name, settings) in [
        ("in-place", in_place(TornPages::DoubleWrite)),
        ("in-place-once", in_place(TornPages::Trust)),
        ("whole-short", segments(125, 0)),
        ("whole", segments(file_percent_max, 0)),
        ("differences-short", segments(125, difference_percent_max)),
        ("differences", segments(file_percent_max, difference_percent_max)),
    ] {
        measure(&directory.join(name), settings, record_count)?;
    }
    Ok(())
}
