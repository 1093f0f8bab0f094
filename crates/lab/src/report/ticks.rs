//! The scale of an axis: from where to where, and which places are labelled.
//!
//! ```text
//!   sizes in bytes        the sizes that were measured, or powers of two, as `4 KiB`
//!   few places            those places, where their labels have room
//!   logarithmic           1-10-100, where that gives three ticks; else 1-2-5; else as linear
//!   linear                round steps
//! ```
//!
//! 1. Every scale has at least `TICK_COUNT_MIN` ticks, all between its ends: one tick says nothing of
//!    a scale, two do not say whether it is logarithmic.
//! 2. The ends lie outside of all values, and are apart.

use super::number;
use crate::outcome::Axis;
use nandu_base::ByteCount;

/// Fewer labels than these say too little of an axis (rule 1).
const TICK_COUNT_MIN: usize = 3;
/// More labels than these have no room on the figure.
const TICK_COUNT_MAX: usize = 9;
/// More places than these do not label themselves.
const PLACE_COUNT_MAX: usize = 12;
/// The share of the axis by which it goes on behind the outermost values.
const MARGIN: f64 = 0.04;
/// From here on a round number is written as a power of ten.
const POWER_FROM: f64 = 1e6;
/// From here down as well.
const POWER_BELOW: f64 = 1e-4;

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where on the axis it stands, in the axis's unit.
    pub value: f64,
    /// What stands beside it.
    pub text: String,
}

/// From where to where an axis goes, and its marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Whether equal ratios are equally far apart.
    pub log: bool,
    /// The value at its beginning.
    pub low: f64,
    /// The value at its end.
    pub high: f64,
    /// From low to high.
    pub ticks: Vec<Tick>,
}

impl Scale {
    /// The scale of `axis` for `values`; linear ones begin at 0 if `from_zero` says so and no value lies
    /// below. `room` is how many characters of labels fit side by side; vertical axes have no such limit.
    #[must_use]
    pub fn new(axis: &Axis, values: &[f64], from_zero: bool, room: Option<usize>) -> Self {
        let log = axis.log;
        let mut places: Vec<f64> = values.to_vec();
        places.retain(|value| value.is_finite() && (!log || *value > 0.0));
        places.sort_by(f64::total_cmp);
        places.dedup();
        let (low, high) = ends(&places, log, from_zero);
        let mut scale = Self { log, low, high, ticks: Vec::new() };
        let is_size = axis.unit == "B";
        let text = |value: f64| if is_size { size_text(value) } else { tick_text(value) };
        let own = if room.is_some() { places } else { Vec::new() };
        let choices = [own, if is_size { scale.powers_of_two() } else { scale.round() }];
        for values in choices {
            if !(TICK_COUNT_MIN..=PLACE_COUNT_MAX).contains(&values.len()) {
                continue;
            }
            let tick = |&value: &f64| Tick { value, text: text(value) };
            let ticks: Vec<Tick> = values.iter().map(tick).collect();
            if room.is_none_or(|room| scale.has_room(&ticks, room)) {
                scale.ticks = ticks;
                return scale;
            }
            // Every other one, from the last backwards, as often as it takes.
            let mut fewer = ticks;
            while fewer.len() >= 2 * TICK_COUNT_MIN - 1 {
                let last = fewer.len() - 1;
                let mut index = 0;
                fewer.retain(|_| {
                    index += 1;
                    (last + 1 - index).is_multiple_of(2)
                });
                if room.is_none_or(|room| scale.has_room(&fewer, room)) {
                    scale.ticks = fewer;
                    return scale;
                }
            }
        }
        let tick = |value: f64| Tick { value, text: text(value) };
        let values = if is_size { scale.binary() } else { scale.linear() };
        scale.ticks = values.into_iter().map(tick).collect();
        scale
    }

    /// Where `value` lies: 0 at the beginning of the scale, 1 at its end.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    fn has_room(&self, ticks: &[Tick], room: usize) -> bool {
        let half = |tick: &Tick| (tick.text.chars().count() + 1) as f64 / (2 * room) as f64;
        ticks.windows(2).all(|pair| {
            let apart = self.share(pair[1].value) - self.share(pair[0].value);
            apart >= half(&pair[0]) + half(&pair[1])
        })
    }

    fn within(&self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        values.filter(|value| (self.low..=self.high).contains(value)).collect()
    }

    fn round(&self) -> Vec<f64> {
        if !self.log {
            return self.linear();
        }
        let powers = || (-15_i32..=18).map(|power| 10_f64.powi(power));
        let tens = self.within(powers());
        if tens.len() >= TICK_COUNT_MIN {
            let stride = tens.len().div_ceil(TICK_COUNT_MAX);
            return tens.into_iter().step_by(stride).collect();
        }
        let steps =
            self.within(powers().flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * power)));
        if steps.len() >= TICK_COUNT_MIN { steps } else { self.linear() }
    }

    fn powers_of_two(&self) -> Vec<f64> {
        let powers = self.within((0_i32..63).map(|power| 2_f64.powi(power)));
        if !self.log || powers.len() < TICK_COUNT_MIN {
            return self.binary();
        }
        let stride = powers.len().div_ceil(TICK_COUNT_MAX);
        powers.into_iter().step_by(stride).collect()
    }

    /// Multiples of the largest power of two that gives three of them.
    fn binary(&self) -> Vec<f64> {
        let wanted = (self.high - self.low) / TICK_COUNT_MIN as f64;
        self.multiples(2_f64.powf(wanted.log2().floor()))
    }

    /// Multiples of the largest of 1, 2 and 5 times a power of ten that gives three of them.
    fn linear(&self) -> Vec<f64> {
        let wanted = (self.high - self.low) / TICK_COUNT_MIN as f64;
        let power = 10_f64.powf(wanted.log10().floor());
        let step = [5.0, 2.0, 1.0].into_iter().find(|step| step * power <= wanted).unwrap_or(1.0);
        self.multiples(step * power)
    }

    fn multiples(&self, step: f64) -> Vec<f64> {
        let first = (self.low / step).ceil();
        // Ten at most: the step is a sixth of the scale or more.
        self.within((0_u32..=12).map(|index| (first + f64::from(index)) * step))
    }
}

