//! Where nodes are, by the operator's word.

use std::collections::{BTreeMap, BTreeSet};

use guard::egress::Origin;
use tool::node::Unresolved;

/// Where nodes are. A node's own word, or a label that it could set, counts for nothing here: the server
/// would dial wherever the node likes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// URLs by the nodes' ids, such as `https://10.42.0.12:50051`. Over `https` a node must show the
    /// certificate that it got when it joined, wherever it is.
    pub nodes: BTreeMap<String, String>,
    /// Nodes beyond this machine that may be called in plaintext.
    pub insecure_ok: BTreeSet<String>,
}

/// The port of spec 4, where a URL names none.
const PORT: u16 = 50051;

impl Addresses {
    /// Where a node is.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub fn of(&self, node: &str) -> Result<Origin, Unresolved> {
        let url = self.nodes.get(node).ok_or_else(|| Unresolved::Unknown(node.to_owned()))?;
        let unusable = |why: String| Unresolved::Unusable { node: node.to_owned(), why };
        let origin = Origin::parse(&with_port(url)).map_err(|error| unusable(error.to_string()))?;
        if !origin.is_https() && !origin.is_loopback() && !self.insecure_ok.contains(node) {
            let why = "it would be called in plaintext beyond this machine; use `https` and let it \
                       join, or name it under `nodes.insecure_ok` where the network is trusted";
            return Err(unusable(why.to_owned()));
        }
        Ok(origin)
    }

    /// The same as `host:port`.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub fn endpoint(&self, node: &str) -> Result<String, Unresolved> {
        let origin = self.of(node)?;
        let authority = origin.authority();
        let bare = !authority.ends_with(&format!(":{}", origin.port()));
        Ok(if bare { format!("{authority}:{}", origin.port()) } else { authority.to_owned() })
    }
}

/// With spec 4's port where the URL has none.
fn with_port(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let ported = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    if ported { url.to_owned() } else { format!("{scheme}://{authority}:{PORT}{path}") }
}

#[cfg(test)]
mod tests {
    use tool::node::Unresolved;

    use super::Addresses;

    fn addresses(url: &str) -> Addresses {
        let nodes = [("n".to_owned(), url.to_owned())].into();
        Addresses { nodes, ..Addresses::default() }
    }

    #[test]
    fn an_endpoint_is_host_and_port_with_spec_4s_port_where_none_is_named() {
        for (url, endpoint) in [
            ("http://127.0.0.1", "127.0.0.1:50051"),
            ("http://127.0.0.1:80", "127.0.0.1:80"),
            ("http://127.0.0.1:50052/", "127.0.0.1:50052"),
            ("http://[::1]", "[::1]:50051"),
            ("http://localhost:7", "localhost:7"),
            ("https://10.42.0.12", "10.42.0.12:50051"),
        ] {
            assert_eq!(addresses(url).endpoint("n").as_deref(), Ok(endpoint), "{url}");
        }
    }

    #[test]
    fn plaintext_beyond_this_machine_is_no_accident() {
        let mut far = addresses("http://10.42.0.12:50051");
        let error = far.endpoint("n").unwrap_err();
        assert!(matches!(&error, Unresolved::Unusable { why, .. } if why.contains("insecure_ok")));
        far.insecure_ok.insert("other".to_owned());
        assert!(far.endpoint("n").is_err());
        far.insecure_ok.insert("n".to_owned());
        assert_eq!(far.endpoint("n").unwrap(), "10.42.0.12:50051");
    }

    #[test]
    fn what_nobody_said_and_what_cannot_be_are_told_apart() {
        assert_eq!(addresses("http://a").of("m"), Err(Unresolved::Unknown("m".to_owned())));
        for bad in ["ftp://127.0.0.1", "127.0.0.1", "http://u:p@127.0.0.1"] {
            assert!(matches!(addresses(bad).of("n"), Err(Unresolved::Unusable { .. })), "{bad}");
        }
    }
}
