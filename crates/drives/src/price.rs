//! What drives cost: a file of prices, each with its date and its source.
//!
//! ```text
//!   [drives.ocz-core]
//!   cents = 23099                         of US dollars, for a whole drive
//!   date = "2009"                         a year, or a year and a month: "2009-06"
//!   source = "[S] S001 table 2: ..."      opens with a mark, as sources of profiles do
//! ```
//!
//! 1. A price has a date and a source, or it is none: what somebody recalls says `[M]`.
//! 2. An array costs what its members cost together; the oldest date of them is its date.
//! 3. A price is that of the drive which its key names, with the figures that this one has: nandu's own are of the
//!    profiles inside the binary, those of a file of whatever [`Profile::load`] makes of their keys. A drive of other
//!    figures has none, whatever its name.

use crate::profile::{DriveConfig, Profile, ProfileError, line_at, line_of_key, read_text};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

const EMBEDDED: &str = include_str!("../../../prices.toml");
const EMBEDDED_NAME: &str = "prices.toml";
/// Ten million dollars: no drive costs more.
pub const CENTS_MAX: u64 = 1_000_000_000;
/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;
const MARKS: [&str; 4] = ["[S", "[V", "[C", "[M"];
/// Before that nobody sold drives, and after that nobody knows.
const YEARS: std::ops::RangeInclusive<u32> = 1950..=2099;

/// What a drive costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Cents of US dollars.
    #[serde(deserialize_with = "cents")]
    pub cents: u64,
    /// When: `2009` or `2009-06`.
    pub date: String,
    /// Where the figure comes from, after its mark.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    #[serde(default)]
    drives: BTreeMap<String, Price>,
}

/// Prices of drives, by the names that their files give them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    by_name: BTreeMap<String, Priced>,
}

/// A drive and what it costs.
#[derive(Clone, Debug, PartialEq)]
struct Priced {
    drive: Profile,
    price: Price,
}

impl Prices {
    /// Those that come with nandu.
    ///
    /// # Panics
    /// Never: a test reads them.
    #[must_use]
    pub fn embedded() -> Self {
        let prices = parse(EMBEDDED_NAME, EMBEDDED).expect("nandu's own prices are right");
        let priced = |(name, price): (String, Price)| {
            let drive = Profile::embedded(&name)?.expect("nandu's own profiles are right");
            Some((name, Priced { drive, price }))
        };
        Self { by_name: prices.into_iter().filter_map(priced).collect() }
    }

    /// Those of a file, before those that come with nandu.
    ///
    /// # Errors
    /// If it cannot be read or something in it is wrong, with the line.
    pub fn with_file(path: &Path) -> Result<Self, ProfileError> {
        let file = path.display().to_string();
        let text = read_text(path, FILE_BYTES_MAX).map_err(|error| ProfileError::Unreadable {
            file: file.clone(),
            message: error.to_string(),
        })?;
        let mut mine: BTreeMap<String, Priced> = BTreeMap::new();
        for (name, price) in parse(&file, &text)? {
            let invalid = |message| ProfileError::Invalid {
                line: line_of(&text, &name),
                file: file.clone(),
                message,
                nearest: None,
            };
            let drive = Profile::load(&name).map_err(|error| invalid(error.to_string()))?;
            if let Some((other, _)) = mine.iter().find(|(_, known)| known.is_of(&drive)) {
                return Err(invalid(format!("`{name}` and `{other}` are one drive")));
            }
            mine.insert(name, Priced { drive, price });
        }
        let mut prices = Self::embedded();
        prices.by_name.retain(|_, known| !mine.values().any(|of| of.is_of(&known.drive)));
        prices.by_name.extend(mine);
        Ok(prices)
    }

    /// What a drive costs; `None` where nobody said.
    #[must_use]
    pub fn of(&self, profile: &Profile) -> Option<Price> {
        if let Some(known) = self.by_name.values().find(|known| known.is_of(profile)) {
            return Some(known.price.clone());
        }
        let DriveConfig::Array(array) = &profile.drive else { return None };
        let members = array.member_names().ok()?;
        let prices: Option<Vec<Price>> =
            members.iter().map(|member| self.of(&Profile::load(member).ok()?)).collect();
        let prices = prices?;
        let mut sources: Vec<&str> = prices.iter().map(|price| price.source.as_str()).collect();
        sources.dedup();
        Some(Price {
            cents: prices.iter().map(|price| price.cents).sum(),
            date: prices.iter().map(|price| price.date.clone()).min()?,
            source: sources.join("; "),
        })
    }

