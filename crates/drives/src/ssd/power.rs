//! Power cuts of a whole drive (flash reference 1.1 and 2.10).
//!
//! ```text
//!                    without capacitor                     power_loss_protected
//! requests           not done by then: PowerLost           the same
//! open units         lost                                  written to flash
//! waiting programs   not begun: undone; under way: torn    carried out
//! map                rebuilt from flash by power_on        kept: the controller had time to save it
//! ```
//!
//! 1. While the power is off every request ends with `PowerLost` and changes nothing.
//! 2. A mapping unit holds the data of one moment: a request is torn between units, never inside one.
//! 3. Without power nothing is in memory.

use super::{Ssd, device_error};
use crate::ssd::read_ahead::ReadAhead;
use crate::ssd::write_buffer::WriteBuffer;
use nandu_base::{Nanos, to_index};
use nandu_device::queue::InFlight;
use nandu_device::{DeviceError, Request};
use nandu_ftl::FtlError;
use std::cmp::Reverse;

impl Ssd {
    /// Cuts the power at `at`, which is not before [`nandu_device::Device::now`]. Requests that are not
    /// done by then end with [`DeviceError::PowerLost`]; whether they left anything behind is open.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the drive was built without `power_cut_journal`.
    pub fn power_cut(&mut self, at: Nanos) -> Result<(), DeviceError> {
        if !self.nand.config().power_cut_journal {
            let what = "a power cut of a drive without `power_cut_journal = true`".into();
            return Err(DeviceError::Unsupported { what });
        }
        let at = self.clock.advance_to(at);
        if !self.power_is_on {
            return Ok(());
        }
        self.end_requests(at);
        if self.config.power_loss_protected {
            // The capacitor lasts until memory is empty; an error leaves what it left on the way.
            let closed_at = self.close_all(at)?;
            self.ftl.flush(&mut self.nand, closed_at).map_err(device_error)?;
        } else {
            self.nand.power_cut(at).map_err(|error| device_error(error.into()))?;
        }
        let slot_count = to_index(self.config.write_buffer_bytes / u64::from(self.unit_bytes));
        self.buffer = WriteBuffer::new(slot_count, self.config.open_unit_count as usize);
        self.read_ahead = ReadAhead::default();
        self.power_is_on = false;
        Ok(())
    }

    /// Restores the power at `now`; answers when the drive serves again. Requests that come earlier
    /// wait. With the power on it does nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the translation layer cannot rebuild its map. The drive stays
    /// off then, and after any other error.
    pub fn power_on(&mut self, now: Nanos) -> Result<Nanos, DeviceError> {
        let now = self.clock.advance_to(now);
        if self.power_is_on {
            return Ok(now);
        }
        let ready_at = if self.config.power_loss_protected {
            now.max(self.nand.idle_at())
        } else {
            self.ftl.recover(&mut self.nand, now).map_err(|error| match error {
                FtlError::NoRecovery => DeviceError::Unsupported { what: error.to_string() },
                other => device_error(other),
            })?
        };
        self.controller_free_at = ready_at;
        (self.link_in_free_at, self.link_out_free_at) = (ready_at, ready_at);
        self.slots = (0..self.config.native_queue_depth).map(|_| Reverse(ready_at)).collect();
        self.power_is_on = true;
        Ok(ready_at)
    }

    /// What was done by `at` stays done; the rest ends now.
    fn end_requests(&mut self, at: Nanos) {
        self.serve_link(at);
        let mut ended = Vec::new();
        while let Some(completion) = self.completions.pop(at) {
            ended.push(completion);
        }
        while let Some(mut completion) = self.completions.pop(Nanos::MAX) {
            completion.completed_at = at;
            completion.result = Err(DeviceError::PowerLost);
            ended.push(completion);
        }
        for read in self.staged_requests.drain(..).flatten() {
            ended.push(read.in_flight.complete(at, Err(DeviceError::PowerLost)));
        }
        self.staged.clear();
        for completion in ended {
            self.completions.push(completion);
        }
    }

    /// Rule 1.
    pub(super) fn refuse_without_power(&mut self, now: Nanos, request: Request) {
        let error = Err(DeviceError::PowerLost);
        self.completions.push(InFlight::of(request, now).complete(now, error));
    }

    pub(super) fn audit_power(&self) {
        let in_memory = self.buffer.peek_any().is_some() || !self.staged.is_empty();
        assert!(self.power_is_on || !in_memory, "power, rule 3: memory is empty without power");
    }
}
