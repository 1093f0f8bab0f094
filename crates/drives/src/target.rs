//! What the user points at: a simulated drive, a directory, a file, a block device, an array of such.
//!
//! ```text
//!   sim:NAME, sim:path/x.toml ─► profile ─► simulated drive, scaled to `size`
//!   directory, new path in one ─► scratch file of `size`, filled, without a name
//!   existing file, block device ─► as it is; overwriting needs `destroy_data`
//!   array:LAYOUT:MEMBERS ─► as a simulated drive, or over files and scratch files, filled
//! ```
//!
//! 1. What a text means depends on its form and on what exists, never on the options.
//! 2. A scratch file is filled before it is handed out: blocks never written cost no disk time.

use crate::array::{ADDRESS_PREFIX, ArrayAddress, ArrayOfFiles};
use crate::file::{
    self, DiskDescription, EngineKind, FileDrive, FileError, FileOptions, ScratchFile,
};
use crate::profile::{self, Profile, ProfileError, SimOptions};
use crate::ssd::{Inside, Ssd};
use nandu_base::ByteCount;
use nandu_device::Device;
use std::fmt;
use std::path::{Path, PathBuf};

/// Size of a scratch file where the user names none.
pub const DEFAULT_SCRATCH_BYTES: ByteCount = ByteCount::gib(1);
/// Free space that a scratch file leaves alone unless told otherwise.
pub const DEFAULT_RESERVE_BYTES: ByteCount = ByteCount::gib(1);
/// Size of the file that finds out whether direct I/O works.
const TRIAL_BYTES: ByteCount = ByteCount::kib(64);

/// Where a measurement goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A simulated drive: the name of a profile, the path of its file, or the address of an array.
    Simulated(String),
    /// A scratch file in this directory.
    Scratch(PathBuf),
    /// A file or block device that exists.
    Existing(PathBuf),
    /// An array of scratch files, files or block devices.
    Array(ArrayAddress),
}

/// How to open a target. Each part uses what concerns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Capacity of a scaled-down simulated drive, or size of a scratch file. Existing files and
    /// block devices keep theirs.
    pub size: Option<ByteCount>,
    /// Existing content may be overwritten.
    pub destroy_data: bool,
    /// Open an existing file or block device for reading only, which needs no permission to destroy.
    pub read_only: bool,
    /// How requests reach the kernel.
    pub engine: EngineKind,
    /// Past the page cache: yes, no, or (`None`) where the file system can.
    pub direct: Option<bool>,
    /// Most requests in flight on a real drive.
    pub queue_depth: u32,
    /// Bytes of a sector of a real drive; `None` takes the smallest that it can do.
    pub sector_bytes: Option<u32>,
    /// Free space that a scratch file leaves alone.
    pub reserve: ByteCount,
    /// Seed of the fill and of everything random inside a simulated drive.
    pub seed: u64,
    /// Whether a simulated drive keeps written bytes.
    pub keep_data: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let file = FileOptions::default();
        Self {
            size: None,
            destroy_data: false,
            read_only: false,
            engine: file.engine,
            direct: None,
            queue_depth: file.queue_depth,
            sector_bytes: file.sector_bytes,
            reserve: DEFAULT_RESERVE_BYTES,
            seed: 1,
            keep_data: false,
        }
    }
}

/// A target that was opened, and what is known of it.
pub struct OpenTarget {
    drive: OpenDrive,
    /// What the device is and whose it is, for reports.
    pub description: TargetDescription,
}

/// Who can be asked what happens inside, and who cannot.
enum OpenDrive {
    Ssd(Box<Ssd>),
    Other(Box<dyn Device>),
}

impl OpenTarget {
    /// The device of the target.
    #[must_use]
    pub fn device(&self) -> &dyn Device {
        match &self.drive {
            OpenDrive::Ssd(drive) => drive.as_ref(),
            OpenDrive::Other(device) => device.as_ref(),
        }
    }

    /// The device, to be used.
    pub fn device_mut(&mut self) -> &mut dyn Device {
        match &mut self.drive {
            OpenDrive::Ssd(drive) => drive.as_mut(),
            OpenDrive::Other(device) => device.as_mut(),
        }
    }

    /// Gives up the target and keeps its device.
    #[must_use]
    pub fn into_device(self) -> Box<dyn Device> {
        match self.drive {
            OpenDrive::Ssd(drive) => drive,
            OpenDrive::Other(device) => device,
        }
    }

    /// What happened inside, of a simulated solid-state drive.
    #[must_use]
    pub fn inside(&self) -> Option<Inside> {
        match &self.drive {
            OpenDrive::Ssd(drive) => Some(drive.inside()),
            OpenDrive::Other(_) => None,
        }
    }
}

impl fmt::Debug for OpenTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OpenTarget({})", self.device().info().name)
    }
}

/// What an open target is, for reports.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetDescription {
    /// A simulated drive.
    Simulated(Box<Profile>),
    /// A file or block device of this machine.
    Real {
        /// The disk that holds the file.
        disk: Box<DiskDescription>,
        /// How requests reach the kernel, never `Auto`.
        engine: EngineKind,
        /// Whether requests go past the kernel's page cache.
        direct: bool,
        /// A scratch file, which is gone afterwards.
        is_scratch: bool,
    },
}

