//! What changes in the catalogue's counts when records come or go.

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
            let counts = &mut self.document.catalog.counts;
            change(&mut counts.value_bytes, kept.value.len() as u64, is_added);
            let (mut element_level, mut class) = (level, kept.class);
            if kept.kind != NodeKind::Element {
                change(counts.of_kind(kept.kind), 1, is_added);
                if matches!(kept.kind, NodeKind::Attribute | NodeKind::Namespace) {
                    self.count_class(kept.class, is_added)?;
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
                    let counts = &mut self.document.catalog.counts;
                    change(&mut counts.element_count, 1, is_added);
                    counts.level_count = counts.level_count.max(element_level as u64);
                    self.count_class(class, is_added)?;
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

    fn count_class(&mut self, class: ClassId, is_added: bool) -> Result<(), XmlError> {
        let known = self.document.catalog.synopsis.change_count(class, is_added);
        known.ok_or_else(|| self.document.damaged("a path has fewer nodes than it should"))
    }
}

fn change(count: &mut u64, by: u64, is_added: bool) {
    *count = if is_added { *count + by } else { count.saturating_sub(by) };
}
