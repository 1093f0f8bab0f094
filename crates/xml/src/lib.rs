//! Floor 3: XML documents in raw trees of the engine, with labels that never change (Härder,
//! Schmidt, Ou, Bächle, "Towards Flash Disk Use in Databases", BTW 2009, S004, section 5).
//!
//! ```text
//!   import      text ─► nodes ─► records            export, check      records ─► nodes ─► text
//!   edit, subtree   the containers around a node, locked by its label
//!      │                                               │
//!   tree_writer   labels and classes of nodes       walk   which elements begin and end
//!      └───────────────┬───────────────────────────────┘
//!   label     who a node is            synopsis, vocabulary   paths and names, each once
//!   index     which nodes there are of a path, and with which value
//!   mapping   how records are written: full, prefix, elementless
//!   container runs of records, entries of a raw tree ─► storage::Database
//! ```
//!
//! ```
//! use nandu_xml::{Document, MappingKind, export, import};
//! # use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
//! # use nandu_storage::{Database, Settings, Volumes, volume::DeviceVolume};
//! # let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
//! # let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
//! # let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
//! # let (log_bytes, checkpoint_bytes) = (4 << 20, 1 << 20);
//! # let settings = Settings { log_bytes, checkpoint_bytes, ..Settings::default() };
//! # let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
//! let text = "<bib><book year='1994'>TCP/IP</book></bib>";
//! let mut write = database.write()?;
//! import(&mut write, "bib", MappingKind::Elementless, ("bib.xml", text.as_bytes()), &mut ())?;
//! write.commit()?;
//!
//! let read = database.read();
//! let mut output = Vec::new();
//! export(&read, &Document::open(&read, "bib")?, &mut output)?;
//! assert!(output.ends_with(b"<bib><book year=\"1994\">TCP/IP</book></bib>\n"));
//! # Ok::<(), nandu_xml::XmlError>(())
//! ```
//!
//! Use and sizes: `docs/xml.md`; reasons: `docs/decisions/018-xml-documents.md`, `019`, `020`.
//!
//! Absent on purpose: files, terminals, wall clocks, any knowledge of what lies below a database.

mod check;
mod compression;
mod container;
mod counts;
mod document;
mod edit;
mod error;
mod export;
mod format;
mod import;
mod index;
mod json;
pub mod label;
mod locks;
mod mapping;
mod record;
mod subtree;
mod synopsis;
mod tree_writer;
mod varint;
mod vocabulary;
mod walk;
pub mod xpath;

pub use check::{DocumentCheck, check};
pub use compression::{Compression, CompressionStat};
pub use document::{Document, DocumentStat, IndexStat};
pub use edit::{Editor, Spot};
pub use error::{Place, XmlError};
pub use export::export;
pub use format::DocumentFormat;
pub use import::{
    ENTITY_BYTES_MAX, ENTITY_LEVEL_MAX, ImportObserver, ImportOptions, ImportReport,
    LEVEL_COUNT_MAX, NAME_BYTES_MAX, PIECE_BYTES_MAX, import, import_with,
};
pub use index::{
    INDEX_COUNT_MAX, IndexDefinition, IndexKind, Looked, PathPattern, Sought, create_index,
    drop_document, drop_index, find,
};
pub use label::{LABEL_BYTES_MAX, Label, LabelError};
pub use locks::LockSettings;
pub use mapping::MappingKind;
pub use record::{NodeKind, ValueType};
pub use subtree::{Subtree, SubtreeReader, ValueTeller, values_of};
pub use synopsis::{CLASS_COUNT_MAX, ClassId, PathClass, StepKind, Synopsis};
pub use tree_writer::Counts;
pub use vocabulary::{Name, NameId, Vocabulary};
