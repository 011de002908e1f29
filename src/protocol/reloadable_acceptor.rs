//! The acceptor of one endpoint: its protocol's, by the rules that were last sent to it, with used tokens
//! written down and sessions recorded.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_proto::yojimbo::netcode::{self, Roster};
use tidegate_proto::{
    Acceptor, Deadline, Now, Reject, Stranger, StrangerClass, Verdict, gaffer, rudp, yojimbo,
};

use crate::capture::{Joining, Tap};
use crate::token_history::TokenHistory;

/// Shared by the workers, and touched when somebody is let in.
pub(super) type Saved = Arc<Mutex<TokenHistory>>;

/// Judges strangers, and looks for updates whenever there is one: so a reload interrupts no worker.
pub(super) struct ReloadableAcceptor {
    pub(super) acceptor: ProtocolAcceptor,
    /// Where used tokens come from, and where they are written down.
    pub(super) used: Option<(Roster, Saved)>,
    pub(super) updates: Receiver<Update>,
    pub(super) name: Arc<str>,
    pub(super) tap: Tap,
    pub(super) recorded: Arc<str>,
    pub(super) bound: Arc<[SocketAddr]>,
}

/// What a reload brought.
#[derive(Clone)]
pub(super) struct Update {
    pub(super) rules: Rules,
    /// The rules as a recording has them.
    pub(super) recorded: Arc<str>,
}

#[derive(Clone)]
pub(super) enum Rules {
    Yojimbo(Arc<yojimbo::Params>, Box<netcode::Params>),
    Gaffer(Arc<gaffer::Params>),
    Rudp(rudp::Params),
}

pub(super) enum ProtocolAcceptor {
    Yojimbo(Box<yojimbo::Acceptor>),
    Gaffer(gaffer::Acceptor),
    Rudp(rudp::Acceptor),
}

impl ReloadableAcceptor {
    /// The protocol's acceptor, with all updates that have come.
    fn updated(&mut self) -> &mut dyn Acceptor {
        while let Ok(update) = self.updates.try_recv() {
            self.recorded = update.recorded;
            match (&mut self.acceptor, update.rules) {
                (ProtocolAcceptor::Yojimbo(acceptor), Rules::Yojimbo(params, handshake)) => {
                    acceptor.set_params(params);
                    acceptor.handshake().set_params(*handshake);
                }
                (ProtocolAcceptor::Gaffer(acceptor), Rules::Gaffer(params)) => {
                    acceptor.set_params(params)
                }
                (ProtocolAcceptor::Rudp(acceptor), Rules::Rudp(params)) => {
                    acceptor.set_params(params)
                }
                // A listener's protocol does not change.
                (_, Rules::Yojimbo(..) | Rules::Gaffer(_) | Rules::Rudp(_)) => {}
            }
        }
        match &mut self.acceptor {
            ProtocolAcceptor::Yojimbo(acceptor) => &mut **acceptor,
            ProtocolAcceptor::Gaffer(acceptor) => acceptor,
            ProtocolAcceptor::Rudp(acceptor) => acceptor,
        }
    }

    fn current(&self) -> &dyn Acceptor {
        match &self.acceptor {
            ProtocolAcceptor::Yojimbo(acceptor) => &**acceptor,
            ProtocolAcceptor::Gaffer(acceptor) => acceptor,
            ProtocolAcceptor::Rudp(acceptor) => acceptor,
        }
    }

    /// As its protocol judges. Returns when the token of the one that was let in is written down.
    fn judge(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        let verdict = self.updated().handle_unknown(now, stranger);
        if let (Verdict::Accept(_), Some((roster, saved))) = (&verdict, &self.used) {
            // Asked under the lock: another worker may have taken our token from the roster, and
            // then it has also written it.
            let mut saved = saved.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(token) = roster.poll_used() {
                saved.record(now, token);
            }
        }
        verdict
    }

    /// As its protocol judges, with a recording around the session if somebody asked for one.
    fn judge_recorded(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        let peer = stranger.from;
        // gaffer and rudp take the stranger's datagram into the session at once.
        let first = match self.acceptor {
            ProtocolAcceptor::Yojimbo(_) => None,
            ProtocolAcceptor::Gaffer(_) | ProtocolAcceptor::Rudp(_) => {
                Some(stranger.datagram.to_vec())
            }
        };
        let verdict = self.judge(now, stranger);
        let Verdict::Accept(session) = verdict else {
            return verdict;
        };
        let same_kind = |local: &&SocketAddr| local.is_ipv4() == peer.is_ipv4();
        let local = self.bound.iter().find(same_kind).or(self.bound.first());
        let joining = Joining {
            now,
            listener: &self.name,
            rules: &self.recorded,
            peer,
            local: local.copied().unwrap_or(peer),
            first: first.as_deref(),
        };
        Verdict::Accept(self.tap.join(session, joining))
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "what is not passed on would have the answer of a protocol that cannot do it"
)]
impl Acceptor for ReloadableAcceptor {
    fn classify(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<StrangerClass, Reject> {
        self.updated().classify(now, from, datagram)
    }

    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        if self.tap.wants(&self.name, stranger.from) {
            return self.judge_recorded(now, stranger);
        }
        self.judge(now, stranger)
    }

    fn handle_refused(&mut self, now: Now, stranger: Stranger<'_>, why: Reject) -> Verdict {
        self.updated().handle_refused(now, stranger, why)
    }

    fn handle_timeout(&mut self, now: Now) {
        self.updated().handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.current().poll_timeout()
    }

    fn pending(&self) -> usize {
        self.current().pending()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn rules() -> Arc<gaffer::Params> {
        Arc::default()
    }

    fn judge(acceptor: &mut ReloadableAcceptor, datagram: &mut [u8]) -> (Verdict, Vec<u8>) {
        let mut reply = Vec::new();
        let stranger = Stranger {
            from: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            datagram,
            reply: &mut reply,
        };
        (acceptor.handle_unknown(Now::default(), stranger), reply)
    }

    fn packet(sequence: u32, ack: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let header = gaffer::wire::Header {
            protocol_id: rules().protocol_id,
            sequence,
            ack,
            ack_bits: 0,
        };
        header.emit(&mut out);
        gaffer::wire::emit(gaffer::wire::Record::KeepAlive, &mut out);
        out
    }

    /// A packet that was under way when its session ended opens no second one, which would lack the
    /// beginning of what the peer said; nor does it when the rules have changed meanwhile.
    #[test]
    fn a_reload_does_not_forget_which_sessions_were_opened() {
        let (reload, updates) = channel();
        let mut acceptor = ReloadableAcceptor {
            acceptor: ProtocolAcceptor::Gaffer(gaffer::Acceptor::new(rules(), [7; 16])),
            used: None,
            updates,
            name: "game".into(),
            tap: Tap::default(),
            recorded: "".into(),
            bound: Arc::default(),
        };
        let (verdict, reply) = judge(&mut acceptor, &mut packet(0, 0));
        assert!(matches!(verdict, Verdict::Reply));
        let (hello, _) = gaffer::wire::Header::parse(&reply).unwrap();
        let mut proof = packet(1, hello.sequence);
        assert!(matches!(
            judge(&mut acceptor, &mut proof).0,
            Verdict::Accept(_)
        ));
        let update = Update {
            rules: Rules::Gaffer(rules()),
            recorded: "".into(),
        };
        reload.send(update).unwrap();
        let mut late = packet(2, hello.sequence);
        assert!(matches!(
            judge(&mut acceptor, &mut late).0,
            Verdict::Reject(Reject::UnknownPeer)
        ));
    }
}
