//! Documents as a user has them: in, out, equal by canonical XML, refused where they are none.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{database, exported, imported, trouble_of};
use nandu_storage::Database;
use nandu_xml::{Document, MappingKind, NodeKind, StepKind, XmlError, check, import};
use std::fmt::Write;
use std::process::Command;

/// With what XML has: a document type with entities and defaults, instructions and comments in all
/// places, namespaces, mixed content, references, sections, ends of lines of three kinds.
const EVERYTHING: &str = "<?xml version='1.0' encoding='utf-8' standalone='yes'?>\r\n\
    <!-- before --><?style sheet='x' ?>\n\
    <!DOCTYPE doc [\n<!ELEMENT doc ANY><!ENTITY who \"<b>you</b> &amp; &#38;amp; me\">\n\
    <!ENTITY plain 'x &who2; z'><!ENTITY who2 'y'><!ATTLIST doc kind CDATA 'usual' id NMTOKEN #IMPLIED>\n]>\n\
    <doc xmlns='urn:one' xmlns:p='urn:two' id=' a  b ' p:x=\"'1' &lt; &quot;2&quot;\" empty=''>\r\n\
    mixed <p:b>con<i/>tent</p:b> &amp; &#x20AC; &who; <![CDATA[<raw> & ]] ]]>&gt;\r\
    <c xmlns='' xmlns:p='urn:three' p:x='tab\tline\nend&#10;&#13;'><p:d/>&plain;<!--in--><?in?></c>\n\
    <e xmlns='urn:one' />ä\u{1F600}<f a='&plain;&#9;'></f>  </doc>\n<!-- after --><?last words ?>\n";

#[test]
fn documents_come_out_as_they_went_in() {
    let mut texts = vec![EVERYTHING.to_owned(), "<a/>".to_owned(), "\u{FEFF}<a>ä</a>".to_owned()];
    let deep = (0..256).map(|level| format!("<l{}>", level % 7)).collect::<String>()
        + &(0..256).rev().map(|level| format!("</l{}>", level % 7)).collect::<String>();
    texts.push(deep);
    let mut wide = "<list>".to_owned();
    for row in 0..3000 {
        let _ = write!(wide, "<row id='{row}'><name>n{row}</name><empty/><more x=''/>\n</row>");
    }
    texts.push(wide + "</list>");
    let long = "1234567890 ü ".repeat(9000);
    texts.push(format!("<a x='{long}'><!--{long}-->{long}<b>{long}</b><?p {long}?></a>"));
    let names: String = (0..300).map(|name| format!("<n{name} a{name}='1'/>")).collect();
    texts.push(format!("<names>{names}{names}</names>"));
    for text in &texts {
        let outputs = MappingKind::ALL.map(|mapping| {
            let (database, report) = imported(mapping, text);
            assert_eq!(report.plain_bytes, text.len() as u64);
            let read = database.read();
            let document = Document::open(&read, "doc").unwrap();
            let checked = check(&read, &document).unwrap();
            assert_eq!(checked.findings, Vec::<String>::new());
            assert_eq!((checked.counts, document.mapping()), (report.counts, mapping));
            assert_eq!(read.check().unwrap().findings, Vec::<String>::new());
            exported(&database)
        });
        assert!(outputs.iter().all(|output| *output == outputs[0]));
        let (again, _) = imported(MappingKind::default(), &outputs[0]);
        assert_eq!(exported(&again), outputs[0]);
        if let Some([one, other]) = canonical([text, &outputs[0]]) {
            assert_eq!(one, other);
        }
    }
}

#[test]
fn a_return_and_a_feed_of_an_entity_are_two_spaces_of_an_attribute() {
    // Section 3.3.3: only ends of lines of the text itself are one character before.
    let text = "<!DOCTYPE a [<!ENTITY x 'a&#13;&#10;b'>]>\n<a b='&x;\r\n&#13;&#10;'/>";
    for mapping in MappingKind::ALL {
        let (database, _) = imported(mapping, text);
        let output = exported(&database);
        assert!(output.contains("<a b=\"a  b &#13;&#10;\"/>"), "{output}");
    }
}

