//! Times that are predicted from a probe of a drive alone, as `nandu probe --profile` writes it, beside what
//! algorithms then take on that drive: a part of what `nandu run s002/predictions` tells of more drives.
//!
//! 1. The drive is probed first and used afterwards, with all that a probe left in it.
//! 2. Nothing of an algorithm is known but the number of records and its memory.

mod probed;

use nandu_base::{ByteCount, Nanos};
use nandu_external::{ExternalError, Settings};
use nandu_probe::QuickOptions;
use probed::{OPERATIONS, SEED, Work, probe};

/// Predicted over taken, by the name of the operation.
fn ratios(drive: &str) -> Result<[(&'static str, f64); 4], ExternalError> {
    let quick = QuickOptions {
        request_bytes: [64 << 10, 256 << 10].map(ByteCount).to_vec(),
        queue_depths: vec![1, 2],
        request_count: Some(1000),
        seed: SEED,
        ..QuickOptions::default()
    };
    let probed = probe(drive, ByteCount(320 << 20), &quick, Nanos::from_millis(20));
    let settings = Settings { block_bytes: 128 << 10, in_flight: 1 };
    let work = Work { number_count: 4 << 20, memory_bytes: 4 << 20, settings };
    let ratios = probed::ratios(probed, work)?;
    Ok(std::array::from_fn(|index| (OPERATIONS[index], ratios[index])))
}

#[test]
fn a_probe_alone_predicts_within_15_percent() {
    for drive in ["hama", "device-a", "optane-like", "pcm"] {
        for (operation, ratio) in ratios(drive).unwrap() {
            assert!((0.85..1.15).contains(&ratio), "{drive}, {operation}: {ratio:.2}");
        }
    }
}

#[test]
fn a_disk_sorts_faster_than_what_was_measured_of_it_says() {
    // What a sort writes lies where it just read, and an arm has not far to go; nothing of that is in a
    // probe. Whoever predicts for disks has to know.
    let [.., (_, sort), _] = ratios("wd2000jb").unwrap();
    assert!((1.15..3.0).contains(&sort), "{sort}");
}
