//! The engine: transactions over pages, durable and atomic, on any volume.
//!
//! ```text
//!   begin ─► act … act ─► commit ─► make_durable          act: one action, one log record
//!              │  └─ savepoint ◄─ rollback_to              checkpoint: when enough was logged
//!              └───► rollback                              open: restart, if there was a crash
//! ```
//!
//! 1. At most one transaction is active at a time, others are set aside meanwhile; `&mut Engine` keeps
//!    readers out during an action, and no longer (decision 015).
//! 2. The log knows every change before the device does, and each page's LSN is that of its last
//!    change.
//! 3. After a failure that leaves memory behind the log (a rollback that cannot go on, a log that
//!    cannot be written) the engine refuses everything: opening it again brings it back. So it does
//!    after a sync that failed, whoever asked for it: what is durable is not known then, and the log
//!    must not be cut (`volume::guarded`).

mod action;
pub(crate) mod checkpoint;
mod owners;
mod restart;
mod room;
pub(crate) mod settings;
pub(crate) mod structure;
#[cfg(test)]
mod tests;
mod transaction;
pub(crate) mod undos;
mod unlogged;
pub(crate) mod versions;
mod volumes;

pub use action::Action;
pub use restart::{RestartReport, RestartStep};
pub use settings::{Settings, TornPages};
pub use structure::StructureKind;
pub use transaction::{Savepoint, Transaction};
pub use unlogged::UnloggedPages;
pub use volumes::Volumes;

use crate::log::{LogFile, SharedLog};
use crate::page::{TRAILER_BYTES, page_contents, page_lsn};
use crate::plant::{EngineBug, is_planted};
use crate::pool::{
    Cleaning, Grant, LogRun, PageReader, Plan, Pool, PoolConfig, PoolCounters, Read, ResidentPage,
    WantsCleaning, WriteAheadRule, WriteBack,
};
use crate::propagation::{FlashIo, PageWatch, Placement};
use crate::volume::Io;
use crate::{Checksum, FileId, Lsn, PageAddress, ReadPages, StorageError};
use action::ActionScratch;
use nandu_base::Nanos;
use nandu_device::Counters;
use owners::Owners;
use std::collections::BTreeMap;
use std::sync::Arc;
use undos::KeptUndos;
use versions::Versions;
use volumes::{
    DOUBLE_WRITE_FILE, LOG_FILE, Shared, check_log, check_moment, check_written, create_file,
    expect_log, expect_settings, find_double_write, find_file, is_own_file, name_of,
    remove_all_files, share,
};

/// The engine of one open database.
pub struct Engine {
    settings: Settings,
    pool: Pool,
    log: SharedLog,
    data_io: Io,
    log_io: Io,
    /// The volumes that the propagation has beside the data.
    other_ios: Vec<Io>,
    /// The raw flash beside the data.
    chips: Vec<FlashIo>,
    /// What the media beside the data say of themselves.
    owners: Owners,
    active: Option<Transaction>,
    /// Transactions that were set aside, while another is active.
    parked: BTreeMap<u64, Transaction>,
    undos: KeptUndos,
    versions: Arc<Versions>,
    next_transaction: u64,
    /// The record that began the last complete checkpoint.
    last_checkpoint: Lsn,
    /// One that has begun and is not complete.
    begun_checkpoint: Option<checkpoint::Begun>,
    /// Pages older than this go into the log as a whole when they change.
    image_threshold: Lsn,
    /// Room that files have on the volume.
    file_bytes: BTreeMap<FileId, u64>,
    /// Pages that were made and have no place yet, where they get one when they are written.
    unplaced: room::Unplaced,
    /// Which files there are, and the first record of the log that may speak of each: older ones are of
    /// a file that had the number before.
    records_from: BTreeMap<FileId, Lsn>,
    tracks_changes: bool,
    is_read_only: bool,
    poison: Option<String>,
    scratch: ActionScratch,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pool, log, active, .. } = self;
        write!(formatter, "Engine({pool:?}, {log:?}, active {active:?})")
    }
}