/// Canonical XML of both, by xmllint.
fn canonical(texts: [&str; 2]) -> Option<[String; 2]> {
    let place = tempfile::tempdir().unwrap();
    let answers = texts.map(|text| {
        let file = place.path().join("document.xml");
        std::fs::write(&file, text).unwrap();
        Command::new("xmllint").args(["--nonet", "--huge", "--c14n"]).arg(&file).output()
    });
    if answers.iter().any(Result::is_err) {
        common::skip("xmllint is not there (Debian: libxml2-utils): canonical XML is not compared");
        return None;
    }
    Some(answers.map(|answer| {
        let answer = answer.unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        String::from_utf8(answer.stdout).unwrap()
    }))
}

#[test]
fn real_documents_come_out_as_they_went_in() {
    let places = ["/usr/share/mime/packages", "/usr/share/xml/iso-codes"];
    let found = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten();
    let mut found: Vec<_> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|file| file.extension().is_some_and(|extension| extension == "xml"));
    found.sort();
    if found.is_empty() {
        common::skip("no documents are there (Debian: shared-mime-info, iso-codes)");
    }
    for file in found.iter().take(3) {
        let text = std::fs::read_to_string(file).unwrap();
        let (database, report) = imported(MappingKind::Elementless, &text);
        assert!(report.counts.node_count() > 0);
        if let Some([one, other]) = canonical([&text, &exported(&database)]) {
            assert!(one == other, "{} differs", file.display());
        }
    }
}

