//! Names, each stored once: what an element or attribute is called, with its namespace.
//!
//! 1. Numbers of names go up from 0, and none is ever given again.
//! 2. A name is in memory once, whoever copies the vocabulary.

use crate::varint;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the prefix xml stands for, everywhere.
pub(crate) const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

/// The number of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// A name as it is written, and what its prefix stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// What stands before the colon; mostly nothing.
    pub prefix: String,
    /// The name itself.
    pub local: String,
    /// The namespace; empty for none.
    pub namespace: String,
}

/// All names of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    names: Vec<Arc<Name>>,
    ids: BTreeMap<Arc<Name>, NameId>,
}

/// Shorter ones first: lengths tell most names apart without a look at their bytes, of which namespaces have many
/// alike. An editor looks all names of its document up when it begins.
impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let lengths = |name: &Self| (name.local.len(), name.prefix.len(), name.namespace.len());
        lengths(self)
            .cmp(&lengths(other))
            .then_with(|| self.local.cmp(&other.local))
            .then_with(|| self.prefix.cmp(&other.prefix))
            .then_with(|| self.namespace.cmp(&other.namespace))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Name {
    /// As it is written.
    #[must_use]
    pub fn written(&self) -> String {
        match self.prefix.as_str() {
            "" => self.local.clone(),
            prefix => format!("{prefix}:{}", self.local),
        }
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        for part in [&self.prefix, &self.local, &self.namespace] {
            varint::put_bytes(part.as_bytes(), bytes);
        }
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut part =
            || Some(std::str::from_utf8(varint::take_bytes(&mut bytes)?).ok()?.to_owned());
        let name = Self { prefix: part()?, local: part()?, namespace: part()? };
        bytes.is_empty().then_some(name)
    }
}

impl Vocabulary {
    /// The number of a name, a new one if it has none.
    pub(crate) fn id_of(&mut self, name: Name) -> NameId {
        if let Some(&id) = self.ids.get(&name) {
            return id;
        }
        let id = NameId(nandu_base::to_u32(self.names.len() as u64));
        let name = Arc::new(name);
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// Forgets all names from a number on, which nothing has.
    pub(crate) fn truncate(&mut self, count: usize) {
        for name in self.names.drain(count.min(self.names.len())..) {
            self.ids.remove(&name);
        }
    }

    /// The name of a number.
    #[must_use]
    pub fn get(&self, id: NameId) -> Option<&Name> {
        self.names.get(id.0 as usize).map(|name| &**name)
    }

    /// All names, by their numbers.
    #[must_use]
    pub fn names(&self) -> &[Arc<Name>] {
        &self.names
    }
}
