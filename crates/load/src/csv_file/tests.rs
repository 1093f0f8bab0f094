//! CSV as people write it, and complaints that help.

use super::*;
use nandu_storage::sqlite::Value;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn open(text: &str, options: &CsvOptions) -> Result<CsvRows, LoadError> {
    let input: Box<dyn Read + Send> = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    CsvRows::open(input, "rows.csv", Some(text.len() as u64), options)
}

fn all(source: &mut CsvRows) -> Result<Vec<Vec<Value>>, LoadError> {
    let mut rows = Vec::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        rows.push(row.iter().map(|value| value.to_value()).collect());
        Ok(())
    };
    while source.next_rows(&mut keep)? {}
    Ok(rows)
}

fn complaint(text: &str, options: &CsvOptions) -> String {
    match open(text, options) {
        Err(error) => error.to_string(),
        Ok(mut source) => all(&mut source).unwrap_err().to_string(),
    }
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

#[test]
fn quotes_line_ends_and_nulls_come_as_they_were_meant() {
    let file = "id,price,name,code\r\n1,2,\"a \"\"b\"\", c\",007\r\n\r\n-3,,\"two\nlines\",08\r\n\
                ,0.5,Zoë,09";
    let mut source = open(file, &CsvOptions::default()).unwrap();
    let types: Vec<ColumnType> = source.columns().iter().map(|column| column.column_type).collect();
    use ColumnType::{Integer, Real, Text};
    assert_eq!(types, [Integer, Real, Text, Text]);
    let rows = all(&mut source).unwrap();
    assert_eq!(rows[0], [Value::Integer(1), Value::Real(2.0), text("a \"b\", c"), text("007")]);
    assert_eq!(rows[1], [Value::Integer(-3), Value::Null, text("two\nlines"), text("08")]);
    assert_eq!(rows[2], [Value::Null, Value::Real(0.5), text("Zoë"), text("09")]);
    assert_eq!(rows.len(), 3);
}

#[test]
fn delimiter_header_null_and_types_can_be_said() {
    let options = CsvOptions {
        delimiter: b'\t',
        has_header: false,
        null: "\\N".to_owned(),
        types: vec![("column_2".to_owned(), ColumnType::Blob)],
    };
    let mut source = open("1\t\n\\N\tab\n", &options).unwrap();
    let rows = all(&mut source).unwrap();
    assert_eq!(rows[0], [Value::Integer(1), Value::Blob(Vec::new())]);
    assert_eq!(rows[1], [Value::Null, Value::Blob(b"ab".to_vec())]);
}

#[test]
fn a_wrong_value_is_named_with_line_column_and_remedy() {
    let types = vec![("n".to_owned(), ColumnType::Integer)];
    let options = CsvOptions { types, ..CsvOptions::default() };
    let said = complaint("id,n\n1,2\n\"x\ny\",3\n1,seven\n", &options);
    assert!(said.starts_with("rows.csv:5, column n: `seven` is no integer of 64 bits"), "{said}");
    let said = complaint("id,n\n1,2\n1,2,3\n", &options);
    assert!(said.starts_with("rows.csv:3: 3 fields instead of 2; a field that holds"), "{said}");
    let said = complaint("id,m\n1,2\n", &options);
    assert_eq!(said, "rows.csv: it has no column n; its columns are id, m");
    let types = ["id", "ID"].map(|name| (name.to_owned(), ColumnType::Integer)).to_vec();
    let twice = CsvOptions { types, ..CsvOptions::default() };
    assert_eq!(complaint("id\n1\n", &twice), "rows.csv: the type of column ID is given twice");
    assert!(complaint("", &CsvOptions::default()).contains("it is empty"));
    assert!(complaint("a,,b\n", &CsvOptions::default()).contains("column 2 has no name"));
}

#[test]
fn what_a_sample_did_not_show_is_an_error_and_not_another_type() {
    let mut file = "n\n".to_owned();
    for number in 0..SAMPLE_ROW_COUNT {
        file += &format!("{number}\n");
    }
    file += "1.5\n";
    let said = complaint(&file, &CsvOptions::default());
    assert!(said.starts_with("rows.csv:10002, column n: `1.5` is no integer"), "{said}");
}

#[test]
fn bytes_that_are_no_text_are_refused_but_as_blobs() {
    let bytes = b"name\nB\xe4r\n".to_vec();
    let open = |types| {
        let input = Box::new(std::io::Cursor::new(bytes.clone()));
        CsvRows::open(input, "-", None, &CsvOptions { types, ..CsvOptions::default() })
    };
    let said = all(&mut open(vec![]).unwrap()).unwrap_err().to_string();
    assert!(said.contains("not UTF-8; convert the file"), "{said}");
    let types = vec![("name".to_owned(), ColumnType::Blob)];
    let rows = all(&mut open(types).unwrap()).unwrap();
    assert_eq!(rows, [[Value::Blob(b"B\xe4r".to_vec())]]);
}

#[test]
fn an_integer_that_no_double_is_makes_no_column_of_doubles() {
    let file = "a,b\n9007199254740993,9007199254740992\n0.5,0.5\n";
    let mut source = open(file, &CsvOptions::default()).unwrap();
    let rows = all(&mut source).unwrap();
    assert_eq!(rows[0], [text("9007199254740993"), Value::Real(9_007_199_254_740_992.0)]);
    let types = vec![("a".to_owned(), ColumnType::Real)];
    let said = complaint(file, &CsvOptions { types, ..CsvOptions::default() });
    assert!(said.contains("rows.csv:2, column a: `9007199254740993` is no number that"), "{said}");
}

/// A file without end, which says how much of it was read.
struct Endless(&'static [u8], Arc<AtomicU64>);

impl Read for Endless {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        if self.1.fetch_add(target.len() as u64, Ordering::Relaxed) == 0 {
            target[..self.0.len()].copy_from_slice(self.0);
            return Ok(self.0.len());
        }
        target.fill(*self.0.last().unwrap());
        Ok(target.len())
    }
}

#[test]
fn a_record_without_end_is_refused_after_a_bounded_part_of_it() {
    for (start, line) in [(&b"\0"[..], 1), (b"a,b\n1,\"x", 2), (b"a,b\n1,2\n,", 3)] {
        let read = Arc::default();
        let input = Box::new(Endless(start, Arc::clone(&read)));
        let opened = CsvRows::open(input, "rows.csv", None, &CsvOptions::default());
        let said = opened.unwrap_err().to_string();
        let place = format!("rows.csv:{line}: a record has more than 16 MiB; is a quote left open");
        assert!(said.starts_with(&place), "{said}");
        assert!(read.load(Ordering::Relaxed) < 2 * RECORD_BYTES_MAX);
    }
    let wide = format!("a,b\n{}\n", ",".repeat(FIELD_COUNT_MAX));
    let said = complaint(&wide, &CsvOptions::default());
    assert!(said.starts_with("rows.csv:2: a record has more than 32767 fields"), "{said}");
    // The record before it does not count, and the longest that may be is a row.
    let long = format!("a\n{}\n\"{}\"\n", "x".repeat(1 << 20), "y".repeat((16 << 20) - 3));
    assert_eq!(all(&mut open(&long, &CsvOptions::default()).unwrap()).unwrap().len(), 2);
}

proptest! {
    #[test]
    fn what_the_writer_of_the_crate_quotes_comes_back(
        rows in proptest::collection::vec(("[a-z,\"\n\r ]{1,9}", any::<i64>()), 1..50)
    ) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["t", "n"]).unwrap();
        for (text, number) in &rows {
            writer.write_record([text.as_str(), &number.to_string()]).unwrap();
        }
        let file = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let wanted: Vec<Vec<Value>> = rows
            .into_iter()
            .map(|(text, number)| vec![Value::Text(text), Value::Integer(number)])
            .collect();
        prop_assert_eq!(all(&mut open(&file, &CsvOptions::default()).unwrap()).unwrap(), wanted);
    }

    #[test]
    fn any_bytes_are_rows_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let input = Box::new(std::io::Cursor::new(bytes));
        if let Ok(mut source) = CsvRows::open(input, "-", None, &CsvOptions::default()) {
            let _ = all(&mut source);
        }
    }
}

