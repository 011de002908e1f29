//! Messages out of packets: in order, each once, whole packets or nothing.
//!
//! Rule: docs/wire/gaffer.md, sections 4 and 5. A packet is judged before anything of it is applied,
//! because a packet that is applied is acknowledged, and what is acknowledged is never sent again.

use std::collections::VecDeque;

use crate::gaffer::wire::{FRAGMENT_BYTES, Record, Records};
use crate::inbox::{Inbox, MESSAGE_OVERHEAD};
use crate::reassembly::Reassembly;
use crate::sender::{AWAITED_MESSAGES, Worth};
use crate::session::Reject;
use crate::time::Timestamp;

/// Messages from the next one on that may wait for it. The sender never goes further.
pub(super) const WINDOW: u16 = 1024;

/// Bytes of those.
const STORED_BYTES_MAX: usize = 256 * 1024;

/// Of these, kept free for packets that bring the next message. Otherwise a store filled to the brim would
/// refuse, for the messages beside it, the very message that empties it, and so for ever.
const STORED_BYTES_RESERVE: usize = 32 * 1024;

/// Messages that may wait however little memory there is. So many places an empty window keeps.
const WINDOW_LEAST: usize = 64;

/// Bytes of a place in the window.
const PLACE_BYTES: usize = size_of::<Option<Box<[u8]>>>();

/// The two channels.
pub(super) const RELIABLE: u8 = 0;
pub(super) const UNRELIABLE: u8 = 1;

#[derive(Debug)]
pub(super) struct Receiver {
    next: u16,
    /// Entry i is message `next + i`; the first is always missing.
    window: VecDeque<Option<Box<[u8]>>>,
    stored_bytes: usize,
    /// The large message being put together. Its id is always `next`.
    large: Option<Reassembly>,
    message_bytes_max: usize,
    /// When what waits here last came closer to being delivered, on the clock that runs while the
    /// peer is heard.
    progress_at: Timestamp,
}

/// What a packet under judgement would do.
#[derive(Debug, Default)]
struct Trial {
    /// Messages that come to be delivered, of the packet and of those that wait.
    delivered: usize,
    /// Bytes of the latter.
    freed: usize,
    /// Bytes of those that would have to wait. The same message twice in one packet counts twice.
    added: usize,
    /// Places of the window up to the last of those.
    places: usize,
}

/// What a packet brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Brought {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) duplicates: u64,
    pub(super) fragments: u64,
    pub(super) has_content: bool,
    pub(super) has_news: bool,
    /// Many messages waited for one of these.
    pub(super) is_awaited: bool,
    pub(super) is_goodbye: bool,
}

impl Brought {
    /// To the timing of its acknowledgement.
    pub(super) fn worth(&self) -> Worth {
        match (self.has_content, self.has_news) {
            (false, _) => Worth::Nothing,
            (true, false) => Worth::Repeats,
            (true, true) if self.is_awaited => Worth::Awaited,
            (true, true) => Worth::News,
        }
    }
}

impl Receiver {
    pub(super) fn new(now: Timestamp, message_bytes_max: usize) -> Self {
        Self {
            next: 0,
            window: VecDeque::new(),
            stored_bytes: 0,
            large: None,
            message_bytes_max,
            progress_at: now,
        }
    }

    /// Bytes held behind a missing message, and of a large one that misses fragments. Places take memory as well,
    /// whether a message came for them or not; the few that any window keeps are the session's own.
    pub(super) fn held(&self) -> (usize, usize) {
        let large = self.large.as_ref().map_or(0, Reassembly::held);
        let places = self.window.capacity().saturating_sub(WINDOW_LEAST);
        (self.stored_bytes + places * PLACE_BYTES, large)
    }

    /// Since when a message is missing that others wait for, or fragments of a large one.
    pub(super) fn waits_since(&self) -> Option<Timestamp> {
        let waits = self.stored_bytes > 0 || self.large.is_some();
        waits.then_some(self.progress_at)
    }

    /// Starts that clock again: what waits here waits for us and not for the peer.
    pub(super) fn excuse(&mut self, heard: Timestamp) {
        self.progress_at = heard;
    }

    /// Nothing will be taken any more: lets go of what waits for something before it.
    pub(super) fn release(&mut self) {
        (self.window, self.stored_bytes) = (VecDeque::new(), 0);
        self.large = None;
    }

