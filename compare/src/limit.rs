//! Holding memory out: a control group that bounds what a process and the page cache behind it may
//! keep, and a way to drop files from that cache.
//!
//! 1. The group goes when its owner goes.
//! 2. Without permission to make a group there is none, and the reason is told.

#![allow(unsafe_code, reason = "posix_fadvise has no safe entrance")]

use crate::Failure;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What bounds the memory of a measured process.
pub(crate) enum MemoryLimit {
    /// A control group; the page cache counts.
    Group { directory: PathBuf, reclaim: &'static str, bytes: u64 },
    /// Nothing, for this reason.
    None(String),
}

impl MemoryLimit {
    /// A group of `bytes`, of version 1 or 2, whichever controls memory here.
    pub(crate) fn new(bytes: u64) -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut reason = "no control group controls memory here".to_string();
        for line in mounts.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, place, kind, options, ..] = words.as_slice() else { continue };
            let parent = Path::new(place);
            let made = match *kind {
                "cgroup" if options.split(',').any(|option| option == "memory") => {
                    Self::make(parent, &["memory.limit_in_bytes"], "memory.force_empty", bytes)
                }
                "cgroup2" if has_memory_controller(parent) => {
                    // Where the controller is on already this changes nothing.
                    let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
                    Self::make(parent, &["memory.max"], "memory.reclaim", bytes)
                }
                _ => continue,
            };
            match made {
                Ok(group) => return group,
                Err(error) => reason = format!("no control group could be made: {error}"),
            }
        }
        Self::None(reason)
    }

    fn make(
        parent: &Path,
        limits: &[&str],
        reclaim: &'static str,
        bytes: u64,
    ) -> std::io::Result<Self> {
        let directory = parent.join(format!("nandu-compare-{}", std::process::id()));
        fs::create_dir(&directory)?;
        let group = Self::Group { directory: directory.clone(), reclaim, bytes };
        for limit in limits {
            fs::write(directory.join(limit), bytes.to_string())?;
        }
        Ok(group)
    }

    /// Where a process writes its number to be bound.
    pub(crate) fn processes_file(&self) -> Option<PathBuf> {
        match self {
            Self::Group { directory, .. } => Some(directory.join("cgroup.procs")),
            Self::None(_) => None,
        }
    }

    /// Gives back what earlier processes left in the group.
    pub(crate) fn reclaim(&self) {
        if let Self::Group { directory, reclaim, bytes } = self {
            // Best effort: version 2 tells how much it could not give back as an error.
            let _ = fs::write(directory.join(reclaim), bytes.to_string());
        }
    }

    /// The most memory that the group has had, page cache included.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        let Self::Group { directory, .. } = self else { return None };
        ["memory.max_usage_in_bytes", "memory.peak"]
            .iter()
            .find_map(|name| fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok())
    }

    /// How many of its processes the kernel ended for want of memory.
    pub(crate) fn killed_count(&self) -> u64 {
        let Self::Group { directory, .. } = self else { return 0 };
        ["memory.oom_control", "memory.events"]
            .iter()
            .filter_map(|name| fs::read_to_string(directory.join(name)).ok())
            .find_map(|text| {
                text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
            })
            .unwrap_or_default()
    }

    /// Whether there is one, for results over many of them.
    pub(crate) fn describe_kind(&self) -> String {
        match self {
            Self::Group { .. } => "a control group for each process, page cache included".into(),
            Self::None(reason) => format!("NOT LIMITED ({reason})"),
        }
    }

    /// One line for the table.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Group { bytes, .. } => {
                format!("control group of {} MiB, page cache included", bytes >> 20)
            }
            Self::None(reason) => format!(
                "NOT LIMITED ({reason}): files are dropped from the page cache before each phase, \
                 but may fill it again while the phase runs"
            ),
        }
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Self::Group { directory, .. } = self {
            // Left behind it is an empty directory of the kernel; there is nobody to tell.
            let _ = fs::remove_dir(directory);
        }
    }
}

fn has_memory_controller(root: &Path) -> bool {
    fs::read_to_string(root.join("cgroup.controllers"))
        .is_ok_and(|text| text.split_whitespace().any(|word| word == "memory"))
}

/// Every file below `directory`.
///
/// # Errors
/// If a directory cannot be read.
pub(crate) fn files_below(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: std::io::Error| Failure::Run(format!("{}: {error}", directory.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_type().map_err(fail)?.is_dir() {
            files.extend(files_below(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Makes everything below `directory` durable and drops it from the page cache.
///
/// # Errors
/// If a file cannot be opened or synced.
pub(crate) fn drop_caches(directory: &Path) -> Result<(), Failure> {
    for path in files_below(directory)? {
        let file = File::open(&path)
            .and_then(|file| file.sync_all().map(|()| file))
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
        // SAFETY: the descriptor is open; the call only advises.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    Ok(())
}
