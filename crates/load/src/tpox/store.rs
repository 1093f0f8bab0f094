//! The collections as documents of a database, each of its name (S004, section 6.1).
//!
//! 1. All are made in the caller's transaction: after an error there is none of them.
//! 2. A text is made while it is stored, so memory holds what an import holds.

use super::{Tpox, TpoxCollection};
use nandu_storage::database::WriteTransaction;
use nandu_xml::xpath::Namespaces;
use nandu_xml::{
    Document, ImportObserver, ImportOptions, ImportReport, IndexDefinition, MappingKind, XmlError,
    import_with,
};

/// Who watches collections being stored, and may end it.
pub trait TpoxObserver {
    /// So many bytes of a text were stored, which are about this part of it.
    fn bytes_stored(&mut self, collection: TpoxCollection, byte_count: u64, fraction: f64) {
        let _ = (collection, byte_count, fraction);
    }

    /// Whether to stop; then nothing is stored.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl TpoxObserver for () {}

/// Which indexes documents are stored with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TpoxIndexes {
    /// None at all.
    Without,
    /// [`TpoxCollection::key_index`] of each: by these the benchmark's transactions find what they are about.
    #[default]
    Keys,
    /// Those, and one of all elements.
    All,
}

impl TpoxIndexes {
    /// The indexes of a collection.
    #[must_use]
    pub fn of(self, collection: TpoxCollection) -> Vec<IndexDefinition> {
        let elements = || {
            let elements = IndexDefinition::parse("elements", &Namespaces::new());
            elements.expect("a constant index is sound")
        };
        match self {
            Self::Without => Vec::new(),
            Self::Keys => vec![collection.key_index()],
            Self::All => vec![collection.key_index(), elements()],
        }
    }
}

impl TpoxCollection {
    /// The index that finds a customer by its id, an order by its own, a security by its symbol: of
    /// values of attributes or elements below the subtree.
    #[must_use]
    pub fn key_index(self) -> IndexDefinition {
        let (text, uri) = match self {
            Self::Custacc => ("text:/custacc/t:Customer/@id", "http://tpox-benchmark.com/custacc"),
            Self::Order => {
                ("text:/order/t:FIXML/t:Order/@ID", "http://www.fixprotocol.org/FIXML-4-4")
            }
            Self::Security => {
                ("text:/security/t:Security/t:Symbol", "http://tpox-benchmark.com/security")
            }
        };
        let namespaces = Namespaces::from([("t".to_owned(), uri.to_owned())]);
        IndexDefinition::parse(text, &namespaces).expect("a constant path is sound")
    }
}

impl Tpox {
    /// Stores all collections, in the order of [`TpoxCollection::ALL`], with indexes.
    ///
    /// # Errors
    /// If one of them is there already, which is found before anything is stored; the pages of the
    /// database are too small for labels; the observer cancels; or the device has no room or fails.
    pub fn store(
        &self,
        write: &mut WriteTransaction<'_>,
        (mapping, indexes): (MappingKind, TpoxIndexes),
        observer: &mut dyn TpoxObserver,
    ) -> Result<[ImportReport; 3], XmlError> {
        for collection in TpoxCollection::ALL {
            match Document::open(write, collection.name()) {
                Err(XmlError::Missing { .. }) => {}
                Ok(_) => {
                    let what = format!(
                        "there is a document {} already; name another directory",
                        collection.name()
                    );
                    return Err(XmlError::Invalid { what });
                }
                Err(error) => return Err(error),
            }
        }
        let mut reports = [ImportReport::default(); 3];
        for (report, collection) in reports.iter_mut().zip(TpoxCollection::ALL) {
            let expected_bytes = self.expected_bytes(collection);
            let mut watch = Watch { collection, expected_bytes, observer };
            let text = (collection.name(), self.text(collection));
            let indexes = indexes.of(collection);
            let options = ImportOptions { mapping, indexes, ..ImportOptions::default() };
            *report = import_with(write, collection.name(), &options, text, &mut watch)?;
        }
        Ok(reports)
    }
}

/// Hears of one import.
struct Watch<'w> {
    collection: TpoxCollection,
    expected_bytes: u64,
    observer: &'w mut dyn TpoxObserver,
}

impl ImportObserver for Watch<'_> {
    fn bytes_read(&mut self, byte_count: u64) {
        let fraction = byte_count as f64 / self.expected_bytes as f64;
        self.observer.bytes_stored(self.collection, byte_count, fraction.min(1.0));
    }

    fn is_cancelled(&self) -> bool {
        self.observer.is_cancelled()
    }
}
