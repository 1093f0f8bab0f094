//! Requests without a simulation, or beside one: the first ten as understood, and the recorder.

use super::Watch;
use crate::Context;
use crate::failure::Failure;
use crate::output::OutFile;
use nandu_base::ByteCount;
use nandu_probe::table::Table;
use nandu_sim::{Job, SimError, SimReport};
use nandu_trace::CompactWriter;
use serde::Serialize;
use std::io::BufWriter;
use std::path::Path;

/// Requests that are shown.
const REQUEST_COUNT: usize = 10;

#[derive(Serialize)]
struct Understood<'a> {
    source: &'a str,
    requests: &'a [nandu_trace::TraceRequest],
}

/// Prints the first requests of the job.
pub(super) fn print(job: &Job, as_json: bool, context: &Context) -> Result<(), Failure> {
    let stop = context.interrupt.flag();
    let (requests, source) = job.dry_run(REQUEST_COUNT, stop)?;
    if as_json {
        return context
            .output
            .json("sim --dry-run", &Understood { source: &source, requests: &requests });
    }
    context.output.line(&source)?;
    let mut table =
        Table::new(&[">request", ">arrives at ns", "operation", ">byte", ">length", ">stream"]);
    for (number, request) in (1_u32..).zip(&requests) {
        table.row(vec![
            number.to_string(),
            request.at.0.to_string(),
            request.operation.label().into(),
            request.offset_bytes.to_string(),
            ByteCount(request.length_bytes).to_string(),
            request.stream.to_string(),
        ]);
    }
    context.output.table(&table)
}

/// Runs the job and writes what was measured as a compact trace.
pub(super) fn record(
    job: &Job,
    file: &OutFile,
    path: &Path,
    watch: &mut Watch<'_>,
) -> Result<SimReport, Failure> {
    let name = path.display().to_string();
    let mut writer = CompactWriter::new(BufWriter::new(file), &name).map_err(SimError::from)?;
    let report = job.run_recorded(watch, &mut |requests| {
        requests.iter().try_for_each(|request| writer.push(request))
    })?;
    writer.finish().map_err(SimError::from)?;
    Ok(report)
}
