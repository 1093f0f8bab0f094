//! Every format by a literal sample: recognised by its content and read to exact requests; what is
//! broken is named with its line, or counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kernel;
mod oracle;

use nandu_base::Nanos;
use nandu_device::Operation::{self, Flush, Read, Trim, Write};
use nandu_trace::{
    AddressMap, Pacing, SourceStatistics, SpeedUp, TraceError, TraceFormat, TraceOptions,
    TraceRequest, open_reader, open_trace,
};
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::Arc;

type Short = (u64, Operation, u64, u64, u8);

fn drain(
    text: &[u8],
    options: &TraceOptions,
) -> (Vec<TraceRequest>, Result<(), TraceError>, SourceStatistics) {
    let mut source = match open_reader(Cursor::new(text.to_vec()), "t", options) {
        Ok(source) => source,
        Err(error) => return (Vec::new(), Err(error), SourceStatistics::default()),
    };
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        source.audit();
        if let Err(error) = source.next_batch(&mut requests, 7) {
            let length = requests.len();
            source.next_batch(&mut requests, 7).unwrap();
            assert_eq!(requests.len(), length, "a source that failed gives no more");
            return (requests, Err(error), source.statistics());
        }
        if requests.len() == before {
            return (requests, Ok(()), source.statistics());
        }
    }
}

fn read(text: &str, options: &TraceOptions) -> Vec<Short> {
    read_bytes(text.as_bytes(), options)
}

fn read_bytes(bytes: &[u8], options: &TraceOptions) -> Vec<Short> {
    let (requests, outcome, statistics) = drain(bytes, options);
    outcome.unwrap();
    assert_eq!(statistics.request_count, requests.len() as u64);
    requests
        .iter()
        .map(|r| (r.at.0, r.operation, r.offset_bytes, r.length_bytes, r.stream))
        .collect()
}

fn error_of(text: &str, options: &TraceOptions) -> String {
    drain(text.as_bytes(), options).1.unwrap_err().to_string()
}

/// Asserts the requests, by content and with the format named, and how it was recognised.
fn check(format: TraceFormat, description: &str, text: &str, expected: &[Short]) {
    assert_eq!(read(text, &TraceOptions::default()), expected, "{format:?} by content");
    let named = TraceOptions { format: Some(format), ..TraceOptions::default() };
    assert_eq!(read(text, &named), expected, "{format:?} named");
    let source =
        open_reader(Cursor::new(text.as_bytes().to_vec()), "t", &TraceOptions::default()).unwrap();
    let found = source.description();
    assert!(found.starts_with(&format!("trace t: {}, {description}", format.label())), "{found}");
    // The same with the line ends of another system, and compressed.
    let returned = text.replace('\n', "\r\n");
    assert_eq!(read(&returned, &TraceOptions::default()), expected, "{format:?} with returns");
}

#[test]
fn fio_version_2_counts_waits() {
    let text = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb write 0 4096\n\
                /dev/sdb wait 1000\n/dev/sdb read 8192 512\n/dev/sdb wait 500\n/dev/sdb sync\n\
                /dev/sdb trim 4096 8192\n/dev/sdb datasync\n/dev/sdb close\n";
    check(
        TraceFormat::FioV2,
        "by its first line",
        text,
        &[
            (0, Write, 0, 4096, 0),
            (1_000_000, Read, 8192, 512, 0),
            (1_500_000, Flush, 0, 0, 0),
            (1_500_000, Trim, 4096, 8192, 0),
            (1_500_000, Flush, 0, 0, 0),
        ],
    );
    let options = TraceOptions::default();
    let source = |text: &str| open_reader(Cursor::new(text.to_string()), "t", &options).unwrap();
    assert_eq!(source(text).pacing(), Pacing::Open);
    assert!(read("fio version 2 iolog\nf add\nf close\n", &options).is_empty());
    let untimed = "fio version 2 iolog\nf write 0 512\nf write 512 512\n";
    assert_eq!(source(untimed).pacing(), Pacing::Closed { think_ns: Nanos::ZERO });
}