impl Engine {
    /// Makes an empty database on volumes without one. `identity` tells databases apart, so that a
    /// log or a medium is never taken for that of another.
    ///
    /// # Errors
    /// If there is one already, a medium beside the data is of one, a setting makes no sense, or the device has no room or fails.
    pub fn create(
        volumes: Volumes,
        settings: &Settings,
        identity: u64,
    ) -> Result<Self, StorageError> {
        let settings = &settings.clone().without_idle_parts();
        let Shared { data_io, log_io, media } = share(volumes);
        settings.check_on(data_io.sector_bytes())?;
        if settings::find(&data_io)?.is_some() {
            let what = format!("a database in {}", data_io.name());
            return Err(StorageError::Exists { what });
        }
        media.check(settings.propagation.kind)?;
        let mut owners = Owners::find(&media)?;
        owners.check_free()?;
        remove_all_files(&data_io)?;
        if let Some(stale) = find_file(&log_io, LOG_FILE) {
            log_io.remove(stale)?;
        }
        let log_file = create_file(&log_io, LOG_FILE)?;
        let config = settings.log_config();
        let log =
            LogFile::create(log_io.clone(), log_file, &config, settings.page_bytes, identity)?;
        log_io.sync(log_file)?;
        owners.say_making(identity, log.control().epoch())?;
        let double_write = match settings.torn_pages {
            TornPages::DoubleWrite => {
                let file = create_file(&data_io, DOUBLE_WRITE_FILE)?;
                Some(settings.double_write(file, &data_io, log.control().epoch())?)
            }
            TornPages::LogImages | TornPages::Trust => None,
        };
        let config = settings.propagation.config();
        let other_ios = media.other_volumes().cloned().collect();
        let chips = media.all_raw_flash().cloned().collect();
        let (placement, _) = config.build(settings.page_bytes, media, double_write, true)?;
        let mut engine = Self::assemble(settings, data_io, log_io, log, placement)?;
        (engine.other_ios, engine.chips) = (other_ios, chips);
        engine.begin_run(Lsn(0));
        engine.checkpoint()?;
        let log_apart = (!engine.log_io.is_same(&engine.data_io)).then_some(identity);
        settings::store(&engine.data_io, settings, log_apart)?;
        engine.log.set_writing(settings.log_writing)?;
        owners.say_made()?;
        engine.owners = owners;
        Ok(engine)
    }

    /// Opens a database, and restarts it if it was not closed. Of `settings`, what was fixed at its
    /// creation is replaced by what it is. On volumes that are read-only it can be read, if it was
    /// closed.
    ///
    /// # Errors
    /// If there is none, it is damaged, a medium beside the data is of another database or moment, or
    /// the device fails; [`StorageError::NeedsRestart`] on read-only volumes.
    pub fn open(
        volumes: Volumes,
        settings: &Settings,
    ) -> Result<(Self, RestartReport), StorageError> {
        let Shared { data_io, log_io, media } = share(volumes);
        let other_ios: Vec<Io> = media.other_volumes().cloned().collect();
        let chips = media.all_raw_flash().cloned().collect();
        let found = expect_settings(&data_io)?;
        let (settings, log_apart) = (&found.settings.with(settings), found.log_apart);
        settings.check_on(data_io.sector_bytes())?;
        media.check(settings.propagation.kind)?;
        let mut owners = Owners::find(&media)?;
        let log_file = expect_log(&data_io, &log_io, log_apart)?;
        let mut report = RestartReport::default();
        let clock = restart::Stopwatch::start(&data_io, &log_io);
        let mut log_file = LogFile::open(log_io.clone(), log_file)?;
        let control = *log_file.control();
        check_log(&data_io, &log_io, log_apart, &control)?;
        owners.check(&control)?;
        let all_ios = || [&data_io, &log_io].into_iter().chain(&other_ios);
        check_moment(all_ios(), &mut log_file)?;
        let analysis = restart::analyse(&log_file, settings.torn_pages, &mut report)?;
        let reader = log_file.scan(analysis.redo_from)?;
        let read_only = all_ios().any(Io::is_read_only);
        if read_only && !control.is_clean {
            return Err(StorageError::NeedsRestart { place: name_of(&data_io) });
        }
        let log = match read_only {
            true => log_file.rest(analysis.end, &settings.log_config()),
            false => {
                owners.say_next(control.epoch(), log_file.next_run(analysis.end))?;
                let log = log_file.resume(analysis.end, &settings.log_config())?;
                owners.say_begun()?;
                log
            }
        };
        if !control.is_clean && !read_only && !is_planted(EngineBug::FoundUnsynced) {
            // Redo passes over changes that a page has, so the page must not be lost any more.
            all_ios().try_for_each(Io::sync_found)?;
        }
        clock.charge(&mut report.log_scan);
        report.was_closed = control.is_clean;
        let clock = restart::Stopwatch::start(&data_io, &log_io);
        let epoch = log.control().epoch();
        let double_write = match read_only {
            // Nothing is written, and nothing that was closed is torn.
            true => None,
            false => find_double_write(&data_io, settings, epoch, control.is_clean)?,
        };
        let config = settings.propagation.config();
        let (placement, restored_count) =
            config.build(settings.page_bytes, media, double_write, control.is_clean)?;
        report.repaired_page_count = u64::from(restored_count);
        clock.charge(&mut report.page_reads);
        check_written(placement.get(), control.written.max(analysis.written), settings)?;
        let mut engine = Self::assemble(settings, data_io, log_io, log, placement)?;
        (engine.other_ios, engine.chips, engine.owners) = (other_ios, chips, owners);
        engine.begin_run(analysis.end.lsn);
        engine.is_read_only = read_only;
        engine.last_checkpoint = control.checkpoint;
        if settings.torn_pages == TornPages::LogImages {
            engine.image_threshold = control.checkpoint;
        }
        engine.next_transaction = analysis.last_transaction + 1;
        if !read_only {
            engine.forget_removed_files()?;
        }
        if !control.is_clean {
            engine.restart(reader, &analysis, &mut report)?;
        }
        // Not before: what losers have reserved to be taken back does not reckon with padding.
        engine.log.set_writing(settings.log_writing)?;
        Ok((engine, report))
    }

