//! Credentials for upstreams, from the configuration. A caller's own are never passed on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use tool::executor::{Credential, Credentials};
use tool::{Boxed, Caller, Secret, SourceName};

/// What a source's calls carry.
#[derive(Debug)]
pub(crate) enum Held {
    /// One secret, for every caller alike.
    All(Secret),
    /// One of each caller, by subject.
    Each(BTreeMap<String, Secret>),
}

/// Secrets by source.
#[derive(Debug, Default)]
pub(crate) struct Configured(RwLock<Arc<HashMap<SourceName, Held>>>);

impl Configured {
    pub(crate) fn set(&self, secrets: HashMap<SourceName, Held>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(secrets);
    }
}

impl Credentials for Configured {
    /// The subject is the key's: nothing that a caller sends can choose another's secret.
    fn for_source<'a>(
        &'a self,
        source: &'a SourceName,
        caller: &'a Caller,
    ) -> Boxed<'a, Credential> {
        let secrets = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let found = match secrets.get(source) {
            None => Credential::None,
            Some(Held::All(secret)) => Credential::Secret(secret.clone()),
            Some(Held::Each(all)) => match all.get(&caller.subject) {
                Some(secret) => Credential::Secret(secret.clone()),
                None => Credential::Missing(format!(
                    "`per_caller.secrets` holds none for the subject `{}`",
                    caller.subject.escape_debug()
                )),
            },
        };
        Box::pin(std::future::ready(found))
    }
}
