//! Numbers by their keys, the least first, whose keys may change: a binary heap that knows where each
//! number lies. Of equal keys the least number is first.
//!
//! 1. No number has a less key than the one above it.
//! 2. Each number that is in the heap is found at its place.

/// Where a number is that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// A key; the number comes behind it.
pub(super) type Key = (u64, u64);

/// Numbers by their keys.
#[derive(Debug, Default)]
pub(super) struct Heap {
    order: Vec<u32>,
    /// By number.
    places: Vec<u32>,
    keys: Vec<Key>,
}

impl Heap {
    /// Empty, for the numbers below `count`; there may be others.
    pub(super) fn new(count: u32) -> Self {
        let count = count as usize;
        Self {
            order: Vec::with_capacity(count),
            places: vec![NOWHERE; count],
            keys: vec![(0, 0); count],
        }
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.order.first().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.places.get(number as usize).is_some_and(|&place| place != NOWHERE)
    }

    /// The key of a number that is in the heap.
    pub(super) fn key(&self, number: u32) -> Key {
        assert!(self.contains(number), "a number that is not there has no key");
        self.keys[number as usize]
    }

    /// Puts a number in, or gives it another key.
    pub(super) fn set(&mut self, number: u32, key: Key) {
        let index = number as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
            self.keys.resize(index + 1, (0, 0));
        }
        self.keys[index] = key;
        if self.places[index] == NOWHERE {
            self.places[index] = nandu_base::to_u32(self.order.len() as u64);
            self.order.push(number);
        }
        let place = self.rise(self.places[index] as usize);
        self.sink(place);
    }

    /// Takes a number out, if it is in.
    pub(super) fn remove(&mut self, number: u32) {
        if !self.contains(number) {
            return;
        }
        let place = self.places[number as usize] as usize;
        self.places[number as usize] = NOWHERE;
        let last = self.order.pop().expect("a number is in the heap");
        if last == number {
            return;
        }
        self.put(place, last);
        let place = self.rise(place);
        self.sink(place);
    }

    /// Halves the first half of all keys.
    pub(super) fn halve(&mut self) {
        for &number in &self.order {
            self.keys[number as usize].0 /= 2;
        }
        // Equal keys are in the order of their numbers, which halving may have changed.
        for place in (0..self.order.len() / 2).rev() {
            self.sink(place);
        }
    }

    pub(super) fn audit(&self) {
        for (place, &number) in self.order.iter().enumerate() {
            assert_eq!(self.places[number as usize] as usize, place, "a number is at its place");
            let above = place.saturating_sub(1) / 2;
            assert!(place == 0 || self.is_less(above, place), "what lies above is less");
        }
        let placed = self.places.iter().filter(|&&place| place != NOWHERE).count();
        assert_eq!(placed, self.order.len(), "only what is in the heap has a place");
    }

    fn is_less(&self, one: usize, other: usize) -> bool {
        let at = |place: usize| (self.keys[self.order[place] as usize], self.order[place]);
        at(one) < at(other)
    }

    fn put(&mut self, place: usize, number: u32) {
        self.order[place] = number;
        self.places[number as usize] = nandu_base::to_u32(place as u64);
    }

    fn swap(&mut self, one: usize, other: usize) {
        let (first, second) = (self.order[one], self.order[other]);
        self.put(one, second);
        self.put(other, first);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let above = (place - 1) / 2;
            if !self.is_less(place, above) {
                break;
            }
            self.swap(place, above);
            place = above;
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2];
            let below = below.into_iter().filter(|&child| child < self.order.len());
            let least =
                below.reduce(|one, other| if self.is_less(other, one) { other } else { one });
            match least {
                Some(least) if self.is_less(least, place) => {
                    self.swap(place, least);
                    place = least;
                }
                _ => return,
            }
        }
    }
}
