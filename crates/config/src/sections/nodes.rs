//! Tools on other machines: addresses of nodes, Kubernetes, the shared registry, and trust.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use egress::Origin;
use node_addresses::{KubernetesSettings, NodeAddresses, SharedNames};
use option_types::ToolSelection;
use serde_json::Value;
use tool::{Secret, SourceName, SourceTrust};

use super::shared_keywords::source_trust;
use super::tool_selection::tool_selection;
use crate::config_display::RedactedJson;
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{flattened, section, subsection};
use crate::value_parsers::{collect_items, keywords, list, mapping, path, port, text};

/// The folder of a pod's service account.
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The port of nodes in spec 4.
const DEFAULT_NODE_PORT: u16 = 50051;

section! {
    /// Tools on other machines. A node registers its tools with its own key; these keys set the address at which it is
    /// called.
    #[derive(Debug, Clone)]
    pub struct NodesConfig as "Nodes": Default, RedactedJson {
        /// The addresses of the nodes.
        pub addresses as "..": NodeAddresses = flattened::<NodeAddresses>().map(check_addresses);
        /// Finds nodes that `addresses` omits in Kubernetes: at the `InternalIP` of the node whose label `nodeID` is the
        /// id. In a cluster `kubernetes: {}` is enough; its service account must be allowed to list and watch nodes.
        /// Takes effect at the next start. Default: off.
        pub kubernetes: Option<KubernetesSettings> =
            subsection::<KubernetesKeys>().and_then(kubernetes);
        /// URL of a MongoDB in which servers share the registry of nodes' tools, such as
        /// `mongodb://HOST:27017/tools_db`. It may contain a password. Takes effect at the next start. Default: each
        /// server has its own registry.
        pub mongodb_url as "mongodb": Option<Secret> = text().and_then(mongodb_url);
        /// A file with the certificate authority that signs for nodes, for servers that share one. `toolkeep node
        /// authority` makes it. Takes effect at the next start. Default: each server has its own authority.
        pub authority_file: Option<PathBuf> = path();
        /// Whether changed tools of nodes are accepted. Default: `full`.
        pub trust: SourceTrust = source_trust(), default SourceTrust::Full;
        /// Tools of nodes that change nothing: `TOOL`, `NODE/TOOL` or `NODE/*`, or `true` for all. `NODE` is the owner of
        /// the name. A node's own statement is ignored. Default: none, and every call counts as one with effects.
        pub read_only: ToolSelection = tool_selection();
        /// Names of tools that several nodes may register with the same definition: whole names, or a prefix and `*`. A
        /// node shares its own tools by `shared: true` in their metadata. Default: none.
        pub shared_names as "shared": SharedNames =
            list(text().and_then(shared_name)).and_then(|_, names| Some(SharedNames(names.into_iter().collect())));
    }
}

section! {
    /// The addresses of the nodes.
    for NodeAddresses as "Addresses": RedactedJson {
        /// The URL of each node by its id: `http://HOST:PORT`. The default port is 50051.
        urls as "addresses": BTreeMap<String, String> = mapping(text());
        /// Ids of nodes on other machines that may be called without TLS. Default: none.
        plaintext_nodes as "insecure_ok": BTreeSet<String> =
            list(text()).map(collect_items::<BTreeSet<_>, _>);
        /// The URL of all other nodes by their id: `https://{node_id}.nodes.example:50051`. The host name is resolved at
        /// each connection.
        url_pattern as "pattern": Option<String> = text().and_then(url_pattern);
    }
}

section! {
    /// The Kubernetes API server, and the URLs of the nodes that it finds.
    #[derive(Clone)]
    struct KubernetesKeys as "Kubernetes": RedactedJson {
        /// URL of the API server. Default: that of the cluster this server runs in.
        api: Option<Origin> = text().convert_text(api_origin);
        /// A file with the token. Default in a cluster: the service account's.
        token_file: Option<PathBuf> = path();
        /// A PEM file with the trusted certificates. Default in a cluster: the service account's.
        ca_file: Option<PathBuf> = path();
        /// The scheme of the nodes' URLs. Default: `https`.
        scheme: bool = uses_tls(),
            default true,
            display if *scheme { "https" } else { "http" }.into();
        /// The port of the nodes. Default: 50051.
        port: u16 = port(), default DEFAULT_NODE_PORT;
    }
}

