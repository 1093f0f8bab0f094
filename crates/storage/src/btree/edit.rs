//! Changes to the bytes of one node. Everything here depends on nothing but those bytes and the
//! arguments, so that redo repeats it. What does not fit is refused before the page changes, unless the
//! page's own bytes are at odds with each other.

use super::node::{
    COUNT_AT, FIRST_CHILD_AT, GARBAGE_AT, HEADER_BYTES, HEAP_AT, KIND_NODE, LEVEL_AT, NEXT_AT,
    Node, PREFIX_AT, Payload, SLOT_BYTES, Shape, common_bytes, head_of, read_u16, rest_of,
};
use std::ops::Range;

/// What stands in a node's header beside its counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) level: u8,
    pub(super) next: u32,
    pub(super) first_child: u32,
}

impl Links {
    pub(super) fn of(page: &[u8]) -> Self {
        let next = super::node::read_u32(page, NEXT_AT);
        let first_child = super::node::read_u32(page, FIRST_CHILD_AT);
        Self { level: page[LEVEL_AT], next, first_child }
    }
}

fn write_u16(page: &mut [u8], at: usize, value: usize) {
    let value = u16::try_from(value).expect("offsets and counts on a page have 16 bits");
    page[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(super) fn write_u32(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Makes an empty node whose keys will begin with `prefix`.
pub(super) fn format(page: &mut [u8], links: Links, prefix: &[u8]) -> Shape<()> {
    if page.len() > usize::from(u16::MAX) || HEADER_BYTES + prefix.len() > page.len() {
        return Err("the prefix is longer than the page");
    }
    page.fill(0);
    page[0] = KIND_NODE;
    page[LEVEL_AT] = links.level;
    write_u16(page, HEAP_AT, page.len());
    write_u32(page, NEXT_AT, links.next);
    write_u32(page, FIRST_CHILD_AT, links.first_child);
    write_u16(page, PREFIX_AT, prefix.len());
    page[HEADER_BYTES..HEADER_BYTES + prefix.len()].copy_from_slice(prefix);
    Ok(())
}

/// Puts a cell before the one that has `slot` now. Shortens the prefix or compacts where needed.
pub(super) fn insert(page: &mut [u8], slot: usize, key: &[u8], payload: &Payload<'_>) -> Shape<()> {
    let node = Node::open(page)?;
    if slot > node.count() {
        return Err("it has no such slot");
    }
    if matches!(payload, Payload::Child(_)) == node.is_leaf() {
        return Err("a cell of another kind of node");
    }
    let common = match (node.count(), node.prefix()) {
        // The first key of an empty node becomes the whole prefix of the node. Later keys shorten
        // it to what all have in common.
        (0, []) => key.len(),
        (_, prefix) => common_bytes(prefix, key),
    };
    let suffix = &key[common..];
    let need_bytes = SLOT_BYTES + rest_of(suffix).len() + payload.stored_bytes();
    if node.count() == 0 && common > node.prefix().len() {
        format(page, Links::of(page), &key[..common])?;
    } else if common < node.prefix().len() || node.gap_bytes() < need_bytes {
        if !node.has_room(key, payload)? {
            return Err("the cell does not fit");
        }
        let count = node.count();
        rebuild(page, 0..count, common)?;
    }
    place(page, slot, suffix, payload)
}

/// Writes a cell whose room is there, under the present prefix.
fn place(page: &mut [u8], slot: usize, suffix: &[u8], payload: &Payload<'_>) -> Shape<()> {
    let count = read_u16(page, COUNT_AT);
    let slots_at = HEADER_BYTES + read_u16(page, PREFIX_AT);
    let rest = rest_of(suffix);
    let heap = read_u16(page, HEAP_AT);
    let Some(start) = heap.checked_sub(rest.len() + payload.stored_bytes()) else {
        return Err("the cell does not fit");
    };
    let (at, end) = (slots_at + slot * SLOT_BYTES, slots_at + count * SLOT_BYTES);
    if end + SLOT_BYTES > start || suffix.len() > usize::from(u16::MAX) {
        return Err("the cell does not fit");
    }
    payload.write(&mut page[start + rest.len()..heap])?;
    page[start..start + rest.len()].copy_from_slice(rest);
    page.copy_within(at..end, at + SLOT_BYTES);
    write_u32(page, at, head_of(suffix));
    write_u16(page, at + 4, start);
    write_u16(page, at + 6, suffix.len());
    write_u16(page, COUNT_AT, count + 1);
    write_u16(page, HEAP_AT, start);
    Ok(())
}

/// Takes a cell out.
pub(super) fn remove(page: &mut [u8], slot: usize) -> Shape<()> {
    let node = Node::open(page)?;
    let (offset, cell_bytes) = node.cell_extent(slot)?;
    let (count, prefix_bytes) = (node.count(), node.prefix().len());
    let (heap, garbage) = (read_u16(page, HEAP_AT), read_u16(page, GARBAGE_AT));
    if offset < heap || garbage + cell_bytes > page.len() - heap {
        return Err("a cell lies outside of the cells");
    }
    let slots_at = HEADER_BYTES + prefix_bytes;
    let (at, end) = (slots_at + slot * SLOT_BYTES, slots_at + count * SLOT_BYTES);
    page.copy_within(at + SLOT_BYTES..end, at);
    page[end - SLOT_BYTES..end].fill(0);
    page[offset..offset + cell_bytes].fill(0);
    write_u16(page, COUNT_AT, count - 1);
    if count == 1 {
        write_u16(page, HEAP_AT, page.len());
        write_u16(page, GARBAGE_AT, 0);
    } else if offset == heap {
        write_u16(page, HEAP_AT, heap + cell_bytes);
    } else {
        write_u16(page, GARBAGE_AT, garbage + cell_bytes);
    }
    Ok(())
}

/// Gives a cell another payload: in its place if it is as long as the old one.
pub(super) fn replace(page: &mut [u8], slot: usize, payload: &Payload<'_>) -> Shape<()> {
    let node = Node::open(page)?;
    let (offset, cell_bytes) = node.cell_extent(slot)?;
    if matches!(payload, Payload::Child(_)) == node.is_leaf() {
        return Err("a cell of another kind of node");
    }
    let old_bytes = node.payload(slot)?.stored_bytes();
    if old_bytes == payload.stored_bytes() {
        let end = offset + cell_bytes;
        return payload.write(&mut page[end - old_bytes..end]);
    }
    if !has_room_instead(&node, slot, payload)? {
        return Err("the cell does not fit");
    }
    let key = node.key(slot)?;
    let before = page.to_vec();
    remove(page, slot)
        .and_then(|()| insert(page, slot, &key, payload))
        .inspect_err(|_| page.copy_from_slice(&before))
}

/// Whether a cell may get this payload.
pub(super) fn has_room_instead(node: &Node<'_>, slot: usize, payload: &Payload<'_>) -> Shape<bool> {
    let old_bytes = node.payload(slot)?.stored_bytes();
    Ok(payload.stored_bytes() <= node.free_bytes() + old_bytes)
}

/// Keeps the first `count` cells, and follows a split with a new right neighbour.
pub(super) fn cut(page: &mut [u8], count: usize, next: u32) -> Shape<()> {
    let node = Node::open(page)?;
    if count > node.count() {
        return Err("it has no such slot");
    }
    // A longer prefix may take up to four bytes more than it saves, which a cell that goes makes up for.
    if count < node.count() {
        let prefix_bytes = shared_prefix(&node, 0..count)?;
        rebuild(page, 0..count, prefix_bytes)?;
    }
    write_u32(page, NEXT_AT, next);
    Ok(())
}

/// The longest prefix that all these cells could have; that of the node if there are fewer than two,
/// since one key says nothing about those to come.
pub(super) fn shared_prefix(node: &Node<'_>, cells: Range<usize>) -> Shape<usize> {
    if cells.len() < 2 {
        return Ok(node.prefix().len());
    }
    Ok(common_bytes(&node.key(cells.start)?, &node.key(cells.end - 1)?))
}

/// Writes the cells of `node` anew, compact, under a prefix of another length.
fn rebuild(page: &mut [u8], cells: Range<usize>, prefix_bytes: usize) -> Shape<()> {
    let before = page.to_vec();
    let node = Node::open(&before)?;
    copy_cells(&node, cells, page, Links::of(&before), prefix_bytes)
        .inspect_err(|_| page.copy_from_slice(&before))
}

/// Makes `target` a node of some cells of `node`.
pub(super) fn copy_cells(
    node: &Node<'_>,
    cells: Range<usize>,
    target: &mut [u8],
    links: Links,
    prefix_bytes: usize,
) -> Shape<()> {
    let mut key = Vec::new();
    let prefix = match node.prefix().get(..prefix_bytes) {
        Some(prefix) => prefix,
        None => {
            node.copy_key(cells.start, &mut key)?;
            key.get(..prefix_bytes).ok_or("a prefix is longer than its keys")?
        }
    };
    format(target, links, prefix)?;
    append_cells(node, cells, target)
}

/// Adds cells of `node` behind those of `target`, under the prefix of `target`.
fn append_cells(node: &Node<'_>, cells: Range<usize>, target: &mut [u8]) -> Shape<()> {
    let mut key = Vec::new();
    for slot in cells {
        node.copy_key(slot, &mut key)?;
        append(target, &key, &node.payload(slot)?)?;
    }
    Ok(())
}

/// Adds a cell behind the others, under the present prefix.
pub(super) fn append(target: &mut [u8], key: &[u8], payload: &Payload<'_>) -> Shape<()> {
    let prefix_bytes = read_u16(target, PREFIX_AT);
    if !key.starts_with(&target[HEADER_BYTES..HEADER_BYTES + prefix_bytes]) {
        return Err("a key lacks the prefix of its node");
    }
    let count = read_u16(target, COUNT_AT);
    place(target, count, &key[prefix_bytes..], payload)
}

/// The prefix of the node that two neighbours would make, and the bytes in use there. Inner nodes
/// have the separator between them, which becomes a cell.
pub(super) fn merged_bytes(
    left: &Node<'_>,
    right: &Node<'_>,
    separator: &[u8],
) -> Shape<(usize, usize)> {
    let inner = !left.is_leaf();
    let mut prefix = if left.count() > 0 { left.prefix() } else { right.prefix() };
    if right.count() > 0 {
        prefix = &prefix[..common_bytes(prefix, right.prefix())];
    }
    if inner {
        let shorter = if left.count() + right.count() > 0 { prefix } else { separator };
        prefix = &shorter[..common_bytes(shorter, separator)];
    }
    let mut bytes = prefix.len();
    for node in [left, right].into_iter().filter(|node| node.count() > 0) {
        bytes += node.bytes_under(prefix.len())? - prefix.len();
    }
    if inner {
        let rest_bytes = rest_of(&separator[prefix.len()..]).len();
        bytes += SLOT_BYTES + rest_bytes + super::node::CHILD_BYTES;
    }
    Ok((prefix.len(), bytes))
}

/// Takes the cells of the right neighbour in.
pub(super) fn merge(page: &mut [u8], right: &[u8], next: u32, separator: &[u8]) -> Shape<()> {
    let before = page.to_vec();
    let (left, right_node) = (Node::open(&before)?, Node::open(right)?);
    if left.level() != right_node.level() {
        return Err("nodes of two levels cannot be merged");
    }
    let (prefix_bytes, bytes) = merged_bytes(&left, &right_node, separator)?;
    if bytes > left.capacity_bytes() {
        return Err("the neighbour does not fit");
    }
    let first = if left.count() > 0 { left.key(0)? } else { Vec::new() };
    let first = match (left.count(), left.is_leaf(), right_node.count()) {
        (1.., ..) => first,
        (0, true, 1..) => right_node.key(0)?,
        (0, true, 0) => Vec::new(),
        (0, false, _) => separator.to_vec(),
    };
    let prefix = if first.is_empty() {
        &[]
    } else {
        first.get(..prefix_bytes).ok_or("a prefix is longer than its keys")?
    };
    let mut fill = || {
        format(page, Links { next, ..Links::of(&before) }, prefix)?;
        append_cells(&left, 0..left.count(), page)?;
        if !left.is_leaf() {
            append(page, separator, &Payload::Child(right_node.child(0)?))?;
        }
        append_cells(&right_node, 0..right_node.count(), page)
    };
    fill().inspect_err(|_| page.copy_from_slice(&before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_node_of_short_keys_is_cut_behind_its_last_cell() {
        let mut page = vec![0; 512];
        format(&mut page, Links { level: 0, next: 0, first_child: 0 }, &[]).unwrap();
        for (slot, key) in [*b"abca", *b"abcb", *b"abcc"].iter().enumerate() {
            insert(&mut page, slot, b"zzzz", &Payload::Inline(&[7; 100])).unwrap();
            remove(&mut page, slot).unwrap();
            insert(&mut page, slot, key, &Payload::Inline(&[7; 100])).unwrap();
        }
        // Not a byte is free, and the keys could have a longer prefix, which saves nothing.
        let node = Node::open(&page).unwrap();
        let value_bytes = node.free_bytes() - SLOT_BYTES - 2;
        let (count, prefix) = (node.count(), node.prefix().to_vec());
        let value = vec![7; value_bytes];
        insert(&mut page, count, b"abcd", &Payload::Inline(&value)).unwrap();
        let node = Node::open(&page).unwrap();
        assert!(node.free_bytes() < 3, "{}", node.free_bytes());
        assert!(shared_prefix(&node, 0..count + 1).unwrap() > prefix.len());
        cut(&mut page, count + 1, 9).unwrap();
        let node = Node::open(&page).unwrap();
        node.audit().unwrap();
        assert_eq!((node.count(), node.next(), node.key(0).unwrap()), (4, 9, b"abca".to_vec()));
    }
}
