//! The port to the registry of the tools that nodes have (spec 4).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Boxed, Json, Wall};

/// A tool as a node registers it: spec 4's document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTool {
    /// Its name.
    pub name: String,
    /// The node that has it.
    pub node_id: String,
    /// JSON Schema of its input, or spec 4's shorthand; an object.
    pub input_spec: Json,
    /// An object.
    pub metadata: Json,
    /// What it does.
    pub description: String,
}

/// For which nodes a caller speaks; made of a credential's rights and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaks {
    /// For none.
    None,
    /// For the node of this name.
    For(String),
    /// For all: a person who looks after them.
    All,
}

impl Speaks {
    /// Whether for this one.
    pub fn is_for(&self, node: &str) -> bool {
        match self {
            Self::None => false,
            Self::For(own) => own == node,
            Self::All => true,
        }
    }
}

/// Why the registry did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeFault {
    /// The credential speaks for another node, or for none.
    #[error("this key does not speak for the node `{0}`")]
    Foreign(String),
    /// The name is another node's, with another definition.
    #[error("the name `{name}` belongs to the node `{owner}`, whose tool has another definition")]
    Taken {
        /// The name.
        name: String,
        /// Whose it is.
        owner: String,
    },
    /// The name begins with another node's id, and is that node's alone.
    #[error(
        "the name `{name}` is kept for the node `{owner}`, with whose id it begins; use another prefix"
    )]
    Reserved {
        /// The name.
        name: String,
        /// Whose it is.
        owner: String,
    },
    /// The name is another node's, which does not share it.
    #[error(
        "the name `{name}` belongs to the node `{owner}`, which does not share it; set `shared: true` in \
         the metadata of the tool on both nodes, or list the name under `nodes.shared`"
    )]
    Unshared {
        /// The name.
        name: String,
        /// Whose it is.
        owner: String,
    },
    /// The document cannot be taken as it is.
    #[error("{0}")]
    Unfit(String),
    /// A bound is reached.
    #[error("{0}")]
    Full(String),
    /// There is no such thing.
    #[error("there is no such tool")]
    Missing,
    /// The store does not answer.
    #[error("{0}")]
    Unavailable(String),
}

/// Why there is no way to a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The operator names no address, and nothing else is asked for one.
    #[error("`nodes.addresses` does not name the node `{0}`")]
    Unknown(String),
    /// Kubernetes is asked, and no node there carries the label.
    #[error(
        "no Kubernetes node has the label nodeID={0}, and `nodes.addresses` does not name the node"
    )]
    Unlabelled(String),
    /// It has no address of its own: it made the connection over which it is called.
    #[error("the node `{0}` has no address: it is called over its own connection")]
    OwnConnection(String),
    /// What says where it is cannot be used.
    #[error("the address of the node `{node}` cannot be used: {why}")]
    Unusable {
        /// The node.
        node: String,
        /// In words.
        why: String,
    },
}

/// How a node says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beat {
    /// It takes calls.
    Serving,
    /// It ends: no new calls.
    Draining,
}

/// A node that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Its id.
    pub node_id: String,
    /// How many tools it has.
    pub tools: usize,
    /// What it said last, and when; nothing of one that never says so.
    pub beat: Option<(Beat, Wall)>,
    /// Where it is, or why nobody knows.
    pub endpoint: Result<String, Unresolved>,
    /// When a connection that it made last took the place of one that was still open.
    pub replaced: Option<Wall>,
}

/// A node's certificate, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certified {
    /// The certificate, PEM.
    pub certificate: String,
    /// The certificate of who signed it, PEM: whom the node lets call it.
    pub authority: String,
    /// The name that stands in the certificate.
    pub name: String,
    /// Until when it holds.
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
    /// When it was issued.
    pub issued: Wall,
    /// Until when it holds.
    pub expires: Wall,
    /// Whether it counts.
    pub state: CertificateState,
}

/// Whether a certificate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateState {
    /// It is the newest of its node, and the only one that is accepted.
    Current,
    /// The node has a newer one.
    Replaced,
    /// It was revoked, or the key that it was issued with was.
    Revoked,
    /// Its time is over.
    Expired,
}

/// What is known of the keys that nodes register with.
pub trait KeyState: Send + Sync + fmt::Debug {
    /// Whether this installation knows the key and it holds no more.
    fn has_ended(&self, key: &str, now: Wall) -> bool;
}

