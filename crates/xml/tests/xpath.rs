//! Expressions over stored documents, beside `xmllint`, which we did not write; and answered part by
//! part beside answered over the whole document.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{imported, skip};
use nandu_base::{Rng, to_index};
use nandu_storage::Database;
use nandu_xml::xpath::{
    Access, Found, Namespaces, QueryLimits, QueryPlan, Value, locate, parse, query,
};
use nandu_xml::{
    Document, Editor, ImportOptions, IndexDefinition, MappingKind, Spot, XmlError, check,
    import_with,
};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What is found, in words: nodes by their names and strings.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Nodes(Vec<(String, String)>),
    Value(String),
}

fn answer(database: &Database, text: &str) -> Result<Answer, XmlError> {
    answer_by(database, text, true).map(|(answer, _)| answer)
}

/// The answer by the plan that is chosen, or by the one without indexes; and whether one was used.
fn answer_by(database: &Database, text: &str, is_chosen: bool) -> Result<(Answer, bool), XmlError> {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let names = Namespaces::from([("p".to_owned(), "urn:p".to_owned())]);
    let expression = parse(text).map_err(|error| XmlError::Invalid { what: error.to_string() })?;
    let mut plan = QueryPlan::new(&expression, &document, &names)?;
    if is_chosen {
        plan = plan.choose(&read, &document, &names)?;
    }
    let is_by_index = matches!(&plan.access, Access::Found(found) if !found.indexes.is_empty());
    let (mut nodes, mut value) = (Vec::new(), None);
    let limits = QueryLimits::default();
    query(&read, &document, &plan, (&names, limits), &|| false, &mut |found| {
        match found {
            Found::Node(fragment, node) => {
                nodes.push((fragment.name(node).written(), fragment.string(node)));
            }
            Found::Value(Value::Boolean(boolean)) => value = Some(boolean.to_string()),
            Found::Value(Value::Number(number)) => value = Some(number.to_string()),
            Found::Value(Value::Text(text)) => value = Some(text.clone()),
            Found::Value(Value::Nodes(_)) => panic!("nodes are told one by one"),
        }
        Ok(())
    })?;
    Ok((value.map_or(Answer::Nodes(nodes), Answer::Value), is_by_index))
}

const BOOKS: &str = "<bib year='2009'><!--c--><book year='1994' id='b1'><title>TCP/IP</title>\
    <author><last>Stevens</last><first>W.</first></author><price>65.95</price></book>\
    <book year='2000' xml:lang='en-GB'><title>Data on <i>the</i> Web</title>\
    <author><last>Abiteboul</last></author><author><last>Buneman</last></author>\
    <price> 39.95 </price></book>text<?target some data?><empty/><journal><title/></journal></bib>";

