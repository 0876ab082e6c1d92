//! Ownership of tool names. A name belongs to the node whose id it begins with, else to the first
//! node that registers it, until a person releases it. Other nodes may register it only if it is
//! shared.

use tool::node_registry::{NodeError, NodeTool};
use tool::store::WritePrecondition;
use tool::{Json, StoreError};

use super::cache::{NameOwner, RegistryContext};
use super::records::{OWNER_PREFIX, OwnerRecord, definition_hash};
use super::{MAX_WRITE_ATTEMPTS, PersistentNodeRegistry, contention_error};

/// The metadata field with which the owner shares a tool with other nodes.
const SHARED_FIELD: &str = "shared";

/// Whether the definition declares the tool as shared. Nodes with an equal definition declare the
/// same.
fn is_declared_shared(tool: &NodeTool) -> bool {
    tool.metadata.get(SHARED_FIELD).is_some_and(|said| said.as_str() == "true")
}

impl RegistryContext {
    /// Checks whether a node may have this tool: at registration, and whenever its tools are
    /// listed.
    ///
    /// # Errors
    /// [`NodeError::Reserved`], [`NodeError::NameTaken`] and [`NodeError::NotShared`].
    pub(crate) fn check_name_use(&self, tool: &NodeTool) -> Result<(), NodeError> {
        let name = tool.name.clone();
        let by_prefix = self.owner_by_prefix(&tool.name);
        if let Some(owner) = by_prefix {
            let is_owner = owner == tool.node_id;
            return if is_owner { Ok(()) } else { Err(NodeError::Reserved { name, owner }) };
        }
        match self.name_owner(&tool.name) {
            Some(NameOwner { record: owner, .. }) if owner.node != tool.node_id => {
                if owner.definition_hash != definition_hash(tool) {
                    return Err(NodeError::NameTaken { name, owner: owner.node });
                }
                let is_shared =
                    is_declared_shared(tool) || self.sharing.load().allows_name(&tool.name);
                if is_shared {
                    Ok(())
                } else {
                    Err(NodeError::NotShared { name, owner: owner.node })
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns the effective owner of a name.
    pub(crate) fn effective_owner(&self, tool: &NodeTool) -> String {
        let taken = || Some(self.name_owner(&tool.name)?.record.node);
        let owner = self.owner_by_prefix(&tool.name).or_else(taken);
        owner.unwrap_or_else(|| tool.node_id.clone())
    }
}

impl PersistentNodeRegistry {
    /// Claims a name. Its owner may change the definition; other nodes must match it, and the name
    /// must be shared. A node that owns the name by its prefix takes it from any other owner.
    pub(super) async fn claim_name(&self, tool: &NodeTool) -> Result<(), NodeError> {
        let (key, definition_hash) =
            (format!("{OWNER_PREFIX}{}", tool.name), definition_hash(tool));
        let by_prefix = self.context.owner_by_prefix(&tool.name).is_some();
        let mut was_reloaded = false;
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let check = self.context.check_name_use(tool);
            let expect = match (self.context.name_owner(&tool.name), check) {
                (None, Ok(())) => WritePrecondition::Absent,
                (Some(NameOwner { record: owner, version }), Ok(())) => {
                    let is_owner = owner.node == tool.node_id;
                    if owner.definition_hash == definition_hash && (is_owner || !by_prefix) {
                        return Ok(());
                    }
                    WritePrecondition::Version(version)
                }
                // Another server may have released it.
                (Some(_), Err(NodeError::NameTaken { .. } | NodeError::NotShared { .. }))
                    if !was_reloaded =>
                {
                    self.context.reload_key(&key).await?;
                    was_reloaded = true;
                    continue;
                }
                (_, Err(fault)) => {
                    self.context.log_refusal(tool, &fault);
                    return Err(fault);
                }
            };
            let record = OwnerRecord {
                node: tool.node_id.clone(),
                definition_hash: definition_hash.clone(),
            };
            let bytes = Json::encode(&record).bytes().clone();
            match self.context.store.put_record(&key, expect, Some(bytes)).await {
                Ok(version) => {
                    self.context.record_owner(&tool.name, NameOwner { record, version });
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {
                    self.context.reload_key(&key).await?;
                    was_reloaded = true;
                }
                Err(StoreError::Unavailable(why)) => return Err(NodeError::Unavailable(why)),
            }
        }
        Err(contention_error(&key))
    }

    /// Releases a name if this node owns it. Returns whether it did.
    pub(super) async fn release_name(&self, node: &str, name: &str) -> Result<bool, NodeError> {
        let key = format!("{OWNER_PREFIX}{name}");
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let version = match self.context.name_owner(name) {
                Some(owner) if owner.record.node == node => owner.version,
                _ => return Ok(false),
            };
            match self
                .context
                .store
                .put_record(&key, WritePrecondition::Version(version), None)
                .await
            {
                Ok(_) => {
                    self.context.clear_owner(name);
                    return Ok(true);
                }
                Err(StoreError::Conflict { .. }) => self.context.reload_key(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeError::Unavailable(why)),
            }
        }
        Err(contention_error(&key))
    }
}
