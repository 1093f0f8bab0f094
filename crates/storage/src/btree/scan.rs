//! Range scans in both directions.
//!
//! A cursor copies one leaf at a time, so that its user may read other pages between two keys. It knows
//! the children of the leaf's parent, and asks for those ahead before they are wanted: the device's
//! queue is in use, and no link from leaf to leaf has to be waited for (Graefe 2011, section 6.2).
//!
//! ```text
//!   lower │ child │ child │ child │ child │ child │ upper        the parent, as it was found
//!                     ▲ here  └─ prefetched ─┘       └─► the next parent is found from the root
//! ```
//!
//! 1. The tree must not change while a cursor is in use; if it does, keys may be missed or an error
//!    may come, but the scan ends.

use super::allocate::ROOT_PAGE;
use super::corrupt;
use super::node::{Node, Payload, Shape};
use super::overflow::{self, Chain};
use super::tree::{Tree, check_level};
use crate::{PageAddress, ReadPages, StorageError};
use std::ops::Bound;

/// Leaves that are asked for ahead, unless the user says otherwise.
const AHEAD_COUNT: usize = 32;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From small to large keys.
    #[default]
    Forward,
    /// From large to small keys.
    Backward,
}

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// Where an entry lies, or will lie once the cursor is there: a leaf and a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafPlace {
    /// The leaf's page.
    pub page: u32,
    /// The number of the slot on the leaf, from 0.
    pub slot: u32,
}

/// A scan on its way.
#[derive(Clone, Debug)]
pub struct Cursor {
    tree: Tree,
    direction: Direction,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    state: State,
    /// The bytes of the present leaf.
    leaf: Vec<u8>,
    /// Slots of the leaf that are still to come: from the first up to the second.
    slots: (usize, usize),
    family: Family,
    ahead_count: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    Inside,
    After,
}

