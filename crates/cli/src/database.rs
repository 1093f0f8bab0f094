//! How commands come to a database in a directory.
//!
//! 1. Whoever opens one that was not closed reads on stderr what its restart did.
//! 2. A size of pages or of the log that is not the database's own is refused, not ignored.
//! 3. A database that cannot be closed is no failure of the command, nor is an answer that cannot be
//!    written: what it committed is durable, and who tried again would do it twice.
//! 4. A command that makes a database and then fails leaves none.

use crate::engine_settings;
use crate::failure::Failure;
use crate::output;
use nandu::{
    Database, DatabaseOptions, DirectoryOptions, NewDatabase, RestartReport, Settings, StorageError,
};
use nandu_base::words::counted;
use nandu_base::{ByteCount, Nanos};
use std::path::Path;

/// An open database, and what its restart did if it had not been closed.
pub(crate) type Opened = (Database, Option<RestartReport>);

/// Opens a database.
pub(crate) fn open(directory: &Path, options: &DatabaseOptions) -> Result<Opened, StorageError> {
    let (database, report) = nandu::open_database(directory, options)?;
    if report.was_closed {
        return Ok((database, None));
    }
    if let Some(line) = restart_line(&report) {
        output::complain(&format!("{} was not closed; {line}", directory.display()));
    }
    Ok((database, Some(report)))
}

/// Opens what is only going to be read, and changes nothing: beside others who read, and where nothing can
/// be written. One that was not closed is restarted first, which writes.
pub(crate) fn open_to_read(
    directory: &Path,
    options: &DatabaseOptions,
) -> Result<Opened, StorageError> {
    let files = DirectoryOptions { read_only: true, ..options.files };
    match open(directory, &DatabaseOptions { files, ..options.clone() }) {
        Err(unclosed @ StorageError::NeedsRestart { .. }) => match open(directory, options) {
            Err(StorageError::ReadOnly { .. }) => Err(unclosed),
            answer => answer,
        },
        answer => answer,
    }
}

/// Closes a database when all that was asked of it is done. That the device has no room for it, or fails, is
/// told and no error (invariant 3).
///
/// # Errors
/// If what was committed is not durable and cannot be made so.
pub(crate) fn close(database: Database, directory: &Path) -> Result<(), StorageError> {
    database.flush()?;
    if let Err(error) = database.close() {
        output::complain(&format!(
            "warning: {} cannot be closed: {error}; what was stored is safe, and the next opening \
             restarts it",
            directory.display()
        ));
    }
    Ok(())
}

/// Ends a command that has done what was asked of it: `done` says what, where its answer cannot be written
/// (invariant 3).
pub(crate) fn answered(told: Result<(), Failure>, done: &str) -> Result<(), Failure> {
    match told {
        Err(failure) if failure.is_of_device() => {
            let why = failure.in_one_line();
            output::complain(&format!("warning: {why}; what was asked is done: {done}"));
            Ok(())
        }
        told => told,
    }
}

/// What a user asks of a database, much of which is fixed when it is made; what is not given is as usual.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes<'w> {
    /// The size of a page.
    pub(crate) page: Option<ByteCount>,
    /// The size of the log.
    pub(crate) log: Option<ByteCount>,
    /// Other settings, as `--set` has them.
    pub(crate) set: &'w [String],
}

