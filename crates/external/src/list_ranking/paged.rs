//! The walk of the RAM model over a vector beyond memory: a block for nearly every element, if the
//! list lies there in random order. S002 chapter 2 does it to show what that costs.

use super::{END, check_element, circle};
use crate::{ExternalError, PagedVector};

/// Walks the list from its head and tells `visit` of each element and its rank; gives back how many
/// there were. Labels are not written, as in the chapter, so it does not know which elements were
/// not reached.
///
/// # Errors
/// If it has no end, or goes to a number of no element; if the device fails.
pub fn rank_paged(
    successors: &mut PagedVector<u64>,
    head: u64,
    mut visit: impl FnMut(u64, u64),
) -> Result<u64, ExternalError> {
    let count = successors.len();
    if count == 0 {
        return Ok(0);
    }
    check_element(head, count, None)?;
    let mut element = head;
    for rank in 0..count {
        visit(element, rank);
        let successor = successors.get(element)?;
        if successor == END {
            return Ok(rank + 1);
        }
        check_element(successor, count, Some(element))?;
        element = successor;
    }
    Err(circle(element))
}
