//! The suite that every volume passes, and a device that a test keeps hold of while a volume has it.
//! Call [`check_volume`] from a test with a maker of fresh, empty volumes; it panics where a rule of
//! [`crate::volume`] is broken.

use super::{FileRequest, NO_RECORDS, RESERVED_NAMES, Volume};
use crate::{FileId, Lsn, StorageError};
use nandu_base::{Nanos, Rng, to_index};
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, IoBuffer, Operation, Rejected, Request,
    TimeSource,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A maker of fresh, equal volumes.
pub type MakeVolume<'a> = &'a mut dyn FnMut() -> Box<dyn Volume>;

/// A device under a volume that a test can still reach, to cut its power, say.
#[derive(Debug)]
pub struct SharedDevice<D> {
    info: DeviceInfo,
    device: Arc<Mutex<D>>,
}

impl<D> Clone for SharedDevice<D> {
    fn clone(&self) -> Self {
        Self { info: self.info.clone(), device: Arc::clone(&self.device) }
    }
}

impl<D: Device> SharedDevice<D> {
    /// Lets a volume and a test share `device`.
    pub fn new(device: D) -> Self {
        let info = device.info().clone();
        Self { info, device: Arc::new(Mutex::new(device)) }
    }

    /// The same device, whose buffers have to lie on multiples of so many bytes by this handle.
    #[must_use]
    pub fn with_buffer_alignment(mut self, bytes: u32) -> Self {
        self.info.buffer_alignment = bytes;
        self
    }

    /// The device, locked: nobody else uses it until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, D> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Device for SharedDevice<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.lock().now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        self.lock().submit(now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.lock().next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.lock().in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.lock().idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.lock().counters()
    }
}

/// Checks the rules of [`crate::volume`] that show without a power cut.
///
/// # Panics
/// Where one is broken, naming it.
pub fn check_volume(make: MakeVolume<'_>) {
    files_have_names_and_numbers(make().as_mut());
    unwritten_bytes_are_zeros(make().as_mut());
    bytes_come_back(make().as_mut());
    lengths_follow_writes_and_cuts(make().as_mut());
    requests_complete_once_and_in_order(make().as_mut());
    syncs_leave_other_requests_alone(make().as_mut());
    bad_requests_are_refused(make().as_mut());
    if make().time_source() == TimeSource::Wall {
        what_goes_past_the_queue_sees_what_was_written(make().as_mut());
    }
}

/// A zeroed buffer of so many sectors of `volume`.
#[must_use]
pub fn buffer_for(volume: &dyn Volume, sector_count: u64) -> IoBuffer {
    let bytes = to_index(sector_count * u64::from(volume.sector_bytes()));
    IoBuffer::with_alignment(bytes, volume.buffer_alignment().max(1) as usize)
}

/// Runs one request and waits for it.
///
/// # Errors
/// If it is refused or fails.
///
/// # Panics
/// If something else is in flight.
pub fn run(
    volume: &mut dyn Volume,
    file: FileId,
    operation: Operation,
    offset_bytes: u64,
    buffer: IoBuffer,
) -> Result<IoBuffer, StorageError> {
    let length_bytes = buffer.len() as u64;
    let buffer = Some(buffer);
    let request = FileRequest { id: 77, operation, offset_bytes, length_bytes, buffer };
    volume.submit(file, volume.now(), request)?;
    let done = volume.next_completion(Nanos::MAX).expect("a request in flight completes");
    assert_eq!(done.id, 77, "the completion is that of the request");
    let what = format!("{} at {offset_bytes}", operation.label());
    done.result.map_err(|error| StorageError::Device { what, error })?;
    Ok(done.buffer.expect("the buffer comes back"))
}

/// Writes sectors that are filled with `fill`, and waits.
///
/// # Errors
/// As [`run`].
pub fn write_fill(
    volume: &mut dyn Volume,
    file: FileId,
    sector: u64,
    sector_count: u64,
    fill: u8,
) -> Result<(), StorageError> {
    let mut buffer = buffer_for(volume, sector_count);
    buffer.fill(fill);
    let offset_bytes = sector * u64::from(volume.sector_bytes());
    run(volume, file, Operation::Write, offset_bytes, buffer).map(drop)
}