#[test]
fn names_have_their_namespaces_and_paths_are_counted() {
    let (database, report) = imported(MappingKind::Full, EVERYTHING);
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let path_of = |wanted: &str| {
        let classes = document.synopsis().classes();
        let found = classes.iter().filter(|class| {
            class.kind == StepKind::Element
                && document.vocabulary().get(class.name).unwrap().written() == wanted
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found.len(), 1, "{wanted}");
        let name = document.vocabulary().get(found[0].name).unwrap();
        (name.namespace.clone(), found[0].level, found[0].node_count)
    };
    assert_eq!(path_of("doc"), ("urn:one".to_owned(), 1, 1));
    assert_eq!(path_of("p:b"), ("urn:two".to_owned(), 2, 1));
    assert_eq!(path_of("c"), (String::new(), 2, 1));
    assert_eq!(path_of("p:d"), ("urn:three".to_owned(), 3, 1));
    // From the entity, where the default namespace is the element's.
    assert_eq!(path_of("b"), ("urn:one".to_owned(), 2, 1));
    let counts = report.counts;
    assert_eq!((counts.element_count, counts.attribute_count), (8, 5));
    assert_eq!((counts.namespace_count, counts.comment_count), (5, 3));
    assert_eq!((counts.instruction_count, counts.doctype_count), (3, 1));
    assert_eq!(counts.level_count, 3);
}

/// Texts that are no documents, the place where that shows, and a word of why.
const BROKEN: [(&str, (u64, u64), &str); 57] = [
    ("", (1, 1), "before there was an element"),
    (" \n <!-- x --> ", (2, 13), "before there was an element"),
    ("text", (1, 1), "outside"),
    ("<a>", (1, 4), "inside of <a>, which began in line 1"),
    ("<a>\n <b>\n  text", (3, 7), "inside of <b>, which began in line 2"),
    ("<a", (1, 1), "not closed"),
    ("<a>\n<b", (2, 1), "not closed"),
    ("<a x='1", (1, 1), "not closed"),
    ("<a><!-- x</a>", (1, 4), "comment not closed"),
    ("<a><![CDATA[ x</a>", (1, 4), "CDATA not closed"),
    ("<a></b>", (1, 4), "expected `</a>`"),
    ("<a/></a>", (1, 5), ""),
    ("<a/>\n<b/>", (2, 1), "second"),
    ("<a/> x", (1, 5), "outside"),
    ("<a/>&amp;", (1, 5), "outside"),
    ("<a/><![CDATA[x]]>", (1, 5), "outside"),
    ("<1/>", (1, 1), "`1` is no name"),
    ("<a:b:c xmlns:a='x'/>", (1, 1), "is no name"),
    ("<p:a/>", (1, 1), "prefix of `p:a`"),
    ("<a p:x=''/>", (1, 4), "prefix of `p:x`"),
    ("<a xmlns:p=''/>", (1, 1), "stands for nothing"),
    ("<a xmlns:xml='urn:x'/>", (1, 1), "xml and xmlns"),
    ("<a x='1' x='2'/>", (1, 10), "`x` is there twice"),
    ("<a xmlns:p='u' xmlns:q='u' p:x='' q:x=''/>", (1, 1), "`x` is there twice"),
    ("<a x='1'y='2'/>", (1, 9), "a space"),
    ("<a x/>", (1, 4), "has no value"),
    ("<a x=1/>", (1, 6), "no quotes"),
    ("<a x='<'/>", (1, 7), "`<` is not allowed"),
    ("<a x='&'/>", (1, 7), "`;` is missing"),
    ("<a>ä &nbsp;</a>", (1, 6), "no entity &nbsp;"),
    ("<a>& b</a>", (1, 4), ""),
    ("<a>&#0;</a>", (1, 4), "no character"),
    ("<a>]]></a>", (1, 4), "]]&gt;"),
    ("<a>\u{1}</a>", (1, 4), "a character is none"),
    ("<a x='\u{FFFE}'/>", (1, 7), "a character is none"),
    ("<a\n x='1'\n  ä='&bad;'/>", (3, 6), "no entity &bad;"),
    ("<a\n x='1'\n  x='2'/>", (3, 3), "`x` is there twice"),
    ("<a xmlns='u'\n xmlns:p='\n&bad;'/>", (3, 1), "no entity &bad;"),
    ("<a>one\nö\u{1}</a>", (2, 2), "a character is none"),
    ("<a>one\n ]]></a>", (2, 2), "]]&gt;"),
    ("<a><!-- x\n \u{1} --></a>", (2, 2), "a character is none"),
    ("<a><![CDATA[x\u{1}]]></a>", (1, 14), "a character is none"),
    ("<a><!-- -- --></a>", (1, 4), "`--`"),
    ("<a><?xml version='1.0'?></a>", (1, 4), "beginning"),
    (" <?xml version='1.0'?><a/>", (1, 2), "beginning"),
    ("<a><?XML x?></a>", (1, 4), "no target"),
    ("<?xml version='1.0' encoding='ISO-8859-1'?><a/>", (1, 1), "iconv -f ISO-8859-1"),
    ("<a/><!DOCTYPE a>", (1, 5), "before the outermost element"),
    ("<!DOCTYPE a [garbage]><a/>", (1, 1), "not expected"),
    ("<?xml version='2.0'?><a/>", (1, 1), "version `2.0`"),
    ("<?xml version='1.0' standalone='maybe'?><a/>", (1, 1), "standalone `maybe`"),
    ("<?xml version='1.0' foo='bar'?><a/>", (1, 1), "`foo='bar'`"),
    ("<?xml version='1.0'encoding='utf-8'?><a/>", (1, 1), "not expected"),
    ("<?xml encoding='utf-8'?><a/>", (1, 1), "version"),
    ("<!DOCTYPE a [<!ENTITY x SYSTEM 'y'>]><a>&x;</a>", (1, 41), "not read"),
    ("<!DOCTYPE a [<!ENTITY x '<b>'>]><a>&x;</a>", (1, 36), "without its other"),
    ("<!DOCTYPE a [<!ENTITY x '&x;'>]><a>&x;</a>", (1, 36), "levels deep"),
];

#[test]
fn what_is_no_document_is_refused_with_its_place_and_leaves_nothing() {
    let database = database();
    for (text, place, word) in BROKEN {
        let (found, what) = trouble_of(&database, text.as_bytes());
        assert_eq!((found.line, found.column), place, "{text:?}: {what}");
        assert!(what.contains(word), "{text:?}: {what}");
    }
    assert_eq!(database.read().definitions().unwrap().count(), 0);
}

/// FIXML has elements of seventy attributes.
#[test]
fn of_many_attributes_none_is_twice_there() {
    let database = database();
    let mut many = String::new();
    for number in 0..70 {
        let _ = write!(many, " x{number}='' p:x{number}='' xmlns:n{number}='urn:{number}'");
    }
    let begin = format!("<a xmlns:p='u' xmlns:q='u'{many}");
    for (one_more, word) in [
        ("x0=''", "`x0` is there twice"),
        ("x69=''", "`x69` is there twice"),
        ("p:x3=''", "`p:x3` is there twice"),
        ("q:x69=''", "`x69` is there twice"),
        ("xmlns:n5='urn:5'", "`n5` is there twice"),
    ] {
        let text = format!("{begin} {one_more}/>");
        let what = trouble_of(&database, text.as_bytes()).1;
        assert!(what.contains(word), "{one_more}: {what}");
    }
    let text = format!("<r>{begin} n0:x0=''/>{begin} y='' q:y=''/></r>");
    let mut write = database.write().unwrap();
    let input = ("text", text.as_bytes());
    import(&mut write, "many", MappingKind::Elementless, input, &mut ()).unwrap();
}

#[test]
fn encodings_that_are_not_read_are_told() {
    let database = database();
    for bytes in [&b"\xFF\xFE<\0a\0"[..], b"\xFE\xFF\0<\0a", b"<\0a\0/\0>\0"] {
        assert!(trouble_of(&database, bytes).1.contains("UTF-16"), "{bytes:?}");
    }
    for bytes in [&b"<a>\n\xFF</a>"[..], b"<a>\n<b \xE4=''/></a>", b"<a>\n<!-- \xC3 --></a>"] {
        let (place, what) = trouble_of(&database, bytes);
        assert!(what.contains("UTF-8"), "{bytes:?}: {what}");
        assert!(place.line <= 2, "{bytes:?}");
    }
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    let mut laughs = "<!DOCTYPE a [<!ENTITY l0 'ha'>".to_owned();
    for level in 1..10 {
        let _ = write!(laughs, "<!ENTITY l{level} '{}'>", format!("&l{};", level - 1).repeat(10));
    }
    let database = database();
    for end in ["]>\n<a>&l9;</a>", "]>\n<a x='&l9;'/>"] {
        let (place, what) = trouble_of(&database, (laughs.clone() + end).as_bytes());
        assert!(what.contains("8 MiB") && place.line == 2, "{what}");
    }
    let deep = "<a>".repeat(257);
    assert!(trouble_of(&database, deep.as_bytes()).1.contains("256 levels"));
    let name = "n".repeat(5000);
    assert!(trouble_of(&database, format!("<{name}/>").as_bytes()).1.contains("4096 bytes"));
    let endless = std::io::Read::chain(&b"<a x='"[..], std::io::repeat(b'x'));
    let mut write = database.write().unwrap();
    let answer =
        import(&mut write, "doc", MappingKind::Full, ("endless", endless), &mut ()).unwrap_err();
    assert!(answer.to_string().contains("64 MiB"), "{answer}");
}

#[test]
fn an_import_that_fails_or_is_stopped_leaves_the_database_as_it_was() {
    struct Stop;
    impl nandu_xml::ImportObserver for Stop {
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let (database, _) = imported(MappingKind::Prefix, "<a>1</a>");
    let mut write = database.write().unwrap();
    let text = ("x", &b"<a>2</a>"[..]);
    let answer = import(&mut write, "doc", MappingKind::Full, text, &mut ());
    assert!(matches!(answer, Err(XmlError::Storage(_))), "{answer:?}");
    let answer = import(&mut write, "other", MappingKind::Full, text, &mut Stop);
    assert!(matches!(answer, Err(XmlError::Cancelled)), "{answer:?}");
    write.commit().unwrap();
    let read = database.read();
    let missing = Document::open(&read, "other").unwrap_err();
    assert!(matches!(missing, XmlError::Missing { .. }), "{missing:?}");
    assert!(exported(&database).ends_with("<a>1</a>\n"));
}

#[test]
fn elementless_documents_have_records_of_leaves_and_empty_elements_only() {
    let (database, report) =
        imported(MappingKind::Elementless, "<a><b x='1'/><c/><d>t<e><f/></e></d></a>");
    let records = record_count(&database);
    assert_eq!((records, report.counts.element_count), (4, 6));
    let (database, report) =
        imported(MappingKind::Full, "<a><b x='1'/><c/><d>t<e><f/></e></d></a>");
    assert_eq!(record_count(&database), report.counts.node_count());
}

/// Records of a small document, counted by their tags.
fn record_count(database: &Database) -> u64 {
    let read = database.read();
    let mut count = 0;
    for entry in read.entries("doc-nodes").unwrap() {
        let (_, value) = entry.unwrap();
        // Every value here has no bytes or one, so a record has its tag, a label, a class and that.
        let document = Document::open(&read, "doc").unwrap();
        let mut at = 0;
        while at < value.len() {
            let is_element = value[at] & 7 == NodeKind::Element as u8;
            at += 1;
            if at > 1 {
                at += match document.mapping() {
                    MappingKind::Full => 1 + usize::from(value[at]),
                    _ => 1 + usize::from(value[at] & 0x0F),
                };
            }
            at += 1;
            at += if is_element { 0 } else { 1 + usize::from(value[at]) };
            count += 1;
        }
    }
    count
}

#[test]
fn hostile_bytes_in_a_document_are_findings_and_never_a_panic() {
    let text = format!("<a x='1'><b>{}</b><c><d/>text</c><!--c--></a>", "long ".repeat(600));
    for mapping in MappingKind::ALL {
        let (database, _) = imported(mapping, &text);
        for table in ["doc-nodes", "doc-catalog"] {
            let entries: Vec<_> =
                database.read().entries(table).unwrap().map(Result::unwrap).collect();
            let mut harm_count = 0;
            for (key, value) in &entries {
                for at in (0..value.len()).step_by(1 + value.len() / 20) {
                    for flip in [0x01, 0x80, 0xFF] {
                        let mut broken = value.clone();
                        broken[at] ^= flip;
                        harm_count += u64::from(is_harm_told(&database, table, key, &broken));
                    }
                }
                harm_count +=
                    u64::from(is_harm_told(&database, table, key, &value[..value.len() / 2]));
                put(&database, table, key, value);
            }
            assert!(harm_count > 10, "{mapping:?} {table}: {harm_count}");
        }
        let read = database.read();
        let document = Document::open(&read, "doc").unwrap();
        assert_eq!(check(&read, &document).unwrap().findings, Vec::<String>::new());
    }
}

/// Whether a check tells that an entry holds something else. Another character of a text is no
/// harm.
fn is_harm_told(database: &Database, table: &str, key: &[u8], value: &[u8]) -> bool {
    put(database, table, key, value);
    let read = database.read();
    let Ok(document) = Document::open(&read, "doc") else { return true };
    let mut output = Vec::new();
    let exported = nandu_xml::export(&read, &document, &mut output);
    let report = check(&read, &document).unwrap();
    assert!(exported.is_ok() || !report.findings.is_empty());
    !report.findings.is_empty()
}

fn put(database: &Database, table: &str, key: &[u8], value: &[u8]) {
    let mut write = database.write().unwrap();
    write.put_value(table, key, value).unwrap();
    write.commit().unwrap();
}

/// Text and references for ever, and no tag.
struct Endless(std::iter::Cycle<std::vec::IntoIter<u8>>);

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.iter_mut().zip(&mut self.0).for_each(|(to, from)| *to = from);
        Ok(buffer.len())
    }
}

#[test]
fn text_without_an_end_is_refused_before_it_takes_all_memory() {
    let piece = [&[b'x'; 60_000][..], b"&amp;"].concat();
    let input = std::io::Read::chain(&b"<a>"[..], Endless(piece.into_iter().cycle()));
    let database = common::database();
    let mut write = database.write().unwrap();
    let answer = import(&mut write, "doc", MappingKind::default(), ("endless", input), &mut ());
    let said = answer.unwrap_err().to_string();
    assert!(said.starts_with("endless: line 1") && said.contains("MiB"), "{said}");
}
