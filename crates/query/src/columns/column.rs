//! One column of some rows.

use nandu_storage::database::ColumnType;
use nandu_storage::pax::MinipageView;
use nandu_storage::sqlite::ValueRef;
use std::ops::Range;

/// Values side by side, that of a NULL too.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers.
    Integer(Vec<i64>),
    /// Doubles.
    Real(Vec<f64>),
    /// Texts or blobs.
    Bytes {
        /// Where each begins in `bytes`, and where the last ends.
        offsets: Vec<i32>,
        /// All of them.
        bytes: Vec<u8>,
    },
}

/// The values of one column of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    column_type: ColumnType,
    values: Values,
    /// A bit for each row, lowest first, that says whether it has a value; empty if all do.
    validity: Vec<u8>,
    row_count: usize,
}

impl Column {
    /// A column of this type without any rows yet.
    #[must_use]
    pub fn new(column_type: ColumnType) -> Self {
        let values = match column_type {
            ColumnType::Integer => Values::Integer(Vec::new()),
            ColumnType::Real => Values::Real(Vec::new()),
            ColumnType::Text | ColumnType::Blob => {
                Values::Bytes { offsets: vec![0], bytes: Vec::new() }
            }
        };
        Self { column_type, values, validity: Vec::new(), row_count: 0 }
    }

    /// What it holds.
    #[must_use]
    pub const fn column_type(&self) -> ColumnType {
        self.column_type
    }

    /// How many rows there are.
    #[must_use]
    pub const fn row_count(&self) -> usize {
        self.row_count
    }

    /// The values, for whoever knows which rows have one.
    #[must_use]
    pub const fn values(&self) -> &Values {
        &self.values
    }

    /// Which rows have a value, a bit each, lowest first; empty if all do.
    #[must_use]
    pub fn validity(&self) -> &[u8] {
        &self.validity
    }

    /// The integers, 0 for NULL; `None` of a column of another type.
    #[must_use]
    pub fn integers(&self) -> Option<&[i64]> {
        match &self.values {
            Values::Integer(values) => Some(values),
            _ => None,
        }
    }

    /// Whether a row has a value.
    #[inline]
    #[must_use]
    pub fn has_value(&self, row: usize) -> bool {
        self.validity.is_empty() || self.validity[row / 8] >> (row % 8) & 1 == 1
    }

