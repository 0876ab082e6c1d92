//! The stored records of the registry, and their keys.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tool::Version;
use tool::node_registry::NodeTool;

use crate::node_source::pinned_definition;

/// Key prefix of tools: `cluster_tool/NODE/NAME`.
pub(super) const TOOL_PREFIX: &str = "cluster_tool/";
/// Key prefix of owners of names: `cluster_owner/NAME`.
pub(super) const OWNER_PREFIX: &str = "cluster_owner/";
/// Key prefix of nodes: `cluster_node/NODE`.
pub(super) const NODE_PREFIX: &str = "cluster_node/";

/// Key prefix of node certificates: `cluster_certificate/NODE`.
pub(super) const CERTIFICATE_PREFIX: &str = "cluster_certificate/";

/// The prefixes of all keys, in loading order.
pub(crate) const KEY_PREFIXES: [&str; 4] =
    [CERTIFICATE_PREFIX, NODE_PREFIX, OWNER_PREFIX, TOOL_PREFIX];

/// Whether the record of a key is reloaded after an event of another server.
pub(crate) fn is_announced_key(key: &str) -> bool {
    parse_tool_key(key).is_some() || key.starts_with(CERTIFICATE_PREFIX)
}

/// Returns node and name of the key of a tool.
pub fn parse_tool_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(TOOL_PREFIX)?.split_once('/')
}

/// Returns the key of a tool.
pub fn tool_key(node: &str, name: &str) -> String {
    format!("{TOOL_PREFIX}{node}/{name}")
}

/// A tool as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolRecord {
    /// 24 hexadecimal digits, derived from node and name.
    pub id: String,
    /// The sequence number of the registration.
    #[serde(rename = "created")]
    pub sequence: u64,
    /// The registered tool.
    pub tool: NodeTool,
}

/// A node as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NodeRecord {
    /// The sequence number of the first registration.
    #[serde(rename = "created")]
    pub(super) sequence: u64,
}

/// The owner of a tool name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnerRecord {
    pub(super) node: String,
    /// The hash of the definition that other nodes must match.
    #[serde(rename = "print")]
    pub(super) definition_hash: String,
}

/// A cached tool, with its store version.
#[derive(Debug, Clone)]
pub(super) struct CachedTool {
    pub(super) id: String,
    pub(super) sequence: u64,
    pub(super) version: Version,
    pub(super) tool: NodeTool,
}

/// Returns the document id of a tool: derived from node and name, with 24 digits as ids of the
/// cluster tools' database.
pub(super) fn document_id(node: &str, name: &str) -> String {
    let mut digits = HEXLOWER.encode(&Sha256::digest(format!("{node}/{name}")));
    digits.truncate(24);
    digits
}

/// Returns the hash of a definition, independent of key order and node.
pub(super) fn definition_hash(tool: &NodeTool) -> String {
    let sorted = sort_members(pinned_definition(tool).to_value());
    HEXLOWER.encode(&Sha256::digest(sorted.to_string()))
}

fn sort_members(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            members.into_iter().map(|(key, value)| (key, sort_members(value))).collect()
        }
        Value::Array(elements) => elements.into_iter().map(sort_members).collect(),
        other => other,
    }
}
