//! Arrays of drives: of simulated ones as a profile or an address, of files by their address.
//!
//! ```text
//!   array:LAYOUT[/FRAGMENT]:MEMBER[*N][+MEMBER[*N]]…
//!   array:stripe:sim:device-a*4        array:m3w4/16KiB:sim:hama*4        array:parity:/mnt/a*3
//!
//!   profile   kind = "array", a section [array] ─┐
//!   address   every member is sim:NAME ──────────┴─► Profile ─► ArrayDevice over simulated drives
//!   address   every member is a path ──────────────────────────► ArrayDevice over files
//! ```
//!
//! How an array works stands in `nandu_array`; here its members are found, sized and opened.
//!
//! 1. Members are all simulated or all real; an array is no member of an array.
//! 2. Simulated members differ in their seeds only, so two runs are alike.

use crate::file::{self, FileDrive, ScratchFile};
use crate::profile::{Drive, DriveKind, MakeConfig, MakeError, Profile, ProfileError, SimOptions};
use crate::target::{OpenOptions, Target, TargetError, can_direct, open_existing};
use nandu_array::{ArrayConfig, ArrayDevice, ArrayError, Layout, WriteReturn};
use nandu_base::{ByteCount, Nanos, to_u32};
use nandu_device::{Device, Geometry};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What an address begins with.
pub const ADDRESS_PREFIX: &str = "array:";
/// A fragment where an address names no size.
const DEFAULT_FRAGMENT_BYTES: ByteCount = ByteCount::kib(64);
/// Requests in flight to an array that an address describes.
const DEFAULT_QUEUE_DEPTH: u32 = 128;
/// Media errors that such an array bears from each member.
const DEFAULT_MEMBER_ERROR_COUNT_MAX: u32 = 8;
/// How long it waits for a member, as Linux does for a disk.
const DEFAULT_MEMBER_TIMEOUT_NS: Nanos = Nanos::from_seconds(30);
/// Bytes of one write that fills a new array of files, at least.
const FILL_WRITE_BYTES: u64 = 1 << 20;

/// The `[array]` section of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayDriveConfig {
    /// A layout by its name: `one_copy`, `stripe`, `replication`, `parity`, or `m3w4`.
    pub layout: String,
    /// Bytes of a fragment, whole sectors.
    pub fragment_bytes: u32,
    /// Profiles of the members; `device-a*4` stands for four of them.
    pub members: Vec<String>,
    /// After how many stored fragments a write returns.
    #[serde(default)]
    pub write_return: WriteReturn,
    /// Most requests in flight, at least 1.
    pub queue_depth: u32,
    /// Media errors that a member may have before it is left alone.
    pub member_error_count_max: u32,
    /// How long a request may be with a member before the member is given up.
    pub member_timeout_ns: Nanos,
}

impl MakeConfig for ArrayDriveConfig {
    /// What can be checked without the members.
    fn check(&self, sector_bytes: u32) -> Result<(), String> {
        self.array_config(sector_bytes, true).map(|_| ())
    }

    /// With members just large enough. Its capacity is a whole number of stripes. No member may be an array.
    fn open(
        &self,
        name: &str,
        geometry: Geometry,
        options: SimOptions,
    ) -> Result<Drive, MakeError> {
        let wrong =
            |what: String| MakeError::Member(ProfileError::Array { name: name.into(), what });
        let SimOptions { seed, keep_data, .. } = options;
        let config = self.array_config(geometry.sector_bytes, keep_data).map_err(wrong)?;
        let capacity = self.member_capacity(geometry).map_err(wrong)?;
        let mut members = Vec::new();
        for (member, index) in self.member_names().map_err(wrong)?.into_iter().zip(0..) {
            let profile =
                load_member(member).map_err(|error| MakeError::Member(error.within(name)))?;
            let seed = seed.wrapping_add(index);
            let options = SimOptions { capacity: Some(capacity), seed, keep_data };
            members.push(profile.open(options).map_err(MakeError::Member)?);
        }
        let array = ArrayDevice::create(config, members);
        let array = array.map_err(|error| wrong(error.to_string()))?;
        Ok(Box::new(array.named(name)))
    }

