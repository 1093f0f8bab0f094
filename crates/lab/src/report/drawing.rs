//! Figures as SVG, which a browser draws without a script and at any size.
//!
//! ```text
//!   y title
//!   10 ┤        ╭──○        plot: 560 units wide; the page scales it to its width
//!    5 ┤    ╭───╯           a point's `title` is what a browser shows when one points at it
//!    1 ┼──┬──┬──┬──         text has the classes of the page or, in a file, of the style inside
//!         x title
//!   ── a  ── b              keys: elements of the page, part of the picture in a file
//! ```
//!
//! 1. What is drawn is well-formed XML: every text is escaped.
//! 2. Every axis with values has three labels or more ([`Scale`]), each with the class `x` or `y`.
//! 3. Text keeps apart from its neighbours also at the size that telephones show it in.

use super::html::escape;
use super::look::{Colours, Look, looks};
use super::number;
use super::ticks::{Scale, size_text};
use crate::outcome::{Axis, Figure, Grid, Trace};
use std::fmt::Write as _;

/// Units from the left to the right edge of a picture.
const WIDTH: f64 = 560.0;
/// The plot's own edges within it.
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 300.0;
/// Below the plot: labels, then the axis' title.
const FOOT: f64 = 50.0;
/// Characters of labels that fit side by side below a plot, at a telephone's size of text.
const ROOM: usize = 46;
/// A curve with more points than this has no markers.
const MARKED_COUNT_MAX: usize = 40;

/// Bars: where they begin, each one's height, the gap between two, the room of a group's label and that of the value
/// behind the longest bar.
const BAR_LEFT: f64 = 8.0;
const BAR: f64 = 15.0;
const BAR_GAP: f64 = 3.0;
const GROUP_LABEL: f64 = 24.0;
const VALUE_WIDTH: f64 = 76.0;

/// Characters of keys in a line of a file, and the height of such a line.
const KEY_ROW_CHARS: usize = 74;
const KEY_HEIGHT: f64 = 18.0;
/// Characters that a key's sample is wide.
const KEY_MARK_CHARS: usize = 8;

/// Colours and sizes of text in a file of its own, as the page has them for all its pictures.
const FILE_STYLE: &str = "svg { --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --rule: #d9dee3; } \
     @media (prefers-color-scheme: dark) { svg { --ink: #e6e9ed; --soft: #9aa5b1; --paper: #14171b; \
     --rule: #343b44; } } \
     text { font: 12px system-ui, sans-serif; fill: var(--ink); }";
/// What the classes of elements mean, in a page and in a file.
pub const TEXT_STYLE: &str = ".x, .foot { text-anchor: middle } .y { text-anchor: end } \
     .row { font-weight: 600 } .rule { fill: none; stroke: var(--rule) }";

/// A figure as SVG, with its title and what its colours mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    title: String,
    height: f64,
    body: String,
    keys: Vec<Key>,
}

/// What a colour, dash and marker stand for.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    label: String,
    sample: String,
}

impl Drawing {
    /// A figure with lines.
    #[must_use]
    pub fn of_figure(figure: &Figure, colours: &Colours) -> Self {
        let points = || figure.traces.iter().flat_map(|trace| &trace.points);
        // What has no place on a logarithmic axis has none on the other one.
        let has_place = |&&(x, y): &&(f64, f64)| {
            x.is_finite()
                && y.is_finite()
                && !(figure.x.log && x <= 0.0)
                && !(figure.y.log && y <= 0.0)
        };
        let xs: Vec<f64> = points().filter(has_place).map(|point| point.0).collect();
        let ys: Vec<f64> = points().filter(has_place).map(|point| point.1).collect();
        let across = Scale::new(&figure.x, &xs, false, Some(ROOM));
        let upwards = Scale::new(&figure.y, &ys, true, None);
        let place = |x: f64, y: f64| {
            (LEFT + across.share(x) * (RIGHT - LEFT), BOTTOM - upwards.share(y) * (BOTTOM - TOP))
        };
        let mut body = String::new();
        horizontal_axis(&mut body, &figure.x, &across, (LEFT, RIGHT), (TOP, BOTTOM));
        vertical_axis(&mut body, &figure.y, &upwards);
        let looks = looks(figure, colours);
        for (trace, look) in figure.traces.iter().zip(&looks) {
            let places: Vec<(f64, f64, &(f64, f64))> = trace
                .points
                .iter()
                .filter(has_place)
                .map(|point| {
                    let (x, y) = place(point.0, point.1);
                    (x, y, point)
                })
                .collect();
            curve(&mut body, figure, trace, *look, &places);
        }
        let key = |(trace, look): (&Trace, &Look)| Key {
            label: trace.label.clone(),
            sample: line_sample(trace, *look),
        };
        let keys = figure.traces.iter().zip(&looks).map(key).collect();
        Self { title: figure.title.clone(), height: BOTTOM + FOOT, body, keys }
    }

