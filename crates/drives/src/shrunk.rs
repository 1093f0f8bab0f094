//! A drive that is N times smaller in every size and N times faster in every time: what is N times as
//! small then takes an Nth of the time on it, whatever is done. Rates stay.
//!
//! | of a disk | of flash |
//! | --- | --- |
//! | seeks, revolution, overheads: times / N | controller, chip: times / N |
//! | caches, read-ahead: bytes / N | buffers, chunks: bytes / N; dies / N |
//! | tracks follow from rate and revolution | if dies are too few: bytes of a flash page / the rest of N |
//!
//! Where requests are pages, which stay as large as they are, what a request costs stays as well: then
//! only what happens between long runs of requests is N times shorter. Flash pages stay, too; if dies are
//! too few, an erase block has fewer of them, and each takes as many times longer.
//!
//! 1. With N = 1 nothing changes.
//! 2. The rate of all channels together stays, too.
//! 3. The bytes that all dies program or read in a second stay.
//! 4. What is N times as small uses an Nth of the energy, in an Nth of the time: power stays. A command of a
//!    chip uses what it did, or as many times less as its flash page or erase block is smaller.

use crate::profile::{DriveConfig, Profile, ProfileError};
use nandu_base::Picojoules;
use nandu_nand::{ChipOverrides, ChipPreset, Energy, preset};
use toml::{Table, Value};

/// Sizes that stay: units that the chips or the layer cannot divide.
const FIXED_SIZES: [&str; 4] = ["flash_page_bytes", "spare_bytes", "unit_bytes", "sector_bytes"];

/// A sector fits into a flash page.
const LEAST_FLASH_PAGE_BYTES: u64 = 512;

/// What each request costs, wherever it goes.
const REQUEST_TIMES: [&str; 5] =
    ["read_overhead_ns", "write_overhead_ns", "read_command_ns", "write_command_ns", "pipeline_ns"];

/// `profile`, `over` times smaller and faster; with `keeps_request_times` each request costs as much as
/// before, besides.
///
/// # Errors
/// [`ProfileError::Indivisible`] if it has too few dies and flash pages that are too small, or
/// [`ProfileError::Invalid`] if another part cannot be so small.
pub fn shrunk(
    profile: &Profile,
    over: u32,
    keeps_request_times: bool,
) -> Result<Profile, ProfileError> {
    if over == 1 {
        return Ok(profile.clone());
    }
    let mut table: Table = profile.text.parse().expect("a loaded profile is TOML");
    let label = profile.kind().label();
    let section = table.get_mut(label).and_then(Value::as_table_mut).expect("it has its section");
    divide(section, i64::from(over), keeps_request_times);
    if let DriveConfig::Ssd(config) = &profile.drive {
        let chip = preset(&config.chip).expect("a loaded profile names a chip that there is");
        let [dies, channels, planes] = [
            config.dies_per_channel,
            config.channel_count,
            config.planes_per_die.unwrap_or(chip.planes_per_die),
        ];
        let mut left = over;
        let mut share = |count: u32| {
            let part = common_divisor(count, left);
            left /= part;
            (count / part, part)
        };
        let [dies, channels, planes] = [share(dies), share(channels), share(planes)];
        let mut set = |key: &str, value: u32| {
            section.insert(key.into(), Value::Integer(value.into()));
        };
        set("dies_per_channel", dies.0);
        set("channel_count", channels.0);
        set("planes_per_die", planes.0);
        // That of the whole drive's chips, whose times it follows from otherwise.
        let energy = config.nand_config(profile.geometry, false).map(|nand| nand.energy);
        let overrides = section.entry("chip_overrides").or_insert(Value::Table(Table::new()));
        let overrides = overrides.as_table_mut().expect("it was loaded as one");
        let per_channel = u64::from(channels.1);
        let rest = u64::from(left);
        shrink_chip(
            overrides,
            (chip, &config.chip_overrides),
            (u64::from(over), rest, per_channel),
            keeps_request_times,
        )
        .ok_or_else(|| ProfileError::Indivisible { name: profile.name.clone(), over })?;
        // What has no chips of its own is refused when it is opened.
        if let Ok(energy) = energy {
            let of_page = if keeps_request_times { 1 } else { rest };
            overrides.insert("energy".into(), Value::Table(energy_table(&energy, of_page, rest)));
        }
    }
    let capacity = profile.geometry.capacity().0 / u64::from(over) / 65_536 * 65_536;
    table.insert("capacity".into(), Value::String(format!("{capacity}B")));
    let text = toml::to_string(&table).expect("what was read can be written");
    let origin = format!("{} {over} times smaller", profile.origin);
    Profile::parse(&profile.name, &origin, &text)
}