const EXPRESSIONS: &[&str] = &[
    "/",
    "/bib",
    "//book",
    "//book/title",
    "//book[@year > 1995]/title",
    "//book[author/last = 'Stevens']/@id",
    "/bib/book[2]/author[last()]/last",
    "//author[1]",
    "(//author)[1]",
    "//last/text()",
    "//@*",
    "//*[@year]",
    "/bib/*",
    "/bib/node()",
    "//comment()",
    "//processing-instruction('target')",
    "//title[. = 'TCP/IP']/following-sibling::*",
    "//price/preceding-sibling::*[1]",
    "//i/ancestor::*",
    "//i/ancestor::book[1]/@year",
    "//book[1]/following::last",
    "//journal/preceding::node()",
    "//last/..",
    "//last/../..",
    "//book/descendant-or-self::*[last]",
    "//book[not(@id)]",
    "//book[position() = last()]",
    "//book[price < 50]/title | //journal",
    "//book[count(author) > 1]",
    "//title[contains(., 'Web')]",
    "//*[starts-with(name(), 'b')]",
    "//title[string-length() > 6]",
    "//book[lang('en')]",
    "//missing/nothing",
    "//book/@missing",
    "self::node()",
    ".//last",
    "bib/book/price",
    "count(//book)",
    "count(//@*)",
    "2 > true()",
    "1 < 2 < 3",
    "false() >= number('x')",
    "true() = 2",
    "'x' != false()",
    "//book[5 > (1 = 1)]/title",
    "//book[true() <= '1']/title",
    "//book > true()",
    "1 div round(-0.2)",
    "sum(//price)",
    "sum(//missing)",
    "string(//book[2]/title)",
    "string(//missing)",
    "name(/*)",
    "local-name(//@*[1])",
    "namespace-uri(/bib)",
    "concat(//last, '-', 3, '-', true())",
    "substring('12345', 2, 3)",
    "substring('12345', 1.5, 2.6)",
    "substring('12345', 0, 3)",
    "substring('12345', 0 div 0, 3)",
    "substring('12345', 1, 0 div 0)",
    "substring('12345', -42, 1 div 0)",
    "substring('12345', -1 div 0, 1 div 0)",
    "substring-before('1999/04/01', '/')",
    "substring-after('1999/04/01', '/')",
    "normalize-space('  a  b ')",
    "translate('--aaa--', 'abc-', 'ABC')",
    "boolean(//book)",
    "boolean(0)",
    "not(//missing)",
    "number('  -12.5 ')",
    "number('+1')",
    "number(true())",
    "floor(-1.5)",
    "ceiling(-1.5)",
    "round(-1.5)",
    "round(2.5)",
    "5 mod 2",
    "-5 mod 2",
    "5 mod -2",
    "1.5 mod 0.5",
    "7 div 2",
    "1 div 0",
    "0 div 0",
    "2 * 3 + 4 - -1",
    "//book = //book/@year",
    "//price = 39.95",
    "//price != 39.95",
    "//missing != 1",
    "//book < 3",
    "'a' < 'b'",
    "'1' < '2'",
    "true() = 'x'",
    "//missing = false()",
    "1 < 2 = true()",
    "/bib/book/title/text()[1]",
    "//*[self::title or self::last][position() < 3]",
    "//book[author[last = 'Buneman']]/price",
    "//*[count(*) = 2]/*[2]",
    "//book[last()]/title",
    "//author[position() = last()]",
    "//author[last()]/..",
    "/bib/book[position() < 2]",
    "//author[2 <= position()]/last",
    "//author[position() > 1]/last",
    "/bib/book/author[last()]/last",
    "//last/ancestor::book/title",
    "//last[. = 'Buneman']/ancestor-or-self::*[1]",
    "//last/ancestor::author[1]/first",
    "count(//last/ancestor::book)",
    "//i[ancestor::title]/../@*",
    "//author[../@year = 2000]/last",
    "//author/preceding-sibling::*",
    "//author[not(preceding-sibling::author)]/last",
    "//first/ancestor::book[@year < 1995]/author[last()]",
];

