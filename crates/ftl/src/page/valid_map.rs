//! One bit for each unit address: set where a unit is valid.

/// One bit for each flash page's unit, in words of 64 bits.
#[derive(Clone, Debug)]
pub(super) struct ValidMap {
    words: Vec<u64>,
}

impl ValidMap {
    /// Memory of the bits.
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&self.words[..]) as u64
    }

    pub(super) fn new(bit_count: u64) -> Self {
        Self { words: vec![0; nandu_base::to_index(bit_count.div_ceil(64))] }
    }

    pub(super) fn clear_all(&mut self) {
        self.words.fill(0);
    }

    #[inline]
    pub(super) fn get(&self, address: u32) -> bool {
        self.words[address as usize / 64] >> (address % 64) & 1 == 1
    }

    /// The word that holds the bit, to bring it into the cache.
    #[inline]
    pub(super) fn word(&self, address: u32) -> u64 {
        self.words[address as usize / 64]
    }

    #[inline]
    pub(super) fn set(&mut self, address: u32) {
        self.words[address as usize / 64] |= 1 << (address % 64);
    }

    #[inline]
    pub(super) fn clear(&mut self, address: u32) {
        self.words[address as usize / 64] &= !(1 << (address % 64));
    }

    /// Sets the bits from `start` to `end`, excluded.
    #[inline]
    pub(super) fn set_range(&mut self, start: u32, end: u32) {
        for_words(start, end, |index, mask| self.words[index] |= mask);
    }

    /// Clears the bits from `start` to `end`, excluded, and hands each that was set to `visit`, in
    /// order.
    #[inline]
    pub(super) fn take_range(&mut self, start: u32, end: u32, mut visit: impl FnMut(u32)) {
        for_words(start, end, |index, mask| {
            let mut ones = self.words[index] & mask;
            self.words[index] &= !mask;
            while ones != 0 {
                visit(nandu_base::to_u32(index as u64 * 64) + ones.trailing_zeros());
                ones &= ones - 1;
            }
        });
    }

    /// The address behind the bit that is the `count`th set from `start` on, which must exist.
    #[inline]
    pub(super) fn end_of(&self, start: u32, count: u32) -> u32 {
        let mut left = count;
        let mut index = start as usize / 64;
        let mut word = self.words[index] & (u64::MAX << (start % 64));
        while word.count_ones() < left {
            left -= word.count_ones();
            index += 1;
            word = self.words[index];
        }
        for _ in 1..left {
            word &= word - 1;
        }
        nandu_base::to_u32(index as u64 * 64) + word.trailing_zeros() + 1
    }

    pub(super) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub(super) fn count_range(&self, start: u32, end: u32) -> u32 {
        let mut count = 0;
        for_words(start, end, |index, mask| count += (self.words[index] & mask).count_ones());
        count
    }
}

/// Every word that the bits from `start` to `end` touch, with the mask of those bits.
#[inline]
fn for_words(start: u32, end: u32, mut visit: impl FnMut(usize, u64)) {
    if start >= end {
        return;
    }
    let (first, last) = (start as usize / 64, (end - 1) as usize / 64);
    for index in first..=last {
        let mut mask = u64::MAX;
        if index == first {
            mask &= u64::MAX << (start % 64);
        }
        if index == last {
            mask &= u64::MAX >> (63 - (end - 1) % 64);
        }
        visit(index, mask);
    }
}

#[cfg(test)]
mod tests {
    use super::ValidMap;

    #[test]
    fn ranges_touch_exactly_their_bits() {
        for (start, end) in [(0, 1), (3, 64), (63, 65), (64, 128), (5, 190), (7, 7)] {
            let mut map = ValidMap::new(200);
            map.set_range(start, end);
            assert_eq!(map.count(), u64::from(end - start));
            assert!((0..200).all(|bit| map.get(bit) == (start..end).contains(&bit)));
            assert_eq!(map.count_range(4, 70), end.min(70).saturating_sub(start.max(4)));
            let mut seen = Vec::new();
            map.take_range(6, 188, |bit| seen.push(bit));
            assert_eq!(seen, (start.max(6)..end.min(188)).collect::<Vec<_>>());
            assert!((6..188).all(|bit| !map.get(bit)));
            map.set_range(start, end);
            for count in 1..=end - start {
                assert_eq!(map.end_of(start.saturating_sub(2), count), start + count);
            }
        }
    }
}
