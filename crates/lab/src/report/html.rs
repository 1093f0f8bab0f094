//! One HTML file that opens without a network: text, tables and figures, no script.
//!
//! ```text
//!   head: styles                         the page forbids itself every connection (its policy)
//!   nav  │ summary: experiments, verdicts, machine
//!        │ experiment: question, figures, tables, shapes by class; machine, commit, seed, command
//! ```
//!
//! 1. Every text that comes from outside is escaped.
//! 2. The file names no address that a browser would fetch.
//! 3. It is also well-formed XML, so that a test can read it.

use super::drawing::{Drawing, TEXT_STYLE};
use super::found::{Found, State};
use super::look::Colours;
use super::number;
use super::power;
use super::shapes;
use super::ticks::size_text;
use crate::experiment::FULL_ENDING;
use crate::outcome::{Axis, Cell, Figure, Grid, Outcome, Verdict};
use crate::run::Meta;
use crate::shape::Class;
use nandu_base::words::counted;
use std::fmt::Write as _;

const STYLES: &str = include_str!("page.css");
/// Nothing may be loaded from anywhere, and nothing runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
/// A longer list of missed claims is folded.
const OPEN_COUNT_MAX: usize = 12;
/// A figure with values at more places shows them in `series.csv` alone.
const PLACE_COUNT_MAX: usize = 60;

/// The page that shows `runs`.
#[must_use]
pub fn page(runs: &[Found]) -> String {
    let figures: Vec<Vec<&str>> = runs.iter().flat_map(|found| groups(&found.outcome)).collect();
    let colours = Colours::of(&figures);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>nandu report</title>\n<style>\n{STYLES}{TEXT_STYLE}</style>\n</head>\n<body>\n\
         <div class=\"page\">\n"
    );
    navigation(&mut html, runs);
    html.push_str("<main>\n");
    summary(&mut html, runs);
    for run in runs {
        experiment(&mut html, run, &colours);
    }
    html.push_str("</main>\n</div>\n</body>\n</html>\n");
    html
}

/// The pictures of `runs`, each with the name of its file: `s000-table-3-1-1.svg`.
#[must_use]
pub fn pictures(runs: &[Found]) -> Vec<(String, String)> {
    let figures: Vec<Vec<&str>> = runs.iter().flat_map(|found| groups(&found.outcome)).collect();
    let colours = Colours::of(&figures);
    let mut found = Vec::new();
    for Found { outcome, .. } in runs {
        let name = &anchor(&outcome.experiment)[2..];
        for (index, drawing) in drawings(outcome, &colours).enumerate() {
            found.push((format!("{name}-{}.svg", index + 1), drawing.to_file()));
        }
    }
    found
}

/// Figures with lines, then those with bars, then watts over time.
fn drawings<'a>(
    outcome: &'a Outcome,
    colours: &'a Colours,
) -> impl Iterator<Item = Drawing> + use<'a> {
    let lines = outcome.figures.iter().map(|figure| Drawing::of_figure(figure, colours));
    let bars = outcome.grids.iter().filter(|grid| grid.bars);
    let power = power::figure(outcome).map(|figure| Drawing::of_figure(&figure, colours));
    lines.chain(bars.map(|grid| Drawing::of_bars(grid, colours))).chain(power)
}

/// The groups of each figure, which its colours must tell apart.
fn groups(outcome: &Outcome) -> impl Iterator<Item = Vec<&str>> {
    let lines = outcome
        .figures
        .iter()
        .map(|figure| figure.traces.iter().map(|trace| trace.group.as_str()).collect::<Vec<_>>());
    let bars = outcome.grids.iter().filter(|grid| grid.bars);
    let bars = bars.map(|grid| grid.column_groups.iter().map(String::as_str).collect());
    lines.chain(bars).chain(power::groups(outcome))
}

/// Text of experiments: what stands between backticks is code; an odd backtick stays.
pub(super) fn prose(text: &str) -> String {
    let safe = escape(text);
    let parts: Vec<&str> = safe.split('`').collect();
    let mut html = String::with_capacity(safe.len());
    for (index, part) in parts.iter().enumerate() {
        match (index % 2 == 1, index + 1 == parts.len()) {
            (true, false) => html.push_str(&format!("<code>{part}</code>")),
            (true, true) => html.push_str(&format!("`{part}")),
            (false, _) => html.push_str(part),
        }
    }
    html
}

/// Text as it may stand in an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // XML has no place for these, however they are written.
            control if control.is_control() && !"\n\t".contains(control) => safe.push('\u{fffd}'),
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// An experiment's name as a fragment of the page's address.
fn anchor(name: &str) -> String {
    let safe = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    format!("e-{}", name.chars().map(safe).collect::<String>())
}

