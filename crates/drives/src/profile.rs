//! Profiles: simulated drives as commented TOML, each figure with its source.
//!
//! ```text
//!   title, paper, kind        what it is and which experiment needs it
//!   capacity, sector_bytes    its addressable space: "32GB", 512
//!   [ssd] | [hdd] | [scm] | [array]   the parts, as the drive's own configuration names them
//!   [sources]                 "ssd.chip" = "[S] S000 8.4 ..." one line per figure of the section
//!   [fitted]                  "ssd.write_command_ns" = ["s000/table-3-1 SERIES @ 4KiB"]: the published
//!                             figures, by experiment, that it was fitted to
//! ```
//!
//! A source opens with its mark: `[S]` the paper, `[V]` verified elsewhere, `[C]` computed or fitted
//! to a published figure, `[M]` recalled or assumed. The source of a table inside the section covers
//! its figures.
//!
//! 1. The name of a profile is its file's stem; its kind has exactly one section, its own.
//! 2. `./profiles/NAME.toml` comes before the profile of that name inside the binary.
//! 3. What was fitted is a figure of the section, or a table of it.
//! 4. Whatever a profile holds, a loaded one has been checked by its drive, and each figure has a bound.

mod bounds;

use crate::array::{ADDRESS_PREFIX, ArrayAddress, ArrayDriveConfig};
use crate::hdd::HddConfig;
use crate::raw_flash::NandFlash;
use crate::scm::ScmConfig;
use crate::ssd::{Ssd, SsdConfig};
use include_dir::{Dir, include_dir};
use nandu_base::ByteCount;
use nandu_base::words::{nearest, nearest_expected};
use nandu_device::{Device, DeviceError, Geometry};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::path::Path;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../profiles");
const FOLDER: &str = "profiles";
/// The largest capacity that a profile may have, in bytes.
const CAPACITY_BYTES_MAX: u64 = 1 << 50;
/// The longest file: profiles have some thousand bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// No block device has shorter sectors.
const BLOCK_SECTOR_BYTES_MIN: u32 = 512;

/// What the section of a make says of its drives. Each make says it in its own file.
pub(crate) trait MakeConfig {
    /// Checks what the drive itself would refuse; `sector_bytes` is that of the drive.
    ///
    /// # Errors
    /// The first mistake; the key at fault stands in it.
    fn check(&self, sector_bytes: u32) -> Result<(), String>;

    /// The shortest sectors that it can have: those of block devices, unless it is a memory that can be
    /// written directly.
    fn sector_bytes_min(&self) -> u32 {
        BLOCK_SECTOR_BYTES_MIN
    }

    /// Builds the drive of `geometry` called `name`.
    ///
    /// # Errors
    /// If the parts do not make a drive.
    fn open(&self, name: &str, geometry: Geometry, options: SimOptions)
    -> Result<Drive, MakeError>;

    /// Whether an arm moves in it or in a member.
    ///
    /// # Errors
    /// If a member is unknown.
    fn has_arm(&self) -> Result<bool, ProfileError>;

    /// Whether it or a member is as fast as measured only once it was written full: flash that has to
    /// clean.
    ///
    /// # Errors
    /// If a member is unknown.
    fn needs_filling(&self) -> Result<bool, ProfileError>;

    /// Whether what its flash chips did, or its members', and how they wear, can be read off its counters. No
    /// drive has chips unless it says so.
    fn counts_flash(&self) -> bool {
        false
    }

    /// Whether writes may be completed out of its memory; `None` where what the drive itself says is
    /// all that is known.
    fn has_write_cache(&self) -> Option<bool>;

    /// The flash chips of the drive of `geometry` called `name`, by themselves; none where there are no
    /// chips that are its own.
    ///
    /// # Errors
    /// If the parts do not fit together.
    fn raw_flash(
        &self,
        _name: &str,
        _geometry: Geometry,
        _options: SimOptions,
    ) -> Result<Option<NandFlash>, DeviceError> {
        Ok(None)
    }
}

/// A simulated drive, open.
pub(crate) type Drive = Box<dyn Device + Send>;

/// Why the figures of a section make no drive.
pub(crate) enum MakeError {
    /// Its parts do not fit together.
    Parts(DeviceError),
    /// A member of it cannot be had.
    Member(ProfileError),
}

