//! The way out of a session: when an output is due, and what it says in which order.
//!
//! An output is what the reference makes at a send tick: requests, answers, new messages, packed
//! into datagrams. Ours happens only when there is something to say, so an idle session sleeps
//! between its keep-alives.

use std::time::Duration;

use super::Session;
use super::in_step::InStep;
use crate::ip::IPV6_UDP_HEADER_BYTES;
use crate::rudp::outgoing::Answer;
use crate::rudp::wire;
use crate::time::{Deadline, Timestamp, Wake};

/// Datagrams in one output. What is left over waits for the next send tick.
const DATAGRAMS_PER_OUTPUT: u32 = 32;

/// The output under way, and when the next one may start.
#[derive(Debug)]
pub(super) struct Output {
    next_at: Timestamp,
    under_way: bool,
    datagrams_left: u32,
    /// Ids to ask for; `asked` of them were written.
    asks: Vec<u16>,
    asked: usize,
    /// The last message, to be repeated.
    tail: Option<u64>,
    /// What to ask for in one datagram with it.
    tail_asks: Option<u16>,
    in_step: InStep,
    /// What this output begins with leaves in a datagram of its own first, and then once more with the rest.
    begins_twice: bool,
}

impl Output {
    /// None under way, and the first one not before `next_at`.
    pub(super) fn new(next_at: Timestamp) -> Self {
        Self {
            next_at,
            under_way: false,
            datagrams_left: 0,
            asks: Vec::new(),
            asked: 0,
            tail: None,
            tail_asks: None,
            in_step: InStep::default(),
            begins_twice: false,
        }
    }
}

impl Session {
    /// Appends the next datagram of an output, if one is under way or due.
    pub(super) fn poll_output(&mut self, now: Timestamp, out: &mut Vec<u8>) -> bool {
        if !self.output.under_way {
            let (wanted_at, _) = self.output_wanted_at();
            if now < self.output.next_at.max(wanted_at) {
                return false;
            }
            self.begin_output(now);
        }
        if self.output.datagrams_left > 0 && self.emit_datagram(now, out) {
            self.output.datagrams_left -= 1;
            self.stats.packets_sent += 1;
            return true;
        }
        self.output.under_way = false;
        false
    }

    /// When [`Session::poll_output`] has something next.
    pub(super) fn output_timeout(&self) -> Deadline {
        let (wanted_at, why) = self.output_wanted_at();
        Deadline {
            at: wanted_at.max(self.output.next_at),
            why,
        }
    }

    /// When an output has something to say; in the past when it has now.
    fn output_wanted_at(&self) -> (Timestamp, Wake) {
        if self.echoes.are_due() || self.outgoing.next_answer().is_some() {
            return (Timestamp::ZERO, Wake::SendSlot);
        }
        if self.may_send_new() && self.outgoing.next_unsent().is_some() {
            return (Timestamp::ZERO, Wake::SendSlot);
        }
        let mut wanted = (self.poll.due_at(), Wake::KeepAlive);
        // While refusing, only the poll: an answer would be refused as well.
        if !self.refusing
            && let Some(at) = self.incoming.asks_at()
        {
            wanted = wanted.min((at, Wake::Resend));
        }
        if let Some(at) = self.outgoing.tail_at() {
            wanted = wanted.min((at, Wake::Resend));
        }
        wanted
    }

    fn begin_output(&mut self, now: Timestamp) {
        let output = &mut self.output;
        output.next_at = now + self.params.tick * self.params.send_delay;
        output.under_way = true;
        output.datagrams_left = DATAGRAMS_PER_OUTPUT;
        output.asks.clear();
        output.asked = 0;
        if !self.refusing {
            let answer_time = self.ping.answer_time_without_queue();
            self.incoming
                .ask(now, answer_time, self.params.mtu, &mut output.asks);
        }
        let (gap, answer) = (output.asks.first().copied(), self.outgoing.next_answer());
        output.begins_twice = output.in_step.begin_output(now, gap, answer);
        let asks = !self.output.asks.is_empty();
        let repeats = self.repeats_tail(now, asks || now >= self.poll.due_at());
        let soon = if repeats { TOGETHER } else { Duration::ZERO };
        let polls = now + soon >= self.poll.due_at();
        let repeats_asking = repeats && self.outgoing.peer_answers();
        if polls || repeats_asking {
            self.poll_for_more(now);
        }
        if repeats_asking {
            self.output.tail_asks = Some(self.ping.ask_now(now, self.said_below()));
        }
        if polls || asks {
            // Any request is as good as a poll. But those along with the last message leave in a beat of their own.
            let answers = !self.outgoing.peer_polls();
            self.poll.on_asked(now, self.ping.answer_time(), answers);
            self.ping_along(now);
        }
    }

