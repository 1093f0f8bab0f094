//! Watts over time of an outcome, as a figure of its page.
//!
//! 1. A curve is a step's; a figure has few of them, and says so where there are more.

use crate::outcome::{Axis, Figure, Outcome, StepEnergy, Trace};

/// The most curves of a figure.
const CURVE_COUNT_MAX: usize = 8;

/// Watts over time of the first steps that tell them; `None` where none does.
pub(super) fn figure(outcome: &Outcome) -> Option<Figure> {
    let told_count = steps(outcome).count();
    if told_count == 0 {
        return None;
    }
    let caption = match told_count > CURVE_COUNT_MAX {
        true => format!("The first {CURVE_COUNT_MAX} of {told_count} steps that tell it."),
        false => String::new(),
    };
    let axis = |label: &str, unit: &str, log| Axis { label: label.into(), unit: unit.into(), log };
    Some(Figure {
        title: "Watts over time".into(),
        caption,
        x: axis("time", "s", true),
        y: axis("mean power of an interval", "W", false),
        traces: steps(outcome).take(CURVE_COUNT_MAX).map(trace).collect(),
    })
}

/// What the curves' colours must tell apart.
pub(super) fn groups(outcome: &Outcome) -> Option<Vec<&str>> {
    let groups: Vec<&str> =
        steps(outcome).take(CURVE_COUNT_MAX).map(|step| step.step.as_str()).collect();
    (!groups.is_empty()).then_some(groups)
}

/// Those that were looked at in between.
fn steps(outcome: &Outcome) -> impl Iterator<Item = &StepEnergy> {
    let is_told = |step: &&StepEnergy| {
        step.energy.watts_over_time.as_ref().is_some_and(|course| course.watts.len() > 1)
    };
    outcome.energy.iter().filter(is_told)
}

fn trace(step: &StepEnergy) -> Trace {
    let course = step.energy.watts_over_time.as_ref().expect("steps without are left out");
    let middle = |(index, &watts): (usize, &f64)| {
        let from = index as f64 * course.interval_seconds;
        let to = (from + course.interval_seconds).min(step.energy.seconds.max(from));
        ((from + to) / 2.0, watts)
    };
    Trace {
        series: step.step.clone(),
        label: step.step.clone(),
        group: step.step.clone(),
        variant: String::new(),
        published: false,
        points: course.watts.iter().enumerate().map(middle).filter(|(at, _)| *at > 0.0).collect(),
    }
}
