//! How a block lies on the members of an array: Myers 2008 (S000), section 8.3.
//!
//! ```text
//!   n = 4 members                  m of f      space f/m    may fail f - m
//!   one copy       [a] .  .  .     1 of 1      1            0
//!   replication    [a] .  [a] .    1 of 2      2            1
//!   stripe         [a][b][c][d]    4 of 4      1            0
//!   parity         [a][b][c][p]    3 of 4      4/3          1
//! ```
//!
//! 1. 1 <= m <= f <= n <= 24.
//! 2. Fragments of one block lie on different members.

use crate::ArrayError;
use nandu_base::Rng;
use serde::{Deserialize, Serialize};

/// The most members of an array: a fragment has 24 bits for those that were there.
pub const MEMBER_COUNT_MAX: u8 = 24;

/// How many fragments a block has and how many give it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    member_count: u8,
    needed_count: u8,
    written_count: u8,
}

/// The layouts that have names, for any number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandardLayout {
    /// The whole block on one member.
    OneCopy,
    /// A block cut over all members: RAID 0.
    Stripe,
    /// A block on two members: RAID 1 over pairs.
    Replication,
    /// A block over all members, one fragment of which is spare: RAID 5.
    Parity,
}

impl Layout {
    /// `needed_count` of `written_count` fragments on `member_count` members.
    ///
    /// # Errors
    /// [`ArrayError::Layout`] where invariant 1 does not hold.
    pub const fn new(
        member_count: u8,
        needed_count: u8,
        written_count: u8,
    ) -> Result<Self, ArrayError> {
        if needed_count == 0
            || needed_count > written_count
            || written_count > member_count
            || member_count > MEMBER_COUNT_MAX
        {
            return Err(ArrayError::Layout { member_count, needed_count, written_count });
        }
        Ok(Self { member_count, needed_count, written_count })
    }

    /// Every layout of `member_count` members, by needed, then by written fragments.
    pub fn all(member_count: u8) -> impl Iterator<Item = Self> {
        let pairs = (1..=member_count).flat_map(move |m| (m..=member_count).map(move |f| (m, f)));
        pairs.filter_map(move |(needed, written)| Self::new(member_count, needed, written).ok())
    }

    /// Members of the array, n.
    #[must_use]
    pub const fn member_count(self) -> u8 {
        self.member_count
    }

    /// Fragments that give back a block, m.
    #[must_use]
    pub const fn needed_count(self) -> u8 {
        self.needed_count
    }

    /// Fragments that are written, f.
    #[must_use]
    pub const fn written_count(self) -> u8 {
        self.written_count
    }

    /// Members that may fail without a loss.
    #[must_use]
    pub const fn spare_count(self) -> u8 {
        self.written_count - self.needed_count
    }

    /// Space taken over space of the data, f / m. For reports only.
    #[must_use]
    pub fn redundancy(self) -> f64 {
        f64::from(self.written_count) / f64::from(self.needed_count)
    }

    /// Puts into the front of `members` all members in an order drawn for `block`; its fragments lie
    /// on the first f of them, for good (flash reference 7.5, point 4). Depends on nothing else but
    /// `seed`.
    ///
    /// # Panics
    /// If `members` is shorter than the array.
    pub fn place(self, seed: u64, block: u64, members: &mut [u8]) {
        let members = &mut members[..usize::from(self.member_count)];
        for (member, number) in members.iter_mut().zip(0..) {
            *member = number;
        }
        // An odd factor keeps the seeds of neighbours apart; SplitMix64 does the rest.
        Rng::new(seed ^ block.wrapping_mul(0x9E37_79B9_7F4A_7C15)).shuffle(members);
    }

    /// The layout that `text` names on `member_count` members: that of a [`StandardLayout`], or a
    /// short name such as `m3w4`.
    ///
    /// # Errors
    /// [`ArrayError`] if it names none, saying what does, or does not fit so many members.
    pub fn parse(text: &str, member_count: u8) -> Result<Self, ArrayError> {
        let standard = StandardLayout::ALL.into_iter().find(|layout| layout.label() == text);
        if let Some(standard) = standard {
            return standard.on(member_count);
        }
        let counts = text.strip_prefix('m').and_then(|rest| rest.split_once('w'));
        let counts = counts.and_then(|(m, f)| Some((m.parse().ok()?, f.parse().ok()?)));
        let Some((needed, written)) = counts else {
            let labels: Vec<&str> = StandardLayout::ALL.map(StandardLayout::label).into();
            let labels = labels.join(", ");
            let what = format!("is not `{text}`; write {labels}, or m2w3 for any 2 of 3 fragments");
            return Err(ArrayError::Value { name: "layout", what });
        };
        Self::new(member_count, needed, written)
    }

    /// Its short name: `m3w4` needs three of four fragments written.
    #[must_use]
    pub fn name(self) -> String {
        format!("m{}w{}", self.needed_count, self.written_count)
    }
}

impl StandardLayout {
    /// All layouts that have a name.
    pub const ALL: [Self; 4] = [Self::OneCopy, Self::Stripe, Self::Replication, Self::Parity];

    /// The name in experiments and tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OneCopy => "one_copy",
            Self::Stripe => "stripe",
            Self::Replication => "replication",
            Self::Parity => "parity",
        }
    }

    /// It on `member_count` members.
    ///
    /// # Errors
    /// [`ArrayError::Layout`] where there are no members, too many, or fewer than two and it needs two.
    pub const fn on(self, member_count: u8) -> Result<Layout, ArrayError> {
        let (needed, written) = match self {
            Self::OneCopy => (1, 1),
            Self::Stripe => (member_count, member_count),
            Self::Replication => (1, 2),
            Self::Parity => (member_count.saturating_sub(1), member_count),
        };
        Layout::new(member_count, needed, written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_members_have_ten_layouts() {
        let names: Vec<String> = Layout::all(4).map(Layout::name).collect();
        let expected =
            ["m1w1", "m1w2", "m1w3", "m1w4", "m2w2", "m2w3", "m2w4", "m3w3", "m3w4", "m4w4"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_layout_is_known_by_its_names() {
        for layout in Layout::all(5) {
            assert_eq!(Layout::parse(&layout.name(), 5), Ok(layout));
        }
        for standard in StandardLayout::ALL {
            assert_eq!(Layout::parse(standard.label(), 4), standard.on(4));
        }
        let error = Layout::parse("raid5", 4).unwrap_err().to_string();
        assert!(error.contains("`raid5`; write one_copy, stripe, replication, parity"), "{error}");
        assert!(Layout::parse("m5w6", 4).is_err());
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        for (n, m, f) in [(4, 0, 1), (4, 3, 2), (4, 1, 5), (25, 1, 1), (0, 0, 0)] {
            let error = Layout::new(n, m, f).unwrap_err();
            assert!(error.to_string().contains("choose 1 <= needed"), "{error}");
        }
        assert!(StandardLayout::Replication.on(1).is_err());
    }

    #[test]
    fn a_placement_is_fixed_fair_and_on_different_members() {
        let layout = Layout::new(5, 2, 3).unwrap();
        let mut first_counts = [0_u32; 5];
        for block in 0..10_000 {
            let (mut members, mut again) = ([9; 16], [9; 16]);
            layout.place(7, block, &mut members);
            layout.place(7, block, &mut again);
            assert_eq!(members, again);
            let mut sorted = members[..5].to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            first_counts[usize::from(members[0])] += 1;
        }
        assert!(first_counts.iter().all(|count| (1850..2150).contains(count)));
    }
}
