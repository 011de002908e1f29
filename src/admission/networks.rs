//! Lists of networks that every stranger's datagram is compared with. An operator's list of whole countries has ten
//! thousands of them, and a flood of forged datagrams has it asked as often as those arrive: so a look-up is a search in
//! an ordered list, and costs as many comparisons as its length has binary digits.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Networks that do not overlap, in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    ordered: Vec<IpNet>,
}

impl Networks {
    /// The addresses of all of these. IPv4 networks in IPv6 clothes are IPv4, as sources are.
    pub fn new(networks: &[IpNet]) -> Self {
        let networks = networks.iter().copied().map(canonical).collect();
        Self {
            ordered: IpNet::aggregate(&networks),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Whether one of them has this address, which is IPv4 where it can be.
    pub fn contain(&self, ip: IpAddr) -> bool {
        let last = self.last(|network| network.network() <= ip);
        last.is_some_and(|network| network.contains(&ip))
    }

    /// The last one of which that is true, as it is of all before it and of none behind.
    fn last(&self, is_before: impl FnMut(&IpNet) -> bool) -> Option<&IpNet> {
        let count = self.ordered.partition_point(is_before);
        self.ordered[..count].last()
    }
}

/// The IPv4 network that an IPv6 one maps (RFC 4291, section 2.5.5.2), or the network itself.
pub fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else {
        return network;
    };
    let length = v6.prefix_len().checked_sub(MAPPED_BITS);
    let mapped = v6.network().to_ipv4_mapped().zip(length);
    let v4 = mapped.and_then(|(address, length)| Ipv4Net::new(address, length).ok());
    v4.map_or(network, IpNet::V4)
}

/// Bits before the IPv4 address in its IPv6 form.
const MAPPED_BITS: u8 = 96;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use tidegate_proto::sim::Random;

    fn networks(texts: &[&str]) -> Networks {
        let parsed: Vec<IpNet> = texts.iter().map(|text| text.parse().unwrap()).collect();
        Networks::new(&parsed)
    }

    fn contain(networks: &Networks, text: &str) -> bool {
        networks.contain(text.parse().unwrap())
    }

    #[test]
    fn everything_and_nothing() {
        assert!(networks(&[]).is_empty());
        assert!(!contain(&networks(&[]), "192.0.2.1"));
        let all_v4 = networks(&["0.0.0.0/0", "10.0.0.0/8"]);
        for address in ["0.0.0.0", "10.1.2.3", "255.255.255.255"] {
            assert!(contain(&all_v4, address), "{address}");
        }
        assert!(!contain(&all_v4, "::1"));
        let all_v6 = networks(&["::/0"]);
        assert!(contain(&all_v6, "::1") && contain(&all_v6, "ffff::"));
        assert!(!contain(&all_v6, "192.0.2.1"));
    }

    /// Sources are compared as IPv4, however a dual-stack socket shows them: so would be no source in such a network.
    #[test]
    fn a_mapped_network_is_the_one_that_it_maps() {
        let mapped = networks(&["::ffff:192.0.2.0/120", "::ffff:198.51.100.7/128"]);
        assert!(contain(&mapped, "192.0.2.255") && contain(&mapped, "198.51.100.7"));
        assert!(!contain(&mapped, "192.0.3.0") && !contain(&mapped, "198.51.100.8"));
    }

    /// Whatever overlaps, touches or comes twice: looking at each network finds the same.
    #[test]
    fn an_ordered_list_says_what_each_network_says() {
        let mut random = Random::new(3);
        let mut hits = 0;
        for _ in 0..300 {
            let mut address = || match random.below(2) {
                0 => IpAddr::from(Ipv4Addr::from(random.below(1 << 12) as u32)),
                _ => IpAddr::from(std::net::Ipv6Addr::from(u128::from(random.below(1 << 12)))),
            };
            let sources: Vec<IpAddr> = (0..100).map(|_| address()).collect();
            let starts: Vec<IpAddr> = (0..30).map(|_| address()).collect();
            let list: Vec<IpNet> = starts
                .into_iter()
                .map(|start| {
                    let bits = if start.is_ipv4() { 32 } else { 128 };
                    let length = bits - random.below(9) as u8;
                    IpNet::new(start, length).unwrap().trunc()
                })
                .collect();
            let ordered = Networks::new(&list);
            for source in sources {
                let expected = list.iter().any(|network| network.contains(&source));
                assert_eq!(ordered.contain(source), expected, "{source} in {list:?}");
                hits += u32::from(expected);
            }
        }
        assert!((3_000..27_000).contains(&hits), "{hits}");
    }

    #[test]
    fn a_long_list_costs_a_few_looks() {
        // Every other /24, so that none can be joined with the next.
        let each = |n: u32| Ipv4Net::new(Ipv4Addr::from(n << 9), 24).unwrap().into();
        let list: Vec<IpNet> = (0..100_000).map(each).collect();
        let networks = Networks::new(&list);
        for n in [0, 1, 49_999, 99_999, 5_000_000] {
            let ip = IpAddr::from(Ipv4Addr::from(n << 9 | 7));
            let mut looks = 0;
            networks.last(|network| {
                looks += 1;
                network.network() <= ip
            });
            assert!(looks <= 18, "{looks} of 100,000 networks were looked at");
            assert_eq!(networks.contain(ip), n < 100_000);
        }
    }
}
