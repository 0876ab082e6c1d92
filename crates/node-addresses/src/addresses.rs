//! Where nodes are, by the operator's word.

use std::collections::{BTreeMap, BTreeSet};

use egress::Origin;
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
    /// Where the others are: a URL whose host begins with `{node_id}.`, looked up at each connection.
    pub pattern: Option<String>,
}

/// Stands for a node's id in the pattern.
pub const NODE_ID: &str = "{node_id}";

/// The port of spec 4, where a URL names none.
const PORT: u16 = 50051;

impl Addresses {
    /// Where a node is.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub fn of(&self, node: &str) -> Result<Origin, Unresolved> {
        if let Some(url) = self.nodes.get(node) {
            return self.judged(node, url, true);
        }
        let pattern = self.pattern.as_ref();
        let pattern = pattern.ok_or_else(|| Unresolved::Unknown(node.to_owned()))?;
        // An id is one label and no more: a name with dots would lead to another host's folder of names.
        if node.contains('.') {
            let why = "the id has a dot, so that it cannot be looked up as one name".to_owned();
            return Err(Unresolved::Unusable { node: node.to_owned(), why });
        }
        self.judged(node, &pattern.replace(NODE_ID, node), false)
    }

    /// What the operator wrote may be on the loopback in plaintext; what was found elsewhere may not, for
    /// it may be that the node itself says so.
    ///
    /// # Errors
    /// [`Unresolved::Unusable`].
    pub fn judged(&self, node: &str, url: &str, own: bool) -> Result<Origin, Unresolved> {
        let unusable = |why: String| Unresolved::Unusable { node: node.to_owned(), why };
        let origin = Origin::parse(&with_port(url)).map_err(|error| unusable(error.to_string()))?;
        let here = own && origin.is_loopback();
        if !origin.is_https() && !here && !self.insecure_ok.contains(node) {
            let (place, fix) = if own {
                ("beyond this machine", format!("write `https://{}`", endpoint(&origin)))
            } else {
                ("at an address that Kubernetes or the pattern gave", "use `https`".to_owned())
            };
            let why = format!(
                "it would be called in plaintext {place}; {fix} and let it join, or name it under \
                 `nodes.insecure_ok` where the network is trusted"
            );
            return Err(unusable(why));
        }
        Ok(origin)
    }

    /// Whether the pattern can be used.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_pattern(pattern: &str) -> Result<(), String> {
        let host = pattern.split_once("://").map(|(_, rest)| rest);
        let whole = host.and_then(|host| host.strip_prefix(NODE_ID)?.strip_prefix('.'));
        if !whole.is_some_and(|rest| !rest.is_empty() && !rest.contains('{')) {
            return Err(format!("its host does not begin with `{NODE_ID}.`"));
        }
        let tried = Origin::parse(&with_port(&pattern.replace(NODE_ID, "n")));
        tried.map(drop).map_err(|error| error.to_string())
    }

    /// The same as `host:port`.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub fn endpoint(&self, node: &str) -> Result<String, Unresolved> {
        Ok(endpoint(&self.of(node)?))
    }
}

/// `host:port`.
pub fn endpoint(origin: &Origin) -> String {
    let authority = origin.authority();
    let bare = !authority.ends_with(&format!(":{}", origin.port()));
    if bare { format!("{authority}:{}", origin.port()) } else { authority.to_owned() }
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
    fn a_pattern_is_filled_with_one_label_and_judged_like_any_other() {
        let pattern = Some("https://{node_id}.nodes.example".to_owned());
        let mut named = Addresses { pattern, ..Addresses::default() };
        assert_eq!(named.endpoint("n-1").unwrap(), "n-1.nodes.example:50051");
        assert!(named.endpoint("a.b").unwrap_err().to_string().contains("has a dot"));
        named.nodes.insert("own".to_owned(), "http://127.0.0.1".to_owned());
        assert_eq!(named.endpoint("own").unwrap(), "127.0.0.1:50051");
        // A name that leads to the loopback in plaintext is somebody else's word.
        named.pattern = Some("http://{node_id}.localhost".to_owned());
        assert!(named.endpoint("n").unwrap_err().to_string().contains("insecure_ok"));
        for bad in [
            "https://nodes.example",
            "https://{node_id}",
            "https://{node_id}:1",
            "x://{node_id}.a",
            "https://a.{node_id}.b",
        ] {
            assert!(Addresses::check_pattern(bad).is_err(), "{bad}");
        }
        Addresses::check_pattern("https://{node_id}.nodes.example:50052").unwrap();
    }

    #[test]
    fn what_nobody_said_and_what_cannot_be_are_told_apart() {
        assert_eq!(addresses("http://a").of("m"), Err(Unresolved::Unknown("m".to_owned())));
        for bad in ["ftp://127.0.0.1", "127.0.0.1", "http://u:p@127.0.0.1"] {
            assert!(matches!(addresses(bad).of("n"), Err(Unresolved::Unusable { .. })), "{bad}");
        }
    }
}
