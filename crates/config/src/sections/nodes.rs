//! Tools on other machines: addresses, Kubernetes, the shared registry, trust.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use egress::Origin;
use node_addresses::{Addresses, Sharing};
use serde_json::Value;
use tool::{Secret, SourceName, Trust};

use super::tools::{Tools, tools};
use super::words::trust;
use crate::parsers::{collect, list, map, path, port, text, words};
use crate::section::{flattened, section, subsection};
use crate::shown::Show;
use crate::value::{ConfigValue, ValueParser as _};

/// Where a pod finds what its service account has.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The port of nodes in spec 4.
const PORT: u16 = 50051;

section! {
    /// Tools on other machines. A node registers its tools by itself, with a key of its own; where it is
    /// called is said here.
    #[derive(Debug, Clone)]
    pub struct NodesConfig as "Nodes": Default, Show {
        /// Where they are.
        pub addresses as "..": Addresses = flattened::<Addresses>().map(addresses);
        /// Ask Kubernetes where the nodes are that `addresses` does not name: at the `InternalIP` of the one
        /// with the label `nodeID`. `kubernetes: {}` is enough in a cluster; its service account must be
        /// allowed to list and watch nodes. Needs a restart.
        pub kubernetes: Option<KubernetesConfig> = subsection::<Kubernetes>().then(kubernetes);
        /// URL of a MongoDB in which servers share the registry of nodes' tools, such as
        /// `mongodb://HOST:27017/tools_db`. It may hold a password. Without it the registry is this server's
        /// own. Needs a restart.
        pub mongodb: Option<Secret> = text().then(mongodb);
        /// A file with the authority that signs for nodes, for servers that share one: `toolkeep node authority`
        /// makes it. Without it each server has its own. Needs a restart.
        pub authority_file: Option<PathBuf> = path();
        /// How far nodes are trusted not to change their tools. Default: `full`.
        pub trust: Trust = trust(), default Trust::Full;
        /// Tools of nodes that change nothing: `TOOL`, `NODE/TOOL` or `NODE/*`, where the node is the one that
        /// owns the name, or `true` for all. A node's own word does not count. Default: none; what a tool does
        /// is unknown, and counts as an effect.
        pub read_only: Tools = tools();
        /// Names of tools that several nodes may have, each with the same definition: whole names, or a
        /// beginning and `*`. A node shares its own tools by `shared: true` in their metadata. Default: none.
        pub shared: Sharing = list(text().then(shared_name)).then(|_, names| Some(Sharing(names.into_iter().collect())));
    }
}

section! {
    /// Where nodes are called.
    for Addresses as "Addresses": Show {
        /// Where each node is called, by its id: `http://HOST:PORT`. The port is 50051 where none is named.
        nodes as "addresses": BTreeMap<String, String> = map(text());
        /// Ids of nodes beyond this machine that may be called without TLS.
        insecure_ok: BTreeSet<String> = list(text()).map(collect::<BTreeSet<_>, _>);
        /// Where the other nodes are, by their names: `https://{node_id}.nodes.example:50051`, looked up at
        /// each connection.
        pattern: Option<String> = text().then(pattern);
    }
}

section! {
    /// How Kubernetes is asked, and how the nodes that it finds are called.
    #[derive(Clone)]
    struct Kubernetes as "Kubernetes": Show {
        /// URL of its API server. Default: that of the cluster this server runs in.
        api: Option<Origin> = text().convert_text(api);
        /// A file with the token. Default in a cluster: the service account's.
        token_file: Option<PathBuf> = path();
        /// A file with the certificates to believe, PEM. Default in a cluster: the service account's.
        ca_file: Option<PathBuf> = path();
        /// How nodes are called. Default: `https`.
        scheme: bool = is_https(), default true, shown if *scheme { "https" } else { "http" }.into();
        /// The nodes' port. Default: 50051.
        port: u16 = port(), default PORT;
    }
}

