//! What a command takes: time and energy.
//!
//! 1. read = command + array read, then transfer; program = command + transfer, then array program;
//!    erase = command + array erase (flash reference 1.2).
//! 2. A bus speed of 0 means that the transfer is folded into the array times.

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
