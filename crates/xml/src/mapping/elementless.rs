//! The elementless mapping: records of what has a value, and of elements with nothing in them. The
//! other elements follow: a label begins with those of all nodes above it, and a class says how
//! they are called. Labels are written as those of `prefix`.

use super::Mapping;
use super::prefix::Prefix;

/// See the module's head.
pub(super) enum Elementless {}

impl Mapping for Elementless {
    const LABEL: &'static str = "elementless";
    const HAS_ELEMENTS: bool = false;

    #[inline]
    fn put_label(before: &[u8], label: &[u8], bytes: &mut Vec<u8>) {
        Prefix::put_label(before, label, bytes);
    }

    #[inline]
    fn take_label(label: &mut Vec<u8>, bytes: &mut &[u8]) -> Option<()> {
        Prefix::take_label(label, bytes)
    }
}
