//! `nandu xml` as a user runs it: in, out, how large, sound or not, what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, nandu, run, stdout_of};
use std::fs;
use std::io::Write;
use std::process::Stdio;

const TEXT: &str = "<bib>\n  <book year=\"1994\"><title>TCP/IP</title></book>\n  <book/>\n</bib>\n";

#[test]
fn documents_go_in_and_come_out_in_each_mapping() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(directory.join("bib.xml"), TEXT).unwrap();
    for mapping in ["full", "prefix", "elementless"] {
        let words = ["xml", "import", "--mapping", mapping, "bib.xml", mapping];
        assert!(stdout_of(directory, &words).starts_with("document: 9 nodes"));
        let text = stdout_of(directory, &["xml", "export", mapping]);
        assert_eq!(text, format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{TEXT}"));
        assert!(stdout_of(directory, &["xml", "stat", mapping]).contains(mapping));
        let checked = stdout_of(directory, &["xml", "check", mapping]);
        assert!(checked.contains("9 nodes in 1 container"), "{checked}");
    }
    assert!(failure_of(directory, &["xml", "import", "bib.xml", "full"], 2).contains("exists"));
    let words = ["xml", "export", "full", "--output", "out.xml"];
    stdout_of(directory, &words);
    assert!(fs::read_to_string(directory.join("out.xml")).unwrap().ends_with(TEXT));
    assert!(failure_of(directory, &words, 2).contains("--overwrite"));
    assert!(failure_of(directory, &["xml", "export", "full", "--json"], 2).contains("--output"));
}

#[test]
fn a_document_that_is_removed_makes_room_for_another_of_its_name() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(directory.join("bib.xml"), TEXT).unwrap();
    fs::write(directory.join("other.xml"), "<other/>").unwrap();
    let import = ["xml", "import", "bib.xml", "bib", "--index", "elements"];
    stdout_of(directory, &import);
    stdout_of(directory, &["xml", "import", "other.xml", "bib", "--name", "other"]);
    for tree in ["document-nodes", "document-catalog", "other-nodes"] {
        let said = failure_of(directory, &["db", "drop", "bib", tree], 2);
        let document = tree.split('-').next().unwrap();
        assert!(said.contains(&format!("nandu xml drop --name {document} bib")), "{said}");
    }
    let twice = failure_of(directory, &import, 2);
    assert!(twice.contains("nandu xml drop"), "{twice}");
    assert_eq!(stdout_of(directory, &["xml", "drop", "bib"]), "document is removed\n");
    assert!(failure_of(directory, &["xml", "drop", "bib"], 2).contains("document"));
    assert!(!stdout_of(directory, &["db", "schema", "bib"]).contains("document-"));
    stdout_of(directory, &import);
    assert!(stdout_of(directory, &["xml", "export", "bib"]).ends_with(TEXT));
    assert!(stdout_of(directory, &["xml", "export", "bib", "--name", "other"]).contains("<other"));
}

#[test]
fn indexes_are_made_shown_and_checked() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(directory.join("bib.xml"), TEXT).unwrap();
    let words =
        ["xml", "import", "bib.xml", "bib", "--index", "elements", "--index", "number://@year"];
    stdout_of(directory, &words);
    let stat = stdout_of(directory, &["xml", "stat", "bib"]);
    assert!(stat.contains("elements://*") && stat.contains("number://@year"), "{stat}");
    let checked = stdout_of(directory, &["xml", "check", "bib"]);
    assert!(
        checked.contains("9 nodes in 1 container, and 5 entries of indexes, looked at"),
        "{checked}"
    );
    let refused = |index: &str| {
        failure_of(directory, &["xml", "import", "bib.xml", "other", "--index", index], 2)
    };
    assert!(refused("values://@year").contains("write elements, elements:PATH"));
    assert!(refused("text://p:year").contains("--namespace p=URI"));
    assert!(!directory.join("other").exists());
}

