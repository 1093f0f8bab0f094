//! What Linux records: blkparse's text, tracefs, and blktrace's binary events.

use super::{check, drain, error_of, read, read_bytes};
use nandu_device::Operation::{Flush, Read, Trim, Write};
use nandu_trace::{TraceFormat, TraceOptions, open_reader};
use std::io::Cursor;

#[test]
fn blkparse_counts_issues_and_stops_at_its_summary() {
    let text = "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
                  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]\n\
                  8,0    3        3     0.000010000   697  D   WS 223490 + 8 [kjournald]\n\
                  8,0    3        4     0.000020000   697  D   FN [kworker/3:1H]\n\
                  8,0    1        1     0.000500001   200  D   R 16 + 32 [postgres]\n\
                  8,0    1        2     0.000600000   200  D   DS 4096 + 8 [fstrim]\n\
                  8,0    1        3     0.000700000   200  D   FWFSM 64 + 8 [jbd2]\n\
                  8,0    3        5     0.000900000     0  C   WS 223490 + 8 [0]\n\
                CPU3 (sda):\n Reads Queued:           0,        0KiB\n\n\
                Total (sda):\n Writes Queued: 5\n";
    check(
        TraceFormat::Blkparse,
        "by its columns; events D",
        text,
        &[
            (0, Write, 223_490 * 512, 4096, 0),
            (10_000, Flush, 0, 0, 0),
            (490_001, Read, 8192, 16_384, 0),
            (590_000, Trim, 4096 * 512, 4096, 0),
            (690_000, Write, 64 * 512, 4096, 0),
        ],
    );
    let queued = "8,0 3 1 0.5 697 Q W 8 + 8 [a]\n8,16 3 2 0.75 697 Q R 8 + 8 [a]\n";
    check(
        TraceFormat::Blkparse,
        "by its columns; events Q",
        queued,
        &[(0, Write, 4096, 4096, 0), (250_000_000, Read, 4096, 4096, 1)],
    );
}

/// Lines as a SATA disk gives them while udev and smartctl look at it.
pub(crate) const PASSED_THROUGH: &str = "\
  8,16   1        1     0.000000000  3903  G   N [kworker/1:0]\n\
  8,16   1        2     0.000001316  3903  I   N 0 (00 ..) [kworker/1:0]\n\
  8,16   1        3     0.000002693  3903  D   N 0 (00 ..) [kworker/1:0]\n\
  8,16   0        1     0.329879634  4183  Q WBS [parted]\n\
  8,16   0        4     0.329972236     0  C  WS 0 [0]\n\
  8,16   0       15     0.338682153  4187  D   R 254 (12 00 00 00 fe 00 ..) [scsi_id]\n\
  8,16   0       16     0.338696471     3  C   R (12 00 00 00 fe 00 ..) [0]\n\
  8,16   0        0     0.338700000     0  m   N cfq4187S / alloced\n\
  8,16   0       36     0.550130414  4213  D   R 512 (85 08 0e 00 00 00 01 00 00 00 00 00 00 00 ec \
00 ..) [smartctl]\n\
  8,16   0       37     0.550130414  4213  D   R 36 [smartctl]\n\
  8,16   0       38     0.550130500  4213  UT   N [swapper] 1\n\
  8,16   0       39     0.550130600  4213  A   W 8 + 8 <- (8,17) 0\n\
  8,16   0       40     0.550130700  4213  X   W 8 / 12 [dd]\n";

#[test]
fn blkparse_leaves_out_commands_that_are_passed_through_and_messages() {
    let requests = "  8,16   0       41     0.600000000   697  D   R 223490 + 8 [dd]\n\
                      8,16   0       42     0.700000000     0  D   N 0 (35 00 ..) [swapper]\n\
                      8,16   0       43     0.800000000  4183  D WBS [parted]\n\
                      8,16   0       44     0.900000000   697  D  WS 16 + 8 (     123) [a b]\n\
                      8,16   0       45     0.900000000   697  D FWS (     123) [a b]\n\
                      8,16   0       46     0.950000000   697  D  ZR 524288 + 524288 [a]\n";
    let expected = [
        (0, Read, 223_490 * 512, 4096, 0),
        (100_000_000, Flush, 0, 0, 0),
        (200_000_000, Flush, 0, 0, 0),
        (300_000_000, Write, 8192, 4096, 0),
        (300_000_000, Flush, 0, 0, 0),
    ];
    // However many of them come first, and whatever they begin with.
    for (head, times) in [("", 1), ("Input file sdb.blktrace.0 added\n", 40)] {
        let text = format!("{head}{}{requests}", PASSED_THROUGH.repeat(times));
        check(TraceFormat::Blkparse, "by its columns; events D", &text, &expected);
    }
    let none = read(PASSED_THROUGH, &TraceOptions::default());
    assert_eq!(none, [], "a trace without requests is one");
    // A device of which all is queued, traced with a disk to which commands are passed.
    let queued = format!("{PASSED_THROUGH}253,0 1 2 0.700000000 9 Q R 8 + 8 [a]\n");
    check(
        TraceFormat::Blkparse,
        "by its columns; events Q",
        &queued,
        // The barrier was queued, too.
        &[(0, Flush, 0, 0, 0), (370_120_366, Read, 4096, 4096, 1)],
    );
}

