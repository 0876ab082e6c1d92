//! Whose a name is: the first node's that took it, until a person frees it.

use tool::node::{NodeFault, NodeTool};
use tool::store::Expect;
use tool::{Json, StoreError};

use super::kept::{OWNER, OwnerRecord, print};
use super::{Registry, TRIES, busy};

impl Registry {
    /// Takes the name where nobody has it. Its owner may change the definition, others have the owner's
    /// or nothing.
    pub(super) async fn claim(&self, tool: &NodeTool) -> Result<(), NodeFault> {
        let (key, print) = (format!("{OWNER}{}", tool.name), print(tool));
        let mut fresh = false;
        for _ in 0..TRIES {
            let expect = match self.shared.owner(&tool.name) {
                None => Expect::Absent,
                Some((owner, _)) if owner.print == print => return Ok(()),
                Some((owner, version)) if owner.node == tool.node_id => Expect::Version(version),
                // Another server may have freed it.
                Some(_) if !fresh => {
                    self.shared.read_again(&key).await?;
                    fresh = true;
                    continue;
                }
                Some((owner, _)) => {
                    let name = tool.name.clone();
                    tracing::warn!(name, owner = owner.node, node = tool.node_id, "name refused");
                    return Err(NodeFault::Taken { name, owner: owner.node });
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
