//! Where nodes are.

use std::collections::BTreeSet;
use std::path::Path;

use egress::Origin;
use node_addresses::{Addresses, Sharing};
use tool::{Secret, SourceName, Trust};

use super::Resolver;
use super::source::{trust, which};
use crate::Place;
use crate::field::Field;
use crate::high::{KubernetesConfig, NodesConfig, Tools};
use crate::low::{self, SchemeWord};

impl Resolver<'_> {
    pub(super) fn nodes(&self, low: &low::File) -> NodesConfig {
        let Some(low) = low.nodes.get() else { return NodesConfig::default() };
        let insecure = low.insecure_ok.get().into_iter().flatten();
        let insecure_ok: BTreeSet<String> = insecure.filter_map(Field::get).cloned().collect();
        let mut addresses = Addresses { insecure_ok, ..Addresses::default() };
        for (id, url) in low.addresses.get().into_iter().flatten() {
            let Some((url, place)) = url.given() else { continue };
            if let Err(error) = SourceName::new(id) {
                self.sink.tell(
                    place,
                    error.to_string(),
                    "write the id that the node registers with",
                );
                continue;
            }
            addresses.nodes.insert(id.clone(), url.clone());
            if let Err(error) = addresses.of(id) {
                // What would be called in plaintext is told with what to write.
                let told = error.to_string();
                let fix =
                    if told.contains("insecure_ok") { "" } else { "write `https://HOST:PORT`" };
                self.sink.tell(place, told, fix);
            }
        }
        if let Some((pattern, place)) = low.pattern.given() {
            match Addresses::check_pattern(pattern) {
                Ok(()) => addresses.pattern = Some(pattern.clone()),
                Err(error) => {
                    let fix = "write it as `https://{node_id}.nodes.example:50051`";
                    self.sink.tell(place, error, fix);
                }
            }
        }
        let kubernetes = low.kubernetes.given();
        let kubernetes = kubernetes.and_then(|(low, place)| self.kubernetes(low, place));
        let mongodb = low.mongodb.given().and_then(|(url, place)| {
            let fits = url.starts_with("mongodb://") && url.len() > "mongodb://".len();
            if !fits {
                let fix = "write it as `mongodb://HOST:PORT/DATABASE`";
                self.sink.tell_hidden(place, "this is no URL of a MongoDB", fix);
            }
            fits.then(|| Secret::new(url.clone()))
        });
        let trust = low.trust.get().map_or(Trust::Full, |word| trust(*word));
        let authority_file = low.authority_file.get().map(|path| self.path(path));
        let read_only = which(&low.read_only);
        let shared = self.shared_names(low);
        NodesConfig { addresses, kubernetes, mongodb, authority_file, trust, read_only, shared }
    }

    fn shared_names(&self, low: &low::Nodes) -> Sharing {
        let given = low.shared.get().into_iter().flatten().filter_map(Field::given);
        let fits = |(pattern, place): (&String, Place)| match Sharing::check(pattern) {
            Ok(()) => Some(pattern.clone()),
            Err(error) => {
                self.sink.tell(place, error, "write a tool's name, or a beginning and `*`");
                None
            }
        };
        Sharing(given.filter_map(fits).collect())
    }

    fn kubernetes(&self, low: &low::Kubernetes, place: Place) -> Option<KubernetesConfig> {
        let (api, at) = match low.api.given() {
            Some((api, at)) => (api.clone(), at),
            None => (self.in_cluster(place)?, place),
        };
        let fix = "write it as `https://HOST:PORT`";
        let api = Origin::parse(&api);
        let api = api.map_err(|error| self.sink.tell(at, error.to_string(), fix)).ok()?;
        // What is in the pod belongs to the cluster's own API server and is shown to no other.
        let own = low.api.get().is_none();
        let file = |field: &Field<String>, name: &str| {
            let default = own.then(|| Path::new(ACCOUNT).join(name));
            field.get().map(|path| self.path(path)).or(default)
        };
        Some(KubernetesConfig {
            api,
            token_file: file(&low.token_file, "token"),
            ca_file: file(&low.ca_file, "ca.crt"),
            https: low.scheme.get() != Some(&SchemeWord::Http),
            port: low.port.get().copied().filter(|port| *port != 0).unwrap_or(PORT),
        })
    }

    /// As Kubernetes tells its pods.
    fn in_cluster(&self, place: Place) -> Option<String> {
        let get = |name| self.environment.get(name).filter(|text| !text.is_empty());
        let host = get("KUBERNETES_SERVICE_HOST");
        let Some(host) = host else {
            let told = "this is no pod of a cluster, and nothing says where the API server is";
            self.sink.tell(place, told, "add `api: https://HOST:PORT` and a `token_file`");
            return None;
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Some(format!("https://{host}:{}", get("KUBERNETES_SERVICE_PORT").unwrap_or("443")))
    }
}

impl Default for NodesConfig {
    /// None is known, and each is trusted, as modules are: it has a key of its own.
    fn default() -> Self {
        let addresses = Addresses::default();
        let (kubernetes, mongodb, authority_file) = (None, None, None);
        let (trust, read_only, shared) = (Trust::Full, Tools::NONE, Sharing::default());
        Self { addresses, kubernetes, mongodb, authority_file, trust, read_only, shared }
    }
}

/// Where a pod finds what its service account has.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The port of nodes in spec 4.
const PORT: u16 = 50051;