    /// Whether every record of a packet can be taken now; without `is_taking`, no message is. Changes nothing that is
    /// delivered.
    pub(super) fn judge(
        &self,
        records: Records<'_>,
        is_taking: bool,
        inbox: &Inbox,
    ) -> Result<(), Reject> {
        let mut trial = Trial::default();
        for record in records {
            match record {
                Record::KeepAlive | Record::Goodbye => continue,
                Record::Unreliable(payload) | Record::Reliable { payload, .. }
                    if payload.len() > self.message_bytes_max =>
                {
                    return Err(Reject::Malformed);
                }
                Record::Unreliable(_) => {}
                Record::Reliable { id, payload } => {
                    self.judge_message(&mut trial, id, payload.len())?;
                }
                Record::Fragment {
                    id,
                    index,
                    last,
                    bytes,
                } => {
                    let least = least_bytes(index, last, bytes);
                    self.judge_fragment(id, last, least)?;
                }
            }
            // A full inbox refuses whatever would fill it further.
            if !is_taking {
                return Err(Reject::Refused);
            }
        }
        self.judge_room(&trial, inbox)
    }

    /// Takes a message on trial. One that is here already, or that the packet itself delivers, costs nothing.
    fn judge_message(&self, trial: &mut Trial, id: u16, length: usize) -> Result<(), Reject> {
        let ahead = id.wrapping_sub(self.next);
        if ahead >= 0x8000 {
            return Ok(());
        }
        if ahead >= WINDOW {
            return Err(Reject::Refused);
        }
        let ahead = usize::from(ahead);
        if ahead < trial.delivered || self.stored(ahead).is_some() {
            return Ok(());
        }
        if ahead > trial.delivered {
            trial.added += length + MESSAGE_OVERHEAD;
            trial.places = trial.places.max(ahead + 1);
            return Ok(());
        }
        trial.delivered += 1;
        while let Some(payload) = self.stored(trial.delivered) {
            trial.freed += payload.len() + MESSAGE_OVERHEAD;
            trial.delivered += 1;
        }
        Ok(())
    }

    /// Whether what the packet adds fits beside what it leaves.
    fn judge_room(&self, trial: &Trial, inbox: &Inbox) -> Result<(), Reject> {
        let max = match trial.delivered {
            0 => inbox.ahead_max(STORED_BYTES_MAX - STORED_BYTES_RESERVE),
            _ => STORED_BYTES_MAX,
        };
        let allowed = max / PLACE_BYTES;
        let places = allowed.max(WINDOW_LEAST).max(self.window.len());
        let is_too_much = self.stored_bytes + trial.added > max + trial.freed;
        if trial.added > 0 && (is_too_much || trial.places > places) {
            return Err(Reject::Refused);
        }
        Ok(())
    }

    /// The message so far ahead of the next one, if it is here.
    fn stored(&self, ahead: usize) -> Option<&[u8]> {
        self.window.get(ahead)?.as_deref()
    }

    /// Whether a record is of a reliable message that is longer than any that is taken: nothing behind that message can
    /// ever be delivered.
    pub(super) fn is_blocked_by(&self, mut records: Records<'_>) -> bool {
        let max = self.message_bytes_max;
        records.any(|record| match record {
            Record::Reliable { payload, .. } => payload.len() > max,
            Record::Fragment {
                index, last, bytes, ..
            } => least_bytes(index, last, bytes) > max,
            Record::Unreliable(_) | Record::KeepAlive | Record::Goodbye => false,
        })
    }

    /// Its message has `least` bytes or more.
    fn judge_fragment(&self, id: u16, last: u8, least: usize) -> Result<(), Reject> {
        let ahead = id.wrapping_sub(self.next);
        if ahead >= 0x8000 {
            return Ok(());
        }
        // A large message travels alone: everything before it was acknowledged first.
        if ahead > 0 {
            return Err(Reject::Refused);
        }
        if least > self.message_bytes_max {
            return Err(Reject::Malformed);
        }
        match &self.large {
            Some(large) if large.count() != u16::from(last) + 1 => Err(Reject::BadFragment),
            Some(_) | None => Ok(()),
        }
    }

