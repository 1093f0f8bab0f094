//! All tables against the CSV that `tpchgen` itself writes.

use super::*;
use nandu_storage::sqlite::Value;
use tpchgen::csv::{
    CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv,
};

const SCALE_FACTOR: f64 = 0.002;

fn pool() -> TextPool {
    TextPool::new(SHORT_POOL_BYTES, Distributions::static_default())
}

/// The fields of the table's CSV.
fn published(table: TpchTable, pool: &TextPool) -> Vec<Vec<String>> {
    let lists = Distributions::static_default();
    let mut text = String::new();
    macro_rules! write_all {
        ($generator:expr, $csv:ident) => {
            for row in $generator.iter() {
                text += &format!("{}\n", $csv::new(row));
            }
        };
    }
    macro_rules! sized {
        ($generator:ident) => {
            $generator::new_with_distributions_and_text_pool(SCALE_FACTOR, 1, 1, lists, pool)
        };
    }
    match table {
        TpchTable::Region => write_all!(
            RegionGenerator::new_with_distributions_and_text_pool(lists, pool),
            RegionCsv
        ),
        TpchTable::Nation => write_all!(
            NationGenerator::new_with_distributions_and_text_pool(lists, pool),
            NationCsv
        ),
        TpchTable::Part => write_all!(sized!(PartGenerator), PartCsv),
        TpchTable::Supplier => write_all!(sized!(SupplierGenerator), SupplierCsv),
        TpchTable::Customer => write_all!(sized!(CustomerGenerator), CustomerCsv),
        TpchTable::Orders => write_all!(sized!(OrderGenerator), OrderCsv),
        TpchTable::LineItem => write_all!(sized!(LineItemGenerator), LineItemCsv),
        TpchTable::PartSupp => {
            write_all!(PartSuppGenerator::new_with_text_pool(SCALE_FACTOR, 1, 1, pool), PartSuppCsv)
        }
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let fields = |row: csv::StringRecord| row.iter().map(str::to_owned).collect();
    reader.records().map(|row| fields(row.unwrap())).collect()
}

fn rows(table: TpchTable, order: KeyOrder, seed: u64) -> Vec<Vec<String>> {
    let mut source = TpchRows::new(table, SCALE_FACTOR, order, seed, TpchComments::Short).unwrap();
    let mut rows = Vec::new();
    let shown = |value: &ValueRef<'_>| match value.to_value() {
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:.2}"),
        Value::Text(text) => text,
        other => panic!("{other:?} is in no table of TPC-H"),
    };
    let mut keep = |row: &[ValueRef<'_>]| {
        rows.push(row.iter().map(shown).collect());
        Ok(())
    };
    while source.next_rows(&mut keep).unwrap() {}
    assert_eq!(source.fraction(), 1.0);
    rows
}

#[test]
fn every_table_has_the_rows_of_its_csv_in_both_orders() {
    let pool = pool();
    for table in TpchTable::ALL {
        let mut published = published(table, &pool);
        assert_eq!(rows(table, KeyOrder::Key, 1), published, "{table:?}");
        let random = rows(table, KeyOrder::Random, 1);
        assert_ne!(random, published, "{table:?}");
        assert_eq!(random, rows(table, KeyOrder::Random, 1), "{table:?}");
        assert_ne!(random, rows(table, KeyOrder::Random, 2), "{table:?}");
        let mut sorted = random;
        sorted.sort();
        published.sort();
        assert_eq!(sorted, published, "{table:?}");
        assert_eq!(table.columns().len(), published[0].len());
    }
}

#[test]
fn parts_of_many_units_leave_nothing_out() {
    let source =
        |order| TpchRows::new(TpchTable::Customer, 0.05, order, 1, TpchComments::Short).unwrap();
    for order in [KeyOrder::Key, KeyOrder::Random] {
        let mut source = source(order);
        let mut keys = Vec::new();
        let mut keep = |row: &[ValueRef<'_>]| {
            keys.push(row[0].to_value());
            Ok(())
        };
        while source.next_rows(&mut keep).unwrap() {}
        let mut keys: Vec<i64> = keys
            .into_iter()
            .map(|key| match key {
                Value::Integer(key) => key,
                other => panic!("{other:?}"),
            })
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, (1..=7500).collect::<Vec<i64>>());
    }
}

#[test]
fn scales_without_rows_are_refused_with_what_would_do() {
    let made = |scale_factor| {
        let order = KeyOrder::Random;
        TpchRows::new(TpchTable::Supplier, scale_factor, order, 1, TpchComments::Short)
    };
    assert!(made(1e-5).unwrap_err().to_string().contains("no rows; choose a larger one"));
    assert!(made(f64::NAN).is_err());
    assert!(made(1e6).unwrap_err().to_string().contains("reaches 1400"));
    assert!(made(1e-4).is_ok());
}
