//! The lives of a database under one scenario.
//!
//! ```text
//!   open (perhaps cut, then again) ─► compare, check, audit ─► transactions ─► cut │ failure │ close
//!     ▲                                                                                │
//!     └──────────────────── bits flip, where that is the fault ◄───────────────────────┘
//! ```
//!
//! 1. An error needs a reason: a fault that came in this life; bits that flipped before, and then it
//!    tells of damage; or a change for which there is no room by any measure (`room`).
//! 2. Damage that is told ends the history: what was damaged is for a copy to restore.

use crate::files_apart::{FilesApart, KernelMemory};
use crate::model::{self, HEAP, History, INDEX, KEYED, KeyValue, PASSING, State};
use crate::room::Room;
use crate::watched::{Watch, WatchedVolume};
use crate::world::chips::{self, WorldChips};
use crate::world::{self, WorldDevice};
use crate::{Bug, Outcome, Scenario, Violation, WorldKind};
use nandu_base::{FlashOperation, Nanos, Rng, to_index};
use nandu_device::DeviceError::Media;
use nandu_device::{Device, FaultPlan, RawFlash};
use nandu_storage::database::{
    Column, ColumnType, LoadOptions, NewTable, Row, RowOrder, TableKind, Tables, WriteTransaction,
};
use nandu_storage::log::Durability;
use nandu_storage::propagation::{MediumKind, OtherMedium};
use nandu_storage::sqlite::{Value, ValueRef};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, StorageError, Volume, Volumes};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most rows that are inserted at once, less one.
const BATCH_ROW_COUNT_MAX: u64 = 30;
/// So many transactions make pages enough dirty that one checkpoint fills a short lap of their copies.
const LAP_TRANSACTION_COUNT_MIN: u64 = 60;
/// Most rows of a load, and memory of its sorts: several runs.
const LOAD_ROW_COUNT_MAX: u64 = 400;
const LOAD_SORT_BYTES: u64 = 4 << 10;
/// Files that a load makes: runs of rows of up to a hundred bytes, and half as many where those of an index
/// are sorted, too.
const LOAD_FILE_COUNT: u64 = 3 * LOAD_ROW_COUNT_MAX * 100 / LOAD_SORT_BYTES;

/// Runs the history of a seed.
///
/// # Errors
/// The first promise that is broken; a panic is one.
pub fn run_seed(seed: u64, world: WorldKind, bug: Bug) -> Result<Outcome, Violation> {
    run_scenario(&Scenario::of_seed(seed, world, bug))
}

/// Runs a history with one client.
pub(crate) fn run_scenario(scenario: &Scenario) -> Result<Outcome, Violation> {
    guarded(scenario.seed, || {
        let _planted = scenario.plant()?;
        Simulation::new(scenario).run()
    })
}

/// Why a history ends before its time.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A promise was broken.
    Broken(String),
    /// Flipped bits were told, as promised.
    Told,
}

impl From<String> for Stop {
    fn from(what: String) -> Self {
        Self::Broken(what)
    }
}

impl Stop {
    /// Says where it was.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            Self::Broken(what) => Self::Broken(format!("{place}: {what}")),
            Self::Told => Self::Told,
        }
    }
}

/// A panic is a violation.
pub(crate) fn guarded<T>(
    seed: u64,
    run: impl FnOnce() -> Result<T, String>,
) -> Result<T, Violation> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|what| Violation { seed, what }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(Violation { seed, what: format!("panicked: {text}") })
        }
    }
}

