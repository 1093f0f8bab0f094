//! Nodes: how keys and values lie on a page, and how a key is found there.
//!
//! Slotted cells with the first bytes of each key ("heads") beside the slots, after Graefe, "Modern
//! B-Tree Techniques" (2011), section 3: a search reads the slots only, until heads are equal. What all
//! keys of a node begin with stands once, after the header (prefix truncation, ibid.).
//!
//! ```text
//!   0 kind │ 1 level │ 2 count │ 4 heap │ 6 garbage │ 8 zero │ 12 next │ 16 first child │ 20 prefix
//!   ├────────────────────────── header, HEADER_BYTES ──────────────────────────────┤   length │ zero
//!   │ prefix │ slot 0 │ slot 1 │ …  ──►      free      ◄── cells │
//!                                                      ▲ heap
//!   slot   head (4) │ offset (2) │ suffix length (2)   suffix = key without the prefix
//!   leaf   rest (suffix past the head) │ length (1 or 2) │ value, or where its overflow chain lies
//!   inner  rest                        │ child (4): keys from the slot's separator on
//! ```
//!
//! 1. Numbers are big-endian. A head is zero-padded, so (head, rest, suffix length) sorts as keys do.
//! 2. Slots are in strictly ascending order of their keys; no two cells overlap.
//! 3. `garbage` counts the bytes from `heap` on that no cell uses.
//! 4. A node takes at least two of the largest leaf cells, or four of the largest inner cells.
//!
//! A view is checked as far as it is used, so that hostile bytes give an error and never a panic.

use std::cmp::Ordering;

/// What is wrong with a page's bytes.
pub(super) type Shape<T> = Result<T, &'static str>;

pub(super) const HEADER_BYTES: usize = 24;
pub(super) const SLOT_BYTES: usize = 8;
/// Bytes of a chain's description in a leaf cell.
pub(super) const CHAIN_BYTES: usize = 16;
pub(super) const CHILD_BYTES: usize = 4;
const HEAD_BYTES: usize = 4;
/// The longest usable part of a page: offsets have 16 bits.
const USABLE_BYTES_MAX: usize = 65_535;
/// The length that marks an overflow chain; no value in a leaf is so long.
const CHAIN_MARK: usize = 0x7FFF;

pub(super) const KIND_META: u8 = 0xB1;
pub(super) const KIND_NODE: u8 = 0xB2;
pub(super) const KIND_OVERFLOW: u8 = 0xB3;
pub(super) const KIND_FREE: u8 = 0xB4;

pub(super) const LEVEL_AT: usize = 1;
pub(super) const COUNT_AT: usize = 2;
pub(super) const HEAP_AT: usize = 4;
pub(super) const GARBAGE_AT: usize = 6;
pub(super) const NEXT_AT: usize = 12;
pub(super) const FIRST_CHILD_AT: usize = 16;
pub(super) const PREFIX_AT: usize = 20;

/// The most bytes of a key on pages with so many usable bytes: four separators fit a node.
pub(super) const fn key_bytes_max(usable_bytes: usize) -> usize {
    ((usable_bytes - HEADER_BYTES) / 4).saturating_sub(SLOT_BYTES + CHILD_BYTES)
}

/// Whether a value may lie in a leaf beside its key: two such cells fit a node.
pub(super) fn fits_inline(usable_bytes: usize, key: &[u8], value: &[u8]) -> bool {
    SLOT_BYTES + key.len() + Payload::Inline(value).stored_bytes()
        <= (usable_bytes - HEADER_BYTES) / 2
}

/// How many bytes two keys have in common at the front.
#[inline]
pub(super) fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    let mut common = 0;
    // A word at a time, as long as both have one.
    while let (Some(left), Some(right)) =
        (one[common..].first_chunk::<8>(), other[common..].first_chunk::<8>())
    {
        let difference = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if difference != 0 {
            return common + (difference.trailing_zeros() / 8) as usize;
        }
        common += 8;
    }
    let rest = one[common..].iter().zip(&other[common..]);
    common + rest.take_while(|(one, other)| one == other).count()
}

#[inline]
pub(super) fn read_u16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

#[inline]
pub(super) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The first bytes of a suffix, as a number that sorts as they do.
#[inline]
pub(super) fn head_of(suffix: &[u8]) -> u32 {
    if let Some(head) = suffix.first_chunk::<HEAD_BYTES>() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    head[..suffix.len()].copy_from_slice(suffix);
    u32::from_be_bytes(head)
}

/// The part of a suffix that its cell holds.
#[inline]
pub(super) fn rest_of(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_BYTES..).unwrap_or_default()
}

