//! Buffers of granted memory, and the two ways in which streams use them.
//!
//! ```text
//!   ReadAhead:    places ──► in flight (as many as there are buffers) ──► block at hand ──► spare
//!   WriteBehind:  block at hand ──► in flight ──► spare ──► the next block at hand
//! ```
//!
//! 1. There are never more buffers than memory was taken for: a request that fails loses one, and
//!    another one is made in its place.
//! 2. Blocks come in the order of their places, each once.
//! 3. After a failure a stream fails again: it would have a gap.

use super::{Flight, Place, Store};
use crate::error::Failure;
use crate::{ExternalError, Memory};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::collections::VecDeque;

/// Buffers of one block each that are not in use.
#[derive(Debug)]
pub(crate) struct Buffers {
    store: Store,
    spare: Vec<IoBuffer>,
    memory: Memory,
}

impl Buffers {
    /// `count` buffers, from memory of the store's grant.
    pub(crate) fn new(store: &Store, operator: &str, count: u64) -> Result<Self, ExternalError> {
        let memory = store.grant().take(operator, count * store.block_bytes())?;
        Ok(Self::of(store, memory))
    }

    /// As many as `memory` has room for.
    pub(crate) fn of(store: &Store, memory: Memory) -> Self {
        let count = to_index(memory.bytes() / store.block_bytes());
        let length = to_index(store.block_bytes());
        let spare = IoBuffer::batch(count, length, store.shared.alignment);
        Self { store: store.clone(), spare, memory }
    }

    /// Keeps more memory, which is given back with the rest.
    pub(crate) fn keep(&mut self, memory: Memory) {
        self.memory.join(memory);
    }

    /// One of them; there is one, or a request lost it.
    pub(crate) fn take(&mut self) -> IoBuffer {
        self.spare.pop().unwrap_or_else(|| self.store.buffer())
    }

    /// One of them, if there is one.
    pub(crate) fn take_spare(&mut self) -> Option<IoBuffer> {
        self.spare.pop()
    }

    /// Gives one back.
    pub(crate) fn give(&mut self, buffer: IoBuffer) {
        self.spare.push(buffer);
    }

    /// The memory, when the buffers are not needed any more.
    pub(crate) fn into_memory(self) -> Memory {
        self.memory
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }
}

/// Reads blocks ahead of who looks at them.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    flights: VecDeque<Flight>,
    at_hand: Option<IoBuffer>,
    buffers: Buffers,
    failure: Failure,
}

impl ReadAhead {
    /// With all of `buffers`: one at hand, the others in flight.
    pub(crate) fn new(buffers: Buffers) -> Self {
        let flights = VecDeque::with_capacity(buffers.spare.len());
        Self { flights, at_hand: None, buffers, failure: Failure::default() }
    }

    /// Makes the next block the one at hand; false at the end. `next` says what else to read, in
    /// order.
    pub(crate) fn advance(
        &mut self,
        mut next: impl FnMut() -> Option<Place>,
    ) -> Result<bool, ExternalError> {
        self.failure.check()?;
        if let Some(buffer) = self.at_hand.take() {
            self.buffers.give(buffer);
        }
        while let Some(buffer) = self.buffers.take_spare() {
            let Some(place) = next() else {
                self.buffers.give(buffer);
                break;
            };
            let flight = self.buffers.store.read(place, buffer);
            self.flights.push_back(self.failure.note(flight)?);
        }
        let Some(flight) = self.flights.pop_front() else { return Ok(false) };
        self.at_hand = Some(self.failure.note(flight.wait())?);
        Ok(true)
    }

    /// Refuses if there was a failure.
    pub(crate) fn check(&self) -> Result<(), ExternalError> {
        self.failure.check()
    }

    /// The buffers, when nothing is in flight any more.
    pub(crate) fn into_buffers(self) -> Buffers {
        let Self { flights, at_hand, mut buffers, .. } = self;
        assert!(flights.is_empty(), "who gives buffers back has read what was asked for");
        at_hand.into_iter().for_each(|buffer| buffers.give(buffer));
        buffers
    }

    /// The block at hand; none before the first, after the last and after a failure.
    #[inline]
    pub(crate) fn block(&self) -> &[u8] {
        self.at_hand.as_deref().unwrap_or_default()
    }
}

/// Writes blocks while the next ones are filled.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    flights: VecDeque<Flight>,
    at_hand: IoBuffer,
    buffers: Buffers,
    failure: Failure,
}

impl WriteBehind {
    /// With all of `buffers`: one at hand, the others in flight.
    pub(crate) fn new(mut buffers: Buffers) -> Self {
        let flights = VecDeque::with_capacity(buffers.spare.len());
        Self { flights, at_hand: buffers.take(), buffers, failure: Failure::default() }
    }

    /// The block to be filled.
    #[inline]
    pub(crate) fn block_mut(&mut self) -> &mut [u8] {
        &mut self.at_hand
    }

    /// Begins to write the block at hand and puts another one in its place, with any bytes. `place`
    /// is asked once.
    pub(crate) fn write(
        &mut self,
        place: impl FnOnce() -> Result<Place, ExternalError>,
    ) -> Result<(), ExternalError> {
        self.failure.check()?;
        let place = self.failure.note(place())?;
        // Whoever has one buffer waits for it; others wait for the oldest of several.
        let next = self.buffers.take_spare();
        let is_alone = next.is_none() && self.flights.is_empty();
        let next = match (next, is_alone) {
            (Some(buffer), _) => buffer,
            (None, true) => return self.write_alone(place),
            (None, false) => {
                let oldest = self.flights.pop_front().expect("there is one in flight");
                self.failure.note(oldest.wait())?
            }
        };
        let full = std::mem::replace(&mut self.at_hand, next);
        let flight = self.buffers.store.write(place, full);
        self.flights.push_back(self.failure.note(flight)?);
        Ok(())
    }

    /// Writes the only buffer that there is.
    fn write_alone(&mut self, place: Place) -> Result<(), ExternalError> {
        let full = std::mem::replace(&mut self.at_hand, IoBuffer::with_alignment(0, 1));
        let flight = self.buffers.store.write(place, full);
        let result = flight.and_then(Flight::wait);
        match self.failure.note(result) {
            Ok(buffer) => self.at_hand = buffer,
            Err(error) => {
                self.at_hand = self.buffers.take();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for all that is in flight.
    pub(crate) fn settle(&mut self) -> Result<(), ExternalError> {
        while let Some(flight) = self.flights.pop_front() {
            let buffer = self.failure.note(flight.wait())?;
            self.buffers.give(buffer);
        }
        self.failure.check()
    }

    /// The same, and gives the buffers back.
    pub(crate) fn finish(mut self) -> Result<Buffers, ExternalError> {
        self.settle()?;
        self.buffers.give(self.at_hand);
        Ok(self.buffers)
    }
}
