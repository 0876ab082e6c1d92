//! Which node has which tool, and whose a name is.
//!
//! All of it stands in the store and, for reading, in memory. Every write is a compare-and-set, the
//! name's owner before the tool: a crash in between leaves a name that its node has taken, and no tool
//! that nobody owns.

mod certificates;
mod follow;
mod kept;
mod owner;
mod state;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use egress::Egress;
use node_addresses::{Sharing, endpoint};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tool::node::{
    Beat, Certified, NodeCertificate, NodeFault, NodeState, NodeTool, Nodes, Speaks, Stale,
    Unresolved,
};
use tool::store::Expect;
use tool::{Boxed, Bus, Clock, Json, Limits, Store, StoreError, ToolName};

use crate::keep::{Alone, Keep};
use crate::news::{News, Word};
use crate::source::{definition, source_name};
use crate::{Addresses, Authority, AuthorityError, NodeLocator, NodeSource, ReadOnly};
pub use kept::{Document, tool_key, tool_of};
use kept::{Kept, NODE, NodeRecord};
pub(crate) use kept::{PREFIXES, is_news};
pub(crate) use state::Shared;

/// Nodes that may be known.
pub const MOST_NODES: usize = 1_000;
/// Tools that one node may have.
pub const MOST_TOOLS: usize = 1_000;
/// Tries of one write against others'.
const TRIES: usize = 5;

/// The registry of nodes' tools.
#[derive(Debug)]
pub struct Registry {
    pub(crate) shared: Arc<Shared>,
    sources: Mutex<HashMap<String, Arc<NodeSource>>>,
    authority: OnceLock<Authority>,
    /// Whether other servers write it too.
    is_shared: bool,
}