    /// The value of a row.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    #[must_use]
    pub fn value(&self, row: usize) -> ValueRef<'_> {
        if !self.has_value(row) {
            return ValueRef::Null;
        }
        match (&self.values, self.column_type) {
            (Values::Integer(values), _) => ValueRef::Integer(values[row]),
            (Values::Real(values), _) => ValueRef::Real(values[row]),
            (Values::Bytes { offsets, bytes }, ColumnType::Text) => {
                ValueRef::Text(&bytes[range_of(offsets, row)])
            }
            (Values::Bytes { offsets, bytes }, _) => ValueRef::Blob(&bytes[range_of(offsets, row)]),
        }
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        match &mut self.values {
            Values::Integer(values) => values.clear(),
            Values::Real(values) => values.clear(),
            Values::Bytes { offsets, bytes } => {
                offsets.truncate(1);
                bytes.clear();
            }
        }
        self.validity.clear();
        self.row_count = 0;
    }

    /// Appends a value; an integer is a double where doubles are. False if it is of another type, or bytes pass 2 GiB.
    #[inline]
    #[must_use]
    pub fn push(&mut self, value: ValueRef<'_>) -> bool {
        let is_null = value.is_null();
        match (&mut self.values, value, self.column_type) {
            (Values::Integer(values), ValueRef::Integer(number), _) => values.push(number),
            (Values::Integer(values), ValueRef::Null, _) => values.push(0),
            (Values::Real(values), ValueRef::Real(number), _) => values.push(number),
            (Values::Real(values), ValueRef::Integer(number), _) => values.push(as_double(number)),
            (Values::Real(values), ValueRef::Null, _) => values.push(0.0),
            (Values::Bytes { offsets, bytes }, ValueRef::Text(value), ColumnType::Text)
            | (Values::Bytes { offsets, bytes }, ValueRef::Blob(value), ColumnType::Blob) => {
                bytes.extend_from_slice(value);
                let Ok(end) = i32::try_from(bytes.len()) else { return false };
                offsets.push(end);
            }
            (Values::Bytes { offsets, .. }, ValueRef::Null, _) => {
                offsets.push(offsets.last().copied().unwrap_or(0));
            }
            _ => return false,
        }
        self.note_rows(1, |_| !is_null);
        true
    }

    /// Notes rows whose values were appended, and which of them have one.
    fn note_rows(&mut self, count: usize, has_value: impl Fn(usize) -> bool) {
        let before = self.row_count;
        self.row_count += count;
        if self.validity.is_empty() && (0..count).all(&has_value) {
            return;
        }
        // All rows before these have a value where nobody has noted it.
        let first = if self.validity.is_empty() { 0 } else { before };
        for row in first..self.row_count {
            match row < before || has_value(row - before) {
                true => set(&mut self.validity, row),
                false => self.validity.resize(row / 8 + 1, 0),
            }
        }
    }

    /// Appends the values of some places of a minipage; false if it is of another type or contradicts itself.
    pub(crate) fn append_minipage(
        &mut self,
        view: &MinipageView<'_>,
        places: Range<usize>,
    ) -> bool {
        let (first, count) = (places.start, places.len());
        let fits = match &mut self.values {
            Values::Integer(values) => view.append_integers(places, values).is_some(),
            Values::Real(values) => {
                let before = values.len();
                let fits = view.append_reals(places, values).is_some();
                // No double is stored that is none.
                fits && !values[before..].iter().any(|number| number.is_nan())
            }
            Values::Bytes { .. } => {
                return places
                    .into_iter()
                    .all(|place| view.value(place).is_ok_and(|value| self.push(value)));
            }
        };
        if fits {
            let is_full = view.is_full();
            self.note_rows(count, |row| is_full || view.has_value(first + row));
        }
        fits
    }

    /// Bytes that it will have taken from memory when some rows of another column have been appended, and those of the
    /// longest of its vectors that is copied to a longer place meanwhile.
    pub(crate) fn bytes_with(&self, other: &Self, places: &[u32]) -> (usize, usize) {
        let mut moved_bytes = 0;
        let mut grown = |length: usize, capacity: usize, more: usize, bytes: usize| {
            let needed = length + more;
            if needed <= capacity {
                return capacity * bytes;
            }
            moved_bytes = moved_bytes.max(capacity * bytes);
            grown_capacity(capacity, needed) * bytes
        };
        let rows = places.len();
        let values = match (&self.values, &other.values) {
            (Values::Integer(values), _) => grown(values.len(), values.capacity(), rows, 8),
            (Values::Real(values), _) => grown(values.len(), values.capacity(), rows, 8),
            (Values::Bytes { offsets, bytes }, Values::Bytes { offsets: from, bytes: its }) => {
                let room = bytes.capacity() - bytes.len();
                grown(offsets.len(), offsets.capacity(), rows, 4)
                    + grown(bytes.len(), bytes.capacity(), wanted_room(room, from, its, places), 1)
            }
            _ => unreachable!("columns of one type"),
        };
        (values + self.validity.capacity(), moved_bytes)
    }

    /// Appends some rows of a column of the same type. Its vectors grow as [`Self::bytes_with`] says.
    ///
    /// # Panics
    /// If it is of another type, or has no such row.
    pub(crate) fn append(&mut self, other: &Self, places: &[u32]) {
        match (&mut self.values, &other.values) {
            (Values::Integer(mine), Values::Integer(its)) => {
                grow(mine, places.len());
                mine.extend(places.iter().map(|&place| its[place as usize]));
            }
            (Values::Real(mine), Values::Real(its)) => {
                grow(mine, places.len());
                mine.extend(places.iter().map(|&place| its[place as usize]));
            }
            (Values::Bytes { offsets, bytes }, Values::Bytes { offsets: from, bytes: its }) => {
                grow(offsets, places.len());
                let room = bytes.capacity() - bytes.len();
                grow(bytes, wanted_room(room, from, its, places));
                for &place in places {
                    bytes.extend_from_slice(&its[range_of(from, place as usize)]);
                    offsets.push(offset_of(bytes.len()));
                }
            }
            _ => unreachable!("columns of one type"),
        }
        self.note_rows(places.len(), |row| other.has_value(places[row] as usize));
    }

    /// Appends all rows of a column of the same type.
    ///
    /// # Panics
    /// If it is of another type.
    pub(crate) fn append_all(&mut self, other: &Self) {
        match (&mut self.values, &other.values) {
            (Values::Integer(mine), Values::Integer(its)) => mine.extend_from_slice(its),
            (Values::Real(mine), Values::Real(its)) => mine.extend_from_slice(its),
            (Values::Bytes { offsets, bytes }, Values::Bytes { offsets: from, bytes: its }) => {
                let start = offset_of(bytes.len());
                bytes.extend_from_slice(its);
                let ends = from[1..].iter().map(|&end| start.checked_add(end));
                offsets.extend(ends.map(|end| end.expect(TOO_LONG)));
            }
            _ => unreachable!("columns of one type"),
        }
        self.note_rows(other.row_count, |row| other.has_value(row));
    }

    /// Makes room for all rows of other columns.
    pub(crate) fn reserve_exact<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
        let rows = others.clone().map(Self::row_count).sum();
        match &mut self.values {
            Values::Integer(values) => values.reserve_exact(rows),
            Values::Real(values) => values.reserve_exact(rows),
            Values::Bytes { offsets, bytes } => {
                offsets.reserve_exact(rows);
                let length = |other: &Self| match &other.values {
                    Values::Bytes { bytes, .. } => bytes.len(),
                    _ => 0,
                };
                bytes.reserve_exact(others.map(length).sum());
            }
        }
    }

    /// Bytes that were taken from memory.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Integer(values) => values.capacity() * 8,
            Values::Real(values) => values.capacity() * 8,
            Values::Bytes { offsets, bytes } => offsets.capacity() * 4 + bytes.capacity(),
        };
        values + self.validity.capacity()
    }

    /// Bytes of the values of all rows.
    pub(crate) const fn value_bytes(&self) -> usize {
        match &self.values {
            Values::Integer(values) => values.len() * 8,
            Values::Real(values) => values.len() * 8,
            Values::Bytes { offsets, bytes } => offsets.len() * 4 + bytes.len(),
        }
    }

    pub(super) fn audit(&self) {
        let count = match &self.values {
            Values::Integer(values) => values.len(),
            Values::Real(values) => values.len(),
            Values::Bytes { offsets, bytes } => {
                assert!(offsets.is_sorted() && offsets[0] == 0, "invariant 2");
                let end = usize::try_from(offsets[offsets.len() - 1]).expect("invariant 2");
                assert_eq!(end, bytes.len(), "invariant 2");
                offsets.len() - 1
            }
        };
        assert_eq!(count, self.row_count, "invariant 1");
        let bits = self.row_count.div_ceil(8);
        assert!(self.validity.is_empty() || self.validity.len() == bits, "invariant 1");
    }
}

