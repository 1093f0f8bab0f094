//! A layer over a bare chip under writes that another kind of measurement has.

use super::{Measured, Metric, Simulation, Sweep, SweptQuantity};
use nandu_base::to_u32;
use nandu_ftl::FtlConfig;
use nandu_nand::Timing;
use nandu_sim::{SimError, SimObserver};
use nandu_trace::RequestSource;
use std::collections::BTreeMap;

/// A layer at work.
pub(in crate::kind) struct BareLayer {
    simulation: nandu_sim::Simulation,
    chip: (Timing, u32),
    page_bytes: u64,
}

/// A simulation of this chip, of which nothing else is said.
fn order(chip: &str) -> Simulation {
    let sweep = Sweep { of: SweptQuantity::SparePercent, unit: None, values: Vec::new() };
    Simulation {
        chip: chip.to_owned(),
        erase_block_page_count: None,
        read_ns: None,
        program_ns: None,
        erase_ns: None,
        logical_erase_block_count: 1,
        spare_percent: None,
        workload: String::new(),
        warm_up_rounds: 0.0,
        rounds: None,
        sweep,
        variants: BTreeMap::new(),
        metrics: Vec::new(),
        closed_curves: Vec::new(),
    }
}

impl BareLayer {
    /// Checks that there is such a chip, and that a unit of the layer is a flash page of it.
    pub(in crate::kind) fn check(chip: &str, ftl: &FtlConfig) -> Result<(), String> {
        let page_bytes = order(chip).bare_chip()?.geometry.flash_page_bytes;
        match ftl.units_per_flash_page(page_bytes) {
            1 => Ok(()),
            _ => Err("a unit must be a flash page".into()),
        }
    }

    /// A layer over so many logical pages or a few more, with so much log or spare space over them, in a state
    /// like that of uniform writes.
    ///
    /// # Errors
    /// If there is no such chip, or the layer does not fit it.
    pub(in crate::kind) fn build(
        (chip, page_count, spare): (&str, u64, f64),
        ftl: &FtlConfig,
        seed: u64,
    ) -> Result<Self, SimError> {
        let mut order = order(chip);
        let shape = order.bare_chip().map_err(SimError::Setting)?.geometry;
        let pages = u64::from(shape.flash_pages_per_erase_block);
        order.logical_erase_block_count = to_u32(page_count.div_ceil(pages));
        let (simulation, config) = order.build(ftl, spare, seed)?;
        let chip = (config.timing, shape.flash_pages_per_erase_block);
        Ok(Self { simulation, chip, page_bytes: u64::from(shape.flash_page_bytes) })
    }

    /// Bytes of a flash page, the unit of writes.
    pub(in crate::kind) const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// So many writes that are not measured.
    ///
    /// # Errors
    /// If the layer fails, or the observer cancels.
    pub(in crate::kind) fn warm_up(
        &mut self,
        source: &mut dyn RequestSource,
        write_count: u64,
        observer: &mut dyn SimObserver,
    ) -> Result<(), SimError> {
        self.simulation.warm_up(source, write_count, observer)
    }

    /// What metrics are of so many writes of a page each.
    ///
    /// # Errors
    /// As [`Self::warm_up`].
    pub(in crate::kind) fn measure(
        &mut self,
        source: &mut dyn RequestSource,
        write_count: u64,
        (metrics, observer): (&[Metric], &mut dyn SimObserver),
    ) -> Result<Vec<f64>, SimError> {
        let measured = self.simulation.measure(source, write_count, observer)?;
        self.simulation.ftl().audit(self.simulation.nand());
        let measured = Measured::new(&measured, self.chip, write_count);
        Ok(metrics.iter().map(|metric| metric.of(&measured)).collect())
    }
}
