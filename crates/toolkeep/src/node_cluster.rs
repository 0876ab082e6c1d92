//! The node registry as configured, and one source for each registered node.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use egress::{CertificateDer, EgressClient, EgressOptions, HttpStack, TrustStore};
use intake::{ConfiguredSource, SourceSupervisor};
use nodes::{
    CertificateAuthority, NodeSource, PersistentNodeRegistry, RegistryStore, SharedNames,
    StoredAuthority, UnavailableRegistryStore,
};
use nodes_kubernetes::{KubernetesLocator, KubernetesSettings};
use nodes_mongo::MongoRegistryStore;
use rustls::pki_types::pem::PemObject as _;
use server_core::KeyStore;
use source_layers::ToolSelection;
use store::RedisCache;
use tokio::net::TcpListener;
use tool::node_registry::NodeRegistry;
use tool::{Clock, Secret, SourceTrust, Store};

use super::build_facts::NODE_KIND;
use cli_core::command_error::CommandError;
use config::NodesConfig;

/// The node registry with its trust settings and the Kubernetes lookup.
pub(crate) struct NodeCluster {
    registry: Arc<PersistentNodeRegistry>,
    /// Keys that node certificates were issued with; a revoked key ends its node's connections.
    keys: Arc<KeyStore>,
    kubernetes: Option<Arc<KubernetesLocator>>,
    trust_settings: Mutex<NodeTrust>,
}

/// The trust settings of nodes; a change restarts their sources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeTrust {
    trust: SourceTrust,
    read_only: ToolSelection,
    shared_names: SharedNames,
}

/// The part of the configuration that locates the registry: node settings and the Redis URL.
pub(crate) type NodeRegistryConfig<'a> = (&'a NodesConfig, Option<&'a Secret>);

impl NodeCluster {
    /// Opens the registry and loads its stored tools.
    pub(crate) async fn open_registry(
        (config, redis): NodeRegistryConfig<'_>,
        (keys, store, clock): (&Arc<KeyStore>, Arc<dyn Store>, Arc<dyn Clock>),
        (egress, authority): (&EgressClient, Option<CertificateAuthority>),
    ) -> Result<Arc<Self>, CommandError> {
        // Nodes are called over connections that no other client shares.
        let kubernetes_clock = Arc::clone(&clock);
        let registry = match &config.mongodb_url {
            None => PersistentNodeRegistry::open_local(store, egress.with_separate_pool(), clock)
                .await
                .map_err(super::startup_error(PART_NAME))?,
            Some(url) => {
                // Falling back to this server's store could assign a tool name twice.
                let keep: Arc<dyn RegistryStore> = match MongoRegistryStore::from_url(url).await {
                    Ok(keep) => Arc::new(keep),
                    Err(error) => Arc::new(UnavailableRegistryStore(error)),
                };
                PersistentNodeRegistry::open_shared(keep, egress.with_separate_pool(), clock).await
            }
        };
        let registry = Arc::new(registry);
        if let Some(bus) = redis.filter(|_| config.mongodb_url.is_some()).and_then(|url| {
            // Without Redis, servers only notice each other's changes later.
            let told = |error: &tool::StoreError| tracing::warn!("{error}");
            RedisCache::new(url, egress.with_separate_pool(), Arc::clone(&kubernetes_clock))
                .inspect_err(told)
                .ok()
        }) {
            registry.set_message_bus(Arc::new(bus));
        }
        if let Some(authority) = authority {
            registry.set_authority(authority).map_err(super::startup_error(PART_NAME))?;
        }
        let kubernetes = config.kubernetes.as_ref().and_then(|config| {
            let told = |error: &String| {
                tracing::error!(
                    error,
                    "node lookup in Kubernetes is disabled; correct `nodes.kubernetes` and restart"
                );
            };
            build_kubernetes_client(config, egress.http_stack(), kubernetes_clock)
                .inspect_err(told)
                .ok()
        });
        if let Some(kubernetes) = &kubernetes {
            registry.set_locator(Arc::clone(kubernetes));
        }
        let trust_settings = Mutex::new(NodeTrust {
            trust: config.trust,
            read_only: ToolSelection::NONE,
            shared_names: SharedNames::default(),
        });
        registry.set_key_status(Arc::clone(keys) as _);
        let keys = Arc::clone(keys);
        let cluster = Self { registry, keys, kubernetes, trust_settings };
        cluster.apply_config(config);
        Ok(Arc::new(cluster))
    }

    /// Returns the registry for the interfaces.
    pub(crate) fn registry(&self) -> Arc<dyn NodeRegistry> {
        Arc::clone(&self.registry) as Arc<dyn NodeRegistry>
    }

    /// Accepts connections of nodes; never returns.
    pub(crate) async fn accept_nodes(&self, listener: TcpListener) {
        self.registry.accept_nodes(listener).await;
    }

