//! The kernel's submission and completion rings behind a [`super::FileDrive`].
//!
//! ```text
//!   push ─► SQ ─┐ (no system call)          ┌─► reap: all that is there, no system call
//!               ├─► wait: io_uring_enter ─► CQ
//!               └─► submit                  └─► doorbell: poll, by whoever has not got the ring
//! ```
//!
//! 1. Memory named by an entry stays in place until its completion was reaped: the drive parks the
//!    request's buffer, and waits for everything in flight before it drops any.
//! 2. A ring of one thread is used by the thread that made it: SINGLE_ISSUER with DEFER_TASKRUN
//!    spares the interrupts, where the kernel has them (6.1); COOP_TASKRUN (5.19) is the next best.
//!    A shared ring has none of them: a completion must not wait for the thread that submitted.
//! 3. The completion ring is at least as large as the number in flight, so it never overflows.
//! 4. Memory that is registered with the ring stays in place as long as it is: the ring keeps a buffer of its
//!    own out of the same allocation, which lives until the last of its buffers goes.

#![allow(unsafe_code, reason = "the kernel reads and writes memory that is named in ring entries")]

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use nandu_device::IoBuffer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How many completions one look at the ring takes at most.
const BATCH: usize = 64;

/// How long one waits at the [`Doorbell`] before looking whether the kernel took everything.
const PATIENCE_NS: i64 = 100_000_000;
/// After so many refusals in a row the ring itself is what the kernel does not want.
const REFUSALS_MAX: u32 = 100;

/// Who uses a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingUse {
    /// The thread that makes it.
    OneThread,
    /// One thread after the other.
    Shared,
}

/// Registered in place of a file that is not there yet, or not any more.
const NO_FILE: i32 = -1;

/// How many pieces of memory are registered at a time; the oldest makes room.
const REGIONS_MAX: usize = 4;

/// Memory that is registered with the ring.
struct Region {
    /// The addresses that it covers.
    addresses: Range<usize>,
    /// Keeps it in place (invariant 4).
    _keeper: IoBuffer,
}

/// What the kernel is to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// Read into memory.
    Read {
        /// Where the bytes are put.
        memory: *mut u8,
        /// How many bytes.
        len: u32,
        /// Where from, in bytes.
        offset: u64,
    },
    /// Write from memory.
    Write {
        /// Where the bytes are taken from.
        memory: *const u8,
        /// How many bytes.
        len: u32,
        /// Where to, in bytes.
        offset: u64,
    },
    /// Make durable what was written, by `fdatasync`.
    Flush,
    /// Punch a hole.
    PunchHole {
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
}

/// A ring and the files registered with it, which spares a lookup per request.
pub(super) struct Ring {
    ring: IoUring,
    queued_count: u32,
    /// How often the kernel refused since it last did not.
    refusal_count: u32,
    ring_use: RingUse,
    /// By the index under which the kernel knows it; empty where the kernel registers no memory.
    regions: Vec<Option<Region>>,
    next_region: usize,
    reaped: Box<[MaybeUninit<cqueue::Entry>; BATCH]>,
}

