//! One experiment: a stream of requests to a device. The language of S002 appendix A (Ajwani et al.
//! 2008), with queue depth, mixes and skew added.
//!
//! ```text
//!   area.start + alignment_offset_bytes
//!   │◄─ request_bytes ─►│                   │
//!   ├────── slot 0 ─────┼────── slot 1 ─────┼── … ──┤   slots are what accesses choose from
//! ```
//!
//! 1. Every request covers exactly one slot and lies inside the area.
//! 2. Without a distribution, random accesses visit every slot once before any slot twice.
//! 3. A sequential run starts at a random slot and wraps around.

use crate::{ProbeError, text};
use nandu_base::{AddressGenerator, ByteCount, Distribution, Nanos};
use nandu_device::DeviceInfo;
use serde::{Deserialize, Serialize};

/// The longest time from a completion to the next request.
const THINK_MAX: Nanos = Nanos::from_seconds(86_400);

/// Buffers of one pattern may take this much memory.
pub const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Sequential or random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// One slot after the other.
    Sequential,
    /// By a permutation, or by the pattern's distribution.
    Random,
}

impl Access {
    /// The name used in tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }
}

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// Incompressible bytes, made once for each buffer; eight bytes change with every write.
    #[default]
    Random,
    /// 0x00 to 0xff, again and again (S002).
    Cyclic,
    /// Zeros only, which a drive that compresses does not store.
    Zeros,
    /// The number of writes so far (S002: the approximate age of the device).
    Age,
}

/// When a run ends: at whichever limit comes first. At least one must be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// After so many reads and writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_count: Option<u64>,
    /// When no more requests are issued; those in flight are waited for.
    #[serde(
        default,
        deserialize_with = "text::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Nanos>,
}

impl Limit {
    /// Ends after `request_count` requests.
    #[must_use]
    pub const fn requests(request_count: u64) -> Self {
        Self { request_count: Some(request_count), duration: None }
    }

    /// Ends after `duration`.
    #[must_use]
    pub const fn time(duration: Nanos) -> Self {
        Self { request_count: None, duration: Some(duration) }
    }
}

/// The part of the device that is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Area {
    /// First byte, a multiple of the sector size.
    #[serde(default, deserialize_with = "text::size")]
    pub start: ByteCount,
    /// How long it is; absent means up to the end of the device.
    #[serde(
        default,
        deserialize_with = "text::optional_size",
        skip_serializing_if = "Option::is_none"
    )]
    pub length: Option<ByteCount>,
}

impl Area {
    /// Bytes of the area on a device of `capacity`.
    #[must_use]
    pub fn length_on(&self, capacity: ByteCount) -> ByteCount {
        self.length.unwrap_or_else(|| capacity.saturating_sub(self.start))
    }
}

/// A pattern of requests, and how long it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Name in tables; empty means [`Pattern::describe`].
    #[serde(default)]
    pub label: String,
    /// Sequential or random.
    pub access: Access,
    /// Share of reads: 100 reads only, 0 writes only.
    pub read_percent: u8,
    /// Bytes of each request, a multiple of the sector size.
    #[serde(deserialize_with = "text::size")]
    pub request_bytes: ByteCount,
    /// Shifts every request, for misalignment experiments; a multiple of the sector size.
    #[serde(default, deserialize_with = "text::size")]
    pub alignment_offset_bytes: ByteCount,
    /// When each run ends.
    pub limit: Limit,
    /// Requests kept in flight, at least 1.
    #[serde(default = "one")]
    pub queue_depth: u32,
    /// How many runs, at least 1.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// What is written.
    #[serde(default)]
    pub data: DataKind,
    /// How random accesses fall on the slots; absent means a permutation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Which part of the device.
    #[serde(default)]
    pub area: Area,
    /// A flush after every so many writes; 0 never.
    #[serde(default)]
    pub flush_every: u32,
    /// Time between a completion and the next request of the same place in the queue, in ns.
    #[serde(default, deserialize_with = "text::duration")]
    pub think_ns: Nanos,
    /// How finely throughput over time is kept, in ns; one second unless stated.
    #[serde(default = "one_second", deserialize_with = "text::duration")]
    pub timeline_period_ns: Nanos,
    /// Seed of addresses, mix and data.
    #[serde(default)]
    pub seed: u64,
}

const fn one() -> u32 {
    1
}

const fn one_second() -> Nanos {
    Nanos::from_seconds(1)
}

impl Pattern {
    /// A pattern of `request_bytes` with queue depth 1, one run and everything else at its default.
    #[must_use]
    pub fn new(access: Access, read_percent: u8, request_bytes: u64, limit: Limit) -> Self {
        Self {
            label: String::new(),
            access,
            read_percent,
            request_bytes: ByteCount(request_bytes),
            alignment_offset_bytes: ByteCount::ZERO,
            limit,
            queue_depth: 1,
            repetitions: 1,
            data: DataKind::default(),
            distribution: None,
            area: Area::default(),
            flush_every: 0,
            think_ns: Nanos::ZERO,
            timeline_period_ns: one_second(),
            seed: 0,
        }
    }

