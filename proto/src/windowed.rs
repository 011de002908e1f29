//! The smallest or largest value of the recent past, by slices of time: routes change, and what was seen long ago is
//! to be forgotten.

use std::marker::PhantomData;

/// Of the present slice of time and the two before it, the value that `K` keeps. The owner has the clock: it turns to
/// the next slice when a third of its window is over, and so remembers for two to three thirds of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windowed<T, K> {
    /// One a slice, the present one last.
    kept: [T; 3],
    keeps: PhantomData<K>,
}

/// Which of two values is kept.
pub(crate) trait Keep<T> {
    /// Any value is kept rather than this.
    const NOTHING: T;

    fn of(a: T, b: T) -> T;
}

/// Keeps the smaller one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smallest;

/// Keeps the larger one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Largest;

impl Keep<u32> for Smallest {
    const NOTHING: u32 = u32::MAX;

    fn of(a: u32, b: u32) -> u32 {
        a.min(b)
    }
}

impl Keep<f32> for Smallest {
    const NOTHING: f32 = f32::INFINITY;

    fn of(a: f32, b: f32) -> f32 {
        if b < a { b } else { a }
    }
}

impl Keep<f64> for Smallest {
    const NOTHING: f64 = f64::INFINITY;

    /// Not [`f64::min`], which takes several times as long because it looks for NaN.
    fn of(a: f64, b: f64) -> f64 {
        if b < a { b } else { a }
    }
}

impl Keep<f64> for Largest {
    const NOTHING: f64 = f64::NEG_INFINITY;

    fn of(a: f64, b: f64) -> f64 {
        if b > a { b } else { a }
    }
}

impl<T: Copy + PartialEq, K: Keep<T>> Windowed<T, K> {
    pub(crate) const fn new() -> Self {
        Self {
            kept: [K::NOTHING; 3],
            keeps: PhantomData,
        }
    }

    /// Something was measured.
    pub(crate) fn note(&mut self, value: T) {
        self.kept[2] = K::of(self.kept[2], value);
    }

    /// The next slice begins.
    pub(crate) fn turn(&mut self) {
        self.kept = [self.kept[1], self.kept[2], K::NOTHING];
    }

    /// The value kept of all three; none before the first, nor when nothing was measured for so long.
    pub(crate) fn get(&self) -> Option<T> {
        let [oldest, last, present] = self.kept;
        let kept = K::of(K::of(oldest, last), present);
        (kept != K::NOTHING).then_some(kept)
    }
}

impl<T: Copy + PartialEq, K: Keep<T>> Default for Windowed<T, K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_for_three_slices() {
        let mut smallest = Windowed::<u32, Smallest>::new();
        assert_eq!(smallest.get(), None);
        for (value, kept) in [(3, 3), (7, 3), (5, 3), (6, 5), (9, 5), (9, 6)] {
            smallest.note(value);
            assert_eq!(smallest.get(), Some(kept));
            smallest.turn();
        }
        smallest.turn();
        assert_eq!(smallest.get(), Some(9));
        smallest.turn();
        assert_eq!(smallest.get(), None);
    }

    #[test]
    fn the_best_of_a_slice_stays() {
        let mut largest = Windowed::<f64, Largest>::new();
        let mut smallest = Windowed::<f64, Smallest>::new();
        for value in [0.5, 0.0, 2.0, 1.0] {
            largest.note(value);
            smallest.note(value);
        }
        assert_eq!((largest.get(), smallest.get()), (Some(2.0), Some(0.0)));
    }
}
