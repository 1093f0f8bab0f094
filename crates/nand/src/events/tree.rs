//! A winner tree: which of a fixed number of servers has the earliest event (Knuth, TAOCP 3, 5.4.1).
//!
//! ```text
//!            (5, server 2)                  each inner node holds the earlier of its two children;
//!        (7, 0)         (5, 2)              time and server are one number, so that of equal times
//!     (7, 0) (9, 1)  (5, 2) (never, 3)      the lowest server wins, without a branch
//! ```
//!
//! Up to 32 servers are one tree of fixed size, in which no index can be wrong; more are a tree of such
//! trees, whose roots are the leaves of the next level.
//!
//! 1. The root is the earliest event; of equal ones that of the server with the lowest number.
//! 2. Times are counted from `base`, which follows the events: what has to fit the bits that are left is
//!    how far they lie apart, not how late it is.

/// The time of a server without an event.
pub(super) const NEVER: u64 = u64::MAX;

/// The key of a server without an event. Keys are below 2^63, so that their differences have a sign.
const NO_EVENT: u64 = i64::MAX as u64;

const LEAVES: usize = 32;

/// The root at 1, the leaves from [`LEAVES`] on.
type SmallTree = [u64; 2 * LEAVES];

/// Events of a fixed set of servers, at most one each.
#[derive(Clone, Debug)]
pub(super) struct WinnerTree {
    /// The earliest event of all: time since `base` shifted by `server_bits`, and server.
    root: u64,
    /// No event is before it.
    base: u64,
    /// The servers' own trees, then those of their roots, up to a level of one tree.
    levels: Vec<Vec<SmallTree>>,
    server_bits: u32,
}

impl WinnerTree {
    pub(super) fn new(server_count: usize) -> Self {
        let mut levels = Vec::new();
        let mut count = server_count.max(1);
        loop {
            count = count.div_ceil(LEAVES);
            levels.push(vec![[NO_EVENT; 2 * LEAVES]; count]);
            if count == 1 {
                break;
            }
        }
        let server_bits = server_count.next_power_of_two().max(2).trailing_zeros();
        Self { root: NO_EVENT, base: 0, levels, server_bits }
    }

    /// The time of the earliest event; [`NEVER`] without any.
    #[inline]
    pub(super) const fn earliest_at(&self) -> u64 {
        self.time(self.root)
    }

    /// Time and server of the earliest event; the time is [`NEVER`] without any.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are the server's number")]
    pub(super) const fn earliest(&self) -> (u64, usize) {
        (self.time(self.root), self.root as usize & ((1 << self.server_bits) - 1))
    }

    #[inline]
    const fn time(&self, key: u64) -> u64 {
        if key == NO_EVENT { NEVER } else { self.base + (key >> self.server_bits) }
    }

    /// The server's event comes at `time`.
    ///
    /// # Panics
    /// If events lie 2^62 ns over the number of servers apart, a power of two: with 32 dies 4 years.
    #[inline]
    pub(super) fn set(&mut self, server: usize, time: u64) {
        let mut winner = if time == NEVER {
            NO_EVENT
        } else {
            if time.wrapping_sub(self.base).leading_zeros() <= self.server_bits {
                self.move_base(time);
            }
            (time - self.base) << self.server_bits | server as u64
        };
        let mut number = server;
        for level in &mut self.levels {
            let tree = &mut level[number / LEAVES];
            let mut place = LEAVES + number % LEAVES;
            tree[place] = winner;
            for _ in 0..LEAVES.trailing_zeros() {
                winner = earlier(winner, tree[place ^ 1]);
                place >>= 1;
                tree[place] = winner;
            }
            number /= LEAVES;
        }
        self.root = winner;
    }

    /// Counts times anew, so that `time` can be one of them.
    #[cold]
    fn move_base(&mut self, time: u64) {
        let leaves = self.levels[0].iter().flat_map(|tree| &tree[LEAVES..]);
        let events: Vec<(usize, u64)> =
            leaves.map(|key| self.time(*key)).enumerate().filter(|(_, at)| *at != NEVER).collect();
        let earliest = events.iter().map(|(_, at)| *at).fold(time, u64::min);
        let latest = events.iter().map(|(_, at)| *at).fold(time, u64::max);
        // Half of what fits lies before the earliest: the next one may be earlier still.
        let half = 1 << (62 - self.server_bits);
        assert!(latest - earliest < half, "events are too far apart for one calendar");
        self.clear();
        self.base = earliest.saturating_sub(half);
        for (server, at) in events {
            self.set(server, at);
        }
    }

    /// When the server's event comes.
    #[inline]
    pub(super) fn time_of(&self, server: usize) -> u64 {
        self.time(self.levels[0][server / LEAVES][LEAVES + server % LEAVES])
    }

    /// Nobody has an event.
    pub(super) fn clear(&mut self) {
        self.root = NO_EVENT;
        self.levels.iter_mut().flatten().for_each(|tree| tree.fill(NO_EVENT));
    }
}

/// The lesser of two keys, by arithmetic: which it is cannot be foretold, and compilers make a branch of
/// `min` here, which costs more than all the rest.
#[inline(always)]
const fn earlier(one: u64, other: u64) -> u64 {
    let difference = other.wrapping_sub(one).cast_signed();
    one.wrapping_add((difference & (difference >> 63)).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::to_index;

    #[test]
    fn the_earliest_wins_and_of_equals_the_lowest() {
        for servers in [1, 2, 3, 5, 8, 32, 33, 1024, 1025, 5000] {
            let mut tree = WinnerTree::new(servers);
            let mut times = vec![NEVER; servers];
            assert_eq!(tree.earliest_at(), NEVER);
            let mut state = 7_u64;
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let server = to_index(state >> 33) % servers;
                times[server] = if state >> 62 == 0 { NEVER } else { (state >> 40) % 16 };
                tree.set(server, times[server]);
                assert_eq!(tree.time_of(server), times[server]);
                let expected = times.iter().zip(0..).min().map(|(&time, server)| (time, server));
                let found = tree.earliest();
                assert_eq!(Some(found.0), expected.map(|(time, _)| time));
                assert!(found.0 == NEVER || Some(found) == expected);
            }
        }
    }
    #[test]
    fn times_may_be_as_late_as_a_number_can_say() {
        for servers in [1_usize, 33, 5000] {
            let mut tree = WinnerTree::new(servers);
            let server_bits = servers.next_power_of_two().max(2).trailing_zeros();
            let mut now = 5_u64;
            for (step, server) in (0..200_u64).zip((0..servers).cycle()) {
                tree.set(server, now + 9);
                let other = (server + 1) % servers;
                tree.set(other, now);
                assert_eq!(tree.earliest(), (now, other), "{servers} servers, step {step}");
                assert!(servers == 1 || tree.time_of(server) == now + 9);
                tree.set(other, NEVER);
                if step % 3 == 0 {
                    tree.set(server, NEVER);
                    assert_eq!(tree.earliest_at(), NEVER);
                }
                now = now.saturating_add(if step % 2 == 0 {
                    1 << (61 - server_bits)
                } else {
                    now / 4
                });
                now = now.min(u64::MAX - 20);
                for server in 0..servers {
                    tree.set(server, NEVER);
                }
            }
            assert_eq!(now, u64::MAX - 20, "the end of time was reached");
        }
    }
}
