//! Runs: records that belong in one place of one leaf go there as one change, with one undo.
//!
//! ```text
//!   records   3 4 5 6 9 …          leaf   1 2 │ 8          one INSERT_RUN at slot 2: 3 4 5 6
//!             └─run─┘                         ▲ the gap    9 begins the next run
//!
//!   keys      common bytes (2) │ other bytes (2) │ the others        each after the one before it
//!   values    length (2) │ value
//! ```
//!
//! 1. A run ascends strictly, and lies between two neighbours of the leaf, so that its slots are
//!    successive and no key of it is there already.
//! 2. Its values lie in the leaf, and its keys begin with the leaf's prefix.

use super::allocate::release_chain;
use super::corrupt;
use super::edit;
use super::node::{
    Node, Payload, SLOT_BYTES, Shape, common_bytes, fits_inline, key_bytes_max, rest_of,
};
use super::operation::{INSERT, INSERT_RUN, REMOVE};
use super::overflow::Chain;
use super::shape;
use super::tree::{Path, SPLIT_COUNT_MAX, Tree};
use super::undo::Undo;
use crate::{ChangePages, PageOperation, ReadPages, StorageError};
use nandu_base::to_u32;

/// Most records of a run: what takes it back pins the leaves that hold it by then.
const RUN_COUNT_MAX: usize = 64;
const BROKEN: &str = "a run of records is not as a tree writes it";

/// What there is where the first record belongs.
enum Gap {
    Taken,
    Full,
    /// Room at a slot; the flag says that the leaf's parents know where the gap ends.
    Free(usize, bool),
}

impl Tree {
    /// Adds as many of the first records as ascend, belong in one place of one leaf and fit there: at
    /// least one, or none if the first key is there already. What takes them back is appended to `undo`.
    /// Sorted records make the longest runs; any order is right.
    ///
    /// # Errors
    /// If the first key or value is too large, or pages cannot be read or changed.
    pub fn insert_run<P: ChangePages, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pages: &mut P,
        records: &[(K, V)],
        undo: &mut Vec<u8>,
    ) -> Result<usize, StorageError> {
        let Some((key, value)) = records.first() else { return Ok(0) };
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check_sizes(pages, key, value)?;
        if !fits_inline(pages.usable_bytes(), key, value) {
            return self.insert(pages, key, value, undo).map(usize::from);
        }
        let mut path = Path::new();
        for _ in 0..SPLIT_COUNT_MAX {
            let gap = self.walk_to(pages, key, &mut path, |node| {
                let place = node.search(key)?;
                Ok(match place.found {
                    true => Gap::Taken,
                    false if node.has_room(key, &Payload::Inline(value))? => {
                        Gap::Free(place.slot, place.slot == node.count() && node.next() != 0)
                    }
                    false => Gap::Full,
                })
            })?;
            match gap {
                Gap::Taken => return Ok(0),
                Gap::Full => shape::split(self, pages, &path, key)?,
                Gap::Free(slot, is_fenced) => {
                    let fence = if is_fenced { self.fence(pages, &path)? } else { None };
                    return self.add_run(pages, records, (path.leaf(), slot), fence, undo);
                }
            }
        }
        Err(corrupt(self.address(path.leaf()), "it has no room after many splits"))
    }

    /// The separator behind the leaf at the end of `path`.
    fn fence<P: ReadPages>(&self, pages: &P, path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
        for depth in (0..path.length() - 1).rev() {
            let index = path.child_index(depth);
            let fence = self.node(pages, path.page(depth), |node| {
                (index < node.count()).then(|| node.key(index)).transpose()
            })?;
            if fence.is_some() {
                return Ok(fence);
            }
        }
        Ok(None)
    }

    fn add_run<P: ChangePages, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pages: &mut P,
        records: &[(K, V)],
        (leaf, slot): (u32, usize),
        fence: Option<Vec<u8>>,
        undo: &mut Vec<u8>,
    ) -> Result<usize, StorageError> {
        let usable_bytes = pages.usable_bytes();
        let count = self.node(pages, leaf, |node| {
            let bound = if slot < node.count() { Some(node.key(slot)?) } else { fence };
            Ok(run_count(&node, records, bound.as_deref(), usable_bytes))
        })?;
        let operand = to_u32(slot as u64);
        if count < 2 {
            let (key, value) = (records[0].0.as_ref(), records[0].1.as_ref());
            let operation = PageOperation { code: INSERT, operand, first: key, second: value };
            pages.change(self.address(leaf), operation)?;
            Undo::Delete { key }.encode(undo);
            return Ok(1);
        }
        let run = &records[..count];
        // Lengths come with each: two of a key, one of a value.
        let key_bytes: usize = run.iter().map(|(key, _)| 4 + key.as_ref().len()).sum();
        let value_bytes: usize = run.iter().map(|(_, value)| 2 + value.as_ref().len()).sum();
        let (mut keys, mut values) =
            (Vec::with_capacity(key_bytes), Vec::with_capacity(value_bytes));
        let mut before: &[u8] = &[];
        for (key, value) in run {
            let (key, value) = (key.as_ref(), value.as_ref());
            let common = common_bytes(before, key);
            put_length(&mut keys, common);
            put_length(&mut keys, key.len() - common);
            keys.extend_from_slice(&key[common..]);
            put_length(&mut values, value.len());
            values.extend_from_slice(value);
            before = key;
        }
        let operation = PageOperation { code: INSERT_RUN, operand, first: &keys, second: &values };
        pages.change(self.address(leaf), operation)?;
        Undo::DeleteRun { keys: &keys }.encode(undo);
        Ok(count)
    }

    /// Takes the keys of a run out, wherever they lie by now.
    pub(super) fn delete_run<P: ChangePages>(
        &self,
        pages: &mut P,
        keys: &[u8],
    ) -> Result<(), StorageError> {
        let mut keys = RunKeys::new(keys);
        let broken = |what| corrupt(self.address(super::allocate::META_PAGE), what);
        let mut is_at_key = keys.advance().map_err(broken)?;
        while is_at_key {
            let mut path = Path::new();
            let place = self.walk_to(pages, &keys.key, &mut path, |node| node.search(&keys.key))?;
            if !place.found {
                let what = "a key that is to be taken back".to_owned();
                return Err(StorageError::NotFound { what });
            }
            let (leaf, operand) = (path.leaf(), to_u32(place.slot as u64));
            // When the entry is removed, the one behind it moves into its slot: the same slot is
            // looked at until the keys differ.
            loop {
                let chain = self.node(pages, leaf, |node| match node.payload(place.slot)? {
                    Payload::Chain(chain) => Chain::from_bytes(chain).map(Some),
                    Payload::Inline(_) => Ok(None),
                    Payload::Child(_) => Err("a leaf has no children"),
                })?;
                if let Some(chain) = chain {
                    release_chain(pages, self.file(), chain)?;
                }
                let operation = PageOperation { code: REMOVE, operand, first: &[], second: &[] };
                pages.change(self.address(leaf), operation)?;
                is_at_key = keys.advance().map_err(broken)?;
                let follows = is_at_key
                    && self.node(pages, leaf, |node| {
                        let next = node.search(&keys.key)?;
                        Ok(next.found && next.slot == place.slot)
                    })?;
                if !follows {
                    break;
                }
            }
            shape::shrink(self, pages, &path)?;
        }
        Ok(())
    }
}

