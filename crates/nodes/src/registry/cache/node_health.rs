//! Health of cached nodes: heartbeats, backoff after failed calls and support of progress.

use std::time::Duration;

use tool::MonotonicTime;
use tool::node_registry::{HeartbeatState, NodeError, NodeHeartbeat, NodeStatus, ResolveError};

use super::{ReceivedHeartbeat, RegistryContext};

/// Timeout of a heartbeat, which nodes send every five seconds.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(20);

impl RegistryContext {
    pub(crate) fn record_heartbeat(
        &self,
        node: &str,
        heartbeat: HeartbeatState,
    ) -> Result<(), NodeError> {
        let received = ReceivedHeartbeat {
            heartbeat: NodeHeartbeat { state: heartbeat, received_at: self.clock.wall_now() },
            received_mono: self.clock.monotonic_now(),
        };
        let mut state = self.lock_cache();
        let node = state.nodes.get_mut(node).filter(|node| !node.tools.is_empty());
        node.ok_or(NodeError::NotFound)?.last_heartbeat = Some(received);
        Ok(())
    }

    /// Drains a node on behalf of an operator, or resumes it.
    pub(crate) fn set_drained(&self, node: &str, drained: bool) -> Result<(), NodeError> {
        let mut state = self.lock_cache();
        let node = state.nodes.get_mut(node).filter(|node| !node.tools.is_empty());
        node.ok_or(NodeError::NotFound)?.is_drained = drained;
        Ok(())
    }

    /// The state of a node: `draining` if an operator drained it, whatever it reports.
    pub(crate) fn heartbeat_state(&self, node: &str) -> Option<HeartbeatState> {
        let cache = self.lock_cache();
        let node = cache.nodes.get(node)?;
        let reported = node.last_heartbeat.map(|received| received.heartbeat.state);
        if node.is_drained { Some(HeartbeatState::Draining) } else { reported }
    }

    /// Whether the heartbeat of a node is overdue. A node that never sent one is not overdue.
    pub(crate) fn is_heartbeat_overdue(&self, node: &str) -> bool {
        let beat = self.lock_cache().nodes.get(node).and_then(|node| node.last_heartbeat);
        let now = self.clock.monotonic_now();
        beat.is_some_and(|beat| {
            now.saturating_duration_since(beat.received_mono) > HEARTBEAT_TIMEOUT
        })
    }

    /// Puts an unreachable node into backoff, so that others are tried first.
    pub(crate) fn back_off_node(&self, node: &str, until: MonotonicTime) {
        if let Some(node) = self.lock_cache().nodes.get_mut(node) {
            node.backoff_until = Some(until);
        }
    }

    /// Whether a node is tried before others: it was reachable at its last call, and its heartbeat
    /// is not overdue.
    pub(crate) fn is_preferred(&self, node: &str) -> bool {
        let backoff_until = self.lock_cache().nodes.get(node).and_then(|node| node.backoff_until);
        let backs_off = backoff_until.is_some_and(|until| self.clock.monotonic_now() < until);
        !backs_off && !self.is_heartbeat_overdue(node)
    }

    /// Whether a node supports calls with progress.
    pub(crate) fn supports_progress(&self, node: &str) -> bool {
        self.lock_cache().nodes.get(node).is_some_and(|node| !node.lacks_progress)
    }

    pub(crate) fn mark_progress_unsupported(&self, node: &str) {
        if let Some(node) = self.lock_cache().nodes.get_mut(node) {
            node.lacks_progress = true;
        }
    }

    pub(in crate::registry) fn node_status(
        &self,
        node_id: String,
        endpoint: impl FnOnce(&str) -> Result<String, ResolveError>,
    ) -> NodeStatus {
        let endpoint = endpoint(&node_id);
        let state = self.lock_cache();
        let node = state.nodes.get(&node_id);
        let (tool_count, received) =
            node.map_or((0, None), |node| (node.tools.len(), node.last_heartbeat));
        let connection_replaced_at = self.channels.reverse_connections.replaced_at(&node_id);
        NodeStatus {
            node_id,
            tool_count,
            last_heartbeat: received.map(|received| received.heartbeat),
            endpoint,
            connection_replaced_at,
            is_drained: node.is_some_and(|node| node.is_drained),
        }
    }
}
