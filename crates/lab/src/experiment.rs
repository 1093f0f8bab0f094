//! An experiment as written in TOML: a question, a measurement, published values, and shapes that
//! must hold.
//!
//! ```text
//!   title, question, method, paper, reference    for people
//!   [measure]       kind = "probe" | …, then what that kind needs (module kind)
//!   [full]          keys of [measure] with the paper's values, where those take long
//!   [labels]        part of a series name = words for people
//!   [[derived]]     a series that is the ratio of two others, for each of some names
//!   [[published]]   points that the paper prints, with their source
//!   [[figure]]      series by pattern (`*`), axes
//!   [[bars]] [[table]]   rows x columns of the values at one x
//!   [[shape]]       module shape
//!   [fitted]        "measure.PARAMETER" = the figures that it was fitted to (module fitted)
//! ```
//!
//! 1. A loaded experiment has been checked: every series that it names can exist, at the full scale
//!    as well.

use crate::claim::{Claim, Evidence, Place, PublishedValue, is_positive, ratio_points};
use crate::error::LabError;
use crate::kind::ExperimentKind;
use crate::kind::drive::merge;
use crate::outcome::{Axis, Cell, Figure, Grid, Outcome, Series, Trace, Verdict};
use crate::product::Product;
use crate::shape::{Class, SOURCE_FORM, Shape, is_source};
use nandu_base::words::{did_you_mean, nearest_expected};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the measurement begins in the file.
const MEASURE: &str = "[measure]";

/// What the name of an experiment at the scale of the paper ends with.
pub(crate) const FULL_ENDING: &str = "-full";

/// An experiment as its file describes it: see the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// `s000/table-3-1`; the file's path without its ending.
    #[serde(skip)]
    pub name: String,
    /// What the report and lists call it, on one line.
    pub title: String,
    /// What one wants to know.
    pub question: String,
    /// How it is measured, and what differs from the paper.
    pub method: String,
    /// The paper's mark, such as `S000`, or `-`.
    pub paper: String,
    /// Where in the paper.
    pub reference: String,
    /// What is measured.
    pub measure: ExperimentKind,
    /// What differs in `measure` at the scale of the paper; empty where it has that scale anyway.
    #[serde(default)]
    pub full: toml::Table,
    #[serde(skip)]
    full_measure: Option<Box<ExperimentKind>>,
    /// The text that it was read from.
    #[serde(skip)]
    pub text: String,
    /// Words for the parts of series names.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Ratios of series.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// What the paper prints.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Figures with lines.
    #[serde(default)]
    pub figure: Vec<FigureSpec>,
    /// Figures with bars.
    #[serde(default)]
    pub bars: Vec<GridSpec>,
    /// Tables of values by row and column, under the figures.
    #[serde(default)]
    pub table: Vec<GridSpec>,
    /// What must hold.
    #[serde(default)]
    pub shape: Vec<Shape>,
    /// Parameters of the measurement, such as `measure.oltp`, and the figures that each was fitted to.
    #[serde(default)]
    pub fitted: BTreeMap<String, Vec<String>>,
}

/// Series that are ratios of two others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// Its name; `{key}` stands for a name of `each`.
    pub name: String,
    /// The series that is divided.
    pub numerator: String,
    /// The series that it is divided by.
    pub denominator: String,
    /// Names to put in place of `{key}`, in every combination.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<String>>,
}

/// Points that a paper prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The series of ours that they belong to.
    pub series: String,
    /// Mark, paper and table: `[S] S000 table 3.1`.
    pub source: String,
    /// Unit of the values; empty for a pure number.
    #[serde(default)]
    pub unit: String,
    /// Pairs of x and value.
    pub points: Vec<(Place, f64)>,
}

/// A figure with lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// What stands above the figure.
    pub title: String,
    /// What stands below the figure; empty for nothing.
    #[serde(default)]
    pub caption: String,
    /// The horizontal axis: its name and its scale.
    pub x: Axis,
    /// The vertical axis: its name and its scale.
    pub y: Axis,
    /// Names of series; `*` stands for anything but a dot.
    pub series: Vec<String>,
}

