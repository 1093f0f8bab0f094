//! Storage-class memory behind the block contract: S003's question of logging to phase-change memory.
//!
//! ```text
//!   request ─► overhead ─► lines, interleaved over banks ─┐
//!                     └──► bytes over the one bus ────────┴─► done when both are
//! ```
//!
//! 1. A request is done when its last line and its last byte are; banks and bus serve in order.
//! 2. What is written is durable: a flush has nothing to do.
//! 3. Its sectors may be lines: then a request is a store with a flush of the processor's cache, which costs the
//!    overhead, and a flush a fence.
//! 4. The memory is at work while a request is in it; lines have an energy of their own.

use crate::profile::{Drive, MakeConfig, MakeError, ProfileError, SimOptions};
use nandu_base::{ByteCount, Nanos, Picojoules, SectorIndex, VirtualClock, to_index};
use nandu_device::energy::drawn;
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, EnergyParts, Geometry,
    Inspect, LineUse, Operation, Rejected, Request, SECTOR_BYTES, SectorStore, TimeSource,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `[scm]` section of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScmConfig {
    /// Bytes that one bank access moves, a power of two from 8 to 4096.
    pub line_bytes: u32,
    /// How long the read of one line takes.
    pub read_line_ns: Nanos,
    /// Writing one line so that it survives.
    pub write_line_ns: Nanos,
    /// Banks that work at the same time, from 1 to 1024.
    pub bank_count: u32,
    /// Rate of the bus for reads, bytes per second; zero takes no time.
    pub read_bytes_per_second: u64,
    /// Rate of the bus for writes.
    pub write_bytes_per_second: u64,
    /// Time of any request before its first line.
    pub overhead_ns: Nanos,
    /// Most requests in flight, at least 1.
    pub queue_depth: u32,
    /// How often a line can be written; without it the memory does not wear out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_writes: Option<u64>,
    /// What it draws; without it nothing is known of its energy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<ScmPowerConfig>,
}

/// Power by what the memory does: the `[scm.power]` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScmPowerConfig {
    /// Ready, without work.
    pub idle_milliwatts: u64,
    /// While a request is in it, at least idle.
    pub active_milliwatts: u64,
    /// Energy to read a line, beside that.
    #[serde(default)]
    pub read_line_picojoules: Picojoules,
    /// The same to write one.
    #[serde(default)]
    pub write_line_picojoules: Picojoules,
}

impl MakeConfig for ScmConfig {
    fn check(&self, _sector_bytes: u32) -> Result<(), String> {
        Self::check(self)
    }

    fn sector_bytes_min(&self) -> u32 {
        *SECTOR_BYTES.start()
    }

    fn open(
        &self,
        name: &str,
        geometry: Geometry,
        options: SimOptions,
    ) -> Result<Drive, MakeError> {
        let memory = StorageClassMemory::new(name, self.clone(), geometry, options.keep_data);
        memory.map(|memory| Box::new(memory) as Drive).map_err(MakeError::Parts)
    }

    fn has_arm(&self) -> Result<bool, ProfileError> {
        Ok(false)
    }

    fn needs_filling(&self) -> Result<bool, ProfileError> {
        Ok(false)
    }

    fn has_write_cache(&self) -> Option<bool> {
        Some(false)
    }
}

impl ScmConfig {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first mistake; the key at fault comes first, in backticks.
    pub fn check(&self) -> Result<(), String> {
        if !self.line_bytes.is_power_of_two() || !(8..=4096).contains(&self.line_bytes) {
            return Err("`line_bytes` is not a power of two from 8 to 4096".into());
        }
        if !(1..=1024).contains(&self.bank_count) {
            return Err("`bank_count` is not from 1 to 1024".into());
        }
        if self.endurance_writes == Some(0) {
            return Err("`endurance_writes` is zero".into());
        }
        if self.queue_depth == 0 {
            return Err("`queue_depth` is zero".into());
        }
        if self.read_line_ns == Nanos::ZERO || self.write_line_ns == Nanos::ZERO {
            return Err("`read_line_ns` and `write_line_ns` must not be zero".into());
        }
        if self.power.is_some_and(|power| power.active_milliwatts < power.idle_milliwatts) {
            return Err("`active_milliwatts` is below idle".into());
        }
        Ok(())
    }
}