/// Makes both enums, the sections of the file and what goes through them out of the one list of makes.
macro_rules! makes {
    ($($(#[$doc:meta])* $kind:ident($config:ty) = $label:ident;)+) => {
        /// The makes of simulated drive.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum DriveKind {
            $($(#[$doc])* $kind,)+
        }

        /// The parts of a drive, by kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum DriveConfig {
            $($(#[$doc])* $kind($config),)+
        }

        impl DriveKind {
            /// All of them, which every test of makes goes through.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The name of the kind and of its section.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($label),)+
                }
            }
        }

        impl DriveConfig {
            /// Which make of drive it is.
            #[must_use]
            pub const fn kind(&self) -> DriveKind {
                match self {
                    $(Self::$kind(_) => DriveKind::$kind,)+
                }
            }

            fn make(&self) -> &dyn MakeConfig {
                match self {
                    $(Self::$kind(config) => config,)+
                }
            }
        }

        /// The file, as serde sees it.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct ProfileFile {
            title: String,
            paper: Option<String>,
            kind: DriveKind,
            capacity: String,
            sector_bytes: u32,
            $($label: Option<$config>,)+
            #[serde(default)]
            sources: BTreeMap<String, String>,
            #[serde(default)]
            fitted: BTreeMap<String, Vec<String>>,
        }

        impl ProfileFile {
            /// The section of its kind; there must be no other.
            fn take_section(&mut self) -> Result<DriveConfig, String> {
                let mut section = None;
                $(
                    let found = self.$label.take();
                    if found.is_some() != (self.kind == DriveKind::$kind) {
                        let what = if found.is_some() { "must not have" } else { "needs" };
                        let (kind, label) = (self.kind.label(), stringify!($label));
                        return Err(format!("`kind` {kind} {what} a section [{label}]"));
                    }
                    section = section.or(found.map(DriveConfig::$kind));
                )+
                Ok(section.expect("the section of each kind was looked for"))
            }
        }
    };
}

makes! {
    /// Flash chips behind a translation layer.
    Ssd(SsdConfig) = ssd;
    /// A hard disk: an arm over a platter.
    Hdd(HddConfig) = hdd;
    /// Byte-addressable memory that keeps its content.
    Scm(ScmConfig) = scm;
    /// Several drives as one.
    Array(ArrayDriveConfig) = array;
}

/// A simulated drive, described.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The stem of its file, as in `sim:NAME`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Which paper measured the drive, such as "S000"; none for drives of our own choice.
    pub paper: Option<String>,
    /// Addressable space of the whole drive.
    pub geometry: Geometry,
    /// The make of the drive and the figures of its parts.
    pub drive: DriveConfig,
    /// Where each figure comes from, by its path in the file, such as `hdd.revolution_ns`.
    pub sources: BTreeMap<String, String>,
    /// The published figures that a figure of the profile was fitted to, by its path: for each an
    /// experiment, a series, and perhaps `@` and a place on its axis.
    pub fitted: BTreeMap<String, Vec<String>>,
    /// The file it was read from, or where in the binary it was.
    pub origin: String,
    /// The text it was read from, for a hash beside the results.
    pub text: String,
}

/// One figure of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileFigure {
    /// Where it stands in the file: `hdd.revolution_ns`.
    pub path: String,
    /// As the file has it; lists in brackets.
    pub value: String,
    /// Where it comes from, after its mark.
    pub source: Option<String>,
}

/// How to open a simulated drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOptions {
    /// A scaled-down drive: the same times over fewer erase blocks or cylinders. `None` for the whole.
    pub capacity: Option<ByteCount>,
    /// Seed of everything random inside the drive.
    pub seed: u64,
    /// Whether written bytes can be read back; without it reads return zeros and take no memory.
    pub keep_data: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self { capacity: None, seed: 1, keep_data: true }
    }
}

impl Profile {
    /// The names of all profiles, embedded and in `./profiles`, sorted.
    #[must_use]
    pub fn list() -> Vec<String> {
        Self::list_in(Path::new(FOLDER))
    }

    fn list_in(folder: &Path) -> Vec<String> {
        let on_disk = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = on_disk.map(|entry| entry.path());
        let embedded = EMBEDDED.files().map(|file| file.path().to_path_buf());
        let names: BTreeSet<String> = paths
            .chain(embedded)
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        names.into_iter().collect()
    }

