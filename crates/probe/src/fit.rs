//! Least squares for t(b) = t0 + b/F, weighted so that every size counts by its relative error.
//!
//! 1. Neither t0 nor 1/F is negative: where the free fit would be, the bound is the best point, as
//!    the sum of squares is convex.

use serde::{Deserialize, Serialize};

/// A line that is further than this from a size that it was fitted to is no model of the device, 0.3 for
/// 30 %: times of requests differ by more than that from size to size where a drive does something else
/// than wait and transfer.
pub const FIT_ERROR_MAX: f64 = 0.3;

/// A fitted linear model of the time that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearModel {
    /// The time of a request before its bytes, in ns.
    pub t0_ns: f64,
    /// The time of each byte, in ns; its inverse is F.
    pub ns_per_byte: f64,
    /// Largest relative error over the fitted sizes, 0.1 for 10 %.
    pub error_max: f64,
    /// Root of the mean square of the relative errors.
    pub error_rms: f64,
    /// How many sizes were fitted.
    pub point_count: usize,
}

impl LinearModel {
    /// Whether the line describes what was measured: no size is further off than [`FIT_ERROR_MAX`].
    #[must_use]
    pub fn fits(&self) -> bool {
        self.error_max <= FIT_ERROR_MAX
    }

    /// The time of a request of `bytes`, in ns.
    #[must_use]
    pub fn time_ns(&self, bytes: u64) -> f64 {
        self.t0_ns + self.ns_per_byte * bytes as f64
    }

    /// F in bytes per second; infinite where a byte costs nothing.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        1e9 / self.ns_per_byte
    }
}

/// Fits points of (bytes, ns); `None` for fewer than two sizes.
pub(crate) fn fit_linear(points: &[(u64, f64)]) -> Option<LinearModel> {
    let first = points.first()?;
    if points.iter().all(|point| point.0 == first.0) || points.iter().any(|point| point.1 <= 0.0) {
        return None;
    }
    // Dividing each equation t0 + s b = t by t: minimise the sum of (t0 p + s q - 1)^2.
    let (mut pp, mut pq, mut qq, mut p1, mut q1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(bytes, time) in points {
        let (p, q) = (1.0 / time, bytes as f64 / time);
        pp += p * p;
        pq += p * q;
        qq += q * q;
        p1 += p;
        q1 += q;
    }
    let determinant = pp * qq - pq * pq;
    let (mut t0_ns, mut ns_per_byte) =
        ((p1 * qq - q1 * pq) / determinant, (q1 * pp - p1 * pq) / determinant);
    if t0_ns < 0.0 {
        (t0_ns, ns_per_byte) = (0.0, q1 / qq);
    } else if ns_per_byte < 0.0 {
        (t0_ns, ns_per_byte) = (p1 / pp, 0.0);
    }
    let mut model = LinearModel {
        t0_ns,
        ns_per_byte,
        error_max: 0.0,
        error_rms: 0.0,
        point_count: points.len(),
    };
    let errors = points.iter().map(|&(bytes, time)| (model.time_ns(bytes) / time - 1.0).abs());
    let error_max = errors.clone().fold(0.0, f64::max);
    let square_mean = errors.map(|error| error * error).sum::<f64>() / points.len() as f64;
    (model.error_max, model.error_rms) = (error_max, square_mean.sqrt());
    Some(model)
}

/// The least-squares line through points with x = 0, 1, 2, …: (value at 0, slope).
pub(crate) fn line_through(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let x_mean = (count - 1.0) / 2.0;
    let y_mean = values.iter().sum::<f64>() / count;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let x = index as f64 - x_mean;
        xy += x * (value - y_mean);
        xx += x * x;
    }
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    (y_mean - slope * x_mean, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parameters_are_recovered() {
        let points: Vec<(u64, f64)> =
            (9..24).map(|power| (1 << power, 25_000.0 + (1_u64 << power) as f64 * 4.0)).collect();
        let model = fit_linear(&points).unwrap();
        assert!((model.t0_ns - 25_000.0).abs() < 1e-3, "{model:?}");
        assert!((model.ns_per_byte - 4.0).abs() < 1e-9, "{model:?}");
        assert!(model.error_max < 1e-9 && model.error_rms <= model.error_max);
        assert!((model.bytes_per_second() - 250e6).abs() < 1.0);
    }

    #[test]
    fn the_fit_is_the_best_in_relative_error() {
        let points: [(u64, f64); 4] =
            [(512, 900.0), (4096, 5_000.0), (65_536, 60_000.0), (1 << 20, 1_200_000.0)];
        let model = fit_linear(&points).unwrap();
        let cost = |t0: f64, slope: f64| -> f64 {
            points.iter().map(|&(b, t)| ((t0 + slope * b as f64) / t - 1.0).powi(2)).sum()
        };
        let best = cost(model.t0_ns, model.ns_per_byte);
        for (dt, ds) in [(1.0, 0.0), (-1.0, 0.0), (0.0, 0.01), (0.0, -0.01), (5.0, -0.01)] {
            assert!(cost(model.t0_ns + dt, model.ns_per_byte + ds) >= best);
        }
    }

    #[test]
    fn negative_parameters_are_bounded() {
        // Faster than proportional: a free line would start below zero.
        let model = fit_linear(&[(1000, 1000.0), (2000, 4000.0), (4000, 16_000.0)]).unwrap();
        assert!(model.t0_ns == 0.0 && model.ns_per_byte > 0.0, "{model:?}");
        let model = fit_linear(&[(1000, 4000.0), (2000, 3000.0), (4000, 2000.0)]).unwrap();
        assert!(model.ns_per_byte == 0.0 && model.t0_ns > 0.0, "{model:?}");
        assert_eq!(fit_linear(&[(1000, 4000.0), (1000, 3000.0)]), None);
        assert_eq!(fit_linear(&[]), None);
    }

    #[test]
    fn a_line_that_is_far_from_a_size_does_not_fit() {
        let line = fit_linear(&[(512, 100.0), (4096, 150.0), (65_536, 900.0)]).unwrap();
        assert!(line.fits(), "{line:?}");
        let step = fit_linear(&[(512, 900.0), (4096, 100.0), (65_536, 900.0)]).unwrap();
        assert!(step.error_max > FIT_ERROR_MAX && !step.fits(), "{step:?}");
    }

    #[test]
    fn a_line_is_found_through_its_points() {
        let (start, slope) = line_through(&[3.0, 5.0, 7.0, 9.0]);
        assert!((start - 3.0).abs() < 1e-12 && (slope - 2.0).abs() < 1e-12);
        assert_eq!(line_through(&[4.0]), (4.0, 0.0));
    }
}
