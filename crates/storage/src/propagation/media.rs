//! What a propagation places pages on.
//!
//! ```text
//!   Volumes.data   ──► data     the files of tables, and those of the propagation itself
//!   Volumes.others ──► others   by name: a tier of flash, storage-class memory, raw flash
//! ```
//!
//! 1. Every medium has the engine's clock, so that whatever a kind waits for is waited for as all else
//!    is: a volume over some `Device`, or raw flash.
//! 2. The kind says which others it needs; with one too few or too many, or one that is something else,
//!    nothing is made or opened.
//! 3. On the volume of the data only those files are made or removed through it that the kind lists.
//! 4. Each other says whose it is (`claim`), in a place that the propagation leaves alone.

use super::claim::{CLAIM_BLOCK_COUNT, CLAIM_FILE, ClaimedMedium};
use super::{FlashIo, PropagationKind};
use crate::volume::Io;
use crate::{StorageError, Volume};
use nandu_device::RawFlash;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What a medium beside the data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumKind {
    /// Files on a device.
    Volume,
    /// Chips without a translation layer.
    RawFlash,
}

/// A medium beside the data, as whoever makes or opens a database hands it over.
pub enum OtherMedium {
    /// Files on a device.
    Volume(Box<dyn Volume>),
    /// Chips without a translation layer.
    RawFlash(Box<dyn RawFlash + Send>),
}

/// A medium beside the data, with the engine's clock.
#[derive(Clone, Debug)]
pub enum Medium {
    /// Files on a device.
    Volume(Io),
    /// Chips without a translation layer.
    RawFlash(FlashIo),
}

/// The media of one propagation, its own from the moment on when it is built.
#[derive(Clone, Debug)]
pub struct Media {
    data: Io,
    others: BTreeMap<String, Medium>,
}

impl MediumKind {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Volume => "a volume",
            Self::RawFlash => "raw flash",
        }
    }

    /// What a user can do who has none, behind other advice.
    pub(super) const fn remedy(self) -> &'static str {
        match self {
            Self::Volume => "or make the database in a program",
            Self::RawFlash => {
                "take a simulated drive, which has chips, say `nandu bench ycsb --device \
                 sim:device-a`, or make the database in a program"
            }
        }
    }
}

impl OtherMedium {
    /// The medium with the engine's clock.
    #[must_use]
    pub fn share(self, clock: &Arc<AtomicU64>) -> Medium {
        let clock = Arc::clone(clock);
        match self {
            Self::Volume(volume) => Medium::Volume(Io::new(volume, clock)),
            Self::RawFlash(chips) => Medium::RawFlash(FlashIo::new(chips, clock)),
        }
    }
}

impl Medium {
    /// The same, but for what its claim lies in.
    fn without_claim(self) -> Self {
        match self {
            Self::Volume(io) => Self::Volume(io.without_file(CLAIM_FILE)),
            Self::RawFlash(chips) => Self::RawFlash(chips.without_first_blocks(CLAIM_BLOCK_COUNT)),
        }
    }

    /// The chips, if it is some.
    #[must_use]
    pub const fn raw_flash(&self) -> Option<&FlashIo> {
        match self {
            Self::Volume(_) => None,
            Self::RawFlash(chips) => Some(chips),
        }
    }

    const fn kind(&self) -> MediumKind {
        match self {
            Self::Volume(_) => MediumKind::Volume,
            Self::RawFlash(_) => MediumKind::RawFlash,
        }
    }
}

impl Media {
    /// The volume of the data alone.
    #[must_use]
    pub const fn of_data(data: Io) -> Self {
        Self { data, others: BTreeMap::new() }
    }

    /// With others, by the names that the kind has for them.
    #[must_use]
    pub const fn new(data: Io, others: BTreeMap<String, Medium>) -> Self {
        Self { data, others }
    }

    /// With others that are handed over, which get the engine's clock.
    #[must_use]
    pub fn with_clock(
        data: Io,
        others: BTreeMap<String, OtherMedium>,
        clock: &Arc<AtomicU64>,
    ) -> Self {
        let others = others.into_iter().map(|(name, medium)| (name, medium.share(clock)));
        Self { data, others: others.collect() }
    }