#[test]
fn an_index_is_explained_and_used_before_and_after_updates() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let rows: String =
        (0..2000).map(|row| format!("<row id=\"{row}\"><v>{}</v></row>", row * 3)).collect();
    fs::write(directory.join("rows.xml"), format!("<rows>{rows}</rows>")).unwrap();
    stdout_of(directory, &["xml", "import", "rows.xml", "rows", "--index", "number://@id"]);
    let ask = |words: &[&str]| stdout_of(directory, words);
    assert_eq!(ask(&["xml", "query", "rows", "//row[@id = 77]/v"]), "<v>231</v>\n");
    let plan = ask(&["xml", "query", "rows", "//row[@id = 77]/v", "--plan"]);
    assert!(plan.starts_with(
        "1 of 2000 elements held in memory, one after the other, found by number://@id"
    ));
    let explained = ask(&["xml", "explain", "rows", "//row[@id = 77]/v", "--analyze"]);
    let lines: Vec<&str> = explained.lines().collect();
    assert!(explained.contains("1 entry of indexes read to find them"), "{explained}");
    let [index, scan] = ["index ", "scan "].map(|way| {
        let line = lines.iter().find(|line| line.trim_start().starts_with(way));
        line.unwrap_or_else(|| panic!("{explained}")).matches("request").count()
    });
    assert_eq!((index, scan), (1, 1), "{explained}");
    let scanned = ask(&["xml", "explain", "rows", "//row[v = 3]"]);
    assert!(!scanned.contains("index "), "{scanned}");
    let update = |words: &[&str]| ask(&[&["xml", "update", "rows"], words].concat());
    assert_eq!(update(&["//row[@id = 77]/v", "--set", "a<b"]), "document: 1 node set\n");
    assert_eq!(update(&["//row[@id = 77]/@id", "--set", "5000"]), "document: 1 node set\n");
    assert_eq!(update(&["//row[@id < 5]/v", "--delete"]), "document: 5 nodes deleted\n");
    let note = ["//row[@id = 5000]", "--insert", "<row id='-1'/>text", "--at", "before"];
    assert_eq!(update(&note), "document: 1 node inserted at\n");
    assert_eq!(update(&["//row[@id = -1]", "--set", "new"]), "document: 1 node set\n");
    let found = ask(&["xml", "query", "rows", "//row[@id > 1998 or @id < 1]"]);
    let expected = "<row id=\"0\"/>\n<row id=\"-1\">new</row>\n<row id=\"5000\"><v>a&lt;b</v></row>\n\
        <row id=\"1999\"><v>5997</v></row>\n";
    assert_eq!(found, expected);
    assert!(ask(&["xml", "check", "rows"]).contains("2001 entries of indexes"));
    let refused =
        |words: &[&str]| failure_of(directory, &[&["xml", "update", "rows"], words].concat(), 2);
    assert!(refused(&["/rows", "--set", "x"]).contains("has other nodes"));
    assert!(refused(&["/rows", "--delete"]).contains("outermost"));
    assert!(refused(&["/", "--delete"]).contains("document itself"));
    assert!(refused(&["count(//row)", "--delete"]).contains("gives no nodes"));
    assert!(refused(&["//@id", "--insert", "<a/>"]).contains("only elements"));
    assert!(refused(&["//row[@id = 7]", "--insert", "<a>"]).contains("ends inside"));
    assert!(refused(&["//row", "--set", "x", "--delete"]).contains("cannot be used with"));
    assert!(refused(&["//row"]).contains("required"));
    assert_eq!(ask(&["xml", "query", "rows", "count(//row)"]), "2001\n");
}

#[test]
fn a_document_comes_through_a_pipe_beside_another() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    for (name, text) in [("one", "<a/>"), ("two", "<b>2</b>")] {
        let words = ["xml", "import", "-", "shop", "--name", name];
        let mut child =
            nandu(directory, &words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }
    assert!(stdout_of(directory, &["xml", "export", "shop", "--name", "two"]).contains("<b>2</b>"));
    let missing = failure_of(directory, &["xml", "stat", "shop"], 2);
    assert!(missing.contains("there is no document document"), "{missing}");
}

#[test]
fn what_is_no_document_is_told_with_its_place_and_leaves_no_database() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(directory.join("bad.xml"), "<a>\n  <b></c>\n</a>").unwrap();
    let said = failure_of(directory, &["xml", "import", "bad.xml", "shop"], 2);
    assert!(said.contains("bad.xml: line 2, column 6:"), "{said}");
    assert!(!directory.join("shop").exists());
    let said = failure_of(directory, &["xml", "import", "none.xml", "shop"], 2);
    assert!(said.contains("none.xml"), "{said}");
    fs::write(directory.join("good.xml"), "<a/>").unwrap();
    let words = ["xml", "import", "good.xml", "shop", "--page-size", "1KiB"];
    assert!(failure_of(directory, &words, 2).contains("too small for labels"));
    let words = ["xml", "import", "good.xml", "shop", "--name", "a/b"];
    assert!(failure_of(directory, &words, 2).contains("is no name"));
    assert_eq!(run(directory, &["xml", "check", "shop"]).status.code(), Some(2));
}

