//! Requests in their order, as a store made them or as somebody predicts them.

use super::Work;
use nandu_device::Operation;

/// A request, as a volume sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it wrote; it read otherwise.
    pub is_write: bool,
    /// Which volume of the store.
    pub volume: u32,
    /// Where in the volume's file it begins.
    pub offset_bytes: u64,
    /// How many bytes it moves.
    pub byte_count: u32,
}

/// Who is told of requests one after the other, the earliest first: a [`Trace`] keeps them, a
/// `Tally` counts them.
pub trait Requests {
    /// The next request.
    fn note(&mut self, access: &Access);

    /// The next request, one of `at_once` that are on their way together, wherever they lie.
    fn note_of(&mut self, access: &Access, _at_once: u32) {
        self.note(access);
    }

    /// A phase ends in which the processor does this, beside the requests since the last one.
    fn end_phase(&mut self, _work: Work) {}
}

/// Requests, the earliest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    accesses: Vec<Access>,
}

impl Access {
    /// What a device is asked.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        if self.is_write { Operation::Write } else { Operation::Read }
    }

    /// Where it ends.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.byte_count as u64)
    }
}

impl Requests for Trace {
    fn note(&mut self, access: &Access) {
        self.push(*access);
    }
}

impl Trace {
    /// One of these requests.
    #[must_use]
    pub const fn new(accesses: Vec<Access>) -> Self {
        Self { accesses }
    }

    /// Its requests, the earliest first.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Appends a request.
    pub fn push(&mut self, access: Access) {
        self.accesses.push(access);
    }

    /// How many volumes are asked.
    #[must_use]
    pub fn volume_count(&self) -> u32 {
        self.accesses.iter().map(|access| access.volume + 1).max().unwrap_or(0)
    }

    /// How many blocks of `block_bytes` are read, and how many are written: those that requests
    /// touch, but one that the request before of the same direction and volume ended in counts once.
    pub(super) fn touched_blocks(
        &self,
        read_block_bytes: u64,
        write_block_bytes: u64,
    ) -> (u64, u64) {
        let volume_count = self.volume_count() as usize;
        let mut last = [vec![None; volume_count], vec![None; volume_count]];
        let mut counts = [0_u64; 2];
        for access in self.accesses.iter().filter(|access| access.byte_count > 0) {
            let direction = usize::from(access.is_write);
            let block_bytes = [read_block_bytes, write_block_bytes][direction];
            let first = access.offset_bytes / block_bytes;
            let end = access.end_bytes().div_ceil(block_bytes);
            let last = &mut last[direction][access.volume as usize];
            counts[direction] += end - first - u64::from(*last == Some(first));
            *last = Some(end - 1);
        }
        (counts[0], counts[1])
    }
}
