//! What is known, in memory, with the store behind it.

mod rows;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use egress::Egress;
use tokio::sync::watch;
use tool::node::{Beat, NodeFault, NodeState, NodeTool, Stale, Unresolved};
use tool::{Clock, Map, Mono, Revision, Version, Wall};

use super::follow::Reading;
use super::kept::{Kept, OwnerRecord};
use super::{MOST_NODES, MOST_TOOLS};
use crate::certificates::Certificates;
use crate::keep::Keep;
use crate::line::Lines;
use crate::news::{News, Outbox};
use crate::source::ReadOnly;
use node_addresses::Sharing;

/// A node that says every five seconds that it lives is late after so long.
const LATE: Duration = Duration::from_secs(20);

/// What the registry, its sources and their executors share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) keep: Arc<dyn Keep>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lines: Lines,
    pub(crate) read_only: ArcSwap<ReadOnly>,
    pub(crate) sharing: ArcSwap<Sharing>,
    pub(crate) certificates: Arc<Certificates>,
    state: Mutex<State>,
    pub(super) reading: Reading,
    /// What other servers are told.
    pub(crate) outbox: Outbox,
    /// The other servers, until somebody follows them.
    pub(crate) news: tokio::sync::Mutex<Option<News>>,
    /// Counts the nodes that came.
    pub(super) set: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    nodes: Map<String, Node>,
    owners: HashMap<String, (OwnerRecord, Version)>,
    /// The last number that ordered something.
    last: u64,
    /// Since when, and why, all this is only remembered.
    stale: Option<Stale>,
}

#[derive(Debug)]
struct Node {
    created: u64,
    tools: BTreeMap<String, Kept>,
    /// Counts its changes.
    revision: watch::Sender<u64>,
    beat: Option<(Beat, Wall, Mono)>,
    /// It has spec 4's calls and no others.
    plain: bool,
    /// Until when it is called last, because it could not be reached.
    rests: Option<Mono>,
    /// Names that were refused to it, each with why: a node that tries again is logged once.
    refused: BTreeMap<String, String>,
}

