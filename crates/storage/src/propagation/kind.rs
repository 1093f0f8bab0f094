//! The propagations by name: what has to be known before one is built, its settings, how it is made.
//!
//! ```text
//!   settings  propagation = "NAME", a table by the name of each kind that has settings
//!                 │
//!                 ▼ the one that is meant
//!   config    NAME with its settings ── media, double write ──► Placement
//! ```
//!
//! 1. Nothing here stands for all kinds at once: the compiler asks a new one for each answer.
//! 2. A kind that overwrites pages is built with the double write before it, if the engine has one.
//! 3. Files of all kinds are known, whichever a database has: none is ever taken for a table's.

#[cfg(test)]
use super::{Chips, ChipsSettings, Tiered};
use super::{
    DoubleWriteFile, InPageLogging, InPageLoggingSettings, InPlace, LogStructured,
    LogStructuredSettings, Media, MediumKind, PageDifferential, PageDifferentialChipsSettings,
    PageDifferentialSettings, Placement, Propagation,
};
use crate::StorageError;
use crate::page::check_page_bytes;
#[cfg(test)]
use crate::tier::{TierConfig, TierPolicyKind};
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
    /// A page is a base page and a differential, appended to segments.
    PageDifferential,
    /// What changes on a page goes to a log beside it, on raw flash.
    InPageLogging,
    /// As [`Self::PageDifferential`], on raw flash.
    PageDifferentialChips,
    /// As in place, with pages that left the pool on a second volume, too.
    #[cfg(test)]
    Tiered,
    /// Whole pages on raw flash.
    #[cfg(test)]
    Chips,
}

/// Which propagation, and the settings of each, as a user writes them. Those of the others lie idle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PropagationSettings {
    /// The one that is meant.
    #[serde(rename = "propagation")]
    pub kind: PropagationKind,
    /// How pages are placed in segments, if they are. The size of pages is that of the database.
    pub log_structured: LogStructuredSettings,
    /// How differentials are made, if they are. The size of pages is that of the database.
    pub page_differential: PageDifferentialSettings,
    /// How logs lie beside pages, if they do.
    pub in_page_logging: InPageLoggingSettings,
    /// How differentials are made on raw flash, if they are.
    pub page_differential_chips: PageDifferentialChipsSettings,
    /// The tier, if there is one.
    #[cfg(test)]
    pub tiered: TierConfig,
    /// The chips, if there are some.
    #[cfg(test)]
    pub chips: ChipsSettings,
}

/// A propagation with its settings, and no other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropagationConfig {
    /// [`InPlace`]: a page has one place, by its number.
    InPlace,
    /// [`LogStructured`]: pages are appended to segments.
    LogStructured(LogStructuredSettings),
    /// [`PageDifferential`]: base pages and differentials are appended to segments.
    PageDifferential(PageDifferentialSettings),
    /// [`InPageLogging`]: changes go to logs beside the pages.
    InPageLogging(InPageLoggingSettings),
    /// As [`Self::PageDifferential`], on raw flash.
    PageDifferentialChips(PageDifferentialChipsSettings),
    /// As in place, with pages that left the pool on a second volume, too.
    #[cfg(test)]
    Tiered(TierConfig),
    /// Whole pages on raw flash.
    #[cfg(test)]
    Chips(ChipsSettings),
}

impl PropagationKind {
    /// All kinds, for tests of each.
    pub const ALL: &[Self] = &[
        Self::InPlace,
        Self::LogStructured,
        Self::PageDifferential,
        Self::InPageLogging,
        Self::PageDifferentialChips,
        #[cfg(test)]
        Self::Tiered,
        #[cfg(test)]
        Self::Chips,
    ];

