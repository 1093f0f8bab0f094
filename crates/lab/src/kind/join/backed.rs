//! A simulated drive that keeps the time, and a sparse file that keeps the bytes: a drive of any size in
//! little memory. Requests may be cut into pages, as by an engine that does not block its requests.
//!
//! ```text
//!   request ──► bytes to or from the file
//!          └──► [page][page][page] ──one after the other──► drive without content ──► completion
//! ```
//!
//! 1. A read is answered with what the last write to its sectors wrote, if that had a buffer.
//! 2. With pages, each part of a request is issued when the part before it is done.
//! 3. What it takes of the processor is noted, where somebody asks for that.
//! 4. With a [`FileSystem`], a sector is written again now and then behind what is written; nobody waits
//!    for it but who comes after it.
//! 5. It asks for no trims, which drives of the time did not know; one that comes anyway leaves zeros.

use super::super::bench::{Bench, LOCAL};
use super::super::site::{Site, SiteDrive, fill};
use super::processor::{Cpu, Meter, Processor};
use crate::error::LabError;
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, EnergyParts, IoBuffer, MeteredDevice,
    Operation, Rejected, Request,
};
use nandu_drives::profile::SimOptions;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A site on a drive that is backed so, its requests cut into pages if that is wanted, and the processor there;
/// none if there is no local target.
pub(crate) fn metered_site(
    bench: &mut Bench<'_>,
    step: &str,
    (name, drive): (&str, &SiteDrive),
    log: Option<ByteCount>,
    (page_bytes, cpu): (Option<u32>, &Cpu),
) -> Result<Option<(Site, Processor)>, LabError> {
    if drive.base == LOCAL {
        let site = Site::prepare(bench, step, (name, drive), log)?;
        return Ok(site.map(|site| (site, Processor::Real)));
    }
    let profile = drive.profile(name).map_err(|error| LabError::step(step, &error))?;
    let seed = Rng::for_part(bench.seed, step).next_u64();
    let options = SimOptions { capacity: drive.capacity, seed, keep_data: false };
    let opened = profile.open(options);
    let device = opened.map_err(|error| LabError::step(step, &error))?;
    let mut device: Box<dyn Device + Send> =
        Box::new(MeteredDevice::tallied(device, bench.power.clone()));
    if profile.needs_filling().map_err(|error| LabError::step(step, &error))? {
        fill(device.as_mut(), step, bench.observer)?;
    }
    let cached = drive.behind_cache(device, false);
    let (device, cache) = cached.map_err(|error| LabError::step(step, &error))?;
    let device = Backed::new(device, page_bytes);
    let device = device.map_err(|error| LabError::step(step, &error))?;
    let has_arm = profile.has_arm().map_err(|error| LabError::step(step, &error))?;
    let processor = cpu.processor(has_arm, 1);
    let site = Site::on(step, Box::new(device.with_meter(processor.meter())), log)?;
    Ok(Some((site.with_cache(cache), processor)))
}

/// A file system whose files grow block by block, as ext3's: for so many bytes that are written one block of
/// pointers is written back in their midst, when so many more have followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystem {
    /// What a block of pointers maps.
    pub(crate) bytes_per_block: ByteCount,
    /// How many of them are written back later.
    pub(crate) blocks_behind: usize,
}

/// What it has not yet written back.
#[derive(Debug)]
struct Pointers {
    system: FileSystem,
    unmapped_bytes: u64,
    blocks: VecDeque<u64>,
}

impl Pointers {
    /// A write of so many bytes at `start`, of which a block of pointers is due for each.
    fn note(&mut self, start: u64, bytes: u64) {
        let FileSystem { bytes_per_block, .. } = self.system;
        self.unmapped_bytes += bytes;
        while self.unmapped_bytes >= bytes_per_block.0 {
            self.unmapped_bytes -= bytes_per_block.0;
            self.blocks.push_back(start + bytes - self.unmapped_bytes.min(bytes));
        }
    }

    /// Where the next one is written back, if it is time.
    fn due(&mut self) -> Option<u64> {
        let is_due = self.blocks.len() > self.system.blocks_behind;
        is_due.then(|| self.blocks.pop_front()).flatten()
    }
}

