//! New labels between those that there are.
//!
//! 1. A new label is a sibling's of the one or two that it is made from, and lies right beside
//!    them: behind the one with all its descendants, before the other.
//! 2. At an open end (before the first, behind the last, at either end of a gap) numbers go on, so
//!    labels get longer as a number does. Only who divides what is closed at both ends, again and
//!    again, makes them longer by a division each time; numbers in gaps are [`GAP_STEP`] apart, so
//!    that this happens at every sixth time or so.

use super::ordinal::{self, ORDINAL_MAX, ORDINAL_MIN};
use super::{ATTRIBUTE, BESIDE, DivisionKind, LABEL_BYTES_MAX, Label, LabelError, divisions};

/// How far apart numbers in a gap are.
pub(super) const GAP_STEP: i64 = 64;

impl Label {
    /// The label of the first child of a node that has none.
    ///
    /// # Errors
    /// If it would be too long.
    pub fn first_child(&self) -> Result<Self, LabelError> {
        finish(self.as_bytes(), &[], Some(0))
    }

    /// The label of the first attribute of an element that has none.
    ///
    /// # Errors
    /// If it would be too long.
    pub fn first_attribute(&self) -> Result<Self, LabelError> {
        let mut bytes = self.as_bytes().to_vec();
        bytes.push(ATTRIBUTE);
        finish(&bytes, &[], Some(0))
    }

    /// The label of a new last sibling, of this one, which was the last.
    ///
    /// # Errors
    /// If there are no numbers left, or this is the document's.
    pub fn after(&self) -> Result<Self, LabelError> {
        let Siblings { front, numbers } = Siblings::of(self)?;
        finish(front, &[], numbers[0].checked_add(1))
    }

    /// The label of a new first sibling, of this one, which was the first.
    ///
    /// # Errors
    /// As [`Self::after`].
    pub fn before(&self) -> Result<Self, LabelError> {
        let Siblings { front, numbers } = Siblings::of(self)?;
        finish(front, &[], numbers[0].checked_sub(1))
    }

    /// The label of a new node between two siblings that follow each other.
    ///
    /// # Errors
    /// If it would be too long, or the two are no siblings in this order.
    pub fn between(left: &Self, right: &Self) -> Result<Self, LabelError> {
        let (one, other) = (Siblings::of(left)?, Siblings::of(right)?);
        if one.front != other.front || left >= right {
            return Err(LabelError::NoSiblings);
        }
        let pairs = one.numbers.iter().zip(&other.numbers);
        let same = pairs.take_while(|(one, other)| one == other).count();
        let Some(&low) = one.numbers.get(same) else {
            // The right one is the first in the gap behind the left one.
            return finish(one.front, &one.numbers, other.numbers[same].checked_sub(GAP_STEP));
        };
        let high = other.numbers[same];
        if high - low > 1 {
            return finish(one.front, &one.numbers[..same], Some(low + (high - low) / 2));
        }
        let number = one.numbers.get(same + 1).map_or(Some(0), |last| last.checked_add(GAP_STEP));
        finish(one.front, &one.numbers[..=same], number)
    }
}

/// What a label's siblings have, too, and what is its own.
pub(super) struct Siblings<'l> {
    /// The label of the node above, and the mark of attributes.
    pub(super) front: &'l [u8],
    /// The number of the level, then those of gaps; there is at least one.
    pub(super) numbers: Vec<i64>,
}

impl<'l> Siblings<'l> {
    pub(super) fn of(label: &'l Label) -> Result<Self, LabelError> {
        let bytes = label.as_bytes();
        let mut numbers = Vec::new();
        let mut front_bytes = 0;
        for division in divisions(bytes) {
            if division.kind != DivisionKind::Beside {
                numbers.clear();
                let is_attribute = division.kind == DivisionKind::Attribute;
                front_bytes = division.start + usize::from(is_attribute);
            }
            numbers.push(division.ordinal);
        }
        if numbers.is_empty() {
            Err(LabelError::NoSiblings)
        } else {
            Ok(Self { front: &bytes[..front_bytes], numbers })
        }
    }
}

/// A label from its parts.
pub(super) fn finish(
    front: &[u8],
    numbers: &[i64],
    last: Option<i64>,
) -> Result<Label, LabelError> {
    let last = last.filter(|last| (ORDINAL_MIN..=ORDINAL_MAX).contains(last));
    let last = last.ok_or(LabelError::Crowded)?;
    let mut bytes = front.to_vec();
    for &number in numbers {
        ordinal::encode(number, &mut bytes);
        bytes.push(BESIDE);
    }
    ordinal::encode(last, &mut bytes);
    if bytes.len() > LABEL_BYTES_MAX { Err(LabelError::Crowded) } else { Ok(Label(bytes)) }
}
