//! Pages that a view has begun to read before they are wanted, beside others who need the engine.
//!
//! ```text
//!   prefetch ─► in flight ─┬─ wanted: landed without the engine, then in the pool
//!                          └─ too many, another moment, the view's end: landed, and forgotten
//! ```
//!
//! The pool's own way ahead of time waits with the engine held; it is for whoever is alone.
//!
//! 1. What is in flight is landed before the view's moment ends, and before the files that its transaction
//!    made go with it: no file goes while a request for it is under way.
//! 2. Nobody waits for the device with the list locked.

use crate::PageAddress;
use crate::pool::{Flight, PageReader};
use nandu_workers::sync::Mutex;
use std::collections::VecDeque;

/// Most pages in flight for one view: of four scans at once, which ask for 32 each.
const FLIGHT_COUNT_MAX: usize = 128;

/// The pages in flight, in the order in which they were begun.
#[derive(Default)]
pub(super) struct Ahead(Mutex<VecDeque<Flight>>);

impl Ahead {
    /// Whether a page is in flight.
    pub(super) fn has(&self, address: PageAddress) -> bool {
        self.0.lock().iter().any(|flight| flight.address() == address)
    }

    /// The flight of a page that is wanted now.
    pub(super) fn take(&self, address: PageAddress) -> Option<Flight> {
        let mut flights = self.0.lock();
        let place = flights.iter().position(|flight| flight.address() == address)?;
        flights.remove(place)
    }

    /// Adds what was begun. What nobody wanted for longest goes.
    pub(super) fn add(&self, begun: Vec<Flight>, reader: &PageReader) {
        let displaced: Vec<Flight> = {
            let mut flights = self.0.lock();
            flights.extend(begun);
            let count = flights.len().saturating_sub(FLIGHT_COUNT_MAX);
            flights.drain(..count).collect()
        };
        displaced.into_iter().for_each(|flight| reader.drop_flight(flight));
    }

    /// Lands all there is, and forgets it.
    pub(super) fn clear(&self, reader: &PageReader) {
        let flights = std::mem::take(&mut *self.0.lock());
        flights.into_iter().for_each(|flight| reader.drop_flight(flight));
    }
}
