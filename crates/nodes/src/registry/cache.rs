//! In-memory cache of the registry: nodes, tools and owners of names, with the store behind it.

mod node_health;
mod stored_rows;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use egress::EgressClient;
use option_types::ToolSelection;
use tokio::sync::watch;
use tool::node_registry::{NodeError, NodeHeartbeat, NodeTool, RegistryStaleness};
use tool::{Clock, FastMap, MonotonicTime, SourceRevision, Version};

use super::records::{CachedTool, OwnerRecord};
use super::sync::InFlightReads;
use super::{MAX_NODES, MAX_TOOLS_PER_NODE};
use crate::certificate_index::CertificateIndex;
use crate::node_channels::NodeChannels;
use crate::peer_events::{PeerLink, PeerOutbox};
use crate::registry_store::RegistryStore;
use node_addresses::SharedNames;

/// The state that the registry, its sources and their executors share.
#[derive(Debug)]
pub(crate) struct RegistryContext {
    pub(crate) store: Arc<dyn RegistryStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) channels: NodeChannels,
    pub(crate) read_only: ArcSwap<ToolSelection>,
    pub(crate) sharing: ArcSwap<SharedNames>,
    pub(crate) certificates: Arc<CertificateIndex>,
    cache: Mutex<RegistryCache>,
    pub(super) in_flight_reads: InFlightReads,
    /// Events to other servers.
    pub(crate) outbox: PeerOutbox,
    /// The link to other servers, until its task takes it.
    pub(crate) peer_link: tokio::sync::Mutex<Option<PeerLink>>,
    /// Incremented for each new node.
    pub(super) node_set_version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct RegistryCache {
    nodes: FastMap<String, CachedNode>,
    owners: HashMap<String, NameOwner>,
    /// The last sequence number.
    last_sequence: u64,
    /// Since when, and why, the cache is stale.
    stale: Option<RegistryStaleness>,
}

/// Owner of a tool name, as it is stored.
#[derive(Debug, Clone)]
pub(super) struct NameOwner {
    pub(super) record: OwnerRecord,
    pub(super) version: Version,
}

/// Heartbeat of a node, with the time of its receipt on the clock that does not jump.
#[derive(Debug, Clone, Copy)]
struct ReceivedHeartbeat {
    heartbeat: NodeHeartbeat,
    received_mono: MonotonicTime,
}

#[derive(Debug)]
struct CachedNode {
    sequence: u64,
    tools: BTreeMap<String, CachedTool>,
    /// Incremented for each change of the node.
    revision: watch::Sender<u64>,
    last_heartbeat: Option<ReceivedHeartbeat>,
    /// Whether an operator drained it.
    is_drained: bool,
    /// Whether the node has only the calls of the cluster tools, without progress.
    lacks_progress: bool,
    /// The time until which the unreachable node is tried last.
    backoff_until: Option<MonotonicTime>,
    /// Refused names with reasons, so that a repeated refusal is logged once.
    refused_names: BTreeMap<String, String>,
}

impl RegistryContext {
    pub(super) fn new(
        store: Arc<dyn RegistryStore>,
        egress: EgressClient,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (cache, node_set_version) = (Mutex::default(), watch::Sender::new(0));
        let certificates = Arc::new(CertificateIndex::new(Arc::clone(&clock)));
        let channels = NodeChannels::new(egress, Arc::clone(&certificates), &clock);
        let in_flight_reads = InFlightReads::default();
        let (outbox, peer_link) = (PeerOutbox::default(), tokio::sync::Mutex::default());
        let (read_only, sharing) = (ArcSwap::default(), ArcSwap::default());
        Self {
            store,
            clock,
            channels,
            read_only,
            sharing,
            certificates,
            cache,
            in_flight_reads,
            outbox,
            peer_link,
            node_set_version,
        }
    }

    fn lock_cache(&self) -> MutexGuard<'_, RegistryCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections of a node that may no longer be called.
    pub(super) fn cut_if_revoked(&self, node: &str) {
        if let Err(why) = self.certificates.check_node(node) {
            tracing::info!(node, why, "connections of the node are closed");
            self.channels.cut_node(node);
        }
    }

    /// Returns since when, and why, the cache is stale.
    pub(crate) fn staleness(&self) -> Option<RegistryStaleness> {
        self.lock_cache().stale.clone()
    }

