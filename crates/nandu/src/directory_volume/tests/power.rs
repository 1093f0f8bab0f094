//! Directories whose power is cut at each change: which of their entries are there then, and what the
//! list of files holds, follows from what was synced.
//!
//! ```text
//!   entries   seen ─ seen ─ synced ─ seen ─ seen ─ cut
//!                             └──────┴──────┴─────── each name as in any of these
//!   a list that was not synced is empty
//! ```
//!
//! 1. File systems may be better than that; none has to be.
//! 2. What other files hold is the engine's business (`engine/tests/file_caches.rs` of
//!    `nandu-storage`): here they keep all that they were given.
//! 3. Each sync is needed: to overlook one makes a test fail, which is tested.

use super::*;
use nandu_base::{Rng, to_index};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

/// Cuts of each moment: all as synced, all as seen, and by the toss of coins.
const FATE_COUNT: u32 = 6;

/// Many are opened: no rings are set up.
const QUICK: DirectoryOptions = DirectoryOptions { engine: EngineKind::Psync, ..OPTIONS };

/// The entries of a directory, with what they hold.
type Entries = BTreeMap<String, Vec<u8>>;
/// The files of a volume; a fill where one was written and synced.
type Files = BTreeMap<&'static str, Option<u8>>;
type Place = &'static Location<'static>;

/// What was seen since the last sync, the outcome of that first.
type Seen = Vec<Entries>;

/// When the power may go.
#[derive(Debug)]
struct Moment {
    /// The directory of the directory, and the directory.
    outer: Seen,
    inner: Seen,
    acknowledged_count: usize,
}

#[derive(Debug)]
struct Recorder {
    outer_path: PathBuf,
    path: PathBuf,
    outer: Seen,
    inner: Seen,
    /// What lists hold that were synced.
    synced_lists: BTreeSet<Vec<u8>>,
    /// A sync that is overlooked.
    overlooked: Option<Place>,
    places: BTreeSet<Place>,
    moments: Vec<Moment>,
    acknowledged_count: usize,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

impl Recorder {
    fn new(directory: &Path, overlooked: Option<Place>) -> Self {
        let outer_path = directory.parent().unwrap().to_path_buf();
        let mut recorder = Self {
            outer_path,
            path: directory.to_path_buf(),
            outer: Vec::new(),
            inner: Vec::new(),
            synced_lists: BTreeSet::new(),
            overlooked,
            places: BTreeSet::new(),
            moments: Vec::new(),
            acknowledged_count: 0,
        };
        // What was there before is durable.
        recorder.synced_lists.extend(std::fs::read(directory.join(MANIFEST_NAME)).ok());
        recorder.outer = vec![recorder.entries(&recorder.outer_path)];
        recorder.inner = vec![recorder.entries(directory)];
        recorder
    }

    /// The entries of a directory that may be missing, in which lists are empty that were not synced.
    fn entries(&self, directory: &Path) -> Entries {
        let found = std::fs::read_dir(directory).into_iter().flatten().map(Result::unwrap);
        let entry = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            let mut bytes = std::fs::read(entry.path()).unwrap_or_default();
            if is_list(&name) && !self.synced_lists.contains(&bytes) {
                bytes.clear();
            }
            (name, bytes)
        };
        found.map(entry).collect()
    }

