//! Jobs of `compare-fio --file-system`: the same requests to a file past the kernel's page cache and
//! through it, the cache empty or full of the file, each write synced or not (S004 section 4).
//!
//! 1. Before each run the file is on the medium; none of its pages is in memory, or all are. Where none
//!    is, all have been: the memory that they take next is as near for each run.
//! 2. A job that begins with an empty cache reads no block twice: it ends with the file, if its time has
//!    not passed before.
//! 3. What misses the target is told first.

use super::{Job, Pair, job, spread};
use std::fs::File;
use std::io;

/// How far from fio's requests ours may be.
const TARGET: f64 = 0.05;
/// A block of requests in order: what S004's kernel read ahead.
const BLOCK_IN_ORDER: u32 = 64 << 10;

/// The way of requests, and what they find on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Past the page cache.
    Direct,
    /// Through it, and it holds nothing of the file.
    Cold,
    /// Through it, and it holds the whole file.
    Hot,
}

/// What stands above the table.
pub(super) const HEAD: &str = "# nandu probe and fio in a file system\n\n\
    Median of the pairs, least and most in brackets. A pair is two runs of each, in turn ABBA and\n\
    BAAB, behind a run that does not count. A ratio is nandu's figure over fio's; more requests and\n\
    less processor time are better. direct: past the page cache; cold: through it, nothing of the\n\
    file in it, each block once; hot: the whole file in it. Synced: fdatasync after each write;\n\
    otherwise no flush counts. fio gives the kernel no hints (fadvise_hint=0). fio's processor time\n\
    leaves out workers of the kernel, which write where io_uring goes through the page cache. The\n\
    machine and the command stand in meta.json.\n\n";

/// All jobs, engine by engine.
pub(super) fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for engine in ["psync", "io_uring"] {
        for (random, in_order) in [("randread", "read"), ("randwrite", "write")] {
            for (pattern, block_bytes) in [(random, 4096), (in_order, BLOCK_IN_ORDER)] {
                let plain = job(engine, pattern, block_bytes, 1);
                let through = |path| Job { path, ..plain };
                if plain.writes() {
                    let both = [plain, through(Path::Hot)];
                    jobs.extend(both.iter().flat_map(|&job| [job, Job { synced: true, ..job }]));
                } else {
                    jobs.extend([plain, through(Path::Cold), through(Path::Hot)]);
                }
            }
        }
    }
    jobs
}

/// The name of a job, here with the way that it takes.
pub(super) fn label(job: Job) -> String {
    let path = match job.path {
        Path::Direct => "direct",
        Path::Cold => "cold",
        Path::Hot => "hot",
    };
    let synced = if job.synced { ", synced" } else { "" };
    let Job { engine, pattern, block_bytes, .. } = job;
    format!("{engine} {pattern} {} KiB, {path}{synced}", block_bytes >> 10)
}

/// What both programs are told of a job's way, in fio's words.
pub(super) fn keys(job: Job) -> Vec<&'static str> {
    let mut keys = match job.path {
        Path::Direct => vec!["direct=1"],
        Path::Cold => vec!["direct=0", "fadvise_hint=0", "invalidate=1"],
        Path::Hot => vec!["direct=0", "fadvise_hint=0", "invalidate=0"],
    };
    if job.path != Path::Cold {
        keys.extend(["time_based=1", "norandommap=1"]);
    }
    if job.synced {
        keys.push("fdatasync=1");
    }
    keys
}

/// Brings the file into the state that `job` begins with.
///
/// # Errors
/// If the file cannot be opened, synced or read.
pub(super) fn prepare(path: &std::path::Path, job: Job) -> Result<(), String> {
    let prepared = || -> io::Result<()> {
        let mut file = File::options().read(true).write(true).open(path)?;
        file.sync_all()?;
        match job.path {
            Path::Hot => io::copy(&mut file, &mut io::sink()).map(drop),
            Path::Direct => nandu_drives::file::forget_pages(&file),
            Path::Cold => {
                io::copy(&mut file, &mut io::sink())?;
                nandu_drives::file::forget_pages(&file)
            }
        }
    };
    prepared().map_err(|error| format!("{}: cannot be prepared: {error}", path.display()))
}

/// Which jobs are further from fio than the target, as a paragraph.
pub(super) fn missed(labels: &[String], pairs: &[Pair]) -> String {
    let ratio = |pair: &Pair| pair.nandu.requests_per_second() / pair.fio.requests_per_second();
    let of_job = |index: usize| {
        let ratios: Vec<f64> =
            pairs.iter().filter(|pair| pair.job_index == index).map(ratio).collect();
        (!ratios.is_empty()).then(|| spread(ratios)[0])
    };
    let medians: Vec<(usize, f64)> =
        (0..labels.len()).filter_map(|index| Some((index, of_job(index)?))).collect();
    let is_missed = |ratio: f64| (ratio - 1.0).abs() > TARGET;
    let lines: Vec<String> = medians
        .iter()
        .filter(|(_, ratio)| is_missed(*ratio))
        .map(|&(index, ratio)| format!("- {}: {ratio:.3}\n", labels[index]))
        .collect();
    let count = medians.len();
    if lines.is_empty() {
        return format!("None of {count} jobs is further than 5 % from fio.\n\n");
    }
    format!(
        "**{} of {count} jobs are further than 5 % from fio**:\n\n{}\n",
        lines.len(),
        lines.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::super::Half;
    use super::*;

    #[test]
    fn each_job_has_a_name_of_its_own_and_no_sync_of_reads() {
        let jobs = jobs();
        let mut labels: Vec<String> = jobs.iter().map(|&job| label(job)).collect();
        assert_eq!(labels.len(), 28);
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), 28);
        assert!(jobs.iter().all(|job| job.writes() || !job.synced));
        assert!(jobs.iter().all(|job| !job.writes() || job.path != Path::Cold));
    }

    #[test]
    fn what_misses_the_target_is_told_first() {
        let half = |requests| Half { requests, seconds: 1.0, processor_ns: 1.0 };
        let pair = |job_index, nandu| Pair {
            job_index,
            number: 1,
            nandu: half(nandu),
            fio: half(100.0),
            others: 0.0,
        };
        let labels = ["near".to_owned(), "far".to_owned(), "not run".to_owned()];
        let text = missed(&labels, &[pair(0, 96.0), pair(1, 94.0)]);
        assert!(text.starts_with("**1 of 2 jobs") && text.contains("- far: 0.940"), "{text}");
        assert!(!text.contains("near") && !text.contains("not run"), "{text}");
        assert!(missed(&labels, &[pair(0, 104.0)]).starts_with("None of 1"));
    }
}