#[test]
fn text_behind_a_closing_quote_is_an_error_with_the_line_of_its_record() {
    for end in ["\n", "\r\n", "\r"] {
        for (rows, line) in [
            ("\"x\"y,2@", 2),
            ("\"x\" ,2@", 2),
            ("1,\"x\"y", 2),
            ("1,2@1,2@\"a@b\",\"x\"y@", 4),
            ("1,2@@1,\"\"\"x\"\"\"y@1,\"open@", 4),
        ] {
            let file = format!("a,b@{rows}").replace('@', end);
            let said = complaint(&file, &CsvOptions::default());
            // A return alone is the end of a record, and of no line.
            let line = if end == "\r" { 1 } else { line };
            let start = format!("rows.csv:{line}: text follows the quote that closes a field");
            assert!(said.starts_with(&start), "{said} of {file:?}");
        }
    }
    let said = complaint("\"a\"b,c\n1,2\n", &CsvOptions::default());
    assert!(said.starts_with("rows.csv:1: text follows"), "{said}");
    let mut source = open("\u{feff}\"a\",b\n5\" disk,a\"b\"c\n", &CsvOptions::default()).unwrap();
    assert_eq!(source.columns()[0].name, "a");
    assert_eq!(all(&mut source).unwrap(), [[text("5\" disk"), text("a\"b\"c")]]);
}