/// The chip of a drive that is `over` times smaller, of which dies, channels and planes leave `rest` to it,
/// and each channel stands for `per_channel`. `None` if that is more than its flash pages can give.
fn shrink_chip(
    table: &mut Table,
    (chip, overrides): (&ChipPreset, &ChipOverrides),
    (over, rest, per_channel): (u64, u64, u64),
    keeps_flash_pages: bool,
) -> Option<()> {
    let timing = &chip.timing;
    let mut set = |key: &str, value: u64| {
        table.insert(key.into(), Value::Integer(value.cast_signed()));
    };
    let page_over = if keeps_flash_pages { over / rest } else { over };
    let page_times = [
        ("read_ns", overrides.read_ns.unwrap_or(timing.read_ns)),
        ("program_ns", overrides.program_ns.unwrap_or(timing.program_ns)),
        ("command_ns", overrides.command_ns.unwrap_or(timing.command_ns)),
    ];
    // Where page types have times of their own, their mean is the program time, and a time for all
    // pages is not set beside them.
    let has_types = overrides.program_type_ns.is_some();
    for (key, time) in page_times.into_iter().filter(|(key, _)| !has_types || *key != "program_ns")
    {
        set(key, (time.0 + page_over / 2) / page_over);
    }
    set("erase_ns", (overrides.erase_ns.unwrap_or(timing.erase_ns).0 + over / 2) / over);
    let bus = overrides.bus_bytes_per_second.unwrap_or(timing.bus_bytes_per_second);
    set("bus_bytes_per_second", bus * per_channel);
    if rest == 1 {
        return Some(());
    }
    let pages = overrides.flash_pages_per_erase_block.unwrap_or(chip.flash_pages_per_erase_block);
    let bytes = overrides.flash_page_bytes.unwrap_or(chip.flash_page_bytes);
    let spare = overrides.spare_bytes.unwrap_or(chip.spare_bytes);
    let is_divisible = |count: u32, least: u64| {
        let count = u64::from(count);
        count.is_multiple_of(rest) && count / rest >= least
    };
    if keeps_flash_pages {
        set("flash_pages_per_erase_block", u64::from(pages) / rest);
        return (!has_types && is_divisible(pages, 1)).then_some(());
    }
    set("flash_page_bytes", u64::from(bytes) / rest);
    set("spare_bytes", (u64::from(spare) / rest).max(1));
    is_divisible(bytes, LEAST_FLASH_PAGE_BYTES).then_some(())
}

