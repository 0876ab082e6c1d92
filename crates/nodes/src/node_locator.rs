//! Port that finds the addresses of nodes that the configuration does not list.

use std::fmt;

use tool::node_registry::ResolveError;

use crate::peer_events::PeerOutbox;

/// Finds the addresses of nodes.
pub trait NodeLocator: Send + Sync + fmt::Debug {
    /// Returns the cached URL of a node.
    ///
    /// # Errors
    /// [`ResolveError`].
    fn node_url(&self, node: &str) -> Result<String, ResolveError>;

    /// Sets the outbox through which other servers learn that a node address changed.
    fn set_outbox(&self, outbox: PeerOutbox);

    /// Reports that another server saw the address of a node change.
    fn mark_moved(&self, label: &str);
}
