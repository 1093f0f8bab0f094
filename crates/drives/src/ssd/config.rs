//! What an SSD is made of: chips, a translation layer, a controller, a link.

use super::energy::SsdPowerConfig;
use nandu_base::Nanos;
use nandu_device::{DeviceError, Geometry};
use nandu_ftl::{Ftl, FtlConfig};
use nandu_nand::{
    BusPolicy, ChipOverrides, NandArray, NandConfig, NandProfile, Scheduling, Service, Suspend,
};
use serde::{Deserialize, Serialize};

/// The parts of a simulated SSD. Every time is in nanoseconds, every size in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdConfig {
    /// Name of the NAND preset (`nandu_nand` presets).
    pub chip: String,
    /// Independent buses between controller and dies.
    pub channel_count: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes of a die that work together, if not the preset's.
    #[serde(default)]
    pub planes_per_die: Option<u32>,
    /// What differs from the preset.
    #[serde(default)]
    pub chip_overrides: Box<ChipOverrides>,
    /// Physical capacity beyond the logical, in parts per million of the logical one.
    pub over_provisioning_ppm: u32,
    /// Erase blocks of the whole array, bad ones and the layer's own included; by default as many as
    /// capacity and over-provisioning ask for, and more for those that come bad. A multiple of the
    /// planes.
    #[serde(default)]
    pub physical_erase_blocks: Option<u32>,
    /// The translation layer with its parameters.
    pub ftl: FtlConfig,
    /// Commands that the controller works on at once; 1 for drives without queueing.
    pub native_queue_depth: u32,
    /// Writes that it works on at once, where they have slots of their own.
    #[serde(default)]
    pub native_write_depth: Option<u32>,
    /// Whether the host's reads go before everything of their die that has not begun.
    #[serde(default)]
    pub read_priority: bool,
    /// Whether they also interrupt programs and erases, and what that costs; needs `read_priority`.
    #[serde(default)]
    pub suspend: Option<Suspend>,
    /// Whose transfer a channel takes first.
    #[serde(default)]
    pub bus: BusPolicy,
    /// Controller time per read command; the controller does one thing at a time.
    pub read_command_ns: Nanos,
    /// Controller time per write command.
    pub write_command_ns: Nanos,
    /// Further controller time of a read that does not continue the one before: the look-up of its
    /// address in the firmware's map.
    #[serde(default)]
    pub map_lookup_ns: Nanos,
    /// Further delay of every command in which the controller can do other work: link and host
    /// protocol, polling, firmware pipeline.
    #[serde(default)]
    pub pipeline_ns: Nanos,
    /// Host link, each way; zero takes no time.
    pub link_bytes_per_second: u64,
    /// Host link for reads, where it differs.
    #[serde(default)]
    pub link_to_host_bytes_per_second: Option<u64>,
    /// Sequential read-ahead; zero has none.
    #[serde(default)]
    pub read_ahead_bytes: u64,
    /// Memory for writes that wait for their program; zero writes through.
    #[serde(default)]
    pub write_buffer_bytes: u64,
    /// How long a write that would have the layer move other data is held in memory first, because a
    /// neighbour may come and be written with it. Controller and chips do other work meanwhile. Only for
    /// chunk mapping without a write buffer.
    #[serde(default)]
    pub write_hold_ns: Nanos,
    /// Partly written mapping units that the controller keeps open, at least 1.
    #[serde(default = "one")]
    pub open_unit_count: u32,
    /// Whether what is in memory survives a power cut (a capacitor backs it).
    #[serde(default)]
    pub power_loss_protected: bool,
    /// Whether unfinished chip commands are remembered, which [`super::Ssd::power_cut`] needs.
    #[serde(default)]
    pub power_cut_journal: bool,
    /// Time of a trim command beyond the controller's write command.
    #[serde(default)]
    pub trim_ns: Nanos,
    /// Time of a flush beyond draining the buffer.
    #[serde(default)]
    pub flush_ns: Nanos,
    /// What the drive draws; without it nothing is known of its energy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<SsdPowerConfig>,
}

/// Dies of a drive: their number and a time share a word of 64 bits where events are ordered.
const DIE_COUNT_MAX: u32 = 4096;
/// The smallest unit of a translation layer: a sector.
const UNIT_BYTES_MIN: u32 = 512;
/// Mapping units that the chips of a drive may hold, of each of which a simulation keeps some bytes.
const SLOT_COUNT_MAX: u64 = 1 << 31;

const fn one() -> u32 {
    1
}

impl SsdConfig {
    /// Checks what the parts themselves do not.
    ///
    /// # Errors
    /// Names the field and what it must be.
    pub fn validate(&self) -> Result<(), DeviceError> {
        let invalid = |what: &str| Err(DeviceError::InvalidGeometry { what: what.into() });
        if self.channel_count == 0 || self.dies_per_channel == 0 {
            return invalid("channel_count and dies_per_channel must be at least 1");
        }
        if self.channel_count.saturating_mul(self.dies_per_channel) > DIE_COUNT_MAX {
            let what = format!(
                "channel_count {} x dies_per_channel {} are more than {DIE_COUNT_MAX} dies",
                self.channel_count, self.dies_per_channel
            );
            return invalid(&what);
        }
        if self.native_queue_depth == 0 || self.native_write_depth == Some(0) {
            return invalid("native_queue_depth and native_write_depth must be at least 1");
        }
        if self.open_unit_count == 0 {
            return invalid("open_unit_count must be at least 1");
        }
        if self.suspend.is_some() && !self.read_priority {
            return invalid("suspend is for reads that have priority: set read_priority = true");
        }
        if self.write_hold_ns > Nanos::ZERO {
            // A buffer acknowledges first and writes later: there is nobody who would wait.
            if self.write_buffer_bytes > 0 {
                return invalid("write_hold_ns is for drives without a write buffer");
            }
            if !matches!(self.ftl, FtlConfig::Chunk(_)) {
                return invalid("write_hold_ns is for chunk mapping: set ftl kind = \"chunk\"");
            }
        }
        if self.over_provisioning_ppm == 0 {
            return invalid("over_provisioning_ppm must be above 0: cleaning needs room");
        }
        match self.power.as_ref().map(SsdPowerConfig::check) {
            Some(Err(what)) => invalid(what),
            _ => Ok(()),
        }
    }

