//! Write amplification where the emptiest of `d` erase blocks, drawn at random, is cleaned: the mean
//! field of Van Houdt (SIGMETRICS 2013), as flash reference 2.1.4 states it.
//!
//! T(i) is the part of the erase blocks with `i` valid pages or more, so a victim has `i` or more with
//! probability T(i)^d. Where nothing changes any more, as many erase blocks fall below `i` valid pages
//! by host writes as victims come from there and are filled up:
//!
//! ```text
//! 1 - T(i)^d = r i (T(i) - T(i+1))     i = B..1, T(B+1) = 0,   r = (B - E[victim]) / (sigma B)
//! T(1) + ... + T(B) = sigma B          the mean of valid pages, which fixes r
//! A = B / (B - E[victim]) = 1 / (r sigma)
//! ```
//!
//! 1. Every T(i) is the only root in 0..=1 of its line, and falls as r grows; so r is the root of one
//!    monotone function, found by bisection.

/// Write amplification under uniform random writes where the emptiest of `choices` erase blocks of
/// `pages` pages is cleaned, at a utilisation in 0..1. One choice is random cleaning; many come close
/// to greedy cleaning.
///
/// # Panics
/// If the utilisation lies outside, or there is no choice or no page.
#[must_use]
pub fn choices_write_amplification(utilisation: f64, pages: u32, choices: u32) -> f64 {
    assert!(utilisation > 0.0 && utilisation < 1.0, "a utilisation lies between 0 and 1");
    assert!(pages > 0 && choices > 0, "an erase block has pages, and one at least is drawn");
    let wanted = utilisation * f64::from(pages);
    // A lies between 1 and that of random cleaning.
    let (mut low, mut high) = ((1.0 - utilisation) / utilisation * 0.5, 1.0 / utilisation);
    for _ in 0..60 {
        let rate = f64::midpoint(low, high);
        if mean_valid(rate, pages, f64::from(choices)) > wanted {
            low = rate;
        } else {
            high = rate;
        }
    }
    1.0 / (f64::midpoint(low, high) * utilisation)
}

/// T(1) + ... + T(B) for a given r.
fn mean_valid(rate: f64, pages: u32, choices: f64) -> f64 {
    let (mut above, mut sum) = (0.0, 0.0);
    for index in (1..=pages).rev() {
        let flow = rate * f64::from(index);
        let (mut low, mut high) = (above, 1.0);
        for _ in 0..52 {
            let share: f64 = f64::midpoint(low, high);
            if 1.0 - share.powf(choices) > flow * (share - above) {
                low = share;
            } else {
                high = share;
            }
        }
        above = f64::midpoint(low, high);
        sum += above;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_form::{greedy_write_amplification, random_write_amplification};

    #[test]
    fn the_mean_field_has_the_tabulated_values() {
        // Flash reference 2.1.4, computed there by iterating the differential equation.
        for (pages, utilisation, values) in [
            (64, 0.5, [1.5262, 1.3081, 1.2612]),
            (64, 0.8, [3.533, 2.832, 2.6754]),
            (64, 0.9, [6.8516, 5.3426, 5.0002]),
            (32, 0.8, [3.4899, 2.7678, 2.6028]),
        ] {
            for (choices, expected) in [2, 5, 10].into_iter().zip(values) {
                let value = choices_write_amplification(utilisation, pages, choices);
                assert!(
                    (value - expected).abs() < 6e-4,
                    "{pages} {utilisation}: {value} {expected}"
                );
            }
        }
    }

    #[test]
    fn one_choice_is_random_cleaning_and_many_come_close_to_greedy() {
        for utilisation in [0.5, 0.8, 0.9] {
            let one = choices_write_amplification(utilisation, 64, 1);
            let random = random_write_amplification(1.0 / utilisation);
            assert!((one / random - 1.0).abs() < 1e-9, "{one} {random}");
            let many = choices_write_amplification(utilisation, 64, 1000);
            let greedy = greedy_write_amplification(1.0 / utilisation, 64.0);
            assert!((many / greedy - 1.0).abs() < 0.01, "{many} {greedy}");
        }
    }

    #[test]
    fn every_further_choice_helps() {
        let values: Vec<f64> =
            (1..20).map(|choices| choices_write_amplification(0.85, 32, choices)).collect();
        assert!(values.is_sorted_by(|more, less| more > less), "{values:?}");
    }
}
