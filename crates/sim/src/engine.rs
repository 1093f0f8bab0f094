//! Requests of bytes on a translation layer of units: what a controller does between both, and no
//! more: no command overhead, no link, and either a write buffer or a cache where one is asked for.
//!
//! ```text
//!   request [offset, offset + length)
//!   units     |....XXXX|XXXXXXXX|XXX.....|     X = covered
//!   read      each unit's covered bytes
//!   write     whole units are written; one covered in part is read, changed and written
//!   trim      whole units are trimmed; ends covered in part are left alone
//! ```
//!
//! 1. A unit that a write covers in part costs one read of the unit, counted as `modify_read_units`.
//! 2. A request is done when its last unit is; none is done before it started.
//! 3. A request whose unit takes the place of a dirty one in the cache is done when that is on flash, too.

use crate::SimError;
use crate::buffer::{Waiting, WriteBuffer};
use crate::cache::{CacheUse, DirtyUnit, UnitCache};
use crate::shadow::Shadow;
use nandu_base::{Lpn, Nanos, to_u32};
use nandu_device::Operation;
use nandu_ftl::{Ftl, FtlError};
use nandu_nand::{Content, NandArray, Ticket};
use nandu_trace::TraceRequest;

/// Watches a unit in the write buffer; requests have lower numbers.
pub(crate) const SLOT: u32 = u32::MAX - 1;

/// How many kinds of request there are.
pub(crate) const OPERATION_COUNT: usize = 4;

/// What the host asked for, in requests, bytes and units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCounts {
    /// How many requests there were of each [`Operation`].
    pub(crate) requests: [u64; OPERATION_COUNT],
    /// How many bytes the requests of each [`Operation`] had.
    pub(crate) bytes: [u64; OPERATION_COUNT],
    pub(crate) read_units: u64,
    pub(crate) write_units: u64,
    pub(crate) trim_units: u64,
    /// Reads of units that a write covered in part.
    pub(crate) modify_read_units: u64,
    /// Slots that were programmed without a unit because requests waited for rows that nobody filled.
    pub(crate) padded_units: u64,
}

impl HostCounts {
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut difference = *self;
        for index in 0..OPERATION_COUNT {
            difference.requests[index] -= earlier.requests[index];
            difference.bytes[index] -= earlier.bytes[index];
        }
        difference.read_units -= earlier.read_units;
        difference.write_units -= earlier.write_units;
        difference.trim_units -= earlier.trim_units;
        difference.modify_read_units -= earlier.modify_read_units;
        difference.padded_units -= earlier.padded_units;
        difference
    }
}

/// Chips, layer and what stands before them.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) nand: NandArray,
    pub(crate) ftl: Box<dyn Ftl>,
    pub(crate) host: HostCounts,
    pub(crate) shadow: Option<Shadow>,
    pub(crate) buffer: Option<WriteBuffer>,
    pub(crate) cache: Option<UnitCache>,
    next_units: Vec<Lpn>,
    next_reads: Vec<Lpn>,
    unit_bytes: u32,
    unit_shift: u32,
    unit_mask: u64,
    capacity_bytes: u64,
}

/// Why a request was not served.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It ends past the drive.
    OutOfRange,
    /// The translation layer refused a request.
    Layer(FtlError),
    /// A check found a fault.
    Check(String),
}

impl From<FtlError> for Refusal {
    fn from(error: FtlError) -> Self {
        Self::Layer(error)
    }
}

impl Engine {
    /// A layer over the array it was built on.
    pub(crate) fn new(nand: NandArray, ftl: Box<dyn Ftl>) -> Self {
        let unit_bytes = ftl.unit_bytes();
        assert!(
            unit_bytes.is_power_of_two(),
            "units divide flash pages, whose size is a power of two"
        );
        let capacity_bytes = ftl.unit_count() * u64::from(unit_bytes);
        Self {
            nand,
            ftl,
            host: HostCounts::default(),
            shadow: None,
            buffer: None,
            cache: None,
            next_units: Vec::new(),
            next_reads: Vec::new(),
            unit_bytes,
            unit_shift: unit_bytes.trailing_zeros(),
            unit_mask: u64::from(unit_bytes) - 1,
            capacity_bytes,
        }
    }

    pub(crate) const fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    pub(crate) const fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Tells the layer which units come next; answers whether the drive has all of them.
    #[inline]
    pub(crate) fn touch(&mut self, requests: &[TraceRequest]) -> bool {
        self.next_units.clear();
        let units = requests.iter().map(|request| Lpn(request.offset_bytes >> self.unit_shift));
        let unit_count = self.ftl.unit_count();
        self.next_units.extend(units.filter(|lpn| lpn.0 < unit_count));
        self.ftl.touch(&self.nand, &[], &self.next_units);
        self.next_units.len() == requests.len()
    }