/// A table, or a figure with bars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridSpec {
    /// What stands above the table or the bars.
    pub title: String,
    /// What stands below the table or the bars; empty for nothing.
    #[serde(default)]
    pub caption: String,
    /// What the values are; the scale of bars.
    pub value: Axis,
    /// Names of the rows; a row without any value is left out.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The series of a cell, with `{row}` and `{column}`.
    pub cell: String,
    /// Where on its x axis.
    pub at: Place,
}

impl Experiment {
    /// Parses and checks the experiment `name` that `file` holds.
    ///
    /// # Errors
    /// [`LabError::Invalid`] with the line; an unknown key or series comes with the nearest one.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, LabError> {
        let wrong = |error: toml::de::Error| toml_error(file, text, &error);
        let mut experiment: Self = toml::from_str(text).map_err(wrong)?;
        // The text is read as a table later on. That fails for numbers past 2^63, so it is tried
        // now, where the line can be told.
        let table: toml::Table = text.parse().map_err(wrong)?;
        experiment.name = name.into();
        experiment.text = text.into();
        let invalid = |(word, message): (String, String)| LabError::Invalid {
            file: file.into(),
            line: match word.as_str() {
                MEASURE => line_in_measure(text, &message),
                word => line_of(text, word),
            },
            message,
        };
        experiment.check().map_err(invalid)?;
        if let Some(path) = experiment.fitted.keys().find(|path| !has_key(&table, path)) {
            let message = format!("`[fitted]` speaks of `{path}`, a key that is not there");
            return Err(invalid((path.clone(), message)));
        }
        if experiment.full.is_empty() {
            if experiment.shape.iter().any(|shape| shape.full.is_some()) {
                let message = "`full` of a shape needs `[full]`, a scale of the paper".to_owned();
                return Err(invalid(("full".to_owned(), message)));
            }
        } else {
            let in_full = |message: String| invalid(("[full".to_owned(), message));
            let measure = full_measure(table, &experiment.full).map_err(in_full)?;
            experiment.full_measure = Some(Box::new(measure));
            let full = experiment.clone().at_full_scale().expect("it has one");
            full.check().map_err(|(_, message)| in_full(message))?;
        }
        Ok(experiment)
    }

    /// The experiment at the scale of the paper, under a name that ends in `-full`; `None` where
    /// `[full]` is absent.
    #[must_use]
    pub fn at_full_scale(mut self) -> Option<Self> {
        self.measure = *self.full_measure.take()?;
        self.name.push_str(FULL_ENDING);
        self.full = toml::Table::new();
        for shape in &mut self.shape {
            if let Some(full) = shape.full.take() {
                *shape = *full;
            }
        }
        Some(self)
    }

    /// Its name at whichever scale.
    pub(crate) fn base_name(&self) -> &str {
        self.name.strip_suffix(FULL_ENDING).unwrap_or(&self.name)
    }

    /// Every series that the experiment may have.
    #[must_use]
    pub fn series_names(&self) -> Vec<String> {
        let mut names = self.measure.as_measurement().series_names();
        names.extend(self.derived_ratios().into_iter().map(|ratio| ratio.name));
        names
    }

    /// Checks rule 1; the error is a word to be found in the text, and a message.
    fn check(&self) -> Result<(), (String, String)> {
        let measurement = self.measure.as_measurement();
        measurement.check().map_err(|message| (MEASURE.to_owned(), message))?;
        let names = self.series_names();
        let known = |name: &str| {
            if names.iter().any(|known| known == name) {
                return Ok(());
            }
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            Err((name.to_owned(), format!("no series is called `{name}`{hint}")))
        };
        self.published.iter().try_for_each(|published| known(&published.series))?;
        let products = self.products();
        for ratio in self.derived_ratios() {
            if products.get(&ratio.name).is_some_and(Product::is_one) {
                let message = format!("`{}` is 1, whatever is measured", ratio.name);
                return Err((ratio.name, message));
            }
            if names.iter().filter(|name| **name == ratio.name).count() > 1 {
                // What shapes are judged by and what they are said to follow from would be two series.
                let message = format!("there are two series called `{}`", ratio.name);
                return Err((ratio.name, message));
            }
        }
        self.check_shapes(known)?;
        for ratio in self.derived_ratios() {
            known(&ratio.numerator)?;
            known(&ratio.denominator)?;
        }
        for pattern in self.figure.iter().flat_map(|figure| &figure.series) {
            if !names.iter().any(|name| matches(pattern, name)) {
                let message = format!("no series matches `{pattern}`");
                return Err((pattern.clone(), message));
            }
        }
        for grid in self.table.iter().chain(&self.bars) {
            let mut cells = grid
                .rows
                .iter()
                .flat_map(|row| grid.columns.iter().map(move |column| grid.cell_name(row, column)));
            if !cells.any(|cell| names.contains(&cell)) {
                let message = format!("no cell of `{}` is a series", grid.title);
                return Err((grid.cell.clone(), message));
            }
        }
        Ok(())
    }

    /// Shapes are whole, and no published point is left without one.
    fn check_shapes(
        &self,
        known: impl Fn(&str) -> Result<(), (String, String)>,
    ) -> Result<(), (String, String)> {
        let products = self.products();
        for shape in &self.shape {
            let names = shape.claim.series_names();
            shape.check().map_err(|message| (names[0].to_owned(), message))?;
            match shape.claim {
                Claim::RatioToPublished { ref series, .. } if series.contains('*') => {
                    let is_meant = |published: &Published| matches(series, &published.series);
                    if !self.published.iter().any(is_meant) {
                        let message = format!("no published series matches `{series}`");
                        return Err((series.clone(), message));
                    }
                }
                _ => names.iter().copied().try_for_each(&known)?,
            }
            if let [first, second] = names[..]
                && products.get(first) == products.get(second)
            {
                let message = format!("`{first}` and `{second}` are the same under two names");
                return Err((first.to_owned(), message));
            }
        }
        self.check_counted_once(&products)?;
        for published in &self.published {
            if !is_source(&published.source) {
                let message = format!("`source` of what is published, {SOURCE_FORM}");
                return Err((published.source.clone(), message));
            }
            for (x, value) in &published.points {
                if !(x.0.is_finite() && is_positive(*value)) {
                    let message = format!("a published point is finite and above 0, not {value}");
                    return Err((published.series.clone(), message));
                }
                let gates = |shape: &Shape| {
                    shape.is_beside_published() && shape.gates(&published.series, x.0, *value)
                };
                if !self.shape.iter().any(gates) {
                    let message = format!(
                        "the published point of `{}` at {} has no shape: add a prediction, a fit or what differs",
                        published.series, x.0
                    );
                    return Err((published.series.clone(), message));
                }
            }
        }
        Ok(())
    }

    /// One claim is one shape: none stands there twice, no sentence is judged at two places, and what is printed
    /// is compared with what ours is, under whatever name, in one prediction or difference.
    fn check_counted_once(
        &self,
        products: &BTreeMap<String, Product>,
    ) -> Result<(), (String, String)> {
        let refuse = |shape: &Shape, message: String| {
            Err((shape.claim.series_names()[0].to_owned(), message))
        };
        let is_counted =
            |shape: &Shape| matches!(shape.standing.class, Class::Prediction | Class::Differs);
        for (index, shape) in self.shape.iter().enumerate() {
            let before = &self.shape[..index];
            if before.iter().any(|other| other.claim == shape.claim) {
                return refuse(shape, "this claim has a shape already".into());
            }
            let is_sentence = |shape: &Shape| {
                is_counted(shape) && !matches!(shape.claim, Claim::RatioToPublished { .. })
            };
            let is_same = |other: &&Shape| {
                is_sentence(other)
                    && other.standing.source == shape.standing.source
                    && other.claim.published() == shape.claim.published()
            };
            if is_sentence(shape)
                && let Some(other) = before.iter().find(is_same)
            {
                let message = format!(
                    "{} is judged by the same sentence ({}): one sentence is one claim, judged where it is farthest \
                     off, and the rest is `own`",
                    other.claim.words(),
                    shape.standing.source
                );
                return refuse(shape, message);
            }
        }
        for published in &self.published {
            let Some(product) = products.get(&published.series) else { continue };
            for (x, value) in &published.points {
                let speaks_of_it = |shape: &&Shape| {
                    shape.standing.class.is_published()
                        && shape.claim.places().includes(x.0)
                        && match &shape.claim {
                            Claim::RatioToPublished { series, .. } => {
                                matches(series, &published.series)
                            }
                            claim => {
                                claim.published().is_some()
                                    && claim.figure(products).as_ref() == Some(product)
                            }
                        }
                };
                let here: Vec<&Shape> = self.shape.iter().filter(speaks_of_it).collect();
                let is_other = |shape: &&&Shape| {
                    let known = shape.claim.published();
                    known.is_some_and(|known| known != PublishedValue::Value(*value))
                };
                if let Some(shape) = here.iter().find(is_other) {
                    let message = format!(
                        "of `{}` at {} the paper prints {value}, as [[published]] says: `published` is that",
                        published.series, x.0
                    );
                    return refuse(shape, message);
                }
                if here.len() > 1
                    && let Some(shape) = here.iter().rev().find(|shape| is_counted(shape))
                {
                    let message = format!(
                        "the published point of `{}` at {} has several shapes: a printed number has one class",
                        published.series, x.0
                    );
                    return refuse(shape, message);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn derived_ratios(&self) -> Vec<Derived> {
        self.derived.iter().flat_map(Derived::expand).collect()
    }

    /// Every series as a product of measured ones.
    pub(crate) fn products(&self) -> BTreeMap<String, Product> {
        let measured = self.measure.as_measurement().series_names();
        // Of requests of one size, rate and mean time say no more than the throughput.
        let of = |name: &String| {
            let other = [(".iops", 1), (".mean_us", -1)].into_iter().find_map(|(suffix, power)| {
                let stem = name.strip_suffix(suffix)?;
                measured.iter().any(|known| known == stem).then_some((stem, power))
            });
            let (stem, power) = other.unwrap_or((name, 1));
            let mut product = Product::default();
            product.multiply(&Product::of(stem), power);
            (name.clone(), product)
        };
        let mut products: BTreeMap<String, Product> = measured.iter().map(of).collect();
        // Ratios stand in the order of the file and may be of series or of ratios before them, so
        // one pass is enough.
        for Derived { name, numerator, denominator, .. } in self.derived_ratios() {
            let (Some(above), Some(below)) = (products.get(&numerator), products.get(&denominator))
            else {
                continue;
            };
            let mut product = above.clone();
            product.multiply(below, -1);
            products.insert(name, product);
        }
        products
    }

    /// Whole and parts of each sum of measured series, as products.
    pub(crate) fn sums(&self) -> Vec<Vec<Product>> {
        let sums = self.measure.as_measurement().sums();
        sums.iter().map(|sum| sum.iter().map(|name| Product::of(name)).collect()).collect()
    }

    /// Words for a series name.
    #[must_use]
    pub fn label(&self, name: &str) -> String {
        name.split('.').map(|part| self.part_label(part)).collect::<Vec<_>>().join(", ")
    }

    fn part_label(&self, part: &str) -> String {
        self.labels.get(part).cloned().unwrap_or_else(|| part.replace('_', " "))
    }

    /// Makes the outcome of measured `series`: derives, draws, judges.
    #[must_use]
    pub fn conclude(
        &self,
        seed: u64,
        config_hash: String,
        mut series: Vec<Series>,
        notes: Vec<String>,
    ) -> Outcome {
        for ratio in self.derived_ratios() {
            let find = |name: &str| series.iter().find(|series| series.name == name);
            if let (Some(above), Some(below)) = (find(&ratio.numerator), find(&ratio.denominator)) {
                let mut points = ratio_points(above, below);
                // What is divided by 0 has no place in a table or figure.
                points.retain(|point| point.1.is_finite());
                let x_unit = above.x_unit.clone();
                series.push(Series { name: ratio.name, x_unit, y_unit: String::new(), points });
            }
        }
        series.sort_by(|left, right| left.name.cmp(&right.name));
        let verdicts = self.judge(&[&series]);
        let figures = self.figure.iter().map(|figure| self.draw(figure, &series)).collect();
        let grids = self.bars.iter().map(|spec| self.fill(spec, true, &series));
        let grids = grids.chain(self.table.iter().map(|spec| self.fill(spec, false, &series)));
        Outcome {
            experiment: self.name.clone(),
            title: self.title.clone(),
            question: self.question.clone(),
            method: self.method.clone(),
            reference: self.reference.clone(),
            seed,
            seeds: vec![seed],
            config_hash,
            verdicts,
            figures,
            grids: grids.collect(),
            notes,
            series,
            published: self.published.clone(),
            energy: Vec::new(),
            drive_energy: Vec::new(),
            silent_drives: Vec::new(),
            worth: Vec::new(),
        }
    }

    /// The verdicts by the series that each seed found, with words in place of series names.
    #[must_use]
    pub fn judge(&self, seeds: &[&[Series]]) -> Vec<Verdict> {
        let evidence = |series| Evidence { series, published: &self.published };
        let seeds: Vec<Evidence<'_>> = seeds.iter().map(|series| evidence(*series)).collect();
        let verdict = |shape: &Shape| {
            let mut verdict = shape.judge(&seeds);
            let mut names = shape.claim.series_names();
            names.extend(self.published.iter().map(|published| published.series.as_str()));
            // The longer name first, since the shorter may be its beginning.
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
            for name in names {
                let label = self.label(name);
                verdict.text = verdict.text.replace(name, &label);
                verdict.claim = verdict.claim.replace(name, &label);
            }
            verdict
        };
        self.shape.iter().map(verdict).collect()
    }

    fn draw(&self, spec: &FigureSpec, series: &[Series]) -> Figure {
        let mut traces = Vec::new();
        for pattern in &spec.series {
            for series in series.iter().filter(|series| matches(pattern, &series.name)) {
                traces.push(self.trace(&series.name, series.points.clone(), None));
            }
            let ours =
                self.published.iter().filter(|published| matches(pattern, &published.series));
            for published in ours {
                let points = published.points.iter().map(|(x, y)| (x.0, *y)).collect();
                traces.push(self.trace(&published.series, points, Some(&published.source)));
            }
        }
        // Where all curves show the same of different devices, the device alone names a curve.
        let same = traces.windows(2).all(|pair| pair[0].variant == pair[1].variant);
        for trace in traces.iter_mut().filter(|trace| same && !trace.published) {
            trace.label = self.part_label(&trace.group);
        }
        let groups = traces.windows(2).all(|pair| pair[0].group == pair[1].group);
        for trace in traces.iter_mut().filter(|trace| groups && !trace.published && !same) {
            trace.label = self.label(&trace.variant);
        }
        // What all curves show stands on the axis; it need not stand in every label.
        let last = |trace: &Trace| trace.variant.rsplit_once('.').map(|(_, part)| part.to_owned());
        let common = traces.first().and_then(last);
        let common =
            common.filter(|part| traces.iter().all(|trace| last(trace).as_ref() == Some(part)));
        for trace in traces.iter_mut().filter(|_| common.is_some() && !same) {
            let (before, after) = trace.label.rsplit_once(", published").map_or_else(
                || (trace.label.clone(), String::new()),
                |(name, source)| (name.to_owned(), format!(", published{source}")),
            );
            let tail = format!(", {}", self.part_label(common.as_deref().unwrap_or_default()));
            let before = before.strip_suffix(&tail).unwrap_or(&before).to_owned();
            trace.label = before + &after;
        }
        Figure {
            title: spec.title.clone(),
            caption: spec.caption.clone(),
            x: spec.x.clone(),
            y: spec.y.clone(),
            traces,
        }
    }

    fn trace(&self, name: &str, points: Vec<(f64, f64)>, source: Option<&str>) -> Trace {
        let (group, variant) = name.split_once('.').unwrap_or((name, ""));
        let mut label = self.label(name);
        if let Some(source) = source {
            let place = source.split(':').next().unwrap_or(source);
            label.push_str(&format!(", published {place}"));
        }
        Trace {
            series: name.into(),
            label,
            group: group.into(),
            variant: variant.into(),
            published: source.is_some(),
            points,
        }
    }

    fn fill(&self, spec: &GridSpec, bars: bool, series: &[Series]) -> Grid {
        let cell = |row: &str, column: &str| {
            let name = spec.cell_name(row, column);
            let ours = series.iter().find(|series| series.name == name);
            let published = self.published.iter().filter(|published| published.series == name);
            let mut published = published.flat_map(|published| &published.points);
            Cell {
                ours: ours.and_then(|series| series.at(spec.at.0)),
                published: published.find(|point| point.0 == spec.at).map(|point| point.1),
            }
        };
        let mut rows = Vec::new();
        let mut cells = Vec::new();
        for row in &spec.rows {
            let line: Vec<Cell> = spec.columns.iter().map(|column| cell(row, column)).collect();
            if line.iter().any(|cell| *cell != Cell::default()) {
                rows.push(self.part_label(row));
                cells.push(line);
            }
        }
        Grid {
            title: spec.title.clone(),
            caption: spec.caption.clone(),
            bars,
            value: spec.value.clone(),
            columns: spec.columns.iter().map(|column| self.part_label(column)).collect(),
            column_groups: spec.columns.clone(),
            rows,
            cells,
        }
    }
}

impl Derived {
    /// One ratio for every combination of `each`, without placeholders.
    fn expand(&self) -> Vec<Self> {
        let mut ratios = vec![Self { each: BTreeMap::new(), ..self.clone() }];
        for (key, values) in &self.each {
            let put = |ratio: &Self, value: &String| {
                let fill = |text: &str| text.replace(&format!("{{{key}}}"), value);
                Self {
                    name: fill(&ratio.name),
                    numerator: fill(&ratio.numerator),
                    denominator: fill(&ratio.denominator),
                    each: BTreeMap::new(),
                }
            };
            let all = ratios.iter().flat_map(|ratio| values.iter().map(move |v| put(ratio, v)));
            ratios = all.collect();
        }
        ratios
    }
}

impl GridSpec {
    fn cell_name(&self, row: &str, column: &str) -> String {
        self.cell.replace("{row}", row).replace("{column}", column)
    }
}

/// Whether `name` matches `pattern`, where a part `*` stands for any one part.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (mut wanted, mut found) = (pattern.split('.'), name.split('.'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(want), Some(part)) if want == "*" || want == part => {}
            _ => return false,
        }
    }
}