/// Whoever gathers texts sees to it that they are not longer.
const TOO_LONG: &str = "texts have 2 GiB at most";

/// How long a vector gets that is too short: by a quarter, since memory is short where columns are long.
const fn grown_capacity(capacity: usize, needed: usize) -> usize {
    let longer = capacity + capacity / 4;
    if needed > longer { needed } else { longer }
}

/// Makes room for some values more.
fn grow<T>(values: &mut Vec<T>, more: usize) {
    let needed = values.len() + more;
    if needed > values.capacity() {
        values.reserve_exact(grown_capacity(values.capacity(), needed) - values.len());
    }
}

/// The room that the texts of some rows want; there is enough, and nobody adds them up, where all would fit.
fn wanted_room(room: usize, offsets: &[i32], texts: &[u8], places: &[u32]) -> usize {
    match texts.len() <= room {
        true => 0,
        false => places.iter().map(|&place| range_of(offsets, place as usize).len()).sum(),
    }
}

/// Where so many bytes end.
#[inline]
fn offset_of(byte_count: usize) -> i32 {
    i32::try_from(byte_count).expect(TOO_LONG)
}

/// Where the bytes of a row lie.
#[inline]
fn range_of(offsets: &[i32], row: usize) -> Range<usize> {
    let at = |offset: i32| usize::try_from(offset).expect("offsets begin with 0 and never fall");
    at(offsets[row])..at(offsets[row + 1])
}

/// Sets the bit of a row, which may be the first of a byte.
#[inline]
fn set(bits: &mut Vec<u8>, row: usize) {
    if bits.len() <= row / 8 {
        bits.resize(row / 8 + 1, 0);
    }
    bits[row / 8] |= 1 << (row % 8);
}

#[allow(clippy::cast_precision_loss, reason = "columns of doubles hold what a double is exactly")]
const fn as_double(number: i64) -> f64 {
    number as f64
}
