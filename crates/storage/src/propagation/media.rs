//! What a propagation places pages on.
//!
//! ```text
//!   Volumes.data   ──► data     the files of tables, and those of the propagation itself
//!   Volumes.others ──► others   by name: a tier of flash, storage-class memory, raw flash
//! ```
//!
//! 1. Every medium is a volume over some `Device` and has the engine's clock, so that whatever a kind
//!    waits for is waited for as all else is.
//! 2. The kind says which others it needs; with one too few or too many nothing is made or opened.
//! 3. On the volume of the data only those files are made or removed through it that the kind lists.

use super::PropagationKind;
use crate::StorageError;
use crate::volume::Io;
use std::collections::BTreeMap;

/// The media of one propagation, its own from the moment on when it is built.
#[derive(Clone, Debug)]
pub struct Media {
    data: Io,
    others: BTreeMap<String, Io>,
}

impl Media {
    /// The volume of the data alone.
    #[must_use]
    pub const fn of_data(data: Io) -> Self {
        Self { data, others: BTreeMap::new() }
    }

    /// With others, by the names that the kind has for them.
    #[must_use]
    pub const fn new(data: Io, others: BTreeMap<String, Io>) -> Self {
        Self { data, others }
    }

    /// The volume of the data. Whoever reads pages past the propagation has it, too.
    #[must_use]
    pub const fn data(&self) -> &Io {
        &self.data
    }

    /// The media beside the data.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Io> {
        self.others.values()
    }

    /// The volume of the data, for a kind that has no other.
    pub(super) fn into_data(self) -> Io {
        self.data
    }

    /// The medium of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn other(&self, name: &str) -> Result<&Io, StorageError> {
        let missing =
            || StorageError::InvalidSetting { what: format!("a volume `{name}` is missing") };
        self.others.get(name).ok_or_else(missing)
    }

    /// These media for a propagation of that kind.
    ///
    /// # Errors
    /// If one is missing, or the kind has no use for one.
    pub(super) fn for_kind(self, kind: PropagationKind) -> Result<Self, StorageError> {
        let wanted = kind.other_media();
        for name in wanted {
            self.other(name)?;
        }
        if let Some(name) = self.others.keys().find(|name| !wanted.contains(&name.as_str())) {
            let what = format!("the propagation has no use for a volume `{name}`");
            return Err(StorageError::InvalidSetting { what });
        }
        Ok(Self { data: self.data.with_own_files(kind.files()), others: self.others })
    }
}