/// Whether `table` has a key at `path`, below `measure`; parts of lists are numbers.
fn has_key(table: &toml::Table, path: &str) -> bool {
    let mut keys = path.split('.');
    let mut place = keys.next().filter(|key| *key == "measure").and_then(|key| table.get(key));
    for key in keys {
        place = place.and_then(|value| match value {
            toml::Value::Array(list) => list.get(key.parse::<usize>().ok()?),
            other => other.get(key),
        });
    }
    path.contains('.') && place.is_some()
}

/// The measurement of an experiment's `table` with the keys of `full` in place.
fn full_measure(mut table: toml::Table, full: &toml::Table) -> Result<ExperimentKind, String> {
    let measure = table.get_mut("measure").and_then(toml::Value::as_table_mut);
    let measure = measure.expect("every experiment has one");
    merge(measure, full);
    let kind = toml::Value::Table(measure.clone()).try_into();
    kind.map_err(|error: toml::de::Error| error.message().trim_end().to_owned())
}

/// The line on which `word` stands first, from 1.
fn line_of(text: &str, word: &str) -> usize {
    1 + text.lines().position(|line| !line.starts_with('#') && line.contains(word)).unwrap_or(0)
}

/// The line of the measurement that `message` speaks of: that of the first key that it names, else the
/// first of all.
fn line_in_measure(text: &str, message: &str) -> usize {
    let first = line_of(text, MEASURE);
    let lines = || text.lines().enumerate().skip(first - 1);
    let named = message.split('`').skip(1).step_by(2);
    let find = |key: &str, from: usize| {
        let mut rest = lines().skip_while(|&(index, _)| index < from);
        rest.find(|(_, line)| has_key_in(line, key)).map(|(index, _)| index)
    };
    // Each key of a path stands behind the one before it; the last one alone says something, too.
    let find_path = |path: &str| {
        let mut keys = path.split('.');
        let found = keys.try_fold(0, |from, key| find(key, from));
        found.or_else(|| find(path.rsplit('.').next().unwrap_or(path), 0))
    };
    named.filter_map(find_path).map(|index| index + 1).next().unwrap_or(first)
}

