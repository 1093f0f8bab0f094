//! `nandu drives`: the simulated drives, each figure with its source, and the chips that they are made of.

use crate::Context;
use crate::failure::Failure;
use clap::Args;
use nandu_base::words::wrap;
use nandu_base::{ByteCount, Nanos};
use nandu_drives::price::{Price, Prices};
use nandu_drives::profile::{Profile, ProfileError, ProfileFigure};
use nandu_drives::wear::{Endurance, PartKind, WornParts};
use nandu_nand::{ChipPreset, Timing, preset, presets};
use nandu_probe::table::Table;
use serde::Serialize;

/// List the simulated drives, or show one with the source of every figure
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu drives
  nandu drives device-a
  nandu drives array:stripe:sim:device-a*4
  nandu drives myers_slc          a chip, as `nandu sim` takes it
  nandu drives --toml device-a > profiles/mine.toml
                                  a profile to begin one's own with
  nandu drives --json

Marks of a source: [S] the paper, [V] verified elsewhere, [C] computed or fitted to a published \
figure, [M] recalled or assumed. A drive is a file, ./profiles/NAME.toml; `sim:NAME` is its address.")]
pub(crate) struct DrivesArguments {
    /// A drive, with or without `sim:` before its name, the file of one, or a chip
    name: Option<String>,
    /// Print the drive's profile as the file that it is, with its comments
    #[arg(long, requires = "name")]
    toml: bool,
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
    /// What a whole one costs; null if nobody said.
    price: Option<Price>,
    /// What of it wears; null where nothing does, and where nobody knows.
    endurance: Option<Endures>,
    /// Whether it is known how it wears, be it that it does not.
    is_wear_known: bool,
    /// Whether it says what it draws.
    tells_energy: bool,
    figures: Vec<ProfileFigure>,
}

/// Parts of a drive that wear.
#[derive(Serialize)]
struct Endures {
    part: &'static str,
    count: u64,
    cycles: u64,
}

impl Endures {
    fn of(endurance: &Endurance) -> Option<Self> {
        let Endurance::Worn(WornParts { kind, count, cycles }) = *endurance else { return None };
        let part = match kind {
            PartKind::EraseBlock { .. } => "erase_block",
            PartKind::Line { .. } => "line",
        };
        Some(Self { part, count, cycles })
    }
}

impl Drive {
    fn of(profile: &Profile, prices: &Prices) -> Self {
        let endurance = Endurance::of(profile);
        Self {
            address: profile.address(),
            title: profile.title.clone(),
            paper: profile.paper.clone(),
            kind: profile.kind().label(),
            capacity_bytes: profile.geometry.capacity().0,
            sector_bytes: profile.geometry.sector_bytes,
            origin: profile.origin.clone(),
            price: prices.of(profile),
            endurance: Endures::of(&endurance),
            is_wear_known: endurance.is_known(),
            tells_energy: profile.tells_energy(),
            figures: profile.figures(),
        }
    }

    /// What it costs, with the source, how it wears and whether it says what it draws, in words.
    fn cost_lines(&self) -> [(&'static str, String, Option<&str>); 3] {
        let price = match &self.price {
            Some(price) => price.line(),
            None => "not known; a file for --prices can say it".to_owned(),
        };
        let wear = match (&self.endurance, self.is_wear_known) {
            (Some(Endures { part, count, cycles }), _) => {
                let (what, done) = match *part {
                    "line" => ("lines", "written"),
                    _ => ("erase blocks", "erased"),
                };
                format!("{count} {what}, each {done} {cycles} times")
            }
            (None, true) => "does not wear by work".to_owned(),
            (None, false) => "not known".to_owned(),
        };
        let power = match self.tells_energy {
            true => "known, by the figures below",
            false => "not known, so it tells no joules",
        };
        let source = self.price.as_ref().map(|price| price.source.as_str());
        [("price", price, source), ("wear", wear, None), ("power", power.to_owned(), None)]
    }
}

/// A drive's profile as the text of its file.
#[derive(Serialize)]
struct ProfileText<'a> {
    address: String,
    origin: &'a str,
    toml: &'a str,
}

/// A chip without the array around it.
#[derive(Serialize)]
struct Chip {
    name: &'static str,
    source: &'static str,
    planes_per_die: u32,
    flash_pages_per_erase_block: u32,
    flash_page_bytes: u32,
    spare_bytes: u32,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    /// 0 where transfers are folded into the times.
    bus_bytes_per_second: u64,
    endurance: u32,
}

