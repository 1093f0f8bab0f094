//! The changes that trees make to pages, as the log keeps them.
//!
//! | code | operand | first | second |
//! |---|---|---|---|
//! | `FORMAT` | level | next (4), first child (4) | prefix |
//! | `INSERT` | slot, `CHAIN` | key | value, chain or child |
//! | `REMOVE` | slot | | |
//! | `REPLACE` | slot, `CHAIN` | | value, chain or child |
//! | `CUT` | cells that stay | next (4) | |
//! | `MERGE` | free bytes of the right neighbour | next (4), separator | its other bytes |
//! | `LINK` | next | | |
//! | `OVERFLOW` | next | data | |
//! | `FREE` | next | | |
//! | `INSERT_RUN` | slot | keys, as `run.rs` draws them | values |
//! | `META` | page count | first free (4), free count (4) | |

use super::allocate::Meta;
use super::edit::{self, Links, write_u32};
use super::node::{
    CHAIN_BYTES, HEADER_BYTES, KIND_FREE, KIND_NODE, KIND_OVERFLOW, NEXT_AT, Node, Payload, Shape,
    read_u32,
};
use super::{overflow, run};
use crate::access::apply_common;
use crate::{PageOperation, StorageError};
use nandu_base::to_index;

pub(super) const FORMAT: u8 = 0x20;
pub(super) const INSERT: u8 = 0x21;
pub(super) const REMOVE: u8 = 0x22;
pub(super) const REPLACE: u8 = 0x23;
pub(super) const CUT: u8 = 0x24;
pub(super) const MERGE: u8 = 0x25;
pub(super) const LINK: u8 = 0x26;
pub(super) const OVERFLOW: u8 = 0x27;
pub(super) const FREE: u8 = 0x28;
pub(super) const META: u8 = 0x29;
pub(super) const INSERT_RUN: u8 = 0x2A;

/// Bit of the operand: the cell holds a chain instead of a value.
pub(super) const CHAIN: u32 = 1 << 31;
/// The highest level that a node can have; two children a node would hold 2^31 pages.
pub(super) const LEVEL_MAX: u8 = 31;

/// Applies a tree's operation, or a common one, to the usable bytes of a page.
///
/// # Errors
/// If the code is unknown, or the operands do not fit the page.
pub fn apply(page: &mut [u8], operation: &PageOperation<'_>) -> Result<(), StorageError> {
    let code = operation.code;
    if code < 0x10 {
        return apply_common(page, operation);
    }
    apply_to_shape(page, operation).map_err(|what| StorageError::Corrupt {
        place: "a change to a page of a tree".to_owned(),
        what: format!("operation {code:#04x}: {what}"),
    })
}

fn apply_to_shape(page: &mut [u8], operation: &PageOperation<'_>) -> Shape<()> {
    let PageOperation { code, operand, first, second } = *operation;
    let slot = to_index(u64::from(operand & !CHAIN));
    match code {
        INSERT => {
            let payload = payload_of(page, operand, second)?;
            edit::insert(page, slot, first, &payload)
        }
        INSERT_RUN => run::apply_run(page, slot, first, second),
        REMOVE => edit::remove(page, slot),
        REPLACE => {
            let payload = payload_of(page, operand, second)?;
            edit::replace(page, slot, &payload)
        }
        FORMAT => {
            let level = u8::try_from(operand).ok().filter(|&level| level <= LEVEL_MAX);
            let level = level.ok_or("no node is so high")?;
            let [next, first_child] = words::<2>(first)?;
            edit::format(page, Links { level, next, first_child }, second)
        }
        CUT => {
            let [next] = words::<1>(first)?;
            edit::cut(page, slot, next)
        }
        MERGE => {
            let (next, separator) = first.split_at_checked(4).ok_or("it is too short")?;
            let right = unpack(second, slot, page.len())?;
            edit::merge(page, &right, read_u32(next, 0), separator)
        }
        LINK => match page.first() {
            Some(&(KIND_NODE | KIND_OVERFLOW | KIND_FREE)) if page.len() >= HEADER_BYTES => {
                write_u32(page, NEXT_AT, operand);
                Ok(())
            }
            _ => Err("it is no page with a successor"),
        },
        OVERFLOW => overflow::fill(page, operand, first),
        FREE => {
            if page.len() < HEADER_BYTES {
                return Err("the page is too small");
            }
            page.fill(0);
            page[0] = KIND_FREE;
            write_u32(page, NEXT_AT, operand);
            Ok(())
        }
        META => {
            let [free_first, free_count] = words::<2>(first)?;
            Meta { page_count: operand, free_first, free_count }.write_to(page)
        }
        _ => Err("no tree knows it"),
    }
}

/// What a cell of the node on `page` is going to hold.
fn payload_of<'a>(page: &[u8], operand: u32, bytes: &'a [u8]) -> Shape<Payload<'a>> {
    if !Node::open(page)?.is_leaf() {
        return words::<1>(bytes).map(|[child]| Payload::Child(child));
    }
    match (operand & CHAIN != 0, bytes.len()) {
        (false, _) => Ok(Payload::Inline(bytes)),
        (true, CHAIN_BYTES) => Ok(Payload::Chain(bytes)),
        (true, _) => Err("a chain has another length"),
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Shape<[u32; N]> {
    if bytes.len() != 4 * N {
        return Err("an operand has another length");
    }
    Ok(std::array::from_fn(|index| read_u32(bytes, 4 * index)))
}

/// The bytes of a node without the free ones between slots and cells.
pub(super) fn pack(node: &Node<'_>) -> Vec<u8> {
    let (front, back) = node.parts();
    [front, back].concat()
}

/// The inverse of [`pack`], on a page of `page_bytes` with a gap of `gap_bytes`.
fn unpack(packed: &[u8], gap_bytes: usize, page_bytes: usize) -> Shape<Vec<u8>> {
    if packed.len().checked_add(gap_bytes) != Some(page_bytes) || packed.len() < HEADER_BYTES {
        return Err("the neighbour is not as long as the page");
    }
    let back_bytes = page_bytes.checked_sub(super::node::read_u16(packed, super::node::HEAP_AT));
    let front_bytes = back_bytes.and_then(|back_bytes| packed.len().checked_sub(back_bytes));
    let front_bytes = front_bytes.ok_or("the neighbour has no such cells")?;
    let mut page = vec![0; page_bytes];
    page[..front_bytes].copy_from_slice(&packed[..front_bytes]);
    page[front_bytes + gap_bytes..].copy_from_slice(&packed[front_bytes..]);
    Ok(page)
}
