//! The laws of a chip as settings.
//!
//! Sources: program order and factory bad blocks from Samsung's large-block data sheets, partial
//! programs 1-4 from S000 2.1 and 1-3 from S002 3.1, endurance 10^4 to 10^6 from S000 2.1.

use crate::NandError;
use nandu_base::Rng;
use serde::{Deserialize, Serialize};

/// In which order the flash pages of an erase block may be programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramOrder {
    /// Upwards; gaps are lost until the next erase. Large-block SLC and everything since.
    #[default]
    Ascending,
    /// Any order: small-block SLC, which old translation layers rely on.
    Any,
}

/// The laws of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Order of programs inside an erase block.
    pub program_order: ProgramOrder,
    /// Programs of a flash page between two erases (NOP), 1 or more.
    pub programs_per_erase: u8,
    /// Erases that an erase block stands; 0 = without limit.
    pub endurance: u32,
    /// Erase blocks that leave the factory bad, per million.
    pub factory_bad_ppm: u32,
    /// Seed of the factory's choice.
    pub factory_bad_seed: u64,
    /// Whether the torn program of an odd flash page also destroys the even one before it, as cells
    /// that hold two bits do. Real pairings skip a few pages; this is the shortest.
    pub paired_pages: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            program_order: ProgramOrder::Ascending,
            programs_per_erase: 1,
            endurance: 0,
            factory_bad_ppm: 0,
            factory_bad_seed: 0,
            paired_pages: false,
        }
    }
}

impl Rules {
    /// For one erase block after the other without end, whether it leaves the factory bad.
    pub fn factory_bad(&self) -> impl Iterator<Item = bool> + use<> {
        let (mut rng, ppm) = (Rng::new(self.factory_bad_seed), self.factory_bad_ppm);
        std::iter::repeat_with(move || ppm > 0 && rng.chance_ppm(ppm))
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`NandError::Configuration`] names the field.
    pub fn validate(&self) -> Result<(), NandError> {
        if self.programs_per_erase == 0 {
            return Err(NandError::Configuration(
                "rules: programs_per_erase is 0, must be at least 1".into(),
            ));
        }
        if self.factory_bad_ppm > 500_000 {
            let text = format!(
                "rules: factory_bad_ppm is {}, must be at most 500000",
                self.factory_bad_ppm
            );
            return Err(NandError::Configuration(text));
        }
        Ok(())
    }
}
