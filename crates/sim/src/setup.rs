//! Which drive is simulated: a profile, a file of one, or a bare chip, with what the user changes.
//!
//! ```text
//!   NAME ─▶ TOML table ─▶ settings, in order ─▶ Profile (checked) ─▶ logical and physical size ─▶ Setup
//! ```
//!
//! 1. A setting reaches the table before it is checked, so it can say whatever a profile can say, and
//!    an unknown key names its nearest valid one.
//! 2. A bare chip is one die behind one channel with a page map: what the closed forms describe.

use crate::{RunConfig, SimError};
use nandu_base::ByteCount;
use nandu_base::words::nearest;
use nandu_device::Geometry;
use nandu_drives::profile::{DriveConfig, Profile, ProfileError};
use nandu_drives::ssd::SsdConfig;
use nandu_ftl::{Ftl, FtlConfig, FtlKind};
use nandu_nand::{NandArray, NandConfig};
use serde::{Deserialize, Serialize};

/// Erase blocks of a bare chip, if nobody says how many.
const CHIP_ERASE_BLOCKS: u32 = 2048;
/// Over-provisioning of a bare chip: 85 % utilisation.
const CHIP_OVER_PROVISIONING_PPM: u32 = 176_471;
const SECTOR_BYTES: u32 = 512;
/// Keys of a profile outside its sections.
const ROOT_KEYS: [&str; 7] =
    ["title", "paper", "kind", "capacity", "sector_bytes", "ssd", "sources"];

/// A drive and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveChoice {
    /// A profile, with or without `sim:`, a file of one, or a chip preset.
    pub name: String,
    /// Kind of translation layer; its parameters are the defaults unless the drive has that kind.
    pub ftl: Option<String>,
    /// Which erase block is cleaned next.
    pub victim: Option<String>,
    /// Flash pages of an erase block.
    pub erase_block_pages: Option<u32>,
    /// Erase blocks of the whole array.
    pub physical_erase_blocks: Option<u32>,
    /// Flash pages that the host sees.
    pub logical_pages: Option<u64>,
    /// Further keys of the profile with their values, such as `ssd.channel_count` and `4`; `ssd.`
    /// may be left out.
    pub settings: Vec<(String, String)>,
}

/// A drive that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The name of the profile or of the chip.
    pub name: String,
    /// Controller, link and translation layer, of which a simulation uses the layer.
    pub ssd: SsdConfig,
    /// The array of chips below the layer.
    pub nand: NandConfig,
    /// Its addressable space.
    pub geometry: Geometry,
}

impl Setup {
    /// The memory of this process that a simulation comes to take, beside what the program takes without
    /// one: within 30 % of what was measured for each layer (`tests/memory.rs`).
    #[must_use]
    pub fn memory(&self, run: &RunConfig) -> ByteCount {
        let pages = self.nand.geometry.flash_page_count();
        let units = pages.saturating_mul(u64::from(self.nand.units_per_flash_page));
        let of_unit = TAG_BYTES + self.ssd.ftl.memory_bytes_per_unit();
        let checked = if run.checks { CHECKED_UNIT_BYTES } else { 0 };
        ByteCount(pages.saturating_add(units.saturating_mul(of_unit + checked)))
    }

    /// Bytes of a mapping unit.
    #[must_use]
    pub fn unit_bytes(&self) -> u32 {
        self.ssd.ftl.unit_bytes(self.nand.geometry.flash_page_bytes)
    }

    /// Bytes that the drive holds, in whole units.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.geometry.capacity().0.next_multiple_of(u64::from(self.unit_bytes()))
    }
}

/// Bytes that the chips keep of each mapping unit; of each flash page it is one more.
const TAG_BYTES: u64 = 4;
/// Bytes of each unit more where all is checked: its content on the chips, in a hash map, and what it
/// should hold.
const CHECKED_UNIT_BYTES: u64 = 73;