/// The first byte of each sector, all bytes of which must be alike.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// If a sector is torn inside.
pub fn read_fills(
    volume: &mut dyn Volume,
    file: FileId,
    sector: u64,
    sector_count: u64,
) -> Result<Vec<u8>, StorageError> {
    let sector_bytes = volume.sector_bytes() as usize;
    let mut buffer = buffer_for(volume, sector_count);
    buffer.fill(0xEE);
    let offset_bytes = sector * sector_bytes as u64;
    let buffer = run(volume, file, Operation::Read, offset_bytes, buffer)?;
    Ok(buffer
        .chunks(sector_bytes)
        .map(|sector| {
            assert!(sector.iter().all(|&byte| byte == sector[0]), "a sector is of one piece");
            sector[0]
        })
        .collect())
}

fn files_have_names_and_numbers(volume: &mut dyn Volume) {
    assert!(volume.files().is_empty(), "a fresh volume is empty");
    let first = volume.create("alpha").expect("there is room for a file");
    let second = volume.create("beta").expect("there is room for a file");
    assert!(first < second, "numbers ascend");
    assert!(matches!(volume.create("alpha"), Err(StorageError::Exists { .. })));
    let expected = vec![(first, "alpha".to_owned()), (second, "beta".to_owned())];
    assert_eq!(volume.files(), expected);
    for bad in ["", "../up", ".hidden", "a/b", "zero\0", RESERVED_NAMES[0]] {
        let answer = volume.create(bad);
        assert!(matches!(answer, Err(StorageError::InvalidSetting { .. })), "{bad:?}: {answer:?}");
    }
    let long = "n".repeat(super::FILE_NAME_BYTES_MAX + 1);
    assert!(matches!(volume.create(&long), Err(StorageError::TooLarge { .. })));
    volume.create(&long[1..]).expect("the longest name is allowed");
    volume.remove(second).expect("a file can be removed");
    assert!(matches!(volume.remove(second), Err(StorageError::NotFound { .. })));
    assert!(matches!(volume.sync(second, volume.now()), Err(StorageError::NotFound { .. })));
    assert!(matches!(volume.set_byte_count(second, 0), Err(StorageError::NotFound { .. })));
    let third = volume.create_logged("gamma", Lsn(70)).expect("there is room for a file");
    assert_eq!(third, second, "rule 4: a number is used again");
    assert_eq!(volume.records_from(third), Lsn(70), "rule 4: of which records the file knows");
    assert_eq!(volume.records_from(first), NO_RECORDS, "rule 4: no log speaks of the others");
    let fourth = volume.create("beta").expect("the name is free again");
    assert!(![first, second, third].contains(&fourth), "rule 4: no other file has the number");
    volume.sync(first, volume.now()).expect("a sync succeeds");
}

fn unwritten_bytes_are_zeros(volume: &mut dyn Volume) {
    let old = volume.create("old").expect("there is room");
    for sector in (0..128).step_by(16) {
        write_fill(volume, old, sector, 16, 0xAB).expect("a write succeeds");
    }
    volume.remove(old).expect("a file can be removed");
    let new = volume.create("new").expect("there is room");
    assert_eq!(read_fills(volume, new, 0, 8).expect("past the end"), [0; 8], "rule 2");
    write_fill(volume, new, 40, 2, 7).expect("a write past the end succeeds");
    assert_eq!(volume.byte_count(new), 42 * u64::from(volume.sector_bytes()), "rule 2");
    let fills = read_fills(volume, new, 0, 100).expect("a read succeeds");
    let expected = |sector| if (40..42).contains(&sector) { 7 } else { 0 };
    assert!((0..100).zip(&fills).all(|(sector, &fill)| fill == expected(sector)), "rule 2");
}

/// One file as the suite believes it to be.
#[derive(Default)]
struct Model {
    fills: BTreeMap<u64, u8>,
    sector_count: u64,
}

