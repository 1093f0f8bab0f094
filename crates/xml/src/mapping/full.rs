//! The full mapping: a record for each node, with its whole label.
//!
//! ```text
//!   label length: varint │ label
//! ```

use super::Mapping;
use crate::varint;

/// See the module's head.
pub(super) enum Full {}

impl Mapping for Full {
    const LABEL: &'static str = "full";
    const HAS_ELEMENTS: bool = true;

    fn put_label(_before: &[u8], label: &[u8], bytes: &mut Vec<u8>) {
        varint::put_bytes(label, bytes);
    }

    fn take_label(label: &mut Vec<u8>, bytes: &mut &[u8]) -> Option<()> {
        let whole = varint::take_bytes(bytes)?;
        label.clear();
        label.extend_from_slice(whole);
        Some(())
    }
}