    /// The media beside the data.
    pub fn others(&self) -> impl Iterator<Item = &Medium> {
        self.others.values()
    }

    /// With another beside these.
    #[cfg(test)]
    pub(super) fn with(mut self, name: &str, medium: Medium) -> Self {
        self.others.insert(name.to_owned(), medium);
        self
    }

    /// The volume of the data. Whoever reads pages past the propagation has it, too.
    #[must_use]
    pub const fn data(&self) -> &Io {
        &self.data
    }

    /// The alignment in memory of pages that any of the media may be given: that of the strictest.
    pub(super) fn buffer_alignment(&self) -> u32 {
        let volumes = std::iter::once(&self.data).chain(self.other_volumes());
        volumes.map(Io::buffer_alignment).max().unwrap_or(1).max(1)
    }

    /// The volumes beside the data.
    pub(crate) fn other_volumes(&self) -> impl Iterator<Item = &Io> {
        self.others.values().filter_map(|medium| match medium {
            Medium::Volume(io) => Some(io),
            Medium::RawFlash(_) => None,
        })
    }

    /// The raw flash beside the data.
    pub fn all_raw_flash(&self) -> impl Iterator<Item = &FlashIo> {
        self.others.values().filter_map(Medium::raw_flash)
    }

    /// The media beside the data, with what they say of themselves.
    pub(crate) fn claimed(&self) -> Result<Vec<ClaimedMedium>, StorageError> {
        self.others.iter().map(|(name, medium)| ClaimedMedium::find(name, medium)).collect()
    }

    /// The volume of the data, for a kind that has no other.
    pub(super) fn into_data(self) -> Io {
        self.data
    }

    /// The volume of that name beside the data.
    ///
    /// # Errors
    /// If there is none.
    pub fn volume(&self, name: &str) -> Result<&Io, StorageError> {
        match self.others.get(name) {
            Some(Medium::Volume(io)) => Ok(io),
            found => Err(wrong(name, MediumKind::Volume, found)),
        }
    }

    /// The raw flash of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn raw_flash(&self, name: &str) -> Result<&FlashIo, StorageError> {
        match self.others.get(name) {
            Some(Medium::RawFlash(chips)) => Ok(chips),
            found => Err(wrong(name, MediumKind::RawFlash, found)),
        }
    }

    /// Checks that these are the media of a propagation of that kind.
    ///
    /// # Errors
    /// If one is missing or something else, or the kind has no use for one.
    pub(crate) fn check(&self, kind: PropagationKind) -> Result<(), StorageError> {
        let wanted = kind.other_media();
        for &(name, medium) in wanted {
            let found = self.others.get(name);
            if found.map(Medium::kind) != Some(medium) {
                return Err(wrong(name, medium, found));
            }
        }
        let is_wanted = |name: &str| wanted.iter().any(|(wanted, _)| *wanted == name);
        if let Some((name, medium)) = self.others.iter().find(|(name, _)| !is_wanted(name)) {
            let is = medium.kind().label();
            let what = format!("the propagation has no use for {is} `{name}`");
            return Err(StorageError::InvalidSetting { what });
        }
        Ok(())
    }

    /// These media for a propagation of that kind.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn for_kind(self, kind: PropagationKind) -> Result<Self, StorageError> {
        self.check(kind)?;
        let others = self.others.into_iter().map(|(name, medium)| (name, medium.without_claim()));
        Ok(Self { data: self.data.with_own_files(kind.files()), others: others.collect() })
    }
}

fn wrong(name: &str, wanted: MediumKind, found: Option<&Medium>) -> StorageError {
    let label = wanted.label();
    let what = match (found, wanted) {
        (None, MediumKind::Volume) => format!(
            "{label} `{name}` is missing, which the propagation needs; hand it over (in a program, \
             `Volumes::others` or `DatabaseOptions::other_directories`)"
        ),
        (None, MediumKind::RawFlash) => format!(
            "{label} `{name}` is missing, which the propagation needs, and real files have none; choose \
             another propagation, or {} (`Volumes::others`)",
            wanted.remedy()
        ),
        (Some(found), _) => format!("`{name}` is {}, not {label}", found.kind().label()),
    };
    StorageError::InvalidSetting { what }
}
