//! A database in a directory, made or opened in one call.

use crate::directory_volume::Undo;
use crate::{DirectoryOptions, DirectoryVolume};
use nandu_storage::StorageError;
use nandu_storage::database::Database;
use nandu_storage::engine::{RestartReport, Settings, Volumes};
use nandu_storage::propagation::OtherMedium;
use nandu_storage::volume::Volume;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How to make or open a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// What the engine is to do. Page size, propagation and log size are fixed when it is made.
    pub settings: Settings,
    /// How its files are read and written.
    pub files: DirectoryOptions,
    /// A directory for the log alone, on another disk, say; named at each opening.
    pub log_directory: Option<PathBuf>,
    /// A directory for each volume that the propagation needs beside the data
    /// ([`PropagationKind::other_media`]), by its name there; named at each opening.
    ///
    /// [`PropagationKind::other_media`]: crate::PropagationKind::other_media
    pub other_directories: BTreeMap<String, PathBuf>,
}

/// Makes an empty database in a directory that is new or empty.
///
/// ```
/// use nandu::{Column, ColumnType, DatabaseOptions, TableKind, Value};
///
/// # fn main() -> Result<(), nandu::StorageError> {
/// # let place = tempfile::tempdir().expect("a scratch directory");
/// # let directory = place.path().join("shop");
/// let options = DatabaseOptions::default();
/// # let mut options = options;
/// # (options.settings.log_bytes, options.settings.checkpoint_bytes) = (4 << 20, 1 << 20);
/// let database = nandu::create_database(&directory, &options)?;
/// let columns = vec![
///     Column::new("id", ColumnType::Integer).not_null(),
///     Column::new("name", ColumnType::Text),
/// ];
/// let mut write = database.write()?;
/// write.create_table("customers", columns, TableKind::Clustered { key: vec![0] })?;
/// write.put("customers", &[Value::from(7).as_ref(), Value::from("Ida").as_ref()])?;
/// write.commit()?;
/// let name = database.read().get_by_key("customers", &[Value::from(7).as_ref()], |row| {
///     row.get(1).to_value()
/// })?;
/// assert_eq!(name, Some(Value::from("Ida")));
/// database.close()?;
/// # Ok(())
/// # }
/// ```
///
/// A making that was interrupted is begun anew; until it is complete, nothing opens the directory.
///
/// # Errors
/// If there is something in the directory already, a setting makes no sense, or the system refuses;
/// then nothing is left there.
pub fn create_database(
    directory: &Path,
    options: &DatabaseOptions,
) -> Result<Database, StorageError> {
    NewDatabase::begin(directory, options)?.keep()
}

/// A database that is being made and filled: it counts once it is [kept](Self::keep). Dropped before,
/// it is gone, with the directories that were made for it; killed before, the next making takes its
/// place, and nothing opens it.
#[derive(Debug)]
pub struct NewDatabase {
    /// `None` once it was kept or is about to go.
    database: Option<Database>,
    undos: Vec<Undo>,
}

impl NewDatabase {
    /// Makes an empty database in a directory that is new or empty.
    ///
    /// # Errors
    /// As [`create_database`].
    pub fn begin(directory: &Path, options: &DatabaseOptions) -> Result<Self, StorageError> {
        options.settings.check()?;
        let mut new = Self { database: None, undos: Vec::new() };
        let (data, undo) = DirectoryVolume::begin(directory, options.files, new_identity()?, None)?;
        new.undos.push(undo);
        let identity = data.identity();
        let mut begin = |directory: &PathBuf| -> Result<Box<dyn Volume>, StorageError> {
            let (volume, undo) =
                DirectoryVolume::begin(directory, options.files, identity, Some(identity))?;
            new.undos.push(undo);
            Ok(Box::new(volume))
        };
        let log = options.log_directory.as_ref().map(&mut begin).transpose()?;
        let others = others(options, begin)?;
        let volumes = Volumes { data: Box::new(data), log, others };
        let made = Database::create(volumes, &options.settings, new_identity()?);
        new.database = Some(made.map_err(|error| told_of_making(directory, options, error))?);
        Ok(new)
    }

