//! Files that the crate `parquet` itself wrote.

use super::*;
use nandu_storage::sqlite::Value;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "message rows {
    REQUIRED INT64 id;
    OPTIONAL BYTE_ARRAY name (UTF8);
    OPTIONAL DOUBLE price;
    REQUIRED INT32 day (DATE);
    REQUIRED INT32 cents (DECIMAL(9, 2));
    REQUIRED BOOLEAN paid;
    OPTIONAL BYTE_ARRAY data;
    REQUIRED INT64 big (UINT_64);
}";

fn write(path: &Path, compression: parquet::basic::Compression, big: i64) {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    macro_rules! column {
        ($kind:ty, $values:expr, $levels:expr) => {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$kind>().write_batch(&$values, $levels, None).unwrap();
            column.close().unwrap();
        };
    }
    let levels: Option<&[i16]> = Some(&[1, 0]);
    column!(Int64Type, [7, -8], None);
    column!(ByteArrayType, [ByteArray::from("Zoë")], levels);
    column!(DoubleType, [2.5], levels);
    column!(Int32Type, [0, 20_000], None);
    column!(Int32Type, [1234, -5], None);
    column!(BoolType, [true, false], None);
    column!(ByteArrayType, [ByteArray::from(vec![0_u8, 255])], levels);
    column!(Int64Type, [1, big], None);
    group.close().unwrap();
    writer.close().unwrap();
}

fn all(source: &mut ParquetRows) -> Result<Vec<Vec<Value>>, LoadError> {
    let mut rows = Vec::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        rows.push(row.iter().map(|value| value.to_value()).collect());
        Ok(())
    };
    while source.next_rows(&mut keep)? {}
    Ok(rows)
}

#[test]
fn values_of_all_kinds_and_nulls_arrive() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows.parquet");
    use parquet::basic::Compression as C;
    for compression in [C::UNCOMPRESSED, C::SNAPPY] {
        write(&path, compression, 2);
        let mut source = ParquetRows::open(&path).unwrap();
        use ColumnType::{Blob, Integer, Real, Text};
        let types: Vec<ColumnType> =
            source.columns().iter().map(|column| column.column_type).collect();
        assert_eq!(types, [Integer, Text, Real, Text, Real, Integer, Blob, Integer]);
        let text = |value: &str| Value::Text(value.to_owned());
        let rows = all(&mut source).unwrap();
        let first = [
            Value::Integer(7),
            text("Zoë"),
            Value::Real(2.5),
            text("1970-01-01"),
            Value::Real(12.34),
            Value::Integer(1),
            Value::Blob(vec![0, 255]),
            Value::Integer(1),
        ];
        let second = [
            Value::Integer(-8),
            Value::Null,
            Value::Null,
            text("2024-10-04"),
            Value::Real(-0.05),
            Value::Integer(0),
            Value::Null,
            Value::Integer(2),
        ];
        assert_eq!(rows, [first, second]);
        assert_eq!(source.fraction(), 1.0);
    }
}

/// Files of 300 rows that pyarrow 26.0.1 and DuckDB 2.0.1 packed, with pages of versions 1 and 2, nulls and a
/// dictionary.
#[test]
fn files_that_others_packed_give_their_rows() {
    let text = |value: String| Value::Text(value);
    let expected: Vec<[Value; 4]> = (0..300_i32)
        .map(|row| {
            let name = if row % 5 == 1 { Value::Null } else { text(format!("name {}", row % 9)) };
            let price = if row % 7 == 3 { Value::Null } else { Value::Real(f64::from(row) / 8.0) };
            let note = format!("row {row} of 300, ").repeat(1 + usize::try_from(row % 3).unwrap());
            [Value::Integer(i64::from(row) * 7919), name, price, text(note)]
        })
        .collect();
    let mut count = 0;
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    for entry in std::fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            let rows = all(&mut ParquetRows::open(&path).unwrap());
            let rows = rows.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(rows, expected, "{}", path.display());
            count += 1;
        }
    }
    assert_eq!(count, 10);
}

#[test]
fn what_cannot_be_loaded_is_refused_with_its_place() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows.parquet");
    write(&path, parquet::basic::Compression::SNAPPY, -1);
    let said = all(&mut ParquetRows::open(&path).unwrap()).unwrap_err().to_string();
    assert!(said.contains("row 2, column big: 18446744073709551615 does not fit"), "{said}");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let said = ParquetRows::open(&path).unwrap_err().to_string();
    assert!(said.contains("is it a Parquet file, and whole?"), "{said}");
    let schema = "message m { REQUIRED GROUP g { REQUIRED INT32 x; } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut file = File::create(&path).unwrap();
    let writer = SerializedFileWriter::new(&mut file, schema, Arc::default()).unwrap();
    writer.close().unwrap();
    file.flush().unwrap();
    let said = ParquetRows::open(&path).unwrap_err().to_string();
    assert!(said.contains("column g: it is nested"), "{said}");
    let said = ParquetRows::open(&place.path().join("none")).unwrap_err().to_string();
    assert!(said.contains("cannot read"), "{said}");
}