    fn look(&mut self) {
        let (outer, inner) = (self.entries(&self.outer_path), self.entries(&self.path));
        for (seen, now) in [(&mut self.outer, outer), (&mut self.inner, inner)] {
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        self.moments.push(Moment {
            outer: self.outer.clone(),
            inner: self.inner.clone(),
            acknowledged_count: self.acknowledged_count,
        });
    }

    fn synced(&mut self, directory: &Path, entry: Option<&str>, place: Place) {
        self.places.insert(place);
        if self.overlooked == Some(place) {
            return;
        }
        if let Some(name) = entry {
            self.synced_lists.insert(std::fs::read(directory.join(name)).unwrap());
            return;
        }
        let now = vec![self.entries(directory)];
        match directory == self.path {
            true => self.inner = now,
            false => self.outer = now,
        }
    }
}

impl Moment {
    /// What a cut leaves, made in a directory of its own.
    fn make(&self, place: &Path, fate: u32, rng: &mut Rng) {
        let mut choose = |seen: &Seen| {
            let names: BTreeSet<&String> = seen.iter().flat_map(BTreeMap::keys).collect();
            let mut left = Entries::new();
            for name in names {
                let at = match fate {
                    0 => 0,
                    1 => seen.len() - 1,
                    _ => to_index(rng.below(seen.len() as u64)),
                };
                // A file as long as its name is there; lists are replaced by others.
                let mut as_file = seen[at..].iter().map_while(|entries| entries.get(name));
                let bytes = if is_list(name) { as_file.next() } else { as_file.last() };
                left.extend(bytes.map(|bytes| (name.clone(), bytes.clone())));
            }
            left
        };
        let (outer, inner) = (choose(&self.outer), choose(&self.inner));
        if outer.contains_key("volume") {
            std::fs::create_dir(place).unwrap();
            for (name, bytes) in inner {
                std::fs::write(place.join(name), bytes).unwrap();
            }
        }
    }
}

fn is_list(name: &str) -> bool {
    [MANIFEST_NAME, NEW_MANIFEST_NAME].contains(&name)
}

/// A directory is about to be changed.
pub(super) fn note(directory: &Path) {
    RECORDER.with_borrow_mut(|recorder| {
        let is_watched =
            |it: &&mut Recorder| [&it.path, &it.outer_path].contains(&&directory.into());
        if let Some(recorder) = recorder.as_mut().filter(is_watched) {
            recorder.look();
        }
    });
}

/// A directory, or what an entry of it holds, was synced.
#[track_caller]
pub(in super::super) fn after_sync(directory: &Path, entry: Option<&str>) {
    let place = Location::caller();
    RECORDER.with_borrow_mut(|recorder| {
        if let Some(recorder) = recorder {
            recorder.synced(directory, entry, place);
        }
    });
}

/// What was asked for was acknowledged.
fn acknowledge() {
    RECORDER.with_borrow_mut(|recorder| {
        let recorder = recorder.as_mut().unwrap();
        recorder.acknowledged_count += 1;
        recorder.look();
    });
}

fn fill(volume: &mut DirectoryVolume, file: FileId, fill: u8) {
    write_fill(volume, file, 0, 1, fill).unwrap();
    volume.sync(file, Nanos::ZERO).unwrap();
    acknowledge();
}

fn create(volume: &mut DirectoryVolume, name: &str) -> FileId {
    let file = volume.create(name).unwrap();
    acknowledge();
    file
}

fn remove(volume: &mut DirectoryVolume, file: FileId) {
    volume.remove(file).unwrap();
    acknowledge();
}

/// A history: what is done in a directory, and the files after each acknowledgement; `None` while
/// there is no volume.
struct History {
    prepare: fn(&Path),
    act: fn(&Path),
    states: Vec<Option<Files>>,
    /// Whether in the end no list is left, of a making either.
    leaves_nothing: bool,
}

fn files<const N: usize>(files: [(&'static str, Option<u8>); N]) -> Option<Files> {
    Some(files.into())
}

const HISTORIES: [fn() -> History; 6] =
    [comes_and_goes, finished, made_again, given_up, given_up_and_begun, found_made];

fn comes_and_goes() -> History {
    let act = |path: &Path| {
        let mut volume = DirectoryVolume::create(path, QUICK).unwrap();
        acknowledge();
        let a = create(&mut volume, "a");
        fill(&mut volume, a, 1);
        let b = create(&mut volume, "b");
        remove(&mut volume, a);
        let c = create(&mut volume, "c");
        fill(&mut volume, c, 3);
        remove(&mut volume, b);
        let a = create(&mut volume, "a");
        fill(&mut volume, a, 4);
    };
    let states = vec![
        None,
        files([]),
        files([("a", None)]),
        files([("a", Some(1))]),
        files([("a", Some(1)), ("b", None)]),
        files([("b", None)]),
        files([("b", None), ("c", None)]),
        files([("b", None), ("c", Some(3))]),
        files([("c", Some(3))]),
        files([("a", None), ("c", Some(3))]),
        files([("a", Some(4)), ("c", Some(3))]),
    ];
    History { prepare: |_| {}, act, states, leaves_nothing: false }
}

/// A making and a removal that a crash left half done.
fn finished() -> History {
    let prepare = |path: &Path| {
        let mut volume = DirectoryVolume::create(path, QUICK).unwrap();
        volume.create("kept").unwrap();
        volume.manifest.settle();
        let listed = |name| Listed {
            name: FileName::new(name).unwrap(),
            records_from: NO_RECORDS,
            is_new: true,
        };
        volume.manifest.gone.push(FileName::new("removed").unwrap());
        volume.manifest.files.insert(FileId(3), listed("begun"));
        write_manifest(&volume.handle, &volume.manifest).unwrap();
        std::fs::write(path.join("removed"), "still here").unwrap();
    };
    let act = |path: &Path| {
        let mut volume = DirectoryVolume::open(path, QUICK).unwrap();
        fill(&mut volume, FileId(3), 5);
        let more = create(&mut volume, "more");
        fill(&mut volume, more, 6);
    };
    let states = vec![
        files([("kept", None), ("begun", None)]),
        files([("kept", None), ("begun", Some(5))]),
        files([("kept", None), ("begun", Some(5)), ("more", None)]),
        files([("kept", None), ("begun", Some(5)), ("more", Some(6))]),
    ];
    History { prepare, act, states, leaves_nothing: false }
}

/// Begins a volume with files and leaves it as a kill would.
fn begin(path: &Path) {
    let (mut volume, _undo) = DirectoryVolume::begin(path, QUICK, 5, None).unwrap();
    volume.create("x").unwrap();
    volume.create("y").unwrap();
}

fn made_again() -> History {
    let act = |path: &Path| {
        begin(path);
        let (mut volume, _undo) = DirectoryVolume::begin(path, QUICK, 6, None).unwrap();
        volume.create("z").unwrap();
        volume.finish_making().unwrap();
        acknowledge();
    };
    let states = vec![None, files([("z", None)])];
    History { prepare: |_| {}, act, states, leaves_nothing: false }
}

/// Begins a volume with a file and gives it up.
fn give_up(path: &Path) {
    let (mut volume, undo) = DirectoryVolume::begin(path, QUICK, 5, None).unwrap();
    volume.create("x").unwrap();
    drop(volume);
    assert!(undo.run(false));
    acknowledge();
}

fn given_up() -> History {
    let states = vec![None, None];
    History { prepare: |_| {}, act: give_up, states, leaves_nothing: true }
}

fn given_up_and_begun() -> History {
    let act = |path: &Path| {
        give_up(path);
        begin(path);
    };
    History { prepare: |_| {}, act, states: vec![None, None], leaves_nothing: false }
}

/// A making whose process was killed as the kernel, and not the disk, had its last word.
fn found_made() -> History {
    let act = |path: &Path| {
        let bytes = std::fs::read(path.join(MANIFEST_NAME)).unwrap();
        let mut manifest = Manifest::decode(&bytes).unwrap();
        manifest.is_made = true;
        // An opening that has nothing to finish has no reason of its own to sync the directory.
        manifest.settle();
        let text = manifest.encode();
        std::fs::write(path.join(NEW_MANIFEST_NAME), &text).unwrap();
        RECORDER.with_borrow_mut(|recorder| {
            recorder.as_mut().unwrap().synced_lists.insert(text.into_bytes());
        });
        std::fs::rename(path.join(NEW_MANIFEST_NAME), path.join(MANIFEST_NAME)).unwrap();
        let mut volume = DirectoryVolume::open(path, QUICK).unwrap();
        volume.sync_found().unwrap();
        acknowledge();
    };
    let states = vec![None, files([("x", None), ("y", None)])];
    History { prepare: begin, act, states, leaves_nothing: false }
}

/// The files of a volume that a cut left, which has nothing else in its directory.
fn files_left(path: &Path) -> Result<BTreeMap<String, Option<u8>>, StorageError> {
    let mut volume = DirectoryVolume::open(path, QUICK)?;
    volume.audit();
    let mut left = BTreeMap::new();
    for (file, name) in volume.files() {
        let fill = match volume.byte_count(file) {
            0 => None,
            _ => Some(read_fills(&mut volume, file, 0, 1).unwrap()[0]),
        };
        left.insert(name, fill);
    }
    drop(volume);
    let mut there = super::super::DirectoryHandle::open(path)?.names()?;
    there.retain(|name| !nandu_storage::volume::RESERVED_NAMES.contains(&name.as_str()));
    there.sort_unstable();
    assert!(there.iter().eq(left.keys()), "{there:?} are there, of {left:?}");
    Ok(left)
}

/// Whether what was found may be there, where `wanted` is.
fn is_met(found: Option<&BTreeMap<String, Option<u8>>>, wanted: Option<&Files>) -> bool {
    let (Some(found), Some(wanted)) = (found, wanted) else {
        return found.is_none() && wanted.is_none();
    };
    let are_same = |((name, fill), (wanted_name, wanted)): ((&String, &Option<u8>), _)| {
        let (wanted_name, wanted): (&&str, &Option<u8>) = (wanted_name, wanted);
        name == wanted_name && (wanted.is_none() || fill == wanted)
    };
    found.len() == wanted.len() && found.iter().zip(wanted).all(are_same)
}

/// Cuts a history at every moment, and tells which syncs there were.
fn cut_everywhere(history: &History, overlooked: Option<Place>) -> BTreeSet<Place> {
    // In memory, where nobody waits for a disk.
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = root.path().join("volume");
    (history.prepare)(&path);
    RECORDER.set(Some(Recorder::new(&path, overlooked)));
    (history.act)(&path);
    let recorder = RECORDER.take().unwrap();
    assert_eq!(recorder.acknowledged_count + 1, history.states.len());
    let mut rng = Rng::for_part(22, "cuts of directories");
    let places = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for (index, moment) in recorder.moments.iter().enumerate() {
        for fate in 0..FATE_COUNT {
            let place = places.path().join(format!("{index}-{fate}"));
            moment.make(&place, fate, &mut rng);
            let acknowledged = moment.acknowledged_count;
            let context = format!("moment {index}, fate {fate}, {acknowledged} acknowledged");
            if history.leaves_nothing && acknowledged > 0 {
                assert!(!place.join(MANIFEST_NAME).exists(), "{context}");
            }
            let found = match files_left(&place) {
                Ok(found) => Some(found),
                Err(StorageError::NotADatabase { .. } | StorageError::NotFound { .. }) => None,
                Err(error) => panic!("{context}: {error}"),
            };
            let may_be = &history.states[acknowledged..history.states.len().min(acknowledged + 2)];
            let is_met = may_be.iter().any(|wanted| is_met(found.as_ref(), wanted.as_ref()));
            assert!(is_met, "{context}: {found:?}, not {may_be:?}");
            if found.is_none() {
                let made = DirectoryVolume::create(&place, QUICK);
                drop(made.unwrap_or_else(|error| panic!("{context}, made again: {error}")));
                assert!(files_left(&place).unwrap().is_empty(), "{context}");
            }
        }
    }
    recorder.places
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut_at_any_change_of_a_directory() {
    for history in HISTORIES {
        cut_everywhere(&history(), None);
    }
}

#[test]
fn each_sync_of_a_directory_and_of_its_list_is_needed() {
    let all: BTreeSet<Place> =
        HISTORIES.iter().flat_map(|history| cut_everywhere(&history(), None)).collect();
    assert!(all.len() >= 8, "{all:?}");
    for place in all {
        let is_noticed = HISTORIES.iter().any(|history| {
            let cut = AssertUnwindSafe(|| cut_everywhere(&history(), Some(place)));
            catch_unwind(cut).is_err()
        });
        assert!(is_noticed, "nothing is lost without the sync at {place}");
    }
}
