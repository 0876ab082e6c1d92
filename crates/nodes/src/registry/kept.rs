//! What stands in the store.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tool::Version;
use tool::node::NodeTool;

use crate::source::definition;

/// Tools: `cluster_tool/NODE/NAME`.
pub(super) const TOOL: &str = "cluster_tool/";
/// Owners of names: `cluster_owner/NAME`.
pub(super) const OWNER: &str = "cluster_owner/";
/// Nodes: `cluster_node/NODE`.
pub(super) const NODE: &str = "cluster_node/";

/// Certificates of nodes: `cluster_certificate/NODE`.
pub(super) const CERTIFICATES: &str = "cluster_certificate/";

/// What all keys begin with, in the order in which they are read.
pub(crate) const PREFIXES: [&str; 4] = [CERTIFICATES, NODE, OWNER, TOOL];

/// Whether a key's record is read anew where another server says that it was written.
pub(crate) fn is_news(key: &str) -> bool {
    tool_of(key).is_some() || key.starts_with(CERTIFICATES)
}

/// Node and name of a tool's key.
pub fn tool_of(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(TOOL)?.split_once('/')
}

/// The key of a tool of a node.
pub fn tool_key(node: &str, name: &str) -> String {
    format!("{TOOL}{node}/{name}")
}

/// A tool as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Document {
    /// 24 hexadecimal digits: the same for the same node and name.
    pub id: String,
    /// Orders registrations.
    pub created: u64,
    /// The tool.
    pub tool: NodeTool,
}

/// A node as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NodeRecord {
    /// Orders nodes.
    pub(super) created: u64,
}

/// Whose a name is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnerRecord {
    pub(super) node: String,
    /// The definition that others may have too.
    pub(super) print: String,
}

/// A tool in memory.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) version: Version,
    pub(super) tool: NodeTool,
}

/// The id of a document: the same for the same node and name, and 24 digits as the ids of spec 4's
/// database have.
pub(super) fn id(node: &str, name: &str) -> String {
    hex(&Sha256::digest(format!("{node}/{name}")), 12)
}

/// A definition's hash, whatever the order of its keys and wherever it runs.
pub(super) fn print(tool: &NodeTool) -> String {
    let sorted = sorted(definition(tool).value());
    hex(&Sha256::digest(sorted.to_string()), 32)
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            members.into_iter().map(|(key, value)| (key, sorted(value))).collect()
        }
        Value::Array(elements) => elements.into_iter().map(sorted).collect(),
        other => other,
    }
}

fn hex(bytes: &[u8], most: usize) -> String {
    use std::fmt::Write as _;
    bytes.iter().take(most).fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}