impl Target {
    /// Reads what the user wrote: `sim:NAME`, `sim:FILE.toml`, `array:LAYOUT:MEMBERS`, or a path. A path that does not exist
    /// in a directory that does means a scratch file there, if it is written with a `/`.
    ///
    /// # Errors
    /// If nothing is meant by it, with the simulated drive that may have been.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if let Some(name) = text.strip_prefix("sim:") {
            return Ok(Self::Simulated(name.to_owned()));
        }
        if text.starts_with(ADDRESS_PREFIX) {
            let address = ArrayAddress::parse(text)
                .map_err(|what| TargetError::Array { text: text.to_owned(), what })?;
            let is_simulated = address.is_simulated();
            let simulated = || Self::Simulated(text.to_owned());
            return Ok(if is_simulated { simulated() } else { Self::Array(address) });
        }
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(Self::Scratch(path.to_path_buf()));
        }
        if path.exists() {
            return Ok(Self::Existing(path.to_path_buf()));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent.filter(|parent| parent.is_dir() && !text.ends_with('/')) {
            Some(parent) => Ok(Self::Scratch(parent.to_path_buf())),
            None => {
                let is_profile = Profile::list().iter().any(|name| name == text);
                Err(TargetError::NotFound { text: text.to_owned(), is_profile })
            }
        }
    }

    /// Opens it, without a look at the progress.
    ///
    /// # Errors
    /// As [`Target::open_watched`].
    pub fn open(&self, options: &OpenOptions) -> Result<OpenTarget, TargetError> {
        self.open_watched(options, &mut |_| {}, &|| false)
    }

    /// Opens it. `progress` hears how many bytes of a scratch file are filled; `cancelled` is asked
    /// meanwhile.
    ///
    /// # Errors
    /// What the profile or the file says: unknown name, no room, in use, permission to destroy data
    /// missing, cancelled.
    pub fn open_watched(
        &self,
        options: &OpenOptions,
        progress: &mut dyn FnMut(ByteCount),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<OpenTarget, TargetError> {
        match self {
            Self::Simulated(name) => {
                let profile = Profile::load(name)?;
                let OpenOptions { size: capacity, seed, keep_data, .. } = *options;
                let options = SimOptions { capacity, seed, keep_data };
                let drive = match profile.open_ssd(options)? {
                    Some(drive) => OpenDrive::Ssd(Box::new(drive)),
                    None => OpenDrive::Other(profile.open(options)?),
                };
                Ok(OpenTarget { drive, description: TargetDescription::Simulated(profile.into()) })
            }
            Self::Scratch(directory) => {
                let direct = match options.direct {
                    Some(direct) => direct,
                    None => can_direct(directory, options)?,
                };
                let size = options.size.unwrap_or(DEFAULT_SCRATCH_BYTES);
                let scratch = ScratchFile::create(directory, size, options.reserve)?;
                scratch.fill(options.seed, progress, cancelled)?;
                let drive = scratch.into_drive(options.of_file(direct))?;
                Ok(real(drive, directory, direct, true))
            }
            Self::Existing(path) => {
                let (drive, direct) = open_existing(path, options)?;
                Ok(real(drive, path, direct, false))
            }
            Self::Array(address) => {
                let files = address.open_files(options, progress, cancelled)?;
                let ArrayOfFiles { array, path, engine, direct, is_scratch } = files;
                let disk = Box::new(file::disk_description(&path));
                let description = TargetDescription::Real { disk, engine, direct, is_scratch };
                Ok(OpenTarget { drive: OpenDrive::Other(Box::new(array)), description })
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulated(name) => formatter.write_str(&profile::address(name)),
            Self::Array(address) => address.fmt(formatter),
            Self::Scratch(path) | Self::Existing(path) => write!(formatter, "{}", path.display()),
        }
    }
}

impl OpenOptions {
    pub(crate) const fn of_file(&self, direct: bool) -> FileOptions {
        FileOptions {
            engine: self.engine,
            direct,
            read_only: self.read_only,
            sector_bytes: self.sector_bytes,
            queue_depth: self.queue_depth,
        }
    }
}

/// Whether files in `directory` can be read past the page cache.
pub(crate) fn can_direct(directory: &Path, options: &OpenOptions) -> Result<bool, TargetError> {
    let trial = ScratchFile::create(directory, TRIAL_BYTES, options.reserve)?;
    match trial.into_drive(FileOptions { engine: EngineKind::Psync, ..options.of_file(true) }) {
        Ok(_) => Ok(true),
        Err(FileError::DirectRefused { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A file or block device that exists, and whether it is read past the page cache.
pub(crate) fn open_existing(
    path: &Path,
    options: &OpenOptions,
) -> Result<(FileDrive, bool), FileError> {
    let open = |direct| file::open_existing(path, options.destroy_data, options.of_file(direct));
    match (open(options.direct.unwrap_or(true)), options.direct) {
        (Err(FileError::DirectRefused { .. }), None) => Ok((open(false)?, false)),
        (answer, direct) => Ok((answer?, direct.unwrap_or(true))),
    }
}

fn real(drive: FileDrive, path: &Path, direct: bool, is_scratch: bool) -> OpenTarget {
    let disk = Box::new(file::disk_description(path));
    let engine = drive.engine();
    let description = TargetDescription::Real { disk, engine, direct, is_scratch };
    OpenTarget { drive: OpenDrive::Other(Box::new(drive)), description }
}

/// Trouble with a target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetError {
    /// Nothing of that name exists.
    NotFound {
        /// What the user wrote.
        text: String,
        /// A simulated drive has that name.
        is_profile: bool,
    },
    /// The profile of a simulated drive.
    Profile(ProfileError),
    /// A file, block device or scratch file.
    File(FileError),
    /// An array whose address or members do not make one.
    Array {
        /// What the user wrote.
        text: String,
        /// Why they do not make an array, and what would do.
        what: String,
    },
}

impl fmt::Display for TargetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { text, is_profile: true } => {
                write!(formatter, "{text}: no such file or directory; did you mean `sim:{text}`?")
            }
            Self::NotFound { text, is_profile: false } => write!(
                formatter,
                "{text}: no such file or directory; name a directory, a file, a block device or a \
                 simulated drive as sim:NAME"
            ),
            Self::Profile(error) => error.fmt(formatter),
            Self::File(error) => error.fmt(formatter),
            Self::Array { text, what } => write!(formatter, "{text}: {what}"),
        }
    }
}

impl std::error::Error for TargetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotFound { .. } | Self::Array { .. } => None,
            Self::Profile(error) => Some(error),
            Self::File(error) => Some(error),
        }
    }
}