keywords! {
    /// The scheme of the nodes' URLs.
    fn uses_tls as "SchemeWord" -> bool {
        /// TLS: a node must present its certificate.
        "https" = true,
        /// Plaintext: any machine at the address can act as the node. Each node must be listed in `insecure_ok`.
        "http" = false,
    }
}

fn mongodb_url(value: ConfigValue<'_>, url: String) -> Option<Secret> {
    if url.len() > "mongodb://".len() && url.starts_with("mongodb://") {
        return Some(Secret::new(url));
    }
    let help = "write it as `mongodb://HOST:PORT/DATABASE`";
    value.report_redacted("invalid MongoDB URL", help);
    None
}

fn shared_name(value: ConfigValue<'_>, pattern: String) -> Option<String> {
    let report = |error: String| value.report(error, "write a tool's name, or a prefix and `*`");
    SharedNames::check_pattern(&pattern).map_err(report).ok()?;
    Some(pattern)
}

fn url_pattern(value: ConfigValue<'_>, pattern: String) -> Option<String> {
    let help = "write it as `https://{node_id}.nodes.example:50051`";
    let report = |error: String| value.report(error, help);
    NodeAddresses::check_pattern(&pattern).map_err(report).ok()?;
    Some(pattern)
}

/// Checks the ids, and that no node is called in plaintext without permission.
fn check_addresses(value: ConfigValue<'_>, addresses: NodeAddresses) -> NodeAddresses {
    for id in addresses.urls.keys() {
        let node =
            value.find_member("addresses").and_then(|nodes| nodes.find_member(id)).unwrap_or(value);
        if let Err(error) = SourceName::new(id) {
            node.report(error.to_string(), "write the id that the node registers with");
        } else if let Err(error) = addresses.resolve_origin(id) {
            // The message about plaintext contains the fix.
            let message = error.to_string();
            let help =
                if message.contains("insecure_ok") { "" } else { "write `https://HOST:PORT`" };
            node.report(message, help);
        }
    }
    addresses
}

fn api_origin(value: ConfigValue<'_>, text: &str) -> Option<Origin> {
    let report = |error: egress::EgressError| {
        value.report(error.to_string(), "write it as `https://HOST:PORT`");
    };
    Origin::parse(text).map_err(report).ok()
}

impl RedactedJson for KubernetesSettings {
    fn to_redacted_json(&self) -> Value {
        let Self { api_server, token_file, ca_file, uses_tls, port } = self.clone();
        KubernetesKeys { api: Some(api_server), token_file, ca_file, scheme: uses_tls, port }
            .to_redacted_json()
    }
}

fn kubernetes(value: ConfigValue<'_>, keys: KubernetesKeys) -> Option<KubernetesSettings> {
    let KubernetesKeys { api, token_file, ca_file, scheme: uses_tls, port } = keys;
    // The pod's own token is only for the API server of its own cluster.
    let in_pod =
        |name: &str| (!value.has_member("api")).then(|| Path::new(SERVICE_ACCOUNT_DIR).join(name));
    let (token_file, ca_file) =
        (token_file.or_else(|| in_pod("token")), ca_file.or_else(|| in_pod("ca.crt")));
    let api_server =
        if value.has_member("api") { api? } else { api_origin(value, &cluster_api_url(value)?)? };
    let port = if port == 0 { DEFAULT_NODE_PORT } else { port };
    Some(KubernetesSettings { api_server, token_file, ca_file, uses_tls, port })
}

/// The URL of the cluster's own API server, from the environment of a pod.
fn cluster_api_url(value: ConfigValue<'_>) -> Option<String> {
    let variable = |name| value.file.environment.get(name).filter(|text| !text.is_empty());
    let Some(host) = variable("KUBERNETES_SERVICE_HOST") else {
        let message = "this server does not run in a Kubernetes pod, and `api` is not set";
        value.report(message, "add `api: https://HOST:PORT` and a `token_file`");
        return None;
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Some(format!("https://{host}:{}", variable("KUBERNETES_SERVICE_PORT").unwrap_or("443")))
}