/// Why what a registry serves is only remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// Since when.
    pub since: Wall,
    /// In words.
    pub why: String,
}

/// The registry of nodes' tools. Who may change what is judged here, by [`Speaks`].
pub trait Nodes: Send + Sync + fmt::Debug {
    /// Puts a tool in, or in the place of the one that its node has under this name. Answers the id of
    /// the document, which stays with (name, node).
    ///
    /// # Errors
    /// [`NodeFault`].
    fn register<'a>(
        &'a self,
        by: &'a Speaks,
        tool: NodeTool,
    ) -> Boxed<'a, Result<String, NodeFault>>;

    /// Takes a tool out.
    ///
    /// # Errors
    /// [`NodeFault`].
    fn remove<'a>(
        &'a self,
        by: &'a Speaks,
        node: &'a str,
        name: &'a str,
    ) -> Boxed<'a, Result<(), NodeFault>>;

    /// One tool.
    fn tool(&self, node: &str, name: &str) -> Option<NodeTool>;

    /// A node's tools, in the order of their registration.
    fn tools(&self, node: &str) -> Vec<NodeTool>;

    /// Where a node is called, as `host:port`.
    ///
    /// # Errors
    /// [`Unresolved`].
    fn endpoint(&self, node: &str) -> Result<String, Unresolved>;

    /// Whether a call would be sent to the node now: it is not ending, not silent, and was reached when it
    /// was called last.
    fn takes_calls(&self, node: &str) -> bool;

    /// A node's sign of life.
    ///
    /// # Errors
    /// [`NodeFault::Foreign`], and [`NodeFault::Missing`] where the node has no tools here.
    fn beat(&self, by: &Speaks, node: &str, beat: Beat) -> Result<(), NodeFault>;

    /// Whether [`Nodes::certify`] would sign this, as far as that can be known before.
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

    /// Signs that a key is the node's: `proved` is a P-256 point without compression, and a signature
    /// with the private key.
    ///
    /// # Errors
    /// [`NodeFault::Foreign`], [`NodeFault::Unfit`] where the proof does not fit, and
    /// [`NodeFault::Unavailable`] where nobody signs here.
    /// The node's other certificates do not count from then on; this one does for as long as the key
    /// `issued_with` holds, where one is named.
    fn certify<'a>(
        &'a self,
        by: &'a Speaks,
        node: &'a str,
        proved: (&'a [u8], &'a [u8]),
        issued_with: Option<&'a str>,
    ) -> Boxed<'a, Result<Certified, NodeFault>>;

    /// Revokes all certificates of a node and cuts its connections. It is not called again until it has
    /// another one.
    ///
    /// # Errors
    /// [`NodeFault::Foreign`] for anyone but a person who looks after nodes, and
    /// [`NodeFault::Missing`] where nothing is known of the node.
    fn revoke<'a>(&'a self, by: &'a Speaks, node: &'a str) -> Boxed<'a, Result<(), NodeFault>>;

    /// The certificates of a node that are remembered, the newest first.
    fn certificates(&self, node: &str) -> Vec<NodeCertificate>;

    /// Whether what is served is only remembered, because what keeps the registry does not answer.
    fn stale(&self) -> Option<Stale> {
        None
    }

    /// The nodes that are known, in the order of their first registration.
    fn nodes(&self) -> Vec<NodeState>;

    /// The source of a node's tools, as it stands in the catalog.
    fn source(&self, node: &str) -> String {
        format!("{PREFIX}{node}")
    }
}

/// What the names of nodes' sources begin with.
pub const PREFIX: &str = "node.";

/// What names a node beside the arguments of a call, in MCP's `_meta`: any other is then none of its
/// places.
pub const PIN: &str = "toolkeep/node";

/// An argument of a node's tool. Where it is the only one, its value is the whole input, whatever JSON it
/// is: spec 4's `input` need not be an object.
pub const WHOLE_INPUT: &str = "toolkeep/input";

/// The arguments of a call with this input: an object as it is, any other JSON as [`WHOLE_INPUT`].
pub fn arguments(input: &Json) -> Json {
    if input.kind() == "object" { input.clone() } else { Json::fields([(WHOLE_INPUT, input)]) }
}
