//! Which of the peer's packets were received: the window behind duplicates, staleness and our acks.
//!
//! Rule: docs/wire/reliable.md, section 3.

use super::window::Window;

/// Packets that one header acknowledges.
const REACH: u16 = 32;

/// Packets the window remembers.
pub const WINDOW: u16 = Window::<4>::NUMBERS;

/// The last 256 packet numbers, each received or not.
#[derive(Clone, Debug, Default)]
pub struct Received {
    window: Window<4>,
    /// The oldest and the newest of those that were accepted when [`Received::ack`] had passed them already,
    /// and that nobody was told of.
    late: Option<(u16, u16)>,
}

impl Received {
    /// Whether `sequence` is too old to be judged.
    pub fn is_stale(&self, sequence: u16) -> bool {
        self.window.is_stale(sequence)
    }

    /// Whether `sequence` was accepted before.
    pub fn contains(&self, sequence: u16) -> bool {
        self.window.contains(sequence)
    }

    /// Notes that `sequence` exists, received or not: the window moves so that it is inside.
    pub fn see(&mut self, sequence: u16) {
        if self.window.see(sequence) {
            self.late = None;
        }
    }

    /// Counts `sequence` as received. One that has become stale meanwhile stays unacknowledged: its
    /// place belongs to another number by now.
    pub fn accept(&mut self, sequence: u16) {
        if self.is_stale(sequence) {
            return;
        }
        self.see(sequence);
        self.window.set(sequence);
        if self.behind(sequence) >= REACH {
            self.note_late(sequence);
        }
    }

    #[cold]
    fn note_late(&mut self, sequence: u16) {
        let (mut oldest, mut newest) = self.late.unwrap_or((sequence, sequence));
        if self.behind(sequence) > self.behind(oldest) {
            oldest = sequence;
        }
        if self.behind(sequence) < self.behind(newest) {
            newest = sequence;
        }
        self.late = Some((oldest, newest));
    }

    /// Newest number seen, and which of it and the 31 before it were received: bit `n` is
    /// `ack - n`. This is what the next header says.
    pub fn ack(&self) -> (u16, u32) {
        let ack = self.window.next().wrapping_sub(1);
        (ack, self.bits_before(ack))
    }

    /// An earlier number, and which of it and the 31 before it were received: the first of these is the oldest that
    /// was accepted too late for [`Received::ack`]. Each is told once.
    pub fn take_late_ack(&mut self) -> Option<(u16, u32)> {
        let (oldest, newest) = self.late.take()?;
        if self.behind(newest) >= WINDOW {
            return None;
        }
        // What the window has lost meanwhile is not known any more.
        let furthest = self.behind(oldest).clamp(REACH - 1, WINDOW - 1);
        let left = furthest - (REACH - 1);
        if self.behind(newest) < left {
            self.late = Some((self.window.next().wrapping_sub(left), newest));
        }
        let ack = self.window.next().wrapping_sub(left + 1);
        Some((ack, self.bits_before(ack)))
    }

    /// Whether `ack` and the 31 before it were received.
    fn bits_before(&self, ack: u16) -> u32 {
        self.window.bits_before(ack) as u32
    }