    fn has_arm(&self) -> Result<bool, ProfileError> {
        self.has_member(Profile::has_arm)
    }

    fn needs_filling(&self) -> Result<bool, ProfileError> {
        self.has_member(Profile::needs_filling)
    }

    /// Those of its members, added up.
    fn counts_flash(&self) -> bool {
        self.has_member(|profile| Ok(profile.counts_flash())).unwrap_or_default()
    }

    fn has_write_cache(&self) -> Option<bool> {
        None
    }
}

impl ArrayDriveConfig {
    /// Whether something is so of a member. Every member is asked, so that none is unknown.
    fn has_member(
        &self,
        is_so: fn(&Profile) -> Result<bool, ProfileError>,
    ) -> Result<bool, ProfileError> {
        let wrong = |what: String| ProfileError::Array { name: self.layout.clone(), what };
        let mut found = false;
        for name in self.member_names().map_err(wrong)? {
            found |= is_so(&load_member(name)?)?;
        }
        Ok(found)
    }

    /// The profile of each member.
    ///
    /// # Errors
    /// In words, if a count is no number or there are more members than a layout can have.
    pub fn member_names(&self) -> Result<Vec<&str>, String> {
        expand(self.members.iter().map(String::as_str)).map_err(|what| format!("`members` {what}"))
    }

    /// What each member of an array of `geometry` has, as it is opened.
    pub(crate) fn member_capacity(&self, geometry: Geometry) -> Result<ByteCount, String> {
        let config = self.array_config(geometry.sector_bytes, false)?;
        let sector_count = config.member_sector_count_for(geometry.sector_count);
        Ok(Geometry { sector_count, ..geometry }.capacity())
    }

    fn array_config(&self, sector_bytes: u32, keeps_data: bool) -> Result<ArrayConfig, String> {
        let member_count = to_u32(self.member_names()?.len() as u64);
        let member_count = u8::try_from(member_count).expect("the expansion is limited");
        let layout = Layout::parse(&self.layout, member_count);
        let layout = layout.map_err(|error| match error {
            ArrayError::Layout { .. } => format!("`layout` {error}"),
            _ => error.to_string(),
        })?;
        let is_whole = sector_bytes > 0 && self.fragment_bytes.is_multiple_of(sector_bytes);
        if !is_whole || !(1..=65_536).contains(&(self.fragment_bytes / sector_bytes.max(1))) {
            return Err("`fragment_bytes` must be 1 to 65536 whole sectors".into());
        }
        if self.queue_depth == 0 || self.member_timeout_ns == Nanos::ZERO {
            return Err("`queue_depth` and `member_timeout_ns` must be above 0".into());
        }
        Ok(ArrayConfig {
            layout,
            fragment_sector_count: self.fragment_bytes / sector_bytes,
            write_return: self.write_return,
            queue_depth_max: self.queue_depth,
            member_error_count_max: self.member_error_count_max,
            member_timeout: Some(self.member_timeout_ns),
            keeps_data,
        })
    }

    /// The largest array that its members make.
    fn whole_geometry(&self) -> Result<Geometry, ProfileError> {
        let wrong = |what: String| ProfileError::Array { name: self.layout.clone(), what };
        let mut smallest: Option<Geometry> = None;
        for name in self.member_names().map_err(wrong)? {
            let geometry = load_member(name)?.geometry;
            let sector_count = smallest.map_or(u64::MAX, |smallest| smallest.sector_count);
            let sector_count = sector_count.min(geometry.sector_count);
            smallest = Some(Geometry { sector_count, ..geometry });
        }
        let smallest = smallest.ok_or_else(|| wrong("has no members".into()))?;
        let config = self.array_config(smallest.sector_bytes, true).map_err(wrong)?;
        let sector_count = config.sector_count_over(smallest.sector_count);
        let geometry = Geometry::new(smallest.sector_bytes, sector_count);
        geometry.map_err(|_| wrong(format!("has members of {}, too small", smallest.capacity())))
    }
}

fn load_member(name: &str) -> Result<Profile, ProfileError> {
    let profile = Profile::load(name)?;
    if profile.kind() == DriveKind::Array {
        let what = "is an array; name drives, not arrays, as members".into();
        return Err(ProfileError::Array { name: name.into(), what });
    }
    Ok(profile)
}

