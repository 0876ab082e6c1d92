//! Defines the port to the registry of tools that nodes offer (cluster tools).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Boxed, Json, Wall};

/// A tool as a node registers it: the cluster tools' document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTool {
    /// Name of the tool.
    pub name: String,
    /// Id of the node that offers it.
    pub node_id: String,
    /// JSON Schema of its input, or the cluster tools' shorthand; an object.
    pub input_spec: Json,
    /// Metadata of the tool; an object.
    pub metadata: Json,
    /// Description of the tool.
    pub description: String,
}

/// Nodes on whose behalf a caller may act, derived from the rights of its credential only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaks {
    /// May act for no node.
    None,
    /// May act for the node of this name.
    For(String),
    /// May act for all nodes, as an operator of them.
    All,
}

impl Speaks {
    /// Returns true if it covers this node.
    pub fn is_for(&self, node: &str) -> bool {
        match self {
            Self::None => false,
            Self::For(own) => own == node,
            Self::All => true,
        }
    }
}

/// Errors of the node registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeFault {
    /// The credential may not act for this node.
    #[error("this key does not speak for the node `{0}`")]
    Foreign(String),
    /// The name is registered by another node with a different definition.
    #[error("the name `{name}` belongs to the node `{owner}`, whose tool has another definition")]
    Taken {
        /// Name of the tool.
        name: String,
        /// Node that owns the name.
        owner: String,
    },
    /// The name begins with another node's id and is reserved for that node.
    #[error(
        "the name `{name}` is kept for the node `{owner}`, with whose id it begins; use another prefix"
    )]
    Reserved {
        /// Name of the tool.
        name: String,
        /// Node that owns the name.
        owner: String,
    },
    /// The name belongs to another node, which does not share it.
    #[error(
        "the name `{name}` belongs to the node `{owner}`, which does not share it; set `shared: true` in \
         the metadata of the tool on both nodes, or list the name under `nodes.shared`"
    )]
    Unshared {
        /// Name of the tool.
        name: String,
        /// Node that owns the name.
        owner: String,
    },
    /// The document is invalid.
    #[error("{0}")]
    Unfit(String),
    /// A limit is reached.
    #[error("{0}")]
    Full(String),
    /// The tool or node does not exist.
    #[error("there is no such tool")]
    Missing,
    /// The store does not answer.
    #[error("{0}")]
    Unavailable(String),
}

/// Errors of resolving a node's endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The operator configured no address, and no other lookup is configured.
    #[error("`nodes.addresses` does not name the node `{0}`")]
    Unknown(String),
    /// No Kubernetes node carries the label.
    #[error(
        "no Kubernetes node has the label nodeID={0}, and `nodes.addresses` does not name the node"
    )]
    Unlabelled(String),
    /// The node has no address: it is called over the connection that it opened.
    #[error("the node `{0}` has no address: it is called over its own connection")]
    OwnConnection(String),
    /// The configured address is invalid.
    #[error("the address of the node `{node}` cannot be used: {why}")]
    Unusable {
        /// Id of the node.
        node: String,
        /// Reason, as a message for people.
        why: String,
    },
}

/// State that a node reports in its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beat {
    /// The node accepts calls.
    Serving,
    /// The node is shutting down: no new calls.
    Draining,
}

/// Status of a known node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Id of the node.
    pub node_id: String,
    /// Number of its tools.
    pub tools: usize,
    /// Last heartbeat and its time; `None` if the node sends no heartbeats.
    pub beat: Option<(Beat, Wall)>,
    /// Endpoint of the node, or why it cannot be resolved.
    pub endpoint: Result<String, Unresolved>,
    /// Time at which a new connection of the node last replaced one that was still open.
    pub replaced: Option<Wall>,
}

/// An issued node certificate with its CA certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certified {
    /// Certificate of the node, PEM.
    pub certificate: String,
    /// Certificate of the CA, PEM, against which the node verifies its callers.
    pub authority: String,
    /// Name in the certificate.
    pub name: String,
    /// Time at which it expires.
    pub until: Wall,
    /// Its serial number, in hexadecimal digits.
    pub serial: String,
    /// SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: String,
}

/// A certificate that was issued to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCertificate {
    /// Its serial number, in hexadecimal digits.
    pub serial: String,
    /// SHA-256 of the public key, in hexadecimal digits.
    pub public_key: String,
    /// Time at which it was issued.
    pub issued: Wall,
    /// Time at which it expires.
    pub expires: Wall,
    /// Validity state of the certificate.
    pub state: CertificateState,
}

/// Validity states of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateState {
    /// The newest certificate of its node, and the only one that is accepted.
    Current,
    /// The node has a newer certificate.
    Replaced,
    /// The certificate was revoked, or the key with which it was issued.
    Revoked,
    /// The certificate has expired.
    Expired,
}

