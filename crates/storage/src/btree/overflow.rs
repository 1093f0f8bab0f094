//! Overflow chains: values that are too large for a leaf.
//!
//! ```text
//!   leaf cell   byte count (8) │ first page (4) │ last page (4)
//!   page        kind │ zero │ 4 byte count (4) │ zero │ 12 next (4) │ data
//! ```
//!
//! 1. Every page of a chain but the last is full, and the last one's successor is 0.

use super::node::{CHAIN_BYTES, KIND_OVERFLOW, NEXT_AT, Shape, read_u32};
use super::{allocate, corrupt, edit::write_u32, operation};
use crate::{ChangePages, FileId, PageAddress, PageOperation, ReadPages, StorageError};
use nandu_base::{to_index, to_u32};

/// The longest value that a tree stores, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Pages of a chain that are asked for ahead.
const PREFETCH_COUNT: u32 = 16;
const COUNT_AT: usize = 4;
const DATA_AT: usize = 16;

/// Where a value lies that is too long for its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) byte_count: u64,
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Chain {
    /// Reads what a cell holds.
    pub(super) fn from_bytes(bytes: &[u8]) -> Shape<Self> {
        let bytes: &[u8; CHAIN_BYTES] =
            bytes.try_into().map_err(|_| "a chain has another length")?;
        let (high, low) = (u64::from(read_u32(bytes, 0)), u64::from(read_u32(bytes, 4)));
        let chain = Self {
            byte_count: high << 32 | low,
            first: read_u32(bytes, 8),
            last: read_u32(bytes, 12),
        };
        let possible = 1..=VALUE_BYTES_MAX as u64;
        if chain.first < 2 || chain.last < 2 || !possible.contains(&chain.byte_count) {
            return Err("a value lies nowhere");
        }
        Ok(chain)
    }

    /// What its cell holds.
    pub(super) fn to_bytes(self) -> [u8; CHAIN_BYTES] {
        let mut bytes = [0; CHAIN_BYTES];
        bytes[..8].copy_from_slice(&self.byte_count.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.first.to_be_bytes());
        bytes[12..].copy_from_slice(&self.last.to_be_bytes());
        bytes
    }

    /// How many pages it has.
    pub(super) fn page_count(self, usable_bytes: usize) -> u32 {
        to_u32(self.byte_count.div_ceil(data_bytes(usable_bytes) as u64))
    }
}

/// Pages that a value needs.
pub(super) fn page_count(usable_bytes: usize, value: &[u8]) -> usize {
    value.len().div_ceil(data_bytes(usable_bytes))
}

/// Bytes of a value on each page.
pub(super) const fn data_bytes(usable_bytes: usize) -> usize {
    usable_bytes - DATA_AT
}

/// Makes `page` one of a chain.
pub(super) fn fill(page: &mut [u8], next: u32, data: &[u8]) -> Shape<()> {
    if DATA_AT + data.len() > page.len() {
        return Err("the data pass the end of the page");
    }
    page.fill(0);
    page[0] = KIND_OVERFLOW;
    write_u32(page, COUNT_AT, to_u32(data.len() as u64));
    write_u32(page, NEXT_AT, next);
    page[DATA_AT..DATA_AT + data.len()].copy_from_slice(data);
    Ok(())
}

/// The data and the successor of a page.
pub(super) fn open(page: &[u8]) -> Shape<(&[u8], u32)> {
    if page.len() <= DATA_AT || page[0] != KIND_OVERFLOW {
        return Err("it is no overflow page");
    }
    let end = DATA_AT.saturating_add(to_index(u64::from(read_u32(page, COUNT_AT))));
    let data = page.get(DATA_AT..end).ok_or("its data pass its end")?;
    Ok((data, read_u32(page, NEXT_AT)))
}

/// Writes a value to pages of its own.
pub(super) fn write<P: ChangePages>(
    pages: &mut P,
    file: FileId,
    value: &[u8],
) -> Result<Chain, StorageError> {
    let count = page_count(pages.usable_bytes(), value);
    let numbers = allocate::allocate(pages, file, count)?;
    write_to(pages, file, value, &numbers)
}

/// Writes a value to these pages, which are as many as it needs.
pub(super) fn write_to<P: ChangePages>(
    pages: &mut P,
    file: FileId,
    value: &[u8],
    numbers: &[u32],
) -> Result<Chain, StorageError> {
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        unreachable!("only a value that is too long for a leaf has a chain");
    };
    let parts = value.chunks(data_bytes(pages.usable_bytes()));
    assert_eq!(parts.len(), numbers.len(), "each part of a value has its page");
    let successors = numbers.iter().skip(1).chain([&0]);
    for ((part, &number), &next) in parts.zip(numbers).zip(successors) {
        let operation =
            PageOperation { code: operation::OVERFLOW, operand: next, first: part, second: &[] };
        pages.change(PageAddress::new(file, number), operation)?;
    }
    Ok(Chain { byte_count: value.len() as u64, first, last })
}

/// Adds the value of a chain to `value`.
pub(super) fn read<P: ReadPages>(
    pages: &P,
    file: FileId,
    chain: Chain,
    value: &mut Vec<u8>,
) -> Result<(), StorageError> {
    let mut left = to_index(chain.byte_count);
    let data_bytes = data_bytes(pages.usable_bytes());
    let (mut number, mut hinted) = (chain.first, chain.first);
    while left > 0 {
        let address = PageAddress::new(file, number);
        if number < 2 {
            return Err(corrupt(PageAddress::new(file, chain.first), "its chain is too short"));
        }
        // Chains mostly lie on consecutive pages. The hint stays within what the value needs.
        if left > data_bytes && number >= hinted {
            let ahead = to_u32(left.div_ceil(data_bytes) as u64 - 1).min(PREFETCH_COUNT);
            let addresses: [PageAddress; PREFETCH_COUNT as usize] = std::array::from_fn(|index| {
                let further = to_u32(index as u64) + 1;
                PageAddress::new(file, number.saturating_add(further))
            });
            pages.prefetch(&addresses[..ahead as usize]);
            hinted = number.saturating_add(ahead);
        }
        let next = pages.read(address, |page| {
            let (data, next) = open(page)?;
            if data.len() != left.min(data_bytes) {
                return Err("it holds less of a value than it should");
            }
            value.extend_from_slice(data);
            left -= data.len();
            Ok(next)
        })?;
        number = next.map_err(|what| corrupt(address, what))?;
    }
    Ok(())
}