impl From<ProfileError> for TargetError {
    fn from(error: ProfileError) -> Self {
        Self::Profile(error)
    }
}

impl From<FileError> for TargetError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> OpenOptions {
        let reserve = ByteCount::mib(1);
        OpenOptions { size: Some(ByteCount::mib(2)), reserve, ..OpenOptions::default() }
    }

    #[test]
    fn a_target_is_what_its_form_and_the_file_system_say() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("data");
        std::fs::write(&file, [0; 8192]).unwrap();
        let parse = |path: &Path| Target::parse(path.to_str().unwrap());
        assert_eq!(Target::parse("sim:pcm"), Ok(Target::Simulated("pcm".into())));
        assert_eq!(parse(directory.path()), Ok(Target::Scratch(directory.path().into())));
        assert_eq!(parse(&file), Ok(Target::Existing(file.clone())));
        let new = directory.path().join("new");
        assert_eq!(parse(&new), Ok(Target::Scratch(directory.path().into())));
        assert!(parse(&new.join("deeper")).is_err(), "its directory does not exist");
        let error = Target::parse("wd2000jb").unwrap_err().to_string();
        assert!(error.ends_with("did you mean `sim:wd2000jb`?"), "{error}");
        assert!(Target::parse("no-such-thing").is_err());
    }

    #[test]
    fn a_simulated_target_opens_scaled() {
        let open = Target::parse("sim:pcm").unwrap().open(&small()).unwrap();
        assert_eq!(open.device().info().geometry.capacity(), ByteCount::mib(2));
        assert!(matches!(open.description, TargetDescription::Simulated(_)));
        let error = Target::parse("sim:pmc").unwrap().open(&small()).unwrap_err().to_string();
        assert!(error.ends_with("did you mean `pcm`?"), "{error}");
    }

    #[test]
    fn a_directory_opens_as_a_filled_scratch_file_and_stays_empty() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::Scratch(directory.path().into());
        let mut filled = ByteCount::ZERO;
        let mut open =
            target.open_watched(&small(), &mut |bytes| filled = bytes, &|| false).unwrap();
        assert_eq!(filled, ByteCount::mib(2));
        assert_eq!(open.device().info().geometry.capacity(), ByteCount::mib(2));
        let buffer = nandu_device::testing::buffer_for(open.device(), 1);
        let read = nandu_device::Request::read(1, 0, 1, Some(buffer));
        let done = nandu_device::testing::run(open.device_mut(), read);
        assert!(done.buffer.unwrap().iter().any(|&byte| byte != 0), "it is filled");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it has no name");
        let cancelled = target.open_watched(&small(), &mut |_| {}, &|| true).unwrap_err();
        assert_eq!(cancelled, TargetError::File(FileError::Cancelled));
    }

    #[test]
    fn an_existing_file_is_safe_without_permission_to_destroy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        std::fs::write(&path, [7; 8192]).unwrap();
        let target = Target::Existing(path.clone());
        let error = target.open(&OpenOptions::default()).unwrap_err();
        assert!(matches!(error, TargetError::File(FileError::WouldDestroyData { .. })));
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        assert!(target.open(&read_only).is_ok());
        let permitted = OpenOptions { destroy_data: true, ..OpenOptions::default() };
        assert!(target.open(&permitted).is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), [7; 8192]);
    }
}
