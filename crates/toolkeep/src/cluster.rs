//! The registry of nodes' tools, and a source for each node that came.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use egress::{CertificateDer, Egress, EgressSettings, HttpStack, Roots};
use intake::{Intake, Sourced};
use nodes::{Authority, Keep, KeptAuthority, NodeSource, Nowhere, ReadOnly, Registry, Sharing};
use nodes_kubernetes::{Kubernetes, KubernetesSettings};
use nodes_mongo::MongoKeep;
use rustls::pki_types::pem::PemObject as _;
use server_core::Keys;
use store::RedisCache;
use tokio::net::TcpListener;
use tool::node::Nodes;
use tool::{Clock, Secret, Source, Store, Trust};

use cli_core::failure::Failure;
use config::{KubernetesConfig, NodesConfig, Tools};

/// The registry, and how far its nodes are trusted.
pub(crate) struct Cluster {
    registry: Arc<Registry>,
    /// Those that certificates were issued with are among them.
    keys: Arc<Keys>,
    kubernetes: Option<Arc<Kubernetes>>,
    /// And which of their tools change nothing, or are shared: a source begins anew where it says otherwise.
    said: Mutex<(Trust, ReadOnly, Sharing)>,
}

/// What of the configuration says where the registry is and who hears of it.
pub(crate) type Said<'a> = (&'a NodesConfig, Option<&'a Secret>);

impl Cluster {
    /// Reads what is kept.
    pub(crate) async fn open(
        (config, redis): Said<'_>,
        (keys, store, clock): (&Arc<Keys>, Arc<dyn Store>, Arc<dyn Clock>),
        (egress, authority): (&Egress, Option<Authority>),
    ) -> Result<Arc<Self>, Failure> {
        // A connection of nobody else's: nodes are reached by their own lines.
        let found = Arc::clone(&clock);
        let registry = match &config.mongodb {
            None => {
                Registry::open(store, egress.apart(), clock).await.map_err(super::fault(WHAT))?
            }
            Some(url) => {
                // Never this server's own store instead: a name would be given twice.
                let keep: Arc<dyn Keep> = match MongoKeep::open(url).await {
                    Ok(keep) => Arc::new(keep),
                    Err(error) => Arc::new(Nowhere(error)),
                };
                Registry::shared(keep, egress.apart(), clock).await
            }
        };
        let registry = Arc::new(registry);
        if let Some(bus) = redis.filter(|_| config.mongodb.is_some()).and_then(|url| {
            // Without it all works; servers only hear of each other later.
            let told = |error: &tool::StoreError| tracing::warn!("{error}");
            RedisCache::new(url, egress.apart(), Arc::clone(&found)).inspect_err(told).ok()
        }) {
            registry.share_news(Arc::new(bus));
        }
        if let Some(authority) = authority {
            registry.set_authority(authority).map_err(super::fault(WHAT))?;
        }
        let kubernetes = config.kubernetes.as_ref().and_then(|config| {
            let told = |error: &String| {
                tracing::error!(
                    error,
                    "Kubernetes is not asked where nodes are; mend it and restart"
                );
            };
            asked(config, egress.http_stack(), found).inspect_err(told).ok()
        });
        if let Some(kubernetes) = &kubernetes {
            registry.find_by(Arc::clone(kubernetes));
        }
        let said = Mutex::new((config.trust, ReadOnly::default(), Sharing::default()));
        registry.set_keys(Arc::clone(keys) as _);
        let keys = Arc::clone(keys);
        let cluster = Self { registry, keys, kubernetes, said };
        cluster.take(config);
        Ok(Arc::new(cluster))
    }

    /// For the doors.
    pub(crate) fn registry(&self) -> Arc<dyn Nodes> {
        Arc::clone(&self.registry) as Arc<dyn Nodes>
    }

    /// Lets nodes connect, for ever.
    pub(crate) async fn accept(&self, listener: TcpListener) {
        self.registry.accept(listener).await;
    }