impl Chip {
    fn of(preset: &ChipPreset) -> Self {
        let Timing { read_ns, program_ns, erase_ns, bus_bytes_per_second, .. } = preset.timing;
        Self {
            name: preset.name,
            source: preset.source,
            planes_per_die: preset.planes_per_die,
            flash_pages_per_erase_block: preset.flash_pages_per_erase_block,
            flash_page_bytes: preset.flash_page_bytes,
            spare_bytes: preset.spare_bytes,
            read_ns: read_ns.0,
            program_ns: program_ns.0,
            erase_ns: erase_ns.0,
            bus_bytes_per_second,
            endurance: preset.endurance,
        }
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct DrivesAndChips {
    drives: Vec<Drive>,
    chips: Vec<Chip>,
}

/// Prints the drives, or the one that is named.
pub(crate) fn run(arguments: &DrivesArguments, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    if let Some(name) = &arguments.name {
        return run_one(name, arguments, context);
    }
    let loaded: Result<Vec<Profile>, _> =
        Profile::list().iter().map(|name| Profile::load(name)).collect();
    let prices = Prices::embedded();
    let drives: Vec<Drive> = loaded?.iter().map(|profile| Drive::of(profile, &prices)).collect();
    let chips: Vec<Chip> = presets().iter().map(Chip::of).collect();
    if arguments.json {
        return output.json("drives", &DrivesAndChips { drives, chips });
    }
    let mut table = Table::new(&["=address", "kind", ">capacity", "paper", "title"]);
    for drive in &drives {
        let capacity = decimal_size(drive.capacity_bytes);
        let Drive { address, kind, title, .. } = drive;
        let paper = drive.paper.as_deref().unwrap_or("-");
        let cells = [address.as_str(), kind, &capacity, paper, title];
        table.row(cells.map(str::to_string).to_vec());
    }
    output.table(&table)?;
    output.heading("Chips, for `nandu sim` and for profiles")?;
    let mut table =
        Table::new(&["=chip", ">page", ">pages a block", ">read", ">program", ">erase"]);
    for chip in &chips {
        table.row(vec![
            chip.name.to_owned(),
            ByteCount(u64::from(chip.flash_page_bytes)).to_string(),
            chip.flash_pages_per_erase_block.to_string(),
            Nanos(chip.read_ns).to_string(),
            Nanos(chip.program_ns).to_string(),
            Nanos(chip.erase_ns).to_string(),
        ]);
    }
    output.table(&table)?;
    output.line(&format!(
        "\n{}",
        output.faint("`nandu drives NAME` shows where each figure is from.")
    ))
}

/// A drive, or else the chip of that name.
fn run_one(name: &str, arguments: &DrivesArguments, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let loaded = Profile::load(name.strip_prefix("sim:").unwrap_or(name));
    if let (Err(ProfileError::NotFound { .. }), Ok(chip)) = (&loaded, preset(name)) {
        if arguments.toml {
            return Err(Failure::input(format!(
                "{name} is a chip and no drive; a profile names it: chip = \"{name}\" in [ssd]"
            )));
        }
        let chip = Chip::of(chip);
        return if arguments.json {
            output.json("drives CHIP", &chip)
        } else {
            show_chip(&chip, context)
        };
    }
    let profile = loaded?;
    if arguments.toml {
        return print_profile(&profile, arguments.json, context);
    }
    let drive = Drive::of(&profile, &Prices::embedded());
    if arguments.json { output.json("drives DRIVE", &drive) } else { show(&drive, context) }
}

/// The text of a profile, whose last line has an end.
fn print_profile(profile: &Profile, as_json: bool, context: &Context) -> Result<(), Failure> {
    let end = if profile.text.ends_with('\n') { "" } else { "\n" };
    let toml = format!("{}{end}", profile.text);
    if !as_json {
        return context.output.text(&toml);
    }
    let text = ProfileText { address: profile.address(), origin: &profile.origin, toml: &toml };
    context.output.json("drives --toml", &text)
}

fn show_chip(chip: &Chip, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let bus = match chip.bus_bytes_per_second {
        0 => "as much as wanted: transfers are part of the times".to_owned(),
        rate => format!("{} MB/s", rate / 1_000_000),
    };
    output.line(&output.strong(chip.name))?;
    for (name, value) in [
        ("planes of a die", chip.planes_per_die.to_string()),
        ("pages of a block", chip.flash_pages_per_erase_block.to_string()),
        ("page", ByteCount(u64::from(chip.flash_page_bytes)).to_string()),
        ("spare area", ByteCount(u64::from(chip.spare_bytes)).to_string()),
        ("read", Nanos(chip.read_ns).to_string()),
        ("program", Nanos(chip.program_ns).to_string()),
        ("erase", Nanos(chip.erase_ns).to_string()),
        ("bus", bus),
        ("erases it stands", chip.endurance.to_string()),
    ] {
        output.line(&format!("  {name:<18}{value}"))?;
    }
    for line in wrap(chip.source, output.text_width() - 6) {
        output.line(&format!("      {}", output.faint(&line)))?;
    }
    Ok(())
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
    for (name, value, source) in drive.cost_lines() {
        output.line(&format!("  {name:<10}{value}"))?;
        for line in source.iter().flat_map(|source| wrap(source, output.text_width() - 6)) {
            output.line(&format!("      {}", output.faint(&line)))?;
        }
    }
    for figure in &drive.figures {
        output.line(&format!("\n  {} = {}", figure.path, output.strong(&figure.value)))?;
        let source = figure.source.as_deref().unwrap_or("no source");
        for line in wrap(source, output.text_width() - 6) {
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
