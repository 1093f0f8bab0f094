//! The buffer pool as far as a plan depends on it.

use nandu_storage::Settings;
use nandu_storage::pool::ReplacementKind;
use serde::{Deserialize, Serialize};

/// A pool, empty at the beginning, through which joins by index read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolShape {
    /// Pages that it has room for, beside what it lends to the join.
    pub page_count: u64,
    /// Which page leaves for another.
    pub replacement: ReplacementKind,
}

impl PoolShape {
    /// A pool without room, of those who do not read through it.
    pub const NONE: Self = Self { page_count: 0, replacement: ReplacementKind::TwoQ };

    /// What a database with these settings has while it lends so many pages.
    #[must_use]
    pub fn of(settings: &Settings, lent_pages: u64) -> Self {
        let page_count = settings.pool_bytes / u64::from(settings.page_bytes.max(1));
        Self {
            page_count: page_count.saturating_sub(lent_pages),
            replacement: settings.replacement,
        }
    }
}
