//! Reproducible pseudorandom numbers.

/// A generator (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator whose seed is derived from bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a bound; zero if the bound is zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        // A number below a `usize` fits into a `usize`.
        if bound == 0 { 0 } else { usize::try_from(self.next() % bound).unwrap_or(0) }
    }

    /// Picks an item of a list; `None` if the list is empty.
    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    /// Picks a range inside `length`, not longer than `longest`.
    pub(crate) fn stretch(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let end = start + self.below((length - start).min(longest) + 1);
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn same_seed_yields_the_same_numbers() {
        let numbers = |mut random: Random| [random.next(), random.next(), random.next()];
        assert_eq!(numbers(Random::seeded(3)), numbers(Random::seeded(3)));
        assert_ne!(numbers(Random::seeded(3)), numbers(Random::seeded(4)));
        assert_ne!(numbers(Random::from_bytes(b"a")), numbers(Random::from_bytes(b"b")));
    }

    #[test]
    fn ranges_stay_inside() {
        let mut random = Random::seeded(1);
        for length in 0..50 {
            let stretch = random.stretch(length, 7);
            assert!(
                stretch.start <= stretch.end && stretch.end <= length && stretch.len() <= 7,
                "{stretch:?}"
            );
        }
        assert_eq!(random.below(0), 0);
        assert_eq!(random.pick::<u8>(&[]), None);
    }
}
