//! Addresses of nodes as the operator configures them, and the tool names that nodes may share.
//! Independent of the code that calls nodes.

mod kubernetes_settings;
mod operator_addresses;
mod shared_names;

pub use kubernetes_settings::KubernetesSettings;
pub use operator_addresses::{NODE_ID_PLACEHOLDER, NodeAddresses, host_and_port};
pub use shared_names::SharedNames;
