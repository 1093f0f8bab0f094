//! Several transactions that change one document at once: in parts that lie apart they do not wait for
//! each other; where they meet, one waits or begins again; what comes out is sound.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{database, exported, impatient_database};
use nandu_storage::database::{Isolation, WriteTransaction};
use nandu_storage::{Database, StorageError};
use nandu_xml::xpath::Namespaces;
use nandu_xml::{
    Document, Editor, ImportOptions, IndexDefinition, Label, LockSettings, MappingKind, Sought,
    Spot, SubtreeReader, XmlError, check, create_index, drop_document, find, import_with,
};
use std::sync::mpsc::channel;

const ITEM_COUNT: usize = 24;
const INDEXES: [&str; 3] = ["elements", "text://@k", "number://@k"];

fn definition(text: &str) -> IndexDefinition {
    IndexDefinition::parse(text, &Namespaces::new()).unwrap()
}

/// Items that are longer than a container, each with a word at its beginning and one at its end.
fn items() -> String {
    let long = "a text that is longer than a container may be; ".repeat(60);
    let item = |number: usize| {
        format!("<item k='{number}'><b>one</b><t>{long}</t><e>two</e><e>three</e></item>")
    };
    format!("<r>{}</r>", (0..ITEM_COUNT).map(item).collect::<String>())
}

fn store(database: &Database, mapping: MappingKind, indexes: &[&str], text: &str) {
    let mut write = database.write().unwrap();
    let indexes = indexes.iter().map(|index| definition(index)).collect();
    let options = ImportOptions { mapping, indexes, ..ImportOptions::default() };
    import_with(&mut write, "doc", &options, ("text", text.as_bytes()), &mut ()).unwrap();
    write.commit().unwrap();
}

fn assert_sound(database: &Database) {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    assert_eq!(check(&read, &document).unwrap().findings, [""; 0]);
}

fn root() -> Label {
    Label::document().first_child().unwrap()
}

/// The child of a node at a place.
fn child(node: &Label, place: usize) -> Label {
    (0..place).fold(node.first_child().unwrap(), |label, _| label.after().unwrap())
}

/// The text in a child of an item.
fn word(item: usize, place: usize) -> Label {
    child(&child(&root(), item), place).first_child().unwrap()
}

fn begin(database: &Database, isolation: Isolation) -> WriteTransaction<'_> {
    database.write_with(isolation).unwrap()
}

/// Changes the document with an editor of its own.
fn edit<T>(
    write: &mut WriteTransaction<'_>,
    locks: LockSettings,
    edit: impl FnOnce(&mut Editor<'_, '_>) -> Result<T, XmlError>,
) -> Result<T, XmlError> {
    let mut editor = Editor::begin_with(write, "doc", locks)?;
    let answer = edit(&mut editor)?;
    editor.finish()?;
    Ok(answer)
}

fn set(write: &mut WriteTransaction<'_>, label: &Label, value: &str) -> Result<bool, XmlError> {
    edit(write, LockSettings::default(), |editor| editor.set_value(label, value))
}

fn is_refused<T>(answer: &Result<T, XmlError>) -> bool {
    matches!(answer, Err(XmlError::Storage(error)) if error.is_transient())
}

fn of_engine(error: XmlError) -> StorageError {
    match error {
        XmlError::Storage(error) => error,
        other => StorageError::Corrupt { place: "a test".to_owned(), what: other.to_string() },
    }
}

