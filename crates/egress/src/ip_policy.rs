//! The IP address policy: which addresses a URL of each trust class may reach.
//!
//! The tables hold IANA's special-purpose registries (IPv4 and IPv6, RFC 6890 and its updates)
//! completely, including entries marked globally reachable, because no tool is served from them,
//! and the metadata addresses of cloud providers. The policy checks addresses only, never names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network, prefix length, name.
type V4Block = (Ipv4Addr, u32, &'static str);
/// Network, prefix length, name.
type V6Block = (Ipv6Addr, u32, &'static str);

const fn ipv4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const SPECIAL_IPV4_BLOCKS: [V4Block; 20] = [
    (ipv4(0, 0, 0, 0), 8, "this network"),
    (ipv4(10, 0, 0, 0), 8, "private"),
    (ipv4(100, 64, 0, 0), 10, "carrier-grade NAT"),
    (ipv4(127, 0, 0, 0), 8, "loopback"),
    (ipv4(168, 63, 129, 16), 32, "a cloud's metadata address"),
    (ipv4(169, 254, 0, 0), 16, "link-local"),
    (ipv4(172, 16, 0, 0), 12, "private"),
    (ipv4(192, 0, 0, 0), 24, "for protocol assignments"),
    (ipv4(192, 0, 2, 0), 24, "for documentation"),
    (ipv4(192, 31, 196, 0), 24, "AS112"),
    (ipv4(192, 52, 193, 0), 24, "AMT"),
    (ipv4(192, 88, 99, 0), 24, "a 6to4 relay"),
    (ipv4(192, 168, 0, 0), 16, "private"),
    (ipv4(192, 175, 48, 0), 24, "AS112"),
    (ipv4(198, 18, 0, 0), 15, "for benchmarks"),
    (ipv4(198, 51, 100, 0), 24, "for documentation"),
    (ipv4(203, 0, 113, 0), 24, "for documentation"),
    (ipv4(224, 0, 0, 0), 4, "multicast"),
    (ipv4(240, 0, 0, 0), 4, "reserved"),
    (ipv4(255, 255, 255, 255), 32, "broadcast"),
];

/// The only IPv6 block that is allocated for public use.
const GLOBAL_IPV6_BLOCK: V6Block = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, "global");

/// The special-purpose blocks within the global IPv6 block.
const SPECIAL_IPV6_BLOCKS: [V6Block; 5] = [
    // Teredo, ORCHID, benchmarks, AMT and all other protocol assignments.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "for protocol assignments"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "AS112"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
];

/// Returns why an address is not public, or `None` if it is public.
pub(super) fn public_violation(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_ipv4_name(address),
        IpAddr::V6(address) => special_ipv6_name(address),
    }
}

/// Returns why a configured origin may not reach an address, or `None` if it may. Loopback and
/// private networks are allowed. Link-local and metadata addresses are allowed only if the operator
/// configured the address itself: a host name may be controlled by somebody else.
pub(super) fn configured_violation(address: IpAddr, is_literal: bool) -> Option<&'static str> {
    let address = address.to_canonical();
    let name = public_violation(address)?;
    let is_never_allowed = matches!(name, "multicast" | "broadcast" | "reserved" | "this network")
        || address.is_multicast()
        || address.is_unspecified();
    let needs_literal = matches!(name, "link-local" | "a cloud's metadata address")
        || address == IpAddr::V4(ipv4(192, 0, 0, 192))
        || matches!(address, IpAddr::V6(v6) if v6 == AWS_METADATA_IPV6);
    (is_never_allowed || (needs_literal && !is_literal)).then_some(name)
}

/// AWS's IPv6 metadata address. It lies in the private range, so only configured origins need this
/// check.
const AWS_METADATA_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn special_ipv4_name(address: Ipv4Addr) -> Option<&'static str> {
    SPECIAL_IPV4_BLOCKS
        .iter()
        .find(|net| is_in_block(address.to_bits().into(), net.0.to_bits().into(), 96 + net.1))
        .map(|net| net.2)
}

