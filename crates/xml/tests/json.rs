//! Documents of JSON as a user has them: in, out, equal as another library reads them, asked, changed,
//! refused where they are none.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/json.rs"]
mod value;

mod common;

use common::{database, exported, impatient_database, skip};
use nandu_storage::Database;
use nandu_storage::database::Isolation;
use nandu_xml::xpath::{
    Access, Found, Namespaces, QueryLimits, QueryPlan, locate, parse, query, write_node,
};
use nandu_xml::{
    Document, DocumentFormat, Editor, ImportOptions, ImportReport, IndexDefinition, MappingKind,
    Place, Spot, XmlError, check, import_with,
};
use proptest::prelude::*;
use std::io::{Read, Write as _};
use std::process::{Command, Stdio};
use value::{Json, any_json};

const INDEXES: [&str; 3] = ["elements", "text://*", "number://*"];

fn options(mapping: MappingKind, indexes: &[&str]) -> ImportOptions {
    let of = |index: &&str| IndexDefinition::parse(index, &Namespaces::new()).unwrap();
    let indexes = indexes.iter().map(of).collect();
    let format = DocumentFormat::Json;
    ImportOptions { mapping, format, indexes, ..ImportOptions::default() }
}

/// A database with this text as the document `doc`.
fn imported(options: &ImportOptions, text: &str) -> (Database, ImportReport) {
    let database = database();
    let mut write = database.write().unwrap();
    let input = ("text", text.as_bytes());
    let report = import_with(&mut write, "doc", options, input, &mut ());
    let report = report.unwrap_or_else(|error| panic!("{text}: {error}"));
    write.commit().unwrap();
    (database, report)
}

fn trouble_of(text: impl Read) -> (Place, String) {
    let database = database();
    let mut write = database.write().unwrap();
    let options = options(MappingKind::default(), &INDEXES);
    let answer = import_with(&mut write, "doc", &options, ("text", text), &mut ());
    write.commit().unwrap();
    assert_eq!(database.read().definitions().unwrap().count(), 0);
    match answer {
        Err(XmlError::Input { file, place, what }) if file == "text" => (place, what),
        answer => panic!("{answer:?}"),
    }
}

fn findings(database: &Database) -> Vec<String> {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    check(&read, &document).unwrap().findings
}

/// What an expression finds: nodes as JSON, other values as strings. Each with and without indexes.
fn asked(database: &Database, text: &str) -> (Vec<String>, bool) {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let names = Namespaces::new();
    let scan = QueryPlan::new(&parse(text).unwrap(), &document, &names).unwrap();
    let chosen = scan.clone().choose(&read, &document, &names).unwrap();
    let is_by_index = matches!(&chosen.access, Access::Found(found) if !found.indexes.is_empty());
    let answers = [scan, chosen].map(|plan| {
        let mut found = Vec::new();
        let mut tell = |what: Found<'_>| {
            let mut bytes = Vec::new();
            match what {
                Found::Node(fragment, node) => write_node(fragment, node, &mut bytes),
                Found::Value(value) => bytes.extend(value.text(&Default::default()).bytes()),
            }
            found.push(String::from_utf8(bytes).unwrap());
            Ok(())
        };
        let with = (&names, QueryLimits::default());
        query(&read, &document, &plan, with, &|| false, &mut tell).unwrap();
        found
    });
    assert_eq!(answers[0], answers[1], "{text}");
    (answers[0].clone(), is_by_index)
}

/// Changes the nodes that an expression chooses, the last first.
fn change(database: &Database, text: &str, set: Option<&str>) -> Result<usize, XmlError> {
    let mut write = database.write().unwrap();
    let mut editor = Editor::begin(&mut write, "doc")?;
    let names = Namespaces::new();
    let plan = QueryPlan::new(&parse(text).unwrap(), editor.document(), &names)?;
    let plan = plan.choose(editor.tables(), editor.document(), &names)?;
    let with = (&names, QueryLimits::default());
    let nodes = locate(editor.tables(), editor.document(), &plan, with, &|| false)?;
    for node in nodes.iter().rev() {
        let label = editor.now(&node.labels[0]);
        assert!(match set {
            Some(value) => editor.set_value(&label, value)?,
            None => editor.delete(&label)?,
        });
    }
    editor.finish()?;
    write.commit().unwrap();
    Ok(nodes.len())
}

