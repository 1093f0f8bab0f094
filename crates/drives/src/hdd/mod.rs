//! A simulated hard disk: data in a sparse store, times from an engine.
//!
//! ```text
//!   HardDisk ─► SectorStore          what is stored (effects apply at submission)
//!        └────► Engine ◄── simple    S004 3.1: average seek + half a rotation + b / F
//!                      ◄── detailed  seek curve, platter angle, zones, read-ahead, write-back, NCQ
//! ```
//!
//! A scaled-down disk has fewer cylinders under the same seek curve, so a random access over all of
//! it takes as long as over the whole drive. To use a part of a drive, restrict the addresses.
//!
//! 1. Every command given to the engine has its request in flight, and ends once.
//! 2. Effects apply at submission; two requests in flight on the same sectors act in that order.
//! 3. The host's block layer holds back what the drive's own queue cannot see.
//! 4. Platters that stand still (`standby`) have every request wait until they run, also one that the
//!    cache could answer: the drive wakes as a whole.

mod config;
mod detailed;
mod engine;
mod read_cache;
mod seek;
mod simple;
mod standby;
mod surface;
mod write_cache;

#[cfg(test)]
mod tests;

pub use config::{
    HddCacheConfig, HddConfig, HddModel, HddPowerConfig, HddStandbyConfig, MechanicsConfig,
    SeekShape,
};

use crate::profile::{Drive, MakeConfig, MakeError, ProfileError, SimOptions};
use engine::{Command, Engine};
use nandu_base::{Nanos, Picojoules, SectorIndex, VirtualClock};
use nandu_device::energy::drawn;
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, EnergyParts, Geometry, Inspect,
    Operation, Rejected, Request, SectorStore, TimeSource,
};
use standby::Standby;
use std::collections::BTreeMap;

/// Requests that may be in flight: the drive's queue and the host's behind it.
const HOST_QUEUE_DEPTH: u32 = 256;

/// A simulated hard disk.
#[derive(Debug)]
pub struct HardDisk {
    info: DeviceInfo,
    power: Option<HddPowerConfig>,
    standby: Option<Standby>,
    clock: VirtualClock,
    store: Option<SectorStore>,
    engine: Box<dyn Engine>,
    in_flight: BTreeMap<u64, InFlight>,
    accepted_count: u64,
    counters: Counters,
}

impl MakeConfig for HddConfig {
    fn check(&self, _sector_bytes: u32) -> Result<(), String> {
        Self::check(self)
    }

    fn open(
        &self,
        name: &str,
        geometry: Geometry,
        options: SimOptions,
    ) -> Result<Drive, MakeError> {
        let disk = HardDisk::new(name, self, geometry, options.keep_data);
        disk.map(|disk| Box::new(disk) as Drive).map_err(MakeError::Parts)
    }

    fn has_arm(&self) -> Result<bool, ProfileError> {
        Ok(true)
    }

    fn needs_filling(&self) -> Result<bool, ProfileError> {
        Ok(false)
    }

    fn has_write_cache(&self) -> Option<bool> {
        None
    }
}

impl HardDisk {
    /// A disk of zeros. Without `keep_data` every read returns zeros.
    ///
    /// # Errors
    /// If `config` breaks one of its ranges or leaves no sector on a track.
    pub fn new(
        name: &str,
        config: &HddConfig,
        geometry: Geometry,
        keep_data: bool,
    ) -> Result<Self, DeviceError> {
        let invalid = |what| DeviceError::InvalidGeometry { what };
        config.check().map_err(invalid)?;
        let engine: Box<dyn Engine> = match config.model {
            HddModel::Simple => {
                Box::new(simple::SimpleEngine::new(config.clone(), geometry.sector_bytes))
            }
            HddModel::Detailed => {
                Box::new(detailed::DetailedEngine::new(config, geometry).map_err(invalid)?)
            }
        };
        let writes_back = config.cache.as_ref().is_some_and(|cache| cache.write_cache_bytes > 0);
        let info = DeviceInfo {
            name: name.into(),
            geometry,
            queue_depth_max: HOST_QUEUE_DEPTH,
            time_source: TimeSource::Virtual,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: config.model == HddModel::Detailed && writes_back,
            supports_trim: false,
        };
        Ok(Self {
            info,
            power: config.power,
            standby: config.power.and_then(|power| power.standby).map(Standby::new),
            clock: VirtualClock::new(),
            store: keep_data.then(|| SectorStore::new(geometry.sector_bytes)),
            engine,
            in_flight: BTreeMap::new(),
            accepted_count: 0,
            counters: Counters::default(),
        })
    }

