//! What reports say about the disk and the machine, and who uses a block device: read from /proc and
//! /sys, each field empty where the system does not tell.
//!
//! ```text
//!   path ─► device number ─► /proc/self/mountinfo   file system, mount point, source
//!                        └─► /sys/dev/block/M:m     model, scheduler, write cache, sizes
//! ```
//!
//! 1. Nothing here fails: a missing fact is `None`.

use super::system;
use nandu_base::ByteCount;
use serde::{Deserialize, Serialize};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The disk under a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskDescription {
    /// `ext4`, `tmpfs`; none for a block device itself.
    pub file_system: Option<String>,
    /// The device that the file system lies on, or the block device itself: `/dev/vda`.
    pub source: Option<String>,
    /// The mount's options.
    pub mount_options: Option<String>,
    /// The device's name for itself.
    pub model: Option<String>,
    /// The I/O scheduler in force.
    pub scheduler: Option<String>,
    /// Whether the kernel believes that it rotates.
    pub rotational: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// The smallest unit of addressing, in bytes.
    pub logical_block_bytes: Option<u32>,
    /// The smallest unit that is written without reading first, in bytes.
    pub physical_block_bytes: Option<u32>,
    /// The whole device or partition.
    pub capacity: Option<ByteCount>,
}

/// The machine that made a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineDescription {
    /// The processor's model, as /proc/cpuinfo has it.
    pub cpu_model: String,
    /// Logical processors that this process may use.
    pub core_count: u32,
    /// The kernel's release.
    pub kernel: String,
    /// The machine's main memory, where the system tells it.
    pub memory: Option<ByteCount>,
}

impl MachineDescription {
    /// A directory name for its results: `amd-epyc-2core`.
    #[must_use]
    pub fn slug(&self) -> String {
        let model = self.cpu_model.split('@').next().unwrap_or_default();
        let kept: Vec<String> = model
            .replace("(R)", " ")
            .replace("(TM)", " ")
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty() && !matches!(*word, "CPU" | "Processor"))
            .map(str::to_ascii_lowercase)
            .collect();
        let name = if kept.is_empty() { "unknown".into() } else { kept.join("-") };
        format!("{name}-{}core", self.core_count)
    }
}

/// The machine that we run on.
#[must_use]
pub fn machine_description() -> MachineDescription {
    let first_value = |path: &str, key: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let memory = first_value("/proc/meminfo", "MemTotal")
        .and_then(|value| value.strip_suffix("kB")?.trim().parse::<u64>().ok().map(ByteCount::kib));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    MachineDescription {
        cpu_model: first_value("/proc/cpuinfo", "model name")
            .unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH)),
        core_count: nandu_base::to_u32(cores as u64),
        kernel: read_line(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default(),
        memory,
    }
}

/// The disk that holds `path`, or that `path` is.
#[must_use]
pub fn disk_description(path: &Path) -> DiskDescription {
    use std::os::unix::fs::FileTypeExt;
    let Ok(metadata) = fs::metadata(path) else { return DiskDescription::default() };
    let is_block_device = metadata.file_type().is_block_device();
    let number = if is_block_device { metadata.rdev() } else { metadata.dev() };
    let mount = if is_block_device { None } else { mount_of(number) };
    // File systems such as btrfs have a made-up device number; their source still is a device.
    let disk = mount
        .as_ref()
        .and_then(|mount| fs::metadata(&mount.source).ok())
        .filter(|source| source.file_type().is_block_device())
        .map_or(number, |source| source.rdev());
    let parsed = |name| queue_attribute(disk, name).and_then(|text| text.parse().ok());
    let scheduler = queue_attribute(disk, "scheduler").map(|all| {
        let chosen = all.split(['[', ']']).nth(1).unwrap_or(&all);
        chosen.to_string()
    });
    let own_source = is_block_device.then(|| path.display().to_string());
    DiskDescription {
        source: own_source.or_else(|| mount.as_ref().map(|mount| mount.source.clone())),
        file_system: mount.as_ref().map(|mount| mount.kind.clone()),
        mount_options: mount.map(|mount| mount.options),
        model: attribute_of_disk(disk, "device/model"),
        scheduler,
        rotational: queue_attribute(disk, "rotational").map(|text| text == "1"),
        write_cache: queue_attribute(disk, "write_cache"),
        logical_block_bytes: parsed("logical_block_size"),
        physical_block_bytes: parsed("physical_block_size"),
        capacity: read_line(&sys_path(disk).join("size"))
            .and_then(|text| text.parse::<u64>().ok())
            .map(|sectors| ByteCount(sectors * 512)),
    }
}