    /// The last message leaves once more if it is due, or soon and something is asked for. A path that loses every second
    /// datagram would otherwise lose one of these two each time.
    fn repeats_tail(&mut self, now: Timestamp, asks: bool) -> bool {
        let within = if asks { TOGETHER } else { Duration::ZERO };
        let due = self.outgoing.tail_at().filter(|at| now + within >= *at);
        self.output.tail = due.map(|_| self.outgoing.tail());
        due.is_some()
    }

    /// Both sides said nothing from there on.
    fn said_below(&self) -> u64 {
        self.incoming.next_id().max(self.outgoing.unsent_id())
    }

    /// Asks for what nobody said yet, if that goes along with other questions.
    fn ping_along(&mut self, now: Timestamp) {
        if self.output.asks.len() < self.params.mtu / ID_RECORD {
            let said = self.said_below();
            self.output.asks.extend(self.ping.ask(now, said));
        }
    }

    /// Asks for what follows all that is known to exist, behind the oldest gap if there is one. What a peer said before
    /// it was let in comes in this way, and soon it is forgotten: gaps in what came already must not hold up the rest.
    fn poll_for_more(&mut self, now: Timestamp) {
        let asks = &mut self.output.asks;
        if asks.is_empty() && self.incoming.gap_since().is_some() {
            asks.push(self.incoming.next_wire_id());
        }
        let gaps = asks.len();
        let room = self.incoming.ids_max(self.params.mtu).saturating_sub(gaps);
        if room > 0 {
            let unknown = self.incoming.unknown_wire_id();
            let answer_time = self.ping.answer_time();
            self.poll.ask(now, unknown, answer_time, room, asks);
        }
        if gaps > 0 && asks.len() == gaps + 1 {
            // Nothing shows that there is more, and a gap is question enough.
            asks.truncate(gaps);
        }
    }

    /// Writes the next datagram of the output under way; false when there is nothing left.
    ///
    /// Order of the reference: requests, answers, new messages. What does not fit any more begins
    /// the next datagram.
    fn emit_datagram(&mut self, now: Timestamp, out: &mut Vec<u8>) -> bool {
        let mut datagram = Datagram {
            start: out.len(),
            out,
            mtu: self.params.mtu,
        };
        if std::mem::take(&mut self.output.begins_twice) && self.emit_beginning(&mut datagram) {
            return true;
        }
        if self.has_more() {
            self.echoes.say_again();
        }
        if self.output.tail_asks.is_some() {
            self.emit_tail_asking(now, &mut datagram);
        }
        let _is_all = self.emit_requests(&mut datagram)
            && self.emit_echoes(&mut datagram)
            && self.emit_answers(now, &mut datagram)
            && self.emit_tail(now, &mut datagram)
            && self.emit_new(now, &mut datagram);
        datagram.out.len() > datagram.start
    }

    /// A datagram leaves anyway: something is left of this output, echoes that were said once aside.
    fn has_more(&self) -> bool {
        self.output.asked < self.output.asks.len()
            || self.echoes.are_due()
            || self.outgoing.next_answer().is_some()
            || self.output.tail.is_some()
            || self.may_send_new() && self.outgoing.next_unsent().is_some()
    }

    /// Writes what the next datagram will begin with; false when that is nothing, or does not fit.
    fn emit_beginning(&mut self, datagram: &mut Datagram<'_>) -> bool {
        if !self.output.asks.is_empty() {
            let is_all = self.emit_requests(datagram);
            self.output.asked = 0;
            return is_all;
        }
        let answer = self.outgoing.next_answer();
        answer.is_some_and(|answer| self.emit_answer(answer, datagram))
    }

