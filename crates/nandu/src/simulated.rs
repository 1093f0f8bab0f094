//! A database over a simulated drive, on the drive's own clock: how long a program would wait, and what it
//! would wear, on a drive that nobody has here.
//!
//! 1. Everything follows from the drive, the seed and the calls: two runs give the same bits, and the same
//!    times.
//! 2. The database is gone with the drive, which is memory, and so is what its propagation has beside it.

use nandu_base::{ByteCount, Nanos};
pub use nandu_device::Counters;
use nandu_device::{Device, RawFlash, SharedDevice, SharedFlash};
use nandu_drives::profile::{Profile, ProfileError, SimOptions};
use nandu_drives::raw_flash::NandFlash;
use nandu_storage::StorageError;
use nandu_storage::database::Database;
use nandu_storage::engine::{Settings, Volumes};
use nandu_storage::propagation::{MediumKind, OtherMedium, PropagationKind};
use nandu_storage::volume::DeviceVolume;
use std::collections::BTreeMap;

/// Which drive, how large, and by which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedDrive<'n> {
    /// The name of a profile, as `nandu drives` lists them, or the path of a profile's TOML.
    pub name: &'n str,
    /// Bytes of a drive that is scaled down, its parts and times as they were; `None` for the whole one.
    pub size: Option<ByteCount>,
    /// The seed of everything random inside of it, and of the identity of the database.
    pub seed: u64,
}

/// A database with the drive under it.
pub struct SimulatedDatabase {
    database: Database,
    drive: SharedDevice<Box<dyn Device + Send>>,
}

/// What a propagation needs beside the volume of the data, simulated. It outlives the databases that use it,
/// one after the other.
///
/// A volume lies on a drive of its own; raw flash are the chips of one, without its controller and its
/// translation layer.
#[derive(Default)]
pub struct SimulatedMedia {
    media: Vec<(&'static str, SimulatedMedium)>,
}

enum SimulatedMedium {
    Drive(SharedDevice<Box<dyn Device + Send>>),
    Chips(SharedFlash<NandFlash>),
}

impl SimulatedMedia {
    /// What `kind` needs, from drives of this profile; nothing for most kinds.
    ///
    /// # Errors
    /// If the drive has no chips of its own and the kind needs some, or it cannot be built.
    pub fn new(
        kind: PropagationKind,
        profile: &Profile,
        options: SimOptions,
    ) -> Result<Self, StorageError> {
        let invalid = |what: String| StorageError::InvalidSetting { what };
        let wrong = |error: ProfileError| invalid(error.to_string());
        let mut media = Vec::new();
        for &(name, medium) in kind.other_media() {
            let simulated = match medium {
                MediumKind::Volume => {
                    let drive = profile.open(options).map_err(wrong)?;
                    SimulatedMedium::Drive(SharedDevice::new(drive))
                }
                MediumKind::RawFlash => {
                    let chips = profile.open_raw_flash(options).map_err(wrong)?;
                    let chips = chips.ok_or_else(|| {
                        invalid(format!(
                            "{} has no flash chips of its own, and the propagation {} needs some as its \
                             `{name}`; take a simulated solid-state drive, say sim:device-a",
                            profile.address(),
                            kind.name()
                        ))
                    })?;
                    SimulatedMedium::Chips(SharedFlash::new(chips))
                }
            };
            media.push((name, simulated));
        }
        Ok(Self { media })
    }

    /// The media for a database that is made, by the names that the kind has for them.
    ///
    /// # Errors
    /// If a volume cannot be made.
    pub fn format(&self) -> Result<BTreeMap<String, OtherMedium>, StorageError> {
        self.with_volumes(DeviceVolume::format)
    }

    /// The media as they were left. Whoever had them is gone, with all that was in flight.
    ///
    /// # Errors
    /// If there is no volume.
    pub fn reopen(&self) -> Result<BTreeMap<String, OtherMedium>, StorageError> {
        for (_, medium) in &self.media {
            match medium {
                SimulatedMedium::Drive(drive) => drive.forget_completions(),
                SimulatedMedium::Chips(chips) => chips.forget_completions(),
            }
        }
        self.with_volumes(DeviceVolume::open)
    }