impl Shared {
    pub(super) fn new(keep: Arc<dyn Keep>, egress: Egress, clock: Arc<dyn Clock>) -> Self {
        let (state, set) = (Mutex::default(), watch::Sender::new(0));
        let certificates = Arc::new(Certificates::new(Arc::clone(&clock)));
        let lines = Lines::new(egress, Arc::clone(&certificates), &clock);
        let reading = Reading::default();
        let (outbox, news) = (Outbox::default(), tokio::sync::Mutex::default());
        let (read_only, sharing) = (ArcSwap::default(), ArcSwap::default());
        Self {
            keep,
            clock,
            lines,
            read_only,
            sharing,
            certificates,
            state,
            reading,
            outbox,
            news,
            set,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the connections of a node that is not to be called any more.
    pub(super) fn cut_if_revoked(&self, node: &str) {
        if let Err(why) = self.certificates.check_node(node) {
            tracing::info!(node, why, "connections of the node are cut");
            self.lines.cut(node);
        }
    }

    /// Since when, and why, what is served is only remembered.
    pub(crate) fn stale(&self) -> Option<Stale> {
        self.lock().stale.clone()
    }

    /// From here on what is served is remembered only, or, with `None`, what stands in the store. Told
    /// once, and every source is listed anew.
    pub(super) fn set_stale(&self, why: Option<String>) {
        let now = self.clock.wall();
        let mut state = self.lock();
        let stale = why
            .map(|why| Stale { since: state.stale.as_ref().map_or(now, |stale| stale.since), why });
        if stale == state.stale {
            return;
        }
        if let Some(Stale { why, .. }) = &stale {
            tracing::warn!(why, "the nodes' registry is served from memory");
        } else {
            tracing::info!("the nodes' registry is up to date again");
        }
        state.stale = stale;
        for node in state.nodes.values() {
            node.revision.send_modify(|count| *count += 1);
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
        if new {
            // Names that begin with its id are its own from here on.
            let prefix = format!("{node}.");
            state.relist(|other, tools| {
                let mut after = tools.range(prefix.clone()..);
                other != node && after.next().is_some_and(|(name, _)| name.starts_with(&prefix))
            });
        }
        drop(state);
        if new {
            self.set.send_modify(|count| *count += 1);
        }
    }

    /// Remembers what was written, where nothing newer is remembered.
    pub(super) fn took(&self, kept: Kept) {
        let version = kept.version;
        self.took_where(kept, |old| old.is_none_or(|old| old < version));
    }

    fn took_where(&self, kept: Kept, holds: impl Fn(Option<Version>) -> bool) {
        let mut state = self.lock();
        state.last = state.last.max(kept.created);
        let known = state.nodes.contains_key(&kept.tool.node_id);
        let created = kept.created;
        let node = state.nodes.entry(kept.tool.node_id.clone());
        let node = node.or_insert_with(|| Node::since(created));
        let old = node.tools.get(&kept.tool.name);
        let same = old.is_some_and(|old| old.version == kept.version);
        if !same && holds(old.map(|old| old.version)) {
            node.refused.remove(&kept.tool.name);
            node.tools.insert(kept.tool.name.clone(), kept);
            node.revision.send_modify(|count| *count += 1);
        }
        drop(state);
        if !known {
            self.set.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn lost(&self, node: &str, name: &str) {
        self.lost_where(node, name, |_| true);
    }

    fn lost_where(&self, node: &str, name: &str, holds: impl Fn(Option<Version>) -> bool) {
        let mut state = self.lock();
        let Some(node) = state.nodes.get_mut(node) else { return };
        let there = node.tools.get(name).map(|kept| kept.version);
        if holds(there) && node.tools.remove(name).is_some() {
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
            state.set_owner(name, Some((owner, version)));
        }
    }

    pub(super) fn disowned(&self, name: &str) {
        self.lock().set_owner(name, None);
    }

    /// The known node with whose id and a dot a name begins; the longest such id, where ids have dots.
    pub(super) fn owner_by_prefix(&self, name: &str) -> Option<String> {
        let state = self.lock();
        let mut ids = name.rmatch_indices('.').filter_map(|(at, _)| name.get(..at));
        ids.find(|id| state.nodes.contains_key(*id)).map(str::to_owned)
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

    /// Logs that a name was refused to a node. A node tries again every few seconds: the same refusal is
    /// logged once. Whether it was logged.
    pub(super) fn refused(&self, tool: &NodeTool, fault: &NodeFault) -> bool {
        let (name, node, why) = (&tool.name, &tool.node_id, fault.to_string());
        if let Some(known) = self.lock().nodes.get_mut(node) {
            if known.refused.get(name) == Some(&why) {
                return false;
            }
            if known.refused.len() >= MOST_TOOLS {
                known.refused.clear();
            }
            known.refused.insert(name.clone(), why.clone());
        }
        tracing::warn!(name, node, why, "name refused");
        true
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

    pub(crate) fn beaten(&self, node: &str, beat: Beat) -> Result<(), NodeFault> {
        let (wall, mono) = (self.clock.wall(), self.clock.mono());
        let mut state = self.lock();
        let node = state.nodes.get_mut(node).filter(|node| !node.tools.is_empty());
        node.ok_or(NodeFault::Missing)?.beat = Some((beat, wall, mono));
        Ok(())
    }

    pub(crate) fn beat_of(&self, node: &str) -> Option<Beat> {
        Some(self.lock().nodes.get(node)?.beat?.0)
    }

    /// Whether it said that it lives, and has been silent since. One that never said so is not late.
    pub(crate) fn is_late(&self, node: &str) -> bool {
        let beat = self.lock().nodes.get(node).and_then(|node| node.beat);
        beat.is_some_and(|(_, _, at)| self.clock.mono().since(at) > LATE)
    }

    /// It could not be reached: until then others are called before it.
    pub(crate) fn rest(&self, node: &str, until: Mono) {
        if let Some(node) = self.lock().nodes.get_mut(node) {
            node.rests = Some(until);
        }
    }

    /// Whether a node is called before others: it could be reached when it was called last, and is not
    /// late.
    pub(crate) fn is_preferred(&self, node: &str) -> bool {
        let rests = self.lock().nodes.get(node).and_then(|node| node.rests);
        let rests = rests.is_some_and(|until| self.clock.mono() < until);
        !rests && !self.is_late(node)
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
        let beat = beat.map(|(beat, wall, _)| (beat, wall));
        let replaced = self.lines.dialled.replaced(&node_id);
        NodeState { node_id, tools, beat, endpoint, replaced }
    }
}

impl State {
    /// Puts the owner of a name in; who else has a tool of that name is listed anew.
    fn set_owner(&mut self, name: &str, owner: Option<(OwnerRecord, Version)>) {
        let now = owner.as_ref().map(|(owner, _)| owner.clone());
        let before = match owner {
            Some(owner) => self.owners.insert(name.to_owned(), owner),
            None => self.owners.remove(name),
        };
        if before.map(|(before, _)| before) != now {
            let own = now.map(|owner| owner.node);
            self.relist(|node, tools| own.as_deref() != Some(node) && tools.contains_key(name));
        }
    }

    fn relist(&self, concerns: impl Fn(&str, &BTreeMap<String, Kept>) -> bool) {
        for (_, node) in self.nodes.iter().filter(|(id, node)| concerns(id, &node.tools)) {
            node.revision.send_modify(|count| *count += 1);
        }
    }
}

impl Node {
    fn since(created: u64) -> Self {
        let (tools, revision) = (BTreeMap::new(), watch::Sender::new(1));
        Self {
            created,
            tools,
            revision,
            beat: None,
            plain: false,
            rests: None,
            refused: BTreeMap::new(),
        }
    }
}
