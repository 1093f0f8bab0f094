//! The volumes of a database with the engine's clock, and the engine's own files on them.
//!
//! ```text
//!   data     settings  double-write  files of tables and of the propagation     log, if not apart
//!   log      log
//!   others   the propagation's, and what says whose they are
//! ```

use super::Settings;
use super::settings::{self, Found, SETTINGS_FILE};
use crate::log::{LogFile, Master};
use crate::propagation::{DoubleWriteFile, Media, OtherMedium, Propagation, PropagationKind};
use crate::volume::Io;
use crate::{FileId, StorageError, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The name of the log's file.
pub(super) const LOG_FILE: &str = "log";
/// The name of the file of the double write.
pub(super) const DOUBLE_WRITE_FILE: &str = "double-write";

/// The volumes that hold a database and its log.
pub struct Volumes {
    /// The pages, and the log unless it has its own.
    pub data: Box<dyn Volume>,
    /// The volume of the log, where that has one of its own.
    pub log: Option<Box<dyn Volume>>,
    /// What the propagation needs beside the data, by the names that its kind has for it.
    pub others: BTreeMap<String, OtherMedium>,
}

impl Volumes {
    /// The pages, and the log if it has its own: enough for any propagation that needs nothing else.
    #[must_use]
    pub const fn new(data: Box<dyn Volume>, log: Option<Box<dyn Volume>>) -> Self {
        Self { data, log, others: BTreeMap::new() }
    }
}

/// Volumes with the engine's clock.
pub(super) struct Shared {
    pub(super) data_io: Io,
    pub(super) log_io: Io,
    pub(super) media: Media,
}

pub(super) fn share(volumes: Volumes) -> Shared {
    let clock = Arc::new(AtomicU64::new(0));
    let share = |volume| Io::new(volume, Arc::clone(&clock));
    let Volumes { data, log, others } = volumes;
    let data_io = share(data);
    let log_io = log.map_or_else(|| data_io.clone(), share);
    let media = Media::with_clock(data_io.clone(), others, &clock);
    Shared { data_io, log_io, media }
}

/// Refuses files of several moments, and has a copy count its runs apart from those of its original.
pub(super) fn check_moment<'a>(
    volumes: impl Iterator<Item = &'a Io>,
    log_file: &mut LogFile,
) -> Result<(), StorageError> {
    let control = *log_file.control();
    let closed_by = control.is_clean.then(|| control.epoch());
    for io in volumes {
        if io.check_moment(closed_by)? {
            log_file.skip_runs();
        }
    }
    Ok(())
}

/// Refuses pages of which fewer writes are found than were durable.
pub(super) fn check_written(
    propagation: &dyn Propagation,
    written: u64,
    settings: &Settings,
) -> Result<(), StorageError> {
    let found = propagation.last_write();
    if found >= written {
        return Ok(());
    }
    let files = settings.propagation.kind.told_files();
    let what = format!(
        "the last write in {files} is {found}, but write {written} was durable; restore the database \
         from a copy"
    );
    Err(StorageError::Corrupt { place: name_of(propagation.data()), what })
}

/// The settings of the database on a volume.
pub(super) fn expect_settings(io: &Io) -> Result<Found, StorageError> {
    settings::find(io)?.ok_or_else(|| {
        let what = "its file settings is missing or empty; restore the database from a copy, or make a \
                    new one elsewhere if its creation was interrupted";
        StorageError::NotADatabase { place: name_of(io), what: what.to_owned() }
    })
}

/// The file of the log, where the database has it: on the volume of its data, or on one of its own.
pub(super) fn expect_log(
    data_io: &Io,
    log_io: &Io,
    log_apart: Option<u64>,
) -> Result<FileId, StorageError> {
    let (place, log_place) = (name_of(data_io), name_of(log_io));
    let refused = |what: String| Err(StorageError::InvalidSetting { what });
    let is_apart = !log_io.is_same(data_io);
    if !is_apart && log_apart.is_some() {
        return refused(format!(
            "the log of the database in {place} lies on a device of its own; name that, too"
        ));
    }
    if is_apart && log_apart.is_none() && find_file(data_io, LOG_FILE).is_some() {
        return refused(format!(
            "the log of the database in {place} lies there, not on {log_place}; leave that out"
        ));
    }
    if is_apart && find_file(log_io, LOG_FILE).is_none() {
        return refused(format!(
            "{log_place} has no log; name the device of the log of the database in {place}"
        ));
    }
    expect_file(log_io, LOG_FILE)
}

/// Refuses the log of another database.
pub(super) fn check_log(
    data_io: &Io,
    log_io: &Io,
    log_apart: Option<u64>,
    control: &Master,
) -> Result<(), StorageError> {
    if log_apart.is_none_or(|database_id| database_id == control.database_id) {
        return Ok(());
    }
    let what = format!(
        "the log on {} belongs to another database; name the device of the log of the database in {}",
        name_of(log_io),
        name_of(data_io)
    );
    Err(StorageError::InvalidSetting { what })
}

pub(super) fn name_of(io: &Io) -> String {
    io.name()
}

pub(super) fn is_own_file(name: &str) -> bool {
    let of_engine = [LOG_FILE, DOUBLE_WRITE_FILE, SETTINGS_FILE];
    of_engine.contains(&name) || PropagationKind::is_own_file(name)
}

pub(super) fn find_file(io: &Io, name: &str) -> Option<FileId> {
    let files = io.files();
    files.into_iter().find(|(_, found)| found == name).map(|(file, _)| file)
}

/// The copies of pages that may be torn; `None` if there are none.
pub(super) fn find_double_write(
    io: &Io,
    settings: &Settings,
    epoch: u32,
    is_clean: bool,
) -> Result<Option<DoubleWriteFile>, StorageError> {
    let Some(file) = find_file(io, DOUBLE_WRITE_FILE) else { return Ok(None) };
    if !is_clean && io.found_byte_count(file) < 2 * u64::from(settings.page_bytes) {
        let what = "its file double-write was cut, and it was not closed: pages that are torn would \
                    not be mended; restore the database from a copy";
        return Err(StorageError::Corrupt { place: name_of(io), what: what.to_owned() });
    }
    settings.double_write(file, io, epoch).map(Some)
}

pub(super) fn expect_file(io: &Io, name: &str) -> Result<FileId, StorageError> {
    find_file(io, name).ok_or_else(|| {
        let place = io.name();
        StorageError::Corrupt { place, what: format!("its file {name} is missing") }
    })
}

pub(super) fn create_file(io: &Io, name: &str) -> Result<FileId, StorageError> {
    let file = io.create(name)?;
    io.sync(file)?;
    Ok(file)
}

/// What an interrupted creation left.
pub(super) fn remove_all_files(io: &Io) -> Result<(), StorageError> {
    for (file, _) in io.files() {
        io.remove(file)?;
    }
    Ok(())
}
