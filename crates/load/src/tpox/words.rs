//! Lists of words, and elements with them. No value needs an escape in XML.

use super::{between, pick};
use nandu_base::Rng;
use std::fmt::{Display, Write};

pub(super) const CURRENCIES: [&str; 6] = ["USD", "EUR", "GBP", "JPY", "CHF", "CAD"];
pub(super) const YES_NO: [&str; 2] = ["Yes", "No"];
pub(super) const SECTORS: [&str; 12] = [
    "BasicMaterials",
    "CapitalGoods",
    "Conglomerates",
    "ConsumerCyclical",
    "ConsumerNonCyclical",
    "Energy",
    "Financial",
    "Healthcare",
    "Services",
    "Technology",
    "Transportation",
    "Utilities",
];
pub(super) const COUNTRIES: [&str; 16] = [
    "Austria",
    "Brazil",
    "Canada",
    "Denmark",
    "Egypt",
    "France",
    "Germany",
    "India",
    "Italy",
    "Japan",
    "Kenya",
    "Mexico",
    "Norway",
    "Spain",
    "Sweden",
    "United States",
];
pub(super) const CITIES: [&str; 16] = [
    "Aachen", "Bergen", "Boston", "Chicago", "Dallas", "Fresno", "Houston", "Kyoto", "Lyon",
    "Memphis", "Nairobi", "Oakland", "Phoenix", "Seattle", "Toledo", "Valencia",
];
pub(super) const STATES: [&str; 12] = [
    "Alabama",
    "Alaska",
    "Arizona",
    "California",
    "Colorado",
    "Georgia",
    "Illinois",
    "Michigan",
    "Nevada",
    "Ohio",
    "Texas",
    "Washington",
];
pub(super) const LANGUAGES: [&str; 8] =
    ["Arabic", "English", "French", "German", "Hindi", "Japanese", "Spanish", "Swahili"];

const STARTS: [&str; 16] = [
    "Al", "Ber", "Cor", "Da", "El", "Fa", "Gra", "Hol", "Is", "Jo", "Ka", "Lin", "Mor", "Nor",
    "Per", "Ro",
];
const MIDDLES: [&str; 12] =
    ["ba", "de", "lo", "mi", "na", "ri", "sa", "ta", "ve", "wi", "ya", "zo"];
const ENDS: [&str; 12] =
    ["berg", "den", "field", "hart", "ley", "man", "nen", "rick", "sen", "ton", "well", "worth"];
const TEXT: [&str; 48] = [
    "about",
    "account",
    "across",
    "assets",
    "balance",
    "bond",
    "business",
    "capital",
    "cash",
    "company",
    "cost",
    "credit",
    "customer",
    "demand",
    "design",
    "develop",
    "equity",
    "expand",
    "financial",
    "for",
    "fund",
    "global",
    "growth",
    "income",
    "index",
    "industry",
    "invest",
    "its",
    "lease",
    "market",
    "network",
    "of",
    "operate",
    "price",
    "product",
    "provide",
    "rate",
    "region",
    "revenue",
    "sale",
    "service",
    "share",
    "software",
    "supply",
    "the",
    "through",
    "value",
    "with",
];
const DAYS_OF_MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A name of two or three syllables, of some thousand.
pub(super) fn name(rng: &mut Rng) -> String {
    let (start, middle, end) = (pick(rng, &STARTS), pick(rng, &MIDDLES), pick(rng, &ENDS));
    format!("{start}{middle}{end}")
}

/// Words up to `byte_count` bytes, which end within a word's length of it.
pub(super) fn text(out: &mut String, rng: &mut Rng, byte_count: usize) {
    let end = out.len() + byte_count;
    loop {
        out.push_str(pick(rng, &TEXT));
        if out.len() >= end {
            return;
        }
        out.push(' ');
    }
}

/// Letters and digits, as codes and ciphers have them.
pub(super) fn code(rng: &mut Rng, length: u64) -> String {
    const DIGITS: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    (0..length).map(|_| char::from(pick(rng, DIGITS))).collect()
}

/// The day that comes `days` after the first of January of `year`, as in 2003-06-15.
pub(super) fn date(mut year: u64, mut days: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for (index, plain) in DAYS_OF_MONTHS.into_iter().enumerate() {
        let count = plain + u64::from(index == 1 && is_leap(year));
        if days < count {
            break;
        }
        days -= count;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// A moment of a day.
pub(super) fn time(rng: &mut Rng) -> String {
    let second = rng.below(86_400);
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// An amount between two whole ones, with two places.
pub(super) fn amount(rng: &mut Rng, low: u64, high: u64) -> String {
    let cents = between(rng, low * 100, high * 100);
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// An element with a text.
pub(super) fn leaf(out: &mut String, name: &str, value: impl Display) {
    write!(out, "<{name}>{value}</{name}>").expect("memory does not fail");
}

/// An element with what `inside` writes.
pub(super) fn element(out: &mut String, name: &str, inside: impl FnOnce(&mut String)) {
    write!(out, "<{name}>").expect("memory does not fail");
    inside(out);
    write!(out, "</{name}>").expect("memory does not fail");
}

/// An attribute in a tag that is being written.
pub(super) fn attribute(out: &mut String, name: &str, value: impl Display) {
    write!(out, " {name}=\"{value}\"").expect("memory does not fail");
}
