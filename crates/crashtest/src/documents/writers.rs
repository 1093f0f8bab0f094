//! Random histories of several transactions that change one document at once, one thread going from one to
//! another: where it would have to wait it is told so at once.
//!
//! 1. A serializable transaction is replayed when it commits: all that it read, missed and did comes out the
//!    same over what was committed before it. Of isolation `snapshot` what it did can be done there.
//! 2. After each commit the document is what the model is, and its check finds nothing.
//! 3. Whatever ends in the middle, by rollbacks or with the process, leaves nothing.

use super::tree::{Edit, Element};
use super::{NAME, change_with, findings, indexes_of, read, store_with};
use nandu_base::{Rng, to_index, to_u32};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice, SharedDevice};
use nandu_storage::database::{Isolation, Tables, WriteTransaction};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, StorageError, Volumes};
use nandu_xml::xpath::{Namespaces, write_node};
use nandu_xml::{IndexDefinition, Label, LockSettings, MappingKind, Sought, SubtreeReader, find};
use std::collections::BTreeMap;

const ACTOR_COUNT_MAX: usize = 5;
const STEP_COUNT: u32 = 300;
const VALUE_BYTES_MAX: u64 = 900;
/// Elements in each other at the beginning: names that are new make a transaction wait for all others.
const DEPTH: usize = 8;

type TestDevice = SharedDevice<MemoryDevice>;

#[derive(Debug)]
enum Event {
    Did(Edit),
    Missed(String),
    Read(String, Element),
}

struct Actor<'d> {
    write: WriteTransaction<'d>,
    events: Vec<Event>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    commits: u32,
    /// Of them those beside another one that had changed something.
    beside: u32,
    refused: u32,
    missed: u32,
    reads: u32,
    /// By what it was that they were refused.
    reasons: BTreeMap<String, u32>,
}

fn settings() -> Settings {
    Settings {
        page_bytes: 2048,
        pool_bytes: 256 << 10,
        log_bytes: 8 << 20,
        checkpoint_bytes: 256 << 10,
        lock_timeout_ns: 0,
        ..Settings::default()
    }
}

fn create(device: &TestDevice) -> Database {
    let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
    Database::create(Volumes::new(data, None), &settings(), 1).unwrap()
}

fn open(device: &TestDevice) -> Database {
    let data = Box::new(DeviceVolume::open(Box::new(device.clone())).unwrap());
    Database::open(Volumes::new(data, None), &settings()).unwrap().0
}

fn first_tree(rng: &mut Rng) -> Element {
    let mut tree = Element::new("0", "");
    let mut at = &mut tree;
    for level in 0..DEPTH {
        at.children.push(Element::new(format!("0.d{level}"), ""));
        at = &mut at.children[0];
    }
    for number in 0..30 {
        let mut part = Element::new(format!("0.p{number}"), "x".repeat(to_index(rng.below(700))));
        part.children = (0..rng.below(4))
            .map(|child| Element::new(format!("0.p{number}.{child}"), "y".repeat(200)))
            .collect();
        tree.children.push(part);
    }
    tree
}

/// The label of the element with a key.
fn label_of(tables: &Tables, key: &str) -> Result<Option<Label>, StorageError> {
    let reader = SubtreeReader::open(tables, NAME).map_err(super::of_engine)?;
    let index = IndexDefinition::parse("text://n/@k", &Namespaces::new()).unwrap();
    let found = find(tables, reader.document(), &index, Some(Sought::Text(key)), 2);
    let found = found.map_err(super::of_engine)?.labels;
    assert!(found.len() < 2, "keys are distinct: {key}");
    Ok(found.first().and_then(Label::parent))
}

/// Mostly fine ones: who has the document as a whole is alone.
fn locks(rng: &mut Rng) -> LockSettings {
    let depth = match rng.below(16) {
        0 => 0,
        1 => 1,
        turn => to_u32(2 + turn % 5),
    };
    let escalate_at = if rng.below(12) == 0 { to_u32(1 + rng.below(12)) } else { 1024 };
    LockSettings { depth, escalate_at }
}

fn named(edit: &Edit) -> &str {
    match edit {
        Edit::Insert { at, .. } => at,
        Edit::Delete { key } | Edit::SetValue { key, .. } | Edit::SetKey { key, .. } => key,
    }
}