    /// Marks the cache as stale, or as current with `None`. A change is logged once, and every
    /// source is listed again.
    pub(super) fn set_staleness(&self, reason: Option<String>) {
        let now = self.clock.wall_now();
        let mut state = self.lock_cache();
        let stale = reason.map(|reason| RegistryStaleness {
            since: state.stale.as_ref().map_or(now, |stale| stale.since),
            reason,
        });
        if stale == state.stale {
            return;
        }
        if let Some(RegistryStaleness { reason, .. }) = &stale {
            tracing::warn!(why = reason, "the node registry is served from memory");
        } else {
            tracing::info!("the node registry is up to date again");
        }
        state.stale = stale;
        for node in state.nodes.values() {
            node.revision.send_modify(|count| *count += 1);
        }
    }

    /// Returns a strictly increasing sequence number: the time, if it advances.
    pub(super) fn next_sequence(&self) -> u64 {
        let now = self.clock.wall_now().0;
        let mut state = self.lock_cache();
        state.last_sequence = now.max(state.last_sequence + 1);
        state.last_sequence
    }

    pub(super) fn add_node(&self, node: &str, sequence: u64) {
        let mut state = self.lock_cache();
        state.last_sequence = state.last_sequence.max(sequence);
        let is_new = !state.nodes.contains_key(node);
        state
            .nodes
            .entry(node.to_owned())
            .or_insert_with(|| CachedNode::with_sequence(sequence))
            .sequence = sequence;
        if is_new {
            // Names that begin with its id now belong to the node.
            let prefix = format!("{node}.");
            state.bump_revisions(|other, tools| {
                let mut after = tools.range(prefix.clone()..);
                other != node && after.next().is_some_and(|(name, _)| name.starts_with(&prefix))
            });
        }
        drop(state);
        if is_new {
            self.node_set_version.send_modify(|count| *count += 1);
        }
    }

    /// Caches a written tool, unless a newer version is cached.
    pub(super) fn upsert_tool(&self, cached: CachedTool) {
        let version = cached.version;
        self.upsert_tool_if(cached, |old| old.is_none_or(|old| old < version));
    }

