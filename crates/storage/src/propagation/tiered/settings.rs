//! What a user says of a tier: bytes, where the policy counts slots for pages.

use crate::StorageError;
use crate::tier::{SLOT_COUNT_MIN, TierConfig, TierPolicyKind};
use nandu_base::{ByteCount, to_index, to_u32};
use serde::{Deserialize, Serialize};

/// The most slots: their map is kept in memory, and written as a whole.
const SLOT_COUNT_MAX: u64 = 1 << 26;

/// The settings of a tier. All of them stay as they were when the database was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TieredSettings {
    /// What is kept.
    pub policy: TierPolicyKind,
    /// Bytes of the copies of pages. The volume needs 32 more for each of them, and some KiB.
    pub size_bytes: u64,
    /// How many pages leave, or are written to their places, at a time; no more than a quarter of the copies
    /// that there is room for count.
    pub group_page_count: u32,
    /// Whether a changed page goes to its place at once, so that no copy is newer than that.
    pub writes_through: bool,
}

impl Default for TieredSettings {
    fn default() -> Self {
        let TierConfig { policy, group_page_count, writes_through, .. } = TierConfig::default();
        Self { policy, size_bytes: 256 << 20, group_page_count, writes_through }
    }
}

impl TieredSettings {
    /// A tier of a few slots for pages of `page_bytes`, which follows from the seed.
    pub(in crate::propagation) fn small(page_bytes: u32, seed: u64) -> Self {
        let policies = TierPolicyKind::ALL;
        let slot_count = u64::from(SLOT_COUNT_MIN) + seed / 7 % 24;
        Self {
            policy: policies[to_index(seed % policies.len() as u64)],
            size_bytes: slot_count * u64::from(page_bytes),
            group_page_count: 1 + to_u32(seed / 5 % 5),
            writes_through: seed.is_multiple_of(4),
        }
    }

    /// What the policy is told, for pages of `page_bytes`.
    ///
    /// # Errors
    /// If there are too few slots or too many, or nothing goes at a time.
    pub fn config(&self, page_bytes: u32) -> Result<TierConfig, StorageError> {
        let slot_count = self.size_bytes / u64::from(page_bytes);
        let slots = u64::from(SLOT_COUNT_MIN)..=SLOT_COUNT_MAX;
        if !slots.contains(&slot_count) {
            let room = |count: &u64| ByteCount(count * u64::from(page_bytes));
            let what = format!(
                "tiered.size_bytes {} is not from {} to {}, room for {SLOT_COUNT_MIN} to \
                 {SLOT_COUNT_MAX} pages of {page_bytes} bytes",
                self.size_bytes,
                room(slots.start()),
                room(slots.end()),
            );
            return Err(StorageError::InvalidSetting { what });
        }
        let config = TierConfig {
            policy: self.policy,
            slot_count: to_u32(slot_count),
            group_page_count: self.group_page_count,
            writes_through: self.writes_through,
        };
        config.check().map(|()| config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_of_whole_pages_and_has_room_for_some_of_them_but_not_for_any_number() {
        let of = |size_bytes| TieredSettings { size_bytes, ..TieredSettings::default() };
        assert_eq!(of(4096 * 9 - 1).config(4096).unwrap().slot_count, 8);
        for (size_bytes, page_bytes) in [(4096 * 8 - 1, 4096), (1 << 40, 512), (u64::MAX, 65_536)] {
            let told = of(size_bytes).config(page_bytes).unwrap_err().to_string();
            assert!(told.contains("tiered.size_bytes"), "{told}");
        }
        let none = TieredSettings { group_page_count: 0, ..TieredSettings::default() };
        assert!(none.config(4096).unwrap_err().to_string().contains("group_page_count is 0"));
    }
}
