//! What a collection of TPoX keeps to: references, bytes, sizes, the grammar.

use super::*;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, Volumes};
use nandu_xml::{Document, MappingKind, XmlError, check, export};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What the elements of the three collections may have in them, as the benchmark's schemas say.
const GRAMMAR: &str = include_str!("tpox.dtd");

fn text(tpox: &Tpox, collection: TpoxCollection) -> String {
    let mut text = String::new();
    tpox.text(collection).read_to_string(&mut text).unwrap();
    text
}

/// Says what a test leaves out.
#[allow(clippy::print_stderr, reason = "whoever runs tests should see that one was not run")]
fn skip(what: &str) {
    eprintln!("SKIPPED: {what}");
}

/// What stands between `before` and `after`, each time.
fn all_between<'t>(text: &'t str, before: &str, after: char) -> Vec<&'t str> {
    text.split(before).skip(1).map(|rest| rest.split(after).next().unwrap()).collect()
}

#[test]
fn documents_refer_to_accounts_and_securities_that_are_there_once() {
    let tpox = Tpox::new(1_000_000, 7).unwrap();
    let [custacc, order, security] = TpoxCollection::ALL.map(|collection| text(&tpox, collection));
    let unique = |values: Vec<&str>| {
        let (count, values) = (values.len(), values.into_iter().map(str::to_owned).collect());
        let values: BTreeSet<String> = values;
        assert_eq!(values.len(), count);
        values
    };
    let accounts = unique(all_between(&custacc, "<Account id=\"", '"'));
    let symbols = unique(all_between(&security, "<Symbol>", '<'));
    assert_eq!(unique(all_between(&custacc, "/custacc\" id=\"", '"')).len(), 95);
    assert_eq!(unique(all_between(&security, "/security\" id=\"", '"')).len(), symbols.len());
    assert_eq!(unique(all_between(&order, "<Order ID=\"", '"')).len(), 230);
    assert!(symbols.iter().all(|symbol| (1..=7).contains(&symbol.len())));
    let mut referred = BTreeSet::new();
    for account in all_between(&order, " Acct=\"", '"') {
        assert!(accounts.contains(account), "{account}");
        referred.insert(account);
    }
    // Not only the first account of each.
    assert!(referred.iter().any(|account| account.ends_with('2')));
    let held = all_between(&custacc, "<Symbol>", '<');
    for symbol in held.into_iter().chain(all_between(&order, " Sym=\"", '"')) {
        assert!(symbols.contains(symbol), "{symbol}");
    }
}

#[test]
fn a_position_names_its_security_as_the_security_does() {
    let tpox = Tpox::new(200_000, 1).unwrap();
    let (custacc, securities) =
        (text(&tpox, TpoxCollection::Custacc), text(&tpox, TpoxCollection::Security));
    let position = custacc.split("<Position>").nth(1).unwrap();
    let inside =
        |text: &str, name: &str| all_between(text, &format!("<{name}>"), '<')[0].to_owned();
    let (symbol, name, kind) =
        (inside(position, "Symbol"), inside(position, "Name"), inside(position, "Type"));
    let own = format!("<Symbol>{symbol}</Symbol><Name>{name}</Name>");
    let security = securities.split("<Security ").find(|text| text.contains(&own)).unwrap();
    assert_eq!(inside(security, "SecurityType"), kind);
}

#[test]
fn the_bytes_follow_from_size_and_seed_however_they_are_read() {
    let (one, other) = (Tpox::new(100_000, 1).unwrap(), Tpox::new(100_000, 2).unwrap());
    for collection in TpoxCollection::ALL {
        let whole = text(&one, collection);
        assert_eq!(whole, text(&one, collection));
        assert_ne!(whole, text(&other, collection));
        let (mut stream, mut bytes, mut piece) = (one.text(collection), Vec::new(), [0; 7]);
        while let count @ 1.. = stream.read(&mut piece).unwrap() {
            bytes.extend_from_slice(&piece[..count]);
        }
        assert_eq!(bytes, whole.as_bytes());
    }
    // A library or compiler that changes may not change what was published.
    let all = TpoxCollection::ALL.map(|collection| text(&one, collection)).concat();
    assert_eq!(nandu_base::fnv1a(all.as_bytes()), 13_732_929_322_718_621_771);
}

