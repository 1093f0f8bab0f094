//! `nandu db backup` and `compact`: all tables, copied into a new database.
//!
//! 1. The copy is there as a whole or not at all, also where it is interrupted.

use super::{Answering, Place, open_to_read};
use crate::database::Wishes;
use crate::failure::Failure;
use crate::progress::Progress;
use nandu::{BackUpOptions, BackUpProgress, BackUpReport, back_up_watched};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use serde::Serialize;
use std::path::Path;

/// What `backup --json` prints.
#[derive(Serialize)]
struct BackUpAnswer<'a> {
    database: &'a Path,
    table_count: u64,
    row_count: u64,
}

/// What `compact --json` prints.
#[derive(Serialize)]
struct CompactAnswer<'a> {
    database: &'a Path,
    row_count: u64,
}

/// Copies all tables as they are, with the numbers of their rows.
pub(super) fn back_up(place: Place<'_>, target: &Path, to: &Answering<'_>) -> Result<(), Failure> {
    let report = copy(place, target, &BackUpOptions::default(), to)?;
    let BackUpReport { table_count, row_count } = report;
    let answer = BackUpAnswer { database: target, table_count, row_count };
    let line = format!("{}, {}", counted(table_count, "table"), counted(row_count, "row"));
    to.tell("db backup", &answer, Some(line.clone()), &format!("{line} in {}", target.display()))
}

/// Copies all tables, with new numbers, and a log of another size if that is wished.
pub(super) fn compact(
    place: Place<'_>,
    target: &Path,
    log_size: Option<ByteCount>,
    to: &Answering<'_>,
) -> Result<(), Failure> {
    let log_bytes = log_size.map(|size| size.0);
    let options = BackUpOptions { log_bytes, renumbers: true, ..BackUpOptions::default() };
    let row_count = copy(place, target, &options, to)?.row_count;
    let answer = CompactAnswer { database: target, row_count };
    let rows = counted(row_count, "row");
    to.tell("db compact", &answer, Some(rows.clone()), &format!("{rows} in {}", target.display()))
}

fn copy(
    place: Place<'_>,
    target: &Path,
    options: &BackUpOptions,
    to: &Answering<'_>,
) -> Result<BackUpReport, Failure> {
    let context = to.context;
    let (database, _) = open_to_read(place)?;
    let tables = database.snapshot();
    let wishes = Wishes { log: options.log_bytes.map(ByteCount), ..Wishes::default() };
    wishes.apply(&mut tables.engine().settings().clone())?;
    let progress = Progress::new(context, 1);
    let watch = |so_far: &BackUpProgress<'_>| {
        let what = format!("{}, {}", so_far.table, counted(so_far.row_count, "row"));
        progress.show(so_far.fraction(), &what);
        match context.interrupt.is_set() {
            true => Err(Failure::interrupted("the new database is removed")),
            false => Ok(()),
        }
    };
    let report = back_up_watched(&tables, target, options, watch)?;
    drop(tables);
    crate::database::close(database, place.directory)?;
    Ok(report)
}