impl Registry {
    /// In this machine's store, whose file is its own: reads what is kept. Must be called on a runtime
    /// that outlives all calls.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn open(
        store: Arc<dyn Store>,
        egress: Egress,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let registry = Self::new((Arc::new(Alone(store)), false), egress, clock);
        registry.shared.refresh().await?;
        Ok(registry)
    }

    /// Where servers share it. What is not there yet when it begins is read as soon as it is: until
    /// then nothing is known, which is said, and [`Registry::follow`] must run. Must be called on a
    /// runtime that outlives all calls.
    pub async fn shared(keep: Arc<dyn Keep>, egress: Egress, clock: Arc<dyn Clock>) -> Self {
        let registry = Self::new((keep, true), egress, clock);
        if let Err(error) = registry.shared.refresh().await {
            registry.shared.set_stale(Some(error.to_string()));
        }
        registry
    }

    fn new(
        (keep, is_shared): (Arc<dyn Keep>, bool),
        egress: Egress,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let shared = Arc::new(Shared::new(keep, egress, clock));
        Self { shared, sources: Mutex::default(), authority: OnceLock::new(), is_shared }
    }

    /// Nodes get certificates from this one, and are called over TLS; the first time alone.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn set_authority(&self, authority: Authority) -> Result<(), AuthorityError> {
        let accepted = Arc::clone(&self.shared.certificates) as Arc<dyn proto::tls::Acceptance>;
        self.shared.lines.over_tls(authority.caller(self.shared.clock.wall(), Some(accepted))?);
        drop(self.authority.set(authority));
        Ok(())
    }

    /// Where nodes are, from here on.
    pub fn set_addresses(&self, addresses: Addresses) {
        self.shared.lines.addresses.store(Arc::new(addresses));
    }

    /// Which tools change nothing, by the operator's word. Nodes that are listed already are to be listed
    /// anew.
    pub fn set_read_only(&self, tools: ReadOnly) {
        self.shared.read_only.store(Arc::new(tools));
    }

    /// Which names nodes may share, by the operator's word. Nodes that are listed already are to be listed
    /// anew.
    pub fn set_sharing(&self, sharing: Sharing) {
        self.shared.sharing.store(Arc::new(sharing));
    }

    /// Asks this one for the nodes that the operator did not write down; the first time alone. Somebody
    /// must keep it up to date.
    pub fn find_by(&self, locator: Arc<impl NodeLocator + 'static>) {
        locator.tell_to(self.shared.outbox.clone());
        drop(self.shared.lines.locator.set(locator));
    }

    /// Tells other servers of this registry over `bus` what happens here; the first time alone. Somebody must
    /// run [`Registry::follow_news`].
    pub fn share_news(&self, bus: Arc<dyn Bus>) {
        let own = uuid::Uuid::new_v4().simple().to_string();
        if let Some(news) = News::over(bus, &self.shared.outbox, own)
            && let Ok(mut place) = self.shared.news.try_lock()
        {
            *place = Some(news);
        }
    }

    /// Takes calls to nodes over the connections that they make here, for ever: each must show its
    /// certificate. What the operator wrote down of a node goes before.
    pub async fn accept(&self, listener: TcpListener) {
        let Some(tls) = self.shared.lines.tls() else {
            tracing::error!("this server has no authority for nodes: none can connect");
            return std::future::pending().await;
        };
        Arc::clone(&self.shared.lines.dialled).accept(listener, tls).await;
    }

    /// Changes when a node is known that was not.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.shared.set.subscribe()
    }

    /// A source for each node, in the order of their first registration. A node keeps its source.
    pub fn sources(&self) -> Vec<Arc<NodeSource>> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.shared.known();
        let of = |node: String| {
            if let Some(source) = sources.get(&node) {
                return Some(Arc::clone(source));
            }
            let source = NodeSource::new(&node, Arc::clone(&self.shared));
            let source = source.map_err(|error| tracing::warn!(node, %error, "node left out"));
            let source = Arc::new(source.ok()?);
            sources.insert(node, Arc::clone(&source));
            Some(source)
        };
        known.into_iter().filter_map(of).collect()
    }

    fn authority(&self) -> Result<&Authority, NodeFault> {
        let none = || NodeFault::Unavailable("this server signs for no nodes".to_owned());
        self.authority.get().ok_or_else(none)
    }

    /// Keeps a tool. A node that ended and registers again has started: it need not wait for its next beat.
    async fn register_tool(&self, by: &Speaks, tool: NodeTool) -> Result<String, NodeFault> {
        let node = tool.node_id.clone();
        let id = self.put(by, tool).await?;
        if self.shared.beat_of(&node) == Some(Beat::Draining) {
            self.beat(by, &node, Beat::Serving)?;
        }
        Ok(id)
    }

    async fn put(&self, by: &Speaks, tool: NodeTool) -> Result<String, NodeFault> {
        if !by.is_for(&tool.node_id) {
            return Err(NodeFault::Foreign(tool.node_id));
        }
        check(&tool)?;
        let tool = self.shared.keep.as_kept(tool).map_err(NodeFault::Unfit)?;
        self.shared.room(&tool)?;
        self.enter(&tool.node_id).await?;
        self.claim(&tool).await?;
        let key = tool_key(&tool.node_id, &tool.name);
        for _ in 0..TRIES {
            let there = self.shared.kept(&tool.node_id, &tool.name);
            let (created, expect) = match &there {
                Some(kept) if kept.tool == tool => return Ok(kept.id.clone()),
                Some(kept) => (kept.created, Expect::Version(kept.version)),
                None => (self.shared.next(), Expect::Absent),
            };
            let id = kept::id(&tool.node_id, &tool.name);
            let document = Document { id: id.clone(), created, tool: tool.clone() };
            let bytes = Json::of(&document).bytes().clone();
            match self.shared.keep.put(&key, expect, Some(bytes)).await {
                Ok(version) => {
                    tracing::info!(node = tool.node_id, tool = tool.name, "node tool registered");
                    self.shared.took(Kept { id: id.clone(), created, version, tool });
                    self.shared.outbox.tell(|| Word::Written(key.clone()));
                    return Ok(id);
                }
                Err(StoreError::Conflict { .. }) => self.shared.read_again(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeFault::Unavailable(why)),
            }
        }
        Err(busy(&key))
    }

    /// Remembers when a node came first.
    async fn enter(&self, node: &str) -> Result<(), NodeFault> {
        if self.shared.is_known(node) {
            return Ok(());
        }
        let created = self.shared.next();
        let bytes = Json::of(&NodeRecord { created }).bytes().clone();
        let key = format!("{NODE}{node}");
        match self.shared.keep.put(&key, Expect::Absent, Some(bytes)).await {
            Ok(_) => {
                self.shared.entered(node, created);
                Ok(())
            }
            Err(StoreError::Conflict { .. }) => self.shared.read_again(&key).await,
            Err(StoreError::Unavailable(why)) => Err(NodeFault::Unavailable(why)),
        }
    }

    async fn take_out(&self, by: &Speaks, node: &str, name: &str) -> Result<(), NodeFault> {
        if !by.is_for(node) {
            return Err(NodeFault::Foreign(node.to_owned()));
        }
        let freed = *by == Speaks::All && self.free(node, name).await?;
        let key = tool_key(node, name);
        for _ in 0..TRIES {
            let Some(kept) = self.shared.kept(node, name) else {
                return if freed { Ok(()) } else { Err(NodeFault::Missing) };
            };
            match self.shared.keep.put(&key, Expect::Version(kept.version), None).await {
                Ok(_) => {
                    tracing::info!(node, tool = name, "node tool removed");
                    self.shared.lost(node, name);
                    self.shared.outbox.tell(|| Word::Written(key.clone()));
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => self.shared.read_again(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeFault::Unavailable(why)),
            }
        }
        Err(busy(&key))
    }
}

