//! Media beside the data belong to one database and one moment of it, whatever is cut; others are refused.

use super::*;

fn kinds() -> impl Iterator<Item = PropagationKind> {
    PropagationKind::ALL.iter().copied().filter(|kind| !kind.other_media().is_empty())
}

/// Makes a database with a table, and closes it.
fn make(kind: PropagationKind, ground: &Ground, identity: u64) -> FileId {
    let mut engine = Engine::create(ground.volumes(true), &settings(kind), identity).unwrap();
    let file = engine.create_file("rows.tree").unwrap();
    engine.begin().unwrap();
    engine.act(|pages| Tree::create(pages, file)).unwrap();
    engine.commit().unwrap();
    engine.close().unwrap();
    file
}

/// The data of `data` beside the media of `others`.
fn volumes(data: &Ground, others: &Ground) -> Volumes {
    let of_data = volume_on(&data.data, false).unwrap();
    Volumes { others: others.others(false), ..Volumes::new(of_data, None) }
}

fn open(kind: PropagationKind, volumes: Volumes) -> Result<Engine, StorageError> {
    Engine::open(volumes, &settings(kind)).map(|(engine, _)| engine)
}

fn refused(kind: PropagationKind, volumes: Volumes) -> String {
    open(kind, volumes).map(drop).unwrap_err().to_string()
}

/// A disk with what another has on it.
fn copy_of(disk: &Disk) -> Disk {
    let copy = super::disk();
    let (mut source, mut target) = (disk.lock(), copy.lock());
    for first in (0..source.info().geometry.sector_count).step_by(64) {
        let bytes = IoBuffer::zeroed(64 * 512);
        let read = Request::read(1, first, 64, Some(bytes));
        source.submit(Nanos::ZERO, read).unwrap();
        let done = source.next_completion(Nanos::MAX).unwrap();
        let write = Request::write(1, first, 64, done.buffer);
        target.submit(Nanos::ZERO, write).unwrap();
        target.next_completion(Nanos::MAX).unwrap().result.unwrap();
    }
    drop((source, target));
    copy
}

#[test]
fn a_medium_of_another_database_is_refused_and_nothing_is_changed() {
    for kind in kinds() {
        let (one, another) = (Ground::of(kind), Ground::of(kind));
        let file = make(kind, &one, 1);
        make(kind, &another, 2);
        let writes = |ground: &Ground| -> Vec<u64> {
            ground.request_counts().into_iter().map(|(_, writes)| writes).collect()
        };
        let before = (writes(&one), writes(&another));
        let (name, _) = kind.other_media()[0];
        let told = refused(kind, volumes(&one, &another));
        assert!(told.contains(&format!("`{name}` (")), "{told}");
        assert!(
            told.contains(&format!("another database, that in memory, as its `{name}`")),
            "{told}"
        );
        assert!(told.contains(&format!("; name the `{name}` of the database in memory")), "{told}");
        let blank = Ground::of(kind);
        drop(blank.others(true));
        let told = refused(kind, volumes(&one, &blank));
        assert!(told.contains("does not say that it belongs to any database"), "{told}");
        assert_eq!((writes(&one), writes(&another)), before, "{kind:?}");
        let engine = open(kind, volumes(&one, &one)).unwrap();
        assert!(contents(&engine, file).is_empty());
        engine.close().unwrap();
        open(kind, volumes(&another, &another)).unwrap().close().unwrap();
    }
}

#[test]
fn no_database_is_made_on_a_medium_of_another() {
    for kind in kinds() {
        let (one, new) = (Ground::of(kind), Ground::of(kind));
        make(kind, &one, 1);
        drop(volume_on(&new.data, true).unwrap());
        let create = || Engine::create(volumes(&new, &one), &settings(kind), 2).map(drop);
        let told = create().unwrap_err().to_string();
        assert!(told.contains("belongs to the database in memory, as its"), "{told}");
        assert!(io_on(&new.data, false).unwrap().files().is_empty(), "{kind:?}");
        open(kind, volumes(&one, &one)).unwrap().close().unwrap();
    }
}

