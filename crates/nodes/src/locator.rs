//! The port that finds addresses of nodes which the configuration does not list.

use std::fmt;

use tool::node::Unresolved;

use crate::news::Outbox;

/// Finds the addresses of nodes.
pub trait NodeLocator: Send + Sync + fmt::Debug {
    /// The URL of a node, from memory.
    ///
    /// # Errors
    /// [`Unresolved`].
    fn url(&self, node: &str) -> Result<String, Unresolved>;

    /// From here on the other servers are told through `outbox` which nodes are no longer where they were.
    fn tell_to(&self, outbox: Outbox);

    /// Another server saw a node move.
    fn moved(&self, label: &str);
}