#[test]
fn collections_are_as_long_as_their_counts_say() {
    let tpox = Tpox::new(10_000_000, 1).unwrap();
    for (collection, count) in TpoxCollection::ALL.into_iter().zip([950, 2_300, 500]) {
        assert_eq!(tpox.count(collection), count);
        let (length, mut longest) = (text(&tpox, collection).len() as u64, 0);
        let expected = tpox.expected_bytes(collection);
        assert!(length.abs_diff(expected) * 50 <= expected, "{collection:?}: {length}");
        let mut stream = tpox.text(collection);
        while !stream.is_ended {
            stream.make();
            longest = longest.max(stream.piece.len());
        }
        assert!(longest <= 20 << 10, "{collection:?}: {longest}");
    }
}

#[test]
fn sizes_between_those_of_the_paper_are_in_proportion() {
    let counts = |bytes| {
        let tpox = Tpox::new(bytes, 1).unwrap();
        TpoxCollection::ALL.map(|collection| tpox.count(collection))
    };
    assert_eq!(counts(1_000_000), [95, 230, 50]);
    assert_eq!(counts(55_000_000), [5_075, 15_150, 2_900]);
    assert_eq!(counts(100_000_000), [9_200, 28_000, 5_300]);
    assert_eq!(counts(1_000_000_000), [117_000, 265_000, 20_833]);
    assert_eq!(counts(10_000_000_000), [1_180_000, 2_900_000, 208_330]);
    assert_eq!(counts(100_000_000_000), [11_800_000, 29_000_000, 2_083_300]);
    assert_eq!(counts(20_000), [1, 4, 1]);
    assert!(Tpox::new(19_999, 1).unwrap_err().to_string().contains("20KB"));
    assert!(Tpox::new(100_000_000_001, 1).unwrap_err().to_string().contains("100 GB"));
}

#[test]
fn documents_keep_to_the_grammar_of_the_benchmark() {
    let tpox = Tpox::new(2_000_000, 3).unwrap();
    let place = tempfile::tempdir().unwrap();
    let grammar = place.path().join("tpox.dtd");
    std::fs::write(&grammar, GRAMMAR).unwrap();
    for collection in TpoxCollection::ALL {
        let file = place.path().join(collection.name());
        std::fs::write(&file, text(&tpox, collection)).unwrap();
        let lint = Command::new("xmllint")
            .args(["--nonet", "--huge", "--noout", "--dtdvalid"])
            .args([&grammar, &file])
            .output();
        let Ok(lint) = lint else {
            skip("xmllint is not there (Debian: libxml2-utils): the grammar is not checked");
            return;
        };
        let said = String::from_utf8_lossy(&lint.stderr);
        assert!(lint.status.success(), "{}", said.chars().take(2_000).collect::<String>());
    }
}

/// A database in memory with room for some megabytes.
fn database() -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 32 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let (log_bytes, checkpoint_bytes) = (4 << 20, 1 << 20);
    let settings = Settings { log_bytes, checkpoint_bytes, ..Settings::default() };
    Database::create(Volumes::new(data, None), &settings, 1).unwrap()
}

/// A text in canonical form; `None` without the program that makes it.
fn canonical(place: &Path, text: &[u8]) -> Option<Vec<u8>> {
    let file = place.join("document.xml");
    std::fs::write(&file, text).unwrap();
    let Ok(answer) = Command::new("xmllint").args(["--nonet", "--c14n"]).arg(&file).output() else {
        skip("xmllint is not there (Debian: libxml2-utils): canonical XML is not compared");
        return None;
    };
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    Some(answer.stdout)
}

