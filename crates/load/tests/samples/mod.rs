//! Small files of CSV and Parquet that are what they seem, for tests to spoil and fuzzers to begin with.

use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

/// A name and the bytes of a file.
pub(crate) type Sample = (&'static str, Vec<u8>);

/// Of each type that a column may have.
const SCHEMA: &str = "message rows {
    REQUIRED INT64 id;
    OPTIONAL BYTE_ARRAY name (UTF8);
    OPTIONAL DOUBLE price;
    REQUIRED INT32 day (DATE);
    REQUIRED INT32 cents (DECIMAL(9, 2));
    REQUIRED BOOLEAN paid;
    OPTIONAL BYTE_ARRAY data;
    REQUIRED INT64 at (TIMESTAMP_MILLIS);
    REQUIRED INT64 since (TIMESTAMP_MICROS);
    REQUIRED INT32 daily (TIME_MILLIS);
    REQUIRED INT96 old;
    REQUIRED FLOAT small;
    REQUIRED FIXED_LEN_BYTE_ARRAY (5) sum (DECIMAL(10, 3));
}";

/// Files of CSV.
pub(crate) fn csv_files() -> Vec<Sample> {
    let mut many = "id,name,price,note\n".to_owned();
    for row in 0..200 {
        many += &format!("{row},\"name \"\"{row}\"\"\",{}.5,\"two\nlines, {row}\"\n", row * 3);
    }
    vec![("plain", b"a,b,c\n1,2.5,x\n-3,,\"y z\"\r\n4,1e3,\n".to_vec()), ("quoted", many.into())]
}

/// Files of Parquet: made in a directory and, of codecs that nothing here packs, kept.
pub(crate) fn parquet_files(directory: &Path) -> Vec<Sample> {
    let file = |name, compression, row_count| {
        let path = directory.join("made.parquet");
        write(&path, compression, row_count);
        (name, std::fs::read(&path).unwrap())
    };
    let kept = |name, bytes: &[u8]| (name, bytes.to_vec());
    vec![
        file("plain", Compression::UNCOMPRESSED, 3),
        file("snappy", Compression::SNAPPY, 300),
        kept("gzip", include_bytes!("pyarrow-gzip.parquet")),
        kept("brotli", include_bytes!("duckdb-brotli.parquet")),
        kept("lz4", include_bytes!("duckdb-lz4.parquet")),
        kept("zstd", include_bytes!("pyarrow-zstd-v2.parquet")),
    ]
}

fn write(path: &Path, compression: Compression, row_count: usize) {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    macro_rules! column {
        ($kind:ty, $levels:expr, $value:expr) => {
            let levels: Option<&[i16]> = $levels;
            let count =
                levels.map_or(row_count, |levels| levels.iter().filter(|it| **it > 0).count());
            let values: Vec<_> = (0..count).map($value).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$kind>().write_batch(&values, levels, None).unwrap();
            column.close().unwrap();
        };
    }
    let levels: Vec<i16> = (0..row_count).map(|row| i16::from(row % 5 != 1)).collect();
    let number = |row: usize| i64::try_from(row).unwrap();
    let small = |row: usize| i32::try_from(row).unwrap();
    column!(Int64Type, None, |row| number(row) * 7_919);
    column!(ByteArrayType, Some(&levels), |row| ByteArray::from(
        format!("name {}", row % 9).as_str()
    ));
    column!(DoubleType, Some(&levels), |row| f64::from(small(row)) / 8.0);
    column!(Int32Type, None, |row| 20_000 + small(row));
    column!(Int32Type, None, |row| small(row) * 33);
    column!(BoolType, None, |row| row % 2 == 0);
    column!(ByteArrayType, Some(&levels), |row| ByteArray::from(vec![7; row % 40]));
    column!(Int64Type, None, |row| 1_700_000_000_000 + number(row));
    column!(Int64Type, None, |row| 1_700_000_000_000_000 + number(row));
    column!(Int32Type, None, |row| small(row) * 1000);
    column!(Int96Type, None, |row| {
        let mut old = Int96::new();
        old.set_data(u32::try_from(row).unwrap(), 0, 2_460_000);
        old
    });
    column!(FloatType, None, |row| f32::from(u16::try_from(row).unwrap()) * 0.5);
    column!(FixedLenByteArrayType, None, |row| {
        FixedLenByteArray::from(vec![0, 0, 0, 1, u8::try_from(row % 256).unwrap()])
    });
    group.close().unwrap();
    writer.close().unwrap();
}
