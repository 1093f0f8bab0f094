//! Locks on names that lie in each other, of a granularity that who asks may choose (Gray, Lorie, Putzolu and
//! Traiger, "Granularity of Locks and Degrees of Consistency in a Shared Data Base", 1976). What a name
//! stands for, and which one is above which, the caller knows: labels of an XML document say it without a
//! look at the document.
//!
//! ```text
//!             IR   IX   R    RIX  X        IR, IX   something below is read, or changed
//!   IR        ·    ·    ·    ·    ×        R        it and all below it is read
//!   IX        ·    ·    ×    ×    ×        RIX      the same, and something below is changed
//!   R         ·    ×    ·    ×    ×        X        it and all below it is changed
//!   RIX       ·    ×    ×    ×    ×
//!   X         ×    ×    ×    ×    ×
//! ```
//!
//! 1. Who has a name in a mode has those above it at least as intended, as far up as it was told of them.
//! 2. Who has R, RIX or X of a name needs no lock below it for what that allows.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What may be done with a name, and with all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::database) enum NameMode {
    /// Something below it is read.
    IntendRead,
    /// Something below it is changed.
    IntendChange,
    /// It is read, with all below it.
    Read,
    /// The same, and something below it is changed.
    ReadIntendChange,
    /// It is changed, with all below it.
    Change,
}

use NameMode::{Change, IntendChange, IntendRead, Read, ReadIntendChange};

impl NameMode {
    /// Whether another one may not have the name at the same time.
    pub(super) const fn excludes(self, other: Self) -> bool {
        !matches!(
            (self, other),
            (IntendRead, IntendRead | IntendChange | Read | ReadIntendChange)
                | (IntendChange, IntendRead | IntendChange)
                | (Read, IntendRead | Read)
                | (ReadIntendChange, IntendRead)
        )
    }

    /// The least mode that allows what both allow.
    const fn with(self, other: Self) -> Self {
        match (self, other) {
            (Change, _) | (_, Change) => Change,
            (IntendRead, mode) | (mode, IntendRead) => mode,
            (Read, Read) => Read,
            (IntendChange, IntendChange) => IntendChange,
            _ => ReadIntendChange,
        }
    }

    /// Whether it allows all that another one does.
    fn suffices_for(self, other: Self) -> bool {
        self.with(other) == self
    }

    /// What names above one in this mode are held for.
    const fn above(self) -> Self {
        match self {
            IntendRead | Read => IntendRead,
            IntendChange | ReadIntendChange | Change => IntendChange,
        }
    }

    /// The mode of the name at a place of a path whose last one is wanted in this one.
    pub(super) const fn at(self, path: &[&[u8]], place: usize) -> Self {
        if place + 1 == path.len() { self } else { self.above() }
    }

    /// Whether who has a name in it has all below it in another mode.
    const fn covers_below(self, wanted: Self) -> bool {
        match self {
            Change => true,
            Read | ReadIntendChange => matches!(wanted, IntendRead | Read),
            IntendRead | IntendChange => false,
        }
    }
}

/// Who has which names of a file.
#[derive(Debug, Default)]
pub(super) struct Names {
    holders: BTreeMap<Arc<[u8]>, Vec<(u64, NameMode)>>,
    /// Those of each transaction.
    own: BTreeMap<u64, Vec<Arc<[u8]>>>,
}

/// What came of asking for a name and those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::database) enum PathTaking {
    /// The transaction has it.
    Taken,
    /// Others exclude it from the name at this place, in this mode.
    Excluded(usize, NameMode),
}

impl Names {
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// How many names a transaction has.
    pub(super) fn count(&self, transaction: u64) -> usize {
        self.own.get(&transaction).map_or(0, Vec::len)
    }

    /// In which mode a transaction has a name.
    fn mode_of(&self, transaction: u64, name: &[u8]) -> Option<NameMode> {
        let holders = self.holders.get(name)?;
        holders.iter().find(|(holder, _)| *holder == transaction).map(|&(_, mode)| mode)
    }