#[test]
fn stored_collections_come_out_as_their_texts_in_canonical_form() {
    let tpox = Tpox::new(100_000, 5).unwrap();
    let place = tempfile::tempdir().unwrap();
    for mapping in MappingKind::ALL {
        let database = database();
        let mut write = database.write().unwrap();
        let indexes = match mapping {
            MappingKind::Full => TpoxIndexes::Without,
            MappingKind::Prefix => TpoxIndexes::Keys,
            MappingKind::Elementless => TpoxIndexes::All,
        };
        let reports = tpox.store(&mut write, (mapping, indexes), &mut ()).unwrap();
        write.commit().unwrap();
        let read = database.read();
        for (collection, report) in TpoxCollection::ALL.into_iter().zip(reports) {
            let document = Document::open(&read, collection.name()).unwrap();
            let text = text(&tpox, collection);
            assert_eq!(report.plain_bytes, text.len() as u64);
            assert_eq!(document.mapping(), mapping);
            assert_eq!(document.indexes().cloned().collect::<Vec<_>>(), indexes.of(collection));
            let found = check(&read, &document).unwrap();
            assert!(found.findings.is_empty(), "{:?}", found.findings);
            assert_eq!(found.counts, report.counts);
            let mut exported = Vec::new();
            export(&read, &document, &mut exported).unwrap();
            let [one, other] = [text.as_bytes(), &exported].map(|it| canonical(place.path(), it));
            assert!(one == other, "{collection:?} in {mapping:?}");
        }
    }
}

#[test]
fn collections_are_stored_together_or_not_at_all() {
    struct Stop(u32);
    impl TpoxObserver for Stop {
        fn bytes_stored(&mut self, collection: TpoxCollection, byte_count: u64, fraction: f64) {
            assert!(byte_count > 0 && (0.0..=1.0).contains(&fraction), "{fraction}");
            self.0 += u32::from(collection == TpoxCollection::Order);
        }
        fn is_cancelled(&self) -> bool {
            self.0 > 0
        }
    }
    let (tpox, database) = (Tpox::new(100_000, 5).unwrap(), database());
    let store = |observer: &mut dyn TpoxObserver| {
        let mut write = database.write().unwrap();
        let stored = tpox.store(&mut write, (MappingKind::Prefix, TpoxIndexes::Keys), observer);
        if stored.is_ok() {
            write.commit().unwrap();
        }
        stored
    };
    assert!(matches!(store(&mut Stop(0)), Err(XmlError::Cancelled)));
    assert_eq!(database.read().definitions().unwrap().count(), 0);
    store(&mut ()).unwrap();
    let refused = store(&mut ()).unwrap_err().to_string();
    assert!(refused.contains("a document custacc already"), "{refused}");
}

#[test]
fn what_is_new_has_ids_of_its_own_and_refers_to_what_is_there() {
    let tpox = Tpox::new(100_000, 3).unwrap();
    let [custacc, order, security] = TpoxCollection::ALL.map(|collection| text(&tpox, collection));
    for number in [0, 1, 400] {
        let (account, new) = (tpox.new_account(number), tpox.new_order(number));
        let id = all_between(&account, "<Account id=\"", '"')[0];
        assert!(account.starts_with("<Account ") && account.ends_with("</Account>"));
        assert!(!custacc.contains(&format!("<Account id=\"{id}\"")), "{id}");
        for symbol in all_between(&account, "<Symbol>", '<') {
            assert!(security.contains(&format!("<Symbol>{symbol}</Symbol>")), "{symbol}");
        }
        let id = tpox.order_id(tpox.count(TpoxCollection::Order) + number);
        assert_eq!(all_between(&new, "<Order ID=\"", '"'), [id.to_string()]);
        assert!(!order.contains(&format!("<Order ID=\"{id}\"")), "{id}");
        let account = all_between(&new, " Acct=\"", '"')[0];
        assert!(custacc.contains(&format!("<Account id=\"{account}\"")), "{account}");
    }
    assert_ne!(tpox.new_account(0), tpox.new_account(1));
    // The last of each is where its number says.
    let last = tpox.customer_id(tpox.count(TpoxCollection::Custacc) - 1);
    assert!(custacc.contains(&format!("custacc\" id=\"{last}\"")));
    let last = tpox.symbol(tpox.count(TpoxCollection::Security) - 1);
    assert!(security.contains(&format!("<Symbol>{last}</Symbol>")), "{last}");
}

#[test]
fn days_are_counted_over_leap_years() {
    for (year, days, date) in [
        (1990, 0, "1990-01-01"),
        (2003, 165, "2003-06-15"),
        (2003, 364, "2003-12-31"),
        (2003, 365 + 59, "2004-02-29"),
        (2003, 365 + 365, "2004-12-31"),
        (2003, 365 + 366, "2005-01-01"),
    ] {
        assert_eq!(words::date(year, days), date);
    }
    assert_eq!([0, 25, 26, 701, 702].map(security::symbol), ["A", "Z", "AA", "ZZ", "AAA"]);
}