    /// A grid as groups of lying bars, one group for each row; published values are hollow.
    #[must_use]
    pub fn of_bars(grid: &Grid, colours: &Colours) -> Self {
        let values: Vec<f64> = grid
            .cells
            .iter()
            .flatten()
            .flat_map(|cell| [cell.ours, cell.published])
            .flatten()
            .collect();
        let mut across = Scale::new(&grid.value, &values, true, Some(ROOM - 8));
        // The smallest bar of a logarithmic axis has a length too.
        if across.log {
            across.low /= 1.6;
        }
        let right = RIGHT - VALUE_WIDTH;
        let mut bars = String::new();
        let mut y = TOP;
        for (row, cells) in grid.rows.iter().zip(&grid.cells) {
            y += GROUP_LABEL;
            label(&mut bars, "row", (BAR_LEFT, y - 7.0), row);
            for (column, cell) in cells.iter().enumerate() {
                let colour = colours.get(&grid.column_groups[column]);
                for (value, is_published) in [(cell.ours, false), (cell.published, true)] {
                    let Some(value) = value else { continue };
                    let share = across.share(value);
                    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
                    let end = BAR_LEFT + share * (right - BAR_LEFT);
                    let words = if is_published { ", published" } else { "" };
                    let _ = writeln!(
                        bars,
                        "<rect x=\"{BAR_LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" {}><title>{}{words}: \
                         {}</title></rect><text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                        (end - BAR_LEFT).max(1.0),
                        bar_paint(colour, is_published),
                        escape(&grid.columns[column]),
                        number(value),
                        end + 5.0,
                        y + BAR - 3.5,
                        number(value)
                    );
                    y += BAR + BAR_GAP;
                }
            }
        }
        let bottom = y + 6.0;
        let mut body = String::new();
        horizontal_axis(&mut body, &grid.value, &across, (BAR_LEFT, right), (TOP, bottom));
        body.push_str(&bars);
        let has = |published: bool| {
            let cells = grid.cells.iter().flatten();
            cells
                .into_iter()
                .any(|cell| if published { cell.published.is_some() } else { cell.ours.is_some() })
        };
        let mut keys: Vec<Key> = grid
            .columns
            .iter()
            .zip(&grid.column_groups)
            .enumerate()
            .filter(|(column, _)| grid.cells.iter().any(|row| row[*column].ours.is_some()))
            .map(|(_, (label, group))| Key {
                label: label.clone(),
                sample: bar_sample(colours.get(group), false),
            })
            .collect();
        if has(true) {
            keys.push(Key {
                label: "hollow: published".into(),
                sample: bar_sample("var(--ink)", true),
            });
        }
        Self { title: grid.title.clone(), height: bottom + FOOT, body, keys }
    }