fn bytes_come_back(volume: &mut dyn Volume) {
    let names = ["one", "two", "three"];
    let mut files: Vec<(FileId, Model)> = Vec::new();
    for name in names {
        files.push((volume.create(name).expect("there is room"), Model::default()));
    }
    let mut rng = Rng::new(21);
    for step in 0..400 {
        let (file, model) = &mut files[to_index(rng.below(3))];
        let (sector, count) = (rng.below(200), 1 + rng.below(24));
        match rng.below(12) {
            0..=4 => {
                let fill = 1 + u8::try_from(rng.below(255)).expect("below 255");
                write_fill(volume, *file, sector, count, fill).expect("a write succeeds");
                model.fills.extend((sector..sector + count).map(|at| (at, fill)));
                model.sector_count = model.sector_count.max(sector + count);
            }
            5..=8 => {
                let found = read_fills(volume, *file, sector, count).expect("a read succeeds");
                for (at, fill) in (sector..).zip(found) {
                    let expected = model.fills.get(&at).copied().unwrap_or(0);
                    assert_eq!(fill, expected, "step {step}: sector {at} of file {}", file.0);
                }
            }
            9 => {
                let sector_bytes = u64::from(volume.sector_bytes());
                trim(volume, *file, sector * sector_bytes, count * sector_bytes);
                model.fills.retain(|&at, _| !(sector..sector + count).contains(&at));
            }
            10 => {
                volume.sync(*file, volume.now()).expect("a sync succeeds");
            }
            _ => {
                let bytes = sector * u64::from(volume.sector_bytes());
                volume.set_byte_count(*file, bytes).expect("the length can be set");
                model.fills.retain(|&at, _| at < sector);
                model.sector_count = sector;
            }
        }
        let bytes = model.sector_count * u64::from(volume.sector_bytes());
        assert_eq!(volume.byte_count(*file), bytes, "step {step}: rule 2");
    }
}

fn trim(volume: &mut dyn Volume, file: FileId, offset_bytes: u64, length_bytes: u64) {
    let operation = Operation::Trim;
    let request = FileRequest { id: 5, operation, offset_bytes, length_bytes, buffer: None };
    volume.submit(file, volume.now(), request).expect("a trim is accepted");
    let done = volume.next_completion(Nanos::MAX).expect("a trim completes");
    done.result.expect("a trim succeeds");
}

fn lengths_follow_writes_and_cuts(volume: &mut dyn Volume) {
    let file = volume.create("log").expect("there is room");
    let sector_bytes = u64::from(volume.sector_bytes());
    volume.set_byte_count(file, 300 * sector_bytes).expect("there is room");
    assert_eq!(volume.byte_count(file), 300 * sector_bytes);
    assert_eq!(read_fills(volume, file, 296, 8).expect("a read succeeds"), [0; 8]);
    write_fill(volume, file, 0, 4, 3).expect("a write succeeds");
    write_fill(volume, file, 299, 1, 9).expect("a write succeeds");
    volume.sync(file, volume.now()).expect("a sync succeeds");
    assert_eq!(volume.byte_count(file), 300 * sector_bytes, "a write inside leaves the length");
    volume.set_byte_count(file, 2 * sector_bytes).expect("a file can be cut");
    volume.set_byte_count(file, 300 * sector_bytes).expect("and made longer");
    assert_eq!(read_fills(volume, file, 0, 4).expect("a read succeeds"), [3, 3, 0, 0]);
    assert_eq!(read_fills(volume, file, 299, 1).expect("a read succeeds"), [0], "cut bytes");
    let odd = volume.set_byte_count(file, sector_bytes + 1);
    assert!(matches!(odd, Err(StorageError::InvalidSetting { .. })));
}

fn requests_complete_once_and_in_order(volume: &mut dyn Volume) {
    let file = volume.create("busy").expect("there is room");
    write_fill(volume, file, 0, 64, 1).expect("a write succeeds");
    let depth = volume.queue_depth_max().min(32);
    let sector_bytes = u64::from(volume.sector_bytes());
    for id in 0..u64::from(depth) {
        // The last ones are past the end, where no device is asked.
        let buffer = Some(buffer_for(volume, 2));
        let (offset_bytes, length_bytes) = (4 * id * sector_bytes, 2 * sector_bytes);
        let operation = if id % 3 == 1 { Operation::Write } else { Operation::Read };
        let request = FileRequest { id, operation, offset_bytes, length_bytes, buffer };
        volume.submit(file, volume.now(), request).expect("there is room in the queue");
    }
    assert_eq!(volume.in_flight(), depth);
    let mut seen = vec![false; depth as usize];
    let mut last = Nanos::ZERO;
    while let Some(done) = volume.next_completion(Nanos::MAX) {
        done.result.as_ref().expect("no fault was planned");
        let slot = &mut seen[to_index(done.id)];
        assert!(!*slot, "request {} completed twice", done.id);
        *slot = true;
        assert!(done.completed_at >= last, "completions come in order");
        assert!(done.completed_at >= done.issued_at, "time runs forwards");
        last = done.completed_at;
    }
    assert!(seen.iter().all(|&done| done), "every request completes");
    assert_eq!(volume.in_flight(), 0);
}

