//! Which figures the parameters were fitted to, and that nothing fitted is called a prediction.
//!
//! ```text
//!   profiles/device-a.toml            experiments/s000/table-3-1.toml
//!   [fitted]                          [[shape]]
//!   "ssd.read_command_ns" =           class = "fit"
//!     ["s000/table-3-1 device-a.      fitted = ["device-a ssd.read_command_ns"]
//!       sequential_read.of_disk       series = "device-a.sequential_read.of_disk"
//!       @ 4KiB"]  ───── the same figure ─────┘
//! ```
//!
//! 1. A figure is a series at a place; a derived series is also the ratio that it stands for.
//! 2. No prediction speaks of a figure that something was fitted to, nor of the order or ratio of two such.
//! 3. A fit names parameters, and each of these names a figure of the fit.
//! 4. A link leads to an experiment and series that there are.

use crate::claim::{Claim, Place, Places};
use crate::experiment::{Experiment, matches};
use crate::shape::{Class, Shape};
use nandu_base::ByteCount;
use nandu_drives::profile::Profile;

/// A figure that a parameter was fitted to.
#[derive(Clone, Debug, PartialEq)]
struct Link {
    /// `device-a ssd.read_command_ns`, or `measure.oltp`.
    parameter: String,
    experiment: String,
    /// A name of series, `*` for any one part.
    series: String,
    at: Option<Place>,
}

