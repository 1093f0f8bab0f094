//! Directories as volumes: the suite through every way of I/O, locks, crashes, foreign directories.

use super::*;
use nandu_storage::volume::testing::{check_volume, read_fills, write_fill};
use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

mod hostile;
mod making;
mod power;

const MANIFEST_NAME: &str = "nandu.files";
const NEW_MANIFEST_NAME: &str = "nandu.files.new";

const OPTIONS: DirectoryOptions = DirectoryOptions {
    direct: DirectIo::Auto,
    engine: EngineKind::Auto,
    read_only: false,
    sector_bytes: None,
    queue_depth: 16,
};

fn passes_the_suite(options: DirectoryOptions) {
    let directory = tempfile::tempdir().unwrap();
    let mut count = 0;
    check_volume(&mut || {
        count += 1;
        let path = directory.path().join(format!("volume{count}"));
        Box::new(DirectoryVolume::create(&path, options).unwrap())
    });
    assert!(count > 5);
}

#[test]
fn a_directory_passes_the_suite() {
    passes_the_suite(OPTIONS);
}

#[test]
fn a_directory_behind_the_page_cache_passes_the_suite() {
    passes_the_suite(DirectoryOptions { direct: DirectIo::Never, ..OPTIONS });
}

#[test]
fn a_directory_without_io_uring_passes_the_suite() {
    passes_the_suite(DirectoryOptions { engine: EngineKind::Psync, ..OPTIONS });
}

#[test]
fn a_directory_of_larger_sectors_passes_the_suite() {
    passes_the_suite(DirectoryOptions { sector_bytes: Some(4096), ..OPTIONS });
}

#[test]
fn direct_io_is_used_where_it_was_not_refused() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str, direct| {
        let options = DirectoryOptions { direct, ..OPTIONS };
        DirectoryVolume::create(&directory.path().join(name), options)
    };
    assert!(!open("never", DirectIo::Never).unwrap().is_direct());
    let auto = open("auto", DirectIo::Auto).unwrap();
    match open("always", DirectIo::Always) {
        Ok(volume) => assert!(volume.is_direct() && auto.is_direct()),
        Err(error) => {
            assert!(!auto.is_direct(), "{error}");
            assert!(matches!(error, StorageError::InvalidSetting { .. }));
        }
    }
}

#[test]
fn a_volume_goes_from_thread_to_thread_with_requests_in_flight() {
    let directory = tempfile::tempdir().unwrap();
    let mut volume = DirectoryVolume::create(&directory.path().join("volume"), OPTIONS).unwrap();
    let file = volume.create("file").unwrap();
    let volume = std::thread::spawn(move || {
        for id in 0..8 {
            let mut buffer = nandu_storage::volume::testing::buffer_for(&volume, 1);
            buffer.fill(7);
            let length_bytes = buffer.len() as u64;
            let (operation, buffer) = (Operation::Write, Some(buffer));
            let offset_bytes = id * length_bytes;
            let request = FileRequest { id, operation, offset_bytes, length_bytes, buffer };
            volume.submit(file, Nanos::ZERO, request).unwrap();
        }
        volume
    });
    let mut volume = volume.join().unwrap();
    for _ in 0..8 {
        volume.next_completion(Nanos::MAX).unwrap().result.unwrap();
    }
    assert_eq!(read_fills(&mut volume, file, 0, 8).unwrap(), [7; 8]);
    volume.audit();
}

#[test]
fn files_are_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut volume = DirectoryVolume::create(directory.path(), OPTIONS).unwrap();
    let (a, b) = (volume.create("a").unwrap(), volume.create("b").unwrap());
    write_fill(&mut volume, a, 3, 2, 9).unwrap();
    volume.set_byte_count(b, 1 << 20).unwrap();
    volume.sync(a, Nanos::ZERO).unwrap();
    let (files, length) = (volume.files(), volume.byte_count(a));
    drop(volume);
    let mut volume = DirectoryVolume::open(directory.path(), OPTIONS).unwrap();
    volume.audit();
    assert_eq!(volume.files(), files);
    assert_eq!((volume.byte_count(a), volume.byte_count(b)), (length, 1 << 20));
    assert_eq!(read_fills(&mut volume, a, 2, 4).unwrap(), [0, 9, 9, 0]);
    volume.remove(b).unwrap();
    drop(volume);
    let mut volume = DirectoryVolume::open(directory.path(), OPTIONS).unwrap();
    assert_eq!(volume.create_logged("c", Lsn(12)).unwrap(), b, "the number is free again");
    drop(volume);
    let volume = DirectoryVolume::open(directory.path(), OPTIONS).unwrap();
    assert_eq!((volume.records_from(a), volume.records_from(b)), (NO_RECORDS, Lsn(12)));
    volume.audit();
}