impl Wishes<'_> {
    /// Has a new database be so.
    ///
    /// # Errors
    /// If the log is too short for a database.
    pub(crate) fn apply(self, settings: &mut Settings) -> Result<(), Failure> {
        if let Some(size) = self.page {
            settings.page_bytes = u32::try_from(size.0).map_err(|_| {
                let what = "is not a power of two from 512 to 65536";
                Failure::input(format!("page size {} {what}", size.0))
            })?;
        }
        if let Some(size) = self.log {
            // A page size that makes no sense is told as that.
            let least = Settings::log_bytes_min(settings.page_bytes.min(1 << 16));
            if size.0 < least {
                return Err(Failure::input(format!(
                    "--log-size {}: a log has at least 64 pages, {least} bytes here",
                    size.0
                )));
            }
            settings.log_bytes = size.0;
            settings.checkpoint_bytes = settings.checkpoint_bytes.min(size.0 / 4);
        }
        *settings = engine_settings::set_new(settings, self.set)?;
        Ok(settings.check()?)
    }

    /// Whether a database is so.
    fn check(self, directory: &Path, settings: &Settings) -> Result<(), Failure> {
        let place = directory.display();
        let page_bytes = u64::from(settings.page_bytes);
        if let Some(size) = self.page.filter(|size| size.0 != page_bytes) {
            return Err(Failure::input(format!(
                "--page-size {}: {place} has pages of {page_bytes} bytes, which stay; leave it out, \
                 or name a new directory",
                size.0,
            )));
        }
        let log_bytes = settings.log_bytes;
        if let Some(size) = self.log.filter(|size| size.0 != log_bytes) {
            return Err(Failure::input(format!(
                "--log-size {}: {place} has a log of {log_bytes} bytes, which stays; leave it out, \
                 or copy the database with `nandu db compact {place} NEW --log-size {}`",
                size.0, size.0,
            )));
        }
        engine_settings::check(directory, settings, self.set)
    }
}

/// Fills a database, which is made where there is none, as it is wished, and closes
/// it. Tells what its restart did, if it had not been closed. A database that was made for this
/// is gone if `fill` fails.
pub(crate) fn fill<T>(
    directory: &Path,
    mut options: DatabaseOptions,
    wishes: Wishes<'_>,
    fill: impl FnOnce(&Database) -> Result<T, Failure>,
) -> Result<(T, Option<RestartReport>), Failure> {
    let asked = DatabaseOptions {
        settings: engine_settings::set(&options.settings, wishes.set)?,
        ..options.clone()
    };
    let (database, restart) = match open(directory, &asked) {
        Err(missing @ (StorageError::NotFound { .. } | StorageError::NotADatabase { .. })) => {
            wishes.apply(&mut options.settings)?;
            let new = match NewDatabase::begin(directory, &options) {
                // There is one that cannot be opened; why not is the better answer, unless something lies
                // where the log was to be.
                Err(StorageError::Exists { .. }) if options.log_directory.is_none() => {
                    return Err(missing.into());
                }
                answer => answer?,
            };
            let value = fill(new.database())?;
            close(new.keep()?, directory)?;
            return Ok((value, None));
        }
        answer => answer?,
    };
    let fits = wishes.check(directory, database.read().engine().settings());
    let outcome = fits.and_then(|()| fill(&database));
    let closed = close(database, directory);
    let value = outcome?;
    closed?;
    Ok((value, restart))
}

/// What a restart did; `None` where there was nothing to do.
fn restart_line(report: &RestartReport) -> Option<String> {
    let RestartReport {
        log_scan,
        page_reads,
        apply,
        page_writes,
        record_count,
        page_count,
        redone_count,
        repaired_page_count,
        loser_count,
        ..
    } = report;
    if [page_count, redone_count, repaired_page_count, loser_count] == [&0; 4] {
        return None;
    }
    let time: u64 = [log_scan, page_reads, apply, page_writes].iter().map(|step| step.time.0).sum();
    let torn = match repaired_page_count {
        0 => String::new(),
        count => format!(", {} rebuilt", counted(*count, "torn page")),
    };
    Some(format!(
        "restart took {}: {} scanned, {} redone on {}, {} undone{torn}",
        Nanos(time),
        counted(*record_count, "log record"),
        counted(*redone_count, "change"),
        counted(*page_count, "page"),
        counted(*loser_count, "transaction")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_without_work_is_not_worth_a_line() {
        let idle = RestartReport { record_count: 2, ..RestartReport::default() };
        assert_eq!(restart_line(&idle), None);
        let undone = RestartReport { loser_count: 1, ..idle };
        let line = restart_line(&undone).unwrap();
        assert!(line.contains("2 log records scanned") && line.contains("1 transaction undone"));
        assert!(!line.contains("torn"), "{line}");
        let torn = RestartReport { repaired_page_count: 3, ..undone };
        assert!(restart_line(&torn).unwrap().ends_with(", 3 torn pages rebuilt"));
    }
}
