//! The page cache of a kernel under a database: `page_cache = { bytes = "4MB", … }` of a drive.
//!
//! 1. It holds nothing at the start, and nothing after `Site::empty_cache`; a reopened database finds it
//!    empty unless it `stays`.

use super::Held;
use nandu_base::ByteCount;
use nandu_device::{PageCache, PageCacheConfig, Replacement, SharedDevice};
use nandu_probe::text;
use serde::{Deserialize, Serialize};

/// Its page, as of the processors of the time.
const PAGE_BYTES: u32 = 4096;
/// Linux 2.6 lets writers go on until two fifths of the memory are dirty (`vm_dirty_ratio`).
const DIRTY_PERCENT: u64 = 40;

/// A page cache before a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageCacheOrder {
    /// Memory for pages.
    #[serde(deserialize_with = "text::size")]
    pub bytes: ByteCount,
    /// Longest window of a reader that goes page after page.
    #[serde(default = "window", deserialize_with = "text::size")]
    pub read_ahead: ByteCount,
    /// What any other miss brings with its surroundings.
    #[serde(default = "none", deserialize_with = "text::size")]
    pub read_around: ByteCount,
    /// Dirty bytes before a writer waits; two fifths of the memory unless stated.
    #[serde(default, deserialize_with = "text::optional_size")]
    pub dirty: Option<ByteCount>,
    /// Bytes of a file that an indirect block maps: 4 MiB on ext2 with blocks of 4 KiB; 0 has none.
    #[serde(default = "mapped", deserialize_with = "text::size")]
    pub indirect_maps: ByteCount,
    /// Whether a sync flushes the drive, too, which that kernel did not.
    #[serde(default)]
    pub flushes_drive: bool,
    /// Which page goes.
    #[serde(default)]
    pub replacement: Replacement,
    /// Whether it keeps its pages when a database is opened anew.
    #[serde(default)]
    pub stays: bool,
}

const fn window() -> ByteCount {
    ByteCount(64 << 10)
}

const fn none() -> ByteCount {
    ByteCount::ZERO
}

const fn mapped() -> ByteCount {
    ByteCount(4 << 20)
}

/// A drive behind a cache that the site empties.
pub(crate) type Cached = SharedDevice<PageCache<Held>>;

impl PageCacheOrder {
    /// Checks it before there is a drive; `at` is its key.
    ///
    /// # Errors
    /// Names the key.
    pub(crate) fn check(&self, at: &str) -> Result<(), String> {
        self.config(false).check().map_err(|what| format!("`{at}`: {what}"))
    }

    /// Puts this page cache before `drive`.
    pub(crate) fn before(&self, drive: Held, keeps_data: bool) -> Result<Cached, String> {
        let cache = PageCache::new(drive, self.config(keeps_data));
        Ok(SharedDevice::new(cache.map_err(|error| error.to_string())?))
    }

    fn config(&self, keeps_data: bool) -> PageCacheConfig {
        let dirty = self.dirty.map_or(self.bytes.0 / 100 * DIRTY_PERCENT, |dirty| dirty.0);
        PageCacheConfig {
            byte_count: self.bytes.0,
            page_bytes: PAGE_BYTES,
            read_ahead_bytes: self.read_ahead.0,
            read_around_bytes: self.read_around.0,
            dirty_bytes_max: dirty,
            indirect_mapped_bytes: self.indirect_maps.0,
            flushes_drive: self.flushes_drive,
            replacement: self.replacement,
            keeps_data,
        }
    }
}
