//! Which reads of a pool go through pages one behind the other. A pool is not told why a page is wanted;
//! so a page counts as read sequentially if the one before it was among the last pages of the streams
//! that are remembered.
//!
//! 1. So many streams are remembered; the one that went on longest ago makes room.

use super::Access;

/// Streams that are remembered.
const STREAM_COUNT: usize = 16;

/// Streams of reads.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    /// The last page of each, and when that was.
    streams: [(u64, u64); STREAM_COUNT],
    read_count: u64,
}

impl Sequences {
    /// How the page that is read now was found. Page 0 is none.
    pub fn read(&mut self, page: u64) -> Access {
        self.read_count += 1;
        let now = self.read_count;
        let is_before = |&(last, at): &(u64, u64)| at > 0 && last.checked_add(1) == Some(page);
        if let Some(place) = self.streams.iter().position(is_before) {
            self.streams[place] = (page, now);
            return Access::Sequential;
        }
        let is_last = |&(last, at): &(u64, u64)| at > 0 && last == page;
        let same = self.streams.iter().position(is_last);
        let place = same.unwrap_or_else(|| {
            let oldest = (0..STREAM_COUNT).min_by_key(|&place| self.streams[place].1);
            oldest.expect("there are streams")
        });
        self.streams[place] = (page, now);
        Access::Random
    }
}
