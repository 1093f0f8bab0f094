//! Results as Parquet, for what is too large to read: one row per latency percentile, and timelines.
//!
//! ```text
//!   results:   device pattern … run operation percentile latency_ns request_count … iops
//!   timelines: device pattern run second period_ns byte_count
//! ```
//!
//! 1. The same results give the same bytes.

use crate::ProbeError;
use crate::runner::{PatternResult, RunResult};
use nandu_base::LatencySummary;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

/// Values of one column, none of them null.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Texts, written as UTF-8.
    Text(Vec<String>),
    /// Counts and times.
    Integer(Vec<i64>),
    /// Rates and ratios.
    Float(Vec<f64>),
}

impl Column {
    const fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Float(values) => values.len(),
        }
    }
}

/// A count as Parquet stores it; past 2^63 it stays at the largest value.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// One latency percentile of one kind of request in one run.
struct Row<'a> {
    result: &'a PatternResult,
    run_index: usize,
    run: &'a RunResult,
    operation: &'static str,
    percentile: f64,
    latency_ns: u64,
}

fn rows_of(results: &[PatternResult]) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for result in results {
        for (run_index, run) in result.runs.iter().enumerate() {
            let kinds = [("read", &run.read), ("write", &run.write), ("flush", &run.flush)];
            for (operation, summary) in kinds.into_iter().filter(|(_, summary)| summary.count > 0) {
                for (percentile, latency_ns) in percentiles(summary) {
                    rows.push(Row { result, run_index, run, operation, percentile, latency_ns });
                }
            }
        }
    }
    rows
}

