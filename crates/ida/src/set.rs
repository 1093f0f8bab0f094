//! Which fragments: a set of fragment numbers in 32 bytes, ordered, copied, compared and printed.
//!
//! 1. Numbers are 0 to 255; a code of n fragments uses those below n.

use std::fmt;

/// A set of fragment numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentSet([u64; 4]);

impl FragmentSet {
    /// The set without a member.
    pub const EMPTY: Self = Self([0; 4]);

    /// The numbers below `count`, all 256 if it is larger.
    #[must_use]
    pub fn first(count: usize) -> Self {
        (0..=u8::MAX).take(count).collect()
    }

    /// Adds `fragment`, which may be in already.
    pub fn insert(&mut self, fragment: u8) {
        self.0[usize::from(fragment >> 6)] |= 1 << (fragment & 63);
    }

    /// Takes `fragment` out, which need not be in.
    pub fn remove(&mut self, fragment: u8) {
        self.0[usize::from(fragment >> 6)] &= !(1 << (fragment & 63));
    }

    /// Whether `fragment` is a member.
    #[must_use]
    pub fn contains(&self, fragment: u8) -> bool {
        self.0[usize::from(fragment >> 6)] >> (fragment & 63) & 1 == 1
    }

    /// How many members there are, 0 to 256.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        let set = *self;
        (0..=u8::MAX).filter(move |&fragment| set.contains(fragment))
    }

    /// The members of this set that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The members of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }
}

impl FromIterator<u8> for FragmentSet {
    fn from_iter<T: IntoIterator<Item = u8>>(fragments: T) -> Self {
        let mut set = Self::EMPTY;
        fragments.into_iter().for_each(|fragment| set.insert(fragment));
        set
    }
}

impl fmt::Display for FragmentSet {
    /// The numbers with commas, runs of three or more as `4 to 9`; `none` for the empty set.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return formatter.write_str("none");
        }
        let mut members = self.iter().peekable();
        let mut separator = "";
        while let Some(start) = members.next() {
            let mut end = start;
            while let Some(next) = members.next_if(|&next| end.checked_add(1) == Some(next)) {
                end = next;
            }
            match end - start {
                0 => write!(formatter, "{separator}{start}")?,
                1 => write!(formatter, "{separator}{start}, {end}")?,
                _ => write!(formatter, "{separator}{start} to {end}")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_prints_its_runs() {
        let print = |members: &[u8]| members.iter().copied().collect::<FragmentSet>().to_string();
        assert_eq!(print(&[]), "none");
        assert_eq!(print(&[3]), "3");
        assert_eq!(print(&[1, 2, 7]), "1, 2, 7");
        assert_eq!(print(&[0, 64, 65, 66, 254, 255]), "0, 64 to 66, 254, 255");
        assert_eq!(FragmentSet::first(300).to_string(), "0 to 255");
    }

    proptest! {
        #[test]
        fn a_fragment_set_is_a_set(
            left: BTreeSet<u8>, right: BTreeSet<u8>, member: u8
        ) {
            let of = |set: &BTreeSet<u8>| set.iter().copied().collect::<FragmentSet>();
            let (a, b) = (of(&left), of(&right));
            prop_assert_eq!(a.count(), left.len());
            prop_assert_eq!(a.iter().collect::<BTreeSet<_>>(), left.clone());
            prop_assert_eq!(a.without(&b), of(&(&left - &right)));
            prop_assert_eq!(a.and(&b), of(&(&left & &right)));
            let (mut grown, mut shrunk) = (a, a);
            grown.insert(member);
            shrunk.remove(member);
            prop_assert!(grown.contains(member) && !shrunk.contains(member));
            prop_assert_eq!(grown.count() - shrunk.count(), 1);
        }
    }
}