#[test]
fn a_header_that_is_not_utf_8_is_refused() {
    let bytes: &[u8] = b"id,na\xefve\n1,2\n";
    let input = || Box::new(std::io::Cursor::new(bytes.to_vec()));
    let error = CsvRows::open(input(), "rows.csv", None, &CsvOptions::default()).unwrap_err();
    let said = "rows.csv:1: the name of column 2, `na\u{fffd}ve`, is not UTF-8; convert the file";
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_quote_that_nothing_closes_is_an_error_with_its_line() {
    let all_text = CsvOptions::default();
    for end in ["\n", "\r\n", ""] {
        for line in ["\n", "\r\n"] {
            let file = format!("id,name{line}1,a{line}2,\"b{line}3,c{line}4,d{end}");
            let said = complaint(&file, &all_text);
            assert!(said.starts_with("rows.csv:3: a quote is opened"), "{said} of {file:?}");
        }
    }
    let said = complaint("id,\"name\n1,a\n", &all_text);
    assert!(said.starts_with("rows.csv:1: a quote is opened"), "{said}");
    let odd = CsvOptions { delimiter: 1, ..CsvOptions::default() };
    let said = complaint("id\u{1}name\n1\u{1}\"a\n", &odd);
    assert!(said.starts_with("rows.csv:2: a quote is opened"), "{said}");
    assert_eq!(all(&mut open("id\u{1}name\n1\u{1}a", &odd).unwrap()).unwrap().len(), 1);
    // Bytes like the mark's are rows like others, also at the end.
    let like = "\u{1}".repeat(24);
    let rows = all(&mut open(&format!("name\n{like}\nb{like}\n{like}\n"), &all_text).unwrap());
    assert_eq!(rows.unwrap(), [[text(&like)], [text(&format!("b{like}"))], [text(&like)]]);
    // Quotes that are closed at the very end, and one that opens nothing.
    let closed = all(&mut open("name\n\"a\nb\"", &all_text).unwrap()).unwrap();
    assert_eq!(closed, [[text("a\nb")]]);
    let inside = all(&mut open("name,n\n5\" disk,1\n", &all_text).unwrap()).unwrap();
    assert_eq!(inside, [[text("5\" disk"), Value::Integer(1)]]);
}

proptest! {
    #[test]
    fn a_complaint_names_the_line_of_its_record(
        rows in proptest::collection::vec((0_usize..3, 0_usize..3), 1..20),
        is_crlf in any::<bool>(),
        is_ended in any::<bool>(),
    ) {
        let end = if is_crlf { "\r\n" } else { "\n" };
        let types = vec![("id".to_owned(), ColumnType::Integer)];
        let options = CsvOptions { types, ..CsvOptions::default() };
        let (mut file, mut line) = (format!("id,name{end}"), 2);
        for (empty_count, inner_count) in &rows {
            file += &end.repeat(*empty_count);
            line += empty_count;
            file += &format!("1,\"{}\"{end}", format!("x{end}").repeat(*inner_count));
            line += 1 + inner_count;
        }
        file += "wrong,\"two\nlines\"";
        file += if is_ended { end } else { "" };
        let said = complaint(&file, &options);
        prop_assert!(said.starts_with(&format!("rows.csv:{line}, column id")), "{said} of {file:?}");
    }
}

#[test]
fn what_the_reader_of_records_refuses_is_told_in_words() {
    let mut strict = ReaderBuilder::new().from_reader(&b"a,b\n1,2\n3\n"[..]);
    let error = strict.byte_records().find_map(Result::err).unwrap();
    let said = super::refused(error, "rows.csv", 3).to_string();
    assert!(said.starts_with("rows.csv:3: ") && said.contains("1 field"), "{said}");
    assert!(!said.contains("UnequalLengths") && !said.contains('{'), "{said}");
}