#[test]
fn fio_version_3_stamps_every_line_in_microseconds() {
    let text = "fio version 3 iolog\n2 nvme0n1 add\n872 nvme0n1 open\n878 nvme0n1 write 0 16384\n\
                888 nvme0n1 read 16384 4096\n891 nvme0n1 sync\n10001677 nvme0n1 close\n";
    check(
        TraceFormat::FioV3,
        "by its first line",
        text,
        &[(0, Write, 0, 16_384, 0), (10_000, Read, 16_384, 4096, 0), (13_000, Flush, 0, 0, 0)],
    );
}

#[test]
fn msr_counts_filetime_and_names_devices_by_host_and_disk() {
    let text = "128166372003061629,hm,0,Read,383496192,32768,413\n\
                128166372016382155,hm,0,Write,2822144,4096,553\n\
                128166372016382160,hm,1,Write,2822144,4096,553\n";
    check(
        TraceFormat::Msr,
        "by its columns",
        text,
        &[
            (0, Read, 383_496_192, 32_768, 0),
            (1_332_052_600, Write, 2_822_144, 4096, 0),
            (1_332_053_100, Write, 2_822_144, 4096, 1),
        ],
    );
    let only = TraceOptions { device: Some("hm,1".into()), ..TraceOptions::default() };
    assert_eq!(read(text, &only), [(0, Write, 2_822_144, 4096, 0)]);
}

#[test]
fn spc_counts_seconds_and_sectors_but_bytes_of_size() {
    let text = "0,20941264,8192,W,0.551706\n0,20939840,8192,w,0.554041\n1,3072,1024,r,0.6,x,y\n";
    check(
        TraceFormat::Spc,
        "by its columns",
        text,
        &[
            (0, Write, 20_941_264 * 512, 8192, 0),
            (2_335_000, Write, 20_939_840 * 512, 8192, 0),
            (48_294_000, Read, 3072 * 512, 1024, 1),
        ],
    );
}

#[test]
fn alibaba_counts_microseconds() {
    let text =
        "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n";
    let expected =
        [(0, Write, 8_792_731_648, 16_384, 0), (46_000, Read, 59_110_326_272, 360_448, 1)];
    check(TraceFormat::Alibaba, "by its columns", text, &expected);
    let headed = format!("device_id,opcode,offset,length,timestamp\n{text}");
    check(TraceFormat::Alibaba, "by its columns", &headed, &expected);
}

#[test]
fn tencent_counts_seconds_and_sectors() {
    let text = "1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1627\n";
    check(
        TraceFormat::Tencent,
        "by its columns",
        text,
        &[(0, Read, 12_910_952 * 512, 65_536, 0), (1_000_000_000, Write, 6_338_688 * 512, 4096, 1)],
    );
}

#[test]
fn cloud_physics_names_operations_by_scsi_opcode() {
    let text = "version,time,op,size,lbn\n1,33898,2a,512,42932745\n1,33899,28,6144,31954535\n\
                1,33899,12,36,0\n1,33899,35,0,0\n";
    check(
        TraceFormat::CloudPhysics,
        "by its columns",
        text,
        &[
            (0, Write, 42_932_745 * 512, 512, 0),
            (1_000_000_000, Read, 31_954_535 * 512, 6144, 0),
            (1_000_000_000, Flush, 0, 0, 0),
        ],
    );
}