/// `a*2`, `b` as `a`, `a`, `b`.
fn expand<'a>(members: impl Iterator<Item = &'a str>) -> Result<Vec<&'a str>, String> {
    let most = usize::from(nandu_array::MEMBER_COUNT_MAX);
    let mut all = Vec::new();
    for member in members {
        let (name, count) = match member.rsplit_once('*') {
            None => (member, 1),
            Some((name, count)) => match count.parse::<usize>() {
                Ok(count) => (name, count),
                Err(_) => return Err(format!("`{member}`: write a number after the `*`")),
            },
        };
        if name.is_empty() {
            return Err(format!("`{member}`: a member has a name"));
        }
        if all.len().saturating_add(count) > most {
            return Err(format!("are more than {most}, the most that an array can have"));
        }
        all.extend(std::iter::repeat_n(name, count));
    }
    if all.is_empty() {
        return Err("are none; name one or more".into());
    }
    Ok(all)
}

/// An array as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayAddress {
    text: String,
    config: ArrayDriveConfig,
    is_simulated: bool,
}

impl ArrayAddress {
    /// Reads `array:LAYOUT[/FRAGMENT]:MEMBER[*N][+MEMBER[*N]]…`.
    ///
    /// # Errors
    /// In words, what is wrong with it and how it should be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = "write array:LAYOUT:MEMBER*N, for example array:stripe:sim:device-a*4";
        let rest = text.strip_prefix(ADDRESS_PREFIX).unwrap_or(text);
        let (layout, members) = rest.split_once(':').ok_or_else(|| form.to_owned())?;
        let (layout, fragment) = match layout.split_once('/') {
            None => (layout, DEFAULT_FRAGMENT_BYTES),
            Some((layout, size)) => (layout, ByteCount::parse(size)?),
        };
        let members: Vec<&str> = members.split('+').collect();
        let simulated_count = members.iter().filter(|member| member.starts_with("sim:")).count();
        if simulated_count != 0 && simulated_count != members.len() {
            return Err("its members must be all sim:NAME or all paths".into());
        }
        let name = |member: &&str| member.strip_prefix("sim:").unwrap_or(member).to_owned();
        let config = ArrayDriveConfig {
            layout: layout.to_owned(),
            fragment_bytes: u32::try_from(fragment.0).unwrap_or(u32::MAX),
            members: members.iter().map(name).collect(),
            write_return: WriteReturn::All,
            queue_depth: DEFAULT_QUEUE_DEPTH,
            member_error_count_max: DEFAULT_MEMBER_ERROR_COUNT_MAX,
            member_timeout_ns: DEFAULT_MEMBER_TIMEOUT_NS,
        };
        config.check(512)?;
        Ok(Self { text: text.to_owned(), config, is_simulated: simulated_count > 0 })
    }

    /// Whether its members are simulated drives.
    #[must_use]
    pub const fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// It as a profile, which is what a simulated array is everywhere else.
    ///
    /// # Errors
    /// If a member is unknown, or the members are paths or do not fit.
    pub fn profile(&self) -> Result<Profile, ProfileError> {
        let wrong = |what: String| ProfileError::Array { name: self.text.clone(), what };
        if !self.is_simulated {
            return Err(wrong("has files as members; a simulated drive has sim:NAME".into()));
        }
        let config = &self.config;
        let geometry = config.whole_geometry().map_err(|error| error.within(&self.text))?;
        let table = toml::Table::try_from(config).map_err(|error| wrong(error.to_string()))?;
        let text = format!(
            "title = \"{} over {}\"\nkind = \"array\"\ncapacity = \"{}\"\nsector_bytes = {}\n\n\
             [array]\n{table}\n[sources]\narray = \"[C] the address\"\n",
            config.layout,
            config.members.join(", "),
            geometry.capacity().0,
            geometry.sector_bytes
        );
        Profile::parse(&self.text, "the address", &text)
    }

    /// Opens an array of files: of scratch files in directories, or of files that may be destroyed.
    /// It is written once before it is handed out.
    ///
    /// # Errors
    /// As [`Target::open_watched`].
    pub(crate) fn open_files(
        &self,
        options: &OpenOptions,
        progress: &mut dyn FnMut(ByteCount),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<ArrayOfFiles, TargetError> {
        let wrong = |what: String| TargetError::Array { text: self.text.clone(), what };
        if options.read_only {
            return Err(wrong("cannot be opened for reading only: its members are new".into()));
        }
        let sector_bytes = options.sector_bytes.unwrap_or(4096);
        let config = self.config.array_config(sector_bytes, true).map_err(wrong)?;
        let config = ArrayConfig { queue_depth_max: options.queue_depth.max(1), ..config };
        let size = options.size.unwrap_or(crate::target::DEFAULT_SCRATCH_BYTES);
        let sectors = config.member_sector_count_for(size.0 / u64::from(sector_bytes));
        let member_bytes = ByteCount(sectors.saturating_mul(u64::from(sector_bytes)));
        let options = OpenOptions { sector_bytes: Some(sector_bytes), ..*options };
        let mut members: Vec<Box<dyn Device>> = Vec::new();
        let mut first = None;
        for name in self.config.member_names().map_err(wrong)? {
            let (drive, direct, is_scratch) = open_member(name, &options, member_bytes)?;
            first.get_or_insert((
                Path::new(name).to_path_buf(),
                drive.engine(),
                direct,
                is_scratch,
            ));
            members.push(Box::new(drive));
        }
        let array = ArrayDevice::<dyn Device>::create(config, members);
        let mut array = array.map_err(|error| wrong(error.to_string()))?.named(&self.text);
        let stripe_bytes = u64::from(config.layout.needed_count())
            * u64::from(config.fragment_sector_count)
            * u64::from(sector_bytes);
        let write_bytes = FILL_WRITE_BYTES.next_multiple_of(stripe_bytes);
        file::fill_by(&mut array, write_bytes, options.seed, progress, cancelled)?;
        array.reset_counters();
        let (path, engine, direct, is_scratch) = first.expect("an array has members");
        Ok(ArrayOfFiles { array, path, engine, direct, is_scratch })
    }
}

