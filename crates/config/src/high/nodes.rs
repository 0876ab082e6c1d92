//! Settings of tools on other machines: addresses, Kubernetes, the shared registry, trust.

use std::path::PathBuf;

use serde::Serialize;
use tool::{Secret, Trust};

use super::Tools;
use crate::shown::{scheme, show};

/// Tools on other machines.
#[derive(Debug, Clone, Serialize)]
pub struct NodesConfig {
    /// Where they are.
    #[serde(flatten, serialize_with = "show")]
    pub addresses: node_addresses::Addresses,
    /// Whom to ask for the others.
    pub kubernetes: Option<KubernetesConfig>,
    /// The MongoDB in which servers share the registry. The URL may hold a password.
    #[serde(serialize_with = "show")]
    pub mongodb: Option<Secret>,
    /// Holds the authority that signs for nodes; the server's own where there is none.
    #[serde(serialize_with = "show")]
    pub authority_file: Option<PathBuf>,
    /// How far they are trusted.
    pub trust: Trust,
    /// Which of their tools change nothing.
    pub read_only: Tools,
    /// Which names they may share.
    #[serde(serialize_with = "show")]
    pub shared: node_addresses::Sharing,
}

/// A Kubernetes that knows where nodes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KubernetesConfig {
    /// Its API server.
    #[serde(serialize_with = "show")]
    pub api: egress::Origin,
    /// Holds the token.
    #[serde(serialize_with = "show")]
    pub token_file: Option<PathBuf>,
    /// Holds the certificates to believe; those of this machine where there is none.
    #[serde(serialize_with = "show")]
    pub ca_file: Option<PathBuf>,
    /// Whether the nodes are called over TLS.
    #[serde(rename = "scheme", serialize_with = "scheme")]
    pub https: bool,
    /// The nodes' port.
    pub port: u16,
}