/// A mark that also tells those apart who do not see its colour.
fn mark(outcome: &Outcome) -> (&'static str, &'static str) {
    match (outcome.verdicts.is_empty(), outcome.holds()) {
        (true, _) => ("none-text", "·"),
        (false, true) => ("mark good-text", "✓"),
        (false, false) => ("mark bad-text", "✗"),
    }
}

fn navigation(html: &mut String, runs: &[Found]) {
    html.push_str("<nav aria-label=\"Experiments\">\n<p class=\"brand\">nandu</p>\n");
    html.push_str("<a href=\"#summary\">Summary</a>\n");
    let mut last_group = None;
    for Found { outcome, .. } in runs {
        let (group, short) =
            outcome.experiment.split_once('/').unwrap_or(("", &outcome.experiment));
        if last_group != Some(group) && !group.is_empty() {
            let _ = writeln!(html, "<p class=\"group\">{}</p>", escape(group));
        }
        last_group = Some(group);
        let (class, sign) = mark(outcome);
        let _ = writeln!(
            html,
            "<a href=\"#{}\"><span class=\"{class}\">{sign}</span><span>{}</span></a>",
            anchor(&outcome.experiment),
            escape(short)
        );
    }
    html.push_str("</nav>\n");
}

fn summary(html: &mut String, runs: &[Found]) {
    let _ = write!(
        html,
        "<header id=\"summary\">\n<h1>What does flash do to a database?</h1>\n\
         <p class=\"lead\">{}.{}</p>\n",
        holdings(runs),
        if runs.iter().any(|found| draws_published(&found.outcome)) {
            " Hollow markers and bars are values that the papers print."
        } else {
            ""
        },
    );
    missed(html, runs);
    states(html, runs);
    standing(html, runs);
    // Each machine is listed once, with the version of the program that made the first of its
    // results.
    let mut machines: Vec<&Meta> = Vec::new();
    for Found { meta, .. } in runs {
        if !machines.iter().any(|known| known.machine.processor == meta.machine.processor) {
            machines.push(meta);
        }
    }
    for meta in machines {
        machine(html, meta);
    }
    html.push_str(
        "<div class=\"scroll\"><table class=\"summary\"><thead><tr><th>Experiment</th>\
         <th>Question</th><th>Shapes</th></tr></thead><tbody>\n",
    );
    for Found { outcome, .. } in runs {
        let (class, sign) = mark(outcome);
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td><span class=\"{class}\">{sign}\
             </span> {}</td></tr>",
            anchor(&outcome.experiment),
            escape(&outcome.title),
            prose(&outcome.question),
            if outcome.verdicts.is_empty() { "none asked".into() } else { outcome.counts() }
        );
    }
    html.push_str("</tbody></table></div>\n</header>\n");
}

/// What is missed: that which papers lead with unfolded, then the rest.
fn missed(html: &mut String, runs: &[Found]) {
    let missed: Vec<(&Outcome, &Verdict)> = runs
        .iter()
        .flat_map(|Found { outcome, .. }| {
            outcome.verdicts.iter().map(move |verdict| (outcome, verdict))
        })
        .filter(|(_, verdict)| verdict.class == Class::Differs)
        .collect();
    let (headlines, rest): (Vec<_>, Vec<_>) =
        missed.into_iter().partition(|(_, verdict)| verdict.headline);
    let what = if headlines.is_empty() {
        "What the papers found and nandu does not"
    } else {
        missed_list(html, ("What papers lead with and nandu does not find", true), &headlines);
        "What else the papers found and nandu does not"
    };
    missed_list(html, (what, rest.len() <= OPEN_COUNT_MAX), &rest);
}

fn missed_list(html: &mut String, (title, is_open): (&str, bool), missed: &[(&Outcome, &Verdict)]) {
    if missed.is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<details class=\"missed\"{}><summary>{title}: {}</summary><ul class=\"verdicts\">",
        if is_open { " open=\"open\"" } else { "" },
        counted(missed.len() as u64, "claim")
    );
    for (outcome, verdict) in missed {
        let is_full = outcome.experiment.ends_with(FULL_ENDING);
        let _ = writeln!(
            html,
            "<li class=\"unmet\"><span><a href=\"#{}\">{}</a>{}: {}. {}</span></li>",
            anchor(&outcome.experiment),
            escape(&outcome.title),
            if is_full { ", at the scale of the paper" } else { "" },
            escape(&verdict.text),
            prose(&verdict.reason)
        );
    }
    html.push_str("</ul></details>\n");
}

