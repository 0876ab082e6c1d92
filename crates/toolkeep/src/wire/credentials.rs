//! Credentials for upstreams, from the configuration. A caller's own are never passed on.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tool::executor::{Credential, Credentials};
use tool::{Boxed, Caller, Secret, SourceName};

/// One secret per source, for every caller alike.
#[derive(Debug, Default)]
pub(super) struct Configured(RwLock<Arc<HashMap<SourceName, Secret>>>);

impl Configured {
    pub(super) fn set(&self, secrets: HashMap<SourceName, Secret>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(secrets);
    }
}

impl Credentials for Configured {
    fn for_source<'a>(&'a self, source: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        let secrets = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let found = secrets.get(source).cloned();
        Box::pin(async move { found.map_or(Credential::None, Credential::Secret) })
    }
}
