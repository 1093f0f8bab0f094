//! Requests to one or more open files, with the kernel or done but not yet told: what a
//! [`super::FileDrive`] and a [`super::FileSet`] share.
//!
//! ```text
//!             ┌ Ring    queued, handed over in fours or by the next next_completion
//!   slot ─────┤
//!             └ Psync   done at once
//!   ready ◄─ reap (one look at the clock per batch) ◄─ completion ring
//! ```
//!
//! 1. Every slot is free, with the kernel, or ready: the three counts add up to the queue depth.
//! 2. A buffer with the kernel neither moves nor goes: its slot holds it until the completion was
//!    reaped, and dropping the queue waits for all of them first. So does the file that it names.
//! 3. Times are the monotonic clock since opening; completions come out in their order.

use super::system;
use super::uring::{Command, Doorbell, Ring};
use nandu_base::{Nanos, to_index, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{Completion, Counters, DeviceError, IoBuffer, Operation};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most bytes that go into one transfer; longer ones are continued.
const TRANSFER_MAX_BYTES: u64 = 1 << 30;

/// How many queued requests are worth a system call of their own. At two a virtual disk makes 5 % more
/// requests at 10 % more processor time; from eight on it starves, since completions arrive in bunches.
const HANDOVER_COUNT: u32 = 4;

/// What a queue knows of a file.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) name: String,
    pub(super) is_block_device: bool,
    /// Whether reads past the end give zeros, or say that the file was truncated.
    pub(super) is_endless: bool,
    /// Errors name sectors of so many bytes.
    pub(super) sector_bytes: u32,
}

impl OpenFile {
    /// Makes what was written durable, and waits.
    pub(super) fn sync(&self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(|error| self.error(Operation::Flush, 0, &error))
    }

