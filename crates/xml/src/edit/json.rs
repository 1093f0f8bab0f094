//! Changes of documents of JSON: which values there may be, and what stays of an object or array when
//! its last member or item goes.

use super::region::Kept;
use super::{Editor, invalid};
use crate::error::XmlError;
use crate::format::DocumentFormat;
use crate::label::Label;
use crate::record::{NodeKind, ValueType};
use crate::synopsis::{ClassId, StepKind};

impl Editor<'_, '_> {
    /// Whether the document is one of JSON.
    pub(super) fn is_json(&self) -> bool {
        self.document.format() == DocumentFormat::Json
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