    /// Those that need nothing but the volume of the data.
    pub fn all_on_data_alone() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|kind| kind.other_media().is_empty())
    }

    /// The files that it makes on the volume of the data, by their names.
    #[must_use]
    pub const fn files(self) -> &'static [&'static str] {
        match self {
            Self::InPlace => &[],
            Self::LogStructured => &super::log_structured::FILES,
            Self::PageDifferential => &super::page_differential::FILES,
            Self::InPageLogging => &super::in_page_logging::FILES,
            Self::PageDifferentialChips => &super::page_differential::FILES_ON_CHIPS,
            #[cfg(test)]
            Self::Tiered => &super::tiered::FILES,
            #[cfg(test)]
            Self::Chips => &super::chips::FILES,
        }
    }

    /// What it needs beside the volume of the data, by its names for that.
    #[must_use]
    pub const fn other_media(self) -> &'static [(&'static str, MediumKind)] {
        match self {
            Self::InPlace | Self::LogStructured | Self::PageDifferential => &[],
            Self::InPageLogging => &[(super::in_page_logging::CHIPS, MediumKind::RawFlash)],
            Self::PageDifferentialChips => {
                &[(super::page_differential::CHIPS, MediumKind::RawFlash)]
            }
            #[cfg(test)]
            Self::Tiered => &[(super::tiered::TIER, MediumKind::Volume)],
            #[cfg(test)]
            Self::Chips => &[(super::chips::CHIPS, MediumKind::RawFlash)],
        }
    }

    /// Refuses a kind that needs media beside the data, on behalf of `who`, who has none to give.
    ///
    /// # Errors
    /// With the medium, if it needs one.
    pub fn check_needs_data_alone(self, who: &str) -> Result<(), StorageError> {
        let Some((name, medium)) = self.other_media().first() else { return Ok(()) };
        let what = format!(
            "{who} has nothing but one volume for a database, and the propagation {} needs {} `{name}` \
             beside it; choose another propagation, {}",
            self.name(),
            medium.label(),
            medium.remedy()
        );
        Err(StorageError::InvalidSetting { what })
    }

    /// Whether it overwrites pages, so that a power cut can tear one.
    #[must_use]
    pub const fn overwrites_pages(self) -> bool {
        match self {
            Self::InPlace => true,
            Self::LogStructured
            | Self::PageDifferential
            | Self::PageDifferentialChips
            | Self::InPageLogging => false,
            #[cfg(test)]
            Self::Tiered => true,
            #[cfg(test)]
            Self::Chips => false,
        }
    }

    /// Its name in settings, which is also that of the table of its own.
    ///
    /// # Panics
    /// Never: a kind is written as a word.
    #[must_use]
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).expect("a kind is a plain value");
        name.as_str().expect("a kind is written as a word").to_owned()
    }

    /// How changed pages are written, in some words.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::InPlace => "in their places",
            Self::LogStructured => "appended to segments",
            Self::PageDifferential => "as base pages and differentials",
            Self::InPageLogging => "with logs beside them on raw flash",
            Self::PageDifferentialChips => "as base pages and differentials on raw flash",
            #[cfg(test)]
            Self::Tiered => "in their places and a tier",
            #[cfg(test)]
            Self::Chips => "to chips",
        }
    }

    /// Its files, as they are told where they are damaged.
    pub(crate) fn told_files(self) -> String {
        match self.files() {
            [] => "its pages".to_owned(),
            [file] => format!("its file {file}"),
            [files @ .., last] => format!("its files {} and {last}", files.join(", ")),
        }
    }

    /// Whether a file of that name belongs to some propagation, not to a table.
    pub(crate) fn is_own_file(name: &str) -> bool {
        Self::ALL.iter().any(|kind| kind.files().contains(&name))
    }
}

impl From<PropagationKind> for PropagationSettings {
    /// With default settings.
    fn from(kind: PropagationKind) -> Self {
        Self { kind, ..Self::default() }
    }
}

