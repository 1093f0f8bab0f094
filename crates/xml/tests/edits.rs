//! Changes of stored documents: what comes out is what a text would be that was changed so, all
//! nodes keep their labels, and the check finds nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{exported, imported};
use nandu_storage::Database;
use nandu_xml::xpath::{Node, write_node};
use nandu_xml::{
    ClassId, Document, Editor, Label, MappingKind, Spot, Subtree, SubtreeReader, XmlError, check,
    values_of,
};
use proptest::prelude::*;

/// Changes the document `doc` in a transaction.
fn edit<T>(
    database: &Database,
    edit: impl FnOnce(&mut Editor<'_, '_>) -> Result<T, XmlError>,
) -> Result<T, XmlError> {
    let mut write = database.write().unwrap();
    let mut editor = Editor::begin(&mut write, "doc")?;
    let answer = edit(&mut editor)?;
    editor.finish()?;
    write.commit().unwrap();
    Ok(answer)
}

fn assert_sound(database: &Database) {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    assert_eq!(check(&read, &document).unwrap().findings, Vec::<String>::new());
}

/// The text without its first line.
fn text_of(database: &Database) -> String {
    let text = exported(database);
    text.split_once('\n').unwrap().1.trim_end().to_owned()
}

fn root() -> Label {
    Label::document().first_child().unwrap()
}

#[test]
fn fragments_come_values_change_and_nodes_go() {
    for mapping in MappingKind::ALL {
        let (database, _) = imported(mapping, "<a xmlns:p='u'><b/></a>");
        let b = root().first_child().unwrap();
        // The attribute took no number of a child.
        let inserted = edit(&database, |editor| {
            editor.insert(&Spot::LastIn(b.clone()), "one<p:c x='1'>t</p:c><!--two-->")
        })
        .unwrap();
        assert_eq!(inserted.len(), 3);
        assert_eq!(
            text_of(&database),
            "<a xmlns:p=\"u\"><b>one<p:c x=\"1\">t</p:c><!--two--></b></a>"
        );
        let (c, before) = (inserted[1].clone(), b.clone());
        edit(&database, |editor| {
            editor.insert(&Spot::Before(before), "<first/>")?;
            editor.insert(&Spot::Behind(c.clone()), "<d><e/></d>")?;
            editor.insert(&Spot::FirstIn(c.clone()), "s")?;
            assert!(editor.set_value(&c.first_attribute().unwrap(), "2")?);
            assert!(editor.set_value(&inserted[0], "uno")?);
            assert!(editor.delete(&inserted[2])?);
            assert!(!editor.delete(&inserted[2])?);
            Ok(())
        })
        .unwrap();
        let expected = "<a xmlns:p=\"u\"><first/><b>uno<p:c x=\"2\">st</p:c><d><e/></d></b></a>";
        assert_eq!(text_of(&database), expected);
        assert_sound(&database);
        edit(&database, |editor| editor.delete(&b)).unwrap();
        assert_eq!(text_of(&database), "<a xmlns:p=\"u\"><first/></a>");
        assert_sound(&database);
    }
}

#[test]
fn an_element_goes_with_what_it_declares() {
    for mapping in MappingKind::ALL {
        for element in ["<b xmlns:p='u' x='1'>t</b>", "<b xmlns='u'/>", "<b xmlns='' p:x='1'/>"] {
            let text = format!("<a xmlns:p='v'>{element}<c/></a>");
            let (database, _) = imported(mapping, &text);
            let b = root().first_child().unwrap();
            assert!(edit(&database, |editor| editor.delete(&b)).unwrap(), "{mapping:?}: {text}");
            assert_eq!(text_of(&database), "<a xmlns:p=\"v\"><c/></a>");
            assert_sound(&database);
            let declared = root().first_attribute().unwrap();
            let refused = edit(&database, |editor| editor.delete(&declared)).unwrap_err();
            assert!(refused.to_string().contains("goes with its element"), "{refused}");
        }
    }
}

