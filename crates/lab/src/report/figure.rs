//! Figures and bars as plotly data. Colour means device, the same in every figure of a report; dash
//! and marker mean access pattern; a hollow marker means published. Where curves are told apart by
//! something else than a pattern, and there are more such things than devices, colour means them and
//! dash and marker mean the device.

use crate::outcome::{Axis, Figure, Grid, Trace};
use nandu_base::ByteCount;
use plotly::common::{DashType, Line, Marker, MarkerSymbol, Mode, Pattern, PatternShape, Title};
use plotly::layout::{
    Axis as PlotAxis, AxisType, BarMode, HoverMode, Legend, Margin, TicksDirection,
};
use plotly::{Bar, Configuration, Layout, Plot, Scatter};
use std::collections::{BTreeMap, BTreeSet};

/// Okabe and Ito's colours, which the colour-blind can tell apart; grey in place of black and yellow, which one of the
/// two backgrounds would swallow.
const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C"];
/// An axis with more places than this labels itself.
const TICK_COUNT_MAX: usize = 14;

/// What a row of the legend holds and takes, about: characters, those of a line's sample, and height.
const LEGEND_ROW_CHARS: usize = 115;
const LEGEND_MARK_CHARS: usize = 8;
const LEGEND_ROW_PIXELS: usize = 19;

/// A curve with more points than this has no markers.
const MARKED_COUNT_MAX: usize = 40;

/// Which colour belongs to which device or curve.
#[derive(Clone, Debug, Default)]
pub struct Colours {
    places: BTreeMap<String, usize>,
}

impl Colours {
    /// Colours for the groups of all `figures`: each group has one everywhere, the one least used so
    /// far among those that no other group of its figures has.
    #[must_use]
    pub fn of(figures: &[Vec<&str>]) -> Self {
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for &group in figures.iter().flatten() {
            if places.contains_key(group) {
                continue;
            }
            let beside = figures.iter().filter(|figure| figure.contains(&group)).flatten();
            let taken: Vec<usize> =
                beside.filter_map(|other| places.get(*other).copied()).collect();
            let use_count = |place: usize| {
                let total = places.values().filter(|used| **used == place).count();
                (taken.contains(&place), total)
            };
            let place = (0..PALETTE.len()).min_by_key(|&place| use_count(place)).unwrap_or(0);
            places.insert(group.to_owned(), place);
        }
        Self { places }
    }

    /// The colour of `group`.
    #[must_use]
    pub fn get(&self, group: &str) -> &'static str {
        PALETTE[self.places.get(group).copied().unwrap_or(0) % PALETTE.len()]
    }
}

/// A figure with lines as plotly's JSON.
#[must_use]
pub fn lines(figure: &Figure, colours: &Colours) -> String {
    let mut plot = Plot::new();
    for (trace, look) in figure.traces.iter().zip(looks(figure, colours)) {
        plot.add_trace(scatter(trace, look));
    }
    let points = || figure.traces.iter().flat_map(|trace| &trace.points);
    let labels = figure.traces.iter().map(|trace| trace.label.as_str());
    let layout = base_layout(labels)
        .x_axis(axis(&figure.x, &sorted(points().map(|point| point.0).collect()), true))
        .y_axis(axis(&figure.y, &sorted(points().map(|point| point.1).collect()), false))
        .hover_mode(HoverMode::Closest);
    plot.set_layout(layout);
    finish(plot)
}

/// A grid as groups of bars, one group for each row; published values are hatched.
#[must_use]
pub fn bars(grid: &Grid, colours: &Colours) -> String {
    let mut plot = Plot::new();
    for (column, label) in grid.columns.iter().enumerate() {
        let colour = colours.get(&grid.column_groups[column]);
        for published in [false, true] {
            let value = |row: usize| {
                let cell = grid.cells[row][column];
                if published { cell.published } else { cell.ours }
            };
            let values: Vec<Option<f64>> = (0..grid.rows.len()).map(value).collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let name = if published { format!("{label} – published") } else { label.clone() };
            let marker = if published {
                let hatch = Pattern::new().shape(PatternShape::RightDiagonalLine);
                Marker::new().color(colour).opacity(0.65).pattern(hatch)
            } else {
                Marker::new().color(colour)
            };
            plot.add_trace(Bar::new(grid.rows.clone(), values).name(name).marker(marker));
        }
    }
    let cells = grid.cells.iter().flatten().flat_map(|cell| [cell.ours, cell.published]);
    let values = sorted(cells.flatten().collect());
    let labels = grid.columns.iter().map(String::as_str);
    let layout =
        base_layout(labels).bar_mode(BarMode::Group).y_axis(axis(&grid.value, &values, false));
    plot.set_layout(layout);
    finish(plot)
}

