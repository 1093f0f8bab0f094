//! What a process can tell about itself: bytes read and written, sizes of files, what an fsync
//! costs at the moment, percentiles.

use crate::Failure;
use crate::limit::files_below;
use nandu_base::to_index;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that went to and came from the device for this process and all its threads.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) read_bytes: f64,
    pub(crate) written_bytes: f64,
}

impl Traffic {
    /// So far. A written page counts when it becomes dirty, and not if it was dropped unwritten.
    ///
    /// # Errors
    /// If the kernel does not count.
    pub(crate) fn so_far() -> Result<Self, Failure> {
        Self::told_by("/proc/self/io")
    }

    fn told_by(account: &str) -> Result<Self, Failure> {
        let text = fs::read_to_string(account)
            .map_err(|error| Failure::Run(format!("{account}: {error}")))?;
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")?.parse::<f64>().ok())
                .ok_or_else(|| Failure::Run(format!("{account} has no {key}")))
        };
        let written_bytes = value("write_bytes")? - value("cancelled_write_bytes")?;
        Ok(Self { read_bytes: value("read_bytes")?, written_bytes })
    }

    /// What was read and written since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
        }
    }
}

/// The most main memory that this process has had so far, in MiB; pages of mapped files count.
///
/// # Errors
/// If the kernel does not tell.
pub(crate) fn memory_peak_mib() -> Result<f64, Failure> {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    text.lines()
        .find_map(|line| {
            line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .map(|kib: f64| kib / 1024.0)
        .ok_or_else(|| Failure::Run("/proc/self/status has no VmHWM".into()))
}

/// What the files below `directory` take on the disk, in bytes.
///
/// # Errors
/// If one cannot be asked.
pub(crate) fn disk_bytes(directory: &Path) -> Result<f64, Failure> {
    const STAT_BLOCK_BYTES: f64 = 512.0;
    let mut blocks = 0;
    for path in files_below(directory)? {
        let metadata = fs::metadata(&path)
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
        blocks += metadata.blocks();
    }
    Ok(as_float(blocks) * STAT_BLOCK_BYTES)
}

/// The time of 200 appends of 10.8 KB (100 records), each followed by fdatasync: what a durable
/// commit costs on this disk at this moment before an engine does anything.
///
/// # Errors
/// If the probe's file cannot be written.
pub(crate) fn fsync_probe(directory: &Path) -> Result<Vec<f64>, Failure> {
    const APPEND_COUNT: usize = 200;
    const APPEND_BYTES: usize = 10_800;
    let path = directory.join("fsync-probe");
    let fail = |error: std::io::Error| Failure::Run(format!("{}: {error}", path.display()));
    let mut file = File::create(&path).map_err(fail)?;
    let mut times = Vec::with_capacity(APPEND_COUNT);
    for number in 0..APPEND_COUNT {
        let bytes = [number.to_le_bytes()[0]; APPEND_BYTES];
        let started = Instant::now();
        file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(fail)?;
        times.push(micros(started.elapsed()));
    }
    fs::remove_file(&path).map_err(fail)?;
    Ok(times)
}

/// The duration in microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A count as a float of a report.
pub(crate) fn as_float(count: u64) -> f64 {
    // Counts and bytes of a run stay far below 2^53.
    #[allow(clippy::cast_precision_loss, reason = "exact below 2^53")]
    let float = count as f64;
    float
}

/// The value that `percent` of the values do not exceed; sorts them.
pub(crate) fn percentile(values: &mut [f64], percent: u64) -> f64 {
    assert!(!values.is_empty(), "no values");
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as u64 * percent).div_ceil(100).max(1) - 1;
    values[to_index(rank)]
}

/// The arithmetic mean of the values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / as_float(values.len() as u64)
}

/// Median, least and most.
pub(crate) fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    [f64::midpoint(values[(count - 1) / 2], values[count / 2]), values[0], values[count - 1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_count_a_synced_file_and_its_size_is_what_it_takes() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        // Tests that run at the same time write, and drop what they wrote, for the same process: of this
        // thread alone the account is exact.
        let so_far = || Traffic::told_by("/proc/thread-self/io").unwrap();
        let before = so_far();
        let mut file = File::create(directory.path().join("file")).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let written = so_far().since(before).written_bytes;
        assert!((1_048_576.0..1_100_000.0).contains(&written), "{written}");
        assert!(Traffic::so_far().is_ok(), "the kernel counts for all of them, too");
        let size = disk_bytes(directory.path()).unwrap();
        assert!((1_048_576.0..1_100_000.0).contains(&size), "{size}");
    }

    #[test]
    fn percentiles_are_values_and_the_median_of_an_even_count_lies_between() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50).to_bits(), 100f64.to_bits());
        assert_eq!(percentile(&mut values, 99).to_bits(), 198f64.to_bits());
        assert_eq!(percentile(&mut [5.0], 99).to_bits(), 5f64.to_bits());
        let middle = spread(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!(middle.map(f64::to_bits), [2.5, 1.0, 4.0].map(f64::to_bits));
    }
}
