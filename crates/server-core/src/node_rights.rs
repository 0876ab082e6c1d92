//! Rights of an API key to act for a node.

use identity::{Principal, Right};
use tool::Org;
use tool::node_registry::NodeAccess;

/// Which nodes a key may act for. Keys of other organizations have no access to the nodes of this
/// installation.
pub fn node_access(principal: &Principal) -> NodeAccess {
    if *principal.org() != Org::default() {
        NodeAccess::None
    } else if principal.has_right(Right::NodesWrite) {
        NodeAccess::All
    } else if principal.has_right(Right::NodesRegister) {
        NodeAccess::Node(principal.subject().to_owned())
    } else {
        NodeAccess::None
    }
}