#[test]
fn expressions_find_nodes_and_values() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let text = "<bib xmlns:p='urn:p'><book id='a&lt;'><t>One</t><!--c--></book><book id='b'><t>Two \
        <i/>&amp; more</t><p:x>y</p:x></book><?go on?></bib>";
    fs::write(directory.join("bib.xml"), text).unwrap();
    stdout_of(directory, &["xml", "import", "bib.xml", "bib"]);
    let ask = |words: &[&str]| stdout_of(directory, &[&["xml", "query", "bib"], words].concat());
    assert_eq!(ask(&["//t"]), "<t>One</t>\n<t>Two <i/>&amp; more</t>\n");
    assert_eq!(ask(&["//t", "--text"]), "One\nTwo & more\n");
    assert_eq!(ask(&["//@id"]), "id=\"a&lt;\"\nid=\"b\"\n");
    assert_eq!(ask(&["//book[1]"]), "<book id=\"a&lt;\"><t>One</t><!--c--></book>\n");
    assert_eq!(ask(&["/bib/node()[last()]"]), "<?go on?>\n");
    assert_eq!(ask(&["count(//book)"]), "2\n");
    assert_eq!(ask(&["//book/@id = 'b'"]), "true\n");
    assert_eq!(ask(&["//none"]), "");
    assert_eq!(ask(&["//q:x", "--namespace", "q=urn:p"]), "<p:x>y</p:x>\n");
    let whole = ask(&["/"]);
    assert!(whole.starts_with("<bib xmlns:p=\"urn:p\"><book ") && whole.ends_with("</bib>\n"));
    let plan = ask(&["/bib/book[t = 'One']/@id", "--plan"]);
    assert!(plan.starts_with("2 elements held in memory, one after the other:\n  /bib/book\n"));
    let plan = ask(&["//book[1]", "--plan"]);
    assert!(plan.starts_with("2 elements") && plan.contains("number 1 alone"), "{plan}");
    let plan = ask(&["//book[last()]", "--plan"]);
    assert!(plan.starts_with("2 elements") && plan.contains("the last one"), "{plan}");
    let plan = ask(&["//t/following::x", "--plan"]);
    assert!(plan.starts_with("the document is held in memory as a whole"), "{plan}");
    let plan = ask(&["//t/ancestor::book/@id", "--plan"]);
    assert!(plan.contains("asked are those in them of:\n  /bib/book/t\n"), "{plan}");
    assert_eq!(ask(&["//t[. = 'One']/ancestor::book/@id"]), "id=\"a&lt;\"\n");
    assert!(ask(&["//none", "--plan"]).starts_with("no path of the document fits"));
    let refused =
        |words: &[&str]| failure_of(directory, &[&["xml", "query", "bib"], words].concat(), 2);
    assert!(refused(&["//book["]).contains("column 8: expected a step"));
    assert!(refused(&["//q:x"]).contains("--namespace q=URI"));
    assert!(refused(&["//book[last()]", "--memory", "100B"]).contains("give more"));
    assert!(refused(&["//t", "--namespace", "x"]).contains("PREFIX=URI"));
}

