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
//! 1. A figure is a series at a place, derived ones as products of measured ones: a ratio has
//!    no second name, no direction, and no ratio of ratios hides it.
//! 2. No prediction speaks of a figure that follows from what was fitted at one of its places: of a fitted
//!    figure, its inverse, the order or ratio of two, or a sum of which all parts were fitted.
//! 3. A fit names parameters, and each of these names a figure that it follows from.
//! 4. A link leads to an experiment and series that there are, an experiment's to a key of its own.

use crate::catalog;
use crate::claim::{Claim, Place, Places};
use crate::experiment::{Experiment, matches};
use crate::product::{Product, follows, with_sums};
use crate::shape::{Class, Shape};
use nandu_base::ByteCount;
use nandu_drives::profile::Profile;
use std::collections::BTreeMap;

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

/// Checks `experiments` with all profiles that there are.
///
/// # Errors
/// If a profile cannot be read, or with all that is false about classes, links and figures.
pub fn check_with_profiles(experiments: &[Experiment]) -> Result<(), String> {
    let profiles: Result<Vec<Profile>, _> =
        Profile::list().iter().map(|name| Profile::load(name)).collect();
    let profiles = profiles.map_err(|error| error.to_string())?;
    let wrong = check(experiments, &profiles);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("classes of shapes are wrong: {}", wrong.join("; ")))
}

