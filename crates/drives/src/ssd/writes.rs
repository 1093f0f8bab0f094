//! Writes, trims and flushes: over the link into memory, and through the line for slots to the layer.

use super::flow::Watcher;
use super::write_buffer::Job;
use super::{Event, OpenUnit, Ssd, UnitPart, device_error, overlay, sector_mask};
use nandu_base::{Lpn, to_u32};
use nandu_device::DeviceError;
use nandu_nand::Ticket;
use std::sync::Arc;

impl Ssd {
    /// Units go to the buffer or to flash as they arrive over the link.
    pub(super) fn write(&mut self, place: u32) {
        let active = self.request(place);
        let (first, count) = (active.first_sector, active.sector_count);
        let start = self.link_in_free_at.max(self.present());
        let bytes = self.info.geometry.bytes_of(count);
        let busy = self.link_time(bytes);
        self.link_in_use.add(start - self.present(), busy);
        self.link_in_free_at = start + busy;
        let mut part_count = 0;
        for (number, part) in (0..).zip(self.parts(first, count)) {
            let end = part.buffer_offset + self.byte_range(part).len();
            self.at(start + self.link_time(end as u64), Event::UnitArrived(place, number));
            part_count += 1;
        }
        self.request(place).open_parts = part_count;
    }

    pub(super) fn unit_arrived(&mut self, place: u32, number: u32) {
        let active = self.request(place);
        let (first, count) = (active.first_sector, active.sector_count);
        let buffer = active.in_flight.buffer.take();
        let mut parts = self.parts(first, count);
        let part = parts.nth(number as usize).expect("as many arrive as there are");
        let range = part.buffer_offset..part.buffer_offset + self.byte_range(part).len();
        let bytes = buffer.as_ref().map(|buffer| &buffer[range]);
        self.write_part(place, part, bytes);
        // The request may have ended with it, but its place is given back only when the host is told.
        self.request(place).in_flight.buffer = buffer;
    }

    /// Takes a part of a unit into memory; counts one part of the request as done when it is
    /// acknowledged.
    fn write_part(&mut self, place: u32, part: UnitPart, bytes: Option<&[u8]>) {
        self.read_ahead.invalidate(part.lpn, Lpn(part.lpn.0 + 1));
        if part.sectors == (0, self.sectors_per_unit) {
            self.buffer.take(part.lpn);
            return self.program(part.lpn, bytes.map(Arc::from), Ticket::READY, Some(place));
        }
        let range = self.byte_range(part);
        let unit_bytes = self.unit_bytes as usize;
        let mut evicted = None;
        if self.buffer.touch(part.lpn).is_none() {
            evicted = self.buffer.open(OpenUnit { lpn: part.lpn, present: 0, content: None });
        }
        let unit = self.buffer.touch(part.lpn).expect("the unit was just opened");
        unit.present |= sector_mask(part.sectors);
        match (bytes, &mut unit.content) {
            (Some(bytes), content) => {
                let content = content.get_or_insert_with(|| vec![0; unit_bytes].into_boxed_slice());
                content[range].copy_from_slice(bytes);
            }
            (None, Some(content)) => content[range].fill(0),
            (None, None) => {}
        }
        let is_full = unit.present == sector_mask((0, self.sectors_per_unit));
        // The part waits for the unit that made room, and for its own if that is full.
        let waits = u32::from(evicted.is_some()) + u32::from(is_full);
        self.request(place).open_parts += waits;
        if let Some(evicted) = evicted {
            self.close(evicted, Some(place));
        }
        if is_full && let Some(unit) = self.buffer.take(part.lpn) {
            self.program(unit.lpn, unit.content.map(Arc::from), Ticket::READY, Some(place));
        }
        self.part_done(place, Ok(()));
    }

    /// Writes a partly filled unit to flash, its missing sectors taken from there.
    fn close(&mut self, unit: OpenUnit, place: Option<u32>) {
        let (old, after) = match self.buffer.waiting_content(unit.lpn) {
            Some(content) => (content, Ticket::READY),
            None => match self.ftl.read(&mut self.nand, Ticket::READY, unit.lpn, self.unit_bytes) {
                Ok(outcome) => (outcome.content, outcome.done),
                Err(error) => return self.acknowledge(place, Err(device_error(error))),
            },
        };
        let content = match (old, &unit.content) {
            (None, None) => None,
            (old, _) => {
                let mut merged = old.map_or_else(
                    || vec![0; self.unit_bytes as usize].into_boxed_slice(),
                    |old| Box::from(&old[..]),
                );
                let sector_bytes = self.info.geometry.sector_bytes as usize;
                overlay(&unit, 0, sector_bytes, &mut merged);
                Some(Arc::from(merged))
            }
        };
        self.program(unit.lpn, content, after, place);
    }

    fn program(&mut self, lpn: Lpn, content: Option<Arc<[u8]>>, after: Ticket, place: Option<u32>) {
        self.buffer.wait(Job::Unit { lpn, content, after, place });
        self.go_on();
    }

