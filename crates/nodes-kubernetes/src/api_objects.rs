//! Objects of the Kubernetes API, with the members that are read; all others are ignored.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Deserialize;

use super::LABEL;

#[derive(Debug, Deserialize)]
pub(super) struct List {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    #[serde(default)]
    pub(super) items: Vec<Node>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    /// Where the list goes on; empty at its end.
    pub(super) r#continue: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node {
    #[serde(default)]
    pub(super) metadata: Meta,
    #[serde(default)]
    status: Status,
    /// Of an error.
    #[serde(default)]
    pub(super) code: u16,
    /// The same in words.
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) resource_version: String,
    labels: HashMap<String, String>,
}

/// Of a node; an error's is a word.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Status {
    Of(NodeStatus),
    Word(serde::de::IgnoredAny),
    #[default]
    None,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    addresses: Vec<Address>,
}

#[derive(Debug, Deserialize)]
struct Address {
    r#type: String,
    address: String,
}

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    pub(super) r#type: String,
    pub(super) object: Node,
}

impl Node {
    pub(super) fn label(&self) -> Option<String> {
        self.metadata.labels.get(LABEL).filter(|label| !label.is_empty()).cloned()
    }

    /// The first there is, as spec 4 takes it.
    pub(super) fn internal_ip(&self) -> Option<IpAddr> {
        let Status::Of(status) = &self.status else { return None };
        let internal = status.addresses.iter().find(|address| address.r#type == "InternalIP");
        internal?.address.parse().ok()
    }
}
