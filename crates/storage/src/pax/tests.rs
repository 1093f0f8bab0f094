//! Tables in PAX pages against the rows that they were made of, and bytes that nobody wrote.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of a few rows fit anywhere"
)]

use super::*;
use crate::access::MemoryPages;
use crate::sqlite::{RecordView, Value};
use proptest::prelude::*;

const FILE: FileId = FileId(4);

fn types() -> Vec<ColumnType> {
    vec![ColumnType::Integer, ColumnType::Real, ColumnType::Text, ColumnType::Blob]
}

fn no_operations(_: &mut [u8], _: &crate::PageOperation<'_>) -> Result<(), StorageError> {
    unreachable!("tables in PAX pages have no operations of their own")
}

fn written(page_bytes: u32, span_pages: u32, rows: &[Vec<Value>]) -> MemoryPages {
    let mut pages = MemoryPages::new(page_bytes, no_operations);
    let mut writer = PaxWriter::create(&mut pages, FILE, &types(), span_pages).unwrap();
    for (index, row) in rows.iter().enumerate() {
        let row = row.iter().map(Value::as_ref);
        assert_eq!(writer.push(&mut pages, row).unwrap(), index as i64 + 1);
    }
    writer.finish(&mut pages).unwrap();
    pages
}

fn all_rows(pages: &MemoryPages) -> Result<Vec<Vec<Value>>, StorageError> {
    let table = PaxTable::open(pages, FILE, None, types())?;
    let mut rows = Vec::new();
    for pax_page in 0..table.pax_pages().len() {
        table.look_at(pages, pax_page, |number, record| {
            rows.push(RecordView::new(record).unwrap().columns().map(ValueRef::to_value).collect());
            assert_eq!(number, rows.len() as i64);
            true
        })?;
    }
    assert_eq!(rows.len() as u64, table.row_count());
    Ok(rows)
}

fn row() -> impl Strategy<Value = Vec<Value>> {
    let null = || Just(Value::Null);
    let integer = prop_oneof![
        null(),
        any::<i8>().prop_map(|number| Value::Integer(number.into())),
        any::<i64>().prop_map(Value::Integer)
    ];
    let real = prop_oneof![null(), (-1e9..1e9_f64).prop_map(Value::Real)];
    let text = prop_oneof![null(), "[a-zäß]{0,40}".prop_map(Value::Text)];
    let long = proptest::collection::vec(any::<u8>(), 0..2000);
    let short = proptest::collection::vec(any::<u8>(), 0..8);
    let blob =
        prop_oneof![1 => null(), 5 => short.prop_map(Value::Blob), 1 => long.prop_map(Value::Blob)];
    (integer, real, text, blob).prop_map(|(a, b, c, d)| vec![a, b, c, d])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_come_back_as_they_were(
        rows in proptest::collection::vec(row(), 0..120),
        page_shift in 9_u32..13,
        span_pages in 1_u32..20,
    ) {
        let pages = written(1 << page_shift, span_pages, &rows);
        prop_assert_eq!(&all_rows(&pages).unwrap(), &rows);
        let table = PaxTable::open(&pages, FILE, None, types()).unwrap();
        prop_assert_eq!(pages.pages().count() as u32, table.page_count());
        for (index, page) in table.pax_pages().iter().enumerate() {
            let span: u32 = (0..4).map(|column| table.minipage(index, column).page_count).sum();
            prop_assert!(span <= span_pages || page.row_count == 1, "invariant 2");
        }
        for number in 1..=rows.len() as i64 {
            let (pax_page, place) = table.place_of(number).unwrap();
            let PaxPage { first_row, .. } = table.pax_pages()[pax_page];
            prop_assert_eq!(first_row as i64 + place as i64 + 1, number);
            for near in 0..table.pax_pages().len() {
                prop_assert_eq!(table.place_near(number, near), Some((pax_page, place)));
            }
        }
        let outside = [0, -1, rows.len() as i64 + 1, i64::MAX, i64::MIN];
        prop_assert!(outside.iter().all(|&number| table.place_of(number).is_none()));
        prop_assert!(outside.iter().all(|&number| table.place_near(number, 0).is_none()));
    }

    #[test]
    fn flipped_bytes_give_rows_or_an_error(
        flips in proptest::collection::vec((0_usize..40, 0_usize..496, any::<u8>()), 1..4),
    ) {
        let rows: Vec<Vec<Value>> = (0..60).map(numbered).collect();
        let mut pages = written(512, 6, &rows);
        let count = pages.pages().count();
        for (page, at, bits) in flips {
            let address = PageAddress::new(FILE, (page % count) as u32 + 1);
            let mut bytes = pages.read(address, <[u8]>::to_vec).unwrap();
            bytes[at] ^= bits;
            let code = crate::PageOperation::BYTES;
            let operation =
                crate::PageOperation { code, operand: 0, first: &bytes, second: &[] };
            crate::ChangePages::change(&mut pages, address, operation).unwrap();
        }
        let _ = all_rows(&pages);
    }
}