    /// The database, to be filled.
    ///
    /// # Panics
    /// Never: it is there as long as this is.
    #[must_use]
    pub const fn database(&self) -> &Database {
        self.database.as_ref().expect("it is there until this is dropped")
    }

    /// Says that all is there that it was made for.
    ///
    /// # Errors
    /// If the system refuses; then nothing is left.
    pub fn keep(mut self) -> Result<Database, StorageError> {
        self.database().finish_making()?;
        self.undos.clear();
        Ok(self.database.take().expect("it is there until this is dropped"))
    }
}

impl Drop for NewDatabase {
    fn drop(&mut self) {
        drop(self.database.take());
        // The volume of the pages first: the others are worth nothing without it.
        let mut is_gone = false;
        for undo in &self.undos {
            is_gone = undo.run(is_gone);
            if !is_gone {
                break;
            }
        }
    }
}

/// Opens the database in a directory, restarting it if it was not closed; the report says what that
/// took.
///
/// # Errors
/// If there is none, another process has it open, it is damaged, or the system refuses.
pub fn open_database(
    directory: &Path,
    options: &DatabaseOptions,
) -> Result<(Database, RestartReport), StorageError> {
    let open = |directory: &PathBuf| -> Result<Box<dyn Volume>, StorageError> {
        Ok(Box::new(DirectoryVolume::open(directory, options.files)?))
    };
    let data = Box::new(DirectoryVolume::open(directory, options.files)?);
    let log = options.log_directory.as_ref().map(open).transpose()?;
    let others = others(options, open)?;
    Database::open(Volumes { data, log, others }, &options.settings)
}

/// The volumes in the directories beside those of the pages and the log.
fn others(
    options: &DatabaseOptions,
    mut volume_in: impl FnMut(&PathBuf) -> Result<Box<dyn Volume>, StorageError>,
) -> Result<BTreeMap<String, OtherMedium>, StorageError> {
    let named = |(name, directory): (&String, &PathBuf)| {
        Ok((name.clone(), OtherMedium::Volume(volume_in(directory)?)))
    };
    options.other_directories.iter().map(named).collect()
}

/// Where a disk is too small for a new database it is not this or that file that is too long.
fn told_of_making(
    directory: &Path,
    options: &DatabaseOptions,
    error: StorageError,
) -> StorageError {
    let StorageError::NoSpace { what } = error else { return error };
    let Settings { log_bytes, propagation, .. } = &options.settings;
    let beside = propagation.config().told_of_making();
    let what = format!(
        "{what}; a new database in {} has a log of {log_bytes} bytes{beside}",
        directory.display()
    );
    StorageError::NoSpace { what }
}

/// A number that no other database has.
pub(crate) fn new_identity() -> Result<u64, StorageError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 8];
    let read = File::open(path).and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| crate::directory_volume::system_error("cannot read", path, &error))?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_volume_beside_the_data_lies_in_the_directory_that_is_named_for_it() {
        let place = tempfile::tempdir().unwrap();
        let mut options = DatabaseOptions::default();
        for name in ["tier", "copies"] {
            let directory = place.path().join(format!("of-{name}"));
            let mut volume = DirectoryVolume::create(&directory, options.files).unwrap();
            volume.create(name).unwrap();
            options.other_directories.insert(name.to_owned(), directory);
        }
        let open = |directory: &PathBuf| -> Result<Box<dyn Volume>, StorageError> {
            Ok(Box::new(DirectoryVolume::open(directory, options.files)?))
        };
        let found = others(&options, open).unwrap();
        assert!(found.keys().eq(options.other_directories.keys()));
        for (name, medium) in found {
            let OtherMedium::Volume(volume) = medium else { panic!("{name} is a volume") };
            let files: Vec<String> = volume.files().into_iter().map(|(_, name)| name).collect();
            assert_eq!(files, [name]);
        }
    }
}
