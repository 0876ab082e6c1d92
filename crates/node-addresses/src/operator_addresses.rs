//! Node addresses configured by the operator, and the URL pattern for all other nodes.

use std::collections::{BTreeMap, BTreeSet};

use egress::Origin;
use tool::node_registry::ResolveError;

/// The operator's addresses of nodes. Addresses that a node reports itself are ignored, because a
/// node could make the server dial any host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeAddresses {
    /// URLs by node id, such as `https://10.42.0.12:50051`. Over `https` a node must present the
    /// certificate that it received when it joined.
    pub urls: BTreeMap<String, String>,
    /// Ids of nodes on other machines that may be called in plaintext.
    pub plaintext_nodes: BTreeSet<String>,
    /// URL pattern of other nodes: its host begins with `{node_id}.` and is resolved for each
    /// connection.
    pub url_pattern: Option<String>,
}

/// The placeholder for the node id in the pattern.
pub const NODE_ID_PLACEHOLDER: &str = "{node_id}";

/// The default port of the cluster tools.
const DEFAULT_PORT: u16 = 50051;

impl NodeAddresses {
    /// Resolves the address of a node.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub fn resolve_origin(&self, node: &str) -> Result<Origin, ResolveError> {
        if let Some(url) = self.urls.get(node) {
            return self.validate_url(node, url, true);
        }
        let pattern = self.url_pattern.as_ref();
        let pattern = pattern.ok_or_else(|| ResolveError::NoAddress(node.to_owned()))?;
        // An id must be one DNS label: with dots it would name a host in another zone.
        if node.contains('.') {
            let why = "the ID contains a dot, so it is not a single DNS label".to_owned();
            return Err(ResolveError::InvalidAddress { node: node.to_owned(), reason: why });
        }
        self.validate_url(node, &pattern.replace(NODE_ID_PLACEHOLDER, node), false)
    }

    /// Validates the URL of a node. A configured URL may be plaintext on the loopback interface; a
    /// discovered one may not, because the node itself may have chosen it.
    ///
    /// # Errors
    /// [`ResolveError::InvalidAddress`].
    pub fn validate_url(
        &self,
        node: &str,
        url: &str,
        is_operator_url: bool,
    ) -> Result<Origin, ResolveError> {
        let unusable =
            |why: String| ResolveError::InvalidAddress { node: node.to_owned(), reason: why };
        let origin =
            Origin::parse(&add_default_port(url)).map_err(|error| unusable(error.to_string()))?;
        let is_own_loopback = is_operator_url && origin.is_loopback();
        if !origin.is_https() && !is_own_loopback && !self.plaintext_nodes.contains(node) {
            let (location, help) = if is_operator_url {
                ("beyond this machine", format!("write `https://{}`", host_and_port(&origin)))
            } else {
                ("at an address that Kubernetes or the pattern gave", "use `https`".to_owned())
            };
            let why = format!(
                "it would be called in plaintext {location}; {help} and let it join, or list it \
                 under `nodes.insecure_ok` if the network is trusted"
            );
            return Err(unusable(why));
        }
        Ok(origin)
    }

    /// Checks a URL pattern.
    ///
    /// # Errors
    /// The reason why the pattern is invalid.
    pub fn check_pattern(pattern: &str) -> Result<(), String> {
        let host = pattern.split_once("://").map(|(_, rest)| rest);
        let domain =
            host.and_then(|host| host.strip_prefix(NODE_ID_PLACEHOLDER)?.strip_prefix('.'));
        if !domain.is_some_and(|rest| !rest.is_empty() && !rest.contains('{')) {
            return Err(format!("its host does not begin with `{NODE_ID_PLACEHOLDER}.`"));
        }
        let parsed = Origin::parse(&add_default_port(&pattern.replace(NODE_ID_PLACEHOLDER, "n")));
        parsed.map(drop).map_err(|error| error.to_string())
    }

    /// Resolves the address of a node as `host:port`.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub fn resolve_endpoint(&self, node: &str) -> Result<String, ResolveError> {
        Ok(host_and_port(&self.resolve_origin(node)?))
    }
}