#[test]
fn whichever_page_is_zeros_the_rows_are_not_shown() {
    let rows: Vec<Vec<Value>> = (0..60).map(numbered).collect();
    let page_count = written(512, 6, &rows).pages().count();
    assert!(page_count > 10, "{page_count}");
    for page in 1..=page_count as u32 {
        let mut pages = written(512, 6, &rows);
        let address = PageAddress::new(FILE, page);
        let zeros = vec![0; pages.read(address, <[u8]>::len).unwrap()];
        let code = crate::PageOperation::BYTES;
        let operation = crate::PageOperation { code, operand: 0, first: &zeros, second: &[] };
        crate::ChangePages::change(&mut pages, address, operation).unwrap();
        let told = all_rows(&pages).expect_err("a page is lost");
        assert!(matches!(told, StorageError::Corrupt { .. }), "page {page}: {told}");
    }
}

/// A row that says its number in every column.
fn numbered(number: i64) -> Vec<Value> {
    vec![
        Value::Integer(number),
        Value::Real(number as f64 / 2.0),
        Value::Text(format!("row {number}")),
        Value::Blob(vec![number as u8; 30]),
    ]
}

#[test]
fn few_columns_lie_on_few_pages() {
    let rows: Vec<Vec<Value>> = (0..5000).map(numbered).collect();
    let pages = written(4096, 32, &rows);
    let table = PaxTable::open(&pages, FILE, None, types()).unwrap();
    let pages_of = |column: usize| -> u32 {
        (0..table.pax_pages().len()).map(|at| table.minipage(at, column).page_count).sum()
    };
    assert!(pages_of(0) * 10 < table.page_count(), "integers of two bytes beside 60 others");
    assert_eq!(table.value_bytes(1), 5000 * 9);
}

#[test]
fn nulls_take_no_bytes() {
    let rows = vec![vec![Value::Null; 4]; 200_000];
    let pages = written(512, 4, &rows);
    assert_eq!(pages.pages().count(), 2, "header and directory");
    assert_eq!(all_rows(&pages).unwrap(), rows);
}

#[test]
fn what_is_no_such_table_is_an_error() {
    let pages = written(512, 4, &(0..9).map(numbered).collect::<Vec<_>>());
    let open = |count, types| PaxTable::open(&pages, FILE, count, types).map(|_| ()).unwrap_err();
    let told = open(None, vec![ColumnType::Integer]).to_string();
    assert!(told.contains("it has 4 columns, the catalogue 1"), "{told}");
    let told = open(Some(3), types()).to_string();
    assert!(told.contains("cut off behind page 3"), "{told}");
    let empty = MemoryPages::new(512, no_operations);
    let told = PaxTable::open(&empty, FILE, None, types()).unwrap_err().to_string();
    assert!(told.contains("no table in PAX pages"), "{told}");
    // A header that says more than any file has, and a directory that says more than its minipages hold.
    let rows: Vec<Vec<Value>> = (0..9).map(numbered).collect();
    for (page, at, byte, wanted) in
        [(1, 20, 0xFF, "contradicts itself"), (6, 0, 0x7F, "longer than its minipages")]
    {
        let mut pages = written(512, 4, &rows);
        let address = PageAddress::new(FILE, page);
        let first = [byte];
        let code = crate::PageOperation::BYTES;
        let operation = crate::PageOperation { code, operand: at, first: &first, second: &[] };
        crate::ChangePages::change(&mut pages, address, operation).unwrap();
        let told = PaxTable::open(&pages, FILE, None, types()).unwrap_err().to_string();
        assert!(told.contains(wanted), "{told}");
    }
    let mut pages = MemoryPages::new(512, no_operations);
    assert!(PaxWriter::create(&mut pages, FILE, &types(), 0).is_err());
}
