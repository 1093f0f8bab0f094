//! A database over a simulated drive, on the drive's own clock: how long a program would wait, and what it
//! would wear, on a drive that nobody has here.
//!
//! 1. Everything follows from the drive, the seed and the calls: two runs give the same bits, and the same
//!    times.
//! 2. The database is gone with the drive, which is memory.

use nandu_base::{ByteCount, Nanos};
pub use nandu_device::Counters;
use nandu_device::{Device, SharedDevice};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_storage::StorageError;
use nandu_storage::database::Database;
use nandu_storage::engine::{Settings, Volumes};
use nandu_storage::volume::DeviceVolume;

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
    /// # Errors
    /// If there is no such drive, it is too small, or a setting makes no sense.
    pub fn create(drive: &SimulatedDrive<'_>, settings: &Settings) -> Result<Self, StorageError> {
        settings.check()?;
        settings.propagation.kind.check_needs_data_alone("a simulated drive")?;
        let SimulatedDrive { name, size, seed } = *drive;
        let options = SimOptions { capacity: size, seed, keep_data: true };
        let opened = Profile::load(name).and_then(|profile| profile.open(options));
        let shared = SharedDevice::new(opened.map_err(|error| {
            let what = format!("the simulated drive {name}: {error}");
            StorageError::InvalidSetting { what }
        })?);
        let data = Box::new(DeviceVolume::format(Box::new(shared.clone()))?);
        let volumes = Volumes::new(data, None);
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