pub(crate) struct Simulation<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) rng: Rng,
    /// For what fails at openings, so that lives go on as they would without it.
    pub(crate) opening_rng: Rng,
    pub(crate) data: WorldDevice,
    pub(crate) log: Option<WorldDevice>,
    /// What the propagation has beside the data, by its names.
    others: Vec<(&'static str, WorldDevice)>,
    pub(crate) chips: Vec<(&'static str, WorldChips)>,
    /// What the kernel keeps of the files on each device, where they are synced one by one.
    kernel: Vec<KernelMemory>,
    pub(crate) blackout: Arc<AtomicBool>,
    history: History,
    pub(crate) outcome: Outcome,
    /// Requests that had failed when the last life was over.
    pub(crate) failed_before: u64,
    /// The power goes once so many promises more were made.
    pub(crate) promises_until_cut: Option<u64>,
    pub(crate) watch: Watch,
    /// Bits that flipped, and those of them that did while the log was open.
    pub(crate) flip_count: u64,
    pub(crate) flip_count_in_open_log: usize,
    pub(crate) room: Room,
}

/// How a life ended.
pub(crate) enum End {
    /// It was closed in order.
    Closed,
    /// The process ended by itself.
    Died,
    /// Something failed.
    Crashed,
}

impl<'s> Simulation<'s> {
    pub(crate) fn new(scenario: &'s Scenario) -> Self {
        let blackout = Arc::new(AtomicBool::new(false));
        let device =
            |bytes, sector_bytes| world::device(scenario, (bytes, sector_bytes), &blackout);
        let data = device(scenario.device_bytes, scenario.sector_bytes);
        let log_bytes = scenario.settings.log_bytes * 2 + (1 << 20);
        let log_sector_bytes = scenario.line_bytes.unwrap_or(scenario.sector_bytes);
        let log = scenario.log_apart.then(|| device(log_bytes, log_sector_bytes));
        let (mut others, mut chips) = (Vec::new(), Vec::new());
        for &(name, medium) in scenario.settings.propagation.kind.other_media() {
            match (medium, &scenario.chips) {
                (MediumKind::RawFlash, Some(laws)) => {
                    chips.push((name, chips::chips(laws, &blackout)));
                }
                _ => others.push((name, device(scenario.device_bytes, scenario.sector_bytes))),
            }
        }
        let kernel = (0..2 + others.len()).map(|_| KernelMemory::default()).collect();
        let rng = Rng::for_part(scenario.seed, "simulation");
        let opening_rng = Rng::for_part(scenario.seed, "failures of openings");
        let mut history = History::default();
        history.settle(State::default());
        Self {
            scenario,
            rng,
            opening_rng,
            data,
            log,
            others,
            chips,
            kernel,
            blackout,
            history,
            outcome: Outcome::default(),
            failed_before: 0,
            promises_until_cut: None,
            watch: Watch::default(),
            flip_count: 0,
            flip_count_in_open_log: 0,
            room: Room::of(scenario),
        }
    }

    fn run(mut self) -> Result<Outcome, String> {
        let ended = self.run_all_lives();
        self.outcome_of(ended)
    }

    /// What came of a history that ended so: damage that was told ends one, and breaks no promise.
    pub(crate) fn outcome_of(mut self, ended: Result<(), Stop>) -> Result<Outcome, String> {
        match ended {
            Ok(()) => Ok(self.sum_up()),
            Err(Stop::Told) => {
                self.outcome.told_count += 1;
                Ok(self.sum_up())
            }
            Err(Stop::Broken(what)) => Err(what),
        }
    }

    fn run_all_lives(&mut self) -> Result<(), Stop> {
        let mut database = self.create().map_err(|error| format!("creation failed: {error}"))?;
        for life in 1..=self.scenario.life_count {
            let when = format!("in life {life}");
            self.verify(&database).map_err(|stop| stop.at(&when))?;
            self.plan_fault(life);
            let end = self.live(&database).map_err(|stop| stop.at(&when))?;
            let end = self.end(database, end).map_err(|stop| stop.at(&when))?;
            self.flip_bits(&end);
            database = self.reopen(&end).map_err(|stop| stop.at(&format!("after life {life}")))?;
        }
        self.verify(&database).map_err(|stop| stop.at("at the end"))?;
        self.live_without_faults(database).map_err(|stop| stop.at("without faults"))
    }

    /// Ends a life as it was to end, or as a fault has it.
    pub(crate) fn end(&mut self, database: Database, end: End) -> Result<End, Stop> {
        if !matches!(end, End::Closed) {
            drop(database);
            return Ok(End::Crashed);
        }
        Ok(match self.accept("closing", database.close())? {
            Some(()) => {
                self.history.settle_last();
                End::Closed
            }
            None => End::Crashed,
        })
    }

    /// The database works again: one more life, a row that no measure refuses, closing, opening.
    fn live_without_faults(&mut self, database: Database) -> Result<(), Stop> {
        self.live(&database)?;
        self.verify(&database)?;
        if self.room.is_left() {
            let mut state = self.history.last().clone();
            let written = (|| {
                let mut writer = database.write()?;
                let key = self.keyed(0);
                writer.put(KEYED, &[key.as_ref(), ValueRef::Blob(b"again")])?;
                writer.commit()
            })();
            self.accept("a row of five bytes", written)?;
            state.keyed.insert(0, b"again".to_vec());
            self.history.add(state);
        }
        self.history.settle_last();
        self.verify(&database)?;
        self.end(database, End::Closed)?;
        self.restore()?;
        let database = self.open()?;
        self.verify(&database)
    }

    pub(crate) fn sum_up(mut self) -> Outcome {
        let trace = |device: &WorldDevice| device.lock().hash();
        self.outcome.trace = trace(&self.data) ^ self.log.as_ref().map_or(0, trace).rotate_left(1);
        for (number, (_, device)) in (2..).zip(&self.others) {
            self.outcome.trace ^= trace(device).rotate_left(number);
        }
        for (number, (_, chips)) in (20..).zip(&self.chips) {
            self.outcome.trace ^= chips.lock().hash().rotate_left(number);
        }
        self.outcome.request_count = self.request_count();
        let devices: Vec<WorldDevice> = self.devices().cloned().collect();
        for device in &devices {
            let failed = device.lock().ground().failed();
            self.outcome.failed_request_count += failed.request_count;
            self.outcome.failed_sync_count += failed.flush_count;
        }
        let of_devices = devices.iter().filter_map(|device| device.counters().flash);
        let of_chips = self.chips.iter().map(|(_, chips)| chips.counters());
        for flash in of_devices.chain(of_chips) {
            self.outcome.program_count += flash.commands.programmed_pages();
            self.outcome.erase_count += flash.commands.total(FlashOperation::Erase);
        }
        self.outcome
    }

    /// `None` where a fault of this life is the reason of an error.
    pub(crate) fn accept<T>(
        &self,
        what: &str,
        result: Result<T, StorageError>,
    ) -> Result<Option<T>, Stop> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.fault_came() => Ok(None),
            Err(error) => Err(self.judge(what, &error)),
        }
    }

    /// An error for which no fault of this life is the reason.
    pub(crate) fn judge(&self, what: &str, error: &StorageError) -> Stop {
        let tells_damage = matches!(
            error,
            StorageError::ChecksumMismatch { .. }
                | StorageError::Corrupt { .. }
                | StorageError::NotADatabase { .. }
        );
        let is_unreadable = matches!(error, StorageError::Device { error: Media { .. }, .. })
            && self.is_in_part_unreadable();
        match is_unreadable || (self.flip_count > 0 && tells_damage) {
            true => Stop::Told,
            false => Stop::Broken(format!("{what} failed without a fault: {error}")),
        }
    }

    fn fault_came(&self) -> bool {
        self.is_dark() || self.failed_count() > self.failed_before
    }

    /// Whether something that a check finds was to be expected.
    pub(crate) fn is_damage_told(&self) -> bool {
        self.flip_count > 0 || self.is_in_part_unreadable()
    }

    pub(crate) fn is_in_part_unreadable(&self) -> bool {
        self.devices().any(|device| device.lock().ground().unreadable_count() > 0)
    }

    /// All devices, that of the data first.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &WorldDevice> {
        let others = self.others.iter().map(|(_, device)| device);
        std::iter::once(&self.data).chain(&self.log).chain(others)
    }

    fn failed_count(&self) -> u64 {
        self.devices().map(|device| device.lock().ground().failed().request_count).sum()
    }

    fn volumes(&self, is_new: bool) -> Result<Volumes, StorageError> {
        let [of_data, of_log, of_others @ ..] = &self.kernel[..] else {
            unreachable!("each device has its kernel's memory")
        };
        let volume = |device: &WorldDevice, kernel: &KernelMemory| {
            let handle = Box::new(device.clone());
            let volume = match is_new {
                true => DeviceVolume::format(handle)?,
                false => DeviceVolume::open(handle)?,
            };
            let volume: Box<dyn Volume> = match self.scenario.files_apart {
                true => Box::new(FilesApart::new(volume, kernel.clone())?),
                false => Box::new(volume),
            };
            let watched = WatchedVolume::new(volume, device.clone(), self.watch.clone());
            Ok::<Box<dyn Volume>, StorageError>(Box::new(watched))
        };
        let log = self.log.as_ref().map(|log| volume(log, of_log)).transpose()?;
        let mut others = BTreeMap::new();
        for ((name, device), kernel) in self.others.iter().zip(of_others) {
            others.insert((*name).to_owned(), OtherMedium::Volume(volume(device, kernel)?));
        }
        for (name, chips) in &self.chips {
            let chips = OtherMedium::RawFlash(Box::new(chips.clone()));
            others.insert((*name).to_owned(), chips);
        }
        Ok(Volumes { data: volume(&self.data, of_data)?, log, others })
    }

    pub(crate) fn create(&mut self) -> Result<Database, StorageError> {
        let settings = &self.scenario.settings;
        let database = Database::create(self.volumes(true)?, settings, self.scenario.seed)?;
        let mut writer = database.write()?;
        match self.scenario.keyed_is_raw {
            true => writer.create_raw_table(KEYED)?,
            false => {
                writer.create_table(KEYED, columns(), TableKind::Clustered { key: vec![0] })?;
            }
        }
        if self.scenario.has_heap {
            writer.create_table(HEAP, columns(), TableKind::Heap)?;
            writer.create_index(HEAP, INDEX, &["key"])?;
        }
        if let Some(mapping) = self.scenario.document {
            let document = Some(self.store_document(&mut writer, mapping)?);
            self.history.settle(State { document, ..State::default() });
        }
        writer.commit()?;
        database.flush()?;
        // The tables are on their pages, whatever the log loses to bits that flip.
        database.checkpoint()?;
        database.checkpoint()?;
        Ok(database)
    }

    /// Opens what the last life left, after the power was restored; perhaps cuts it again meanwhile, or
    /// lets a request fail.
    pub(crate) fn reopen(&mut self, end: &End) -> Result<Database, Stop> {
        self.restore()?;
        if matches!(end, End::Crashed) {
            for _ in 0..self.rng.below(self.scenario.faults.cuts_at_restart_max + 1) {
                if !self.plan_cut_of_opening_of_chips() {
                    let at = self.request_count() + 1 + self.rng.below(200);
                    let plan = self.scenario.cut(&mut self.rng, at);
                    self.plan(plan);
                }
                self.try_to_open()?;
            }
        }
        if self.plan_failure_of_opening() {
            let is_open = self.try_to_open()?;
            self.outcome.failed_opening_count += u64::from(!is_open);
        }
        self.open_once_readable()
    }

    /// Opens it where something is planned, and leaves it. Whether it was open.
    fn try_to_open(&mut self) -> Result<bool, Stop> {
        let attempt =
            self.volumes(false).and_then(|both| Database::open(both, &self.scenario.settings));
        let is_open = self.accept("opening", attempt)?.is_some();
        self.restore()?;
        Ok(is_open)
    }

    /// Opens it, with nothing planned that could hinder that.
    pub(crate) fn open(&mut self) -> Result<Database, Stop> {
        let opened = self
            .volumes(false)
            .and_then(|volumes| Database::open(volumes, &self.scenario.settings));
        let (database, report) = opened.map_err(|error| self.judge("opening", &error))?;
        self.outcome.repaired_page_count += report.repaired_page_count;
        self.outcome.loser_count += report.loser_count;
        Ok(database)
    }

    /// Requests to the data device so far.
    pub(crate) fn request_count(&self) -> u64 {
        self.data.lock().request_count()
    }

    /// Plans faults of the data device.
    pub(crate) fn plan(&self, plan: FaultPlan) {
        self.data.lock().ground().set_plan(plan);
    }

    /// Cuts the power of the data device.
    pub(crate) fn cut_power_now(&self) {
        self.data.lock().ground().cut_power();
        self.blackout.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dark(&self) -> bool {
        self.blackout.load(Ordering::Relaxed)
    }

    /// Ends a blackout; what was in flight is over, and no fault is planned.
    pub(crate) fn restore(&mut self) -> Result<(), String> {
        self.watch.disarm();
        let is_dark = self.blackout.swap(false, Ordering::Relaxed);
        self.outcome.cut_count += u64::from(is_dark);
        for device in self.devices() {
            if is_dark {
                device.lock().ground().cut_power();
            } else {
                device.lock().ground().set_plan(FaultPlan::default());
            }
            device.forget_completions();
            let mut device = device.lock();
            device.ground().set_plan(FaultPlan::default());
            device.ground().power_on()?;
            device.audit();
        }
        for (_, chips) in &self.chips {
            if is_dark {
                chips.lock().cut_power(Nanos::ZERO);
            }
            chips.forget_completions();
            let mut chips = chips.lock();
            chips.restore();
            chips.audit();
        }
        if is_dark && self.scenario.files_apart {
            self.kernel.iter().for_each(|kernel| kernel.lose(&mut self.rng));
        }
        // What was forgotten ended in the dark.
        self.blackout.store(false, Ordering::Relaxed);
        self.failed_before = self.failed_count();
        self.promises_until_cut = None;
        Ok(())
    }

    /// Something was promised just now. True if the power goes for it.
    fn promise(&mut self) -> bool {
        let Some(left_count) = &mut self.promises_until_cut else { return false };
        *left_count -= 1;
        if *left_count > 0 {
            return false;
        }
        self.promises_until_cut = None;
        self.cut_power_now();
        true
    }

    /// Compares with the history, checks every page and reference, audits.
    pub(crate) fn verify(&mut self, database: &Database) -> Result<(), Stop> {
        let tables = database.read();
        let found = model::read_state(&tables, self.scenario)
            .map_err(|error| self.judge("reading it", &error))?;
        if !self.history.contains(&found, self.flip_count_in_open_log) {
            let (count, last) = (self.history.len(), self.history.last());
            return Err(Stop::Broken(format!(
                "its {} rows with keys and {} of the heap{} are those of none of the {count} commits \
                 that may be the last durable one; the latest had {} and {}{}",
                found.keyed.len(),
                found.heap.len(),
                found.told_document(),
                last.keyed.len(),
                last.heap.len(),
                last.told_document()
            )));
        }
        self.history.settle(found);
        self.flip_count_in_open_log = 0;
        self.check_document(&tables)?;
        self.check_soundness(&tables)
    }

    /// Checks every page and reference, audits.
    pub(crate) fn check_soundness(&self, tables: &Tables) -> Result<(), Stop> {
        let report = tables.check().map_err(|error| self.judge("the check", &error))?;
        if let Some(finding) = report.findings.first() {
            return Err(match self.is_damage_told() {
                true => Stop::Told,
                false => Stop::Broken(format!("the check found: {finding}")),
            });
        }
        tables.engine().audit();
        for device in self.devices() {
            device.lock().audit();
        }
        Ok(())
    }

    /// Transactions until one fails, or enough are done.
    pub(crate) fn live(&mut self, database: &Database) -> Result<End, Stop> {
        let count = self.rng.below(self.scenario.transaction_count_max + 1);
        let least = if self.watch.waits_for_lap() { LAP_TRANSACTION_COUNT_MIN } else { 0 };
        for _ in 0..count.max(least) {
            if !self.transact(database)? {
                self.outcome.error_count += 1;
                return Ok(End::Crashed);
            }
            if self.promise() {
                return Ok(End::Crashed);
            }
            let is_due = self.rng.below(if self.fault_came() { 2 } else { 25 }) == 0;
            if is_due && !self.take_checkpoint(database)? {
                return Ok(End::Crashed);
            }
        }
        // What waits for pages to be written shall not wait in vain.
        if self.watch.is_armed() && !self.take_checkpoint(database)? {
            return Ok(End::Crashed);
        }
        if self.rng.below(2) == 0 {
            return Ok(End::Closed);
        }
        // The process dies, with the power on. A kernel keeps what evictions wrote, and nobody synced.
        if self.scenario.files_apart && self.rng.below(4) > 0 {
            self.accept("an eviction of all pages", database.drop_cached_pages())?;
        }
        Ok(End::Died)
    }

    /// A checkpoint; half of the users try again, or go on, where it fails. False if the life ends here.
    fn take_checkpoint(&mut self, database: &Database) -> Result<bool, Stop> {
        loop {
            if self.accept("a checkpoint", database.checkpoint())?.is_some() {
                self.history.note_durable();
                return Ok(!self.promise());
            }
            match self.rng.below(4) {
                _ if self.is_dark() => return Ok(false),
                0 | 1 => return Ok(false),
                2 => return Ok(true),
                _ => {}
            }
        }
    }

    /// One transaction. False if something failed and the database has to be opened again.
    fn transact(&mut self, database: &Database) -> Result<bool, Stop> {
        let mut state = self.history.last().clone();
        let Some(mut writer) = self.accept("beginning", database.write())? else {
            return Ok(false);
        };
        self.room.begin();
        let change_count = 1 + self.rng.below(self.scenario.change_count_max);
        let mut savepoint = None;
        for _ in 0..change_count {
            if self.scenario.rolls_back && self.rng.below(8) == 0 {
                savepoint = Some((writer.savepoint(), state.clone()));
            }
            match self.change(&mut writer, &mut state) {
                Ok(true) => {}
                Ok(false) => {
                    return Err(Stop::Broken("a row is not what was written before".to_owned()));
                }
                // The whole transaction goes; the database stays usable, or says that it is not.
                Err(error) => {
                    if self.room.excuses(&error) {
                        self.outcome.refused_count += 1;
                    } else if !self.fault_came() {
                        return Err(self.judge("a change", &error));
                    }
                    return Ok(self.accept("a rollback", writer.rollback())?.is_some());
                }
            }
            if self.rng.below(12) == 0
                && let Some((savepoint, before)) = savepoint.take()
            {
                let taken_back = writer.rollback_to(savepoint);
                if self.accept("a rollback to a savepoint", taken_back)?.is_none() {
                    return Ok(false);
                }
                state = before;
            }
        }
        if self.scenario.rolls_back && self.rng.below(5) == 0 {
            return Ok(self.accept("a rollback", writer.rollback())?.is_some());
        }
        let committed = writer.commit();
        // What only adds to values is written here, and may find no room; then nothing of it happened.
        if committed.as_ref().is_err_and(|error| self.room.excuses(error)) {
            self.outcome.refused_count += 1;
            return Ok(true);
        }
        if self.accept("a commit", committed)?.is_none() {
            self.history.add(state);
            return Ok(false);
        }
        self.outcome.commit_count += 1;
        match self.scenario.settings.durability {
            Durability::EveryCommit => self.history.add_durable(state),
            Durability::Grouped { .. } | Durability::None => self.history.add(state),
        }
        Ok(true)
    }

    /// One change to a table and to the model. False if what was there was wrong.
    fn change(
        &mut self,
        writer: &mut WriteTransaction<'_>,
        state: &mut State,
    ) -> Result<bool, StorageError> {
        if self.scenario.changes_catalog && self.rng.below(15) == 0 {
            return self.change_catalog(writer, state).map(|()| true);
        }
        if self.scenario.document.is_some() && self.rng.below(2) == 0 {
            return self.change_document(writer, state);
        }
        let key = self.rng.below(self.scenario.key_count).cast_signed();
        let mut value = vec![0; to_index(self.rng.below(self.scenario.value_bytes_max + 1))];
        self.rng.fill(&mut value);
        self.room.ask(1, value.len());
        if self.scenario.has_heap && self.rng.below(2) == 0 {
            return self.change_heap(writer, state, key, value);
        }
        if self.rng.below(8) == 0 {
            return self.insert_neighbours(writer, state, key, value);
        }
        if self.rng.below(3) == 0 {
            let was_there = writer.delete_by_key(KEYED, &[self.keyed(key).as_ref()])?;
            return Ok(was_there == state.keyed.remove(&key).is_some());
        }
        let of_row = self.keyed(key);
        let was_there = writer.put(KEYED, &[of_row.as_ref(), ValueRef::Blob(&value)])?;
        Ok(was_there == state.keyed.insert(key, value).is_some())
    }

    /// A key as the table with a key has it, in the same order.
    fn keyed(&self, key: i64) -> Value {
        match self.scenario.keyed_is_raw {
            true => Value::Blob(key.to_be_bytes().into()),
            false => Value::Integer(key),
        }
    }

    /// Inserts rows that bug beside each other, all at once; none if one of them is there.
    fn insert_neighbours(
        &mut self,
        writer: &mut WriteTransaction<'_>,
        state: &mut State,
        key: i64,
        value: Vec<u8>,
    ) -> Result<bool, StorageError> {
        let keys = key..key + 1 + self.rng.below(BATCH_ROW_COUNT_MAX).cast_signed();
        self.room.ask(BATCH_ROW_COUNT_MAX, value.len());
        let row = |key| vec![self.keyed(key), Value::Blob(value.clone())];
        let rows: Vec<Row> = keys.clone().map(row).collect();
        let is_taken = state.keyed.range(keys.clone()).next().is_some();
        match writer.insert_all(KEYED, &rows) {
            Err(StorageError::Exists { .. }) => return Ok(is_taken),
            other => other?,
        }
        state.keyed.extend(keys.map(|key| (key, value.clone())));
        Ok(!is_taken)
    }

    /// The passing table goes if it is there, and comes if not, perhaps with rows.
    fn change_catalog(
        &mut self,
        writer: &mut WriteTransaction<'_>,
        state: &mut State,
    ) -> Result<(), StorageError> {
        if state.passing.is_some() {
            writer.drop_table(PASSING)?;
            state.passing = None;
        } else if self.scenario.loads_tables {
            self.room.ask(LOAD_ROW_COUNT_MAX, 100);
            self.room.ask_files(LOAD_FILE_COUNT);
            let loaded = self.load(writer);
            self.outcome.failed_load_count += u64::from(loaded.is_err());
            self.outcome.load_count += 1;
            state.passing = Some(loaded?);
        } else {
            writer.create_table(PASSING, columns(), TableKind::Heap)?;
            state.passing = Some(Vec::new());
        }
        Ok(())
    }

    /// Loads the passing table past the log, and gives its rows in their order.
    fn load(&mut self, writer: &mut WriteTransaction<'_>) -> Result<Vec<KeyValue>, StorageError> {
        let kind = match self.rng.below(3) {
            0 => TableKind::Clustered { key: vec![0] },
            1 => TableKind::Pax { span_pages: 4 },
            _ => TableKind::Heap,
        };
        let mut indexes = Vec::new();
        if kind == TableKind::Heap && self.rng.below(2) == 0 {
            indexes.push(("passing_by_key".to_owned(), vec!["key".to_owned()]));
        }
        let order = [RowOrder::Ascending, RowOrder::Sort][to_index(self.rng.below(2))];
        let mut rows: Vec<KeyValue> = Vec::new();
        for number in 0..self.rng.below(LOAD_ROW_COUNT_MAX).cast_signed() {
            let mut value = vec![0; to_index(self.rng.below(100))];
            self.rng.fill(&mut value);
            // Each key once; in an order of their own where they are sorted.
            let key = if order == RowOrder::Sort { number * 7919 % 4001 } else { number };
            rows.push((key, value));
        }
        let is_clustered = !kind.key_columns().is_empty();
        let table = NewTable { name: PASSING.to_owned(), columns: columns(), kind, indexes };
        let options = LoadOptions { order, sort_bytes: LOAD_SORT_BYTES, ..LoadOptions::default() };
        writer.load_table(&table, &options, |load| {
            rows.iter().try_for_each(|(key, value)| {
                load.push(&[ValueRef::Integer(*key), ValueRef::Blob(value)])
            })
        })?;
        if is_clustered {
            rows.sort();
        }
        Ok(rows)
    }

    fn change_heap(
        &mut self,
        writer: &mut WriteTransaction<'_>,
        state: &mut State,
        key: i64,
        value: Vec<u8>,
    ) -> Result<bool, StorageError> {
        let row = [ValueRef::Integer(key), ValueRef::Blob(&value)];
        let place = self.rng.below(state.heap.len().max(1) as u64);
        let existing = state.heap.keys().nth(to_index(place)).copied();
        match (self.rng.below(4), existing) {
            (0, Some(number)) => {
                writer.delete(HEAP, number)?;
                state.heap.remove(&number);
                Ok(true)
            }
            (1, Some(number)) => {
                let found = writer.get(HEAP, number, model::key_value)?;
                let is_right = found.as_ref() == state.heap.get(&number);
                writer.update(HEAP, number, &row)?;
                state.heap.insert(number, (key, value));
                Ok(is_right)
            }
            _ => {
                let number = writer.insert(HEAP, &row)?;
                Ok(state.heap.insert(number, (key, value)).is_none())
            }
        }
    }
}

fn columns() -> Vec<Column> {
    vec![Column::new("key", ColumnType::Integer), Column::new("value", ColumnType::Blob)]
}
