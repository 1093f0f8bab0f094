//! How long drives last: which parts of them wear, how often each stands it, and what was worn between two
//! readings.
//!
//! ```text
//!   ssd     erase blocks   erased, or as many as were programmed if that is more
//!   scm     lines          written
//!   hdd     nothing
//!   array   the parts of all members that wear, if they are alike
//! ```
//!
//! 1. Wear is taken to be levelled: over the parts of a drive, and over the members of an array.
//! 2. Each flash page that is programmed is erased some day, so erase blocks that were programmed count.
//! 3. What no profile says is unknown, and never a figure.

use crate::profile::{DriveConfig, Profile};
use nandu_base::{ByteCount, FlashOperation};
use nandu_device::{Counters, Geometry};
use nandu_nand::NandConfig;

/// What of a drive wears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endurance {
    /// Nothing does, by work.
    Unworn,
    /// So much of it, so often.
    Worn(WornParts),
    /// Nobody says.
    Unknown,
}

/// Parts of a drive that wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WornParts {
    /// What wears, and how it is counted.
    pub kind: PartKind,
    /// How many there are.
    pub count: u64,
    /// How often each stands it, at least once.
    pub cycles: u64,
}

/// What of a drive wears, and how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Erase blocks of flash.
    EraseBlock {
        /// Flash pages of one.
        flash_page_count: u32,
    },
    /// Lines of storage-class memory.
    Line {
        /// Bytes of one.
        byte_count: u32,
    },
}

/// The chips of a drive of `capacity`, or of each member of an array of that; none where there are none, or
/// nobody knows.
#[must_use]
pub fn chips(profile: &Profile, capacity: ByteCount) -> Vec<NandConfig> {
    let sector_bytes = profile.geometry.sector_bytes;
    let geometry =
        Geometry { sector_bytes, sector_count: capacity.0 / u64::from(sector_bytes.max(1)) };
    match &profile.drive {
        DriveConfig::Ssd(ssd) => ssd.nand_config(geometry, false).into_iter().collect(),
        DriveConfig::Array(array) => {
            let Ok(capacity) = array.member_capacity(geometry) else { return Vec::new() };
            let members = members(profile).unwrap_or_default();
            members.iter().flat_map(|member| chips(member, capacity)).collect()
        }
        DriveConfig::Hdd(_) | DriveConfig::Scm(_) => Vec::new(),
    }
}

/// The members of an array, one after the other; none of any other drive, or where one is unknown.
fn members(profile: &Profile) -> Option<Vec<Profile>> {
    let DriveConfig::Array(array) = &profile.drive else { return None };
    let names = array.member_names().ok()?;
    names.into_iter().map(|name| Profile::load(name).ok()).collect()
}

