//! The calls to the operating system that the standard library has no name for.
//!
//! 1. Every pointer handed to the system lives on this stack frame and outlives the call.

#![allow(unsafe_code, reason = "libc has no safe interface to these calls")]

use nandu_base::{ByteCount, Nanos};
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `BLKDISCARD`, from linux/fs.h: `_IO(0x12, 119)`.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// `BLKGETSIZE64`, from linux/fs.h: `_IOR(0x12, 114, size_t)`.
#[cfg(target_pointer_width = "64")]
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
#[cfg(target_pointer_width = "32")]
const BLKGETSIZE64: libc::c_ulong = 0x8004_1272;
/// `BLKSSZGET`, from linux/fs.h: `_IO(0x12, 104)`.
const BLKSSZGET: libc::c_ulong = 0x1268;

/// CPU time of a thread, or of this process: all its threads and the kernel's workers on its behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time that the processor spent in the program.
    pub user: Nanos,
    /// In the kernel for the program.
    pub system: Nanos,
}

impl CpuTime {
    /// Time in the program and in the kernel together.
    #[must_use]
    pub fn total(self) -> Nanos {
        self.user + self.system
    }

    /// What was used since `earlier`. The sum of both parts is exact; of a span shorter than a tick of the
    /// kernel's accounting, all may be called the one or the other.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let total = self.total().saturating_sub(earlier.total());
        let system = self.system.saturating_sub(earlier.system).min(total);
        Self { user: total - system, system }
    }
}

