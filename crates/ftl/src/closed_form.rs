//! What theory says of write cost and write amplification: the oracles of the simulators.
//!
//! Sources: S000 equations 2.1 and 2.2; write amplification under uniform random writes of single
//! units after Desnoyers (SYSTOR 2012) and, for FIFO, Xiang and Kurkoski (arXiv 1110.4245); flash
//! reference 2.1.4 and 2.1.5. `alpha` is physical over logical size, the inverse of the utilisation.

/// S000 equation 2.1: mean time of a page write under a static map, in the unit of the times given.
/// `live` is the live fraction of an erase block, 0..=1.
#[must_use]
pub fn naive_write_time(live: f64, read: f64, write: f64, erase: f64, pages: f64) -> f64 {
    erase + pages * live * (read + write) + write
}

/// S000 equation 2.2: mean time of a page write under a dynamic map; infinite at `live` = 1.
#[must_use]
pub fn dynamic_write_time(live: f64, read: f64, write: f64, erase: f64, pages: f64) -> f64 {
    write + (erase + pages * live * (read + write)) / (pages - pages * live)
}

/// Principal branch of Lambert's W on (-1/e, 0), by Halley's iteration.
///
/// # Panics
/// If `x` lies outside.
#[must_use]
pub fn lambert_w0(x: f64) -> f64 {
    assert!(x > -(-1.0_f64).exp() && x < 0.0, "the principal branch is taken on (-1/e, 0) only");
    let mut w = -0.5_f64;
    for _ in 0..60 {
        let e = w.exp();
        let f = w * e - x;
        let step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
        w -= step;
        if step.abs() < 1e-15 {
            break;
        }
    }
    w
}

/// Write amplification where the oldest erase block is cleaned; `alpha` > 1.
#[must_use]
pub fn fifo_write_amplification(alpha: f64) -> f64 {
    alpha / (alpha + lambert_w0(-alpha * (-alpha).exp()))
}

/// Write amplification where the emptiest erase block of `pages` pages is cleaned; `alpha` > 1.
#[must_use]
pub fn greedy_write_amplification(alpha: f64, pages: f64) -> f64 {
    let k = (1.0 + 1.0 / (2.0 * pages)) * alpha;
    let x0 = 0.5 - pages / alpha * lambert_w0(-k * (-k).exp());
    pages / (pages - (x0 - 1.0))
}

/// Write amplification where any erase block is cleaned; `alpha` > 1.
#[must_use]
pub fn random_write_amplification(alpha: f64) -> f64 {
    alpha / (alpha - 1.0)
}

/// Live fraction of the victims that goes with a write amplification: 1 - 1/A.
#[must_use]
pub fn live_fraction(write_amplification: f64) -> f64 {
    1.0 - 1.0 / write_amplification
}

#[cfg(test)]
mod tests {
    use super::*;

    const MYERS: (f64, f64, f64, f64) = (20.0, 200.0, 1500.0, 64.0);

    fn dynamic(live: f64) -> f64 {
        dynamic_write_time(live, MYERS.0, MYERS.1, MYERS.2, MYERS.3)
    }

    fn naive(live: f64) -> f64 {
        naive_write_time(live, MYERS.0, MYERS.1, MYERS.2, MYERS.3)
    }

    #[test]
    fn equations_of_s000_have_their_exact_values() {
        // Every value is a binary fraction, so the comparison is exact on purpose.
        assert_eq!(dynamic(0.5).to_bits(), 466.875_f64.to_bits());
        assert_eq!(naive(0.5).to_bits(), 8740.0_f64.to_bits());
        assert_eq!((naive(0.0), naive(1.0)), (1700.0, 15_780.0));
        for (live, micros) in [(0.0, 223.4), (0.25, 304.6), (0.75, 953.8), (0.95, 4848.7)] {
            assert!((dynamic(live) - micros).abs() < 0.1, "{live}");
        }
    }

    #[test]
    fn the_curves_of_figure_2_1_meet_with_one_page_to_gain() {
        let live = 1.0 - 1.0 / 64.0;
        assert_eq!((naive(live), dynamic(live)), (15_560.0, 15_560.0));
        assert!(
            (0..63).all(|page| dynamic(f64::from(page) / 64.0) < naive(f64::from(page) / 64.0))
        );
    }

    #[test]
    fn write_amplification_has_the_tabulated_values() {
        for (utilisation, fifo, greedy_64, greedy_2048, random) in [
            (0.5, 1.2550, 1.2387, 1.2545, 2.0),
            (0.7, 1.8762, 1.8332, 1.8748, 3.3333),
            (0.8, 2.6927, 2.5982, 2.6897, 5.0),
            (0.875, 4.1820, 3.9462, 4.1741, 8.0),
            (0.9, 5.1787, 4.8159, 5.1665, 10.0),
            (0.95, 10.1724, 8.8206, 10.1238, 20.0),
        ] {
            let alpha = 1.0 / utilisation;
            for (value, expected) in [
                (fifo_write_amplification(alpha), fifo),
                (greedy_write_amplification(alpha, 64.0), greedy_64),
                (greedy_write_amplification(alpha, 2048.0), greedy_2048),
                (random_write_amplification(alpha), random),
            ] {
                assert!((value - expected).abs() < 1e-4, "{utilisation}: {value} {expected}");
            }
        }
    }
}
