//! Registration and removal of the tools of nodes: checks the definition, claims the name and writes
//! the record.

use tool::node_registry::{HeartbeatState, NodeAccess, NodeError, NodeRegistry as _, NodeTool};
use tool::store::WritePrecondition;
use tool::{Json, JsonLimits, StoreError, ToolName};

use super::records::{CachedTool, NODE_PREFIX, NodeRecord, document_id};
use super::{MAX_WRITE_ATTEMPTS, PersistentNodeRegistry, ToolRecord, contention_error, tool_key};
use crate::node_source::{pinned_definition, source_name};
use crate::peer_events::PeerEvent;

impl PersistentNodeRegistry {
    /// Registers a tool. A draining node that registers again is serving at once, before its next
    /// heartbeat.
    pub(super) async fn store_registration(
        &self,
        access: &NodeAccess,
        tool: NodeTool,
    ) -> Result<String, NodeError> {
        let node = tool.node_id.clone();
        let id = self.put_tool(access, tool).await?;
        if self.context.heartbeat_state(&node) == Some(HeartbeatState::Draining) {
            self.record_heartbeat(access, &node, HeartbeatState::Serving)?;
        }
        Ok(id)
    }

    async fn put_tool(&self, access: &NodeAccess, tool: NodeTool) -> Result<String, NodeError> {
        if !access.allows_node(&tool.node_id) {
            return Err(NodeError::NotAuthorized(tool.node_id));
        }
        check_definition(&tool)?;
        let tool = self.context.store.normalize_tool(tool).map_err(NodeError::InvalidDocument)?;
        self.context.check_capacity(&tool)?;
        self.ensure_node_record(&tool.node_id).await?;
        self.claim_name(&tool).await?;
        let key = tool_key(&tool.node_id, &tool.name);
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let cached = self.context.get_tool(&tool.node_id, &tool.name);
            let (sequence, expect) = match &cached {
                Some(cached) if cached.tool == tool => return Ok(cached.id.clone()),
                Some(cached) => (cached.sequence, WritePrecondition::Version(cached.version)),
                None => (self.context.next_sequence(), WritePrecondition::Absent),
            };
            let id = document_id(&tool.node_id, &tool.name);
            let document = ToolRecord { id: id.clone(), sequence, tool: tool.clone() };
            let bytes = Json::encode(&document).bytes().clone();
            match self.context.store.put_record(&key, expect, Some(bytes)).await {
                Ok(version) => {
                    tracing::info!(node = tool.node_id, tool = tool.name, "node tool registered");
                    self.context.upsert_tool(CachedTool {
                        id: id.clone(),
                        sequence,
                        version,
                        tool,
                    });
                    self.context.outbox.send_event(|| PeerEvent::ToolChanged(key.clone()));
                    return Ok(id);
                }
                Err(StoreError::Conflict { .. }) => self.context.reload_key(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeError::Unavailable(why)),
            }
        }
        Err(contention_error(&key))
    }

    /// Stores when a node first registered.
    async fn ensure_node_record(&self, node: &str) -> Result<(), NodeError> {
        if self.context.has_node(node) {
            return Ok(());
        }
        let sequence = self.context.next_sequence();
        let bytes = Json::encode(&NodeRecord { sequence }).bytes().clone();
        let key = format!("{NODE_PREFIX}{node}");
        match self.context.store.put_record(&key, WritePrecondition::Absent, Some(bytes)).await {
            Ok(_) => {
                self.context.add_node(node, sequence);
                Ok(())
            }
            Err(StoreError::Conflict { .. }) => self.context.reload_key(&key).await,
            Err(StoreError::Unavailable(why)) => Err(NodeError::Unavailable(why)),
        }
    }

    /// Removes a tool. Access to all nodes also releases the name.
    pub(super) async fn unregister_tool(
        &self,
        access: &NodeAccess,
        node: &str,
        name: &str,
    ) -> Result<(), NodeError> {
        if !access.allows_node(node) {
            return Err(NodeError::NotAuthorized(node.to_owned()));
        }
        let was_released = *access == NodeAccess::All && self.release_name(node, name).await?;
        let key = tool_key(node, name);
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let Some(cached) = self.context.get_tool(node, name) else {
                return if was_released { Ok(()) } else { Err(NodeError::NotFound) };
            };
            match self
                .context
                .store
                .put_record(&key, WritePrecondition::Version(cached.version), None)
                .await
            {
                Ok(_) => {
                    tracing::info!(node, tool = name, "node tool removed");
                    self.context.remove_tool(node, name);
                    self.context.outbox.send_event(|| PeerEvent::ToolChanged(key.clone()));
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => self.context.reload_key(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeError::Unavailable(why)),
            }
        }
        Err(contention_error(&key))
    }
}

/// Checks the fields and the size of a tool definition.
fn check_definition(tool: &NodeTool) -> Result<(), NodeError> {
    let invalid_field =
        |field: &str, why: String| NodeError::InvalidDocument(format!("`{field}`: {why}"));
    source_name(&tool.node_id).map_err(|error| invalid_field("node_id", error.to_string()))?;
    ToolName::new(&tool.name).map_err(|error| invalid_field("name", error.to_string()))?;
    for (field, json) in [("input_spec", &tool.input_spec), ("metadata", &tool.metadata)] {
        if json.kind() != "object" {
            return Err(invalid_field(field, format!("it must be an object, not {}", json.kind())));
        }
    }
    if let Some(declared_id) = tool.metadata.get("node_id")
        && declared_id.string_value().as_deref() != Some(&tool.node_id)
    {
        return Err(invalid_field("metadata", "its `node_id` differs from the tool's".to_owned()));
    }
    let encoded = pinned_definition(tool).bytes().clone();
    Json::parse(encoded, JsonLimits::DEFINITION)
        .map_err(|error| NodeError::InvalidDocument(format!("the definition: {error}")))?;
    Ok(())
}
