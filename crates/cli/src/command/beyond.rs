//! What the commands over records beyond memory share: where temporary files lie, how much memory
//! there is, and a thread that works while this one shows how far it is.
//!
//! ```text
//!   --device flash=A,disk=B ─► volumes ─► stores, one for each role ─┐
//!   --memory 256MiB ─────────► one grant, of which all memory comes ─┴─► work, on a thread
//!                                                     Ctrl-C ─► stops it at its next request
//! ```
//!
//! 1. Nothing is left in a directory: the files lie in one of their own, which goes with the
//!    command, unless it is kept ([`Keeping`]).
//! 2. All memory of the work comes from one grant of what was asked for.

use super::parse_size;
use super::stays::Stays;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Scratch};
use crate::progress::Progress;
use clap::Args;
use nandu::{DeviceVolume, DirectoryOptions, DirectoryVolume, StorageError, Volume};
use nandu_base::ByteCount;
use nandu_drives::profile::{Profile, SimOptions};
use nandu_drives::target::Target;
use nandu_external::{
    ExternalError, Grant, Io, IoCounts, KeptStore, KeptVector, Settings, Store, on_one_clock,
};
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Memory is divided into so many blocks at least where nobody says how large they are.
const BLOCKS_OF_MEMORY: u64 = 256;
/// The size of a block where nobody says it, at least and at most.
const BLOCK_BYTES_MIN: u64 = 4 << 10;
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// What the name of a directory of temporary files begins with.
const DIRECTORY_PREFIX: &str = "nandu-external-";
/// What an option that nobody gave has in [`BeyondArguments::of_kept`].
pub(super) const USUAL: &str = "usual";
/// What the volume in it is called.
const STORE_NAME: &str = "store";
/// How large simulated drives are made where nobody says it: so many times the input, and this at
/// least.
const CAPACITY_FACTOR: u64 = 32;
const CAPACITY_MIN: u64 = 256 << 20;
/// How long nobody looks at how far the work is.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// Where temporary files lie, and how much memory there is.
#[derive(Debug, Args)]
pub(crate) struct BeyondArguments {
    /// Memory of all the work
    #[arg(long, default_value = "256MiB", value_parser = parse_size, value_name = "SIZE")]
    memory: ByteCount,
    /// Where temporary files lie: a directory or sim:NAME. Several, with commas between them, take
    /// turns
    #[arg(long, value_delimiter = ',', default_value = ".", value_name = "TARGETS",
          value_parser = DeviceArgument::parse)]
    device: Vec<DeviceArgument>,
    /// Bytes that a request reads or writes; by default a 256th of the memory, at most 1 MiB
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    block_size: Option<ByteCount>,
    /// Requests that one stream has in flight
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=256))]
    in_flight: u32,
    /// Capacity that simulated drives are scaled to; if not given 32 times the input, and 256 MiB at least and
    /// of standard input
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    capacity: Option<ByteCount>,
}

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// All that there is.
    All,
    /// What is read anywhere.
    Flash,
    /// What is read and written in order.
    Disk,
}

/// A target with its role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct DeviceArgument {
    role: Role,
    target: String,
}

impl DeviceArgument {
    /// For clap: `.`, `flash=DIRECTORY`, `disk=sim:NAME`.
    fn parse(text: &str) -> Result<Self, String> {
        let (role, target) = match text.split_once('=') {
            Some(("flash", target)) => (Role::Flash, target),
            Some(("disk", target)) => (Role::Disk, target),
            _ => (Role::All, text),
        };
        match target {
            "" => Err("a target is a directory, or a simulated drive as sim:NAME".to_owned()),
            target => Ok(Self { role, target: target.to_owned() }),
        }
    }
}

/// Volumes for temporary files, gone with this.
pub(crate) struct Places {
    volumes: Vec<(Role, Io)>,
    grant: Grant,
    settings: Settings,
    /// Of a run that is kept, else 0.
    identity: u64,
    interrupt: Interrupt,
    // Behind the volumes: these have files open there.
    _directories: Vec<Directory>,
}

/// A directory of temporary files, which goes with this unless it stays.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    stays: Option<Arc<Stays>>,
    /// Goes also where the program ends at once.
    _scratch: Scratch,
}

/// Temporary files of a run that outlives its process. Where there are roles, those of one stay.
pub(crate) struct Keeping<'k> {
    /// The number of the run, which the names of its directories and its blocks have in common.
    pub(crate) identity: u64,
    /// The role of those that stay.
    pub(crate) role: Role,
    /// Whether they stay when the program ends.
    pub(crate) stays: &'k Arc<Stays>,
    /// Whether they are there, and needed; else what there is goes.
    pub(crate) is_found: bool,
    /// How long blocks are that were kept, if any were.
    pub(crate) block_bytes: Option<u32>,
    /// The directory of the process in which the run was begun.
    pub(crate) begun_in: &'k Path,
}

