//! Indexes of documents: the same entries whether made by an import, afterwards or by changes; lookups
//! find what a look at all nodes finds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::database;
use nandu_storage::Database;
use nandu_storage::database::{Isolation, WriteTransaction};
use nandu_xml::xpath::Namespaces;
use nandu_xml::{
    Document, Editor, ImportOptions, IndexDefinition, Label, MappingKind, Sought, Spot, XmlError,
    check, create_index, drop_document, drop_index, find, import_with,
};
use proptest::prelude::*;
use std::ops::Bound;

const INDEXES: [&str; 6] =
    ["elements", "elements://b", "text://@x", "number://@x", "text://b", "number:/r/*/b"];

fn definition(text: &str) -> IndexDefinition {
    IndexDefinition::parse(text, &Namespaces::from([("p".to_owned(), "urn:p".to_owned())])).unwrap()
}

fn stored(mapping: MappingKind, indexes: &[&str], text: &str) -> Database {
    let database = database();
    let mut write = database.write().unwrap();
    let indexes = indexes.iter().map(|index| definition(index)).collect();
    let options = ImportOptions { mapping, indexes, ..ImportOptions::default() };
    import_with(&mut write, "doc", &options, ("text", text.as_bytes()), &mut ()).unwrap();
    write.commit().unwrap();
    database
}

fn findings(database: &Database) -> Vec<String> {
    let read = database.read();
    check(&read, &Document::open(&read, "doc").unwrap()).unwrap().findings
}

/// All entries of all indexes.
fn entries(database: &Database) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let stat = document.stat(&read).unwrap();
    let trees = stat.indexes.iter().map(|index| {
        let entries: Vec<_> = read.entries(&*index.tree).unwrap().map(Result::unwrap).collect();
        assert_eq!(entries.len() as u64, index.entry_count);
        entries
    });
    trees.collect()
}

fn looked_up(database: &Database, index: &str, sought: Option<Sought<'_>>) -> Vec<Label> {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let found = find(&read, &document, &definition(index), sought, usize::MAX).unwrap();
    assert!(!found.is_cut);
    found.labels
}

#[test]
fn lookups_find_nodes_by_path_and_value() {
    let long = "long text ".repeat(500);
    let text = format!(
        "<r><a x='7'><b>one</b></a><a x=' 7.0 '><b>o<i>n</i>e</b><b/></a><c x='{long}'><b>{long}</b>\
         <b>{}!</b></c></r>",
        &long[..100]
    );
    for mapping in MappingKind::ALL {
        let database = stored(mapping, &INDEXES, &text);
        assert_eq!(findings(&database), [""; 0]);
        let root = Label::document().first_child().unwrap();
        let first = root.first_child().unwrap();
        let second = first.after().unwrap();
        let third = second.after().unwrap();
        let b = |element: &Label| element.first_child().unwrap();
        let found = |index: &str, sought| looked_up(&database, index, sought);
        assert_eq!(found("elements", None).len(), 10);
        let second_b = b(&second).after().unwrap();
        let third_b = b(&third).after().unwrap();
        let all = [b(&first), b(&second), second_b.clone(), b(&third), third_b.clone()];
        assert_eq!(found("elements://b", None), all);
        // Two elements have the same text, in one of them in parts.
        assert_eq!(found("text://b", Some(Sought::Text("one"))), [b(&first), b(&second)]);
        assert_eq!(found("text://b", Some(Sought::Text(""))), [second_b]);
        assert_eq!(found("text://b", Some(Sought::Beginning("long"))), [b(&third), third_b]);
        let attribute = |element: &Label| element.first_attribute().unwrap();
        assert_eq!(found("text://@x", Some(Sought::Text("7"))), [attribute(&first)]);
        assert_eq!(found("text://@x", Some(Sought::Text(&long))), [attribute(&third)]);
        let seven = Sought::Numbers(Bound::Included(7.0), Bound::Included(7.0));
        let both = [attribute(&first), attribute(&second)];
        assert_eq!(found("number://@x", Some(seven)), both);
        let less = Sought::Numbers(Bound::Unbounded, Bound::Excluded(7.0));
        assert_eq!(found("number://@x", Some(less)), []);
        assert_eq!(found("number:/r/*/b", Some(seven)), []);
    }
}

