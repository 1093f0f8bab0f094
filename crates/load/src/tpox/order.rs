//! An order of TPoX in FIXML 4.4: six elements, their attributes, no text.

use super::words::{CURRENCIES, amount, attribute, code, date, text, time};
use super::{Tpox, between, customer, pick, security};
use nandu_base::Rng;
use std::fmt::Write;

/// The id of the first order, as the benchmark's kit has it.
pub(super) const ID_FIRST: u64 = 103_282;
/// Trade dates begin on 2003-06-15, which comes so many days after the year's first.
const DAY_FIRST: u64 = 165;
/// Optional attributes that are there, in a million, while a collection is ahead and else.
const PRESENT_PPM: (u32, u32) = (780_000, 920_000);

/// What an attribute may say.
#[derive(Clone, Copy)]
enum Values {
    OneOf(&'static [&'static str]),
    Number(u64, u64),
    Amount(u64, u64),
    /// A day up to so many after the trade.
    Day(u64),
    Moment(u64),
    Code(u64),
    Words(u64, u64),
}

use Values::{Amount, Code, Day, Moment, Number, OneOf, Words};

/// Optional attributes of `Order`, beside those that are always there.
const ORDER: [(&str, Values); 33] = [
    ("ID2", Code(10)),
    ("OrignDt", Day(0)),
    ("AcctIDSrc", OneOf(&["1", "2", "3", "4", "5", "99"])),
    ("AcctTyp", OneOf(&["1", "2", "3", "4", "6", "7", "8"])),
    ("DayBkngInst", OneOf(&["0", "1", "2"])),
    ("BkngUnit", OneOf(&["0", "1", "2"])),
    ("PreallocMeth", OneOf(&["0", "1"])),
    ("SettlTyp", OneOf(&["0", "1", "2", "3", "4", "5"])),
    ("SettlDt", Day(5)),
    ("CshMgn", OneOf(&["1", "2", "3"])),
    ("ClrFeeInd", OneOf(&["B", "C", "E", "F", "H", "I", "L", "M"])),
    ("HandlInst", OneOf(&["1", "2", "3"])),
    ("MinQty", Number(1, 500)),
    ("MaxFlr", Number(500, 9_999)),
    ("PrevClsPx", Amount(5, 500)),
    ("LocReqd", OneOf(&["Y", "N"])),
    ("TxnTm", Moment(0)),
    ("QtyTyp", OneOf(&["0", "1"])),
    ("Px", Amount(5, 500)),
    ("StopPx", Amount(5, 500)),
    ("ComplianceID", Code(12)),
    ("SolFlag", OneOf(&["Y", "N"])),
    ("TmInForce", OneOf(&["0", "1", "2", "3", "4", "5", "6"])),
    ("EfctvTm", Moment(1)),
    ("ExpireDt", Day(90)),
    ("ExpireTm", Moment(90)),
    ("GTBkngInst", OneOf(&["0", "1", "2"])),
    ("Cpcty", OneOf(&["A", "G", "I", "P", "R", "W"])),
    ("ForexReq", OneOf(&["Y", "N"])),
    ("SettlCcy", OneOf(&CURRENCIES)),
    ("BkngTyp", OneOf(&["0", "1", "2"])),
    ("Txt", Words(100, 500)),
    ("PosEfct", OneOf(&["C", "F", "O", "R"])),
];
const HEADER: [(&str, Values); 8] = [
    ("Snt", Moment(0)),
    ("PosDup", OneOf(&["Y", "N"])),
    ("PosRsnd", OneOf(&["Y", "N"])),
    ("SID", Code(8)),
    ("TID", Code(8)),
    ("SSub", Code(6)),
    ("TSub", Code(6)),
    ("OrigSnt", Moment(0)),
];
const HOP: [(&str, Values); 3] = [("ID", Code(8)), ("Snt", Moment(0)), ("Ref", Number(1, 999_999))];
/// Of the instrument, beside its symbol.
const INSTRUMENT: [(&str, Values); 24] = [
    ("Sfx", OneOf(&["CD", "WI"])),
    ("ID", Number(100_000_000, 999_999_999)),
    ("Src", OneOf(&["1", "2", "4", "5", "8"])),
    ("Prod", Number(1, 13)),
    ("CFI", Code(6)),
    ("SecTyp", OneOf(&["CORP", "CS", "MF", "MUNI", "OPT", "PS"])),
    ("SubTyp", Code(4)),
    ("MMY", Number(200_401, 200_412)),
    ("MatDt", Day(3_000)),
    ("CpnPmt", Day(300)),
    ("Issued", Day(0)),
    ("RepoTrm", Number(1, 90)),
    ("RepoRt", Amount(1, 9)),
    ("Fctr", Amount(1, 3)),
    ("CrdRtg", OneOf(&["A", "AA", "AAA", "B", "BB", "BBB"])),
    ("Ctry", OneOf(&["CA", "DE", "FR", "GB", "JP", "US"])),
    ("Redeem", Day(3_000)),
    ("StrkPx", Amount(5, 500)),
    ("Mult", Number(1, 100)),
    ("CpnRt", Amount(1, 12)),
    ("Exch", OneOf(&["A", "L", "N", "O", "T"])),
    ("Issr", Words(10, 30)),
    ("Desc", Words(40, 300)),
    ("Pool", Code(8)),
];