    /// Applies a packet that was judged. `heard` is the clock that runs while the peer is heard.
    pub(super) fn apply(
        &mut self,
        heard: Timestamp,
        records: Records<'_>,
        inbox: &mut Inbox,
    ) -> Brought {
        let mut brought = Brought::default();
        if self.waits_since().is_none() {
            self.progress_at = heard;
        }
        let (next, missing) = (self.next, self.large.as_ref().map(Reassembly::missing));
        for record in records {
            match record {
                Record::KeepAlive => continue,
                Record::Goodbye => {
                    brought.is_goodbye = true;
                    continue;
                }
                Record::Unreliable(payload) => {
                    inbox.push(UNRELIABLE, false, payload);
                    brought.messages += 1;
                    brought.bytes += payload.len() as u64;
                    brought.has_news = true;
                }
                Record::Reliable { id, payload } => self.take(id, payload, inbox, &mut brought),
                Record::Fragment {
                    id,
                    index,
                    last,
                    bytes,
                } => self.take_fragment(id, index, last, bytes, inbox, &mut brought),
            }
            brought.has_content = true;
        }
        if (next, missing) != (self.next, self.large.as_ref().map(Reassembly::missing)) {
            self.progress_at = heard;
        }
        brought
    }

    fn take(&mut self, id: u16, payload: &[u8], inbox: &mut Inbox, brought: &mut Brought) {
        let ahead = usize::from(id.wrapping_sub(self.next));
        let is_known =
            ahead >= usize::from(WINDOW) || matches!(self.window.get(ahead), Some(Some(_)));
        if is_known {
            brought.duplicates += 1;
            return;
        }
        brought.has_news = true;
        if ahead == 0 {
            self.deliver(payload, inbox, brought);
            self.deliver_stored(inbox, brought);
            return;
        }
        if ahead >= self.window.len() {
            self.window.resize_with(ahead + 1, || None);
        }
        self.stored_bytes += payload.len() + MESSAGE_OVERHEAD;
        self.window[ahead] = Some(payload.into());
    }

    fn deliver(&mut self, payload: &[u8], inbox: &mut Inbox, brought: &mut Brought) {
        inbox.push(RELIABLE, true, payload);
        brought.messages += 1;
        brought.bytes += payload.len() as u64;
        self.window.pop_front();
        self.next = self.next.wrapping_add(1);
        self.large = None;
    }

    fn deliver_stored(&mut self, inbox: &mut Inbox, brought: &mut Brought) {
        let before = brought.messages;
        while let Some(Some(_)) = self.window.front() {
            let Some(payload) = self.window.front_mut().and_then(Option::take) else {
                return;
            };
            self.stored_bytes -= payload.len() + MESSAGE_OVERHEAD;
            self.deliver(&payload, inbox, brought);
        }
        brought.is_awaited |= brought.messages > before + AWAITED_MESSAGES as u64;
        if self.window.is_empty() {
            self.window.shrink_to(WINDOW_LEAST);
        }
    }

    fn take_fragment(
        &mut self,
        id: u16,
        index: u8,
        last: u8,
        bytes: &[u8],
        inbox: &mut Inbox,
        brought: &mut Brought,
    ) {
        if id != self.next {
            brought.duplicates += 1;
            return;
        }
        let count = u16::from(last) + 1;
        let large = self
            .large
            .get_or_insert_with(|| Reassembly::new(count, FRAGMENT_BYTES));
        let index = u16::from(index);
        // Only a packet with several fragments can get one of another message past the judge.
        if large.contains(index) || large.count() != count {
            brought.duplicates += 1;
            return;
        }
        large.add(index, bytes);
        brought.fragments += 1;
        brought.has_news = true;
        if large.missing() == 0
            && let Some(large) = self.large.take()
        {
            self.deliver(&large.into_whole(), inbox, brought);
            self.deliver_stored(inbox, brought);
            // The sender begins nothing else before it knows.
            brought.is_awaited = true;
        }
    }
}

/// How long a message is at least that has such a fragment.
fn least_bytes(index: u8, last: u8, bytes: &[u8]) -> usize {
    let end = usize::from(index) * FRAGMENT_BYTES + bytes.len();
    end.max(usize::from(last) * FRAGMENT_BYTES + 1)
}

#[cfg(test)]
mod tests;