/// Status of the keys that nodes register with.
pub trait KeyState: Send + Sync + fmt::Debug {
    /// Returns true if this installation knows the key and it is revoked or expired.
    fn has_ended(&self, key: &str, now: Wall) -> bool;
}

/// Reports since when and why a registry is served from memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// Time since when the registry is stale.
    pub since: Wall,
    /// Reason, as a message for people.
    pub why: String,
}

/// Registry of node tools. Authorises changes by [`Speaks`].
pub trait Nodes: Send + Sync + fmt::Debug {
    /// Registers a tool, or replaces the node's tool of this name. Returns the id of the document,
    /// which stays with (name, node).
    ///
    /// # Errors
    /// [`NodeFault`].
    fn register<'a>(
        &'a self,
        by: &'a Speaks,
        tool: NodeTool,
    ) -> Boxed<'a, Result<String, NodeFault>>;

    /// Removes a tool of a node.
    ///
    /// # Errors
    /// [`NodeFault`].
    fn remove<'a>(
        &'a self,
        by: &'a Speaks,
        node: &'a str,
        name: &'a str,
    ) -> Boxed<'a, Result<(), NodeFault>>;

    /// Returns one tool of a node.
    fn tool(&self, node: &str, name: &str) -> Option<NodeTool>;

    /// Lists the tools of a node in the order of their registration.
    fn tools(&self, node: &str) -> Vec<NodeTool>;

    /// Resolves the endpoint of a node as `host:port`.
    ///
    /// # Errors
    /// [`Unresolved`].
    fn endpoint(&self, node: &str) -> Result<String, Unresolved>;

    /// Returns true if calls are sent to the node now: it is not draining, its heartbeat is recent,
    /// and its last call reached it.
    fn takes_calls(&self, node: &str) -> bool;

    /// Records a heartbeat of a node.
    ///
    /// # Errors
    /// [`NodeFault::Foreign`], and [`NodeFault::Missing`] where the node has no tools here.
    fn beat(&self, by: &Speaks, node: &str, beat: Beat) -> Result<(), NodeFault>;

    /// Checks whether [`Nodes::certify`] would sign this, as far as it can be known in advance.
    ///
    /// # Errors
    /// As [`Nodes::certify`].
    fn may_certify(
        &self,
        by: &Speaks,
        node: &str,
        public: &[u8],
        proof: &[u8],
    ) -> Result<(), NodeFault>;

    /// Issues a certificate for the node's key: `proved` is an uncompressed P-256 point, and a
    /// signature with the private key.
    ///
    /// # Errors
    /// [`NodeFault::Foreign`], [`NodeFault::Unfit`] if the proof is invalid, and
    /// [`NodeFault::Unavailable`] if this server has no CA. The node's other certificates become
    /// invalid; this one is valid as long as the key `issued_with`, if one is named.
    fn certify<'a>(
        &'a self,
        by: &'a Speaks,
        node: &'a str,
        proved: (&'a [u8], &'a [u8]),
        issued_with: Option<&'a str>,
    ) -> Boxed<'a, Result<Certified, NodeFault>>;

    /// Revokes all certificates of a node and closes its connections. It is not called again until
    /// it has a new certificate.
    ///
    /// # Errors
    /// [`NodeFault::Foreign`] for any caller but an operator of nodes, and [`NodeFault::Missing`]
    /// if the node is unknown.
    fn revoke<'a>(&'a self, by: &'a Speaks, node: &'a str) -> Boxed<'a, Result<(), NodeFault>>;

    /// Lists the stored certificates of a node, newest first.
    fn certificates(&self, node: &str) -> Vec<NodeCertificate>;

    /// Returns the staleness if the registry is served from memory because its storage does not
    /// respond.
    fn stale(&self) -> Option<Stale> {
        None
    }

    /// Lists the known nodes in the order of their first registration.
    fn nodes(&self) -> Vec<NodeState>;

    /// Returns the name of the catalog source of a node's tools.
    fn source(&self, node: &str) -> String {
        format!("{PREFIX}{node}")
    }
}

/// Prefix of the source names of nodes.
pub const PREFIX: &str = "node.";

/// Key in MCP's `_meta` that selects the node on which a call must run.
pub const PIN: &str = "toolkeep/node";

/// Argument name of a node's tool that stands for the whole input, whatever JSON it is, if it is
/// the only one: the cluster tools' `input` need not be an object.
pub const WHOLE_INPUT: &str = "toolkeep/input";

/// Returns the call arguments for an input: an object as it is, other JSON under [`WHOLE_INPUT`].
pub fn arguments(input: &Json) -> Json {
    if input.kind() == "object" { input.clone() } else { Json::fields([(WHOLE_INPUT, input)]) }
}