#[test]
fn a_summary_of_blkparse_ends_where_events_go_on() {
    let event = |time: &str| format!("  8,0    3        3     {time}   697  D   W 8 + 8 [a]\n");
    let summary = "CPU3 (sda):\n Reads Queued:           0,        0KiB\t Writes Queued:       1\n\
                   Total (sda):\n Reads Requeued:         0\t\t Writes Requeued:         0\n\n\
                   Throughput (R/W): 0KiB/s / 0KiB/s\nEvents (sda): 23 entries\n\
                   Skips: 0 forward (0 -   0.0%)\n";
    let of_process = "kjournald (697)\n Reads Queued: 0\n Dispatch wait: 1.5\n\
                      fio job (12, ...)\n IO unplugs: 0\n";
    let (first, second) = (event("0.000010000"), event("0.000020000"));
    for between in [summary.to_owned(), format!("{of_process}{summary}")] {
        let text = format!("{first}{between}{second}{between}");
        let expected = [(0, Write, 4096, 4096, 0), (10_000, Write, 4096, 4096, 0)];
        check(TraceFormat::Blkparse, "by its columns; events D", &text, &expected);
    }
    let error = error_of(&format!("{first}{second}kjournald\n"), &TraceOptions::default());
    assert_eq!(error, "t:3: expected maj,min such as 8,0, found `kjournald`");
}

#[test]
fn ftrace_takes_issues_among_other_events() {
    let text = "# tracer: nop\n#\n\
        kworker/7:0H-100 [000] .... 1000.000000: block_rq_issue: 8,0 WS 4096 () 16573296 + 8 \
            rt,4 [highpool[1]]\n\
        kworker/7:0H-100 [000] d..1 1000.000100: block_rq_complete: 8,0 WS () 16573296 + 8 [0]\n\
        <...>-12345 [000] ...1 1000.000250: block_rq_issue: 8,0 R 8192 () 12345 + 16 [dd]\n\
        jbd2-7 [001] ...1 1000.000300: block_rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [jbd2]\n\
        smartctl-9 [001] ...1 1000.000400: block_rq_issue: 8,0 R 36 (12 00 00) 0 + 0 [smartctl]\n\
        swapper-0 [001] ...1 1000.000500: block_rq_issue: 8,0 N 0 (35 00 00) 0 + 0 [swapper]\n";
    check(
        TraceFormat::Ftrace,
        "by its columns",
        text,
        &[
            (0, Write, 16_573_296 * 512, 4096, 0),
            (250_000, Read, 12_345 * 512, 8192, 0),
            (300_000, Flush, 0, 0, 0),
            (500_000, Flush, 0, 0, 0),
        ],
    );
}

/// A record of blktrace.
fn event(big: bool, time: u64, sector: u64, bytes: u32, action: u32, extra: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let mut put = |value: u64, bytes: usize| {
        let all = value.to_be_bytes();
        let mut field = all[8 - bytes..].to_vec();
        if !big {
            field.reverse();
        }
        record.extend(field);
    };
    for (value, bytes) in [
        (0x6561_7407, 4),
        (1, 4),
        (time, 8),
        (sector, 8),
        (bytes.into(), 4),
        (action.into(), 4),
        (697, 4),
        (8 << 20 | 16, 4),
        (0, 4),
        (0, 2),
        (extra.len() as u64, 2),
    ] {
        put(value, bytes);
    }
    record.extend(extra);
    record
}

#[test]
fn blktrace_counts_issues_in_either_byte_order() {
    let (queued, issued, in_group) = (1, 7, 1 << 8);
    let (reads, writes, flushes, notes, discards) = (1 << 16, 2 << 16, 4 << 16, 1 << 26, 1 << 29);
    for (big, order) in [(false, "little"), (true, "big")] {
        let trace = [
            event(big, 5, 0, 0, notes, b"postgres"),
            event(big, 10, 8, 4096, queued | writes, b""),
            event(big, 20, 8, 4096, issued | writes | in_group, b"12345678"),
            event(big, 30, 0, 0, issued | flushes | writes, b""),
            event(big, 45, 16, 512, issued | reads, b""),
            event(big, 50, 64, 8192, issued | discards | writes, b""),
        ]
        .concat();
        let expected = [
            (0, Write, 4096, 4096, 0),
            (10, Flush, 0, 0, 0),
            (25, Read, 8192, 512, 0),
            (30, Trim, 32_768, 8192, 0),
        ];
        assert_eq!(read_bytes(&trace, &TraceOptions::default()), expected);
        let only = TraceOptions { device: Some("8,16".into()), ..TraceOptions::default() };
        assert_eq!(read_bytes(&trace, &only), expected);
        let source = open_reader(Cursor::new(trace.clone()), "t", &only).unwrap();
        let description =
            format!("trace t: blktrace, by its first bytes; events D, {order}-endian");
        assert_eq!(source.description(), description);
        let queue_only = event(big, 10, 8, 4096, queued | writes, b"");
        assert_eq!(read_bytes(&queue_only, &only), [(0, Write, 4096, 4096, 0)]);
        for length in 49..trace.len() - 1 {
            let (_, outcome, _) = drain(&trace[..length], &TraceOptions::default());
            // The boundaries of records are ends as good as any.
            let whole = [56, 104, 160, 208, 256].contains(&length);
            assert_eq!(outcome.is_ok(), whole, "{length}");
        }
        let mut lost = trace.clone();
        lost[56] ^= 0xff;
        let (_, outcome, _) = drain(&lost, &TraceOptions::default());
        let error = outcome.unwrap_err().to_string();
        let message = if big { "expected the magic" } else { "version 248 of blktrace" };
        assert!(error.starts_with(&format!("t:2: {message}")), "{error}");
    }
}