    /// Takes the names of a path, from the uppermost on: the last in `mode`, those above it as intended.
    /// What is taken before one that is excluded stays; so is the one at `end`, if it is needed.
    pub(super) fn try_path(
        &mut self,
        transaction: u64,
        (path, end): (&[&[u8]], usize),
        mode: NameMode,
    ) -> PathTaking {
        for (place, &name) in path.iter().enumerate() {
            let wanted = mode.at(path, place);
            if place == end || !self.try_name(transaction, name, wanted) {
                return PathTaking::Excluded(place, wanted);
            }
            let held = self.mode_of(transaction, name);
            if held.is_some_and(|held| held.covers_below(mode)) {
                break;
            }
        }
        PathTaking::Taken
    }

    /// Whether a transaction has a name in this mode, or a stronger one.
    pub(super) fn has(&self, transaction: u64, name: &[u8], wanted: NameMode) -> bool {
        self.mode_of(transaction, name).is_some_and(|mode| mode.suffices_for(wanted))
    }

    /// Takes a name, unless others exclude it.
    fn try_name(&mut self, transaction: u64, name: &[u8], wanted: NameMode) -> bool {
        let Some(holders) = self.holders.get_mut(name) else {
            let name: Arc<[u8]> = Arc::from(name);
            self.own.entry(transaction).or_default().push(Arc::clone(&name));
            self.holders.insert(name, vec![(transaction, wanted)]);
            return true;
        };
        let own = holders.iter().position(|(holder, _)| *holder == transaction);
        let mode = own.map_or(wanted, |place| holders[place].1.with(wanted));
        if own.is_some_and(|place| holders[place].1.suffices_for(wanted)) {
            return true;
        }
        let is_excluded =
            holders.iter().any(|&(holder, held)| holder != transaction && held.excludes(mode));
        if is_excluded {
            return false;
        }
        if let Some(place) = own {
            holders[place].1 = mode;
        } else {
            holders.push((transaction, mode));
            self.own.entry(transaction).or_default().push(Arc::from(name));
        }
        true
    }

    /// The mode of one name in the place of all others of a transaction.
    pub(super) fn widened_mode(&self, transaction: u64) -> NameMode {
        let own = self.own.get(&transaction).into_iter().flatten();
        let mut modes = own.filter_map(|name| self.mode_of(transaction, name));
        match modes.any(|mode| mode.above() == IntendChange) {
            true => Change,
            false => Read,
        }
    }

    /// Takes one name in the place of all others of a transaction, which lie below it. False, and nothing
    /// is done, if others exclude it.
    pub(super) fn try_widen(&mut self, transaction: u64, name: &[u8]) -> bool {
        let mode = self.widened_mode(transaction);
        if !self.try_name(transaction, name, mode) {
            return false;
        }
        let own = self.own.remove(&transaction).unwrap_or_default();
        let (kept, gone): (Vec<_>, Vec<_>) = own.into_iter().partition(|own| **own == *name);
        self.own.insert(transaction, kept);
        self.give_back(transaction, &gone);
        true
    }

    /// Gives back all names of a transaction.
    pub(super) fn release(&mut self, transaction: u64) {
        if let Some(own) = self.own.remove(&transaction) {
            self.give_back(transaction, &own);
        }
    }

    fn give_back(&mut self, transaction: u64, names: &[Arc<[u8]>]) {
        for name in names {
            if let Some(holders) = self.holders.get_mut(name) {
                holders.retain(|(holder, _)| *holder != transaction);
                if holders.is_empty() {
                    self.holders.remove(name);
                }
            }
        }
    }

    /// Tells each other transaction that excludes one from a name.
    pub(super) fn each_blocker(
        &self,
        transaction: u64,
        name: &[u8],
        wanted: NameMode,
        mut tell: impl FnMut(u64),
    ) {
        let Some(holders) = self.holders.get(name) else { return };
        let mode = self.mode_of(transaction, name).map_or(wanted, |own| own.with(wanted));
        for &(holder, held) in holders {
            if holder != transaction && held.excludes(mode) {
                tell(holder);
            }
        }
    }