    /// How far `sequence` is from the newest number seen.
    fn behind(&self, sequence: u16) -> u16 {
        self.window.next().wrapping_sub(sequence).wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::is_newer;
    use proptest::prelude::*;

    /// The reference keeps a place for each number and compares the number itself; so does this.
    struct Model {
        next: u16,
        places: [Option<u16>; WINDOW as usize],
    }

    impl Model {
        fn is_stale(&self, sequence: u16) -> bool {
            is_newer(self.next.wrapping_sub(WINDOW), sequence)
        }

        fn contains(&self, sequence: u16) -> bool {
            self.places[usize::from(sequence % WINDOW)] == Some(sequence)
        }

        fn see(&mut self, sequence: u16) {
            let after = sequence.wrapping_add(1);
            if is_newer(after, self.next) {
                let skipped = after.wrapping_sub(self.next).min(WINDOW);
                for behind in 1..=skipped {
                    self.places[usize::from(after.wrapping_sub(behind) % WINDOW)] = None;
                }
                self.next = after;
            }
        }

        fn accept(&mut self, sequence: u16) {
            if !self.is_stale(sequence) {
                self.see(sequence);
                self.places[usize::from(sequence % WINDOW)] = Some(sequence);
            }
        }

        fn ack(&self) -> (u16, u32) {
            self.header(self.next.wrapping_sub(1))
        }

        /// What a header with this `ack` has to say.
        fn header(&self, ack: u16) -> (u16, u32) {
            let bits = (0..32)
                .filter(|behind| self.contains(ack.wrapping_sub(*behind)))
                .fold(0, |bits, behind| bits | 1 << behind);
            (ack, bits)
        }
    }

    #[test]
    fn a_fresh_window_takes_what_the_reference_takes() {
        let window = Received::default();
        for (sequence, stale) in [
            (0, false),
            (32511, false),
            (32512, true),
            (65279, true),
            (65280, false),
        ] {
            assert_eq!(window.is_stale(sequence), stale, "{sequence}");
        }
    }

    fn accept_all(window: &mut Received, numbers: impl IntoIterator<Item = u16>) {
        numbers.into_iter().for_each(|number| window.accept(number));
    }

    /// The places of what has left the window meanwhile are those of others, so nothing is said of it.
    #[test]
    fn only_what_is_in_the_window_is_told_late() {
        let mut window = Received::default();
        accept_all(&mut window, [100, 0, 60]);
        accept_all(&mut window, 101..=300);
        assert_eq!(window.take_late_ack(), Some((76, 1 << 16)));
        assert_eq!(window.take_late_ack(), None);
    }

    #[test]
    fn what_came_late_is_told_once() {
        let mut window = Received::default();
        accept_all(&mut window, [200, 100, 131]);
        assert_eq!(window.take_late_ack(), Some((131, 1 | 1 << 31)));
        assert_eq!(window.take_late_ack(), None);
    }

    /// One step: how far from the newest number, and whether it is received or only seen.
    fn step() -> impl Strategy<Value = (i32, bool)> {
        let distance = prop_oneof![
            8 => -40i32..40,
            4 => -300i32..300,
            1 => prop::sample::select(vec![-32768, -32767, 32767, 32768, 255, 256, 257, -255, -256, -257]),
            1 => -32768i32..32768,
        ];
        (distance, prop::bool::weighted(0.8))
    }

    proptest! {
        #[test]
        fn the_bitmap_is_the_window_of_the_reference(
            start: u16,
            steps in prop::collection::vec(step(), 1..400),
        ) {
            let mut window = Received::default();
            let mut model = Model { next: 0, places: [None; WINDOW as usize] };
            window.see(start);
            model.see(start);
            for (distance, received) in steps {
                let sequence = window.window.next().wrapping_add(distance as u16);
                prop_assert_eq!(window.is_stale(sequence), model.is_stale(sequence));
                prop_assert_eq!(window.contains(sequence), model.contains(sequence));
                if received {
                    window.accept(sequence);
                    model.accept(sequence);
                } else {
                    window.see(sequence);
                    model.see(sequence);
                }
                prop_assert_eq!(window.ack(), model.ack());
            }
        }

        /// What is accepted when a header cannot acknowledge it with the newest is acknowledged by one that
        /// speaks of older ones, and all that these say is true.
        #[test]
        fn what_came_late_is_told(
            start: u16,
            steps in prop::collection::vec((step(), prop::bool::weighted(0.1)), 1..400),
        ) {
            let mut window = Received::default();
            let mut model = Model { next: 0, places: [None; WINDOW as usize] };
            window.see(start);
            model.see(start);
            let mut untold = Vec::new();
            let tell = |window: &mut Received, model: &Model, untold: &mut Vec<u16>| {
                let Some((ack, bits)) = window.take_late_ack() else {
                    return false;
                };
                assert_eq!((ack, bits), model.header(ack));
                assert_eq!(window.ack(), model.ack());
                untold.retain(|number: &u16| ack.wrapping_sub(*number) >= 32);
                true
            };
            for ((distance, _), is_told) in steps {
                let sequence = window.window.next().wrapping_add(distance as u16);
                let is_late = !model.is_stale(sequence) && (-256..-32).contains(&distance);
                window.accept(sequence);
                model.accept(sequence);
                untold.extend(is_late.then_some(sequence));
                untold.retain(|number| !model.is_stale(*number));
                if is_told {
                    tell(&mut window, &model, &mut untold);
                }
            }
            for _ in 0..8 {
                tell(&mut window, &model, &mut untold);
            }
            prop_assert_eq!(untold, Vec::<u16>::new());
            prop_assert!(!tell(&mut window, &model, &mut Vec::new()), "it ends");
        }
    }
}
