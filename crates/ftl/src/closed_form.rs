//! What theory says of write cost and write amplification: the oracles of the simulators.
//!
//! Sources: S000 equations 2.1 and 2.2; write amplification under uniform random writes of single
//! units after Desnoyers (SYSTOR 2012) and, for FIFO, Xiang and Kurkoski (arXiv 1110.4245); flash
//! reference 2.1.4 and 2.1.5. `alpha` is physical over logical size, the inverse of the utilisation.
//! Siblings: drawn victims (`choices`) and the optimum of hot and cold separation (`separation`).
//! Floats are at home here: nothing of it enters a simulation.

mod choices;
mod separation;

pub use choices::choices_write_amplification;
pub use separation::{SeparatedPool, best_separation, separated_write_amplification, zipf_classes};

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

/// Mean and standard deviation of the time of a write, where every `writes_per_stall`-th one waits for
/// a stall of `stall_time` besides its own `write_time`.
#[must_use]
pub fn stalled_write_time(write_time: f64, stall_time: f64, writes_per_stall: f64) -> (f64, f64) {
    let share = 1.0 / writes_per_stall;
    (write_time + stall_time * share, stall_time * (share * (1.0 - share)).sqrt())
}

/// Mean and standard deviation of the time of a page write under a dynamic map that cleans a whole
/// erase block of `pages` pages at once, writing copies and host pages to one place: every
/// pages / `write_amplification` writes, the other pages of a victim are copied and it is erased
/// (flash reference 2.1.5).
#[must_use]
pub fn cleaned_write_time(
    write_amplification: f64,
    read: f64,
    write: f64,
    erase: f64,
    pages: f64,
) -> (f64, f64) {
    let writes = pages / write_amplification;
    stalled_write_time(write, erase + (pages - writes) * (read + write), writes)
}

/// Mean time that translations add to an access under a map on flash (Gupta, Kim and Urgaonkar 2009;
/// flash reference 2.6.4): a miss reads a translation page, and where a dirty entry leaves for it,
/// another one is read and written. `hit_ratio` and `dirty_share` lie in 0..=1.
#[must_use]
pub fn translation_time(hit_ratio: f64, dirty_share: f64, read: f64, write: f64) -> f64 {
    (1.0 - hit_ratio) * (read + dirty_share * (read + write))
}

/// How often the whole logical space can be written before the flash wears out: each erase block stands
/// `erase_endurance` erases, `alpha` is physical over logical size, and `wear_evenness` the mean over
/// the highest erase count, 0..=1 (flash reference 2.7).
#[must_use]
pub fn drive_writes(
    erase_endurance: f64,
    alpha: f64,
    write_amplification: f64,
    wear_evenness: f64,
) -> f64 {
    erase_endurance * alpha * wear_evenness / write_amplification
}

/// Drive writes per day that wear a drive out in just `years` years of 365 days, from [`drive_writes`].
#[must_use]
pub fn drive_writes_per_day(drive_writes: f64, years: f64) -> f64 {
    drive_writes / (years * 365.0)
}

/// Live fraction of the victims that goes with a write amplification: 1 - 1/A.
#[must_use]
pub fn live_fraction(write_amplification: f64) -> f64 {
    1.0 - 1.0 / write_amplification
}

/// Full merges per reclaimed log block of FAST under uniform writes, with `pages` pages in an erase
/// block and `log_share` log pages per logical page (flash reference 2.4.3): a logical block is merged
/// when its oldest log page reaches the end of the ring, after it gathered 1 + B * share writes.
#[must_use]
pub fn fast_merges_per_log_block(pages: f64, log_share: f64) -> f64 {
    pages / (1.0 + pages * log_share)
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
    fn a_cleaned_write_takes_equation_2_2_on_average() {
        for amplification in [1.1, 1.2387, 2.0, 5.0] {
            let (mean, deviation) = cleaned_write_time(amplification, 20.0, 200.0, 1500.0, 64.0);
            let expected = dynamic(live_fraction(amplification));
            assert!((mean / expected - 1.0).abs() < 1e-12, "{mean} {expected}");
            // One write in n takes it all: second moment minus square of the mean.
            let writes = 64.0 / amplification;
            let stalled = 200.0 + (mean - 200.0) * writes;
            let second = (stalled * stalled + (writes - 1.0) * 200.0 * 200.0) / writes;
            assert!(((second - mean * mean).sqrt() / deviation - 1.0).abs() < 1e-9);
        }
        // Flash reference 2.1.5: half full, greedy, 64 pages.
        let (mean, _) = cleaned_write_time(1.2387, 20.0, 200.0, 1500.0, 64.0);
        assert!((mean - 281.5).abs() < 0.1, "{mean}");
    }

    #[test]
    fn lifetime_is_shared_by_host_and_cleaning() {
        // 3000 erases, 28 % more flash than logical space, half of all programs from the host, perfectly
        // level: 1920 times the drive, 1.05 a day for five years.
        let writes = drive_writes(3000.0, 1.28, 2.0, 1.0);
        assert!((writes - 1920.0).abs() < 1e-9, "{writes}");
        assert!((drive_writes_per_day(writes, 5.0) - 1.052).abs() < 1e-3);
        assert!((drive_writes(3000.0, 1.28, 2.0, 0.5) - 960.0).abs() < 1e-9);
    }

    #[test]
    fn a_translation_costs_between_nothing_and_two_reads_and_a_write() {
        assert_eq!(translation_time(1.0, 1.0, 20.0, 200.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(translation_time(0.0, 0.0, 20.0, 200.0).to_bits(), 20.0_f64.to_bits());
        assert_eq!(translation_time(0.0, 1.0, 20.0, 200.0).to_bits(), 240.0_f64.to_bits());
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
