//! The TLS trust store, and the server name to verify.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use url::Host;

use super::error::EgressError;
use super::url_policy::Origin;

/// The certificate authorities that are trusted.
#[derive(Debug, Clone)]
pub struct TrustStore {
    /// Whether the certificate authorities of the host are trusted.
    pub uses_system_roots: bool,
    /// Whether Mozilla's authorities of this build are trusted if the host has none.
    pub falls_back_to_bundled: bool,
    /// Further authorities, such as a company's own.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

impl Default for TrustStore {
    fn default() -> Self {
        Self { uses_system_roots: true, falls_back_to_bundled: true, extra_roots: Vec::new() }
    }
}

impl TrustStore {
    pub(super) fn build_client_config(&self) -> Result<Arc<ClientConfig>, EgressError> {
        let mut store = RootCertStore::empty();
        if self.uses_system_roots {
            let system_roots = rustls_native_certs::load_native_certs();
            for error in &system_roots.errors {
                tracing::warn!(%error, "cannot read some of the system's CA certificates");
            }
            store.add_parsable_certificates(system_roots.certs);
        }
        if self.falls_back_to_bundled && store.is_empty() {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        for certificate in &self.extra_roots {
            let added = store.add(certificate.clone());
            added.map_err(|error| {
                EgressError::InvalidOptions(format!(
                    "an extra root certificate is invalid: \
                    {error}"
                ))
            })?;
        }
        // Named explicitly, so that it does not depend on the provider that the process installed.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| EgressError::InvalidOptions(error.to_string()))?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Returns the server name that the certificate must carry.
pub(super) fn server_name(origin: &Origin) -> Option<ServerName<'static>> {
    match origin.host() {
        Host::Ipv4(address) => Some(ServerName::IpAddress((*address).into())),
        Host::Ipv6(address) => Some(ServerName::IpAddress((*address).into())),
        Host::Domain(name) => {
            ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()).ok()
        }
    }
}
