//! A solid-state drive: NAND chips under a translation layer, behind a controller and a link.
//!
//! ```text
//!  host ─► slot ─► controller ─┬─► read:  memory or ftl ─► nand ─► link ─► done
//!     (native queue depth)     └─► write: link ─► write buffer ─► done (write-back)
//!                                                     └─► ftl ─► nand ─► done (write-through)
//! ```
//!
//! Controller and links serve in the order in which work reaches them; since events come in order of
//! time, one number for each, until when it is busy, is exact. The chips are the event core of `nand`;
//! its events and those of the drive are handled in order of time, the chips' first.
//!
//! 1. The drive touches cells only through its translation layer.
//! 2. A sector is found, newest first, in an open unit, in line for a slot, else where the layer has it.
//! 3. At most `native_queue_depth` commands are worked on at once; of writes `native_write_depth`, where
//!    they have slots of their own.
//! 4. A completed flush leaves no open unit and no write that waits for its program.
//! 5. Where requests wait and nothing is in flight, rows that nobody fills are programmed, padded.

mod config;
mod energy;
mod flow;
mod inside;
mod power;
mod read_ahead;
mod reads;
#[cfg(test)]
mod tests;
mod write_buffer;
mod writes;

pub use config::SsdConfig;
pub use energy::{PowerStateConfig, SsdPowerConfig};

pub use inside::{Inside, LinkUse};

use crate::profile::{Drive, MakeConfig, MakeError, ProfileError, SimOptions};
use crate::raw_flash::NandFlash;
use energy::PowerAccount;
use nandu_base::{Lpn, Nanos, VirtualClock, to_index, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, EnergyParts, FlashUse,
    Geometry, Rejected, Request, TimeSource,
};
use nandu_ftl::{Ftl, FtlError};
use nandu_nand::NandArray;
use read_ahead::ReadAhead;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use write_buffer::{OpenUnit, WriteBuffer};

/// Most requests that the host may have in flight; the drive itself works on fewer.
const HOST_QUEUE_DEPTH: u32 = 1024;

impl MakeConfig for SsdConfig {
    fn check(&self, _sector_bytes: u32) -> Result<(), String> {
        self.validate().map_err(|error| error.to_string())
    }

    fn open(
        &self,
        name: &str,
        geometry: Geometry,
        options: SimOptions,
    ) -> Result<Drive, MakeError> {
        let drive = Ssd::new(name, geometry, self, options.keep_data, options.seed);
        drive.map(|drive| Box::new(drive) as Drive).map_err(MakeError::Parts)
    }

    fn has_arm(&self) -> Result<bool, ProfileError> {
        Ok(false)
    }

    fn needs_filling(&self) -> Result<bool, ProfileError> {
        Ok(true)
    }

    fn counts_flash(&self) -> bool {
        true
    }

    fn has_write_cache(&self) -> Option<bool> {
        Some(self.write_buffer_bytes > 0)
    }

    fn raw_flash(
        &self,
        name: &str,
        geometry: Geometry,
        options: SimOptions,
    ) -> Result<Option<NandFlash>, DeviceError> {
        self.validate()?;
        let nand = self.nand_config(geometry, true)?;
        NandFlash::new(name, nand, self.scheduling(), options.seed).map(Some)
    }
}

/// A simulated solid-state drive: see the module.
pub struct Ssd {
    info: DeviceInfo,
    config: SsdConfig,
    clock: VirtualClock,
    nand: NandArray,
    ftl: Box<dyn Ftl>,
    unit_bytes: u32,
    unit_count: u64,
    sectors_per_unit: u32,
    controller_free_at: Nanos,
    link_in_free_at: Nanos,
    link_out_free_at: Nanos,
    link_in_use: LinkUse,
    link_out_use: LinkUse,
    /// Commands that may begin, and those that wait for one to end, by [`Ssd::queue_of`].
    free_slots: [u32; 2],
    waiting: [VecDeque<(Nanos, Request)>; 2],
    active: Vec<Option<Active>>,
    free_places: Vec<u32>,
    /// What the drive itself does next: time, the sequence that settles ties, what.
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    event_sequence: u64,
    completions: CompletionQueue,
    buffer: WriteBuffer,
    read_ahead: ReadAhead,
    counters: Counters,
    controller_busy: Nanos,
    /// What the drive draws, where its profile says so.
    power: Option<Box<PowerAccount>>,
    power_is_on: bool,
}