#[test]
fn the_binary_cloud_physics_trace_is_read_in_both_versions() {
    let record = |version: u16, opcode: u16, bytes: u32, sector: u64, time: u64| {
        let zero = 0_u32.to_le_bytes();
        let (opcode, tag) = (opcode.to_le_bytes(), (version << 8).to_le_bytes());
        let (bytes, sector, time) = (bytes.to_le_bytes(), sector.to_le_bytes(), time.to_le_bytes());
        if version == 1 {
            [&zero[..], &bytes, &zero, &opcode, &tag, &sector, &time].concat()
        } else {
            [&opcode[..], &tag, &zero, &bytes, &zero, &sector, &time, &[0; 8]].concat()
        }
    };
    for version in [1, 2] {
        let trace = [
            record(version, 0x2a, 512, 42_932_745, 1_000_000),
            record(version, 0x12, 36, 0, 1_000_001),
            record(version, 0x28, 8192, 16, 1_000_007),
        ]
        .concat();
        let expected = [(0, Write, 42_932_745 * 512, 512, 0), (7_000, Read, 8192, 8192, 0)];
        assert_eq!(read_bytes(&trace, &TraceOptions::default()), expected);
        let (_, outcome, _) = drain(&trace[..trace.len() - 1], &TraceOptions::default());
        assert!(outcome.unwrap_err().to_string().starts_with("t:3: the record ends early"));
        let mixed = [trace, record(3 - version, 0x28, 8192, 16, 9)].concat();
        let (_, outcome, _) = drain(&mixed, &TraceOptions::default());
        assert!(outcome.is_err());
    }
}

#[test]
fn systor_leaves_out_what_neither_reads_nor_writes() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                1456095145.133076000,0.000806000,R,0,899056122368,131072\n\
                1456095145.133076000,0.000806000,,0,0,0\n\
                1456095145.133100000,0.000806000,W,4,4096,512\n";
    check(
        TraceFormat::Systor,
        "by its columns",
        text,
        &[(0, Read, 899_056_122_368, 131_072, 0), (24_000, Write, 4096, 512, 1)],
    );
}

#[test]
fn the_simulators_traces_differ_by_their_times_alone() {
    let disk_sim = "0.000000 0 783588 16 1\n0.512000 0 7836 8 0\n1.5 1 16 8 3\n";
    check(
        TraceFormat::DiskSim,
        "five numbers, times with a fraction: milliseconds",
        disk_sim,
        &[
            (0, Read, 783_588 * 512, 8192, 0),
            (512_000, Write, 7836 * 512, 4096, 0),
            (1_500_000, Read, 8192, 4096, 1),
        ],
    );
    let mq_sim = "48513000 1 5242880 8 0\n64130000 1 5242888 16 1\n";
    let expected =
        [(0, Write, 5_242_880 * 512, 4096, 0), (15_617_000, Read, 5_242_888 * 512, 8192, 0)];
    check(TraceFormat::MqSim, "five numbers with whole times: nanoseconds", mq_sim, &expected);
    let inverted = TraceOptions { invert_types: true, ..TraceOptions::default() };
    let operations: Vec<Operation> = read(mq_sim, &inverted).iter().map(|r| r.1).collect();
    assert_eq!(operations, [Read, Write]);
    let source = open_reader(Cursor::new(mq_sim), "t", &inverted).unwrap();
    assert!(source.description().ends_with("types inverted"), "{}", source.description());
}

#[test]
fn wisc_see_leaves_out_completions() {
    let text = "29162 D read 299008 4096 0.000000000 0 False\n\
                29162 C read 299008 4096 0.000223461 0.000223461 False\n\
                29162 D discard 0 8192 0.001 0.000223461 True\n";
    check(
        TraceFormat::WiscSee,
        "by its columns",
        text,
        &[(0, Read, 299_008, 4096, 0), (1_000_000, Trim, 0, 8192, 0)],
    );
}

#[test]
fn a_described_table_is_read_by_its_description() {
    let table =
        |columns: &str| TraceOptions { columns: Some(columns.into()), ..TraceOptions::default() };
    let text = "when,what,where,much\n10,R,8,1\n12,write,16,2\n";
    assert_eq!(
        read(text, &table("time=us,op,offset=sector,size=4KiB")),
        [(0, Read, 4096, 4096, 0), (2_000, Write, 8192, 8192, 0)]
    );
    assert_eq!(
        read("x 5 1 100 9\ny 6 0 100 9\n", &table("device,-,op=0r,offset,size")),
        [(0, Write, 100, 9, 0), (0, Read, 100, 9, 1)]
    );
    let source = open_reader(Cursor::new("0;0;512"), "t", &table("op=0w,offset,size")).unwrap();
    assert_eq!(source.pacing(), Pacing::Closed { think_ns: Nanos::ZERO });
    for (columns, message) in [
        ("time,op,offset", "`size` is there 0 times"),
        ("op,op,offset,size", "`op` is there 2 times"),
        ("time=years,op,offset,size", "`years` is no unit of time"),
        ("op=2,offset,size", "`op=2` is unknown"),
        ("op,offset=0,size", "`0` is no unit"),
        ("op,offset,size,colour", "`colour` is unknown"),
    ] {
        let error = error_of("1,R,2,3\n", &table(columns));
        assert!(error.contains(message), "{columns}: {error}");
    }
    let both = TraceOptions { format: Some(TraceFormat::Msr), ..table("op,offset,size") };
    assert_eq!(error_of("", &both), "give a format or columns, not both");
}