/// What is false about classes, links and figures; nothing where all is well.
#[must_use]
pub fn check(experiments: &[Experiment], profiles: &[Profile]) -> Vec<String> {
    let mut wrong = Vec::new();
    let links = links(experiments, profiles, &mut wrong);
    for link in &links {
        let of_name = |experiment: &&Experiment| experiment.name == link.experiment;
        // Who checks a few experiments has not read the others.
        let Some(experiment) = experiments.iter().find(of_name) else { continue };
        if !experiment.series_names().iter().any(|name| matches(&link.series, name)) {
            let Link { parameter, experiment, series, .. } = link;
            wrong.push(format!(
                "`{parameter}` was fitted to `{series}` of {experiment}, which has no such series"
            ));
        }
    }
    for experiment in experiments {
        let own: Vec<&Link> =
            links.iter().filter(|link| link.experiment == experiment.name).collect();
        for shape in &experiment.shape {
            let words = || format!("{}: {}", experiment.name, shape.claim.words());
            let found = parameters_behind(experiment, shape, &own);
            match shape.standing.class {
                Class::Prediction => wrong.extend(found.iter().map(|parameter| {
                    format!(
                        "{} is called a prediction, but `{parameter}` was fitted to it",
                        words()
                    )
                })),
                Class::Fit => {
                    for name in shape.standing.fitted.iter().filter(|name| !found.contains(*name)) {
                        wrong.push(format!(
                            "{} is a fit of `{name}`, whose [fitted] does not name that figure",
                            words()
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    wrong
}

fn links(experiments: &[Experiment], profiles: &[Profile], wrong: &mut Vec<String>) -> Vec<Link> {
    let mut links = Vec::new();
    let mut read = |parameter: &str, figures: &[String], own: Option<&str>| {
        for figure in figures {
            match Link::parse(parameter, figure, own) {
                Ok(link) => links.push(link),
                Err(message) => wrong.push(format!("[fitted] of `{parameter}`: {message}")),
            }
        }
    };
    for profile in profiles {
        for (path, figures) in &profile.fitted {
            read(&format!("{} {path}", profile.name), figures, None);
        }
    }
    for experiment in experiments {
        for (path, figures) in &experiment.fitted {
            read(path, figures, Some(&experiment.name));
        }
    }
    links
}

impl Link {
    /// Reads `EXPERIMENT SERIES @ PLACE`, whose place may be absent, and whose experiment where it is `own`.
    fn parse(parameter: &str, text: &str, own: Option<&str>) -> Result<Self, String> {
        let (figure, at) = match text.split_once('@') {
            Some((figure, place)) => (figure, Some(place.trim())),
            None => (text, None),
        };
        let at = at.map(|place| {
            let size = || ByteCount::parse(place).map(|size| Place(size.0 as f64));
            place.parse().map(Place).or_else(|_| size())
        });
        let mut words = figure.split_whitespace();
        let (experiment, series) = match (words.next(), words.next(), words.next(), own) {
            (Some(series), None, None, Some(own)) => (own, series),
            (Some(experiment), Some(series), None, _) => (experiment, series),
            _ => return Err(format!("`{text}` is not \"EXPERIMENT SERIES @ PLACE\"")),
        };
        Ok(Self {
            parameter: parameter.into(),
            experiment: experiment.into(),
            series: series.into(),
            at: at.transpose()?,
        })
    }

    /// Whether it was fitted to `series` at one of `places`.
    fn covers(&self, series: &str, places: &Places) -> bool {
        matches(&self.series, series) && self.at.is_none_or(|at| places.includes(at.0))
    }
}

/// The parameters that were fitted to a figure of which `shape` speaks.
fn parameters_behind(experiment: &Experiment, shape: &Shape, links: &[&Link]) -> Vec<String> {
    let places = shape.claim.places();
    let behind = |series: &str, places: &Places| -> Vec<String> {
        let covering = links.iter().filter(|link| link.covers(series, places));
        covering.map(|link| link.parameter.clone()).collect()
    };
    // A series under every name that it has.
    let by_any_name = |series: &str, places: &Places| -> Vec<String> {
        let mut found = behind(series, places);
        for ratio in experiment.derived_ratios().iter().filter(|ratio| ratio.name == series) {
            found
                .extend(both(behind(&ratio.numerator, places), behind(&ratio.denominator, places)));
        }
        found
    };
    let mut found = match &shape.claim {
        Claim::RatioToPublished { series, at, .. } => {
            let meant = experiment.published.iter().filter(|known| matches(series, &known.series));
            let points =
                meant.flat_map(|known| known.points.iter().map(|point| (&known.series, point.0)));
            let wanted = points.filter(|(_, x)| at.includes(x.0));
            wanted.flat_map(|(name, x)| by_any_name(name, &Places::One(x))).collect()
        }
        Claim::RatioWithin { numerator: first, denominator: second, .. }
        | Claim::Ordering { above: first, below: second, .. }
        | Claim::Crossover { first, second, .. } => {
            let mut found = both(by_any_name(first, places), by_any_name(second, places));
            for ratio in experiment.derived_ratios() {
                let pair = [&ratio.numerator, &ratio.denominator];
                if pair == [first, second] || pair == [second, first] {
                    found.extend(behind(&ratio.name, places));
                }
            }
            found
        }
        Claim::ValueWithin { series, .. }
        | Claim::Monotone { series, .. }
        | Claim::Constant { series, .. } => by_any_name(series, places),
    };
    found.sort();
    found.dedup();
    found
}

/// Those behind either, where there are some behind both.
fn both(first: Vec<String>, second: Vec<String>) -> Vec<String> {
    if first.is_empty() || second.is_empty() { Vec::new() } else { [first, second].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
title = "t"
question = "q"
method = "m"
paper = "S000"
reference = "r"

[measure]
kind = "probe"
devices = ["sim:device-a", "sim:device-b"]
request_bytes = ["4KiB", "8KiB"]

[measure.scale]
flash_capacity = "64MiB"
request_count = 20
point_bytes = "1MiB"

[[derived]]
name = "faster"
numerator = "device-a.random_read"
denominator = "device-b.random_read"

[[published]]
series = "faster"
source = "[S] somewhere"
points = [["4KiB", 2], ["8KiB", 2]]
"#;

    /// What is wrong with SMALL, `shape`, and device A's figures fitted to `links`.
    fn wrong(shape: &str, links: &[&str]) -> Vec<String> {
        let rest = "\n[[shape]]\nclass = 'fit'\nkind = 'ratio_to_published'\nseries = 'faster'\n\
                    fitted = ['device-a ssd.read_command_ns']\n";
        let text = format!("{SMALL}{rest}[[shape]]\n{shape}");
        let experiment = Experiment::parse("small", "small.toml", &text).unwrap();
        let mut profile = Profile::load("device-a").unwrap();
        let mut links: Vec<String> = links.iter().map(|link| format!("small {link}")).collect();
        links.push("small faster".into());
        profile.fitted = [("ssd.read_command_ns".to_owned(), links)].into();
        check(&[experiment], &[profile])
    }

    const PREDICTION: &str = "class = 'prediction'\nsource = '[S] x'\n";

    #[test]
    fn a_prediction_of_what_was_fitted_is_refused() {
        let value = |at: &str| {
            format!(
                "{PREDICTION}kind = 'value_within'\nseries = 'device-a.random_write'\npublished = 3\n{at}"
            )
        };
        assert_eq!(wrong(&value(""), &["device-b.*"]), [""; 0]);
        assert_eq!(wrong(&value(""), &["device-a.random_write @ 4KiB"]).len(), 1);
        assert_eq!(wrong(&value("at = '8KiB'"), &["device-a.random_write @ 4KiB"]), [""; 0]);
        assert_eq!(wrong(&value("at = ['8KiB', 4096]"), &["device-a.* @ 4KiB"]).len(), 1);
    }

    #[test]
    fn the_ratio_of_two_is_the_same_figure_under_any_name() {
        let ratio = format!(
            "{PREDICTION}kind = 'ratio_within'\npublished = 2\nnumerator = 'device-b.random_read'\n\
             denominator = 'device-a.random_read'"
        );
        assert_eq!(wrong(&ratio, &[]).len(), 1, "the derived series says the same");
        let order = format!(
            "{PREDICTION}kind = 'ordering'\nabove = 'device-b.random_write'\nbelow = 'device-a.random_write'"
        );
        assert_eq!(
            wrong(&order, &["device-a.random_write"]),
            [""; 0],
            "one alone decides no order"
        );
        assert_eq!(wrong(&order, &["*.random_write"]).len(), 1);
    }

    #[test]
    fn a_fit_is_linked_from_its_parameter_and_links_lead_somewhere() {
        let fit = "class = 'fit'\nsource = '[S] x'\nkind = 'value_within'\nseries = 'device-a.random_write'\n\
                   published = 3\nfitted = ['device-a ssd.write_command_ns']";
        let found = wrong(fit, &[]);
        assert!(found.len() == 1 && found[0].contains("does not name that figure"), "{found:?}");
        let own = "class = 'sanity'\nkind = 'value_within'\nseries = 'faster'\nlow = 0";
        assert!(wrong(own, &["device-c.random_read"])[0].contains("no such series"));
        assert!(wrong(own, &["device-a.random_read @ four"])[0].contains("[fitted] of"));
    }
}
