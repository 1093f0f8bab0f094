//! Mutated edge lists of every kind, plain and packed: edges or an error, no panic, no memory out
//! of proportion.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../../storage/tests/hostile/mod.rs"]
mod hostile;

use hostile::{measured, mutate, mutate_text};
use nandu_base::Rng;
use nandu_external::graph::GraphClass;
use nandu_external::graph::edge_list::{EdgeList, EdgeListKind, EdgeListOptions, EdgeListWriter};
use nandu_external::{ExternalError, Grant, RecordStream};
use std::io::{Cursor, Write};

/// Memory that reading may take whatever the bytes are; a window of zstd says how long it is.
const MEMORY_BYTES: usize = 1 << 20;
const ZSTD_WINDOW_BYTES: usize = 128 << 20;
/// Mutants of each file.
const MUTANT_COUNT: u64 = 1000;

fn file_of(kind: EdgeListKind) -> Vec<u8> {
    let class = GraphClass::Random { nodes: 3000, edges: 500 };
    let mut bytes = Vec::new();
    let mut writer = EdgeListWriter::begin(kind, 3000, 500, &mut bytes).unwrap();
    let mut edges = class.edges(1);
    while let Some(edge) = edges.next_record().unwrap() {
        writer.push(edge).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

fn edge_count_of(bytes: &[u8], kind: Option<EdgeListKind>) -> Result<u64, ExternalError> {
    let options = EdgeListOptions { kind, ..EdgeListOptions::default() };
    let mut list =
        EdgeList::open(Cursor::new(bytes.to_vec()), "list", &options, &Grant::new(1 << 20))?;
    while list.next_record()?.is_some() {}
    list.node_count()?;
    Ok(list.edge_count())
}

fn throw(what: &str, bytes: &[u8], kind: EdgeListKind, memory_bytes: usize, is_text: bool) {
    assert_eq!(edge_count_of(bytes, Some(kind)), Ok(500), "{what}");
    let (mut error_count, mut rng) = (0, Rng::for_part(MUTANT_COUNT, what));
    for round in 0..MUTANT_COUNT {
        let mut mutated = bytes.to_vec();
        for _ in 0..=rng.below(4) {
            if is_text && rng.below(2) == 0 {
                let mut text = String::from_utf8_lossy(&mutated).into_owned();
                mutate_text(&mut text, &mut rng);
                mutated = text.into_bytes();
            } else {
                mutate(&mut mutated, &mut rng);
            }
        }
        for kind in [Some(kind), None] {
            let (outcome, most) = measured(|| edge_count_of(&mutated, kind));
            let limit = memory_bytes + 2 * mutated.len();
            assert!(most <= limit, "{what}, round {round}: {most} bytes for {}", mutated.len());
            if let Err(error) = outcome {
                error_count += 1;
                let text = error.to_string();
                assert!(text.starts_with("list"), "{what}, round {round}: {text}");
                assert!(text.len() < 400, "{what}, round {round}: {text}");
            }
        }
    }
    assert!(error_count > 0, "{what}: no mutant was found out");
}

#[test]
fn mutated_lists_of_each_kind_give_edges_or_an_error() {
    for kind in EdgeListKind::ALL {
        let is_text = matches!(kind, EdgeListKind::Text | EdgeListKind::MatrixMarket);
        throw(kind.label(), &file_of(kind), kind, MEMORY_BYTES, is_text);
    }
}

#[test]
fn mutated_lists_that_are_packed_give_edges_or_an_error() {
    for kind in [EdgeListKind::Text, EdgeListKind::PairsU32] {
        let bytes = file_of(kind);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let gzip = gzip.finish().unwrap();
        throw(&format!("gzip {}", kind.label()), &gzip, kind, MEMORY_BYTES, false);
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(bytes.as_slice(), level);
        let memory_bytes = MEMORY_BYTES + ZSTD_WINDOW_BYTES;
        throw(&format!("zstd {}", kind.label()), &zstd, kind, memory_bytes, false);
    }
}
