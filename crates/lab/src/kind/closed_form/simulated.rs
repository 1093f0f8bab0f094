//! A page-mapped chip under uniform random writes, beside the equations of S000 section 2.2.
//!
//! ```text
//!   fresh chip ─► mapped in order ─► written at random until steady ─► measured
//! ```
//!
//! One chip serves one command after the other, so a page write takes the mean of all that the chip
//! did. `c` is measured: the flash pages moved for each erase, over those of an erase block. The
//! equations assume that the victim is as full as the average erase block; a random victim is, up to
//! the erase blocks kept aside, and a greedy one is emptier.
//!
//! Series: `POLICY.simulated` by measured c; by logical over physical size `POLICY.by_utilisation`, the
//! same, and `POLICY.equation`, equation 2.2 at the measured c; `average_victim.by_utilisation` is
//! equation 2.2 with c = logical over physical size.

use super::ClosedForm;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{FlashOperation, Lpn, Nanos, Rng};
use nandu_ftl::{Ftl, FtlConfig, FtlError, PageConfig, VictimPolicy};
use nandu_nand::{ChipOverrides, NandArray, NandProfile};
use serde::{Deserialize, Serialize};

/// A chip that is simulated beside the formulas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// Chip preset, but for its times and the flash pages of an erase block, which are those of the equations.
    pub chip: String,
    /// Erase blocks of the chip, at least 64.
    pub erase_block_count: u32,
    /// Logical over physical size, each in 0..1; rising.
    pub utilisations: Vec<f64>,
    /// How victims are chosen.
    pub victims: Vec<VictimPolicy>,
    /// Writes of as many pages as the chip has, before the measurement and in it.
    pub rounds: u32,
}

/// Steady state at one utilisation.
struct Steady {
    live_fraction: f64,
    micros: f64,
}

impl Simulated {
    pub(super) fn check(&self, equations: &ClosedForm) -> Result<(), String> {
        if self.victims.is_empty() || self.utilisations.is_empty() || self.rounds == 0 {
            return Err("`simulated` needs `victims`, `utilisations` and `rounds` above 0".into());
        }
        if self.erase_block_count < 64 {
            return Err("`erase_block_count` is below 64, too few for a steady state".into());
        }
        if self.utilisations.iter().any(|share| !(0.01..0.97).contains(share)) {
            return Err("`utilisations` must lie in 0.01..0.97: cleaning needs room".into());
        }
        self.profile(equations).resolve().map_err(|error| error.to_string())?;
        Ok(())
    }

    pub(super) fn labels(&self) -> Vec<String> {
        self.victims.iter().map(|victim| label(*victim)).collect()
    }

    pub(super) fn series_names(&self) -> Vec<String> {
        let of = |curve: &str| {
            self.labels().into_iter().map(|label| format!("{label}.{curve}")).collect::<Vec<_>>()
        };
        let mut names = [of("simulated"), of("equation"), of("by_utilisation")].concat();
        names.push("average_victim.by_utilisation".into());
        names
    }

    /// All curves of the policy at `index` of `victims`.
    pub(super) fn measure(
        &self,
        equations: &ClosedForm,
        index: usize,
        seed: u64,
    ) -> Result<Vec<Series>, LabError> {
        let victim = self.victims[index];
        let label = label(victim);
        let series = |curve: &str| Series::new(format!("{label}.{curve}"), "", "us");
        let mut curves = ["simulated", "equation", "by_utilisation"].map(series);
        for &utilisation in &self.utilisations {
            let steady = self
                .steady(equations, victim, utilisation, seed)
                .map_err(|error| LabError::step(&label, &error))?;
            let c = steady.live_fraction;
            curves[0].points.push((c, steady.micros));
            curves[1].points.push((utilisation, equations.dynamic_us(c)));
            curves[2].points.push((utilisation, steady.micros));
        }
        let mut curves = Vec::from(curves);
        if index == 0 {
            let at = |&share: &f64| (share, equations.dynamic_us(share));
            let points = self.utilisations.iter().map(at).collect();
            let name = "average_victim.by_utilisation";
            curves.push(Series { points, ..Series::new(name, "", "us") });
        }
        Ok(curves)
    }

