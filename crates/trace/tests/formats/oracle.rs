//! libCacheSim's traces, which have objects in place of addresses.

use super::{Short, check, drain, error_of, read_bytes};
use nandu_device::Operation::Read;
use nandu_trace::{AddressMap, TraceFormat, TraceOptions, open_reader};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Cursor;

/// A trace of libCacheSim: time, object, size, next access.
const ACCESSES: [(u32, u64, u32, i64); 6] = [
    (33_898, 42_932_745, 512, -1),
    (33_898, u64::MAX, 6656, 4),
    (33_899, 6_160_447, 4096, i64::MAX),
    (33_899, u64::MAX, 6656, 900),
    (33_899, 7, 0, -1),
    (33_901, 8, 1, 2_000_000),
];

const READS: [Short; 5] = [
    (0, Read, 0, 512, 0),
    (0, Read, 4096, 6656, 0),
    (1_000_000_000, Read, 12_288, 4096, 0),
    (1_000_000_000, Read, 4096, 6656, 0),
    (3_000_000_000, Read, 16_384, 1, 0),
];

fn oracle_general() -> Vec<u8> {
    let record = |(time, id, size, next): (u32, u64, u32, i64)| {
        let (time, size) = (time.to_le_bytes(), size.to_le_bytes());
        [&time[..], &id.to_le_bytes(), &size, &next.to_le_bytes()].concat()
    };
    ACCESSES.into_iter().flat_map(record).collect()
}

#[test]
fn records_of_lib_cache_sim_are_reads_of_objects() {
    let trace = oracle_general();
    let any = TraceOptions::default();
    let format = Some(TraceFormat::OracleGeneral);
    let named = TraceOptions { format, ..TraceOptions::default() };
    for options in [&any, &named] {
        assert_eq!(read_bytes(&trace, options), READS);
        for length in 48..trace.len() {
            let (requests, outcome, _) = drain(&trace[..length], options);
            let whole = length / 24;
            assert_eq!(requests.len(), whole - usize::from(whole == 5), "{length}");
            let expected = format!(
                "t:{}: the record ends early, after {} of 24 bytes; the file was cut, fetch it again",
                whole + 1,
                length % 24
            );
            match length % 24 {
                0 => outcome.unwrap(),
                _ => assert_eq!(outcome.unwrap_err().to_string(), expected),
            }
        }
    }
    let packed = compress_to_vec(&trace[..], CompressionLevel::Fastest);
    assert_eq!(read_bytes(&packed, &any), READS);
    let source = open_reader(Cursor::new(packed), "t", &any).unwrap();
    let description = "trace t: zstd, oracle-general, by its records: times rise, next accesses lie \
                       ahead; reads of objects by id, placed by first touch";
    assert_eq!(source.description(), description);
    // One record tells too little, unless its format is named.
    assert!(drain(&trace[..24], &any).1.is_err());
    assert_eq!(read_bytes(&trace[..24], &named), READS[..1]);
    let mut damaged = trace;
    damaged[24 * 2 + 22] = 1;
    let (requests, outcome, _) = drain(&damaged, &named);
    let error = outcome.unwrap_err().to_string();
    assert!(error.starts_with("t:3: next_access_vtime ") && error.contains("damaged"), "{error}");
    assert_eq!(requests.len(), 2);
    let (requests, _, statistics) = drain(&damaged, &TraceOptions { skip_bad: true, ..named });
    assert_eq!((requests.len(), statistics.skipped_count), (4, 1));
}

#[test]
fn text_is_no_binary_trace_though_it_is_said_to_be() {
    let format = Some(TraceFormat::OracleGeneral);
    let named = TraceOptions { format, ..TraceOptions::default() };
    let error = error_of("33898,42932745,512,-1\n33898,6656,4096,4\n", &named);
    assert!(error.starts_with("t:1: next_access_vtime"), "{error}");
    assert!(error.ends_with("or of another format"), "{error}");
}

#[test]
fn text_of_lib_cache_sim_is_reads_of_objects() {
    let description = "by its columns: next accesses are those of the same object; reads of objects \
                       by id, placed by first touch";
    for (separator, head) in [
        (",", ""),
        (",", "# time,object,size,next_access_vtime\n"),
        (" ", "time obj_id size next_access_vtime\n"),
        ("\t", ""),
        (", ", ""),
    ] {
        let line = |(time, id, size, next): (u32, u64, u32, i64)| {
            [time.to_string(), id.to_string(), size.to_string(), next.to_string()].join(separator)
        };
        let text = format!("{head}{}\n", ACCESSES.map(line).join("\n"));
        check(TraceFormat::OracleText, description, &text, &READS);
    }
    let unknown = "# time,object,size\n33898,5,512\n33899,6,512\n";
    let expected = [(0, Read, 0, 512, 0), (1_000_000_000, Read, 4096, 512, 0)];
    check(TraceFormat::OracleText, description, unknown, &expected);
}

#[test]
fn objects_that_do_not_fit_are_refused_and_ids_may_be_sectors() {
    let trace = oracle_general();
    let map = |address_map, capacity_bytes| {
        let capacity_bytes = Some(capacity_bytes);
        TraceOptions { address_map, capacity_bytes, ..TraceOptions::default() }
    };
    assert_eq!(read_bytes(&trace, &map(AddressMap::compact(), 1 << 20)), READS);
    let (requests, outcome, _) = drain(&trace, &map(AddressMap::Strict, 16_384));
    assert_eq!(requests.len(), 4);
    let error = outcome.unwrap_err().to_string();
    assert!(error.starts_with("t:6: the objects take more than the drive's 16384"), "{error}");
    let sectors = read_bytes(&trace, &map(AddressMap::Modulo, 1 << 40));
    assert_eq!(sectors[0], (0, Read, 42_932_745 * 512, 512, 0));
    assert_eq!(sectors[2], (0, Read, 0, 6144, 0), "the rest of one at the end of the drive");
}