#[test]
fn values_that_no_column_holds_are_refused_with_their_row() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows.parquet");
    let complaint_of = |column: &str, write: &dyn Fn(&mut SerializedColumnWriter<'_>)| {
        let schema = format!("message rows {{ REQUIRED {column}; }}");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let file = File::create(&path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        write(&mut column);
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let geometry = nandu_device::Geometry { sector_bytes: 512, sector_count: 32 << 11 };
        let config = nandu_device::MemoryConfig { geometry, ..Default::default() };
        let device = nandu_device::MemoryDevice::new(config);
        let data = nandu_storage::volume::DeviceVolume::format(Box::new(device)).unwrap();
        let volumes = nandu_storage::Volumes::new(Box::new(data), None);
        let settings = nandu_storage::Settings {
            pool_bytes: 1 << 20,
            log_bytes: 4 << 20,
            checkpoint_bytes: 256 << 10,
            ..nandu_storage::Settings::default()
        };
        let database = nandu_storage::Database::create(volumes, &settings, 1).unwrap();
        let source = ParquetRows::open(&path).unwrap();
        let table = nandu_storage::database::NewTable {
            name: "rows".to_owned(),
            columns: source.columns().to_vec(),
            kind: nandu_storage::database::TableKind::Heap,
            indexes: Vec::new(),
        };
        let options = nandu_storage::database::LoadOptions::default();
        let mut jobs = [crate::LoadJob { table, options, source: Box::new(source) }];
        crate::load_tables(&database, &mut jobs, &mut ()).unwrap_err().to_string()
    };
    let told = complaint_of("DOUBLE x", &|column| {
        column.typed::<DoubleType>().write_batch(&[1.0, f64::NAN], None, None).unwrap();
    });
    assert!(told.contains("rows.parquet, row 2: NaN, which is no value (store null),"), "{told}");
    let told = complaint_of("INT64 x (DECIMAL(18, 0))", &|column| {
        column.typed::<Int64Type>().write_batch(&[9_007_199_254_740_993], None, None).unwrap();
    });
    assert!(
        told.contains("row 1, column x: 9007199254740993 is an integer that no double"),
        "{told}"
    );
    // 12345678901234567.89 as bytes, the first one first.
    let wide = 1_234_567_890_123_456_789_i128.to_be_bytes();
    let told = complaint_of("FIXED_LEN_BYTE_ARRAY(16) x (DECIMAL(30, 2))", &|column| {
        let wide = FixedLenByteArray::from(wide.to_vec());
        column.typed::<FixedLenByteArrayType>().write_batch(&[wide], None, None).unwrap();
    });
    assert!(
        told.contains("row 1, column x: 12345678901234567.89 has more digits than a double keeps"),
        "{told}"
    );
    let told = complaint_of("INT64 x (TIMESTAMP_MICROS)", &|column| {
        column.typed::<Int64Type>().write_batch(&[0, i64::MAX], None, None).unwrap();
    });
    assert!(told.contains("row 2, column x: a date or time that no calendar has"), "{told}");
    let told = complaint_of("BYTE_ARRAY x (UTF8)", &|column| {
        let wild = [ByteArray::from(&b"B\xe4r"[..])];
        column.typed::<ByteArrayType>().write_batch(&wild, None, None).unwrap();
    });
    assert!(told.contains("rows.parquet: a text is not UTF-8; make it so"), "{told}");
}

#[test]
fn a_double_that_keeps_all_digits_of_a_decimal_stands_for_it() {
    for (shown, real) in [
        ("0.05", 0.05),
        ("-0.05", -0.05),
        ("12.", 12.0),
        ("9999999999999.99", 9_999_999_999_999.99),
        ("0.10000000000000000000", 0.1),
        ("0.00000000000000000000", 0.0),
        ("-123456789012345.75", -123_456_789_012_345.75),
        ("100000000000000000000.00", 1e20),
    ] {
        assert_eq!(real_of_decimal(shown), Some(real), "{shown}");
    }
    for shown in [
        "90071992547409.93",
        "-12345678901234567.89",
        "9007199254740993.",
        "0.12345678901234567891",
    ] {
        assert_eq!(real_of_decimal(shown), None, "{shown}");
    }
}

#[test]
fn dates_and_times_are_written_as_the_file_means_them() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows.parquet");
    let shown = |column: &str, value: i64| {
        let schema = format!("message rows {{ REQUIRED {column}; }}");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let file = File::create(&path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut written = group.next_column().unwrap().unwrap();
        if column.starts_with("INT32") {
            let value = i32::try_from(value).unwrap();
            written.typed::<Int32Type>().write_batch(&[value], None, None).unwrap();
        } else {
            written.typed::<Int64Type>().write_batch(&[value], None, None).unwrap();
        }
        written.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        match &all(&mut ParquetRows::open(&path).unwrap()).unwrap()[0][0] {
            Value::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    // 2024-10-04 12:30:00.
    let second = 1_728_045_000;
    let tests = [
        ("INT64 x (TIMESTAMP(MILLIS,false))", second * 1000 + 5, "2024-10-04 12:30:00.005"),
        ("INT64 x (TIMESTAMP(MILLIS,true))", second * 1000 + 5, "2024-10-04 12:30:00.005 +00:00"),
        ("INT64 x (TIMESTAMP(MICROS,false))", second * 1_000_000 + 5, "2024-10-04 12:30:00.000005"),
        (
            "INT64 x (TIMESTAMP(NANOS,false))",
            second * 1_000_000_000 + 7,
            "2024-10-04 12:30:00.000000007",
        ),
        ("INT64 x (TIMESTAMP(NANOS,true))", -1, "1969-12-31 23:59:59.999999999 +00:00"),
        ("INT64 x (TIMESTAMP_MILLIS)", 0, "1970-01-01 00:00:00.000 +00:00"),
        ("INT32 x (TIME(MILLIS,true))", 45_000_001, "12:30:00.001"),
        ("INT64 x (TIME(MICROS,false))", 45_000_000_001, "12:30:00.000001"),
        ("INT64 x (TIME(NANOS,false))", 45_000_000_000_001, "12:30:00.000000001"),
        ("INT32 x (DATE)", -1, "1969-12-31"),
    ];
    for (column, value, expected) in tests {
        assert_eq!(shown(column, value), expected, "{column}");
    }
}
