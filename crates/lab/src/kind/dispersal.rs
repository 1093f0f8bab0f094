//! Which layout of dispersed blocks serves closed workers best: S000 chapter 8, by the simulator of
//! `nandu_array::chapter8`.
//!
//! One step for each array and number of members, on all cores. Series by number of members:
//!
//! - `ARRAY.CASE.LAYOUT`: operations per second; LAYOUT is `one_copy`, `stripe`, `replication`,
//!   `parity`, or `m3w4` for three of four fragments;
//! - `ARRAY.CASE.best`: those of the best layout;
//! - `ARRAY.CASE.best_needed`, `ARRAY.CASE.best_redundancy`: its m, and its f / m;
//! - `ARRAY.CASE.spread`: the best over the worst of one copy, stripe and replication.

use super::Measurement;
use super::bench::Bench;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_array::chapter8::{
    Cleaning, Coding, DelayReading, FlashMember, Load, Member, ProgramCharge, ReplicaChoice,
    Scenario, Summary, WritePlacement, run_all,
};
use nandu_array::{ArrayError, Layout, StandardLayout};
use nandu_base::{ByteCount, Nanos};
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The keys of an experiment of the kind `dispersal`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispersal {
    /// Length of an epoch on flash.
    #[serde(deserialize_with = "text::duration")]
    pub flash_epoch: Nanos,
    /// Length of an epoch on disks.
    #[serde(deserialize_with = "text::duration")]
    pub disk_epoch: Nanos,
    /// Epochs after which a run ends though it has not converged, 8 or more.
    pub epoch_count_max: u32,
    /// Who asks, by name.
    pub cases: BTreeMap<String, Case>,
    /// What members are, by name, beside those that the program knows: `flash` and `disk` of S000 section
    /// 8.4, and `tlc` and `qlc`, dies of the presets of 2026.
    #[serde(default)]
    pub members: BTreeMap<String, Member>,
    /// What is asked, by name.
    pub arrays: BTreeMap<String, ArrayVariant>,
}

/// How many workers ask, and how long they wait between requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Workers that read.
    pub reader_count: u32,
    /// Workers that write.
    pub writer_count: u32,
    /// The delay that varies; whose it is says the array's `reading`.
    #[serde(deserialize_with = "text::duration")]
    pub delay: Nanos,
}

/// An array and what is left open about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayVariant {
    /// The name of what its members are.
    pub member: String,
    /// How many, each 2 to 16.
    pub member_counts: Vec<u8>,
    /// Whether there are more workers on more members: so many for four.
    #[serde(default)]
    pub load_per_four_members: bool,
    /// Which layouts its blocks are laid out by.
    #[serde(default)]
    pub layouts: LayoutSet,
    /// Whose delay varies.
    #[serde(default)]
    pub reading: DelayReading,
    /// The readers' delay, if it is not that of `reading`.
    #[serde(default, deserialize_with = "text::optional_duration")]
    pub read_delay: Option<Nanos>,
    /// Size of a virtual block.
    #[serde(default = "block_of_thesis", deserialize_with = "text::size")]
    pub block_bytes: ByteCount,
    /// When chips pay for cleaning.
    #[serde(default)]
    pub cleaning: Cleaning,
    /// What chips charge for less than a page.
    #[serde(default)]
    pub program_charge: ProgramCharge,
    /// Who is read from.
    #[serde(default)]
    pub replica_choice: ReplicaChoice,
    /// Where writes go.
    #[serde(default)]
    pub write_placement: WritePlacement,
    /// What coding costs; nothing unless stated.
    #[serde(default)]
    pub coding: Option<Coding>,
}

/// Which layouts are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutSet {
    /// All, n (n + 1) / 2 of n members.
    #[default]
    All,
    /// Those that have names.
    Standard,
}

/// Data on each member: 16 MB, half full (S000 section 8.4).
const BYTES_PER_MEMBER: u64 = 8 << 20;
/// The series beside those of layouts, with their units.
const SUMS: [(&str, &str); 4] =
    [("best", "ops/s"), ("best_needed", ""), ("best_redundancy", ""), ("spread", "")];
/// What figures 8-3 and 8-4 compare.
const COMPARED: [StandardLayout; 3] =
    [StandardLayout::OneCopy, StandardLayout::Stripe, StandardLayout::Replication];

const fn block_of_thesis() -> ByteCount {
    ByteCount(2048)
}

/// Members that the program knows.
fn known_member(name: &str) -> Option<Member> {
    match name {
        "flash" => Some(Member::thesis_chip()),
        "disk" => Some(Member::thesis_disk()),
        "tlc" => Some(half_full("tlc_2026")),
        "qlc" => Some(half_full("qlc_2026")),
        _ => None,
    }
}

