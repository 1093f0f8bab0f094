//! A device that writes every request it passes on into a compact trace.
//!
//! Where [`nandu_device::Recorder`] keeps what completed, with results, in memory for tests, this one
//! streams what was issued to a file and can run for days.
//!
//! 1. The recorded device behaves as if it were not recorded; rejected requests are not recorded.
//! 2. The first request is at zero. On a virtual device the caller's time counts, on a wall-clock
//!    device its own, since it starts a request whatever the caller says.
//! 3. A sink that fails ends the recording, not the device; [`TraceRecorder::finish`] says so.

use crate::{CompactWriter, TraceError, TraceRequest};
use nandu_base::{Nanos, SectorIndex};
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, EnergyParts, Inspect, Operation,
    Rejected, Request, TimeSource,
};
use std::io::Write;

/// A device that is recorded.
#[derive(Debug)]
pub struct TraceRecorder<D, W: Write> {
    inner: D,
    writer: CompactWriter<W>,
    first: Option<Nanos>,
    failure: Option<TraceError>,
}

impl<D: Device, W: Write> TraceRecorder<D, W> {
    /// Records `inner` into `sink`, named `file` in messages.
    ///
    /// # Errors
    /// [`TraceError::File`] if the sink does not take the first bytes.
    pub fn new(inner: D, sink: W, file: &str) -> Result<Self, TraceError> {
        let writer = CompactWriter::new(sink, file)?;
        Ok(Self { inner, writer, first: None, failure: None })
    }

    /// Ends the trace and gives device and sink back.
    ///
    /// # Errors
    /// [`TraceError::File`] if the sink failed, now or earlier.
    pub fn finish(self) -> Result<(D, W), TraceError> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok((self.inner, self.writer.finish()?)),
        }
    }

    fn record(&mut self, now: Nanos, mut request: TraceRequest) {
        let first = *self.first.get_or_insert(now);
        request.at = now.saturating_sub(first);
        if self.failure.is_none() {
            self.failure = self.writer.push(&request).err();
        }
    }
}

impl<D: Device, W: Write> Device for TraceRecorder<D, W> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        let info = self.inner.info();
        let sector_bytes = u64::from(info.geometry.sector_bytes);
        let issued_at = match info.time_source {
            TimeSource::Virtual => now,
            TimeSource::Wall => self.inner.now(),
        };
        let located = request.operation != Operation::Flush;
        let scale = |sectors: u64| if located { sectors.saturating_mul(sector_bytes) } else { 0 };
        let record = TraceRequest {
            at: Nanos::ZERO,
            operation: request.operation,
            offset_bytes: scale(request.first_sector.0),
            length_bytes: scale(u64::from(request.sector_count)),
            stream: 0,
        };
        self.inner.submit(now, request)?;
        self.record(issued_at, record);
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.inner.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        self.inner.empty_cache()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.inner.energy_by(time)
    }
}

impl<D: Inspect, W: Write> Inspect for TraceRecorder<D, W> {
    fn peek(&self, first_sector: SectorIndex, bytes: &mut [u8]) {
        self.inner.peek(first_sector, bytes);
    }

    fn poke(&mut self, first_sector: SectorIndex, bytes: &[u8]) {
        self.inner.poke(first_sector, bytes);
    }
}
