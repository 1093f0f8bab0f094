//! What a command takes: time and energy.
//!
//! 1. read = command + array read, then transfer; program = command + transfer, then array program;
//!    erase = command + array erase (flash reference 1.2).
//! 2. A bus speed of 0 means that the transfer is folded into the array times, and its energy into
//!    that of the array.
//! 3. Where flash pages of several types share cells, a program takes what its type takes, and
//!    `program_ns` is their mean.
//! 4. The energy of an array operation is supply voltage x current x its time: data sheets print the
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
    /// Array program of a flash page (tPROG); where there are types, their mean.
    pub program_ns: Nanos,
    /// Array program by type of flash page, where types differ.
    #[serde(default, skip_serializing_if = "PageTypes::is_empty")]
    pub program_type_ns: PageTypes,
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
    /// Checks that no time is longer than 4.29 s, which the event core counts in 32 bits, and that
    /// `program_ns` is the mean of the types.
    ///
    /// # Errors
    /// [`NandError::Configuration`] names the field.
    pub fn validate(&self) -> Result<(), NandError> {
        let types = self.program_type_ns.times().iter().map(|&time| ("program_type_ns", time));
        let others = [
            ("read_ns", self.read_ns),
            ("program_ns", self.program_ns),
            ("erase_ns", self.erase_ns),
            ("command_ns", self.command_ns),
        ];
        for (name, time) in others.into_iter().chain(types) {
            if time.0 > LONGEST_NS {
                let text = format!("timing: {name} is {}, must be at most {LONGEST_NS}", time.0);
                return Err(NandError::Configuration(text));
            }
        }
        if self.program_type_ns.mean().is_some_and(|mean| mean != self.program_ns) {
            let text = format!(
                "timing: program_ns is {}, must be the mean of program_type_ns or left out",
                self.program_ns.0
            );
            return Err(NandError::Configuration(text));
        }
        Ok(())
    }
}

/// Program times of the types of flash pages that share cells: lower and upper of two bits a cell,
/// lower, middle and upper of three, four of four. None means that all flash pages are alike.
///
/// The type of a flash page is its index modulo the number of types: the pages of a word line come one
/// after the other. Real chips program a word line's later pages only when its neighbours have their
/// first ones, so that lower pages run ahead of upper ones by several indices; how far is each
/// maker's own. Whole erase blocks take the same time either way.
///
/// ```
/// # use nandu_base::Nanos;
/// # use nandu_nand::PageTypes;
/// let types = PageTypes::new(&[Nanos(400), Nanos(1600)]).unwrap();
/// assert_eq!((types.time_of(0), types.time_of(3)), (Some(Nanos(400)), Some(Nanos(1600))));
/// assert_eq!(types.mean(), Some(Nanos(1000)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Nanos>", into = "Vec<Nanos>")]
pub struct PageTypes {
    count: u8,
    program_ns: [Nanos; PageTypes::COUNT_MAX],
}

impl PageTypes {
    /// Bits of a cell, at most.
    pub const COUNT_MAX: usize = 4;
    /// All flash pages are alike.
    pub const ALIKE: Self = Self { count: 0, program_ns: [Nanos::ZERO; Self::COUNT_MAX] };

    /// Types with these program times, in the order of their indices.
    ///
    /// # Errors
    /// [`NandError::Configuration`] for more than [`Self::COUNT_MAX`].
    pub fn new(times: &[Nanos]) -> Result<Self, NandError> {
        let mut types = Self::ALIKE;
        let Some(places) = types.program_ns.get_mut(..times.len()) else {
            let (count, most) = (times.len(), Self::COUNT_MAX);
            let text = format!("program_type_ns has {count} times, must have at most {most}");
            return Err(NandError::Configuration(text));
        };
        places.copy_from_slice(times);
        types.count = u8::try_from(times.len()).expect("at most four");
        Ok(types)
    }

    /// How long programs take, one duration for each kind of page.
    #[must_use]
    pub fn times(&self) -> &[Nanos] {
        &self.program_ns[..usize::from(self.count)]
    }

    /// Whether there are no types.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What the program of the flash page of that index takes; none without types.
    #[inline]
    #[must_use]
    pub fn time_of(&self, index: u32) -> Option<Nanos> {
        let type_index = index.checked_rem(self.count.into())?;
        Some(self.program_ns[type_index as usize])
    }

    /// The mean over the types, rounded down; none without types.
    #[must_use]
    pub fn mean(&self) -> Option<Nanos> {
        let sum: Nanos = self.times().iter().copied().sum();
        sum.0.checked_div(self.count.into()).map(Nanos)
    }
}

impl TryFrom<Vec<Nanos>> for PageTypes {
    type Error = NandError;

    fn try_from(times: Vec<Nanos>) -> Result<Self, NandError> {
        Self::new(&times)
    }
}

impl From<PageTypes> for Vec<Nanos> {
    fn from(types: PageTypes) -> Self {
        types.times().to_vec()
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

/// A joule: no command of a chip takes as much.
const PICOJOULES_MAX: u128 = 1_000_000_000_000;

impl Energy {
    /// Checks that sums over all commands of a run stay in their range.
    ///
    /// # Errors
    /// [`NandError::Configuration`], which names the figure.
    pub(crate) fn validate(&self) -> Result<(), NandError> {
        for (name, energy) in [
            ("read_picojoules", self.read_picojoules),
            ("program_picojoules", self.program_picojoules),
            ("erase_picojoules", self.erase_picojoules),
            ("transfer_picojoules_per_byte", self.transfer_picojoules_per_byte),
        ] {
            if energy.0 > PICOJOULES_MAX {
                let text =
                    format!("energy: {name} is {}, must be at most {PICOJOULES_MAX}", energy.0);
                return Err(NandError::Configuration(text));
            }
        }
        Ok(())
    }
}

/// What the commands of an array used, by what it was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChipEnergy {
    /// Cells were read and programmed.
    pub cells: Picojoules,
    /// Cells were erased.
    pub erase: Picojoules,
    /// Bytes crossed the bus; nothing where the transfer is folded.
    pub transfer: Picojoules,
}

impl ChipEnergy {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Picojoules {
        self.cells + self.erase + self.transfer
    }
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
    /// Energy of the chip that takes `timing` (invariant 4), rounded down to a picojoule.
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
        let nanowatts = self.millivolts as u128 * self.plane_microamperes as u128;
        Energy {
            read_picojoules: Picojoules(nanowatts * timing.read_ns.0 as u128 / 1_000_000),
            program_picojoules: Picojoules(nanowatts * timing.program_ns.0 as u128 / 1_000_000),
            erase_picojoules: Picojoules(nanowatts * timing.erase_ns.0 as u128 / 1_000_000),
            transfer_picojoules_per_byte: self.transfer_picojoules_per_byte,
        }
    }
}
