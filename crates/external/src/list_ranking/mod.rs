//! List ranking: how far each element of a linked list lies from its head. S002 chapter 2 compares
//! the walk in memory with the same walk over flash, which took days; the algorithm for external
//! memory contracts the list to what fits into memory (Chiang et al., SODA 1995).
//!
//! ```text
//!   successors   3  END  1  2        element i is followed by successors[i]
//!   list         0 → 3 → 2 → 1
//!   ranks        0  3  2  1
//! ```
//!
//! A list is one that begins at its head and reaches every element once. Whatever else is given, a
//! circle, two lists, a number of no element, is an error that names an element.

mod external;
mod paged;
mod walk;

pub(crate) use external::{Division, room_bytes};
pub use external::{KeptRanking, check_room, rank, rank_watched, resume_ranking};
pub use paged::rank_paged;

use crate::ExternalError;
use nandu_base::to_index;

/// What follows the last element.
pub const END: u64 = u64::MAX;

/// The rank of each element, by a walk in memory.
///
/// # Errors
/// If it is not a list.
pub fn rank_in_memory(successors: &[u64], head: u64) -> Result<Vec<u64>, ExternalError> {
    let count = successors.len() as u64;
    let mut ranks = vec![END; successors.len()];
    if count == 0 {
        return Ok(ranks);
    }
    check_element(head, count, None)?;
    let (mut element, mut rank) = (head, 0);
    loop {
        let place = &mut ranks[to_index(element)];
        if *place != END {
            return Err(circle(element));
        }
        *place = rank;
        rank += 1;
        let successor = successors[to_index(element)];
        if successor == END {
            break;
        }
        check_element(successor, count, Some(element))?;
        element = successor;
    }
    match { ranks.iter() }.position(|&rank| rank == END) {
        Some(element) => Err(unreached(element as u64, head)),
        None => Ok(ranks),
    }
}

/// That there is an element of this number.
fn check_element(element: u64, count: u64, before: Option<u64>) -> Result<(), ExternalError> {
    if element < count {
        return Ok(());
    }
    let what = match before {
        Some(before) => {
            format!("element {before} of the list is followed by {element}; it has {count}, from 0")
        }
        None => format!("the list cannot begin with element {element}; it has {count}, from 0"),
    };
    Err(ExternalError::Invalid { what })
}

fn circle(element: u64) -> ExternalError {
    let what = format!("element {element} of the list lies on a circle; a list has an end");
    ExternalError::Invalid { what }
}

fn unreached(element: u64, head: u64) -> ExternalError {
    let what = format!("element {element} of the list is not reached from its head {head}");
    ExternalError::Invalid { what }
}

#[cfg(test)]
mod tests;
