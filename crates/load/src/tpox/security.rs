//! A security of TPoX: a stock or a fund, with a long description of mixed text.

use super::words::{self, SECTORS, amount, date, element, leaf, text};
use super::{Tpox, between, pick};
use nandu_base::{Rng, to_index};
use std::fmt::Write;

/// The id of the first security.
const ID_FIRST: u64 = 1;
/// Bytes of a document, less those behind the description.
const BYTES: (u64, u64) = (3_000, 10_000);
/// Bytes of what follows the description, about.
const TAIL_BYTES: usize = 560;
/// Bytes of a text between two keywords; the longest needs two pages of 1 KiB.
const CHUNK_BYTES: (u64, u64) = (40, 2_000);
/// Bytes of the text of the management.
const MANAGEMENT_BYTES: usize = 120;

/// Elements in the text about a stock, and about a fund.
const KEYWORDS: (&[&str], &[&str]) = (&["Competitor", "Product", "Risk"], &["KeyHoldings", "Risk"]);

/// The symbol: one letter for the first 26, two for the next 676 and so on.
pub(super) fn symbol(number: u64) -> String {
    let mut rest = number + 1;
    let mut letters = Vec::new();
    while rest > 0 {
        rest -= 1;
        letters.push(b'A' + u8::try_from(rest % 26).expect("less than 26"));
        rest /= 26;
    }
    letters.iter().rev().map(|&letter| char::from(letter)).collect()
}

/// What the security is called, which is not unique.
pub(super) fn name(tpox: &Tpox, number: u64) -> String {
    let rng = &mut tpox.rng("names", number);
    let (one, other) = (words::name(rng), words::name(rng));
    format!("{one} {other} {}", pick(rng, &["Corp", "Group", "Holdings", "Inc", "Trust"]))
}

/// Two thirds are stocks.
pub(super) fn kind(tpox: &Tpox, number: u64) -> &'static str {
    const FUNDS: [&str; 4] = ["Bond", "Stock Fund", "Bond Fund", "Mixed Fund"];
    let rng = &mut tpox.rng("kinds", number);
    if rng.below(3) < 2 { "Stock" } else { pick(rng, &FUNDS) }
}

/// Writes a security; with a shorter description, on the whole, where the collection `is_ahead`.
pub(super) fn write(out: &mut String, tpox: &Tpox, number: u64, is_ahead: bool) {
    let rng = &mut tpox.rng("security", number);
    let start = out.len();
    let draws = if is_ahead { 2 } else { 3 };
    let bytes = (0..draws).map(|_| between(rng, BYTES.0, BYTES.1)).max().unwrap_or(BYTES.0);
    let end = start + to_index(bytes) - TAIL_BYTES;
    let (kind, name) = (kind(tpox, number), name(tpox, number));
    let id = ID_FIRST + number;
    write!(out, "<Security xmlns=\"http://tpox-benchmark.com/security\" id=\"{id}\">")
        .expect("memory does not fail");
    leaf(out, "Symbol", symbol(number));
    leaf(out, "Name", &name);
    leaf(out, "ShortName", name.split(' ').next().unwrap_or(&name));
    leaf(out, "SecurityType", kind);
    element(out, "SecurityInformation", |out| match kind {
        "Stock" => element(out, "StockInformation", |out| write_stock(out, rng, end)),
        _ => element(out, "FundInformation", |out| write_fund(out, rng, end)),
    });
    write_prices(out, rng);
    leaf(out, "PE", amount(rng, 3, 60));
    leaf(out, "Yield", amount(rng, 0, 8));
    leaf(out, "DivPerShare", amount(rng, 0, 5));
    out.push_str("</Security>");
}

fn write_stock(out: &mut String, rng: &mut Rng, end: usize) {
    leaf(out, "Sector", pick(rng, &SECTORS));
    write_industries(out, rng);
    let capitalization = pick(rng, &["Large", "Mid", "Small"]);
    let class = pick(rng, &["Blend", "Growth", "Value"]);
    write!(out, "<Category Capitalization=\"{capitalization}\" Class=\"{class}\"/>")
        .expect("memory does not fail");
    leaf(out, "OutstShares", between(rng, 100_000, 999_999_999));
    write_description(out, rng, ("BusinessSummary", KEYWORDS.0, end));
}

fn write_fund(out: &mut String, rng: &mut Rng, end: usize) {
    leaf(out, "FundFamily", words::name(rng));
    if rng.below(2) == 0 {
        leaf(out, "Sector", pick(rng, &SECTORS));
    }
    write_industries(out, rng);
    leaf(out, "AssetGroup", words::name(rng));
    if rng.below(2) == 0 {
        let capitalization = pick(rng, &["Large", "Mid", "Small"]);
        let class = pick(rng, &["Blend", "Growth", "Value"]);
        write!(out, "<Category Capitalization=\"{capitalization}\" Class=\"{class}\"/>")
            .expect("memory does not fail");
    }
    if rng.below(2) == 0 {
        let duration = pick(rng, &["Intermediate", "Long", "Short"]);
        let quality = pick(rng, &["High", "Low", "Medium"]);
        write!(out, "<FixedIncome Duration=\"{duration}\" Quality=\"{quality}\"/>")
            .expect("memory does not fail");
    }
    leaf(out, "ExpenseRatio", amount(rng, 0, 3));
    leaf(out, "TotalAssets", between(rng, 100_000, 999_999_999));
    if rng.below(2) == 0 {
        leaf(out, "MinInitialInvestment", 100 * between(rng, 1, 100));
    }
    if rng.below(2) == 0 {
        leaf(out, "MinSubsequentInvestment", 10 * between(rng, 1, 100));
    }
    write_description(out, rng, ("FundDescription", KEYWORDS.1, end));
}

fn write_industries(out: &mut String, rng: &mut Rng) {
    for _ in 0..between(rng, 1, 3) {
        leaf(out, "Industry", format_args!("Industry{}", between(rng, 1, 101)));
    }
}

/// Texts with keywords between them, until the document has `end` bytes.
fn write_description(
    out: &mut String,
    rng: &mut Rng,
    (what, keywords, end): (&str, &[&str], usize),
) {
    element(out, "Description", |out| {
        let has_management = rng.below(2) == 0;
        let end = if has_management { end - MANAGEMENT_BYTES } else { end };
        element(out, what, |out| {
            while out.len() < end {
                let length = to_index(between(rng, CHUNK_BYTES.0, CHUNK_BYTES.1));
                text(out, rng, length.min(end - out.len()));
                out.push(' ');
                leaf(out, pick(rng, keywords), words::name(rng));
                out.push(' ');
            }
        });
        if has_management {
            element(out, "Management", |out| {
                text(out, rng, MANAGEMENT_BYTES / 2);
                out.push(' ');
                leaf(out, "CEO", format_args!("{} {}", words::name(rng), words::name(rng)));
            });
        }
    });
}

fn write_prices(out: &mut String, rng: &mut Rng) {
    element(out, "Price", |out| {
        for name in ["LastTrade", "Ask", "Bid", "Price50DayAvg", "Price200DayAvg"] {
            leaf(out, name, amount(rng, 5, 500));
        }
        element(out, "PriceToday", |out| {
            for name in ["PreviousClose", "Open", "High", "Low"] {
                leaf(out, name, amount(rng, 5, 500));
            }
        });
        element(out, "Price52week", |out| {
            for (price, day) in [
                ("Price52week-low", "Price52week-low-date"),
                ("Price52week-high", "Price52week-high-date"),
            ] {
                leaf(out, price, amount(rng, 5, 500));
                leaf(out, day, date(2003, rng.below(366)));
            }
        });
    });
}