/// Answers of `xmllint`, a line of its own each; `None` for an error.
fn xmllint(text: &str, questions: &[String]) -> Option<Vec<Option<String>>> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("doc.xml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("xmllint");
    command.arg("--shell").arg(&file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spawned = command.spawn();
    let Ok(mut child) = spawned else {
        skip("xmllint is not installed (Debian: apt-get install libxml2-utils)");
        return None;
    };
    let mut input = String::new();
    questions.iter().for_each(|question| writeln!(input, "xpath {question}").unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    // What comes after a prompt; trouble goes to the other stream or has no object.
    let answers = output.split("/ > ").skip(1).map(|answer| {
        let (_, value) = answer.trim_end_matches('\n').split_once("Object is a ")?;
        let (_, value) = value.split_once(" : ")?;
        Some(value.to_owned())
    });
    let answers: Vec<Option<String>> = answers.take(questions.len()).collect();
    assert_eq!(answers.len(), questions.len(), "{output}");
    Some(answers)
}

fn assert_alike(ours: &str, other: &str, question: &str) {
    let numbers = (ours.parse::<f64>(), other.parse::<f64>());
    match numbers {
        (Ok(one), Ok(two)) if one.is_finite() && two.is_finite() => {
            assert!((one - two).abs() <= 1e-9 * one.abs().max(1.0), "{question}: {ours}, {other}");
        }
        (Ok(one), Ok(two)) => assert_eq!(one.to_string(), two.to_string(), "{question}"),
        _ => assert_eq!(ours, other, "{question}"),
    }
}

/// `xmllint` shows forty characters of a string.
const FRONT_LENGTH: usize = 20;
/// Nodes of a longer answer are not compared one by one.
const NODES_COMPARED: usize = 16;

/// Name, length and beginning of a node, as an expression.
fn node_of(expression: &str, place: usize) -> String {
    let node = format!("({expression})[{place}]");
    format!(
        "concat(name({node}), '|', string-length({node}), '|', substring({node}, 1, {FRONT_LENGTH}))"
    )
}

/// What is asked of `xmllint` for one expression, and what it should answer.
struct Asked {
    questions: Vec<String>,
    expected: Vec<String>,
    is_error: bool,
}

impl Asked {
    fn of(expression: &str, ours: Option<&Answer>) -> Self {
        let mut asked = Self { questions: Vec::new(), expected: Vec::new(), is_error: false };
        match ours {
            None => {
                asked.is_error = true;
                asked.questions.push(expression.to_owned());
            }
            Some(Answer::Value(value)) => {
                asked.questions.push(expression.to_owned());
                asked.expected.push(value.clone());
            }
            Some(Answer::Nodes(nodes)) => {
                asked.questions.push(format!("count({expression})"));
                asked.expected.push(nodes.len().to_string());
                if nodes.len() <= NODES_COMPARED {
                    for (place, (name, string)) in (1..).zip(nodes) {
                        asked.questions.push(node_of(expression, place));
                        let (length, front) = (string.chars().count(), string.chars());
                        let front: String = front.take(FRONT_LENGTH).collect();
                        asked.expected.push(format!("{name}|{length}|{front}"));
                    }
                }
            }
        }
        asked
    }

    /// Nodes are compared in any order: `xmllint` 2.9 leaves some that were found against the order
    /// of the document as they were found.
    fn assert_answered(mut self, answers: &[Option<String>]) {
        if self.is_error {
            assert_eq!(answers, [None], "{}", self.questions[0]);
            return;
        }
        let mut answers: Vec<String> =
            answers.iter().map(|answer| answer.clone().unwrap_or_default()).collect();
        assert_alike(&self.expected[0], &answers[0], &self.questions[0]);
        self.expected[1..].sort_unstable();
        answers[1..].sort_unstable();
        assert_eq!(self.expected[1..], answers[1..], "{}", self.questions[0]);
    }
}

/// Asserts that all mappings answer as `xmllint` does, and part by part as over the whole. How much
/// was asked.
fn assert_answers(text: &str, expressions: &[String]) -> usize {
    let databases = MappingKind::ALL.map(|mapping| imported(mapping, text).0);
    let ask = |expression: &String| {
        let ours = answer(&databases[0], expression).ok();
        for database in &databases[1..] {
            assert_eq!(answer(database, expression).ok(), ours, "{expression}");
        }
        if let Some(Answer::Nodes(_)) = &ours {
            let whole = answer(&databases[0], &format!("({expression})[true()]"));
            assert_eq!(whole.ok(), ours, "{expression}");
        }
        Asked::of(expression, ours.as_ref())
    };
    let asked: Vec<Asked> = expressions.iter().map(ask).collect();
    let questions: Vec<String> = asked.iter().flat_map(|it| it.questions.clone()).collect();
    let Some(answers) = xmllint(text, &questions) else { return 0 };
    let mut rest = &answers[..];
    for asked in asked {
        let (its, others) = rest.split_at(asked.questions.len());
        asked.assert_answered(its);
        rest = others;
    }
    questions.len()
}

#[test]
fn expressions_are_answered_as_by_xmllint() {
    let expressions: Vec<String> = EXPRESSIONS.iter().map(ToString::to_string).collect();
    assert_answers(BOOKS, &expressions);
    // Section 4.4 knows no exponents, xmllint does.
    let (database, _) = imported(MappingKind::Full, BOOKS);
    assert_eq!(answer(&database, "number('1e3')").unwrap(), Answer::Value("NaN".to_owned()));
}

/// A random document: elements of few names, attributes, numbers and words, comments.
fn random_document(rng: &mut Rng) -> String {
    fn element(rng: &mut Rng, depth: u32, text: &mut String) {
        let name = ["a", "b", "c"][to_index(rng.below(3))];
        write!(text, "<{name}").unwrap();
        for attribute in ["x", "y"] {
            if rng.below(3) == 0 {
                write!(text, " {attribute}='{}'", rng.below(5)).unwrap();
            }
        }
        text.push('>');
        for _ in 0..rng.below(if depth > 5 { 1 } else { 4 }) {
            match rng.below(8) {
                0 => write!(text, "{} ", rng.below(20)).unwrap(),
                1 => text.push_str("word"),
                2 => text.push_str("<!--k-->"),
                3 => text.push_str("<?t d?>"),
                _ => element(rng, depth + 1, text),
            }
        }
        write!(text, "</{name}>").unwrap();
    }
    let mut text = "<r>".to_owned();
    (0..4).for_each(|_| element(rng, 0, &mut text));
    text + "</r>"
}

fn random_step(rng: &mut Rng, depth: u32) -> String {
    let pick =
        |rng: &mut Rng, list: &[&str]| list[to_index(rng.below(list.len() as u64))].to_owned();
    let axes = [
        "",
        "",
        "",
        "descendant::",
        "ancestor::",
        "following-sibling::",
        "preceding-sibling::",
        "following::",
        "preceding::",
        "parent::",
        "self::",
        "descendant-or-self::",
        "ancestor-or-self::",
        "@",
    ];
    let axis = pick(rng, &axes);
    let test = if axis == "@" {
        pick(rng, &["x", "y", "*"])
    } else {
        pick(rng, &["a", "b", "c", "*", "node()", "text()", "comment()"])
    };
    let mut step = axis + &test;
    while depth < 2 && rng.below(3) == 0 {
        let predicate = match rng.below(6) {
            0 => (1 + rng.below(3)).to_string(),
            1 => "last()".to_owned(),
            2 => format!("position() {} {}", pick(rng, &["=", "<", ">="]), rng.below(4)),
            3 => random_path(rng, depth + 1),
            4 => format!(
                "{} {} {}",
                random_path(rng, depth + 1),
                pick(rng, &["=", "!=", "<", ">="]),
                rng.below(6)
            ),
            _ => format!(
                "count({}) {} {}",
                random_path(rng, depth + 1),
                pick(rng, &["=", "<"]),
                rng.below(3)
            ),
        };
        write!(step, "[{predicate}]").unwrap();
    }
    step
}

fn random_path(rng: &mut Rng, depth: u32) -> String {
    let mut path = ["", "", "/", "//"][to_index(rng.below(4))].to_owned();
    path += &random_step(rng, depth);
    for _ in 0..rng.below(3) {
        path += if rng.below(3) == 0 { "//" } else { "/" };
        path += &random_step(rng, depth);
    }
    path
}

#[test]
fn random_expressions_over_random_documents_are_answered_as_by_xmllint() {
    let mut asked = 0;
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let document = random_document(&mut rng);
        // `xmllint` takes lines of 500 bytes.
        let expressions: Vec<String> = std::iter::repeat_with(|| random_path(&mut rng, 0))
            .filter(|expression| expression.len() < 150)
            .take(60)
            .collect();
        asked += assert_answers(&document, &expressions);
    }
    assert!(asked == 0 || asked > 1000, "{asked}");
}

#[test]
fn names_have_namespaces_and_what_is_unknown_is_refused() {
    let text = "<r xmlns='urn:r' xmlns:q='urn:p'><q:a q:x='1' x='2'/><a xmlns=''>t</a></r>";
    let (database, _) = imported(MappingKind::Elementless, text);
    let found = |expression: &str| match answer(&database, expression) {
        Ok(Answer::Nodes(nodes)) => nodes.into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
        other => panic!("{expression}: {other:?}"),
    };
    assert_eq!(found("//p:a"), ["q:a"]);
    assert_eq!(found("//p:*/@p:x"), ["q:x"]);
    assert_eq!(found("//a"), ["a"]);
    assert_eq!(found("/r"), [""; 0]);
    assert_eq!(found("/*"), ["r"]);
    assert_eq!(found("//@*"), ["q:x", "x"]);
    let refusals = [
        ("//z:a", "--namespace z=URI"),
        ("z:a", "--namespace z=URI"),
        ("count(1)", "gives no nodes"),
        ("namespace::*", "namespace axis"),
    ];
    for (expression, what) in refusals {
        let error = answer(&database, expression).unwrap_err().to_string();
        assert!(error.contains(what), "{expression}: {error}");
    }
}

#[test]
fn a_part_that_is_too_large_is_refused() {
    let text = format!("<r><a>{}</a><b/></r>", "x".repeat(10_000));
    let (database, _) = imported(MappingKind::Full, &text);
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let names = Namespaces::new();
    let ask = |text: &str, fragment_bytes| {
        let plan = QueryPlan::new(&parse(text).unwrap(), &document, &names).unwrap();
        let limits = QueryLimits { fragment_bytes };
        let mut count = 0;
        let mut tell = |_: Found<'_>| {
            count += 1;
            Ok(())
        };
        query(&read, &document, &plan, (&names, limits), &|| false, &mut tell).map(|()| count)
    };
    assert!(ask("/r/a", 5000).unwrap_err().to_string().contains("a part of the document has more"));
    assert!(ask("count(/r)", 5000).unwrap_err().to_string().contains("the document has more"));
    // What is not asked is not held.
    assert_eq!(ask("/r/b", 5000).unwrap(), 1);
    assert_eq!(ask("/r/*[2]", 5000).unwrap(), 1);
    assert_eq!(ask("//b[1]/..", 50_000).unwrap(), 1);
    assert_eq!(ask("/r/a", 50_000).unwrap(), 1);
    // Who asked can stop.
    let plan = QueryPlan::new(&parse("//a").unwrap(), &document, &names).unwrap();
    let limits = QueryLimits::default();
    let stopped = query(&read, &document, &plan, (&names, limits), &|| true, &mut |_| Ok(()));
    assert!(matches!(stopped, Err(XmlError::Cancelled)));
}

