//! Documents whose containers are packed: the same in and out, smaller in between, and told where they
//! are damaged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{database, exported};
use nandu_base::Rng;
use nandu_storage::Database;
use nandu_xml::xpath::{Namespaces, QueryLimits, QueryPlan, locate, parse};
use nandu_xml::{
    Compression, Document, Editor, ImportOptions, IndexDefinition, MappingKind, Spot, check,
    import_with,
};
use std::fmt::Write;

fn imported(mapping: MappingKind, compression: Compression, text: &str) -> Database {
    let database = database();
    let mut write = database.write().unwrap();
    let of = |index| IndexDefinition::parse(index, &Namespaces::new()).unwrap();
    let indexes = ["elements", "text://*", "number://@id"].map(of).into();
    let options = ImportOptions { mapping, compression, indexes, ..ImportOptions::default() };
    import_with(&mut write, "doc", &options, ("text", text.as_bytes()), &mut ()).unwrap();
    write.commit().unwrap();
    database
}

fn findings(database: &Database) -> Vec<String> {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let mut findings = check(&read, &document).unwrap().findings;
    findings.extend(read.check().unwrap().findings);
    findings
}

/// Rows that have words in common, and in between bytes that have nothing to pack.
fn rows(count: u64) -> String {
    let mut rng = Rng::new(1);
    let mut text = "<rows>".to_owned();
    for id in 0..count {
        let mut letter = |_| char::from(35 + u8::try_from(rng.below(90)).unwrap());
        let noise: String = (0..id % 40).map(&mut letter).collect();
        let noise = noise.replace(['<', '&', '>'], "x");
        write!(text, "<row id='{id}'><name>a name as others have it</name><x>{noise}</x></row>")
            .unwrap();
        if id % 200 == 199 {
            write!(text, "<long>{}</long>", "0123456789 and so on ".repeat(600)).unwrap();
        }
    }
    text + "</rows>"
}

#[test]
fn packed_documents_are_smaller_and_the_same_also_after_changes() {
    let text = rows(1500);
    for mapping in MappingKind::ALL {
        let databases = Compression::ALL.map(|compression| {
            let database = imported(mapping, compression, &text);
            for round in 0..20 {
                let mut write = database.write().unwrap();
                let mut editor = Editor::begin(&mut write, "doc").unwrap();
                let wanted = parse(&format!("//row[@id = {}]", 37 * round)).unwrap();
                let names = Namespaces::new();
                let plan = QueryPlan::new(&wanted, editor.document(), &names).unwrap();
                let with = (&names, QueryLimits::default());
                let found = locate(editor.tables(), editor.document(), &plan, with, &|| false);
                let row = found.unwrap().remove(0).labels.remove(0);
                let long = format!("<more>{}</more>", "more of it ".repeat(round));
                editor.insert(&Spot::Behind(row.clone()), &long).unwrap();
                if round % 3 == 0 {
                    editor.delete(&row).unwrap();
                } else {
                    editor.set_value(&row.first_attribute().unwrap(), "x").unwrap();
                }
                editor.finish().unwrap();
                write.commit().unwrap();
            }
            assert_eq!(findings(&database), Vec::<String>::new(), "{mapping:?} {compression:?}");
            database
        });
        assert_eq!(exported(&databases[0]), exported(&databases[1]));
        let [plain, packed] = databases.map(|database| {
            let read = database.read();
            let document = Document::open(&read, "doc").unwrap();
            let stat = document.compression_stat(&read).unwrap();
            assert_eq!(stat.packed_count > 0, document.compression() != Compression::None);
            assert!(stat.packed_count <= document.stat(&read).unwrap().container_count);
            (document.stat(&read).unwrap().file_bytes, stat)
        });
        assert_eq!(plain.1.stored_bytes, plain.1.record_bytes);
        assert!(10 * packed.1.stored_bytes < 8 * packed.1.record_bytes, "{packed:?}");
        assert!(10 * packed.0 < 9 * plain.0, "{} {}", packed.0, plain.0);
    }
}

#[test]
fn a_document_says_that_it_is_packed() {
    let heads = Compression::ALL.map(|compression| {
        let database = imported(MappingKind::Prefix, compression, "<a/>");
        let head = database.read().entries("doc-catalog").unwrap().next().unwrap().unwrap().1;
        head[..4].to_vec()
    });
    assert_eq!(heads, [[4, 1, 0, 0], [4, 1, 0, 1]]);
}

#[test]
fn hostile_bytes_in_packed_containers_are_findings_and_never_a_panic() {
    for mapping in MappingKind::ALL {
        let database = imported(mapping, Compression::Lz4, &rows(60));
        let entries: Vec<_> =
            database.read().entries("doc-nodes").unwrap().map(Result::unwrap).collect();
        let mut harm_count = 0;
        for (key, value) in &entries {
            for at in (0..value.len()).step_by(1 + value.len() / 30) {
                for flip in [0x01, 0x80, 0xFF] {
                    let mut broken = value.clone();
                    broken[at] ^= flip;
                    harm_count += u64::from(is_harm_told(&database, key, &broken));
                }
                harm_count += u64::from(is_harm_told(&database, key, &value[..at]));
            }
            put(&database, key, value);
        }
        assert!(harm_count > 50, "{mapping:?}: {harm_count}");
        assert_eq!(findings(&database), Vec::<String>::new());
    }
}

fn put(database: &Database, key: &[u8], value: &[u8]) {
    let mut write = database.write().unwrap();
    write.put_value("doc-nodes", key, value).unwrap();
    write.commit().unwrap();
}

/// Whether a check tells that an entry holds something else.
fn is_harm_told(database: &Database, key: &[u8], value: &[u8]) -> bool {
    put(database, key, value);
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let exported = nandu_xml::export(&read, &document, &mut std::io::sink());
    let report = check(&read, &document).unwrap();
    assert!(exported.is_ok() || !report.findings.is_empty());
    !report.findings.is_empty()
}