fn finish(mut plot: Plot) -> String {
    plot.set_configuration(Configuration::new().responsive(true).display_logo(false));
    // Inside a script element only `<` could end it early; JSON may write it as an escape.
    plot.to_json().replace('<', "\\u003c")
}

/// A layout whose height leaves room for a legend of `labels`, which plotly sets in columns.
fn base_layout<'a>(labels: impl Iterator<Item = &'a str>) -> Layout {
    let lengths: Vec<usize> =
        labels.map(|label| label.chars().count() + LEGEND_MARK_CHARS).collect();
    let longest = lengths.iter().copied().max().unwrap_or(1);
    let column_count = (LEGEND_ROW_CHARS / longest).max(1);
    let more_rows = lengths.len().div_ceil(column_count).saturating_sub(1);
    Layout::new()
        .auto_size(true)
        .height(430 + LEGEND_ROW_PIXELS * more_rows)
        .margin(Margin::new().left(72).right(16).top(16).bottom(64))
        .legend(Legend::new().orientation(plotly::common::Orientation::Horizontal).y(-0.2))
}

fn sorted(mut places: Vec<f64>) -> Vec<f64> {
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// An axis over sorted `places`, labelled at them if they are few and `at_places` asks for it; sizes
/// are written as `4 KiB`.
fn axis(axis: &Axis, places: &[f64], at_places: bool) -> PlotAxis {
    let exact = at_places && places.len() <= TICK_COUNT_MAX;
    let is_size = axis.unit == "B";
    let title = if is_size { axis.label.clone() } else { axis.title() };
    let mut plot_axis = PlotAxis::new()
        .title(Title::with_text(title))
        .auto_margin(true)
        .ticks(TicksDirection::Outside)
        .zero_line(false);
    if axis.log {
        plot_axis = plot_axis.type_(AxisType::Log);
    }
    if is_size && exact && !places.is_empty() {
        let text = places.iter().map(|&place| size_text(place)).collect();
        plot_axis = plot_axis.tick_values(places.to_vec()).tick_text(text);
    } else if axis.log {
        let ticks = if exact { places.to_vec() } else { log_ticks(places) };
        let text = ticks.iter().map(|&tick| tick_text(tick)).collect();
        plot_axis = plot_axis.tick_values(ticks).tick_text(text);
    }
    plot_axis
}

/// Places on a logarithmic axis over sorted `values`: powers of ten, and where they are few, twice
/// and five times them too.
fn log_ticks(values: &[f64]) -> Vec<f64> {
    let positive = || values.iter().copied().filter(|value| *value > 0.0);
    let (Some(first), Some(last)) = (positive().next(), positive().next_back()) else {
        return Vec::new();
    };
    let steps: &[f64] = if last / first > 400.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = (-12..=12).map(|power| 10_f64.powi(power));
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * power));
    all.filter(|tick| *tick > first / 10.0 && *tick < last * 10.0).collect()
}

/// A tick without digits that say nothing: `0.002`, `50`, `10 000`.
fn tick_text(tick: f64) -> String {
    if tick >= 1000.0 { super::number(tick) } else { format!("{}", (tick * 1e12).round() / 1e12) }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes on an axis are whole and far below 2^53"
)]
fn size_text(bytes: f64) -> String {
    ByteCount(bytes.max(0.0) as u64).to_string()
}

/// How a curve looks.
struct Look {
    colour: &'static str,
    symbol: MarkerSymbol,
    dash: DashType,
}

/// The look of every curve of `figure`: see the module.
fn looks(figure: &Figure, colours: &Colours) -> Vec<Look> {
    let groups = distinct(figure.traces.iter().map(|trace| trace.group.as_str()));
    let variants = distinct(figure.traces.iter().map(|trace| trace.variant.as_str()));
    let is_pattern = |variant: &&str| variant.contains("read") || variant.contains("write");
    // Words around a pattern ("read-heavy, stripe") would all look like it.
    let places: BTreeSet<usize> = variants.iter().map(|variant| pattern_place(variant)).collect();
    let are_patterns = variants.iter().all(is_pattern) && places.len() == variants.len();
    let by_pattern = variants.len() == 1 || are_patterns;
    let by_variant = !by_pattern && variants.len() > groups.len();
    let look = |trace: &Trace| {
        let group = groups.iter().position(|group| *group == trace.group).unwrap_or(0);
        let variant = variants.iter().position(|one| *one == trace.variant).unwrap_or(0);
        let colour =
            if by_variant { PALETTE[variant % PALETTE.len()] } else { colours.get(&trace.group) };
        let (symbol, dash) = if by_pattern {
            style(pattern_place(&trace.variant), trace.published)
        } else {
            style(if by_variant { group } else { variant }, trace.published)
        };
        Look { colour, symbol, dash }
    };
    figure.traces.iter().map(look).collect()
}

