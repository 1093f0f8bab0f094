//! From names as they are written to classes of paths: prefixes, and which class a name is below
//! another.
//!
//! 1. A name that came before at the same place, in the same scope of prefixes, is looked up and
//!    nothing else. Children mostly come in the order in which they came before, so a few names
//!    after the last one are compared first.

use super::words::{NAME_BYTES_MAX, split_name};
use crate::synopsis::{CLASS_COUNT_MAX, ClassId, StepKind, Synopsis};
use crate::vocabulary::{Name, Vocabulary, XML_NAMESPACE};
use std::collections::BTreeMap;

const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";
/// How many scopes of prefixes differ at most: they are kept in memory.
const SCOPE_COUNT_MAX: usize = 1 << 20;
/// How many names are compared before the map is asked.
const NEAR_COUNT: usize = 4;

/// Which prefixes stand for what: equal ones have the same number.
pub(super) type ScopeId = u32;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) vocabulary: Vocabulary,
    /// By class: what was found below it.
    below: Vec<Below>,
    /// Scope, class above, kind and name: the place in `below`.
    known: BTreeMap<Box<[u8]>, usize>,
    scopes: BTreeMap<Box<[u8]>, ScopeId>,
    /// Prefixes and namespaces that are declared here, the innermost last.
    bindings: Vec<(String, String)>,
    /// Whether names are keys of JSON, which may be any text.
    are_keys: bool,
    key: Vec<u8>,
}

#[derive(Debug, Default)]
struct Below {
    links: Vec<Link>,
    last: usize,
}

#[derive(Debug)]
struct Link {
    scope: ScopeId,
    kind: StepKind,
    written: Box<str>,
    class: ClassId,
}

impl Names {
    /// Of a document that has these names, where these prefixes are declared.
    pub(super) fn within(vocabulary: Vocabulary, bindings: Vec<(String, String)>) -> Self {
        Self { vocabulary, bindings, ..Self::default() }
    }

    /// Of a document of JSON.
    pub(super) fn of_keys() -> Self {
        Self::of_keys_in(Vocabulary::default())
    }

    /// Of a document of JSON that has these names.
    pub(super) fn of_keys_in(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, are_keys: true, ..Self::default() }
    }

    /// The class of a name below another class. Says what is wrong with the name.
    #[inline]
    pub(super) fn class_of(
        &mut self,
        synopsis: &mut Synopsis,
        parent: ClassId,
        (scope, kind, written): (ScopeId, StepKind, &str),
    ) -> Result<ClassId, String> {
        if let Some(below) = self.below.get_mut(parent.0 as usize) {
            let count = below.links.len();
            for distance in 0..NEAR_COUNT.min(count) {
                let place = match below.last + distance {
                    place if place < count => place,
                    place => place - count,
                };
                let link = &below.links[place];
                if link.scope == scope && link.kind == kind && *link.written == *written {
                    below.last = place;
                    return Ok(link.class);
                }
            }
        }
        self.class_far_away(synopsis, parent, (scope, kind, written))
    }

    fn class_far_away(
        &mut self,
        synopsis: &mut Synopsis,
        parent: ClassId,
        (scope, kind, written): (ScopeId, StepKind, &str),
    ) -> Result<ClassId, String> {
        self.key.clear();
        self.key.extend_from_slice(&scope.to_be_bytes());
        self.key.extend_from_slice(&parent.0.to_be_bytes());
        self.key.push(kind as u8);
        self.key.extend_from_slice(written.as_bytes());
        let above = parent.0 as usize;
        if let Some(&place) = self.known.get(&self.key[..]) {
            self.below[above].last = place;
            return Ok(self.below[above].links[place].class);
        }
        let name = self.vocabulary.id_of(self.resolve(kind, written)?);
        let class = synopsis.step(parent, kind, name).ok_or_else(|| {
            format!("there are more than {CLASS_COUNT_MAX} different paths, which is the limit")
        })?;
        if self.below.len() <= above {
            self.below.resize_with(above + 1, Below::default);
        }
        let below = &mut self.below[above];
        below.last = below.links.len();
        below.links.push(Link { scope, kind, written: written.into(), class });
        self.known.insert(self.key.clone().into_boxed_slice(), below.last);
        Ok(class)
    }

    /// What a name is called in full.
    fn resolve(&self, kind: StepKind, written: &str) -> Result<Name, String> {
        if kind == StepKind::Namespace {
            return Ok(Name { local: written.to_owned(), ..Name::default() });
        }
        if self.are_keys {
            if written.len() > NAME_BYTES_MAX {
                let start = super::words::start_of(written);
                return Err(format!("the key {start}… is longer than {NAME_BYTES_MAX} bytes"));
            }
            return Ok(Name { local: written.to_owned(), ..Name::default() });
        }
        let (prefix, local) = split_name(written)?;
        let namespace = match prefix {
            "" if kind == StepKind::Attribute => "",
            "xml" => XML_NAMESPACE,
            prefix => {
                let bindings = self.bindings.iter().rev();
                let found = bindings.map(|(name, space)| (&**name, &**space));
                match found.filter(|(name, _)| *name == prefix).map(|(_, space)| space).next() {
                    Some(space) => space,
                    None if prefix.is_empty() => "",
                    None => {
                        return Err(format!(
                            "nobody says what the prefix of `{written}` stands for"
                        ));
                    }
                }
            }
        };
        let [prefix, local, namespace] = [prefix, local, namespace].map(str::to_owned);
        Ok(Name { prefix, local, namespace })
    }

    /// The scope of prefixes in an element that declares these, of one in another scope. Says what
    /// is wrong with a declaration.
    pub(super) fn declare(
        &mut self,
        outer: ScopeId,
        declarations: &[(&str, String)],
    ) -> Result<ScopeId, String> {
        let mut key = outer.to_be_bytes().to_vec();
        for (prefix, namespace) in declarations {
            match (*prefix, namespace.as_str()) {
                ("xml", XML_NAMESPACE) => {}
                ("xml" | "xmlns", _) | (_, XML_NAMESPACE | XMLNS_NAMESPACE) => {
                    return Err("xml and xmlns stand for what they stand for".to_owned());
                }
                ("", _) => {}
                (prefix, "") => return Err(format!("the prefix {prefix} stands for nothing")),
                (prefix, _) if prefix.contains(':') => {
                    return Err(format!("`{prefix}` is no prefix"));
                }
                (prefix, _) => super::words::check_name(prefix)?,
            }
            for part in [prefix, namespace.as_str()] {
                crate::varint::put_bytes(part.as_bytes(), &mut key);
            }
            self.bindings.push(((*prefix).to_owned(), namespace.clone()));
        }
        let next = nandu_base::to_u32(self.scopes.len() as u64) + 1;
        if self.scopes.len() >= SCOPE_COUNT_MAX {
            return Err(format!(
                "more than {SCOPE_COUNT_MAX} different sets of prefixes, the limit"
            ));
        }
        Ok(*self.scopes.entry(key.into_boxed_slice()).or_insert(next))
    }

    /// How many prefixes are declared here.
    pub(super) fn binding_count(&self) -> usize {
        self.bindings.len()
    }

    /// Forgets the prefixes of an element that ends.
    pub(super) fn forget(&mut self, binding_count: usize) {
        self.bindings.truncate(binding_count);
    }
}