#[test]
fn what_comes_first_is_answered_without_what_follows() {
    let rows: String = (0..2000).map(|row| format!("<row><a>{row}</a><a/></row>")).collect();
    let (database, _) = imported(MappingKind::Elementless, &format!("<rows>{rows}</rows>"));
    let mut write = database.write().unwrap();
    let last = write.entries("doc-nodes").unwrap().map(Result::unwrap).last().unwrap();
    write.put_value("doc-nodes", &last.0, &[0xFF; 9]).unwrap();
    write.commit().unwrap();
    let third = Answer::Nodes(vec![("row".to_owned(), "2".to_owned())]);
    assert_eq!(answer(&database, "/rows/row[3]").unwrap(), third);
    assert_eq!(answer(&database, "/rows/row[position() = 3]").unwrap(), third);
    let first = answer(&database, "count(/rows/row[position() <= 3])").unwrap();
    assert_eq!(first, Answer::Value("3".to_owned()));
    assert_eq!(answer(&database, "count(//row[3]/a[2])").unwrap(), Answer::Value("1".to_owned()));
    assert_eq!(answer(&database, "/rows/row[3][b]").unwrap(), Answer::Nodes(Vec::new()));
    // Those in any row may come until the end.
    for text in ["//row/a[2]", "/rows/row[position() >= 3]", "/rows/row[2001]"] {
        let said = answer(&database, text).unwrap_err().to_string();
        assert!(said.contains("damaged"), "{text}: {said}");
    }
}