impl Actor<'_> {
    /// One thing more.
    fn go_on(&mut self, committed: &Element, rng: &mut Rng) -> Result<Event, StorageError> {
        let edit = committed.draw(rng, VALUE_BYTES_MAX);
        let key = named(&edit).to_owned();
        let Some(label) = label_of(&self.write, &key)? else { return Ok(Event::Missed(key)) };
        if rng.below(4) > 0 {
            change_with(&mut self.write, std::slice::from_ref(&edit), locks(rng))
                .map_err(super::of_engine)?;
            return Ok(Event::Did(edit));
        }
        let reader = SubtreeReader::open(&self.write, NAME).map_err(super::of_engine)?;
        let mut reader = reader.with_locks(locks(rng));
        let part = reader.read(&self.write, &label).map_err(super::of_engine)?;
        let mut text = Vec::new();
        let part = part.expect("the index has led to it");
        write_node(part.fragment(), 1, &mut text);
        let element = Element::parse(std::str::from_utf8(&text).unwrap()).expect("an element");
        Ok(Event::Read(key, element))
    }

    /// What is committed after this.
    fn replay(&self, committed: &Element) -> Element {
        let is_strict = self.write.isolation() == Isolation::Serializable;
        let mut tree = committed.clone();
        for event in &self.events {
            let holds = match event {
                Event::Did(edit) => tree.apply(edit),
                Event::Missed(key) => !is_strict || tree.find(key).is_none(),
                Event::Read(key, element) => !is_strict || tree.find(key) == Some(element),
            };
            assert!(holds, "{event:?} of {:?} over what was committed before it", self.events);
        }
        tree
    }

    fn has_changed(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Did(_)))
    }
}

/// Has transactions go on in turns; gives what is committed in the end. Those that are under way then end with
/// the process.
fn live(
    database: &Database,
    mut committed: Element,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Element {
    let mut actors: Vec<Actor<'_>> = Vec::new();
    for _ in 0..STEP_COUNT {
        let turn = rng.below(10);
        if actors.is_empty() || (turn < 3 && actors.len() < ACTOR_COUNT_MAX) {
            let isolation = Isolation::ALL[to_index(rng.below(2))];
            let write = database.write_with(isolation).unwrap();
            actors.push(Actor { write, events: Vec::new() });
            continue;
        }
        let place = to_index(rng.below(actors.len() as u64));
        if turn == 3 {
            let actor = actors.swap_remove(place);
            if rng.below(5) == 0 {
                actor.write.rollback().unwrap();
                continue;
            }
            committed = actor.replay(&committed);
            let has_changed = actor.has_changed();
            actor.write.commit().unwrap();
            counts.commits += 1;
            counts.beside += u32::from(has_changed && actors.iter().any(Actor::has_changed));
            let snapshot = database.read();
            assert_eq!(read(&snapshot).unwrap(), committed);
            assert_eq!(findings(&snapshot).unwrap(), [""; 0]);
            continue;
        }
        let mark = actors[place].write.savepoint();
        match actors[place].go_on(&committed, rng) {
            Ok(event) => {
                counts.missed += u32::from(matches!(event, Event::Missed(_)));
                counts.reads += u32::from(matches!(event, Event::Read(..)));
                actors[place].events.push(event);
            }
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                counts.refused += 1;
                *counts.reasons.entry(error.to_string()).or_default() += 1;
                // What is held stays held, so it is not tried for ever.
                match rng.below(2) {
                    0 => actors[place].write.rollback_to(mark).unwrap(),
                    _ => actors.swap_remove(place).write.rollback().unwrap(),
                }
            }
        }
    }
    actors.into_iter().for_each(|actor| actor.write.abandon());
    committed
}

#[test]
fn writers_of_one_document_come_to_what_some_order_comes_to() {
    let mut counts = Counts::default();
    for seed in 0..crate::tests::seeds(12) {
        let mut rng = Rng::for_part(seed, "writers");
        let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
        let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        let device = SharedDevice::new(memory);
        let mut database = create(&device);
        let mut tree = first_tree(&mut rng);
        let mapping = MappingKind::ALL[to_index(seed % 3)];
        let mut write = database.write().unwrap();
        store_with(&mut write, mapping, &tree, indexes_of(seed)).unwrap();
        write.commit().unwrap();
        for _ in 0..2 {
            tree = live(&database, tree, &mut rng, &mut counts);
            drop(database);
            device.forget_completions();
            database = open(&device);
            let snapshot = database.read();
            assert_eq!(read(&snapshot).unwrap(), tree, "seed {seed}");
            assert_eq!(findings(&snapshot).unwrap(), [""; 0]);
        }
    }
    println!("{counts:?}");
    assert!(counts.beside > counts.commits / 20, "transactions overlap: {counts:?}");
    assert!(counts.refused > 0 && counts.missed > 0 && counts.reads > counts.commits / 4);
}