/// Each word once, in the order of its first use.
fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// The place of a pattern: the same word always looks the same.
fn pattern_place(variant: &str) -> usize {
    2 * usize::from(variant.contains("write")) + usize::from(variant.contains("random"))
}

/// Marker and dash of a place among others.
fn style(place: usize, published: bool) -> (MarkerSymbol, DashType) {
    let symbol = match (place % 4 / 2, published) {
        (0, false) => MarkerSymbol::Circle,
        (0, true) => MarkerSymbol::CircleOpen,
        (_, false) => MarkerSymbol::Square,
        (_, true) => MarkerSymbol::SquareOpen,
    };
    let dash = match place % 4 {
        0 => DashType::Solid,
        1 => DashType::Dash,
        2 => DashType::LongDashDot,
        _ => DashType::Dot,
    };
    (symbol, dash)
}

fn scatter(trace: &Trace, look: Look) -> Box<Scatter<f64, f64>> {
    let (x, y): (Vec<f64>, Vec<f64>) = trace.points.iter().copied().unzip();
    let Look { colour, symbol, dash } = look;
    let (mode, size) = if trace.published {
        (Mode::Markers, 13)
    } else if x.len() > MARKED_COUNT_MAX {
        (Mode::Lines, 1)
    } else {
        (Mode::LinesMarkers, 7)
    };
    let marker = Marker::new().color(colour).symbol(symbol).size(size);
    let marker =
        if trace.published { marker.line(Line::new().width(2.5).color(colour)) } else { marker };
    Scatter::new(x, y)
        .name(&trace.label)
        .mode(mode)
        .marker(marker)
        .line(Line::new().color(colour).dash(dash).width(2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_keeps_its_colour_and_neighbours_differ() {
        let many = vec!["c", "d", "e", "f", "g", "h", "a"];
        let colours = Colours::of(&[vec!["a", "b"], many.clone()]);
        let mut used: Vec<&str> = many.iter().map(|group| colours.get(group)).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), many.len());
        assert_ne!(colours.get("a"), colours.get("b"));
    }

    fn trace(group: &str, variant: &str) -> Trace {
        Trace {
            series: format!("{group}.{variant}"),
            label: group.into(),
            group: group.into(),
            variant: variant.into(),
            published: false,
            points: vec![(1.0, 2.0)],
        }
    }

    fn colours_of(traces: Vec<Trace>) -> Vec<&'static str> {
        let axis = Axis { label: "x".into(), unit: String::new(), log: false };
        let (title, caption) = (String::new(), String::new());
        let figure = Figure { title, caption, x: axis.clone(), y: axis, traces };
        let groups = figure.traces.iter().map(|trace| trace.group.as_str()).collect();
        let looks = looks(&figure, &Colours::of(&[groups]));
        looks.iter().map(|look| look.colour).collect()
    }

    #[test]
    fn colour_means_the_device_unless_other_things_are_more() {
        let by_device =
            colours_of(vec![trace("a", "read"), trace("a", "write"), trace("b", "read")]);
        assert_eq!(by_device[0], by_device[1], "patterns have dashes of their own");
        assert_ne!(by_device[0], by_device[2]);
        let by_variant = colours_of(vec![
            trace("a", "burst5"),
            trace("a", "burst30"),
            trace("a", "burst60"),
            trace("b", "burst60"),
        ]);
        assert_ne!(by_variant[0], by_variant[1]);
        assert_eq!(by_variant[2], by_variant[3], "the same burst of another device");
        let words_around =
            colours_of(vec![trace("a", "read-heavy, stripe"), trace("a", "read-heavy, mirror")]);
        assert_ne!(words_around[0], words_around[1], "more than the pattern tells them apart");
    }

    #[test]
    fn logarithmic_axes_have_a_few_round_ticks() {
        let texts = |values: &[f64]| {
            log_ticks(values).iter().map(|&tick| tick_text(tick)).collect::<Vec<_>>()
        };
        assert_eq!(texts(&[0.03, 70.0]), ["0.01", "0.1", "1", "10", "100"]);
        assert_eq!(texts(&[3.0, 8.0]), ["0.5", "1", "2", "5", "10", "20", "50"]);
        assert!(texts(&[]).is_empty());
    }

    #[test]
    fn labels_cannot_leave_their_script_element() {
        let trace = Trace {
            series: "s".into(),
            label: "</script><b>".into(),
            group: "s".into(),
            variant: String::new(),
            published: false,
            points: vec![(1.0, 2.0)],
        };
        let axis = Axis { label: "x".into(), unit: "B".into(), log: true };
        let (title, caption) = (String::new(), String::new());
        let figure = Figure { title, caption, x: axis.clone(), y: axis, traces: vec![trace] };
        let json = lines(&figure, &Colours::default());
        assert!(!json.contains('<'));
        assert!(json.contains("\\u003c/script>"));
    }
}
