//! The connect tokens that let clients in, where the protocol has any.

use std::net::SocketAddr;

use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, UserData};

use super::Load;
use crate::config::{Protocol, TokenSource};
use crate::exit::Misused;
use crate::tokens;

/// Where each client's connect token comes from.
pub(super) enum ConnectTokens {
    /// Nothing is needed.
    None,
    /// A token each, made when needed.
    Mint(Box<Mint>),
    /// These, by client.
    Given(Vec<ConnectToken>),
}

pub(super) struct Mint {
    recipe: tokens::Recipe,
    key: Key,
}

impl ConnectTokens {
    /// All that this load's clients need to get in at `remote`.
    pub(super) async fn of(load: &Load, remote: SocketAddr) -> anyhow::Result<Self> {
        let (Some(source), Protocol::Yojimbo(own)) = (&load.tunnel.tokens, &load.tunnel.protocol)
        else {
            return Ok(Self::None);
        };
        let (protocol_id, idle) = (own.netcode.protocol_id, load.tunnel.idle_timeout);
        match source {
            TokenSource::Key(mint) => {
                let servers = match (load.token_address, mint.server_addresses.as_slice()) {
                    (Some(address), _) => vec![address],
                    (None, []) => vec![remote],
                    (None, listed) => listed.to_vec(),
                };
                Ok(Self::Mint(Box::new(Mint {
                    recipe: tokens::Recipe {
                        protocol_id,
                        // Sessions of an earlier run may still be seated.
                        client_id: u64::from_le_bytes(tokens::random()?),
                        servers,
                        lifetime: mint.lifetime,
                        timeout: idle,
                        user_data: UserData::empty(),
                    },
                    key: mint.key.clone(),
                })))
            }
            TokenSource::File(_) if load.clients > 1 => Err(Misused(
                "a connect token lets one client in: give --clients 1, --key or --token-command"
                    .to_owned(),
            )
            .into()),
            TokenSource::File(_) | TokenSource::Command(_) => {
                let mut tokens = Vec::with_capacity(load.clients);
                for _ in 0..load.clients {
                    let fresh = tokens::obtain(source, protocol_id, remote, idle).await?;
                    tokens.push(fresh.token);
                }
                Ok(Self::Given(tokens))
            }
        }
    }

    /// The token for one dial of this client; `None` where the protocol needs none, or none was
    /// given for it.
    pub(super) fn token(&self, client: usize) -> anyhow::Result<Option<ConnectToken>> {
        match self {
            Self::None => Ok(None),
            Self::Mint(mint) => {
                let recipe = tokens::Recipe {
                    client_id: mint.recipe.client_id.wrapping_add(client as u64),
                    ..mint.recipe.clone()
                };
                Ok(Some(tokens::mint(recipe, &mint.key)?))
            }
            Self::Given(tokens) => Ok(tokens.get(client).cloned()),
        }
    }

    /// Whether a second try is possible.
    pub(super) fn can_redial(&self) -> bool {
        !matches!(self, Self::Given(_))
    }
}