const SHOP: &str = r#"{"orders": [
    {"id": 7, "total": 1e3, "tags": ["a", "b"], "who": {"name": "Ann"}},
    {"id": 8, "total": 99.50, "tags": [], "who": {"name": "Bob", "note": null}}],
    "odd key": true, "": {}, "a:b": "c", "_": "\u0000\u0001x", "orders2": 1.5}"#;

#[test]
fn documents_come_out_as_they_went_in() {
    let long = "1234567890 ü😀 ".repeat(9000);
    let deep = format!("{}{}", "[".repeat(256), "]".repeat(256));
    let texts = [
        SHOP.to_owned(),
        "null".to_owned(),
        " \n[ ]\t".to_owned(),
        "\u{FEFF}{}".to_owned(),
        "\"\\ud83d\\ude00\\u0000\\/\"".to_owned(),
        format!("[0.10, 1e400, -0, 1E+2, {}.5]", "9".repeat(100_000)),
        format!("{{\"{}\": \"{long}\", \"b\": [\"{long}\", 1]}}", "k".repeat(4096)),
        deep,
    ];
    for text in texts {
        let expected = Json::read(text.trim_start_matches('\u{FEFF}')).unwrap();
        let outputs = MappingKind::ALL.map(|mapping| {
            let (database, report) = imported(&options(mapping, &INDEXES), &text);
            assert_eq!(report.plain_bytes, text.len() as u64);
            assert_eq!(findings(&database), Vec::<String>::new(), "{text:.80}");
            exported(&database)
        });
        assert_eq!(Json::read(&outputs[0]).unwrap(), expected, "{text:.80}");
        assert!(outputs.iter().all(|output| *output == outputs[0]));
        if let [Some(one), Some(other)] = [&text, &outputs[0]].map(|text| sorted_by_jq(text)) {
            assert_eq!(one, other, "{text:.80}");
        }
    }
}

/// What `jq -S .` makes of a text.
fn sorted_by_jq(text: &str) -> Option<String> {
    // It does not go as deep.
    if text.starts_with("[[[") {
        return None;
    }
    let mut jq = Command::new("jq");
    jq.args(["-S", "."]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut jq) = jq.spawn() else {
        skip("jq is not there (Debian: jq): what comes out is not compared by it");
        return None;
    };
    let mut input = jq.stdin.take().unwrap();
    let text = text.trim_start_matches('\u{FEFF}').to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = jq.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The values without others in them, in order.
fn leaves<'j>(json: &'j mut Json, found: &mut Vec<&'j mut Json>) {
    let is_leaf = match json {
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
        _ => true,
    };
    match json {
        leaf if is_leaf => found.push(leaf),
        Json::Array(items) => items.iter_mut().for_each(|item| leaves(item, found)),
        Json::Object(members) => {
            members.iter_mut().for_each(|(_, value)| leaves(value, found));
        }
        _ => {}
    }
}