    pub(super) fn error(
        &self,
        operation: Operation,
        offset: u64,
        error: &std::io::Error,
    ) -> DeviceError {
        device_error(self, operation, offset, error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// The requests in flight to the files of a set.
pub(super) struct FileQueue {
    files: Vec<Option<Arc<OpenFile>>>,
    origin: Instant,
    /// The ring; `None` where requests are made one by one with pread and pwrite.
    ring: Option<Ring>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: VecDeque<Ready>,
    kernel_count: u32,
    counters: Counters,
    busy_since: Nanos,
}

/// A request in flight.
#[derive(Debug, Default)]
struct Slot {
    request: Option<InFlight>,
    /// Which of the set's files it goes to.
    file: u32,
    is_endless: bool,
    /// Where it starts, in bytes.
    offset: u64,
    /// How long it is, in bytes; zero for a flush.
    len: u64,
    /// How much of it is done, which is less than all only after a short transfer.
    done: u64,
}

/// A request that is done but not yet told.
#[derive(Debug)]
struct Ready {
    slot: u32,
    /// Zero, or the error number.
    code: i32,
    completed_at: Nanos,
}

impl FileQueue {
    /// An empty queue of `depth` requests; without a ring, psync.
    pub(super) fn new(ring: Option<Ring>, depth: u32) -> Self {
        Self {
            files: Vec::new(),
            origin: Instant::now(),
            ring,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            free: (0..depth).rev().collect(),
            ready: VecDeque::with_capacity(depth as usize),
            kernel_count: 0,
            counters: Counters::default(),
            busy_since: Nanos::ZERO,
        }
    }

    /// Takes in a file; the answer names it in requests.
    pub(super) fn add(&mut self, file: OpenFile) -> std::io::Result<u32> {
        let vacant = self.files.iter().position(Option::is_none);
        let index = vacant.unwrap_or(self.files.len());
        if let Some(ring) = &mut self.ring {
            ring.set_file(to_u32(index as u64), Some(file.file.as_fd()))?;
        }
        if vacant.is_none() {
            self.files.push(None);
        }
        self.files[index] = Some(Arc::new(file));
        Ok(to_u32(index as u64))
    }

    /// Lets go of a file, of which nothing may be in flight.
    pub(super) fn remove(&mut self, file: u32) {
        let mut taken = self.slots.iter().filter(|slot| slot.request.is_some());
        assert!(taken.all(|slot| slot.file != file), "nothing of the file may be in flight");
        self.files[file as usize] = None;
        if let Some(ring) = &mut self.ring {
            // A file that stays registered costs an entry, nothing else.
            let _ = ring.set_file(file, None);
        }
    }

    /// A file that was added.
    pub(super) fn file(&self, file: u32) -> &Arc<OpenFile> {
        self.files[file as usize].as_ref().expect("files that were added are there")
    }

    /// Zeroed buffers whose memory the kernel knows beforehand, where it can.
    pub(super) fn buffers(&mut self, count: usize, len: usize, alignment: usize) -> Vec<IoBuffer> {
        match &mut self.ring {
            Some(ring) => ring.buffers(count, len, alignment),
            None => IoBuffer::batch_on_large_pages(count, len, alignment),
        }
    }

    pub(super) const fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    pub(super) fn depth(&self) -> u32 {
        to_u32(self.slots.len() as u64)
    }

    pub(super) fn in_flight(&self) -> u32 {
        to_u32((self.slots.len() - self.free.len()) as u64)
    }

    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        if self.kernel_count > 0 {
            counters.busy += self.clock().saturating_sub(self.busy_since);
        }
        counters
    }

    pub(super) fn clock(&self) -> Nanos {
        nanos_of(self.origin.elapsed())
    }

    /// Checks the module's first invariant.
    ///
    /// # Panics
    /// Where it is broken.
    pub(super) fn audit(&self) {
        let taken = self.slots.iter().filter(|slot| slot.request.is_some()).count();
        assert_eq!(taken + self.free.len(), self.slots.len(), "invariant 1: free or taken");
        let told = self.kernel_count as usize + self.ready.len();
        assert_eq!(taken, told, "invariant 1: with the kernel or ready");
    }

    /// Issues a checked request for `len` bytes of a file; there is a free slot.
    pub(super) fn submit(&mut self, file: u32, offset: u64, len: u64, request: InFlight) {
        let index = self.free.pop().expect("a checked queue has a free slot");
        let &OpenFile { is_block_device, is_endless, .. } = &**self.file(file);
        let (operation, issued_at) = (request.operation, request.issued_at);
        let len = if operation == Operation::Flush { 0 } else { len };
        let request = Some(request);
        self.slots[index as usize] = Slot { request, file, is_endless, offset, len, done: 0 };
        if self.kernel_count == 0 {
            self.busy_since = issued_at;
        }
        self.kernel_count += 1;
        if self.ring.is_none() || (is_block_device && operation == Operation::Trim) {
            let code = self.transfer_now(index);
            let now = self.clock();
            self.settle(index, code, now);
        } else {
            self.push(index);
        }
    }

    /// Queues what is left of a slot's request for the kernel.
    #[allow(unsafe_code, reason = "the kernel will use the buffer that the slot holds")]
    fn push(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let request = slot.request.as_mut().expect("only taken slots are pushed");
        let (offset, done) = (slot.offset + slot.done, to_index(slot.done));
        let len = to_u32((slot.len - slot.done).min(TRANSFER_MAX_BYTES));
        let command = match (request.operation, &mut request.buffer) {
            (Operation::Read, Some(buffer)) => {
                Command::Read { memory: buffer[done..].as_mut_ptr(), len, offset }
            }
            (Operation::Write, Some(buffer)) => {
                Command::Write { memory: buffer[done..].as_ptr(), len, offset }
            }
            (Operation::Trim, _) => Command::PunchHole { offset, len: slot.len },
            (Operation::Flush, _) => Command::Flush,
            (Operation::Read | Operation::Write, None) => unreachable!("needs_buffers was checked"),
        };
        let ring = self.ring.as_mut().expect("only the ring engine pushes");
        // SAFETY: the slot holds the buffer, whose bytes never move, until the completion with this
        // index was reaped; `drop` waits for that too. Nobody touches the buffer meanwhile.
        unsafe { ring.push(command, slot.file, index) };
        if ring.queued_count() >= HANDOVER_COUNT {
            ring.submit();
        }
    }

    /// Does a slot's request with ordinary system calls; zero or the error number.
    fn transfer_now(&mut self, index: u32) -> i32 {
        let slot = &mut self.slots[index as usize];
        let open = self.files[slot.file as usize].as_ref().expect("requests name files");
        let OpenFile { file, is_block_device, .. } = &**open;
        let request = slot.request.as_mut().expect("only taken slots are transferred");
        let answer = match (request.operation, &mut request.buffer) {
            (Operation::Read, Some(buffer)) if slot.is_endless => {
                read_past_end(file, buffer, slot.offset)
            }
            (Operation::Read, Some(buffer)) => file.read_exact_at(buffer, slot.offset),
            (Operation::Write, Some(buffer)) => file.write_all_at(buffer, slot.offset),
            (Operation::Trim, _) if *is_block_device => {
                system::discard(file.as_fd(), slot.offset, slot.len)
            }
            (Operation::Trim, _) => system::punch_hole(file.as_fd(), slot.offset, slot.len),
            (Operation::Flush, _) => file.sync_data(),
            (Operation::Read | Operation::Write, None) => unreachable!("needs_buffers was checked"),
        };
        // No error number means that the file ended early, which `device_error` calls truncation.
        answer.map_or_else(|error| error.raw_os_error().unwrap_or(libc::ENODATA), |()| 0)
    }

    /// Moves a slot from the kernel to the ready ones.
    fn settle(&mut self, slot: u32, code: i32, completed_at: Nanos) {
        self.ready.push_back(Ready { slot, code, completed_at });
        self.kernel_count -= 1;
        if self.kernel_count == 0 {
            self.counters.busy += completed_at.saturating_sub(self.busy_since);
        }
    }

    /// Takes in what the completion ring holds; tells whether anything became ready.
    fn reap(&mut self) -> bool {
        let Some(ring) = self.ring.as_mut() else { return false };
        let mut now = None;
        let mut repeats: Vec<u32> = Vec::new();
        let (slots, ready, origin) = (&mut self.slots, &mut self.ready, self.origin);
        ring.reap(|slot, result| match outcome_of(&mut slots[slot as usize], result) {
            Some(code) => {
                let completed_at = *now.get_or_insert_with(|| nanos_of(origin.elapsed()));
                ready.push_back(Ready { slot, code, completed_at });
                self.kernel_count -= 1;
            }
            None => repeats.push(slot),
        });
        for index in repeats {
            self.push(index);
        }
        if self.kernel_count == 0 {
            let end = now.unwrap_or(self.busy_since);
            self.counters.busy += end.saturating_sub(self.busy_since);
        }
        now.is_some()
    }

    /// Hands over what is queued for the kernel.
    pub(super) fn hand_over(&mut self) {
        if let Some(ring) = &mut self.ring
            && ring.queued_count() > 0
        {
            ring.submit();
        }
    }

    /// What waits for the kernel without the queue; `None` where nothing is ever left to wait for.
    pub(super) fn doorbell(&self) -> std::io::Result<Option<Doorbell>> {
        self.ring.as_ref().map(Ring::doorbell).transpose()
    }

    /// The completion that comes next, if one comes at or before `until`; waits for it.
    pub(super) fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(self.tell(&ready));
            }
            if self.kernel_count == 0 {
                return None;
            }
            if self.reap() {
                continue;
            }
            let ring = self.ring.as_mut().expect("psync is done when submit returns");
            if until == Nanos::ZERO && ring.tells_by_itself() {
                self.hand_over();
                if self.reap() {
                    continue;
                }
                return None;
            }
            if until == Nanos::MAX {
                ring.wait(None);
                continue;
            }
            let left = until.saturating_sub(nanos_of(self.origin.elapsed()));
            ring.wait(Some(Duration::from_nanos(left.0)));
            if !self.reap() && self.clock() >= until {
                return None;
            }
        }
    }

    /// Lets time pass; nothing may be in flight.
    #[allow(clippy::disallowed_methods, reason = "the device is who waits")]
    pub(super) fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert_eq!(self.in_flight(), 0, "nothing may be in flight while idle");
        loop {
            let now = self.clock();
            if now >= time {
                return now;
            }
            std::thread::sleep(Duration::from_nanos((time - now).0));
        }
    }

    /// Makes what was written to a file durable, beside what is in flight.
    pub(super) fn sync_now(&mut self, file: u32) -> Result<(), DeviceError> {
        let answer = self.file(file).sync();
        self.counters.count(Operation::Flush, 0, answer.is_ok());
        answer
    }

    fn tell(&mut self, ready: &Ready) -> Completion {
        let slot = &mut self.slots[ready.slot as usize];
        let (file, offset, len) = (slot.file, slot.offset, slot.len);
        let request = slot.request.take().expect("a ready slot holds its request");
        self.free.push(ready.slot);
        self.counters.count(request.operation, len, ready.code == 0);
        let result = match ready.code {
            0 => Ok(()),
            code => Err(device_error(self.file(file), request.operation, offset, code)),
        };
        request.complete(ready.completed_at, result)
    }
}

