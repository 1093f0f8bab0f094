//! `--record`: what passes between the pool and the device while clients are at work, as the trace of an
//! engine.
//!
//! 1. That it can be written is checked before anything is loaded.
//! 2. The file is there as a whole or not at all. Of a run that was stopped it is what clients did until then; of one
//!    that was stopped before they did anything there is none.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{OutFile, OutputFiles, Unfinished, cannot_write};
use crate::progress::Progress;
use clap::Args;
use nandu::Database;
use nandu_base::ByteCount;
use nandu_bench::page_recorder::RecordedCounts;
use nandu_bench::{Outcome, PageRecorder};
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct RecordArguments {
    /// Write which pages are read and written, with what changed on them, as a trace (docs/workloads.md)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write the bytes that changed, too, and not only where they lie
    #[arg(long, requires = "record")]
    record_bytes: bool,
    #[command(flatten)]
    files: OutputFiles,
}

/// A trace that is wanted, with a file for it.
pub(super) struct PendingRecord {
    file: Unfinished,
    path: PathBuf,
    keeps_bytes: bool,
    files: OutputFiles,
}

/// A trace that is being written.
pub(super) struct Recording {
    recorder: Arc<PageRecorder<BufWriter<OutFile>>>,
    pending: PendingRecord,
}

impl RecordArguments {
    /// Checks that what is wanted can be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.record.as_ref().map_or(Ok(()), |path| self.files.check(path))
    }

    /// The trace that is wanted, if one is.
    pub(super) fn pending(&self, interrupt: &Interrupt) -> Result<Option<PendingRecord>, Failure> {
        let begin = |path: &PathBuf| {
            let (file, files) = (self.files.begin(path, interrupt)?, self.files);
            Ok(PendingRecord { file, path: path.clone(), keeps_bytes: self.record_bytes, files })
        };
        self.record.as_ref().map(begin).transpose()
    }
}

impl PendingRecord {
    /// Records `database` from now on.
    pub(super) fn begin(self, database: &Database) -> Result<Recording, Failure> {
        let file = self.file.as_file().try_clone();
        let sink = BufWriter::new(file.map_err(|error| cannot_write(&self.path, &error))?);
        let name = self.path.display().to_string();
        let recorder = PageRecorder::begin(database, sink, &name, self.keeps_bytes)?;
        Ok(Recording { recorder, pending: self })
    }
}

impl Recording {
    /// Ends the trace and puts it in its place, unless nothing was done.
    pub(super) fn finish(
        self,
        database: &Database,
        outcome: &Outcome,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let (_, counts) = self.recorder.finish(database)?;
        let PendingRecord { file, path, files, .. } = self.pending;
        if outcome.operation_count == 0 {
            progress.note(&format!("recorded: nothing, so there is no {}", path.display()));
            return Ok(());
        }
        let until = if outcome.was_stopped { ", until the run was stopped" } else { "" };
        let byte_count = file.as_file().byte_count();
        files.finish(file, &path)?;
        let RecordedCounts { read_count, write_count, sync_count } = counts;
        progress.note(&format!(
            "recorded: {read_count} page reads, {write_count} page writes and {sync_count} syncs in {} of {}{until}",
            ByteCount(byte_count),
            path.display()
        ));
        Ok(())
    }
}