    /// The profile called `name`, in the file `name` where that ends in `.toml`, or of the array of
    /// simulated drives whose address `name` is.
    ///
    /// # Errors
    /// If there is none (naming the nearest), it cannot be read, or its content is wrong (naming
    /// file, line and nearest valid key).
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        Self::load_in(Path::new(FOLDER), name)
    }

    fn load_in(folder: &Path, name: &str) -> Result<Self, ProfileError> {
        if name.starts_with(ADDRESS_PREFIX) {
            let wrong = |what| ProfileError::Array { name: name.into(), what };
            return ArrayAddress::parse(name).map_err(wrong)?.profile();
        }
        if name.ends_with(".toml") {
            return Self::read(Path::new(name));
        }
        let is_plain = !name.is_empty() && !name.contains(['/', '\\']);
        let file_name = format!("{name}.toml");
        let on_disk = folder.join(&file_name);
        if is_plain && on_disk.is_file() {
            return Self::read(&on_disk);
        }
        if let Some(profile) = Self::embedded(name) {
            return profile;
        }
        let known = Self::list_in(folder);
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        Err(ProfileError::NotFound { name: name.into(), nearest })
    }

    /// The profile of that name inside the binary, if there is one.
    pub(crate) fn embedded(name: &str) -> Option<Result<Self, ProfileError>> {
        let file_name = format!("{name}.toml");
        let file = EMBEDDED.get_file(&file_name)?;
        let text = file.contents_utf8().expect("cargo embeds our own profiles, which are UTF-8");
        Some(Self::parse(name, &format!("{FOLDER}/{file_name}"), text))
    }

    fn read(path: &Path) -> Result<Self, ProfileError> {
        let origin = path.display().to_string();
        let text = read_text(path, FILE_BYTES_MAX).map_err(|error| ProfileError::Unreadable {
            file: origin.clone(),
            message: error.to_string(),
        })?;
        let name = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        Self::parse(&name, &origin, &text)
    }

    /// The profile `name` from `text`; `origin` names the text in errors.
    ///
    /// # Errors
    /// If the content is wrong, with the line and, where a key is unknown, the nearest valid one.
    pub fn parse(name: &str, origin: &str, text: &str) -> Result<Self, ProfileError> {
        let wrong = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            let nearest = nearest_expected(error.message()).map(str::to_owned);
            let message = error.message().trim_end().to_owned();
            ProfileError::Invalid { file: origin.into(), line, message, nearest }
        };
        let mut file: ProfileFile = toml::from_str(text).map_err(wrong)?;
        // Parsed as a table too, because figures are looked up in it later: that fails for numbers
        // past 2^63, which the types of some keys would take.
        let table: toml::Table = text.parse().map_err(wrong)?;
        let invalid = |message: String| {
            // The first word of the message that is a key of the file is the key at fault, so its
            // line is told.
            let words = message.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let line = words.filter_map(|word| line_of_key(text, word)).next().unwrap_or(1);
            ProfileError::Invalid { file: origin.into(), line, message, nearest: None }
        };
        let geometry = file.geometry().map_err(invalid)?;
        let drive = file.take_section().map_err(invalid)?;
        let section = table[file.kind.label()].as_table().expect("the kind's section is there");
        bounds::check(section).map_err(invalid)?;
        let least = drive.make().sector_bytes_min();
        if geometry.sector_bytes < least {
            let found = geometry.sector_bytes;
            return Err(invalid(format!("`sector_bytes` is {found}, must be at least {least}")));
        }
        drive.make().check(geometry.sector_bytes).map_err(invalid)?;
        let profile = Self {
            name: name.into(),
            title: file.title,
            paper: file.paper,
            geometry,
            drive,
            sources: file.sources,
            fitted: file.fitted,
            origin: origin.into(),
            text: text.into(),
        };
        profile.check_fitted().map_err(invalid)?;
        Ok(profile)
    }

    /// Checks invariant 3: what was fitted is a figure of the section.
    fn check_fitted(&self) -> Result<(), String> {
        if self.fitted.is_empty() {
            return Ok(());
        }
        let figures = self.figures();
        for path in self.fitted.keys() {
            let inside = format!("{path}.");
            let is_it =
                |figure: &ProfileFigure| figure.path == *path || figure.path.starts_with(&inside);
            if !figures.iter().any(is_it) && path != "capacity" {
                return Err(format!("[fitted] names `{path}`, which is no figure of the profile"));
            }
        }
        Ok(())
    }

    /// Which make of drive the profile describes.
    #[must_use]
    pub const fn kind(&self) -> DriveKind {
        self.drive.kind()
    }

    /// Whether an arm moves in it or in a member: such a drive in small is not the same drive.
    ///
    /// # Errors
    /// If a member of an array is unknown.
    pub fn has_arm(&self) -> Result<bool, ProfileError> {
        self.drive.make().has_arm()
    }

    /// Whether it or a member is as fast as measured only once it was written full, so that whoever measures
    /// it fills it first.
    ///
    /// # Errors
    /// If a member of an array is unknown.
    pub fn needs_filling(&self) -> Result<bool, ProfileError> {
        self.drive.make().needs_filling()
    }

    /// Whether its counters tell what its flash chips did and how they wear.
    #[must_use]
    pub fn counts_flash(&self) -> bool {
        self.drive.make().counts_flash()
    }

    /// Whether it may complete writes out of its memory; `None` where it does what it says of itself.
    #[must_use]
    pub fn has_write_cache(&self) -> Option<bool> {
        self.drive.make().has_write_cache()
    }

    /// Whether it or each member says what it draws.
    #[must_use]
    pub fn tells_energy(&self) -> bool {
        if let DriveConfig::Array(array) = &self.drive {
            let members = array.member_names().unwrap_or_default();
            return members.iter().all(|it| Self::load(it).is_ok_and(|it| it.tells_energy()));
        }
        self.figures().iter().any(|figure| figure.path.contains(".power."))
    }

    /// What the user writes for it: `sim:NAME`, or the address of an array.
    #[must_use]
    pub fn address(&self) -> String {
        address(&self.name)
    }

    /// Every figure of the drive's own section, in the order of the keys, with its source.
    #[must_use]
    pub fn figures(&self) -> Vec<ProfileFigure> {
        let table: toml::Table = self.text.parse().expect("a loaded profile is TOML");
        let mut figures = Vec::new();
        let label = self.kind().label();
        collect_figures(label, &table[label], &mut figures);
        let figure = |(path, value): (String, String)| {
            let source = self.sources.get(&path).or_else(|| {
                let (table, _) = path.rsplit_once('.')?;
                self.sources.get(table)
            });
            let source = source.cloned();
            ProfileFigure { path, value, source }
        };
        figures.into_iter().map(figure).collect()
    }

    /// The figures without a source or whose source has no mark, by their path in the file; empty
    /// for every profile that ships with nandu.
    #[must_use]
    pub fn figures_without_source(&self) -> Vec<String> {
        let has_mark = |figure: &ProfileFigure| {
            let marks = ["[S", "[V", "[C", "[M"];
            let source = figure.source.as_deref();
            source.is_some_and(|source| marks.iter().any(|mark| source.starts_with(mark)))
        };
        let figures = self.figures().into_iter();
        figures.filter(|figure| !has_mark(figure)).map(|figure| figure.path).collect()
    }

    /// Builds the drive.
    ///
    /// # Errors
    /// If the capacity is larger than the drive or no multiple of its sector, or the parts do not
    /// make a drive.
    pub fn open(&self, options: SimOptions) -> Result<Box<dyn Device + Send>, ProfileError> {
        let geometry = self.scaled_geometry(options.capacity)?;
        self.drive.make().open(&self.address(), geometry, options).map_err(|error| match error {
            MakeError::Parts(error) => ProfileError::Drive { file: self.origin.clone(), error },
            MakeError::Member(error) => error,
        })
    }

    /// Builds the drive if it is a solid-state drive, which can be asked what happens inside.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_ssd(&self, options: SimOptions) -> Result<Option<Ssd>, ProfileError> {
        let DriveConfig::Ssd(config) = &self.drive else { return Ok(None) };
        let geometry = self.scaled_geometry(options.capacity)?;
        Ssd::new(&self.address(), geometry, config, options.keep_data, options.seed)
            .map(Some)
            .map_err(|error| ProfileError::Drive { file: self.origin.clone(), error })
    }

    /// The flash chips of the drive by themselves, erased, if it has some: as many as it has, without its
    /// controller, its link and its translation layer. They keep data whatever `options` say.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_raw_flash(&self, options: SimOptions) -> Result<Option<NandFlash>, ProfileError> {
        let geometry = self.scaled_geometry(options.capacity)?;
        let chips = self.drive.make().raw_flash(&self.address(), geometry, options);
        chips.map_err(|error| ProfileError::Drive { file: self.origin.clone(), error })
    }

    fn scaled_geometry(&self, capacity: Option<ByteCount>) -> Result<Geometry, ProfileError> {
        let Some(capacity) = capacity else {
            return Ok(self.geometry);
        };
        let whole = self.geometry.capacity();
        let sector_bytes = self.geometry.sector_bytes;
        if capacity > whole || capacity.0 < u64::from(sector_bytes) {
            return Err(ProfileError::Capacity { name: self.name.clone(), capacity, whole });
        }
        Ok(Geometry { sector_bytes, sector_count: capacity.0 / u64::from(sector_bytes) })
    }
}