/// The ends of a scale over sorted values.
fn ends(places: &[f64], log: bool, from_zero: bool) -> (f64, f64) {
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else {
        return if log { (1.0, 10.0) } else { (0.0, 1.0) };
    };
    if log {
        let around = (last / first).powf(MARGIN).max(if first < last { 1.02 } else { 1.5 });
        return (first / around, last * around);
    }
    let from = if from_zero && first > 0.0 { 0.0 } else { first };
    let width = if last > from { last - from } else { last.abs().max(1.0) };
    let low = if from == 0.0 { 0.0 } else { from - MARGIN * width };
    (low, last + MARGIN * width)
}

/// A tick without digits that say nothing: `0.002`, `50`, `10 000`, `10⁶`.
fn tick_text(tick: f64) -> String {
    let size = tick.abs();
    if size != 0.0 && !(POWER_BELOW..POWER_FROM).contains(&size) {
        let mut power = size.log10().floor();
        let mut digit = tick / 10_f64.powf(power);
        if digit.abs() > 9.999_999 {
            (digit, power) = (digit / 10.0, power + 1.0);
        }
        let digit = (digit * 1e3).round() / 1e3;
        let power = superscript(&format!("{power:.0}"));
        return if digit == 1.0 { format!("10{power}") } else { format!("{digit}·10{power}") };
    }
    if size >= 9_999.5 { number(tick) } else { format!("{}", (tick * 1e12).round() / 1e12) }
}

fn superscript(number: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised = |character: char| match character.to_digit(10) {
        Some(digit) => DIGITS[nandu_base::to_index(digit.into())],
        None => '⁻',
    };
    number.chars().map(raised).collect()
}

/// A size as people write it, `4 KiB`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes on an axis are whole and far below 2^53"
)]
#[must_use]
pub fn size_text(bytes: f64) -> String {
    ByteCount(bytes.max(0.0) as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(unit: &str, log: bool) -> Axis {
        Axis { label: "x".into(), unit: unit.into(), log }
    }

    fn texts(axis: &Axis, values: &[f64], room: Option<usize>) -> Vec<String> {
        let scale = Scale::new(axis, values, false, room);
        for value in values {
            assert!((0.0..=1.0).contains(&scale.share(*value)), "{value} in {scale:?}");
        }
        scale.ticks.into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn logarithmic_axes_have_round_ticks_also_where_they_are_short() {
        let log = axis("s", true);
        assert_eq!(texts(&log, &[0.03, 70.0], None), ["0.1", "1", "10"]);
        assert_eq!(texts(&log, &[3.0, 80.0], None), ["5", "10", "20", "50"]);
        assert_eq!(texts(&log, &[300.0, 800.0], None), ["300", "400", "500", "600", "700", "800"]);
        assert_eq!(texts(&log, &[1e-7, 1e3], None)[..2], ["10⁻⁷", "10⁻⁵"]);
        assert_eq!(texts(&log, &[2e6, 9e6], None), ["2·10⁶", "4·10⁶", "6·10⁶", "8·10⁶"]);
    }

    #[test]
    fn every_axis_has_three_ticks_or_more_and_no_crowd() {
        for log in [false, true] {
            for unit in ["", "B"] {
                for low in [1.0, 7.0, 4096.0, 123_456.0] {
                    for factor in [1.0, 1.001, 1.3, 2.0, 9.0, 40.0, 900.0, 1e5] {
                        for room in [None, Some(48)] {
                            let found = texts(&axis(unit, log), &[low, low * factor], room);
                            assert!((3..=12).contains(&found.len()), "{low} {factor}: {found:?}");
                        }
                    }
                }
            }
        }
        assert!(texts(&axis("", true), &[], None).len() >= 3);
    }

    #[test]
    fn few_places_label_themselves_if_there_is_room() {
        let sizes: Vec<f64> = (9..=14).map(|power| 2_f64.powi(power)).collect();
        let log = axis("B", true);
        assert_eq!(
            texts(&log, &sizes, Some(60)),
            ["512 B", "1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB"]
        );
        assert_eq!(texts(&log, &sizes, Some(30)), ["1 KiB", "4 KiB", "16 KiB"]);
        let shares = axis("%", false);
        assert_eq!(texts(&shares, &[10.0, 50.0, 90.0], Some(48)), ["10", "50", "90"]);
    }
}
