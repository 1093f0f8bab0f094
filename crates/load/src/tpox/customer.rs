//! A customer of TPoX with the accounts, in the order of the benchmark's schema.

use super::words::{
    CITIES, COUNTRIES, CURRENCIES, LANGUAGES, STATES, YES_NO, amount, code, date, element, leaf,
    name, time,
};
use super::{Tpox, between, pick, security, steered};
use nandu_base::Rng;
use std::fmt::Write;

/// The id of the first customer, as the benchmark's kit has it.
pub(super) const ID_FIRST: u64 = 1_002;
/// The most accounts that a customer has.
const ACCOUNT_COUNT_MAX: u64 = 7;

/// How many accounts a customer has: one, and two times in five a further one, and so on.
fn account_count(tpox: &Tpox, customer: u64) -> u64 {
    let mut rng = tpox.rng("accounts", customer);
    let mut count = 1;
    while count < ACCOUNT_COUNT_MAX && rng.below(5) < 2 {
        count += 1;
    }
    count
}

/// The id of an account, which holds that of its customer.
fn account_id(customer: u64, account: u64) -> u64 {
    (ID_FIRST + customer) * 10 + account
}

/// The id of some account of the collection.
pub(super) fn some_account(tpox: &Tpox, rng: &mut Rng) -> u64 {
    let customer = rng.below(tpox.customer_count);
    account_id(customer, rng.below(account_count(tpox, customer)))
}

/// Writes a customer; the shorter of what is possible where the collection `is_ahead`.
pub(super) fn write(out: &mut String, tpox: &Tpox, number: u64, is_ahead: bool) {
    let rng = &mut tpox.rng("custacc", number);
    let (first, last) = (name(rng), name(rng));
    let (id, mnemonic) = (ID_FIRST + number, code(rng, 8));
    write!(out, "<Customer xmlns=\"http://tpox-benchmark.com/custacc\" id=\"{id}\">")
        .expect("memory does not fail");
    leaf(out, "Mnemonic", mnemonic);
    element(out, "ShortNames", |out| {
        leaf(out, "ShortName", format_args!("{} {last}", &first[..1]));
        if rng.below(2) == 0 {
            leaf(out, "ShortName", &first);
        }
    });
    write_name(out, rng, (&first, &last));
    leaf(out, "DateOfBirth", date(1930, rng.below(365 * 55)));
    leaf(out, "Gender", pick(rng, &["Male", "Female"]));
    leaf(out, "Nationality", pick(rng, &COUNTRIES));
    leaf(out, "CountryOfResidence", pick(rng, &COUNTRIES));
    element(out, "Languages", |out| {
        for _ in 0..between(rng, 1, 3) {
            leaf(out, "Language", pick(rng, &LANGUAGES));
        }
    });
    write_addresses(out, rng, (&first, &last), is_ahead);
    write_banking(out, rng);
    element(out, "Accounts", |out| {
        for account in 0..account_count(tpox, number) {
            let id = account_id(number, account);
            write_account(out, (tpox, rng), (id, &last), is_ahead);
        }
    });
    out.push_str("</Customer>");
}

/// Writes an account with an id behind those of all customers.
pub(super) fn write_new_account(out: &mut String, tpox: &Tpox, number: u64) {
    let rng = &mut tpox.rng("new accounts", number);
    let last = name(rng);
    let id = account_id(tpox.customer_count, 0) + number;
    write_account(out, (tpox, rng), (id, &last), false);
}

fn write_name(out: &mut String, rng: &mut Rng, (first, last): (&str, &str)) {
    element(out, "Name", |out| {
        if rng.below(2) == 0 {
            leaf(out, "Title", pick(rng, &["Mr", "Ms", "Dr", "Prof"]));
        }
        leaf(out, "FirstName", first);
        for _ in 0..rng.below(3) {
            leaf(out, "MiddleName", name(rng));
        }
        leaf(out, "LastName", last);
        if rng.below(8) == 0 {
            leaf(out, "Suffix", pick(rng, &["Jr", "Sr", "III"]));
        }
    });
}

fn write_addresses(out: &mut String, rng: &mut Rng, (first, last): (&str, &str), is_ahead: bool) {
    element(out, "Addresses", |out| {
        for place in 0..steered(rng, (1, 2), is_ahead) {
            let (primary, kind) = if place == 0 { ("Yes", "Home") } else { ("No", "Office") };
            write!(out, "<Address primary=\"{primary}\" type=\"{kind}\">")
                .expect("memory does not fail");
            write_address(out, rng, is_ahead);
            out.push_str("</Address>");
        }
    });
    element(out, "EmailAddresses", |out| {
        for place in 0..steered(rng, (1, 3), is_ahead) {
            let (primary, host) = (if place == 0 { "Yes" } else { "No" }, name(rng));
            write!(out, "<Email primary=\"{primary}\">{first}.{last}@{host}.example</Email>")
                .expect("memory does not fail");
        }
    });
}

