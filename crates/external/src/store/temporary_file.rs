//! A temporary file on a volume: it has a name that no other file has, and goes with its owner.
//!
//! 1. It is removed when dropped, unless it is kept. After a crash nothing refers to it; the next
//!    opening of a database removes those that lie beside its files.
//! 2. What goes wrong is told with the file and the place; that there is no room, with a remedy.

use nandu_device::{DeviceError, IoBuffer, Operation};
use nandu_storage::volume::{Io, IoOwner};
use nandu_storage::{FileId, StorageError};
use std::sync::atomic::{AtomicBool, Ordering};

/// What temporary files of one kind are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    /// By people: `temporary file`.
    pub noun: &'static str,
    /// What their names begin with; a number follows.
    pub prefix: &'static str,
}

/// A file, removed when dropped.
#[derive(Debug)]
pub struct TemporaryFile {
    io: Io,
    file: FileId,
    name: String,
    noun: &'static str,
    is_kept: AtomicBool,
}

impl TemporaryFile {
    /// A new one in `io`.
    ///
    /// # Errors
    /// If there is no room for it, or the device fails.
    pub fn create(io: &Io, kind: FileKind) -> Result<Self, StorageError> {
        let FileKind { noun, prefix } = kind;
        let names: Vec<String> = io.files().into_iter().map(|(_, name)| name).collect();
        let named = (1_u32..).map(|number| format!("{prefix}{number}"));
        let name = { named }.find(|name| !names.contains(name));
        let name = name.expect("there are fewer files than numbers");
        let file = io.create(&name).map_err(|error| match error {
            StorageError::NoSpace { .. } => no_room(io, noun, &name),
            error => error,
        })?;
        Ok(Self { io: io.clone(), file, name, noun, is_kept: AtomicBool::new(false) })
    }

    /// One that is there and stays, if it is.
    pub(crate) fn found(io: &Io, name: &str, kind: FileKind) -> Option<Self> {
        let (file, name) = io.files().into_iter().find(|(_, known)| known == name)?;
        let is_kept = AtomicBool::new(true);
        Some(Self { io: io.clone(), file, name, noun: kind.noun, is_kept })
    }

    /// The volume on which it lies.
    #[must_use]
    pub const fn io(&self) -> &Io {
        &self.io
    }

    /// Its number there.
    #[must_use]
    pub const fn id(&self) -> FileId {
        self.file
    }

    /// Its name there.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has it stay when it is dropped, or not.
    pub(crate) fn keep(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Ordering::Relaxed);
    }

    /// Begins to read or write, as an operator, under way while others work. Answers the ticket.
    ///
    /// # Errors
    /// If there is no room, or the device refuses.
    pub fn submit(
        &self,
        operation: Operation,
        offset_bytes: u64,
        buffer: IoBuffer,
    ) -> Result<u64, StorageError> {
        let owner = IoOwner::Operator;
        let ticket = self.io.submit_ahead(owner, self.file, operation, offset_bytes, buffer);
        ticket.map_err(|error| match error {
            StorageError::NoSpace { .. } => no_room(&self.io, self.noun, &self.name),
            error => error,
        })
    }

    /// That a request at this place failed.
    #[must_use]
    pub fn failed(
        &self,
        operation: Operation,
        offset_bytes: u64,
        error: DeviceError,
    ) -> StorageError {
        let what = match operation {
            Operation::Write => "writing",
            _ => "reading",
        };
        match error {
            DeviceError::NoSpace => no_room(&self.io, self.noun, &self.name),
            error => {
                let what = format!("{what} {}", self.place(offset_bytes));
                StorageError::Device { what, error }
            }
        }
    }

    /// A place in it, for people.
    #[must_use]
    pub fn place(&self, offset_bytes: u64) -> String {
        let Self { io, name, noun, .. } = self;
        format!("the {noun} {name} in {}, at byte {offset_bytes}", io.name())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        if let Err(StorageError::NoSpace { .. }) = self.io.remove(self.file) {
            // The list of files is written anew, for which it may have taken the last room itself.
            let _ = self.io.set_byte_count(self.file, 0);
            // Nothing refers to it; where this fails, too, the next opening removes it.
            let _ = self.io.remove(self.file);
        }
    }
}

/// That a file cannot grow, and what would help.
fn no_room(io: &Io, noun: &str, name: &str) -> StorageError {
    let what = format!(
        "the {noun} {name} cannot grow in {}; make room there, or give more memory, so that less \
         is written",
        io.name()
    );
    StorageError::NoSpace { what }
}