/// Removes one of the values below the outermost, by its number in order. False if there are fewer; then
/// `number` is what is left of it.
fn remove(json: &mut Json, number: &mut usize) -> bool {
    let count = match json {
        Json::Array(items) => items.len(),
        Json::Object(members) => members.len(),
        _ => 0,
    };
    for place in 0..count {
        if *number == 0 {
            match json {
                Json::Array(items) => drop(items.remove(place)),
                Json::Object(members) => drop(members.remove(place)),
                _ => {}
            }
            return true;
        }
        *number -= 1;
        let inner = match json {
            Json::Array(items) => &mut items[place],
            Json::Object(members) => &mut members[place].1,
            _ => return false,
        };
        if remove(inner, number) {
            return true;
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Any value goes in and comes out in each mapping, also after values were set and removed; indexes
    /// follow.
    #[test]
    fn any_value_comes_out_as_it_went_in_and_as_it_was_changed(
        json in any_json(),
        style in any::<u8>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0..6_usize)), 0..6),
    ) {
        let text = json.written(style);
        prop_assert_eq!(&Json::read(&text).unwrap(), &json);
        for mapping in MappingKind::ALL {
            let (database, _) = imported(&options(mapping, &INDEXES), &text);
            let mut json = json.clone();
            prop_assert_eq!(&Json::read(&exported(&database)).unwrap(), &json);
            let (whole, _) = asked(&database, "/");
            prop_assert_eq!(&Json::read(&whole[0]).unwrap(), &json);
            for (place, set) in &changes {
                let new = ["7e1", "\"\\u0000 new\"", "true", "null", "[]", "{}"];
                if let Some(new) = set.map(|set| new[set]) {
                    let mut all = Vec::new();
                    leaves(&mut json, &mut all);
                    let number = place.index(all.len());
                    *all[number] = Json::read(new).unwrap();
                    let one = format!("(//text())[{}]", number + 1);
                    prop_assert_eq!(change(&database, &one, Some(new)).unwrap(), 1);
                } else {
                    let number = place.index(64);
                    let mut left = number;
                    let is_there = remove(&mut json, &mut left);
                    let one = format!("(/*//*)[{}]", number + 1);
                    prop_assert_eq!(change(&database, &one, None).unwrap(), usize::from(is_there));
                }
                prop_assert_eq!(&Json::read(&exported(&database)).unwrap(), &json);
                prop_assert_eq!(findings(&database), Vec::<String>::new());
            }
        }
    }

    /// Whatever stands there is stored or refused; what is stored is what another library reads.
    #[test]
    fn any_text_is_read_as_others_read_it(text in "[\\[\\]{}:, \"a1.e\\\\u0dtrufalsn-]{0,24}") {
        let database = database();
        let mut write = database.write().unwrap();
        let options = options(MappingKind::default(), &[]);
        let answer = import_with(&mut write, "doc", &options, ("text", text.as_bytes()), &mut ());
        write.commit().unwrap();
        match (answer, Json::read(&text)) {
            (Ok(_), expected) => {
                prop_assert_eq!(Json::read(&exported(&database)).unwrap(), expected.unwrap());
            }
            // serde_json takes a key twice.
            (Err(error), Ok(_)) => prop_assert!(error.to_string().contains("twice"), "{}", error),
            (Err(_), Err(_)) => {}
        }
    }
}

/// Where something comes beside a value or into it.
#[derive(Clone, Copy, Debug)]
enum At {
    First,
    Last,
    Before,
    Behind,
}

/// What is done to a value.
#[derive(Clone, Debug)]
enum Edit {
    Replace(Json),
    Insert(At, Vec<(String, Json)>),
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let at = prop_oneof![Just(At::First), Just(At::Last), Just(At::Before), Just(At::Behind)];
    let new = prop::collection::vec(("[a-e]", any_json()), 0..4);
    prop_oneof![
        2 => any_json().prop_map(Edit::Replace),
        5 => (at, new).prop_map(|(at, new)| Edit::Insert(at, new)),
    ]
}

/// The ways to all values, in order.
fn ways(json: &Json, way: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    found.push(way.clone());
    let children: Vec<&Json> = match json {
        Json::Array(items) => items.iter().collect(),
        Json::Object(members) => members.iter().map(|(_, value)| value).collect(),
        _ => Vec::new(),
    };
    for (place, child) in children.into_iter().enumerate() {
        way.push(place);
        ways(child, way, found);
        way.pop();
    }
}

fn at_way<'j>(json: &'j mut Json, way: &[usize]) -> &'j mut Json {
    way.iter().fold(json, |json, &place| match json {
        Json::Array(items) => &mut items[place],
        Json::Object(members) => &mut members[place].1,
        leaf => leaf,
    })
}