impl From<PropagationConfig> for PropagationSettings {
    fn from(config: PropagationConfig) -> Self {
        let all = Self::from(config.kind());
        match config {
            PropagationConfig::InPlace => all,
            PropagationConfig::LogStructured(log_structured) => Self { log_structured, ..all },
            PropagationConfig::PageDifferential(page_differential) => {
                Self { page_differential, ..all }
            }
            PropagationConfig::InPageLogging(in_page_logging) => Self { in_page_logging, ..all },
            PropagationConfig::PageDifferentialChips(page_differential_chips) => {
                Self { page_differential_chips, ..all }
            }
            #[cfg(test)]
            PropagationConfig::Tiered(tiered) => Self { tiered, ..all },
            #[cfg(test)]
            PropagationConfig::Chips(chips) => Self { chips, ..all },
        }
    }
}

impl PropagationSettings {
    /// The propagation that is meant, with its own settings.
    #[must_use]
    pub fn config(&self) -> PropagationConfig {
        match self.kind {
            PropagationKind::InPlace => PropagationConfig::InPlace,
            PropagationKind::LogStructured => {
                PropagationConfig::LogStructured(self.log_structured.clone())
            }
            PropagationKind::PageDifferential => {
                PropagationConfig::PageDifferential(self.page_differential.clone())
            }
            PropagationKind::InPageLogging => {
                PropagationConfig::InPageLogging(self.in_page_logging.clone())
            }
            PropagationKind::PageDifferentialChips => {
                PropagationConfig::PageDifferentialChips(self.page_differential_chips.clone())
            }
            #[cfg(test)]
            PropagationKind::Tiered => PropagationConfig::Tiered(self.tiered),
            #[cfg(test)]
            PropagationKind::Chips => PropagationConfig::Chips(self.chips.clone()),
        }
    }

    /// For pages of `page_bytes`, small, so that all happens often in a small database: what follows from the
    /// seed, for each kind.
    #[must_use]
    pub fn small(kind: PropagationKind, page_bytes: u32, seed: u64) -> Self {
        Self {
            kind,
            log_structured: LogStructuredSettings::small(page_bytes, seed),
            page_differential: PageDifferentialSettings::small(page_bytes, seed),
            in_page_logging: InPageLoggingSettings::small(page_bytes, seed),
            page_differential_chips: PageDifferentialChipsSettings::small(page_bytes, seed),
            #[cfg(test)]
            tiered: small_tier(seed),
            #[cfg(test)]
            chips: ChipsSettings::default(),
        }
    }

    /// These settings, as far as they were fixed when the database was made, and the rest of `wanted`.
    pub(crate) fn with(self, wanted: &Self) -> Self {
        Self {
            kind: self.kind,
            log_structured: self.log_structured.with(&wanted.log_structured),
            page_differential: self.page_differential.with(&wanted.page_differential),
            in_page_logging: self.in_page_logging.with(&wanted.in_page_logging),
            page_differential_chips: self
                .page_differential_chips
                .with(&wanted.page_differential_chips),
            #[cfg(test)]
            tiered: self.tiered,
            #[cfg(test)]
            chips: wanted.chips.clone(),
        }
    }
}

impl PropagationConfig {
    /// Which kind this is.
    #[must_use]
    pub const fn kind(&self) -> PropagationKind {
        match self {
            Self::InPlace => PropagationKind::InPlace,
            Self::LogStructured(_) => PropagationKind::LogStructured,
            Self::PageDifferential(_) => PropagationKind::PageDifferential,
            Self::InPageLogging(_) => PropagationKind::InPageLogging,
            Self::PageDifferentialChips(_) => PropagationKind::PageDifferentialChips,
            #[cfg(test)]
            Self::Tiered(_) => PropagationKind::Tiered,
            #[cfg(test)]
            Self::Chips(_) => PropagationKind::Chips,
        }
    }

    /// Checks that the settings can work together, with such pages on sectors of `sector_bytes`.
    ///
    /// # Errors
    /// The first that cannot, with what would do.
    pub fn check(&self, page_bytes: u32, sector_bytes: u32) -> Result<(), StorageError> {
        check_page_bytes(page_bytes)?;
        match self {
            Self::InPlace => Ok(()),
            Self::LogStructured(settings) => settings.with_pages_of(page_bytes).check(sector_bytes),
            Self::PageDifferential(settings) => {
                settings.with_pages_of(page_bytes).check(sector_bytes)
            }
            Self::InPageLogging(settings) => settings.check(),
            Self::PageDifferentialChips(settings) => settings.check(page_bytes),
            #[cfg(test)]
            Self::Tiered(settings) => settings.check(),
            #[cfg(test)]
            Self::Chips(_) => Ok(()),
        }
    }