    /// Applies a configuration update.
    pub(crate) fn apply_config(&self, config: &NodesConfig) {
        self.registry.set_addresses(config.addresses.clone());
        let read_only = config.read_only.clone();
        self.registry.set_read_only(read_only.clone());
        self.registry.set_sharing(config.shared_names.clone());
        let shared_names = config.shared_names.clone();
        let trust_settings = NodeTrust { trust: config.trust, read_only, shared_names };
        *self.trust_settings.lock().unwrap_or_else(PoisonError::into_inner) = trust_settings;
    }

    /// Returns one source for each node.
    pub(crate) fn node_sources(&self) -> Vec<ConfiguredSource> {
        let (trust, fingerprint) = {
            let settings = self.trust_settings.lock().unwrap_or_else(PoisonError::into_inner);
            (settings.trust, super::source_factory::hash_value(&*settings))
        };
        let sourced =
            |source: Arc<NodeSource>| ConfiguredSource::new(source, NODE_KIND, trust, fingerprint);
        self.registry.node_sources().into_iter().map(sourced).collect()
    }

    /// Adds new nodes and follows changes by other servers; never returns.
    pub(crate) async fn run_updates(&self, supervisor: &SourceSupervisor) {
        let kubernetes_watch = async {
            if let Some(kubernetes) = &self.kubernetes {
                kubernetes.run_watch().await;
            }
        };
        let registry = &self.registry;
        let certificates = async {
            tokio::join!(registry.poll_certificates(), self.watch_keys());
        };
        let remote_changes = registry.run_peer_events();
        tokio::join!(
            registry.run_sync(),
            remote_changes,
            self.sync_sources(supervisor),
            kubernetes_watch,
            certificates
        );
    }

    /// Closes connections of nodes whose keys are revoked; never returns.
    async fn watch_keys(&self) {
        let mut reloads = self.keys.subscribe_reloads();
        loop {
            reloads.borrow_and_update();
            self.registry.revoke_ended_keys().await;
            if reloads.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn sync_sources(&self, intake: &SourceSupervisor) {
        let mut changes = self.registry.subscribe_node_set();
        loop {
            changes.borrow_and_update();
            for sourced in self.node_sources() {
                intake.add_source(Some(sourced));
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Builds the Kubernetes client with an egress client of its own, because it trusts other
/// certificates.
fn build_kubernetes_client(
    kubernetes: &KubernetesSettings,
    http_stack: HttpStack,
    clock: Arc<dyn Clock>,
) -> Result<Arc<KubernetesLocator>, String> {
    let mut settings = EgressOptions { http_stack, ..EgressOptions::default() };
    if let Some(path) = &kubernetes.ca_file {
        let with_path = |error: String| format!("`{}`: {error}", path.display());
        let pem = rooted_fs::regular_file::read_bytes(path, MAX_CERTIFICATES_BYTES);
        let pem = pem.map_err(|error| with_path(error.to_string()))?;
        let extra = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let extra = extra.map_err(|error| with_path(error.to_string()))?;
        settings.trust_store = TrustStore {
            uses_system_roots: false,
            falls_back_to_bundled: false,
            extra_roots: extra,
        };
    }
    let egress = EgressClient::new(settings).map_err(|error| error.to_string())?;
    Ok(Arc::new(KubernetesLocator::new(kubernetes.clone(), egress, clock)))
}

/// Loads the certificate authority of this installation: from the file that servers share, or else
/// from the store, where the first start creates it. Without an authority, nodes are called in
/// plaintext only.
pub(crate) async fn load_authority(
    keys: &KeyStore,
    file: Option<&Path>,
    clock: &Arc<dyn Clock>,
) -> Option<CertificateAuthority> {
    let load = async || -> Result<CertificateAuthority, String> {
        let kept: StoredAuthority = if let Some(path) = file {
            let named = |error: String| format!("`{}`: {error}", path.display());
            let text = rooted_fs::regular_file::read_text(path, MAX_AUTHORITY_BYTES);
            let text = text.map_err(|error| named(error.to_string()))?;
            serde_json::from_str(&text).map_err(|error| named(error.to_string()))?
        } else {
            let fresh = CertificateAuthority::generate(clock.wall_now())
                .map_err(|error| error.to_string())?;
            let fresh = serde_json::to_string(&fresh).map_err(|error| error.to_string())?;
            let kept = keys.get_or_insert_secret(AUTHORITY_KEY, fresh).await;
            let kept = kept.map_err(|error| error.message().to_owned())?;
            serde_json::from_str(kept.expose()).map_err(|error| error.to_string())?
        };
        CertificateAuthority::from_stored(&kept).map_err(|error| error.to_string())
    };
    load().await.map_err(|error| tracing::error!(error, "cannot issue node certificates")).ok()
}

/// Largest certificate file, in bytes.
const MAX_CERTIFICATES_BYTES: u64 = 4 << 20;
/// Largest authority file, in bytes.
const MAX_AUTHORITY_BYTES: u64 = 64 << 10;
/// Name of this part in error messages.
const PART_NAME: &str = "the registry of nodes";
/// Store key of the certificate authority.
const AUTHORITY_KEY: &str = "secret/nodes-authority";
