//! The documents of TPoX (Nicola, Kogan, Schiefer, SIGMOD 2007) as S004 stores them (section 6):
//! three collections, each one XML document with TPoX's documents as its second level.
//!
//! ```text
//!   custacc                    order                       security
//!     Customer @id               FIXML                       Security @id
//!       Accounts                   Order @Acct ──► Account     Symbol ◄─┐
//!         Account @id                Instrmt @Sym ──► Symbol            │
//!           Position/Symbol ────────────────────────────────────────────┘
//! ```
//!
//! 1. The bytes follow from size and seed.
//! 2. One document is in memory, never a collection: what others refer to (how many accounts a
//!    customer has, the symbol and name of a security) follows from number and seed alone.
//! 3. A collection has its count of documents times their mean length, within 2 % from some hundred
//!    documents on: while it is ahead, a document takes the shorter of its choices.

mod customer;
mod order;
mod security;
mod store;
#[cfg(test)]
mod tests;
mod words;

pub use store::{TpoxIndexes, TpoxObserver};

use crate::LoadError;
use nandu_base::{Rng, to_index};
use std::io::{self, Read};

/// Sizes by name, and the documents of each collection then (S004, table 1, whose container pages
/// hold these counts): bytes, customers, orders, securities.
const SIZES: [(u64, [u64; 3]); 5] = [
    (0, [0, 0, 0]),
    (10_000_000, [950, 2_300, 500]),
    (100_000_000, [9_200, 28_000, 5_300]),
    (1_000_000_000, [117_000, 265_000, 20_833]),
    (10_000_000_000, [1_180_000, 2_900_000, 208_330]),
];
/// The largest size, ten times what S004 has.
const SIZE_BYTES_MAX: u64 = 100_000_000_000;

/// A collection, which is one XML document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TpoxCollection {
    /// Customers with their accounts.
    Custacc,
    /// Orders in FIXML 4.4: attributes only.
    Order,
    /// Stocks and funds, with long mixed texts.
    Security,
}

/// How many documents there are, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tpox {
    customer_count: u64,
    order_count: u64,
    security_count: u64,
    seed: u64,
}

/// The text of one collection, made while it is read.
#[derive(Clone, Debug)]
pub struct TpoxText {
    tpox: Tpox,
    collection: TpoxCollection,
    next: u64,
    /// Bytes of all documents so far.
    made_bytes: u64,
    piece: String,
    read: usize,
    is_ended: bool,
}

impl TpoxCollection {
    /// All collections; what the second one names is in the others.
    pub const ALL: [Self; 3] = [Self::Custacc, Self::Order, Self::Security];

    /// The name of its outermost element.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Custacc => "custacc",
            Self::Order => "order",
            Self::Security => "security",
        }
    }

    /// Mean bytes of a document: table 1's container pages over the counts, which also is what
    /// the benchmark's samples have.
    #[must_use]
    pub const fn document_bytes(self) -> u64 {
        match self {
            Self::Custacc => 4_200,
            Self::Order => 1_570,
            Self::Security => 8_000,
        }
    }
}

impl Tpox {
    /// The documents that S004 has under this label (10 MB, 100 MB, 1 GB, 10 GB), and in proportion
    /// between and below. All three together have up to a quarter more bytes than the label, as the
    /// pages of S004 have.
    ///
    /// # Errors
    /// If a collection would have no document, or the size is above 100 GB.
    pub fn new(size_bytes: u64, seed: u64) -> Result<Self, LoadError> {
        if size_bytes > SIZE_BYTES_MAX {
            return Err(LoadError::invalid("the documents of TPoX reach a size of 100 GB"));
        }
        let inside = SIZES.windows(2).find(|pair| size_bytes <= pair[1].0);
        // Above the last one all goes on in its proportion.
        let (low, high) = inside.map_or((SIZES[0], SIZES[4]), |pair| (pair[0], pair[1]));
        let count = |which: usize| {
            let (from, to) = (low.1[which], high.1[which]);
            let part = u128::from(to - from) * u128::from(size_bytes - low.0);
            from + u64::try_from(part / u128::from(high.0 - low.0)).expect("at most ten times `to`")
        };
        let (customer_count, order_count, security_count) = (count(0), count(1), count(2));
        if customer_count.min(order_count).min(security_count) == 0 {
            return Err(LoadError::invalid(format!(
                "a size of {size_bytes} bytes has no customer, order or security; 20KB has one of \
                 each"
            )));
        }
        Ok(Self { customer_count, order_count, security_count, seed })
    }