/// How many shapes of each class hold.
fn standing(html: &mut String, runs: &[Found]) {
    let of_class = |class: Class| {
        let verdicts = runs.iter().flat_map(|found| &found.outcome.verdicts);
        verdicts.filter(move |verdict| verdict.class == class)
    };
    html.push_str("<ul class=\"verdicts\">\n");
    for class in Class::ALL {
        let (all, holding) =
            (of_class(class).count(), of_class(class).filter(|verdict| verdict.holds).count());
        if all > 0 {
            let (colour, sign) = sign(holding == all, class);
            let _ = writeln!(
                html,
                "<li class=\"{colour}\"><span class=\"mark\">{sign}</span><span>{holding} of {all} \
                 {}</span></li>",
                class.explanation()
            );
        }
    }
    html.push_str("</ul>\n");
}

/// Which results are stale, and how many nobody has compared with what the code finds.
fn states(html: &mut String, runs: &[Found]) {
    for Found { outcome, state, .. } in runs {
        if let State::Stale(why) = state {
            let _ = writeln!(
                html,
                "<p class=\"stale\">Stale: <a href=\"#{}\">{}</a>: {}.</p>",
                anchor(&outcome.experiment),
                escape(&outcome.experiment),
                escape(why)
            );
        }
    }
    let unchecked = runs.iter().filter(|found| found.state == State::Unchecked).count();
    if unchecked > 0 {
        let _ = writeln!(
            html,
            "<p class=\"note\">{} made by another commit than this page, or on a disk under another name; \
             <code>nandu verify --kept DIRECTORY</code> compares each simulated point with what the code \
             finds.</p>",
            if unchecked == 1 {
                "One result was".into()
            } else {
                format!("{unchecked} results were")
            }
        );
    }
}

/// How many experiments and figures the page has.
fn holdings(runs: &[Found]) -> String {
    let experiments = counted(runs.len() as u64, "experiment");
    let figures: usize = runs.iter().map(|found| drawn_count(&found.outcome)).sum();
    match figures {
        0 => experiments,
        figures => format!("{experiments} and {}", counted(figures as u64, "figure")),
    }
}

/// Figures with lines and with bars.
fn drawn_count(outcome: &Outcome) -> usize {
    outcome.figures.len() + outcome.grids.iter().filter(|grid| grid.bars).count()
}

/// Whether a published value is drawn.
fn draws_published(outcome: &Outcome) -> bool {
    let mut traces = outcome.figures.iter().flat_map(|figure| &figure.traces);
    let bars = outcome.grids.iter().filter(|grid| grid.bars);
    let mut cells = bars.flat_map(|grid| grid.cells.iter().flatten());
    traces.any(|trace| trace.published) || cells.any(|cell| cell.published.is_some())
}

fn machine(html: &mut String, meta: &Meta) {
    let machine = &meta.machine;
    let memory = format!("{:.0} GiB", machine.memory_bytes as f64 / f64::from(1 << 30));
    html.push_str("<dl class=\"machine\">");
    for (term, value) in [
        (
            "Processor",
            format!("{}, {}", machine.processor, counted(machine.thread_count as u64, "thread")),
        ),
        ("Memory", memory),
        ("System", format!("{}, Linux {}", machine.system, machine.kernel)),
        ("nandu", format!("{}, commit {}", meta.version, meta.commit)),
    ] {
        let _ = write!(html, "<div><dt>{term}</dt><dd>{}</dd></div>", escape(&value));
    }
    html.push_str("</dl>\n");
}

fn experiment(html: &mut String, Found { outcome, meta, state }: &Found, colours: &Colours) {
    let _ = write!(
        html,
        "<section class=\"experiment\" id=\"{}\">\n<p class=\"name\">{}</p>\n<h2>{}</h2>\n\
         <p class=\"question\">{}</p>\n<div class=\"method\"><p>{} <em>Reference: {}.</em></p></div>\n",
        anchor(&outcome.experiment),
        escape(&outcome.experiment),
        escape(&outcome.title),
        prose(&outcome.question),
        prose(outcome.method.trim()).replace("\n\n", "</p>\n<p>"),
        escape(&outcome.reference)
    );
    if !outcome.verdicts.is_empty() {
        let (class, sign) = mark(outcome);
        let _ = writeln!(
            html,
            "<p class=\"standing\"><span class=\"{class}\">{sign}</span> {}</p>",
            outcome.counts()
        );
    }
    let bars = outcome.grids.iter().filter(|grid| grid.bars);
    let figures = outcome.figures.iter().map(|figure| (&figure.caption, Some(figure)));
    let power = power::figure(outcome);
    let figures = figures.chain(bars.map(|grid| (&grid.caption, None)));
    let figures = figures.chain(power.iter().map(|figure| (&figure.caption, Some(figure))));
    for (drawing, (caption, figure)) in drawings(outcome, colours).zip(figures) {
        let _ = write!(
            html,
            "<figure>\n<figcaption>{}</figcaption>\n{}",
            escape(drawing.title()),
            drawing.to_html()
        );
        caption_line(html, caption);
        if let Some(figure) = figure {
            values(html, figure);
        }
        html.push_str("</figure>\n");
    }
    for grid in outcome.grids.iter().filter(|grid| !grid.bars) {
        table(html, grid);
        html.push_str("</figure>\n");
    }
    shapes::tables(html, outcome);
    for note in &outcome.notes {
        let _ = writeln!(html, "<p class=\"note\">Note: {}</p>", prose(note));
    }
    for line in outcome.energy_lines().into_iter().chain(outcome.worth_lines()) {
        let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&line));
    }
    if let State::Stale(why) = state {
        let _ = writeln!(html, "<p class=\"stale\">Stale: {}.</p>", escape(why));
    }
    html.push_str(&provenance(meta));
    html.push_str("</section>\n");
}