/// A request under way, of which a part is with the drive.
struct Pending {
    id: u64,
    operation: Operation,
    issued_at: Nanos,
    first_sector: u64,
    /// Where the part that comes next begins.
    next_sector: u64,
    end_sector: u64,
    buffer: Option<IoBuffer>,
}

/// The drive and the file.
pub(crate) struct Backed {
    drive: Box<dyn Device + Send>,
    info: DeviceInfo,
    file: File,
    page_sectors: Option<u64>,
    /// By the number that the drive knows.
    pending: BTreeMap<u64, Pending>,
    next_number: u64,
    meter: Option<Arc<Meter>>,
    pointers: Option<Pointers>,
}

impl Backed {
    /// `drive` keeps no content. With `page_bytes` it gets no request that crosses a page.
    ///
    /// # Errors
    /// If there is no place for a scratch file.
    pub(crate) fn new(
        drive: Box<dyn Device + Send>,
        page_bytes: Option<u32>,
    ) -> std::io::Result<Self> {
        let info = DeviceInfo { supports_trim: false, ..drive.info().clone() };
        let sector_bytes = info.geometry.sector_bytes;
        let page_sectors = page_bytes.map(|bytes| u64::from((bytes / sector_bytes).max(1)));
        let file = tempfile::tempfile()?;
        file.set_len(info.geometry.capacity().0)?;
        let (pending, next_number) = (BTreeMap::new(), 0);
        Ok(Self {
            drive,
            info,
            file,
            page_sectors,
            pending,
            next_number,
            meter: None,
            pointers: None,
        })
    }

    /// The same drive under a file system.
    pub(crate) fn with_file_system(mut self, system: Option<FileSystem>) -> Self {
        self.pointers = system.map(|system| Pointers {
            system,
            unmapped_bytes: 0,
            blocks: VecDeque::with_capacity(system.blocks_behind + 1),
        });
        self
    }

    /// The same drive; what it takes of the processor goes to the meter.
    pub(crate) fn with_meter(mut self, meter: Option<Arc<Meter>>) -> Self {
        self.meter = meter;
        self
    }

    fn noted<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> R {
        match self.meter.clone() {
            Some(meter) => meter.note(|| call(self)),
            None => call(self),
        }
    }

    fn offset_bytes(&self, sector: u64) -> u64 {
        sector * u64::from(self.info.geometry.sector_bytes)
    }

    fn submit_request(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        if let Err(error) = self.keep(&request) {
            return Err(Rejected { request, error: file_error("write", &error) });
        }
        let number = self.next_number;
        self.next_number += 1;
        let end_sector = request.end_sector();
        let Request { id, operation, first_sector, sector_count, buffer } = request;
        let pending = Pending {
            id,
            operation,
            issued_at: now,
            first_sector: first_sector.0,
            next_sector: first_sector.0,
            end_sector,
            buffer,
        };
        self.pending.insert(number, pending);
        self.submit_part(now, number).map_err(|error| {
            let buffer = self.pending.remove(&number).and_then(|pending| pending.buffer);
            let request = Request { id, operation, first_sector, sector_count, buffer };
            Rejected { request, error }
        })
    }

