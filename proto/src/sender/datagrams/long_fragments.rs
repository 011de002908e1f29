//! Fragments of blocks that are as long as a datagram takes, to a peer that said that it reads them
//! (docs/wire/reliable.md, section 7.5). Others take only fragments of the wire's own size.

use super::Datagrams;
use crate::sender::params::Params;

/// How long they may be now.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sender) struct LongFragments {
    /// What one adds to its bytes; 0 where there are none.
    pub(in crate::sender) overhead: u16,
    /// Payload of the longest datagram that the path is known to take: one that was cut for it goes in it, however slow
    /// bulk has become. 0 for a probe, which takes what certainly arrives.
    pub(in crate::sender) datagram: u16,
}

impl LongFragments {
    /// Bytes of one that fills so much room; 0 where there are none.
    pub(in crate::sender) fn fill(self, room: usize) -> u16 {
        match self.overhead {
            0 => 0,
            overhead => (room as u16).saturating_sub(overhead),
        }
    }
}

impl Datagrams {
    /// The peer said that it reads them.
    pub(in crate::sender) fn on_long_fragments_read(&mut self) {
        self.are_long_fragments_read = true;
    }

    /// Whether it said so. That alone does not show that it runs tidegate.
    pub(in crate::sender) fn are_long_fragments_read(&self) -> bool {
        self.are_long_fragments_read
    }

    /// Whether blocks are cut into long ones: the peer reads them, and was found to run tidegate.
    pub(in crate::sender) fn has_long_fragments(&self) -> bool {
        self.are_long_fragments_read && self.is_peer_tidegate
    }

    /// How long they may be now. `is_probe`: nothing is heard of what left.
    pub(in crate::sender) fn long_fragments(
        &self,
        params: &Params,
        is_probe: bool,
    ) -> LongFragments {
        let search = self.search.as_ref().filter(|_| self.has_long_fragments());
        search.map_or(LongFragments::default(), |search| LongFragments {
            overhead: params.extensions.long_fragment_overhead,
            datagram: if is_probe {
                0
            } else {
                search.mtu.payload(u16::MAX)
            },
        })
    }
}