const INDEXES: [&str; 5] = ["elements", "text://*", "number://*", "text://@*", "number://@*"];

/// A database with a document that has these indexes.
fn indexed(mapping: MappingKind, text: &str, indexes: &[&str]) -> Database {
    let database = common::database();
    let mut write = database.write().unwrap();
    let names = Namespaces::new();
    let indexes = indexes.iter().map(|index| IndexDefinition::parse(index, &names).unwrap());
    let options = ImportOptions { mapping, indexes: indexes.collect(), ..ImportOptions::default() };
    import_with(&mut write, "doc", &options, ("text", text.as_bytes()), &mut ()).unwrap();
    write.commit().unwrap();
    database
}

/// An expression that has conditions, more than others.
fn random_condition(rng: &mut Rng) -> String {
    let pick =
        |rng: &mut Rng, list: &[&str]| list[to_index(rng.below(list.len() as u64))].to_owned();
    let name = |rng: &mut Rng| pick(rng, &["a", "b", "c", "d", "*"]);
    let literal = |rng: &mut Rng| match rng.below(4) {
        0 => format!("'{}'", rng.below(40)),
        1 => pick(rng, &["'word'", "''", "-1", "'1 '", "'x'"]),
        _ => rng.below(40).to_string(),
    };
    let value = |rng: &mut Rng| {
        let end =
            pick(rng, &["@x", "@y", ".", "a", "b/@x", "d", "*/c", "text()", ".//@y", "b/text()"]);
        if end != "." && rng.below(8) == 0 { format!("{end}[1]") } else { end }
    };
    let comparison = |rng: &mut Rng| {
        let (one, other) = (value(rng), literal(rng));
        match rng.below(8) {
            0 => format!("starts-with({one}, {other})"),
            1 => format!("{other} {} {one}", pick(rng, &["=", "<", ">="])),
            _ => format!("{one} {} {other}", pick(rng, &["=", "=", "=", "<", ">", "<=", "!="])),
        }
    };
    let step = |rng: &mut Rng| {
        let mut step = name(rng);
        for _ in 0..rng.below(3) {
            let first = comparison(rng);
            let predicate = match rng.below(5) {
                0 => format!("{first} and {}", comparison(rng)),
                1 => format!("{first} or {}", comparison(rng)),
                2 => format!("not({first})"),
                _ => first,
            };
            write!(step, "[{predicate}]").unwrap();
        }
        step
    };
    let mut path = format!("{}{}", pick(rng, &["//", "/r/", "/r//", "//a/"]), step(rng));
    for _ in 0..rng.below(3) {
        let next = pick(rng, &["/", "//", "/../", "/following-sibling::", "/@", "/./"]);
        path += &next;
        path += &if next == "/@" { pick(rng, &["x", "y", "*"]) } else { step(rng) };
    }
    match rng.below(6) {
        0 => format!("count({path})"),
        1 => format!("sum({path})"),
        _ => path,
    }
}

