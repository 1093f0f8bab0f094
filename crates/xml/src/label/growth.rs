//! How labels grow where siblings are inserted by a rule, and what relabelling costs: what S004
//! (section 5.2) says of prefix labels and range labels, measured.
//!
//! 1. The siblings of a run are in the order of their labels after each insertion and relabelling.

use super::crowd::Crowd;
use super::range::RangeSiblings;
use super::{Label, LabelError};

/// Where siblings are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertions {
    /// Each behind the last one.
    Appends,
    /// Each before the first one.
    Prepends,
    /// Between two that stay: each right behind the first of them.
    OneGap,
    /// Between the two that came last, now on this side and now on the other: the worst there is.
    Bisections,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// How many siblings there are.
    pub count: u64,
    /// Bytes of all their labels, without the one of the node above.
    pub label_bytes: u64,
    /// Bytes of the longest.
    pub longest_bytes: u64,
    /// How often a crowd got new labels.
    pub crowd_count: u64,
    /// How many labels were new in all.
    pub relabelled_count: u64,
}

/// Siblings with an open place: those before it, and those behind it, the nearest last.
#[derive(Default)]
struct Siblings {
    left: Vec<Label>,
    right: Vec<Label>,
}

impl Insertions {
    /// All rules there are.
    pub const ALL: [Self; 4] = [Self::Appends, Self::Prepends, Self::OneGap, Self::Bisections];

    /// Its name in tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Appends => "appends",
            Self::Prepends => "prepends",
            Self::OneGap => "inserts in one gap",
            Self::Bisections => "alternating bisections",
        }
    }

    /// Inserts so many siblings below a node.
    ///
    /// # Errors
    /// If there is no label even after relabelling, which does not happen at small levels.
    ///
    /// # Panics
    /// If labels are out of order.
    pub fn run(self, parent: &Label, count: u64) -> Result<Growth, LabelError> {
        let mut growth = Growth { count, ..Growth::default() };
        let mut siblings = Siblings::default();
        for place in 0..count {
            siblings.insert(parent, self.place_is_behind(place), &mut growth)?;
        }
        let all: Vec<&Label> = siblings.left.iter().chain(siblings.right.iter().rev()).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "labels are in order");
        for label in all {
            let byte_count = (label.as_bytes().len() - parent.as_bytes().len()) as u64;
            growth.label_bytes += byte_count;
            growth.longest_bytes = growth.longest_bytes.max(byte_count);
        }
        Ok(growth)
    }

    /// How many range labels are given again under so many of these insertions.
    #[must_use]
    pub fn range_relabelled_count(self, count: u64) -> u64 {
        let mut ranges = RangeSiblings::default();
        (0..count).for_each(|place| ranges.insert(self.place_is_behind(place)));
        ranges.audit();
        ranges.relabelled_count()
    }

    /// Whether the open place is behind the new node.
    fn place_is_behind(self, place: u64) -> bool {
        match self {
            Self::Appends => true,
            Self::Prepends => false,
            // The first one stays on the left.
            Self::OneGap => place == 0,
            Self::Bisections => place.is_multiple_of(2),
        }
    }
}

impl Siblings {
    fn insert(
        &mut self,
        parent: &Label,
        place_is_behind: bool,
        growth: &mut Growth,
    ) -> Result<(), LabelError> {
        let label = match (self.left.last(), self.right.last()) {
            (None, None) => parent.first_child()?,
            (Some(last), None) => last.after()?,
            (None, Some(first)) => first.before()?,
            (Some(left), Some(right)) => match Label::between(left, right) {
                Err(LabelError::Crowded) => {
                    let crowd = Crowd::around(left, right, |first, end| {
                        Ok::<_, LabelError>(self.count(first, end))
                    })?;
                    self.relabel(&crowd)?;
                    growth.crowd_count += 1;
                    growth.relabelled_count += crowd.member_count();
                    let (left, right) = (self.left.last(), self.right.last());
                    let (Some(left), Some(right)) = (left, right) else {
                        unreachable!("relabelling removes nobody")
                    };
                    Label::between(left, right)?
                }
                label => label?,
            },
        };
        if place_is_behind {
            self.left.push(label)
        } else {
            self.right.push(label)
        }
        Ok(())
    }

    /// Where labels lie from `first` up to, not including, `end`, on the left and on the right.
    fn find(&self, first: &[u8], end: &[u8]) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let left = |bound: &[u8]| self.left.partition_point(|label| label.as_bytes() < bound);
        let right = |bound: &[u8]| self.right.partition_point(|label| label.as_bytes() >= bound);
        (left(first)..left(end), right(end)..right(first))
    }

    fn count(&self, first: &[u8], end: &[u8]) -> u64 {
        let (left, right) = self.find(first, end);
        (left.len() + right.len()) as u64
    }

    fn relabel(&mut self, crowd: &Crowd) -> Result<(), LabelError> {
        let (first, end) = crowd.range();
        let (left, right) = self.find(&first, &end);
        let members = self.left[left].iter_mut().chain(self.right[right].iter_mut().rev());
        members.zip(crowd.labels()).try_for_each(|(member, label)| {
            *member = label?;
            Ok(())
        })
    }
}
