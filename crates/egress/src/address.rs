//! Which addresses may be called, by whom.
//!
//! The tables are IANA's special-purpose registries (v4 and v6, RFC 6890 and its updates), whole:
//! also entries marked globally reachable, as nobody serves a tool from them. Beside them stand the
//! addresses at which clouds answer their own machines. It judges numbers only, never names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network, prefix length, name.
type Net4 = (Ipv4Addr, u32, &'static str);
/// Network, prefix length, name.
type Net6 = (Ipv6Addr, u32, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const NETS4: [Net4; 20] = [
    (v4(0, 0, 0, 0), 8, "this network"),
    (v4(10, 0, 0, 0), 8, "private"),
    (v4(100, 64, 0, 0), 10, "carrier-grade NAT"),
    (v4(127, 0, 0, 0), 8, "loopback"),
    (v4(168, 63, 129, 16), 32, "a cloud's metadata address"),
    (v4(169, 254, 0, 0), 16, "link-local"),
    (v4(172, 16, 0, 0), 12, "private"),
    (v4(192, 0, 0, 0), 24, "for protocol assignments"),
    (v4(192, 0, 2, 0), 24, "for documentation"),
    (v4(192, 31, 196, 0), 24, "AS112"),
    (v4(192, 52, 193, 0), 24, "AMT"),
    (v4(192, 88, 99, 0), 24, "a 6to4 relay"),
    (v4(192, 168, 0, 0), 16, "private"),
    (v4(192, 175, 48, 0), 24, "AS112"),
    (v4(198, 18, 0, 0), 15, "for benchmarks"),
    (v4(198, 51, 100, 0), 24, "for documentation"),
    (v4(203, 0, 113, 0), 24, "for documentation"),
    (v4(224, 0, 0, 0), 4, "multicast"),
    (v4(240, 0, 0, 0), 4, "reserved"),
    (v4(255, 255, 255, 255), 32, "broadcast"),
];

/// The only part of v6 that is handed out for the public.
const GLOBAL6: Net6 = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, "global");

/// What is not public within it.
const NETS6: [Net6; 5] = [
    // Teredo, ORCHID, benchmarks, AMT and all other protocol assignments.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "for protocol assignments"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "AS112"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
];

/// What is not public about an address; `None` where it is.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => named4(address),
        IpAddr::V6(address) => named6(address),
    }
}

/// What speaks against an address of the operator's own: little, as loopback and private networks
/// are what it is for. `literal`: the operator wrote this very address. Where a name led to it, the
/// name may be in a stranger's hands, and what a cloud tells its own machines is not for tools.
pub(super) fn not_operators(address: IpAddr, literal: bool) -> Option<&'static str> {
    let address = address.to_canonical();
    let name = not_public(address)?;
    let never = matches!(name, "multicast" | "broadcast" | "reserved" | "this network")
        || address.is_multicast()
        || address.is_unspecified();
    let by_name_only = matches!(name, "link-local" | "a cloud's metadata address")
        || address == IpAddr::V4(v4(192, 0, 0, 192))
        || matches!(address, IpAddr::V6(v6) if v6 == AWS6);
    (never || (by_name_only && !literal)).then_some(name)
}

/// AWS's metadata address in v6: inside the private range, so named for the operator's class only.
const AWS6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn named4(address: Ipv4Addr) -> Option<&'static str> {
    NETS4
        .iter()
        .find(|net| within(address.to_bits().into(), net.0.to_bits().into(), 96 + net.1))
        .map(|net| net.2)
}

fn named6(address: Ipv6Addr) -> Option<&'static str> {
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
    if !within(bits, GLOBAL6.0.to_bits(), GLOBAL6.1) {
        return Some("outside the public range");
    }
    if let Some(net) = NETS6.iter().find(|net| within(bits, net.0.to_bits(), net.1)) {
        return Some(net.2);
    }
    // ISATAP, RFC 5214: 0000:5efe or 0200:5efe before an embedded v4 address, under any prefix.
    let [.., high, low, _, _] = address.segments();
    (low == 0x5efe && high & !0x0200 == 0).then_some("ISATAP")
}

fn within(address: u128, net: u128, prefix: u32) -> bool {
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
                assert!(not_public(at(blocked)).is_some(), "{blocked}");
            }
            for open in [before, after].into_iter().filter(|text| !text.is_empty()) {
                assert_eq!(not_public(at(open)), None, "{open}");
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
            assert!(not_public(at(form)).is_some(), "{form}");
        }
        for open in ["2606:4700:4700::1111", "2a00:1450:4001::1", "2606:4700::1:5efe:1:1"] {
            assert_eq!(not_public(at(open)), None, "{open}");
        }
    }

    #[test]
    fn the_operator_reaches_its_own_networks_and_no_metadata_by_name() {
        for own in
            ["127.0.0.1", "10.1.2.3", "192.168.1.1", "::1", "fd12::1", "8.8.8.8", "100.64.0.1"]
        {
            assert_eq!(not_operators(at(own), false), None, "{own}");
        }
        for metadata in [
            "169.254.169.254",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fe80::1",
            "::ffff:169.254.1.1",
        ] {
            assert!(not_operators(at(metadata), false).is_some(), "{metadata}");
            assert_eq!(not_operators(at(metadata), true), None, "{metadata}");
        }
        for never in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "0.1.2.3"] {
            assert!(not_operators(at(never), true).is_some(), "{never}");
        }
    }
}
