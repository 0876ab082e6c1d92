//! Tools on nodes (cluster tools): the registry of their tools, their addresses, and the executors
//! that call them.
//!
//! A node is a source like any other. Only the pipeline calls its executor. The credential decides
//! whose tools a caller may change. Addresses come from the operator or from Kubernetes, never from
//! the node.

mod certificate_authority;
mod certificate_index;
mod input_spec;
mod multi_node_executor;
mod node_channels;
mod node_executor;
mod node_locator;
mod node_source;
mod outcome_mapping;
mod peer_events;
mod registry;
mod registry_store;
mod reverse_connections;
mod revocable_stream;

pub use certificate_authority::{CertificateAuthority, CertificateAuthorityError, StoredAuthority};
pub use input_spec::{SchemaConversion, to_json_schema};
pub use node_addresses::{NODE_ID_PLACEHOLDER, NodeAddresses, SharedNames};
pub use node_locator::NodeLocator;
pub use node_source::NodeSource;
pub use peer_events::PeerOutbox;
pub use registry::{
    MAX_NODES, MAX_TOOLS_PER_NODE, PersistentNodeRegistry, ToolRecord, parse_tool_key, tool_key,
};
pub use registry_store::{
    ChangeReceiver, LocalRegistryStore, RecordChange, RegistryStore, UnavailableRegistryStore,
};
