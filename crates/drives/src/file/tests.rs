//! The contract on real files, through both engines, and the drive's own promises.

use super::*;
use nandu_device::testing::{check_contract, run};
use std::path::PathBuf;

const SIZE: ByteCount = ByteCount::mib(2);
const RESERVE: ByteCount = ByteCount::ZERO;

/// Direct I/O where the directory's file system does it, else buffered with a word about it.
fn drive_in(directory: &Path, options: FileOptions) -> FileDrive {
    let scratch = ScratchFile::create(directory, SIZE, RESERVE).unwrap();
    match scratch.into_drive(options) {
        Err(FileError::DirectRefused { path }) => {
            println!("{}: no O_DIRECT, tested through the page cache", path.display());
            let scratch = ScratchFile::create(directory, SIZE, RESERVE).unwrap();
            scratch.into_drive(FileOptions { direct: false, ..options }).unwrap()
        }
        answer => answer.unwrap(),
    }
}

fn keeps_the_contract(engine: EngineKind, direct: bool) {
    let directory = tempfile::tempdir().unwrap();
    let options = FileOptions { engine, direct, queue_depth: 16, ..FileOptions::default() };
    if engine == EngineKind::IoUring && Ring::new(1, 1, RingUse::OneThread).is_err() {
        println!("no io_uring here, its contract is not tested");
        return;
    }
    check_contract(&mut || {
        let drive = drive_in(directory.path(), options);
        drive.audit();
        Box::new(drive)
    });
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no scratch file is left");
}

#[test]
fn direct_io_uring_keeps_the_contract() {
    keeps_the_contract(EngineKind::IoUring, true);
}

#[test]
fn buffered_io_uring_keeps_the_contract() {
    keeps_the_contract(EngineKind::IoUring, false);
}

#[test]
fn direct_psync_keeps_the_contract() {
    keeps_the_contract(EngineKind::Psync, true);
}

#[test]
fn buffered_psync_keeps_the_contract() {
    keeps_the_contract(EngineKind::Psync, false);
}

#[test]
fn reading_leaves_the_time_of_the_last_access_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("read-only");
    std::fs::write(&path, [7_u8; 4096]).unwrap();
    // An access before the last change is what even `relatime` would bring up to date.
    let times = std::fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(times).unwrap();
    for engine in [EngineKind::Psync, EngineKind::Auto] {
        let options =
            FileOptions { engine, direct: false, read_only: true, ..FileOptions::default() };
        let mut drive = open_existing(&path, false, options).unwrap();
        let buffer = buffer_for(&drive, 512);
        drive.submit(Nanos::ZERO, Request::read(1, 0, 1, Some(buffer))).unwrap();
        assert_eq!(drive.next_completion(Nanos::MAX).unwrap().buffer.unwrap()[0], 7);
    }
    assert_eq!(std::fs::metadata(&path).unwrap().atime(), 0);
}

#[test]
fn the_contract_holds_in_shared_memory_file_systems() {
    let shared = Path::new("/dev/shm");
    if !shared.is_dir() {
        return;
    }
    let directory = tempfile::tempdir_in(shared).unwrap();
    check_contract(&mut || Box::new(drive_in(directory.path(), FileOptions::default())));
}

#[test]
fn psync_has_a_queue_of_one_and_auto_tells_what_it_chose() {
    let directory = tempfile::tempdir().unwrap();
    let psync = FileOptions { engine: EngineKind::Psync, ..FileOptions::default() };
    let drive = drive_in(directory.path(), psync);
    assert_eq!((drive.info().queue_depth_max, drive.engine()), (1, EngineKind::Psync));
    let drive = drive_in(directory.path(), FileOptions::default());
    assert_ne!(drive.engine(), EngineKind::Auto);
}

