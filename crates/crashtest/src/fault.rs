//! What goes wrong in one life of a database, and when.
//!
//! 1. In one life one thing goes wrong: the power goes, or one request fails, or the device is full. So at
//!    one opening.
//! 2. Where bits flip, they do so between two lives, and nothing else goes wrong.
//! 3. Sectors that cannot be read keep what they hold. Once an opening was refused for some, they can be read.
//! 4. It is drawn where something was promised or relied upon, more often than anywhere.

use crate::life::{End, Simulation, Stop};
use crate::model;
use crate::watched::Place;
use crate::world::WorldDevice;
use nandu_base::to_index;
use nandu_device::{Device, Failure, FaultPlan, UnflushedFate};
use nandu_storage::Database;
use nandu_storage::engine::TornPages;
use nandu_storage::volume::DeviceVolume;

/// Requests within which a planned fault comes: early, later, late.
const FAULT_WITHIN_REQUESTS: [u64; 3] = [20, 120, 800];
/// The same of requests to raw flash.
const FAULT_WITHIN_REQUESTS_TO_CHIPS: [u64; 3] = [20, 200, 2000];
/// Requests to raw flash within which an opening is cut: it reads some flash pages of each segment before it
/// writes.
const REQUESTS_TO_CHIPS_OF_OPENING: [u64; 3] = [500, 2500, 6000];
/// Most bits that flip between two lives.
const FLIP_COUNT_MAX: u64 = model::KEPT_COUNT as u64;
/// Flushes within which one fails, promises within which the power goes, and writes to some kind of file.
const FAULT_WITHIN_FLUSHES: u64 = 30;
const FAULT_WITHIN_SYNCS: u64 = 4;
const CUT_WITHIN_PROMISES: u64 = 25;
const CUT_WITHIN_WRITES: [u64; 2] = [4, 20];
/// Requests of an opening, and flushes of them, one of which may fail.
const REQUESTS_OF_OPENING: u64 = 100;
const FLUSHES_OF_OPENING: u64 = 10;