impl fmt::Display for ArrayAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// An array of files and what its first member is.
pub(crate) struct ArrayOfFiles {
    pub(crate) array: ArrayDevice<dyn Device>,
    pub(crate) path: std::path::PathBuf,
    pub(crate) engine: file::EngineKind,
    pub(crate) direct: bool,
    pub(crate) is_scratch: bool,
}

/// A member with whether it is direct and whether it is a scratch file of `size`.
fn open_member(
    name: &str,
    options: &OpenOptions,
    size: ByteCount,
) -> Result<(FileDrive, bool, bool), TargetError> {
    match Target::parse(name)? {
        Target::Scratch(directory) => {
            let direct = match options.direct {
                Some(direct) => direct,
                None => can_direct(&directory, options)?,
            };
            let scratch = ScratchFile::create(&directory, size, options.reserve)?;
            Ok((scratch.into_drive(options.of_file(direct))?, direct, true))
        }
        Target::Existing(path) => {
            let (drive, direct) = open_existing(&path, options)?;
            Ok((drive, direct, false))
        }
        other @ (Target::Simulated(_) | Target::Array(_)) => {
            let what = "is no path; members are all sim:NAME or all paths".into();
            Err(TargetError::Array { text: other.to_string(), what })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_device::testing::{check_contract, run};
    use nandu_device::{IoBuffer, Request, TimeSource};

    fn small() -> OpenOptions {
        let reserve = ByteCount::mib(1);
        OpenOptions { size: Some(ByteCount::mib(4)), reserve, ..OpenOptions::default() }
    }

    #[test]
    fn an_address_over_simulated_drives_is_a_drive_like_any_other() {
        let target = Target::parse("array:parity/16KiB:sim:pcm*2+sim:dram-like*2").unwrap();
        assert_eq!(target.to_string(), "array:parity/16KiB:sim:pcm*2+sim:dram-like*2");
        let mut open = target.open(&small()).unwrap();
        let info = open.device().info().clone();
        assert_eq!(info.name, "array:parity/16KiB:sim:pcm*2+sim:dram-like*2");
        assert_eq!(info.time_source, TimeSource::Virtual);
        let capacity = info.geometry.capacity();
        assert!(capacity <= ByteCount::mib(4) + ByteCount::kib(48), "{capacity}");
        assert!(capacity > ByteCount::mib(4) - ByteCount::kib(48), "{capacity}");
        run(open.device_mut(), Request::read(1, 0, 8, None)).result.unwrap();
        let profile = Profile::load("array:stripe:sim:pcm*4").unwrap();
        assert!(profile.figures_without_source().is_empty());
        let whole = profile.geometry.capacity();
        assert!(whole > ByteCount::gib(31) && whole <= ByteCount::gib(32), "{whole}");
    }

    #[test]
    fn arrays_of_every_layout_over_simulated_drives_keep_the_contract() {
        for layout in ["one_copy", "stripe", "replication", "parity", "m2w3"] {
            let profile = Profile::load(&format!("array:{layout}/4KiB:sim:pcm*4")).unwrap();
            check_contract(&mut || {
                let capacity = Some(ByteCount::mib(1));
                profile.open(SimOptions { capacity, ..SimOptions::default() }).unwrap()
            });
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        let error = |text: &str| match Target::parse(text) {
            Err(error) => error.to_string(),
            Ok(target) => target.open(&small()).unwrap_err().to_string(),
        };
        for (text, words) in [
            ("array:stripe", "write array:LAYOUT:MEMBER*N"),
            ("array:raid5:sim:pcm*4", "write one_copy, stripe, replication, parity"),
            ("array:m3w5:sim:pcm*4", "3 of 5 fragments on 4 members"),
            ("array:stripe:sim:pmc*4", "did you mean `pcm`?"),
            ("array:stripe:sim:pcm*many", "write a number after the `*`"),
            ("array:stripe:sim:pcm*25", "more than 24"),
            ("array:stripe:sim:pcm*0", "are none"),
            ("array:stripe:sim:pcm+/tmp", "all sim:NAME or all paths"),
            ("array:stripe/100:sim:pcm*2", "`fragment_bytes` must be 1 to 65536 whole sectors"),
            ("array:stripe:sim:myers-stripe*2", "name drives, not arrays"),
            ("array:stripe:/no/such/thing*2", "no such file"),
        ] {
            let error = error(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn an_array_of_scratch_files_keeps_data_and_the_contract() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        for text in [format!("array:parity/8KiB:{path}*3"), format!("array:replication:{path}*2")] {
            let target = Target::parse(&text).unwrap();
            let options = OpenOptions { size: Some(ByteCount::mib(2)), ..small() };
            check_contract(&mut || target.open(&options).unwrap().into_device());
            let mut filled = ByteCount::ZERO;
            let mut show = |bytes| filled = bytes;
            let open = target.open_watched(&options, &mut show, &|| false).unwrap();
            assert_eq!(filled, open.device().info().geometry.capacity());
            assert_eq!(open.device().info().time_source, TimeSource::Wall);
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn files_become_members_with_permission_only_and_damage_is_repaired() {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..3).map(|n| directory.path().join(format!("member-{n}"))).collect();
        paths.iter().for_each(|path| std::fs::write(path, vec![7; 1 << 20]).unwrap());
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let target = Target::parse(&format!("array:parity/8KiB:{}", names.join("+"))).unwrap();
        let refused = OpenOptions { size: None, ..small() };
        assert!(target.open(&refused).unwrap_err().to_string().contains("--destroy-data"));
        assert_eq!(std::fs::read(&paths[2]).unwrap(), vec![7; 1 << 20]);
        let permitted = OpenOptions { destroy_data: true, ..refused };
        let mut open = target.open(&permitted).unwrap();
        let device = open.device_mut();
        let mut bytes = vec![0; 16384];
        nandu_base::Rng::new(4).fill(&mut bytes);
        run(device, Request::write(1, 4, 4, Some(IoBuffer::copy_of(&bytes)))).result.unwrap();
        run(device, Request::flush(2)).result.unwrap();
        // A member is overwritten behind the array's back.
        std::fs::write(&paths[0], vec![9; 1 << 20]).unwrap();
        let done = run(device, Request::read(3, 4, 4, Some(IoBuffer::zeroed(16384))));
        assert!(done.result.is_ok() && done.buffer.unwrap()[..] == bytes[..]);
    }
}