#[test]
fn what_is_put_in_front_again_and_again_shares_containers() {
    for mapping in MappingKind::ALL {
        let (database, _) = imported(mapping, "<a><b/></a>");
        for number in 0..200 {
            let text = format!("<b x='{number}'/>");
            edit(&database, |editor| editor.insert(&Spot::FirstIn(root()), &text)).unwrap();
        }
        assert_sound(&database);
        let read = database.read();
        let document = Document::open(&read, "doc").unwrap();
        let container_count = check(&read, &document).unwrap().container_count;
        assert!(container_count <= 10, "{mapping:?}: {container_count}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_a_rollback_leaves_nothing() {
    let (database, _) = imported(MappingKind::Elementless, "<a x='1'>t<b/></a>");
    let nowhere = (0..9).fold(root(), |label, _| label.after().unwrap());
    let insert = |spot: Spot, text: &str| edit(&database, |editor| editor.insert(&spot, text));
    for (spot, text, word) in [
        (Spot::Behind(root()), "<c/>", "outermost"),
        (Spot::LastIn(nowhere.clone()), "<c/>", "no such element"),
        (Spot::Before(nowhere), "<c/>", "no such node"),
        (Spot::Behind(root().first_attribute().unwrap()), "<c/>", "attribute"),
        (Spot::LastIn(root()), "<c>", "ends inside"),
        (Spot::LastIn(root()), "\n</a>", "line 2, column 1"),
        (Spot::LastIn(root()), "<a>\u{e4}\u{1F600}</a>&\n<b/>", "line 1, column 10"),
        (Spot::LastIn(root()), "<a/>\n<b>\u{e4}</b><c/>\u{e4}<x:d/>", "line 2, column 14"),
        (Spot::LastIn(root()), "<p:c/>", "prefix"),
        (Spot::LastIn(root()), "<?xml version='1.0'?>", "beginning"),
        (Spot::LastIn(root()), "<!DOCTYPE a>", "before the outermost"),
    ] {
        let said = insert(spot, text).unwrap_err().to_string();
        assert!(said.contains(word), "{text}: {said}");
    }
    let answer = edit(&database, |editor| editor.delete(&root()));
    assert!(answer.unwrap_err().to_string().contains("outermost"));
    let text = root().first_child().unwrap();
    for value in ["", "\u{1}"] {
        assert!(edit(&database, |editor| editor.set_value(&text, value)).is_err());
    }
    assert_eq!(text_of(&database), "<a x=\"1\">t<b/></a>");
    assert_sound(&database);
}

#[test]
fn a_gap_that_is_divided_without_end_is_relabelled() {
    let (database, _) = imported(MappingKind::Elementless, "<a><l/><r/></a>");
    let mut last = root().first_child().unwrap();
    let (mut longest, mut before) = (0, 0);
    let mut has_relabelled = false;
    // The log does not take all of it as one transaction.
    for _ in 0..10 {
        edit(&database, |editor| {
            for turn in 0..200 {
                // Now behind the last one, now before it: always between the last two.
                let last_one = last.clone();
                let spot =
                    if turn % 2 == 0 { Spot::Behind(last_one) } else { Spot::Before(last_one) };
                last = editor.insert(&spot, "<m/>")?.remove(0);
                let now = last.as_bytes().len();
                has_relabelled |= now + 4 < before;
                (longest, before) = (longest.max(now), now);
            }
            Ok(())
        })
        .unwrap();
    }
    assert!(has_relabelled && longest > 400, "{longest}");
    assert_eq!(text_of(&database).matches("<m/>").count(), 2000);
    assert_sound(&database);
}

/// What a random change does to the children of the root, by their places.
#[derive(Clone, Debug)]
enum Change {
    Insert(usize, String),
    Delete(usize),
    Value(usize, String),
}

fn change() -> impl Strategy<Value = Change> {
    let text = "[a-c]{1,40}";
    prop_oneof![
        3 => (any::<usize>(), text).prop_map(|(place, text)| Change::Insert(place, text)),
        1 => any::<usize>().prop_map(Change::Delete),
        1 => (any::<usize>(), text).prop_map(|(place, text)| Change::Value(place, text)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn changes_do_what_they_do_to_a_list(changes in prop::collection::vec(change(), 1..120)) {
        for mapping in MappingKind::ALL {
            let (database, _) = imported(mapping, "<a/>");
            let mut model: Vec<(Label, String)> = Vec::new();
            for batch in changes.chunks(20) {
                edit(&database, |editor| {
                    batch.iter().try_for_each(|change| apply(editor, &mut model, change))
                })
                .unwrap();
                let inner: String =
                    model.iter().map(|(_, text)| format!("<n k=\"{text}\">{text}</n>")).collect();
                let expected = match inner.as_str() {
                    "" => "<a/>".to_owned(),
                    inner => format!("<a>{inner}</a>"),
                };
                prop_assert_eq!(text_of(&database), expected);
                assert_sound(&database);
            }
        }
    }
}

fn apply(
    editor: &mut Editor<'_, '_>,
    model: &mut Vec<(Label, String)>,
    change: &Change,
) -> Result<(), XmlError> {
    match change {
        Change::Insert(place, text) => {
            let place = place % (model.len() + 1);
            let spot = match (place, model.get(place)) {
                (0, _) => Spot::FirstIn(root()),
                (_, Some((next, _))) => Spot::Before(next.clone()),
                (_, None) => Spot::LastIn(root()),
            };
            let mut labels = editor.insert(&spot, &format!("<n k='{text}'>{text}</n>"))?;
            model.insert(place, (labels.remove(0), text.clone()));
        }
        Change::Delete(_) | Change::Value(..) if model.is_empty() => {}
        Change::Delete(place) => {
            let (label, _) = model.remove(place % model.len());
            assert!(editor.delete(&label)?);
        }
        Change::Value(place, text) => {
            let place = place % model.len();
            let label = model[place].0.clone();
            assert!(editor.set_value(&label.first_attribute().unwrap(), text)?);
            assert!(editor.set_value(&label.first_child().unwrap(), text)?);
            model[place].1.clone_from(text);
        }
    }
    Ok(())
}

/// A node of a subtree as text.
fn written(subtree: Subtree<'_>, node: Node) -> String {
    let mut bytes = Vec::new();
    write_node(subtree.fragment(), node, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_subtree_is_read_by_its_label_as_it_is_in_the_whole() {
    let long = "long text that needs containers of its own; ".repeat(100);
    let text = format!(
        "<a xmlns=\"u\" x=\"1\"><b><c/>one<d y=\"{long}\">{long}<e>in</e>tail</d><!--{long}--></b><p:f xmlns:p=\"v\"><?go on?><p:g>2</p:g></p:f>{long}<h/></a>"
    );
    for mapping in MappingKind::ALL {
        let (database, _) = imported(mapping, &text);
        let read = database.read();
        let mut whole = SubtreeReader::open(&read, "doc").unwrap();
        let mut part = SubtreeReader::open(&read, "doc").unwrap();
        let whole = whole.read(&read, &root()).unwrap().unwrap();
        whole.fragment().audit();
        assert_eq!(written(whole, 1), text);
        assert_eq!(whole.label(0), Label::document());
        let node_count = Node::try_from(whole.fragment().node_count()).unwrap();
        assert_eq!(node_count, 21);
        for node in 1..node_count {
            let label = whole.label(node);
            assert_eq!(
                label.parent().unwrap(),
                whole.label(whole.fragment().parent(node).unwrap())
            );
            let found = part.read(&read, &label).unwrap().unwrap();
            found.fragment().audit();
            assert_eq!(written(found, 1), written(whole, node), "{mapping:?} {label:?}");
            assert_eq!((found.label(1), found.label(0)), (label.clone(), label.parent().unwrap()));
            assert_eq!(found.fragment().class(1), whole.fragment().class(node));
            let below = whole.fragment().end(node) - node;
            let found_count = Node::try_from(found.fragment().node_count()).unwrap();
            assert_eq!(found_count, 1 + below, "nothing beside it");
            // Nobody stands in a gap.
            if !label.is_attribute() {
                let before = label.before().unwrap();
                let is_taken = (1..node_count).any(|other| whole.label(other) == before);
                assert_eq!(part.read(&read, &before).unwrap().is_some(), is_taken, "{before:?}");
            }
        }
        assert!(part.read(&read, &root().after().unwrap()).unwrap().is_none());
        let all = part.read(&read, &Label::document()).unwrap().unwrap();
        assert_eq!(written(all, 0), text);
    }
}

#[test]
fn a_reader_follows_a_document_to_its_new_names_and_to_another_document() {
    let (database, _) = imported(MappingKind::Elementless, "<a><b>1</b></a>");
    let mut reader = SubtreeReader::open(&database.read(), "doc").unwrap();
    edit(&database, |editor| editor.insert(&Spot::LastIn(root()), "<c d='2'><e/></c>")).unwrap();
    let read = database.read();
    reader.renew(&read).unwrap();
    let found = reader.read(&read, &root()).unwrap().unwrap();
    assert_eq!(written(found, 1), "<a><b>1</b><c d=\"2\"><e/></c></a>");
    let fresh = Document::open(&read, "doc").unwrap();
    assert_eq!(reader.document().synopsis().classes().len(), fresh.synopsis().classes().len());
    drop(read);
    let mut write = database.write().unwrap();
    write.drop_table("doc-nodes").unwrap();
    write.drop_table("doc-catalog").unwrap();
    let other = ("other", &b"<x><y z='3'/></x>"[..]);
    nandu_xml::import(&mut write, "doc", MappingKind::Full, other, &mut ()).unwrap();
    write.commit().unwrap();
    let read = database.read();
    reader.renew(&read).unwrap();
    let found = reader.read(&read, &root()).unwrap().unwrap();
    assert_eq!(written(found, 1), "<x><y z=\"3\"/></x>");
}

#[test]
fn values_of_paths_are_told_with_their_labels_in_order() {
    let long = "v".repeat(5_000);
    let text = format!("<a><b id='1'>x<c/>y</b><b id='{long}'/><d id='3'>{long}</d></a>");
    for mapping in MappingKind::ALL {
        let (database, _) = imported(mapping, &text);
        let read = database.read();
        let document = Document::open(&read, "doc").unwrap();
        let class = |path: &str| {
            let mut numbers = (0_u32..).map(ClassId).zip(document.synopsis().classes());
            numbers.find(|(class, _)| document.path_of(*class) == path).unwrap().0
        };
        let classes = ["/a/b/@id", "/a/b", "/a/d"].map(class).into();
        let mut found = Vec::new();
        let mut tell = |label: &Label, class: ClassId, value: &str| {
            found.push((label.clone(), document.path_of(class), value.to_owned()));
            Ok(())
        };
        values_of(&read, &document, &classes, &mut tell).unwrap();
        let first = root().first_child().unwrap();
        let second = first.after().unwrap();
        let expected = [
            (first.first_attribute().unwrap(), "/a/b/@id", "1"),
            (first.clone(), "/a/b", "x"),
            (first, "/a/b", "y"),
            (second.first_attribute().unwrap(), "/a/b/@id", &long),
            (second.after().unwrap(), "/a/d", &long),
        ];
        let expected =
            expected.map(|(label, path, value)| (label, path.to_owned(), value.to_owned()));
        assert_eq!(found, expected, "{mapping:?}");
    }
}
