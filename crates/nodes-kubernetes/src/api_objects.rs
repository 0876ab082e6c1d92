//! Objects of the Kubernetes API, with the fields that are read. Other fields are ignored.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Deserialize;

use super::NODE_ID_LABEL;

#[derive(Debug, Deserialize)]
pub(super) struct NodeList {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    #[serde(default)]
    pub(super) items: Vec<KubernetesNode>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    /// The continue token of the list; empty at its end.
    pub(super) r#continue: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct KubernetesNode {
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    status: StatusField,
    /// The code of an error object.
    #[serde(default)]
    pub(super) code: u16,
    /// The message of an error object.
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectMeta {
    pub(super) name: String,
    pub(super) resource_version: String,
    labels: HashMap<String, String>,
}

/// The status of a node, or the text of an error object.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum StatusField {
    Node(KubernetesNodeStatus),
    Text(serde::de::IgnoredAny),
    #[default]
    None,
}

#[derive(Debug, Deserialize)]
struct KubernetesNodeStatus {
    #[serde(default)]
    addresses: Vec<NodeAddress>,
}

#[derive(Debug, Deserialize)]
struct NodeAddress {
    r#type: String,
    address: String,
}

/// One event of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct WatchEvent {
    pub(super) r#type: String,
    pub(super) object: KubernetesNode,
}

impl KubernetesNode {
    pub(super) fn node_label(&self) -> Option<String> {
        self.metadata.labels.get(NODE_ID_LABEL).filter(|label| !label.is_empty()).cloned()
    }

    /// Returns the first `InternalIP`, as the cluster tools do.
    pub(super) fn internal_ip(&self) -> Option<IpAddr> {
        let StatusField::Node(status) = &self.status else { return None };
        let internal = status.addresses.iter().find(|address| address.r#type == "InternalIP");
        internal?.address.parse().ok()
    }
}
