//! Job files as fio's users write them: what becomes of each key, and what is refused.

use super::*;
use nandu_device::{Device, Geometry, MemoryConfig, MemoryDevice};

/// 64 MiB with sectors of 512 bytes and a queue of 64.
fn parse(text: &str) -> Result<FioJobs, ProbeError> {
    let geometry = Geometry::new(512, 131_072).unwrap();
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    parse_fio_job("job.fio", text, device.info(), CachePath::Past)
}

fn parse_buffered(text: &str) -> Result<FioJobs, ProbeError> {
    let device = MemoryDevice::new(MemoryConfig::default());
    parse_fio_job("job.fio", text, device.info(), CachePath::Through)
}

#[test]
fn a_job_file_becomes_patterns() {
    let jobs = parse(
        "; a comment\n[global]\nioengine=libaio\ndirect=1\nbs=8k\nruntime=30\ntime_based\n\
         size=50%\n\n[reads]\nrw=randread\niodepth=16\n\n[mix]\nstonewall\nrw=randrw\n\
         rwmixread=70 # percent\nbs=16k\nfsync=32\nrandom_distribution=zipf:1.2\n\
         [write]\nstonewall\nrw=write\ntime_based=0\nruntime=500ms\nio_size=1m\nloops=3\n\
         offset=4m\nsize=8m\nthinktime=50\nzero_buffers\n",
    )
    .unwrap();
    let patterns: Vec<&Pattern> = jobs.steps.iter().map(|step| &step.pattern).collect();
    let [reads, mix, write] = patterns[..] else { panic!("{jobs:?}") };
    assert_eq!(
        (reads.label.as_str(), reads.access, reads.read_percent),
        ("reads", Access::Random, 100)
    );
    assert_eq!((reads.request_bytes.0, reads.queue_depth), (8192, 16));
    assert_eq!(reads.limit, Limit::time(Nanos::from_seconds(30)));
    assert_eq!(reads.area.length, Some(ByteCount::mib(32)));
    assert_eq!((mix.read_percent, mix.request_bytes.0, mix.flush_every), (70, 16_384, 32));
    assert_eq!(mix.distribution, Some(Distribution::Zipf { theta: 1.2, clustered: false }));
    let limit = Limit { request_count: Some(128), duration: Some(Nanos::from_millis(500)) };
    assert_eq!((write.access, write.limit, write.repetitions), (Access::Sequential, limit, 3));
    let area = Area { start: ByteCount::mib(4), length: Some(ByteCount::mib(8)) };
    assert_eq!((write.area, write.think_ns), (area, Nanos::from_micros(50)));
    assert_eq!(write.data, DataKind::Zeros);
    // Only the engine has no effect; the direct flag is what happens anyway.
    let notes: Vec<String> = jobs.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("job.fio:3: `ioengine` has no effect"), "{notes:?}");
}

#[test]
fn every_key_without_effect_is_named_with_its_line() {
    let jobs = parse(
        "[a]\nrw=randwrite\niodepht=4\nfilename=/dev/sdz\nbuffered=0\nnumjobs=4\niodepth=32\n\
         invalidate=1\nsync=1\nbs=4k,8k\nfrobnicate=yes\n[b]\nrw=read\n",
    )
    .unwrap();
    let expected = [
        (FioNoteKind::Unknown, 3, "did you mean `iodepth`?"),
        (FioNoteKind::Ignored, 4, "`filename` has no effect"),
        (FioNoteKind::Changed, 6, "one queue of depth 128"),
        (FioNoteKind::Changed, 7, "cut to 64"),
        (FioNoteKind::Ignored, 8, "`invalidate` has no effect"),
        (FioNoteKind::Changed, 9, "a flush after every write"),
        (FioNoteKind::Unknown, 11, "`frobnicate` is not known"),
        (FioNoteKind::Changed, 12, "job `b` does not say `direct`"),
        (FioNoteKind::Changed, 12, "job `b` runs after `a`"),
    ];
    assert_eq!(jobs.notes.len(), expected.len(), "{:#?}", jobs.notes);
    for (note, (kind, line, text)) in jobs.notes.iter().zip(expected) {
        assert_eq!((note.kind, note.line), (kind, line), "{note}");
        assert!(note.text.contains(text), "{note} does not say `{text}`");
    }
    assert_eq!(jobs.steps[0].pattern.queue_depth, 64);
    assert_eq!(jobs.steps[0].pattern.flush_every, 1);
    assert_eq!(jobs.steps[0].pattern.request_bytes.0, 8192, "the size of writes is the second");
}

#[test]
fn how_fio_holds_memory_and_files_is_noted_with_what_is_done_instead() {
    for (key, does) in [
        ("mem=mmap", "memory of the program"),
        ("iomem=malloc", "memory of the program"),
        ("registerfiles", "files are registered"),
        ("fixedbufs=1", "buffers are registered"),
        ("nonvectored=0", "one piece of memory"),
    ] {
        let jobs = parse(&format!("[a]\nrw=randread\ndirect=1\n{key}\n")).unwrap();
        let [note] = &jobs.notes[..] else { panic!("{key}: {:?}", jobs.notes) };
        assert_eq!((note.kind, note.line), (FioNoteKind::Ignored, 4), "{note}");
        assert!(note.text.contains("no effect here") && note.text.contains(does), "{note}");
    }
    // What changes the load is refused beside them still.
    assert!(parse("[a]\nrw=randread\nmem=mmap\niodepth_batch=8\n").is_err());
}