    /// Pages are changed by this run of the log from now on; what earlier ones logged ends at `end`.
    fn begin_run(&mut self, end: Lsn) {
        let epoch = self.log.control().epoch();
        self.pool.set_run(LogRun { epoch, started_at: end });
    }

    fn assemble(
        settings: &Settings,
        data_io: Io,
        log_io: Io,
        log: SharedLog,
        placement: Placement,
    ) -> Result<Self, StorageError> {
        let config = PoolConfig {
            page_bytes: settings.page_bytes,
            frame_count: settings.frame_count(),
            replacement: settings.replacement,
        };
        let rule = Box::new(LogBeforePage(log.clone()));
        let tracks_changes = placement.uses_changes();
        let mut pool = Pool::new(config, placement, rule)?;
        let mut file_bytes = BTreeMap::new();
        let mut records_from = BTreeMap::new();
        {
            let io = &data_io;
            let volume = &io;
            for (file, name) in volume.files() {
                file_bytes.insert(file, volume.byte_count(file));
                records_from.insert(file, volume.records_from(file));
                pool.name_file(file, &name, Checksum::Trailer);
            }
        }
        Ok(Self {
            settings: settings.clone(),
            pool,
            log,
            data_io,
            log_io,
            other_ios: Vec::new(),
            chips: Vec::new(),
            owners: Owners::default(),
            active: None,
            parked: BTreeMap::new(),
            undos: KeptUndos::default(),
            versions: Arc::new(Versions::new(settings.version_bytes)),
            next_transaction: 1,
            last_checkpoint: Lsn(0),
            begun_checkpoint: None,
            image_threshold: Lsn(0),
            file_bytes,
            unplaced: room::Unplaced::default(),
            records_from,
            tracks_changes,
            is_read_only: false,
            poison: None,
            scratch: ActionScratch::default(),
        })
    }

    /// Makes everything durable and closes the database, so that opening it finds nothing to do. An
    /// active transaction is rolled back.
    ///
    /// # Errors
    /// If the device fails; the next opening restarts then.
    pub fn close(mut self) -> Result<(), StorageError> {
        if self.is_read_only {
            return Ok(());
        }
        loop {
            if self.active.is_some() {
                self.rollback()?;
            }
            let Some((&parked, _)) = self.parked.first_key_value() else { break };
            self.resume(parked);
        }
        self.checkpoint_fully()?;
        self.owners.say_closed()?;
        self.log.close()?;
        let run = self.log.control().epoch();
        self.all_ios().for_each(|io| io.note_closed(run));
        Ok(())
    }

    /// Whether the volumes allow no change; then there are no transactions.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The log, for those who wait for a commit without holding the engine.
    #[must_use]
    pub fn log(&self) -> SharedLog {
        self.log.clone()
    }

