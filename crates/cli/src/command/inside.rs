//! Where the time of the host's chip commands goes, and how much dies and channels are in use, as a
//! picture: of the event mode of `nandu sim`, and of a simulated drive that `nandu probe` measured.
//!
//! ```text
//!   channel     busy  its dies, held
//!   0         41.2 %  ▅▆▅█▄▅▅▆   63.1 %
//! ```

use crate::Context;
use crate::failure::Failure;
use nandu_base::words::wrap;
use nandu_probe::table::{Table, time};
use nandu_sim::TimeShare;
use std::collections::BTreeMap;

/// Dies of a channel that have a character each; of more, neighbours share one. Narrow terminals have
/// room for fewer.
const DIES_MAX: usize = 60;
/// Characters of a row beside those of its dies.
const ROW_CHARACTERS: usize = 27;
/// Channels that have a row each; of more, neighbours share one.
const CHANNELS_MAX: usize = 32;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const UNUSED: char = '·';
/// In the order of [`TimeShare::parts`]; the first is for what the layer is held back by.
const PARTS: [&str; 6] = [
    "held back",
    "die, behind the host's",
    "die, behind cleaning",
    "channel",
    "command and array",
    "transfer",
];

/// What there is to print.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// By operation of the chip.
    pub(super) time_shares: &'a BTreeMap<String, TimeShare>,
    /// What commands of the host are held back by, if that is known.
    pub(super) held_back_by: &'a str,
    /// Of each die and each channel.
    pub(super) die_held_share: &'a [f64],
    pub(super) channel_busy_share: &'a [f64],
}

/// Prints both, where there is something to print.
pub(super) fn print(view: &View<'_>, context: &Context) -> Result<(), Failure> {
    if !view.time_shares.is_empty() {
        context.output.heading("Where time goes: a chip command of the host, on average")?;
        context.output.table(&table(view))?;
    }
    if !view.die_held_share.is_empty() {
        context.output.heading("Dies and channels")?;
        let width = context.output.text_width();
        context.output.text(&picture(view.die_held_share, view.channel_busy_share, width))?;
    }
    Ok(())
}

/// A row for each part of the time, a pair of columns for each operation.
fn table(view: &View<'_>) -> Table {
    // Reads first.
    let shares: Vec<(&String, &TimeShare)> = view.time_shares.iter().rev().collect();
    let names = shares.iter().flat_map(|(name, _)| [format!(">{name}"), ">%".into()]);
    let headings: Vec<String> = std::iter::once("waits and works".into()).chain(names).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for (index, part) in PARTS.into_iter().enumerate() {
        let cells = shares.iter().flat_map(|(_, share)| {
            let (spent, whole) = (share.parts()[index], share.total_ns());
            let percent = if whole > 0.0 { 100.0 * spent / whole } else { 0.0 };
            [time(spent), format!("{percent:.1}")]
        });
        let by = if index == 0 { view.held_back_by } else { "" };
        table.row(std::iter::once(format!("{part}{by}")).chain(cells).collect());
    }
    let whole = shares.iter().flat_map(|(_, share)| [time(share.total_ns()), String::new()]);
    table.row(std::iter::once("in all".into()).chain(whole).collect());
    let counts = shares.iter().flat_map(|(_, of)| [of.command_count.to_string(), String::new()]);
    table.row(std::iter::once("commands".into()).chain(counts).collect());
    table
}

/// A row for each channel, a character for each of its dies: die `d` is on channel `d` modulo their
/// number. Lines have `line_width` characters at most.
fn picture(dies: &[f64], channels: &[f64], line_width: usize) -> String {
    const HEADING: &str = "its dies, held";
    let dies_max = line_width.saturating_sub(ROW_CHARACTERS).clamp(HEADING.len(), DIES_MAX);
    let count = channels.len();
    let of_channel = |channel: usize| dies.iter().skip(channel).step_by(count).copied();
    let rows = count.div_ceil(count.div_ceil(CHANNELS_MAX));
    let channels_per_row = count.div_ceil(rows);
    let dies_per_character = dies.len().div_ceil(count).div_ceil(dies_max).max(1);
    let width = dies.len().div_ceil(count).div_ceil(dies_per_character).max(HEADING.len());
    let mut text = format!("channel     busy  {HEADING:<width$}     mean\n");
    for first in (0..count).step_by(channels_per_row) {
        let members = first..(first + channels_per_row).min(count);
        // Where channels share a row, it shows the mean of their dies in the same place.
        let lists: Vec<Vec<f64>> = members.clone().map(|one| of_channel(one).collect()).collect();
        let length = lists.iter().map(Vec::len).max().unwrap_or(0);
        let column = |place: usize| mean(lists.iter().filter_map(|list| list.get(place)).copied());
        let held: Vec<f64> = (0..length).map(column).collect();
        let bars: String =
            held.chunks(dies_per_character).map(|some| bar(mean(some.iter().copied()))).collect();
        let name = match members.len() {
            1 => first.to_string(),
            _ => format!("{first}-{}", members.end - 1),
        };
        text += &format!(
            "{name:<7}  {}  {bars:<width$}  {}\n",
            percent(mean(members.map(|one| channels[one]))),
            percent(mean(held.into_iter()))
        );
    }
    text += &format!(
        "{:<7}  {}  {:<width$}  {}\n",
        "all",
        percent(mean(channels.iter().copied())),
        extremes(dies),
        percent(mean(dies.iter().copied()))
    );
    let each = match dies_per_character {
        1 => "a character for each die".into(),
        more => format!("a character for every {more} dies"),
    };
    let legend = format!(
        "{each}, held while a command is on it, waits for the channel included: {UNUSED} never, ▁ up to \
         an eighth of the time, ... █ over seven eighths"
    );
    text + "\n" + &wrap(&legend, line_width).join("\n") + "\n"
}

fn percent(share: f64) -> String {
    format!("{:>5.1} %", share * 100.0)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

fn extremes(dies: &[f64]) -> String {
    let least = dies.iter().copied().fold(f64::INFINITY, f64::min);
    let most = dies.iter().copied().fold(0.0, f64::max);
    format!("{:.0} to {:.0} %", least * 100.0, most * 100.0)
}

fn bar(share: f64) -> char {
    let limits = (1..8_u8).map(|eighths| f64::from(eighths) / 8.0);
    let level = limits.take_while(|limit| share > *limit).count();
    if share > 0.0 { LEVELS[level] } else { UNUSED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_eighths() {
        let shares = [0.0, 0.001, 0.125, 0.126, 0.5, 0.87, 0.876, 1.0];
        assert_eq!(shares.map(bar), ['·', '▁', '▁', '▂', '▄', '▇', '█', '█']);
    }

    #[test]
    fn a_picture_has_a_row_for_each_channel_and_a_character_for_each_die() {
        // Dies 1 and 3 are those of channel 1.
        let text = picture(&[0.0, 1.0, 0.5, 0.2], &[0.25, 0.75], 100);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[1], "0         25.0 %  ·▄               25.0 %", "{text}");
        assert_eq!(rows[2], "1         75.0 %  █▂               60.0 %", "{text}");
        assert_eq!(rows[3], "all       50.0 %  0 to 100 %       42.5 %", "{text}");
    }

    #[test]
    fn large_arrays_fit_the_terminal() {
        for (width, each) in [(100, 9), (80, 10), (41, 37)] {
            let text = picture(&vec![0.3; 64 * 512], &vec![0.1; 64], width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.lines().count() < 43 && text.contains("\n62-63"), "{text}");
            assert!(text.contains(&format!("a character for every {each} dies")), "{text}");
        }
    }
}
