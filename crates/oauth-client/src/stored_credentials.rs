//! Stored credentials of a source: authorization server, client and tokens. The store encrypts
//! them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tool::store::WritePrecondition;
use tool::{Secret, SourceName, Store, StoreError, Version, WallTime};

use super::ClientAuth;
use super::client_auth::OAuthClient;

/// Maximum attempts of a write while others write too.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// Credentials of one source, as stored.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct StoredCredentials {
    #[serde(rename = "v")]
    pub(super) format_version: u8,
    /// URL of the source. Tokens of a source with another URL are not used.
    #[serde(rename = "url")]
    pub(super) source_url: String,
    pub(super) issuer: String,
    /// Metadata URL that the server named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "metadata")]
    pub(super) resource_metadata_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "client")]
    pub(super) registration: Option<ClientRegistration>,
    /// Scopes that were requested.
    pub(super) scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "refresh")]
    pub(super) refresh_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "access")]
    pub(super) access_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "expires")]
    pub(super) expires_at: Option<WallTime>,
}

/// Client that registered itself (RFC 7591).
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ClientRegistration {
    #[serde(rename = "id")]
    pub(super) client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "secret")]
    pub(super) client_secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "method")]
    pub(super) auth_method: Option<String>,
    #[serde(rename = "redirect")]
    pub(super) redirect_uri: String,
}

impl StoredCredentials {
    /// Creates empty credentials for a source at this URL.
    pub(super) fn new(url: &str, issuer: &str) -> Self {
        Self {
            format_version: 1,
            source_url: url.to_owned(),
            issuer: issuer.to_owned(),
            ..Self::default()
        }
    }
}

impl ClientRegistration {
    /// Converts the registration to a client.
    pub(super) fn to_client(&self) -> OAuthClient {
        let proof = match &self.client_secret {
            Some(secret) => ClientAuth::Secret(Secret::new(secret.clone())),
            None => ClientAuth::Public,
        };
        OAuthClient {
            client_id: self.client_id.clone(),
            auth: proof,
            auth_method: self.auth_method.clone(),
        }
    }
}

fn store_key(source: &SourceName) -> String {
    format!("oauth/{source}")
}

/// Loads the credentials of a source, or `None` if they are for another URL or unreadable.
pub(super) async fn load_credentials(
    store: &dyn Store,
    source: &SourceName,
    url: &str,
) -> Result<(Option<StoredCredentials>, Option<Version>), StoreError> {
    let Some(found) = store.get_value(&store_key(source)).await? else { return Ok((None, None)) };
    let kept: Option<StoredCredentials> = serde_json::from_slice(&found.bytes).ok();
    Ok((
        kept.filter(|kept| kept.format_version == 1 && kept.source_url == url),
        Some(found.version),
    ))
}

/// Saves the credentials and returns their version.
pub(super) async fn save_credentials(
    store: &dyn Store,
    source: &SourceName,
    credentials: &StoredCredentials,
    expected_version: Option<Version>,
) -> Result<Option<Version>, StoreError> {
    let bytes = serde_json::to_vec(credentials).ok().map(Bytes::from);
    write_value(store, &store_key(source), bytes, expected_version).await
}

/// Removes the credentials of a source from the store.
pub(super) async fn remove_credentials(
    store: &dyn Store,
    source: &SourceName,
    expected_version: Option<Version>,
) -> Result<(), StoreError> {
    write_value(store, &store_key(source), None, expected_version).await.map(drop)
}

/// Writes a value, or removes it. The last writer wins, because it has the token that was issued
/// last.
async fn write_value(
    store: &dyn Store,
    key: &str,
    bytes: Option<Bytes>,
    mut expected_version: Option<Version>,
) -> Result<Option<Version>, StoreError> {
    let mut attempts = 0;
    loop {
        if bytes.is_none() && expected_version.is_none() {
            return Ok(None);
        }
        let expect = expected_version.map_or(WritePrecondition::Absent, WritePrecondition::Version);
        match store.put_value(key, expect, bytes.clone()).await {
            Ok(version) => return Ok(bytes.map(|_| version)),
            Err(StoreError::Conflict { .. }) if attempts < MAX_WRITE_ATTEMPTS => {
                attempts += 1;
                expected_version = store.get_value(key).await?.map(|found| found.version);
            }
            Err(error) => return Err(error),
        }
    }
}