    /// As all of these: false when something is left that does not fit.
    fn emit_requests(&mut self, datagram: &mut Datagram<'_>) -> bool {
        let output = &mut self.output;
        while let Some(id) = output.asks.get(output.asked).copied() {
            if !datagram.fits(ID_RECORD) {
                return false;
            }
            wire::emit_request(datagram.out, id);
            output.asked += 1;
        }
        true
    }

    fn emit_echoes(&mut self, datagram: &mut Datagram<'_>) -> bool {
        while let Some(id) = self.echoes.next() {
            if !datagram.fits(ID_RECORD) {
                return false;
            }
            wire::emit_missing(datagram.out, id);
            self.echoes.on_said();
        }
        true
    }

    fn emit_answers(&mut self, now: Timestamp, datagram: &mut Datagram<'_>) -> bool {
        while let Some(answer) = self.outgoing.next_answer() {
            if !self.emit_answer(answer, datagram) {
                return false;
            }
            self.outgoing.on_answered(now);
        }
        true
    }

    fn emit_answer(&mut self, answer: Answer, datagram: &mut Datagram<'_>) -> bool {
        match answer {
            Answer::Missing(id) if datagram.fits(ID_RECORD) => {
                wire::emit_missing(datagram.out, id as u16);
            }
            Answer::Message(id) if datagram.fits(self.outgoing.record_bytes(id)) => {
                self.outgoing.emit(id, datagram.out);
                self.stats.messages_resent += 1;
            }
            Answer::Missing(_) | Answer::Message(_) => return false,
        }
        true
    }

    fn emit_tail(&mut self, now: Timestamp, datagram: &mut Datagram<'_>) -> bool {
        if let Some(id) = self.output.tail {
            if !datagram.fits(self.outgoing.record_bytes(id)) {
                return false;
            }
            self.outgoing.emit(id, datagram.out);
            self.outgoing.on_tail_repeated(now, None);
            self.stats.messages_repeated += 1;
            self.output.tail = None;
        }
        true
    }

    /// Begins a datagram with the last message and the question that shows whether both arrive. All else that is asked for
    /// goes along, if the message is so long that it would travel alone: a peer that answers such questions does not care
    /// for the order.
    fn emit_tail_asking(&mut self, now: Timestamp, datagram: &mut Datagram<'_>) {
        let (Some(asked), Some(id)) = (self.output.tail_asks.take(), self.output.tail) else {
            return;
        };
        let record = self.outgoing.record_bytes(id);
        if record > datagram.mtu {
            let with_all = record + ID_RECORD * (1 + self.output.asks.len());
            datagram.mtu = with_all.min(UNFRAGMENTED).max(datagram.mtu);
        }
        if record + ID_RECORD > datagram.mtu {
            datagram.mtu = self.params.mtu;
            return;
        }
        self.outgoing.emit(id, datagram.out);
        wire::emit_request(datagram.out, asked);
        self.outgoing.on_tail_repeated(now, Some(asked));
        self.stats.messages_repeated += 1;
        self.output.tail = None;
    }

    fn emit_new(&mut self, now: Timestamp, datagram: &mut Datagram<'_>) -> bool {
        while self.may_send_new()
            && let Some(id) = self.outgoing.next_unsent()
        {
            if !datagram.fits(self.outgoing.record_bytes(id)) {
                return false;
            }
            self.outgoing.emit(id, datagram.out);
            self.outgoing.on_sent(now);
            self.stats.messages_sent_reliable += 1;
        }
        true
    }
}

/// What is due so soon leaves together.
const TOGETHER: Duration = Duration::from_millis(50);

/// As much as goes into an Ethernet frame, over IPv6 too.
const UNFRAGMENTED: usize = 1_500 - IPV6_UDP_HEADER_BYTES;

/// Bytes of a record that is an id and nothing else.
const ID_RECORD: usize = 3;

/// A datagram that is being filled.
struct Datagram<'a> {
    out: &'a mut Vec<u8>,
    /// Where it begins in `out`.
    start: usize,
    mtu: usize,
}

impl Datagram<'_> {
    fn fits(&self, record_bytes: usize) -> bool {
        wire::fits(self.out.len() - self.start, record_bytes, self.mtu)
    }
}