fn write_address(out: &mut String, rng: &mut Rng, is_ahead: bool) {
    element(out, "gStreet", |out| {
        for _ in 0..between(rng, 1, 2) {
            leaf(out, "Street", format_args!("{} {} Street", between(rng, 1, 999), name(rng)));
        }
    });
    if rng.below(3) == 0 {
        leaf(out, "POBox", between(rng, 1_000, 99_999));
    }
    let (city, country) = (pick(rng, &CITIES), pick(rng, &COUNTRIES));
    leaf(out, "City", city);
    leaf(out, "PostalCode", between(rng, 10_000, 99_999));
    leaf(out, "State", pick(rng, &STATES));
    leaf(out, "Country", country);
    leaf(out, "CityCountry", format_args!("{city}, {country}"));
    element(out, "Phones", |out| {
        for place in 0..steered(rng, (1, 3), is_ahead) {
            let primary = if place == 0 { "Yes" } else { "No" };
            let kind = pick(rng, &["Home", "Office", "Mobile", "Fax"]);
            write!(out, "<Phone primary=\"{primary}\" type=\"{kind}\">")
                .expect("memory does not fail");
            leaf(out, "CountryCode", between(rng, 1, 99));
            leaf(out, "AreaCode", between(rng, 100, 999));
            leaf(out, "Number", between(rng, 1_000_000, 9_999_999));
            if rng.below(2) == 0 {
                leaf(out, "Extension", between(rng, 10, 9_999));
            }
            out.push_str("</Phone>");
        }
    });
}

fn write_banking(out: &mut String, rng: &mut Rng) {
    element(out, "BankingInfo", |out| {
        leaf(out, "CustomerSince", date(1990, rng.below(365 * 14)));
        leaf(out, "PremiumCustomer", pick(rng, &YES_NO));
        leaf(out, "CustomerStatus", pick(rng, &["Active", "Inactive"]));
        leaf(out, "LastContactDate", date(2003, rng.below(900)));
        leaf(out, "ReviewFrequency", pick(rng, &["Monthly", "Quarterly", "Yearly"]));
        element(out, "Online", |out| {
            leaf(out, "Login", code(rng, 10));
            element(out, "Pin", |out| write_encrypted(out, rng));
            element(out, "Trading-password", |out| write_encrypted(out, rng));
        });
        element(out, "Tax", |out| {
            if rng.below(2) == 0 {
                leaf(out, "TaxID", between(rng, 100_000_000, 999_999_999));
            }
            if rng.below(4) > 0 {
                element(out, "SSN", |out| write_encrypted(out, rng));
            }
            leaf(out, "TaxRate", amount(rng, 5, 45));
        });
        leaf(out, "Currency", pick(rng, &CURRENCIES));
    });
}

fn write_encrypted(out: &mut String, rng: &mut Rng) {
    out.push_str("<EncryptedData Type=\"Content\">");
    element(out, "CipherData", |out| leaf(out, "CipherValue", code(rng, 24)));
    out.push_str("</EncryptedData>");
}

fn write_account(
    out: &mut String,
    (tpox, rng): (&Tpox, &mut Rng),
    (id, last): (u64, &str),
    is_ahead: bool,
) {
    let currency = pick(rng, &CURRENCIES);
    write!(out, "<Account id=\"{id}\">").expect("memory does not fail");
    leaf(out, "Category", between(rng, 1, 9));
    leaf(out, "AccountTitle", format_args!("{last} {}", name(rng)));
    leaf(out, "ShortTitle", last);
    leaf(out, "Mnemonic", code(rng, 8));
    leaf(out, "Currency", currency);
    leaf(out, "CurrencyMarket", between(rng, 1, 7));
    leaf(out, "OpeningDate", date(1990, 7 * rng.below(700)));
    leaf(out, "AccountOfficer", name(rng));
    leaf(out, "LastUpdate", format_args!("{}T{}", date(2003, rng.below(900)), time(rng)));
    element(out, "Balance", |out| {
        for name in ["OnlineActualBal", "OnlineClearedBal", "WorkingBalance"] {
            leaf(out, name, between(rng, 100, 999_999));
        }
    });
    leaf(out, "Passbook", pick(rng, &YES_NO));
    element(out, "gValueDate", |out| {
        for _ in 0..steered(rng, (1, 5), is_ahead) {
            element(out, "mValueDate", |out| {
                leaf(out, "ValueDate", date(2003, rng.below(900)));
                leaf(out, "CreditMovement", between(rng, 10, 99_999));
                leaf(out, "ValueDatedBal", between(rng, 100, 999_999));
            });
        }
    });
    leaf(out, "ChargeCcy", currency);
    leaf(out, "InterestCcy", currency);
    leaf(out, "AllowNetting", pick(rng, &YES_NO));
    element(out, "gInputter", |out| {
        for place in 1..=between(rng, 1, 5) {
            write!(out, "<Inputter c=\"{place}\">{}</Inputter>", name(rng))
                .expect("memory does not fail");
        }
    });
    element(out, "Holdings", |out| {
        for _ in 0..steered(rng, (1, 6), is_ahead) {
            let number = rng.below(tpox.security_count);
            element(out, "Position", |out| {
                leaf(out, "Symbol", security::symbol(number));
                leaf(out, "Name", security::name(tpox, number));
                leaf(out, "Type", security::kind(tpox, number));
                leaf(out, "Quantity", between(rng, 1, 9_999));
            });
        }
    });
    out.push_str("</Account>");
}