/// A simulated storage-class memory.
#[derive(Debug)]
pub struct StorageClassMemory {
    config: ScmConfig,
    info: DeviceInfo,
    clock: VirtualClock,
    store: Option<SectorStore>,
    bank_free_at: Vec<Nanos>,
    bus_free_at: Nanos,
    completions: CompletionQueue,
    counters: Counters,
    /// How long there is a request in it in all, and until when.
    active: Nanos,
    active_until: Nanos,
    /// Energy of lines.
    lines: Picojoules,
    wear: LineWear,
}

/// How often each line was written.
#[derive(Debug, Default)]
struct LineWear {
    /// Counts of [`WEAR_CHUNK_LINES`] lines each; those that nobody wrote to are not there.
    chunks: BTreeMap<u64, Vec<u32>>,
    write_count: u64,
    most_written_count: u32,
}

/// Lines of which the counts lie together.
const WEAR_CHUNK_LINES: u64 = 4096;

impl LineWear {
    /// Counts a write of so many lines in a row.
    fn write(&mut self, first_line: u64, line_count: u64) {
        self.write_count += line_count;
        let (mut line, end) = (first_line, first_line + line_count);
        while line < end {
            let (chunk, place) = (line / WEAR_CHUNK_LINES, line % WEAR_CHUNK_LINES);
            let counts = self.chunks.entry(chunk).or_default();
            counts.resize(to_index(WEAR_CHUNK_LINES), 0);
            let count = (WEAR_CHUNK_LINES - place).min(end - line);
            for worn in &mut counts[to_index(place)..to_index(place + count)] {
                *worn = worn.saturating_add(1);
                self.most_written_count = self.most_written_count.max(*worn);
            }
            line += count;
        }
    }
}

impl StorageClassMemory {
    /// A device of zeros. Without `keep_data` every read returns zeros.
    ///
    /// # Errors
    /// If `config` breaks one of its ranges.
    pub fn new(
        name: &str,
        config: ScmConfig,
        geometry: Geometry,
        keep_data: bool,
    ) -> Result<Self, DeviceError> {
        config.check().map_err(|what| DeviceError::InvalidGeometry { what })?;
        let info = DeviceInfo {
            name: name.into(),
            geometry,
            queue_depth_max: config.queue_depth,
            time_source: TimeSource::Virtual,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: false,
            supports_trim: true,
        };
        Ok(Self {
            info,
            clock: VirtualClock::new(),
            store: keep_data.then(|| SectorStore::new(geometry.sector_bytes)),
            bank_free_at: vec![Nanos::ZERO; config.bank_count as usize],
            bus_free_at: Nanos::ZERO,
            completions: CompletionQueue::default(),
            counters: Counters::default(),
            active: Nanos::ZERO,
            active_until: Nanos::ZERO,
            lines: Picojoules::ZERO,
            wear: LineWear::default(),
            config,
        })
    }