#[test]
fn requests_in_flight_survive_the_drop_of_their_drive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let options = FileOptions { direct: false, ..FileOptions::default() };
    let mut drive = open_existing(&path, true, options).unwrap();
    let depth = drive.info().queue_depth_max.min(64);
    for id in 0..u64::from(depth) {
        let buffer = IoBuffer::copy_of(&[7; 4096]);
        drive.submit(Nanos::ZERO, Request::write(id, 8 * id, 8, Some(buffer))).unwrap();
        drive.audit();
    }
    drop(drive);
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[..4096 * depth as usize].iter().all(|&byte| byte == 7));
}

/// More rounds than the ring keeps pieces of memory registered, so early buffers are used after theirs went.
#[test]
fn buffers_known_to_the_kernel_carry_what_others_do() {
    let directory = tempfile::tempdir().unwrap();
    for engine in [EngineKind::Auto, EngineKind::Psync] {
        let mut drive =
            drive_in(directory.path(), FileOptions { engine, ..FileOptions::default() });
        let sector_bytes = u64::from(drive.info().geometry.sector_bytes);
        let sector_count = nandu_base::to_u32(8192 / sector_bytes);
        let mut kept: Vec<IoBuffer> = Vec::new();
        for round in 0..7_u8 {
            kept.extend(drive.buffers(3, 8192));
            for (place, mut buffer) in (0_u8..).zip(std::mem::take(&mut kept)) {
                let first_sector = u64::from(place) * u64::from(sector_count);
                buffer.fill(round * 32 + place);
                let write = Request::write(1, first_sector, sector_count, Some(buffer));
                let mut buffer = run(&mut drive, write).buffer.unwrap();
                buffer.fill(0);
                let read = Request::read(2, first_sector, sector_count, Some(buffer));
                let buffer = run(&mut drive, read).buffer.unwrap();
                assert!(buffer.iter().all(|&byte| byte == round * 32 + place), "{round} {place}");
                kept.push(buffer);
            }
        }
        drive.audit();
        drop(drive);
        assert_eq!(kept[0][0], 6 * 32, "buffers outlive their drive");
    }
}

#[test]
fn a_time_limit_in_the_past_still_starts_the_request() {
    let directory = tempfile::tempdir().unwrap();
    let mut drive = drive_in(directory.path(), FileOptions::default());
    let buffer = buffer_for(&drive, 4096);
    let sectors = 4096 / drive.info().geometry.sector_bytes;
    drive.submit(Nanos::ZERO, Request::read(1, 0, sectors, Some(buffer))).unwrap();
    let deadline = drive.now() + Nanos::from_seconds(20);
    let mut told = None;
    while told.is_none() && drive.now() < deadline {
        told = drive.next_completion(Nanos::ZERO);
    }
    assert!(told.expect("it was started").result.is_ok());
    drive.audit();
}

#[test]
fn writes_to_a_read_only_drive_are_handed_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, [3; 8192]).unwrap();
    let options = FileOptions { read_only: true, direct: false, ..FileOptions::default() };
    let mut drive = open_existing(&path, false, options).unwrap();
    let buffer = || Some(IoBuffer::zeroed(512));
    let done = run(&mut drive, Request::read(1, 15, 1, buffer()));
    assert_eq!(done.buffer.unwrap()[..], [3; 512]);
    let rejected = drive.submit(Nanos::ZERO, Request::write(2, 0, 1, buffer())).unwrap_err();
    assert_eq!(rejected.error, DeviceError::ReadOnly);
    assert_eq!(drive.in_flight(), 0);
}

#[test]
fn a_file_that_is_truncated_in_mid_run_fails_reads_and_keeps_the_drive_usable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    for engine in [EngineKind::Auto, EngineKind::Psync] {
        std::fs::write(&path, [3; 8192]).unwrap();
        let options = FileOptions { engine, direct: false, ..FileOptions::default() };
        let mut drive = open_existing(&path, true, options).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1024).unwrap();
        let read = |first, count: u32| {
            Request::read(1, first, count, Some(IoBuffer::zeroed(512 * count as usize)))
        };
        for (first, count) in [(1, 2), (8, 1)] {
            let error = run(&mut drive, read(first, count)).result.unwrap_err();
            assert!(matches!(error, DeviceError::Media { .. }), "{error}");
        }
        run(&mut drive, read(0, 2)).result.unwrap();
        assert_eq!(drive.counters().reads.error_count, 2);
        drive.audit();
    }
}