    fn upsert_tool_if(&self, cached: CachedTool, if_version: impl Fn(Option<Version>) -> bool) {
        let mut state = self.lock_cache();
        state.last_sequence = state.last_sequence.max(cached.sequence);
        let is_known = state.nodes.contains_key(&cached.tool.node_id);
        let sequence = cached.sequence;
        let node = state.nodes.entry(cached.tool.node_id.clone());
        let node = node.or_insert_with(|| CachedNode::with_sequence(sequence));
        let old = node.tools.get(&cached.tool.name);
        let is_same_version = old.is_some_and(|old| old.version == cached.version);
        if !is_same_version && if_version(old.map(|old| old.version)) {
            node.refused_names.remove(&cached.tool.name);
            node.tools.insert(cached.tool.name.clone(), cached);
            node.revision.send_modify(|count| *count += 1);
        }
        drop(state);
        if !is_known {
            self.node_set_version.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn remove_tool(&self, node: &str, name: &str) {
        self.remove_tool_if(node, name, |_| true);
    }

    fn remove_tool_if(&self, node: &str, name: &str, if_version: impl Fn(Option<Version>) -> bool) {
        let mut state = self.lock_cache();
        let Some(node) = state.nodes.get_mut(node) else { return };
        let cached_version = node.tools.get(name).map(|cached| cached.version);
        if if_version(cached_version) && node.tools.remove(name).is_some() {
            node.revision.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn name_owner(&self, name: &str) -> Option<NameOwner> {
        self.lock_cache().owners.get(name).cloned()
    }

    pub(super) fn record_owner(&self, name: &str, owner: NameOwner) {
        let mut state = self.lock_cache();
        let is_newer = state.owners.get(name).is_none_or(|old| old.version < owner.version);
        if is_newer {
            state.set_owner(name, Some(owner));
        }
    }

    pub(super) fn clear_owner(&self, name: &str) {
        self.lock_cache().set_owner(name, None);
    }

    /// Returns the node whose id and a dot begin the name; the longest such id, if ids have dots.
    pub(super) fn owner_by_prefix(&self, name: &str) -> Option<String> {
        let state = self.lock_cache();
        let mut ids = name.rmatch_indices('.').filter_map(|(at, _)| name.get(..at));
        ids.find(|id| state.nodes.contains_key(*id)).map(str::to_owned)
    }

    pub(super) fn get_tool(&self, node: &str, name: &str) -> Option<CachedTool> {
        self.lock_cache().nodes.get(node)?.tools.get(name).cloned()
    }

    pub(super) fn has_node(&self, node: &str) -> bool {
        self.lock_cache().nodes.contains_key(node)
    }

    /// Checks the limits of nodes and tools.
    pub(super) fn check_capacity(&self, tool: &NodeTool) -> Result<(), NodeError> {
        let state = self.lock_cache();
        match state.nodes.get(&tool.node_id) {
            None if state.nodes.len() >= MAX_NODES => Err(NodeError::LimitReached(format!(
                "there are already {MAX_NODES} nodes, the \
                    maximum"
            ))),
            Some(node)
                if node.tools.len() >= MAX_TOOLS_PER_NODE
                    && !node.tools.contains_key(&tool.name) =>
            {
                Err(NodeError::LimitReached(format!(
                    "the node already has {MAX_TOOLS_PER_NODE} tools, the maximum"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Logs that a name was refused to a node. A node retries every few seconds, so an equal
    /// refusal is logged once. Returns whether it was logged.
    pub(super) fn log_refusal(&self, tool: &NodeTool, error: &NodeError) -> bool {
        let (name, node, why) = (&tool.name, &tool.node_id, error.to_string());
        if let Some(cached_node) = self.lock_cache().nodes.get_mut(node) {
            if cached_node.refused_names.get(name) == Some(&why) {
                return false;
            }
            if cached_node.refused_names.len() >= MAX_TOOLS_PER_NODE {
                cached_node.refused_names.clear();
            }
            cached_node.refused_names.insert(name.clone(), why.clone());
        }
        tracing::warn!(name, node, why, "tool name rejected");
        true
    }

    /// Returns node ids in the order of their first registration.
    pub(super) fn node_ids(&self) -> Vec<String> {
        let state = self.lock_cache();
        let mut nodes: Vec<_> = state.nodes.iter().map(|(id, node)| (node.sequence, id)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// Returns the tools of a node in registration order, with their revision.
    pub(crate) fn list_tools(&self, node: &str) -> (SourceRevision, Vec<NodeTool>) {
        let state = self.lock_cache();
        let Some(node) = state.nodes.get(node) else { return (SourceRevision(0), Vec::new()) };
        let mut tools: Vec<_> = node.tools.values().collect();
        tools.sort_by_key(|cached| cached.sequence);
        let tools = tools.into_iter().map(|cached| cached.tool.clone()).collect();
        (SourceRevision(*node.revision.borrow()), tools)
    }

    /// Waits until the node has another revision than the given one.
    pub(crate) async fn wait_for_change(
        &self,
        node: &str,
        last_seen: SourceRevision,
    ) -> SourceRevision {
        let revision = self.lock_cache().nodes.get(node).map(|node| node.revision.subscribe());
        if let Some(mut revision) = revision
            && let Ok(now) = revision.wait_for(|now| *now != last_seen.0).await
        {
            return SourceRevision(*now);
        }
        std::future::pending().await
    }
}

impl RegistryCache {
    /// Sets the owner of a name. Other nodes with a tool of that name are listed again.
    fn set_owner(&mut self, name: &str, owner: Option<NameOwner>) {
        let now = owner.as_ref().map(|owner| owner.record.clone());
        let before = match owner {
            Some(owner) => self.owners.insert(name.to_owned(), owner),
            None => self.owners.remove(name),
        };
        if before.map(|before| before.record) != now {
            let own = now.map(|owner| owner.node);
            self.bump_revisions(|node, tools| {
                own.as_deref() != Some(node) && tools.contains_key(name)
            });
        }
    }

    fn bump_revisions(&self, is_affected: impl Fn(&str, &BTreeMap<String, CachedTool>) -> bool) {
        for (_, node) in self.nodes.iter().filter(|(id, node)| is_affected(id, &node.tools)) {
            node.revision.send_modify(|count| *count += 1);
        }
    }
}

impl CachedNode {
    fn with_sequence(sequence: u64) -> Self {
        let (tools, revision) = (BTreeMap::new(), watch::Sender::new(1));
        Self {
            sequence,
            tools,
            revision,
            last_heartbeat: None,
            is_drained: false,
            lacks_progress: false,
            backoff_until: None,
            refused_names: BTreeMap::new(),
        }
    }
}
