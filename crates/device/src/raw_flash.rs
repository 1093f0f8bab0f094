//! The contract of flash without a translation layer, for those that manage erase blocks themselves:
//! in-page logging, page-differential logging, log-structured stores on open-channel drives.
//!
//! 1. The laws of NAND hold: erase before program, ascending program order inside an erase block, a
//!    limited number of partial programs; a broken law is an error that names it.
//! 2. Like [`crate::Device`], time is an argument; the answer says when the command is done.

use crate::{DeviceError, FlashUse};
use nandu_base::{Cause, Nanos, Ppn};

/// The shape of raw flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawFlashGeometry {
    /// Data bytes of a flash page.
    pub flash_page_bytes: u32,
    /// Spare bytes of a flash page.
    pub spare_bytes: u32,
    /// Flash pages of an erase block.
    pub flash_pages_per_erase_block: u32,
    /// How many erase blocks; flash page p lies in erase block p / flash pages per erase block.
    pub erase_block_count: u64,
}

/// Flash that shows its erase blocks.
pub trait RawFlash {
    /// Its shape.
    fn geometry(&self) -> RawFlashGeometry;

    /// Reads `bytes` from `offset` of a flash page; answers when it is done.
    ///
    /// # Errors
    /// If the address is out of range or the page was damaged by a power cut.
    fn read(
        &mut self,
        now: Nanos,
        page: Ppn,
        offset: u32,
        bytes: &mut [u8],
        cause: Cause,
    ) -> Result<Nanos, DeviceError>;

    /// Programs `bytes` at `offset` of a flash page, with `spare` in its spare area.
    ///
    /// # Errors
    /// If a law of NAND forbids it; nothing has changed then.
    fn program(
        &mut self,
        now: Nanos,
        page: Ppn,
        offset: u32,
        bytes: &[u8],
        spare: &[u8],
        cause: Cause,
    ) -> Result<Nanos, DeviceError>;

    /// Erases an erase block.
    ///
    /// # Errors
    /// If it is worn out or out of range.
    fn erase(&mut self, now: Nanos, erase_block: u64, cause: Cause) -> Result<Nanos, DeviceError>;

    /// Whether an erase block may not be used.
    fn is_bad(&self, erase_block: u64) -> bool;

    /// Commands by cause, and wear.
    fn flash_use(&self) -> FlashUse;
}
