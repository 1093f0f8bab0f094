//! What a log costs by closed forms, which know neither the engine nor a drive: figures in, figures out. Group
//! commit: `DeWitt` et al., SIGMOD 1984.
//!
//! 1. Times are in microseconds, rates in 1/s.

use nandu_drives::worth::YEAR_SECONDS;

/// A commit of one client, written directly and each part waited for by itself: the lines of the record and a
/// fence, the line of the commit and a fence.
pub(super) fn direct_us(record_lines: f64, line_us: f64, fence_us: f64) -> f64 {
    (fence_us + record_lines * line_us) + (fence_us + line_us)
}

/// Commits of so many clients that never think, where one flush is on its way at a time: who comes meanwhile
/// waits for half of it in the mean, and then for the next.
pub(super) fn group_rate(clients: f64, sync_us: f64) -> f64 {
    clients / (1.5 * sync_us) * 1e6
}

/// How long a log of so many bytes lives whose lines are written in turn, at so many bytes in a second.
pub(super) fn life_years(log_bytes: f64, bytes_per_second: f64, endurance_writes: f64) -> f64 {
    endurance_writes * log_bytes / bytes_per_second / YEAR_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64, share: f64) {
        assert!((found / expected - 1.0).abs() < share, "{found} is not about {expected}");
    }

    #[test]
    fn the_forms_give_the_figures_that_they_are_known_by() {
        // A record of 200 bytes is four lines of 64, at 1 us each: 5 us with its commit.
        is_near(direct_us(4.0, 1.0, 0.0), 5.0, 1e-9);
        is_near(1e6 / direct_us(4.0, 1.0, 0.0), 200_000.0, 1e-9);
        // 1 GB at 100 MB/s and 1e8 writes of a line: 31.7 years; 64 MB: 2 years.
        is_near(life_years(1e9, 100e6, 1e8), 31.7, 0.01);
        is_near(life_years(64e6, 100e6, 1e8), 2.0, 0.02);
        is_near(group_rate(3.0, 2.0), 1e6, 1e-9);
    }
}
