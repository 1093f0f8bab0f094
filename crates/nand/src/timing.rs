//! What a command takes: time and energy.
//!
//! 1. read = command + array read, then transfer; program = command + transfer, then array program;
//!    erase = command + array erase (flash reference 1.2).
//! 2. A bus speed of 0 means that the transfer is folded into the array times, and its energy into
//!    that of the array.
//! 3. The energy of an array operation is supply voltage x current x its time: data sheets print the
//!    currents, not the energies. A transfer's is a figure for each byte.

use crate::NandError;
use nandu_base::{Nanos, Picojoules};
use serde::{Deserialize, Serialize};

/// Times of the chip, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array read of a flash page (tR).
    pub read_ns: Nanos,
    /// Array program of a flash page (tPROG).
    pub program_ns: Nanos,
    /// Erase of an erase block (tBERS).
    pub erase_ns: Nanos,
    /// Command and address cycles and the controller's firmware, on the die, for every command.
    #[serde(default)]
    pub command_ns: Nanos,
    /// Bus speed of a channel; 0 = folded (invariant 2).
    #[serde(default)]
    pub bus_bytes_per_second: u64,
    /// Whether a die takes the next transfer while its array works (cache program, cache read).
    #[serde(default)]
    pub cache_register: bool,
}

impl Timing {
    /// Checks that no time is longer than 4.29 s, which the event core counts in 32 bits.
    ///
    /// # Errors
    /// [`NandError::Configuration`] names the field.
    pub fn validate(&self) -> Result<(), NandError> {
        for (name, time) in [
            ("read_ns", self.read_ns),
            ("program_ns", self.program_ns),
            ("erase_ns", self.erase_ns),
            ("command_ns", self.command_ns),
        ] {
            if time.0 > LONGEST_NS {
                let text = format!("timing: {name} is {}, must be at most {LONGEST_NS}", time.0);
                return Err(NandError::Configuration(text));
            }
        }
        Ok(())
    }
}

/// The longest part of a command. A copy-back is a read and a program.
const LONGEST_NS: u64 = 2_000_000_000;

/// Energy of the chip; all zero means that energy is not modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Energy {
    /// Array read of a flash page.
    pub read_picojoules: Picojoules,
    /// Array program of a flash page.
    pub program_picojoules: Picojoules,
    /// Erase of an erase block.
    pub erase_picojoules: Picojoules,
    /// One byte over the bus.
    pub transfer_picojoules_per_byte: Picojoules,
}

/// What a chip draws while it works, from which [`Energy`] follows for any [`Timing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// Supply voltage, in mV.
    pub millivolts: u64,
    /// Current of one plane while its array reads, programs or erases, in uA. A data sheet's ICC1 to
    /// ICC3 are of the die; the presets share them among its planes.
    pub plane_microamperes: u64,
    /// One byte over the bus; 0 where the transfer is folded.
    pub transfer_picojoules_per_byte: Picojoules,
}

impl Supply {
    /// Energy of the chip that takes `timing` (invariant 3), rounded down to a picojoule.
    ///
    /// ```
    /// # use nandu_base::{Nanos, Picojoules};
    /// # use nandu_nand::preset;
    /// let chip = preset("myers_slc").unwrap();
    /// // 3.3 V x 25 mA x 200 us = 16.5 uJ.
    /// assert_eq!(chip.supply.energy(&chip.timing).program_picojoules, Picojoules(16_500_000));
    /// ```
    #[must_use]
    pub const fn energy(&self, timing: &Timing) -> Energy {
        // mV x uA = nW, and nW x ns = 1e-6 pJ.
        let nanowatts = self.millivolts * self.plane_microamperes;
        Energy {
            read_picojoules: Picojoules(nanowatts * timing.read_ns.0 / 1_000_000),
            program_picojoules: Picojoules(nanowatts * timing.program_ns.0 / 1_000_000),
            erase_picojoules: Picojoules(nanowatts * timing.erase_ns.0 / 1_000_000),
            transfer_picojoules_per_byte: self.transfer_picojoules_per_byte,
        }
    }
}
