//! Floor 2: flash translation layers, which make a device of sectors from a chip array with laws.
//!
//! Whose ideas: S000 section 2.2 (static and dynamic mapping), S002 section 3.3.1 (chunks), and the
//! flash reference 2.1, 2.2 and 2.7 to 2.10. A layer touches cells only through commands of
//! [`nandu_nand::NandArray`], which is lent to every call: time, counters and wear live there.
//!
//! ```text
//! host unit (Lpn) ──▶ page: any unit anywhere, cleaning            one sibling file each,
//!                     chunk: large chunks, copied to be replaced   one line of `layers!` each
//!                     dftl:  any unit anywhere, the map on flash
//!                     block: erase blocks in place
//!                     bast:  a few erase blocks own a log block each
//!                     fast:  all erase blocks share a ring of log blocks
//!                     faster: its pages get a second chance
//! ```

mod bast;
mod block;
mod chunk;
mod config;
mod contract;
mod dftl;
mod fast;
mod faster;
mod hybrid;
mod page;
mod settled;
mod stock;
mod victim;

pub mod closed_form;

pub use bast::{BastConfig, BastFtl, LogEviction};
pub use block::{BlockConfig, BlockFtl};
pub use chunk::{ChunkConfig, ChunkFtl, MergeMode};
pub use config::{FtlConfig, FtlKind};
pub use contract::{Ftl, FtlError, MergeCounts, ReadOutcome, StreamHold};
pub use dftl::{Dftl, DftlConfig, MapCacheCounts};
pub use fast::{FastConfig, FastFtl, SequentialTrigger};
pub use faster::{FasterConfig, FasterFtl};
pub use page::{
    CleaningFrontier, CleaningMode, DieChoice, DieOrder, PageConfig, PageFtl, TrimDurability,
};
pub use victim::VictimPolicy;
