//! What is said of nodes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{TrustWord, Which};
use crate::field::Field;

/// Tools on other machines. A node registers its tools by itself, with a key of its own; where it is
/// called is said here.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Nodes {
    /// Where each node is called, by its id: `http://HOST:PORT`. The port is 50051 where none is named.
    pub(crate) addresses: Field<BTreeMap<String, Field<String>>>,
    /// Ids of nodes beyond this machine that may be called without TLS.
    pub(crate) insecure_ok: Field<Vec<Field<String>>>,
    /// Where the other nodes are, by their names: `https://{node_id}.nodes.example:50051`, looked up at
    /// each connection.
    pub(crate) pattern: Field<String>,
    /// Ask Kubernetes where the nodes are that `addresses` does not name: at the `InternalIP` of the one
    /// with the label `nodeID`. `kubernetes: {}` is enough in a cluster; its service account must be
    /// allowed to list and watch nodes. Needs a restart.
    pub(crate) kubernetes: Field<Kubernetes>,
    /// URL of a MongoDB in which servers share the registry of nodes' tools, such as
    /// `mongodb://HOST:27017/tools_db`. It may hold a password. Without it the registry is this server's
    /// own. Needs a restart.
    #[schemars(with = "Option<String>")]
    pub(crate) mongodb: Field<String>,
    /// A file with the authority that signs for nodes, for servers that share one: `toolkeep node authority`
    /// makes it. Without it each server has its own. Needs a restart.
    pub(crate) authority_file: Field<String>,
    /// How far nodes are trusted not to change their tools. Default: `full`.
    pub(crate) trust: Field<TrustWord>,
    /// Tools of nodes that change nothing: `TOOL`, `NODE/TOOL` or `NODE/*`, where the node is the one that
    /// owns the name, or `true` for all. A node's own word does not count. Default: none; what a tool does
    /// is unknown, and counts as an effect.
    pub(crate) read_only: Field<Which>,
    /// Names of tools that several nodes may have, each with the same definition: whole names, or a
    /// beginning and `*`. A node shares its own tools by `shared: true` in their metadata. Default: none.
    pub(crate) shared: Field<Vec<Field<String>>>,
}

/// How Kubernetes is asked, and how the nodes that it finds are called.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Kubernetes {
    /// URL of its API server. Default: that of the cluster this server runs in.
    pub(crate) api: Field<String>,
    /// A file with the token. Default in a cluster: the service account's.
    pub(crate) token_file: Field<String>,
    /// A file with the certificates to believe, PEM. Default in a cluster: the service account's.
    pub(crate) ca_file: Field<String>,
    /// How nodes are called. Default: `https`.
    pub(crate) scheme: Field<SchemeWord>,
    /// The nodes' port. Default: 50051.
    pub(crate) port: Field<u16>,
}

/// With TLS or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SchemeWord {
    /// A node must show its certificate.
    Https,
    /// Whoever has the address is taken for the node; each must be named under `insecure_ok`.
    Http,
}
