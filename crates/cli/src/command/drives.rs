//! `nandu drives`: the simulated drives, each figure with its source.

use crate::Context;
use crate::failure::Failure;
use crate::output::wrap;
use clap::Args;
use nandu_base::ByteCount;
use nandu_drives::profile::{Profile, ProfileFigure};
use nandu_probe::table::{Table, WIDTH_MAX};
use serde::Serialize;

/// List the simulated drives, or show one with the source of every figure
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu drives
  nandu drives device-a
  nandu drives array:stripe:sim:device-a*4
  nandu drives --json

Marks of a source: [S] the paper, [V] verified elsewhere, [C] computed or fitted to a published
figure, [M] recalled or assumed. A drive is a file, ./profiles/NAME.toml; `sim:NAME` is its address.")]
pub(crate) struct DrivesArguments {
    /// A drive, with or without `sim:` before its name, or the file of one
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Drive {
    address: String,
    title: String,
    paper: Option<String>,
    kind: &'static str,
    capacity_bytes: u64,
    sector_bytes: u32,
    origin: String,
    figures: Vec<ProfileFigure>,
}

impl Drive {
    fn of(profile: &Profile) -> Self {
        Self {
            address: profile.address(),
            title: profile.title.clone(),
            paper: profile.paper.clone(),
            kind: profile.kind().label(),
            capacity_bytes: profile.geometry.capacity().0,
            sector_bytes: profile.geometry.sector_bytes,
            origin: profile.origin.clone(),
            figures: profile.figures(),
        }
    }
}

/// Prints them.
pub(crate) fn run(arguments: &DrivesArguments, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    if let Some(name) = &arguments.name {
        let profile = Profile::load(name.strip_prefix("sim:").unwrap_or(name))?;
        let drive = Drive::of(&profile);
        return if arguments.json { output.json(&drive) } else { show(&drive, context) };
    }
    let loaded: Result<Vec<Profile>, _> =
        Profile::list().iter().map(|name| Profile::load(name)).collect();
    let drives: Vec<Drive> = loaded?.iter().map(Drive::of).collect();
    if arguments.json {
        return output.json(&drives);
    }
    let mut table = Table::new(&["address", "kind", ">capacity", "paper", "title"]);
    for drive in &drives {
        let capacity = decimal_size(drive.capacity_bytes);
        let Drive { address, kind, title, .. } = drive;
        let paper = drive.paper.as_deref().unwrap_or("-");
        let cells = [address.as_str(), kind, &capacity, paper, title];
        table.row(cells.map(str::to_string).to_vec());
    }
    output.text(&table.render())?;
    output.line(&format!(
        "\n{}",
        output.faint("`nandu drives NAME` shows where each figure is from.")
    ))
}

fn show(drive: &Drive, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    output.line(&output.strong(&drive.title))?;
    for (name, value) in [
        ("address", drive.address.clone()),
        ("kind", drive.kind.to_string()),
        ("paper", drive.paper.clone().unwrap_or_else(|| "-".into())),
        ("capacity", decimal_size(drive.capacity_bytes)),
        ("sector", ByteCount(u64::from(drive.sector_bytes)).to_string()),
        ("file", drive.origin.clone()),
    ] {
        output.line(&format!("  {name:<10}{value}"))?;
    }
    for figure in &drive.figures {
        output.line(&format!("\n  {} = {}", figure.path, output.strong(&figure.value)))?;
        let source = figure.source.as_deref().unwrap_or("no source");
        for line in wrap(source, WIDTH_MAX - 6) {
            output.line(&format!("      {}", output.faint(&line)))?;
        }
    }
    Ok(())
}

/// Drives are sold in powers of ten: `32 GB`, `1 TB`; others in powers of two.
fn decimal_size(bytes: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB")];
    let fits = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match fits {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => ByteCount(bytes).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_shown_as_they_are_sold() {
        assert_eq!(decimal_size(32_000_000_000), "32 GB");
        assert_eq!(decimal_size(1_000_000_000_000), "1 TB");
        assert_eq!(decimal_size(1 << 30), "1 GiB");
    }
}