/// A document of many small elements, most of whose values are rare.
fn random_rows(rng: &mut Rng) -> String {
    let mut text = "<r>".to_owned();
    for _ in 0..80 {
        let (x, y, value) = (rng.below(40), rng.below(1000), rng.below(40));
        match rng.below(6) {
            0 => write!(text, "<a x='{x}'><b x='{y}'>{value}</b><c/></a>"),
            1 => write!(text, "<a x=' {x}.0'><a y='{y}'>word</a>{value}</a>"),
            2 => write!(text, "<b><d>{value}</d><d>{}<i/>{y}</d></b>", value / 2),
            3 => write!(
                text,
                "<c y='{y}'><d><c>{value}</c></d>text of some length, so that it fills</c>"
            ),
            4 => write!(text, "<d x='{x}' y='{}'>{}</d>", "0".repeat(70), "long ".repeat(30)),
            _ => write!(text, "<b>{value}</b>"),
        }
        .unwrap();
    }
    text + "</r>"
}

/// Changes some nodes that expressions choose.
fn change_at_random(database: &Database, rng: &mut Rng) {
    let mut write = database.write().unwrap();
    let mut editor = Editor::begin(&mut write, "doc").unwrap();
    for _ in 0..6 {
        let names = Namespaces::new();
        let wanted = ["//b", "//d/text()", "//@x", "/r/a", "//c"][to_index(rng.below(5))];
        let plan = QueryPlan::new(&parse(wanted).unwrap(), editor.document(), &names).unwrap();
        let plan = plan.choose(editor.tables(), editor.document(), &names).unwrap();
        let asked = (&names, QueryLimits::default());
        let found = locate(editor.tables(), editor.document(), &plan, asked, &|| false).unwrap();
        if found.is_empty() {
            continue;
        }
        let node = &found[to_index(rng.below(found.len() as u64))];
        let label = editor.now(&node.labels[0]);
        if wanted.ends_with("x") || wanted.ends_with(")") {
            editor.set_value(&label, &rng.below(40).to_string()).unwrap();
        } else if rng.below(3) == 0 {
            editor.delete(&label).unwrap();
        } else {
            let text = format!("<a x='{}'><d>{}</d></a>", rng.below(40), rng.below(40));
            editor.insert(&Spot::Behind(label), &text).unwrap();
        }
    }
    editor.finish().unwrap();
    write.commit().unwrap();
}