impl Directory {
    fn new(path: PathBuf, stays: Option<&Arc<Stays>>, interrupt: &Interrupt) -> Self {
        if let Some(stays) = stays {
            stays.has(&path);
        }
        let scratch = interrupt.scratch(path.clone(), stays.map(|stays| stays.flag()));
        Self { path, stays: stays.cloned(), _scratch: scratch }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.stays.as_ref().is_some_and(|stays| stays.is_set()) {
            return;
        }
        // Where it cannot be removed its name says whose it is.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What was asked for, and what it took, for JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Means {
    devices: Vec<DeviceArgument>,
    memory_bytes: u64,
    /// The most that was held at once.
    memory_peak_bytes: u64,
    block_bytes: u32,
    in_flight: u32,
}

impl Means {
    /// In a line for people.
    pub(crate) fn line(&self) -> String {
        format!(
            "memory: {} of {} at most, blocks of {}",
            ByteCount(self.memory_peak_bytes),
            ByteCount(self.memory_bytes),
            ByteCount(u64::from(self.block_bytes))
        )
    }
}

impl BeyondArguments {
    /// Checks what can be checked before anything is made.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let roles = |role| self.device.iter().filter(|device| device.role == role).count();
        let (all, flash, disk) = (roles(Role::All), roles(Role::Flash), roles(Role::Disk));
        if all > 0 && flash + disk > 0 || (flash == 0) != (disk == 0) {
            return Err(Failure::input(
                "--device: either no target has a role, or some have flash= before them and others disk=",
            ));
        }
        crate::memory::check_possible(
            self.memory,
            &format!("--memory {}", self.memory),
            "give less",
        )
    }

    /// Opens volumes for files about so much as `input` has bytes; with `keeping` files were kept, or
    /// may come to be.
    pub(crate) fn places(
        &self,
        input_bytes: u64,
        keeping: Option<&Keeping<'_>>,
        interrupt: &Interrupt,
    ) -> Result<Places, Failure> {
        self.check()?;
        let (mut volumes, mut directories) = (Vec::new(), Vec::new());
        for (index, device) in self.device.iter().enumerate() {
            let target = &device.target;
            if !target.starts_with("sim:") && !Path::new(target).exists() {
                return Err(Failure::input(format!(
                    "{}: no such directory; temporary files are made in one that there is, or on \
                     sim:NAME",
                    target.escape_debug()
                )));
            }
            let volume = match Target::parse(&device.target)? {
                Target::Simulated(name) if keeping.is_some() => {
                    return Err(Failure::input(format!(
                        "sim:{name}: what is kept needs a directory; a simulated drive ends with the \
                         program"
                    )));
                }
                Target::Simulated(name) => self.simulated(&name, input_bytes, interrupt)?,
                Target::Scratch(_) if Path::new(&device.target).is_dir() => {
                    let (volume, directory) = in_directory((device, index), keeping, interrupt)?;
                    directories.push(directory);
                    volume
                }
                _ => {
                    return Err(Failure::input(format!(
                        "{} is no directory; temporary files are made in one, or on sim:NAME",
                        device.target.escape_debug()
                    )));
                }
            };
            volumes.push(volume);
        }
        let roles = self.device.iter().map(|device| device.role);
        let volumes = roles.zip(on_one_clock(volumes)).collect();
        let mut settings = self.settings()?;
        if let Some(block_bytes) = keeping.and_then(|keeping| keeping.block_bytes) {
            settings.block_bytes = block_bytes;
        }
        let identity = keeping.map_or(0, |keeping| keeping.identity);
        let (grant, interrupt) = (Grant::new(self.memory.0), interrupt.clone());
        Ok(Places { volumes, grant, settings, identity, interrupt, _directories: directories })
    }

    /// How many devices there are.
    pub(crate) const fn device_count(&self) -> usize {
        self.device.len()
    }

    /// Whether all of them are simulated.
    pub(crate) fn is_simulated(&self) -> bool {
        let is_one = |device: &DeviceArgument| {
            matches!(Target::parse(&device.target), Ok(Target::Simulated(_)))
        };
        self.device.iter().all(is_one)
    }

