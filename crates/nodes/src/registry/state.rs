//! What is known, in memory, with the store behind it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use guard::egress::Egress;
use tokio::sync::watch;
use tool::node::{Beat, NodeFault, NodeState, NodeTool, Unresolved};
use tool::{Clock, Json, Limits, Revision, Store, StoreError, Version, Versioned, Wall};

use super::kept::{Document, Kept, NODE, NodeRecord, OWNER, OwnerRecord, TOOL};
use super::{MOST_NODES, MOST_TOOLS};
use crate::line::Lines;

/// Values of one look into the store.
const PAGE: usize = 1_000;

/// What the registry, its sources and their executors share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lines: Lines,
    state: Mutex<State>,
    /// Counts the nodes that came.
    pub(super) set: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<String, Node>,
    owners: HashMap<String, (OwnerRecord, Version)>,
    /// The last number that ordered something.
    last: u64,
}

#[derive(Debug)]
struct Node {
    created: u64,
    tools: BTreeMap<String, Kept>,
    /// Counts its changes.
    revision: watch::Sender<u64>,
    beat: Option<(Beat, Wall)>,
    /// It has spec 4's calls and no others.
    plain: bool,
}

impl Shared {
    pub(super) fn new(store: Arc<dyn Store>, egress: Egress, clock: Arc<dyn Clock>) -> Self {
        let (state, set) = (Mutex::default(), watch::Sender::new(0));
        Self { store, clock, lines: Lines::new(egress), state, set }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all that is kept.
    pub(super) async fn load(&self) -> Result<(), StoreError> {
        for prefix in [NODE, OWNER, TOOL] {
            let mut after: Option<String> = None;
            loop {
                let page = self.store.scan(prefix, after.as_deref(), PAGE).await?;
                let full = page.len() >= PAGE;
                after = page.last().map(|row| row.key.clone());
                for row in &page {
                    self.take(row);
                }
                if !full {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads one key anew, because somebody else wrote it.
    pub(super) async fn read_again(&self, key: &str) -> Result<(), NodeFault> {
        let row = self.store.get(key).await;
        match row.map_err(|error| NodeFault::Unavailable(error.to_string()))? {
            Some(row) => self.take(&row),
            None => self.forget(key),
        }
        Ok(())
    }

    /// What cannot be read is told and left alone: a newer Toolkeep may have written it.
    fn take(&self, row: &Versioned) {
        let read = || -> Option<()> {
            let json = Json::check(row.bytes.clone(), Limits::DOCUMENT).ok()?;
            if let Some(node) = row.key.strip_prefix(NODE) {
                let NodeRecord { created } = json.read().ok()?;
                self.entered(node, created);
            } else if let Some(name) = row.key.strip_prefix(OWNER) {
                self.owned(name, json.read().ok()?, row.version);
            } else {
                let Document { id, created, tool } = json.read().ok()?;
                self.took(Kept { id, created, version: row.version, tool });
            }
            Some(())
        };
        if read().is_none() {
            tracing::warn!(key = row.key, "a record of the nodes' registry cannot be read");
        }
    }

    fn forget(&self, key: &str) {
        if let Some(name) = key.strip_prefix(OWNER) {
            self.disowned(name);
        } else if let Some((node, name)) = key.strip_prefix(TOOL).and_then(|at| at.split_once('/'))
        {
            self.lost(node, name);
        }
    }

    /// A number above all before it: the time, where that goes forwards.
    pub(super) fn next(&self) -> u64 {
        let now = self.clock.wall().0;
        let mut state = self.lock();
        state.last = now.max(state.last + 1);
        state.last
    }

    pub(super) fn entered(&self, node: &str, created: u64) {
        let mut state = self.lock();
        state.last = state.last.max(created);
        let new = !state.nodes.contains_key(node);
        state.nodes.entry(node.to_owned()).or_insert_with(|| Node::since(created)).created =
            created;
        drop(state);
        if new {
            self.set.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn took(&self, kept: Kept) {
        let mut state = self.lock();
        state.last = state.last.max(kept.created);
        let known = state.nodes.contains_key(&kept.tool.node_id);
        let created = kept.created;
        let node = state.nodes.entry(kept.tool.node_id.clone());
        let node = node.or_insert_with(|| Node::since(created));
        let newer = node.tools.get(&kept.tool.name).is_none_or(|old| old.version < kept.version);
        if newer {
            node.tools.insert(kept.tool.name.clone(), kept);
            node.revision.send_modify(|count| *count += 1);
        }
        drop(state);
        if !known {
            self.set.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn lost(&self, node: &str, name: &str) {
        let mut state = self.lock();
        let Some(node) = state.nodes.get_mut(node) else { return };
        if node.tools.remove(name).is_some() {
            node.revision.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn owner(&self, name: &str) -> Option<(OwnerRecord, Version)> {
        self.lock().owners.get(name).cloned()
    }

    pub(super) fn owned(&self, name: &str, owner: OwnerRecord, version: Version) {
        let mut state = self.lock();
        let newer = state.owners.get(name).is_none_or(|(_, old)| *old < version);
        if newer {
            state.owners.insert(name.to_owned(), (owner, version));
        }
    }

    pub(super) fn disowned(&self, name: &str) {
        self.lock().owners.remove(name);
    }

    pub(super) fn kept(&self, node: &str, name: &str) -> Option<Kept> {
        self.lock().nodes.get(node)?.tools.get(name).cloned()
    }

    pub(super) fn is_known(&self, node: &str) -> bool {
        self.lock().nodes.contains_key(node)
    }

    /// Whether there is room for one more.
    pub(super) fn room(&self, tool: &NodeTool) -> Result<(), NodeFault> {
        let state = self.lock();
        match state.nodes.get(&tool.node_id) {
            None if state.nodes.len() >= MOST_NODES => {
                Err(NodeFault::Full(format!("there are {MOST_NODES} nodes already")))
            }
            Some(node)
                if node.tools.len() >= MOST_TOOLS && !node.tools.contains_key(&tool.name) =>
            {
                Err(NodeFault::Full(format!("the node has {MOST_TOOLS} tools already")))
            }
            _ => Ok(()),
        }
    }

    /// Ids, in the order of their first registration.
    pub(super) fn known(&self) -> Vec<String> {
        let state = self.lock();
        let mut nodes: Vec<_> = state.nodes.iter().map(|(id, node)| (node.created, id)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// A node's tools, in the order of their registration, and which state of it that is.
    pub(crate) fn listed(&self, node: &str) -> (Revision, Vec<NodeTool>) {
        let state = self.lock();
        let Some(node) = state.nodes.get(node) else { return (Revision(0), Vec::new()) };
        let mut tools: Vec<_> = node.tools.values().collect();
        tools.sort_by_key(|kept| kept.created);
        let tools = tools.into_iter().map(|kept| kept.tool.clone()).collect();
        (Revision(*node.revision.borrow()), tools)
    }

    /// Resolves when a node is another than it was.
    pub(crate) async fn changed(&self, node: &str, seen: Revision) -> Revision {
        let revision = self.lock().nodes.get(node).map(|node| node.revision.subscribe());
        if let Some(mut revision) = revision
            && let Ok(now) = revision.wait_for(|now| *now != seen.0).await
        {
            return Revision(*now);
        }
        std::future::pending().await
    }

    pub(super) fn beaten(&self, node: &str, beat: Beat) -> Result<(), NodeFault> {
        let now = self.clock.wall();
        let mut state = self.lock();
        let node = state.nodes.get_mut(node).filter(|node| !node.tools.is_empty());
        node.ok_or(NodeFault::Missing)?.beat = Some((beat, now));
        Ok(())
    }

    pub(crate) fn beat_of(&self, node: &str) -> Option<Beat> {
        Some(self.lock().nodes.get(node)?.beat?.0)
    }

    /// Whether a node may have calls with progress.
    pub(crate) fn may_tell(&self, node: &str) -> bool {
        self.lock().nodes.get(node).is_some_and(|node| !node.plain)
    }

    pub(crate) fn tells_nothing(&self, node: &str) {
        if let Some(node) = self.lock().nodes.get_mut(node) {
            node.plain = true;
        }
    }

    pub(super) fn state_of(
        &self,
        node_id: String,
        endpoint: impl FnOnce(&str) -> Result<String, Unresolved>,
    ) -> NodeState {
        let endpoint = endpoint(&node_id);
        let state = self.lock();
        let node = state.nodes.get(&node_id);
        let (tools, beat) = node.map_or((0, None), |node| (node.tools.len(), node.beat));
        NodeState { node_id, tools, beat, endpoint }
    }
}

impl Node {
    fn since(created: u64) -> Self {
        let (tools, revision) = (BTreeMap::new(), watch::Sender::new(1));
        Self { created, tools, revision, beat: None, plain: false }
    }
}