#[cold]
pub(super) fn device_error(
    open: &OpenFile,
    operation: Operation,
    offset: u64,
    code: i32,
) -> DeviceError {
    let first_sector = offset / u64::from(open.sector_bytes);
    let what = format!("{} of {}", operation.label(), open.name);
    let message = std::io::Error::from_raw_os_error(code).to_string();
    match code {
        libc::EIO | libc::EILSEQ | libc::EREMOTEIO | libc::ENOLINK => {
            DeviceError::Media { first_sector, what: format!("{what}: {message}") }
        }
        libc::ENODATA => {
            let what = format!("{what}: the data ends here, was the file truncated?");
            DeviceError::Media { first_sector, what }
        }
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => DeviceError::NoSpace,
        libc::EROFS | libc::EPERM | libc::EACCES | libc::EBADF => DeviceError::ReadOnly,
        libc::EINVAL => DeviceError::Misaligned { alignment: open.sector_bytes },
        libc::EOPNOTSUPP => DeviceError::Unsupported { what },
        libc::ENODEV | libc::ENXIO => {
            let message = format!("the device is gone ({message})");
            DeviceError::System { what, code, message }
        }
        _ => DeviceError::System { what, code, message },
    }
}

/// What a completion-ring result means for its slot: the final code, or `None` where the rest of it
/// has to be asked for again.
fn outcome_of(slot: &mut Slot, result: i32) -> Option<i32> {
    let Ok(moved) = u64::try_from(result) else {
        let code = -result;
        return (code != libc::EINTR && code != libc::EAGAIN).then_some(code);
    };
    let operation = slot.request.as_ref().expect("completions name taken slots").operation;
    if matches!(operation, Operation::Trim | Operation::Flush) {
        return Some(0);
    }
    slot.done += moved;
    match (slot.done >= slot.len, moved) {
        (true, _) => Some(0),
        (false, 0) if slot.is_endless && operation == Operation::Read => {
            zero_the_rest(slot);
            Some(0)
        }
        (false, 0) => Some(libc::ENODATA),
        (false, _) => None,
    }
}

