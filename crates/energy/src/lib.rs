//! Floor 2: what a run costs beside its drives. A [`Host`] is a model of the machine around them;
//! [`Rapl`] and [`WallMeter`] are meters.
//!
//! ```text
//!   drives   Device::counters ─┐
//!   hosts/*.toml ─► Host ──────┴─► EnergyReport, source = "model"
//!   /sys/class/powercap ─► Rapl ─┬► EnergyReport, source = "meter"
//!   FILE.csv ─► WallMeter ───────┘
//! ```
//!
//! What a device uses is told by the device (`nandu_device::energy`). [`model`] is the arithmetic of S004.
//!
//! Absent on purpose: wall clocks, drives and loads. Whoever measures says what time it is.

pub mod host;
pub mod model;
pub mod rapl;
pub mod wall_meter;

pub use host::{Host, HostError, ProcessorUse};
pub use model::RunEnergy;
pub use rapl::{Rapl, RaplError};
pub use wall_meter::{MeterError, WallMeter};
