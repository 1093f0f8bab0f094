//! A small write cache before the translation layer, as SSD-iq's simulator can have one: it holds the
//! pages that were written last, and a page goes to the layer when it has become the oldest of them.
//!
//! ```text
//!   newest ⇄ … ⇄ oldest   a write of a held page moves it to the front and costs nothing;
//!                         any other one goes to the front and pushes the oldest out
//! ```
//!
//! 1. The cache holds each page once, and at most as many pages as it has room for.

use nandu_base::{FixedHashMap, to_index, to_u32};
use nandu_trace::{Pacing, RequestSource, TraceError, TraceRequest};

/// Stands for the neighbour of an entry at the end of its list.
const NONE: u32 = u32::MAX;
/// How many requests are drawn at a time.
const BATCH: usize = 1024;

struct Held {
    request: TraceRequest,
    newer: u32,
    older: u32,
}

/// Writes of whole pages as they leave a cache.
pub(super) struct WriteCache<S> {
    source: S,
    room: usize,
    held: Vec<Held>,
    /// Place in `held`, by first byte.
    places: FixedHashMap<u64, u32>,
    newest: u32,
    oldest: u32,
    /// Writes that came in so far.
    pub(super) write_count: u64,
    incoming: Vec<TraceRequest>,
    used_count: usize,
}

impl<S: RequestSource> WriteCache<S> {
    /// A cache of `room` pages; with 0 writes pass.
    pub(super) fn new(source: S, room: u64) -> Self {
        Self {
            source,
            room: to_index(room),
            held: Vec::with_capacity(to_index(room)),
            places: FixedHashMap::default(),
            newest: NONE,
            oldest: NONE,
            write_count: 0,
            incoming: Vec::with_capacity(BATCH),
            used_count: 0,
        }
    }

    /// Takes one write in; answers what it pushes out.
    fn admit(&mut self, request: TraceRequest) -> Option<TraceRequest> {
        if self.room == 0 {
            return Some(request);
        }
        if let Some(&place) = self.places.get(&request.offset_bytes) {
            self.unlink(place);
            self.link_newest(place);
            return None;
        }
        let (place, pushed) = if self.held.len() < self.room {
            self.held.push(Held { request, newer: NONE, older: NONE });
            (to_u32(self.held.len() as u64 - 1), None)
        } else {
            let place = self.oldest;
            self.unlink(place);
            let pushed = std::mem::replace(&mut self.held[place as usize].request, request);
            self.places.remove(&pushed.offset_bytes);
            (place, Some(pushed))
        };
        self.places.insert(request.offset_bytes, place);
        self.link_newest(place);
        pushed
    }

    fn unlink(&mut self, place: u32) {
        let Held { newer, older, .. } = self.held[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.held[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.held[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, place: u32) {
        let before = std::mem::replace(&mut self.newest, place);
        let held = &mut self.held[place as usize];
        (held.newer, held.older) = (NONE, before);
        match before {
            NONE => self.oldest = place,
            before => self.held[before as usize].newer = place,
        }
    }
}

impl<S: RequestSource> RequestSource for WriteCache<S> {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let wanted = batch.len() + limit;
        while batch.len() < wanted {
            if self.used_count == self.incoming.len() {
                self.incoming.clear();
                self.used_count = 0;
                self.source.next_batch(&mut self.incoming, BATCH)?;
                if self.incoming.is_empty() {
                    break;
                }
            }
            let request = self.incoming[self.used_count];
            self.used_count += 1;
            self.write_count += 1;
            batch.extend(self.admit(request));
        }
        Ok(())
    }

    fn pacing(&self) -> Pacing {
        self.source.pacing()
    }

    fn description(&self) -> String {
        self.source.description()
    }

    fn audit(&self) {
        assert!(self.held.len() <= self.room, "rule 1: the cache has room for all it holds");
        assert_eq!(self.places.len(), self.held.len(), "rule 1: each page is held once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use nandu_trace::WorkloadSpec;
    use std::collections::VecDeque;

    #[test]
    fn the_cache_does_what_a_plain_list_does() {
        let spec = WorkloadSpec::parse("zipf:0.9").unwrap();
        let source = || spec.source(500 * 2048, 2048, 7).unwrap();
        let mut cache = WriteCache::new(source(), 40);
        let mut rng = Rng::new(1);
        let mut out = Vec::new();
        while out.len() < 20_000 {
            let limit = 1 + to_index(rng.below(300));
            let before = out.len();
            cache.next_batch(&mut out, limit).unwrap();
            assert_eq!(out.len(), before + limit);
            cache.audit();
        }
        let mut incoming = Vec::new();
        source().next_batch(&mut incoming, to_index(cache.write_count)).unwrap();
        let mut list = VecDeque::new();
        let mut expected = Vec::new();
        for request in incoming {
            let page = request.offset_bytes;
            list.retain(|held| *held != page);
            list.push_front(page);
            if list.len() > 40 {
                expected.extend(list.pop_back());
            }
        }
        let out: Vec<u64> = out.iter().map(|request| request.offset_bytes).collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn without_room_every_write_passes() {
        let spec = WorkloadSpec::parse("uniform").unwrap();
        let mut cache = WriteCache::new(spec.source(1 << 20, 2048, 7).unwrap(), 0);
        let (mut out, mut plain) = (Vec::new(), Vec::new());
        cache.next_batch(&mut out, 1000).unwrap();
        spec.source(1 << 20, 2048, 7).unwrap().next_batch(&mut plain, 1000).unwrap();
        assert_eq!((out, cache.write_count), (plain, 1000));
    }
}