#[test]
fn indexes_come_and_go_and_are_the_same_as_those_of_an_import() {
    let text = "<r><a x='1'><b>2</b></a><b x='z'/>text<b>3<b>4</b></b></r>";
    let imported = entries(&stored(MappingKind::Elementless, &INDEXES, text));
    assert!(imported.iter().all(|entries| !entries.is_empty()));
    let database = stored(MappingKind::Prefix, &[], text);
    let mut write = database.write().unwrap();
    for index in INDEXES {
        create_index(&mut write, "doc", &definition(index)).unwrap();
    }
    let again = create_index(&mut write, "doc", &definition("text:/descendant::b"));
    assert!(again.unwrap_err().to_string().contains("there is an index"));
    write.commit().unwrap();
    assert_eq!(entries(&database), imported);
    assert_eq!(findings(&database), [""; 0]);
    let mut write = database.write().unwrap();
    drop_index(&mut write, "doc", &definition("text://b")).unwrap();
    let again = drop_index(&mut write, "doc", &definition("text://b")).unwrap_err().to_string();
    assert!(again.contains("has no index text://b; it has elements://*, "), "{again}");
    write.commit().unwrap();
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    assert_eq!(document.indexes().count(), INDEXES.len() - 1);
    let missing = find(&read, &document, &definition("text://b"), None, 1).unwrap_err();
    assert!(missing.to_string().contains("no index"), "{missing}");
    drop(read);
    let mut write = database.write().unwrap();
    drop_document(&mut write, "doc").unwrap();
    write.commit().unwrap();
    assert_eq!(database.read().definitions().unwrap().count(), 0);
}