    /// Tells the layer which units come next, of reads and of writes apart.
    #[inline]
    pub(crate) fn touch_apart(&mut self, requests: &[TraceRequest]) {
        self.next_units.clear();
        self.next_reads.clear();
        let unit_count = self.ftl.unit_count();
        for request in requests {
            let lpn = Lpn(request.offset_bytes >> self.unit_shift);
            if lpn.0 < unit_count {
                match request.operation {
                    Operation::Read => self.next_reads.push(lpn),
                    _ => self.next_units.push(lpn),
                }
            }
        }
        self.ftl.touch(&self.nand, &self.next_reads, &self.next_units);
    }

    /// Serves a request that starts with `start`; its ticket ends when it is done. With `SERIAL`, for a
    /// single server, its units follow one another.
    #[inline]
    pub(crate) fn serve<const SERIAL: bool>(
        &mut self,
        request: &TraceRequest,
        start: Ticket,
    ) -> Result<Ticket, Refusal> {
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let end = offset.checked_add(length).filter(|&end| end <= self.capacity_bytes);
        let end = end.ok_or(Refusal::OutOfRange)?;
        let kind = request.operation as usize;
        self.host.requests[kind] += 1;
        self.host.bytes[kind] += length;
        let first = offset >> self.unit_shift;
        let stream = request.stream;
        let is_one_unit = length == u64::from(self.unit_bytes) && offset & self.unit_mask == 0;
        let done = match request.operation {
            Operation::Write if is_one_unit => self.write_unit(Lpn(first), start, stream)?,
            Operation::Read if is_one_unit => {
                self.host.read_units += 1;
                self.read_unit(Lpn(first), start, self.unit_bytes)?
            }
            Operation::Write => self.write_range::<SERIAL>((offset, end), start, stream)?,
            Operation::Read => self.read_range::<SERIAL>(offset, end, start)?,
            Operation::Trim => self.trim_range(offset, end, start)?,
            Operation::Flush => self.flush(start)?,
        };
        if SERIAL && self.shadow.is_some() && done.time() < start.time() {
            let (done, start) = (done.time(), start.time());
            return Err(Refusal::Check(format!("done at {done}, before its start at {start}")));
        }
        Ok(done)
    }

    /// Whether writes may be served together by [`Self::serve_in_turn`].
    pub(crate) const fn takes_runs(&self) -> bool {
        self.shadow.is_none() && self.buffer.is_none() && self.cache.is_none()
    }

    /// The stream of requests that all write one unit of it; none where they do not.
    #[inline]
    pub(crate) fn run_stream(&self, requests: &[TraceRequest]) -> Option<u8> {
        let stream = requests.first()?.stream;
        let is_of_run = |request: &TraceRequest| {
            request.operation == Operation::Write
                && request.stream == stream
                && request.length_bytes == u64::from(self.unit_bytes)
                && request.offset_bytes & self.unit_mask == 0
        };
        requests.iter().all(is_of_run).then_some(stream)
    }

    /// Serves the writes that [`Self::touch`] was told of, which [`Self::run_stream`] has found to be
    /// of one stream, each starting when the one before is done. Appends the ticket of each to `done`;
    /// after a refusal, of those before it.
    pub(crate) fn serve_in_turn(
        &mut self,
        start: Ticket,
        stream: u8,
        done: &mut Vec<Ticket>,
    ) -> Result<(), Refusal> {
        let count = self.next_units.len() as u64;
        self.host.requests[Operation::Write as usize] += count;
        self.host.bytes[Operation::Write as usize] += count * u64::from(self.unit_bytes);
        self.host.write_units += count;
        Ok(self.ftl.write_in_turn(&mut self.nand, start, &self.next_units, stream, done)?)
    }

    #[inline]
    fn write_unit(&mut self, lpn: Lpn, start: Ticket, stream: u8) -> Result<Ticket, Refusal> {
        self.host.write_units += 1;
        if let Some(cache) = &mut self.cache {
            let content = self.shadow.as_mut().and_then(|shadow| shadow.write(lpn));
            return match cache.write(DirtyUnit { lpn, content, stream, ready: start }) {
                Some(evicted) => self.write_back(evicted, start),
                None => Ok(start),
            };
        }
        let Some(buffer) = &mut self.buffer else {
            let content = self.shadow.as_mut().and_then(|shadow| shadow.write(lpn));
            return Ok(self.ftl.write_to_stream(&mut self.nand, start, lpn, content, stream)?);
        };
        if buffer.take_slot() {
            self.program_held(lpn, start, stream)?;
            return Ok(start);
        }
        let admitted = self.nand.promise();
        buffer.wait(Waiting::Unit { lpn, stream, start, admitted });
        Ok(admitted)
    }

