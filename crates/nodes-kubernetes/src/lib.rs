//! Resolves node ids through the Kubernetes API: the address is the `InternalIP` of the Kubernetes
//! node with the label `nodeID`.
//!
//! One task lists the nodes and then watches them, so that calls read from memory only. If the API
//! server is unreachable, the last known addresses stay valid for five minutes. Requests go through
//! `egress`; the only permission needed is to list and watch nodes.

mod address_cache;
mod api_objects;
mod list_watch;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use egress::{EgressClient, UrlTrust};
use tokio::time::sleep;
use tool::node_registry::ResolveError;
use tool::{Backoff, Clock};

use address_cache::{AddressCache, AddressLookup, Disconnection};
pub use node_addresses::KubernetesSettings;
use nodes::{NodeLocator, PeerOutbox};

/// The label with the node id of the cluster tools.
pub(crate) const NODE_ID_LABEL: &str = "nodeID";
/// Backoff between watch attempts.
const WATCH_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// Time for which the last known addresses stay valid while the API server is unreachable.
const STALE_TTL: Duration = Duration::from_mins(5);

/// Locates nodes through the Kubernetes API.
pub struct KubernetesLocator {
    settings: KubernetesSettings,
    egress: EgressClient,
    trust: UrlTrust,
    clock: Arc<dyn Clock>,
    addresses: AddressCache,
    /// Events to other servers about changed addresses.
    outbox: OnceLock<PeerOutbox>,
}

impl KubernetesLocator {
    /// Creates the locator and opens no connection. `egress` must trust the certificates in
    /// `settings.ca_file`.
    pub fn new(settings: KubernetesSettings, egress: EgressClient, clock: Arc<dyn Clock>) -> Self {
        let trust = UrlTrust::Configured { origin: settings.api_server.clone() };
        let (addresses, outbox) = (AddressCache::default(), OnceLock::new());
        Self { settings, egress, trust, clock, addresses, outbox }
    }

    /// Lists and watches nodes until it is cancelled.
    pub async fn run_watch(&self) {
        let mut backoff = WATCH_BACKOFF;
        loop {
            let why = self.list_and_watch(&mut backoff).await;
            tracing::warn!(why, "the Kubernetes watch failed; using the last known node addresses");
            self.addresses.mark_disconnected(why, self.clock.monotonic_now());
            sleep(backoff.next_delay()).await;
        }
    }

    /// Lists and watches until a request fails, and returns the reason.
    async fn list_and_watch(&self, backoff: &mut Backoff) -> String {
        loop {
            let mut version = match self.list_nodes().await {
                Ok(version) => version,
                Err(why) => return why,
            };
            backoff.reset();
            loop {
                match self.watch_nodes(&mut version).await {
                    Ok(list_watch::WatchEnd::TimedOut) => self.addresses.mark_connected(),
                    // The resource version expired: all nodes are listed again.
                    Ok(list_watch::WatchEnd::VersionExpired) => break,
                    Err(why) => return why,
                }
            }
        }
    }

    fn find_node_url(&self, node: &str) -> Result<String, ResolveError> {
        let unusable =
            |why: String| ResolveError::InvalidAddress { node: node.to_owned(), reason: why };
        let (lookup, disconnected) = self.addresses.lookup_address(node);
        if let Some(Disconnection { since, reason: why }) = disconnected
            && self.clock.monotonic_now().saturating_duration_since(since) > STALE_TTL
        {
            return Err(unusable(format!("Kubernetes is unavailable: {why}")));
        }
        let address = match lookup {
            AddressLookup::NotLoaded => {
                return Err(unusable("Kubernetes has not responded yet".to_owned()));
            }
            AddressLookup::Invalidated => {
                return Err(unusable(
                    "another server saw its address change; Kubernetes is unreachable".to_owned(),
                ));
            }
            AddressLookup::NotFound => return Err(ResolveError::NoNodeLabel(node.to_owned())),
            AddressLookup::Ambiguous => {
                return Err(unusable(format!(
                    "several Kubernetes nodes have the label `{NODE_ID_LABEL}={node}`"
                )));
            }
            AddressLookup::NoAddress => {
                return Err(unusable("its Kubernetes node has no InternalIP".to_owned()));
            }
            AddressLookup::Found(address) => address,
        };
        let scheme = if self.settings.uses_tls { "https" } else { "http" };
        let at = std::net::SocketAddr::new(address, self.settings.port);
        Ok(format!("{scheme}://{at}"))
    }

    /// Tells other servers which labels moved.
    fn publish_moved(&self, moved_labels: &[String]) {
        if let Some(outbox) = self.outbox.get() {
            for label in moved_labels {
                outbox.send_address_changed(label);
            }
        }
    }

    /// Returns why the cached addresses are stale, or `None` if they are current.
    pub fn stale_reason(&self) -> Option<String> {
        self.addresses.disconnection().map(|it| it.reason)
    }
}

impl NodeLocator for KubernetesLocator {
    fn node_url(&self, node: &str) -> Result<String, ResolveError> {
        self.find_node_url(node)
    }

    /// Later calls have no effect.
    fn set_outbox(&self, outbox: PeerOutbox) {
        drop(self.outbox.set(outbox));
    }

    /// Invalidates the cached address only while this server has no watch of its own.
    fn mark_moved(&self, label: &str) {
        self.addresses.invalidate_label(label);
    }
}

impl fmt::Debug for KubernetesLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesLocator")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