#[test]
fn what_is_broken_is_named_with_its_line_or_counted() {
    let good = "128166372003061629,hm,0,Read,383496192,32768,413\n";
    for (bad, message) in [
        ("128166372016382155,hm,0,Wri", "expected 7 fields between `,`, found 4"),
        ("-5,hm,0,Read,0,512,1", "timestamp `-5` is negative"),
        ("128166372016382155,hm,0,Read,-512,512,1", "offset `-512` is negative"),
        ("128166372016382155,hm,0,Seek,0,512,1", "type `Seek` is neither Read nor Write"),
        ("128166372016382155,hm,0,Read,0,0,1", "a read of 0 bytes"),
        ("128166372016382155,hm,0,Read,99999999999999999999,1,1", "is past 2^64"),
        ("128166372016382155,hm,0,Read,18446744073709551615,2,1", "pass 2^64 bytes"),
        ("999999999999999999,hm,0,Read,0,512,1", "timestamp 999999999999999999 in units of 100"),
        ("128166372016382155,hm,0,Read,400000000,4096,1", "past the drive's 400000000"),
        ("\u{1}\u{2}\u{3}", "expected 7 fields"),
    ] {
        let text = format!("{good}{bad}\n{good}");
        let strict = TraceOptions { capacity_bytes: Some(400_000_000), ..TraceOptions::default() };
        let (requests, outcome, _) = drain(text.as_bytes(), &strict);
        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with("t:2: ") && error.contains(message), "{bad}: {error}");
        assert_eq!(requests.len(), 1, "what comes before is given out");
        let lenient = TraceOptions { skip_bad: true, ..strict };
        let (requests, outcome, statistics) = drain(text.as_bytes(), &lenient);
        assert_eq!((requests.len(), outcome), (2, Ok(())));
        assert_eq!((statistics.skipped_count, statistics.line_count), (1, 3));
        assert_eq!(statistics.first_skipped.as_ref(), Some(&error));
    }
}

