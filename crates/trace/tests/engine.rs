//! The trace of an engine: what is written is read, what is damaged is noticed and named, and it is a
//! trace of blocks as any other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Nanos, fnv1a};
use nandu_device::Operation;
use nandu_trace::engine_trace::{
    EngineTraceHead, EngineTraceReader, EngineTraceWriter, PageEvent, PageRecord, TracedFile,
};
use nandu_trace::page_writes::LogSpace;
use nandu_trace::{
    PageWriteOptions, PageWriteStatistics, TraceError, TraceOptions, TraceRequest, open_reader,
    page_writes,
};
use proptest::prelude::*;
use std::io::Cursor;

const PAGE_BYTES: u32 = 512;

fn head(keeps_bytes: bool) -> EngineTraceHead {
    let file =
        |number, name: &str, page_count| TracedFile { number, name: name.into(), page_count };
    let files = vec![file(2, "stock", 3), file(7, "order", 0)];
    EngineTraceHead { page_bytes: PAGE_BYTES, keeps_bytes, files }
}

fn written(head: EngineTraceHead, records: &[PageRecord]) -> Vec<u8> {
    let mut writer = EngineTraceWriter::new(Vec::new(), "t", head).unwrap();
    for record in records {
        writer.push(record).unwrap();
        writer.audit();
    }
    assert_eq!(writer.record_count(), records.len() as u64);
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> (Vec<PageRecord>, Result<EngineTraceHead, TraceError>) {
    let mut records = Vec::new();
    let mut reader = match EngineTraceReader::new(Cursor::new(bytes.to_vec()), "t") {
        Ok(reader) => reader,
        Err(error) => return (records, Err(error)),
    };
    loop {
        reader.audit();
        match reader.next_record() {
            Ok(Some(record)) => records.push(record.clone()),
            Ok(None) => return (records, Ok(reader.head().clone())),
            Err(error) => return (records, Err(error)),
        }
    }
}

fn write_of(file: u16, page: u32, ranges: &[(u32, u32)]) -> PageRecord {
    let ranges: Vec<_> = ranges.iter().map(|&(start, end)| start..end).collect();
    PageRecord { event: PageEvent::Write, file, page, ranges, ..PageRecord::default() }
}

fn few() -> Vec<PageRecord> {
    vec![
        PageRecord { at: Nanos(5), file: 2, page: 3, ..PageRecord::default() },
        PageRecord { at: Nanos(900), ..write_of(2, 1, &[(0, 2), (496, 512)]) },
        PageRecord { at: Nanos(900), is_same_call: true, ..write_of(2, 2, &[]) },
        PageRecord { at: Nanos(900), is_fresh: true, ..write_of(7, 300, &[(1, 512)]) },
        PageRecord { at: Nanos(950), event: PageEvent::Sync, ..PageRecord::default() },
        PageRecord {
            at: Nanos(951),
            event: PageEvent::Cut,
            file: 7,
            page: 9,
            ..PageRecord::default()
        },
    ]
}

fn any_record() -> impl Strategy<Value = PageRecord> {
    let ranges = proptest::collection::vec((1_u32..60, 1_u32..60), 0..12);
    let place = (any::<u16>(), prop_oneof![1_u32..5, 1..=u32::MAX]);
    (0_u64..1 << 40, 0_u8..4, place, any::<(bool, bool, u8)>(), ranges).prop_map(
        |(at, event, (file, page), (is_fresh, is_same_call, fill), gaps)| {
            let mut record = PageRecord { at: Nanos(at), file, page, ..PageRecord::default() };
            match event {
                0 => {}
                1 => record.event = PageEvent::Cut,
                2 => {
                    return PageRecord {
                        event: PageEvent::Sync,
                        at: Nanos(at),
                        ..PageRecord::default()
                    };
                }
                _ => {
                    record.event = PageEvent::Write;
                    (record.is_fresh, record.is_same_call) = (is_fresh, is_same_call);
                    let mut end = 0;
                    for (gap, length) in gaps {
                        let start = end + gap - u32::from(end == 0);
                        end = (start + length).min(PAGE_BYTES);
                        if start < end {
                            record.ranges.push(start..end);
                        }
                    }
                    let count = usize::try_from(record.changed_bytes()).unwrap();
                    record.bytes =
                        (0_u8..=255).cycle().skip(usize::from(fill)).take(count).collect();
                }
            }
            record
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        mut records in proptest::collection::vec(any_record(), 0..300),
        keeps_bytes: bool,
    ) {
        records.sort_by_key(|record| record.at);
        if !keeps_bytes {
            records.iter_mut().for_each(|record| record.bytes.clear());
        }
        let (found, outcome) = read(&written(head(keeps_bytes), &records));
        prop_assert_eq!(outcome, Ok(head(keeps_bytes)));
        prop_assert_eq!(found, records);
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8),
        keeps_sums: bool,
        skip_bad: bool,
    ) {
        let mut bytes = written(head(false), &few());
        for (position, byte) in changes {
            let length = bytes.len();
            bytes[position % length] = byte;
        }
        if keeps_sums {
            // So that what is behind the checksums is reached, too.
            seal(&mut bytes);
        }
        let _ = read(&bytes);
        let options = TraceOptions { skip_bad, ..TraceOptions::default() };
        if let Ok(mut source) = open_reader(Cursor::new(bytes), "t", &options) {
            let mut batch = vec![];
            while source.next_batch(&mut batch, 100).is_ok() && !batch.is_empty() {
                source.audit();
                batch.clear();
            }
        }
    }
}

/// Makes the checksums of the head and of the only chunk match, as far as both can be found.
fn seal(bytes: &mut [u8]) {
    let length = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(word.try_into().ok()?)).ok()
    };
    let put = |bytes: &mut [u8], place: usize, content: std::ops::Range<usize>| {
        let sum = fnv1a(bytes.get(content)?);
        bytes[place..place + 8].copy_from_slice(&sum.to_le_bytes());
        Some(())
    };
    let _ = length(bytes, 8).and_then(|head| {
        put(bytes, 12, 20..20 + head)?;
        let chunk = 20 + head;
        let payload = length(bytes, chunk)?;
        put(bytes, chunk + 8, chunk + 16..chunk + 16 + payload)
    });
}