/// A die of a preset, of whose erase blocks half is live when they are cleaned.
fn half_full(preset: &str) -> Member {
    let chip = nandu_nand::preset(preset).expect("the preset is part of the program");
    Member::Flash(FlashMember {
        page_bytes: chip.flash_page_bytes,
        erase_block_page_count: chip.flash_pages_per_erase_block,
        live_page_count: chip.flash_pages_per_erase_block / 2,
        read_ns: chip.timing.read_ns,
        program_ns: chip.timing.program_ns,
        erase_ns: chip.timing.erase_ns,
        cleaning: Cleaning::default(),
        program_charge: ProgramCharge::default(),
    })
}

impl LayoutSet {
    fn layouts(self, member_count: u8) -> Vec<Layout> {
        let standard = || StandardLayout::ALL.iter().filter_map(|name| name.on(member_count).ok());
        match self {
            Self::All => Layout::all(member_count).collect(),
            // Two members: a stripe needs what parity writes, and so on; each layout runs once.
            Self::Standard => standard().collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }
}

/// All names of `layout`.
fn names(layout: Layout) -> Vec<String> {
    let is_it = |name: &&StandardLayout| name.on(layout.member_count()) == Ok(layout);
    let standard = StandardLayout::ALL.iter().filter(is_it).map(|name| name.label().to_owned());
    standard.chain([layout.name()]).collect()
}

impl Dispersal {
    /// Array and number of members of each step.
    fn parts(&self) -> impl Iterator<Item = (&str, &ArrayVariant, u8)> {
        self.arrays.iter().flat_map(|(name, array)| {
            array.member_counts.iter().map(move |&count| (name.as_str(), array, count))
        })
    }

    fn member(&self, array: &ArrayVariant) -> Option<Member> {
        self.members.get(&array.member).copied().or_else(|| known_member(&array.member))
    }

    fn scenario(&self, array: &ArrayVariant, case: &Case, layout: Layout) -> Scenario {
        let mut member = self.member(array).expect("checked before anything runs");
        let epoch = match &mut member {
            Member::Flash(chip) => {
                chip.cleaning = array.cleaning;
                chip.program_charge = array.program_charge;
                self.flash_epoch
            }
            Member::Disk(_) => self.disk_epoch,
        };
        let member_count = u32::from(layout.member_count());
        let workers = |count: u32| {
            let scaled = count.saturating_mul(member_count).div_ceil(4);
            if array.load_per_four_members { scaled } else { count }
        };
        let (readers, writers) = (workers(case.reader_count), workers(case.writer_count));
        let blocks = BYTES_PER_MEMBER * u64::from(member_count) / array.block_bytes.0.max(1);
        let mut load: Load = array.reading.load(readers, writers, case.delay);
        load.read_think_base = array.read_delay.unwrap_or(load.read_think_base);
        Scenario {
            block_bytes: u32::try_from(array.block_bytes.0).unwrap_or(0),
            block_count: u32::try_from(blocks).unwrap_or(0),
            replica_choice: array.replica_choice,
            write_placement: array.write_placement,
            coding: array.coding,
            epoch,
            epoch_count_max: self.epoch_count_max,
            ..Scenario::of_thesis(layout, member, load)
        }
    }

    fn check_part(&self, name: &str, array: &ArrayVariant, count: u8) -> Result<(), ArrayError> {
        if count < 2 {
            let what = format!("of `{name}` holds {count}; an array has 2 to 16");
            return Err(ArrayError::Value { name: "member_counts", what });
        }
        if self.member(array).is_none() {
            let own: Vec<&str> = self.members.keys().map(String::as_str).collect();
            let own = own.join(", ");
            let what = format!("of `{name}` is none of flash, disk, tlc, qlc {own}");
            return Err(ArrayError::Value { name: "member", what });
        }
        let layout = StandardLayout::Stripe.on(count)?;
        self.cases.values().try_for_each(|case| self.scenario(array, case, layout).check())
    }
}

/// The series of one case on one array: `results` in the order of `layouts`.
fn series_of(prefix: &str, layouts: &[Layout], results: &[Summary]) -> Vec<Series> {
    let x = f64::from(layouts[0].member_count());
    let point = |name: &str, unit: &str, value: f64| Series {
        points: vec![(x, value)],
        ..Series::new(format!("{prefix}.{name}"), "", unit)
    };
    let rates: Vec<f64> = results.iter().map(Summary::operations_per_second).collect();
    let mut series = Vec::new();
    for (&layout, &rate) in layouts.iter().zip(&rates) {
        series.extend(names(layout).iter().map(|name| point(name, "ops/s", rate)));
    }
    // Of equals the first, which takes the least space.
    let ranks = layouts.iter().zip(&rates);
    let best = ranks.rev().max_by(|left, right| left.1.total_cmp(right.1));
    let (&best, &best_rate) = best.expect("an array has at least one layout");
    let compared = COMPARED.iter().filter_map(|name| name.on(best.member_count()).ok());
    let compared = compared.filter_map(|layout| layouts.iter().position(|other| *other == layout));
    let (least, most) = compared.fold((f64::INFINITY, 0.0_f64), |(least, most), index| {
        (least.min(rates[index]), most.max(rates[index]))
    });
    let values = [best_rate, f64::from(best.needed_count()), best.redundancy(), most / least];
    series.extend(SUMS.iter().zip(values).map(|((name, unit), value)| point(name, unit, value)));
    series
}

impl Measurement for Dispersal {
    fn check(&self) -> Result<(), String> {
        if self.cases.is_empty() || self.parts().next().is_none() {
            return Err("`cases` and `arrays` need an entry each, with `member_counts`".into());
        }
        let says_more = |member: &&Member| {
            matches!(member, Member::Flash(chip)
                if chip.cleaning != Cleaning::default()
                    || chip.program_charge != ProgramCharge::default())
        };
        if self.members.values().any(|member| says_more(&member)) {
            return Err("`cleaning` and `program_charge` stand in an array, not in a member".into());
        }
        let check = |(name, array, count)| self.check_part(name, array, count);
        self.parts().try_for_each(check).map_err(|error| error.to_string())
    }

