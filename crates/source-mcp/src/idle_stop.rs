//! Servers that start with their first call and stop when nobody uses them.
//!
//! Between their runs they are listed as they listed themselves last. At each start they are listed
//! again before the first call: a tool whose definition has changed meanwhile is not called, and the
//! change reaches the catalog as any other.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tool::source::SourceErrorKind;

use super::connection::McpConnection;
use super::listed_items::{ListedItems, ListingStore};
use super::listing::fetch_items;
use super::mcp_options::StartMode;
use super::pipe_connector::ConnectionError;
use super::server_supervisor::{ServerSupervisor, SupervisorState};

/// Time for a call that has the connection to send its request, before an idle server is stopped.
const STOP_GRACE: Duration = Duration::from_millis(100);

/// The last listing of a server that starts with its first call.
#[derive(Debug, Default)]
pub(super) struct LazyListing {
    store: OnceLock<Arc<dyn ListingStore>>,
    items: Mutex<Option<Arc<ListedItems>>>,
    /// Notified to start the server.
    pub(super) start_requested: Notify,
}

impl LazyListing {
    /// Sets the store, once.
    pub(super) fn set_store(&self, store: Arc<dyn ListingStore>) {
        // A second store is a mistake of the caller that changes nothing.
        drop(self.store.set(store));
    }

    fn items(&self) -> Option<Arc<ListedItems>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace_items(&self, items: &Arc<ListedItems>) -> Option<Arc<ListedItems>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).replace(Arc::clone(items))
    }
}

impl ServerSupervisor {
    /// Time without a call after which the server is stopped; `None` if it always runs.
    fn idle_limit(&self) -> Option<Duration> {
        match self.options.start_mode {
            StartMode::OnFirstCall { idle_stop } if !self.is_per_caller => Some(idle_stop),
            StartMode::OnFirstCall { .. } | StartMode::AtStartup => None,
        }
    }

    /// Whether the server starts with its first call.
    pub(super) fn is_lazy(&self) -> bool {
        self.idle_limit().is_some()
    }

    /// Whether the server is to start with its next call.
    pub(super) fn waits_for_call(&self) -> bool {
        let is_idle = matches!(*self.state.borrow(), SupervisorState::Idle);
        self.is_lazy() && (is_idle || !self.is_started())
    }

    /// Returns the items to list without starting the server: if it waits for a call, and was listed
    /// before.
    pub(super) async fn items_without_server(&self) -> Option<Arc<ListedItems>> {
        if !self.waits_for_call() {
            return None;
        }
        if let Some(items) = self.lazy_listing.items() {
            return Some(items);
        }
        let bytes = self.lazy_listing.store.get()?.load_listing().await?;
        let items = Arc::new(ListedItems::from_stored(&bytes)?);
        drop(self.lazy_listing.replace_items(&items));
        Some(items)
    }

    /// Keeps the items of a server that starts with its first call, and stores them if they have changed.
    pub(super) async fn store_items(&self, items: &Arc<ListedItems>) {
        if !self.is_lazy() {
            return;
        }
        let before = self.lazy_listing.replace_items(items);
        if before.is_some_and(|before| before.content_hash() == items.content_hash()) {
            return;
        }
        if let Some((store, bytes)) = self.lazy_listing.store.get().zip(items.to_stored()) {
            store.store_listing(bytes).await;
        }
    }

    /// Whether the server, as it was listed last, has a tool with exactly this definition.
    pub(super) fn has_tool_definition(&self, definition: &str) -> bool {
        self.lazy_listing.items().is_some_and(|items| items.has_tool_definition(definition))
    }

    /// Lists a server that has just started, before its first call.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub(super) async fn list_at_start(
        &self,
        link: &Arc<McpConnection>,
    ) -> Result<(), ConnectionError> {
        if !self.is_lazy() {
            return Ok(());
        }
        let limit = self.options.limits.list_timeout;
        let (items, _) = timeout(limit, fetch_items(self, link)).await.map_err(|_| {
            let message = format!("did not list its tools within {limit:?}");
            ConnectionError::new(SourceErrorKind::TimedOut, message)
        })??;
        self.store_items(&Arc::new(items)).await;
        Ok(())
    }

    /// Resolves when nobody has used the server for its idle time. Calls that come from then on wait for
    /// the next start.
    pub(super) async fn wait_until_idle(&self, link: &Arc<McpConnection>) {
        let Some(limit) = self.idle_limit() else { return std::future::pending().await };
        loop {
            let requests = link.request_count();
            sleep(limit).await;
            let is_unused = || link.request_count() == requests && self.is_unused(link);
            if !is_unused() {
                continue;
            }
            self.state.send_replace(SupervisorState::Idle);
            sleep(STOP_GRACE).await;
            if is_unused() {
                return;
            }
            // A call had the connection already. Whoever asked for a start meanwhile gets it too.
            self.lazy_listing.start_requested.notified().now_or_never();
            self.state.send_replace(SupervisorState::Running(Arc::clone(link)));
        }
    }

    fn is_unused(&self, link: &McpConnection) -> bool {
        link.is_idle() && self.secondary.is_idle()
    }

    /// Waits until somebody needs the stopped server, or has asked for it while it was stopping; returns
    /// `false` if it is closed meanwhile.
    pub(super) async fn wait_for_use(&self) -> bool {
        tracing::info!(source = %self.name, "an MCP server was stopped: nobody used it");
        tokio::select! {
            () = self.instance_factory().closing.cancelled() => false,
            () = self.lazy_listing.start_requested.notified() => true,
        }
    }
}