/// Edits the model. Gives the text to insert; or a word of why it cannot be done.
fn edit_model(json: &mut Json, way: &[usize], edit: &Edit) -> (String, Result<(), &'static str>) {
    let (at, new) = match edit {
        Edit::Replace(new) => {
            *at_way(json, way) = new.clone();
            return (new.written(1), Ok(()));
        }
        Edit::Insert(at, new) => (at, new),
    };
    let (target, beside) = match (at, way.split_last()) {
        (At::First | At::Last, _) => (way, None),
        (_, Some((place, above))) => (above, Some(*place)),
        (_, None) => return (String::new(), Err("beside the outermost")),
    };
    let place = |count: usize| match (at, beside) {
        (At::Before, Some(place)) => place,
        (At::Behind, Some(place)) => place + 1,
        (At::First, _) => 0,
        _ => count,
    };
    let item = |(_, value): &(String, Json)| value.written(2);
    let member = |(key, value): &(String, Json)| format!("\"{key}\" :\n{}", value.written(0));
    match at_way(json, target) {
        Json::Array(items) => {
            let (from, text) = (place(items.len()), new.iter().map(item).collect::<Vec<_>>());
            items.splice(from..from, new.iter().map(|(_, value)| value.clone()));
            (text.join(","), Ok(()))
        }
        Json::Object(members) => {
            let (from, text) = (place(members.len()), new.iter().map(member).collect::<Vec<_>>());
            let text = text.join(", ");
            for (number, (key, _)) in new.iter().enumerate() {
                let mut others = new[..number].iter().chain(members.iter());
                if others.any(|(other, _)| other == key) {
                    return (text, Err("is there"));
                }
            }
            members.splice(from..from, new.iter().cloned());
            (text, Ok(()))
        }
        _ => ("1".to_owned(), Err("only objects and arrays")),
    }
}

/// Edits the value of a number.
fn edit(database: &Database, number: usize, edit: &Edit, text: &str) -> Result<(), XmlError> {
    let mut write = database.write().unwrap();
    let mut editor = Editor::begin(&mut write, "doc")?;
    let names = Namespaces::new();
    let one = format!("(//*)[{}]", number + 1);
    let plan = QueryPlan::new(&parse(&one).unwrap(), editor.document(), &names)?;
    let with = (&names, QueryLimits::default());
    let node = locate(editor.tables(), editor.document(), &plan, with, &|| false)?.remove(0);
    let label = node.labels[0].clone();
    match edit {
        Edit::Replace(_) => assert!(editor.replace(&label, text)?),
        Edit::Insert(At::First, _) => drop(editor.insert(&Spot::FirstIn(label), text)?),
        Edit::Insert(At::Last, _) => drop(editor.insert(&Spot::LastIn(label), text)?),
        Edit::Insert(At::Before, _) => drop(editor.insert(&Spot::Before(label), text)?),
        Edit::Insert(At::Behind, _) => drop(editor.insert(&Spot::Behind(label), text)?),
    }
    editor.finish()?;
    write.commit().unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// Items and members come where they are put, values give way to others of any type, what cannot be is
    /// refused and changes nothing; indexes follow.
    #[test]
    fn what_is_inserted_and_replaced_is_what_a_model_of_it_has(
        json in any_json(),
        mapping in 0..3_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any_edit()), 1..7),
    ) {
        let mut json = json;
        let (database, _) = imported(&options(MappingKind::ALL[mapping], &INDEXES), &json.written(0));
        for (place, new) in &edits {
            let mut found = Vec::new();
            ways(&json, &mut Vec::new(), &mut found);
            let number = place.index(found.len());
            let (text, expected) = edit_model(&mut json, &found[number], new);
            match (edit(&database, number, new, &text), expected) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(word)) => {
                    prop_assert!(error.to_string().contains(word), "{}: {}", text, error);
                }
                (answer, expected) => prop_assert!(false, "{text}: {answer:?}, {expected:?}"),
            }
            prop_assert_eq!(&Json::read(&exported(&database)).unwrap(), &json);
            prop_assert_eq!(findings(&database), Vec::<String>::new());
        }
    }
}

/// What cannot be inserted, into which value, the place in the text where that shows, and a word of why.
const REFUSED: [(&str, &str, (u64, u64), &str); 18] = [
    ("a", "1,", (1, 3), "commas"),
    ("a", ",1", (1, 1), ""),
    ("a", "1 2", (1, 3), "comma"),
    ("a", "1,\n  2]", (2, 4), "behind the end"),
    ("a", "1], [2", (1, 2), "behind the end"),
    ("a", "[1", (1, 3), "inside of a value"),
    ("a", "\"x", (1, 1), "does not end"),
    ("a", "{\"k\": 1, \"k\": 2}", (1, 10), "twice"),
    ("a", "\"k\": 1", (1, 4), ""),
    ("a", "\"\\ud800\"", (1, 2), "surrogate"),
    ("o", "1", (1, 1), ""),
    ("o", "\"k\"", (1, 4), ""),
    ("o", "\"k\": 1, \"k\": 2", (1, 9), "twice"),
    ("o", " {\"k\": 1}", (1, 2), "without its braces"),
    ("o", "\"k\": 1}", (1, 7), "behind the end"),
    ("o", "\"k\":\n\n tru", (3, 2), "true expected"),
    ("o", "k: 1", (1, 1), ""),
    ("o", "\"k\": 01", (1, 7), ""),
];