fn syncs_leave_other_requests_alone(volume: &mut dyn Volume) {
    if volume.queue_depth_max() < 4 {
        return;
    }
    let data = volume.create("data").expect("there is room");
    let log = volume.create("log").expect("there is room");
    let sector_bytes = u64::from(volume.sector_bytes());
    for id in 0..3 {
        let mut buffer = buffer_for(volume, 1);
        buffer.fill(5);
        let (offset_bytes, length_bytes) = (id * sector_bytes, sector_bytes);
        let operation = Operation::Write;
        let buffer = Some(buffer);
        let request = FileRequest { id, operation, offset_bytes, length_bytes, buffer };
        volume.submit(data, volume.now(), request).expect("there is room in the queue");
    }
    let before = volume.now();
    let done = volume.sync(log, before).expect("a sync succeeds");
    assert!(done >= before, "time runs forwards");
    let mut ids: Vec<u64> = std::iter::from_fn(|| volume.next_completion(Nanos::MAX))
        .map(|completion| completion.id)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2], "their completions are kept");
    assert_eq!(read_fills(volume, data, 0, 3).expect("a read succeeds"), [5; 3]);
    let operation = Operation::Flush;
    let request = FileRequest { id: 9, operation, offset_bytes: 0, length_bytes: 0, buffer: None };
    volume.submit(data, volume.now(), request).expect("a flush is accepted");
    volume.next_completion(Nanos::MAX).expect("it completes").result.expect("a flush succeeds");
}

fn bad_requests_are_refused(volume: &mut dyn Volume) {
    let file = volume.create("file").expect("there is room");
    let sector_bytes = u64::from(volume.sector_bytes());
    let mut refused = |file, operation, offset_bytes, length_bytes, sectors: u64| {
        let buffer = (sectors > 0).then(|| buffer_for(volume, sectors));
        let request = FileRequest { id: 1, operation, offset_bytes, length_bytes, buffer };
        volume.submit(file, volume.now(), request).expect_err("a bad request")
    };
    let unknown = refused(FileId(999), Operation::Read, 0, sector_bytes, 1);
    assert!(matches!(unknown, StorageError::NotFound { .. }));
    let device_error = |error| match error {
        StorageError::Device { error, .. } => error,
        other => panic!("not the device's: {other}"),
    };
    let odd = refused(file, Operation::Read, 7, sector_bytes, 1);
    assert!(matches!(device_error(odd), DeviceError::Misaligned { .. }));
    let short = refused(file, Operation::Write, 0, 2 * sector_bytes, 1);
    assert!(matches!(device_error(short), DeviceError::BufferLength { .. }));
    let empty = refused(file, Operation::Read, 0, 0, 0);
    assert_eq!(device_error(empty), DeviceError::EmptyRequest);
    let far = refused(file, Operation::Write, u64::MAX - sector_bytes + 1, sector_bytes, 1);
    assert!(matches!(far, StorageError::NoSpace { .. }));
    assert_eq!(volume.in_flight(), 0, "a refused request costs nothing");
    assert_eq!(volume.byte_count(file), 0, "and changes nothing");
}

fn what_goes_past_the_queue_sees_what_was_written(volume: &mut dyn Volume) {
    let Some(past_queue) = volume.past_queue() else { return };
    let file = volume.create("pages").expect("there is room");
    write_fill(volume, file, 0, 4, 1).expect("a write succeeds");
    write_fill(volume, file, 4, 4, 2).expect("a write succeeds");
    let sector_bytes = u64::from(volume.sector_bytes());
    std::thread::scope(|scope| {
        for first in [0_u64, 2, 6, 8] {
            let (past_queue, mut buffer) = (past_queue.clone(), buffer_for(volume, 4));
            scope.spawn(move || {
                buffer.fill(0xEE);
                let read = past_queue.read_at(file, first * sector_bytes, &mut buffer);
                read.expect("a read succeeds");
                for (sector, bytes) in (first..).zip(buffer.chunks(to_index(sector_bytes))) {
                    let expected = [1, 1, 1, 1, 2, 2, 2, 2].get(to_index(sector)).unwrap_or(&0);
                    assert!(bytes.iter().all(|byte| byte == expected), "sector {sector}");
                }
            });
        }
    });
    past_queue.sync(file).expect("a sync succeeds");
    volume.remove(file).expect("a file can be removed");
    let gone = past_queue.read_at(file, 0, &mut buffer_for(volume, 1));
    assert!(matches!(gone, Err(StorageError::NotFound { .. })));
    assert!(matches!(past_queue.sync(file), Err(StorageError::NotFound { .. })));
}