words! {
    /// With TLS or without.
    fn is_https as "SchemeWord" -> bool {
        /// A node must show its certificate.
        "https" = true,
        /// Whoever has the address is taken for the node; each must be named under `insecure_ok`.
        "http" = false,
    }
}

/// A Kubernetes that knows where nodes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesConfig {
    /// Its API server.
    pub api: Origin,
    /// Holds the token.
    pub token_file: Option<PathBuf>,
    /// Holds the certificates to believe; those of this machine where there is none.
    pub ca_file: Option<PathBuf>,
    /// Whether the nodes are called over TLS.
    pub https: bool,
    /// The nodes' port.
    pub port: u16,
}

fn mongodb(value: ConfigValue<'_>, url: String) -> Option<Secret> {
    if url.len() > "mongodb://".len() && url.starts_with("mongodb://") {
        return Some(Secret::new(url));
    }
    let fix = "write it as `mongodb://HOST:PORT/DATABASE`";
    value.fault_hidden("this is no URL of a MongoDB", fix);
    None
}

fn shared_name(value: ConfigValue<'_>, pattern: String) -> Option<String> {
    let fault = |error: String| value.fault(error, "write a tool's name, or a beginning and `*`");
    Sharing::check(&pattern).map_err(fault).ok()?;
    Some(pattern)
}

fn pattern(value: ConfigValue<'_>, pattern: String) -> Option<String> {
    let fix = "write it as `https://{node_id}.nodes.example:50051`";
    Addresses::check_pattern(&pattern).map_err(|error| value.fault(error, fix)).ok()?;
    Some(pattern)
}

/// An id must be one, and its node must not be called in plaintext.
fn addresses(value: ConfigValue<'_>, addresses: Addresses) -> Addresses {
    for id in addresses.nodes.keys() {
        let node = value.member("addresses").and_then(|nodes| nodes.member(id)).unwrap_or(value);
        if let Err(error) = SourceName::new(id) {
            node.fault(error.to_string(), "write the id that the node registers with");
        } else if let Err(error) = addresses.of(id) {
            // What would be called in plaintext is told with what to write.
            let message = error.to_string();
            let fix =
                if message.contains("insecure_ok") { "" } else { "write `https://HOST:PORT`" };
            node.fault(message, fix);
        }
    }
    addresses
}

fn api(value: ConfigValue<'_>, text: &str) -> Option<Origin> {
    let fault = |error: egress::EgressError| {
        value.fault(error.to_string(), "write it as `https://HOST:PORT`");
    };
    Origin::parse(text).map_err(fault).ok()
}

impl Show for KubernetesConfig {
    fn show(&self) -> Value {
        let Self { api, token_file, ca_file, https, port } = self.clone();
        Kubernetes { api: Some(api), token_file, ca_file, scheme: https, port }.show()
    }
}

fn kubernetes(value: ConfigValue<'_>, keys: Kubernetes) -> Option<KubernetesConfig> {
    let Kubernetes { api: named, token_file, ca_file, scheme: https, port } = keys;
    // What is in the pod belongs to the cluster's own API server and is shown to no other.
    let in_pod = |name: &str| (!value.has("api")).then(|| Path::new(ACCOUNT).join(name));
    let (token_file, ca_file) =
        (token_file.or_else(|| in_pod("token")), ca_file.or_else(|| in_pod("ca.crt")));
    let api = if value.has("api") { named? } else { api(value, &api_of_cluster(value)?)? };
    let port = if port == 0 { PORT } else { port };
    Some(KubernetesConfig { api, token_file, ca_file, https, port })
}

/// As Kubernetes tells its pods.
fn api_of_cluster(value: ConfigValue<'_>) -> Option<String> {
    let get = |name| value.file.environment.get(name).filter(|text| !text.is_empty());
    let Some(host) = get("KUBERNETES_SERVICE_HOST") else {
        let message = "this is no pod of a cluster, and nothing says where the API server is";
        value.fault(message, "add `api: https://HOST:PORT` and a `token_file`");
        return None;
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Some(format!("https://{host}:{}", get("KUBERNETES_SERVICE_PORT").unwrap_or("443")))
}
