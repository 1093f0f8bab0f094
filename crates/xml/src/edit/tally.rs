//! What changes in the catalogue's counts when records come or go: in the end, when the transaction commits.

use super::region::Kept;
use super::{Editor, is_in};
use crate::error::XmlError;
use crate::label;
use crate::record::NodeKind;
use crate::synopsis::ClassId;

impl Editor<'_, '_> {
    /// Counts records that come, or go: whole subtrees, the first of which has the label `start`.
    pub(super) fn tally(
        &mut self,
        records: &[Kept],
        start: &[u8],
        is_added: bool,
    ) -> Result<(), XmlError> {
        let top = label::level(start);
        let mut before: &[u8] = &[];
        for kept in records {
            let level = label::level(&kept.label);
            self.counts.count_bytes(kept.value.len() as u64, is_added);
            let (mut element_level, mut class) = (level, kept.class);
            if kept.kind != NodeKind::Element {
                self.counts.count_kind(kept.kind, is_added);
                if matches!(kept.kind, NodeKind::Attribute | NodeKind::Namespace) {
                    self.counts.count_class(kept.class, is_added);
                    class = self.above(class)?;
                }
                element_level -= 1;
            }
            let has_elements = self.document.mapping().has_elements();
            if !has_elements || kept.kind == NodeKind::Element {
                // Elements that begin with this record, the innermost first.
                while element_level >= top {
                    let element = label::ancestor(&kept.label, element_level).unwrap_or_default();
                    if before == element || is_in(element, before) {
                        break;
                    }
                    self.counts.count_kind(NodeKind::Element, is_added);
                    if is_added {
                        self.counts.count_level(element_level as u64);
                    }
                    self.counts.count_class(class, is_added);
                    class = self.above(class)?;
                    element_level -= 1;
                    if has_elements {
                        break;
                    }
                }
            }
            before = &kept.label;
        }
        Ok(())
    }

    fn above(&self, class: ClassId) -> Result<ClassId, XmlError> {
        let class = self.document.synopsis().get(class);
        Ok(class.ok_or_else(|| self.document.damaged("a record has an unknown class"))?.parent)
    }
}
