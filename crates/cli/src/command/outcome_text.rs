//! An outcome on the terminal: its tables, what holds and what does not, its notes.
//!
//! 1. No line is wider than the terminal; a table that would be is printed in parts.

use crate::Context;
use crate::failure::Failure;
use nandu_base::words::wrap;
use nandu_lab::Outcome;
use nandu_lab::outcome::{Cell, Grid};
use nandu_lab::report::number;
use nandu_probe::table::Table;

/// Prints the tables, verdicts and notes of an outcome.
pub(crate) fn print(outcome: &Outcome, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    output.heading(&outcome.title)?;
    for line in wrap(&outcome.question, output.text_width()) {
        output.line(&output.faint(&line))?;
    }
    for grid in &outcome.grids {
        print_grid(grid, context)?;
    }
    if !outcome.verdicts.is_empty() {
        output.heading("Shapes")?;
    }
    print_verdicts(outcome, context)?;
    if !outcome.notes.is_empty() {
        output.heading("Notes")?;
    }
    for note in &outcome.notes {
        print_item("-", note, context)?;
    }
    for line in outcome.energy_lines().into_iter().chain(outcome.worth_lines()) {
        output.line("")?;
        for part in wrap(&line, output.text_width()) {
            output.line(&output.faint(&part))?;
        }
    }
    Ok(())
}

/// A line for each shape, by class: predictions and differences first.
pub(crate) fn print_verdicts(outcome: &Outcome, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    for verdict in outcome.verdicts_by_class() {
        let mark = output.verdict(verdict.holds, verdict.mark());
        print_item(&mark, &format!("{}: {}", verdict.class, verdict.text), context)?;
        if !verdict.reason.is_empty() {
            let why = format!("why: {} Varied: {}", verdict.reason, verdict.varied);
            print_item("     ", &why, context)?;
        }
    }
    Ok(())
}

/// A mark and a text behind it, in as many lines as it takes.
pub(crate) fn print_item(mark: &str, text: &str, context: &Context) -> Result<(), Failure> {
    let indent = if mark == "-" { 4 } else { 9 };
    for (position, line) in wrap(text, context.output.text_width() - indent).iter().enumerate() {
        let start = if position == 0 { format!("  {mark}  ") } else { " ".repeat(indent) };
        let start = if indent == 4 { start.replacen("-  ", "- ", 1) } else { start };
        context.output.line(&format!("{start}{line}"))?;
    }
    Ok(())
}

fn print_grid(grid: &Grid, context: &Context) -> Result<(), Failure> {
    let axis = grid.value.title();
    let title =
        if axis.is_empty() { grid.title.clone() } else { format!("{}, {axis}", grid.title) };
    context.output.heading(&title)?;
    for columns in parts(grid, context.output.width()) {
        let mut headings = vec![String::new()];
        headings.extend(columns.iter().map(|&column| format!(">{}", grid.columns[column])));
        let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
        for (row, cells) in grid.rows.iter().zip(&grid.cells) {
            let mut line = vec![row.clone()];
            line.extend(columns.iter().map(|&column| cell_text(&cells[column])));
            table.row(line);
        }
        context.output.table(&table)?;
    }
    let has_published = grid.cells.iter().flatten().any(|cell| cell.published.is_some());
    if has_published {
        context.output.line(&context.output.faint("In brackets: what the paper prints."))?;
    }
    Ok(())
}

/// The columns of each part, so that every part fits into lines of `width_max`.
fn parts(grid: &Grid, width_max: usize) -> Vec<Vec<usize>> {
    let row_width = grid.rows.iter().map(|row| row.chars().count()).max().unwrap_or(0);
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (column, heading) in grid.columns.iter().enumerate() {
        let cells = grid.cells.iter().map(|row| cell_text(&row[column]).chars().count());
        let width = 2 + cells.max().unwrap_or(0).max(heading.chars().count());
        if used.saturating_add(width) > width_max {
            parts.push(Vec::new());
            used = row_width;
        }
        used += width;
        parts.last_mut().expect("the first column opens a part").push(column);
    }
    parts
}

/// One cell: ours, and in brackets what the paper prints.
fn cell_text(cell: &Cell) -> String {
    let plain = |value: f64| number(value).replace('\u{202f}', " ");
    match (cell.ours, cell.published) {
        (Some(ours), Some(published)) => format!("{} [{}]", plain(ours), plain(published)),
        (Some(ours), None) => plain(ours),
        (None, Some(published)) => format!("- [{}]", plain(published)),
        (None, None) => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_lab::outcome::Axis;

    #[test]
    fn a_grid_wider_than_the_terminal_is_printed_in_parts() {
        let cell = Cell { ours: Some(1.0), published: Some(2.0) };
        let grid = Grid {
            title: "t".into(),
            caption: String::new(),
            bars: false,
            value: Axis { label: String::new(), unit: String::new(), log: false },
            columns: vec!["a heading of thirty characters".into(); 7],
            column_groups: vec![String::new(); 7],
            rows: vec!["row".into()],
            cells: vec![vec![cell; 7]],
        };
        let parts = parts(&grid, 100);
        assert_eq!(parts.concat(), (0..7).collect::<Vec<_>>(), "no column is lost");
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= 3), "{parts:?}");
    }
}
