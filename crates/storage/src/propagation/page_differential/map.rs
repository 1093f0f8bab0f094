//! Where the pages are: the base page and the differential of each (the paper's physical page mapping
//! table), and how many valid differentials each differential page has (its valid differential count
//! table).
//!
//! 1. The count of a flash page is that of the pages whose differential lies there; where it is 0 there
//!    is no count.
//! 2. The state is the sum of the marks of all pages, whatever came in which order: two tables of equal
//!    state have the same versions of the same pages.

use super::super::log_structured::record::Location;
use super::differential;
use crate::{FileId, PageAddress};
use std::collections::BTreeMap;

/// Which version a page has: the stamps of its base page and of its differential, 0 without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) base_stamp: u64,
    pub(super) difference_stamp: u64,
}

/// Where a differential lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Where its record lies, behind what is told of it.
    pub(super) at: Location,
    /// Where the flash page starts that holds it.
    pub(super) flash_page: u64,
    pub(super) stamp: u64,
    /// What it may take of flash pages, with what stays blank beside it.
    pub(super) room_bytes: u32,
}

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) base: Location,
    pub(super) base_stamp: u64,
    pub(super) difference: Option<Difference>,
}

/// What is not needed any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) base: Option<Location>,
    pub(super) difference: Option<Difference>,
}

/// All pages, with the places of each and the counts of flash pages.
#[derive(Debug, Default)]
pub(super) struct PageTable {
    pages: BTreeMap<PageAddress, Place>,
    valid_counts: BTreeMap<u64, u32>,
    state: u64,
    difference_room_bytes: u64,
}

impl Version {
    /// With a base page of that stamp; `None` if it is older than the one that is there.
    pub(super) fn with_base(before: Option<Self>, stamp: u64) -> Option<Self> {
        match before {
            Some(before) if before.base_stamp > stamp => None,
            // A copy.
            Some(before) if before.base_stamp == stamp => Some(before),
            _ => Some(Self { base_stamp: stamp, difference_stamp: 0 }),
        }
    }

    /// With a differential; `None` if it is of another base page, or older than the one that is there.
    pub(super) fn with_difference(
        before: Option<Self>,
        base_stamp: u64,
        stamp: u64,
    ) -> Option<Self> {
        let before = before.filter(|before| before.base_stamp == base_stamp)?;
        let is_newer = stamp >= before.difference_stamp;
        is_newer.then_some(Self { difference_stamp: stamp, ..before })
    }

