//! Requests kept back by a device, and threads that wait for a kernel that answers in any order.

use super::super::testing::SharedDevice;
use super::super::{DeviceVolume, PastQueue};
use super::*;
use nandu_base::Rng;
use nandu_device::{
    Counters, Device, DeviceInfo, Geometry, MemoryConfig, MemoryDevice, Rejected, Request,
};
use std::sync::{Condvar as StdCondvar, Mutex as StdMutex, mpsc};
use std::thread;
use std::time::Duration;

/// A device that keeps requests back until somebody waits.
#[derive(Debug)]
struct Reluctant {
    info: DeviceInfo,
    inner: MemoryDevice,
    held: Vec<Request>,
}

impl Reluctant {
    fn new() -> Self {
        let geometry = Geometry { sector_bytes: 512, sector_count: 1 << 14 };
        let inner = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        let info = DeviceInfo { time_source: TimeSource::Wall, ..inner.info().clone() };
        Self { info, inner, held: Vec::new() }
    }
}

impl Device for Reluctant {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, _now: Nanos, request: Request) -> Result<(), Rejected> {
        self.held.push(request);
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        for request in self.held.drain(..) {
            self.inner.submit(self.inner.now(), request).unwrap();
        }
        self.inner.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight() + u32::try_from(self.held.len()).unwrap()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[test]
fn what_is_submitted_ahead_is_under_way_before_anybody_waits() {
    let device = SharedDevice::new(Reluctant::new());
    let mut volume = DeviceVolume::format(Box::new(device.clone())).unwrap();
    let file = volume.create("table").unwrap();
    volume.set_byte_count(file, 1 << 16).unwrap();
    let io = Io::new(Box::new(volume), Arc::default());
    let mut tickets = Vec::new();
    for (offset, is_ahead) in [(0, false), (4096, true)] {
        let buffer = IoBuffer::zeroed(4096);
        let begin = if is_ahead { Io::submit_ahead } else { Io::submit };
        let owner = IoOwner::Operator;
        tickets.push(begin(&io, owner, file, Operation::Write, offset, buffer).unwrap());
        assert_eq!(device.lock().held.is_empty(), is_ahead);
    }
    for ticket in tickets {
        assert!(io.wait(ticket).result.is_ok());
    }
}

/// Many threads' requests; the test says what the kernel has done.
#[derive(Clone, Default)]
struct Kernel(Arc<(StdMutex<Requests>, StdCondvar)>);

#[derive(Default)]
struct Requests {
    /// Issued and not handed over.
    kept_back: Vec<FileRequest>,
    with_kernel: Vec<FileRequest>,
    done: VecDeque<Completion>,
    /// Whether a sync has to wait.
    is_sync_slow: bool,
    sync_count: u64,
}

/// The same as a volume; it holds so many requests at a time.
struct KernelVolume(Kernel, u32);

impl Kernel {
    fn io(&self, queue_depth_max: u32) -> Io {
        Io::new(Box::new(KernelVolume(self.clone(), queue_depth_max)), Arc::default())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Requests) -> T) -> T {
        let (requests, told) = &*self.0;
        let answer = change(&mut requests.lock().unwrap());
        told.notify_all();
        answer
    }

    fn wait_while(&self, waits: impl Fn(&Requests) -> bool) {
        let (requests, told) = &*self.0;
        drop(told.wait_while(requests.lock().unwrap(), |requests| waits(requests)).unwrap());
    }

    /// Does one of the requests that it has; whether there was one.
    fn finish(&self, choose: impl FnOnce(usize) -> usize) -> bool {
        self.with(|requests| {
            let count = requests.with_kernel.len();
            if count == 0 {
                return false;
            }
            let FileRequest { id, operation, buffer, .. } =
                requests.with_kernel.swap_remove(choose(count));
            let (issued_at, completed_at, result) = (Nanos::ZERO, Nanos::ZERO, Ok(()));
            let done = Completion { id, operation, issued_at, completed_at, result, buffer };
            requests.done.push_back(done);
            true
        })
    }
}

impl PastQueue for Kernel {
    fn read_at(&self, _: FileId, _: u64, _: &mut [u8]) -> Result<(), StorageError> {
        Ok(())
    }

    fn sync(&self, _: FileId) -> Result<(), StorageError> {
        self.with(|requests| requests.sync_count += 1);
        self.wait_while(|requests| requests.is_sync_slow);
        Ok(())
    }

    fn wait_for_arrival(&self) {
        self.wait_while(|requests| requests.done.is_empty());
    }
}

impl Volume for KernelVolume {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn sector_bytes(&self) -> u32 {
        512
    }

    fn buffer_alignment(&self) -> u32 {
        1
    }

    fn queue_depth_max(&self) -> u32 {
        self.1
    }

    fn time_source(&self) -> TimeSource {
        TimeSource::Wall
    }

    fn volatile_cache(&self) -> bool {
        true
    }

    fn now(&self) -> Nanos {
        Nanos::ZERO
    }

    fn files(&self) -> Vec<(FileId, String)> {
        Vec::new()
    }