/// What the drive does at some time, with the place of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The controller has taken the command.
    Decoded(u32),
    /// A write was held back for long enough.
    Held(u32),
    /// Everything that came before a trim or flush is over the link.
    Turn(u32),
    /// The unit of this number of a write is over the link.
    UnitArrived(u32, u32),
    /// A part of the request is done.
    PartDone(u32),
    /// The host is told.
    Told(u32),
}

/// A request that the controller works on.
struct Active {
    in_flight: InFlight,
    first_sector: u64,
    sector_count: u32,
    /// Parts that the request waits for.
    open_parts: u32,
    /// When the first unit of a read was in the controller.
    first_ready_at: Option<Nanos>,
    result: Result<(), DeviceError>,
}

/// A part of a request that lies in one mapping unit.
#[derive(Clone, Copy)]
struct UnitPart {
    lpn: Lpn,
    /// First sector inside the unit, and the one past the last.
    sectors: (u32, u32),
    /// Where the part starts in the request's buffer.
    buffer_offset: usize,
}

impl Ssd {
    /// A fresh drive called `name` of `geometry`. With `keep_data` it stores what is written;
    /// without, only times count and every read returns zeros. `seed` places bad erase blocks and
    /// drives random policies.
    ///
    /// # Errors
    /// If the parts do not fit together.
    pub fn new(
        name: &str,
        geometry: Geometry,
        config: &SsdConfig,
        keep_data: bool,
        seed: u64,
    ) -> Result<Self, DeviceError> {
        config.validate()?;
        let (mut nand, ftl) = config.build(geometry, keep_data, seed)?;
        nand.set_scheduling(config.scheduling());
        let unit_bytes = ftl.unit_bytes();
        if !unit_bytes.is_multiple_of(geometry.sector_bytes) {
            let what = format!(
                "mapping unit of {unit_bytes} bytes is no multiple of the {}-byte sector",
                geometry.sector_bytes
            );
            return Err(DeviceError::InvalidGeometry { what });
        }
        let info = DeviceInfo {
            name: name.into(),
            geometry,
            queue_depth_max: HOST_QUEUE_DEPTH,
            time_source: TimeSource::Virtual,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: !config.power_loss_protected,
            supports_trim: true,
        };
        Ok(Self {
            info,
            clock: VirtualClock::new(),
            unit_bytes,
            unit_count: ftl.unit_count(),
            sectors_per_unit: unit_bytes / geometry.sector_bytes,
            nand,
            ftl,
            controller_free_at: Nanos::ZERO,
            link_in_free_at: Nanos::ZERO,
            link_out_free_at: Nanos::ZERO,
            link_in_use: LinkUse::default(),
            link_out_use: LinkUse::default(),
            free_slots: config.slots(),
            waiting: Default::default(),
            active: Vec::new(),
            free_places: Vec::new(),
            events: BinaryHeap::new(),
            event_sequence: 0,
            completions: CompletionQueue::default(),
            buffer: Self::empty_buffer(config, unit_bytes),
            read_ahead: ReadAhead::default(),
            counters: Counters::default(),
            controller_busy: Nanos::ZERO,
            power: config.power.clone().map(PowerAccount::new).map(Box::new),
            power_is_on: true,
            config: config.clone(),
        })
    }

    fn empty_buffer(config: &SsdConfig, unit_bytes: u32) -> WriteBuffer {
        let slot_count = to_index(config.write_buffer_bytes / u64::from(unit_bytes));
        WriteBuffer::new(slot_count, config.open_unit_count as usize)
    }

    /// Maps every unit as if the whole drive had been written in order, without taking time: what a
    /// sequential fill leaves behind, for experiments that need a full drive at once.
    ///
    /// # Errors
    /// If the drive is not fresh.
    pub fn fill_at_once(&mut self) -> Result<(), DeviceError> {
        self.ftl.initialise_sequential(&mut self.nand).map_err(device_error)
    }

