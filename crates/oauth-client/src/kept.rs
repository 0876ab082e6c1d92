//! Stored credentials of a source: authorization server, client and tokens. The store encrypts
//! them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tool::store::Expect;
use tool::{Secret, SourceName, Store, StoreError, Version, Wall};

use super::Proof;
use super::client::Client;

/// Maximum attempts of a write while others write too.
const TRIES: usize = 5;

/// Credentials of one source, as stored.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) v: u8,
    /// URL of the source. Tokens of a source with another URL are not used.
    pub(super) url: String,
    pub(super) issuer: String,
    /// Metadata URL that the server named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<Registration>,
    /// Scopes that were requested.
    pub(super) scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) access: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<Wall>,
}

/// Client that registered itself (RFC 7591).
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    pub(super) redirect: String,
}

impl Kept {
    /// Creates empty credentials for a source at this URL.
    pub(super) fn new(url: &str, issuer: &str) -> Self {
        Self { v: 1, url: url.to_owned(), issuer: issuer.to_owned(), ..Self::default() }
    }
}

impl Registration {
    /// Converts the registration to a client.
    pub(super) fn client(&self) -> Client {
        let proof = match &self.secret {
            Some(secret) => Proof::Secret(Secret::new(secret.clone())),
            None => Proof::None,
        };
        Client { id: self.id.clone(), proof, method: self.method.clone() }
    }
}

fn key(source: &SourceName) -> String {
    format!("oauth/{source}")
}

/// Loads the credentials of a source, or `None` if they are for another URL or unreadable.
pub(super) async fn read(
    store: &dyn Store,
    source: &SourceName,
    url: &str,
) -> Result<(Option<Kept>, Option<Version>), StoreError> {
    let Some(found) = store.get(&key(source)).await? else { return Ok((None, None)) };
    let kept: Option<Kept> = serde_json::from_slice(&found.bytes).ok();
    Ok((kept.filter(|kept| kept.v == 1 && kept.url == url), Some(found.version)))
}

/// Saves the credentials, or removes them. The last writer wins, because it has the token that was
/// issued last.
pub(super) async fn write(
    store: &dyn Store,
    source: &SourceName,
    (kept, mut seen): (Option<&Kept>, Option<Version>),
) -> Result<Option<Version>, StoreError> {
    let key = key(source);
    let mut tried = 0;
    loop {
        if kept.is_none() && seen.is_none() {
            return Ok(None);
        }
        let bytes = kept.and_then(|kept| serde_json::to_vec(kept).ok()).map(Bytes::from);
        let expect = seen.map_or(Expect::Absent, Expect::Version);
        match store.put(&key, expect, bytes).await {
            Ok(version) => return Ok(kept.map(|_| version)),
            Err(StoreError::Conflict { .. }) if tried < TRIES => {
                tried += 1;
                seen = store.get(&key).await?.map(|found| found.version);
            }
            Err(error) => return Err(error),
        }
    }
}