    /// How many documents a collection has.
    #[must_use]
    pub const fn count(&self, collection: TpoxCollection) -> u64 {
        match collection {
            TpoxCollection::Custacc => self.customer_count,
            TpoxCollection::Order => self.order_count,
            TpoxCollection::Security => self.security_count,
        }
    }

    /// About how many bytes the text of a collection has.
    #[must_use]
    pub const fn expected_bytes(&self, collection: TpoxCollection) -> u64 {
        self.count(collection) * collection.document_bytes()
    }

    /// The text of a collection.
    #[must_use]
    pub fn text(&self, collection: TpoxCollection) -> TpoxText {
        let name = collection.name();
        let piece = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{name}>\n");
        let tpox = *self;
        TpoxText { tpox, collection, next: 0, made_bytes: 0, piece, read: 0, is_ended: false }
    }

    /// The id of a customer, by its number from 0 on.
    #[must_use]
    pub const fn customer_id(&self, number: u64) -> u64 {
        customer::ID_FIRST + number
    }

    /// The id of an order, by its number from 0 on; those behind the last are of [`Self::new_order`].
    #[must_use]
    pub const fn order_id(&self, number: u64) -> u64 {
        order::ID_FIRST + number
    }

    /// The symbol of a security, by its number from 0 on.
    #[must_use]
    pub fn symbol(&self, number: u64) -> String {
        security::symbol(number)
    }

    /// An element `Account` that no customer has; for each number another one.
    #[must_use]
    pub fn new_account(&self, number: u64) -> String {
        let mut text = String::new();
        customer::write_new_account(&mut text, self, number);
        text
    }

    /// An element `FIXML` with an order that the collection has not, of the id that follows the
    /// last one's by `number`.
    #[must_use]
    pub fn new_order(&self, number: u64) -> String {
        let mut text = String::new();
        order::write(&mut text, self, self.order_count + number, false);
        text
    }

    /// Randomness of one document, or of one fact that others refer to.
    fn rng(&self, what: &str, number: u64) -> Rng {
        Rng::new(Rng::for_part(self.seed, what).next_u64().wrapping_add(number))
    }
}

impl TpoxText {
    /// Makes the next document, or the end.
    fn make(&mut self) {
        let Self { tpox, collection, next, made_bytes, piece, .. } = self;
        piece.clear();
        self.read = 0;
        if *next == tpox.count(*collection) {
            *piece = format!("</{}>\n", collection.name());
            self.is_ended = true;
            return;
        }
        let is_ahead = *made_bytes > *next * collection.document_bytes();
        match collection {
            TpoxCollection::Custacc => customer::write(piece, tpox, *next, is_ahead),
            TpoxCollection::Order => order::write(piece, tpox, *next, is_ahead),
            TpoxCollection::Security => security::write(piece, tpox, *next, is_ahead),
        }
        piece.push('\n');
        *made_bytes += u64::try_from(piece.len()).expect("a length in memory");
        *next += 1;
    }
}

impl Read for TpoxText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() && !self.is_ended {
            self.make();
        }
        let rest = &self.piece.as_bytes()[self.read..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        Ok(length)
    }
}

/// One of a list.
fn pick<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[to_index(rng.below(u64::try_from(list.len()).expect("a length in memory")))]
}

/// From `low` to `high`, both of them possible.
fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

/// The smallest of three if there is too much already, else the largest.
fn steered(rng: &mut Rng, (low, high): (u64, u64), is_ahead: bool) -> u64 {
    let draws = [(); 3].map(|()| between(rng, low, high));
    draws
        .into_iter()
        .fold(draws[0], |one, other| if is_ahead { one.min(other) } else { one.max(other) })
}
