//! When requests arrive: all at zero, evenly, or with exponential gaps.
//!
//! 1. Integers only: gaps are kept to 2^-16 ns and nothing is lost from one to the next.
//! 2. The table of logarithms is computed by repeated squaring, so it is the same on any machine.

use super::Arrival;
use nandu_base::{Nanos, Rng, to_index};

const SECOND_NS: u64 = 1_000_000_000;
const TABLE_BITS: u32 = 10;
/// ln 2 in units of 2^-32.
const LN_2_Q32: u64 = 2_977_044_472;

/// A clock that goes from request to request.
#[derive(Clone, Debug)]
pub(super) enum Arrivals {
    Closed,
    Fixed { at: u64, rest: u64, per_second: u64 },
    Exponential(Box<Exponential>),
}

impl Arrivals {
    pub(super) fn new(arrival: Arrival, rng: Rng) -> Self {
        match arrival {
            Arrival::Closed { .. } => Self::Closed,
            Arrival::Fixed { per_second } => Self::Fixed { at: 0, rest: 0, per_second },
            Arrival::Exponential { per_second } => {
                Self::Exponential(Box::new(Exponential::new(per_second, rng)))
            }
        }
    }

    /// The time of the next request; the first is at zero.
    #[inline]
    pub(super) fn next(&mut self) -> Nanos {
        match self {
            Self::Closed => Nanos::ZERO,
            Self::Fixed { at, rest, per_second } => {
                let now = *at;
                *rest += SECOND_NS;
                *at = at.saturating_add(*rest / *per_second);
                *rest %= *per_second;
                Nanos(now)
            }
            Self::Exponential(exponential) => exponential.next(),
        }
    }
}

/// Draws the times of a Poisson process.
#[derive(Clone, Debug)]
pub(super) struct Exponential {
    rng: Rng,
    mean_q16: u64,
    at: u64,
    fraction_q16: u64,
    /// log2(1 + i / 1024) in units of 2^-32.
    log_table: Vec<u64>,
}

impl Exponential {
    fn new(per_second: u64, rng: Rng) -> Self {
        let log_table = (0..=1_u64 << TABLE_BITS)
            .map(|index| log2_q32((1 << 32) + (index << (32 - TABLE_BITS))))
            .collect();
        let mean_q16 = (SECOND_NS << 16) / per_second;
        Self { rng, mean_q16, at: 0, fraction_q16: 0, log_table }
    }

    #[inline]
    fn next(&mut self) -> Nanos {
        let now = self.at;
        let gap = u128::from(self.mean_q16) * u128::from(self.negative_logarithm_q32());
        let gap_q16 = u64::try_from(gap >> 32).unwrap_or(u64::MAX - (1 << 16));
        self.fraction_q16 += gap_q16;
        self.at = self.at.saturating_add(self.fraction_q16 >> 16);
        self.fraction_q16 &= 0xffff;
        Nanos(now)
    }

    /// -ln of a uniform draw from (0, 1], in units of 2^-32; at most 44.4.
    #[inline]
    fn negative_logarithm_q32(&mut self) -> u64 {
        let draw = self.rng.next_u64() | 1;
        let zeros = draw.leading_zeros();
        // The leading one goes out at the left; what follows is the fraction of the mantissa.
        let mantissa = draw << zeros << 1;
        let index = to_index(mantissa >> (64 - TABLE_BITS));
        let part_q32 = (mantissa << TABLE_BITS) >> 32;
        let (low, high) = (self.log_table[index], self.log_table[index + 1]);
        let log_q32 = low + (((high - low) * part_q32) >> 32);
        let negative_log2_q32 = ((u64::from(zeros) + 1) << 32) - log_q32;
        let product = u128::from(negative_log2_q32) * u128::from(LN_2_Q32);
        u64::try_from(product >> 32).expect("64 times ln 2 is small")
    }
}

/// The binary logarithm of `value` in [1, 2], both in units of 2^-32.
fn log2_q32(value: u64) -> u64 {
    if value >= 1 << 33 {
        return 1 << 32;
    }
    let mut square = u128::from(value) << 30;
    let mut log = 0;
    for _ in 0..32 {
        square = (square * square) >> 62;
        log <<= 1;
        if square >= 1 << 63 {
            square >>= 1;
            log |= 1;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_rate_never_drifts() {
        let mut arrivals = Arrivals::new(Arrival::Fixed { per_second: 3 }, Rng::new(1));
        let times: Vec<u64> = (0..7).map(|_| arrivals.next().0).collect();
        assert_eq!(times[..4], [0, 333_333_333, 666_666_666, 1_000_000_000]);
        assert_eq!(times[6], 2_000_000_000);
    }

    #[test]
    fn logarithms_are_right_to_nine_digits() {
        for value in [1.0, 1.25, 1.5, 1.999_023_437_5, 2.0_f64] {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small positive number"
            )]
            let log = log2_q32((value * 4_294_967_296.0) as u64) as f64 / 4_294_967_296.0;
            assert!((log - value.log2()).abs() < 1e-9, "{value}: {log}");
        }
    }

    #[test]
    fn exponential_gaps_have_their_mean_deviation_and_tail() {
        let mut exponential = Exponential::new(1_000, Rng::new(4));
        let (count, mean) = (1_000_000_u32, 1e6);
        let mut previous = exponential.next().0;
        let (mut sum, mut squares, mut beyond) = (0.0, 0.0, 0_u32);
        for _ in 0..count {
            let at = exponential.next().0;
            let gap = (at - previous) as f64 / mean;
            previous = at;
            sum += gap;
            squares += gap * gap;
            beyond += u32::from(gap > 5.0);
        }
        let n = f64::from(count);
        assert!((sum / n - 1.0).abs() < 0.004, "{}", sum / n);
        assert!((squares / n - 2.0).abs() < 0.025, "{}", squares / n);
        let tail = f64::from(beyond) / n / (-5.0_f64).exp();
        assert!((tail - 1.0).abs() < 0.06, "{tail}");
    }
}