impl Ring {
    /// A ring for `depth` requests in flight on up to `file_count` files.
    pub(super) fn new(file_count: u32, depth: u32, ring_use: RingUse) -> io::Result<Self> {
        let mut ring = Self::build(depth, ring_use)?;
        if !ring.params().is_feature_ext_arg() {
            let message = "io_uring without timed waits, Linux 5.11 has them";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        ring.submitter().register_files(&vec![NO_FILE; file_count as usize])?;
        if ring_use == RingUse::OneThread {
            // Spares the lookup of the ring's own descriptor; older kernels do without.
            let _ = ring.submitter().register_ring_fd();
        }
        ring.submission().sync();
        // From Linux 5.19 on; without it memory is looked up for each request.
        let can_register = ring
            .submitter()
            .register_buffers_sparse(nandu_base::to_u32(REGIONS_MAX as u64))
            .is_ok();
        let region_count = if can_register { REGIONS_MAX } else { 0 };
        Ok(Self {
            ring,
            queued_count: 0,
            refusal_count: 0,
            ring_use,
            regions: (0..region_count).map(|_| None).collect(),
            next_region: 0,
            reaped: Box::new([const { MaybeUninit::uninit() }; BATCH]),
        })
    }

    /// Puts a file under a number below the ring's count, or takes it away.
    pub(super) fn set_file(&mut self, index: u32, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let descriptor = file.map_or(NO_FILE, |file| file.as_raw_fd());
        self.ring.submitter().register_files_update(index, &[descriptor]).map(drop)
    }

    /// `count` buffers of `len` zero bytes at multiples of `alignment`, whose memory the kernel knows from
    /// now on; where it does not want to (it counts as locked memory, which has a limit), they are like others.
    pub(super) fn buffers(&mut self, count: usize, len: usize, alignment: usize) -> Vec<IoBuffer> {
        let mut buffers = IoBuffer::batch_on_large_pages(count + 1, len, alignment);
        let keeper = buffers.pop().expect("one more than was asked for");
        let start = buffers.first().map_or(0, |first| first.as_ptr().addr());
        let addresses = start..keeper.as_ptr().addr();
        if self.regions.is_empty() || addresses.is_empty() {
            return buffers;
        }
        let index = self.next_region;
        let memory =
            libc::iovec { iov_base: buffers[0].as_mut_ptr().cast(), iov_len: addresses.len() };
        // SAFETY: the memory is one allocation, of which the region keeps a part (invariant 4). A request that
        // is under way with the region that goes holds its pages in the kernel.
        let answer = unsafe {
            self.ring.submitter().register_buffers_update(
                nandu_base::to_u32(index as u64),
                &[memory],
                None,
            )
        };
        // The one that was there is gone from the kernel's table in either case.
        self.regions[index] = answer.is_ok().then_some(Region { addresses, _keeper: keeper });
        self.next_region = (index + 1) % self.regions.len();
        buffers
    }

    /// Under which number the kernel knows `len` bytes from `address` on.
    fn region_of(&self, address: usize, len: u32) -> Option<u16> {
        let is_within = |region: &Region| {
            region.addresses.start <= address && address + len as usize <= region.addresses.end
        };
        let index =
            self.regions.iter().position(|region| region.as_ref().is_some_and(is_within))?;
        u16::try_from(index).ok()
    }

    fn build(depth: u32, ring_use: RingUse) -> io::Result<IoUring> {
        let entries = depth.max(1).next_power_of_two();
        if ring_use == RingUse::Shared {
            return IoUring::new(entries);
        }
        let refused = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
        let mut deferred = IoUring::builder();
        deferred.setup_single_issuer().setup_defer_taskrun();
        match deferred.build(entries) {
            Err(error) if refused(&error) => {}
            answer => return answer,
        }
        match IoUring::builder().setup_coop_taskrun().build(entries) {
            Err(error) if refused(&error) => IoUring::new(entries),
            answer => answer,
        }
    }

    /// Queues `command`; the kernel hears of it with the next [`Ring::wait`].
    ///
    /// # Safety
    /// The memory that `command` names stays valid and unused until the completion with `tag` was
    /// reaped (invariant 1).
    pub(super) unsafe fn push(&mut self, command: Command, file: u32, tag: u32) {
        let region = match command {
            Command::Read { memory, len, .. } => self.region_of(memory.addr(), len),
            Command::Write { memory, len, .. } => self.region_of(memory.addr(), len),
            Command::Flush | Command::PunchHole { .. } => None,
        };
        let entry = entry_of(command, types::Fixed(file), region).user_data(u64::from(tag));
        // SAFETY: passed on to the caller.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for every request that may be in flight");
        self.queued_count += 1;
    }

    /// What rings when a completion is there to be reaped.
    pub(super) fn doorbell(&self) -> io::Result<Doorbell> {
        // SAFETY: the ring has its descriptor open as long as `self` is borrowed.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        descriptor.try_clone_to_owned().map(Doorbell)
    }

    /// Whether completions come without a call that asks for them.
    pub(super) fn tells_by_itself(&self) -> bool {
        self.ring_use == RingUse::Shared
    }

    /// How many entries wait for the next [`Ring::submit`] or [`Ring::wait`].
    pub(super) const fn queued_count(&self) -> u32 {
        self.queued_count
    }

    /// Hands everything queued to the kernel without waiting.
    ///
    /// # Panics
    /// As [`Ring::wait`].
    pub(super) fn submit(&mut self) {
        let answer = self.ring.submit();
        self.settle(answer);
    }

    /// Hands everything queued to the kernel and waits for one completion, or until `timeout`.
    ///
    /// # Panics
    /// If the kernel refuses [`REFUSALS_MAX`] times in a row: it rejects the ring itself then, and what is
    /// in flight cannot be had back.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) {
        let answer = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let timeout = types::Timespec::from(timeout);
                let arguments = types::SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        self.settle(answer);
    }

