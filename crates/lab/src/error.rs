//! What can go wrong in the laboratory, said so that the user knows what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// Trouble with an experiment, a device or the results.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// No experiment has this name, and no file is there.
    UnknownExperiment {
        /// As the user wrote it.
        name: String,
        /// The name most like it.
        nearest: Option<String>,
    },
    /// An experiment's file is wrong.
    Invalid {
        /// The file's path or name.
        file: String,
        /// The line that is wrong, from 1.
        line: usize,
        /// What is wrong, and the nearest valid key.
        message: String,
    },
    /// A file cannot be read or written.
    File {
        /// What was tried.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The system's words.
        message: String,
    },
    /// A device cannot be opened, or failed in the middle; finished steps stay on disk.
    Step {
        /// The label of the step that failed.
        step: String,
        /// Why the step failed, in words.
        message: String,
    },
    /// Stopped on request; finished steps stay on disk.
    Cancelled {
        /// How many steps are done.
        finished_count: usize,
        /// How many there are.
        step_count: usize,
    },
    /// There is nothing to report.
    NoResults {
        /// Where results were looked for.
        directory: PathBuf,
    },
}

impl LabError {
    pub(crate) fn file(what: &'static str, path: &Path, error: &dyn fmt::Display) -> Self {
        Self::File { what, path: path.to_owned(), message: error.to_string() }
    }

    pub(crate) fn step(step: &str, error: &dyn fmt::Display) -> Self {
        Self::Step { step: step.into(), message: error.to_string() }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownExperiment { name, nearest } => {
                write!(formatter, "there is no experiment `{name}`")?;
                match nearest {
                    Some(nearest) => write!(formatter, "; did you mean `{nearest}`?"),
                    None => formatter.write_str("; `nandu list` shows them all"),
                }
            }
            Self::Invalid { file, line, message } => {
                write!(formatter, "{file}:{line}: {message}")
            }
            Self::File { what, path, message } => {
                write!(formatter, "cannot {what} {}: {message}", path.display())
            }
            Self::Step { step, message } => {
                write!(formatter, "step `{step}`: {message}; finished steps are kept")
            }
            Self::Cancelled { finished_count, step_count } => write!(
                formatter,
                "stopped after {finished_count} of {step_count} steps; run it again to resume"
            ),
            Self::NoResults { directory } => write!(
                formatter,
                "no results in {}; `nandu run NAME` makes some",
                directory.display()
            ),
        }
    }
}

impl std::error::Error for LabError {}
