//! Defines the port to the registry of tools that nodes offer (cluster tools).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BoxFuture, Json, WallTime};

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
pub enum NodeAccess {
    /// May act for no node.
    None,
    /// May act for the node of this name.
    Node(String),
    /// May act for all nodes, as an operator of them.
    All,
}

impl NodeAccess {
    /// Returns true if it covers this node.
    pub fn allows_node(&self, node: &str) -> bool {
        match self {
            Self::None => false,
            Self::Node(own) => own == node,
            Self::All => true,
        }
    }
}

/// Errors of the node registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The credential may not act for this node.
    #[error("this key cannot act for the node `{0}`")]
    NotAuthorized(String),
    /// The name is registered by another node with a different definition.
    #[error("the name `{name}` belongs to the node `{owner}`, whose tool has another definition")]
    NameTaken {
        /// Name of the tool.
        name: String,
        /// Node that owns the name.
        owner: String,
    },
    /// The name begins with another node's id and is reserved for that node.
    #[error(
        "the name `{name}` is reserved for the node `{owner}`, with whose ID it begins; use \
         another prefix"
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
    NotShared {
        /// Name of the tool.
        name: String,
        /// Node that owns the name.
        owner: String,
    },
    /// The document is invalid.
    #[error("{0}")]
    InvalidDocument(String),
    /// A limit is reached.
    #[error("{0}")]
    LimitReached(String),
    /// The tool or node does not exist.
    #[error("no such tool")]
    NotFound,
    /// The store does not answer.
    #[error("{0}")]
    Unavailable(String),
}

/// Errors of resolving a node's endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The operator configured no address, and no other lookup is configured.
    #[error("`nodes.addresses` does not list the node `{0}`")]
    NoAddress(String),
    /// No Kubernetes node carries the label.
    #[error(
        "no Kubernetes node has the label nodeID={0}, and `nodes.addresses` does not list the node"
    )]
    NoNodeLabel(String),
    /// The node has no address: it is called over the connection that it opened.
    #[error("the node `{0}` has no address: it is called over its own connection")]
    OwnConnection(String),
    /// The configured address is invalid.
    #[error("the address of the node `{node}` is invalid: {reason}")]
    InvalidAddress {
        /// Id of the node.
        node: String,
        /// Reason, as a message for people.
        reason: String,
    },
}

/// State that a node reports in its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeartbeatState {
    /// The node accepts calls.
    Serving,
    /// The node is shutting down: no new calls.
    Draining,
}

/// A heartbeat of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeHeartbeat {
    /// State that the node reported.
    pub state: HeartbeatState,
    /// Time at which it arrived.
    pub received_at: WallTime,
}

/// Status of a known node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Id of the node.
    pub node_id: String,
    /// Number of its tools.
    pub tool_count: usize,
    /// Last heartbeat; `None` if the node sends no heartbeats.
    pub last_heartbeat: Option<NodeHeartbeat>,
    /// Endpoint of the node, or why it cannot be resolved.
    pub endpoint: Result<String, ResolveError>,
    /// Time at which a new connection of the node last replaced one that was still open.
    pub connection_replaced_at: Option<WallTime>,
    /// True if an operator drained it.
    pub is_drained: bool,
}

/// Public key of a node, with the proof that the node has the private key.
#[derive(Debug, Clone, Copy)]
pub struct KeyProof<'a> {
    /// Public key: an uncompressed P-256 point.
    pub public_key: &'a [u8],
    /// Signature of the node's id and the public key with the private key.
    pub signature: &'a [u8],
}

/// An issued node certificate with its CA certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// Certificate of the node, PEM.
    pub certificate_pem: String,
    /// Certificate of the CA, PEM, against which the node verifies its callers.
    pub ca_certificate_pem: String,
    /// Name in the certificate.
    pub dns_name: String,
    /// Time at which it expires.
    pub expires_at: WallTime,
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
    pub public_key_digest: String,
    /// Time at which it was issued.
    pub issued_at: WallTime,
    /// Time at which it expires.
    pub expires_at: WallTime,
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
pub trait NodeKeyStatus: Send + Sync + fmt::Debug {
    /// Returns true if this installation knows the key and it is revoked or expired.
    fn is_key_ended(&self, key: &str, now: WallTime) -> bool;
}

/// Reports since when and why a registry is served from memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryStaleness {
    /// Time since when the registry is stale.
    pub since: WallTime,
    /// Reason, as a message for people.
    pub reason: String,
}