/// Whoever changes the format changes its version.
#[test]
fn the_bytes_of_a_trace_stay_what_they_are() {
    let bytes = written(head(false), &few());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = concat!(
        "6e616e6475656731", // nandueg1
        "24000000",
        "HEADSUMHEADSUM__", // 36 bytes follow
        "00020000",
        "00000000",
        "02000000", // pages of 512, no bytes, two files
        "0200",
        "03000000",
        "05",
        "73746f636b", // 2: three pages, stock
        "0700",
        "00000000",
        "05",
        "6f72646572", // 7: none, order
        "1e000000",
        "06000000",
        "CHUNKSUMCHUNKSUM", // 30 bytes, six records
        "1c",
        "05",
        "02",
        "04", // at 5 ns a read: file 2, two pages on
        "15",
        "ff06",
        "05",
        "02",
        "00",
        "01",
        "ee03",
        "0f", // a write: three pages back, two ranges
        "41",
        "00", // of the same call, the next page
        "39",
        "07",
        "d204",
        "01",
        "01",
        "fe03", // a new page: file 7, 297 pages on
        "06",
        "32", // a sync
        "17",
        "01",
        "c704", // a cut: 292 pages back
        "00000000",
        "00000000",
        "0600000000000000", // the end: six records
    );
    let sum_at = [24, 24 + 16 + 72 + 16];
    let hex_of = |start: usize| &hex[start..start + 16];
    let expected = expected
        .replace("HEADSUMHEADSUM__", hex_of(sum_at[0]))
        .replace("CHUNKSUMCHUNKSUM", hex_of(sum_at[1]));
    assert_eq!(hex, expected);
    assert_eq!(hex_of(sum_at[0]), hex_sum(&bytes[20..56]));
    assert_eq!(read(&bytes), (few(), Ok(head(false))));
}

