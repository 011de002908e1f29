//! The receiving end of one reliable channel: each message once, in order.
//!
//! Rule: docs/wire/yojimbo.md, section 7. Ids are 16 bits on the wire and counted in full here.
//!
//! ```text
//!            delivered          gap        early: kept until the gap closes
//!   ids ──────────────────┬───────────┬──────┬───────┬──────┬──────▶
//!                       next                            newest      next + window
//!                                                         └ only this id may be a block's,
//!                                                           unless the peer runs tidegate
//! ```
//!
//! A packet is judged first and applied only if all of it is good. Judging changes nothing here: it
//! runs ahead on a copy of the few numbers that matter ([`Trial`]), which the caller keeps.

use std::collections::BTreeMap;
use std::time::Duration;

use super::incomplete_blocks::IncompleteBlocks;
use super::item::BlockFragment;
use super::objection::Objection;
use super::sink::Sink;
use crate::inbox::MESSAGE_OVERHEAD;
use crate::reassembly::Reassembly;
use crate::sequence::is_newer;
use crate::time::Timestamp;

/// A gap open for so long is not a loss on the way: the peer does not send the message any more. Clients of
/// other make send it every tenth of a second, and of 7000 bytes, in seven datagrams, it arrives one time in
/// twelve where three in ten of them are lost: one in four thousand takes more than ten seconds.
const GAP_MAX: Duration = Duration::from_secs(30);
/// A block that gets no new fragment for so long is not sent any more.
const BLOCK_IDLE_MAX: Duration = Duration::from_secs(30);

/// What one reliable channel remembers.
#[derive(Debug, Default)]
pub(super) struct ReliableOrdered {
    /// Ids from `next` on that the peer may use.
    window: u16,
    /// The id to deliver next.
    next: u64,
    /// The newest id ever stored or delivered, plus one.
    newest: u64,
    /// Messages behind a gap, by id; the first of them is above `next`.
    early: BTreeMap<u64, Box<[u8]>>,
    early_bytes: usize,
    /// Blocks that miss fragments.
    blocks: IncompleteBlocks,
    /// Any id may be a block's.
    takes_together: bool,
    /// When what waits here last came closer to being delivered.
    progress_at: Timestamp,
}

/// What a channel will be when the packet under judgement has been applied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    next: u64,
    newest: u64,
    /// The block that the packet begins, and its number of fragments. (Fragments of any other length than the wire's own
    /// come one to a packet.)
    begun: Option<(u16, u16)>,
    /// Fragments of this channel in the packet. Senders put in one; with more, some may be the same,
    /// and then the trial charges for a whole block but never counts on having it.
    fragments: u16,
    /// Bytes that become early, charged as in [`ReliableOrdered::early_bytes`].
    pub(super) added: usize,
    /// Bytes that the blocks it begins may grow to.
    pub(super) reserved: usize,
}

/// Where an id stands.
enum Place {
    /// Delivered long ago.
    Old,
    /// Inside the window: the id in full.
    Within(u64),
    /// Beyond the window.
    Beyond,
}

impl ReliableOrdered {
    /// A channel that has received nothing.
    pub(super) fn new(window: u16) -> Self {
        Self {
            window,
            ..Self::default()
        }
    }

    /// Ids that the peer may use at a time.
    pub(super) fn window(&self) -> u16 {
        self.window
    }

    /// The peer may use so many ids, and send blocks together.
    pub(super) fn widen(&mut self, window: u16) {
        self.window = window;
        self.takes_together = true;
    }

    fn place(&self, id: u16) -> Place {
        let next = self.next as u16;
        if is_newer(next, id) {
            Place::Old
        } else if is_newer(id, next.wrapping_add(self.window - 1)) {
            Place::Beyond
        } else {
            Place::Within(self.next + u64::from(id.wrapping_sub(next)))
        }
    }

    /// The channel as it is: where judging a packet begins.
    pub(super) fn trial(&self) -> Trial {
        Trial {
            next: self.next,
            newest: self.newest,
            ..Trial::default()
        }
    }

    /// Judges a message of `length` bytes, and takes it on trial. The window is the one before the
    /// packet: what the packet itself delivers does not move it.
    pub(super) fn check_message(
        &self,
        trial: &mut Trial,
        id: u16,
        length: usize,
    ) -> Result<(), Objection> {
        let id = match self.place(id) {
            Place::Old => return Ok(()),
            Place::Within(id) => id,
            Place::Beyond => return Err(Objection::WindowOverflow),
        };
        if id < trial.next || self.early.contains_key(&id) {
            return Ok(());
        }
        trial.newest = trial.newest.max(id + 1);
        if id == trial.next {
            trial.next += 1;
        } else {
            trial.added += length + MESSAGE_OVERHEAD;
        }
        Ok(())
    }

    /// Early bytes that the packet on trial delivers. As much waits for one message as the peer pleases, so
    /// this is asked only where it decides.
    pub(super) fn freed(&self, trial: &Trial) -> usize {
        if !self.would_progress(trial) {
            return 0;
        }
        let waiting = (trial.next..).map_while(|id| self.early.get(&id));
        waiting
            .map(|payload| payload.len() + MESSAGE_OVERHEAD)
            .sum()
    }