/// Whether the disk may lose completed writes; unknown counts as yes.
pub(super) fn has_volatile_cache(device_number: u64) -> bool {
    queue_attribute(device_number, "write_cache").is_none_or(|kind| kind != "write through")
}

/// Whether a block device accepts discards.
pub(super) fn discards(device_number: u64) -> bool {
    queue_attribute(device_number, "discard_max_bytes").is_some_and(|bytes| bytes != "0")
}

/// Who uses a block device or a part of it, if anybody does.
pub(super) fn user_of_block_device(device_number: u64) -> Option<String> {
    let sys = sys_path(device_number);
    let mut numbers = vec![system::major_minor(device_number)];
    let mut names = Vec::new();
    let partitions = fs::read_dir(&sys).into_iter().flatten().flatten().map(|entry| entry.path());
    for part in partitions.filter(|path| path.join("partition").exists()).chain([sys]) {
        if let Some(number) = read_line(&part.join("dev")).and_then(|text| parse_number(&text)) {
            numbers.push(number);
        }
        if let Ok(Some(holder)) = fs::read_dir(part.join("holders")).map(|mut all| all.next()) {
            let name = holder.map_or_else(|_| "a holder".into(), |entry| entry.file_name());
            return Some(format!("part of {}", name.display()));
        }
        let target = fs::canonicalize(&part).ok();
        names.extend(target.and_then(|path| Some(path.file_name()?.to_os_string())));
    }
    for mount in mounts() {
        let source_number = fs::metadata(&mount.source).ok().map(|source| source.rdev());
        let source_number = source_number.filter(|_| mount.source.starts_with("/dev/"));
        let by_source = source_number.map(system::major_minor);
        if numbers.contains(&mount.number) || by_source.is_some_and(|n| numbers.contains(&n)) {
            return Some(format!("mounted at {}", mount.point.display()));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let device_of = |line: &str| {
        let path = fs::canonicalize(line.split_whitespace().next()?).ok()?;
        Some(path.file_name()?.to_os_string())
    };
    let swapping = swaps.lines().skip(1).filter_map(device_of).any(|name| names.contains(&name));
    swapping.then(|| "swap space".to_string())
}

/// Who uses a file as if it were a device: a loop device, with what is mounted from it, or swap space.
/// What counts is the file itself, by whichever of its names.
pub(super) fn user_of_file(file: &Metadata) -> Option<String> {
    let is_it = |path: &Path| {
        let found = fs::metadata(path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
    };
    if let Some((name, number)) = loop_device_over(Path::new("/sys/block"), &is_it) {
        let mounted = mounts().into_iter().find(|mount| Some(mount.number) == number);
        let mounted = mounted.map(|mount| format!(", mounted at {}", mount.point.display()));
        return Some(format!("the loop device {name}{}", mounted.unwrap_or_default()));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    files.any(|path| is_it(Path::new(path))).then(|| "swap space".to_string())
}

/// The loop device over a file, by its name and number, among the block devices in a directory of sysfs.
fn loop_device_over(
    block_devices: &Path,
    is_it: &dyn Fn(&Path) -> bool,
) -> Option<(String, Option<(u32, u32)>)> {
    let mut devices: Vec<PathBuf> =
        fs::read_dir(block_devices).ok()?.flatten().map(|entry| entry.path()).collect();
    devices.sort_unstable();
    let device = devices.into_iter().find(|device| {
        read_line(&device.join("loop/backing_file")).is_some_and(|path| is_it(Path::new(&path)))
    })?;
    let number = read_line(&device.join("dev")).and_then(|text| parse_number(&text));
    Some((device.file_name()?.display().to_string(), number))
}

/// One line of /proc/self/mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    number: (u32, u32),
    point: PathBuf,
    options: String,
    kind: String,
    source: String,
}

fn mounts() -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

/// `36 35 98:0 /root /mount/point options [optional…] - kind source super-options`.
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let number = parse_number(left.next()?)?;
    let point = PathBuf::from(left.nth(1)?.replace("\\040", " "));
    let options = left.next()?.to_string();
    let mut right = right.split(' ');
    let kind = right.next()?.to_string();
    let source = right.next()?.replace("\\040", " ");
    Some(Mount { number, point, options, kind, source })
}

/// The mount that covers the others of the same device, the last one.
fn mount_of(device_number: u64) -> Option<Mount> {
    let number = system::major_minor(device_number);
    mounts().into_iter().rfind(|mount| mount.number == number)
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn sys_path(device_number: u64) -> PathBuf {
    let (major, minor) = system::major_minor(device_number);
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

/// An attribute of the disk, or of the disk that the partition is on.
fn attribute_of_disk(device_number: u64, name: &str) -> Option<String> {
    let own = sys_path(device_number);
    let is_partition = own.join("partition").exists();
    let whole =
        if is_partition { fs::canonicalize(own).ok()?.parent()?.to_path_buf() } else { own };
    read_line(&whole.join(name))
}

fn queue_attribute(device_number: u64, name: &str) -> Option<String> {
    attribute_of_disk(device_number, &format!("queue/{name}"))
}

fn read_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.trim();
    (!line.is_empty()).then(|| line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_line_is_taken_apart() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=x";
        let expected = Mount {
            number: (98, 0),
            point: "/mnt 2".into(),
            options: "rw,noatime".into(),
            kind: "ext3".into(),
            source: "/dev/root".into(),
        };
        assert_eq!(parse_mount(line), Some(expected));
        assert_eq!(parse_mount("36 35 98:0 /mnt1"), None);
    }

    #[test]
    fn slugs_name_model_and_cores() {
        let slug = |model: &str, core_count| {
            MachineDescription { cpu_model: model.into(), core_count, ..Default::default() }.slug()
        };
        assert_eq!(slug("AMD EPYC", 2), "amd-epyc-2core");
        assert_eq!(
            slug("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", 4),
            "intel-xeon-e5-2680-v4-4core"
        );
        assert_eq!(slug("", 1), "unknown-1core");
    }

    #[test]
    fn the_file_system_of_a_directory_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let description = disk_description(directory.path());
        assert!(description.file_system.is_some());
        assert_eq!(disk_description(Path::new("/no/such/path")), DiskDescription::default());
        assert!(!machine_description().kernel.is_empty());
    }

    #[test]
    fn a_file_behind_a_loop_device_has_a_user_by_all_its_names() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        for name in ["image", "other"] {
            fs::write(place(name), name).unwrap();
        }
        fs::hard_link(place("image"), place("linked")).unwrap();
        for (device, backing_file) in
            [("loop0", Some("gone")), ("loop7", Some("image")), ("sda", None)]
        {
            fs::create_dir_all(place("block").join(device).join("loop")).unwrap();
            fs::write(place("block").join(device).join("dev"), "7:7\n").unwrap();
            if let Some(name) = backing_file {
                let text = format!("{}\n", place(name).display());
                fs::write(place("block").join(device).join("loop/backing_file"), text).unwrap();
            }
        }
        let found = |name: &str| {
            let file = fs::metadata(place(name)).unwrap();
            loop_device_over(&place("block"), &|path| {
                fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
            })
        };
        for name in ["image", "linked"] {
            assert_eq!(found(name), Some(("loop7".to_string(), Some((7, 7)))), "{name}");
        }
        assert_eq!(found("other"), None);
        assert_eq!(user_of_file(&fs::metadata(place("other")).unwrap()), None);
    }

    #[test]
    fn a_mounted_block_device_has_a_user() {
        let devices = mounts().into_iter().filter(|mount| mount.source.starts_with("/dev/"));
        for mount in devices {
            let Ok(metadata) = fs::metadata(&mount.source) else { continue };
            if std::os::unix::fs::FileTypeExt::is_block_device(&metadata.file_type()) {
                let user = user_of_block_device(metadata.rdev());
                assert!(user.is_some(), "{} is mounted", mount.source);
            }
        }
    }
}
