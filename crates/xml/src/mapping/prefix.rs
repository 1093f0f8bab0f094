//! The prefix-compressed mapping: a record for each node, with what of its label differs from the
//! one before.
//!
//! ```text
//!   0..3 bytes that are new │ 4..7 bytes of the label before that go │ new bytes
//!   15 of either: a varint follows, of how many more; first that of those that go
//! ```

use super::Mapping;
use crate::varint;

/// See the module's head.
pub(super) enum Prefix {}

/// The number in half a byte that says that more follows.
const MORE: usize = 15;

impl Mapping for Prefix {
    const LABEL: &'static str = "prefix";
    const HAS_ELEMENTS: bool = true;

    #[inline]
    fn put_label(before: &[u8], label: &[u8], bytes: &mut Vec<u8>) {
        let same = before.iter().zip(label).take_while(|(one, other)| one == other).count();
        let (gone, new) = (before.len() - same, &label[same..]);
        let half = |count: usize| u8::try_from(count.min(MORE)).expect("at most 15");
        bytes.push(half(gone) << 4 | half(new.len()));
        for count in [gone, new.len()] {
            if count >= MORE {
                varint::put((count - MORE) as u64, bytes);
            }
        }
        bytes.extend_from_slice(new);
    }

    #[inline]
    fn take_label(label: &mut Vec<u8>, bytes: &mut &[u8]) -> Option<()> {
        let (&head, rest) = bytes.split_first()?;
        *bytes = rest;
        let mut counts = [usize::from(head >> 4), usize::from(head & 0x0F)];
        for count in &mut counts {
            if *count == MORE {
                *count = count.checked_add(usize::try_from(varint::take(bytes)?).ok()?)?;
            }
        }
        let [gone, new] = counts;
        label.truncate(label.len().checked_sub(gone)?);
        let (new, rest) = bytes.split_at_checked(new)?;
        label.extend_from_slice(new);
        *bytes = rest;
        Some(())
    }
}
