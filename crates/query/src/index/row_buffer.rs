//! Rows that an index named: noted first, then brought into memory as far as there is room.
//!
//! ```text
//!   item    Noted ──load──► Loaded(address) ──load──► Done
//!             ▲               └─── rewind ───┐          │
//!             └──────────────────────────────┴──────────┘
//! ```
//!
//! 1. Items are in the order in which they were noted, and their groups rise.
//! 2. Items and rows together take at most the bytes given, but for a single row that is longer.

use crate::tuple::{Area, NO_TUPLE, RowArea, Tuple, TupleBatch};

/// What an item takes, with the lists that a fetch makes of it, and with a pair.
const ITEM_BYTES: usize = 64;
/// The bit of a group that says so of a row that comes out by itself.
const GROUP_ALONE: u32 = 1 << 31;

/// Rows of an index.
#[derive(Debug)]
pub struct RowBuffer {
    area: RowArea,
    items: Vec<Item>,
    item_count_max: usize,
    /// The items loaded, for those who take them as a batch.
    cells: Vec<u64>,
    loaded_count: usize,
    /// Whether the rows in memory were not handed on yet.
    is_fresh: bool,
    /// Items before this one are not noted.
    first_noted: usize,
}

/// A row that the buffer knows of, loaded or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) row_number: i64,
    /// Where the row is, if it is loaded.
    pub(crate) address: u64,
    group: u32,
    state: ItemState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemState {
    Noted,
    Loaded,
    Done,
}

impl Item {
    /// The number of the group that the row belongs to.
    #[inline]
    pub(crate) const fn group(&self) -> u32 {
        self.group & !GROUP_ALONE
    }

    /// Whether the row is in memory.
    #[inline]
    pub(crate) fn is_loaded(&self) -> bool {
        self.state == ItemState::Loaded
    }

    /// Whether it comes out by itself, or not at all.
    #[inline]
    pub(crate) const fn is_alone(&self) -> bool {
        self.group & GROUP_ALONE != 0
    }
}

/// The group of a row that comes out by itself.
pub(crate) const fn alone(group: u32) -> u32 {
    group | GROUP_ALONE
}

impl RowBuffer {
    /// A buffer of `bytes` for rows of about `row_bytes` each.
    #[must_use]
    pub fn new(bytes: usize, row_bytes: usize) -> Self {
        let item_count_max = Self::item_count(bytes, row_bytes);
        let area_bytes = bytes.saturating_sub(item_count_max * ITEM_BYTES);
        Self {
            area: RowArea::new(area_bytes),
            items: Vec::with_capacity(item_count_max),
            item_count_max,
            cells: Vec::with_capacity(item_count_max),
            loaded_count: 0,
            is_fresh: false,
            first_noted: 0,
        }
    }

    /// Rows that a buffer of `bytes` notes.
    pub(crate) const fn item_count(bytes: usize, row_bytes: usize) -> usize {
        // A quarter more than the mean, so that what was noted is likely to fit at once.
        match bytes / (row_bytes + row_bytes / 4 + ITEM_BYTES) {
            0 => 1,
            count => count,
        }
    }

    /// Forgets all items and drops the rows that are loaded.
    pub fn clear(&mut self) {
        self.items.clear();
        self.drop_rows();
        self.is_fresh = false;
        self.first_noted = 0;
    }

    /// Whether nothing was noted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Notes a row by its number; false if there is no room.
    #[must_use]
    pub fn note(&mut self, row_number: i64, group: u32) -> bool {
        if self.items.len() >= self.item_count_max {
            return false;
        }
        let state = ItemState::Noted;
        self.items.push(Item { row_number, address: NO_TUPLE, group, state });
        true
    }

    /// Notes a row that is here already; false if there is no room.
    #[must_use]
    pub fn note_row(&mut self, tuple: Tuple<'_>, group: u32) -> bool {
        if self.items.len() >= self.item_count_max {
            return false;
        }
        let Some(address) = self.area.push(tuple) else { return false };
        let Tuple { row_number, .. } = tuple;
        self.items.push(Item { row_number, address, group, state: ItemState::Loaded });
        self.loaded_count += 1;
        self.is_fresh = true;
        true
    }

