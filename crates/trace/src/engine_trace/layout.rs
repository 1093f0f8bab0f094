//! Where the pages of an engine's files lie on one drive, for traces of blocks.
//!
//! ```text
//!   │ file 1 as it was │ file 2 as it was │ … │ extent │ extent │ …     what they grew by, as it was touched
//! ```
//!
//! 1. No two pages have one place.
//! 2. Memory is that of the files and of the extents that were touched behind them, at most
//!    [`EXTENT_COUNT_MAX`].

use super::TracedFile;
use nandu_base::FixedHashMap;
use std::ops::Range;

/// Pages that a file grows by at once.
const EXTENT_PAGES: u32 = 256;
/// A bound for what a trace may have us remember: 4 TiB of pages of 4 KiB.
const EXTENT_COUNT_MAX: usize = 1 << 22;

/// Gives pages their places.
#[derive(Clone, Debug)]
pub struct PageLayout {
    /// The places of the pages that a file had at first.
    files: FixedHashMap<u16, Range<u64>>,
    /// The first place of an extent behind those, by file and number.
    extents: FixedHashMap<(u16, u32), u64>,
    /// Places so far.
    page_count: u64,
}

impl PageLayout {
    /// The files as they were at first, one behind the other.
    #[must_use]
    pub fn new(files: &[TracedFile]) -> Self {
        let mut page_count = 0;
        let mut place = |file: &TracedFile| {
            let start = page_count;
            page_count += u64::from(file.page_count);
            (file.number, start..page_count)
        };
        let files = files.iter().map(&mut place).collect();
        Self { files, extents: FixedHashMap::default(), page_count }
    }

    /// How many places there are so far.
    #[must_use]
    pub const fn page_count(&self) -> u64 {
        self.page_count
    }

    /// The place of a page, counted from 0.
    ///
    /// # Errors
    /// If its file grew by more than can be remembered.
    pub fn place(&mut self, file: u16, page: u32) -> Result<u64, String> {
        let own = self.files.get(&file).cloned().unwrap_or(0..0);
        let index = u64::from(page.saturating_sub(1));
        if index < own.end - own.start {
            return Ok(own.start + index);
        }
        // It has 32 bits, as the number of a page has.
        let beyond = nandu_base::to_u32(index - (own.end - own.start));
        let key = (file, beyond / EXTENT_PAGES);
        let start = match self.extents.get(&key) {
            Some(&start) => start,
            None if self.extents.len() == EXTENT_COUNT_MAX => {
                return Err(format!("files grow by more than {EXTENT_COUNT_MAX} extents"));
            }
            None => {
                let start = self.page_count;
                self.page_count += u64::from(EXTENT_PAGES);
                self.extents.insert(key, start);
                start
            }
        };
        Ok(start + u64::from(beyond % EXTENT_PAGES))
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        assert!(self.extents.len() <= EXTENT_COUNT_MAX, "extents are bounded");
        let whole: u64 = self.files.values().map(|places| places.end - places.start).sum();
        let grown = self.extents.len() as u64 * u64::from(EXTENT_PAGES);
        assert_eq!(whole + grown, self.page_count, "each place is of one file or one extent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn files_lie_behind_each_other_and_what_they_grow_by_behind_all() {
        let file = |number, page_count| TracedFile { number, name: String::new(), page_count };
        let mut layout = PageLayout::new(&[file(2, 10), file(5, 300)]);
        let mut place = |file, page| layout.place(file, page).unwrap();
        let firsts = [(2, 1), (2, 10), (5, 1), (5, 300), (2, 11), (9, 1), (2, 12), (2, 267)];
        let places = firsts.map(|(file, page)| place(file, page));
        assert_eq!(places, [0, 9, 10, 309, 310, 566, 311, 822]);
        let pages = [2, 5, 9].into_iter().flat_map(|file| (1..=600).map(move |page| (file, page)));
        let all: BTreeSet<u64> = pages.map(|(file, page)| place(file, page)).collect();
        assert_eq!(all.len(), 1800, "no two pages have one place");
        layout.audit();
    }
}