    /// The label, or what the pattern does where it has none.
    #[must_use]
    pub fn name(&self) -> String {
        if self.label.is_empty() { self.describe() } else { self.label.clone() }
    }

    /// `random read, 4 KiB, qd 32`.
    #[must_use]
    pub fn describe(&self) -> String {
        let operation = match self.read_percent {
            100 => "read".to_string(),
            0 => "write".to_string(),
            percent => format!("{percent} % read"),
        };
        let access = self.access.label();
        let mut text =
            format!("{access} {operation}, {}, qd {}", self.request_bytes, self.queue_depth);
        if self.alignment_offset_bytes > ByteCount::ZERO {
            text += &format!(", off by {}", self.alignment_offset_bytes);
        }
        text
    }

    /// Whether any request writes.
    #[must_use]
    pub const fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// How many slots there are on a device, 0 where not even one fits.
    #[must_use]
    pub fn slot_count(&self, info: &DeviceInfo) -> u64 {
        let length = self.area.length_on(info.geometry.capacity());
        let usable = length.saturating_sub(self.alignment_offset_bytes);
        usable.0.checked_div(self.request_bytes.0).unwrap_or(0)
    }

    /// Checks the pattern against itself and the device.
    ///
    /// # Errors
    /// [`ProbeError::Pattern`] naming the first key that does not fit, with the remedy.
    pub fn validate(&self, info: &DeviceInfo) -> Result<(), ProbeError> {
        self.problem(info)
            .map_or(Ok(()), |message| Err(ProbeError::Pattern { label: self.name(), message }))
    }

    fn problem(&self, info: &DeviceInfo) -> Option<String> {
        if self.read_percent > 100 {
            return Some(format!("read_percent is {}; it goes from 0 to 100", self.read_percent));
        }
        if self.limit.request_count.is_none() && self.limit.duration.is_none() {
            return Some("limit is empty; set request_count, duration or both".into());
        }
        if self.limit.request_count == Some(0) || self.limit.duration == Some(Nanos::ZERO) {
            return Some("limit is zero; a run needs at least one request".into());
        }
        if self.queue_depth == 0 || self.queue_depth > info.queue_depth_max {
            return Some(format!(
                "queue_depth is {}; {} takes 1 to {}",
                self.queue_depth, info.name, info.queue_depth_max
            ));
        }
        if self.repetitions == 0 {
            return Some("repetitions is 0; it must be at least 1".into());
        }
        if self.timeline_period_ns == Nanos::ZERO {
            return Some("timeline_period_ns is 0; it must be at least 1".into());
        }
        if self.think_ns > THINK_MAX {
            return Some("think_ns is longer than a day (24h); let the host think less".into());
        }
        self.size_problem(info).or_else(|| self.distribution_problem(info))
    }

    fn size_problem(&self, info: &DeviceInfo) -> Option<String> {
        let sector_bytes = u64::from(info.geometry.sector_bytes);
        if self.request_bytes == ByteCount::ZERO {
            return Some("request_bytes is 0; it must be at least one sector".into());
        }
        let multiples = [
            ("request_bytes", self.request_bytes),
            ("alignment_offset_bytes", self.alignment_offset_bytes),
            ("area.start", self.area.start),
        ];
        for (key, size) in multiples {
            if !size.0.is_multiple_of(sector_bytes) {
                return Some(format!(
                    "{key} is {} bytes; {} has sectors of {sector_bytes} bytes, so use a multiple",
                    size.0, info.name
                ));
            }
        }
        let capacity = info.geometry.capacity();
        let end = self.area.start.saturating_add(self.area.length_on(capacity));
        if end > capacity || self.area.start >= capacity {
            return Some(format!(
                "area ends at byte {}, {} at {}; make the area smaller",
                end.0, info.name, capacity.0
            ));
        }
        if self.slot_count(info) == 0 {
            return Some(format!(
                "a request of {} does not fit the area of {}",
                self.request_bytes,
                self.area.length_on(capacity)
            ));
        }
        if self.request_bytes.0 / sector_bytes > u64::from(u32::MAX) {
            return Some(format!("request_bytes is {}; that is too large", self.request_bytes));
        }
        let buffers = self.request_bytes.0.saturating_mul(u64::from(self.queue_depth));
        if info.needs_buffers && buffers > BUFFER_BYTES_MAX {
            return Some(format!(
                "{} requests of {} need {} of buffers; at most {} are allowed, so lower queue_depth",
                self.queue_depth,
                self.request_bytes,
                ByteCount(buffers),
                ByteCount(BUFFER_BYTES_MAX)
            ));
        }
        None
    }

    fn distribution_problem(&self, info: &DeviceInfo) -> Option<String> {
        let distribution = self.distribution.as_ref()?;
        if self.access == Access::Sequential {
            return Some("distribution is for random access; remove it or the access".into());
        }
        AddressGenerator::new(distribution, self.slot_count(info), self.seed)
            .err()
            .map(|error| format!("distribution: {error}"))
    }
}
