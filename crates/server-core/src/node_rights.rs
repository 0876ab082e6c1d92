//! The right of a key to act for a node.

use identity::{Principal, Right};
use tool::Org;
use tool::node::Speaks;

/// Which nodes a key may act for. Keys of other organizations have no access to the nodes of this
/// installation.
pub fn speaks(principal: &Principal) -> Speaks {
    if *principal.org() != Org::default() {
        Speaks::None
    } else if principal.may(Right::NodesWrite) {
        Speaks::All
    } else if principal.may(Right::NodesRegister) {
        Speaks::For(principal.subject().to_owned())
    } else {
        Speaks::None
    }
}