    /// Asserts the module's invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        assert_eq!(self.bank_free_at.len(), self.config.bank_count as usize);
        assert!(self.in_flight() <= self.info.queue_depth_max);
        let next = self.completions.next_at().unwrap_or(Nanos::MAX);
        assert!(next >= self.clock.now(), "rule 2 of the contract: time runs forwards");
    }

    /// Serves the bytes of a read or write from `start` on; when the last of them is done.
    fn serve(&mut self, start: Nanos, first_byte: ByteCount, bytes: u64, is_read: bool) -> Nanos {
        let (line_ns, rate) = if is_read {
            (self.config.read_line_ns, self.config.read_bytes_per_second)
        } else {
            (self.config.write_line_ns, self.config.write_bytes_per_second)
        };
        let line_bytes = u64::from(self.config.line_bytes);
        let first_line = first_byte.0 / line_bytes;
        let line_count = (first_byte.0 + bytes).div_ceil(line_bytes) - first_line;
        let bank_count = u64::from(self.config.bank_count);
        let transfer = Nanos::of_transfer(bytes, rate);
        self.bus_free_at = self.bus_free_at.max(start) + transfer;
        self.counters.busy += transfer;
        if let Some(power) = &self.config.power {
            let line =
                if is_read { power.read_line_picojoules } else { power.write_line_picojoules };
            self.lines += line * line_count;
        }
        if !is_read && self.config.endurance_writes.is_some() {
            self.wear.write(first_line, line_count);
        }
        let mut done = self.bus_free_at;
        for turn in 0..line_count.min(bank_count) {
            let lines = (line_count - turn).div_ceil(bank_count);
            let bank = to_index((first_line + turn) % bank_count);
            let free_at = &mut self.bank_free_at[bank];
            *free_at = (*free_at).max(start) + line_ns * lines;
            self.counters.busy += line_ns * lines;
            done = done.max(*free_at);
        }
        done
    }

    fn apply(&mut self, request: &mut Request) {
        let Some(store) = &mut self.store else {
            if let (Operation::Read, Some(buffer)) = (request.operation, &mut request.buffer) {
                buffer.fill(0);
            }
            return;
        };
        match (request.operation, &mut request.buffer) {
            (Operation::Read, Some(buffer)) => store.read(request.first_sector, buffer),
            (Operation::Write, Some(buffer)) => store.write(request.first_sector, buffer),
            (Operation::Write, None) | (Operation::Trim, _) => {
                store.clear(request.first_sector, u64::from(request.sector_count));
            }
            (Operation::Read, None) | (Operation::Flush, _) => {}
        }
    }
}

impl Device for StorageClassMemory {
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
        let now = self.clock.advance_to(now);
        self.apply(&mut request);
        let bytes = self.info.geometry.bytes_of(request.sector_count);
        let start = now + self.config.overhead_ns;
        self.counters.busy += self.config.overhead_ns;
        let done = match request.operation {
            Operation::Read | Operation::Write => {
                let sector_bytes = u64::from(self.info.geometry.sector_bytes);
                let first_byte = ByteCount(request.first_sector.0 * sector_bytes);
                self.serve(start, first_byte, bytes, request.operation == Operation::Read)
            }
            Operation::Trim => start,
            // Lines of writes in flight become durable with them, in the order of the banks.
            Operation::Flush => start,
        };
        // What is in it from now on is one piece with what is in it already.
        self.active += done.saturating_sub(now.max(self.active_until));
        self.active_until = self.active_until.max(done);
        self.counters.count(request.operation, bytes, true);
        self.completions.push(InFlight::of(request, now).complete(done, Ok(())));
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.completions.len()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert!(self.completions.is_empty(), "nothing may be in flight while idle");
        self.clock.advance_to(time)
    }

    fn counters(&self) -> Counters {
        let lines = self.config.endurance_writes.map(|_| LineUse {
            line_bytes: self.config.line_bytes,
            write_count: self.wear.write_count,
            most_written_count: u64::from(self.wear.most_written_count),
        });
        Counters { energy: self.energy_by(Nanos::ZERO), lines, ..self.counters }
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        let now = time.max(self.clock.now());
        let active = self.active.saturating_sub(self.active_until.saturating_sub(now));
        self.config.power.map(|power| EnergyParts {
            idle: drawn(power.idle_milliwatts, now),
            active: drawn(power.active_milliwatts - power.idle_milliwatts, active),
            cells: self.lines,
            ..EnergyParts::default()
        })
    }
}

impl Inspect for StorageClassMemory {
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

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_device::testing;

    fn config() -> ScmConfig {
        ScmConfig {
            line_bytes: 64,
            read_line_ns: Nanos(50),
            write_line_ns: Nanos(1000),
            bank_count: 8,
            read_bytes_per_second: 8_000_000_000,
            write_bytes_per_second: 8_000_000_000,
            overhead_ns: Nanos(100),
            queue_depth: 16,
            endurance_writes: None,
            power: None,
        }
    }

    fn device() -> StorageClassMemory {
        let geometry = Geometry::new(512, 4096).unwrap();
        StorageClassMemory::new("sim:scm", config(), geometry, true).unwrap()
    }

    #[test]
    fn storage_class_memory_keeps_the_contract() {
        testing::check_contract(&mut || Box::new(device()));
    }

