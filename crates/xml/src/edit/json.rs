//! Changes of documents of JSON: which values there may be, items and members that come, what stays of an object
//! or array when its last member or item goes.
//!
//! 1. What an element is follows from what is in it, so a place tells by its neighbour what may come there; the
//!    neighbour is kept from going.
//! 2. A new key is compared with those of all members of its object, and these are kept from changing: nobody
//!    else puts the same key there, whatever the isolation. A path that is new to the document needs no look.

use super::places::{members, up_to};
use super::region::{self, Kept, Region};
use super::{Editor, Spot, invalid, is_in};
use crate::document::DocumentNames;
use crate::error::XmlError;
use crate::format::DocumentFormat;
use crate::import::{Base, JsonPart, json_fragment};
use crate::label::{self, LABEL_BYTES_MAX, Label, LabelError};
use crate::record::{NodeKind, ValueType};
use crate::synopsis::{ClassId, StepKind};
use nandu_storage::database::Around;
use std::collections::BTreeSet;

/// An object or array into which something comes.
#[derive(Clone, Copy, Debug)]
struct Target {
    part: JsonPart,
    is_empty: bool,
}

impl Editor<'_, '_> {
    /// Whether the document is one of JSON.
    pub(super) fn is_json(&self) -> bool {
        self.document.format() == DocumentFormat::Json
    }

    /// Gives an element of a document of JSON another value, of any type, in the place of all that is in it.
    /// False if there is no such element.
    ///
    /// # Errors
    /// If the text is no value of JSON, the document is not one of JSON, or the engine refuses.
    pub fn replace(&mut self, element: &Label, value: &str) -> Result<bool, XmlError> {
        if !self.is_json() {
            return Err(invalid("a value of JSON is set in a document of JSON alone"));
        }
        self.lock(element)?;
        let first = self.claim_record_from(&up_to(element.as_bytes()))?;
        let first = first.filter(|kept| is_in(element.as_bytes(), &kept.label));
        let Some(first) = first.filter(|_| *element != Label::document()) else { return Ok(false) };
        let class = self.class_in(element, &first)?;
        let (records, _) = self.read_part((element, class), JsonPart::Value, value)?;
        self.claim_new_structure()?;
        self.put_content((element, class), records)?;
        Ok(true)
    }

    /// What [`Self::insert`] does in a document of JSON.
    pub(super) fn insert_json(&mut self, spot: &Spot, text: &str) -> Result<Vec<Label>, XmlError> {
        let (parent, left, right) = self.neighbours(spot)?;
        let class = self.class_of_element(&parent)?;
        let Target { part, is_empty } = self.target(&parent, spot)?;
        let begun = self.document.catalog.as_begun();
        let (records, count) = self.read_part((&parent, class), part, text)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if part == JsonPart::Members {
            let mut keys = BTreeSet::new();
            for member in members(&records, parent.level() + 1).map_err(crowded)? {
                let first = records.iter().find(|kept| is_in(member.as_bytes(), &kept.label));
                let first = first.ok_or_else(|| self.document.damaged("a member has no value"))?;
                keys.insert(self.class_in(&member, first)?);
            }
            keys.retain(|class| begun.has_class(*class));
            if let Some(twice) = self.member_of(&parent, &keys)? {
                let key = self.key_of(twice);
                self.document.catalog.forget_since(&begun);
                let what =
                    format!("key `{key}` is there already; set its value, or delete it first");
                return Err(invalid(what));
            }
        }
        self.claim_new_structure()?;
        if is_empty {
            return self.put_content((&parent, class), records);
        }
        self.put_between((&parent, class), (left, right), (records, count))
    }

    /// The nodes of a text as the only children of an element, and how many children these are.
    fn read_part(
        &mut self,
        (element, class): (&Label, ClassId),
        part: JsonPart,
        text: &str,
    ) -> Result<(Vec<Kept>, usize), XmlError> {
        let (label, level) = (element.as_bytes(), element.level());
        let base = Base { label, level, class, bindings: Vec::new() };
        let (entries, count) = json_fragment(&mut self.document.catalog, &base, part, text)?;
        Ok((region::unpack(&self.document, &entries)?, count))
    }

    /// What may come to a place in an element, by what is beside it.
    fn target(&mut self, parent: &Label, spot: &Spot) -> Result<Target, XmlError> {
        let beside = match spot {
            Spot::FirstIn(_) => self.claim_record_from(&up_to(parent.as_bytes()))?,
            Spot::LastIn(_) => self.claim_record_before(&parent.end())?,
            Spot::Before(node) => self.claim_record_from(node.as_bytes())?,
            Spot::Behind(node) => self.claim_record_before(&node.end())?,
        };
        let beside = beside.filter(|kept| is_in(parent.as_bytes(), &kept.label));
        let beside = beside.ok_or_else(|| self.document.damaged("a value has nothing in it"))?;
        let child = self.label_of(&beside)?.ancestor(parent.level() + 1).unwrap_or_default();
        let is_beside = matches!(spot, Spot::Before(_) | Spot::Behind(_));
        if beside.kind == NodeKind::Text && child.as_bytes() == beside.label {
            let part = match beside.value_type {
                _ if is_beside => {
                    return Err(invalid(
                        "nothing stands beside a value of JSON but beside its member or item: choose that",
                    ));
                }
                ValueType::EmptyArray => JsonPart::Items,
                ValueType::EmptyObject => JsonPart::Members,
                _ => {
                    return Err(invalid(
                        "only objects and arrays have others in them; set the value to {} or [] first",
                    ));
                }
            };
            return Ok(Target { part, is_empty: true });
        }
        let class = self.class_in(&child, &beside)?;
        let kind = self.document.synopsis().get(class).map(|class| class.kind);
        let is_array = kind == Some(StepKind::Array);
        let part = if is_array { JsonPart::Items } else { JsonPart::Members };
        Ok(Target { part, is_empty: false })
    }