fn special_ipv6_name(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        return Some("loopback");
    }
    if address.is_unicast_link_local() {
        return Some("link-local");
    }
    if address.is_unique_local() {
        return Some("private");
    }
    if address.is_multicast() {
        return Some("multicast");
    }
    let bits = address.to_bits();
    // Mapped, compatible, translated and NAT64 forms are all outside.
    if !is_in_block(bits, GLOBAL_IPV6_BLOCK.0.to_bits(), GLOBAL_IPV6_BLOCK.1) {
        return Some("outside the public range");
    }
    if let Some(net) =
        SPECIAL_IPV6_BLOCKS.iter().find(|net| is_in_block(bits, net.0.to_bits(), net.1))
    {
        return Some(net.2);
    }
    // ISATAP, RFC 5214: 0000:5efe or 0200:5efe before an embedded v4 address, under any prefix.
    let [.., high, low, _, _] = address.segments();
    (low == 0x5efe && high & !0x0200 == 0).then_some("ISATAP")
}

fn is_in_block(address: u128, net: u128, prefix: u32) -> bool {
    (address ^ net).checked_shr(128 - prefix).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Each network's first and last address, and its neighbours that are public.
    #[test]
    fn every_network_is_closed_at_both_ends_and_no_further() {
        for (first, last, before, after) in [
            ("0.0.0.0", "0.255.255.255", "", "1.0.0.0"),
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
            ("192.31.196.0", "192.31.196.255", "192.31.195.255", "192.31.197.0"),
            ("192.52.193.0", "192.52.193.255", "192.52.192.255", "192.52.194.0"),
            ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("192.175.48.0", "192.175.48.255", "192.175.47.255", "192.175.49.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
            ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
            ("224.0.0.0", "255.255.255.255", "223.255.255.255", ""),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "", "2001:200::"),
            (
                "2001:db8::",
                "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001:db7:ffff::",
                "2001:db9::",
            ),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff::", "2003::"),
            ("2620:4f:8000::", "2620:4f:8000:ffff::", "2620:4f:7fff::", "2620:4f:8001::"),
            ("3fff::", "3fff:fff:ffff::", "3ffe:ffff::", "3fff:1000::"),
            ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""),
            ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", "2000::"),
        ] {
            for blocked in [first, last] {
                assert!(public_violation(at(blocked)).is_some(), "{blocked}");
            }
            for open in [before, after].into_iter().filter(|text| !text.is_empty()) {
                assert_eq!(public_violation(at(open)), None, "{open}");
            }
        }
    }

    #[test]
    fn no_v6_form_of_a_v4_address_is_public() {
        for form in [
            "::ffff:8.8.8.8",
            "::8.8.8.8",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::8.8.8.8",
            "2002:808:808::",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2606:4700::5efe:127.0.0.1",
            "2606:4700::200:5efe:127.0.0.1",
            "fe80::1",
            "fec0::1",
            "fd00:ec2::254",
            "100::1",
            "5f00::1",
            "::1",
            "::",
        ] {
            assert!(public_violation(at(form)).is_some(), "{form}");
        }
        for open in ["2606:4700:4700::1111", "2a00:1450:4001::1", "2606:4700::1:5efe:1:1"] {
            assert_eq!(public_violation(at(open)), None, "{open}");
        }
    }

    #[test]
    fn the_operator_reaches_its_own_networks_and_no_metadata_by_name() {
        for own in
            ["127.0.0.1", "10.1.2.3", "192.168.1.1", "::1", "fd12::1", "8.8.8.8", "100.64.0.1"]
        {
            assert_eq!(configured_violation(at(own), false), None, "{own}");
        }
        for metadata in [
            "169.254.169.254",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fe80::1",
            "::ffff:169.254.1.1",
        ] {
            assert!(configured_violation(at(metadata), false).is_some(), "{metadata}");
            assert_eq!(configured_violation(at(metadata), true), None, "{metadata}");
        }
        for never in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "0.1.2.3"] {
            assert!(configured_violation(at(never), true).is_some(), "{never}");
        }
    }
}