    /// Takes a new configuration.
    pub(crate) fn take(&self, config: &NodesConfig) {
        self.registry.set_addresses(config.addresses.clone());
        let read_only = match &config.read_only {
            Tools::All => ReadOnly::All,
            Tools::Named(names) => ReadOnly::Named(names.clone()),
        };
        self.registry.set_read_only(read_only.clone());
        self.registry.set_sharing(config.shared.clone());
        let said = (config.trust, read_only, config.shared.clone());
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// A source for each node.
    pub(crate) fn sourced(&self) -> Vec<Sourced> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (trust, fingerprint) =
            (said.0, super::sources::hashed(&(said.0 as u64, &said.1, &said.2)));
        let sourced = |source: Arc<NodeSource>| Sourced {
            source: source as Arc<dyn Source>,
            kind: "node",
            trust,
            durability: None,
            poll: None,
            fingerprint,
        };
        self.registry.sources().into_iter().map(sourced).collect()
    }

    /// Adds nodes as they come, and hears of what other servers write, for ever.
    pub(crate) async fn follow(&self, intake: &Intake) {
        let finds = async {
            if let Some(kubernetes) = &self.kubernetes {
                kubernetes.follow().await;
            }
        };
        let registry = &self.registry;
        let certificates = async {
            tokio::join!(registry.follow_certificates(), self.follow_keys());
        };
        let news = registry.follow_news();
        tokio::join!(registry.follow(), news, self.add_to(intake), finds, certificates);
    }

    /// Cuts the connections of nodes whose keys are revoked, for ever.
    async fn follow_keys(&self) {
        let mut readings = self.keys.readings();
        loop {
            readings.borrow_and_update();
            self.registry.review_keys().await;
            if readings.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn add_to(&self, intake: &Intake) {
        let mut news = self.registry.news();
        loop {
            news.borrow_and_update();
            for sourced in self.sourced() {
                intake.add(Some(sourced));
            }
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Who asks Kubernetes: over a way out of its own, for it believes other certificates.
fn asked(
    config: &KubernetesConfig,
    http: HttpStack,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Kubernetes>, String> {
    let mut settings = EgressSettings { http, ..EgressSettings::default() };
    if let Some(path) = &config.ca_file {
        let named = |error: String| format!("`{}`: {error}", path.display());
        let pem = rooted_fs::files::read(path, CERTIFICATES_FILE);
        let pem = pem.map_err(|error| named(error.to_string()))?;
        let extra = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let extra = extra.map_err(|error| named(error.to_string()))?;
        settings.roots = Roots { native: false, bundled: false, extra };
    }
    let egress = Egress::new(settings).map_err(|error| error.to_string())?;
    let KubernetesConfig { api, token_file, https, port, .. } = config.clone();
    let settings = KubernetesSettings { api, token_file, https, port };
    Ok(Arc::new(Kubernetes::new(settings, egress, clock)))
}

/// The authority of this installation: in the file that servers share, or made at the first start and kept
/// in the store. Never the one where the other is meant. Without it nodes are called in plaintext alone.
pub(crate) async fn authority(
    keys: &Keys,
    file: Option<&Path>,
    clock: &Arc<dyn Clock>,
) -> Option<Authority> {
    let read = async || -> Result<Authority, String> {
        let kept: KeptAuthority = if let Some(path) = file {
            let named = |error: String| format!("`{}`: {error}", path.display());
            let text = rooted_fs::files::read_text(path, AUTHORITY_FILE);
            let text = text.map_err(|error| named(error.to_string()))?;
            serde_json::from_str(&text).map_err(|error| named(error.to_string()))?
        } else {
            let fresh = Authority::make(clock.wall()).map_err(|error| error.to_string())?;
            let fresh = serde_json::to_string(&fresh).map_err(|error| error.to_string())?;
            let kept = keys.once_made(AUTHORITY, fresh).await;
            let kept = kept.map_err(|error| error.message().to_owned())?;
            serde_json::from_str(kept.open()).map_err(|error| error.to_string())?
        };
        Authority::open(&kept).map_err(|error| error.to_string())
    };
    read().await.map_err(|error| tracing::error!(error, "no node gets a certificate here")).ok()
}

/// The longest file of certificates that is read, in bytes.
const CERTIFICATES_FILE: u64 = 4 << 20;
/// The longest file of an authority that is read, in bytes.
const AUTHORITY_FILE: u64 = 64 << 10;
/// What is told of faults.
const WHAT: &str = "the registry of nodes";
/// Where it stands.
const AUTHORITY: &str = "secret/nodes-authority";