fn nanos_of(duration: Duration) -> Nanos {
    Nanos(duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos()))
}

fn zero_the_rest(slot: &mut Slot) {
    let done = to_index(slot.done);
    let buffer = slot.request.as_mut().and_then(|request| request.buffer.as_mut());
    buffer.expect("a read has a buffer")[done..].fill(0);
}

/// Fills `buffer` from `offset` on; past the end of the file with zeros.
pub(super) fn read_past_end(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer[done..].fill(0);
    Ok(())
}

impl Drop for FileQueue {
    /// Waits for what the kernel still has (invariant 2).
    fn drop(&mut self) {
        while self.kernel_count > 0 {
            if !self.reap()
                && let Some(ring) = self.ring.as_mut()
            {
                ring.wait(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_device::IoBuffer;

    #[test]
    fn results_of_the_ring_finish_continue_or_fail_a_slot() {
        let slot = |operation, len| Slot {
            request: Some(InFlight { id: 1, operation, issued_at: Nanos::ZERO, buffer: None }),
            file: 0,
            is_endless: false,
            offset: 0,
            len,
            done: 0,
        };
        let mut read = slot(Operation::Read, 4096);
        assert_eq!(outcome_of(&mut read, 1024), None, "a short read is continued");
        assert_eq!(read.done, 1024);
        assert_eq!(outcome_of(&mut read, -libc::EAGAIN), None, "and asked for again");
        assert_eq!(outcome_of(&mut read, 3072), Some(0));
        assert_eq!(outcome_of(&mut slot(Operation::Write, 512), -libc::ENOSPC), Some(libc::ENOSPC));
        assert_eq!(outcome_of(&mut slot(Operation::Read, 512), 0), Some(libc::ENODATA));
        assert_eq!(outcome_of(&mut slot(Operation::Flush, 0), 0), Some(0));
        let buffer = Some(IoBuffer::copy_of(&[7; 1024]));
        let request =
            InFlight { id: 1, operation: Operation::Read, issued_at: Nanos::ZERO, buffer };
        let mut endless = Slot { is_endless: true, ..slot(Operation::Read, 1024) };
        endless.request = Some(request);
        assert_eq!(outcome_of(&mut endless, 512), None);
        assert_eq!(outcome_of(&mut endless, 0), Some(0));
        let buffer = endless.request.unwrap().buffer.unwrap();
        assert!(buffer[..512] == [7; 512] && buffer[512..] == [0; 512], "past the end are zeros");
    }
}
