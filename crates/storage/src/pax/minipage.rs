//! The values of one column in a PAX page.
//!
//! ```text
//!   fixed     presence bits │ n values of `width` bytes, big-endian       integers, doubles
//!   variable  presence bits │ n ends, 4 bytes big-endian │ bytes          texts, blobs
//! ```
//!
//! The form says which, the width (that of the longest integer), and whether there are presence bits: only
//! where some values are NULL. Where all are, there is nothing at all.

use crate::database::ColumnType;
use crate::sqlite::ValueRef;
use nandu_base::to_u32;
use std::ops::Range;

/// Every value is NULL.
const FORM_NULLS: u8 = 0;
/// Of values of any length; smaller forms are a width in bytes.
const FORM_VARIABLE: u8 = 9;
/// The bit of a form with presence bits.
const FORM_PRESENCE: u8 = 0x10;
/// Bytes of an end.
const END_BYTES: usize = 4;

/// Whether a minipage of a form and so many rows may be so long.
pub(super) fn fits(form: u8, row_count: u32, byte_count: u32) -> bool {
    let (rows, bytes) = (u64::from(row_count), u64::from(byte_count));
    let presence = if form & FORM_PRESENCE == 0 { 0 } else { rows.div_ceil(8) };
    match form & !FORM_PRESENCE {
        FORM_NULLS => byte_count == 0 && form == FORM_NULLS,
        FORM_VARIABLE => bytes >= presence + rows * END_BYTES as u64,
        width @ 1..=8 => bytes == presence + rows * u64::from(width),
        _ => false,
    }
}

/// Values to be read.
#[derive(Clone, Copy, Debug)]
pub struct MinipageView<'a> {
    column_type: ColumnType,
    width: u8,
    row_count: usize,
    /// Empty where no value is NULL.
    presence: &'a [u8],
    /// Of variable values.
    ends: &'a [u8],
    values: &'a [u8],
}

impl<'a> MinipageView<'a> {
    pub(super) fn new(
        bytes: &'a [u8],
        column_type: ColumnType,
        form: u8,
        row_count: usize,
    ) -> Result<Self, &'static str> {
        if !fits(form, to_u32(row_count as u64), to_u32(bytes.len() as u64)) {
            return Err("it has a wrong length");
        }
        let width = form & !FORM_PRESENCE;
        let is_right = match column_type {
            ColumnType::Integer => width <= 8,
            ColumnType::Real => matches!(width, FORM_NULLS | 8),
            ColumnType::Text | ColumnType::Blob => matches!(width, FORM_NULLS | FORM_VARIABLE),
        };
        if !is_right {
            return Err("it has a form that its type does not have");
        }
        let presence_bytes = if form & FORM_PRESENCE == 0 { 0 } else { row_count.div_ceil(8) };
        let (presence, rest) = bytes.split_at(presence_bytes);
        let end_bytes = if width == FORM_VARIABLE { row_count * END_BYTES } else { 0 };
        let (ends, values) = rest.split_at(end_bytes);
        Ok(Self { column_type, width, row_count, presence, ends, values })
    }

    /// The value of the row at a place.
    ///
    /// # Errors
    /// If there is no such row, or what the minipage says of it makes no sense.
    #[inline]
    pub fn value(&self, place: usize) -> Result<ValueRef<'a>, &'static str> {
        if place >= self.row_count {
            return Err("it has no such row");
        }
        let is_null = self.width == FORM_NULLS
            || (!self.presence.is_empty() && self.presence[place / 8] >> (place % 8) & 1 == 0);
        if is_null {
            return Ok(ValueRef::Null);
        }
        Ok(match self.column_type {
            ColumnType::Integer => ValueRef::Integer(self.integer(place)),
            ColumnType::Real => match f64::from_bits(self.integer(place).cast_unsigned()) {
                number if number.is_nan() => ValueRef::Null,
                number => ValueRef::Real(number),
            },
            ColumnType::Text => ValueRef::Text(self.bytes(place)?),
            ColumnType::Blob => ValueRef::Blob(self.bytes(place)?),
        })
    }

    #[inline]
    fn integer(&self, place: usize) -> i64 {
        let width = self.width as usize;
        let bytes = &self.values[place * width..(place + 1) * width];
        let fill = if bytes[0] & 0x80 == 0 { 0 } else { u64::MAX };
        bytes.iter().fold(fill, |number, &byte| number << 8 | u64::from(byte)).cast_signed()
    }

    /// Appends the integers of some places, 0 where there is none; `None` of a column of another type.
    ///
    /// # Panics
    /// If there are no such places.
    #[must_use]
    pub fn append_integers(&self, places: Range<usize>, target: &mut Vec<i64>) -> Option<()> {
        (self.column_type == ColumnType::Integer)
            .then(|| self.append_words(places, target, |it| it))
    }

    /// The same of a column of doubles.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn append_reals(&self, places: Range<usize>, target: &mut Vec<f64>) -> Option<()> {
        let of = |bits: i64| f64::from_bits(bits.cast_unsigned());
        (self.column_type == ColumnType::Real).then(|| self.append_words(places, target, of))
    }

    fn append_words<T: Copy>(
        &self,
        places: Range<usize>,
        target: &mut Vec<T>,
        of: impl Fn(i64) -> T,
    ) {
        match self.width {
            FORM_NULLS => target.resize(target.len() + places.len(), of(0)),
            1 => self.append_width::<1, T>(places, target, of),
            2 => self.append_width::<2, T>(places, target, of),
            3 => self.append_width::<3, T>(places, target, of),
            4 => self.append_width::<4, T>(places, target, of),
            5 => self.append_width::<5, T>(places, target, of),
            6 => self.append_width::<6, T>(places, target, of),
            7 => self.append_width::<7, T>(places, target, of),
            _ => self.append_width::<8, T>(places, target, of),
        }
    }

    /// Integers of one width: as if they were the highest bytes of a word, then shifted down with their sign.
    fn append_width<const WIDTH: usize, T>(
        &self,
        places: Range<usize>,
        target: &mut Vec<T>,
        of: impl Fn(i64) -> T,
    ) {
        let bytes = &self.values[places.start * WIDTH..places.end * WIDTH];
        target.extend(bytes.chunks_exact(WIDTH).map(|stored| {
            let mut word = [0; 8];
            word[..WIDTH].copy_from_slice(stored);
            of(i64::from_be_bytes(word) >> (8 * (8 - WIDTH)))
        }));
    }

    /// Whether the row at a place has a value.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    #[must_use]
    pub fn has_value(&self, place: usize) -> bool {
        self.width != FORM_NULLS
            && (self.presence.is_empty() || self.presence[place / 8] >> (place % 8) & 1 == 1)
    }

    /// Whether every row has a value.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.width != FORM_NULLS && self.presence.is_empty()
    }

    #[inline]
    fn bytes(&self, place: usize) -> Result<&'a [u8], &'static str> {
        let start = if place == 0 { 0 } else { self.end(place - 1) };
        self.values.get(start..self.end(place)).ok_or("a value passes its end")
    }

    #[inline]
    fn end(&self, place: usize) -> usize {
        let at = place * END_BYTES;
        let end: &[u8; END_BYTES] = self.ends[at..].first_chunk().expect("each row has one");
        u32::from_be_bytes(*end) as usize
    }
}