fn hex_sum(bytes: &[u8]) -> String {
    fnv1a(bytes).to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_cut_file_is_noticed_at_every_length() {
    let bytes = written(head(false), &few());
    for length in 0..bytes.len() {
        let error = read(&bytes[..length]).1.unwrap_err().to_string();
        assert!(error.starts_with("t: byte ") && error.contains("ends early"), "{length}: {error}");
    }
}

/// A trace with one chunk of this payload.
fn crafted(record_count: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = written(head(false), &[]);
    bytes.truncate(bytes.len() - 16);
    let length = u32::try_from(payload.len()).unwrap();
    bytes.extend([length.to_le_bytes(), record_count.to_le_bytes()].concat());
    bytes.extend(fnv1a(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn what_is_wrong_is_said_with_its_byte() {
    let start = 56 + 16;
    let good = written(head(false), &few());
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        (changed(0, b'x'), 0, "begins with other bytes"),
        (changed(7, b'9'), 7, "of a version that is not known"),
        (changed(8, 0xff), good.len(), "ends early"),
        (changed(11, 0xff), 8, "bytes is none"),
        (changed(25, 3), 20, "the checksum of the head"),
        (changed(start + 3, 9), start, "the checksum of the chunk"),
        (changed(56 + 3, 0x7f), 56, "the head of the chunk is damaged"),
        (changed(good.len() - 8, 9), good.len() - 16, "the end counts 9 records, found 6"),
        // Behind a sync of one byte a write of page 1: a range of 17 bytes from byte 496 on.
        (
            crafted(2, &[2, 1, 1, 0xf0, 3, 16]),
            start + 1,
            "a range ends at byte 513 of a page of 512",
        ),
        (crafted(1, &[1, 2, 0, 0, 0, 0]), start, "two ranges touch each other at byte 1"),
        (crafted(1, &[1, 0xff, 0xff, 3]), start, "no room for 65535 ranges"),
        (crafted(1, &[0x80]), start, "0x80 begins no record"),
        (crafted(1, &[0x20]), start, "0x20 begins no record"),
        (crafted(1, &[0x10, 1]), start, "a page has a number from 1"),
        (crafted(1, &[0x08, 0x80, 0x80, 4]), start, "file 65536 has no number"),
        (crafted(1, &[1, 1]), start, "a record ends behind its chunk"),
        (crafted(1, &[2, 2]), start, "the chunk has bytes behind its last record"),
    ];
    for (bytes, at_byte, what) in cases {
        let error = read(&bytes).1.unwrap_err();
        let TraceError::Byte { at_byte: found, message, .. } = &error else { panic!("{error}") };
        assert!(message.contains(what), "{what}: {error}");
        assert_eq!(*found, at_byte as u64, "{error}");
    }
}

#[test]
fn a_damaged_chunk_costs_its_own_records_only() {
    let records: Vec<PageRecord> = (1..60_000).map(|page| write_of(2, page, &[(0, 9)])).collect();
    let mut bytes = written(head(false), &records);
    let first = usize::try_from(u32::from_le_bytes(bytes[56..60].try_into().unwrap())).unwrap();
    let lost = u32::from_le_bytes(bytes[60..64].try_into().unwrap());
    bytes[56 + 16 + first / 2] ^= 1;
    let options = TraceOptions { skip_bad: true, ..TraceOptions::default() };
    let mut source = open_reader(Cursor::new(bytes), "t", &options).unwrap();
    let mut requests = Vec::new();
    source.next_batch(&mut requests, usize::MAX).unwrap();
    let statistics = source.statistics();
    assert_eq!(statistics.skipped_count, u64::from(lost));
    assert!(lost > 1000, "{lost}");
    assert_eq!(requests.len() as u64, 59_999 - u64::from(lost));
    let told = statistics.first_skipped.unwrap();
    assert_eq!(told, "t: byte 72: the checksum of the chunk does not match");
}

#[test]
fn it_is_a_trace_of_whole_pages_on_one_drive() {
    let bytes = written(head(false), &few());
    let mut source = open_reader(Cursor::new(bytes), "t", &TraceOptions::default()).unwrap();
    assert_eq!(source.description(), "trace t: engine, by its first bytes");
    let mut requests = Vec::new();
    source.next_batch(&mut requests, 100).unwrap();
    let request = |at, operation, place: u64, stream| TraceRequest {
        at: Nanos(at),
        operation,
        offset_bytes: place * 512,
        length_bytes: 512,
        stream,
    };
    let flush = TraceRequest { length_bytes: 0, ..request(945, Operation::Flush, 0, 0) };
    let expected = [
        request(0, Operation::Read, 2, 2),
        request(895, Operation::Write, 0, 2),
        request(895, Operation::Write, 1, 2),
        // Page 300 of a file of which nothing was known: the second extent of it, the first that is touched.
        request(895, Operation::Write, 3 + 43, 7),
        flush,
    ];
    assert_eq!(requests, expected);
}

#[test]
fn changes_laid_over_a_page_give_the_next_one() {
    let mut page = vec![7; 512];
    let mut write = write_of(2, 1, &[(0, 2), (510, 512)]);
    write.bytes = vec![1, 2, 3, 4];
    write.lay_over(&mut page);
    assert_eq!((&page[..3], &page[509..]), (&[1, 2, 7][..], &[7, 3, 4][..]));
    write.is_fresh = true;
    write.lay_over(&mut page);
    assert_eq!((&page[..3], &page[509..]), (&[1, 2, 0][..], &[0, 3, 4][..]));
}

/// Page writes in this order, each of page `n` of file 2.
fn statistics_of(pages: &[u32], options: &PageWriteOptions) -> PageWriteStatistics {
    let records: Vec<PageRecord> =
        pages.iter().map(|&page| write_of(2, page, &[(0, page)])).collect();
    let bytes = written(head(false), &records);
    let mut open = || EngineTraceReader::new(Cursor::new(bytes.clone()), "t");
    page_writes(&mut open, options, &mut |_| true).unwrap().unwrap()
}

/// The same by looking back through all writes, and over all writes of each page.
fn absorbed_plainly(pages: &[u32], warm_up_count: usize, log_pages: usize) -> (f64, f64) {
    let counted = warm_up_count..pages.len();
    let again = |&at: &usize| {
        let earlier = pages[..at].iter().rposition(|page| *page == pages[at]);
        earlier.is_some_and(|earlier| at - earlier <= log_pages)
    };
    let is_short = |&at: &usize| {
        let own: Vec<usize> = counted.clone().filter(|&other| pages[other] == pages[at]).collect();
        let span = own[own.len() - 1] - own[0];
        own.len() > 1 && span as f64 / (own.len() - 1) as f64 <= log_pages as f64
    };
    let all = counted.len() as f64;
    let by_interval = counted.clone().filter(again).count() as f64 / all;
    (by_interval, counted.clone().filter(is_short).count() as f64 / all)
}

proptest! {
    #[test]
    fn a_log_absorbs_what_looking_back_says(
        pages in proptest::collection::vec(prop_oneof![1_u32..4, 1_u32..60], 3..300),
    ) {
        let options = PageWriteOptions { warm_up_percent: 33, log_percents: vec![10, 30, 90] };
        let found = statistics_of(&pages, &options);
        prop_assert_eq!(found.database_page_count, u64::from(*pages.iter().max().unwrap()).max(3));
        let warm_up_count = pages.len() * 33 / 100;
        prop_assert_eq!(found.warm_up_write_count, warm_up_count as u64);
        for space in &found.absorbed {
            let log_pages = usize::try_from(space.log_pages).unwrap();
            prop_assert_eq!(space.log_pages, found.database_page_count * u64::from(space.percent) / 100);
            let expected = absorbed_plainly(&pages, warm_up_count, log_pages);
            prop_assert_eq!((space.by_interval_share, space.by_mean_interval_share), expected);
        }
        let intervals: u64 = found.intervals.iter().map(|one| one.hot_count + one.cold_count).sum();
        let counted = (pages.len() - warm_up_count) as u64;
        prop_assert_eq!(intervals + found.first_write_count, counted);
    }
}

#[test]
fn a_trace_is_summed_up_by_hand() {
    // Page 1 is hot; ten pages, of which 1 and 2 are written again.
    let pages = [1, 1, 2, 1, 3, 4, 1, 5, 6, 7, 8, 2, 9, 10, 1, 1];
    let options = PageWriteOptions { warm_up_percent: 0, log_percents: vec![20, 100] };
    let found = statistics_of(&pages, &options);
    assert_eq!(
        (found.write_count, found.written_page_count, found.first_write_count),
        (16, 10, 10)
    );
    // Of page 1 after 1, 2, 3, 8 and 1 writes, of page 2 after 9.
    let counts: Vec<_> = found
        .intervals
        .iter()
        .map(|one| (one.up_to_writes, one.hot_count, one.cold_count))
        .collect();
    assert_eq!(counts, [(1, 2, 0), (2, 1, 0), (4, 1, 0), (8, 1, 0), (16, 0, 1)]);
    let absorbed = |index: usize| {
        let space: LogSpace = found.absorbed[index];
        (space.log_pages, space.by_interval_share, space.by_mean_interval_share)
    };
    // The mean interval of page 1 is 3.
    assert_eq!(absorbed(0), (2, 3.0 / 16.0, 0.0));
    assert_eq!(absorbed(1), (10, 6.0 / 16.0, 8.0 / 16.0));
    assert_eq!((found.hottest[3].page_percent, found.hottest[3].write_share), (10, 6.0 / 16.0));
    // 1 → 2, 3 → 4, 5 → 6 → 7 → 8 and 9 → 10 follow each other.
    assert_eq!((found.sequential_write_count, found.write_call_count), (6, 16));
    let changed = &found.changed;
    assert_eq!((changed.p50_bytes, changed.p90_bytes, changed.max_bytes), (2, 9, 10));
    assert_eq!(changed.mean_bytes, 62.0 / 16.0);
    assert_eq!((found.files[0].page_count, found.files[1].write_count), (10, 0));
}