    fn create_logged(&mut self, _: &str, _: Lsn) -> Result<FileId, StorageError> {
        unreachable!("files are not looked up")
    }

    fn records_from(&self, _: FileId) -> Lsn {
        Lsn(0)
    }

    fn remove(&mut self, _: FileId) -> Result<(), StorageError> {
        Ok(())
    }

    fn byte_count(&self, _: FileId) -> u64 {
        0
    }

    fn set_byte_count(&mut self, _: FileId, _: u64) -> Result<(), StorageError> {
        Ok(())
    }

    fn submit(&mut self, _: FileId, _: Nanos, request: FileRequest) -> Result<(), StorageError> {
        assert!(self.in_flight() < self.1, "there is room");
        self.0.with(|requests| requests.kept_back.push(request));
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        assert_eq!(until, Nanos::ZERO, "nobody waits who has the volume");
        self.hand_over();
        self.0.with(|requests| requests.done.pop_front())
    }

    fn in_flight(&self) -> u32 {
        self.0.with(|requests| {
            let count = requests.kept_back.len() + requests.with_kernel.len();
            u32::try_from(count + requests.done.len()).unwrap()
        })
    }

    fn sync(&mut self, _: FileId, _: Nanos) -> Result<Nanos, StorageError> {
        unreachable!("nobody syncs who has the volume")
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        time
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn past_queue(&self) -> Option<Arc<dyn PastQueue>> {
        Some(Arc::new(self.0.clone()))
    }

    fn hand_over(&mut self) {
        self.0.with(|requests| {
            let kept_back = std::mem::take(&mut requests.kept_back);
            requests.with_kernel.extend(kept_back);
        });
    }
}

fn read(io: &Io, number: u64) -> u64 {
    let buffer = IoBuffer::copy_of(&number.to_le_bytes());
    io.submit(IoOwner::Operator, FileId(1), Operation::Read, 0, buffer).unwrap()
}

/// The number that a request carried.
fn wait_for(io: &Io, ticket: u64) -> u64 {
    let completion = io.wait(ticket);
    assert_eq!(completion.id, ticket);
    u64::from_le_bytes(completion.buffer.unwrap()[..].try_into().unwrap())
}

#[test]
fn neither_a_sync_nor_a_wait_keeps_others_from_the_volume() {
    let kernel = Kernel::default();
    kernel.with(|requests| requests.is_sync_slow = true);
    let io = &kernel.io(8);
    thread::scope(|scope| {
        let syncs = scope.spawn(|| io.sync(FileId(1)));
        kernel.wait_while(|requests| requests.sync_count == 0);
        let first = read(io, 1);
        let waits = scope.spawn(move || wait_for(io, first));
        kernel.wait_while(|requests| requests.with_kernel.is_empty());
        // One is in a sync, one waits for the kernel; all else goes on, and the second reader, whose request
        // is done first, is told by the one who waits.
        assert_eq!(io.counters(), Counters::default());
        let second = read(io, 2);
        let waits_too = scope.spawn(move || wait_for(io, second));
        kernel.wait_while(|requests| requests.with_kernel.len() < 2);
        assert!(kernel.finish(|count| count - 1));
        assert_eq!(waits_too.join().unwrap(), 2);
        assert!(!waits.is_finished() && !syncs.is_finished());
        assert!(kernel.finish(|_| 0));
        assert_eq!(waits.join().unwrap(), 1);
        kernel.with(|requests| requests.is_sync_slow = false);
        syncs.join().unwrap().unwrap();
    });
}

#[test]
fn every_thread_gets_its_own_whatever_the_order_and_however_short_the_queue() {
    const THREAD_COUNT: u64 = 6;
    const ROUND_COUNT: u64 = 300;
    for (seed, queue_depth_max) in [(1, 1), (2, 2), (3, 5), (4, 64)] {
        let kernel = Kernel::default();
        let io = kernel.io(queue_depth_max);
        let (ended, ends) = mpsc::channel();
        thread::scope(|scope| {
            for number in 0..THREAD_COUNT {
                let (io, ended) = (&io, ended.clone());
                scope.spawn(move || {
                    let mut rng = Rng::new(seed * 100 + number);
                    for round in 0..ROUND_COUNT {
                        let word = number << 32 | round;
                        let ahead = rng.below(2) == 0;
                        let ticket = read(io, word);
                        if ahead {
                            io.hand_over();
                        }
                        assert_eq!(wait_for(io, ticket), word);
                    }
                    ended.send(()).unwrap();
                });
            }
            let mut rng = Rng::new(seed);
            let mut left_count = THREAD_COUNT;
            while left_count > 0 {
                if !kernel.finish(|count| usize::try_from(rng.below(count as u64)).unwrap()) {
                    // Long enough that a thread which nobody tells shows as a test that does not end.
                    let wait = Duration::from_micros(50);
                    left_count -= u64::from(ends.recv_timeout(wait).is_ok());
                }
            }
        });
        assert_eq!(kernel.with(|requests| requests.done.len()), 0);
    }
}