#[test]
fn media_of_several_moments_are_refused() {
    for kind in kinds() {
        let ground = Ground::of(kind);
        make(kind, &ground, 1);
        let with_data = |data: Disk| Ground { data, others: Vec::new() };
        let before = with_data(copy_of(&ground.data));
        let engine = open(kind, ground.volumes(false)).unwrap();
        drop(engine);
        ground.restart();
        // The data from before the run that is not closed.
        let told = refused(kind, volumes(&before, &ground));
        assert!(told.contains("it is of another moment than the database in memory"), "{told}");
        let engine = open(kind, ground.volumes(false)).unwrap();
        engine.close().unwrap();
        let told = refused(kind, volumes(&before, &ground));
        assert!(told.contains("one of them was put back from a copy"), "{told}");
        // The medium from before, where there is a copy of it.
        let older = Ground {
            data: copy_of(&ground.data),
            others: ground.others.iter().filter_map(copied).collect(),
        };
        open(kind, ground.volumes(false)).unwrap().close().unwrap();
        if !older.others.is_empty() {
            let told = refused(kind, volumes(&ground, &older));
            assert!(told.contains("it is of another moment"), "{told}");
            open(kind, volumes(&older, &older)).expect("both are of one").close().unwrap();
        }
        open(kind, ground.volumes(false)).unwrap().close().unwrap();
    }
}

fn copied((name, ground): &(&'static str, OtherGround)) -> Option<(&'static str, OtherGround)> {
    match ground {
        OtherGround::Disk(disk) => Some((*name, OtherGround::Disk(copy_of(disk)))),
        OtherGround::Chips(_) => None,
    }
}

#[test]
fn a_database_opens_after_a_cut_at_any_request_of_its_opening_and_its_closing() {
    for kind in kinds() {
        let ground = Ground::of(kind);
        let file = make(kind, &ground, 1);
        let mut rows = BTreeMap::new();
        for medium in 0..=kind.other_media().len() {
            let mut at = 1;
            // Opens, adds a row, closes; until nothing is cut.
            loop {
                let volumes = ground.volumes(false);
                let before = ground.request_counts()[medium].0;
                ground.cut_at(medium, at, at);
                let (key, value) = (at.to_be_bytes().to_vec(), vec![7; 100]);
                let result = open(kind, volumes).and_then(|mut engine| {
                    engine.begin()?;
                    engine.act(|pages| upsert(pages, file, &key, &value))?;
                    engine.commit()?;
                    engine.close()
                });
                let count = ground.request_counts()[medium].0 - before;
                ground.restart();
                let engine = open(kind, ground.volumes(false)).unwrap_or_else(|error| {
                    panic!("{kind:?} cut at request {at} of medium {medium}: {error}")
                });
                let found = contents(&engine, file);
                if result.is_ok() || found.contains_key(&key) {
                    rows.insert(key, value);
                }
                assert_eq!(found, rows, "{kind:?} cut at request {at} of medium {medium}");
                // By turns the next one finds it closed, or not.
                match at % 2 {
                    0 => engine.close().unwrap(),
                    _ => drop(engine),
                }
                ground.restart();
                if count < at {
                    break;
                }
                at += 1;
            }
            assert!(at > 3, "{kind:?}: {at} requests to medium {medium}");
        }
    }
}

#[test]
fn a_database_whose_making_was_cut_is_there_or_can_be_made_again() {
    for kind in kinds() {
        for medium in 0..=kind.other_media().len() {
            for at in 1.. {
                let ground = Ground::of(kind);
                drop(ground.volumes(true));
                let volumes = ground.volumes(false);
                let before = ground.request_counts()[medium].0;
                ground.cut_at(medium, at, at);
                let result = Engine::create(volumes, &settings(kind), 1);
                let count = ground.request_counts()[medium].0 - before;
                let is_made = result.is_ok();
                drop(result);
                ground.restart();
                match open(kind, ground.volumes(false)) {
                    Ok(engine) => engine.close().unwrap(),
                    Err(StorageError::NotADatabase { .. }) if !is_made => {
                        let again = Engine::create(ground.volumes(false), &settings(kind), 2);
                        again.unwrap().close().unwrap();
                    }
                    Err(error) => panic!("{kind:?} cut at {at} of {medium}: {error}"),
                }
                open(kind, ground.volumes(false)).unwrap().close().unwrap();
                if count < at {
                    break;
                }
            }
        }
    }
}
