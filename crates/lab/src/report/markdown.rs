//! Tables and verdicts as Markdown whose columns also line up on a terminal.

use super::number;
use crate::outcome::{Cell, Grid, Outcome};

/// Title, tables, verdicts, notes and energy of an outcome.
#[must_use]
pub fn outcome(outcome: &Outcome) -> String {
    let mut text = format!("# {}\n\n{}\n", outcome.title, outcome.question);
    for grid in &outcome.grids {
        text.push_str(&format!("\n## {}\n\n{}", grid_title(grid), table(grid)));
    }
    if !outcome.verdicts.is_empty() {
        text.push_str("\n## Shapes\n\n");
    }
    for verdict in outcome.verdicts_by_class() {
        text.push_str(&format!("- {}, {}: {}\n", verdict.mark(), verdict.class, verdict.text));
        if !verdict.reason.is_empty() {
            text.push_str(&format!("  Why: {} Varied: {}\n", verdict.reason, verdict.varied));
        }
    }
    if !outcome.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
    }
    for note in &outcome.notes {
        text.push_str(&format!("- {note}\n"));
    }
    let energy = outcome.energy_lines();
    if !energy.is_empty() {
        text.push_str("\n## Energy\n\n");
    }
    for line in energy {
        text.push_str(&format!("- {line}\n"));
    }
    let worth = outcome.worth_lines();
    if !worth.is_empty() {
        text.push_str("\n## Money and life\n\n");
    }
    for line in worth {
        text.push_str(&format!("- {line}\n"));
    }
    text
}

fn grid_title(grid: &Grid) -> String {
    let axis = grid.value.title();
    if axis.is_empty() { grid.title.clone() } else { format!("{}: {axis}", grid.title) }
}

/// One cell: ours, and in brackets what the paper prints.
fn cell_text(cell: &Cell) -> String {
    match (cell.ours, cell.published) {
        (Some(ours), Some(published)) => format!("{} [{}]", number(ours), number(published)),
        (Some(ours), None) => number(ours),
        (None, Some(published)) => format!("– [{}]", number(published)),
        (None, None) => "–".into(),
    }
}

/// The grid as an aligned Markdown table; published values stand in brackets.
#[must_use]
pub fn table(grid: &Grid) -> String {
    let mut lines = vec![Vec::from([String::new()])];
    lines[0].extend(grid.columns.iter().cloned());
    for (row, cells) in grid.rows.iter().zip(&grid.cells) {
        let mut line = vec![row.clone()];
        line.extend(cells.iter().map(cell_text));
        lines.push(line);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..lines[0].len()).map(|c| width(c).unwrap_or(0).max(3)).collect();
    let mut text = String::new();
    for (position, line) in lines.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let padded =
                if column == 0 { format!("{cell}{padding}") } else { format!("{padding}{cell}") };
            text.push_str(&format!("| {padded} "));
        }
        text.push_str("|\n");
        if position == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if column == 0 { "-" } else { ":" };
                text.push_str(&format!("| {}{end} ", "-".repeat(width - 1)));
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Axis;

    #[test]
    fn tables_line_up_and_show_published_values_in_brackets() {
        let grid = Grid {
            title: "t".into(),
            caption: String::new(),
            bars: false,
            value: Axis { label: "ratio".into(), unit: String::new(), log: false },
            columns: vec!["device A".into(), "B".into()],
            column_groups: vec!["a".into(), "b".into()],
            rows: vec!["random read".into()],
            cells: vec![vec![
                Cell { ours: Some(30.2), published: Some(30.71) },
                Cell { ours: None, published: None },
            ]],
        };
        let expected = "\
|             |    device A |   B |
| ----------- | ----------: | --: |
| random read | 30.2 [30.7] |   – |
";
        assert_eq!(table(&grid), expected);
    }
}