#[test]
fn two_change_different_parts_of_one_document_at_once_and_both_commit() {
    for mapping in MappingKind::ALL {
        for isolation in Isolation::ALL {
            let database = impatient_database();
            store(&database, mapping, &INDEXES, &items());
            let before = database.read();
            let (mut first, mut second) =
                (begin(&database, isolation), begin(&database, isolation));
            let all = LockSettings::default();
            let fragment = "<item k='new'><b>x</b><t>y</t></item>";
            assert!(set(&mut first, &word(3, 0), "uno").unwrap());
            assert!(set(&mut second, &word(20, 2), "dos").unwrap());
            let behind = Spot::Behind(child(&root(), 12));
            edit(&mut second, all, |editor| editor.insert(&behind, fragment)).unwrap();
            edit(&mut first, all, |editor| editor.delete(&child(&child(&root(), 5), 3))).unwrap();
            assert!(set(&mut first, &word(3, 2), "eins").unwrap());
            second.commit().unwrap();
            assert!(set(&mut first, &word(3, 3), "zwei").unwrap());
            first.commit().unwrap();
            assert_sound(&database);
            let text = exported(&database);
            for new in ["uno", "dos", "eins", "zwei", "k=\"new\""] {
                assert_eq!(text.matches(new).count(), 1, "{mapping:?} {isolation:?}: {new}");
            }
            assert_eq!(text.matches("<e>three</e>").count(), ITEM_COUNT - 2);
            // Whoever read before sees what was.
            let document = Document::open(&before, "doc").unwrap();
            assert_eq!(check(&before, &document).unwrap().findings, [""; 0]);
            assert_eq!(document.synopsis().classes()[2].node_count, ITEM_COUNT as u64);
        }
    }
}

#[test]
fn writers_on_threads_work_in_their_parts_at_the_same_time() {
    let database = database();
    store(&database, MappingKind::Elementless, &INDEXES, &items());
    std::thread::scope(|scope| {
        let (say, hear) = channel();
        let threads: Vec<_> = [2, 9, 16, 22]
            .map(|item| {
                let (say, database) = (say.clone(), &database);
                let (go_on, wait) = channel();
                let thread = scope.spawn(move || {
                    let mut write = begin(database, Isolation::Serializable);
                    set(&mut write, &word(item, 0), &format!("of {item}")).unwrap();
                    say.send(()).unwrap();
                    // Nobody ends before all have changed something.
                    wait.recv().unwrap();
                    set(&mut write, &word(item, 3), &format!("and {item}")).unwrap();
                    write.commit().unwrap();
                });
                (thread, go_on)
            })
            .into();
        threads.iter().for_each(|_| hear.recv().unwrap());
        threads.iter().for_each(|(_, go_on)| go_on.send(()).unwrap());
        threads.into_iter().for_each(|(thread, _)| thread.join().unwrap());
    });
    assert_sound(&database);
    let text = exported(&database);
    assert_eq!((text.matches("of ").count(), text.matches("and ").count()), (4, 4));
}

#[test]
fn who_comes_to_a_part_that_is_being_changed_waits_and_goes_on() {
    let database = database();
    store(&database, MappingKind::Prefix, &INDEXES, &items());
    let mut first = begin(&database, Isolation::Serializable);
    set(&mut first, &word(3, 0), "uno").unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            database.transact(Isolation::Serializable, |write| {
                edit(write, LockSettings::default(), |editor| {
                    editor.claim(&child(&root(), 3))?;
                    let mut reader = SubtreeReader::open(editor.tables(), "doc")?;
                    let item = reader.read(editor.tables(), &child(&root(), 3))?.unwrap();
                    let read = item.fragment().string(1);
                    editor.set_value(&word(3, 2), &read[..3])
                })
                .map_err(of_engine)
            })
        });
        // Nobody unparks this thread: it gives the other time to wait for this one's lock.
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        assert!(!second.is_finished());
        set(&mut first, &word(3, 3), "tres").unwrap();
        first.commit().unwrap();
        second.join().unwrap().unwrap();
    });
    // It has read what the first one wrote.
    assert!(exported(&database).contains("<e>uno</e><e>tres</e>"));
    assert_sound(&database);
}

