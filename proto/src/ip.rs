//! What IP and UDP put in front of every datagram: byte rates and bounds on answers count it, since a
//! path carries it.

/// Bytes of IPv4 and UDP headers (RFC 791, section 3.1, without options; RFC 768).
pub const IPV4_UDP_HEADER_BYTES: usize = 20 + 8;

/// Bytes of IPv6 and UDP headers (RFC 8200, section 3, without extensions; RFC 768).
pub const IPV6_UDP_HEADER_BYTES: usize = 40 + 8;
