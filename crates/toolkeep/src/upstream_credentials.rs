//! Credentials that calls to upstreams carry, from the configuration. A caller's own are never
//! forwarded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use tool::executor::{CredentialProvider, UpstreamCredential};
use tool::{BoxFuture, Caller, Secret, SourceName};

/// The credential that calls to one source carry.
#[derive(Debug)]
pub(crate) enum SourceCredential {
    /// One secret for all callers.
    Shared(Secret),
    /// One secret for each caller, by subject.
    PerSubject(BTreeMap<String, Secret>),
}

/// The configured credentials by source, replaced atomically.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCredentials(RwLock<Arc<HashMap<SourceName, SourceCredential>>>);

impl UpstreamCredentials {
    pub(crate) fn replace_credentials(&self, secrets: HashMap<SourceName, SourceCredential>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(secrets);
    }
}

impl CredentialProvider for UpstreamCredentials {
    /// Looks up the subject of the caller's key, so that a request cannot select another caller's
    /// secret.
    fn find_credential<'a>(
        &'a self,
        source: &'a SourceName,
        caller: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        let secrets = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let found = match secrets.get(source) {
            None => UpstreamCredential::NotNeeded,
            Some(SourceCredential::Shared(secret)) => UpstreamCredential::Secret(secret.clone()),
            Some(SourceCredential::PerSubject(all)) => match all.get(&caller.subject) {
                Some(secret) => UpstreamCredential::Secret(secret.clone()),
                None => UpstreamCredential::Missing(format!(
                    "`per_caller.secrets` has no entry for the subject `{}`",
                    caller.subject.escape_debug()
                )),
            },
        };
        Box::pin(std::future::ready(found))
    }
}