    /// Asserts the invariants of the drive and of everything below it.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.buffer.audit();
        if self.power_is_on {
            self.ftl.audit(&self.nand);
        }
        let mut slots = self.free_slots;
        for active in self.active.iter().flatten() {
            slots[self.queue_of(active.in_flight.operation)] += 1;
        }
        assert_eq!(slots, self.config.slots(), "invariant 3: slots are given back");
        for (queue, &free_slots) in self.waiting.iter().zip(&self.free_slots) {
            assert!(queue.is_empty() || free_slots == 0, "invariant 3: none is idle");
        }
        self.audit_power();
    }

    fn link_time(&self, bytes: u64) -> Nanos {
        Nanos::of_transfer(bytes, self.config.link_bytes_per_second)
    }

    fn link_to_host_time(&self, bytes: u64) -> Nanos {
        let speed = self.config.link_to_host_bytes_per_second;
        Nanos::of_transfer(bytes, speed.unwrap_or(self.config.link_bytes_per_second))
    }

    fn parts(
        &self,
        first_sector: u64,
        sector_count: u32,
    ) -> impl Iterator<Item = UnitPart> + use<> {
        let per_unit = u64::from(self.sectors_per_unit);
        let sector_bytes = u64::from(self.info.geometry.sector_bytes);
        let end = first_sector + u64::from(sector_count);
        (first_sector / per_unit..end.div_ceil(per_unit)).map(move |lpn| {
            let unit_start = lpn * per_unit;
            let from = first_sector.max(unit_start);
            let to = end.min(unit_start + per_unit);
            UnitPart {
                lpn: Lpn(lpn),
                sectors: (to_u32(from - unit_start), to_u32(to - unit_start)),
                buffer_offset: to_index((from - first_sector) * sector_bytes),
            }
        })
    }

    fn byte_range(&self, part: UnitPart) -> std::ops::Range<usize> {
        let sector_bytes = self.info.geometry.sector_bytes as usize;
        part.sectors.0 as usize * sector_bytes..part.sectors.1 as usize * sector_bytes
    }
}

impl Device for Ssd {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        let now = self.clock.advance_to(now);
        if !self.power_is_on {
            self.refuse_without_power(now, request);
            return Ok(());
        }
        self.pass_to(now);
        // Commands that ended by now cannot be undone by a later power cut, so their records for
        // that are dropped.
        self.nand.settle(now);
        self.accept(request);
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        while self.completions.is_empty() && self.has_requests() {
            if !self.step_by(until) {
                return None;
            }
        }
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        let active = self.active.len() - self.free_places.len();
        self.completions.len()
            + to_u32((active + self.waiting.iter().map(VecDeque::len).sum::<usize>()) as u64)
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert_eq!(self.in_flight(), 0, "nothing may be in flight while idle");
        if time > self.clock.now() && self.power_is_on {
            self.pass_to(time);
        }
        self.clock.advance_to(time)
    }

    fn counters(&self) -> Counters {
        let mut commands = *self.nand.counters();
        (commands.host_read_pages, commands.host_write_pages) = self.ftl.host_pages();
        Counters {
            busy: self.controller_busy + self.nand.busy(),
            energy: self.energy_by(Nanos::ZERO),
            flash: Some(FlashUse { commands, wear: self.nand.wear() }),
            ..self.counters
        }
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        let power = self.power.as_ref()?;
        let now = time.max(self.clock.now());
        let works_until = match now > self.clock.now() && power.is_active() {
            true => self.works_until(now),
            false => now,
        };
        Some(power.parts(now, works_until, &self.nand.chip_energy()))
    }
}

/// One bit for each sector from the first to before the last.
fn sector_mask((from, to): (u32, u32)) -> u128 {
    let below = |sector: u32| if sector >= 128 { u128::MAX } else { (1_u128 << sector) - 1 };
    below(to) & !below(from)
}

/// Copies the sectors that `unit` has over `target`, which starts at `first_sector` of the unit.
fn overlay(unit: &OpenUnit, first_sector: u32, sector_bytes: usize, target: &mut [u8]) {
    for (sector, bytes) in (first_sector..).zip(target.chunks_mut(sector_bytes)) {
        if unit.present & sector_mask((sector, sector + 1)) == 0 {
            continue;
        }
        match &unit.content {
            Some(content) => {
                let start = sector as usize * sector_bytes;
                bytes.copy_from_slice(&content[start..start + sector_bytes]);
            }
            None => bytes.fill(0),
        }
    }
}

fn device_error(error: FtlError) -> DeviceError {
    match error {
        FtlError::DeviceFull => DeviceError::NoSpace,
        other => DeviceError::Internal { what: other.to_string() },
    }
}