/// Energy of the commands of a chip whose flash pages and erase blocks are so many times smaller.
fn energy_table(energy: &Energy, page_over: u64, erase_block_over: u64) -> Table {
    let share = |energy: Picojoules, over: u64| {
        let share = (energy.0 + u128::from(over / 2)) / u128::from(over);
        // A profile's figures are far below that, and so are those of chips.
        Value::Integer(i64::try_from(share).unwrap_or(i64::MAX))
    };
    let figures = [
        ("read_picojoules", share(energy.read_picojoules, page_over)),
        ("program_picojoules", share(energy.program_picojoules, page_over)),
        ("erase_picojoules", share(energy.erase_picojoules, erase_block_over)),
        ("transfer_picojoules_per_byte", share(energy.transfer_picojoules_per_byte, 1)),
    ];
    figures.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Divides times and sizes, and with the size of a line its energy.
fn divide(table: &mut Table, over: i64, keeps_request_times: bool) {
    for (key, value) in table.iter_mut() {
        match value {
            Value::Table(inner) => divide(inner, over, keeps_request_times),
            Value::Array(values) => {
                for value in values {
                    match value {
                        Value::Table(inner) => divide(inner, over, keeps_request_times),
                        Value::Integer(figure) if key.ends_with("_ns") => {
                            *figure = (*figure + over / 2) / over;
                        }
                        _ => {}
                    }
                }
            }
            Value::Integer(figure) => {
                let is_size = key.ends_with("_bytes") && !FIXED_SIZES.contains(&key.as_str());
                let is_kept = keeps_request_times && REQUEST_TIMES.contains(&key.as_str());
                let is_size = is_size || key.ends_with("_line_picojoules");
                if is_size || key.ends_with("_ns") && !is_kept {
                    *figure = (*figure + over / 2) / over;
                }
            }
            _ => {}
        }
    }
}

const fn common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SimOptions;
    use nandu_base::{ByteCount, Nanos};
    use nandu_device::Request;
    use nandu_device::testing::run;

    /// The time of some requests, all as many times smaller.
    fn time(profile: &Profile, over: u32) -> f64 {
        let capacity =
            Some(ByteCount(profile.geometry.capacity().0.min((8 << 30) / u64::from(over))));
        let options = SimOptions { capacity, seed: 1, keep_data: false };
        let mut device = profile.open(options).unwrap();
        let sectors = 65_536 / over;
        let mut now = Nanos::ZERO;
        for at in [0_u64, 1, 2, 40, 3, 41, 4, 42] {
            let first = at * u64::from(sectors);
            for request in [Request::write, Request::read] {
                device.submit(now, request(at, first, sectors, None)).unwrap();
                now = device.next_completion(Nanos::MAX).unwrap().completed_at;
            }
        }
        now.as_seconds_f64() * f64::from(over)
    }

    #[test]
    fn requests_that_are_as_many_times_smaller_take_as_many_times_less() {
        for name in ["ocz-core", "toshiba-320", "nvme-tlc-2024"] {
            let profile = Profile::load(name).unwrap();
            let whole = time(&profile, 1);
            for over in [4, 16, 32] {
                let small = time(&shrunk(&profile, over, false).unwrap(), over);
                let ratio = small / whole;
                assert!((0.85..1.15).contains(&ratio), "{name} / {over}: {small} s, {whole} s");
            }
        }
    }

    #[test]
    fn work_that_is_as_many_times_smaller_uses_as_many_times_less_energy() {
        // Chips added apart; dies alone shrink, then flash pages, too; and a disk.
        for (name, chips_apart) in
            [("nvme-tlc-2024", true), ("device-a", true), ("wd800aajs", false)]
        {
            let profile = Profile::load(name).unwrap();
            let apart = profile.text.replace("includes_chips = true", "includes_chips = false");
            let profile = Profile::parse(name, name, &apart).unwrap();
            let joules = |profile: &Profile, over: u32| {
                let capacity = Some(ByteCount((1 << 30) / u64::from(over)));
                let mut device =
                    profile.open(SimOptions { capacity, seed: 1, keep_data: false }).unwrap();
                let sectors = (1 << 20) / 512 / over;
                for id in 0..64 {
                    let first = id * 37 % 64 * u64::from(sectors);
                    for request in [Request::write, Request::read] {
                        run(&mut *device, request(id, first, sectors, None));
                    }
                }
                run(&mut *device, Request::flush(99));
                let used = device.counters().energy.unwrap();
                let chips = used.cells + used.erase + used.transfer;
                let counted = if chips_apart { chips } else { used.total() };
                counted.0 as f64 / 1e12 * f64::from(over)
            };
            let whole = joules(&profile, 1);
            for over in [4, 16] {
                let small = joules(&shrunk(&profile, over, false).unwrap(), over);
                let ratio = small / whole;
                assert!((0.85..1.15).contains(&ratio), "{name} / {over}: {small} J, {whole} J");
            }
        }
    }

    #[test]
    fn times_by_type_of_flash_page_are_divided_like_the_others() {
        let profile = Profile::load("nvme-tlc-2024").unwrap();
        let mut table: Table = profile.text.parse().unwrap();
        let section = table["ssd"].as_table_mut().unwrap();
        let overrides = section.entry("chip_overrides").or_insert(Value::Table(Table::new()));
        let types = vec![Value::Integer(400_000), Value::Integer(800_000)];
        overrides.as_table_mut().unwrap().insert("program_type_ns".into(), Value::Array(types));
        let profile = Profile::parse("typed", "typed", &toml::to_string(&table).unwrap()).unwrap();
        let small = shrunk(&profile, 4, false).unwrap();
        let DriveConfig::Ssd(config) = &small.drive else { panic!("it is an SSD") };
        let types = config.chip_overrides.program_type_ns.unwrap();
        assert_eq!(types.times(), [Nanos(100_000), Nanos(200_000)]);
        small.open(SimOptions { capacity: None, seed: 1, keep_data: false }).unwrap();
    }

    #[test]
    fn a_drive_with_too_few_dies_has_smaller_flash_pages_or_says_so() {
        let profile = Profile::load("device-a").unwrap();
        assert!(shrunk(&profile, 16, false).is_ok());
        assert!(shrunk(&profile, 32, false).unwrap_err().to_string().contains("too few dies"));
    }

    #[test]
    fn where_flash_pages_stay_an_erase_block_has_fewer() {
        let small = shrunk(&Profile::load("ocz-core").unwrap(), 64, true).unwrap();
        let DriveConfig::Ssd(config) = &small.drive else { panic!("it is an SSD") };
        let chip = &config.chip_overrides;
        assert_eq!(
            (chip.flash_page_bytes, chip.flash_pages_per_erase_block),
            (Some(4096), Some(16))
        );
        assert_eq!(chip.program_ns, Some(Nanos(50_000)), "a die in place of sixteen");
    }
}