    /// Writes a unit that leaves the cache, or is flushed, to the layer.
    fn write_back(&mut self, unit: DirtyUnit, start: Ticket) -> Result<Ticket, Refusal> {
        let DirtyUnit { lpn, content, stream, ready } = unit;
        let after = self.nand.both(start, ready);
        Ok(self.ftl.write_to_stream(&mut self.nand, after, lpn, content, stream)?)
    }

    /// Reads a unit through the cache. Answers when its content is there, and when the unit that made
    /// way for it is on flash, too: nothing but the request waits for that, since it may wait in an open
    /// row for what is evicted next.
    fn read_cached(&mut self, lpn: Lpn, start: Ticket) -> Result<(Ticket, Ticket), Refusal> {
        let cache = self.cache.as_mut().expect("the caller has seen one");
        if let Some((content, ready)) = cache.read(lpn) {
            self.compare(lpn, &content)?;
            let ready = self.nand.both(start, ready);
            return Ok((ready, ready));
        }
        let evicted = match cache.evict() {
            Some(evicted) => self.write_back(evicted, start)?,
            None => start,
        };
        let outcome = self.ftl.read(&mut self.nand, start, lpn, self.unit_bytes)?;
        self.compare(lpn, &outcome.content)?;
        let cache = self.cache.as_mut().expect("the caller has seen one");
        cache.keep(lpn, outcome.content, outcome.done);
        Ok((outcome.done, self.nand.both(evicted, outcome.done)))
    }

    /// What the cache did so far, where there is one.
    pub(crate) fn cache_use(&self) -> Option<CacheUse> {
        self.cache.as_ref().map(UnitCache::counts)
    }

    /// Hands the unit of a slot to the layer.
    fn program_held(&mut self, lpn: Lpn, start: Ticket, stream: u8) -> Result<(), Refusal> {
        // Reads that come while a unit waits for its slot see what was there before.
        let content = self.shadow.as_mut().and_then(|shadow| shadow.write(lpn));
        let done = self.ftl.write_to_stream(&mut self.nand, start, lpn, content, stream)?;
        let is_waiting = self.nand.watch(done, SLOT);
        let buffer = self.buffer.as_mut().expect("a slot was taken");
        buffer.hold(&mut self.nand, done);
        if !is_waiting {
            self.release_slot()?;
        }
        Ok(())
    }

    /// A slot of the write buffer is free: whoever waits first gets it.
    pub(crate) fn release_slot(&mut self) -> Result<(), Refusal> {
        self.buffer.as_mut().expect("only a buffer has slots").give_slot_back();
        while let Some(buffer) = &mut self.buffer
            && let Some(next) = buffer.next_waiting()
        {
            match next {
                Waiting::Unit { lpn, stream, start, admitted } => {
                    self.nand.keep(admitted, start);
                    self.program_held(lpn, start, stream)?;
                }
                Waiting::Flush { done } => {
                    let held = buffer.held();
                    let flushed = self.ftl.flush(&mut self.nand, Ticket::READY)?;
                    let flushed = self.nand.both(flushed, held);
                    self.nand.keep(done, flushed);
                }
            }
        }
        Ok(())
    }