/// The style and the sign of what holds or fails; what is missed as written down is no success.
pub(super) const fn sign(holds: bool, class: Class) -> (&'static str, &'static str) {
    match (holds, class) {
        (true, Class::Differs) => ("unmet", "≠"),
        (true, _) => ("good", "✓"),
        (false, _) => ("bad", "✗"),
    }
}

/// Where an experiment's results come from.
fn provenance(meta: &Meta) -> String {
    let local = meta.local.as_ref().map_or(String::new(), |local| format!(" · local: {local}"));
    format!(
        "<p class=\"provenance\">{} · commit {} · seed {} · configuration {}{} · {} · <code>{}\
         </code></p>\n",
        escape(&meta.machine.processor),
        escape(&meta.commit),
        meta.seed,
        escape(&meta.config_hash),
        escape(&local),
        escape(&meta.steps_stored[1]),
        escape(&meta.command)
    )
}

fn caption_line(html: &mut String, caption: &str) {
    if !caption.is_empty() {
        let _ = writeln!(html, "<p class=\"caption\">{}</p>", prose(caption));
    }
}

/// The numbers behind a figure, folded.
fn values(html: &mut String, figure: &Figure) {
    let mut places: Vec<f64> =
        figure.traces.iter().flat_map(|trace| trace.points.iter().map(|point| point.0)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() > PLACE_COUNT_MAX {
        let _ = writeln!(
            html,
            "<p class=\"caption\">The values at {} places are in <code>series.csv</code>.</p>",
            places.len()
        );
        return;
    }
    let _ = write!(
        html,
        "<details><summary>Values, {}</summary><div class=\"scroll\"><table><thead><tr><th>{}</th>",
        escape(&figure.y.title()),
        escape(&figure.x.title())
    );
    for trace in &figure.traces {
        let _ = write!(html, "<th>{}</th>", escape(&trace.label));
    }
    html.push_str("</tr></thead><tbody>\n");
    for place in places {
        let _ = write!(html, "<tr><td>{}</td>", place_text(&figure.x, place));
        for trace in &figure.traces {
            let found = trace.points.iter().find(|point| point.0.total_cmp(&place).is_eq());
            let text = found.map_or_else(|| "–".to_owned(), |point| number(point.1));
            let _ = write!(html, "<td>{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></details>\n");
}

/// A place on an x axis.
fn place_text(axis: &Axis, place: f64) -> String {
    match axis.unit.as_str() {
        "B" => size_text(place),
        _ if place.fract() == 0.0 => format!("{place:.0}"),
        _ => format!("{place:.3}"),
    }
}

fn table(html: &mut String, grid: &Grid) {
    let axis = grid.value.title();
    let title =
        if axis.is_empty() { grid.title.clone() } else { format!("{}: {axis}", grid.title) };
    let _ = write!(
        html,
        "<figure>\n<figcaption>{}</figcaption>\n<div class=\"scroll\"><table><thead><tr><th></th>",
        escape(&title)
    );
    for column in &grid.columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html.push_str("</tr></thead><tbody>\n");
    for (row, cells) in grid.rows.iter().zip(&grid.cells) {
        let _ = write!(html, "<tr><td>{}</td>", escape(row));
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", cell_html(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if grid.cells.iter().flatten().any(|cell| cell.published.is_some()) {
        html.push_str("<p class=\"caption\">Ours, then in grey what the paper prints.</p>\n");
    }
    caption_line(html, &grid.caption);
}

fn cell_html(cell: &Cell) -> String {
    let mut text = cell.ours.map_or_else(|| "–".to_owned(), number);
    if let Some(published) = cell.published {
        let _ = write!(text, "<span class=\"published\">{}</span>", number(published));
    }
    text
}
