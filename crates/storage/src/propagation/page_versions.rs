//! Pages of the tests that tell by their bytes which version they are in, and the model that knows which of
//! them may be there.
//!
//! 1. A version follows from the page's address and its number. Version 0 is a page of zeros, which was never
//!    written, or is cut off.

use super::Propagation;
use crate::page::{TRAILER_BYTES, page_lsn, seal_page, set_page_lsn};
use crate::volume::testing::SharedDevice;
use crate::{FileId, Lsn, PageAddress, StorageError};
use nandu_base::{Rng, to_index, to_u32};
use nandu_device::{FaultPlan, FaultyDevice, Geometry, IoBuffer, MemoryConfig, MemoryDevice};
use std::collections::BTreeMap;

/// A disk in memory, which loses its power.
pub(super) type Disk = SharedDevice<FaultyDevice<MemoryDevice>>;

/// Pages that are begun to be read together.
const READ_AT_ONCE: usize = 16;

pub(super) fn disk(sector_count: u64) -> Disk {
    let geometry = Geometry::new(512, sector_count).unwrap();
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()))
}

pub(super) fn page(file: u16, page: u32) -> PageAddress {
    PageAddress::new(FileId(file), page)
}

/// Pages that a random deed is about: a dozen at most, of few in most cases.
pub(super) fn some_pages(rng: &mut Rng, page_count: u64) -> Vec<PageAddress> {
    let mut addresses = Vec::new();
    for _ in 0..1 + rng.below(12) {
        let hot = if rng.below(3) == 0 { page_count } else { page_count / 8 + 1 };
        let file = if rng.below(2) == 0 { 1 } else { 2 };
        let address = page(file, 1 + to_u32(rng.below(hot)));
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// What versions of a page have in common.
pub(super) struct PageVersions {
    pub(super) page_bytes: u32,
    /// So many versions in a row differ in a few places only.
    pub(super) alike_count: u32,
    /// Each of those has so many bytes at most.
    pub(super) place_bytes: u64,
}

impl PageVersions {
    /// A page in one of its versions, sealed.
    pub(super) fn content(&self, address: PageAddress, version: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.page_bytes as usize];
        if version == 0 {
            return bytes;
        }
        Rng::new(address.to_word() << 20 | u64::from(version / self.alike_count)).fill(&mut bytes);
        let mut rng = Rng::new(u64::from(version));
        let usable = (bytes.len() - TRAILER_BYTES) as u64;
        for _ in 0..rng.below(8) {
            let start = to_index(rng.below(usable - self.place_bytes));
            let end = start + 1 + to_index(rng.below(self.place_bytes));
            bytes[start..end].fill(version.to_le_bytes()[0]);
        }
        set_page_lsn(&mut bytes, Lsn(u64::from(version)));
        seal_page(&mut bytes, address);
        bytes
    }

    /// The version that a page is in, of which it has all bytes.
    pub(super) fn version_of(&self, bytes: &[u8], address: PageAddress) -> u32 {
        let is_empty = bytes.iter().all(|&byte| byte == 0);
        let version = if is_empty { 0 } else { to_u32(page_lsn(bytes).0) };
        assert!(bytes == self.content(address, version), "{address} in version {version}");
        version
    }

    /// Reads all pages of the model, several at a time; gives back their versions.
    pub(super) fn read_all(
        &self,
        propagation: &mut dyn Propagation,
        model: &Model,
    ) -> Result<BTreeMap<PageAddress, u32>, StorageError> {
        let addresses: Vec<PageAddress> = model.versions.keys().copied().collect();
        let mut found = BTreeMap::new();
        for part in addresses.chunks(READ_AT_ONCE) {
            for &address in part {
                let mut buffer = IoBuffer::zeroed(self.page_bytes as usize);
                buffer.fill(0xEE);
                propagation.start_read(address, buffer)?;
            }
            while let Some(read) = propagation.next_read() {
                read.result?;
                found.insert(read.address, self.version_of(&read.buffer, read.address));
            }
        }
        assert_eq!(found.len(), addresses.len(), "each page that was begun arrives");
        Ok(found)
    }
}

/// The versions that a page had since the last sync, that at the sync the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) versions: BTreeMap<PageAddress, Vec<u32>>,
    pub(super) version: u32,
}

impl Model {
    pub(super) fn write(&mut self, address: PageAddress) -> u32 {
        self.version += 1;
        self.versions.entry(address).or_insert_with(|| vec![0]).push(self.version);
        self.version
    }

    pub(super) fn truncate(&mut self, file: FileId, first_page: u32) {
        let range = PageAddress::new(file, first_page)..=PageAddress::new(file, u32::MAX);
        self.versions.range_mut(range).for_each(|(_, versions)| versions.push(0));
    }

    pub(super) fn newest(&self, address: PageAddress) -> u32 {
        self.versions.get(&address).map_or(0, |versions| *versions.last().unwrap())
    }

    pub(super) fn sync(&mut self) {
        for versions in self.versions.values_mut() {
            *versions = vec![*versions.last().unwrap()];
        }
    }

    /// Takes what is found after a power cut as the truth, if it is one that may be there.
    pub(super) fn adopt(&mut self, found: &BTreeMap<PageAddress, u32>) {
        for (address, versions) in &mut self.versions {
            let version = found[address];
            assert!(versions.contains(&version), "{address}: {version} is none of {versions:?}");
            *versions = vec![version];
        }
    }
}
