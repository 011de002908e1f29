//! Strangers: asked once whether they receive what we send, and given nothing before they do.
//!
//! Rule: docs/wire/rudp.md, section 6. No state is kept for an address that did not answer.

use std::net::SocketAddr;

use crate::rudp::probe::{Probe, is_probe};
use crate::rudp::wire::{self, Record};
use crate::rudp::{Params, Session};
use crate::session::{
    Acceptor as Interface, Reject, Session as _, Stranger, StrangerClass, Verdict,
};
use crate::time::Now;

/// Decides who gets a session.
#[derive(Debug)]
pub struct Acceptor {
    params: Params,
    probe: Probe,
}

impl Acceptor {
    /// `secret` keys the probes: fresh random bytes at every start.
    pub fn new(params: Params, secret: [u8; 16]) -> Self {
        Self {
            params,
            probe: Probe::new(secret),
        }
    }

    /// Sessions from now on follow these rules. Which addresses were asked a moment ago is still known.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
    }
}

impl Interface for Acceptor {
    fn classify(
        &mut self,
        _now: Now,
        _from: SocketAddr,
        datagram: &[u8],
    ) -> Result<StrangerClass, Reject> {
        if datagram.is_empty() {
            // The reference sends one after each message that has a datagram of its own, and does
            // not wait until it is let in. Well-formed, and not worth an answer.
            return Err(Reject::Unexpected);
        }
        Ok(StrangerClass::Unproven)
    }

    fn handle_refused(&mut self, now: Now, stranger: Stranger<'_>, why: Reject) -> Verdict {
        let records = match dismiss(stranger.datagram) {
            Ok(records) => records,
            Err(reject) => return Verdict::Reject(reject),
        };
        let wants_in = !self.params.probe
            || self.probe.is_answered(now, stranger.from, records)
            // It would be asked now. A refusal is not sent.
            || self.probe.ask(now, stranger.from, stranger.reply);
        Verdict::Reject(if wants_in { why } else { Reject::Unproven })
    }

    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        let records = match dismiss(stranger.datagram) {
            Ok(records) => records,
            Err(reject) => return Verdict::Reject(reject),
        };
        if self.params.probe && !self.probe.is_answered(now, stranger.from, records) {
            return if self.probe.ask(now, stranger.from, stranger.reply) {
                Verdict::Reply
            } else {
                Verdict::Reject(Reject::Unproven)
            };
        }
        let mut session = Session::accept(now, self.params);
        // The answer to our probe names messages that do not exist; the session ignores it. What
        // else is in the datagram counts, and a record it refuses is its own affair.
        match session.handle_datagram(now, stranger.datagram) {
            Err(reject @ Reject::Malformed) => Verdict::Reject(reject),
            Ok(()) | Err(_) => Verdict::Accept(Box::new(session)),
        }
    }
}

/// What a datagram says, or why this is nobody who wants to come in.
fn dismiss(datagram: &[u8]) -> Result<wire::Records<'_>, Reject> {
    let records = wire::parse(datagram).map_err(|_| Reject::Malformed)?;
    if is_worthless(records) || is_probe(records) {
        return Err(Reject::Unexpected);
    }
    Ok(records)
}

/// Whether a datagram asks for no answer: empty, or the end of a session we do not have.
fn is_worthless(records: wire::Records<'_>) -> bool {
    records.into_iter().next().is_none() || records.into_iter().any(|r| r == Record::Corrupt)
}