    fn profile(&self, equations: &ClosedForm) -> NandProfile {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "times are checked to be above 0"
        )]
        let nanos = |micros: f64| Some(Nanos((micros * 1000.0).round() as u64));
        NandProfile {
            overrides: ChipOverrides {
                flash_pages_per_erase_block: Some(equations.erase_block_page_count),
                read_ns: nanos(equations.read_us),
                program_ns: nanos(equations.write_us),
                erase_ns: nanos(equations.erase_us),
                ..ChipOverrides::default()
            },
            preset: self.chip.clone(),
            channel_count: 1,
            dies_per_channel: 1,
            erase_blocks_per_plane: self.erase_block_count,
            ..NandProfile::default()
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share below 1 of the flash pages of a chip"
    )]
    fn steady(
        &self,
        equations: &ClosedForm,
        victim: VictimPolicy,
        utilisation: f64,
        seed: u64,
    ) -> Result<Steady, FtlError> {
        let mut nand = NandArray::new(self.profile(equations).resolve()?)?;
        let pages = nand.geometry().flash_pages_per_erase_block;
        let unit_count = (f64::from(self.erase_block_count * pages) * utilisation) as u64;
        let config = PageConfig { victim, reserve_count: 1, ..PageConfig::default() };
        let mut ftl = FtlConfig::Page(config).build(&nand, unit_count, seed)?;
        ftl.initialise_sequential(&mut nand)?;
        let mut rng = Rng::for_part(seed, "lpns");
        let mut now = Nanos::ZERO;
        let write_count = u64::from(self.rounds) * u64::from(self.erase_block_count * pages);
        let mut write = |ftl: &mut dyn Ftl, nand: &mut NandArray| -> Result<Nanos, FtlError> {
            for _ in 0..write_count {
                let start = nand.at(now);
                let done = ftl.write(nand, start, Lpn(rng.below(unit_count)), None)?;
                now = nand.finish(done);
            }
            Ok(now)
        };
        let start = write(ftl.as_mut(), &mut nand)?;
        let before = *nand.counters();
        let end = write(ftl.as_mut(), &mut nand)?;
        ftl.audit(&nand);
        let counters = nand.counters().since(&before);
        let programs = counters.total(FlashOperation::Program);
        let erased_pages = counters.total(FlashOperation::Erase) * u64::from(pages);
        assert!(programs >= write_count, "every write is programmed");
        Ok(Steady {
            live_fraction: (programs - write_count) as f64 / erased_pages.max(1) as f64,
            micros: (end - start).as_micros_f64() / write_count as f64,
        })
    }
}

/// The policy's word in an experiment's file.
fn label(victim: VictimPolicy) -> String {
    match serde_json::to_value(victim) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(table)) => table.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equations(utilisation: f64, victim: VictimPolicy) -> ClosedForm {
        let simulated = Simulated {
            chip: "myers_slc".into(),
            erase_block_count: 256,
            utilisations: vec![utilisation],
            victims: vec![victim],
            rounds: 6,
        };
        ClosedForm {
            read_us: 20.0,
            write_us: 200.0,
            erase_us: 1500.0,
            erase_block_page_count: 64,
            live_fractions: vec![0.5],
            simulated: Some(simulated),
        }
    }

    #[test]
    fn a_random_victim_is_as_full_as_the_average_erase_block() {
        let equations = equations(0.5, VictimPolicy::Random);
        let curves = equations.simulated.as_ref().unwrap().measure(&equations, 0, 7).unwrap();
        let (c, micros) = curves[0].points[0];
        // 253 erase blocks hold the data of 128; the reserve and two frontiers do not count.
        assert!((c / (128.0 / 253.0) - 1.0).abs() < 0.04, "live fraction {c}");
        assert!((micros / equations.dynamic_us(c) - 1.0).abs() < 0.01, "{micros} us");
    }

    #[test]
    fn the_chip_takes_its_times_from_the_equations() {
        let mut equations = equations(0.5, VictimPolicy::Random);
        let micros_and_equation = |equations: &ClosedForm| {
            let simulated = equations.simulated.as_ref().unwrap();
            simulated.check(equations).unwrap();
            let (c, micros) = simulated.measure(equations, 0, 7).unwrap()[0].points[0];
            (micros, equations.dynamic_us(c))
        };
        let (before, _) = micros_and_equation(&equations);
        (equations.read_us, equations.write_us, equations.erase_us) = (30.5, 1000.0, 9000.0);
        equations.erase_block_page_count = 32;
        let (micros, equation) = micros_and_equation(&equations);
        assert!(micros > 2.0 * before, "{micros} us where it was {before}");
        assert!((micros / equation - 1.0).abs() < 0.02, "{micros} us, not {equation}");
    }
}