#[test]
fn documents_of_json_go_in_come_out_are_asked_and_changed() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let text = "{\"orders\": [{\"id\": 7, \"total\": 1.50, \"odd key\": null}, {\"id\": 8}]}";
    fs::write(directory.join("shop.json"), text).unwrap();
    let ask = |words: &[&str]| stdout_of(directory, &[&["xml"], words].concat());
    assert!(ask(&["import", "shop.json", "shop", "--index", "number://id"]).contains("(json, "));
    fs::copy(directory.join("shop.json"), directory.join("shop.txt")).unwrap();
    let words =
        ["import", "shop.txt", "shop", "--name", "two", "--format", "json", "--mapping", "full"];
    ask(&words);
    let expected = "{\"orders\":[{\"id\":7,\"total\":1.50,\"odd key\":null},{\"id\":8}]}\n";
    for name in ["document", "two"] {
        assert_eq!(ask(&["export", "shop", "--name", name]), expected);
        assert!(ask(&["stat", "shop", "--name", name]).contains("json"));
        assert!(ask(&["check", "shop", "--name", name]).contains("looked at"));
    }
    assert_eq!(
        ask(&["query", "shop", "//_[id = 7]"]),
        "{\"id\":7,\"total\":1.50,\"odd key\":null}\n"
    );
    assert_eq!(ask(&["query", "shop", "//_[id = 7]/*[name() = 'odd key']"]), "null\n");
    assert_eq!(ask(&["query", "shop", "//id", "--text"]), "7\n8\n");
    let plan = ask(&["query", "shop", "/json/orders/_/*[. = 8]", "--plan"]);
    assert!(plan.contains("/json/orders/_/*[name() = \"odd key\"]"), "{plan}");
    let update = |words: &[&str]| ask(&[&["update", "shop"], words].concat());
    assert_eq!(update(&["//_[id = 8]/id", "--set", "\"new\""]), "document: 1 node set\n");
    assert_eq!(update(&["//total", "--set", "[]"]), "document: 1 node set\n");
    assert_eq!(update(&["//total", "--set", "true"]), "document: 1 node set\n");
    assert_eq!(update(&["//_[id = 7]/*[3]", "--delete"]), "document: 1 node deleted\n");
    assert_eq!(
        ask(&["export", "shop"]),
        "{\"orders\":[{\"id\":7,\"total\":true},{\"id\":\"new\"}]}\n"
    );
    assert!(ask(&["check", "shop"]).contains("1 entry of indexes"));
    let refused =
        |words: &[&str]| failure_of(directory, &[&["xml", "update", "shop"], words].concat(), 2);
    assert!(refused(&["//total", "--set", "sent"]).contains("line 1, column 1"));
    assert!(refused(&["//total", "--set", "[1,\n 2"]).contains("line 2, column 3"));
    assert!(refused(&["//total/text()", "--delete"]).contains("its member"));
    assert!(refused(&["//orders", "--insert", "1, <a/>"]).contains("line 1, column 4"));
    assert!(refused(&["//total", "--insert", "1"]).contains("only objects and arrays"));
    assert!(refused(&["//_[1]", "--insert", "\"id\": 9"]).contains("key `id` is there already"));
    assert!(refused(&["//_[1]", "--insert", "{\"a\": 9}"]).contains("without its braces"));
    let inserted = "document: 1 node inserted at\n";
    assert_eq!(update(&["//orders", "--insert", "{\"id\": 9}, 5", "--at", "first"]), inserted);
    assert_eq!(update(&["//_[id = 9]", "--insert", "\"who\": {\"name\": \"Ann\"}"]), inserted);
    assert_eq!(update(&["//total", "--insert", "\"tax\": 0.10", "--at", "before"]), inserted);
    assert_eq!(update(&["//_[id = 'new']", "--set", "[1, {}]"]), "document: 1 node set\n");
    assert_eq!(
        ask(&["export", "shop"]),
        "{\"orders\":[{\"id\":9,\"who\":{\"name\":\"Ann\"}},5,{\"id\":7,\"tax\":0.10,\"total\":true},[1,{}]]}\n"
    );
    assert_eq!(ask(&["query", "shop", "//_[id = 9]/who/name"]), "\"Ann\"\n");
    assert!(ask(&["check", "shop"]).contains("2 entries of indexes"));
    fs::write(directory.join("bad.json"), "{\"a\": 1,\n \"a\": 2}").unwrap();
    let said = failure_of(directory, &["xml", "import", "bad.json", "shop", "--name", "bad"], 2);
    assert!(said.contains("bad.json: line 2, column 2: key `a` is there twice"), "{said}");
}

#[test]
fn containers_are_packed_where_it_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let rows = "<row><name>the same in each row</name></row>".repeat(2000);
    fs::write(directory.join("rows.xml"), format!("<rows>{rows}</rows>")).unwrap();
    stdout_of(directory, &["xml", "import", "rows.xml", "plain"]);
    stdout_of(directory, &["xml", "import", "rows.xml", "packed", "--compress"]);
    let [plain, packed] =
        ["plain", "packed"].map(|database| stdout_of(directory, &["xml", "stat", database]));
    assert!(packed.contains("lz4") && packed.contains("containers, unpacked"), "{packed}");
    assert!(plain.contains("none") && !plain.contains("unpacked"), "{plain}");
    let [plain, packed] =
        ["plain", "packed"].map(|database| stdout_of(directory, &["xml", "export", database]));
    assert!(plain == packed);
    assert!(stdout_of(directory, &["xml", "check", "packed"]).contains("looked at"));
}