impl ProfileFile {
    fn geometry(&self) -> Result<Geometry, String> {
        let capacity =
            ByteCount::parse(&self.capacity).map_err(|message| format!("`capacity`: {message}"))?;
        if capacity.0 > CAPACITY_BYTES_MAX {
            return Err(format!("`capacity` is {capacity}, must be at most 1 PiB"));
        }
        let sectors = capacity.0.checked_div(u64::from(self.sector_bytes)).unwrap_or(0);
        Geometry::new(self.sector_bytes, sectors)
            .map_err(|error| format!("`sector_bytes` or `capacity`: {error}"))
    }
}

/// Trouble with a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is no profile of that name.
    NotFound {
        /// The name that was asked for.
        name: String,
        /// The name that looks most like it.
        nearest: Option<String>,
    },
    /// The file cannot be read.
    Unreadable {
        /// The path of the profile.
        file: String,
        /// The system's words.
        message: String,
    },
    /// The content is wrong.
    Invalid {
        /// Path of the file.
        file: String,
        /// The line that is wrong, from 1.
        line: usize,
        /// What is wrong.
        message: String,
        /// The valid key or value that looks most like what was written.
        nearest: Option<String>,
    },
    /// A drive with too few dies to be so many times smaller.
    Indivisible {
        /// The name of the profile.
        name: String,
        /// How many times smaller the drive was to be.
        over: u32,
    },
    /// A scaled drive that is larger than the drive or smaller than a sector.
    Capacity {
        /// The name of the profile.
        name: String,
        /// The capacity that was asked for.
        capacity: ByteCount,
        /// The capacity that the drive has.
        whole: ByteCount,
    },
    /// An array whose address, members or layout do not make one.
    Array {
        /// Which, as the user wrote it.
        name: String,
        /// Why they do not make an array, and what would do.
        what: String,
    },
    /// The parts do not make a drive.
    Drive {
        /// Path of the file.
        file: String,
        /// Why the parts do not fit together.
        error: DeviceError,
    },
}

