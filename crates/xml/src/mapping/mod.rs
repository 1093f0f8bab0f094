//! How a document becomes records: the three storage mappings of S004 (section 5.3), siblings
//! behind one trait.
//!
//! | mapping | records | labels |
//! | --- | --- | --- |
//! | `full` | of all nodes | whole |
//! | `prefix` | of all nodes | what differs from the record before |
//! | `elementless` | of attributes, texts, … and empty elements | what differs from the record before |

mod elementless;
mod full;
mod prefix;

use elementless::Elementless;
use full::Full;
use prefix::Prefix;
use serde::{Deserialize, Serialize};

/// What mappings differ in.
trait Mapping {
    /// The name that users write.
    const LABEL: &'static str;
    /// Whether elements with something in them have records.
    const HAS_ELEMENTS: bool;

    /// Appends a label that comes after another one in a container.
    fn put_label(before: &[u8], label: &[u8], bytes: &mut Vec<u8>);

    /// Takes a label from the front of `bytes`; `label` is the one before, then it. `None`, and
    /// anything in `label`, if there is none.
    fn take_label(label: &mut Vec<u8>, bytes: &mut &[u8]) -> Option<()>;
}

/// A storage mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingKind {
    /// A record for each node, with its whole label.
    Full,
    /// A record for each node, with what of its label differs from the one before.
    Prefix,
    /// Records of what has a value, and of empty elements; the others follow from labels and
    /// classes.
    #[default]
    Elementless,
}

/// The same for whatever mapping it is.
macro_rules! of_mapping {
    ($kind:expr, $mapping:ident => $answer:expr) => {
        match $kind {
            MappingKind::Full => {
                type $mapping = Full;
                $answer
            }
            MappingKind::Prefix => {
                type $mapping = Prefix;
                $answer
            }
            MappingKind::Elementless => {
                type $mapping = Elementless;
                $answer
            }
        }
    };
}

impl MappingKind {
    /// All mappings, by their codes.
    pub const ALL: [Self; 3] = [Self::Full, Self::Prefix, Self::Elementless];

    /// The name that users write.
    #[must_use]
    pub const fn label(self) -> &'static str {
        of_mapping!(self, M => M::LABEL)
    }

    /// Whether elements with something in them have records.
    #[must_use]
    #[inline]
    pub const fn has_elements(self) -> bool {
        of_mapping!(self, M => M::HAS_ELEMENTS)
    }

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    #[inline]
    pub(crate) fn put_label(self, before: &[u8], label: &[u8], bytes: &mut Vec<u8>) {
        of_mapping!(self, M => M::put_label(before, label, bytes));
    }

    #[inline]
    pub(crate) fn take_label(self, label: &mut Vec<u8>, bytes: &mut &[u8]) -> Option<()> {
        of_mapping!(self, M => M::take_label(label, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_back_whatever_stood_before() {
        let long = [7; 300];
        let labels: [&[u8]; 7] = [&[1], &[1, 2, 3], &[1, 2, 4], &long, &[7, 8], &[], &long[..20]];
        for kind in MappingKind::ALL {
            let (mut bytes, mut before): (Vec<u8>, &[u8]) = (Vec::new(), &[9, 9]);
            for label in labels {
                kind.put_label(before, label, &mut bytes);
                before = label;
            }
            let (mut rest, mut label) = (&bytes[..], vec![9, 9]);
            for expected in labels {
                kind.take_label(&mut label, &mut rest).unwrap();
                assert_eq!(label, expected, "{kind:?}");
            }
            assert_eq!(rest, &[] as &[u8]);
            for cut in 0..bytes.len() {
                let (mut rest, mut label) = (&bytes[..cut], vec![9, 9]);
                while kind.take_label(&mut label, &mut rest).is_some() && !rest.is_empty() {}
            }
        }
    }

    #[test]
    fn labels_have_their_bytes_for_ever() {
        let written = |kind: MappingKind, before: &[u8], label: &[u8]| {
            let mut bytes = Vec::new();
            kind.put_label(before, label, &mut bytes);
            bytes
        };
        let (before, label) = (&[0x37, 0x40, 0x37], &[0x37, 0x40, 0x38, 0x37]);
        assert_eq!(written(MappingKind::Full, before, label), [4, 0x37, 0x40, 0x38, 0x37]);
        assert_eq!(written(MappingKind::Prefix, before, label), [0x12, 0x38, 0x37]);
        assert_eq!(written(MappingKind::Elementless, before, label), [0x12, 0x38, 0x37]);
        assert_eq!(written(MappingKind::Prefix, &[0x37; 20], &[0x38]), [0xF1, 5, 0x38]);
    }
}