fn busy(key: &str) -> NodeFault {
    NodeFault::Unavailable(format!("`{key}` is changed by others all the time"))
}

fn unsigned(error: AuthorityError) -> NodeFault {
    match error {
        AuthorityError::Unfit(told) => NodeFault::Unfit(told.to_owned()),
        AuthorityError::Unusable(told) => NodeFault::Unavailable(told),
    }
}

/// What a document must be.
fn check(tool: &NodeTool) -> Result<(), NodeFault> {
    let unfit = |field: &str, why: String| NodeFault::Unfit(format!("`{field}`: {why}"));
    source_name(&tool.node_id).map_err(|error| unfit("node_id", error.to_string()))?;
    ToolName::new(&tool.name).map_err(|error| unfit("name", error.to_string()))?;
    for (field, json) in [("input_spec", &tool.input_spec), ("metadata", &tool.metadata)] {
        if json.kind() != "object" {
            return Err(unfit(field, format!("it is no object but {}", json.kind())));
        }
    }
    if let Some(said) = tool.metadata.get("node_id")
        && said.text().as_deref() != Some(&tool.node_id)
    {
        return Err(unfit("metadata", "its `node_id` is another than the tool's".to_owned()));
    }
    let whole: Bytes = definition(tool).bytes().clone();
    Json::check(whole, Limits::DEFINITION)
        .map_err(|error| NodeFault::Unfit(format!("the definition: {error}")))?;
    Ok(())
}

impl Nodes for Registry {
    fn register<'a>(
        &'a self,
        by: &'a Speaks,
        tool: NodeTool,
    ) -> Boxed<'a, Result<String, NodeFault>> {
        Box::pin(self.register_tool(by, tool))
    }

    fn remove<'a>(
        &'a self,
        by: &'a Speaks,
        node: &'a str,
        name: &'a str,
    ) -> Boxed<'a, Result<(), NodeFault>> {
        Box::pin(self.take_out(by, node, name))
    }

    fn tool(&self, node: &str, name: &str) -> Option<NodeTool> {
        self.shared.kept(node, name).map(|kept| kept.tool)
    }

    fn tools(&self, node: &str) -> Vec<NodeTool> {
        self.shared.listed(node).1
    }

    fn endpoint(&self, node: &str) -> Result<String, Unresolved> {
        if self.shared.lines.dialled(node).is_some() {
            return Err(Unresolved::OwnConnection(node.to_owned()));
        }
        self.shared.lines.origin(node).map(|origin| endpoint(&origin))
    }

    fn takes_calls(&self, node: &str) -> bool {
        self.shared.beat_of(node) != Some(Beat::Draining) && self.shared.is_preferred(node)
    }

    fn beat(&self, by: &Speaks, node: &str, beat: Beat) -> Result<(), NodeFault> {
        if !by.is_for(node) {
            return Err(NodeFault::Foreign(node.to_owned()));
        }
        self.shared.beaten(node, beat)?;
        self.shared.outbox.tell(|| Word::Beat(node.to_owned(), beat));
        Ok(())
    }

    fn may_certify(
        &self,
        by: &Speaks,
        node: &str,
        public: &[u8],
        proof: &[u8],
    ) -> Result<(), NodeFault> {
        if !by.is_for(node) {
            return Err(NodeFault::Foreign(node.to_owned()));
        }
        self.authority()?;
        Authority::check(node, (public, proof)).map_err(unsigned)
    }

    fn certify<'a>(
        &'a self,
        by: &'a Speaks,
        node: &'a str,
        proved: (&'a [u8], &'a [u8]),
        issued_with: Option<&'a str>,
    ) -> Boxed<'a, Result<Certified, NodeFault>> {
        Box::pin(self.issue((by, node), proved, issued_with))
    }

    fn revoke<'a>(&'a self, by: &'a Speaks, node: &'a str) -> Boxed<'a, Result<(), NodeFault>> {
        Box::pin(self.revoke_by(by, node))
    }

    fn certificates(&self, node: &str) -> Vec<NodeCertificate> {
        self.shared.certificates.of(node)
    }

    fn stale(&self) -> Option<Stale> {
        self.shared.stale()
    }

    fn nodes(&self) -> Vec<NodeState> {
        let mut known = self.shared.known();
        // Those that joined and have registered nothing yet come last.
        let mut joined: Vec<_> = self.shared.certificates.versions();
        joined.retain(|(node, _)| !self.shared.is_known(node));
        joined.sort_unstable();
        known.extend(joined.into_iter().map(|(node, _)| node));
        let known = known.into_iter();
        known.map(|node| self.shared.state_of(node, |node| self.endpoint(node))).collect()
    }
}

#[cfg(test)]
mod tests;
