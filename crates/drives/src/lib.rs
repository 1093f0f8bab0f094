//! Floor 3: the makes of device behind the contract of `nandu_device`.
//!
//! ```text
//!   target ─► file    a real file or block device: O_DIRECT, io_uring or pread/pwrite
//!          └► sim:X ─► profile X ─► ssd | hdd | scm | array of them on the virtual clock
//! ```
//!
//! Siblings of equal shape: one file or folder per make, one line of `makes!` in `profile`, which makes
//! it a `DriveKind` and a section of a profile. Only `file` may read a wall clock.

pub mod array;
pub mod file;
pub mod hdd;
pub mod profile;
pub mod scm;
pub mod shrunk;
pub mod ssd;
pub mod target;