    /// What the pool has done.
    #[must_use]
    pub fn pool_counters(&self) -> PoolCounters {
        self.pool.counters()
    }

    /// What the devices have done: that of the pages, and that of the log if it has its own. What was done
    /// to raw flash beside the pages is in the former's.
    #[must_use]
    pub fn device_counters(&self) -> (Counters, Option<Counters>) {
        let mut data = self.data_io.counters();
        self.chips.iter().for_each(|chips| chips.add_to(&mut data));
        (data, self.log_is_apart().then(|| self.log_io.counters()))
    }

    /// The present, on the devices' clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.data_io.present()
    }

    /// The memory of the pool is for the caller's use meanwhile: see [`Pool::grant`].
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The volume of the pages, for operators that read tables in larger pieces and keep files of
    /// their own there. They remove those files; what a crash leaves goes at the next opening.
    #[must_use]
    pub fn data_io(&self) -> Io {
        self.data_io.clone()
    }

    /// Frames of the pool as the memory of an operator.
    ///
    /// # Errors
    /// As [`Pool::grant`].
    pub fn grant(&self, frame_count: u32) -> Result<Grant, StorageError> {
        self.pool.grant(frame_count)
    }

    /// Brings the changed pages of a file to the volume, so that whoever reads there sees them. True
    /// if page n lies at (n - 1) · page bytes of the file then, until something changes.
    ///
    /// # Errors
    /// If the log or the device fails.
    pub fn settle(&self, file: FileId) -> Result<bool, StorageError> {
        if !self.pool.place_answers().lets_read_past_pool {
            return Ok(false);
        }
        self.pool.write_back(&WriteBack { file: Some(file), ..WriteBack::default() })?;
        Ok(true)
    }

    /// Empties the pool, so that what comes next is read from the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn drop_cached_pages(&mut self) -> Result<(), StorageError> {
        self.check_usable()?;
        self.pool.drop_all()
    }

    /// Has `watch` told of what passes between pool and propagation from now on, or nobody: see
    /// [`Pool::set_watch`].
    ///
    /// # Errors
    /// As there.
    pub fn watch_pages(&mut self, watch: Option<Arc<dyn PageWatch>>) -> Result<(), StorageError> {
        self.check_usable()?;
        self.pool.set_watch(watch)
    }

    /// All files of pages by their numbers, with how many pages each has by its length: what it has room
    /// for, or 0 where its length says nothing of it.
    #[must_use]
    pub fn files_with_pages(&self) -> Vec<(FileId, String, u64)> {
        let with_pages = |(file, name)| (file, name, self.pages_by_length(file).unwrap_or(0));
        self.files().into_iter().map(with_pages).collect()
    }

    /// All files of pages by name.
    #[must_use]
    pub fn files(&self) -> Vec<(FileId, String)> {
        let mut files = self.data_io.files();
        files.retain(|(_, name)| !is_own_file(name));
        files
    }

    /// Bytes that a file takes on the volume; of segments, those of its pages that were written, as
    /// they are stored.
    #[must_use]
    pub fn file_bytes(&self, file: FileId) -> u64 {
        let length = || self.file_bytes.get(&file).copied().unwrap_or(0);
        self.pool.stored_bytes(file).unwrap_or_else(length)
    }

    /// How many pages a file has by its length; `None` where that says nothing of it.
    pub(crate) fn pages_by_length(&self, file: FileId) -> Option<u64> {
        let counts_pages = self.pool.place_answers().counts_pages_by_length;
        let page_bytes = u64::from(self.settings.page_bytes);
        counts_pages.then(|| self.data_io.byte_count(file) / page_bytes)
    }

    /// The first record of the log that may speak of a file: see [`crate::Volume::records_from`].
    /// `None` if there is no such file.
    pub(crate) fn records_from(&self, file: FileId) -> Option<Lsn> {
        self.records_from.get(&file).copied()
    }

    /// Makes an empty file, durably. Not part of a transaction: whoever rolls back, or finds after a
    /// restart that nothing refers to the file, removes it.
    ///
    /// # Errors
    /// If there is one of that name, or some propagation or the engine calls its own files so; or the
    /// device has no room or fails.
    pub fn create_file(&mut self, name: &str) -> Result<FileId, StorageError> {
        self.check_writable()?;
        if is_own_file(name) {
            let what = format!("{name} is a name that only the engine uses for a file");
            return Err(StorageError::InvalidSetting { what });
        }
        // So that whatever the log says of a file that had the number before lies behind this point, and
        // each later run of the log goes on past it.
        self.log.flush()?;
        let records_from = self.log.durable_lsn();
        let file = {
            let io = &self.data_io;
            let file = io.create_logged(name, records_from)?;
            io.sync(file)?;
            file
        };
        self.records_from.insert(file, records_from);
        self.pool.name_file(file, name, Checksum::Trailer);
        self.file_bytes.insert(file, 0);
        Ok(file)
    }

    /// Says that all is there that the volumes were made for: see [`crate::Volume::finish_making`].
    ///
    /// # Errors
    /// If a device fails.
    pub fn finish_making(&mut self) -> Result<(), StorageError> {
        self.check_writable()?;
        self.log.flush()?;
        // The volume of the pages last: it is the one that makes the others worth something.
        self.all_ios().skip(1).try_for_each(Io::finish_making)?;
        self.data_io.finish_making()
    }

    /// Removes a file to which nothing durable refers any more.
    ///
    /// # Errors
    /// If the device fails.
    pub fn remove_file(&mut self, file: FileId) -> Result<(), StorageError> {
        self.check_writable()?;
        self.pool.discard_file(file);
        self.file_bytes.remove(&file);
        self.records_from.remove(&file);
        self.data_io.remove(file)?;
        // Only now: a restart that still finds the file may redo changes to its pages.
        self.pool.forget(file, 1)
    }

    /// As [`Self::remove_file`], of a file of whose pages a restart would read no record: one that was
    /// filled past the log, or any right after opening. Where there is no room to note that it goes, it
    /// gives its own back first.
    ///
    /// # Errors
    /// As there.
    pub fn remove_unlogged_file(&mut self, file: FileId) -> Result<(), StorageError> {
        match self.remove_file(file) {
            Err(StorageError::NoSpace { .. }) => {
                self.data_io.set_byte_count(file, 0)?;
                self.remove_file(file)
            }
            answer => answer,
        }
    }

    /// Pages of files that a crash removed before the propagation had forgotten them durably: other
    /// files may have their numbers next.
    fn forget_removed_files(&mut self) -> Result<(), StorageError> {
        for file in self.pool.stored_files() {
            if !self.records_from.contains_key(&file) {
                self.pool.forget(file, 1)?;
            }
        }
        Ok(())
    }

    /// Lends a page with its LSN to `look`.
    ///
    /// # Errors
    /// As [`ReadPages::read`].
    #[inline]
    pub(crate) fn read_with_lsn<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(Lsn, &[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.pool.read(address, |page| look(page_lsn(page), page_contents(page)))
    }

    /// The page with its trailer, held in place, if it is in the pool. Whoever holds it waits for nothing.
    #[inline]
    pub(crate) fn resident_page(&self, address: PageAddress) -> Option<ResidentPage<'_>> {
        self.pool.resident_page(address)
    }

    /// Plans to read a page that is not in the pool without holding the engine meanwhile: see
    /// [`Pool::plan_aside`].
    pub(crate) fn plan_aside(&self, address: PageAddress) -> Option<Plan> {
        self.pool.plan_aside(address)
    }

    /// As [`Self::plan_aside`], of a page that nobody wants yet: see [`Pool::plan_ahead`].
    pub(crate) fn plan_ahead(&self, address: PageAddress) -> Option<Plan> {
        self.pool.plan_ahead(address)
    }

    /// Refuses to read pages that can be read without the engine, until [`Self::take_missed`]: whoever wants one
    /// gets an error.
    pub(crate) fn refuse_misses(&mut self) {
        self.pool.refuse_misses();
    }

    /// Whether it does.
    pub(crate) fn refuses_misses(&self) -> bool {
        self.pool.refuses_misses()
    }

    /// Reads pages again, and tells which one was refused.
    pub(crate) fn take_missed(&mut self) -> Option<PageAddress> {
        self.pool.take_missed()
    }

    /// Plans to write dirty pages without holding the engine meanwhile: see [`Pool::plan_cleaning`].
    pub(crate) fn plan_cleaning(&self) -> Option<Cleaning> {
        self.check_usable().ok()?;
        self.pool.plan_cleaning()
    }

    /// Brings them home after they were written.
    pub(crate) fn land_cleaning(&self) {
        self.pool.land_cleaning();
    }

    /// Tells whether there are any.
    pub(crate) fn wants_cleaning(&self) -> WantsCleaning {
        self.pool.wants_cleaning()
    }

    /// What reads such a page.
    pub(crate) fn page_reader(&self) -> PageReader {
        self.pool.page_reader()
    }

    /// Lends a page that was read so to `look`.
    ///
    /// # Errors
    /// As [`ReadPages::read`].
    pub(crate) fn finish_aside<R>(
        &self,
        read: Read,
        look: impl FnOnce(Lsn, &[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.pool.finish_aside(read, |page| look(page_lsn(page), page_contents(page)))
    }

    /// As [`Self::read_with_lsn`], for several pages; see [`ReadPages::read_batch`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn read_batch_with_lsn(
        &self,
        addresses: &[PageAddress],
        mut look: impl FnMut(usize, Lsn, &[u8]),
    ) -> Result<(), StorageError> {
        self.pool.read_batch(addresses, |index, page| {
            look(index, page_lsn(page), page_contents(page));
        })
    }

    /// Earlier versions of pages.
    pub(crate) fn versions(&self) -> &Arc<Versions> {
        &self.versions
    }

    /// Asserts the numbered invariants of the pool, the log and the engine.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.pool.audit();
        self.log.audit();
        self.versions.audit();
        self.undos.audit(|transaction| {
            let mut open = self.open_transactions();
            open.find(|open| open.id == transaction).map(|open| open.undo_next)
        });
        let end = self.log.next_lsn();
        assert!(self.last_checkpoint < end, "a checkpoint is a record");
        let open = self.open_transactions();
        let reserved_bytes: u64 = open.map(|transaction| transaction.reserved_bytes).sum();
        let is_kept = reserved_bytes == self.log.reserved_bytes();
        assert!(is_kept || self.check_usable().is_err(), "each has what it reserved");
        let logs_images = self.settings.torn_pages == TornPages::LogImages;
        let threshold = self.image_threshold;
        assert!(!logs_images || threshold >= self.last_checkpoint, "the last begun is not older");
        for (address, first_change) in self.pool.dirty_pages() {
            assert!(first_change < end, "{address} was changed by a record that exists");
        }
    }

    /// Whether nothing failed that leaves the engine in the dark about what is there.
    ///
    /// # Errors
    /// With the cause, if something did.
    pub(crate) fn check_usable(&self) -> Result<(), StorageError> {
        if let Some(cause) = &self.poison {
            return Err(StorageError::Poisoned { cause: cause.clone() });
        }
        self.all_ios().try_for_each(Io::check)
    }

    fn check_writable(&self) -> Result<(), StorageError> {
        self.check_usable()?;
        match self.is_read_only {
            true => Err(StorageError::ReadOnly { place: name_of(&self.data_io) }),
            false => Ok(()),
        }
    }

    /// Stops the engine, which takes no change any more until it is opened again; gives the error back.
    pub(crate) fn poison<T>(&mut self, error: StorageError) -> Result<T, StorageError> {
        self.poison = Some(error.to_string());
        Err(error)
    }

    /// All volumes, each once: that of the data first.
    fn all_ios(&self) -> impl Iterator<Item = &Io> {
        let log = self.log_is_apart().then_some(&self.log_io);
        std::iter::once(&self.data_io).chain(log).chain(&self.other_ios)
    }

    fn log_is_apart(&self) -> bool {
        !self.data_io.is_same(&self.log_io)
    }
}

impl ReadPages for Engine {
    fn usable_bytes(&self) -> usize {
        self.settings.page_bytes as usize - TRAILER_BYTES
    }

    #[inline]
    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.pool.read(address, |page| look(page_contents(page)))
    }

    fn read_batch(
        &self,
        addresses: &[PageAddress],
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        self.pool.read_batch(addresses, |index, page| {
            look(index, page_contents(page));
        })
    }

    fn prefetch(&self, addresses: &[PageAddress]) {
        self.pool.prefetch(addresses);
    }
}

/// The write-ahead rule, by the log.
struct LogBeforePage(SharedLog);

impl WriteAheadRule for LogBeforePage {
    fn ensure_durable(&self, lsn: Lsn) -> Result<(), StorageError> {
        if is_planted(EngineBug::NoWriteAheadRule) {
            return Ok(());
        }
        self.0.make_durable(lsn)
    }
}
