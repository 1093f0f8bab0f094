//! The way out where labels have become too long: the smallest crowd of siblings that is worth it
//! gets new labels.
//!
//! ```text
//!   37 40 FE 37 FE 5A FE 37 FE …           480 bytes: no room beside it
//!   ├──────── a crowd ─┤                   siblings that begin so and go on with FE
//!   ├── a larger one
//!   becomes   37 40 FE 37 FE 37,  37 40 FE 37 FE 77,  …   in the same order, a step apart
//! ```
//!
//! 1. When: [`Label::between`] says [`LabelError::Crowded`]. Which: of the crowds around the gap,
//!    from the smallest to all siblings, the first whose new labels leave at least a byte for each
//!    sixteen of its members, half of the longest label at most. So a node that gets a new label
//!    has been paid for by insertions, and relabelling one again takes as many more.
//! 2. New labels keep the order of the old ones; nodes outside of the crowd keep theirs.
//! 3. All siblings together are the last resort. If even their new labels would be too long, the
//!    level is too deep, and nobody's label changes.

use super::insert::{GAP_STEP, Siblings, finish};
use super::ordinal;
use super::{BESIDE, LABEL_BYTES_MAX, Label, LabelError};

/// How many members of a crowd want a byte of room.
const MEMBERS_PER_BYTE: u64 = 16;

/// Siblings that are to get new labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    front: Vec<u8>,
    numbers: Vec<i64>,
    member_count: u64,
}

impl Crowd {
    /// The smallest crowd around the gap behind `left` and before `right`, siblings that follow
    /// each other, whose relabelling is worth it. `count` says how many siblings have labels in a
    /// range of bytes, from the first up to, not including, the second; it is asked for ever larger
    /// ranges.
    ///
    /// # Errors
    /// Whatever `count` returns; or [`LabelError::Crowded`] if no crowd would get shorter labels,
    /// and if the two are no siblings.
    pub fn around<E: From<LabelError>>(
        left: &Label,
        right: &Label,
        mut count: impl FnMut(&[u8], &[u8]) -> Result<u64, E>,
    ) -> Result<Self, E> {
        let (one, other) = (Siblings::of(left)?, Siblings::of(right)?);
        if one.front != other.front || left >= right {
            return Err(LabelError::NoSiblings.into());
        }
        let pairs = one.numbers.iter().zip(&other.numbers);
        let same = pairs.take_while(|(one, other)| one == other).count();
        // The gap lies behind the left one's number here.
        for depth in (0..=(same + 1).min(one.numbers.len())).rev() {
            let (front, numbers) = (one.front.to_vec(), one.numbers[..depth].to_vec());
            let mut crowd = Self { front, numbers, member_count: 0 };
            let (first, end) = crowd.range();
            crowd.member_count = count(&first, &end)?;
            if crowd.member_count > 0 && crowd.is_worth_it() {
                return Ok(crowd);
            }
        }
        Err(LabelError::Crowded.into())
    }

    /// How many siblings get new labels.
    #[must_use]
    pub const fn member_count(&self) -> u64 {
        self.member_count
    }

    /// From which bytes on, and up to which, the labels of its members lie, with all below them.
    #[must_use]
    pub fn range(&self) -> (Vec<u8>, Vec<u8>) {
        let mut first = self.front.clone();
        for &number in &self.numbers {
            ordinal::encode(number, &mut first);
            first.push(BESIDE);
        }
        let mut end = first.clone();
        if let Some(last) = end.last_mut().filter(|_| !self.numbers.is_empty()) {
            // Behind all that begins with what it is in, with FE.
            *last = 0xFF;
        } else {
            // All children, or all attributes.
            end.push(BESIDE);
            first.push(0x02);
        }
        (first, end)
    }

    /// The new labels of its members, in their order.
    ///
    /// # Errors
    /// If one would be too long, which [`Self::around`] has ruled out.
    pub fn labels(&self) -> impl Iterator<Item = Result<Label, LabelError>> {
        let step = self.step();
        (0..self.member_count.cast_signed())
            .map(move |place| finish(&self.front, &self.numbers, Some(place * step)))
    }

    /// How far apart their numbers will be: gaps have room, levels are dense.
    fn step(&self) -> i64 {
        if self.numbers.is_empty() { 1 } else { GAP_STEP }
    }

    /// What invariant 1 says.
    fn is_worth_it(&self) -> bool {
        let last = (self.member_count - 1).cast_signed() * self.step();
        let Ok(longest) = finish(&self.front, &self.numbers, Some(last)) else { return false };
        let room = (LABEL_BYTES_MAX - longest.as_bytes().len()) as u64;
        let half = (LABEL_BYTES_MAX / 2) as u64;
        room >= (self.member_count / MEMBERS_PER_BYTE).clamp(4, half)
            || (self.numbers.is_empty() && room > 4)
    }
}
