//! Any bytes as a document of JSON, in the mapping that the first one says, with indexes or without: what
//! is stored is clean, and its text, stored again, gives the same text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_xml::xpath::Namespaces;
use nandu_xml::{
    Document, DocumentFormat, ImportOptions, IndexDefinition, MappingKind, check, export,
    import_with,
};

#[path = "../xml_database.rs"]
mod xml_database;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, text)) = bytes.split_first() else { return };
    let mapping = MappingKind::ALL[usize::from(first) % MappingKind::ALL.len()];
    let definitions = if first < 128 { &["elements", "text://*", "number://_"][..] } else { &[] };
    let of = |words: &&str| IndexDefinition::parse(words, &Namespaces::default()).expect("it is one");
    let indexes = definitions.iter().map(of).collect();
    let format = DocumentFormat::Json;
    let options = ImportOptions { mapping, format, indexes, ..ImportOptions::default() };
    let database = xml_database::database();
    let mut write = database.write().expect("nobody is in the way");
    if import_with(&mut write, "one", &options, ("bytes", text), &mut ()).is_err() {
        return;
    }
    let read = |tables: &nandu_storage::database::Tables, name: &str| -> Vec<u8> {
        let document = Document::open(tables, name).expect("it was stored");
        let findings = check(tables, &document).expect("pages can be read").findings;
        assert!(findings.is_empty(), "{findings:?}");
        let mut output = Vec::new();
        export(tables, &document, &mut output).expect("memory has room");
        output
    };
    let text = read(&write, "one");
    import_with(&mut write, "two", &options, ("text", &text[..]), &mut ())
        .expect("what comes out is a document");
    assert_eq!(read(&write, "two"), text);
});