impl Endurance {
    /// Of a whole drive, or of an array of whole drives.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        match &profile.drive {
            DriveConfig::Hdd(_) => Self::Unworn,
            DriveConfig::Ssd(_) => match chips(profile, profile.geometry.capacity()).first() {
                Some(nand) => Self::of_chips(nand),
                None => Self::Unknown,
            },
            DriveConfig::Scm(scm) => match scm.endurance_writes {
                None => Self::Unworn,
                Some(cycles) => {
                    let line_bytes = u64::from(scm.line_bytes);
                    Self::Worn(WornParts {
                        kind: PartKind::Line { byte_count: scm.line_bytes },
                        count: profile.geometry.capacity().0 / line_bytes,
                        cycles,
                    })
                }
            },
            DriveConfig::Array(_) => match members(profile) {
                None => Self::Unknown,
                Some(members) => members.iter().map(Self::of).fold(Self::Unworn, Self::with),
            },
        }
    }

    fn of_chips(nand: &NandConfig) -> Self {
        let cycles = u64::from(nand.rules.endurance);
        if cycles == 0 {
            return Self::Unknown;
        }
        let flash_page_count = nand.geometry.flash_pages_per_erase_block;
        Self::Worn(WornParts {
            kind: PartKind::EraseBlock { flash_page_count },
            count: u64::from(nand.geometry.erase_block_count()),
            cycles,
        })
    }

    /// Both as one drive.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Unworn, other) => other,
            (this, Self::Unworn) => this,
            (Self::Worn(one), Self::Worn(other)) => {
                if (one.kind, one.cycles) == (other.kind, other.cycles) {
                    Self::Worn(WornParts { count: one.count + other.count, ..one })
                } else {
                    Self::Unknown
                }
            }
        }
    }

    /// Parts that were worn between two readings of such a drive; `None` where nothing wears, or nobody knows.
    #[must_use]
    pub fn worn_between(&self, before: &Counters, after: &Counters) -> Option<f64> {
        let Self::Worn(parts) = self else { return None };
        match parts.kind {
            PartKind::EraseBlock { flash_page_count } => {
                let (before, after) = (before.flash?, after.flash?);
                let commands = after.commands.since(&before.commands);
                let erased = commands.total(FlashOperation::Erase) as f64;
                Some(erased.max(commands.programmed_pages() as f64 / f64::from(flash_page_count)))
            }
            PartKind::Line { .. } => {
                Some(after.lines?.write_count.saturating_sub(before.lines?.write_count) as f64)
            }
        }
    }

    /// How many parts can be worn in all, once each time; `None` where nothing wears, or nobody knows.
    #[must_use]
    pub fn worn_in_all(&self) -> Option<f64> {
        let Self::Worn(parts) = self else { return None };
        Some(parts.count as f64 * parts.cycles as f64)
    }

    /// Whether it is known, be it that nothing wears.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SimOptions;
    use nandu_device::Request;
    use nandu_device::testing::run;

    fn of(name: &str) -> Endurance {
        Endurance::of(&Profile::load(name).unwrap())
    }

    #[test]
    fn an_array_stands_what_its_members_stand_that_wear() {
        let Endurance::Worn(one) = of("ocz-core") else { panic!("it is flash") };
        let all = |name: &str| of(name).worn_in_all();
        assert_eq!(
            of("array:stripe:sim:ocz-core*4"),
            Endurance::Worn(WornParts { count: 4 * one.count, ..one })
        );
        assert_eq!(all("array:stripe:sim:ocz-core+sim:toshiba-320"), all("ocz-core"));
        assert_eq!(of("array:stripe:sim:toshiba-320*2"), Endurance::Unworn);
        assert_eq!(of("toshiba-320"), Endurance::Unworn);
        assert_eq!(
            of("array:stripe:sim:ocz-core+sim:pcm"),
            Endurance::Unknown,
            "two of a kind each"
        );
        assert_eq!(of("array:stripe:sim:ocz-core+sim:nvme-tlc-2024"), Endurance::Unknown);
        assert_eq!(of("dram-like"), Endurance::Unworn);
    }

    #[test]
    fn lines_are_worn_by_writes_and_stand_as_many_as_the_profile_says() {
        let Endurance::Worn(parts) = of("pcm") else { panic!("it has a figure") };
        assert_eq!(parts.kind, PartKind::Line { byte_count: 64 });
        assert_eq!(parts.count, (8 << 30) / 64);
        let all = parts.count as f64 * parts.cycles as f64;
        assert_eq!(of("pcm").worn_in_all(), Some(all));
        for (name, lines) in [("pcm", 64), ("array:replication:sim:pcm*2", 2 * 72)] {
            let profile = Profile::load(name).unwrap();
            let mut drive =
                profile.open(SimOptions { keep_data: false, ..SimOptions::default() }).unwrap();
            let before = drive.counters();
            run(drive.as_mut(), Request::write(1, 0, 8, None)).result.unwrap();
            run(drive.as_mut(), Request::read(2, 0, 8, None)).result.unwrap();
            let worn = Endurance::of(&profile).worn_between(&before, &drive.counters()).unwrap();
            // A mirror writes a slot of each member: what is asked for, and a sector of its own beside it.
            assert!((lines as f64..=2.0 * 64.0 * 17.0).contains(&worn), "{name}: {worn}");
        }
    }

    #[test]
    fn an_array_of_flash_wears_as_its_members_do() {
        let worn_of = |name: &str, capacity: ByteCount, count: u64| {
            let profile = Profile::load(name).unwrap();
            let capacity = Some(capacity);
            let options = SimOptions { capacity, keep_data: false, ..SimOptions::default() };
            let mut drive = profile.open(options).unwrap();
            let before = drive.counters();
            for number in 0..count {
                let request = Request::write(number, number * 128, 128, None);
                run(drive.as_mut(), request).result.unwrap();
            }
            let endurance = Endurance::of(&profile);
            let after = drive.counters();
            assert_eq!(endurance.worn_between(&after, &after), Some(0.0));
            endurance.worn_between(&before, &after).unwrap()
        };
        // Of 200 fragments each of two members writes 100, and a sector more before each, which shifts them.
        let both = worn_of("array:stripe:sim:device-a*2", ByteCount::mib(32), 200);
        let one = worn_of("device-a", ByteCount::mib(16), 100);
        assert!(one > 0.0 && both >= 2.0 * one, "{both} erase blocks for {one}");
        assert_eq!(
            chips(&Profile::load("array:stripe:sim:device-a*2").unwrap(), ByteCount::mib(32)).len(),
            2
        );
    }
}