/// Gathers the values of a column until they are a minipage.
#[derive(Debug)]
pub(super) struct MinipageBuffer {
    column_type: ColumnType,
    row_count: usize,
    null_count: usize,
    presence: Vec<u8>,
    width: usize,
    integers: Vec<i64>,
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl MinipageBuffer {
    pub(super) const fn new(column_type: ColumnType) -> Self {
        Self {
            column_type,
            row_count: 0,
            null_count: 0,
            presence: Vec::new(),
            width: 1,
            integers: Vec::new(),
            ends: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Bytes of the minipage if `value` were added.
    pub(super) fn bytes_with(&self, value: ValueRef<'_>) -> usize {
        let rows = self.row_count + 1;
        let nulls = self.null_count + usize::from(value.is_null());
        if nulls == rows {
            return 0;
        }
        let presence = if nulls == 0 { 0 } else { rows.div_ceil(8) };
        presence
            + match value {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    rows * END_BYTES + self.bytes.len() + bytes.len()
                }
                ValueRef::Integer(number) => rows * self.width.max(width_of(number)),
                ValueRef::Real(_) => rows * 8,
                ValueRef::Null if self.is_fixed() => rows * self.width,
                ValueRef::Null => rows * END_BYTES + self.bytes.len(),
            }
    }

    pub(super) fn push(&mut self, value: ValueRef<'_>) {
        let place = self.row_count;
        self.row_count += 1;
        if place.is_multiple_of(8) {
            self.presence.push(0);
        }
        let number = match value {
            ValueRef::Null => {
                self.null_count += 1;
                0
            }
            ValueRef::Integer(number) => {
                self.width = self.width.max(width_of(number));
                number
            }
            ValueRef::Real(number) => {
                self.width = 8;
                number.to_bits().cast_signed()
            }
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                self.bytes.extend_from_slice(bytes);
                0
            }
        };
        if !value.is_null() {
            self.presence[place / 8] |= 1 << (place % 8);
        }
        if self.is_fixed() {
            self.integers.push(number);
        } else {
            self.ends.push(to_u32(self.bytes.len() as u64));
        }
    }

    /// Appends the minipage to `target`, empties the buffer, and answers the form.
    pub(super) fn take(&mut self, target: &mut Vec<u8>) -> u8 {
        let mut form = FORM_NULLS;
        if self.null_count < self.row_count {
            if self.null_count > 0 {
                form |= FORM_PRESENCE;
                target.extend_from_slice(&self.presence);
            }
            if self.is_fixed() {
                form |= u8::try_from(self.width).unwrap_or(8);
                for number in &self.integers {
                    target.extend_from_slice(&number.to_be_bytes()[8 - self.width..]);
                }
            } else {
                form |= FORM_VARIABLE;
                self.ends.iter().for_each(|end| target.extend_from_slice(&end.to_be_bytes()));
                target.extend_from_slice(&self.bytes);
            }
        }
        (self.row_count, self.null_count, self.width) = (0, 0, 1);
        self.presence.clear();
        self.integers.clear();
        self.ends.clear();
        self.bytes.clear();
        form
    }

    const fn is_fixed(&self) -> bool {
        matches!(self.column_type, ColumnType::Integer | ColumnType::Real)
    }
}

/// Bytes that hold an integer and its sign.
const fn width_of(number: i64) -> usize {
    let bits = 65 - if number < 0 { number.leading_ones() } else { number.leading_zeros() };
    bits.div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_as_many_bytes_as_the_longest() {
        for (number, width) in
            [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i64::MAX, 8), (i64::MIN, 8)]
        {
            assert_eq!(width_of(number), width, "{number}");
        }
    }
}