impl ProfileError {
    /// The error of a member as that of the array `name`.
    pub(crate) fn within(self, name: &str) -> Self {
        let Self::Array { what, .. } = &self else {
            return Self::Array { name: name.into(), what: self.to_string() };
        };
        Self::Array { name: name.into(), what: what.clone() }
    }
}

/// What the user writes for the simulated drive `name`.
pub(crate) fn address(name: &str) -> String {
    if name.starts_with(ADDRESS_PREFIX) { name.to_owned() } else { format!("sim:{name}") }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { name, nearest } => {
                write!(formatter, "there is no simulated drive `{name}`")?;
                match nearest {
                    Some(nearest) => write!(formatter, "; did you mean `{nearest}`?"),
                    None => formatter.write_str("; `nandu drives` lists them"),
                }
            }
            Self::Unreadable { file, message } => write!(formatter, "{file}: {message}"),
            Self::Invalid { file, line, message, nearest } => {
                write!(formatter, "{file}:{line}: {message}")?;
                match nearest {
                    Some(nearest) => write!(formatter, "; did you mean `{nearest}`?"),
                    None => Ok(()),
                }
            }
            Self::Indivisible { name, over } => {
                write!(formatter, "{name} has too few dies to be {over} times smaller")
            }
            Self::Capacity { name, capacity, whole } => write!(
                formatter,
                "{} cannot have {capacity}: give at least one sector and at most {whole}",
                address(name)
            ),
            Self::Array { name, what } => write!(formatter, "{name}: {what}"),
            Self::Drive { file, error } => write!(formatter, "{file}: {error}"),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Reads a whole file of so many bytes at most, such as one that a user wrote.
///
/// # Errors
/// If it cannot be read, is no UTF-8, or longer.
pub fn read_text(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        let what = format!("it has more than {}", ByteCount(bytes_max));
        return Err(std::io::Error::other(what));
    }
    Ok(text)
}

/// The line, from 1, on which the byte `offset` lies.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

/// The first line, from 1, that assigns `key`.
pub(crate) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let assigns = |line: &str| line.split_once('=').is_some_and(|(left, _)| left.trim() == key);
    text.lines().position(assigns).map(|index| index + 1)
}

/// The paths of all leaves below `value`; an array is one figure.
fn collect_figures(path: &str, value: &toml::Value, figures: &mut Vec<(String, String)>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                collect_figures(&format!("{path}.{key}"), value, figures);
            }
        }
        toml::Value::String(text) => figures.push((path.to_owned(), text.clone())),
        _ => figures.push((path.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests;