    /// What it adds to the state.
    pub(super) const fn mark(self, address: PageAddress) -> u64 {
        let mut mark = 0_u64;
        let words = [address.to_word(), self.base_stamp, self.difference_stamp];
        let mut index = 0;
        while index < words.len() {
            mark = (mark ^ words[index]).wrapping_add(0x9E37_79B9_7F4A_7C15);
            mark = (mark ^ (mark >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mark = (mark ^ (mark >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mark ^= mark >> 31;
            index += 1;
        }
        mark
    }
}

impl Place {
    pub(super) fn version(&self) -> Version {
        let difference_stamp = self.difference.map_or(0, |difference| difference.stamp);
        Version { base_stamp: self.base_stamp, difference_stamp }
    }
}

impl Difference {
    /// Bytes that it takes.
    pub(super) const fn stored_bytes(self) -> u32 {
        differential::HEADER_BYTES_U32 + self.at.stored_bytes()
    }
}

impl PageTable {
    pub(super) fn get(&self, address: PageAddress) -> Option<&Place> {
        self.pages.get(&address)
    }

    pub(super) fn version(&self, address: PageAddress) -> Option<Version> {
        self.pages.get(&address).map(Place::version)
    }

    pub(super) const fn state(&self) -> u64 {
        self.state
    }

    pub(super) fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// What valid differentials may take of flash pages.
    pub(super) const fn difference_room_bytes(&self) -> u64 {
        self.difference_room_bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PageAddress, &Place)> {
        self.pages.iter().map(|(&address, place)| (address, place))
    }

    /// The pages of a file from `first` on.
    pub(super) fn pages_from(
        &self,
        file: FileId,
        first: u32,
    ) -> impl Iterator<Item = (PageAddress, &Place)> {
        let range = PageAddress::new(file, first)..=PageAddress::new(file, u32::MAX);
        self.pages.range(range).map(|(&address, place)| (address, place))
    }

    /// The files that have pages.
    pub(super) fn files(&self) -> Vec<FileId> {
        let mut files = Vec::new();
        let mut next = self.pages.keys().next();
        while let Some(&page) = next {
            files.push(page.file);
            let after = PageAddress::new(page.file, u32::MAX);
            let rest = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
            next = self.pages.range(rest).next().map(|(address, _)| address);
        }
        files
    }

    /// A base page lies at `base`; `None` if a newer one is known.
    pub(super) fn set_base(
        &mut self,
        address: PageAddress,
        stamp: u64,
        base: Location,
    ) -> Option<Freed> {
        let before = self.pages.get(&address).copied();
        let version = Version::with_base(before.map(|before| before.version()), stamp)?;
        let kept = before.and_then(|before| before.difference);
        let difference = kept.filter(|_| version.difference_stamp > 0);
        self.put(address, Some(Place { base, base_stamp: stamp, difference }));
        let freed = if difference.is_none() { kept } else { None };
        Some(Freed { base: before.map(|before| before.base), difference: freed })
    }

    /// A differential from the base page of `base_stamp` is there; `None` if it does not count.
    pub(super) fn set_difference(
        &mut self,
        address: PageAddress,
        base_stamp: u64,
        difference: Difference,
    ) -> Option<Freed> {
        let before = self.pages.get(&address).copied()?;
        Version::with_difference(Some(before.version()), base_stamp, difference.stamp)?;
        self.put(address, Some(Place { difference: Some(difference), ..before }));
        Some(Freed { base: None, difference: before.difference })
    }

    /// A page is gone.
    pub(super) fn remove(&mut self, address: PageAddress) -> Freed {
        let before = self.pages.get(&address).copied();
        self.put(address, None);
        Freed {
            base: before.map(|before| before.base),
            difference: before.and_then(|before| before.difference),
        }
    }

    fn put(&mut self, address: PageAddress, after: Option<Place>) {
        let before = match after {
            Some(after) => self.pages.insert(address, after),
            None => self.pages.remove(&address),
        };
        if let Some(before) = before {
            self.state = self.state.wrapping_sub(before.version().mark(address));
            if let Some(difference) = before.difference {
                self.difference_room_bytes -= u64::from(difference.room_bytes);
                let count = self.valid_counts.get_mut(&difference.flash_page);
                let count = count.expect("invariant 1: the flash page has a count");
                *count -= 1;
                if *count == 0 {
                    self.valid_counts.remove(&difference.flash_page);
                }
            }
        }
        if let Some(after) = after {
            self.state = self.state.wrapping_add(after.version().mark(address));
            if let Some(difference) = after.difference {
                self.difference_room_bytes += u64::from(difference.room_bytes);
                *self.valid_counts.entry(difference.flash_page).or_insert(0) += 1;
            }
        }
    }

    /// # Panics
    /// If a numbered invariant does not hold.
    pub(super) fn audit(&self) {
        let (mut counts, mut state, mut bytes) = (BTreeMap::new(), 0_u64, 0);
        for (address, place) in self.iter() {
            state = state.wrapping_add(place.version().mark(address));
            assert!(!place.base.is_none(), "{address} has a base page");
            if let Some(difference) = place.difference {
                *counts.entry(difference.flash_page).or_insert(0) += 1;
                bytes += u64::from(difference.room_bytes);
                assert!(difference.stamp > place.base_stamp, "{address} changed after its base");
            }
        }
        assert_eq!(counts, self.valid_counts, "invariant 1: valid differentials are counted");
        assert_eq!(state, self.state, "invariant 2: the state is that of all pages");
        assert_eq!(bytes, self.difference_room_bytes, "room of differentials is counted");
    }
}
