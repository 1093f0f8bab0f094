//! The cost of a page write on a nearly full chip: Myers 2008 (S000), equations 2.1 and 2.2.
//!
//! ```text
//!   naive(c)   = e + p c (r + w) + w                    every write rewrites its erase block
//!   dynamic(c) = w + (e + p c (r + w)) / (p - p c)      cleaning spread over the freed pages
//! ```
//!
//! c is the fraction of live flash pages in the erase block that is cleaned, p its flash pages; r, w
//! and e are the chip's times. Results are exact in nanoseconds where p c is whole. A simulated chip
//! may stand beside them.

mod simulated;

pub use simulated::Simulated;

use super::Measurement;
use super::bench::Bench;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_ftl::closed_form::{dynamic_write_time, naive_write_time};
use serde::{Deserialize, Serialize};

/// The keys of an experiment of the kind `closed_form`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedForm {
    /// Time to read a flash page, in us.
    pub read_us: f64,
    /// Time to program a flash page, in us.
    pub write_us: f64,
    /// Time to erase an erase block, in us.
    pub erase_us: f64,
    /// Flash pages of an erase block.
    pub erase_block_page_count: u32,
    /// Values of c, each in 0..1.
    pub live_fractions: Vec<f64>,
    /// A chip that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

impl ClosedForm {
    /// Equation 2.1 at `live_fraction`, in us.
    #[must_use]
    pub fn naive_us(&self, live_fraction: f64) -> f64 {
        let page_count = f64::from(self.erase_block_page_count);
        naive_write_time(live_fraction, self.read_us, self.write_us, self.erase_us, page_count)
    }

    /// Equation 2.2 at `live_fraction`, in us.
    #[must_use]
    pub fn dynamic_us(&self, live_fraction: f64) -> f64 {
        let page_count = f64::from(self.erase_block_page_count);
        dynamic_write_time(live_fraction, self.read_us, self.write_us, self.erase_us, page_count)
    }
}

impl Measurement for ClosedForm {
    fn check(&self) -> Result<(), String> {
        if self.erase_block_page_count == 0 {
            return Err("`erase_block_page_count` is 0; an erase block has flash pages".into());
        }
        for (key, value) in
            [("read_us", self.read_us), ("write_us", self.write_us), ("erase_us", self.erase_us)]
        {
            if !value.is_finite() || value <= 0.0 {
                return Err(format!("`{key}` is {value}; it must be above 0"));
            }
        }
        match self.live_fractions.iter().find(|fraction| !(0.0..1.0).contains(*fraction)) {
            Some(fraction) => {
                Err(format!("`live_fractions` holds {fraction}; each must be 0 or more, below 1"))
            }
            None if self.live_fractions.is_empty() => Err("`live_fractions` is empty".into()),
            None => self.simulated.as_ref().map_or(Ok(()), |simulated| simulated.check(self)),
        }
    }

    fn series_names(&self) -> Vec<String> {
        let mut names = vec!["naive".into(), "dynamic".into()];
        names.extend(self.simulated.iter().flat_map(Simulated::series_names));
        names
    }

    fn steps(&self) -> Vec<String> {
        let mut steps = vec!["equations 2.1 and 2.2".to_owned()];
        let labels = self.simulated.iter().flat_map(Simulated::labels);
        steps.extend(labels.map(|label| format!("simulated, {label} victims")));
        steps
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        if let (Some(policy), Some(simulated)) = (index.checked_sub(1), &self.simulated) {
            return simulated.measure(self, policy, bench.seed);
        }
        let curve = |name: &str, cost: &dyn Fn(f64) -> f64| {
            let points = self.live_fractions.iter().map(|&c| (c, cost(c))).collect();
            Series { points, ..Series::new(name, "", "us") }
        };
        Ok(vec![
            curve("naive", &|fraction| self.naive_us(fraction)),
            curve("dynamic", &|fraction| self.dynamic_us(fraction)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHIP_2005: ClosedForm = ClosedForm {
        read_us: 20.0,
        write_us: 200.0,
        erase_us: 1500.0,
        erase_block_page_count: 64,
        live_fractions: Vec::new(),
        simulated: None,
    };

    #[test]
    fn equation_2_2_at_one_half_is_the_published_466_us() {
        assert_eq!(CHIP_2005.dynamic_us(0.5), 466.875);
    }

    #[test]
    fn both_equations_meet_where_one_page_is_free() {
        let one_page_free = 63.0 / 64.0;
        assert_eq!(CHIP_2005.naive_us(one_page_free), 15_560.0);
        assert_eq!(CHIP_2005.dynamic_us(one_page_free), 15_560.0);
    }

    #[test]
    fn an_empty_erase_block_costs_its_erase_only() {
        assert_eq!(CHIP_2005.naive_us(0.0), 1700.0);
        assert_eq!(CHIP_2005.dynamic_us(0.0), 200.0 + 1500.0 / 64.0);
    }
}
