//! The seek curve: time of an arm movement by the number of cylinders crossed (S004 3.1: t_s(x)).
//!
//! ```text
//!   max │                  ____....
//!   avg │        __..--""":           through (1, min), (N/3, avg), (N-1, max)
//!   min │_.-""            :
//!     0 └1────────────────N/3──────── N-1 cylinders
//! ```
//!
//! 1. No distance takes no time; the curve never falls.

use super::config::SeekShape;
use nandu_base::Nanos;

/// Seek time as a function of distance.
#[derive(Clone, Debug)]
pub(crate) struct SeekCurve {
    shape: SeekShape,
    min_ns: Nanos,
    average_ns: Nanos,
    max_ns: Nanos,
    /// Distance at which the average is reached, at least 1.
    third: u64,
    /// The longest distance, at least `third`.
    stroke: u64,
}

/// Fixed-point scale of the root, so that short distances keep their digits.
const ROOT_SCALE: u64 = 1 << 16;

impl SeekCurve {
    /// A curve over `cylinder_count` cylinders; `min <= average <= max`.
    pub(crate) fn new(
        shape: SeekShape,
        [min_ns, average_ns, max_ns]: [Nanos; 3],
        cylinder_count: u64,
    ) -> Self {
        let third = (cylinder_count / 3).max(1);
        let stroke = cylinder_count.saturating_sub(1).max(third);
        Self { shape, min_ns, average_ns, max_ns, third, stroke }
    }

    /// The time to cross `distance` cylinders.
    pub(crate) fn time(&self, distance: u64) -> Nanos {
        if distance == 0 {
            return Nanos::ZERO;
        }
        if distance > self.third {
            let (run, whole) = (distance - self.third, self.stroke - self.third);
            return self.average_ns + share(self.max_ns - self.average_ns, run.min(whole), whole);
        }
        let (run, whole) = (distance - 1, self.third - 1);
        let rise = self.average_ns - self.min_ns;
        match self.shape {
            _ if whole == 0 => self.average_ns,
            SeekShape::Linear => self.min_ns + share(rise, run, whole),
            SeekShape::SquareRoot => {
                let root = (run * ROOT_SCALE / whole * ROOT_SCALE).isqrt();
                self.min_ns + share(rise, root, ROOT_SCALE)
            }
        }
    }
}

/// `part` of `whole` of `time`.
fn share(time: Nanos, part: u64, whole: u64) -> Nanos {
    let nanos = u128::from(time.0) * u128::from(part) / u128::from(whole.max(1));
    Nanos(u64::try_from(nanos).expect("a part of a time is no longer than the time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(shape: SeekShape, cylinders: u64) -> SeekCurve {
        let millis = [2, 9, 20].map(Nanos::from_millis);
        SeekCurve::new(shape, millis, cylinders)
    }

    #[test]
    fn the_curve_passes_through_the_published_points() {
        for shape in [SeekShape::Linear, SeekShape::SquareRoot] {
            let curve = curve(shape, 30_000);
            assert_eq!(curve.time(0), Nanos::ZERO);
            assert_eq!(curve.time(1), Nanos::from_millis(2));
            assert_eq!(curve.time(10_000), Nanos::from_millis(9));
            assert_eq!(curve.time(29_999), Nanos::from_millis(20));
        }
    }

    #[test]
    fn the_curve_never_falls_whatever_the_size() {
        for cylinders in [1, 2, 3, 4, 5, 7, 1000, 150_000] {
            for shape in [SeekShape::Linear, SeekShape::SquareRoot] {
                let curve = curve(shape, cylinders);
                let times: Vec<Nanos> =
                    (0..cylinders.max(2)).step_by(7).map(|x| curve.time(x)).collect();
                assert!(times.is_sorted(), "{cylinders} cylinders");
            }
        }
    }

    #[test]
    fn the_root_lies_above_the_line_in_the_first_third() {
        let (line, root) = (curve(SeekShape::Linear, 3000), curve(SeekShape::SquareRoot, 3000));
        let off = root.time(251).0.abs_diff(5_500_000);
        assert!(off < 10_000, "half of the rise at a quarter of the way");
        assert!(root.time(500) > line.time(500));
        assert_eq!(root.time(2000), line.time(2000));
    }
}
