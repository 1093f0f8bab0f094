//! The machine that ran an experiment, as Linux tells it, and dates without a clock.

use serde::{Deserialize, Serialize};
use std::fs;
use std::thread::available_parallelism;

/// The commit that this program was built from.
pub const COMMIT: &str = env!("NANDU_COMMIT");

/// The machine that an experiment ran on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// How many threads it runs at once.
    pub thread_count: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// The distribution of the operating system, as /etc/os-release has it.
    pub system: String,
}

impl Machine {
    /// This machine; what cannot be found out stays "unknown".
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str, separator: char| {
            let line = text.lines().find(|line| line.starts_with(key));
            let value = line.and_then(|line| line.split_once(separator));
            value.map(|(_, value)| value.trim().trim_matches('"').to_owned())
        };
        let unknown = || "unknown".to_owned();
        let kibibytes = value(&read("/proc/meminfo"), "MemTotal", ':')
            .and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok());
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(unknown),
            thread_count: available_parallelism().map_or(1, Into::into),
            memory_bytes: kibibytes.unwrap_or(0) * 1024,
            kernel: if kernel.is_empty() { unknown() } else { kernel },
            system: value(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(unknown),
        }
    }
}

/// `2026-11-21 05:03 UTC` of seconds since 1970 (Hinnant's civil-from-days).
#[must_use]
pub fn date_text(unix_seconds: i64) -> String {
    let (days, second) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        assert_eq!(date_text(0), "1970-01-01 00:00 UTC");
        assert_eq!(date_text(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date_text(1_795_237_439), "2026-11-21 05:03 UTC");
    }

    #[test]
    fn this_machine_has_a_kernel() {
        let machine = Machine::here();
        assert!(machine.thread_count >= 1);
        assert!(!machine.kernel.is_empty());
    }
}