/// What is false about classes, links and figures; nothing where all is well.
#[must_use]
pub fn check(experiments: &[Experiment], profiles: &[Profile]) -> Vec<String> {
    let mut wrong = Vec::new();
    let links = links(experiments, profiles, &mut wrong);
    // An experiment that cannot be read is told once.
    let mut others: BTreeMap<&String, Option<Vec<String>>> = BTreeMap::new();
    for Link { parameter, experiment: name, series, .. } in &links {
        let own = experiments.iter().find(|experiment| experiment.base_name() == name);
        if own.is_none() && !others.contains_key(name) {
            let other = catalog::load(name);
            if let Err(error) = &other {
                wrong.push(format!("`{parameter}` was fitted to a figure of {name}: {error}"));
            }
            others.insert(name, other.ok().map(|other| other.series_names()));
        }
        let series_names = match own {
            Some(experiment) => Some(experiment.series_names()),
            None => others[name].clone(),
        };
        if series_names.is_some_and(|names| !names.iter().any(|name| matches(series, name))) {
            wrong.push(format!(
                "`{parameter}` was fitted to `{series}` of {name}, which has no such series"
            ));
        }
    }
    for experiment in experiments {
        let fitted = Fitted::of(experiment, &links);
        for shape in &experiment.shape {
            let words = || format!("{}: {}", experiment.name, shape.claim.words());
            let found = fitted.behind(shape);
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
        if figures.is_empty() {
            wrong.push(format!("[fitted] of `{parameter}` names no figure"));
        }
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
            read(path, figures, Some(experiment.base_name()));
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
}

/// The figures of an experiment that something was fitted to.
struct Fitted<'a> {
    experiment: &'a Experiment,
    /// Every series as a product of measured ones.
    products: BTreeMap<String, Product>,
    /// Whole and parts of what is a sum.
    sums: Vec<Vec<Product>>,
    /// Where (everywhere unless said), which, and by which parameter.
    figures: Vec<(Option<Place>, Product, &'a str)>,
}

impl<'a> Fitted<'a> {
    fn of(experiment: &'a Experiment, links: &'a [Link]) -> Self {
        let products = experiment.products();
        let name = experiment.base_name();
        let mut figures = Vec::new();
        for link in links.iter().filter(|link| link.experiment == name) {
            let meant = products.iter().filter(|(series, _)| matches(&link.series, series));
            figures.extend(meant.map(|(_, product)| (link.at, product.clone(), &*link.parameter)));
        }
        Self { experiment, products, sums: experiment.sums(), figures }
    }

    /// The parameters that were fitted to figures from which one of those follows of which `shape` speaks.
    fn behind(&self, shape: &Shape) -> Vec<String> {
        let places = shape.claim.places();
        let mut found = match &shape.claim {
            Claim::RatioToPublished { series, at, .. } => {
                let published = self.experiment.published.iter();
                let meant = published.filter(|known| matches(series, &known.series));
                let points = meant.flat_map(|known| {
                    known.points.iter().map(move |point| (&*known.series, point.0))
                });
                let wanted = points.filter(|(_, x)| at.includes(x.0));
                wanted.flat_map(|(name, x)| self.behind_product(&[name], &Places::One(x))).collect()
            }
            claim => self.behind_product(&claim.series_names(), places),
        };
        found.sort();
        found.dedup();
        found
    }

    /// Those behind a series, or behind the ratio of two.
    fn behind_product(&self, names: &[&str], places: &Places) -> Vec<String> {
        let none = Product::default();
        let of_name = |name: &&str| self.products.get(*name).unwrap_or(&none);
        let mut wanted = of_name(&names[0]).clone();
        if let Some(divisor) = names.get(1) {
            wanted.multiply(of_name(divisor), -1);
        }
        let mut at: Vec<Option<Place>> = vec![None];
        for (place, ..) in &self.figures {
            if place.is_some_and(|place| places.includes(place.0)) && !at.contains(place) {
                at.push(*place);
            }
        }
        at.iter().flat_map(|place| self.behind_at(&wanted, *place)).collect()
    }

    /// Those behind `wanted` at `place`, at any if there is none.
    fn behind_at(&self, wanted: &Product, place: Option<Place>) -> Vec<String> {
        let here = |at: &Option<Place>| at.is_none() || *at == place;
        let figures = || self.figures.iter().filter(|(at, ..)| here(at));
        let distinct: Vec<&Product> = figures().fold(Vec::new(), |mut all, (_, figure, _)| {
            if !all.contains(&figure) {
                all.push(figure);
            }
            all
        });
        let follows_from = |figures: &[&Product]| {
            follows(wanted, figures) || {
                let known = with_sums(figures, &self.sums);
                known.len() > figures.len() && follows(wanted, &known.iter().collect::<Vec<_>>())
            }
        };
        if !follows_from(&distinct) {
            return Vec::new();
        }
        // Without which it does not follow, and which speak of one of its series.
        let is_behind = |figure: &&&Product| {
            let others: Vec<_> =
                distinct.iter().filter(|other| *other != *figure).copied().collect();
            figure.shares_series_with(wanted) || !follows_from(&others)
        };
        let behind: Vec<&&Product> = distinct.iter().filter(is_behind).collect();
        let of_behind = figures().filter(|(_, figure, _)| behind.contains(&&figure));
        of_behind.map(|(.., parameter)| (*parameter).to_owned()).collect()
    }
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
source = "[S] S000 table 1"
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

    const PREDICTION: &str = "class = 'prediction'\nsource = '[S] S000 table 1'\n";

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
    fn no_second_name_inverse_or_ratio_of_ratios_hides_a_fitted_figure() {
        let more = "[[derived]]\nname = 'second'\nnumerator = 'device-a.random_write'\n\
                    denominator = 'device-b.random_write'\n\
                    [[derived]]\nname = 'inverse'\nnumerator = 'device-b.random_write'\n\
                    denominator = 'device-a.random_write'\n\
                    [[derived]]\nname = 'gain'\nnumerator = 'device-a.random_write'\n\
                    denominator = 'device-a.random_read'\n\
                    [[derived]]\nname = 'gain-b'\nnumerator = 'device-b.random_write'\n\
                    denominator = 'device-b.random_read'\n\
                    [[derived]]\nname = 'gains'\nnumerator = 'gain'\ndenominator = 'gain-b'\n";
        let value = |series: &str| {
            let claim = format!("kind = 'value_within'\nseries = '{series}'\npublished = 2");
            format!("{PREDICTION}{claim}\n{more}")
        };
        let count = |series: &str, links: &[&str]| wrong(&value(series), links).len();
        assert_eq!(count("inverse", &["second @ 8KiB"]), 1);
        assert_eq!(count("second", &["inverse"]), 1);
        assert_eq!(count("gains", &["second"]), 1, "the ratio of reads is fitted as well");
        assert_eq!(count("device-a.random_write", &["device-a.random_write.mean_us"]), 1);
        assert_eq!(count("device-a.random_write.iops", &["device-a.random_write.mean_us"]), 1);
        assert_eq!(count("device-a.random_write.p99_us", &["device-a.random_write.mean_us"]), 0);
        assert_eq!(count("gain", &["second"]), 0, "of one device alone nothing was fitted");
        assert_eq!(count("gain", &["second", "gain-b @ 4KiB"]), 1);
        let ratio =
            "kind = 'ratio_within'\npublished = 2\nnumerator = 'gain'\ndenominator = 'gain-b'";
        assert_eq!(wrong(&format!("{PREDICTION}{ratio}\n{more}"), &["second"]).len(), 1);
    }

    #[test]
    fn a_sum_whose_parts_were_all_fitted_is_fitted() {
        let shape = |series: &str| {
            format!(
                "[[shape]]\n{PREDICTION}kind = 'value_within'\npublished = 2\n\
                 series = 'ocz-core.grace_hash.{series}'\n"
            )
        };
        let refused = |series: &str, fitted: &[&str]| {
            let text = format!(
                "title='t'\nquestion='q'\nmethod='m'\npaper='S001'\nreference='r'\n[measure]\nkind='join'\n\
                 scale_factor=1\nover=1\nmemory=['1MiB']\npage_bytes=['8KiB']\njoins=['grace_hash']\n\
                 [measure.drives.ocz-core]\nbase='sim:ocz-core'\n{}",
                shape(series)
            );
            let experiment = Experiment::parse("small", "small.toml", &text).unwrap();
            let links = |name: &&str| format!("small ocz-core.grace_hash.{name}");
            let mut profile = Profile::load("device-a").unwrap();
            let links: Vec<String> = fitted.iter().map(links).collect();
            profile.fitted = [("ssd.read_command_ns".to_owned(), links)].into();
            check(&[experiment], &[profile]).len()
        };
        assert_eq!(refused("total_s", &["io_s", "user_s"]), 0, "the kernel's time is not");
        assert_eq!(refused("total_s", &["io_s", "user_s", "kernel_s"]), 1);
        assert_eq!(refused("total_s", &["phase_1_s", "phase_2_s", "user_s", "kernel_s"]), 1);
        assert_eq!(refused("phase_2_s", &["total_s", "user_s", "kernel_s", "phase_1_s"]), 1);
        assert_eq!(refused("total_s", &["io_s", "cpu_s"]), 1, "by way of what cpu_s is");
    }

    #[test]
    fn one_figure_under_two_names_is_compared_with_nothing() {
        let shape = "class = 'own'\nkind = 'ordering'\nabove = 'faster'\nbelow = 'second'\n\
                     [[derived]]\nname = 'second'\nnumerator = 'device-a.random_read'\n\
                     denominator = 'device-b.random_read'\n";
        let text = format!(
            "{SMALL}[[shape]]\nclass='fit'\nkind='ratio_to_published'\n\
                            series='faster'\nfitted=['x']\n[[shape]]\n{shape}"
        );
        let error = Experiment::parse("small", "small.toml", &text).unwrap_err().to_string();
        assert!(error.contains("the same under two names"), "{error}");
    }

    #[test]
    fn a_fit_is_linked_from_its_parameter_and_links_lead_somewhere() {
        let fit = "class = 'fit'\nsource = '[S] S000 table 1'\nkind = 'value_within'\nseries = 'device-a.random_write'\n\
                   published = 3\nfitted = ['device-a ssd.write_command_ns']";
        let found = wrong(fit, &[]);
        assert!(found.len() == 1 && found[0].contains("does not name that figure"), "{found:?}");
        let own = "class = 'sanity'\nkind = 'value_within'\nseries = 'faster'\nlow = 0.1";
        assert!(wrong(own, &["device-c.random_read"])[0].contains("no such series"));
        assert!(wrong(own, &["device-a.random_read @ four"])[0].contains("[fitted] of"));
        let mut profile = Profile::load("device-a").unwrap();
        let elsewhere =
            |link: &str| [("ssd.read_command_ns".to_owned(), vec![link.to_owned()])].into();
        profile.fitted = elsewhere("s000/table-3-1 device-a.*");
        assert_eq!(check(&[], &[profile.clone()]), [""; 0]);
        profile.fitted = elsewhere("s000/table-3-1 device-a.rondam_read");
        assert!(check(&[], &[profile.clone()])[0].contains("no such series"));
        profile.fitted = [("ssd.read_command_ns".to_owned(), Vec::new())].into();
        assert!(check(&[], &[profile.clone()])[0].contains("names no figure"));
        profile.fitted = elsewhere("s000/tabel-3-1 device-a.*");
        let found = check(&[], &[profile]);
        assert!(
            found.len() == 1 && found[0].contains("no experiment `s000/tabel-3-1`"),
            "{found:?}"
        );
    }
}