/// What a cell holds beside its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    /// A value in a leaf.
    Inline(&'a [u8]),
    /// Where a leaf's value lies: `CHAIN_BYTES`.
    Chain(&'a [u8]),
    /// A child of an inner node.
    Child(u32),
}

impl Payload<'_> {
    /// What it takes in its cell, with its length.
    #[inline]
    pub(super) fn stored_bytes(&self) -> usize {
        match self {
            Self::Inline(value) => value.len() + if value.len() < 0x80 { 1 } else { 2 },
            Self::Chain(_) => 2 + CHAIN_BYTES,
            Self::Child(_) => CHILD_BYTES,
        }
    }

    /// Writes it to `target`, which is exactly as long as it.
    #[inline]
    pub(super) fn write(&self, target: &mut [u8]) -> Shape<()> {
        let (length, bytes) = match *self {
            Self::Child(child) => {
                target.copy_from_slice(&child.to_be_bytes());
                return Ok(());
            }
            Self::Inline(value) if value.len() < CHAIN_MARK => (value.len(), value),
            Self::Inline(_) => return Err("a value is too long for its cell"),
            Self::Chain(chain) => (CHAIN_MARK, chain),
        };
        let body = if let Ok(short @ 0..0x80) = u8::try_from(length) {
            target[0] = short;
            &mut target[1..]
        } else {
            let length = u16::try_from(length).expect("at most CHAIN_MARK");
            target[..2].copy_from_slice(&(length | 0x8000).to_be_bytes());
            &mut target[2..]
        };
        body.copy_from_slice(bytes);
        Ok(())
    }
}

/// Where a key is, or where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) slot: usize,
    pub(super) found: bool,
}

/// A node, as it lies on a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    bytes: &'a [u8],
    prefix: &'a [u8],
    slots: &'a [[u8; SLOT_BYTES]],
}

impl<'a> Node<'a> {
    /// Checks the header of a page and lets it be read as a node.
    #[inline]
    pub(super) fn open(bytes: &'a [u8]) -> Shape<Self> {
        if bytes.len() < HEADER_BYTES || bytes.len() > USABLE_BYTES_MAX || bytes[0] != KIND_NODE {
            return Err("it is no node of a tree");
        }
        let slots_at = HEADER_BYTES + read_u16(bytes, PREFIX_AT);
        let slots_end = slots_at + SLOT_BYTES * read_u16(bytes, COUNT_AT);
        let heap = read_u16(bytes, HEAP_AT);
        if slots_end > heap || heap > bytes.len() {
            return Err("its slots and its cells overlap");
        }
        if read_u16(bytes, GARBAGE_AT) > bytes.len() - heap {
            return Err("it has more garbage than cells");
        }
        let (slots, _) = bytes[slots_at..slots_end].as_chunks();
        Ok(Self { bytes, prefix: &bytes[HEADER_BYTES..slots_at], slots })
    }

    #[inline]
    pub(super) fn level(&self) -> u8 {
        self.bytes[LEVEL_AT]
    }

