//! What a hard disk is made of, in the words of data sheets; the `[hdd]` section of a profile.

use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// How the time of a request is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HddModel {
    /// S004 3.1: t = average seek + half a rotation + bytes / rate, one request after the other.
    Simple,
    /// Arm and platter followed through time, zones, read-ahead, write-back cache, queueing.
    Detailed,
}

/// How the seek time grows between the three published points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeekShape {
    /// Linear in two sections, the approximation of S004 3.1.
    #[default]
    Linear,
    /// With the root of the distance up to a third of the stroke, where the arm accelerates and
    /// brakes, then linear, where it coasts.
    SquareRoot,
}

/// The `[hdd]` section of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddConfig {
    /// Which of the two models of a disk it is.
    pub model: HddModel,
    /// Time of any read before it reaches the cache or the arm: host, bus and controller.
    #[serde(default)]
    pub read_overhead_ns: Nanos,
    /// The same of a write.
    #[serde(default)]
    pub write_overhead_ns: Nanos,
    /// One revolution of the platter, not zero.
    pub revolution_ns: Nanos,
    /// Seek over a third of the stroke, which data sheets call the average.
    pub seek_average_ns: Nanos,
    /// Sustained rate in the outermost zone, bytes per second, switches of head included.
    pub outer_bytes_per_second: u64,
    /// Sustained rate in the innermost zone, at most the outermost. The simple model uses the mean.
    pub inner_bytes_per_second: u64,
    /// The mechanics that only the detailed model needs.
    pub mechanics: Option<MechanicsConfig>,
    /// The cache that only the detailed model has; absent means none.
    pub cache: Option<HddCacheConfig>,
    /// Power drawn; absent means that energy is not counted.
    pub power: Option<HddPowerConfig>,
}

/// Arm, heads and bus: the `[hdd.mechanics]` section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanicsConfig {
    /// Seek to the next cylinder.
    pub seek_min_ns: Nanos,
    /// Seek over the full stroke.
    pub seek_max_ns: Nanos,
    /// How the time grows in between.
    #[serde(default)]
    pub seek_shape: SeekShape,
    /// Recording surfaces, at least 1.
    pub head_count: u32,
    /// From one head of a cylinder to the next.
    pub head_switch_ns: Nanos,
    /// Zones of equal cylinder count, from 1 to 64; the rate falls linearly from zone to zone.
    pub zone_count: u32,
    /// Rate of the cable; zero takes no time.
    pub interface_bytes_per_second: u64,
    /// How many requests the drive sees and reorders; 1 is first come, first served.
    pub command_queue_depth: u32,
}

/// Segments of read-ahead and the write-back cache: the `[hdd.cache]` section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddCacheConfig {
    /// How many runs of sectors are remembered for reading; zero switches read-ahead off.
    pub read_segment_count: u32,
    /// How far the head reads on behind a request.
    pub read_ahead_bytes: u64,
    /// Room for written data; zero means write-through.
    pub write_cache_bytes: u64,
    /// How many separate runs of sectors may be dirty; adjacent writes join one run.
    pub write_extent_count_max: u32,
    /// How long the drive must have rested before it writes dirty data without need.
    pub destage_delay_ns: Nanos,
}

/// Power by what the drive does: the `[hdd.power]` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddPowerConfig {
    /// Spinning without work; waiting for the platter counts here.
    pub idle_milliwatts: u64,
    /// While the arm moves, at least idle.
    pub seek_milliwatts: u64,
    /// While bytes pass under the head, at least idle.
    pub transfer_milliwatts: u64,
    /// What it does after a long rest; absent means that it spins for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<HddStandbyConfig>,
}

/// Platters that stand still after a rest: the `[hdd.power.standby]` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddStandbyConfig {
    /// How long the drive must have rested before it stops, not zero; longer than it waits to destage.
    pub standby_after_ns: Nanos,
    /// While the platters stand, at most idle.
    pub standby_milliwatts: u64,
    /// From a request that finds the platters standing to when they run; every request waits for that.
    pub spin_up_ns: Nanos,
    /// While they get up to speed.
    pub spin_up_milliwatts: u64,
}

impl HddConfig {
    /// Checks ranges and that the sections fit the model.
    ///
    /// # Errors
    /// The first mistake; the key at fault comes first, in backticks.
    pub fn check(&self) -> Result<(), String> {
        need(self.revolution_ns > Nanos::ZERO, "`revolution_ns` is zero")?;
        need(self.inner_bytes_per_second > 0, "`inner_bytes_per_second` is zero")?;
        need(
            self.outer_bytes_per_second >= self.inner_bytes_per_second,
            "`outer_bytes_per_second` is below the inner zone's",
        )?;
        self.power.as_ref().map_or(Ok(()), |power| self.check_power(power))?;
        match (self.model, &self.mechanics) {
            (HddModel::Simple, _) => Ok(()),
            (HddModel::Detailed, None) => {
                Err("`model` is detailed, which needs a section [hdd.mechanics]".into())
            }
            (HddModel::Detailed, Some(mechanics)) => {
                self.check_mechanics(mechanics)?;
                self.cache.as_ref().map_or(Ok(()), HddCacheConfig::check)
            }
        }
    }

    fn check_power(&self, power: &HddPowerConfig) -> Result<(), String> {
        let idle = power.idle_milliwatts;
        need(power.seek_milliwatts >= idle, "`seek_milliwatts` is below idle")?;
        need(power.transfer_milliwatts >= idle, "`transfer_milliwatts` is below idle")?;
        let Some(standby) = &power.standby else { return Ok(()) };
        need(standby.standby_milliwatts <= idle, "`standby_milliwatts` is above idle")?;
        let destage = self.cache.as_ref().map_or(Nanos::ZERO, |cache| cache.destage_delay_ns);
        need(
            standby.standby_after_ns > destage,
            "`standby_after_ns` is not longer than the drive waits before it destages",
        )
    }

    fn check_mechanics(&self, mechanics: &MechanicsConfig) -> Result<(), String> {
        need(
            mechanics.seek_min_ns <= self.seek_average_ns,
            "`seek_min_ns` is above the average seek",
        )?;
        need(
            mechanics.seek_max_ns >= self.seek_average_ns,
            "`seek_max_ns` is below the average seek",
        )?;
        need((1..=64).contains(&mechanics.head_count), "`head_count` is not from 1 to 64")?;
        need((1..=64).contains(&mechanics.zone_count), "`zone_count` is not from 1 to 64")?;
        need(
            (1..=256).contains(&mechanics.command_queue_depth),
            "`command_queue_depth` is not from 1 to 256",
        )
    }
}

impl HddCacheConfig {
    fn check(&self) -> Result<(), String> {
        need(
            self.write_cache_bytes == 0 || self.write_extent_count_max > 0,
            "`write_extent_count_max` is zero, but there is a write cache",
        )?;
        need(
            self.write_cache_bytes == 0 || self.write_cache_bytes >= 1 << 17,
            "`write_cache_bytes` is neither zero nor at least 131072",
        )
    }
}

fn need(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