    fn acknowledge(&mut self, place: Option<u32>, result: Result<(), DeviceError>) {
        if let Some(place) = place {
            self.part_done(place, result);
        }
    }

    /// Hands to the layer what has its turn.
    pub(super) fn go_on(&mut self) {
        while let Some((job, slot)) = self.buffer.next_job() {
            match job {
                Job::Unit { lpn, content, after, place } => {
                    self.hand_over((lpn, content, after), slot, place);
                }
                Job::Trim { lpn, place } => {
                    match self.ftl.trim(&mut self.nand, Ticket::READY, lpn, 1) {
                        Ok(done) => self.watch(done, Watcher::Part(place)),
                        Err(error) => self.part_done(place, Err(device_error(error))),
                    }
                }
                Job::Flush { place } => {
                    // The rows that wait are programmed first: what is in memory may wait for them.
                    match self.ftl.flush(&mut self.nand, Ticket::READY) {
                        Ok(flushed) => {
                            let programs = self.buffer.programs();
                            let done = self.nand.both(flushed, programs);
                            self.watch(done, Watcher::Flush(place));
                        }
                        Err(error) => {
                            self.request(place).result = Err(device_error(error));
                            self.at(self.nand.now(), Event::Told(place));
                        }
                    }
                }
            }
        }
    }

    fn hand_over(
        &mut self,
        (lpn, content, after): (Lpn, Option<Arc<[u8]>>, Ticket),
        slot: Option<u32>,
        place: Option<u32>,
    ) {
        let written = self.ftl.write(&mut self.nand, after, lpn, content);
        match (written, slot) {
            (Ok(done), Some(slot)) => {
                self.buffer.note_program(&mut self.nand, done);
                self.acknowledge(place, Ok(()));
                self.watch(done, Watcher::Slot(slot));
            }
            (Ok(done), None) => {
                self.buffer.note_program(&mut self.nand, done);
                self.buffer.forget(lpn);
                if let Some(place) = place {
                    self.watch(done, Watcher::Part(place));
                }
            }
            (Err(error), slot) => {
                // The slot must come back, or the buffer would shrink with every failure.
                match slot {
                    Some(slot) => self.buffer.release(slot),
                    None => self.buffer.forget(lpn),
                }
                self.acknowledge(place, Err(device_error(error)));
            }
        }
    }

    /// Puts everything that is partly filled in line.
    pub(super) fn close_all(&mut self) {
        while let Some(unit) = self.buffer.pop_open() {
            self.close(unit, None);
        }
    }

    pub(super) fn flush(&mut self, place: u32) {
        if self.config.power_loss_protected {
            let told_at = self.present() + self.config.flush_ns + self.config.pipeline_ns;
            return self.at(told_at, Event::Told(place));
        }
        self.close_all();
        self.buffer.wait(Job::Flush { place });
        self.go_on();
    }

    /// Whole units are unmapped; sectors of partly covered ones are overwritten with zeros, so that
    /// rule 5 of the contract holds.
    pub(super) fn trim(&mut self, place: u32) {
        let active = self.request(place);
        let (first, count) = (active.first_sector, active.sector_count);
        let parts: Vec<UnitPart> = self.parts(first, count).collect();
        self.request(place).open_parts = 1 + to_u32(parts.len() as u64);
        for part in parts {
            if part.sectors == (0, self.sectors_per_unit) {
                self.buffer.take(part.lpn);
                self.read_ahead.invalidate(part.lpn, Lpn(part.lpn.0 + 1));
                self.buffer.wait(Job::Trim { lpn: part.lpn, place });
            } else {
                self.write_part(place, part, None);
            }
        }
        self.go_on();
        self.at(self.present() + self.config.trim_ns, Event::PartDone(place));
    }

    /// What is in memory is written at once, however little room there is: a capacitor lasts for it.
    ///
    /// # Errors
    /// The first of the layer.
    pub(super) fn empty_memory(&mut self) -> Result<(), DeviceError> {
        let mut first_error = None;
        let mut write = |ssd: &mut Self, job: Job| {
            let outcome = match job {
                Job::Unit { lpn, content, .. } => {
                    ssd.ftl.write(&mut ssd.nand, Ticket::READY, lpn, content).err()
                }
                Job::Trim { lpn, .. } => ssd.ftl.trim(&mut ssd.nand, Ticket::READY, lpn, 1).err(),
                Job::Flush { .. } => None,
            };
            first_error = first_error.take().or(outcome);
        };
        for job in self.buffer.take_waiting() {
            write(self, job);
        }
        self.close_all();
        for job in self.buffer.take_waiting() {
            write(self, job);
        }
        let flushed = self.ftl.flush(&mut self.nand, Ticket::READY).err();
        first_error.take().or(flushed).map_or(Ok(()), |error| Err(device_error(error)))
    }
}
