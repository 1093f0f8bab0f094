//! The bytes of a simulated device, held only where something was written.
//!
//! 1. A sector that was never stored, or was cleared, reads as zeros and takes no memory.

use nandu_base::{FixedHashMap, SectorIndex};

/// The contents of sectors; those that were never written take no memory.
#[derive(Clone, Debug)]
pub struct SectorStore {
    sector_bytes: usize,
    sectors: FixedHashMap<u64, Box<[u8]>>,
}

impl SectorStore {
    /// An empty store of sectors of `sector_bytes`.
    #[must_use]
    pub fn new(sector_bytes: u32) -> Self {
        Self { sector_bytes: sector_bytes as usize, sectors: FixedHashMap::default() }
    }

    /// Stores `bytes`, whole sectors, from `first_sector` on.
    pub fn write(&mut self, first_sector: SectorIndex, bytes: &[u8]) {
        debug_assert_eq!(bytes.len() % self.sector_bytes, 0, "whole sectors");
        for (sector, content) in (first_sector.0..).zip(bytes.chunks(self.sector_bytes)) {
            match self.sectors.get_mut(&sector) {
                Some(stored) => stored.copy_from_slice(content),
                None => {
                    self.sectors.insert(sector, content.into());
                }
            }
        }
    }

    /// Fills `bytes`, whole sectors, from `first_sector` on.
    pub fn read(&self, first_sector: SectorIndex, bytes: &mut [u8]) {
        for (sector, content) in (first_sector.0..).zip(bytes.chunks_mut(self.sector_bytes)) {
            match self.sectors.get(&sector) {
                Some(stored) => content.copy_from_slice(stored),
                None => content.fill(0),
            }
        }
    }

    /// Forgets the contents of `sector_count` sectors from `first_sector` on.
    pub fn clear(&mut self, first_sector: SectorIndex, sector_count: u64) {
        let end = first_sector.0 + sector_count;
        if sector_count > self.sectors.len() as u64 {
            self.sectors.retain(|sector, _| !(first_sector.0..end).contains(sector));
        } else if !self.sectors.is_empty() {
            for sector in first_sector.0..end {
                self.sectors.remove(&sector);
            }
        }
    }
}
