//! What the figures of a profile may be at most. Which bound a figure has follows from its unit, in which its
//! name ends; what drives themselves ask of their figures comes on top of that.
//!
//! Bounds are far above any device. They keep sums of times within 64 bits, memory within what a
//! simulation may ask for, and a mistyped figure from becoming a strange result.
//!
//! 1. Every whole number of a drive's section has a bound, also one inside a list or a table.

use toml::{Table, Value};

/// Of figures whose names end in this, the most that they may be; the first that fits holds.
const BOUNDS: [(&str, u64); 22] = [
    ("_bytes_per_second", 1_000_000_000_000_000),
    // A day: a rest after which a drive saves power.
    ("standby_after_ns", 86_400_000_000_000),
    ("after_idle_ns", 86_400_000_000_000),
    // A minute: the slowest erase takes a fraction of a second.
    ("_ns", 60_000_000_000),
    ("_ppm", 10_000_000),
    ("_percent", 1000),
    // Ten kilowatts, more than a shelf of disks.
    ("milliwatts", 10_000_000),
    ("millivolts", 1_000_000),
    ("microamperes", 1_000_000_000_000),
    // A joule: no command and no line takes as much.
    ("_picojoules", 1_000_000_000_000),
    ("_picojoules_per_byte", 1_000_000_000),
    ("page_bytes", 1 << 24),
    ("unit_bytes", 1 << 24),
    ("spare_bytes", 1 << 24),
    ("_bytes", 1 << 36),
    ("queue_depth", 65_536),
    ("write_depth", 65_536),
    ("channel_count", 1024),
    ("dies_per_channel", 1024),
    ("planes_per_die", 32),
    ("_rows", 1 << 40),
    ("_seed", i64::MAX.cast_unsigned()),
];
/// Of all others: counts, for the most part.
const BOUND: u64 = 1 << 32;

/// Checks invariant 1 for a drive's section.
///
/// # Errors
/// The first figure that is too large; its key comes first, in backticks.
pub(super) fn check(section: &Table) -> Result<(), String> {
    section.iter().try_for_each(|(key, value)| check_value(key, value))
}

fn check_value(key: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Table(table) => check(table),
        Value::Array(values) => values.iter().try_for_each(|value| check_value(key, value)),
        Value::Integer(number) => {
            let found = BOUNDS.iter().find(|(unit, _)| key.ends_with(unit));
            let most = found.map_or(BOUND, |&(_, most)| most);
            // What is negative was refused by its type.
            match u64::try_from(*number) {
                Ok(number) if number > most => {
                    Err(format!("`{key}` is {number}, must be at most {most}"))
                }
                _ => Ok(()),
            }
        }
        Value::String(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_bounded_by_the_unit_in_their_names_wherever_they_stand() {
        for (text, said) in [
            (
                "write_command_ns = 60000000001",
                "`write_command_ns` is 60000000001, must be at most",
            ),
            ("[chip_overrides]\nread_ns = 5000000000000000000", "`read_ns` is 5000000000000000000"),
            ("program_type_ns = [1, 70000000000]", "`program_type_ns` is 70000000000"),
            ("over_provisioning_ppm = 999999999", "at most 10000000"),
            ("link_bytes_per_second = 1000000000000001", "at most 1000000000000000"),
            ("endurance = 9000000000", "at most 4294967296"),
            ("[power]\nread_line_picojoules = 1000000000001", "`read_line_picojoules` is"),
            (
                "[chip_overrides.energy]\nerase_picojoules = 1000000000000000",
                "`erase_picojoules` is",
            ),
            ("[[power.states]]\nmilliwatts = 1000000000", "`milliwatts` is 1000000000, must be at"),
        ] {
            let refused = check(&text.parse().unwrap()).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
        check(&"a_ns = 60000000000\nb_bytes = 68719476736\nkind = 'x'".parse().unwrap()).unwrap();
    }
}
