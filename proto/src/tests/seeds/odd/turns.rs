//! Datagrams that are lost in turn, in the calm as well: a path that spreads them over several links, of which one is dead.

use super::pick;
use crate::sim::Random;
use crate::tests::seeds::plan::Plan;

impl Plan {
    /// Of one player's datagrams: where several share the turns, all of those that are lost can be of one player.
    pub(super) fn lose_in_turn(&mut self, random: &mut Random) {
        self.turns = [draw(random), draw(random)];
        if self.turns != [(0, 0); 2] {
            (self.clients, self.come_back) = (1, false);
            (self.liar, self.deaf, self.forges, self.replays) = (false, false, false, false);
            self.weather.loss = self.weather.loss.min(0.1);
        }
    }

    /// As that, but on one way only. Where answers get lost as well, whether one comes is chance: probes to a peer that has
    /// nothing to say are a second apart, and ten of them are all there is.
    pub(super) fn lose_in_turn_one_way(&mut self, random: &mut Random) {
        self.lose_in_turn(random);
        self.turns[random.below(2) as usize] = (0, 0);
    }
}

/// One of how many datagrams is lost, and which; none in one of three.
fn draw(random: &mut Random) -> (u32, u32) {
    match pick(random, [0, 0, 2, 3, 4, 5]) {
        0 => (0, 0),
        of => (of, 1 + random.below(of.into()) as u32),
    }
}