    /// The first member of an object that is of one of these classes. All members stay as they are.
    fn member_of(
        &self,
        object: &Label,
        classes: &BTreeSet<ClassId>,
    ) -> Result<Option<ClassId>, XmlError> {
        if classes.is_empty() {
            return Ok(None);
        }
        let nodes = DocumentNames::of(self.document.name()).nodes;
        let end = object.end();
        let mut place = up_to(object.as_bytes());
        loop {
            let place_end = up_to(&place);
            let around = Around::keys(&place, &place_end).with_next();
            let mut next = None;
            for entry in self.write.keep_entries_around(&nodes, around)? {
                for kept in region::unpack(&self.document, &[entry?])? {
                    let is_passed = kept.label < *next.as_ref().unwrap_or(&place);
                    if is_passed {
                        continue;
                    }
                    if kept.label >= end {
                        return Ok(None);
                    }
                    let member = self.label_of(&kept)?.ancestor(object.level() + 1);
                    let member = member.unwrap_or_default();
                    let class = self.class_in(&member, &kept)?;
                    if classes.contains(&class) {
                        return Ok(Some(class));
                    }
                    next = Some(member.end());
                }
            }
            match next {
                Some(next) => place = next,
                None => return Ok(None),
            }
        }
    }

    /// What a class's last step is called.
    fn key_of(&self, class: ClassId) -> String {
        let class = self.document.synopsis().get(class);
        let name = class.and_then(|class| self.document.vocabulary().get(class.name));
        name.map(|name| name.local.chars().take(40).collect()).unwrap_or_default()
    }

    /// Puts records, numbered as the only children of an element, in the place of all that is in it.
    fn put_content(
        &mut self,
        (element, class): (&Label, ClassId),
        records: Vec<Kept>,
    ) -> Result<Vec<Label>, XmlError> {
        let level = element.level() + 1;
        let labels = members(&records, level).map_err(crowded)?;
        if records.iter().any(|kept| kept.label.len() > LABEL_BYTES_MAX) {
            return Err(crowded(LabelError::Crowded));
        }
        let (start, end) = (up_to(element.as_bytes()), element.end());
        let mut region = Region::claim(self.write, &self.document, (&start, &end))?;
        let removed = std::mem::replace(&mut region.inside, records);
        for (records, is_added) in [(&removed, false), (&region.inside, true)] {
            let first = records.first().and_then(|kept| label::ancestor(&kept.label, level));
            let first = first.ok_or_else(|| self.document.damaged("a value has nothing in it"))?;
            self.tally(records, first, is_added)?;
        }
        let change = self.begin_change((element, class), (&removed, &region.inside), true)?;
        region.write(self.write, (&self.document, &mut self.counts))?;
        self.end_change(change)?;
        Ok(labels)
    }

    /// The type and text of the value that a node of some kind is to have.
    pub(super) fn new_value(
        &self,
        kind: NodeKind,
        value: &str,
    ) -> Result<(ValueType, Vec<u8>), XmlError> {
        if self.is_json() {
            let (value_type, text) = crate::import::leaf_of(value).map_err(invalid)?;
            return Ok((value_type, text.into_bytes()));
        }
        crate::import::check_value(kind, value).map_err(invalid)?;
        Ok((ValueType::Text, value.as_bytes().to_vec()))
    }

    /// What stays in an element without children whose last one, with this label and first record,
    /// goes: an empty object or array, or the element itself.
    pub(super) fn rest_of(
        &self,
        (parent, class): (&Label, ClassId),
        (child, removed): (&Label, &Kept),
    ) -> Result<Kept, XmlError> {
        if !self.is_json() {
            return Ok(Kept::element(parent.as_bytes(), class));
        }
        let own = self.class_in(child, removed)?;
        let own = self.document.synopsis().get(own);
        let value_type = match own.map(|class| class.kind) {
            Some(StepKind::Array) => ValueType::EmptyArray,
            _ => ValueType::EmptyObject,
        };
        let mut kept = Kept::element(child.as_bytes(), class);
        (kept.kind, kept.value_type) = (NodeKind::Text, value_type);
        Ok(kept)
    }
}

fn crowded(error: LabelError) -> XmlError {
    invalid(error.to_string())
}