#[test]
fn answers_are_the_same_with_and_without_indexes_also_after_changes() {
    let mut used_count = 0;
    for seed in 0..6 {
        let mut rng = Rng::for_part(seed, "indexes");
        let mapping = MappingKind::ALL[to_index(seed % 3)];
        // Of some documents not all is indexed.
        let indexes = if seed < 3 { &INDEXES[..] } else { &INDEXES[to_index(seed) - 3..][..2] };
        let database = indexed(mapping, &random_rows(&mut rng), indexes);
        for _ in 0..3 {
            for _ in 0..60 {
                let expression = random_condition(&mut rng);
                let whole = answer_by(&database, &expression, false).unwrap();
                let (chosen, is_by_index) = answer_by(&database, &expression, true).unwrap();
                assert_eq!(chosen, whole.0, "{expression}");
                used_count += u32::from(is_by_index);
            }
            change_at_random(&database, &mut rng);
            let read = database.read();
            let document = Document::open(&read, "doc").unwrap();
            assert_eq!(check(&read, &document).unwrap().findings, Vec::<String>::new());
        }
    }
    assert!(used_count > 100, "{used_count}");
}

#[test]
fn an_index_is_chosen_where_it_reads_less_and_knows_all_values() {
    let rows: String = (0..300)
        .map(|row| format!("<o id='{row}' k='{}'><v>{row}</v><w>t<i/>{row}</w></o>", row % 3))
        .collect();
    let text = format!("<r>{rows}<rare/><p><o/></p></r>");
    let used = |indexes: &[&str], expression: &str| {
        let database = indexed(MappingKind::Elementless, &text, indexes);
        let read = database.read();
        let document = Document::open(&read, "doc").unwrap();
        let names = Namespaces::new();
        let plan = QueryPlan::new(&parse(expression).unwrap(), &document, &names).unwrap();
        match plan.choose(&read, &document, &names).unwrap().access {
            Access::Scan => None,
            Access::Found(found) => Some((found.entry_count, found.labels.len())),
        }
    };
    let number = &["number://@id", "number://v"][..];
    assert_eq!(used(number, "//o[@id = 7]"), Some((1, 1)));
    assert_eq!(used(number, "/r/o[7 = @id][@k > 0]/w"), Some((1, 1)));
    assert_eq!(used(number, "//o[@id < 3 or v = 290]"), Some((4, 4)));
    assert_eq!(used(number, "//o[@k = 1 and v = 7]/@id"), Some((1, 1)));
    assert_eq!(used(number, "//o[v/text() = 7]/w"), Some((1, 1)));
    assert_eq!(used(number, "//o/v[. = 7]/.."), Some((1, 1)));
    assert_eq!(used(number, "count(//o[@id >= 298])"), Some((2, 2)));
    for not_known in [
        "//o[@id > 5]",
        "//o[@id = '7']",
        "//o[@k = 1]",
        "//o[@id = 7 or @k = 1]",
        "//o[not(@id = 7)]",
        "//o[@id != 7]",
        "//o[string(@id) = 7]",
        "//o[/r/o/@id = 7]",
        "//o",
    ] {
        assert_eq!(used(number, not_known), None, "{not_known}");
    }
    // Elements without any value are in no index, and do not have to be.
    assert_eq!(used(&["text://w"], "//o[w = 't7']"), Some((1, 1)));
    assert_eq!(used(&["text://w"], "//o[w/text() = 't7']"), None);
    assert_eq!(used(&["text://@id"], "//o[starts-with(@id, '29')]"), Some((11, 11)));
    assert_eq!(used(&["elements"], "//rare"), Some((1, 1)));
    assert_eq!(used(&["elements://o"], "//rare"), None);
    assert_eq!(used(&["elements://o"], "/r/p/o"), Some((1, 1)));
    assert_eq!(used(&["elements"], "//o"), None);
}

