//! A listener's peers by slot, as the endpoint numbers them.

use tidegate_proto::PeerId;

use super::peer::Peer;
use super::polled_socket::PolledSocket;

#[derive(Debug, Default)]
pub(super) struct Peers {
    /// Boxed, so that an empty slot costs a pointer.
    slots: Vec<Option<Box<Peer>>>,
}

impl Peers {
    pub(super) fn insert(&mut self, peer: Box<Peer>) {
        let slot = peer.id.slot();
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(peer);
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        let peer = self.slots.get(id.slot())?.as_deref();
        peer.filter(|peer| peer.id == id)
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.in_slot_mut(id.slot()).filter(|peer| peer.id == id)
    }

    pub(super) fn in_slot_mut(&mut self, slot: usize) -> Option<&mut Peer> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// The socket of this peer, whom we dialled, or else the one that all share.
    pub(super) fn socket<'a>(
        &'a mut self,
        whose: Option<PeerId>,
        shared: &'a mut Option<PolledSocket>,
    ) -> Option<&'a mut PolledSocket> {
        match whose {
            Some(id) => self.get_mut(id)?.own_socket(),
            None => shared.as_mut(),
        }
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<Box<Peer>> {
        self.get_mut(id)?;
        self.slots[id.slot()].take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.slots.iter().flatten().map(AsRef::as_ref)
    }
}