    /// The names, for [`Profile::load`], of drives that have a price of their own.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let is_found = |(name, known): &(&String, &Priced)| {
            Profile::load(name).is_ok_and(|it| known.is_of(&it))
        };
        self.by_name.iter().filter(is_found).map(|(name, _)| name.as_str())
    }
}

impl Priced {
    /// Whether it is the price of `profile`: of that name, and with its figures.
    fn is_of(&self, profile: &Profile) -> bool {
        let Profile { name, geometry, drive, .. } = profile;
        (&self.drive.name, &self.drive.geometry, &self.drive.drive) == (name, geometry, drive)
    }
}

impl Price {
    /// For people, with its date and the mark of its source: `$80.00 (2024, [M:mid])`.
    #[must_use]
    pub fn line(&self) -> String {
        let mark = self.source.split(']').next().unwrap_or_default();
        format!("${}.{:02} ({}, {mark}])", self.cents / 100, self.cents % 100, self.date)
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=CENTS_MAX).contains(&self.cents) {
            return Err(wrong_cents(&self.cents));
        }
        if !is_date(&self.date) {
            return Err(format!("`date` is `{}`, must be as 2009 or 2009-06", self.date));
        }
        if !is_marked(&self.source) {
            return Err("`source` must open with a mark: [S], [V], [C] or [M]".to_owned());
        }
        Ok(())
    }
}

/// For serde: one below zero is told as any other that is no price.
fn cents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let cents = i64::deserialize(deserializer)?;
    u64::try_from(cents).map_err(|_| de::Error::custom(wrong_cents(&cents)))
}

fn wrong_cents(cents: &dyn Display) -> String {
    format!("`cents` is {cents}, must be from 1 to {CENTS_MAX}")
}

/// The prices of `text`, by the names that it gives to drives.
fn parse(file: &str, text: &str) -> Result<BTreeMap<String, Price>, ProfileError> {
    let invalid = |line: usize, message: String| ProfileError::Invalid {
        file: file.to_owned(),
        line,
        message,
        nearest: None,
    };
    let PriceFile { drives } = toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        invalid(line, error.message().trim_end().to_owned())
    })?;
    for (name, price) in &drives {
        let told = |what: String| {
            let heading = line_of(text, name);
            // A whole price may stand on one line.
            let key = what.split('`').nth(1).and_then(|key| line_of_key_from(text, heading, key));
            invalid(key.unwrap_or(heading), format!("`{name}`: {what}"))
        };
        price.check().map_err(told)?;
    }
    Ok(drives)
}

/// The line on which a drive's price begins.
fn line_of(text: &str, name: &str) -> usize {
    let headings = [format!("[drives.{name}]"), format!("[drives.\"{name}\"]")];
    let found = text.lines().position(|line| headings.iter().any(|it| line.trim() == it));
    found.map(|index| index + 1).or_else(|| line_of_key(text, name)).unwrap_or(1)
}

/// The line on which `key` stands, of the table whose heading is on line `heading`.
fn line_of_key_from(text: &str, heading: usize, key: &str) -> Option<usize> {
    let rest = text.lines().enumerate().skip(heading);
    let mut own = rest.take_while(|(_, line)| !line.trim_start().starts_with('['));
    let is_key = |line: &str| line.split_once('=').is_some_and(|(left, _)| left.trim() == key);
    own.find(|(_, line)| is_key(line)).map(|(index, _)| index + 1)
}

/// Whether a source opens with a mark: `[S]`, or `[M:lo]`.
fn is_marked(source: &str) -> bool {
    let rest = MARKS.iter().find_map(|mark| source.strip_prefix(mark));
    rest.is_some_and(|rest| rest.starts_with(']') || rest.starts_with(':'))
}

