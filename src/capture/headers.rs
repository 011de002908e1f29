//! IP and UDP headers for datagrams that were taken above them.

use std::net::{IpAddr, SocketAddr};

const UDP: u8 = 17;
const HOPS: u8 = 64;

/// Appends a datagram behind the headers it could have had. Addresses of two kinds, which no socket
/// has, are written as IPv6.
pub(super) fn datagram(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
    // Nothing longer comes out of a socket.
    let payload = &payload[..payload.len().min(65_507)];
    let length = (payload.len() + 8) as u16;
    let pseudo = match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let start = out.len();
            out.extend_from_slice(&[0x45, 0]);
            out.extend_from_slice(&(length + 20).to_be_bytes());
            out.extend_from_slice(&[0, 0, 0, 0, HOPS, UDP, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            let check = fold(sum(&out[start..]));
            out[start + 10..start + 12].copy_from_slice(&check.to_be_bytes());
            sum(&from.octets()) + sum(&to.octets())
        }
        (from, to) => {
            let [from, to] = [from, to].map(|ip| match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            });
            out.extend_from_slice(&[0x60, 0, 0, 0]);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&[UDP, HOPS]);
            out.extend_from_slice(&from);
            out.extend_from_slice(&to);
            sum(&from) + sum(&to)
        }
    };
    let start = out.len();
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(payload);
    let all = pseudo + u32::from(UDP) + u32::from(length) + sum(&out[start..]);
    // 0 would say that there is no checksum.
    let check = match fold(all) {
        0 => u16::MAX,
        check => check,
    };
    out[start + 6..start + 8].copy_from_slice(&check.to_be_bytes());
}

/// The internet checksum's sum, not folded. 64 KiB of words stay far below 32 bits.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    words.sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header whose checksum is right adds up to all ones.
    #[test]
    fn checksums_are_right() {
        for (from, to) in [
            ("10.1.2.3:5", "192.168.0.9:40000"),
            ("[fd00::1]:5", "[fd00::2]:7"),
        ] {
            for payload in [&b""[..], b"a", b"ab", b"odd"] {
                let mut packet = Vec::new();
                let (from, to): (SocketAddr, SocketAddr) =
                    (from.parse().unwrap(), to.parse().unwrap());
                datagram(&mut packet, from, to, payload);
                let ip = if from.is_ipv4() { 20 } else { 40 };
                if ip == 20 {
                    assert_eq!(fold(sum(&packet[..20])), 0);
                }
                let addresses = if ip == 20 {
                    &packet[12..20]
                } else {
                    &packet[8..40]
                };
                let length = (packet.len() - ip) as u32;
                let all = sum(addresses) + u32::from(UDP) + length + sum(&packet[ip..]);
                assert_eq!(fold(all), 0, "{from} {payload:?}");
                assert_eq!(&packet[ip + 8..], payload);
            }
        }
    }
}