impl DriveChoice {
    /// The drive with everything in place.
    ///
    /// # Errors
    /// If there is no such drive (naming the nearest), a setting is wrong (naming the nearest key), or
    /// the parts do not make a drive.
    pub fn resolve(&self, keep_content: bool) -> Result<Setup, SimError> {
        let name = self.name.strip_prefix("sim:").unwrap_or(&self.name);
        let is_chip = nandu_nand::preset(name).is_ok();
        let (mut table, origin) = if is_chip { chip_table(name) } else { profile_table(name)? };
        self.apply(&mut table)?;
        let text = table.to_string();
        let profile = Profile::parse(name, &origin, &text).map_err(|error| self.blame(error))?;
        let DriveConfig::Ssd(mut ssd) = profile.drive else {
            return Err(SimError::Setting(format!(
                "{name} has no flash; `nandu sim` takes drives of the kind ssd, and chips"
            )));
        };
        if is_chip && !self.says_size() {
            let planes = self.shape(&ssd, profile.geometry)?.geometry.planes_per_die;
            ssd.physical_erase_blocks = Some(CHIP_ERASE_BLOCKS.next_multiple_of(planes));
        }
        let geometry = self.geometry(&ssd, profile.geometry)?;
        let nand = ssd.nand_config(geometry, keep_content).map_err(|error| self.fault(error))?;
        Ok(Setup { name: name.into(), ssd, nand, geometry })
    }

    fn says_size(&self) -> bool {
        let says_capacity = self.settings.iter().any(|(key, _)| key == "capacity");
        self.physical_erase_blocks.is_some() || self.logical_pages.is_some() || says_capacity
    }

    fn fault(&self, error: nandu_device::DeviceError) -> SimError {
        SimError::Drive { name: self.name.clone(), error }
    }

    /// The chips of the drive, whatever their number.
    fn shape(&self, ssd: &SsdConfig, geometry: Geometry) -> Result<NandConfig, SimError> {
        let free = SsdConfig { physical_erase_blocks: None, ..ssd.clone() };
        free.nand_config(geometry, false).map_err(|error| self.fault(error))
    }

    /// The addressable space: what was asked for, else what fits the erase blocks that were asked
    /// for, else the profile's.
    fn geometry(&self, ssd: &SsdConfig, profile: Geometry) -> Result<Geometry, SimError> {
        if self.logical_pages.is_none() && ssd.physical_erase_blocks.is_none() {
            return Ok(profile);
        }
        let shape = self.shape(ssd, profile)?.geometry;
        let pages = match (self.logical_pages, ssd.physical_erase_blocks) {
            (Some(pages), _) => pages,
            (None, count) => {
                let planes = u64::from(shape.die_count() * shape.planes_per_die);
                let ppm = ssd.over_provisioning_ppm;
                let aside = u64::from(ssd.ftl.erase_blocks_per_plane(&shape, 0, ppm)) * planes;
                let nand = ssd.nand_config(profile, false).map_err(|error| self.fault(error))?;
                // Bad ones are no spare space, as where the capacity is given.
                let lost = ssd.ftl.lost_erase_blocks(&nand);
                let blocks = u64::from(count.unwrap_or(0)).saturating_sub(aside + lost);
                let data_pages = blocks * u64::from(shape.flash_pages_per_erase_block);
                let scaled = u128::from(data_pages) * 1_000_000 / (1_000_000 + u128::from(ppm));
                u64::try_from(scaled).unwrap_or(data_pages)
            }
        };
        let sectors = pages.checked_mul(u64::from(shape.flash_page_bytes / SECTOR_BYTES));
        let sectors = sectors.filter(|&count| count > 0).ok_or_else(|| {
            SimError::Setting(format!(
                "{pages} logical pages of {} bytes are no drive",
                shape.flash_page_bytes
            ))
        })?;
        Geometry::new(SECTOR_BYTES, sectors).map_err(|error| self.fault(error))
    }

