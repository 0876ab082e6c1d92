//! Whom to believe that they are who they say.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use url::Host;

use super::error::EgressError;
use super::target::Origin;

/// The certificate authorities that are trusted.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Those of the host.
    pub native: bool,
    /// Mozilla's, as they came with this build, where the host has none.
    pub bundled: bool,
    /// Others, such as a company's own.
    pub extra: Vec<CertificateDer<'static>>,
}

impl Default for Roots {
    fn default() -> Self {
        Self { native: true, bundled: true, extra: Vec::new() }
    }
}

impl Roots {
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, EgressError> {
        let mut store = RootCertStore::empty();
        if self.native {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "some of the host's certificate authorities cannot be read");
            }
            store.add_parsable_certificates(found.certs);
        }
        if self.bundled && store.is_empty() {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        for certificate in &self.extra {
            let added = store.add(certificate.clone());
            added.map_err(|error| {
                EgressError::Settings(format!("an extra root certificate is unfit: {error}"))
            })?;
        }
        // Named here, so that it does not hang on what the process has installed.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| EgressError::Settings(error.to_string()))?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The name that the certificate must carry.
pub(super) fn server_name(origin: &Origin) -> Option<ServerName<'static>> {
    match origin.host() {
        Host::Ipv4(address) => Some(ServerName::IpAddress((*address).into())),
        Host::Ipv6(address) => Some(ServerName::IpAddress((*address).into())),
        Host::Domain(name) => {
            ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()).ok()
        }
    }
}