#[test]
fn every_format_refuses_what_it_cannot_mean() {
    for (format, bad) in [
        (TraceFormat::FioV2, "fio version 2 iolog\nf wait -1"),
        (TraceFormat::FioV2, "fio version 2 iolog\nf read 0"),
        (TraceFormat::FioV2, "fio version 2 iolog\nf wait 18446744073709551615\nf wait 1"),
        (TraceFormat::FioV3, "fio version 2 iolog\nf read 0 512"),
        (TraceFormat::FioV3, "fio version 3 iolog\n5 f erase 0 512"),
        (TraceFormat::FioV3, "fio version 3 iolog\n18446744073709551615 f read 0 512"),
        (TraceFormat::Blkparse, "8,0 3 1 0.5 697 D W 8 + "),
        (TraceFormat::Blkparse, "8,0 3 1 0.5 697 D W 8"),
        (TraceFormat::Blkparse, "8,0 3 1 -0.5 697 D W 8 + 8 [a]"),
        (TraceFormat::Blkparse, "8,0 3 1 0.5 697 D W 18446744073709551615 + 8 [a]"),
        (TraceFormat::Blkparse, "8,0 3 1 0.5 697 D X 8 + 8 [a]"),
        (TraceFormat::Blkparse, "eight 3 1"),
        (TraceFormat::Ftrace, "a-1 [0] . 1.5: block_rq_issue: 8,0 W 4096 ("),
        (TraceFormat::Ftrace, "block_rq_issue: 8,0 W 4096 () 8 + 8 [a]"),
        (TraceFormat::Spc, "0,20941264,8192,W"),
        (TraceFormat::Spc, "0,20941264,8192,W,-0.5"),
        (TraceFormat::Alibaba, "1,W,0,512,99999999999999999999"),
        (TraceFormat::Tencent, "1538323200,1,8,2,1"),
        (TraceFormat::CloudPhysics, "1,33898,zz,512,1"),
        (TraceFormat::Systor, "1456095145.1,0.1,X,0,0,512"),
        (TraceFormat::DiskSim, "0.5 0 8 8"),
        (TraceFormat::MqSim, "0.5 0 8 8 1"),
        (TraceFormat::MqSim, "5 0 8 8 2"),
        (TraceFormat::WiscSee, "1 D read 0 4096 0.0 0"),
        (TraceFormat::WiscSee, "1 D seek 0 4096 0.0 0 False"),
        (TraceFormat::OracleText, "1 5"),
        (TraceFormat::OracleText, "1,5,-512,-1"),
        (TraceFormat::OracleText, "1,5,512,-3"),
        (TraceFormat::OracleText, "1,5,512,9223372036854775808"),
        (TraceFormat::OracleText, "1,5,512,-1,7"),
    ] {
        let options = TraceOptions { format: Some(format), ..TraceOptions::default() };
        let error = error_of(bad, &options);
        let line = bad.lines().count();
        let first =
            if bad.starts_with("fio version 2") && format == TraceFormat::FioV3 { 1 } else { line };
        assert!(error.starts_with(&format!("t:{first}: ")), "{format:?} `{bad}`: {error}");
    }
}

#[test]
fn a_log_of_fio_is_known_by_its_first_line_however_bad_the_others_are() {
    for head in ["", "# copied by hand\n\n"] {
        for (version, bad) in [(2, "f writ 0 512"), (3, "soon f write 0 512")] {
            let text = format!("{head}fio version {version} iolog\n{bad}\n{bad}\n{bad}\n");
            let error = error_of(&text, &TraceOptions::default());
            let line = head.lines().count() + 2;
            assert!(error.starts_with(&format!("t:{line}: ")), "{text}: {error}");
        }
    }
}

#[test]
fn what_no_format_understands_is_refused_with_the_way_out() {
    let none = TraceOptions::default();
    let error = error_of("a story\nof two lines\n", &none);
    assert!(error.contains("`a story`") && error.contains("time=us,op,offset=sector"), "{error}");
    assert_eq!(error_of("", &none), "t: the file is empty");
    let compact = TraceOptions { format: Some(TraceFormat::Compact), ..none.clone() };
    assert!(error_of("1 2 3 4 5\n", &compact).contains("is no trace of the format compact"));
    let missing =
        open_trace(std::path::Path::new("no-such-trace"), &none, Arc::default()).err().unwrap();
    assert!(missing.to_string().starts_with("no-such-trace: cannot be opened: "), "{missing}");
    assert!(TraceFormat::parse("mrs").unwrap_err().to_string().contains("msr"));
    for format in TraceFormat::ALL {
        assert_eq!(TraceFormat::parse(format.label()), Ok(format));
        let json = serde_json::to_string(&format).unwrap();
        assert_eq!(json, format!("\"{}\"", format.label()));
    }
}

#[test]
fn times_that_run_backwards_are_held_and_counted() {
    let text = "100 0 8 8 0\n300 0 8 8 0\n200 0 8 8 0\n50 0 8 8 0\n400 0 8 8 0\n";
    let (requests, _, statistics) = drain(text.as_bytes(), &TraceOptions::default());
    let times: Vec<u64> = requests.iter().map(|request| request.at.0).collect();
    assert_eq!(times, [0, 200, 200, 200, 300]);
    assert_eq!(statistics.reordered_count, 2);
    let faster = TraceOptions { speed_up: SpeedUp::parse("3").unwrap(), ..TraceOptions::default() };
    let times: Vec<u64> = read(text, &faster).iter().map(|request| request.0).collect();
    assert_eq!(times, [0, 66, 66, 66, 100]);
}

