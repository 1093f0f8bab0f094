//! Floor 0: what every other crate speaks in. Quantities with units, the virtual clock, seeded
//! randomness, latency histograms, flash operation counters, fixed-seed hashing and "did you mean".
//!
//! Absent on purpose: input and output, wall clocks, global state. Two runs with the same seed give
//! the same bits, on any machine and with any version of any dependency.

pub mod clock;
pub mod distribution;
pub mod flash_counters;
pub mod hash;
pub mod histogram;
pub mod memory;
pub mod permutation;
pub mod random;
pub mod units;
pub mod words;

pub use clock::VirtualClock;
pub use distribution::{AddressGenerator, Distribution, DistributionError, HotColdClass};
pub use flash_counters::{Cause, FlashCounters, FlashOperation, WearSummary};
pub use hash::{FixedHashMap, FixedHashSet, fnv1a};
pub use histogram::{LatencyHistogram, LatencySummary};
pub use memory::{LARGE_PAGE_BYTES, has_room, prefer_large_pages, zeros};
pub use permutation::Permutation;
pub use random::Rng;
pub use units::{
    ByteCount, Lpn, Nanos, Picojoules, Ppn, SectorIndex, greatest_common_divisor, to_index, to_u32,
};
