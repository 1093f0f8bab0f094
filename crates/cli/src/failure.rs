//! How a command ends when it does not end well: what is said, and the exit code.
//!
//! 1. A cause is printed only if it says more than the line above it.
//! 2. No name of Rust's types is printed, whoever made the message.

use crate::interrupt::is_interruption;
use crate::plain_words::in_plain_words;
use nandu::StorageError;
use nandu_bench::BenchError;
use nandu_drives::file::FileError;
use nandu_drives::profile::ProfileError;
use nandu_drives::target::TargetError;
use nandu_external::ExternalError;
use nandu_lab::LabError;
use nandu_lab::choose::ChooseError;
use nandu_load::LoadError;
use nandu_probe::ProbeError;
use nandu_query::QueryError;
use nandu_sim::{FtlError, SimError, TraceError};
use nandu_xml::XmlError;
use std::error::Error;
use std::io;

/// The exit codes, as the help states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A shape does not hold.
    Shape,
    /// Wrong usage, wrong input, or refused for the safety of data.
    Input,
    /// A device, a file or the system failed.
    Device,
    /// Stopped by the user.
    Interrupted,
    /// Whoever read our output went away; there is nothing to say and nobody to hear it.
    ReaderGone,
}

impl FailureKind {
    /// What the shell gets.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::Shape => 1,
            Self::Input => 2,
            Self::Device => 3,
            Self::Interrupted => 130,
        }
    }
}

/// The end of a command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
    causes: Vec<String>,
}

