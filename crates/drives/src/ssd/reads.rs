//! Reads: what lies in the drive's memory is answered from there, the rest comes from the chips; all of
//! it leaves over the link in the order in which requests have their data.

use super::flow::Watcher;
use super::{Event, Ssd, UnitPart, device_error, overlay, sector_mask};
use nandu_base::{Lpn, Nanos, to_u32};
use nandu_device::{DeviceError, IoBuffer};
use nandu_nand::Ticket;

impl Ssd {
    pub(super) fn read(&mut self, place: u32) {
        let active = self.request(place);
        let (first, count) = (active.first_sector, active.sector_count);
        let continues = active.first_ready_at.take().is_some();
        let mut buffer = active.in_flight.buffer.take();
        let read = self.read_parts((first, count), continues, buffer.as_mut());
        self.request(place).in_flight.buffer = buffer;
        match read {
            Ok((first, all)) => {
                if first != all {
                    self.watch(first, Watcher::First(place));
                }
                self.watch(all, Watcher::Read(place));
            }
            Err(error) => {
                self.request(place).result = Err(error);
                self.at(self.nand.now(), Event::Told(place));
            }
        }
    }

    /// Fetches all parts; answers the tickets of the first and of all.
    fn read_parts(
        &mut self,
        (first, count): (u64, u32),
        continues: bool,
        mut buffer: Option<&mut IoBuffer>,
    ) -> Result<(Ticket, Ticket), DeviceError> {
        if continues {
            self.fetch_ahead(first, first + u64::from(count))?;
        }
        let mut tickets: Option<(Ticket, Ticket)> = None;
        for part in self.parts(first, count) {
            let done = self.read_part(part, buffer.as_deref_mut())?;
            match &mut tickets {
                None => tickets = Some((done, done)),
                Some((_, all)) => self.nand.gather(all, done),
            }
        }
        Ok(tickets.expect("a read covers at least one sector"))
    }

    fn read_part(
        &mut self,
        part: UnitPart,
        buffer: Option<&mut IoBuffer>,
    ) -> Result<Ticket, DeviceError> {
        let wanted = sector_mask(part.sectors);
        let present = self.buffer.peek(part.lpn).map_or(0, |unit| unit.present);
        let range = self.byte_range(part);
        let (ready, content) = if present & wanted == wanted {
            (Ticket::READY, None)
        } else if let Some(content) = self.buffer.waiting_content(part.lpn) {
            (Ticket::READY, content)
        } else if self.buffer.holds(part.lpn) {
            (Ticket::READY, self.ftl.peek(&self.nand, part.lpn))
        } else if let Some(ready) = self.read_ahead.ready(part.lpn) {
            (ready, self.ftl.peek(&self.nand, part.lpn))
        } else {
            let bytes = to_u32(range.len() as u64);
            let outcome = self
                .ftl
                .read(&mut self.nand, Ticket::READY, part.lpn, bytes)
                .map_err(device_error)?;
            (outcome.done, outcome.content)
        };
        if let Some(buffer) = buffer {
            let target = &mut buffer[part.buffer_offset..part.buffer_offset + range.len()];
            match content {
                Some(content) => target.copy_from_slice(&content[range.clone()]),
                None => target.fill(0),
            }
            if let Some(unit) = self.buffer.peek(part.lpn) {
                overlay(unit, part.sectors.0, self.info.geometry.sector_bytes as usize, target);
            }
        }
        Ok(ready)
    }

    fn fetch_ahead(&mut self, first: u64, end: u64) -> Result<(), DeviceError> {
        if self.config.read_ahead_bytes == 0 {
            return Ok(());
        }
        let per_unit = u64::from(self.sectors_per_unit);
        let window = self.config.read_ahead_bytes.div_ceil(u64::from(self.unit_bytes));
        let from = self.read_ahead.advance_to(Lpn(first / per_unit));
        let to = (end.div_ceil(per_unit) + window).min(self.unit_count);
        for lpn in from.0..to {
            let outcome = self
                .ftl
                .read(&mut self.nand, Ticket::READY, Lpn(lpn), self.unit_bytes)
                .map_err(device_error)?;
            self.read_ahead.push(outcome.done);
        }
        Ok(())
    }

    pub(super) fn first_unit_ready(&mut self, place: u32) {
        let now = self.present();
        self.request(place).first_ready_at = Some(now);
    }

    /// The last unit is in the controller: the data take the link, from their first unit on, and the
    /// last unit follows when it is ready.
    pub(super) fn read_ready(&mut self, place: u32) {
        let last = self.present();
        let active = self.request(place);
        let first = active.first_ready_at.unwrap_or(last);
        let count = active.sector_count;
        let bytes = self.info.geometry.bytes_of(count);
        let (start, busy) = (self.link_out_free_at.max(first), self.link_to_host_time(bytes));
        self.link_out_use.add(start - first, busy);
        let streamed = start + busy;
        let last_unit = bytes.min(u64::from(self.unit_bytes));
        self.link_out_free_at = streamed.max(last + self.link_to_host_time(last_unit));
        let told_at: Nanos = self.link_out_free_at + self.config.pipeline_ns;
        self.at(told_at, Event::Told(place));
    }
}
