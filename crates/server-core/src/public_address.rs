//! The address of this server as its clients use it, and the names that discovery documents derive
//! from it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::HeaderMap;
use axum::http::header::HOST;

use crate::allowed_hosts::{is_loopback, split_authority};
use crate::server_state::ServerState;

/// The host of a server on this machine, in names.
const LOCAL_HOST: &str = "localhost";
/// Maximum length of a namespace in bytes: with `/` and a source name it fits in 200.
const MAX_NAMESPACE_BYTES: usize = 71;

/// The address of this server: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicAddress {
    base_url: String,
    host: String,
}

impl PublicAddress {
    /// The address that the operator configured; without one, the host that the request names, which
    /// the Host check accepted: over http on this machine, and over https elsewhere.
    pub fn from_request(state: &ServerState, headers: &HeaderMap) -> Self {
        let configured = state.components.allowed_hosts.public_url.clone();
        if let Some(base_url) = configured.or_else(|| state.components.issuers.public_url()) {
            return Self::from_base_url(base_url);
        }
        let host = headers.get(HOST).and_then(|value| value.to_str().ok());
        let host = host.unwrap_or(LOCAL_HOST).to_ascii_lowercase();
        let is_local = split_authority(&host).is_none_or(|(name, _)| is_loopback(name));
        let scheme = if is_local { "http" } else { "https" };
        Self::from_base_url(format!("{scheme}://{host}"))
    }

    fn from_base_url(base_url: String) -> Self {
        let authority = base_url.split_once("://").map_or("", |(_, authority)| authority);
        let host = split_authority(authority).map_or(authority, |(name, _)| name);
        let host = if is_loopback(host) { LOCAL_HOST } else { host }.to_owned();
        Self { base_url, host }
    }

    /// The URL of the server without a trailing slash, such as `https://tools.example`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The host without a port; `localhost` for every name of this machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host in reverse order, such as `example.tools`, as the namespace of server names. It
    /// consists of letters, digits, `.` and `-`, and an address has the form of its DNS zone.
    pub fn namespace(&self) -> String {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let labels = match bare.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => format!("arpa.in-addr.{}", dotted_octets(address)),
            Ok(IpAddr::V6(address)) => format!("arpa.ip6.{}", dotted_nibbles(address)),
            Err(_) => bare.rsplit('.').collect::<Vec<_>>().join("."),
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let allowed = labels.chars().map(|c| if is_allowed(c) { c } else { '-' });
        allowed.take(MAX_NAMESPACE_BYTES).collect()
    }
}

fn dotted_octets(address: Ipv4Addr) -> String {
    address.octets().map(|octet| octet.to_string()).join(".")
}

fn dotted_nibbles(address: Ipv6Addr) -> String {
    let nibbles = address.octets().into_iter().flat_map(|octet| [octet >> 4, octet & 15]);
    nibbles.map(|nibble| format!("{nibble:x}")).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::PublicAddress;

    #[test]
    fn a_namespace_is_the_host_in_reverse_order() {
        for (url, host, namespace) in [
            ("https://tools.example.com", "tools.example.com", "com.example.tools"),
            ("https://tools.example:8443", "tools.example", "example.tools"),
            ("http://127.0.0.1:8080", "localhost", "localhost"),
            ("http://[::1]:8080", "localhost", "localhost"),
            ("https://my_host.lan", "my_host.lan", "lan.my-host"),
            ("https://10.1.2.3", "10.1.2.3", "arpa.in-addr.10.1.2.3"),
        ] {
            let address = PublicAddress::from_base_url(url.to_owned());
            assert_eq!((address.host(), address.namespace().as_str()), (host, namespace), "{url}");
        }
        let six = PublicAddress::from_base_url("https://[2001:db8::7]:1".to_owned());
        assert!(six.namespace().starts_with("arpa.ip6.2.0.0.1.0.d.b.8.0"), "{}", six.namespace());
        assert!(six.namespace().len() <= super::MAX_NAMESPACE_BYTES);
    }
}