    /// Asserts the invariants of the disk and its engine.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.engine.audit();
        assert!(self.in_flight() <= self.info.queue_depth_max);
        let newest = self.in_flight.last_key_value().map_or(0, |(tag, _)| *tag);
        assert!(newest <= self.accepted_count, "invariant 1: only accepted commands are in flight");
    }

    /// When the platters run for a request at `now`.
    fn wake(&mut self, now: Nanos) -> Nanos {
        let Some(standby) = &mut self.standby else { return now };
        if self.in_flight.is_empty() {
            self.engine.advance(now);
        }
        let rests_since = self.engine.rests_since().filter(|_| self.in_flight.is_empty());
        standby.wake(now, rests_since)
    }

    fn energy(&self, power: &HddPowerConfig, now: Nanos) -> EnergyParts {
        // What waits in memory to be destaged is so by then.
        let ahead = if now > self.clock.now() { self.engine.ahead_to(now) } else { None };
        let engine = ahead.as_ref().unwrap_or(&self.engine);
        let (work, rests_since) = (engine.work_by(now), engine.rests_since());
        let (stood, spun_up) =
            self.standby.as_ref().map_or_else(Default::default, |by| by.times(now, rests_since));
        let above_idle = |milliwatts: u64, time| drawn(milliwatts - power.idle_milliwatts, time);
        let of_standby = |milliwatts: fn(&HddStandbyConfig) -> u64, time| {
            power.standby.map_or(Picojoules::ZERO, |standby| drawn(milliwatts(&standby), time))
        };
        EnergyParts {
            idle: drawn(power.idle_milliwatts, now - stood - spun_up),
            seek: above_idle(power.seek_milliwatts, work.seek),
            transfer: above_idle(power.transfer_milliwatts, work.transfer),
            spin_up: of_standby(|standby| standby.spin_up_milliwatts, spun_up),
            standby: of_standby(|standby| standby.standby_milliwatts, stood),
            ..EnergyParts::default()
        }
    }

    fn apply(&mut self, request: &mut Request) {
        match (request.operation, &mut request.buffer, &mut self.store) {
            (Operation::Read, Some(buffer), Some(store)) => {
                store.read(request.first_sector, buffer);
            }
            (Operation::Read, Some(buffer), None) => buffer.fill(0),
            (Operation::Write, Some(buffer), Some(store)) => {
                store.write(request.first_sector, buffer);
            }
            (Operation::Write, None, Some(store)) => {
                store.clear(request.first_sector, u64::from(request.sector_count));
            }
            _ => {}
        }
    }
}

impl Device for HardDisk {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn submit(&mut self, now: Nanos, mut request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        let issued_at = self.clock.advance_to(now);
        self.apply(&mut request);
        let ready_at = self.wake(issued_at);
        self.accepted_count += 1;
        let tag = self.accepted_count;
        let bytes = self.info.geometry.bytes_of(request.sector_count);
        self.counters.count(request.operation, bytes, true);
        self.engine.accept(Command {
            tag,
            operation: request.operation,
            first: request.first_sector.0,
            count: u64::from(request.sector_count),
            issued_at: ready_at,
        });
        self.in_flight.insert(tag, InFlight::of(request, issued_at));
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        if self.in_flight.is_empty() {
            return None;
        }
        let done = self.engine.next_done(until)?;
        self.clock.advance_to(done.at);
        let request = self.in_flight.remove(&done.tag).expect("invariant 1: a command ends once");
        Some(request.complete(done.at, Ok(())))
    }

    fn in_flight(&self) -> u32 {
        nandu_base::to_u32(self.in_flight.len() as u64)
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert!(self.in_flight.is_empty(), "nothing may be in flight while idle");
        let now = self.clock.advance_to(time);
        self.engine.advance(now);
        now
    }

    fn counters(&self) -> Counters {
        let work = self.engine.work_by(self.clock.now());
        Counters { busy: work.total(), energy: self.energy_by(Nanos::ZERO), ..self.counters }
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.power.map(|power| self.energy(&power, time.max(self.clock.now())))
    }
}

impl Inspect for HardDisk {
    fn peek(&self, first_sector: SectorIndex, bytes: &mut [u8]) {
        match &self.store {
            Some(store) => store.read(first_sector, bytes),
            None => bytes.fill(0),
        }
    }

    fn poke(&mut self, first_sector: SectorIndex, bytes: &[u8]) {
        if let Some(store) = &mut self.store {
            store.write(first_sector, bytes);
        }
    }
}
