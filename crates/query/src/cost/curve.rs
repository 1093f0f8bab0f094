//! A function given by measured points, with straight lines between them, in integers.
//!
//! 1. There is a point, and points ascend strictly.
//! 2. Before the first point the value is the first one's; behind the last one the last line goes on, but
//!    never below zero.

use crate::QueryError;
use serde::{Deserialize, Serialize};

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Where: bytes of a request, say.
    pub at: u64,
    /// How much there: nanoseconds, say.
    pub value: u64,
}

/// Points and the lines between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<CurvePoint>", into = "Vec<CurvePoint>")]
pub struct Curve {
    points: Vec<CurvePoint>,
}

impl Curve {
    /// A curve through points.
    ///
    /// # Errors
    /// [`QueryError::Invalid`] if there is no point, or points do not ascend strictly.
    pub fn new(points: Vec<CurvePoint>) -> Result<Self, QueryError> {
        if points.is_empty() {
            return Err(QueryError::Invalid { what: "a curve needs at least one point".into() });
        }
        if let Some(pair) = points.windows(2).find(|pair| pair[0].at >= pair[1].at) {
            return Err(QueryError::Invalid {
                what: format!(
                    "the points of a curve must ascend, but {} comes before {}; sort them, and keep \
                     one for each place",
                    pair[0].at, pair[1].at
                ),
            });
        }
        Ok(Self { points })
    }

    /// The same value everywhere.
    #[must_use]
    pub fn constant(value: u64) -> Self {
        Self { points: vec![CurvePoint { at: 0, value }] }
    }

    /// The line through (0, `start`) and (`at`, `value`). Constant where `at` is 0.
    #[must_use]
    pub fn line(start: u64, at: u64, value: u64) -> Self {
        let mut curve = Self::constant(start);
        if at > 0 {
            curve.points.push(CurvePoint { at, value });
        }
        curve
    }

    /// The points that were measured, in order of x.
    #[must_use]
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// The value, rounded down.
    #[must_use]
    pub fn value(&self, at: u64) -> u64 {
        let behind = self.points.partition_point(|point| point.at <= at);
        if behind == 0 || self.points.len() == 1 {
            return self.points[0].value;
        }
        let start = (behind - 1).min(self.points.len() - 2);
        let (left, right) = (self.points[start], self.points[start + 1]);
        let way = i128::from(at) - i128::from(left.at);
        let width = i128::from(right.at) - i128::from(left.at);
        let rise = i128::from(right.value) - i128::from(left.value);
        let value = match way.checked_mul(rise) {
            Some(product) => i128::from(left.value) + product.div_euclid(width),
            None if rise < 0 => 0,
            None => i128::MAX,
        };
        u64::try_from(value.max(0)).unwrap_or(u64::MAX)
    }

    /// The value, with the last point's for all places behind it.
    #[must_use]
    pub fn value_within(&self, at: u64) -> u64 {
        let last = self.points.last().map_or(0, |point| point.at);
        self.value(at.min(last))
    }
}

impl TryFrom<Vec<CurvePoint>> for Curve {
    type Error = QueryError;

    fn try_from(points: Vec<CurvePoint>) -> Result<Self, QueryError> {
        Self::new(points)
    }
}

impl From<Curve> for Vec<CurvePoint> {
    fn from(curve: Curve) -> Self {
        curve.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, u64)]) -> Curve {
        Curve::new(points.iter().map(|(at, value)| CurvePoint { at: *at, value: *value }).collect())
            .unwrap()
    }

    #[test]
    fn it_goes_through_its_points_and_straight_between_them() {
        let curve = curve(&[(10, 100), (20, 300), (40, 200)]);
        let expected =
            [(0, 100), (10, 100), (15, 200), (20, 300), (30, 250), (40, 200), (60, 100), (99, 0)];
        for (at, value) in expected {
            assert_eq!(curve.value(at), value, "at {at}");
        }
        assert_eq!(curve.value_within(60), 200);
        assert_eq!(curve.value_within(15), 200);
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        let steep = curve(&[(0, 0), (1, u64::MAX)]);
        assert_eq!(steep.value(u64::MAX), u64::MAX);
        let falling = curve(&[(0, u64::MAX), (1, 0)]);
        assert_eq!(falling.value(u64::MAX), 0);
        assert_eq!(Curve::line(7, 0, 9).value(100), 7);
    }

    #[test]
    fn points_out_of_order_are_refused() {
        let points = vec![CurvePoint { at: 2, value: 0 }, CurvePoint { at: 2, value: 1 }];
        let told = Curve::new(points).unwrap_err().to_string();
        assert!(told.contains("2 comes before 2"), "{told}");
        assert!(Curve::new(Vec::new()).is_err());
    }
}