#[test]
fn what_cannot_be_inserted_is_refused_with_its_place() {
    let (database, _) =
        imported(&options(MappingKind::Elementless, &INDEXES), "{\"a\":[0],\"o\":{\"z\":0}}");
    let before = exported(&database);
    let names = database.read();
    let names = Document::open(&names, "doc").unwrap().vocabulary().names().len();
    let mut wrong = Vec::new();
    let root = nandu_xml::Label::document().first_child().unwrap();
    let [a, o] = [root.first_child().unwrap(), root.first_child().unwrap().after().unwrap()];
    let mut write = database.write().unwrap();
    let mut editor = Editor::begin(&mut write, "doc").unwrap();
    let deep = "[".repeat(255) + &"]".repeat(255);
    let cases = REFUSED.iter().copied().chain([("a", &deep[..], (1, 255), "256 levels")]);
    for (into, text, place, word) in cases {
        let spot = Spot::LastIn(if into == "a" { a.clone() } else { o.clone() });
        match editor.insert(&spot, text) {
            Err(XmlError::Input { place: found, what, .. })
                if what.contains(word) && (found.line, found.column) == place => {}
            answer => wrong.push(format!("{text:.60?}: {answer:?}")),
        }
    }
    for (value, place) in [("", (1, 1)), ("1 2", (1, 3)), ("{\n1}", (2, 1)), ("sent", (1, 1))] {
        match editor.replace(&a, value) {
            Err(XmlError::Input { place: found, .. }) if (found.line, found.column) == place => {}
            answer => wrong.push(format!("{value:?}: {answer:?}")),
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    // Of a text that was refused no name stays either.
    assert_eq!(editor.finish().unwrap().vocabulary().names().len(), names);
    write.commit().unwrap();
    assert_eq!(exported(&database), before);
}

/// Of two who see an object without a key, at its two ends, one puts it there.
#[test]
fn a_key_comes_once_however_many_put_it_there() {
    let long = "x".repeat(6_000);
    let text = format!("{{\"k\":1,\"a\":\"{long}\",\"b\":[\"{long}\"],\"c\":\"{long}\"}}");
    for isolation in Isolation::ALL {
        let database = impatient_database();
        let mut write = database.write().unwrap();
        let options = options(MappingKind::Elementless, &[]);
        import_with(&mut write, "doc", &options, ("text", text.as_bytes()), &mut ()).unwrap();
        write.commit().unwrap();
        change(&database, "/json/k", None).unwrap();
        let root = nandu_xml::Label::document().first_child().unwrap();
        let [mut first, mut second] = [0, 1].map(|_| database.write_with(isolation).unwrap());
        let mut editor = Editor::begin(&mut first, "doc").unwrap();
        editor.insert(&Spot::FirstIn(root.clone()), "\"k\": 2").unwrap();
        editor.finish().unwrap();
        let mut editor = Editor::begin(&mut second, "doc").unwrap();
        let other = editor.insert(&Spot::LastIn(root.clone()), "\"k\": 3");
        assert!(matches!(other, Err(XmlError::Storage(error)) if error.is_transient()));
        first.commit().unwrap();
        let mut editor = Editor::begin(&mut second, "doc").unwrap();
        let said = editor.insert(&Spot::LastIn(root), "\"k\": 3").unwrap_err().to_string();
        let word =
            if isolation == Isolation::Snapshot { "meanwhile" } else { "key `k` is there already" };
        assert!(said.contains(word), "{isolation:?}: {said}");
        drop(second);
        assert_eq!(findings(&database), Vec::<String>::new());
    }
}

/// Texts that are no documents, the place where that shows, and a word of why.
const BROKEN: [(&str, (u64, u64), &str); 34] = [
    ("", (1, 1), "before there was a value"),
    (" \n ", (2, 2), "before there was a value"),
    ("{", (1, 2), "inside of an object, which began in line 1"),
    ("{\n \"a\": [1,\n", (3, 1), "inside of an array, which began in line 2"),
    ("{\"a\"", (1, 5), "inside of an object"),
    ("[\"ab", (1, 2), "a string begins here and does not end"),
    ("{\"ab", (1, 2), "a string begins here and does not end"),
    ("tru", (1, 1), "true expected"),
    ("[nul]", (1, 2), "null expected"),
    ("True", (1, 1), "unexpected"),
    ("NaN", (1, 1), "unexpected"),
    ("{'a': 1}", (1, 2), "unexpected"),
    ("[1,]", (1, 4), "commas"),
    ("{\"a\":1,}", (1, 8), "commas"),
    ("[1 2]", (1, 4), "comma"),
    ("{\"a\" 1}", (1, 6), "colon"),
    ("{1: 2}", (1, 2), "strings"),
    ("[01]", (1, 3), "comma"),
    ("[1.]", (1, 4), "digit"),
    ("[-]", (1, 3), "number"),
    ("[1e]", (1, 4), "digit"),
    ("]", (1, 1), "no array"),
    ("[}", (1, 2), ""),
    ("1 2", (1, 3), "one value"),
    ("{}\n{}", (2, 1), "one value"),
    ("{} x", (1, 4), "one value"),
    ("[\"ä\\x\"]", (1, 4), "escape"),
    ("[\"\\u12g4\"]", (1, 5), "escape"),
    ("[\"\\ud800\"]", (1, 3), "surrogate"),
    ("[\"\\ud800 and more\"]", (1, 9), "surrogate"),
    ("[\"\\udc00\"]", (1, 3), "surrogate"),
    ("[\"a\nb\"]", (1, 4), "not allowed"),
    ("{\"a\": 1,\n \"b\": {\"a\": 1}, \"a\": 2}", (2, 17), "`a` is there twice"),
    ("[{\"\": 1}, {\"\": 1, \"\": 1}]", (1, 19), "`` is there twice"),
];

#[test]
fn what_is_no_document_is_refused_with_its_place_and_leaves_nothing() {
    let mut wrong = Vec::new();
    for (text, place, word) in BROKEN {
        let (found, what) = trouble_of(text.as_bytes());
        assert!(Json::read(text).is_err() || what.contains("twice"), "{text:?}");
        if !what.contains(word) || (found.line, found.column) != place {
            wrong.push(format!("{text:?}: {found:?} {what}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    for bytes in [&b"\xFF\xFE{\0}\0"[..], b"\xFE\xFF\0{\0}", b"{\0}\0", b"\0{\0}"] {
        assert!(trouble_of(bytes).1.contains("UTF-16"), "{bytes:?}");
    }
    for bytes in [&b"[\n\"\xFF\"]"[..], b"[\n\"a\xC3\"]", b"{\n\"\xED\xA0\x80\": 1}"] {
        let (place, what) = trouble_of(bytes);
        assert!(what.contains("UTF-8") && place.line == 2, "{bytes:?}: {what}");
    }
}

#[test]
fn a_text_that_is_cut_anywhere_is_refused() {
    let text = SHOP.replace("\n", "").replace("}", "}\n");
    for cut in 0..text.trim_end().len() {
        let (place, what) = trouble_of(&text.as_bytes()[..cut]);
        assert!(place.line <= 10 && !what.is_empty(), "{cut}: {what}");
    }
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    // An object and the key in it are two levels.
    for (begin, end, column) in [("[", "]", 257), ("{\"a\":", "}", 255 * 5 + 2)] {
        let (place, what) = trouble_of(begin.repeat(257).as_bytes());
        assert!(what.contains("256 levels"), "{what}");
        assert_eq!(place.column, column);
        // Far deeper than any stack.
        let (_, what) = trouble_of(format!("{}{end}", begin.repeat(1 << 20)).as_bytes());
        assert!(what.contains("256 levels"), "{what}");
    }
    let key = format!("{{\"{}\": 1}}", "k".repeat(4097));
    assert!(trouble_of(key.as_bytes()).1.contains("4096 bytes"));
    for begin in ["\"", "[1", "{\"k", "[-0."] {
        let filler = if begin.contains('k') || begin == "\"" { b'x' } else { b'0' };
        let endless = begin.as_bytes().chain(std::io::repeat(filler));
        let (place, what) = trouble_of(endless);
        assert!(what.contains("64 MiB") && place.line == 1, "{what}");
    }
}

#[test]
fn an_import_that_is_stopped_leaves_nothing() {
    struct Stop;
    impl nandu_xml::ImportObserver for Stop {
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let database = database();
    let mut write = database.write().unwrap();
    let input = ("text", &b"[1]"[..]);
    let answer = import_with(&mut write, "doc", &options(MappingKind::Full, &[]), input, &mut Stop);
    assert!(matches!(answer, Err(XmlError::Cancelled)), "{answer:?}");
    write.commit().unwrap();
    assert_eq!(database.read().definitions().unwrap().count(), 0);
}

#[test]
fn expressions_find_values_by_keys_and_items() {
    for mapping in MappingKind::ALL {
        for indexes in [&[][..], &INDEXES] {
            let (database, report) = imported(&options(mapping, indexes), SHOP);
            assert_eq!(report.counts.level_count, 5);
            for (text, expected) in [
                ("count(/json/orders/_)", "1 2"),
                ("/json/orders/_[total > 100]/id", "1 7"),
                ("//_[total = '1e3']/id", "1 7"),
                ("//_[total = 1000]/id", "1 7"),
                ("//_[total < '1e2']/id", "1 8"),
                ("//total[. = '99.50']", "1 99.50"),
                ("sum(//total)", "1 1099.5"),
                ("number(//total)", "1 1000"),
                ("//tags/_[2]", "1 \"b\""),
                ("//tags", "2 [\"a\",\"b\"]"),
                ("//who[name = 'Bob']", "1 {\"name\":\"Bob\",\"note\":null}"),
                ("//who[name = 'Bob']/note", "1 null"),
                ("//*[name() = 'odd key']", "1 true"),
                ("//*[name() = 'a:b']/text()", "1 \"c\""),
                ("/json/*[name() = '']", "1 {}"),
                ("/json/_", "1 \"\\u0000\\u0001x\""),
                ("/json/orders/_[2]/..", "1 [{\"id\":7,"),
                ("//note = ''", "1 true"),
                ("//_[starts-with(., 'a')]", "1 \"a\""),
            ] {
                let (found, _) = asked(&database, text);
                let (count, first) = expected.split_once(' ').unwrap();
                assert_eq!(found.len().to_string(), count, "{text}: {found:?}");
                assert!(found[0].starts_with(first), "{text}: {found:?}");
            }
        }
    }
    let rows: Vec<String> = (0..2000).map(|row| format!("{{\"id\": {row}e1}}")).collect();
    let text = format!("[{}]", rows.join(","));
    let (database, _) = imported(&options(MappingKind::Elementless, &INDEXES), &text);
    assert_eq!(asked(&database, "/json/_[id = 770]"), (vec!["{\"id\":77e1}".to_owned()], true));
    assert_eq!(asked(&database, "/json/_[id = '77e1']/id").0, ["77e1"]);
    change(&database, "/json/_[id = 770]/id/text()", Some("5e-1")).unwrap();
    assert_eq!(asked(&database, "/json/_[id = 0.5]"), (vec!["{\"id\":5e-1}".to_owned()], true));
    assert_eq!(findings(&database), Vec::<String>::new());
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let classes = document.synopsis().classes();
    let paths: Vec<String> = (0..)
        .zip(classes)
        .skip(1)
        .map(|(id, _)| document.path_of(nandu_xml::ClassId(id)))
        .collect();
    assert_eq!(paths, ["/json", "/json/_", "/json/_/id"]);
}

#[test]
fn values_get_others_of_any_type_and_what_makes_no_sense_is_refused() {
    for mapping in MappingKind::ALL {
        let (database, _) =
            imported(&options(mapping, &INDEXES), r#"{"a": [1, "x"], "b": {"c": null}}"#);
        change(&database, "//a/_[1]/text()", Some("\"one\"")).unwrap();
        change(&database, "//a/_[2]/text()", Some("2.50")).unwrap();
        change(&database, "//c/text()", Some("{}")).unwrap();
        assert_eq!(exported(&database), "{\"a\":[\"one\",2.50],\"b\":{\"c\":{}}}\n");
        change(&database, "//c/text()", Some("\"\"")).unwrap();
        change(&database, "//a/_", None).unwrap();
        assert_eq!(exported(&database), "{\"a\":[],\"b\":{\"c\":\"\"}}\n");
        for value in ["sent", "", "01", "[1]", "{\"a\": 1}", "1 2", "\"a", "\"\\ud800\"", "nul"] {
            let said = change(&database, "//c/text()", Some(value)).unwrap_err().to_string();
            assert!(said.contains("no value of JSON"), "{value}: {said}");
        }
        let said = change(&database, "//c/text()", None).unwrap_err().to_string();
        assert!(said.contains("with its member or item"), "{said}");
        let said = change(&database, "/json", None).unwrap_err().to_string();
        assert!(said.contains("outermost"), "{said}");
        change(&database, "//b | //a", None).unwrap();
        assert_eq!(exported(&database), "{}\n");
        assert_eq!(findings(&database), Vec::<String>::new());
    }
}

/// All entries of a table.
fn entries(database: &Database, table: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    database.read().entries(table).unwrap().map(Result::unwrap).collect()
}

fn put(database: &Database, table: &str, key: &[u8], value: &[u8]) {
    let mut write = database.write().unwrap();
    write.put_value(table, key, value).unwrap();
    write.commit().unwrap();
}

#[test]
fn documents_have_their_bytes_for_ever_and_other_versions_are_told() {
    let text = r#"{"a": [1.0, null], "b": {}}"#;
    let (database, _) = imported(&options(MappingKind::Prefix, &[]), text);
    let nodes = entries(&database, "doc-nodes");
    let expected: [&[u8]; 9] = [
        &[0, 1],
        &[0, 0x01, 0x37, 2],
        &[0, 0x01, 0x37, 3],
        &[0x13, 0x01, 0x37, 3, 3, b'1', b'.', b'0'],
        &[0, 0x21, 0x38, 3],
        &[0x33, 0x01, 0x37, 3, 0],
        &[0, 0x31, 0x38, 4],
        &[0x43, 0x01, 0x37, 4, 0],
        &[],
    ];
    assert_eq!(nodes, [(vec![0x37], expected.concat())]);
    let (key, head) = entries(&database, "doc-catalog").remove(0);
    assert_eq!((&key[..], &head[..4]), (&[0][..], &[4, 1, 1, 0][..]));
    for (place, byte, word) in
        [(0, 3, "of version 3"), (1, 9, "mapping"), (2, 9, "format"), (3, 9, "packed")]
    {
        let mut other = head.clone();
        other[place] = byte;
        put(&database, "doc-catalog", &key, &other);
        let said = Document::open(&database.read(), "doc").unwrap_err().to_string();
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn hostile_bytes_in_a_document_are_findings_and_never_a_panic() {
    let text = SHOP.replace("Ann", &"long ".repeat(600));
    for mapping in MappingKind::ALL {
        let (database, _) = imported(&options(mapping, &[]), &text);
        for table in ["doc-nodes", "doc-catalog"] {
            let mut harm_count = 0;
            for (key, value) in entries(&database, table) {
                for at in (0..value.len()).step_by(1 + value.len() / 60) {
                    for flip in [0x01, 0x10, 0x80, 0xFF] {
                        let mut broken = value.clone();
                        broken[at] ^= flip;
                        put(&database, table, &key, &broken);
                        harm_count += u64::from(is_harm_told(&database));
                    }
                }
                put(&database, table, &key, &value);
            }
            assert!(harm_count > 10, "{mapping:?} {table}: {harm_count}");
        }
        assert_eq!(findings(&database), Vec::<String>::new());
    }
}

/// Whether a check tells of harm; what it finds sound comes out as JSON.
fn is_harm_told(database: &Database) -> bool {
    let read = database.read();
    let Ok(document) = Document::open(&read, "doc") else { return true };
    let mut output = Vec::new();
    let exported = nandu_xml::export(&read, &document, &mut output);
    let report = check(&read, &document).unwrap();
    if report.findings.is_empty() && document.format() == DocumentFormat::Json {
        exported.unwrap();
        Json::read(std::str::from_utf8(&output).unwrap()).unwrap();
        return false;
    }
    !report.findings.is_empty()
}