#[test]
fn a_file_that_loses_its_name_in_mid_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, [3; 8192]).unwrap();
    let options = FileOptions { direct: false, ..FileOptions::default() };
    let mut drive = open_existing(&path, true, options).unwrap();
    std::fs::remove_file(&path).unwrap();
    run(&mut drive, Request::write(1, 0, 1, Some(IoBuffer::zeroed(512)))).result.unwrap();
}

#[test]
fn error_numbers_become_the_errors_of_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let drive = drive_in(directory.path(), FileOptions::default());
    let sector_bytes = u64::from(drive.info().geometry.sector_bytes);
    let of = |code| {
        queue::device_error(drive.queue.file(ONLY_FILE), Operation::Write, 3 * sector_bytes, code)
    };
    assert!(matches!(of(libc::EIO), DeviceError::Media { first_sector: 3, .. }));
    assert_eq!(of(libc::ENOSPC), DeviceError::NoSpace);
    assert_eq!(of(libc::EROFS), DeviceError::ReadOnly);
    assert!(of(libc::ENODEV).to_string().contains("the device is gone"));
    assert!(matches!(of(libc::EINVAL), DeviceError::Misaligned { .. }));
    assert!(matches!(of(libc::ENOMEM), DeviceError::System { code: libc::ENOMEM, .. }));
}

#[test]
fn sectors_too_small_for_direct_io_are_refused_with_the_size_that_works() {
    let path = PathBuf::from("/dev/disk");
    let error = FileError::SectorSize { path, asked_bytes: 512, needed_bytes: 4096 };
    assert!(error.to_string().ends_with("use 4096"));
    let directory = tempfile::tempdir().unwrap();
    let options = FileOptions { sector_bytes: Some(3000), direct: false, ..Default::default() };
    let scratch = ScratchFile::create(directory.path(), SIZE, RESERVE).unwrap();
    let error = scratch.into_drive(options).unwrap_err();
    assert!(error.to_string().contains("power of two"), "{error}");
}

#[test]
fn a_scratch_file_has_no_name_and_is_filled_with_data() {
    let directory = tempfile::tempdir().unwrap();
    let size = ByteCount(3 * (1 << 20) + 4096);
    let scratch = ScratchFile::create(directory.path(), size, RESERVE).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let mut heard = Vec::new();
    scratch.fill(5, &mut |bytes| heard.push(bytes), &|| false).unwrap();
    assert_eq!((heard.len(), heard.last()), (4, Some(&size)));
    assert!(heard.is_sorted());
    let options = FileOptions { direct: false, ..FileOptions::default() };
    let mut drive = scratch.into_drive(options).unwrap();
    assert_eq!(drive.info().geometry.capacity(), size);
    for sector in [0, 5000, drive.info().geometry.sector_count - 1] {
        let done = run(&mut drive, Request::read(1, sector, 1, Some(IoBuffer::zeroed(512))));
        let zeros = done.buffer.unwrap().iter().filter(|&&byte| byte == 0).count();
        assert!(zeros < 20, "sector {sector} holds random bytes");
    }
}

#[test]
fn filling_stops_when_it_is_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = ScratchFile::create(directory.path(), ByteCount::mib(8), RESERVE).unwrap();
    let written = std::cell::Cell::new(ByteCount::ZERO);
    let stop = || written.get() >= ByteCount::mib(2);
    let answer = scratch.fill(5, &mut |bytes| written.set(bytes), &stop);
    assert_eq!(answer, Err(FileError::Cancelled));
    assert!(written.get() < ByteCount::mib(8));
}