    /// Judges a fragment, and takes it on trial. Its shape was checked with the packet.
    pub(super) fn check_fragment(
        &self,
        trial: &mut Trial,
        fragment: &BlockFragment<'_>,
    ) -> Result<(), Objection> {
        let place = fragment.place;
        if !self.takes_together && place.id != trial.newest as u16 {
            return Ok(());
        }
        let id = match self.place(place.id) {
            Place::Old => return Ok(()),
            Place::Within(id) => id,
            Place::Beyond => return Err(Objection::WindowOverflow),
        };
        if id < trial.next || self.early.contains_key(&id) {
            return Ok(());
        }
        let whole = fragment.whole_max as usize;
        let known = self.blocks.get(id);
        let begun = trial.begun.filter(|(begun, _)| *begun == place.id);
        let is_of = known.map(|block| fragment.is_of(block));
        match is_of.or(begun.map(|(_, count)| count == place.count)) {
            Some(false) => return Err(Objection::FragmentsChanged),
            Some(true) => {}
            None => {
                trial.begun = Some((place.id, place.count));
                trial.reserved += whole;
            }
        }
        if known.is_some_and(|block| block.contains(place.index)) {
            return Ok(());
        }
        let missing = known.map_or(place.count, Reassembly::missing);
        trial.fragments += 1;
        if missing <= trial.fragments {
            trial.newest = trial.newest.max(id + 1);
            if id == trial.next && trial.fragments == 1 {
                trial.next += 1;
            } else {
                trial.added += whole + MESSAGE_OVERHEAD;
            }
        }
        Ok(())
    }

    /// Whether the packet on trial delivers what the channel waits for.
    pub(super) fn would_progress(&self, trial: &Trial) -> bool {
        trial.next > self.next
    }

    /// Takes a message of a packet that was found good.
    pub(super) fn apply_message(
        &mut self,
        now: Timestamp,
        id: u16,
        payload: &[u8],
        sink: &mut Sink<'_>,
    ) {
        let Place::Within(id) = self.place(id) else {
            sink.duplicate();
            return;
        };
        if id == self.next {
            sink.deliver(payload);
            self.delivered(now, sink);
        } else if self.early.contains_key(&id) {
            sink.duplicate();
            return;
        } else {
            self.keep(now, id, payload.into());
        }
        self.stored(id, sink);
    }

    /// Moves on behind the message just delivered, and delivers what waited for it.
    fn delivered(&mut self, now: Timestamp, sink: &mut Sink<'_>) {
        self.progress_at = now;
        self.next += 1;
        while let Some(payload) = self.early.remove(&self.next) {
            self.early_bytes -= payload.len() + MESSAGE_OVERHEAD;
            sink.deliver(&payload);
            self.next += 1;
        }
    }

    fn keep(&mut self, now: Timestamp, id: u64, payload: Box<[u8]>) {
        if self.early.is_empty() {
            self.progress_at = now;
        }
        self.early_bytes += payload.len() + MESSAGE_OVERHEAD;
        self.early.insert(id, payload);
    }

    /// Notes that the message `id` exists. A block that misses fragments whose id it has taken, or passed where
    /// nothing may, can never be completed by a sender that keeps to the rules.
    fn stored(&mut self, id: u64, sink: &mut Sink<'_>) {
        self.newest = self.newest.max(id + 1);
        let failed = if self.takes_together {
            usize::from(self.blocks.remove(id))
        } else {
            self.blocks.remove_before(self.newest)
        };
        for _ in 0..failed {
            sink.block_failed();
        }
    }

    pub(super) fn is_delivered(&self, id: u16) -> bool {
        is_newer(self.next as u16, id)
    }

    /// Takes a fragment of a packet that was found good. One for any other id than the newest
    /// unknown one is dropped, although its packet is acknowledged: senders must not send it yet,
    /// unless they are tidegates.
    pub(super) fn apply_fragment(
        &mut self,
        now: Timestamp,
        fragment: &BlockFragment<'_>,
        sink: &mut Sink<'_>,
    ) {
        let place = fragment.place;
        let id = match self.place(place.id) {
            Place::Within(id) if self.takes_together || id == self.newest => id,
            _ => return sink.duplicate(),
        };
        let known = self.blocks.get(id);
        if self.early.contains_key(&id) || known.is_some_and(|it| it.contains(place.index)) {
            return sink.duplicate();
        }
        // What waits comes closer to being delivered, and not only more.
        if id == self.next || self.early.is_empty() {
            self.progress_at = now;
        }
        // Only a packet with several fragments can get one of another block past the judge: it is dropped.
        let Some(whole) = self.blocks.add(id, fragment) else {
            return;
        };
        self.newest = self.newest.max(id + 1);
        if id == self.next {
            sink.deliver(&whole);
            self.delivered(now, sink);
        } else {
            self.keep(now, id, whole.into());
        }
    }

    /// Starts the clocks again: what waits here waits for us and not for the peer.
    pub(super) fn excuse(&mut self, now: Timestamp) {
        self.progress_at = now;
    }

    /// When the channel has waited too long for a message that others wait for, or for the rest of a block.
    pub(super) fn stalls_at(&self) -> Option<Timestamp> {
        if !self.early.is_empty() {
            Some(self.progress_at + GAP_MAX)
        } else if !self.blocks.is_empty() {
            Some(self.progress_at + BLOCK_IDLE_MAX)
        } else {
            None
        }
    }

    /// Bytes of messages behind a gap, each charged with [`MESSAGE_OVERHEAD`].
    pub(super) fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Bytes the blocks that miss fragments may grow to.
    pub(super) fn block_reserved(&self) -> usize {
        self.blocks.reserved()
    }

    /// Bytes the blocks that miss fragments have grown to.
    pub(super) fn block_bytes(&self) -> usize {
        self.blocks.held()
    }

    /// Lets go of everything that was not delivered.
    pub(super) fn release(&mut self) {
        self.early = BTreeMap::new();
        self.early_bytes = 0;
        self.blocks = IncompleteBlocks::default();
    }
}