    /// Slots of all commands, and those of writes alone.
    pub(super) fn slots(&self) -> [u32; 2] {
        [self.native_queue_depth, self.native_write_depth.unwrap_or(0)]
    }

    /// How the chips order their commands.
    #[must_use]
    pub const fn scheduling(&self) -> Scheduling {
        let Self { read_priority, suspend, bus, .. } = *self;
        Scheduling { service: Service::Parallel, read_priority, suspend, bus }
    }

    /// The chips of a drive of `geometry`.
    ///
    /// # Errors
    /// If the chip is unknown or the parts do not fit together.
    pub fn nand_config(
        &self,
        geometry: Geometry,
        keep_data: bool,
    ) -> Result<NandConfig, DeviceError> {
        let invalid = |what: String| DeviceError::InvalidGeometry { what };
        let mut nand = self.nand_profile().resolve().map_err(|error| invalid(error.to_string()))?;
        let shape = &nand.geometry;
        let planes = shape.die_count() * shape.planes_per_die;
        let erase_blocks_per_plane = match self.physical_erase_blocks {
            Some(count) if count == 0 || !count.is_multiple_of(planes) => {
                let nearest = count.div_ceil(planes).max(1).saturating_mul(planes);
                return Err(invalid(format!(
                    "physical_erase_blocks is {count}, must be a multiple of the {planes} planes \
                     of all dies; {nearest} is one"
                )));
            }
            Some(count) => count / planes,
            None => self.ftl.erase_blocks_per_plane(
                shape,
                geometry.capacity().0,
                self.over_provisioning_ppm,
            ),
        };
        nand.geometry.erase_blocks_per_plane = erase_blocks_per_plane;
        let page_bytes = nand.geometry.flash_page_bytes;
        let (unit_bytes, least_bytes) =
            (self.ftl.unit_bytes(page_bytes), UNIT_BYTES_MIN.min(page_bytes));
        if !(least_bytes..=page_bytes).contains(&unit_bytes) {
            return Err(invalid(format!(
                "unit_bytes is {unit_bytes}, must be from {least_bytes} to the {page_bytes} of a \
                 flash page"
            )));
        }
        nand.units_per_flash_page = self.ftl.units_per_flash_page(page_bytes);
        nand.geometry.validate().map_err(|error| invalid(error.to_string()))?;
        let slots = nand.geometry.flash_page_count();
        if slots > SLOT_COUNT_MAX / u64::from(nand.units_per_flash_page) {
            return Err(invalid(format!(
                "capacity asks for more than {SLOT_COUNT_MAX} mapping units, which no simulation \
                 holds; take a smaller one, or larger units"
            )));
        }
        if self.physical_erase_blocks.is_none() {
            let enlarged = self.ftl.erase_blocks_per_plane_with_bad(&nand);
            nand.geometry.erase_blocks_per_plane = enlarged;
        }
        nand.keep_content = keep_data;
        nand.power_cut_journal = self.power_cut_journal;
        Ok(nand)
    }

    fn nand_profile(&self) -> NandProfile {
        NandProfile {
            preset: self.chip.clone(),
            channel_count: self.channel_count,
            dies_per_channel: self.dies_per_channel,
            planes_per_die: self.planes_per_die,
            erase_blocks_per_plane: 1,
            overrides: *self.chip_overrides,
            units_per_flash_page: None,
        }
    }

    /// The chips and the layer over them, for a drive of `geometry`.
    ///
    /// # Errors
    /// If the chip is unknown or the parts do not fit together.
    pub(super) fn build(
        &self,
        geometry: Geometry,
        keep_data: bool,
        seed: u64,
    ) -> Result<(NandArray, Box<dyn Ftl>), DeviceError> {
        self.build_on(self.nand_config(geometry, keep_data)?, geometry, seed)
    }

    /// An array as `nand` says and the layer over it: [`Self::nand_config`], perhaps changed since.
    ///
    /// # Errors
    /// If the parts do not fit together.
    pub fn build_on(
        &self,
        nand: NandConfig,
        geometry: Geometry,
        seed: u64,
    ) -> Result<(NandArray, Box<dyn Ftl>), DeviceError> {
        let invalid = |what: String| DeviceError::InvalidGeometry { what };
        let unit_bytes = u64::from(self.ftl.unit_bytes(nand.geometry.flash_page_bytes));
        let nand = NandArray::new(nand).map_err(|error| invalid(error.to_string()))?;
        let unit_count = geometry.capacity().0.div_ceil(unit_bytes);
        let ftl =
            self.ftl.build(&nand, unit_count, seed).map_err(|error| invalid(error.to_string()))?;
        Ok((nand, ftl))
    }
}
