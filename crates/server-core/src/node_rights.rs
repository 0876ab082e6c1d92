//! For which nodes a key speaks.

use identity::{Principal, Right};
use tool::Org;
use tool::node::Speaks;

/// For which nodes a key speaks. Those of other organisations have no say over this installation's.
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