fn is_date(text: &str) -> bool {
    let (year, month) = text.split_once('-').unwrap_or((text, "01"));
    let is_number = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_year = is_number(year, 4) && year.parse().is_ok_and(|year| YEARS.contains(&year));
    is_year && is_number(month, 2) && (1..=12).contains(&month.parse().unwrap_or(0_u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_that_come_with_nandu_are_of_drives_that_there_are() {
        let prices = Prices::embedded();
        assert!(prices.names().count() > 0);
        for name in prices.names() {
            let profile = Profile::load(name).unwrap();
            assert_eq!(prices.of(&profile).unwrap().check(), Ok(()), "{name}");
        }
    }

    #[test]
    fn an_array_costs_what_its_members_cost() {
        let prices = Prices::embedded();
        let single = prices.of(&Profile::load("device-a").unwrap()).unwrap();
        let array = prices.of(&Profile::load("array:stripe:sim:device-a*4").unwrap()).unwrap();
        assert_eq!((array.cents, &array.date), (4 * single.cents, &single.date));
        assert_eq!(array.source, single.source);
        let without = Profile::load("array:stripe:sim:device-a*2+sim:hama*2").unwrap();
        assert_eq!(prices.of(&without), None, "a member has no price");
    }

    /// A profile in `folder`, which is that of `of` with a first figure changed, and its path.
    fn own(folder: &Path, file: &str, of: &str, change: (&str, &str)) -> String {
        let text = Profile::load(of).unwrap().text;
        assert!(text.contains(change.0), "{of} has no `{}`", change.0);
        let path = folder.join(file);
        std::fs::write(&path, text.replacen(change.0, change.1, 1)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn file_of(folder: &Path, keys: &[&str]) -> std::path::PathBuf {
        let price = "cents = 123\ndate = \"2026-11\"\nsource = \"[V] the shop\"\n";
        let text: String = keys.iter().map(|key| format!("[drives.\"{key}\"]\n{price}")).collect();
        let path = folder.join("prices.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_drive_of_ones_own_has_the_price_that_a_file_gives_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let mine = own(folder.path(), "mine.toml", "ocz-core", ("\"60GB\"", "\"30GB\""));
        let prices = Prices::with_file(&file_of(folder.path(), &[&mine])).unwrap();
        let cents = |name: &str| prices.of(&Profile::load(name).unwrap()).map(|it| it.cents);
        assert_eq!((cents(&mine), cents("ocz-core")), (Some(123), Some(23_099)));
        assert_eq!(cents(&format!("array:stripe:sim:{mine}*2")), Some(246));
        assert!(prices.names().any(|name| name == mine));
        let twice = file_of(folder.path(), &[&mine, &mine.replace("/mine", "/./mine")]);
        let said = Prices::with_file(&twice).unwrap_err().to_string();
        assert!(said.contains("are one drive"), "{said}");
        let none = folder.path().join("none.toml");
        let said =
            Prices::with_file(&file_of(folder.path(), &["ocz-core", none.to_str().unwrap()]));
        let said = said.unwrap_err().to_string();
        assert!(said.contains("prices.toml:5: "), "{said}");
    }

    #[test]
    fn a_drive_of_other_figures_has_not_the_price_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let prices = Prices::embedded();
        let of = |path: String| prices.of(&Profile::load(&path).unwrap());
        let other = own(folder.path(), "ocz-core.toml", "ocz-core", ("\"60GB\"", "\"30GB\""));
        assert_eq!(of(other), None);
        // Other words are no other figures.
        let same = own(folder.path(), "ocz-core.toml", "ocz-core", ("title = \"", "title = \"My "));
        assert_eq!(of(same).unwrap().cents, 23_099);
    }

    #[test]
    fn what_is_wrong_in_a_file_of_prices_has_its_line() {
        let said = |text: &str| match parse("p.toml", text) {
            Err(error) => error.to_string(),
            Ok(_) => String::from("nothing"),
        };
        let good = "[drives.hama]\ncents = 5\ndate = \"2008-06\"\nsource = \"[M] a guess\"\n";
        assert_eq!(said(good), "nothing");
        let cases = [
            (good.replace("cents = 5", "cents = 0"), "p.toml:2: `hama`: `cents` is 0"),
            (good.replace("2008-06", "June"), "p.toml:3: `hama`: `date`"),
            (good.replace("2008-06", "2008-13"), "p.toml:3: `hama`: `date`"),
            (good.replace("[M] a", "a"), "p.toml:4: `hama`: `source`"),
            (good.replace("[M] a", "[Maybe a"), "p.toml:4: `hama`: `source`"),
            (good.replace("2008-06", "0000-12"), "p.toml:3: `hama`: `date`"),
            (good.replace("2008-06", "9999-12"), "p.toml:3: `hama`: `date`"),
            (
                good.replace("cents = 5", "cents = -5"),
                "p.toml:2: `cents` is -5, must be from 1 to 1000000000",
            ),
            (good.replace("cents = 5", "cents = 5.5"), "p.toml:2: "),
            (
                "[drives]\nhama = { cents = 0, date = \"2008\", source = \"[M] a\" }".to_owned(),
                "p.toml:2: `hama`: `cents` is 0",
            ),
            (good.replace("cents", "dollars"), "p.toml:2: unknown field"),
            (good.replace("date = \"2008-06\"\n", ""), "p.toml:1: missing field `date`"),
            ("[drives".to_owned(), "p.toml:1: "),
        ];
        for (text, expected) in cases {
            assert!(said(&text).starts_with(expected), "{} for {text}", said(&text));
        }
    }
}