    fn complete_next(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            let mut part = self.drive.next_completion(until)?;
            let number = part.id;
            let Some(pending) = self.pending.get(&number) else {
                // A request of the simulated file system, such as of an indirect block, for which
                // no caller waits.
                continue;
            };
            let written = (pending.operation == Operation::Write)
                .then(|| (pending.first_sector, pending.end_sector - pending.first_sector));
            let is_over = pending.next_sector == pending.end_sector || part.result.is_err();
            if !is_over {
                match self.submit_part(part.completed_at, number) {
                    Ok(()) => continue,
                    Err(error) => part.result = Err(error),
                }
            }
            if let Some((first_sector, sector_count)) = written {
                self.write_pointers(part.completed_at, first_sector, sector_count);
            }
            return Some(self.complete(&part, number));
        }
    }

    /// Writes blocks of pointers back that are due after a write.
    fn write_pointers(&mut self, now: Nanos, first_sector: u64, sector_count: u64) {
        let (start, bytes) = (self.offset_bytes(first_sector), self.offset_bytes(sector_count));
        let sector_bytes = self.offset_bytes(1);
        let Some(pointers) = &mut self.pointers else { return };
        pointers.note(start, bytes);
        while let Some(at) = pointers.due() {
            // The last sector that the block maps, which is written by now.
            let sector = (at / sector_bytes).saturating_sub(1);
            let number = self.next_number;
            self.next_number += 1;
            let submitted = self.drive.submit(now, Request::write(number, sector, 1, None));
            submitted.expect("the queue has room, and the sector is in the drive");
        }
    }

    /// Stores what a request changes.
    fn keep(&self, request: &Request) -> std::io::Result<()> {
        let start = self.offset_bytes(request.first_sector.0);
        match (request.operation, &request.buffer) {
            (Operation::Write, Some(buffer)) => self.file.write_all_at(buffer, start),
            (Operation::Trim, _) => {
                let zeros = vec![0; self.info.geometry.sector_bytes as usize];
                (request.first_sector.0..request.end_sector()).try_for_each(|sector| {
                    self.file.write_all_at(&zeros, self.offset_bytes(sector))
                })
            }
            _ => Ok(()),
        }
    }

    /// Issues the next part of a request.
    fn submit_part(&mut self, now: Nanos, number: u64) -> Result<(), DeviceError> {
        let pending = self.pending.get_mut(&number).expect("it is under way");
        let (first, left) = (pending.next_sector, pending.end_sector - pending.next_sector);
        let take = self.page_sectors.map_or(left, |page| left.min(page - first % page));
        pending.next_sector += take;
        let count = nandu_base::to_u32(take);
        let request = match pending.operation {
            Operation::Read => Request::read(number, first, count, None),
            Operation::Write => Request::write(number, first, count, None),
            Operation::Trim => Request::trim(number, first, count),
            Operation::Flush => Request::flush(number),
        };
        self.drive.submit(now, request).map_err(|rejected| rejected.error)
    }

    fn complete(&mut self, part: &Completion, number: u64) -> Completion {
        let Pending { id, operation, issued_at, first_sector, mut buffer, .. } =
            self.pending.remove(&number).expect("it was under way");
        let mut result = part.result.clone();
        if let (Operation::Read, Some(buffer)) = (operation, &mut buffer) {
            let read = self.file.read_exact_at(buffer, self.offset_bytes(first_sector));
            result = result.and(read.map_err(|error| file_error("read", &error)));
        }
        Completion { id, operation, issued_at, completed_at: part.completed_at, result, buffer }
    }
}

fn file_error(verb: &str, error: &std::io::Error) -> DeviceError {
    let what = format!("cannot {verb} the scratch file of a simulated drive");
    let code = error.raw_os_error().unwrap_or(0);
    DeviceError::System { what, code, message: error.to_string() }
}

impl Device for Backed {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.drive.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        self.noted(|backed| backed.submit_request(now, request))
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.noted(|backed| backed.complete_next(until))
    }

    fn in_flight(&self) -> u32 {
        nandu_base::to_u32(self.pending.len() as u64)
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.noted(|backed| backed.drive.idle_until(time))
    }

    fn counters(&self) -> Counters {
        self.drive.counters()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.drive.energy_by(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_device::testing::check_contract;
    use nandu_drives::profile::{Profile, SimOptions};

    fn drive(name: &str) -> Box<dyn Device + Send> {
        let capacity = Some(nandu_base::ByteCount::mib(64));
        let options = SimOptions { capacity, seed: 1, keep_data: false };
        Profile::load(name).unwrap().open(options).unwrap()
    }

    #[test]
    fn it_keeps_the_contract() {
        for page_bytes in [None, Some(2048)] {
            check_contract(&mut || Box::new(Backed::new(drive("ocz-core"), page_bytes).unwrap()));
        }
    }

    #[test]
    fn a_request_in_pages_is_as_many_requests_of_the_drive_and_takes_longer() {
        let time = |page_bytes| {
            let mut device = Backed::new(drive("ocz-core"), page_bytes).unwrap();
            let buffer = Some(IoBuffer::zeroed(64 << 10));
            device.submit(Nanos::ZERO, Request::read(7, 0, 128, buffer)).unwrap();
            let completion = device.next_completion(Nanos::MAX).unwrap();
            assert_eq!(completion.id, 7);
            (device.counters().reads.request_count, completion.latency())
        };
        let (whole, paged) = (time(None), time(Some(2048)));
        assert_eq!((whole.0, paged.0), (1, 32));
        assert!(paged.1 > whole.1, "{paged:?} {whole:?}");
    }
}
