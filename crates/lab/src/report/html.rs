//! One HTML file that opens without a network: text, tables, figures and the script that draws them.
//!
//! ```text
//!   head: styles                         the page forbids itself every connection (its policy)
//!   nav  │ summary: experiments, verdicts, machine
//!        │ experiment: question, verdicts, figures, tables; machine, commit, seed, command under each
//!   plotly's script, once; page.js
//! ```
//!
//! 1. Every text that comes from outside is escaped.
//! 2. The file names no address that a browser would fetch.

use super::figure::{self, Colours};
use super::number;
use crate::outcome::{Cell, Figure, Grid, Outcome};
use crate::run::Meta;
use crate::shape::Class;
use plotly::Plot;
use std::fmt::Write as _;

const STYLES: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Nothing may be loaded from anywhere.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:";

/// The page that shows `runs`.
#[must_use]
pub fn page(runs: &[(Outcome, Meta)]) -> String {
    let figures: Vec<Vec<&str>> = runs.iter().flat_map(|(outcome, _)| groups(outcome)).collect();
    let colours = Colours::of(&figures);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>nandu report</title>\n<style>\n{STYLES}</style>\n</head>\n<body>\n\
         <div class=\"page\">\n"
    );
    navigation(&mut html, runs);
    html.push_str("<main>\n");
    summary(&mut html, runs);
    let mut plot_count = 0;
    for run in runs {
        experiment(&mut html, run, &colours, &mut plot_count);
    }
    html.push_str("</main>\n</div>\n");
    if plot_count > 0 {
        html.push_str(&plotly_script());
        let _ = writeln!(html, "<script>\n{SCRIPT}</script>");
    }
    html.push_str("</body>\n</html>\n");
    html
}

/// Plotly's own script element, without the formula renderer that the crate puts behind it.
fn plotly_script() -> String {
    const END: &str = "</script>";
    let scripts = Plot::offline_js_sources();
    let end = scripts.find(END).map_or(scripts.len(), |position| position + END.len());
    format!("{}\n", &scripts[..end])
}

