//! Who is told what passes between the pool and the propagation: every page that is read or written,
//! and every sync.
//!
//! ```text
//!   pool ─ written, synced, cut ─► PageWatch ─► propagation
//!   pool ◄────────── read ──────── PageWatch ◄─ device
//! ```
//!
//! 1. All goes on as it would if nobody watched, and takes no time of a virtual clock.
//! 2. A page is told sealed, as it lies on the device then. It is told when it is asked for, whether or
//!    not the device takes it; and one that is read when it has come.
//! 3. Between the first that is told of a page and [`PageWatch::page_left`] it stays in the pool.
//! 4. What the double write does by itself, its copies and the syncs that end its laps, is not told.

use super::PageWrite;
use crate::{FileId, PageAddress};
use nandu_base::Nanos;

/// Who watches pages come and go. Several threads may call at once, and some hold locks of the pool: it
/// must not ask the database for anything.
pub trait PageWatch: Send + Sync {
    /// A page came from the device into the pool.
    fn page_read(&self, at: Nanos, address: PageAddress, page: &[u8]);

    /// Pages go to the propagation in one call, in this order.
    fn pages_written(&self, at: Nanos, pages: &[PageWrite]);

    /// All that was written is to be made durable.
    fn synced(&self, at: Nanos);

    /// The pages of a file from `first_page` on are gone.
    fn cut(&self, at: Nanos, file: FileId, first_page: u32);

    /// A page is in the pool no more.
    fn page_left(&self, address: PageAddress);
}
