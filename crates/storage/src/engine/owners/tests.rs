//! Which media are taken for those of a log, and what is said of the others.

use super::*;
use crate::propagation::Medium;
use crate::volume::{DeviceVolume, Io};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use std::collections::BTreeMap;
use std::sync::Arc;

fn volume() -> Io {
    let geometry = Geometry { sector_bytes: 512, sector_count: 8 << 10 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let device = Box::new(memory);
    Io::new(Box::new(DeviceVolume::format(device).unwrap()), Arc::default())
}

fn media<'n>(others: impl IntoIterator<Item = (&'n str, &'n Io)>) -> Media {
    let medium = |(name, io): (&str, &Io)| (name.to_owned(), Medium::Volume(io.clone()));
    Media::new(volume(), others.into_iter().map(medium).collect::<BTreeMap<_, _>>())
}

fn open_log(database: u64, run: u32) -> LogState {
    LogState { database, run, is_closed: false, is_doubtful: false }
}

#[test]
fn media_of_another_database_and_swapped_ones_are_told_by_their_names() {
    let (tier, copies) = (volume(), volume());
    let mut owners = Owners::find(&media([("tier", &tier), ("copies", &copies)])).unwrap();
    let told = owners.check(open_log(7, 1)).unwrap_err().to_string();
    assert!(told.contains("does not say that it belongs to any database"), "{told}");
    assert!(told.contains("; name the `copies` of the database in memory"), "{told}");
    owners.check_free().unwrap();
    owners.say_making(7, 1).unwrap();
    let found = || Owners::find(&media([("tier", &tier), ("copies", &copies)])).unwrap();
    found().check_free().expect("one whose making was interrupted is free");
    found().check(open_log(7, 1)).expect("it may have been interrupted at its end");
    owners.say_made().unwrap();
    found().check(open_log(7, 1)).unwrap();
    let told = found().check_free().unwrap_err().to_string();
    assert!(
        told.contains("the volume `copies` (memory) belongs to the database in memory"),
        "{told}"
    );
    assert!(told.contains("name another one, or if that database is gone, empty this"), "{told}");
    let told = found().check(open_log(8, 1)).unwrap_err().to_string();
    assert!(
        told.contains("`copies` (memory) belongs to another database, that in memory"),
        "{told}"
    );
    let swapped = Owners::find(&media([("tier", &copies), ("copies", &tier)])).unwrap();
    let told = swapped.check(open_log(7, 1)).unwrap_err().to_string();
    assert!(told.contains("the volume `copies` (memory) is the `tier` of the database"), "{told}");
    assert!(told.contains("not its `copies`; name each by its own"), "{told}");
}

#[test]
fn a_medium_of_another_moment_is_refused_and_one_that_a_cut_left_is_not() {
    let io = volume();
    let mut owners = Owners::find(&media([("tier", &io)])).unwrap();
    owners.say_making(7, 1).unwrap();
    owners.say_made().unwrap();
    let is_taken = |run: u32, is_closed: bool| {
        let found = Owners::find(&media([("tier", &io)])).unwrap();
        match found.check(LogState { is_closed, ..open_log(7, run) }) {
            Ok(()) => true,
            Err(StorageError::Corrupt { what, .. }) => {
                assert!(what.contains("is of another moment"), "{what}");
                assert!(what.contains("put back both from copies of one moment"), "{what}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    };
    let taken = |runs: [u32; 3]| runs.map(|run| [is_taken(run, false), is_taken(run, true)]);
    let (no, open, both) = ([false, false], [true, false], [true, true]);
    assert_eq!(taken([0, 1, 2]), [no, open, no]);
    owners.say_closed().unwrap();
    assert_eq!(taken([0, 1, 2]), [no, both, no]);
    // The log is closed, then opened in a run that need not be the next number.
    owners.say_next(1, 5).unwrap();
    assert_eq!(taken([1, 2, 5]), [both, no, open]);
    owners.say_begun().unwrap();
    assert_eq!(taken([1, 5, 6]), [no, open, no]);
    // A cut, and the next opening.
    owners.say_next(5, 6).unwrap();
    assert_eq!(taken([1, 5, 6]), [no, open, open]);
    // Another, behind which the log was in the next run and the medium not yet.
    owners.say_next(6, 7).unwrap();
    assert_eq!(taken([5, 6, 7]), [no, open, open]);
    owners.say_begun().unwrap();
    owners.say_closed().unwrap();
    assert_eq!(taken([6, 7, 8]), [no, both, no]);
    let doubtful = LogState { is_doubtful: true, ..open_log(7, 6) };
    Owners::find(&media([("tier", &io)])).unwrap().check(doubtful).unwrap();
}