impl Simulation<'_> {
    /// What goes wrong in this life, and when.
    pub(crate) fn plan_fault(&mut self, life: u64) {
        let faults = self.scenario.faults;
        if faults.failed_requests && (life.is_multiple_of(2) || !faults.power_cuts) {
            self.plan_failure();
        } else if faults.power_cuts {
            self.plan_power_cut();
        }
    }

    /// One request fails, a sync by preference, or the device is full from then on.
    fn plan_failure(&mut self) {
        let of_log = self.log.is_some() && self.rng.below(3) == 0;
        let log = self.log.as_ref().filter(|_| of_log);
        let mut device = log.unwrap_or(&self.data).lock();
        let within = FAULT_WITHIN_REQUESTS[to_index(self.rng.below(3))];
        let number = 1 + self.rng.below(within);
        let at = device.request_count() + number;
        let failure = match self.scenario.faults.lasting {
            true => Failure::DamagesForEver,
            false => Failure::Damages,
        };
        let plan = FaultPlan { failure, seed: self.rng.next_u64(), ..FaultPlan::default() };
        let plan = match self.rng.below(8) {
            0 => FaultPlan { full_from_request: Some(at), ..plan },
            1 | 2 => FaultPlan { fail_requests: vec![at], ..plan },
            3..=5 => {
                let number = 1 + self.rng.below(FAULT_WITHIN_SYNCS);
                self.watch.arm_sync(Place::any_synced(&mut self.rng), number, plan.clone());
                // Until it comes, the host keeps what it may lose then.
                FaultPlan { fail_flush: Some(u64::MAX), ..plan }
            }
            _ => {
                let ahead = 1 + self.rng.below(FAULT_WITHIN_FLUSHES);
                let fail_flush = Some(device.ground().submitted_flush_count() + ahead);
                FaultPlan { fail_flush, ..plan }
            }
        };
        device.ground().set_plan(plan);
    }

    /// Whether a request of the next opening is to fail, a sync by preference, or the device to be full
    /// from then on.
    pub(crate) fn plan_failure_of_opening(&mut self) -> bool {
        let faults = self.scenario.faults;
        let rng = &mut self.opening_rng;
        if !faults.failed_requests || rng.below(2) == 0 {
            return false;
        }
        let of_log = self.log.is_some() && rng.below(3) == 0;
        let log = self.log.as_ref().filter(|_| of_log);
        let mut device = log.unwrap_or(&self.data).lock();
        let at = device.request_count() + 1 + rng.below(REQUESTS_OF_OPENING);
        let plan =
            FaultPlan { failure: Failure::Damages, seed: rng.next_u64(), ..FaultPlan::default() };
        let plan = match rng.below(8) {
            0 => FaultPlan { full_from_request: Some(at), ..plan },
            1 | 2 => FaultPlan { fail_requests: vec![at], ..plan },
            _ => {
                let ahead = 1 + rng.below(FLUSHES_OF_OPENING);
                let fail_flush = Some(device.ground().submitted_flush_count() + ahead);
                FaultPlan { fail_flush, ..plan }
            }
        };
        device.ground().set_plan(plan);
        true
    }

    /// The power goes at some request, after some promise, or where the engine relies on an order.
    fn plan_power_cut(&mut self) {
        let devices: Vec<WorldDevice> = self.devices().cloned().collect();
        for device in devices {
            let plan = self.scenario.fate(&mut self.rng);
            device.lock().ground().set_plan(plan);
        }
        if self.plan_cut_of_chips(&FAULT_WITHIN_REQUESTS_TO_CHIPS) {
            return;
        }
        match self.rng.below(6) {
            0 => self.promises_until_cut = Some(1 + self.rng.below(CUT_WITHIN_PROMISES)),
            1..=4 => {
                let settings = &self.scenario.settings;
                let is_written_twice = settings.torn_pages == TornPages::DoubleWrite
                    && settings.propagation.kind.overwrites_pages();
                let place = Place::any(&mut self.rng, is_written_twice);
                // A lap seldom ends twice, and once its first copies are durable it is too late.
                let (within, delays) = match place {
                    Place::LapStart => (1, [0, 0, 0, 0, 1]),
                    _ => (CUT_WITHIN_WRITES[to_index(self.rng.below(2))], [0, 0, 1, 2, 4]),
                };
                let number = 1 + self.rng.below(within);
                let delay = delays[to_index(self.rng.below(5))];
                let mut plan = self.scenario.fate(&mut self.rng);
                if place == Place::LapStart {
                    plan.unflushed = UnflushedFate::Torn;
                }
                self.watch.arm(place, number, delay, plan);
            }
            _ => {
                let of_log = self.log.is_some() && self.rng.below(2) == 0;
                let device = self.log.as_ref().filter(|_| of_log).unwrap_or(&self.data);
                let within = FAULT_WITHIN_REQUESTS[to_index(self.rng.below(3))];
                let at = device.lock().request_count() + 1 + self.rng.below(within);
                let plan = self.scenario.cut(&mut self.rng, at);
                device.lock().ground().set_plan(plan);
            }
        }
    }

    /// Has the power go at a request to raw flash within one of so many, in half of the cases where there is
    /// some; false if it will not.
    fn plan_cut_of_chips(&mut self, within: &[u64]) -> bool {
        let Self { chips, rng, .. } = self;
        let chosen = chips.first().filter(|_| rng.below(2) == 0);
        if let Some((_, chips)) = chosen {
            let within = within[to_index(rng.below(within.len() as u64))];
            chips.lock().plan_cut(rng, within);
        }
        chosen.is_some()
    }

    /// The same while a database is opened.
    pub(crate) fn plan_cut_of_opening_of_chips(&mut self) -> bool {
        self.plan_cut_of_chips(&REQUESTS_TO_CHIPS_OF_OPENING)
    }

    /// Opens it. Who refuses that for sectors that cannot be read has to have lost nothing: they are made
    /// readable, and it is opened as if the first attempt had failed once.
    pub(crate) fn open_once_readable(&mut self) -> Result<Database, Stop> {
        match self.open() {
            Err(Stop::Told) if self.is_in_part_unreadable() => {}
            opened => return opened,
        }
        self.outcome.failed_opening_count += 1;
        self.devices().for_each(|device| device.lock().ground().make_readable());
        self.restore()?;
        self.open().map_err(|stop| stop.at("once all sectors could be read"))
    }

    /// Flips bits of what lies on the devices after a life. What was in flight is over by then.
    pub(crate) fn flip_bits(&mut self, end: &End) {
        if !self.scenario.faults.flipped_bits {
            return;
        }
        self.flip_count_in_open_log = 0;
        for _ in 0..=self.rng.below(FLIP_COUNT_MAX) {
            let device = match &self.log {
                Some(log) if self.rng.below(2) == 0 => log,
                _ => &self.data,
            };
            let first_sector = behind_table_of_files(device);
            let page_bytes = self.scenario.settings.page_bytes;
            if device.lock().flip_bit(&mut self.rng, first_sector, page_bytes) {
                self.flip_count += 1;
                self.flip_count_in_open_log += usize::from(matches!(end, End::Crashed));
            }
        }
        self.outcome.flip_count = self.flip_count;
    }
}

/// The table of files of a volume is left alone: damage to the newer of its two copies cannot be told
/// from one that was torn.
fn behind_table_of_files(device: &WorldDevice) -> u64 {
    let sector_bytes = u64::from(device.info().geometry.sector_bytes);
    DeviceVolume::table_bytes_on(device.info().geometry) / sector_bytes
}