    fn series_names(&self) -> Vec<String> {
        let mut all = BTreeSet::new();
        for (array, variant, count) in self.parts() {
            for case in self.cases.keys() {
                let layouts = variant.layouts.layouts(count).into_iter().flat_map(names);
                let sums = SUMS.iter().map(|(name, _)| (*name).to_owned());
                all.extend(layouts.chain(sums).map(|name| format!("{array}.{case}.{name}")));
            }
        }
        all.into_iter().collect()
    }

    fn steps(&self) -> Vec<String> {
        self.parts().map(|(name, _, count)| format!("{name}, {count} members")).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, array, count) = self.parts().nth(index).expect("a step is an array");
        let layouts = array.layouts.layouts(count);
        let of_case = |case| layouts.iter().map(move |&layout| self.scenario(array, case, layout));
        let scenarios: Vec<Scenario> = self.cases.values().flat_map(of_case).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let results = run_all(&scenarios, bench.seed, threads)
            .map_err(|error| LabError::step(name, &error))?;
        let mut series = Vec::new();
        for (case, results) in self.cases.keys().zip(results.chunks(layouts.len())) {
            let prefix = format!("{name}.{case}");
            series.extend(series_of(&prefix, &layouts, results));
            for (layout, _) in layouts.iter().zip(results).filter(|(_, found)| !found.converged) {
                let epochs = self.epoch_count_max;
                let layout = layout.name();
                bench.notes.push(format!("{prefix}.{layout}: not steady in {epochs} epochs"));
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_their_standard_names_too() {
        assert_eq!(names(Layout::new(4, 3, 4).unwrap()), ["parity", "m3w4"]);
        assert_eq!(names(Layout::new(2, 1, 2).unwrap()), ["replication", "parity", "m1w2"]);
        assert_eq!(LayoutSet::Standard.layouts(2).len(), 3);
        assert_eq!(LayoutSet::All.layouts(16).len(), 136);
    }

    #[test]
    fn members_have_a_name_of_the_experiment_or_of_the_program() {
        let check = |member: &str, chip: &str| {
            let text = format!(
                "flash_epoch = '1s'\ndisk_epoch = '1s'\nepoch_count_max = 8\n\
                 [cases.c]\nreader_count = 1\nwriter_count = 1\ndelay = '1ms'\n\
                 [arrays.a]\nmember = '{member}'\nmember_counts = [4]\n\
                 [members.chip]\nkind = 'flash'\npage_bytes = 2048\nerase_block_page_count = 64\n\
                 live_page_count = 32\nread_ns = 20000\nprogram_ns = 200000\nerase_ns = 1500000\n{chip}"
            );
            toml::from_str::<Dispersal>(&text).unwrap().check()
        };
        assert_eq!(check("chip", ""), Ok(()));
        assert_eq!(check("tlc", ""), Ok(()));
        assert!(check("clip", "").unwrap_err().contains("chip"));
        assert!(check("chip", "cleaning = 'bursty'").unwrap_err().contains("in an array"));
    }

    #[test]
    fn of_equal_layouts_the_one_with_less_space_is_best() {
        let layouts = LayoutSet::All.layouts(2);
        let scenario = Scenario {
            epoch: Nanos::from_millis(2),
            ..Scenario::of_thesis(
                layouts[0],
                Member::thesis_chip(),
                Load { writer_count: 0, ..Load::mixed(DelayReading::Literal) },
            )
        };
        let result = scenario.run(1).unwrap();
        let series = series_of("a.b", &layouts, &[result; 3]);
        let value = |name: &str| series.iter().find(|one| one.name == name).unwrap().points[0];
        assert_eq!(value("a.b.best_redundancy"), (2.0, 1.0));
        assert_eq!(value("a.b.best_needed"), (2.0, 1.0));
        assert_eq!(value("a.b.spread"), (2.0, 1.0));
    }
}
