//! Settings that nobody vouches for, as `nandu sim --set` takes them: a drive or an error, no panic, and no
//! more memory than a simulation may ask for.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu_base::Rng;
use nandu_ftl::FtlKind;
use nandu_sim::{DriveChoice, SimError};

/// What is set to what.
const KEYS: [&str; 22] = [
    "ssd.over_provisioning_ppm",
    "ssd.channel_count",
    "ssd.dies_per_channel",
    "ssd.planes_per_die",
    "ssd.physical_erase_blocks",
    "ssd.ftl.unit_bytes",
    "ssd.ftl.chunk_bytes",
    "ssd.ftl.stream_count",
    "ssd.ftl.reserve_count",
    "ssd.ftl.cached_entry_count",
    "ssd.ftl.log_block_count",
    "ssd.ftl.victim_window_ppm",
    "ssd.native_queue_depth",
    "ssd.write_command_ns",
    "ssd.write_buffer_bytes",
    "ssd.open_unit_count",
    "ssd.chip_overrides.flash_page_bytes",
    "ssd.chip_overrides.flash_pages_per_erase_block",
    "ssd.chip_overrides.factory_bad_ppm",
    "ssd.chip_overrides.program_ns",
    "capacity",
    "sector_bytes",
];
const VALUES: [&str; 16] = [
    "0",
    "1",
    "-1",
    "3",
    "512",
    "4096",
    "999999",
    "999999999",
    "4294967295",
    "4294967296",
    "5000000000000000000",
    "9223372036854775807",
    "1PiB",
    "1e9",
    "[]",
    "true",
];
/// Drives of so many flash pages are built, larger ones only described.
const BUILT_PAGES_MAX: u64 = 1 << 16;

fn choice(name: &str, ftl: Option<&str>, settings: &[(&str, &str)]) -> DriveChoice {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    DriveChoice {
        name: name.to_owned(),
        ftl: ftl.map(str::to_owned),
        settings: settings.collect(),
        ..DriveChoice::default()
    }
}

fn try_out(choice: &DriveChoice) -> Result<(), SimError> {
    let setup = choice.resolve(false)?;
    if setup.nand.geometry.flash_page_count() <= BUILT_PAGES_MAX {
        setup.build(1)?;
    }
    Ok(())
}

#[test]
fn settings_of_any_value_are_a_drive_or_an_error() {
    let kinds = FtlKind::ALL.iter().map(|kind| Some(kind.name()));
    let layers: Vec<Option<&str>> = std::iter::once(None).chain(kinds).collect();
    let mut rng = Rng::new(22);
    let pick = |count: usize, rng: &mut Rng| nandu_base::to_index(rng.below(count as u64));
    let (mut drive_count, mut error_count) = (0, 0);
    for name in ["myers_slc", "device-a", "nvme-tlc-2024"] {
        for key in KEYS {
            for value in VALUES {
                let mut settings = vec![(key, value)];
                for _ in 0..rng.below(3) {
                    settings.push((
                        KEYS[pick(KEYS.len(), &mut rng)],
                        VALUES[pick(VALUES.len(), &mut rng)],
                    ));
                }
                let ftl = layers[pick(layers.len(), &mut rng)];
                match try_out(&choice(name, ftl, &settings)) {
                    Ok(()) => drive_count += 1,
                    Err(_) => error_count += 1,
                }
            }
        }
    }
    assert!(drive_count > 30 && error_count > 300, "{drive_count} drives, {error_count} errors");
}

#[test]
fn a_setting_without_sense_is_named() {
    for (name, key, value, said) in [
        ("myers_slc", "ssd.over_provisioning_ppm", "999999999", "must be at most 10000000"),
        ("device-a", "ssd.over_provisioning_ppm", "999999999", "must be at most 10000000"),
        ("nvme-tlc-2024", "ssd.ftl.unit_bytes", "0", "unit_bytes is 0, must be from 512 to"),
        ("device-a", "ssd.write_command_ns", "5000000000000000000", "must be at most 60000000000"),
        ("nvme-tlc-2024", "capacity", "900TiB", "more than 2147483648 mapping units"),
    ] {
        let error = try_out(&choice(name, None, &[(key, value)])).unwrap_err().to_string();
        assert!(error.contains(said), "{name} {key}: {error}");
    }
}

#[test]
fn of_several_settings_the_one_without_sense_is_named() {
    let capacity = ("capacity", "64MiB");
    for (ftl, key, value) in [
        (None, "channel_count", "9223372036854775808"),
        (None, "read_command_ns", "x"),
        (None, "read_command_ns", "nan"),
        (Some("page"), "ftl.victim_choices", "18446744073709551616"),
        (Some("page"), "ftl.victim_choices", "nan"),
    ] {
        let wrong = choice("nvme-tlc-2024", ftl, &[capacity, (key, value)]);
        let error = try_out(&wrong).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{key}={value}: ")), "{error}");
    }
}
