//! Where Kubernetes says nodes are: the `InternalIP` of the one that carries the label `nodeID`.
//!
//! One task lists once and watches from there on, so that no call ever asks, and there is never more than
//! one refresh at once. While Kubernetes is away, what it said last counts for a while. Only `egress` dials;
//! the one right that is needed is to list and watch nodes.

mod api_objects;
mod node_addresses;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use egress::{Class, Egress, Origin};
use tokio::time::sleep;
use tool::Clock;
use tool::node::Unresolved;

use node_addresses::{Place, Places};
use nodes::{NodeLocator, Outbox};

/// The label by which spec 4 finds a node.
pub(crate) const LABEL: &str = "nodeID";
/// Between two tries.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(1);
/// How long what Kubernetes said last counts while it is away.
const COUNTS: Duration = Duration::from_mins(5);

/// How Kubernetes is asked, and how the nodes that it finds are called.
#[derive(Debug, Clone)]
pub struct KubernetesSettings {
    /// Its API server.
    pub api: Origin,
    /// Holds the token; read anew for each request, since it is replaced every hour.
    pub token_file: Option<PathBuf>,
    /// Whether nodes are called over TLS.
    pub https: bool,
    /// Their port.
    pub port: u16,
}

/// Where nodes are, as Kubernetes has it.
pub struct Kubernetes {
    settings: KubernetesSettings,
    egress: Egress,
    class: Class,
    clock: Arc<dyn Clock>,
    places: Places,
    /// Who is told that a node is no longer where it was.
    outbox: OnceLock<Outbox>,
}

impl Kubernetes {
    /// Dials nothing yet. `egress` must believe the API server's certificate.
    pub fn new(settings: KubernetesSettings, egress: Egress, clock: Arc<dyn Clock>) -> Self {
        let class = Class::Operator { origin: settings.api.clone() };
        let (places, outbox) = (Places::default(), OnceLock::new());
        Self { settings, egress, class, clock, places, outbox }
    }

    /// Lists, and follows from there on, for ever.
    pub async fn follow(&self) {
        let mut wait = FIRST;
        loop {
            let why = self.followed(&mut wait).await;
            tracing::warn!(
                why,
                "Kubernetes does not say where nodes are; what it said last counts"
            );
            self.places.lost(why, self.clock.mono());
            sleep(wait).await;
            wait = (wait * 2).min(LAST);
        }
    }

    /// Ends where the line broke, and says why.
    async fn followed(&self, wait: &mut Duration) -> String {
        loop {
            let mut version = match self.list().await {
                Ok(version) => version,
                Err(why) => return why,
            };
            *wait = FIRST;
            loop {
                match self.watch(&mut version).await {
                    Ok(watch::Ended::InTime) => self.places.heard(),
                    // It no longer knows what was then: all is read anew.
                    Ok(watch::Ended::TooOld) => break,
                    Err(why) => return why,
                }
            }
        }
    }

    fn find_url(&self, node: &str) -> Result<String, Unresolved> {
        let unusable = |why: String| Unresolved::Unusable { node: node.to_owned(), why };
        let (place, away) = self.places.of(node);
        if let Some((since, why)) = away
            && self.clock.mono().since(since) > COUNTS
        {
            return Err(unusable(format!("Kubernetes does not answer: {why}")));
        }
        let address = match place {
            Place::Unread => {
                return Err(unusable("Kubernetes has not answered yet".to_owned()));
            }
            Place::Doubted => {
                return Err(unusable(
                    "another server saw it move, and Kubernetes does not answer here".to_owned(),
                ));
            }
            Place::Nowhere => return Err(Unresolved::Unlabelled(node.to_owned())),
            Place::Several => {
                return Err(unusable(format!(
                    "several Kubernetes nodes carry the label `{LABEL}={node}`"
                )));
            }
            Place::NoAddress => {
                return Err(unusable("its Kubernetes node has no InternalIP".to_owned()));
            }
            Place::At(address) => address,
        };
        let scheme = if self.settings.https { "https" } else { "http" };
        let at = std::net::SocketAddr::new(address, self.settings.port);
        Ok(format!("{scheme}://{at}"))
    }

    /// Takes a node as it is now, or that it is gone, and tells whose place that takes away.
    fn settle(&self, taken: &[String]) {
        if let Some(outbox) = self.outbox.get() {
            for label in taken {
                outbox.tell_moved(label);
            }
        }
    }

    /// Why what is known is only remembered, where it is.
    pub fn stale(&self) -> Option<String> {
        self.places.away().map(|(_, why)| why)
    }
}

impl NodeLocator for Kubernetes {
    fn url(&self, node: &str) -> Result<String, Unresolved> {
        self.find_url(node)
    }

    /// The first time alone.
    fn tell_to(&self, outbox: Outbox) {
        drop(self.outbox.set(outbox));
    }

    /// Who hears Kubernetes itself needs nobody's word; who remembers it only forgets where that node was.
    fn moved(&self, label: &str) {
        self.places.doubt(label);
    }
}

impl fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubernetes").field("settings", &self.settings).finish_non_exhaustive()
    }
}
