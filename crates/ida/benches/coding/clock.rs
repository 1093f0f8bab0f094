//! How long the processor has worked for this thread.

#![allow(unsafe_code, reason = "a system call")]

use std::time::Duration;

/// CPU time of the calling thread since it began.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and outlives the call.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(outcome, 0, "every Linux has this clock");
    let nanos = u32::try_from(time.tv_nsec).expect("below a second");
    Duration::new(time.tv_sec.unsigned_abs(), nanos)
}