    /// Whether units are in the write buffer, or wait for it.
    pub(crate) fn buffers_something(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| !buffer.is_empty())
    }

    /// Programs rows that nobody fills, where nothing is in flight any more.
    ///
    /// # Errors
    /// If there are none: then nothing can go on.
    pub(crate) fn complete_rows(&mut self) -> Result<(), SimError> {
        let padded_before = self.ftl.padded_units();
        let completed = self.ftl.complete_rows(&mut self.nand);
        self.host.padded_units += self.ftl.padded_units() - padded_before;
        match completed {
            Ok(true) => Ok(()),
            Ok(false) => Err(SimError::Check(
                "requests wait, though nothing is in flight that could end them".into(),
            )),
            Err(error) => Err(self.layer_error(error.into())),
        }
    }

    #[inline]
    fn read_unit(&mut self, lpn: Lpn, start: Ticket, bytes: u32) -> Result<Ticket, Refusal> {
        if self.cache.is_some() {
            return self.read_cached(lpn, start).map(|(_, done)| done);
        }
        let outcome = self.ftl.read(&mut self.nand, start, lpn, bytes)?;
        self.compare(lpn, &outcome.content)?;
        Ok(outcome.done)
    }

    #[inline]
    fn compare(&mut self, lpn: Lpn, content: &Content) -> Result<(), Refusal> {
        match &mut self.shadow {
            None => Ok(()),
            Some(shadow) => shadow.compare(lpn, content).map_err(Refusal::Check),
        }
    }

    /// First byte and the one past the last that the range covers of the unit.
    fn covered(&self, lpn: u64, offset: u64, end: u64) -> (u64, u64) {
        let unit_start = lpn << self.unit_shift;
        let unit_end = unit_start + u64::from(self.unit_bytes);
        (offset.max(unit_start) - unit_start, end.min(unit_end) - unit_start)
    }

    fn units(&self, offset: u64, end: u64) -> std::ops::Range<u64> {
        if end <= offset {
            return 0..0;
        }
        offset >> self.unit_shift..((end - 1) >> self.unit_shift) + 1
    }

    fn write_range<const SERIAL: bool>(
        &mut self,
        (offset, end): (u64, u64),
        start: Ticket,
        stream: u8,
    ) -> Result<Ticket, Refusal> {
        let mut done = start;
        for lpn in self.units(offset, end) {
            let (from, to) = self.covered(lpn, offset, end);
            let mut issued = if SERIAL { done } else { start };
            if to - from < u64::from(self.unit_bytes) {
                self.host.modify_read_units += 1;
                issued = if self.cache.is_some() {
                    let (ready, read) = self.read_cached(Lpn(lpn), issued)?;
                    self.nand.gather(&mut done, read);
                    ready
                } else {
                    self.read_unit(Lpn(lpn), issued, self.unit_bytes)?
                };
            }
            let written = self.write_unit(Lpn(lpn), issued, stream)?;
            self.nand.gather(&mut done, written);
        }
        Ok(done)
    }

    fn read_range<const SERIAL: bool>(
        &mut self,
        offset: u64,
        end: u64,
        start: Ticket,
    ) -> Result<Ticket, Refusal> {
        let mut done = start;
        for lpn in self.units(offset, end) {
            let (from, to) = self.covered(lpn, offset, end);
            let issued = if SERIAL { done } else { start };
            self.host.read_units += 1;
            let read = self.read_unit(Lpn(lpn), issued, to_u32(to - from))?;
            self.nand.gather(&mut done, read);
        }
        Ok(done)
    }

    fn trim_range(&mut self, offset: u64, end: u64, start: Ticket) -> Result<Ticket, Refusal> {
        let first = offset.div_ceil(u64::from(self.unit_bytes));
        let count = (end >> self.unit_shift).saturating_sub(first);
        if count == 0 {
            return Ok(start);
        }
        self.host.trim_units += count;
        if let Some(shadow) = &mut self.shadow {
            shadow.trim(first, count);
        }
        if let Some(cache) = &mut self.cache {
            cache.trim(first, count);
        }
        Ok(self.ftl.trim(&mut self.nand, start, Lpn(first), count)?)
    }

    fn flush(&mut self, start: Ticket) -> Result<Ticket, Refusal> {
        match &mut self.buffer {
            Some(buffer) if buffer.has_waiting() => {
                let done = self.nand.promise();
                buffer.wait(Waiting::Flush { done });
                Ok(done)
            }
            Some(buffer) => {
                let held = buffer.held();
                let flushed = self.ftl.flush(&mut self.nand, start)?;
                Ok(self.nand.both(flushed, held))
            }
            None if self.cache.is_some() => self.flush_cache(start),
            None => Ok(self.ftl.flush(&mut self.nand, start)?),
        }
    }

    /// Writes all dirty units of the cache, then what waits in the layer.
    fn flush_cache(&mut self, start: Ticket) -> Result<Ticket, Refusal> {
        let mut done = start;
        while let Some(unit) = self.cache.as_mut().and_then(UnitCache::clean_next) {
            let written = self.write_back(unit, start)?;
            self.nand.gather(&mut done, written);
        }
        // Not behind the writes: those that wait in an open row wait for this flush.
        let flushed = self.ftl.flush(&mut self.nand, start)?;
        Ok(self.nand.both(done, flushed))
    }

    /// Why the request of this number was refused.
    #[cold]
    pub(crate) fn explain(
        &self,
        refusal: Refusal,
        request: &TraceRequest,
        at: Nanos,
        number: u64,
    ) -> SimError {
        match refusal {
            Refusal::OutOfRange => SimError::OutOfRange {
                request: number,
                offset_bytes: request.offset_bytes,
                length_bytes: request.length_bytes,
                capacity_bytes: self.capacity_bytes,
            },
            Refusal::Layer(error) => SimError::Layer { request: number, at, error },
            Refusal::Check(text) => SimError::Check(format!("request {number}: {text}")),
        }
    }

    /// Why a unit that was acknowledged before could not be written.
    #[cold]
    pub(crate) fn layer_error(&self, refusal: Refusal) -> SimError {
        let number = self.host.requests.iter().sum();
        match refusal {
            Refusal::Layer(error) => {
                SimError::Layer { request: number, at: self.nand.now(), error }
            }
            Refusal::Check(text) => SimError::Check(text),
            Refusal::OutOfRange => SimError::Check("a unit lies past the drive".into()),
        }
    }
}