/// Registry of node tools. Authorises changes by [`NodeAccess`].
pub trait NodeRegistry: Send + Sync + fmt::Debug {
    /// Registers a tool, or replaces the node's tool of this name. Returns the id of the document,
    /// which stays with (name, node).
    ///
    /// # Errors
    /// [`NodeError`].
    fn register_tool<'a>(
        &'a self,
        access: &'a NodeAccess,
        tool: NodeTool,
    ) -> BoxFuture<'a, Result<String, NodeError>>;

    /// Removes a tool of a node.
    ///
    /// # Errors
    /// [`NodeError`].
    fn remove_tool<'a>(
        &'a self,
        access: &'a NodeAccess,
        node: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), NodeError>>;

    /// Returns one tool of a node.
    fn find_tool(&self, node: &str, name: &str) -> Option<NodeTool>;

    /// Lists the tools of a node in the order of their registration.
    fn list_tools(&self, node: &str) -> Vec<NodeTool>;

    /// Resolves the endpoint of a node as `host:port`.
    ///
    /// # Errors
    /// [`ResolveError`].
    fn resolve_endpoint(&self, node: &str) -> Result<String, ResolveError>;

    /// Returns true if calls are sent to the node now: it is not draining, its heartbeat is recent,
    /// and its last call reached it.
    fn accepts_calls(&self, node: &str) -> bool;

    /// Records a heartbeat of a node.
    ///
    /// # Errors
    /// [`NodeError::NotAuthorized`], and [`NodeError::NotFound`] where the node has no tools here.
    fn record_heartbeat(
        &self,
        access: &NodeAccess,
        node: &str,
        beat: HeartbeatState,
    ) -> Result<(), NodeError>;

    /// Sends no further calls to a node, or sends them again. Not stored: it holds until the server
    /// restarts.
    ///
    /// # Errors
    /// [`NodeError::NotAuthorized`] for any caller but an operator of nodes, and
    /// [`NodeError::NotFound`] where the node has no tools here.
    fn set_drained(&self, access: &NodeAccess, node: &str, drained: bool) -> Result<(), NodeError>;

    /// Checks whether [`NodeRegistry::issue_certificate`] would sign this, as far as it can be known in advance.
    ///
    /// # Errors
    /// As [`NodeRegistry::issue_certificate`].
    fn check_certificate_request(
        &self,
        access: &NodeAccess,
        node: &str,
        proof: KeyProof<'_>,
    ) -> Result<(), NodeError>;

    /// Issues a certificate for the node's key.
    ///
    /// # Errors
    /// [`NodeError::NotAuthorized`], [`NodeError::InvalidDocument`] if the proof is invalid, and
    /// [`NodeError::Unavailable`] if this server has no CA. The node's other certificates become
    /// invalid; this one is valid as long as the key `issued_with`, if one is named.
    fn issue_certificate<'a>(
        &'a self,
        access: &'a NodeAccess,
        node: &'a str,
        proof: KeyProof<'a>,
        issued_with: Option<&'a str>,
    ) -> BoxFuture<'a, Result<IssuedCertificate, NodeError>>;

    /// Revokes all certificates of a node and closes its connections. It is not called again until
    /// it has a new certificate.
    ///
    /// # Errors
    /// [`NodeError::NotAuthorized`] for any caller but an operator of nodes, and [`NodeError::NotFound`]
    /// if the node is unknown.
    fn revoke_certificates<'a>(
        &'a self,
        access: &'a NodeAccess,
        node: &'a str,
    ) -> BoxFuture<'a, Result<(), NodeError>>;

    /// Lists the stored certificates of a node, newest first.
    fn list_certificates(&self, node: &str) -> Vec<NodeCertificate>;

    /// Returns the staleness if the registry is served from memory because its storage does not
    /// respond.
    fn staleness(&self) -> Option<RegistryStaleness> {
        None
    }

    /// Lists the known nodes in the order of their first registration.
    fn list_nodes(&self) -> Vec<NodeStatus>;

    /// Returns the name of the catalog source of a node's tools.
    fn source_name(&self, node: &str) -> String {
        format!("{NODE_SOURCE_PREFIX}{node}")
    }
}

/// Prefix of the source names of nodes.
pub const NODE_SOURCE_PREFIX: &str = "node.";

/// Key in MCP's `_meta` that selects the node on which a call must run.
pub const NODE_META_KEY: &str = "toolkeep/node";

/// Argument name of a node's tool that stands for the whole input, whatever JSON it is, if it is
/// the only one: the cluster tools' `input` need not be an object.
pub const WHOLE_INPUT_ARGUMENT: &str = "toolkeep/input";

/// Returns the call arguments for an input: an object as it is, other JSON under
/// [`WHOLE_INPUT_ARGUMENT`].
pub fn node_call_arguments(input: &Json) -> Json {
    if input.kind() == "object" {
        input.clone()
    } else {
        Json::object_from([(WHOLE_INPUT_ARGUMENT, input)])
    }
}
