//! How a trace is read that was recorded elsewhere: the options that `nandu sim` and `nandu choose` share.

use crate::failure::Failure;
use clap::Args;
use nandu_trace::{TraceFormat, TraceOptions};

/// How the file of `--trace` is read; a command that has it has `--trace` and `--workload`, too.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct ReadingArguments {
    /// Format of the trace, if its content misleads
    #[arg(long, value_name = "FORMAT", requires = "trace", conflicts_with = "workload")]
    format: Option<String>,
    /// Columns of a table that is no known format, such as time=ns,op,offset=sector,size
    #[arg(long, value_name = "COLUMNS", requires = "trace",
        conflicts_with_all = ["format", "workload"])]
    columns: Option<String>,
    /// A numeric type of the trace means the opposite of what its format says
    #[arg(long, requires = "trace", conflicts_with = "workload")]
    invert_types: bool,
    /// Count and skip what cannot be understood, instead of ending with an error
    #[arg(long, requires = "trace", conflicts_with = "workload")]
    skip_bad: bool,
    /// Replay one device or volume of the trace
    #[arg(long, value_name = "NAME", requires = "trace", conflicts_with = "workload")]
    device: Option<String>,
}

impl ReadingArguments {
    /// As a reader of traces takes them.
    ///
    /// # Errors
    /// If there is no such format.
    pub(super) fn options(&self) -> Result<TraceOptions, Failure> {
        let format = self.format.as_deref().map(TraceFormat::parse).transpose();
        Ok(TraceOptions {
            format: format.map_err(|error| Failure::input(error.to_string()))?,
            columns: self.columns.clone(),
            invert_types: self.invert_types,
            skip_bad: self.skip_bad,
            device: self.device.clone(),
            ..TraceOptions::default()
        })
    }
}