impl Failure {
    /// Wrong usage or input; the message says what to do.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Input, message: message.into(), causes: Vec::new() }
    }

    /// Some shapes do not hold.
    pub(crate) fn shape(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Shape, message: message.into(), causes: Vec::new() }
    }

    /// Stopped by the user; the message says how to go on.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Interrupted, message: message.into(), causes: Vec::new() }
    }

    /// `what` failed with an error of the system.
    pub(crate) fn system(what: impl Into<String>, error: &io::Error) -> Self {
        let kind = match error.kind() {
            _ if is_interruption(error) => FailureKind::Interrupted,
            io::ErrorKind::BrokenPipe => FailureKind::ReaderGone,
            _ => FailureKind::Device,
        };
        Self { kind, message: what.into(), causes: vec![error.to_string()] }
    }

    /// The same with the place in front.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The same with another remedy, where there is `remedy`.
    pub(crate) fn instead_of(mut self, remedy: &str, other: &str) -> Self {
        self.message = self.message.replace(remedy, other);
        self
    }

    /// The same with more behind it.
    pub(crate) fn followed_by(mut self, what: &str) -> Self {
        self.message += &format!("; {what}");
        self
    }

    fn of(kind: FailureKind, error: &dyn Error) -> Self {
        let message = error.to_string();
        let mut causes: Vec<String> = Vec::new();
        let mut next = error.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            let above = causes.last().unwrap_or(&message);
            if !above.contains(&text) {
                causes.push(text);
            }
            next = cause.source();
        }
        Self { kind, message, causes }
    }

    /// Whether the user stopped the command.
    pub(crate) const fn is_interrupted(&self) -> bool {
        matches!(self.kind, FailureKind::Interrupted)
    }

    /// Whether a device, a file or the system is what failed.
    pub(crate) const fn is_of_device(&self) -> bool {
        matches!(self.kind, FailureKind::Device)
    }

    /// What the shell gets.
    pub(crate) const fn exit_code(&self) -> u8 {
        self.kind.exit_code()
    }

    /// The message and its causes in one line, for a warning.
    pub(crate) fn in_one_line(&self) -> String {
        let parts = std::iter::once(&self.message).chain(&self.causes);
        in_plain_words(&parts.map(String::as_str).collect::<Vec<_>>().join(": "))
    }

    /// What the user reads, without a final newline; `None` where silence is right.
    pub(crate) fn report(&self) -> Option<String> {
        let mut text = match self.kind {
            FailureKind::ReaderGone => return None,
            FailureKind::Interrupted => format!("interrupted: {}", self.message),
            _ => format!("error: {}", self.message),
        };
        for cause in &self.causes {
            text += &format!("\n  caused by: {cause}");
        }
        Some(in_plain_words(&text))
    }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        let kind = match error {
            ProfileError::Unreadable { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let kind = match error {
            FileError::Cancelled => {
                return Self::interrupted("the scratch file is gone; run it again to start over");
            }
            FileError::Denied { .. }
            | FileError::ReadOnly { .. }
            | FileError::DirectRefused { .. }
            | FileError::NoIoUring { .. }
            | FileError::Device { .. }
            | FileError::System { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Profile(error) => error.into(),
            TargetError::File(error) => error.into(),
            error => Self::of(FailureKind::Input, &error),
        }
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        let kind = match error {
            ProbeError::Cancelled => {
                return Self::interrupted("nothing was left behind; run it again to start over");
            }
            ProbeError::Device { .. } | ProbeError::Output { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let kind = match error {
            LabError::Cancelled { finished_count, step_count } => {
                return Self::interrupted(format!(
                    "{finished_count} of {step_count} steps are done and kept; run the same \
                     command again to resume"
                ));
            }
            LabError::File { .. } | LabError::Step { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<ChooseError> for Failure {
    fn from(error: ChooseError) -> Self {
        match error {
            ChooseError::Trace(error) => SimError::from(error).into(),
            ChooseError::Question { what } => Self::input(what),
            ChooseError::Stopped => Self::interrupted("stopped"),
        }
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        let kind = match error {
            StorageError::Device { .. }
            | StorageError::ChecksumMismatch { .. }
            | StorageError::Corrupt { .. }
            | StorageError::NoSpace { .. }
            | StorageError::ReadOnly { .. }
            | StorageError::NeedsRestart { .. }
            | StorageError::OfManyMoments { .. }
            | StorageError::Poisoned { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        let mut failure = Self::of(kind, &error);
        if matches!(error, StorageError::Corrupt { .. }) && !failure.message.contains(" a copy") {
            failure.message += "; restore it from a copy";
        }
        failure
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Storage(error) => error.into(),
            QueryError::Cancelled => Self::interrupted("spill files are removed"),
            _ => Self::of(FailureKind::Input, &error),
        }
    }
}

impl From<ExternalError> for Failure {
    fn from(error: ExternalError) -> Self {
        let kind = match error {
            // What is corrupt is a temporary file, of which there is no copy.
            ExternalError::Storage(error @ StorageError::Corrupt { .. }) => {
                return Self::of(FailureKind::Device, &error);
            }
            ExternalError::Storage(error) => return error.into(),
            ExternalError::Cancelled => {
                return Self::interrupted("nothing was left behind; run it again to start over");
            }
            ExternalError::File { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let kind = match error {
            LoadError::Storage(error) => return error.into(),
            LoadError::Cancelled => return Self::interrupted("nothing was stored"),
            LoadError::File { ref error, .. } if is_interruption(error) => {
                return Self::interrupted("nothing was stored");
            }
            LoadError::Write { .. } => FailureKind::Device,
            LoadError::File { ref error, .. } if error.kind() != io::ErrorKind::NotFound => {
                FailureKind::Device
            }
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<XmlError> for Failure {
    fn from(error: XmlError) -> Self {
        let kind = match error {
            XmlError::Storage(error) => return error.into(),
            XmlError::Cancelled => return Self::interrupted("nothing was stored"),
            XmlError::Read { ref error, .. } if is_interruption(error) => {
                return Self::interrupted("nothing was stored");
            }
            XmlError::Write { ref error } => {
                return Self::system("cannot write the document", error);
            }
            XmlError::Read { .. } | XmlError::Damaged { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Storage(error) => error.into(),
            BenchError::Xml(error) => error.into(),
            BenchError::Trace(error) => error.into(),
            error => Self::of(FailureKind::Device, &error),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        let kind = match error {
            TraceError::File { .. } => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Self {
        let kind = match error {
            SimError::Profile(error) => return error.into(),
            SimError::Cancelled => {
                return Self::interrupted("nothing was left behind; run it again to start over");
            }
            SimError::Check(_) => FailureKind::Shape,
            SimError::Layer { .. } | SimError::Trace(TraceError::File { .. }) => {
                FailureKind::Device
            }
            SimError::Preparation(FtlError::Nand(_)) => FailureKind::Device,
            _ => FailureKind::Input,
        };
        Self::of(kind, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Nanos;
    use nandu_device::{DeviceError, Operation};

    #[test]
    fn a_cause_that_the_message_holds_is_not_repeated() {
        let error = ProbeError::Device {
            label: "x".into(),
            operation: Operation::Read,
            address: 0,
            byte_count: 512,
            at: Nanos(1),
            error: DeviceError::PowerLost,
        };
        let failure = Failure::from(error);
        assert_eq!(failure.exit_code(), 3);
        let report = failure.report().unwrap();
        assert!(report.starts_with("error: pattern `x`"), "{report}");
        assert!(!report.contains("caused by"), "{report}");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        let failure = Failure::system("write", &io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.exit_code(), failure.report()), (0, None));
    }

    #[test]
    fn interrupts_and_refusals_have_their_codes() {
        assert_eq!(Failure::from(ProbeError::Cancelled).exit_code(), 130);
        assert_eq!(Failure::from(FileError::Cancelled).exit_code(), 130);
        let refused = FileError::WouldDestroyData { path: "x".into() };
        assert_eq!(Failure::from(refused).exit_code(), 2);
        assert_eq!(Failure::from(FileError::ReadOnly { path: "x".into() }).exit_code(), 3);
    }

    #[test]
    fn what_is_corrupt_has_a_remedy_told_once() {
        let corrupt = |what: &str| StorageError::Corrupt { place: "x".into(), what: what.into() };
        for what in ["it is no node", "the file is missing; restore it from a copy"] {
            let report = Failure::from(corrupt(what)).report().unwrap();
            assert_eq!(report.matches("restore it from a copy").count(), 1, "{report}");
        }
    }
}