    /// Asserts that nobody has what another one excludes, and that names are counted right.
    ///
    /// # Panics
    /// If that is not so.
    pub(super) fn audit(&self) {
        let mut own_count = 0;
        for (name, holders) in &self.holders {
            for (place, (holder, mode)) in holders.iter().enumerate() {
                assert!(self.own[holder].contains(name), "a name has an owner");
                own_count += 1;
                for (other, other_mode) in &holders[place + 1..] {
                    assert!(holder != other, "a transaction has a name once");
                    assert!(!mode.excludes(*other_mode), "invariant 1 of locks");
                }
            }
        }
        let all_count = self.own.values().map(Vec::len).sum::<usize>();
        assert_eq!(own_count, all_count, "what is owned is held");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of which nothing is kept back.
    fn whole<'p, 'n>(path: &'p [&'n [u8]]) -> (&'p [&'n [u8]], usize) {
        (path, path.len())
    }

    const ALL: [NameMode; 5] = [IntendRead, IntendChange, Read, ReadIntendChange, Change];

    /// What a mode allows: to read, to change, at the name with all below it or somewhere below it.
    fn rights(mode: NameMode) -> [bool; 4] {
        match mode {
            IntendRead => [false, false, true, false],
            IntendChange => [false, false, true, true],
            Read => [true, false, true, false],
            ReadIntendChange => [true, false, true, true],
            Change => [true, true, true, true],
        }
    }

    #[test]
    fn modes_exclude_each_other_where_one_may_change_what_the_other_may_read() {
        for one in ALL {
            for other in ALL {
                let ([read, change, ..], [_, _, other_read, other_change]) =
                    (rights(one), rights(other));
                let [all_read, all_change, ..] = rights(other);
                let [_, _, below_read, below_change] = rights(one);
                let excludes = change && (other_read || other_change)
                    || all_change && (below_read || below_change)
                    || read && other_change
                    || all_read && below_change;
                assert_eq!(one.excludes(other), excludes, "{one:?} {other:?}");
                assert_eq!(one.excludes(other), other.excludes(one));
                let both = one.with(other);
                assert!(both.suffices_for(one) && both.suffices_for(other));
                for least in ALL {
                    if least.suffices_for(one) && least.suffices_for(other) {
                        assert!(least.suffices_for(both), "{both:?} is the least");
                    }
                }
            }
        }
    }

    #[test]
    fn a_path_is_taken_from_above_and_ends_where_enough_is_held() {
        let mut names = Names::default();
        let path: [&[u8]; 3] = [b"", b"a", b"ab"];
        assert_eq!(names.try_path(1, whole(&path), Change), PathTaking::Taken);
        assert_eq!(names.count(1), 3);
        assert_eq!(names.mode_of(1, b"a"), Some(IntendChange));
        // Another one beside it, and one that meets it.
        assert_eq!(names.try_path(2, whole(&[b"", b"a", b"ac"]), Change), PathTaking::Taken);
        assert_eq!(names.try_path(3, whole(&path), Read), PathTaking::Excluded(2, Read));
        assert_eq!(names.try_path(3, whole(&path[..2]), Read), PathTaking::Excluded(1, Read));
        assert_eq!(names.mode_of(3, b""), Some(IntendRead), "what came before it stays");
        names.release(2);
        // Who reads a name and changes something below it.
        assert_eq!(names.try_path(1, whole(&path[..2]), Read), PathTaking::Taken);
        assert_eq!(names.mode_of(1, b"a"), Some(ReadIntendChange));
        assert_eq!(names.try_path(1, whole(&[b"", b"a", b"ad"]), Read), PathTaking::Taken);
        assert_eq!(names.count(1), 3, "all below is read already");
        names.audit();
        names.release(1);
        names.release(3);
        assert!(names.is_empty() && names.own.is_empty());
    }

    #[test]
    fn many_names_give_way_to_one_unless_others_are_below_it() {
        let mut names = Names::default();
        for byte in 0..9 {
            assert_eq!(names.try_path(1, whole(&[b"", &[byte]]), Change), PathTaking::Taken);
        }
        assert_eq!(names.try_path(2, whole(&[b"", b"x"]), Read), PathTaking::Taken);
        assert!(!names.try_widen(1, b""), "another one reads below it");
        assert_eq!(names.count(1), 10);
        names.release(2);
        assert!(names.try_widen(1, b""));
        assert_eq!((names.count(1), names.mode_of(1, b"")), (1, Some(Change)));
        assert_eq!(names.try_path(1, whole(&[b"", b"y"]), Change), PathTaking::Taken);
        assert_eq!(names.count(1), 1);
        names.audit();
        // Who only reads keeps nobody from that.
        let mut names = Names::default();
        assert_eq!(names.try_path(1, whole(&[b"", b"x"]), Read), PathTaking::Taken);
        assert!(names.try_widen(1, b""));
        assert_eq!(names.try_path(2, whole(&[b"", b"x"]), Read), PathTaking::Taken);
        names.audit();
    }
}