#[test]
fn the_named_fallback_leaves_no_name_either() {
    let directory = tempfile::tempdir().unwrap();
    let file = scratch::named_and_unlinked(directory.path()).unwrap();
    file.set_len(512).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn bad_places_for_a_scratch_file_are_refused_with_path_and_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let create = |path: &Path, size| ScratchFile::create(path, size, ByteCount::gib(1));
    let error = create(Path::new("/no/such/directory"), SIZE).unwrap_err();
    assert!(error.to_string().starts_with("/no/such/directory: does not exist"), "{error}");
    let error = create(&file, SIZE).unwrap_err();
    assert!(matches!(error, FileError::WrongKind { .. }), "{error}");
    let error = create(directory.path(), ByteCount(1 << 60)).unwrap_err();
    assert!(matches!(error, FileError::NoRoom { .. }), "{error}");
    assert!(error.to_string().contains("--size"), "{error}");
    let free = system::free_bytes(directory.path()).unwrap();
    let error = ScratchFile::create(directory.path(), SIZE, free).unwrap_err();
    assert!(matches!(error, FileError::NoRoom { .. }), "the reserve counts: {error}");
    // /proc takes files from nobody, root included.
    let error = create(Path::new("/proc"), ByteCount(512)).unwrap_err();
    assert!(error.to_string().starts_with("/proc: "), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was left");
}

#[test]
fn a_buffered_file_can_be_emptied_from_memory_and_keeps_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    for direct in [false, true] {
        let mut drive = drive_in(directory.path(), FileOptions { direct, ..Default::default() });
        let mut buffer = buffer_for(&drive, 4096);
        buffer.fill(7);
        run(&mut drive, Request::write(1, 8, 8, Some(buffer))).result.unwrap();
        // Past the page cache there is nothing to empty; some file systems have no such way.
        let is_buffered = drive.is_buffered;
        assert_eq!(drive.empty_cache(), Ok(is_buffered));
        assert!(is_buffered || direct);
        let buffer = buffer_for(&drive, 4096);
        let done = run(&mut drive, Request::read(2, 8, 8, Some(buffer)));
        assert!(done.buffer.unwrap().iter().all(|&byte| byte == 7));
        drive.audit();
    }
}

#[test]
fn what_exists_is_overwritten_only_with_permission() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, [3; 8192]).unwrap();
    let options = FileOptions { direct: false, ..FileOptions::default() };
    let error = open_existing(&path, false, options).unwrap_err();
    assert!(matches!(error, FileError::WouldDestroyData { .. }));
    assert!(error.to_string().contains("--destroy-data"));
    assert!(open_existing(&path, true, options).is_ok());
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    let error = open_existing(&path, true, options).unwrap_err();
    assert_eq!(error, FileError::ReadOnly { path });
}

#[test]
fn targets_that_hold_no_sectors_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = FileOptions { direct: false, ..FileOptions::default() };
    let kind = |path: &Path| open_existing(path, true, options).unwrap_err();
    assert!(matches!(kind(directory.path()), FileError::WrongKind { found: "a directory", .. }));
    assert!(matches!(kind(Path::new("/dev/null")), FileError::WrongKind { .. }));
    assert!(matches!(kind(Path::new("/no/such/file")), FileError::Missing { .. }));
    let short = directory.path().join("short");
    std::fs::write(&short, [1; 511]).unwrap();
    assert_eq!(kind(&short), FileError::Empty { path: short });
}

#[test]
fn a_mounted_block_device_is_refused_even_with_permission_to_destroy() {
    let mounted = disk_description(Path::new("/")).source.map(PathBuf::from);
    let Some(device) = mounted.filter(|path| {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
    }) else {
        println!("the root file system is on no block device to be seen here");
        return;
    };
    let error = open_existing(&device, true, FileOptions::default()).unwrap_err();
    assert!(matches!(error, FileError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("unmount"), "{error}");
}
