//! Databases in memory with a document.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, Volumes};
use nandu_xml::{Document, ImportReport, MappingKind, Place, XmlError, export, import};

/// An empty database.
pub(crate) fn database() -> Database {
    database_with(Settings::default())
}

/// An empty database where who meets another one's lock is told so at once.
pub(crate) fn impatient_database() -> Database {
    database_with(Settings { lock_timeout_ns: 0, ..Settings::default() })
}

fn database_with(settings: Settings) -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let (log_bytes, checkpoint_bytes) = (4 << 20, 1 << 20);
    let settings = Settings { log_bytes, checkpoint_bytes, ..settings };
    Database::create(Volumes::new(data, None), &settings, 1).unwrap()
}

/// A database with this text as the document `doc`.
pub(crate) fn imported(mapping: MappingKind, text: &str) -> (Database, ImportReport) {
    let database = database();
    let mut write = database.write().unwrap();
    let input = ("text", text.as_bytes());
    let report = import(&mut write, "doc", mapping, input, &mut ()).unwrap();
    write.commit().unwrap();
    (database, report)
}

/// The document `doc` as text.
pub(crate) fn exported(database: &Database) -> String {
    let read = database.read();
    let document = Document::open(&read, "doc").unwrap();
    let mut output = Vec::new();
    let byte_count = export(&read, &document, &mut output).unwrap();
    assert_eq!(byte_count, output.len() as u64);
    String::from_utf8(output).unwrap()
}

/// Why a text is no document, and where.
pub(crate) fn trouble_of(database: &Database, text: &[u8]) -> (Place, String) {
    let mut write = database.write().unwrap();
    let answer = import(&mut write, "doc", MappingKind::default(), ("text", text), &mut ());
    write.commit().unwrap();
    match answer {
        Err(XmlError::Input { file, place, what }) if file == "text" => (place, what),
        answer => panic!("{:?}: {answer:?}", String::from_utf8_lossy(text)),
    }
}

/// Says what a test leaves out.
#[allow(clippy::print_stderr, reason = "whoever runs tests should see that one was not run")]
pub(crate) fn skip(what: &str) {
    eprintln!("SKIPPED: {what}");
}
