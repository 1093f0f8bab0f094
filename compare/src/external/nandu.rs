//! Ours: a vector of records in a directory of real files, sorted into another vector; and a graph
//! there, searched.

use super::graph::{EdgeFile, Levels, class_of};
use super::question::GraphName;
use super::{Checksum, Job, RECORD_BYTES, key_of};
use crate::Failure;
use crate::process::Meter;
use ::nandu::{DirectoryOptions, DirectoryVolume};
use nandu_external::graph::{Graph, MmSettings, mm_bfs, mr_bfs};
use nandu_external::{
    ExternalError, Grant, Natural, RecordStream, Settings, Sorter, Store, Vector,
};
use nandu_storage::volume::Io;
use std::sync::Arc;

fn engine(error: &dyn std::fmt::Display) -> Failure {
    Failure::Engine(error.to_string())
}

/// A store in a new directory.
fn store(job: &Job) -> Result<Store, Failure> {
    let directory = job.temp.join("nandu");
    let volume = DirectoryVolume::create(&directory, DirectoryOptions::default())
        .map_err(|error| engine(&error))?;
    let io = Io::new(Box::new(volume), Arc::default());
    let settings = Settings { block_bytes: job.block_bytes, in_flight: job.in_flight };
    Store::new(&[io], settings, Grant::new(job.memory_bytes)).map_err(|error| engine(&error))
}

/// Makes the records, then sorts them, which is measured; then looks at the result.
///
/// # Errors
/// If the directory, the memory or the disk refuse.
pub(super) fn sort(job: &Job, record_count: u64) -> Result<String, Failure> {
    let store = store(job)?;
    let input = input(&store, job, record_count).map_err(|error| engine(&error))?;
    let meter = Meter::start()?;
    let sorted = sorted(input, job).map_err(|error| engine(&error))?;
    let spent = meter.stop()?;
    let checksum = checksum(&sorted).map_err(|error| engine(&error))?;
    spent.answer(checksum.row(), None)
}

/// Edges of a file; what it fails for is kept beside.
struct Edges<'f> {
    file: EdgeFile,
    failure: &'f mut Option<Failure>,
}

impl RecordStream for Edges<'_> {
    type Record = (u64, u64);

    fn next_record(&mut self) -> Result<Option<(u64, u64)>, ExternalError> {
        match self.file.next() {
            Ok(edge) => Ok(edge.map(|(left, right)| (left.into(), right.into()))),
            Err(failure) => {
                let what = failure.to_string();
                *self.failure = Some(failure);
                Err(ExternalError::Invalid { what })
            }
        }
    }
}

/// How a graph is searched.
#[derive(Clone, Copy)]
pub(super) enum Search {
    /// Munagala and Ranade.
    Mr,
    /// Mehlhorn and Meyer.
    Mm,
}

/// Sorts the edges into adjacency arrays, then searches, which is measured.
///
/// # Errors
/// If the directory, the memory or the disk refuse.
pub(super) fn search(
    job: &Job,
    search: Search,
    graph: GraphName,
    nodes: u64,
) -> Result<String, Failure> {
    let store = store(job)?;
    let class = class_of(graph, nodes);
    let mut failure = None;
    let edges = Edges { file: EdgeFile::open(&job.data)?, failure: &mut failure };
    let graph = match Graph::build(&store, class.node_count(), edges, job.memory_bytes) {
        Ok(graph) => graph,
        Err(error) => return Err(failure.unwrap_or_else(|| engine(&error))),
    };
    let mut levels = Levels::default();
    let meter = Meter::start()?;
    let visit = |node, level| {
        levels.add(node, level);
        Ok(())
    };
    let found = match search {
        Search::Mr => mr_bfs(&graph, 0, job.memory_bytes, visit).map(drop),
        Search::Mm => mm_bfs(&graph, 0, job.memory_bytes, &MmSettings::default(), visit).map(drop),
    };
    found.map_err(|error| engine(&error))?;
    meter.stop()?.answer(levels.row(), None)
}

fn input(store: &Store, job: &Job, record_count: u64) -> Result<Vector<(u64, u64)>, ExternalError> {
    let mut writer = Vector::writer_of(store, record_count)?;
    for number in 0..record_count {
        writer.push((key_of(number, job.seed), number))?;
    }
    writer.finish()
}

/// Memory goes to the sort, but for what reads the input and writes the result.
fn sorted(input: Vector<(u64, u64)>, job: &Job) -> Result<Vector<(u64, u64)>, ExternalError> {
    const _: () = assert!(<(u64, u64) as nandu_external::Record>::BYTES as u64 == RECORD_BYTES);
    let store = input.store().clone();
    let stream_bytes = (u64::from(job.in_flight) + 1) * store.block_bytes();
    let bytes = job.memory_bytes.saturating_sub(stream_bytes);
    let mut sorter = Sorter::with_bytes(&store, Natural, bytes)?;
    sorter.push_all(input.into_stream()?)?;
    // The result is written by what the input was read by.
    sorter.finish()?.store_in(&store)
}

fn checksum(sorted: &Vector<(u64, u64)>) -> Result<Checksum, ExternalError> {
    let mut checksum = Checksum::default();
    let mut scanner = sorted.scanner()?;
    while let Some((key, _)) = scanner.next_record()? {
        checksum.add(key);
    }
    Ok(checksum)
}