/// The CPU time that this process has used so far.
#[must_use]
pub fn cpu_time() -> CpuTime {
    cpu_time_of(libc::RUSAGE_SELF, libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The CPU time that the calling thread alone has used so far.
#[must_use]
pub fn thread_cpu_time() -> CpuTime {
    cpu_time_of(libc::RUSAGE_THREAD, libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The clock knows the sum to the nanosecond; `getrusage` knows the parts, and of a thread that runs only what
/// it had used at the last tick (4 ms, mostly).
fn cpu_time_of(whom: libc::c_int, clock: libc::clockid_t) -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let mut total = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: both are writable; the calls fill them or leave the zeros, which are valid.
    let (usage, total) = unsafe {
        libc::getrusage(whom, usage.as_mut_ptr());
        libc::clock_gettime(clock, total.as_mut_ptr());
        (usage.assume_init(), total.assume_init())
    };
    let nanos = |seconds: libc::time_t, nanos: i64| {
        let count = |part: i64| u64::try_from(part).unwrap_or(0);
        Nanos(count(seconds) * 1_000_000_000 + count(nanos))
    };
    let total = nanos(total.tv_sec, total.tv_nsec);
    let system = nanos(usage.ru_stime.tv_sec, usage.ru_stime.tv_usec * 1000).min(total);
    CpuTime { user: total - system, system }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Bytes that an ordinary user may still write to the file system of `directory`.
pub(super) fn free_bytes(directory: &Path) -> io::Result<ByteCount> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let mut status = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `path` ends in a zero byte and `status` is writable; both outlive the call.
    let status = unsafe {
        check(libc::statvfs(path.as_ptr(), status.as_mut_ptr()))?;
        status.assume_init()
    };
    #[allow(clippy::useless_conversion, reason = "the fields are 32 bits wide on some targets")]
    let bytes = u64::from(status.f_bavail).saturating_mul(u64::from(status.f_frsize));
    Ok(ByteCount(bytes))
}

/// The alignment that direct I/O needs on `file`: (memory, offset) in bytes, if the kernel tells
/// (Linux 6.1). Zero offset alignment means that there is no direct I/O.
pub(super) fn direct_alignment(file: BorrowedFd<'_>) -> Option<(u32, u32)> {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is the empty string, which AT_EMPTY_PATH permits; `status` is writable.
    let status = unsafe {
        check(libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            status.as_mut_ptr(),
        ))
        .ok()?;
        status.assume_init()
    };
    (status.stx_mask & libc::STATX_DIOALIGN != 0)
        .then_some((status.stx_dio_mem_align, status.stx_dio_offset_align))
}

/// Switches O_DIRECT on or off for an open file.
pub(super) fn set_direct(file: BorrowedFd<'_>, direct: bool) -> io::Result<()> {
    // SAFETY: F_GETFL takes no argument and touches no memory of ours.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    check(flags)?;
    let wanted = if direct { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
    if wanted == flags {
        return Ok(());
    }
    // SAFETY: F_SETFL takes an integer and touches no memory of ours.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, wanted) })
}

/// Leaves the time of the last access alone, as fio does: what is measured is then left as it was,
/// and the kernel saves a look at the inode on every read. Only the owner may ask for it; for
/// others the times are kept as usual, which harms nothing.
pub(super) fn without_access_time(file: BorrowedFd<'_>) {
    // SAFETY: both commands take or give integers and touch no memory of ours.
    unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        if flags >= 0 {
            libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NOATIME);
        }
    }
}

/// Has the kernel drop the clean pages that it keeps of `file`.
pub(super) fn forget_pages(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: only integers are passed; a length of 0 means up to the end.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Whether writes through `file` are possible at all.
pub(super) fn is_writable(file: BorrowedFd<'_>) -> bool {
    // SAFETY: F_GETFL takes no argument and touches no memory of ours.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Reserves blocks for the first `len` bytes of `file` and sets its length.
pub(super) fn preallocate(file: BorrowedFd<'_>, len: ByteCount) -> io::Result<()> {
    fallocate(file, 0, 0, len.0)
}

/// Gives back the blocks of a range of a regular file; it reads as zeros afterwards.
pub(super) fn punch_hole(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    fallocate(file, PUNCH_HOLE, offset, len)
}

/// The mode of [`punch_hole`], which io_uring needs too.
pub(super) const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

fn fallocate(file: BorrowedFd<'_>, mode: i32, offset: u64, len: u64) -> io::Result<()> {
    let signed =
        |value: u64| i64::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    // SAFETY: only integers are passed.
    check(unsafe { libc::fallocate64(file.as_raw_fd(), mode, signed(offset)?, signed(len)?) })
}

/// Tells a block device that it may forget a range.
pub(super) fn discard(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let range: [u64; 2] = [offset, len];
    // SAFETY: BLKDISCARD reads two u64 at the pointer, which is what `range` holds.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) })
}

/// The capacity of a block device.
pub(super) fn block_device_bytes(file: BorrowedFd<'_>) -> io::Result<ByteCount> {
    let mut bytes = 0_u64;
    // SAFETY: BLKGETSIZE64 writes one u64 at the pointer.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) })?;
    Ok(ByteCount(bytes))
}

/// The logical block size of a block device.
pub(super) fn logical_block_bytes(file: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int at the pointer.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKSSZGET as _, &raw mut bytes) })?;
    u32::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The major and minor number in a device number.
pub(super) fn major_minor(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        let before = cpu_time();
        let mut rng = nandu_base::Rng::new(1);
        let mut bytes = vec![0; 1 << 20];
        while cpu_time().since(before).total() < Nanos::from_millis(5) {
            rng.fill(&mut bytes);
        }
        assert!(cpu_time().total() > before.total());
        assert_eq!(before.since(cpu_time()).total(), Nanos::ZERO);
    }

    #[test]
    fn spans_far_shorter_than_a_tick_count() {
        let (begin, mut rng, mut bytes) = (thread_cpu_time(), nandu_base::Rng::new(1), [0; 16384]);
        let mut spans = Nanos::ZERO;
        for _ in 0..100 {
            let before = thread_cpu_time();
            rng.fill(&mut bytes);
            let span = thread_cpu_time().since(before).total();
            assert!(span > Nanos::ZERO);
            spans += span;
        }
        assert!(spans <= thread_cpu_time().since(begin).total());
    }

    #[test]
    fn the_time_of_a_thread_leaves_others_out() {
        let here = thread_cpu_time();
        let there = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut rng = nandu_base::Rng::new(1);
                let mut bytes = vec![0; 1 << 20];
                while thread_cpu_time().total() < Nanos::from_millis(60) {
                    rng.fill(&mut bytes);
                }
                thread_cpu_time().total()
            });
            worker.join().unwrap()
        });
        assert!(there >= Nanos::from_millis(60));
        assert!(thread_cpu_time().since(here).total() < Nanos::from_millis(30));
    }

    #[test]
    fn free_space_is_known_for_directories_and_only_where_they_exist() {
        assert!(free_bytes(Path::new("/")).is_ok());
        assert!(free_bytes(Path::new("/no/such/directory")).is_err());
        assert!(free_bytes(Path::new("/with\0zero")).is_err());
    }
}