    #[inline]
    pub(super) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    /// How many cells the node has.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    /// The next leaf; 0 after the last one.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        read_u32(self.bytes, NEXT_AT)
    }

    /// What all its keys begin with.
    #[inline]
    pub(super) fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The bytes before the free ones, and those after them.
    pub(super) fn parts(&self) -> (&'a [u8], &'a [u8]) {
        let slots_end = HEADER_BYTES + self.prefix.len() + SLOT_BYTES * self.count();
        (&self.bytes[..slots_end], &self.bytes[self.heap()..])
    }

    #[inline]
    fn heap(&self) -> usize {
        read_u16(self.bytes, HEAP_AT)
    }

    /// Free bytes in one piece.
    #[inline]
    pub(super) fn gap_bytes(&self) -> usize {
        self.heap() - HEADER_BYTES - self.prefix.len() - SLOT_BYTES * self.count()
    }

    /// Bytes of the prefix, the slots and the cells.
    pub(super) fn used_bytes(&self) -> usize {
        self.capacity_bytes() - self.free_bytes()
    }

    /// What can be used at all.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.bytes.len() - HEADER_BYTES
    }

    /// Free bytes, once compacted.
    #[inline]
    pub(super) fn free_bytes(&self) -> usize {
        self.gap_bytes() + read_u16(self.bytes, GARBAGE_AT)
    }

    #[inline]
    fn slot(&self, slot: usize) -> Shape<&'a [u8; SLOT_BYTES]> {
        self.slots.get(slot).ok_or("it has no such slot")
    }

    /// Bytes of a key past the prefix.
    #[inline]
    fn suffix_bytes(slot: &[u8; SLOT_BYTES]) -> usize {
        read_u16(slot, 6)
    }

    #[inline]
    fn rest(&self, slot: &[u8; SLOT_BYTES]) -> Shape<&'a [u8]> {
        let offset = read_u16(slot, 4);
        let length = Self::suffix_bytes(slot).saturating_sub(HEAD_BYTES);
        self.bytes.get(offset..offset + length).ok_or("a key passes the end of the page")
    }

    /// Whether suffixes are those that heads and rests stand for, in the order of keys.
    #[inline]
    fn compare(&self, slot: &[u8; SLOT_BYTES], suffix: &[u8]) -> Shape<Ordering> {
        let by_head = head(slot).cmp(&head_of(suffix));
        if by_head.is_ne() {
            return Ok(by_head);
        }
        let by_rest = self.rest(slot)?.cmp(rest_of(suffix));
        Ok(by_rest.then(Self::suffix_bytes(slot).cmp(&suffix.len())))
    }

    /// Where `key` is; or else the first slot with a larger key, or the count.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> Shape<Place> {
        let Some(suffix) = key.strip_prefix(self.prefix) else {
            let slot = if key < self.prefix { 0 } else { self.slots.len() };
            return Ok(Place { slot, found: false });
        };
        let wanted = head_of(suffix);
        let mut low = partition(self.slots, |head| head < wanted);
        if low == self.slots.len() || head(&self.slots[low]) != wanted {
            return Ok(Place { slot: low, found: false });
        }
        let mut high = low + 1;
        if self.slots.get(high).is_some_and(|slot| head(slot) == wanted) {
            high = low + partition(&self.slots[low..], |head| head <= wanted);
        }
        while low < high {
            let middle = low.midpoint(high);
            match self.compare(&self.slots[middle], suffix)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Place { slot: middle, found: true }),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Place { slot: low, found: false })
    }

    /// Which child holds `key`: the number of separators that are at most it.
    #[inline]
    pub(super) fn child_index(&self, key: &[u8]) -> Shape<usize> {
        let place = self.search(key)?;
        Ok(place.slot + usize::from(place.found))
    }

    /// A child, from 0 to the count.
    #[inline]
    pub(super) fn child(&self, index: usize) -> Shape<u32> {
        if self.is_leaf() {
            return Err("a leaf has no children");
        }
        let child = if index == 0 {
            read_u32(self.bytes, FIRST_CHILD_AT)
        } else {
            match self.payload(index - 1)? {
                Payload::Child(child) => child,
                Payload::Inline(_) | Payload::Chain(_) => return Err("a leaf has no children"),
            }
        };
        if child < 2 { Err("a child is not a page of the tree") } else { Ok(child) }
    }

    /// What the cell of a slot holds.
    #[inline]
    pub(super) fn payload(&self, slot: usize) -> Shape<Payload<'a>> {
        let slot = self.slot(slot)?;
        let at = read_u16(slot, 4) + Self::suffix_bytes(slot).saturating_sub(HEAD_BYTES);
        let past = "a cell passes the end of the page";
        let bytes = self.bytes.get(at..).ok_or(past)?;
        if !self.is_leaf() {
            let child = bytes.first_chunk::<CHILD_BYTES>().ok_or(past)?;
            return Ok(Payload::Child(u32::from_be_bytes(*child)));
        }
        let &short = bytes.first().ok_or(past)?;
        if short < 0x80 {
            return Ok(Payload::Inline(bytes.get(1..1 + usize::from(short)).ok_or(past)?));
        }
        let length = read_u16(bytes.get(..2).ok_or(past)?, 0) & 0x7FFF;
        if length == CHAIN_MARK {
            return Ok(Payload::Chain(bytes.get(2..2 + CHAIN_BYTES).ok_or(past)?));
        }
        Ok(Payload::Inline(bytes.get(2..2 + length).ok_or(past)?))
    }

    /// Sets `key` to the key of a slot.
    #[inline]
    pub(super) fn copy_key(&self, slot: usize, key: &mut Vec<u8>) -> Shape<()> {
        let slot = self.slot(slot)?;
        key.clear();
        key.extend_from_slice(self.prefix);
        key.extend_from_slice(&slot[..Self::suffix_bytes(slot).min(HEAD_BYTES)]);
        key.extend_from_slice(self.rest(slot)?);
        Ok(())
    }

    /// The key of a slot.
    pub(super) fn key(&self, slot: usize) -> Shape<Vec<u8>> {
        let mut key = Vec::new();
        self.copy_key(slot, &mut key)?;
        Ok(key)
    }

    /// Bytes of a slot and its cell, if `more` bytes of the prefix were stored in it.
    pub(super) fn cell_bytes(&self, slot: usize, more: usize) -> Shape<usize> {
        let suffix_bytes = Self::suffix_bytes(self.slot(slot)?) + more;
        let rest_bytes = suffix_bytes.saturating_sub(HEAD_BYTES);
        Ok(SLOT_BYTES + rest_bytes + self.payload(slot)?.stored_bytes())
    }

    /// Whether the last two cells that were added are, in this order, those before a slot. After the
    /// cells were moved this may only seem so.
    pub(super) fn ascends_before(&self, slot: usize) -> Shape<bool> {
        let Some(older) = slot.checked_sub(2) else { return Ok(false) };
        let (newest_at, newest_bytes) = self.cell_extent(older + 1)?;
        let (older_at, _) = self.cell_extent(older)?;
        Ok(newest_at == self.heap() && older_at == newest_at + newest_bytes)
    }

    /// Where the cell of a slot lies, and how long it is.
    pub(super) fn cell_extent(&self, slot: usize) -> Shape<(usize, usize)> {
        let offset = read_u16(self.slot(slot)?, 4);
        Ok((offset, self.cell_bytes(slot, 0)? - SLOT_BYTES))
    }

    /// Bytes of all slots and cells, and of a prefix of `prefix_bytes`, at most the present ones.
    pub(super) fn bytes_under(&self, prefix_bytes: usize) -> Shape<usize> {
        let more = self.prefix.len() - prefix_bytes.min(self.prefix.len());
        if more == 0 {
            return Ok(self.used_bytes());
        }
        let mut bytes = prefix_bytes;
        for slot in 0..self.count() {
            bytes += self.cell_bytes(slot, more)?;
        }
        Ok(bytes)
    }

    /// Whether a cell with this key can be added, if need be with a shorter prefix.
    #[inline]
    pub(super) fn has_room(&self, key: &[u8], payload: &Payload<'_>) -> Shape<bool> {
        let common = common_bytes(self.prefix, key);
        let rest_bytes = (key.len() - common).saturating_sub(HEAD_BYTES);
        let cell_bytes = SLOT_BYTES + rest_bytes + payload.stored_bytes();
        if common == self.prefix.len() {
            return Ok(cell_bytes <= self.free_bytes());
        }
        Ok(self.bytes_under(common)? + cell_bytes <= self.capacity_bytes())
    }

    /// Everything about the node's own bytes that can be wrong: order, bounds, overlaps, counts.
    pub(super) fn audit(&self) -> Shape<()> {
        let mut extents = Vec::with_capacity(self.count());
        for (index, slot) in self.slots.iter().enumerate() {
            let suffix_bytes = Self::suffix_bytes(slot);
            let key_bytes = self.prefix.len() + suffix_bytes;
            if key_bytes > key_bytes_max(self.bytes.len()) {
                return Err("a key is too long");
            }
            if slot[suffix_bytes.min(HEAD_BYTES)..HEAD_BYTES].iter().any(|&byte| byte != 0) {
                return Err("a head is not padded with zeros");
            }
            self.rest(slot)?;
            extents.push(self.cell_extent(index)?);
        }
        let mut key = Vec::new();
        for index in 1..self.count() {
            self.copy_key(index, &mut key)?;
            if self.compare(&self.slots[index - 1], &key[self.prefix.len()..])?.is_ge() {
                return Err("its keys are not in ascending order");
            }
        }
        extents.sort_unstable();
        let cells_bytes: usize = extents.iter().map(|&(_, bytes)| bytes).sum();
        if extents.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0)
            || extents.first().is_some_and(|&(offset, _)| offset < self.heap())
        {
            return Err("cells overlap");
        }
        if cells_bytes + read_u16(self.bytes, GARBAGE_AT) != self.bytes.len() - self.heap() {
            return Err("its garbage is counted wrongly");
        }
        Ok(())
    }
}

#[inline]
fn head(slot: &[u8; SLOT_BYTES]) -> u32 {
    read_u32(slot, 0)
}

/// How many slots come before the first whose head is not `before`. The loop has no branch that
/// depends on the heads.
#[inline]
fn partition(slots: &[[u8; SLOT_BYTES]], before: impl Fn(u32) -> bool) -> usize {
    let (mut base, mut size) = (0, slots.len());
    while size > 1 {
        let half = size / 2;
        base = if before(head(&slots[base + half - 1])) { base + half } else { base };
        size -= half;
    }
    base + usize::from(size == 1 && before(head(&slots[base])))
}