#[test]
fn the_depth_says_what_is_locked_as_one() {
    let database = impatient_database();
    store(&database, MappingKind::Full, &[], &items());
    let with_depth = |depth| LockSettings { depth, ..LockSettings::default() };
    for (depth, is_apart) in [(0, [false, false]), (1, [false, false]), (2, [true, false])] {
        let mut first = begin(&database, Isolation::Serializable);
        let locks = with_depth(depth);
        edit(&mut first, locks, |editor| editor.set_value(&word(3, 0), "uno")).unwrap();
        for (other, is_apart) in [word(9, 0), word(3, 3)].iter().zip(is_apart) {
            let mut second = begin(&database, Isolation::Serializable);
            let answer = edit(&mut second, locks, |editor| editor.set_value(other, "dos"));
            assert_eq!(is_refused(&answer), !is_apart, "depth {depth} {other:?}");
            // Also with a reader that locks what it reads.
            let mut reader = SubtreeReader::open(&second, "doc").unwrap().with_locks(locks);
            let answer = reader.read(&second, other).map(|_| ());
            assert_eq!(is_refused(&answer), !is_apart, "depth {depth} {other:?}");
        }
        first.rollback().unwrap();
    }
    // As fine as it gets, words of one item are apart.
    let (mut first, mut second) =
        (begin(&database, Isolation::Serializable), begin(&database, Isolation::Serializable));
    set(&mut first, &word(3, 0), "uno").unwrap();
    set(&mut second, &word(3, 3), "dos").unwrap();
    first.commit().unwrap();
    second.commit().unwrap();
    assert_sound(&database);
}

#[test]
fn with_many_locks_a_transaction_has_the_document_unless_others_are_in_it() {
    let database = impatient_database();
    store(&database, MappingKind::Elementless, &[], &items());
    let locks = LockSettings { escalate_at: 12, ..LockSettings::default() };
    let fill = |write: &mut WriteTransaction<'_>, items: [usize; 5]| {
        edit(write, locks, |editor| {
            items.iter().try_for_each(|&item| editor.set_value(&word(item, 0), "filled").map(drop))
        })
    };
    let (mut first, mut second) =
        (begin(&database, Isolation::Serializable), begin(&database, Isolation::Serializable));
    set(&mut second, &word(20, 0), "beside").unwrap();
    fill(&mut first, [1, 3, 5, 7, 9]).unwrap();
    set(&mut second, &word(22, 0), "beside").unwrap();
    second.commit().unwrap();
    let mut third = begin(&database, Isolation::Serializable);
    set(&mut third, &word(20, 0), "still").unwrap();
    third.commit().unwrap();
    fill(&mut first, [2, 4, 6, 8, 10]).unwrap();
    let mut third = begin(&database, Isolation::Serializable);
    assert!(is_refused(&set(&mut third, &word(20, 0), "in vain")));
    drop(third);
    first.commit().unwrap();
    assert_sound(&database);
}

/// So does who reads many parts and locks them.
#[test]
fn with_many_locks_a_reader_has_the_document_too() {
    let database = impatient_database();
    store(&database, MappingKind::Elementless, &[], &items());
    let locks = LockSettings { escalate_at: 12, ..LockSettings::default() };
    let reading = begin(&database, Isolation::Serializable);
    let mut reader = SubtreeReader::open(&reading, "doc").unwrap().with_locks(locks);
    // The outermost element and the document have names, too.
    for (read_count, is_apart) in [(9, true), (10, false)] {
        for item in 0..read_count {
            reader.read(&reading, &child(&root(), item)).unwrap().unwrap();
        }
        let mut other = begin(&database, Isolation::Serializable);
        let answer = set(&mut other, &word(20, 0), "beside");
        assert_eq!(is_refused(&answer), !is_apart, "{read_count} parts: {answer:?}");
        other.rollback().unwrap();
    }
}

#[test]
fn neighbours_in_one_container_come_one_after_the_other() {
    for isolation in Isolation::ALL {
        let database = impatient_database();
        store(&database, MappingKind::Elementless, &[], "<r><a>1</a><b>2</b></r>");
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        let text = |place| child(&root(), place).first_child().unwrap();
        set(&mut first, &text(0), "uno").unwrap();
        assert!(is_refused(&set(&mut second, &text(1), "dos")));
        first.commit().unwrap();
        // Of isolation `snapshot` what it would change is not what it saw.
        let again = set(&mut second, &text(1), "dos");
        assert_eq!(is_refused(&again), isolation == Isolation::Snapshot);
        second.rollback().unwrap();
    }
}

