//! Floor 1: the contract between those who use a storage device and those who are one.
//!
//! ```text
//!   probe, storage, lab ──► Device ◄── drives::{file, ssd, hdd, scm}, memory, faulty, recorder, page_cache
//! ```
//!
//! Time is data: the caller says when a request is issued and learns when it is done, so one trait
//! serves io_uring and the virtual clock. The seven rules of the contract stand in [`contract`];
//! [`testing`] checks them on any device.
//!
//! Beside it stands [`raw_flash`], the contract of chips that nothing translates for, for whoever manages
//! flash without a translation layer.
//!
//! Absent on purpose: any knowledge of what kind of drive it is.

pub mod buffer;
pub mod contract;
pub mod counters;
pub mod energy;
pub mod error;
pub mod faulty;
pub mod memory;
pub mod metered;
pub mod page_cache;
pub mod queue;
pub mod raw_flash;
pub mod recorder;
pub mod shared;
mod shared_flash;
pub mod store;
pub mod testing;

pub use buffer::IoBuffer;
pub use contract::{
    Completion, Device, DeviceInfo, Geometry, Inspect, Operation, Rejected, Request, SECTOR_BYTES,
    TimeSource,
};
pub use counters::{Counters, FlashUse, LineUse, OperationCounters};
pub use energy::{EnergyParts, EnergyReport, EnergySource, PowerCourse, WattsOverTime};
pub use error::DeviceError;
pub use faulty::{Failure, FailureCounts, FaultPlan, FaultyDevice, UnflushedFate};
pub use memory::{MemoryConfig, MemoryDevice};
pub use metered::{DeviceUse, MeteredDevice, OneClock, PowerLog};
pub use page_cache::{PageCache, PageCacheConfig, Replacement};
pub use queue::CompletionQueue;
pub use raw_flash::RawFlash;
pub use recorder::{RecordedRequest, Recorder};
pub use shared::SharedDevice;
pub use shared_flash::SharedFlash;
pub use store::SectorStore;
