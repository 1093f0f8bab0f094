//! Whether what is to be written finds room: blocks go round the volumes, and several of these may lie
//! on one file system, whose room is there once.
//!
//! ```text
//!   volume   A    B    C        a third of the bytes each
//!            └─┬──┘    │
//!   room     100 MB   60 MB     two thirds of the bytes, a third
//! ```

/// Volumes that have not the room for their share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    /// Which ones, by their numbers; those of one file system together.
    pub(super) lanes: Vec<usize>,
    /// Their share, and the room that they have.
    pub(super) needed_bytes: u64,
    pub(super) free_bytes: u64,
}

/// Of volumes, each with its file system where it has one that others may be on, and with the room that
/// it has, the first ones that have less than their share of so many bytes. What is not known is enough.
pub(super) fn lack_of_room(free: &[(Option<u64>, Option<u64>)], bytes: u64) -> Option<Lack> {
    let lane_count = free.len() as u64;
    free.iter().enumerate().find_map(|(first, &(file_system, free_bytes))| {
        let shares = |&lane: &usize| file_system.is_some() && free[lane].0 == file_system;
        let others = (first + 1..free.len()).filter(shares);
        let lanes: Vec<usize> = std::iter::once(first).chain(others).collect();
        let its_count = lanes.len() as u64;
        // Rounded down: what is refused has no room for sure.
        let needed_bytes = match its_count == lane_count {
            true => bytes,
            false => (bytes / lane_count).saturating_mul(its_count),
        };
        let free_bytes = free_bytes.filter(|&free_bytes| needed_bytes > free_bytes)?;
        Some(Lack { lanes, needed_bytes, free_bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lack(lanes: &[usize], needed_bytes: u64, free_bytes: u64) -> Option<Lack> {
        Some(Lack { lanes: lanes.to_vec(), needed_bytes, free_bytes })
    }

    #[test]
    fn room_of_one_file_system_is_there_once() {
        let (same, other) = ((Some(7), Some(100)), (Some(8), Some(60)));
        assert_eq!(lack_of_room(&[same], 100), None);
        assert_eq!(lack_of_room(&[same], 101), lack(&[0], 101, 100));
        // Two directories of one file system have no more room than one.
        assert_eq!(lack_of_room(&[same, same], 100), None);
        assert_eq!(lack_of_room(&[same, same], 101), lack(&[0, 1], 101, 100));
        // A third each, two of them in one place.
        assert_eq!(lack_of_room(&[same, other, same], 150), None);
        assert_eq!(lack_of_room(&[same, other, same], 153), lack(&[0, 2], 102, 100));
    }

    #[test]
    fn each_has_its_share_and_what_is_not_known_is_enough() {
        let (small, large) = ((None, Some(60)), (None, Some(1000)));
        assert_eq!(lack_of_room(&[large, small], 120), None);
        assert_eq!(lack_of_room(&[large, small], 122), lack(&[1], 61, 60));
        // Volumes that are alike by chance share nothing.
        assert_eq!(lack_of_room(&[small, small], 120), None);
        assert_eq!(lack_of_room(&[(None, None), (Some(1), None)], u64::MAX), None);
    }
}
