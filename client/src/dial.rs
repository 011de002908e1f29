//! Whom to connect to, in which protocol, by which rules.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use data_encoding::BASE64;
use tidegate_proto::yojimbo::channels::Delivery;
use tidegate_proto::yojimbo::netcode::{ConnectToken, TokenError};
use tidegate_proto::{Channel, Now, Session, gaffer, rudp, sender, yojimbo};

/// One connection to be made. The functions give the rules that tidegate itself has by default;
/// the fields are open for games with others.
#[derive(Clone, Debug)]
pub enum Dial {
    /// Encrypted and authenticated: netcode, reliable and yojimbo.
    Yojimbo {
        /// From the matchmaker; names the servers, which are tried in order. Good for one session.
        token: Box<ConnectToken>,
        /// The layout in it must be the server's. Not for [`yojimbo::Params::with_path_mtu`]: routers may cut what this
        /// crate's own sockets send, so datagrams that are too long would seem to fit.
        params: Arc<yojimbo::Params>,
    },
    /// The protocol of Glenn Fiedler's articles, with messages on top. Closed networks only.
    Gaffer {
        /// Where to.
        server: SocketAddr,
        /// The protocol id and payload in it must be the server's.
        params: Box<gaffer::Params>,
    },
    /// cloudwu/rudp. Closed networks only.
    Rudp {
        /// Where to.
        server: SocketAddr,
        /// The expiry in it should be the server's.
        params: rudp::Params,
    },
}

impl Dial {
    /// With a connect token, as 2048 bytes or as base64 with white space around it, and the tidegate
    /// layout (docs/wire/yojimbo.md, section 1).
    pub fn yojimbo(token: &[u8]) -> Result<Self, DialError> {
        Ok(Self::Yojimbo {
            token: Box::new(parse_token(token)?),
            params: Arc::default(),
        })
    }

    /// Without authentication, with reliable and unreliable messages. The protocol id is the server's,
    /// [`GAFFER_PROTOCOL_ID`] if nobody chose one.
    pub fn gaffer(server: SocketAddr, protocol_id: u32) -> Self {
        let params = gaffer::Params {
            protocol_id,
            sender: sender::Params::default(),
            ..gaffer::Params::default()
        };
        Self::Gaffer {
            server,
            params: Box::new(params),
        }
    }

    /// Without authentication, reliable messages only.
    pub fn rudp(server: SocketAddr) -> Self {
        Self::Rudp {
            server,
            params: rudp::Params::default(),
        }
    }

    /// The first server to be dialled.
    pub fn server(&self) -> SocketAddr {
        match self {
            Self::Yojimbo { token, .. } => token.servers[0],
            Self::Gaffer { server, .. } | Self::Rudp { server, .. } => *server,
        }
    }

    /// Its reliable and its unreliable channel, the first of each.
    pub(crate) fn channels(&self) -> (Option<Channel>, Option<Channel>) {
        match self {
            Self::Yojimbo { params, .. } => {
                let first = |delivery| {
                    let channels = params.layout.channels().iter();
                    let found = channels.map(|c| c.delivery).position(|d| d == delivery);
                    found.map(|index| index as Channel)
                };
                let unreliable = first(Delivery::UnreliableUnordered);
                (first(Delivery::ReliableOrdered), unreliable)
            }
            Self::Gaffer { params, .. } => match params.payload {
                gaffer::Payload::Messages => (Some(0), Some(1)),
                gaffer::Payload::Raw { .. } => (None, Some(0)),
            },
            Self::Rudp { .. } => (Some(0), None),
        }
    }

    /// The session, begun. `seed` must be unpredictable.
    pub(crate) fn begin(self, now: Now, seed: u64) -> Dialled {
        match self {
            Self::Yojimbo { token, params } => Dialled::Yojimbo(Box::new(
                yojimbo::Connector::roaming(now, params, *token, seed),
            )),
            Self::Gaffer { server, params } => {
                let session = gaffer::Session::dial(now, &params, seed);
                Dialled::Other(server, Box::new(session))
            }
            Self::Rudp { server, params } => {
                Dialled::Other(server, Box::new(rudp::Session::dial(now, params)))
            }
        }
    }
}

/// What `tidegate serve` takes for gaffer unless told otherwise: "tide".
pub const GAFFER_PROTOCOL_ID: u32 = 0x7469_6465;

/// A session that was dialled, and where it is.
pub(crate) enum Dialled {
    /// May still go on to the token's next server.
    Yojimbo(Box<yojimbo::Connector>),
    Other(SocketAddr, Box<dyn Session>),
}

impl Dialled {
    pub(crate) fn server(&self) -> SocketAddr {
        match self {
            Self::Yojimbo(connector) => connector.server(),
            Self::Other(server, _) => *server,
        }
    }

    pub(crate) fn session(&self) -> &dyn Session {
        match self {
            Self::Yojimbo(connector) => &**connector,
            Self::Other(_, session) => &**session,
        }
    }

    pub(crate) fn session_mut(&mut self) -> &mut dyn Session {
        match self {
            Self::Yojimbo(connector) => &mut **connector,
            Self::Other(_, session) => &mut **session,
        }
    }
}

fn parse_token(bytes: &[u8]) -> Result<ConnectToken, DialError> {
    let error = match ConnectToken::parse(bytes) {
        Ok(token) => return Ok(token),
        Err(error) => error,
    };
    let text = std::str::from_utf8(bytes).ok().map(str::trim);
    match text.and_then(|text| BASE64.decode(text.as_bytes()).ok()) {
        Some(decoded) => ConnectToken::parse(&decoded).map_err(DialError),
        None => Err(DialError(error)),
    }
}

/// What is wrong with a connect token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialError(TokenError);

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connect token: {}", self.0)
    }
}

impl std::error::Error for DialError {}
