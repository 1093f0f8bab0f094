//! Keys of fio's job files that would make another load than nandu measures, and why they cannot be followed.
//! To pass over them would be to publish figures of a job that nobody ran.
//!
//! 1. Each has a reason that says what to write instead, or how the job is run here.

use crate::fio_job::CachePath;

/// Keys that would change the load and cannot be followed, with what to do instead.
const REFUSED: [(&str, &str); 37] = [
    ("bs_is_seq_rand", "requests have one size"),
    ("bs_unaligned", "requests begin at multiples of their size"),
    ("bsrange", "requests have one size; write a job for each size"),
    ("bssplit", "requests have one size; write a job for each size"),
    ("blocksize_range", "requests have one size; write a job for each size"),
    ("buffer_compress_percentage", "data are random, or zeros with zero_buffers"),
    ("buffer_pattern", "data are random, or zeros with zero_buffers"),
    ("dedupe_percentage", "data are random, or zeros with zero_buffers"),
    ("do_verify", "data are not read back; leave it out"),
    ("file_service_type", "there is one file"),
    ("filesize", "there is one file; size and offset say which part of it"),
    ("fill_device", "a job ends by size, io_size, number_ios or runtime"),
    ("flow", "jobs run one after the other"),
    ("latency_target", "the queue has one depth; write a job for each depth"),
    ("max_latency", "a slow request ends no job; look at the report"),
    ("nrfiles", "there is one file"),
    ("offset_increment", "jobs of numjobs become one queue over one area"),
    ("offset_align", "an area begins where offset says"),
    ("percentage_random", "a job is random or sequential; write two"),
    ("ramp_time", "everything counts from the start; put a job of that runtime before it"),
    ("rate", "requests go out as soon as there is room in the queue; thinktime spaces them"),
    ("rate_iops", "requests go out as soon as there is room in the queue; thinktime spaces them"),
    ("rate_iops_min", "there is no least rate; leave it out and look at the report"),
    ("rate_min", "there is no least rate; leave it out and look at the report"),
    ("rate_process", "requests go out as soon as there is room in the queue"),
    ("read_iolog", "a trace is for `nandu sim --trace`"),
    ("replay_redirect", "a trace is for `nandu sim --trace`"),
    ("rw_sequencer", "each request is at a place of its own draw, or behind the last one"),
    ("startdelay", "jobs run one after the other; leave it out"),
    ("start_delay", "jobs run one after the other; leave it out"),
    ("sync_file_range", "writes are flushed by fsync or fdatasync"),
    ("thinktime_blocks", "thinktime comes after every request"),
    ("thinktime_spin", "thinktime waits and does not spin"),
    ("trim_percentage", "jobs read and write, they do not trim"),
    ("verify", "data are not read back; leave it out"),
    ("write_barrier", "writes are flushed by fsync or fdatasync"),
    ("zonemode", "the area is one; offset and size say which"),
];

/// How further keys of the same kinds begin.
const REFUSED_FAMILIES: [(&str, &str); 5] = [
    (
        "iodepth_",
        "requests go out one by one, as soon as there is room; iodepth is all that is asked",
    ),
    ("latency_", "the queue has one depth; write a job for each depth"),
    ("trim_", "jobs read and write, they do not trim"),
    ("verify_", "data are not read back; leave it out"),
    ("zone", "the area is one; offset and size say which"),
];

/// Values of keys that would send requests through the page cache, and those that would send them past it.
const THROUGH_CACHE: [(&str, &str); 2] = [("direct", "0"), ("buffered", "1")];
const PAST_CACHE: [(&str, &str); 2] = [("direct", "1"), ("buffered", "0")];

/// Why a key with a value cannot be followed, if it would change the load.
pub(crate) fn refusal(key: &str, value: &str, path: CachePath) -> Option<&'static str> {
    let (other, why) = match path {
        CachePath::Past => (
            THROUGH_CACHE,
            "requests go past the page cache; write direct=1, or probe with --buffered",
        ),
        CachePath::Through => (
            PAST_CACHE,
            "requests go through the page cache; write direct=0, or probe without --buffered",
        ),
    };
    if other.contains(&(key, value)) {
        return Some(why);
    }
    let exact = REFUSED.iter().find(|(refused, _)| *refused == key);
    let family = || REFUSED_FAMILIES.iter().find(|(start, _)| key.starts_with(start));
    exact.or_else(family).map(|(_, why)| *why)
}
