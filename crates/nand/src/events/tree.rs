//! A winner tree: which of a fixed number of servers has the earliest event (Knuth, TAOCP 3, 5.4.1).
//!
//! ```text
//!            (5, server 2)                  each inner node holds the earlier of its two children,
//!        (7, 0)         (5, 2)              the left one where they are equal
//!     (7, 0) (9, 1)  (5, 2) (never, 3)
//! ```
//!
//! 1. The root is the earliest event; of equal ones that of the server with the lowest number.

/// The time of a server without an event.
pub(super) const NEVER: u64 = u64::MAX;

/// Events of a fixed set of servers, at most one each.
#[derive(Clone, Debug)]
pub(super) struct WinnerTree {
    /// Time and server; the root at 1, the leaves from `leaf_count` on.
    nodes: Vec<(u64, u32)>,
    leaf_count: usize,
}

impl WinnerTree {
    pub(super) fn new(server_count: usize) -> Self {
        let leaf_count = server_count.next_power_of_two().max(2);
        let mut nodes = vec![(NEVER, 0); 2 * leaf_count];
        for (leaf, server) in (leaf_count..).zip(0..u32::try_from(leaf_count).unwrap_or(u32::MAX)) {
            nodes[leaf].1 = server;
        }
        let mut tree = Self { nodes, leaf_count };
        for place in (1..leaf_count).rev() {
            tree.nodes[place] = tree.nodes[2 * place];
        }
        tree
    }

    /// Time and server of the earliest event; [`NEVER`] without any.
    #[inline]
    pub(super) fn earliest(&self) -> (u64, u32) {
        self.nodes[1]
    }

    /// The server's event comes at `time`.
    #[inline]
    pub(super) fn set(&mut self, server: usize, time: u64) {
        let mut place = self.leaf_count + server;
        self.nodes[place].0 = time;
        while place > 1 {
            let pair = place & !1;
            let (left, right) = (self.nodes[pair], self.nodes[pair + 1]);
            place >>= 1;
            self.nodes[place] = if right.0 < left.0 { right } else { left };
        }
    }

    /// When the server's event comes.
    #[inline]
    pub(super) fn time_of(&self, server: usize) -> u64 {
        self.nodes[self.leaf_count + server].0
    }

    /// Nobody has an event.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.leaf_count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wins_and_of_equals_the_lowest() {
        for servers in [1, 2, 3, 5, 8, 33] {
            let mut tree = WinnerTree::new(servers);
            let mut times = vec![NEVER; servers];
            assert_eq!(tree.earliest().0, NEVER);
            let mut state = 7_u64;
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let server = (state >> 33) as usize % servers;
                times[server] = if state >> 62 == 0 { NEVER } else { (state >> 40) % 16 };
                tree.set(server, times[server]);
                let expected = times.iter().zip(0..).min().map(|(&time, server)| (time, server));
                let found = tree.earliest();
                assert_eq!(Some(found.0), expected.map(|(time, _)| time));
                assert!(found.0 == NEVER || Some(found) == expected);
            }
        }
    }
}