/// How many of the first records are a run for this leaf, before `bound`; the first one is.
fn run_count<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    node: &Node<'_>,
    records: &[(K, V)],
    bound: Option<&[u8]>,
    usable_bytes: usize,
) -> usize {
    let prefix = node.prefix();
    if node.count() == 0 && prefix.is_empty() {
        // The key of the first record becomes the prefix of the empty node, after which the room
        // for others has to be computed anew.
        return 1;
    }
    let mut free_bytes = node.free_bytes();
    let mut before: Option<&[u8]> = None;
    let mut count = 0;
    for (key, value) in records.iter().take(RUN_COUNT_MAX) {
        let (key, value) = (key.as_ref(), value.as_ref());
        let Some(suffix) = key.strip_prefix(prefix) else { break };
        let bytes = SLOT_BYTES + rest_of(suffix).len() + Payload::Inline(value).stored_bytes();
        let belongs = before.is_none_or(|before| before < key)
            && bound.is_none_or(|bound| key < bound)
            && bytes <= free_bytes
            && key.len() <= key_bytes_max(usable_bytes)
            && fits_inline(usable_bytes, key, value);
        if !belongs {
            break;
        }
        free_bytes -= bytes;
        before = Some(key);
        count += 1;
    }
    count.max(1)
}

/// Adds a run to the node on `page`, from `slot` on.
pub(super) fn apply_run(page: &mut [u8], slot: usize, keys: &[u8], values: &[u8]) -> Shape<()> {
    if !Node::open(page)?.is_leaf() {
        return Err("a run of records belongs in a leaf");
    }
    let before = page.to_vec();
    let mut insert = || {
        let (mut keys, mut values, mut slot) = (RunKeys::new(keys), values, slot);
        while keys.advance()? {
            let value;
            (value, values) = take_prefixed(values)?;
            edit::insert(page, slot, &keys.key, &Payload::Inline(value))?;
            slot += 1;
        }
        if values.is_empty() { Ok(()) } else { Err(BROKEN) }
    };
    insert().inspect_err(|_| page.copy_from_slice(&before))
}

/// The keys of a run, one after the other.
#[derive(Debug)]
struct RunKeys<'a> {
    bytes: &'a [u8],
    key: Vec<u8>,
}

impl<'a> RunKeys<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, key: Vec::new() }
    }

    /// Goes on to the next key; false at the end.
    fn advance(&mut self) -> Shape<bool> {
        if self.bytes.is_empty() {
            return Ok(false);
        }
        let (common, rest) = take_length(self.bytes)?;
        let (suffix, rest) = take_prefixed(rest)?;
        if common > self.key.len() {
            return Err(BROKEN);
        }
        self.key.truncate(common);
        self.key.extend_from_slice(suffix);
        self.bytes = rest;
        Ok(true)
    }
}

fn put_length(target: &mut Vec<u8>, length: usize) {
    let length = u16::try_from(length).expect("keys and values in a leaf are shorter than it");
    target.extend_from_slice(&length.to_be_bytes());
}

fn take_length(bytes: &[u8]) -> Shape<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>().ok_or(BROKEN)?;
    Ok((usize::from(u16::from_be_bytes(*length)), rest))
}

fn take_prefixed(bytes: &[u8]) -> Shape<(&[u8], &[u8])> {
    let (length, rest) = take_length(bytes)?;
    rest.split_at_checked(length).ok_or(BROKEN)
}
