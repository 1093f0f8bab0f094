//! The drive itself: it is asked what the trace says, and its clock tells.
//!
//! 1. What is read before it was written lies there before the clock starts.
//! 2. Requests are made in the order of the trace, as many in flight as is said; the processor takes no
//!    time.

use super::{CostModel, CostUnit, Trace, invalid};
use crate::ExternalError;
use nandu_base::to_index;
use nandu_device::{DeviceError, IoBuffer, Operation};
use nandu_storage::volume::{Io, IoOwner};
use nandu_storage::{FileId, StorageError};
use std::collections::VecDeque;

/// A drive for each volume of a trace.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Where requests of each volume go; blocks of the trace are of whole sectors of it. Several are
    /// on one clock ([`crate::on_one_clock`]), or each goes on without the others.
    pub volumes: Vec<Io>,
    /// Requests in flight, 1 at least.
    pub in_flight: usize,
}

/// The file of a volume, removed when dropped.
struct Lane {
    io: Io,
    file: FileId,
    flights: VecDeque<u64>,
}

/// Bytes with which files are filled before the clock starts.
const FILL_BYTES: u64 = 1 << 20;

impl Lane {
    fn new(io: &Io, number: usize) -> Result<Self, StorageError> {
        let file = io.create(&format!("external-cost-{number}"))?;
        Ok(Self { io: io.clone(), file, flights: VecDeque::new() })
    }

    fn begin(
        &mut self,
        operation: Operation,
        offset_bytes: u64,
        byte_count: usize,
    ) -> Result<(), StorageError> {
        let alignment = to_index(u64::from(self.io.buffer_alignment().max(512)));
        let buffer = IoBuffer::with_alignment(byte_count, alignment);
        let owner = IoOwner::Operator;
        let ticket = self.io.submit_ahead(owner, self.file, operation, offset_bytes, buffer)?;
        self.flights.push_back(ticket);
        Ok(())
    }

    fn end(&mut self) -> Result<(), StorageError> {
        let Some(ticket) = self.flights.pop_front() else { return Ok(()) };
        let failed = |error: DeviceError| StorageError::Device {
            what: format!("asking {} what a trace asks", self.io.name()),
            error,
        };
        self.io.wait(ticket).result.map(drop).map_err(failed)
    }

    /// Writes all up to `end_bytes`.
    fn fill(&mut self, end_bytes: u64) -> Result<(), StorageError> {
        let mut offset_bytes = 0;
        while offset_bytes < end_bytes {
            let byte_count = FILL_BYTES.min(end_bytes - offset_bytes);
            self.begin(Operation::Write, offset_bytes, to_index(byte_count))?;
            self.end()?;
            offset_bytes += byte_count;
        }
        Ok(())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        while let Some(ticket) = self.flights.pop_front() {
            self.io.wait(ticket);
        }
        // Somebody else's error, if any, has been told.
        let _ = self.io.remove(self.file);
    }
}

impl CostModel for Drive {
    fn unit(&self) -> CostUnit {
        CostUnit::Nanoseconds
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        if self.in_flight == 0 || self.volumes.len() < trace.volume_count() as usize {
            return invalid(
                "a drive is asked for each volume of a trace, one request at least at a time",
            );
        }
        let lanes = self.volumes.iter().enumerate().map(|(number, io)| Lane::new(io, number));
        let mut lanes = lanes.collect::<Result<Vec<_>, _>>()?;
        let mut ends = vec![0; lanes.len()];
        for access in trace.accesses().iter().filter(|access| !access.is_write) {
            let end = &mut ends[access.volume as usize];
            *end = access.end_bytes().max(*end);
        }
        for (lane, &end) in lanes.iter_mut().zip(&ends) {
            lane.fill(end)?;
        }
        let Some(first) = self.volumes.first() else { return Ok(0) };
        let before = first.present();
        // In the order of all volumes, the oldest is waited for.
        let mut order = VecDeque::with_capacity(self.in_flight);
        for access in trace.accesses() {
            if order.len() == self.in_flight
                && let Some(oldest) = order.pop_front()
            {
                let oldest: &mut Lane = &mut lanes[oldest];
                oldest.end()?;
            }
            let volume = access.volume as usize;
            let byte_count = to_index(u64::from(access.byte_count));
            lanes[volume].begin(access.operation(), access.offset_bytes, byte_count)?;
            order.push_back(volume);
        }
        for volume in order {
            lanes[volume].end()?;
        }
        Ok(first.present().saturating_sub(before).0)
    }
}