#[test]
fn who_adds_names_is_alone_and_others_find_them_afterwards() {
    for isolation in Isolation::ALL {
        let database = impatient_database();
        store(&database, MappingKind::Elementless, &INDEXES, &items());
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        set(&mut second, &word(20, 0), "beside").unwrap();
        let locks = LockSettings::default();
        let new = |editor: &mut Editor<'_, '_>, item| {
            editor.insert(&Spot::FirstIn(child(&root(), item)), "<new k='n'><new/></new>")
        };
        assert!(is_refused(&edit(&mut first, locks, |editor| new(editor, 3))));
        first.rollback().unwrap();
        second.commit().unwrap();
        let (mut first, mut late) = (begin(&database, isolation), begin(&database, isolation));
        edit(&mut first, locks, |editor| new(editor, 3)).unwrap();
        // In its own transaction they are there for another editor.
        edit(&mut first, locks, |editor| new(editor, 4)).unwrap();
        assert!(is_refused(&set(&mut late, &word(20, 2), "too early")));
        first.commit().unwrap();
        let answer = edit(&mut late, locks, |editor| new(editor, 9));
        assert_eq!(is_refused(&answer), isolation == Isolation::Snapshot);
        drop(late);
        assert_sound(&database);
    }
}

#[test]
fn an_index_is_made_of_all_that_was_changed_and_all_know_it_who_change_then() {
    for isolation in Isolation::ALL {
        let database = impatient_database();
        store(&database, MappingKind::Prefix, &[], &items());
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        let index = definition("text://b");
        set(&mut first, &word(3, 0), "uno").unwrap();
        assert!(is_refused(&create_index(&mut second, "doc", &index)));
        first.commit().unwrap();
        let made = create_index(&mut second, "doc", &index);
        // Of isolation `snapshot` it would be one of the document as it was.
        assert_eq!(is_refused(&made), isolation == Isolation::Snapshot);
        second.rollback().unwrap();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        create_index(&mut first, "doc", &index).unwrap();
        assert!(is_refused(&set(&mut second, &word(4, 0), "dos")));
        first.commit().unwrap();
        let changed = set(&mut second, &word(4, 0), "dos");
        assert_eq!(is_refused(&changed), isolation == Isolation::Snapshot);
        second.rollback().unwrap();
        assert_sound(&database);
    }
}

/// An index that another one has made since is not left behind without its document.
#[test]
fn who_removes_a_document_removes_all_of_it() {
    for isolation in Isolation::ALL {
        let database = impatient_database();
        store(&database, MappingKind::Prefix, &["text://@k"], &items());
        let mut late = begin(&database, isolation);
        let mut write = begin(&database, Isolation::Serializable);
        create_index(&mut write, "doc", &definition("text://b")).unwrap();
        write.commit().unwrap();
        let removed = drop_document(&mut late, "doc");
        assert_eq!(is_refused(&removed), isolation == Isolation::Snapshot, "{removed:?}");
        if removed.is_ok() {
            late.commit().unwrap();
            assert_eq!(database.read().definitions().unwrap().count(), 0);
        }
    }
}

#[test]
fn what_was_looked_up_and_not_found_does_not_come_before_the_end() {
    let database = impatient_database();
    store(&database, MappingKind::Elementless, &INDEXES, &items());
    let mut first = begin(&database, Isolation::Serializable);
    let document = Document::open(&database.read(), "doc").unwrap();
    let sought = |write: &WriteTransaction<'_>, key| {
        let index = definition("text://@k");
        find(write, &document, &index, Some(Sought::Text(key)), 9).unwrap().labels.len()
    };
    assert_eq!(sought(&first, "new"), 0);
    let mut second = begin(&database, Isolation::Serializable);
    let insert = |write: &mut WriteTransaction<'_>, key| {
        edit(write, LockSettings::default(), |editor| {
            let fragment = format!("<item k='{key}'/>");
            editor.insert(&Spot::LastIn(root()), &fragment).map(drop)
        })
    };
    assert!(is_refused(&insert(&mut second, "new")));
    drop(second);
    let mut second = begin(&database, Isolation::Serializable);
    insert(&mut second, "other").unwrap();
    second.commit().unwrap();
    assert_eq!(sought(&first, "new"), 0);
    set(&mut first, &word(3, 0), "uno").unwrap();
    first.commit().unwrap();
    assert_sound(&database);
}