/// The answer by the chosen plan, which has to be the one without indexes.
fn both(database: &Database, text: &str) -> Answer {
    let (chosen, _) = answer_by(database, text, true).unwrap();
    assert_eq!(chosen, answer_by(database, text, false).unwrap().0, "{text}");
    chosen
}

#[test]
fn a_long_value_is_one_though_its_parts_end_within_characters() {
    for mapping in MappingKind::ALL {
        for front in ["", "x", "xy"] {
            let value = format!("{front}{}", "äö€".repeat(1500));
            let (database, _) = imported(mapping, &format!("<a>{value}<b/><!--{value}--></a>"));
            let nodes = |nodes: &[(&str, &str)]| {
                let owned = nodes.iter().map(|&(name, text)| (name.to_owned(), text.to_owned()));
                Answer::Nodes(owned.collect())
            };
            assert_eq!(both(&database, "//a"), nodes(&[("a", &value)]));
            assert_eq!(both(&database, "//comment()"), nodes(&[("", &value)]));
        }
    }
}

#[test]
fn steps_that_lead_to_texts_are_not_answered_by_an_index_of_elements() {
    let text = "<r><o>abc<b/>x</o><o><!--x--></o><o><b>x</b></o></r>";
    for index in ["text://*", "text://b"] {
        let database = indexed(MappingKind::Elementless, text, &[index]);
        for (expression, count) in [
            ("count(//o[.//. = 'x'])", "3"),
            ("count(//o/descendant-or-self::node()[. = 'x'])", "5"),
            ("count(//o[descendant-or-self::node()/self::node() = 'x'])", "3"),
        ] {
            assert_eq!(
                both(&database, expression),
                Answer::Value(count.to_owned()),
                "{expression}"
            );
        }
    }
}

#[test]
fn an_index_is_used_where_a_document_has_grown() {
    let database = indexed(MappingKind::Elementless, "<r/>", &["number://o/@id"]);
    let mut write = database.write().unwrap();
    let mut editor = Editor::begin(&mut write, "doc").unwrap();
    let root = nandu_xml::Label::document().first_child().unwrap();
    for number in 0..300 {
        let order = format!("<o id='{number}'>{}</o>", "much in it ".repeat(20));
        editor.insert(&Spot::LastIn(root.clone()), &order).unwrap();
    }
    editor.finish().unwrap();
    write.commit().unwrap();
    let (_, is_by_index) = answer_by(&database, "//o[@id < 3]", true).unwrap();
    assert!(is_by_index);
    let read = database.read();
    let found = check(&read, &Document::open(&read, "doc").unwrap()).unwrap();
    assert_eq!(found.findings, [""; 0]);
    assert!(found.container_count > 10);
}

#[test]
fn instructions_attributes_and_lines_are_what_the_standard_says() {
    let text = "<!DOCTYPE a [<!ENTITY e \"x\r\ny\">]><a k='1'><?t\nx y?><?t  z?>&e;</a>";
    let (database, _) = imported(MappingKind::Full, text);
    let count = "count((/a | /a/@k)/descendant-or-self::node())";
    assert_eq!(both(&database, count), Answer::Value("5".to_owned()));
    let strings = Answer::Nodes(vec![("t".into(), "x y".into()), ("t".into(), "z".into())]);
    assert_eq!(both(&database, "//processing-instruction('t')"), strings);
    assert_eq!(both(&database, "string(/a)"), Answer::Value("x\ny".to_owned()));
}