    /// A failure as it is on such devices: a simulated one has more room where the user says so.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        match self.device.iter().any(|device| device.target.starts_with("sim:")) {
            true => failure.instead_of("make room there", "give it more with --capacity"),
            false => failure,
        }
    }

    /// Requests that a stream has in flight.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What has to be the same when a run goes on: devices, and how long blocks are, where that is asked
    /// for; else how long they are in [`USUAL`].
    pub(crate) fn of_kept(&self) -> Result<(serde_json::Value, serde_json::Value), Failure> {
        let devices = serde_json::to_value(&self.device).expect("roles and texts are JSON");
        let block_bytes = self.settings()?.block_bytes;
        let block_bytes = match self.block_size {
            Some(_) => json!(block_bytes),
            None => json!({ USUAL: block_bytes }),
        };
        Ok((devices, block_bytes))
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let part = (self.memory.0 / BLOCKS_OF_MEMORY).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let usual = 1 << part.ilog2();
        let size = self.block_size.map_or(usual, |size| size.0);
        let block_bytes = u32::try_from(size).ok().filter(|&bytes| bytes <= 1 << 30);
        let Some(block_bytes) = block_bytes else {
            return Err(Failure::input(format!("--block-size {size}: a block has 1 GiB at most")));
        };
        Ok(Settings { block_bytes, in_flight: self.in_flight })
    }

    fn simulated(
        &self,
        name: &str,
        input_bytes: u64,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn Volume>, Failure> {
        let profile = interrupt.before_work(|| Profile::load(name))?;
        let whole = profile.geometry.capacity();
        let usual = input_bytes.saturating_mul(CAPACITY_FACTOR).max(CAPACITY_MIN).min(whole.0);
        let capacity = self.capacity.unwrap_or(ByteCount(usual));
        if capacity > whole {
            return Err(Failure::input(format!("--capacity {capacity}: sim:{name} has {whole}")));
        }
        let options = SimOptions { capacity: Some(capacity), seed: 1, keep_data: true };
        Ok(Box::new(DeviceVolume::format(profile.open(options)?)?))
    }
}

/// A volume in a new directory inside of one, or in the one that was kept for the device `index`.
fn in_directory(
    (device, index): (&DeviceArgument, usize),
    keeping: Option<&Keeping<'_>>,
    interrupt: &Interrupt,
) -> Result<(Box<dyn Volume>, Directory), Failure> {
    let DeviceArgument { role, target } = device;
    let failed = |error| Failure::system(format!("no directory in {target}"), &error);
    let directory = match keeping {
        None => {
            let made = tempfile::Builder::new().prefix(DIRECTORY_PREFIX).tempdir_in(target);
            Directory::new(made.map_err(failed)?.keep(), None, interrupt)
        }
        Some(keeping) => {
            let parent = fs::canonicalize(target).map_err(failed)?;
            let name = format!("{DIRECTORY_PREFIX}{:016x}-{index}", keeping.identity);
            let path = parent.join(&name);
            let has_kept = *role == Role::All || *role == keeping.role;
            let stays = Some(keeping.stays).filter(|_| has_kept);
            if keeping.is_found && stays.is_some() {
                if !path.exists() {
                    return Err(keeping.is_elsewhere(target, &path));
                }
                let volume = open_store(&path)?;
                return Ok((Box::new(volume), Directory::new(path, stays, interrupt)));
            }
            if let Err(error @ StorageError::Locked { .. }) = open_store(&path) {
                return Err(error.into());
            }
            keeping.stays.remove_own(&path)?;
            fs::create_dir(&path).map_err(failed)?;
            Directory::new(path, stays, interrupt)
        }
    };
    let store = directory.path.join(STORE_NAME);
    let volume = DirectoryVolume::create(&store, DirectoryOptions::default())?;
    if directory.stays.is_some() {
        sync_folders(&directory.path).map_err(failed)?;
    }
    Ok((Box::new(volume), directory))
}

/// Makes a new directory, and what was made in it, durable: a power cut takes whatever no directory
/// that was synced has.
pub(crate) fn sync_folders(path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    fs::File::open(&path)?.sync_all()?;
    path.parent().map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
}

impl Keeping<'_> {
    /// That a directory of files is not where it is looked for.
    fn is_elsewhere(&self, target: &str, path: &Path) -> Failure {
        let why = match Path::new(target).is_absolute() {
            true => "what was kept was removed, or lies on a device that is not there".to_owned(),
            false => format!(
                "--device {} is another directory from where this runs than from {}, where the run was \
                 begun; go on there",
                target.escape_debug(),
                self.begun_in.display()
            ),
        };
        Failure::input(format!("there is no {}: {why}", path.display()))
    }
}

fn open_store(path: &Path) -> Result<DirectoryVolume, StorageError> {
    DirectoryVolume::open(&path.join(STORE_NAME), DirectoryOptions::default())
}

impl Places {
    /// Where all memory comes from.
    pub(crate) const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// A store for what is read anywhere, and one for what is read in order, which is the same one
    /// where there are no roles.
    pub(crate) fn stores(&self) -> Result<(Store, Store), Failure> {
        self.stores_of(|_, volumes, grant, stop| {
            Store::identified(volumes, self.settings, grant, stop, self.identity)
        })
    }