#[test]
fn what_an_earlier_process_left_unsynced_is_synced_file_by_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volume");
    let mut volume = DirectoryVolume::create(&path, OPTIONS).unwrap();
    for name in ["a", "b", "c"] {
        let file = volume.create(name).unwrap();
        write_fill(&mut volume, file, 0, 1, 7).unwrap();
    }
    drop(volume);
    let mut volume = DirectoryVolume::open(&path, OPTIONS).unwrap();
    assert_eq!(volume.counters().flushes.request_count, 0);
    volume.sync_found().unwrap();
    assert_eq!(volume.counters().flushes.request_count, 3);
    drop(volume);
    let options = DirectoryOptions { read_only: true, ..OPTIONS };
    let answer = DirectoryVolume::open(&path, options).unwrap().sync_found();
    assert!(matches!(answer, Err(StorageError::ReadOnly { .. })), "{answer:?}");
}

#[test]
fn foreign_directories_are_told_apart_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let open = |path: &Path| DirectoryVolume::open(path, OPTIONS).unwrap_err();
    assert!(matches!(open(path), StorageError::NotADatabase { .. }), "an empty directory");
    std::fs::write(path.join("letter.txt"), "dear").unwrap();
    assert!(matches!(open(path), StorageError::NotADatabase { .. }));
    assert!(matches!(open(&path.join("letter.txt")), StorageError::NotADatabase { .. }));
    assert!(matches!(open(&path.join("nowhere")), StorageError::NotFound { .. }));
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 1, "nothing was left there");
    let error = DirectoryVolume::create(path, OPTIONS).unwrap_err();
    assert!(error.to_string().contains("letter.txt"), "{error}");
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 1, "no lock was left there");
    let made = path.join("made");
    drop(DirectoryVolume::create(&made, OPTIONS).unwrap());
    let again = DirectoryVolume::create(&made, OPTIONS).unwrap_err();
    assert!(matches!(again, StorageError::Exists { .. }));
    std::fs::write(made.join(MANIFEST_NAME), "nandu volume 7\n").unwrap();
    assert!(open(&made).to_string().contains("version 7"));
    std::fs::write(made.join(MANIFEST_NAME), "something else").unwrap();
    assert!(matches!(open(&made), StorageError::NotADatabase { .. }));
    std::fs::write(made.join(MANIFEST_NAME), "nandu volume 2\nmade 1\nchecksum 00000000\n")
        .unwrap();
    assert!(matches!(open(&made), StorageError::Corrupt { .. }));
}

#[test]
fn files_of_others_are_never_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let mut volume = DirectoryVolume::create(directory.path(), OPTIONS).unwrap();
    std::fs::write(directory.path().join("notes"), "mine").unwrap();
    assert!(matches!(volume.create("notes"), Err(StorageError::Exists { .. })));
    assert!(matches!(volume.create(MANIFEST_NAME), Err(StorageError::InvalidSetting { .. })));
    drop(volume);
    let volume = DirectoryVolume::open(directory.path(), OPTIONS).unwrap();
    assert!(volume.files().is_empty());
    assert_eq!(std::fs::read_to_string(directory.path().join("notes")).unwrap(), "mine");
}