/// Two who each remove one of the only two nodes of an element cannot both leave it to the other one to
/// hold its place.
#[test]
fn an_element_that_two_empty_keeps_its_place() {
    let long = "x".repeat(6_000);
    let text = format!("<r><p><a>{long}</a><m>{long}</m><b>{long}</b></p><q/></r>");
    for isolation in Isolation::ALL {
        let database = impatient_database();
        store(&database, MappingKind::Elementless, &INDEXES, &text);
        let p = child(&root(), 0);
        let middle = |editor: &mut Editor<'_, '_>| editor.delete(&child(&p, 1));
        let mut write = begin(&database, isolation);
        edit(&mut write, LockSettings::default(), middle).unwrap();
        write.commit().unwrap();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        let remove = |write: &mut WriteTransaction<'_>, place| {
            edit(write, LockSettings::default(), |editor| editor.delete(&child(&p, place)))
        };
        let answers = [remove(&mut first, 0), remove(&mut second, 2)];
        let refused_count = answers.iter().filter(|answer| is_refused(answer)).count();
        assert_eq!(refused_count, 1, "{isolation:?}");
        for (write, answer) in [first, second].into_iter().zip(&answers) {
            if answer.is_ok() { write.commit().unwrap() } else { write.rollback().unwrap() }
        }
        assert_sound(&database);
        let mut last = begin(&database, isolation);
        for place in [0, 2] {
            remove(&mut last, place).unwrap();
        }
        last.commit().unwrap();
        assert_sound(&database);
        assert!(exported(&database).contains("<r><p/><q/></r>"));
    }
}

/// The value of an element has its beginning from one text and then from another: both count for its entry.
#[test]
fn texts_of_an_element_whose_value_is_indexed_change_one_after_the_other() {
    let long = "y".repeat(6_000);
    let text = format!("<r><v><a>{}</a><b>tail</b><c>{long}</c></v></r>", "x".repeat(6_000));
    for isolation in Isolation::ALL {
        let database = impatient_database();
        store(&database, MappingKind::Elementless, &["text://v"], &text);
        let v = child(&root(), 0);
        let text = |place| child(&v, place).first_child().unwrap();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        let answers = [set(&mut first, &text(0), "short"), set(&mut second, &text(2), "other")];
        for (write, answer) in [first, second].into_iter().zip(&answers) {
            if answer.is_ok() { write.commit().unwrap() } else { write.rollback().unwrap() }
        }
        assert!(answers.iter().any(Result::is_ok));
        assert_sound(&database);
    }
}

#[test]
fn declarations_of_namespaces_stay_as_long_as_their_element() {
    let database = impatient_database();
    store(&database, MappingKind::Full, &[], "<r xmlns:p='u'><p:a/></r>");
    let mut write = begin(&database, Isolation::Serializable);
    let answer = edit(&mut write, LockSettings::default(), |editor| {
        editor.delete(&root().first_attribute().unwrap())
    });
    assert!(answer.unwrap_err().to_string().contains("goes with its element"));
}

#[test]
fn of_two_who_wait_for_each_other_one_begins_again() {
    let database = database();
    store(&database, MappingKind::Elementless, &INDEXES, &items());
    let (say, hear) = channel();
    let attempt_count = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for (items, place) in [([2, 9], 0), ([9, 2], 2)] {
            let (say, database, attempt_count) = (say.clone(), &database, &attempt_count);
            let (go_on, wait) = channel::<()>();
            scope.spawn(move || {
                let mut has_waited = false;
                let done = database.transact(Isolation::Serializable, |write| {
                    attempt_count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    edit(write, LockSettings { depth: 2, ..LockSettings::default() }, |editor| {
                        editor.set_value(&word(items[0], place), "first")?;
                        if !has_waited {
                            has_waited = true;
                            say.send(go_on.clone()).unwrap();
                            wait.recv().unwrap();
                        }
                        editor.set_value(&word(items[1], place), "second").map(drop)
                    })
                    .map_err(of_engine)
                });
                done.unwrap();
            });
        }
        let both: Vec<_> = (0..2).map(|_| hear.recv().unwrap()).collect();
        both.iter().for_each(|go_on| go_on.send(()).unwrap());
    });
    assert!(attempt_count.into_inner() > 2, "one of them began again");
    assert_eq!(exported(&database).matches("second").count(), 2);
    assert_sound(&database);
}