#[test]
fn what_would_be_another_load_is_refused_with_its_line() {
    for key in [
        "rate_iops=1000",
        "direct=0",
        "buffered=1",
        "buffered",
        "rate=1m",
        "bsrange=4k-64k",
        "bssplit=4k/50:8k/50",
        "verify=crc32c",
        "verify_fatal=1",
        "iodepth_batch=8",
        "ramp_time=10",
        "zonemode=strided",
        "percentage_random=50",
        "random_distribution=pareto:0.3",
        "bs=4k-64k",
    ] {
        let error = parse(&format!("[global]\n{key}\n[a]\nrw=randrw\n")).unwrap_err();
        let ProbeError::Parse { line, message, .. } = &error else { panic!("{error}") };
        assert_eq!(*line, 2, "{key}: {message}");
    }
    let error = parse("[a]\nrw=randread\ndirect=0\n").unwrap_err().to_string();
    assert!(error.starts_with("job.fio:3: `direct=0` would be"), "{error}");
    assert!(error.contains("direct=1"), "{error}");
    for same in ["direct=1", "direct", "buffered=0"] {
        assert!(parse(&format!("[a]\nrw=randread\n{same}\n")).is_ok(), "{same}");
    }
    let error = parse("[a]\nrw=randrw\nbs=4k,8k\n").unwrap_err();
    assert!(error.to_string().contains("one size"), "{error}");
    assert!(parse("[a]\nrw=randrw\nbs=4k,4k\n").is_ok());
    let few = parse("[a]\nrw=randread\nnumber_ios=7\n").unwrap();
    assert_eq!(few.steps[0].pattern.limit.request_count, Some(7));
}

#[test]
fn a_job_that_does_not_say_direct_gets_a_note() {
    let notes = |text: &str| {
        let notes = parse(text).unwrap().notes;
        notes.iter().filter(|note| note.text.contains("direct=1")).count()
    };
    for said in ["direct=1", "direct", "buffered=0"] {
        assert_eq!(notes(&format!("[a]\nrw=randread\n{said}\n")), 0, "{said}");
        assert_eq!(notes(&format!("[global]\n{said}\n[a]\nrw=read\n[b]\nrw=read\n")), 0);
    }
    let found = parse("[a]\nrw=read\ndirect=1\n[b]\nstonewall\nrw=read\n").unwrap().notes;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].line), (FioNoteKind::Changed, 4));
    let said = found[0].to_string();
    assert!(said.starts_with("job.fio:4: job `b` does not say `direct`"), "{said}");
    assert_eq!(notes("[a]\nrw=read\n[b]\nrw=read\n"), 1, "one note for the file");
}

#[test]
fn through_the_page_cache_a_job_finds_it_empty_unless_it_says_otherwise() {
    let jobs = parse_buffered(
        "[global]\ndirect=0\nfadvise_hint=0\n[cold]\nrw=read\n[hot]\nstonewall\nrw=read\n\
         invalidate=0\n[end]\nstonewall\nrw=write\nend_fsync=1\nbuffered\n",
    )
    .unwrap();
    assert_eq!(jobs.notes, [], "that is what fio does");
    let [cold, hot, end] = &jobs.steps[..] else { panic!("{jobs:?}") };
    assert_eq!(cold.prepare, [Preparation::EmptyCache {}]);
    assert_eq!(hot.prepare, []);
    assert_eq!((cold.counts_flush, hot.counts_flush, end.counts_flush), (false, false, true));
    for past in ["direct=1", "direct", "buffered=0"] {
        let error = parse_buffered(&format!("[a]\nrw=read\n{past}\n")).unwrap_err();
        assert!(error.to_string().contains("without --buffered"), "{error}");
    }
    let notes = parse_buffered("[a]\nrw=read\n").unwrap().notes;
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.text.contains("`fadvise_hint=0`"), "{note}");
    let past = parse("[a]\nrw=read\ndirect=1\ninvalidate=0\n").unwrap();
    assert_eq!(past.steps[0].prepare, []);
}

#[test]
fn bad_job_files_are_refused_with_their_line() {
    for (text, line, expected) in [
        ("", 1, "no job"),
        ("[global]\nbs=4k\n", 1, "no job"),
        ("bs=4k\n", 1, "before any section"),
        ("[a\n", 1, "closing ]"),
        ("[a]\nbs=x\n", 2, "no size"),
        ("[a]\nbs=4q\n", 2, "no unit"),
        ("[a]\nrw=trim\n", 2, "cannot be done here"),
        ("[a]\niodepth=many\n", 2, "no count"),
        ("[a]\nrw=rw\nrwmixread=101\n", 3, "no percentage"),
        ("[a]\nruntime=5 fortnights\n", 2, "no unit"),
        ("[a]\nrw=randread\nrandom_distribution=zipf\n", 3, "needs a skew"),
        ("[a]\nbs=1000\n", 1, "sectors of 512 bytes"),
        ("[a]\nbs=128m\n", 1, "does not fit"),
        ("[a]\nsize=99999999999999t\n", 2, "past 2^64"),
    ] {
        let error = parse(text).unwrap_err();
        let ProbeError::Parse { line: found, message, .. } = &error else { panic!("{error}") };
        assert_eq!(*found, line, "{text}: {message}");
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn sizes_follow_fio() {
    for (text, bytes) in
        [("4k", 4096), ("4K", 4096), ("4kb", 4096), ("4kib", 4000), ("1g", 1 << 30), ("7", 7)]
    {
        assert_eq!(fio_size(text), Ok(bytes), "{text}");
    }
}