#[test]
fn what_a_crash_left_half_done_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut volume = DirectoryVolume::create(path, OPTIONS).unwrap();
    let (kept, removed) = (volume.create("kept").unwrap(), volume.create("removed").unwrap());
    write_fill(&mut volume, kept, 0, 1, 4).unwrap();
    write_fill(&mut volume, removed, 0, 1, 5).unwrap();
    volume.remove(removed).unwrap();
    drop(volume);
    // The unlinking, and the making of a file, did not reach the disk; a manifest was begun.
    std::fs::write(path.join("removed"), "still here").unwrap();
    std::fs::write(path.join(NEW_MANIFEST_NAME), "nandu vol").unwrap();
    let mut manifest = Manifest::decode(&std::fs::read(path.join(MANIFEST_NAME)).unwrap()).unwrap();
    assert_eq!(manifest.gone, [FileName::new("removed").unwrap()]);
    let name = FileName::new("begun").unwrap();
    manifest.files.insert(FileId(3), Listed { name, records_from: NO_RECORDS, is_new: true });
    std::fs::write(path.join(MANIFEST_NAME), manifest.encode()).unwrap();
    // Who may make nothing sees it without that file, and leaves all as it is.
    let read_only = DirectoryOptions { read_only: true, ..OPTIONS };
    let reader = DirectoryVolume::open(path, read_only).unwrap();
    reader.audit();
    assert!(reader.files().into_iter().map(|(_, name)| name).eq(["kept"]));
    drop(reader);
    let unchanged = std::fs::read_to_string(path.join(MANIFEST_NAME)).unwrap();
    assert_eq!(unchanged, manifest.encode());
    assert!(path.join("removed").exists() && !path.join("begun").exists());
    let mut volume = DirectoryVolume::open(path, OPTIONS).unwrap();
    volume.audit();
    let names: Vec<String> = volume.files().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["kept", "begun"]);
    assert_eq!(volume.byte_count(FileId(3)), 0);
    assert!(!path.join("removed").exists());
    assert_eq!(read_fills(&mut volume, kept, 0, 1).unwrap(), [4]);
    volume.create("removed").unwrap();
    drop(volume);
    std::fs::remove_file(path.join("kept")).unwrap();
    let error = DirectoryVolume::open(path, OPTIONS).unwrap_err();
    assert!(error.to_string().contains("kept is missing"), "{error}");
}

#[test]
fn readers_share_a_directory_and_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let read_only = DirectoryOptions { read_only: true, ..OPTIONS };
    let refused = DirectoryVolume::create(&directory.path().join("new"), read_only).unwrap_err();
    assert!(matches!(refused, StorageError::ReadOnly { .. }));
    let mut volume = DirectoryVolume::create(directory.path(), OPTIONS).unwrap();
    let file = volume.create("file").unwrap();
    write_fill(&mut volume, file, 0, 2, 6).unwrap();
    let locked = DirectoryVolume::open(directory.path(), read_only).unwrap_err();
    assert!(matches!(locked, StorageError::Locked { .. }), "a writer excludes readers");
    drop(volume);
    let mut one = DirectoryVolume::open(directory.path(), read_only).unwrap();
    let two = DirectoryVolume::open(directory.path(), read_only).unwrap();
    assert_eq!(read_fills(&mut one, file, 0, 2).unwrap(), [6, 6]);
    let is_refused = |answer| matches!(answer, Err(StorageError::ReadOnly { .. }));
    assert!(is_refused(write_fill(&mut one, file, 0, 1, 1)));
    assert!(is_refused(one.set_byte_count(file, 0)));
    assert!(is_refused(one.remove(file)));
    assert!(is_refused(one.create("other").map(drop)));
    let excluded = DirectoryVolume::open(directory.path(), OPTIONS).unwrap_err();
    assert!(matches!(excluded, StorageError::Locked { .. }), "readers exclude a writer");
    drop((one, two));
    DirectoryVolume::open(directory.path(), OPTIONS).unwrap();
}

#[test]
fn refusals_of_the_system_are_named() {
    let of = |kind: ErrorKind| system_error("cannot", Path::new("x"), &kind.into());
    assert!(matches!(of(ErrorKind::ReadOnlyFilesystem), StorageError::ReadOnly { .. }));
    assert!(matches!(of(ErrorKind::PermissionDenied), StorageError::ReadOnly { .. }));
    assert!(matches!(of(ErrorKind::StorageFull), StorageError::NoSpace { .. }));
    assert!(matches!(of(ErrorKind::QuotaExceeded), StorageError::NoSpace { .. }));
    assert!(matches!(of(ErrorKind::NotFound), StorageError::NotFound { .. }));
    assert!(matches!(of(ErrorKind::TimedOut), StorageError::Device { .. }));
}

/// Which part this process plays for a test in another one, and in which directory.
const PART: &str = "NANDU_TEST_PART";
/// How a process ends that was to die.
const DIED: i32 = 77;