/// Whether `key` is a key on this line, by itself, within a table, or as the end of a heading.
fn has_key_in(line: &str, key: &str) -> bool {
    let code = line.split('#').next().unwrap_or(line);
    code.match_indices(key).any(|(start, _)| {
        let (before, after) = (code[..start].trim_end(), code[start + key.len()..].trim_start());
        let begins = before.is_empty() || before.ends_with(['{', ',', '.', '[']);
        !key.is_empty() && begins && after.starts_with(['=', '.', ']'])
    })
}

/// The value that `message` of the toml crate refuses: its line and its key, in the table that begins on line
/// `first`. Of tagged tables the crate knows no more than where they begin.
fn refused_value<'t>(text: &'t str, first: usize, message: &str) -> Option<(usize, &'t str)> {
    let kinds = ["invalid value: ", "invalid type: ", "unknown variant "];
    let said = kinds.iter().find_map(|kind| message.strip_prefix(kind))?;
    let quote = if said.starts_with("string") { '"' } else { '`' };
    let value = said.split(quote).nth(1).filter(|value| !value.is_empty())?;
    let heading = |line: &'t str| Some(line.trim().strip_prefix('[')?.trim_matches(['[', ']']));
    let mut lines = text.lines().enumerate().skip(first - 1);
    let own = heading(lines.next()?.1)?;
    let mut is_own = true;
    for (index, line) in lines {
        match heading(line) {
            Some(name) if name == own => break,
            Some(name) => is_own = name.strip_prefix(own).is_some_and(|it| it.starts_with('.')),
            None if is_own => {
                if let Some(key) = key_of_value(line, value) {
                    return Some((index + 1, key));
                }
            }
            None => {}
        }
    }
    None
}

/// The key on this line that has `value`, be it as one of a list.
fn key_of_value<'t>(line: &'t str, value: &str) -> Option<&'t str> {
    let code = line.split('#').next().unwrap_or(line);
    let ends = |text: &str| text.is_empty() || text.starts_with(['"', '\'', ',', ']', '}', ' ']);
    let begins = |text: &str| text.ends_with(['"', '\'', ',', '[', '=', ' ']);
    code.match_indices(value).find_map(|(start, _)| {
        let (before, after) = (&code[..start], &code[start + value.len()..]);
        let key = before.rsplit_once('=')?.0.rsplit(['{', ',']).next()?.trim();
        (begins(before) && ends(after) && !key.is_empty()).then_some(key)
    })
}

/// An error of the toml crate, with the line of the key itself and the nearest valid one.
fn toml_error(file: &str, text: &str, error: &toml::de::Error) -> LabError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let mut line = 1 + text[..start].matches('\n').count();
    let mut message = error.message().trim_end().replace('\n', "; ");
    if let Some(unknown) = message.split('`').nth(1).filter(|_| message.starts_with("unknown ")) {
        // Tagged tables report where the table starts; the key is the first of its name after it.
        let is_key = |line: &&str| line.split(['=', '.']).next().map(str::trim) == Some(unknown);
        let rest = text.lines().skip(line - 1);
        line += rest.enumerate().find(|(_, text)| is_key(text)).map_or(0, |(offset, _)| offset);
    }
    if let Some(nearest) = nearest_expected(&message) {
        message = format!("{message}; did you mean `{nearest}`?");
    }
    if let Some((found, key)) = refused_value(text, line, &message).filter(|&(it, _)| it > line) {
        line = found;
        message = format!("`{key}`: {message}");
    }
    LabError::Invalid { file: file.into(), line, message }
}

#[cfg(test)]
mod tests;
