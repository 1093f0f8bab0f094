//! The arithmetic of S004, section 6.3 and table 2, and of its section 2.
//!
//! ```text
//!   rho = P_f / P_d, idle                      t_f = (tps_d / tps_f) t_d for the same work
//!   W_f = rho (tps_d / tps_f) t_d P_d          E_f = W_d / W_f = tps_f / (rho tps_d)
//! ```
//!
//! 1. The paper takes power while idle for power at work. Measured energy at work needs no such step:
//!    then E_f is the quotient of work for a joule.
//! 2. Its "transactions per joule" are those for a kWh over 10^6. A kWh is 3.6 x 10^6 J, so they are 3.6
//!    times too high; quotients of two of them are right.

/// Joules of a kilowatt-hour.
pub const JOULES_PER_KWH: f64 = 3.6e6;
/// What S004 takes for it in table 2.
pub const PUBLISHED_JOULES_PER_KWH: f64 = 1e6;

/// A run whose energy was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunEnergy {
    /// Transactions, or whatever the work is.
    pub operation_count: f64,
    /// Energy of all of it, in kWh.
    pub kwh: f64,
}

impl RunEnergy {
    /// Work for a joule.
    #[must_use]
    pub fn operations_per_joule(self) -> f64 {
        self.operation_count / (self.kwh * JOULES_PER_KWH)
    }

    /// Work for a joule in the unit of S004, 3.6 times as much.
    #[must_use]
    pub fn operations_per_joule_as_published(self) -> f64 {
        self.operation_count / (self.kwh * PUBLISHED_JOULES_PER_KWH)
    }

    /// Mean power of a run of `hours`, in watts.
    #[must_use]
    pub fn mean_watts(self, hours: f64) -> f64 {
        self.kwh * 1e3 / hours
    }
}

/// How many times more work flash does for a joule than a disk, by S004's formula: from the rates at
/// work and the power while idle.
#[must_use]
pub fn efficiency_from_idle_power(flash: f64, disk: f64, rho: f64) -> f64 {
    flash / (rho * disk)
}

/// The same from what both used at work.
#[must_use]
pub fn efficiency_from_energy(flash: RunEnergy, disk: RunEnergy) -> f64 {
    flash.operations_per_joule() / disk.operations_per_joule()
}

/// Operations per second for a watt: S004, section 2.
#[must_use]
pub fn operations_per_second_and_watt(operations_per_second: f64, watts: f64) -> f64 {
    operations_per_second / watts
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn run(operation_count: f64, kwh: f64) -> RunEnergy {
        RunEnergy { operation_count, kwh }
    }

    /// Table 2: I/O-intensive and CPU-intensive, flash and disk.
    const IO: [RunEnergy; 2] = [run(72_240.0, 0.085), run(22_810.0, 0.062)];
    const CPU: [RunEnergy; 2] = [run(12_530.0, 0.071), run(10_470.0, 0.063)];

    fn rounds_to(value: f64, published: f64, places: i32) {
        let scale = 10_f64.powi(places);
        assert!(
            ((value * scale).round() - published * scale).abs() < 1e-6,
            "{value} is not {published}"
        );
    }

    #[test]
    fn the_published_factors_follow_from_idle_power() {
        let rho = 0.053 / 0.055;
        rounds_to(rho, 0.96, 2);
        let of = |runs: [RunEnergy; 2]| {
            efficiency_from_idle_power(runs[0].operation_count, runs[1].operation_count, 0.96)
        };
        rounds_to(of(IO), 3.30, 2);
        rounds_to(of(CPU), 1.25, 2);
    }

    #[test]
    fn measured_energy_gives_less() {
        rounds_to(efficiency_from_energy(IO[0], IO[1]), 2.31, 2);
        rounds_to(efficiency_from_energy(CPU[0], CPU[1]), 1.06, 2);
    }

    #[test]
    fn the_published_unit_is_3_6_times_a_joule() {
        // Of the printed figures 0.850, 0.176, 0.166 and 0.368 the second is cut off, not rounded.
        for (run, published, right) in [
            (IO[0], 0.850, 0.236),
            (CPU[0], 0.176, 0.049),
            (CPU[1], 0.166, 0.046),
            (IO[1], 0.368, 0.102),
        ] {
            let [as_published, joules] =
                [run.operations_per_joule_as_published(), run.operations_per_joule()];
            assert!((as_published - published).abs() < 0.001, "{as_published}, {published}");
            rounds_to(joules, right, 3);
            assert!((as_published / joules - 3.6).abs() < 1e-9);
        }
        let in_other_unit = |runs: [RunEnergy; 2]| {
            let [flash, disk] = runs.map(RunEnergy::operations_per_joule_as_published);
            flash / disk
        };
        assert!((in_other_unit(IO) - efficiency_from_energy(IO[0], IO[1])).abs() < 1e-9);
    }

    #[test]
    fn operations_for_a_watt_are_those_of_section_2() {
        // 2,800 reads a second at 0.9 W, 50 writes, and a disk of 200 at 15 W.
        for (rate, watts, published) in
            [(2_800.0, 0.9, 3_100.0), (50.0, 0.9, 55.0), (200.0, 15.0, 13.0)]
        {
            let found = operations_per_second_and_watt(rate, watts);
            assert!((found / published - 1.0).abs() < 0.03, "{found}, published {published}");
        }
    }

    #[test]
    fn an_hour_at_a_watt_is_a_watt_hour() {
        assert!((run(0.0, 0.053).mean_watts(1.0) - 53.0).abs() < 1e-9);
        assert!(run(0.0, 0.053).operations_per_joule() == 0.0);
    }
}
