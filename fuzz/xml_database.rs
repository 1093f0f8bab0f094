//! An empty database in memory, for the targets of XML, and documents of any format in it.

#![allow(dead_code, reason = "each target uses a part")]

use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, Volumes};
use nandu_xml::xpath::Namespaces;
use nandu_xml::{
    Document, DocumentFormat, ImportOptions, IndexDefinition, MappingKind, check, export,
    import_with,
};

pub(crate) fn database() -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).expect("the device is large enough"));
    let (log_bytes, checkpoint_bytes) = (1 << 20, 256 << 10);
    let settings = Settings { log_bytes, checkpoint_bytes, ..Settings::default() };
    Database::create(Volumes::new(data, None), &settings, 1).expect("memory has room")
}

/// Bytes as a document, in the mapping that the first one says, with these indexes or without: what is
/// stored is clean, and its text, stored again, gives the same text.
pub(crate) fn comes_out_as_it_went_in(bytes: &[u8], format: DocumentFormat, indexes: [&str; 3]) {
    let Some((&first, text)) = bytes.split_first() else { return };
    let mapping = MappingKind::ALL[usize::from(first) % MappingKind::ALL.len()];
    let definitions = if first < 128 { &indexes[..] } else { &[] };
    let of = |words: &&str| IndexDefinition::parse(words, &Namespaces::default()).expect("it is one");
    let indexes = definitions.iter().map(of).collect();
    let options = ImportOptions { mapping, format, indexes, ..ImportOptions::default() };
    let database = database();
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
}
