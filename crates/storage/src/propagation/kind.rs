//! The propagations by name, and how each is made.

use super::{DoubleWriteFile, InPlace, LogStructured, LogStructuredSettings, Propagation};
use crate::StorageError;
use crate::volume::Io;
use serde::{Deserialize, Serialize};

/// A way of placing pages. To add one: a sibling file and a line in each function here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PropagationKind {
    /// A page has one place, by its number.
    #[default]
    InPlace,
    /// Pages are appended to segments, and a map says where each lies last.
    LogStructured,
}

impl PropagationKind {
    /// All kinds, for tests of each.
    pub const ALL: [Self; 2] = [Self::InPlace, Self::LogStructured];

    /// The files of a volume that belong to some propagation, not to tables.
    pub fn own_files() -> impl Iterator<Item = &'static str> {
        super::log_structured::FILES.into_iter()
    }

    /// Whether a page's place follows from its address, so that a file needs room for all its pages.
    #[must_use]
    pub const fn places_by_address(self) -> bool {
        match self {
            Self::InPlace => true,
            Self::LogStructured => false,
        }
    }

    /// Whether it overwrites pages, so that a power cut can tear one.
    #[must_use]
    pub const fn overwrites_pages(self) -> bool {
        match self {
            Self::InPlace => true,
            Self::LogStructured => false,
        }
    }

    /// Whether it makes use of what changed on a page.
    #[must_use]
    pub const fn tracks_changes(self) -> bool {
        match self {
            Self::InPlace => false,
            Self::LogStructured => true,
        }
    }

    /// The propagation over a volume, for pages of `settings.page_bytes`, recovered from whatever a
    /// power cut left unless it `was_closed`. With a `double_write` file pages are written twice, where
    /// the kind overwrites pages at all. The answer's second half counts the torn pages that were put
    /// together again.
    ///
    /// # Errors
    /// If the page size does not suit the device, or the device fails.
    pub fn build(
        self,
        settings: LogStructuredSettings,
        io: &Io,
        double_write: Option<DoubleWriteFile>,
        was_closed: bool,
    ) -> Result<(Box<dyn Propagation>, u32), StorageError> {
        let page_bytes = settings.page_bytes;
        match self {
            Self::InPlace => {
                let sector_bytes = io.sector_bytes();
                let mut propagation = InPlace::new(page_bytes, sector_bytes, double_write)?;
                let restored_count = if was_closed { 0 } else { propagation.recover(io)? };
                Ok((Box::new(propagation), restored_count))
            }
            Self::LogStructured => {
                let propagation = if LogStructured::is_on(io) {
                    LogStructured::open(io, settings)?
                } else {
                    LogStructured::create(io, settings)?
                };
                Ok((Box::new(propagation), 0))
            }
        }
    }
}