    /// Interrupted, timed out, or short of memory for the moment: the caller looks and repeats. So it does
    /// after any other error, since a call that failed did nothing, until there are too many.
    fn settle(&mut self, answer: io::Result<usize>) {
        match answer {
            Ok(_) => self.refusal_count = 0,
            Err(error) => {
                let passing = [libc::EINTR, libc::ETIME, libc::EAGAIN, libc::EBUSY];
                if !passing.contains(&error.raw_os_error().unwrap_or(0)) {
                    self.refusal_count += 1;
                    let is_passing = self.refusal_count < REFUSALS_MAX;
                    assert!(is_passing, "io_uring_enter refused a valid ring: {error}");
                }
            }
        }
        self.queued_count = nandu_base::to_u32(self.ring.submission().len() as u64);
    }

    /// Takes what has completed, up to a batch, without a system call, and gives (tag, result) to
    /// `sink`, the result being bytes or a negative error number.
    pub(super) fn reap(&mut self, mut sink: impl FnMut(u32, i32)) {
        for entry in self.ring.completion().fill(&mut self.reaped[..]) {
            let tag = u32::try_from(entry.user_data()).expect("tags are 32 bits wide");
            sink(tag, entry.result());
        }
    }
}

/// Waits for completions of a ring while others use it.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// Waits until there is a completion that nobody reaped, or for a while. What was pushed and not submitted
    /// brings none.
    ///
    /// # Panics
    /// If the system refuses to wait, which would be our own mistake.
    pub fn wait(&self) {
        let mut ring = [PollFd::new(&self.0, PollFlags::IN)];
        // A kernel short of memory leaves entries where they are; whoever waits hands them over again.
        let limit = Timespec { tv_sec: 0, tv_nsec: PATIENCE_NS };
        match poll(&mut ring, Some(&limit)) {
            // After a signal whoever waits looks, finds nothing and waits again.
            Ok(_) | Err(Errno::INTR | Errno::NOMEM) => {}
            Err(error) => panic!("poll refused the descriptor of a ring: {error}"),
        }
    }
}

fn entry_of(command: Command, file: types::Fixed, region: Option<u16>) -> squeue::Entry {
    match (command, region) {
        (Command::Read { memory, len, offset }, None) => {
            opcode::Read::new(file, memory, len).offset(offset).build()
        }
        (Command::Read { memory, len, offset }, Some(region)) => {
            opcode::ReadFixed::new(file, memory, len, region).offset(offset).build()
        }
        (Command::Write { memory, len, offset }, None) => {
            opcode::Write::new(file, memory, len).offset(offset).build()
        }
        (Command::Write { memory, len, offset }, Some(region)) => {
            opcode::WriteFixed::new(file, memory, len, region).offset(offset).build()
        }
        (Command::Flush, _) => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        (Command::PunchHole { offset, len }, _) => {
            opcode::Fallocate::new(file, len).offset(offset).mode(super::system::PUNCH_HOLE).build()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(ring: &mut Ring, code: i32, count: u32) {
        (0..count).for_each(|_| ring.settle(Err(io::Error::from_raw_os_error(code))));
    }

    #[test]
    fn a_refusal_that_passes_ends_nothing_and_one_that_stays_does() {
        let Ok(mut ring) = Ring::new(1, 1, RingUse::OneThread) else { return };
        refuse(&mut ring, libc::EINTR, 2 * REFUSALS_MAX);
        refuse(&mut ring, libc::EIO, REFUSALS_MAX - 1);
        ring.settle(Ok(0));
        refuse(&mut ring, libc::EIO, REFUSALS_MAX - 1);
        let last = std::panic::AssertUnwindSafe(|| refuse(&mut ring, libc::EIO, 1));
        assert!(std::panic::catch_unwind(last).is_err(), "the ring itself is refused");
    }
}
