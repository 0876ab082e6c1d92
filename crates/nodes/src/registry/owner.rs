//! Whose a name is: the node's whose id it begins with, else the first node's that took it, until a person
//! frees it. Other nodes have a tool of that name only where it is shared.

use tool::node::{NodeFault, NodeTool};
use tool::store::Expect;
use tool::{Json, StoreError};

use super::kept::{OWNER, OwnerRecord, print};
use super::state::Shared;
use super::{Registry, TRIES, busy};

/// In a tool's metadata: with `true` its owner lets other nodes have the same tool.
const SHARED: &str = "shared";

/// Whether its owner says that other nodes may have the same tool. Who has the same definition says the
/// same.
fn is_declared_shared(tool: &NodeTool) -> bool {
    tool.metadata.get(SHARED).is_some_and(|said| said.as_str() == "true")
}

impl Shared {
    /// Whether a node may have this tool, as far as is known: asked when it is registered, and again
    /// whenever the node's tools are listed.
    ///
    /// # Errors
    /// [`NodeFault::Reserved`], [`NodeFault::Taken`] and [`NodeFault::Unshared`].
    pub(crate) fn may_have(&self, tool: &NodeTool) -> Result<(), NodeFault> {
        let name = tool.name.clone();
        let by_prefix = self.owner_by_prefix(&tool.name);
        if let Some(owner) = by_prefix {
            let own = owner == tool.node_id;
            return if own { Ok(()) } else { Err(NodeFault::Reserved { name, owner }) };
        }
        match self.owner(&tool.name) {
            Some((owner, _)) if owner.node != tool.node_id => {
                if owner.print != print(tool) {
                    return Err(NodeFault::Taken { name, owner: owner.node });
                }
                let shared = is_declared_shared(tool) || self.sharing.load().allows(&tool.name);
                if shared { Ok(()) } else { Err(NodeFault::Unshared { name, owner: owner.node }) }
            }
            _ => Ok(()),
        }
    }

    /// The node whose word counts for a name.
    pub(crate) fn owner_of(&self, tool: &NodeTool) -> String {
        let taken = || Some(self.owner(&tool.name)?.0.node);
        let owner = self.owner_by_prefix(&tool.name).or_else(taken);
        owner.unwrap_or_else(|| tool.node_id.clone())
    }
}

impl Registry {
    /// Takes the name where nobody has it. Its owner may change the definition; others have the owner's
    /// where it is shared, or nothing. Who has a name by its prefix takes it from whoever has it.
    pub(super) async fn claim(&self, tool: &NodeTool) -> Result<(), NodeFault> {
        let (key, print) = (format!("{OWNER}{}", tool.name), print(tool));
        let by_prefix = self.shared.owner_by_prefix(&tool.name).is_some();
        let mut fresh = false;
        for _ in 0..TRIES {
            let may = self.shared.may_have(tool);
            let expect = match (self.shared.owner(&tool.name), may) {
                (None, Ok(())) => Expect::Absent,
                (Some((owner, version)), Ok(())) => {
                    let own = owner.node == tool.node_id;
                    if owner.print == print && (own || !by_prefix) {
                        return Ok(());
                    }
                    Expect::Version(version)
                }
                // Another server may have freed it.
                (Some(_), Err(NodeFault::Taken { .. } | NodeFault::Unshared { .. })) if !fresh => {
                    self.shared.read_again(&key).await?;
                    fresh = true;
                    continue;
                }
                (_, Err(fault)) => {
                    self.shared.refused(tool, &fault);
                    return Err(fault);
                }
            };
            let owner = OwnerRecord { node: tool.node_id.clone(), print: print.clone() };
            let bytes = Json::of(&owner).bytes().clone();
            match self.shared.keep.put(&key, expect, Some(bytes)).await {
                Ok(version) => {
                    self.shared.owned(&tool.name, owner, version);
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {
                    self.shared.read_again(&key).await?;
                    fresh = true;
                }
                Err(StoreError::Unavailable(why)) => return Err(NodeFault::Unavailable(why)),
            }
        }
        Err(busy(&key))
    }

    /// Gives a name back, where it is this node's. Whether it was.
    pub(super) async fn free(&self, node: &str, name: &str) -> Result<bool, NodeFault> {
        let key = format!("{OWNER}{name}");
        for _ in 0..TRIES {
            let version = match self.shared.owner(name) {
                Some((owner, version)) if owner.node == node => version,
                _ => return Ok(false),
            };
            match self.shared.keep.put(&key, Expect::Version(version), None).await {
                Ok(_) => {
                    self.shared.disowned(name);
                    return Ok(true);
                }
                Err(StoreError::Conflict { .. }) => self.shared.read_again(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeFault::Unavailable(why)),
            }
        }
        Err(busy(&key))
    }
}
