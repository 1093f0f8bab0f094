//! What rows and inputs of TPC-C draw: texts, names and uneven numbers (clauses 2.1.6 and 4.3.2).

use nandu_base::{Rng, to_index};

/// Parts of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALPHANUMERICS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const CAPITALS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &[u8; 10] = b"0123456789";
/// What some items and stocks have in their data.
const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// Signs that are made of one draw.
const SIGNS_PER_DRAW: usize = 7;
/// Bits of a draw that signs are made of: with the most signs of an alphabet no product overflows.
const FRACTION_BITS: u32 = 58;

/// The largest number in which a last name is drawn unevenly.
const NAME_A: u64 = 255;
/// The same of a customer.
const CUSTOMER_A: u64 = 1023;
/// The same of an item.
const ITEM_A: u64 = 8191;

/// The constants C of clause 2.1.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NurandConstants {
    /// Of last names where rows are made.
    pub name_load: u64,
    /// Of last names where they are asked for.
    pub name_run: u64,
    /// Of numbers of customers.
    pub customer: u64,
    /// Of numbers of items.
    pub item: u64,
}

impl NurandConstants {
    /// Constants as clause 2.1.6.1 wants them: that of a run differs from that of the load by 65 to 119, but
    /// not by 96 or 112.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "tpcc constants");
        let name_load = rng.below(NAME_A + 1);
        let fits = |&run: &u64| {
            let delta = run.abs_diff(name_load);
            (65..=119).contains(&delta) && delta != 96 && delta != 112
        };
        let fitting: Vec<u64> = (0..=NAME_A).filter(fits).collect();
        let name_run = fitting[to_index(rng.below(fitting.len() as u64))];
        let (customer, item) = (rng.below(CUSTOMER_A + 1), rng.below(ITEM_A + 1));
        Self { name_load, name_run, customer, item }
    }

    /// A last name's number of `count`, for who asks for one.
    pub fn name(&self, rng: &mut Rng, count: u32) -> u32 {
        nandu_base::to_u32(nurand(rng, (NAME_A, self.name_run), 0, u64::from(count) - 1))
    }

    /// The same, for who makes a customer.
    pub(super) fn name_of_load(&self, rng: &mut Rng, count: u32) -> u32 {
        nandu_base::to_u32(nurand(rng, (NAME_A, self.name_load), 0, u64::from(count) - 1))
    }

    /// A customer of `count` in a district, from 1.
    pub fn customer(&self, rng: &mut Rng, count: u32) -> u32 {
        nandu_base::to_u32(nurand(rng, (CUSTOMER_A, self.customer), 1, u64::from(count)))
    }

    /// An item of `count`, from 1.
    pub fn item(&self, rng: &mut Rng, count: u32) -> u32 {
        nandu_base::to_u32(nurand(rng, (ITEM_A, self.item), 1, u64::from(count)))
    }
}

/// NURand(A, low, high) with its constant C (clause 2.1.6).
pub fn nurand(rng: &mut Rng, (a, c): (u64, u64), low: u64, high: u64) -> u64 {
    let mixed = between(rng, 0, a) | between(rng, low, high);
    (mixed + c) % (high - low + 1) + low
}

/// The last name of a number below a thousand.
#[must_use]
pub fn last_name(number: u32) -> String {
    let syllable = |place: u32| SYLLABLES[to_index(u64::from(number / place % 10))];
    [syllable(100), syllable(10), syllable(1)].concat()
}

/// From `low` to `high`, both of them possible.
pub(super) fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

/// The same, as a column has it.
pub(super) fn integer(rng: &mut Rng, low: u64, high: u64) -> i64 {
    between(rng, low, high).cast_signed()
}

/// Texts of a row, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
}

/// Where a text lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    start: usize,
    end: usize,
}

impl Texts {
    /// Forgets all texts.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes of a text.
    pub(super) fn get(&self, text: Text) -> &[u8] {
        &self.bytes[text.start..text.end]
    }

    /// An a-string of `low` to `high` signs (clause 4.3.2.2).
    pub(super) fn a_string(&mut self, rng: &mut Rng, low: u64, high: u64) -> Text {
        let length = to_index(between(rng, low, high));
        self.drawn(rng, ALPHANUMERICS, length)
    }

    /// An n-string of `length` digits.
    pub(super) fn n_string(&mut self, rng: &mut Rng, length: usize) -> Text {
        self.drawn(rng, DIGITS, length)
    }

    /// Exactly so many letters.
    pub(super) fn letters(&mut self, rng: &mut Rng, length: usize) -> Text {
        self.drawn(rng, LETTERS, length)
    }

    /// A state of two letters.
    pub(super) fn state(&mut self, rng: &mut Rng) -> Text {
        self.drawn(rng, CAPITALS, 2)
    }

    /// A zip code (clause 4.3.2.7).
    pub(super) fn zip(&mut self, rng: &mut Rng) -> Text {
        let start = self.n_string(rng, 4).start;
        self.bytes.extend_from_slice(b"11111");
        Text { start, end: self.bytes.len() }
    }

    /// Data of 26 to 50 signs, with `ORIGINAL` somewhere in them if wanted.
    pub(super) fn data(&mut self, rng: &mut Rng, is_original: bool) -> Text {
        let text = self.a_string(rng, 26, 50);
        if is_original {
            let room = text.end - text.start - ORIGINAL.len();
            let at = text.start + to_index(between(rng, 0, room as u64));
            self.bytes[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
        text
    }

    /// A text that is there already.
    pub(super) fn given(&mut self, text: &str) -> Text {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        Text { start, end: self.bytes.len() }
    }

    fn drawn(&mut self, rng: &mut Rng, alphabet: &[u8], length: usize) -> Text {
        const FRACTION: u64 = (1 << FRACTION_BITS) - 1;
        let start = self.bytes.len();
        let mut left = length;
        while left > 0 {
            let mut rest = rng.next_u64() & FRACTION;
            let count = left.min(SIGNS_PER_DRAW);
            for _ in 0..count {
                let product = rest * alphabet.len() as u64;
                self.bytes.push(alphabet[to_index(product >> FRACTION_BITS)]);
                rest = product & FRACTION;
            }
            left -= count;
        }
        Text { start, end: self.bytes.len() }
    }
}