    /// Adds what was done to them to what was done to another device: commands of flash, and lines.
    pub fn add_to(&self, counters: &mut Counters) {
        for (_, medium) in &self.media {
            let done = match medium {
                SimulatedMedium::Drive(drive) => drive.counters(),
                SimulatedMedium::Chips(chips) => {
                    Counters { flash: Some(chips.counters()), ..Counters::default() }
                }
            };
            counters.flash = match (counters.flash, done.flash) {
                (Some(one), Some(other)) => Some(one.with(&other)),
                (one, other) => one.or(other),
            };
            counters.lines = match (counters.lines, done.lines) {
                (Some(one), Some(other)) => Some(one.with(&other)),
                (one, other) => one.or(other),
            };
        }
    }

    fn with_volumes(
        &self,
        make: impl Fn(Box<dyn Device + Send>) -> Result<DeviceVolume, StorageError>,
    ) -> Result<BTreeMap<String, OtherMedium>, StorageError> {
        let medium = |(name, medium): &(&str, SimulatedMedium)| {
            let medium = match medium {
                SimulatedMedium::Drive(drive) => {
                    OtherMedium::Volume(Box::new(make(Box::new(drive.clone()))?))
                }
                SimulatedMedium::Chips(chips) => OtherMedium::RawFlash(Box::new(chips.clone())),
            };
            Ok(((*name).to_owned(), medium))
        };
        self.media.iter().map(medium).collect()
    }
}

impl std::fmt::Debug for SimulatedDatabase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SimulatedDatabase on {}", self.drive.info().name)
    }
}

impl SimulatedDatabase {
    /// Makes an empty database that fills a drive.
    ///
    /// ```
    /// use nandu::simulated::{SimulatedDatabase, SimulatedDrive};
    /// use nandu::{ByteCount, Column, ColumnType, Settings, TableKind, Value};
    ///
    /// # fn main() -> Result<(), nandu::StorageError> {
    /// let size = Some(ByteCount::gib(1));
    /// let drive = SimulatedDrive { name: "nvme-tlc-2024", size, seed: 1 };
    /// let simulated = SimulatedDatabase::create(&drive, &Settings::default())?;
    /// let mut write = simulated.database().write()?;
    /// write.create_table("things", vec![Column::new("id", ColumnType::Integer)], TableKind::Heap)?;
    /// write.insert("things", &[Value::from(7).as_ref()])?;
    /// write.commit()?;
    /// println!("durable after {}", simulated.now());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A propagation that needs raw flash has the chips of another such drive.
    ///
    /// # Errors
    /// If there is no such drive, it is too small, it has no chips where they are needed, or a setting makes
    /// no sense.
    pub fn create(drive: &SimulatedDrive<'_>, settings: &Settings) -> Result<Self, StorageError> {
        settings.check()?;
        let SimulatedDrive { name, size, seed } = *drive;
        let options = SimOptions { capacity: size, seed, keep_data: true };
        let wrong = |error: ProfileError| {
            let what = format!("the simulated drive {name}: {error}");
            StorageError::InvalidSetting { what }
        };
        let profile = Profile::load(name).map_err(wrong)?;
        let shared = SharedDevice::new(profile.open(options).map_err(wrong)?);
        let data = Box::new(DeviceVolume::format(Box::new(shared.clone()))?);
        let others = SimulatedMedia::new(settings.propagation.kind, &profile, options)?.format()?;
        let volumes = Volumes { others, ..Volumes::new(data, None) };
        let database = Database::create(volumes, settings, seed)?;
        Ok(Self { database, drive: shared })
    }

    /// The database, for any number of threads.
    #[must_use]
    pub const fn database(&self) -> &Database {
        &self.database
    }

    /// The present on the drive's clock, from 0 at its first request.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.database.read().engine().data_io().now()
    }

    /// What the drive was asked for so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.drive.counters()
    }
}