#[test]
fn an_import_that_fails_leaves_no_index_and_what_is_none_is_refused() {
    let database = database();
    let mut write = database.write().unwrap();
    let indexes = vec![definition("elements"), definition("text://@x")];
    let mut options =
        ImportOptions { mapping: MappingKind::Full, indexes, ..ImportOptions::default() };
    let text = ("text", &b"<r><a x='1'/><b></r>"[..]);
    import_with(&mut write, "doc", &options, text, &mut ()).unwrap_err();
    options.indexes.push(definition("elements://*"));
    let twice = import_with(&mut write, "doc", &options, ("text", &b"<r/>"[..]), &mut ());
    assert!(twice.unwrap_err().to_string().contains("there is an index"));
    write.commit().unwrap();
    assert_eq!(database.read().definitions().unwrap().count(), 0);
    for (text, word) in [
        ("cas", "write elements"),
        ("text:", "write elements"),
        ("text", "write elements"),
        ("elements://@x", "text://@x"),
        ("number:x", "path from the document"),
        ("text://q:x", "--namespace q=URI"),
    ] {
        let error = IndexDefinition::parse(text, &Namespaces::new()).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn a_document_of_another_version_is_told_and_a_broken_index_is_found() {
    let database = stored(MappingKind::Full, &["text://b", "elements"], "<r><b>1</b><b>2</b></r>");
    let tree = "doc-index-1";
    let (key, _) = database.read().entries(tree).unwrap().next().unwrap().unwrap();
    let mut write = database.write().unwrap();
    write.delete_value(tree, &key).unwrap();
    write.commit().unwrap();
    let found = findings(&database);
    assert_eq!(found, ["index text://b has no entry of 1 nodes"]);
    let mut write = database.write().unwrap();
    let mut other = key.clone();
    other[4] = 9;
    write.put_value(tree, &key, &[]).unwrap();
    write.put_value(tree, &other, &[]).unwrap();
    write.commit().unwrap();
    let found = findings(&database);
    assert!(found.len() == 1 && found[0].contains("has 3 entries, 1 of them broken"), "{found:?}");
    let mut write = database.write().unwrap();
    let head = write.value("doc-catalog", &[0], <[u8]>::to_vec).unwrap().unwrap();
    write.put_value("doc-catalog", &[0], &[&[9], &head[1..]].concat()).unwrap();
    write.commit().unwrap();
    let read = database.read();
    let error = Document::open(&read, "doc").unwrap_err();
    assert!(matches!(error, XmlError::Version { found: 9, known: 4, .. }), "{error:?}");
    assert!(error.to_string().contains("is of version 9 of the format"), "{error}");
}

#[test]
fn who_changes_beside_a_new_index_has_to_begin_again() {
    let database = stored(MappingKind::Elementless, &[], "<r><b>1</b></r>");
    let root = Label::document().first_child().unwrap();
    let mut write = database.write_with(Isolation::Snapshot).unwrap();
    let mut other = database.write().unwrap();
    create_index(&mut other, "doc", &definition("text://b")).unwrap();
    other.commit().unwrap();
    // It would not know of the index.
    let error = Editor::begin(&mut write, "doc").expect_err("others were in the way");
    assert!(matches!(&error, XmlError::Storage(error) if error.is_transient()), "{error:?}");
    write.rollback().unwrap();
    // A change that leaves all counts as they are is one, too.
    let mut write = database.write_with(Isolation::Snapshot).unwrap();
    let set = |write: &mut WriteTransaction<'_>| {
        let mut editor = Editor::begin(write, "doc")?;
        let text = root.first_child().unwrap().first_child().unwrap();
        assert!(editor.set_value(&text, "2")?);
        editor.finish().map(drop)
    };
    let mut other = database.write().unwrap();
    set(&mut other).unwrap();
    other.commit().unwrap();
    assert!(set(&mut write).is_err());
    write.rollback().unwrap();
    assert_eq!(findings(&database), [""; 0]);
}

#[test]
fn a_head_that_no_document_has_is_damage_and_no_panic() {
    let database = stored(MappingKind::Full, &[], "<r/>");
    let mut write = database.write().unwrap();
    let head = write.value("doc-catalog", &[0], <[u8]>::to_vec).unwrap().unwrap();
    // The size of containers comes first, in two bytes.
    let large = [&head[..2], &[0xFF; 9], &[0x01], &head[4..]].concat();
    write.put_value("doc-catalog", &[0], &large).unwrap();
    write.commit().unwrap();
    let error = Document::open(&database.read(), "doc").unwrap_err();
    assert!(matches!(error, XmlError::Damaged { .. }), "{error:?}");
}

/// A change of the children of the root or of one of them, by places.
#[derive(Clone, Debug)]
enum Change {
    Insert(usize, usize, usize),
    Delete(usize),
    Value(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let any = any::<usize>;
    prop_oneof![
        3 => (any(), any(), any()).prop_map(|(spot, place, text)| Change::Insert(spot, place, text)),
        1 => any().prop_map(Change::Delete),
        2 => (any(), any()).prop_map(|(place, text)| Change::Value(place, text)),
    ]
}

const FRAGMENTS: [&str; 6] = [
    "<b x='1'>5</b>",
    "text",
    "<a x='two'><b>6<i>7</i></b><!--c--></a>",
    "<b/>",
    "<new x='8'><b><b x='-1'>long text that is longer than a key of an index can be, by far</b></b></new>",
    "1<b>9</b>2",
];
const VALUES: [&str; 4] =
    ["5", "x", " 12.50 ", "a value with more than the bytes that a key of an index has: all of it"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn changes_keep_indexes_as_if_they_were_made_anew(
        changes in prop::collection::vec(change(), 1..40),
    ) {
        for mapping in MappingKind::ALL {
            let database = stored(mapping, &INDEXES, "<r><a x='1'><b>2</b></a></r>");
            let mut labels = vec![Label::document().first_child().unwrap()];
            for batch in changes.chunks(8) {
                let mut write = database.write().unwrap();
                let mut editor = Editor::begin(&mut write, "doc").unwrap();
                for change in batch {
                    apply(&mut editor, &mut labels, change);
                }
                editor.finish().unwrap();
                write.commit().unwrap();
                prop_assert_eq!(findings(&database), Vec::<String>::new());
            }
            let kept = entries(&database);
            let mut write = database.write().unwrap();
            for index in INDEXES {
                drop_index(&mut write, "doc", &definition(index)).unwrap();
                create_index(&mut write, "doc", &definition(index)).unwrap();
            }
            write.commit().unwrap();
            prop_assert_eq!(entries(&database), kept);
        }
    }
}

/// Changes the document at one of the nodes that were inserted, of which some are gone.
fn apply(editor: &mut Editor<'_, '_>, labels: &mut Vec<Label>, change: &Change) {
    match change {
        Change::Insert(spot, place, text) => {
            let label = labels[place % labels.len()].clone();
            let spot = match spot % 4 {
                0 => Spot::FirstIn(label),
                1 => Spot::LastIn(label),
                2 => Spot::Before(label),
                _ => Spot::Behind(label),
            };
            // There may be no such element, or none that takes children.
            labels.extend(
                editor.insert(&spot, FRAGMENTS[text % FRAGMENTS.len()]).unwrap_or_default(),
            );
        }
        Change::Delete(place) => {
            let _ = editor.delete(&labels[place % labels.len()]);
        }
        Change::Value(place, text) => {
            let label = &labels[place % labels.len()];
            let value = VALUES[text % VALUES.len()];
            for label in
                [label.clone(), label.first_attribute().unwrap(), label.first_child().unwrap()]
            {
                let _ = editor.set_value(&label, value);
            }
        }
    }
}