    /// Puts the user's settings into the table of a profile.
    fn apply(&self, table: &mut toml::Table) -> Result<(), SimError> {
        let counts = [
            ("ssd.chip_overrides.flash_pages_per_erase_block", self.erase_block_pages),
            ("ssd.physical_erase_blocks", self.physical_erase_blocks),
        ];
        for (key, count) in counts {
            if let Some(count) = count {
                set(table, key, toml::Value::Integer(i64::from(count)))?;
            }
        }
        let (of_layer, others): (Vec<_>, Vec<_>) =
            self.settings.iter().partition(|(key, _)| is_of_layer(key));
        for (key, value) in others {
            set(table, key, parse_value(key, value))?;
        }
        if let Some(kind) = &self.ftl {
            choose_layer(table, kind)?;
        }
        for (key, value) in of_layer {
            set(table, key, parse_value(key, value))?;
        }
        if let Some(victim) = &self.victim {
            set(table, "ssd.ftl.victim", toml::Value::String(victim.clone()))?;
        }
        Ok(())
    }

    /// The error of a profile, as the user's own where a setting caused it.
    fn blame(&self, error: ProfileError) -> SimError {
        let ProfileError::Invalid { message, nearest, .. } = &error else { return error.into() };
        let quoted = message.split('`').nth(1).unwrap_or_default();
        // What is no value of TOML, such as a number past its largest, became a text.
        let as_text = message.split('"').nth(1).unwrap_or(quoted);
        let names = |key: &str, value: &str| {
            let value = value.trim_matches('"');
            let is_value = |said: &str| value.eq_ignore_ascii_case(said);
            key.rsplit('.').next() == Some(quoted) || is_value(quoted) || is_value(as_text)
        };
        let setting = self.settings.iter().find(|(key, value)| names(key, value));
        let source = match (setting, &self.ftl, &self.victim) {
            (Some((key, value)), ..) => format!("{key}={value}"),
            (_, _, Some(victim)) if victim == quoted || quoted == "victim" => {
                format!("victim {victim}")
            }
            (_, Some(ftl), _) => format!("translation layer {ftl}"),
            _ if self.settings.is_empty() => return error.into(),
            _ => "settings".into(),
        };
        let lines: Vec<&str> = message.split_whitespace().collect();
        let hint = nearest.as_ref().map(|name| format!("; did you mean `{name}`?"));
        SimError::Setting(format!("{source}: {}{}", lines.join(" "), hint.unwrap_or_default()))
    }
}

impl Setup {
    /// The array and the layer over it.
    ///
    /// # Errors
    /// If the parts do not fit together.
    pub fn build(&self, seed: u64) -> Result<(NandArray, Box<dyn Ftl>), SimError> {
        self.ssd
            .build_on(self.nand, self.geometry, seed)
            .map_err(|error| SimError::Drive { name: self.name.clone(), error })
    }
}

/// A drive of one die, as a profile would describe it.
fn chip_table(name: &str) -> (toml::Table, String) {
    let text = format!(
        "title = \"one die of {name}\"\nkind = \"ssd\"\ncapacity = \"16MiB\"\n\
         sector_bytes = {SECTOR_BYTES}\n[ssd]\nchip = \"{name}\"\nchannel_count = 1\n\
         dies_per_channel = 1\nover_provisioning_ppm = {CHIP_OVER_PROVISIONING_PPM}\n\
         ftl = {{ kind = \"page\" }}\nnative_queue_depth = 32\nread_command_ns = 0\n\
         write_command_ns = 0\nlink_bytes_per_second = 0\n"
    );
    (text.parse().expect("our own text is TOML"), format!("chip {name}"))
}