thread_local! {
    /// After how many further changes to a directory this process dies.
    static LIFE: Cell<Option<u32>> = const { Cell::new(None) };
}

pub(super) use power::after_sync;

/// A change to a directory is next: notes what a power cut would leave, and ends the process, as a kill
/// would, if its time has come.
pub(super) fn before_change(directory: &Path) {
    power::note(directory);
    match LIFE.get() {
        Some(0) => std::process::exit(DIED),
        Some(left) => LIFE.set(Some(left - 1)),
        None => {}
    }
}

/// Starts this program again to play `part`, through `shell` if there is one.
fn play(part: &str, directory: &Path, shell: Option<&str>) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = match shell {
        Some(line) => {
            let mut command = Command::new("sh");
            command.args(["-c", line]).arg(&program);
            command
        }
        None => Command::new(&program),
    };
    command.args([
        "--exact",
        "directory_volume::tests::plays_a_part_in_another_test",
        "--nocapture",
    ]);
    command.env(PART, format!("{part}:{}", directory.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// No test of its own: what other tests start in a second process.
#[test]
fn plays_a_part_in_another_test() {
    let Ok(part) = std::env::var(PART) else { return };
    let (part, directory) = part.split_once(':').unwrap();
    match part {
        "hold" => {
            let _volume = DirectoryVolume::open(Path::new(directory), OPTIONS).unwrap();
            println!("held");
            // Until the other process closes the pipe, or kills this one.
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        "fill" => fill_up(Path::new(directory)),
        "make" => making::make_and_die(directory),
        other => panic!("no part is called {other}"),
    }
}

#[test]
fn a_second_process_is_told_who_has_the_directory_and_a_killed_one_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    drop(DirectoryVolume::create(directory.path(), OPTIONS).unwrap());
    let mut child = play("hold", directory.path(), None);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("held")));
    let error = DirectoryVolume::open(directory.path(), OPTIONS).unwrap_err();
    let place = directory.path().display().to_string();
    assert_eq!(error, StorageError::Locked { place, holder: Some(child.id()) });
    child.kill().unwrap();
    child.wait().unwrap();
    DirectoryVolume::open(directory.path(), OPTIONS).unwrap();
}

/// Plays the full file system: no file may pass 1 MiB here.
fn fill_up(directory: &Path) {
    for (name, engine) in [("ring", EngineKind::Auto), ("psync", EngineKind::Psync)] {
        let options = DirectoryOptions { engine, ..OPTIONS };
        let mut volume = DirectoryVolume::create(&directory.join(name), options).unwrap();
        let file = volume.create("file").unwrap();
        let sectors = (64 << 10) / u64::from(volume.sector_bytes());
        let mut at = 0;
        let error = loop {
            match write_fill(&mut volume, file, at, sectors, 3) {
                Ok(()) => at += sectors,
                Err(error) => break error,
            }
            assert!(at < 100 * sectors, "the limit holds");
        };
        let of_device = StorageError::Device { what: String::new(), error: DeviceError::NoSpace };
        let StorageError::Device { error: DeviceError::NoSpace, .. } = error else {
            panic!("{error} instead of {of_device}");
        };
        let longer = volume.set_byte_count(file, 4 << 20).unwrap_err();
        assert!(matches!(longer, StorageError::NoSpace { .. }), "{longer}");
        volume.audit();
        assert_eq!(
            read_fills(&mut volume, file, 0, at).unwrap(),
            vec![3; nandu_base::to_index(at)]
        );
        volume.set_byte_count(file, 64 << 10).unwrap();
        write_fill(&mut volume, file, 0, sectors, 4).unwrap();
        volume.sync(file, Nanos::ZERO).unwrap();
        let other = volume.create("other").unwrap();
        write_fill(&mut volume, other, 0, sectors, 5).unwrap();
    }
    println!("full as expected");
}

#[test]
fn a_full_file_system_fails_the_request_and_leaves_the_volume_usable() {
    let directory = tempfile::tempdir().unwrap();
    // Sizes of ulimit are in blocks of 512 or 1024 bytes, as the shell likes.
    let line = "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"";
    let output = play("fill", directory.path(), Some(line)).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("full as expected"), "{said}");
}
