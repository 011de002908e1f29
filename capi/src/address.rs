//! IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IP address and a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Address {
    /// As on the wire, first byte first; IPv4 uses the first four.
    pub ip: [u8; 16],
    /// In your machine's byte order.
    pub port: u16,
    /// 0 or 1.
    pub is_ipv6: u8,
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut ip = [0; 16];
        match address.ip() {
            IpAddr::V4(v4) => ip[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => ip = v6.octets(),
        }
        Self {
            ip,
            port: address.port(),
            is_ipv6: address.is_ipv6().into(),
        }
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> Self {
        let [a, b, c, d, ..] = address.ip;
        let ip: IpAddr = if address.is_ipv6 == 0 {
            Ipv4Addr::new(a, b, c, d).into()
        } else {
            Ipv6Addr::from(address.ip).into()
        };
        Self::new(ip, address.port)
    }
}