/// A parent of leaves.
#[derive(Clone, Debug, Default)]
struct Family {
    children: Vec<u32>,
    here: usize,
    /// Children from the first up to the second can hold keys of the range.
    wanted: (usize, usize),
    /// Of `wanted`, how many were asked for, in the order of the scan.
    asked: usize,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

/// Which leaf to go to.
#[derive(Clone, Copy)]
enum Target<'a> {
    First,
    Last,
    /// The one with this key.
    At(&'a [u8]),
    /// The one with the keys just below this one.
    Below(&'a [u8]),
}

impl Target<'_> {
    fn index(self, node: &Node<'_>) -> Shape<usize> {
        match self {
            Self::First => Ok(0),
            Self::Last => Ok(node.count()),
            Self::At(key) => node.child_index(key),
            Self::Below(key) => Ok(node.search(key)?.slot),
        }
    }
}

impl Tree {
    /// A scan of the keys from `lower` to `upper`.
    #[must_use]
    pub fn scan(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Cursor {
        Cursor {
            tree: *self,
            direction,
            lower: lower.map(<[u8]>::to_vec),
            upper: upper.map(<[u8]>::to_vec),
            state: State::Before,
            leaf: Vec::new(),
            slots: (0, 0),
            family: Family::default(),
            ahead_count: AHEAD_COUNT,
            key: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Tree {
    /// A scan forward from the entry at `place`, or the first one behind it, to `upper`.
    ///
    /// # Errors
    /// As [`Self::key_at`].
    pub fn scan_from<P: ReadPages>(
        &self,
        pages: &P,
        place: LeafPlace,
        upper: Bound<&[u8]>,
    ) -> Result<Cursor, StorageError> {
        let key = self.key_at(pages, place)?;
        let lower = key.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let mut cursor = self.scan((lower, upper), Direction::Forward);
        if key.is_none() {
            cursor.state = State::After;
        }
        Ok(cursor)
    }

    /// The key of the entry at `place`, or of the first one behind it: a leaf may be empty. `None` if none follows.
    ///
    /// # Errors
    /// If a page cannot be read, or has no such place: the tree has changed.
    pub fn key_at<P: ReadPages>(
        &self,
        pages: &P,
        place: LeafPlace,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let LeafPlace { mut page, slot } = place;
        let mut slot = slot as usize;
        // A damaged chain may go round in a circle.
        let mut left_count = None;
        loop {
            let (key, next) = self.node(pages, page, |node| match node.count() {
                _ if !node.is_leaf() => Err("it was a leaf when a scan stopped there"),
                count if slot < count => Ok((Some(node.key(slot)?), 0)),
                count if slot > count => Err("it had more entries when a scan stopped there"),
                _ => Ok((None, node.next())),
            })?;
            if key.is_some() || next == 0 {
                return Ok(key);
            }
            let left = match left_count {
                None => self.page_count(pages)?,
                Some(left) => left,
            };
            if left == 0 {
                return Err(corrupt(self.address(page), "its leaves go round in a circle"));
            }
            (page, slot, left_count) = (next, 0, Some(left - 1));
        }
    }
}

impl Cursor {
    /// How many leaves are asked for ahead; 0 for none.
    #[must_use]
    pub fn with_ahead_count(mut self, count: usize) -> Self {
        self.ahead_count = count;
        self
    }

    /// The next key and its value, in the cursor's direction; `None` after the last one.
    ///
    /// # Errors
    /// If a page cannot be read, or is no page of a tree. The scan is at its end then.
    pub fn next<P: ReadPages>(&mut self, pages: &P) -> Result<Option<Entry<'_>>, StorageError> {
        match self.advance(pages) {
            Ok(true) => Ok(Some((&self.key, &self.value))),
            Ok(false) => Ok(None),
            Err(error) => {
                self.state = State::After;
                Err(error)
            }
        }
    }

    /// The key and the value that [`Self::next`] gave last.
    #[must_use]
    pub fn current(&self) -> Entry<'_> {
        (&self.key, &self.value)
    }

    /// Whether all entries of the present leaf were given, so that the next one takes another page.
    #[must_use]
    pub const fn is_at_leaf_end(&self) -> bool {
        self.slots.0 == self.slots.1
    }

    /// Where the next entry of a scan forward lies; `None` at its end and before its beginning. After
    /// the last entry of a leaf this is the first place in its successor.
    #[must_use]
    pub fn place(&self) -> Option<LeafPlace> {
        if self.state != State::Inside {
            return None;
        }
        let node = Node::open(&self.leaf).ok()?;
        let (page, slot) = match self.is_at_leaf_end() {
            false => (self.here().page, self.slots.0),
            true if self.slots.1 == node.count() => (node.next(), 0),
            true => return None,
        };
        let slot = u32::try_from(slot).ok()?;
        (page != 0).then_some(LeafPlace { page, slot })
    }

    fn advance<P: ReadPages>(&mut self, pages: &P) -> Result<bool, StorageError> {
        if self.state == State::Before {
            self.begin(pages)?;
        }
        while self.slots.0 == self.slots.1 && self.state != State::After {
            self.next_leaf(pages)?;
        }
        if self.state == State::After {
            return Ok(false);
        }
        let slot = match self.direction {
            Direction::Forward => self.slots.0,
            Direction::Backward => self.slots.1 - 1,
        };
        match self.direction {
            Direction::Forward => self.slots.0 += 1,
            Direction::Backward => self.slots.1 -= 1,
        }
        if let Some(chain) = self.load(slot).map_err(|what| corrupt(self.here(), what))? {
            overflow::read(pages, self.tree.file(), chain, &mut self.value)?;
        }
        Ok(true)
    }

    fn here(&self) -> PageAddress {
        let page = self.family.children.get(self.family.here).copied();
        self.tree.address(page.unwrap_or(ROOT_PAGE))
    }

    /// Takes the cell of a slot, but for a value in a chain.
    fn load(&mut self, slot: usize) -> Shape<Option<Chain>> {
        let node = Node::open(&self.leaf)?;
        node.copy_key(slot, &mut self.key)?;
        self.value.clear();
        match node.payload(slot)? {
            Payload::Inline(value) => self.value.extend_from_slice(value),
            Payload::Chain(chain) => return Chain::from_bytes(chain).map(Some),
            Payload::Child(_) => return Err("a leaf has no children"),
        }
        Ok(None)
    }

    fn begin<P: ReadPages>(&mut self, pages: &P) -> Result<(), StorageError> {
        let edge = match self.direction {
            Direction::Forward => self.lower.clone(),
            Direction::Backward => self.upper.clone(),
        };
        let target = match (&edge, self.direction) {
            (Bound::Unbounded, Direction::Forward) => Target::First,
            (Bound::Unbounded, Direction::Backward) => Target::Last,
            (Bound::Included(key), _) | (Bound::Excluded(key), Direction::Forward) => {
                Target::At(key)
            }
            (Bound::Excluded(key), Direction::Backward) => Target::Below(key),
        };
        self.find_family(pages, target)?;
        self.enter_leaf(pages)?;
        self.state = State::Inside;
        Ok(())
    }

    /// Goes on to the next leaf that can hold keys of the range.
    fn next_leaf<P: ReadPages>(&mut self, pages: &P) -> Result<(), StorageError> {
        let family = &mut self.family;
        let (first, end) = family.wanted;
        match self.direction {
            Direction::Forward if family.here + 1 < end => family.here += 1,
            Direction::Backward if family.here > first => family.here -= 1,
            direction => {
                let all = match direction {
                    Direction::Forward => end == family.children.len(),
                    Direction::Backward => first == 0,
                };
                let edge = match direction {
                    Direction::Forward => family.upper.take(),
                    Direction::Backward => family.lower.take(),
                };
                let Some(edge) = edge.filter(|_| all) else {
                    self.state = State::After;
                    return Ok(());
                };
                self.next_family(pages, &edge)?;
            }
        }
        if self.state != State::After { self.enter_leaf(pages) } else { Ok(()) }
    }

    fn next_family<P: ReadPages>(&mut self, pages: &P, edge: &[u8]) -> Result<(), StorageError> {
        let beyond = match (self.direction, &self.lower, &self.upper) {
            (Direction::Forward, _, Bound::Included(upper)) => edge > upper.as_slice(),
            (Direction::Forward, _, Bound::Excluded(upper)) => edge >= upper.as_slice(),
            (Direction::Backward, Bound::Included(lower) | Bound::Excluded(lower), _) => {
                edge <= lower.as_slice()
            }
            (_, _, Bound::Unbounded) | (_, Bound::Unbounded, _) => false,
        };
        if beyond {
            self.state = State::After;
            return Ok(());
        }
        let further = match self.direction {
            Direction::Forward => {
                self.find_family(pages, Target::At(edge))?;
                self.family.upper.as_deref().is_none_or(|upper| upper > edge)
            }
            Direction::Backward => {
                self.find_family(pages, Target::Below(edge))?;
                self.family.lower.as_deref().is_none_or(|lower| lower < edge)
            }
        };
        if further { Ok(()) } else { Err(corrupt(self.here(), "its parents go round in a circle")) }
    }

    /// Goes down to the parent of a leaf.
    fn find_family<P: ReadPages>(
        &mut self,
        pages: &P,
        target: Target<'_>,
    ) -> Result<(), StorageError> {
        let (mut page, mut above) = (ROOT_PAGE, None);
        let family = &mut self.family;
        family.children.clear();
        (family.lower, family.upper, family.asked) = (None, None, 0);
        loop {
            let (lower, upper) = (&self.lower, &self.upper);
            let down = self.tree.node(pages, page, |node| {
                check_level(&node, above)?;
                if node.is_leaf() {
                    family.children.push(page);
                    (family.here, family.wanted) = (0, (0, 1));
                    return Ok(None);
                }
                let index = target.index(&node)?;
                if node.level() > 1 {
                    if index > 0 {
                        family.lower = Some(node.key(index - 1)?);
                    }
                    if index < node.count() {
                        family.upper = Some(node.key(index)?);
                    }
                    return Ok(Some((node.child(index)?, node.level())));
                }
                for child in 0..=node.count() {
                    family.children.push(node.child(child)?);
                }
                family.here = index;
                family.wanted = wanted(&node, lower, upper)?;
                Ok(None)
            })?;
            match down {
                Some((child, level)) => (page, above) = (child, Some(level)),
                None => return Ok(()),
            }
        }
    }

    /// Copies the leaf, and finds its first and last slot of the range.
    fn enter_leaf<P: ReadPages>(&mut self, pages: &P) -> Result<(), StorageError> {
        self.ask_ahead(pages);
        let address = self.here();
        let (leaf, slots) = (&mut self.leaf, &mut self.slots);
        let (lower, upper) = (&self.lower, &self.upper);
        let found = pages.read(address, |bytes| {
            let node = Node::open(bytes)?;
            if !node.is_leaf() {
                return Err("it is not at the level that its parent says");
            }
            leaf.clear();
            leaf.extend_from_slice(bytes);
            *slots = slots_within(&node, lower, upper)?;
            Ok(())
        })?;
        found.map_err(|what| corrupt(address, what))
    }

    /// Asks for the next leaves, half of those ahead at a time.
    fn ask_ahead<P: ReadPages>(&mut self, pages: &P) {
        let family = &mut self.family;
        let (first, end) = family.wanted;
        let (passed, left) = match self.direction {
            Direction::Forward => (family.here, end.saturating_sub(family.here)),
            Direction::Backward => {
                (family.children.len() - 1 - family.here, (family.here + 1).saturating_sub(first))
            }
        };
        let until = passed + left.min(self.ahead_count.saturating_add(1));
        if family.asked > passed + self.ahead_count / 2 || left < 2 || self.ahead_count == 0 {
            return;
        }
        let from = family.asked.max(passed);
        let child = |index: usize| match self.direction {
            Direction::Forward => family.children[index],
            Direction::Backward => family.children[family.children.len() - 1 - index],
        };
        if from < until {
            let addresses: Vec<_> =
                (from..until).map(|index| self.tree.address(child(index))).collect();
            pages.prefetch(&addresses);
            family.asked = until;
        }
    }
}

/// The children of a node that can hold keys of the range.
fn wanted(
    node: &Node<'_>,
    lower: &Bound<Vec<u8>>,
    upper: &Bound<Vec<u8>>,
) -> Shape<(usize, usize)> {
    let first = match lower {
        Bound::Unbounded => 0,
        Bound::Included(key) | Bound::Excluded(key) => node.child_index(key)?,
    };
    let last = match upper {
        Bound::Unbounded => node.count(),
        Bound::Included(key) => node.child_index(key)?,
        Bound::Excluded(key) => node.search(key)?.slot,
    };
    Ok((first, last.max(first) + 1))
}

/// The slots of a leaf with keys of the range.
fn slots_within(
    node: &Node<'_>,
    lower: &Bound<Vec<u8>>,
    upper: &Bound<Vec<u8>>,
) -> Shape<(usize, usize)> {
    let above = |place: super::node::Place| place.slot + usize::from(place.found);
    let first = match lower {
        Bound::Unbounded => 0,
        Bound::Included(key) => node.search(key)?.slot,
        Bound::Excluded(key) => above(node.search(key)?),
    };
    let end = match upper {
        Bound::Unbounded => node.count(),
        Bound::Included(key) => above(node.search(key)?),
        Bound::Excluded(key) => node.search(key)?.slot,
    };
    Ok((first, end.max(first)))
}