    /// What stands above it.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The picture and its keys as elements of a page.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut html = format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n\
             <ul class=\"keys\">\n",
            self.height,
            escape(&self.title),
            self.body
        );
        for Key { label, sample } in &self.keys {
            let _ = writeln!(
                html,
                "<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">{sample}</svg>{}</li>",
                escape(label)
            );
        }
        html.push_str("</ul>\n");
        html
    }

    /// The picture with its title and keys as a file of its own.
    #[must_use]
    pub fn to_file(&self) -> String {
        let longest = self.keys.iter().map(|key| key.label.chars().count() + KEY_MARK_CHARS).max();
        let columns = (KEY_ROW_CHARS / longest.unwrap_or(1)).clamp(1, self.keys.len().max(1));
        let head = 26.0;
        let rows = self.keys.len().div_ceil(columns);
        let height = head + self.height + KEY_HEIGHT * rows as f64 + 10.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{:.0}\" \
             height=\"{:.0}\">\n<style>{FILE_STYLE} {TEXT_STYLE}</style>\n<rect width=\"100%\" height=\"100%\" \
             style=\"fill: var(--paper)\"/>\n<text x=\"8\" y=\"20\" style=\"font-weight: 600\">{}</text>\n\
             <g transform=\"translate(0 {head})\">\n{}</g>\n",
            1.5 * WIDTH,
            1.5 * height,
            escape(&self.title),
            self.body
        );
        for (index, Key { label, sample }) in self.keys.iter().enumerate() {
            let (row, column) = ((index / columns) as f64, (index % columns) as f64);
            let x = 8.0 + column * (WIDTH - 16.0) / columns as f64;
            let y = head + self.height + KEY_HEIGHT * row;
            let _ = writeln!(
                svg,
                "<g transform=\"translate({x:.1} {y:.1})\">{sample}<text x=\"42\" y=\"11\">{}</text></g>",
                escape(label)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Lines and labels of a horizontal axis below a plot from `top` to `bottom`, between `from` and `to`.
fn horizontal_axis(
    body: &mut String,
    axis: &Axis,
    scale: &Scale,
    (from, to): (f64, f64),
    (top, bottom): (f64, f64),
) {
    let place = |value: f64| from + scale.share(value) * (to - from);
    let line = |x: f64| format!("M{x:.1} {top}V{bottom:.1}");
    let lines: String = scale.ticks.iter().map(|tick| line(place(tick.value))).collect();
    let _ = writeln!(body, "<path class=\"rule\" d=\"{lines}M{from} {bottom:.1}H{to}\"/>");
    for tick in &scale.ticks {
        label(body, "x", (place(tick.value), bottom + 19.0), &tick.text);
    }
    label(body, "foot", (f64::midpoint(from, to), bottom + 42.0), &title(axis));
}

fn vertical_axis(body: &mut String, axis: &Axis, scale: &Scale) {
    let place = |value: f64| BOTTOM - scale.share(value) * (BOTTOM - TOP);
    let line = |y: f64| format!("M{LEFT} {y:.1}H{RIGHT}");
    let lines: String = scale.ticks.iter().map(|tick| line(place(tick.value))).collect();
    let _ = writeln!(body, "<path class=\"rule\" d=\"{lines}M{LEFT} {TOP}V{BOTTOM}\"/>");
    for tick in &scale.ticks {
        label(body, "y", (LEFT - 7.0, place(tick.value) + 4.5), &tick.text);
    }
    label(body, "head", (2.0, 16.0), &title(axis));
}

/// What an axis shows; sizes say their unit with each label.
fn title(axis: &Axis) -> String {
    if axis.unit == "B" { axis.label.clone() } else { axis.title() }
}

/// Text whose class says how it is aligned ([`TEXT_STYLE`]).
fn label(body: &mut String, class: &str, (x, y): (f64, f64), text: &str) {
    let text = escape(text);
    let _ = writeln!(body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}

/// A curve through `places`, with markers where its points are few; what is published has markers alone.
fn curve(
    body: &mut String,
    figure: &Figure,
    trace: &Trace,
    look: Look,
    places: &[(f64, f64, &(f64, f64))],
) {
    let _ = writeln!(body, "<g><title>{}</title>", escape(&trace.label));
    if !trace.published {
        let mut path = String::new();
        let mut last = String::new();
        for (x, y, _) in places {
            let next = format!("{x:.1} {y:.1}");
            if next != last {
                path.push_str(if path.is_empty() { "M" } else { "L" });
                path.push_str(&next);
                last = next;
            }
        }
        let _ = writeln!(body, "<path d=\"{path}\" {}/>", line_paint(look));
    }
    if trace.published || places.len() <= MARKED_COUNT_MAX {
        let value = |axis: &Axis, value: f64| {
            if axis.unit == "B" { size_text(value) } else { number(value) }
        };
        let _ = writeln!(body, "<g {}>", marker_paint(look, trace.published));
        for (x, y, point) in places {
            let words = format!("{}: {}", value(&figure.x, point.0), value(&figure.y, point.1));
            marker(body, (*x, *y), look, trace.published, &words);
        }
        body.push_str("</g>\n");
    }
    body.push_str("</g>\n");
}

fn line_paint(Look { colour, dash, .. }: Look) -> String {
    let dash =
        if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
    format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}")
}

/// How a group of markers is painted.
fn marker_paint(look: Look, is_published: bool) -> String {
    let colour = look.colour;
    if is_published {
        format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\"")
    } else {
        format!("fill=\"{colour}\"")
    }
}

/// A circle or square; `words` are shown to whom points at it.
fn marker(body: &mut String, (x, y): (f64, f64), look: Look, is_published: bool, words: &str) {
    let radius = if is_published { 5.0 } else { 3.2 };
    let words =
        if words.is_empty() { String::new() } else { format!("<title>{}</title>", escape(words)) };
    // Pages over all results have thousands of them, so they are short, and stand one beside the other.
    let _ = if look.is_square {
        let (x, y, width) = (x - radius, y - radius, 2.0 * radius);
        let square = format!("<path d=\"M{x:.1} {y:.1}h{width}v{width}h-{width}z\"");
        write!(body, "{}", element(&square, "path", &words))
    } else {
        let circle = format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"");
        write!(body, "{}", element(&circle, "circle", &words))
    };
}

/// An element with what is in it, or without an end of its own.
fn element(start: &str, name: &str, content: &str) -> String {
    match content {
        "" => format!("{start}/>"),
        content => format!("{start}>{content}</{name}>"),
    }
}

fn line_sample(trace: &Trace, look: Look) -> String {
    let mut sample = String::new();
    if !trace.published {
        let _ = write!(sample, "<path d=\"M1 7L33 7\" {}/>", line_paint(look));
    }
    if trace.published || trace.points.len() <= MARKED_COUNT_MAX {
        let _ = write!(sample, "<g {}>", marker_paint(look, trace.published));
        marker(&mut sample, (17.0, 7.0), look, trace.published, "");
        sample.push_str("</g>");
    }
    sample
}

fn bar_paint(colour: &str, is_published: bool) -> String {
    if is_published {
        format!("style=\"fill: none; stroke: {colour}; stroke-width: 2\"")
    } else {
        format!("fill=\"{colour}\"")
    }
}

fn bar_sample(colour: &str, is_published: bool) -> String {
    let paint = bar_paint(colour, is_published);
    format!("<rect x=\"2\" y=\"2\" width=\"30\" height=\"10\" {paint}/>")
}