fn profile_table(name: &str) -> Result<(toml::Table, String), SimError> {
    let profile = Profile::load(name).map_err(|error| match error {
        ProfileError::NotFound { name, .. } => {
            let profiles = Profile::list();
            let chips = nandu_nand::presets().iter().map(|preset| preset.name);
            let known = profiles.iter().map(String::as_str).chain(chips);
            ProfileError::NotFound { nearest: nearest(&name, known).map(str::to_owned), name }
        }
        error => error,
    })?;
    let table = profile.text.parse().expect("a loaded profile is TOML");
    Ok((table, profile.origin))
}

fn is_of_layer(key: &str) -> bool {
    key.starts_with("ftl.") || key.starts_with("ssd.ftl.")
}

/// Sets what stands at a dotted path, making tables on the way.
fn set(table: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), SimError> {
    let first = path.split('.').next().unwrap_or_default();
    let prefix = if ROOT_KEYS.contains(&first) { None } else { Some("ssd") };
    let mut keys: Vec<&str> = prefix.into_iter().chain(path.split('.')).collect();
    let last = keys.pop().unwrap_or_default();
    let mut inner = table;
    for key in keys {
        let entry = inner.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        inner = entry.as_table_mut().ok_or_else(|| {
            SimError::Setting(format!("{path}: `{key}` is a figure and has no further keys"))
        })?;
    }
    inner.insert(last.into(), value);
    Ok(())
}

/// A value as TOML has it, sizes with a unit where the key is one of bytes, any other text as it is.
fn parse_value(key: &str, text: &str) -> toml::Value {
    if key.ends_with("_bytes")
        && let Ok(size) = ByteCount::parse(text)
        && let Ok(bytes) = i64::try_from(size.0)
    {
        return toml::Value::Integer(bytes);
    }
    let parsed = format!("value = {text}").parse::<toml::Table>();
    match parsed {
        Ok(mut table) if table.len() == 1 => {
            table.remove("value").unwrap_or_else(|| toml::Value::String(text.into()))
        }
        _ => toml::Value::String(text.into()),
    }
}

/// Replaces the layer by one of `kind` with its defaults, unless it is of that kind.
fn choose_layer(table: &mut toml::Table, kind: &str) -> Result<(), SimError> {
    let present = table.get("ssd").and_then(|ssd| ssd.get("ftl")?.get("kind")?.as_str());
    if present == Some(kind) {
        return Ok(());
    }
    let mut layer = toml::Table::new();
    layer.insert("kind".into(), toml::Value::String(kind.into()));
    // What is no layer is told by who reads the profile.
    if let Some(kind) = FtlKind::ALL.iter().find(|known| known.name() == kind) {
        for (key, value) in kind.needed(erase_block_bytes(table)) {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            layer.insert(key.into(), toml::Value::Integer(value));
        }
    }
    set(table, "ssd.ftl", toml::Value::Table(layer))
}

/// Bytes of an erase block of the drive; 1 if its chip is unknown, which is told elsewhere.
fn erase_block_bytes(table: &toml::Table) -> u64 {
    let ssd = table.get("ssd");
    let chip = ssd.and_then(|ssd| nandu_nand::preset(ssd.get("chip")?.as_str()?).ok());
    let Some(chip) = chip else { return 1 };
    let override_of = |key: &str| {
        let value = ssd?.get("chip_overrides")?.get(key)?.as_integer()?;
        u32::try_from(value).ok()
    };
    let pages = override_of("flash_pages_per_erase_block");
    let bytes = override_of("flash_page_bytes").unwrap_or(chip.flash_page_bytes);
    u64::from(pages.unwrap_or(chip.flash_pages_per_erase_block)) * u64::from(bytes)
}

/// What a layer keeps aside of an array, for closed forms: its own reserve, in erase blocks of all
/// planes together; only of layers that say so.
pub(crate) fn blocks_aside(ftl: &FtlConfig, shape: &nandu_nand::Geometry) -> u64 {
    let planes = u64::from(shape.die_count() * shape.planes_per_die);
    u64::from(ftl.erase_blocks_per_plane(shape, 0, 0)) * planes
}