    #[test]
    fn lines_spread_over_the_banks() {
        let mut device = device();
        // 4096 bytes are 64 lines, 8 on each of 8 banks; the bus needs 512 ns at the same time.
        let read = testing::run(&mut device, Request::read(1, 0, 8, None));
        assert_eq!(read.latency(), Nanos(100 + 512));
        let write = testing::run(&mut device, Request::write(2, 0, 8, None));
        assert_eq!(write.latency(), Nanos(100 + 8 * 1000));
        device.audit();
    }

    #[test]
    fn a_memory_whose_sectors_are_lines_keeps_the_contract_and_takes_a_line_at_a_time() {
        let device = || {
            let config = ScmConfig { endurance_writes: Some(1 << 20), ..config() };
            let geometry = Geometry::new(64, 32_768).unwrap();
            StorageClassMemory::new("sim:lines", config, geometry, true).unwrap()
        };
        testing::check_contract(&mut || Box::new(device()));
        let mut device = device();
        assert_eq!(testing::run(&mut device, Request::write(1, 5, 1, None)).latency(), Nanos(1100));
        // Four lines lie on four banks.
        assert_eq!(testing::run(&mut device, Request::write(2, 5, 4, None)).latency(), Nanos(1100));
        assert_eq!(testing::run(&mut device, Request::flush(3)).latency(), Nanos(100), "a fence");
        let lines = device.counters().lines.unwrap();
        let expected = LineUse { line_bytes: 64, write_count: 5, most_written_count: 2 };
        assert_eq!(lines, expected);
        testing::run(&mut device, Request::write(4, 4090, 20, None));
        let lines = device.counters().lines.unwrap();
        assert_eq!((lines.write_count, lines.most_written_count), (25, 2), "across two chunks");
        device.audit();
    }

    #[test]
    fn lines_wear_in_the_unit_that_the_memory_writes() {
        // A module that writes 256 bytes at a time wears four times for four lines of 64 one by one.
        let config = ScmConfig { line_bytes: 256, endurance_writes: Some(1_000_000), ..config() };
        let geometry = Geometry::new(64, 4096).unwrap();
        let mut device = StorageClassMemory::new("sim:lines", config, geometry, true).unwrap();
        for line in 0..4 {
            testing::run(&mut device, Request::write(line, line, 1, None));
        }
        assert_eq!(device.counters().lines.unwrap().most_written_count, 4);
        testing::run(&mut device, Request::write(4, 0, 4, None));
        assert_eq!(device.counters().lines.unwrap().write_count, 5);
    }

    #[test]
    fn requests_side_by_side_are_one_time_at_work_and_lines_have_their_energy() {
        let power = ScmPowerConfig {
            idle_milliwatts: 10,
            active_milliwatts: 50,
            read_line_picojoules: Picojoules(3),
            write_line_picojoules: Picojoules(700),
        };
        let config = ScmConfig { power: Some(power), ..config() };
        let geometry = Geometry::new(512, 4096).unwrap();
        let mut device = StorageClassMemory::new("sim:scm", config, geometry, true).unwrap();
        device.idle_until(Nanos(1000));
        let idle = device.counters().energy.unwrap();
        assert_eq!((idle.idle, idle.total()), (Picojoules(10 * 1000), Picojoules(10 * 1000)));
        for id in 0..2 {
            device.submit(Nanos(1000), Request::write(id, id * 8, 8, None)).unwrap();
        }
        while device.next_completion(Nanos::MAX).is_some() {}
        // Both writes of 64 lines keep all banks: 8 lines after each other, twice.
        let end = 1000 + 100 + 2 * 8 * 1000;
        assert_eq!(device.now(), Nanos(end));
        device.idle_until(Nanos(end + 500));
        let energy = device.counters().energy.unwrap();
        assert_eq!(energy.idle, drawn(10, Nanos(end + 500)));
        assert_eq!(energy.active, drawn(40, Nanos(end - 1000)));
        assert_eq!(energy.cells, Picojoules(2 * 64 * 700));
    }

    #[test]
    fn figures_out_of_range_are_named() {
        let broken = |change: fn(&mut ScmConfig)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err()
        };
        assert!(broken(|c| c.line_bytes = 96).starts_with("`line_bytes`"));
        assert!(broken(|c| c.bank_count = 0).starts_with("`bank_count`"));
        assert!(broken(|c| c.queue_depth = 0).starts_with("`queue_depth`"));
    }
}