/// The groups of each figure, which its colours must tell apart.
fn groups(outcome: &Outcome) -> impl Iterator<Item = Vec<&str>> {
    let lines = outcome
        .figures
        .iter()
        .map(|figure| figure.traces.iter().map(|trace| trace.group.as_str()).collect::<Vec<_>>());
    let bars = outcome.grids.iter().filter(|grid| grid.bars);
    lines.chain(bars.map(|grid| grid.column_groups.iter().map(String::as_str).collect()))
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
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
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

fn navigation(html: &mut String, runs: &[(Outcome, Meta)]) {
    html.push_str("<nav aria-label=\"Experiments\">\n<p class=\"brand\">nandu</p>\n");
    html.push_str("<a href=\"#summary\">Summary</a>\n");
    let mut last_group = None;
    for (outcome, _) in runs {
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

fn summary(html: &mut String, runs: &[(Outcome, Meta)]) {
    let _ = write!(
        html,
        "<header id=\"summary\">\n<h1>What does flash do to a database?</h1>\n\
         <p class=\"lead\">{} and {}. Hollow markers and hatched bars are values that the papers \
         print.</p>\n",
        counted(runs.len(), "experiment"),
        counted(runs.iter().map(|(outcome, _)| outcome.figures.len()).sum(), "figure"),
    );
    standing(html, runs);
    if let Some((_, meta)) = runs.first() {
        machine(html, meta);
    }
    html.push_str(
        "<div class=\"scroll\"><table class=\"summary\"><thead><tr><th>Experiment</th>\
         <th>Question</th><th>Shapes</th></tr></thead><tbody>\n",
    );
    for (outcome, _) in runs {
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

/// What is missed, first; then how many shapes of each class hold.
fn standing(html: &mut String, runs: &[(Outcome, Meta)]) {
    let of_class = |class: Class| {
        runs.iter().flat_map(move |(outcome, _)| {
            let verdicts = outcome.verdicts.iter().filter(move |verdict| verdict.class == class);
            verdicts.map(move |verdict| (outcome, verdict))
        })
    };
    let missed = of_class(Class::Differs).count();
    if missed > 0 {
        let _ = writeln!(
            html,
            "<details class=\"missed\" open><summary>What the papers found and nandu does not: {}</summary>\
             <ul class=\"verdicts\">",
            counted(missed, "claim")
        );
        for (outcome, verdict) in of_class(Class::Differs) {
            let _ = writeln!(
                html,
                "<li class=\"unmet\"><span><a href=\"#{}\">{}</a>: {}. {}</span></li>",
                anchor(&outcome.experiment),
                escape(&outcome.title),
                escape(&verdict.text),
                prose(&verdict.reason)
            );
        }
        html.push_str("</ul></details>\n");
    }
    html.push_str("<ul class=\"verdicts\">\n");
    for class in Class::ALL {
        let (all, holding) =
            (of_class(class).count(), of_class(class).filter(|(_, verdict)| verdict.holds).count());
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

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn machine(html: &mut String, meta: &Meta) {
    let machine = &meta.machine;
    let memory = format!("{:.0} GiB", machine.memory_bytes as f64 / f64::from(1 << 30));
    html.push_str("<dl class=\"machine\">");
    for (term, value) in [
        ("Processor", format!("{}, {} threads", machine.processor, machine.thread_count)),
        ("Memory", memory),
        ("System", format!("{}, Linux {}", machine.system, machine.kernel)),
        ("nandu", format!("{}, commit {}", meta.version, meta.commit)),
    ] {
        let _ = write!(html, "<div><dt>{term}</dt><dd>{}</dd></div>", escape(&value));
    }
    html.push_str("</dl>\n");
}

fn experiment(
    html: &mut String,
    (outcome, meta): &(Outcome, Meta),
    colours: &Colours,
    plot_count: &mut usize,
) {
    let _ = write!(
        html,
        "<section class=\"experiment\" id=\"{}\">\n<p class=\"name\">{}</p>\n<h2>{}</h2>\n\
         <p class=\"question\">{}</p>\n<p class=\"method\">{} <em>Reference: {}.</em></p>\n",
        anchor(&outcome.experiment),
        escape(&outcome.experiment),
        escape(&outcome.title),
        prose(&outcome.question),
        prose(outcome.method.trim()),
        escape(&outcome.reference)
    );
    verdict_list(html, outcome);
    let provenance = provenance(meta);
    for drawn in &outcome.figures {
        let json = figure::lines(drawn, colours);
        plot(html, &drawn.title, &drawn.caption, &json, plot_count);
        values(html, drawn);
        html.push_str(&provenance);
        html.push_str("</figure>\n");
    }
    for grid in outcome.grids.iter().filter(|grid| grid.bars) {
        plot(html, &grid.title, &grid.caption, &figure::bars(grid, colours), plot_count);
        html.push_str(&provenance);
        html.push_str("</figure>\n");
    }
    for grid in outcome.grids.iter().filter(|grid| !grid.bars) {
        table(html, grid);
        html.push_str(&provenance);
        html.push_str("</figure>\n");
    }
    for note in &outcome.notes {
        let _ = writeln!(html, "<p class=\"note\">Note: {}</p>", prose(note));
    }
    html.push_str("</section>\n");
}

/// The style and the sign of what holds or fails; what is missed as written down is no success.
const fn sign(holds: bool, class: Class) -> (&'static str, &'static str) {
    match (holds, class) {
        (true, Class::Differs) => ("unmet", "≠"),
        (true, _) => ("good", "✓"),
        (false, _) => ("bad", "✗"),
    }
}

fn verdict_list(html: &mut String, outcome: &Outcome) {
    if outcome.verdicts.is_empty() {
        return;
    }
    html.push_str("<ul class=\"verdicts\">\n");
    for verdict in outcome.verdicts_by_class() {
        let (class, sign) = sign(verdict.holds, verdict.class);
        let word = verdict.mark();
        let _ = write!(
            html,
            "<li class=\"{class}\"><span class=\"mark\" title=\"{word}\">{sign}</span>\
             <span><b>{}</b>: {}",
            verdict.class,
            escape(&verdict.text)
        );
        if !verdict.reason.is_empty() {
            let _ = write!(
                html,
                "<br>{} <em>Varied:</em> {}",
                prose(&verdict.reason),
                prose(&verdict.varied)
            );
        }
        html.push_str("</span></li>\n");
    }
    html.push_str("</ul>\n");
}

/// Under each figure: where it comes from.
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

fn plot(html: &mut String, title: &str, caption: &str, json: &str, plot_count: &mut usize) {
    let number = *plot_count;
    *plot_count += 1;
    let _ = write!(
        html,
        "<figure>\n<figcaption>{}</figcaption>\n<div class=\"plot\" data-source=\"plot-{number}\" \
         role=\"img\" aria-label=\"{}\"></div>\n\
         <script type=\"application/json\" id=\"plot-{number}\">{json}</script>\n",
        escape(title),
        escape(title)
    );
    caption_line(html, caption);
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
        let shown =
            if place.fract() == 0.0 { format!("{place:.0}") } else { format!("{place:.3}") };
        let _ = write!(html, "<tr><td>{shown}</td>");
        for trace in &figure.traces {
            let found = trace.points.iter().find(|point| point.0.total_cmp(&place).is_eq());
            let text = found.map_or_else(|| "–".to_owned(), |point| number(point.1));
            let _ = write!(html, "<td>{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></details>\n");
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