/// Returns `host:port` of an origin.
pub fn host_and_port(origin: &Origin) -> String {
    let authority = origin.authority();
    let needs_port = !authority.ends_with(&format!(":{}", origin.port()));
    if needs_port { format!("{authority}:{}", origin.port()) } else { authority.to_owned() }
}

/// Adds the default port of the cluster tools to a URL without a port.
fn add_default_port(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    if has_port { url.to_owned() } else { format!("{scheme}://{authority}:{DEFAULT_PORT}{path}") }
}

#[cfg(test)]
mod tests {
    use tool::node_registry::ResolveError;

    use super::NodeAddresses;

    fn addresses(url: &str) -> NodeAddresses {
        let nodes = [("n".to_owned(), url.to_owned())].into();
        NodeAddresses { urls: nodes, ..NodeAddresses::default() }
    }

    #[test]
    fn an_endpoint_is_host_and_port_with_the_cluster_tools_port_by_default() {
        for (url, endpoint) in [
            ("http://127.0.0.1", "127.0.0.1:50051"),
            ("http://127.0.0.1:80", "127.0.0.1:80"),
            ("http://127.0.0.1:50052/", "127.0.0.1:50052"),
            ("http://[::1]", "[::1]:50051"),
            ("http://localhost:7", "localhost:7"),
            ("https://10.42.0.12", "10.42.0.12:50051"),
        ] {
            assert_eq!(addresses(url).resolve_endpoint("n").as_deref(), Ok(endpoint), "{url}");
        }
    }

    #[test]
    fn plaintext_beyond_this_machine_is_no_accident() {
        let mut far = addresses("http://10.42.0.12:50051");
        let error = far.resolve_endpoint("n").unwrap_err();
        assert!(
            matches!(&error, ResolveError::InvalidAddress { reason: why, .. } if why.contains("insecure_ok"))
        );
        far.plaintext_nodes.insert("other".to_owned());
        assert!(far.resolve_endpoint("n").is_err());
        far.plaintext_nodes.insert("n".to_owned());
        assert_eq!(far.resolve_endpoint("n").unwrap(), "10.42.0.12:50051");
    }

    #[test]
    fn a_pattern_is_filled_with_one_label_and_judged_like_any_other() {
        let pattern = Some("https://{node_id}.nodes.example".to_owned());
        let mut named = NodeAddresses { url_pattern: pattern, ..NodeAddresses::default() };
        assert_eq!(named.resolve_endpoint("n-1").unwrap(), "n-1.nodes.example:50051");
        assert!(named.resolve_endpoint("a.b").unwrap_err().to_string().contains("contains a dot"));
        named.urls.insert("own".to_owned(), "http://127.0.0.1".to_owned());
        assert_eq!(named.resolve_endpoint("own").unwrap(), "127.0.0.1:50051");
        // A name that leads to the loopback in plaintext is somebody else's word.
        named.url_pattern = Some("http://{node_id}.localhost".to_owned());
        assert!(named.resolve_endpoint("n").unwrap_err().to_string().contains("insecure_ok"));
        for bad in [
            "https://nodes.example",
            "https://{node_id}",
            "https://{node_id}:1",
            "x://{node_id}.a",
            "https://a.{node_id}.b",
        ] {
            assert!(NodeAddresses::check_pattern(bad).is_err(), "{bad}");
        }
        NodeAddresses::check_pattern("https://{node_id}.nodes.example:50052").unwrap();
    }

    #[test]
    fn what_nobody_said_and_what_cannot_be_are_told_apart() {
        assert_eq!(
            addresses("http://a").resolve_origin("m"),
            Err(ResolveError::NoAddress("m".to_owned()))
        );
        for bad in ["ftp://127.0.0.1", "127.0.0.1", "http://u:p@127.0.0.1"] {
            assert!(
                matches!(
                    addresses(bad).resolve_origin("n"),
                    Err(ResolveError::InvalidAddress { .. })
                ),
                "{bad}"
            );
        }
    }
}