    /// Whether all rows that were noted are in memory or were.
    pub(crate) fn is_handed_on(&self) -> bool {
        self.first_noted >= self.items.len()
            || self.items[self.first_noted..].iter().all(|item| item.state != ItemState::Noted)
    }

    /// All that were noted.
    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The rows in memory.
    pub(crate) fn area(&self) -> Area<'_> {
        self.area.area()
    }

    /// The rows in memory, in the order in which they were noted.
    #[must_use]
    pub fn batch(&self) -> TupleBatch<'_> {
        TupleBatch { area: self.area(), cells: &self.cells }
    }

    /// Begins a load: true if there is nothing to fetch, as rows are here that were not handed on;
    /// then these are what was loaded.
    pub(crate) fn begin_load(&mut self) -> bool {
        if std::mem::take(&mut self.is_fresh) {
            self.list_cells();
            return true;
        }
        // All rows stay for another time if nothing is left to take their room.
        if self.loaded_count < self.items.len() {
            for item in &mut self.items {
                if item.state == ItemState::Loaded {
                    item.state = ItemState::Done;
                }
            }
            self.drop_rows();
        }
        false
    }

    /// The indexes of up to `count_max` items that are only noted, appended to `wanted`.
    pub(crate) fn noted(&self, count_max: usize, wanted: &mut Vec<u32>) {
        let items = self.items.iter().enumerate().skip(self.first_noted);
        let noted = items.filter(|(_, item)| item.state == ItemState::Noted);
        wanted.extend(noted.take(count_max).map(|(index, _)| nandu_base::to_u32(index as u64)));
    }

    /// Puts the row of a noted item into memory, if there is room.
    pub(crate) fn load(&mut self, index: u32, tuple: Tuple<'_>) {
        let Some(address) = self.area.push(tuple) else { return };
        let item = &mut self.items[index as usize];
        item.address = address;
        item.state = ItemState::Loaded;
        self.loaded_count += 1;
    }

    /// Ends a load. In the order of keys nothing may be loaded that was noted after something that
    /// is not. False if nothing is left in memory then.
    pub(crate) fn end_load(&mut self, is_in_order: bool) -> bool {
        let is_noted = |item: &Item| item.state == ItemState::Noted;
        let rest = &self.items[self.first_noted..];
        let gap =
            rest.iter().position(is_noted).map_or(self.items.len(), |at| at + self.first_noted);
        if is_in_order {
            for item in &mut self.items[gap..] {
                if item.state == ItemState::Loaded {
                    item.state = ItemState::Noted;
                    self.loaded_count -= 1;
                }
            }
        }
        self.first_noted = gap;
        self.list_cells();
        self.loaded_count > 0
    }

    /// Hands on once more what was handed on: without another load if all rows are in memory.
    pub(crate) fn rewind(&mut self) {
        if self.loaded_count == self.items.len() {
            self.is_fresh = !self.items.is_empty();
            return;
        }
        for item in &mut self.items {
            item.state = ItemState::Noted;
        }
        self.first_noted = 0;
        self.drop_rows();
    }

    /// Forgets all items but those of one group, whose rows stay if they are in memory.
    pub(crate) fn keep_group(&mut self, group: u32) {
        if self.items.iter().all(|item| item.group == group) {
            return;
        }
        self.items.retain(|item| item.group == group);
        self.first_noted = 0;
        // Rows move to the front in the order in which they lie.
        self.list_cells();
        self.cells.sort_unstable();
        let ends = self.area.keep(&self.cells);
        for item in self.items.iter_mut().filter(|item| item.is_loaded()) {
            let place = self.cells.binary_search(&item.address);
            item.address = ends[place.expect("every loaded row was listed")];
        }
        self.loaded_count = ends.len();
        self.list_cells();
    }

    fn drop_rows(&mut self) {
        self.area.clear();
        self.cells.clear();
        self.loaded_count = 0;
    }

    fn list_cells(&mut self) {
        self.cells.clear();
        let loaded = self.items.iter().filter(|item| item.is_loaded());
        self.cells.extend(loaded.map(|item| item.address));
    }

    /// Asserts the numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        let groups = self.items.iter().filter(|item| !item.is_alone()).map(Item::group);
        assert!(groups.is_sorted(), "invariant 1");
        let loaded = self.items.iter().filter(|item| item.is_loaded()).count();
        assert_eq!(loaded, self.loaded_count, "items and their count agree");
        assert!(self.items.len() <= self.item_count_max, "invariant 2");
        let (area_len, area_bytes) = self.area.sizes();
        assert!(area_len <= area_bytes || loaded <= 1, "invariant 2");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::read_cell;

    /// Rows 1 to 9 of three groups of three, noted in order and loaded from the last to the first.
    fn loaded(records: &[Vec<u8>]) -> RowBuffer {
        let mut buffer = RowBuffer::new(4096, 16);
        for number in 1..=9_u32 {
            assert!(buffer.note(i64::from(number), (number - 1) / 3));
        }
        assert!(!buffer.begin_load());
        for index in (0..9).rev() {
            let tuple =
                Tuple { row_number: i64::from(index) + 1, record: &records[index as usize] };
            buffer.load(index, tuple);
        }
        assert!(buffer.end_load(false));
        buffer.audit();
        buffer
    }

    fn records() -> Vec<Vec<u8>> {
        (1..=9).map(|number| vec![number; usize::from(number) * 20]).collect()
    }

    fn rows_of(buffer: &RowBuffer) -> Vec<(i64, Vec<u8>)> {
        let Area::Piece(area) = buffer.area() else { panic!("it is one piece") };
        let row = |address: &u64| {
            let (tuple, _) = read_cell(&area[nandu_base::to_index(*address)..]).unwrap();
            (tuple.row_number, tuple.record.to_vec())
        };
        buffer.batch().cells.iter().map(row).collect()
    }

    #[test]
    fn the_rows_of_a_group_stay_and_others_leave_their_room() {
        let records = records();
        let mut buffer = loaded(&records);
        let whole = buffer.area.sizes().0;
        buffer.keep_group(1);
        buffer.audit();
        let expected: Vec<_> = (4..=6).zip(records[3..6].iter().cloned()).collect();
        assert_eq!(rows_of(&buffer), expected);
        assert!(buffer.area.sizes().0 < whole / 2, "the others are gone");
        // As many rows may be noted as in an empty one, but for those three.
        let empty = RowBuffer::item_count(4096, 16);
        let noted = (0..).take_while(|row| buffer.note(100 + row, 2)).count();
        assert_eq!(noted, empty - 3);
        buffer.audit();
    }

    #[test]
    fn rows_that_stay_alone_are_handed_on_without_another_load() {
        let records = records();
        let mut buffer = loaded(&records);
        buffer.keep_group(2);
        buffer.rewind();
        assert!(buffer.begin_load(), "they are in memory");
        assert_eq!(rows_of(&buffer).len(), 3);
        // With a row beside them that is not in memory all are loaded anew.
        let mut buffer = loaded(&records);
        buffer.keep_group(2);
        assert!(buffer.note(10, 3));
        buffer.rewind();
        assert!(!buffer.begin_load());
        let mut wanted = Vec::new();
        buffer.noted(10, &mut wanted);
        assert_eq!(wanted, [0, 1, 2, 3]);
        buffer.audit();
    }

    #[test]
    fn a_buffer_of_one_group_stays_as_it_is() {
        let records = records();
        let mut buffer = loaded(&records);
        buffer.keep_group(0);
        let before = rows_of(&buffer);
        buffer.keep_group(0);
        assert_eq!(rows_of(&buffer), before);
        assert_eq!(before.len(), 3);
        buffer.audit();
    }
}
