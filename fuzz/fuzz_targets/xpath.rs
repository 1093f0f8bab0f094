//! Any bytes as an expression over a document: what is read of it is printed as the same, and indexes find
//! what a scan finds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_storage::Database;
use nandu_xml::xpath::{Found, Namespaces, QueryLimits, QueryPlan, Value, parse, query};
use nandu_xml::{Document, ImportOptions, IndexDefinition, MappingKind, XmlError, import_with};
use std::sync::OnceLock;

#[path = "../xml_database.rs"]
mod xml_database;

/// Many orders, so that an index reads less than a scan, and something of everything else.
fn text() -> String {
    let mut text = String::from("<p:shop xmlns:p='urn:p'><!--c--><?target some data?>");
    for number in 0..300 {
        let word = ["red", "green", "blue"][number % 3];
        text.push_str(&format!(
            "<order id='{number}' p:kind='{word}'><item>{word} {}</item><price> {}.5 </price></order>",
            number % 7,
            number * 3 % 50,
        ));
    }
    text.push_str("<note xml:lang='en-GB'>some <b>bold</b> text</note><empty/></p:shop>");
    text
}

fn database() -> &'static Database {
    static DATABASE: OnceLock<Database> = OnceLock::new();
    DATABASE.get_or_init(|| {
        let database = xml_database::database();
        let mut write = database.write().expect("nobody is in the way");
        let definitions = ["elements", "text://@id", "number://@id", "text://item", "number://price"];
        let of = |words: &str| IndexDefinition::parse(words, &Namespaces::default()).expect("one");
        let (mapping, indexes) = (MappingKind::Elementless, definitions.map(of).into());
        let options = ImportOptions { mapping, indexes, ..ImportOptions::default() };
        import_with(&mut write, "shop", &options, ("text", text().as_bytes()), &mut ())
            .expect("it is a document");
        write.commit().expect("memory has room");
        database
    })
}

/// What is found, in words.
fn answer(expression: &nandu_xml::xpath::Expression, is_chosen: bool) -> Result<String, XmlError> {
    let read = database().read();
    let document = Document::open(&read, "shop")?;
    let names = Namespaces::from([("p".to_owned(), "urn:p".to_owned())]);
    let mut plan = QueryPlan::new(expression, &document, &names)?;
    if is_chosen {
        plan = plan.choose(&read, &document, &names)?;
    }
    let mut words = String::new();
    let look_count = std::cell::Cell::new(0_u32);
    let look = || {
        look_count.set(look_count.get() + 1);
        look_count.get() > 20_000
    };
    query(&read, &document, &plan, (&names, QueryLimits::default()), &look, &mut |found| {
        match found {
            Found::Node(fragment, node) => {
                words.push_str(&fragment.name(node).written());
                words.push_str(&fragment.string(node));
            }
            Found::Value(Value::Boolean(value)) => words.push_str(&value.to_string()),
            Found::Value(Value::Number(value)) => words.push_str(&value.to_string()),
            Found::Value(Value::Text(value)) => words.push_str(value),
            Found::Value(Value::Nodes(_)) => panic!("nodes are told one by one"),
        }
        words.push('\n');
        Ok(())
    })?;
    Ok(words)
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(expression) = parse(text) else { return };
    assert_eq!(parse(&expression.to_string()).as_ref(), Ok(&expression));
    // An answer that takes too long is given up, by one way or both; an index may also not see a value that
    // a scan cannot answer about.
    if let (Ok(scanned), Ok(chosen)) = (answer(&expression, false), answer(&expression, true)) {
        assert_eq!(scanned, chosen, "{text}");
    }
});
