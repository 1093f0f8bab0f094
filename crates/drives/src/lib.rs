//! Floor 3: the makes of device behind the contract of `nandu_device`.
//!
//! ```text
//!   target ─► file    a real file or block device: O_DIRECT, io_uring or pread/pwrite
//!          └► sim:X ─► profile X ─► ssd | hdd | scm | array of them on the virtual clock
//! ```
//!
//! `raw_flash` is the chips of a drive by themselves, behind the contract of raw flash.
//!
//! Without the feature `simulated` there is `file` alone, for who embeds the engine over real files.
//!
//! Siblings of equal shape: one file or folder per make, one line of `makes!` in `profile`, which makes
//! it a `DriveKind` and a section of a profile. Only `file` may read a wall clock.

#[cfg(feature = "simulated")]
pub mod array;
pub mod file;
#[cfg(feature = "simulated")]
pub mod hdd;
#[cfg(feature = "simulated")]
pub mod merit;
#[cfg(feature = "simulated")]
pub mod price;
#[cfg(feature = "simulated")]
pub mod profile;
#[cfg(feature = "simulated")]
pub mod raw_flash;
#[cfg(feature = "simulated")]
pub mod scm;
#[cfg(feature = "simulated")]
pub mod shrunk;
#[cfg(feature = "simulated")]
pub mod ssd;
#[cfg(feature = "simulated")]
pub mod target;
#[cfg(feature = "simulated")]
pub mod wear;
#[cfg(feature = "simulated")]
pub mod worth;
