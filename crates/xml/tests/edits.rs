//! Changes of stored documents: what comes out is what a text would be that was changed so, all
//! nodes keep their labels, and the check finds nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{exported, imported};
use nandu_storage::Database;
use nandu_xml::{Document, Editor, Label, MappingKind, Spot, XmlError, check};
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
