//! Requests of bytes on a translation layer of units: what a controller does between both, and no
//! more: no command overhead, no link, no cache beside the optional write buffer.
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

use crate::buffer::WriteBuffer;
use crate::shadow::Shadow;
use nandu_base::{Lpn, Nanos, to_u32};
use nandu_device::Operation;
use nandu_ftl::{Ftl, FtlError};
use nandu_nand::{Content, NandArray, Promise};
use nandu_trace::TraceRequest;

/// How many kinds of request there are.
pub(crate) const OPERATION_COUNT: usize = 4;

/// What the host asked for, in requests, bytes and units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCounts {
    /// By [`Operation`].
    pub(crate) requests: [u64; OPERATION_COUNT],
    /// By [`Operation`].
    pub(crate) bytes: [u64; OPERATION_COUNT],
    pub(crate) read_units: u64,
    pub(crate) write_units: u64,
    pub(crate) trim_units: u64,
    /// Reads of units that a write covered in part.
    pub(crate) modify_read_units: u64,
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
    /// The command that the last request waits for, where ends may move.
    pub(crate) promise: Option<Promise>,
    ends_may_move: bool,
    next_units: Vec<Lpn>,
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
    /// The layer refused.
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
    pub(crate) fn new(nand: NandArray, ftl: Box<dyn Ftl>, ends_may_move: bool) -> Self {
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
            promise: None,
            ends_may_move,
            next_units: Vec::new(),
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
        self.ftl.touch(&self.next_units);
        self.next_units.len() == requests.len()
    }

    /// Serves a request that starts at `start`; answers when it is done. With `SERIAL` its units
    /// follow one another.
    #[inline]
    pub(crate) fn serve<const SERIAL: bool>(
        &mut self,
        request: &TraceRequest,
        start: Nanos,
    ) -> Result<Nanos, Refusal> {
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let end = offset.checked_add(length).filter(|&end| end <= self.capacity_bytes);
        let end = end.ok_or(Refusal::OutOfRange)?;
        let kind = request.operation as usize;
        self.host.requests[kind] += 1;
        self.host.bytes[kind] += length;
        self.promise = None;
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
        if self.shadow.is_some() && done < start {
            return Err(Refusal::Check(format!("done at {done}, before its start at {start}")));
        }
        Ok(done)
    }

    /// Whether writes may be served together by [`Self::serve_in_turn`].
    pub(crate) const fn takes_runs(&self) -> bool {
        self.shadow.is_none() && self.buffer.is_none() && !self.ends_may_move
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
    /// of one stream, each starting when the one before is done. Appends to `done` when each was;
    /// after a refusal, for those before it.
    pub(crate) fn serve_in_turn(
        &mut self,
        start: Nanos,
        stream: u8,
        done: &mut Vec<Nanos>,
    ) -> Result<(), Refusal> {
        let count = self.next_units.len() as u64;
        self.host.requests[Operation::Write as usize] += count;
        self.host.bytes[Operation::Write as usize] += count * u64::from(self.unit_bytes);
        self.host.write_units += count;
        self.promise = None;
        Ok(self.ftl.write_in_turn(&mut self.nand, start, &self.next_units, stream, done)?)
    }

    #[inline]
    fn write_unit(&mut self, lpn: Lpn, start: Nanos, stream: u8) -> Result<Nanos, Refusal> {
        self.host.write_units += 1;
        let content = self.shadow.as_mut().and_then(|shadow| shadow.write(lpn));
        match &mut self.buffer {
            None => {
                let done = self.ftl.write_to_stream(&mut self.nand, start, lpn, content, stream)?;
                self.hold(start, done);
                Ok(done)
            }
            Some(buffer) => {
                let admitted = buffer.admit(start);
                let done =
                    self.ftl.write_to_stream(&mut self.nand, admitted, lpn, content, stream)?;
                buffer.hold(done);
                Ok(admitted)
            }
        }
    }

    #[inline]
    fn read_unit(&mut self, lpn: Lpn, start: Nanos, bytes: u32) -> Result<Nanos, Refusal> {
        let outcome = self.ftl.read(&mut self.nand, start, lpn, bytes)?;
        self.hold(start, outcome.done_at);
        self.compare(lpn, &outcome.content)?;
        Ok(outcome.done_at)
    }

    /// Remembers the chip command that ends at `done`, if the last unit needed one. Units of one
    /// request end in the order of their issue, near enough for the last to stand for all.
    #[inline]
    fn hold(&mut self, start: Nanos, done: Nanos) {
        if self.ends_may_move && done > start {
            self.promise = Some(self.nand.promise());
        }
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
        start: Nanos,
        stream: u8,
    ) -> Result<Nanos, Refusal> {
        let mut done = start;
        for lpn in self.units(offset, end) {
            let (from, to) = self.covered(lpn, offset, end);
            let mut issued = if SERIAL { done } else { start };
            if to - from < u64::from(self.unit_bytes) {
                self.host.modify_read_units += 1;
                issued = self.read_unit(Lpn(lpn), issued, self.unit_bytes)?;
            }
            done = done.max(self.write_unit(Lpn(lpn), issued, stream)?);
        }
        Ok(done)
    }

    fn read_range<const SERIAL: bool>(
        &mut self,
        offset: u64,
        end: u64,
        start: Nanos,
    ) -> Result<Nanos, Refusal> {
        let mut done = start;
        for lpn in self.units(offset, end) {
            let (from, to) = self.covered(lpn, offset, end);
            let issued = if SERIAL { done } else { start };
            self.host.read_units += 1;
            done = done.max(self.read_unit(Lpn(lpn), issued, to_u32(to - from))?);
        }
        Ok(done)
    }

    fn trim_range(&mut self, offset: u64, end: u64, start: Nanos) -> Result<Nanos, Refusal> {
        let first = offset.div_ceil(u64::from(self.unit_bytes));
        let count = (end >> self.unit_shift).saturating_sub(first);
        if count == 0 {
            return Ok(start);
        }
        self.host.trim_units += count;
        if let Some(shadow) = &mut self.shadow {
            shadow.trim(first, count);
        }
        Ok(self.ftl.trim(&mut self.nand, start, Lpn(first), count)?)
    }

    fn flush(&mut self, start: Nanos) -> Result<Nanos, Refusal> {
        let drained = self.buffer.as_mut().map_or(start, |buffer| buffer.drain(start));
        Ok(self.ftl.flush(&mut self.nand, drained)?)
    }
}
