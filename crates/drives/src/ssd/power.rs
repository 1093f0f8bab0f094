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
use nandu_base::Nanos;
use nandu_device::queue::InFlight;
use nandu_device::{DeviceError, Request};
use nandu_ftl::FtlError;

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
        self.pass_to(at);
        self.end_requests(at);
        if self.config.power_loss_protected {
            // The capacitor lasts until memory is empty; an error leaves what it left on the way.
            self.empty_memory()?;
        } else {
            self.nand.power_cut(at).map_err(|error| device_error(error.into()))?;
        }
        self.buffer = Self::empty_buffer(&self.config, self.unit_bytes);
        self.read_ahead = ReadAhead::default();
        self.power_is_on = false;
        if let Some(power) = &mut self.power {
            power.cut(at);
        }
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
            let written_at = self.nand.idle_at();
            // The commands end on the power of the capacitor; the requests that waited for them
            // failed at the cut.
            while self.nand.take_finished().is_some() {}
            now.max(written_at)
        } else {
            let start = self.nand.at(now);
            let recovered =
                self.ftl.recover(&mut self.nand, start).map_err(|error| match error {
                    FtlError::NoRecovery => DeviceError::Unsupported { what: error.to_string() },
                    other => device_error(other),
                })?;
            self.nand.finish(recovered)
        };
        self.controller_free_at = ready_at;
        (self.link_in_free_at, self.link_out_free_at) = (ready_at, ready_at);
        self.power_is_on = true;
        if let Some(power) = &mut self.power {
            power.restore(now, ready_at);
        }
        Ok(ready_at)
    }

    /// What was done by `at` stays done; the rest ends now.
    fn end_requests(&mut self, at: Nanos) {
        self.events.clear();
        let active: Vec<_> = self.active.drain(..).flatten().collect();
        let waiting = self.waiting.iter_mut().flat_map(|queue| queue.drain(..));
        let waiting = waiting.map(|(issued_at, request)| InFlight::of(request, issued_at));
        let ended: Vec<_> =
            active.into_iter().map(|active| active.in_flight).chain(waiting).collect();
        self.free_places.clear();
        self.free_slots = self.config.slots();
        for in_flight in ended {
            self.completions.push(in_flight.complete(at, Err(DeviceError::PowerLost)));
        }
    }

    /// Answers a request that comes while there is no power, with that error.
    pub(super) fn refuse_without_power(&mut self, now: Nanos, request: Request) {
        let error = Err(DeviceError::PowerLost);
        self.completions.push(InFlight::of(request, now).complete(now, error));
    }

    pub(super) fn audit_power(&self) {
        let in_memory = self.buffer.peek_any().is_some() || self.has_requests();
        assert!(self.power_is_on || !in_memory, "power, rule 3: memory is empty without power");
    }
}