/// Writes every run of `results`, a row for each percentile of each kind of request.
///
/// # Errors
/// [`ProbeError::Output`] where `writer` fails.
pub fn write_results(
    writer: impl Write + Send,
    results: &[PatternResult],
) -> Result<(), ProbeError> {
    let rows = rows_of(results);
    let text = |value: &dyn Fn(&Row<'_>) -> String| Column::Text(rows.iter().map(value).collect());
    let count = |value: &dyn Fn(&Row<'_>) -> u64| {
        Column::Integer(rows.iter().map(|r| integer(value(r))).collect())
    };
    let float = |value: &dyn Fn(&Row<'_>) -> f64| Column::Float(rows.iter().map(value).collect());
    let columns = [
        ("device", text(&|row| row.result.device.clone())),
        ("pattern", text(&|row| row.result.pattern.name())),
        ("access", text(&|row| row.result.pattern.access.label().into())),
        ("read_percent", count(&|row| u64::from(row.result.pattern.read_percent))),
        ("request_bytes", count(&|row| row.result.pattern.request_bytes.0)),
        ("alignment_offset_bytes", count(&|row| row.result.pattern.alignment_offset_bytes.0)),
        ("queue_depth", count(&|row| u64::from(row.result.pattern.queue_depth))),
        ("run", count(&|row| row.run_index as u64)),
        ("operation", text(&|row| row.operation.into())),
        ("percentile", float(&|row| row.percentile)),
        ("latency_ns", count(&|row| row.latency_ns)),
        ("request_count", count(&|row| row.run.request_count)),
        ("byte_count", count(&|row| row.run.byte_count)),
        ("elapsed_ns", count(&|row| row.run.elapsed.0)),
        ("bytes_per_second", float(&|row| row.run.bytes_per_second)),
        ("iops", float(&|row| row.run.iops)),
    ];
    write_columns(writer, "results", &columns)
}

fn percentiles(summary: &LatencySummary) -> [(f64, u64); 6] {
    [
        (0.0, summary.min),
        (50.0, summary.p50),
        (95.0, summary.p95),
        (99.0, summary.p99),
        (99.9, summary.p999),
        (100.0, summary.max),
    ]
}

/// Writes the timelines of all runs of `results`.
///
/// # Errors
/// [`ProbeError::Output`] where `writer` fails.
pub fn write_timelines(
    writer: impl Write + Send,
    results: &[PatternResult],
) -> Result<(), ProbeError> {
    let mut rows = Vec::new();
    for result in results {
        for (index, run) in result.runs.iter().enumerate() {
            rows.extend(run.timeline.iter().map(|point| (result, index, run, point)));
        }
    }
    let columns = [
        ("device", Column::Text(rows.iter().map(|row| row.0.device.clone()).collect())),
        ("pattern", Column::Text(rows.iter().map(|row| row.0.pattern.name()).collect())),
        ("run", Column::Integer(rows.iter().map(|row| integer(row.1 as u64)).collect())),
        ("second", Column::Float(rows.iter().map(|row| row.3.second).collect())),
        (
            "period_ns",
            Column::Integer(rows.iter().map(|row| integer(row.2.timeline_period.0)).collect()),
        ),
        ("byte_count", Column::Integer(rows.iter().map(|row| integer(row.3.byte_count)).collect())),
    ];
    write_columns(writer, "timelines", &columns)
}

/// Writes any table: columns of equal length under names that are identifiers.
///
/// # Errors
/// [`ProbeError::Output`] where `writer` fails, naming the table.
///
/// # Panics
/// If the columns differ in length.
pub fn write_columns(
    writer: impl Write + Send,
    table: &str,
    columns: &[(&str, Column)],
) -> Result<(), ProbeError> {
    let row_count = columns.first().map_or(0, |(_, column)| column.len());
    assert!(
        columns.iter().all(|(_, column)| column.len() == row_count),
        "columns have equal length"
    );
    try_write(writer, table, columns).map_err(|error| ProbeError::Output {
        what: format!("table `{table}` as Parquet"),
        message: error.to_string(),
    })
}

fn try_write(
    writer: impl Write + Send,
    table: &str,
    columns: &[(&str, Column)],
) -> Result<(), ParquetError> {
    let mut schema = format!("message {table} {{\n");
    for (name, column) in columns {
        let kind = match column {
            Column::Text(_) => format!("BYTE_ARRAY {name} (UTF8)"),
            Column::Integer(_) => format!("INT64 {name}"),
            Column::Float(_) => format!("DOUBLE {name}"),
        };
        writeln!(schema, "  REQUIRED {kind};").expect("writing to a string cannot fail");
    }
    schema.push('}');
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("nandu".into())
        .build();
    let schema = Arc::new(parse_message_type(&schema)?);
    let mut file = SerializedFileWriter::new(writer, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, column) in columns {
        write_column(&mut group, column)?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
) -> Result<(), ParquetError> {
    let mut writer = group.next_column()?.expect("the schema was made from the columns");
    match column {
        Column::Text(values) => {
            let values: Vec<ByteArray> =
                values.iter().map(|text| ByteArray::from(text.as_str())).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Column::Integer(values) => {
            writer.typed::<Int64Type>().write_batch(values, None, None)?;
        }
        Column::Float(values) => {
            writer.typed::<DoubleType>().write_batch(values, None, None)?;
        }
    }
    writer.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Access, Limit, Pattern};
    use crate::runner::{Silent, run_pattern};
    use nandu_base::Nanos;
    use nandu_device::{MemoryConfig, MemoryDevice};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    fn results() -> Vec<PatternResult> {
        let mut device = MemoryDevice::new(MemoryConfig::default());
        let pattern = Pattern {
            repetitions: 2,
            queue_depth: 4,
            timeline_period_ns: Nanos::from_micros(100),
            flush_every: 10,
            ..Pattern::new(Access::Random, 50, 4096, Limit::requests(300))
        };
        vec![run_pattern(&mut device, &pattern, &mut Silent).unwrap()]
    }

    fn read_back(bytes: Vec<u8>) -> Vec<parquet::record::Row> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn results_are_read_back_as_they_were() {
        let results = results();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        write_results(&mut first, &results).unwrap();
        write_results(&mut second, &results).unwrap();
        assert_eq!(first, second, "invariant 1");
        let rows = read_back(first);
        // Two runs, three kinds of request, six percentiles.
        assert_eq!(rows.len(), 2 * 3 * 6);
        let row = &rows[1];
        let run = &results[0].runs[0];
        assert_eq!(row.get_string(0).unwrap(), "memory");
        assert_eq!(row.get_string(2).unwrap(), "random");
        assert_eq!(row.get_long(4).unwrap(), 4096);
        assert_eq!(row.get_string(8).unwrap(), "read");
        assert!((row.get_double(9).unwrap() - 50.0).abs() < 1e-12);
        assert_eq!(row.get_long(10).unwrap(), integer(run.read.p50));
        assert_eq!(row.get_long(11).unwrap(), 300);
        assert_eq!(row.get_double(15).unwrap().to_bits(), run.iops.to_bits());
    }

    #[test]
    fn timelines_are_read_back_as_they_were() {
        let results = results();
        let mut bytes = Vec::new();
        write_timelines(&mut bytes, &results).unwrap();
        let rows = read_back(bytes);
        assert_eq!(rows.len(), results[0].runs.iter().map(|run| run.timeline.len()).sum::<usize>());
        let sum: i64 = rows.iter().map(|row| row.get_long(5).unwrap()).sum();
        assert_eq!(sum, 2 * 300 * 4096);
    }

    #[test]
    fn no_results_make_an_empty_table_and_a_full_disk_an_error() {
        let mut bytes = Vec::new();
        write_results(&mut bytes, &[]).unwrap();
        assert!(read_back(bytes).is_empty());
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("no space is left"))
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let error = write_results(Full, &results()).unwrap_err().to_string();
        assert!(error.contains("results") && error.contains("no space is left"), "{error}");
    }
}