/// Writes an order; with fewer attributes where the collection `is_ahead`.
pub(super) fn write(out: &mut String, tpox: &Tpox, number: u64, is_ahead: bool) {
    let rng = &mut tpox.rng("order", number);
    let present = if is_ahead { PRESENT_PPM.0 } else { PRESENT_PPM.1 };
    let day = DAY_FIRST + rng.below(366);
    out.push_str("<FIXML xmlns=\"http://www.fixprotocol.org/FIXML-4-4\" v=\"4.4\"");
    out.push_str(" r=\"20030618\" s=\"20040109\"><Order");
    attribute(out, "ID", ID_FIRST + number);
    attribute(out, "TrdDt", date(2003, day));
    attribute(out, "Acct", customer::some_account(tpox, rng));
    attribute(out, "Side", pick(rng, &["1", "2"]));
    attribute(out, "Typ", pick(rng, &["1", "2", "3", "4"]));
    attribute(out, "Ccy", pick(rng, &CURRENCIES));
    write_some(out, rng, &ORDER, (present, day));
    out.push_str("><Hdr");
    write_some(out, rng, &HEADER, (present, day));
    out.push_str("><Hop");
    write_some(out, rng, &HOP, (present, day));
    out.push_str("/></Hdr><Instrmt");
    attribute(out, "Sym", security::symbol(rng.below(tpox.security_count)));
    write_some(out, rng, &INSTRUMENT, (present, day));
    out.push_str("/><OrdQty");
    attribute(out, "Qty", between(rng, 1, 9_999));
    attribute(out, "Cash", between(rng, 100, 999_999));
    attribute(out, "RndDir", pick(rng, &["0", "1", "2"]));
    out.push_str("/></Order></FIXML>");
}

/// Writes those attributes that are there.
fn write_some(
    out: &mut String,
    rng: &mut Rng,
    all: &[(&str, Values)],
    (present_ppm, day): (u32, u64),
) {
    for &(name, values) in all {
        if !rng.chance_ppm(present_ppm) {
            continue;
        }
        match values {
            OneOf(list) => attribute(out, name, pick(rng, list)),
            Number(low, high) => attribute(out, name, between(rng, low, high)),
            Amount(low, high) => attribute(out, name, amount(rng, low, high)),
            Day(after) => attribute(out, name, date(2003, day + rng.below(after + 1))),
            Moment(after) => {
                let day = date(2003, day + rng.below(after + 1));
                attribute(out, name, format_args!("{day}T{}", time(rng)));
            }
            Code(length) => attribute(out, name, code(rng, length)),
            Words(low, high) => {
                let length = nandu_base::to_index(low + rng.below(high - low));
                write!(out, " {name}=\"").expect("memory does not fail");
                text(out, rng, length);
                out.push('"');
            }
        }
    }
}
