//! Settings of the lookup of nodes in Kubernetes.

use std::path::PathBuf;

use egress::Origin;

/// Access to the Kubernetes API, and how discovered nodes are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// Origin of the API server.
    pub api_server: Origin,
    /// File of the token. It is read for each request, because Kubernetes replaces it every hour.
    pub token_file: Option<PathBuf>,
    /// File with the trusted certificates of the API server; `None` for those of this machine.
    pub ca_file: Option<PathBuf>,
    /// Whether nodes are called over TLS.
    pub uses_tls: bool,
    /// Port of the nodes.
    pub port: u16,
}