    /// What a new database takes beside its log, to be told behind that; empty if next to nothing.
    #[must_use]
    pub fn told_of_making(&self) -> String {
        match self {
            Self::InPlace | Self::InPageLogging(_) | Self::PageDifferentialChips(_) => {
                String::new()
            }
            Self::LogStructured(LogStructuredSettings { segment_bytes, .. })
            | Self::PageDifferential(PageDifferentialSettings { segment_bytes, .. }) => {
                format!(" and several segments of {segment_bytes} bytes")
            }
            #[cfg(test)]
            Self::Tiered(_) => String::new(),
            #[cfg(test)]
            Self::Chips(_) => String::new(),
        }
    }

    /// The propagation over `media`, for pages of `page_bytes`, recovered from whatever a power cut left
    /// unless it `was_closed`. With a `double_write` file pages are written twice, where the kind
    /// overwrites pages at all. The answer's second half counts the torn pages that were put together
    /// again.
    ///
    /// # Errors
    /// If a setting or a medium does not suit, or a device fails.
    pub fn build(
        &self,
        page_bytes: u32,
        media: Media,
        double_write: Option<DoubleWriteFile>,
        was_closed: bool,
    ) -> Result<(Placement, u32), StorageError> {
        let kind = self.kind();
        let media = media.for_kind(kind)?;
        let buffer_alignment = media.buffer_alignment();
        let propagation: Box<dyn Propagation> = match self {
            Self::InPlace => Box::new(InPlace::new(media, page_bytes)?),
            Self::LogStructured(settings) => {
                let settings = settings.with_pages_of(page_bytes);
                Box::new(match LogStructured::is_on(media.data()) {
                    true => LogStructured::open(media, settings)?,
                    false => LogStructured::create(media, settings)?,
                })
            }
            Self::PageDifferential(settings) => {
                let settings = settings.with_pages_of(page_bytes);
                Box::new(match PageDifferential::is_on(media.data()) {
                    true => PageDifferential::open(media, settings)?,
                    false => PageDifferential::create(media, settings)?,
                })
            }
            Self::InPageLogging(settings) => Box::new(match InPageLogging::is_on(media.data()) {
                true => InPageLogging::open(&media, page_bytes, settings)?,
                false => InPageLogging::create(&media, page_bytes, settings)?,
            }),
            Self::PageDifferentialChips(settings) => {
                Box::new(match PageDifferential::is_on_chips(media.data()) {
                    true => PageDifferential::open_on_chips(media, page_bytes, settings)?,
                    false => PageDifferential::create_on_chips(media, page_bytes, settings)?,
                })
            }
            #[cfg(test)]
            Self::Tiered(settings) => {
                Box::new(Tiered::open(media, page_bytes, settings, was_closed)?)
            }
            #[cfg(test)]
            Self::Chips(settings) => Box::new(Chips::open(&media, page_bytes, settings)?),
        };
        let double_write = double_write.filter(|_| kind.overwrites_pages());
        let placement = Placement::new(propagation, page_bytes, double_write);
        let mut placement = placement.aligned_to(buffer_alignment);
        let restored_count = if was_closed { 0 } else { placement.recover()? };
        Ok((placement, restored_count))
    }
}

/// A tier of a few slots.
#[cfg(test)]
fn small_tier(seed: u64) -> TierConfig {
    let policies = TierPolicyKind::ALL;
    TierConfig {
        policy: policies[nandu_base::to_index(seed % policies.len() as u64)],
        slot_count: 8 + nandu_base::to_u32(seed / 7 % 24),
        group_page_count: 1 + nandu_base::to_u32(seed / 5 % 5),
        writes_through: seed.is_multiple_of(4),
    }
}