#[test]
fn devices_become_streams_and_may_be_filtered_or_kept_apart() {
    let text = "9 5 8 8 0\n10 7 8 8 0\n11 5 16 8 0\n";
    let streams: Vec<u8> = read(text, &TraceOptions::default()).iter().map(|r| r.4).collect();
    assert_eq!(streams, [0, 1, 0]);
    let only = TraceOptions { device: Some("7".into()), ..TraceOptions::default() };
    let (requests, _, statistics) = drain(text.as_bytes(), &only);
    assert_eq!((requests.len(), requests[0].at.0, statistics.filtered_count), (1, 0, 2));
    let apart = TraceOptions {
        address_map: AddressMap::Compact { extent_bytes: 4096 },
        capacity_bytes: Some(3 * 4096),
        ..TraceOptions::default()
    };
    let offsets: Vec<u64> = read(text, &apart).iter().map(|request| request.2).collect();
    assert_eq!(offsets, [0, 4096, 8192]);
    let full = TraceOptions { capacity_bytes: Some(8192), ..apart };
    assert!(error_of(text, &full).starts_with("t:3: the trace touches more"));
    let modulo = TraceOptions {
        address_map: AddressMap::Modulo,
        capacity_bytes: Some(8192),
        ..TraceOptions::default()
    };
    assert_eq!(read("1 0 15 2 1\n", &modulo), [(0, Read, 7680, 512, 0), (0, Read, 0, 512, 0)]);
}

#[test]
fn options_are_read_from_text_with_unknown_keys_refused() {
    let text = r#"{"format":"msr","speed_up":"1.5","address_map":{"kind":"modulo"}}"#;
    let options: TraceOptions = serde_json::from_str(text).unwrap();
    assert_eq!(options.format, Some(TraceFormat::Msr));
    assert_eq!(options.speed_up.to_string(), "3/2");
    assert_eq!(options.address_map, AddressMap::Modulo);
    assert!(serde_json::from_str::<TraceOptions>(r#"{"speedup":2}"#).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        format in 0..TraceFormat::ALL.len(),
        start in 0_usize..9,
        skip_bad: bool,
    ) {
        let starts: [&[u8]; 9] = [
            b"\x07tae",
            b"", b"fio version 2 iolog\n", b"fio version 3 iolog\n", b"nandutr1",
            b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"1 1 1 1 1\n", b"8,0 3 1 0.5 697 D W 8 + 8\n",
        ];
        bytes.splice(0..0, starts[start].iter().copied());
        for format in [None, Some(TraceFormat::ALL[format])] {
            let options = TraceOptions { format, skip_bad, ..TraceOptions::default() };
            let _ = drain(&bytes, &options);
        }
    }

    #[test]
    fn no_change_of_a_good_trace_makes_a_reader_panic(
        changes in proptest::collection::vec((0_usize..2000, any::<u8>()), 1..6),
        which in 0_usize..7,
    ) {
        let samples = [
            "fio version 3 iolog\n2 n add\n878 n write 0 16384\n888 n read 16384 4096\n891 n sync\n",
            "8,0 3 1 0.5 697 D W 8 + 8 [a]\n8,0 3 1 0.6 697 D FWFS 8 + 8 [a]\n",
            "a-1 [0] . 1.5: block_rq_issue: 8,0 W 4096 () 8 + 8 [a]\n",
            "1456095145.133076000,0.000806000,R,0,899056122368,131072\n",
            "128166372003061629,hm,0,Read,383496192,32768,413\n",
            kernel::PASSED_THROUGH,
            "33898,42932745,512,-1\n33898,6656,4096,3\n33899,6656,4096,-1\n",
        ];
        let mut bytes = samples[which].repeat(3).into_bytes();
        for (position, byte) in changes {
            let length = bytes.len();
            bytes[position % length] = byte;
        }
        let options = TraceOptions { skip_bad: true, ..TraceOptions::default() };
        let _ = drain(&bytes, &options);
    }
}