    /// The same where that of `kept_role`, or the only one, was kept, with these vectors.
    pub(crate) fn stores_resumed(
        &self,
        kept_role: Role,
        kept: (&KeptStore, &[&KeptVector]),
    ) -> Result<(Store, Store), Failure> {
        self.stores_of(|role, volumes, grant, stop| match role == Role::All || role == kept_role {
            true => Store::resume(volumes, self.settings, grant, stop, kept),
            false => Store::identified(volumes, self.settings, grant, stop, self.identity),
        })
    }

    fn stores_of(
        &self,
        make: impl Fn(Role, &[Io], Grant, Arc<AtomicBool>) -> Result<Store, ExternalError>,
    ) -> Result<(Store, Store), Failure> {
        let store = |role| {
            let of_role = self.volumes.iter().filter(|volume| volume.0 == role);
            let volumes: Vec<Io> = of_role.map(|(_, io)| io.clone()).collect();
            make(role, &volumes, self.grant.clone(), self.interrupt.flag())
        };
        if self.volumes.iter().all(|(role, _)| *role == Role::All) {
            let all = store(Role::All)?;
            return Ok((all.clone(), all));
        }
        Ok((store(Role::Flash)?, store(Role::Disk)?))
    }

    /// What was asked for, and what it took.
    pub(crate) fn means(&self, arguments: &BeyondArguments) -> Means {
        let Settings { block_bytes, in_flight } = self.settings;
        Means {
            devices: arguments.device.clone(),
            memory_bytes: self.grant.granted_bytes(),
            memory_peak_bytes: self.grant.peak_bytes(),
            block_bytes,
            in_flight,
        }
    }
}

/// What both stores did, which may be one.
pub(crate) fn counts_of((first, second): (&Store, &Store)) -> IoCounts {
    let (one, other) = (first.counts(), second.counts());
    if first.is_same(second) {
        return one;
    }
    IoCounts {
        read_blocks: one.read_blocks + other.read_blocks,
        write_blocks: one.write_blocks + other.write_blocks,
        read_bytes: one.read_bytes + other.read_bytes,
        write_bytes: one.write_bytes + other.write_bytes,
        wait_ns: one.wait_ns + other.wait_ns,
    }
}

/// How far the work is: which step of it, from 0, and how much of what that has to do.
#[derive(Debug, Default)]
pub(crate) struct Course {
    step: AtomicU64,
    done: AtomicU64,
    all: AtomicU64,
    /// Steps that the bar knows to be done.
    shown: AtomicU64,
}

impl Course {
    /// The next step begins, which has so much to do.
    pub(crate) fn next_step(&self, all: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        self.step.fetch_add(1, Ordering::Relaxed);
    }

    /// How much the current step has to do, once that is known.
    pub(crate) fn expect(&self, all: u64) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// So much of the step is done.
    pub(crate) fn reach(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    fn fraction(&self) -> f64 {
        match self.all.load(Ordering::Relaxed) {
            0 => 0.0,
            all => self.done.load(Ordering::Relaxed) as f64 / all as f64,
        }
    }
}

/// Does work on a thread of its own, whose course this one shows; `steps` name its steps, and
/// `look` may find out how far the current one is.
pub(crate) fn at_work<T: Send + 'static>(
    progress: &Progress,
    steps: &[&str],
    course: &Course,
    look: impl Fn(u64),
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (tell, told) = channel();
    let worker = std::thread::spawn(move || {
        // The other end waits for this; only a panic there could have closed it.
        let _ = tell.send(work());
    });
    loop {
        match told.recv_timeout(LOOK_AFTER) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => {
                let step = course.step.load(Ordering::Relaxed);
                while course.shown.load(Ordering::Relaxed) < step {
                    progress.step_done();
                    course.shown.fetch_add(1, Ordering::Relaxed);
                }
                look(step);
                let name = usize::try_from(step).ok().and_then(|step| steps.get(step));
                progress.show(course.fraction(), name.unwrap_or(&""));
            }
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("work that ends tells its outcome"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_may_have_a_role() {
        let parse = |text| DeviceArgument::parse(text).map(|found| (found.role, found.target));
        assert_eq!(parse("."), Ok((Role::All, ".".to_owned())));
        assert_eq!(parse("flash=/mnt/a=b"), Ok((Role::Flash, "/mnt/a=b".to_owned())));
        assert_eq!(parse("disk=sim:wd2000jb"), Ok((Role::Disk, "sim:wd2000jb".to_owned())));
        assert_eq!(parse("a=b"), Ok((Role::All, "a=b".to_owned())), "a directory may be called so");
        assert!(parse("flash=").is_err());
    }

    #[test]
    fn a_course_without_an_end_has_no_fraction() {
        let course = Course::default();
        course.reach(7);
        assert_eq!(course.fraction(), 0.0);
        course.next_step(10);
        course.reach(5);
        assert_eq!(course.fraction(), 0.5);
    }
}
