//! A store that encrypts values before it passes them to another store.
//!
//! AES-256-GCM-SIV under a key derived from the installation's secret and bound to the value's own
//! key, so that no value can replace another. Keys are not encrypted.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use bytes::Bytes;
use tool::store::WritePrecondition;
use tool::{BoxFuture, Secret, Store, StoreError, Version, VersionedValue};

use crate::row_macs::REJECTED_VALUE;

/// A store that encrypts the values of another one.
pub struct EncryptedStore {
    inner: Arc<dyn Store>,
    key: Option<RandomizedNonceKey>,
    /// Prefix of the rows that it encrypts.
    prefix: &'static str,
}

impl EncryptedStore {
    /// Creates an encrypted store. `label` names the purpose: keys of different labels are
    /// independent.
    pub fn new(inner: Arc<dyn Store>, secret: &Secret, label: &str) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        let derived = hmac::sign(&root, label.as_bytes());
        Self {
            inner,
            key: RandomizedNonceKey::new(&AES_256_GCM_SIV, derived.as_ref()).ok(),
            prefix: "",
        }
    }

    /// Sets the prefix of the keys of its rows: [`Store::changes_since`] lists the rows of others without their values
    /// and does not open them.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    fn encrypt(&self, key: &str, plain: &[u8]) -> Result<Bytes, StoreError> {
        let unfit = || StoreError::Unavailable(format!("cannot encrypt the value of `{key}`"));
        let mut text = plain.to_vec();
        let sealer = self.key.as_ref().ok_or_else(unfit)?;
        let bound = Aad::from(key.as_bytes());
        let nonce = sealer.seal_in_place_append_tag(bound, &mut text).map_err(|_| unfit())?;
        text.splice(..0, nonce.as_ref().iter().copied());
        Ok(text.into())
    }

    fn decrypt_row(&self, row: VersionedValue) -> Result<VersionedValue, StoreError> {
        if row.is_removal {
            return Ok(row);
        }
        let key = row.key.clone();
        let plain = self.decrypt(&row).ok_or_else(|| {
            let message = "was encrypted by another installation, or was changed";
            StoreError::Unavailable(format!("the value of `{key}` {message}"))
        })?;
        Ok(VersionedValue { bytes: plain, ..row })
    }

    /// Decrypts a row in a list; a row that cannot be decrypted becomes a damaged record and
    /// affects no other.
    fn decrypt_or_damaged(&self, row: VersionedValue) -> VersionedValue {
        let (key, version) = (row.key.clone(), row.version);
        self.decrypt_row(row).unwrap_or_else(|error| {
            tracing::error!(%error, "a row of the store was ignored");
            let bytes = Bytes::from_static(REJECTED_VALUE);
            VersionedValue { key, version, bytes, is_removal: false }
        })
    }

    fn decrypt(&self, row: &VersionedValue) -> Option<Bytes> {
        let mut bytes = row.bytes.to_vec();
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let bound = Aad::from(row.key.as_bytes());
        let plain = self.key.as_ref()?.open_in_place(nonce, bound, sealed).ok()?;
        Some(Bytes::copy_from_slice(plain))
    }
}

impl Store for EncryptedStore {
    fn get_value<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        Box::pin(async move {
            self.inner.get_value(key).await?.map(|row| self.decrypt_row(row)).transpose()
        })
    }

    fn put_value<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        Box::pin(async move {
            let sealed = bytes.map(|bytes| self.encrypt(key, &bytes)).transpose()?;
            self.inner.put_value(key, expect, sealed).await
        })
    }

    fn scan_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move {
            let rows = self.inner.scan_prefix(prefix, after, limit).await?;
            Ok(rows.into_iter().map(|row| self.decrypt_or_damaged(row)).collect())
        })
    }

    fn current_version(&self) -> BoxFuture<'_, Result<Version, StoreError>> {
        self.inner.current_version()
    }

    fn changes_since(
        &self,
        since: Version,
    ) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move {
            let rows = self.inner.changes_since(since).await?;
            let open = |row: VersionedValue| {
                if row.key.starts_with(self.prefix) {
                    return self.decrypt_or_damaged(row);
                }
                VersionedValue { bytes: Bytes::new(), ..row }
            };
            Ok(rows.into_iter().map(open).collect())
        })
    }
}

impl fmt::Debug for EncryptedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sealed").field(&self.inner).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use tool::store::WritePrecondition;
    use tool::{Secret, Store, Version, VersionedValue};

    use super::{EncryptedStore, REJECTED_VALUE};
    use crate::MemoryStore;

    #[tokio::test]
    async fn a_value_opens_in_its_place_with_its_secret_and_nowhere_else() {
        let inner = Arc::new(MemoryStore::new());
        let sealed = |secret, label| {
            EncryptedStore::new(Arc::clone(&inner) as Arc<dyn Store>, &Secret::new(secret), label)
        };
        let ours = sealed("s", "oauth");
        let plain = Bytes::from_static(b"refresh-token");
        ours.put_value("oauth/a", WritePrecondition::Absent, Some(plain.clone())).await.unwrap();
        assert_eq!(ours.get_value("oauth/a").await.unwrap().unwrap().bytes, plain);
        assert_eq!(ours.scan_prefix("oauth/", None, 9).await.unwrap()[0].bytes, plain);
        let raw = inner.get_value("oauth/a").await.unwrap().unwrap();
        let holds = |bytes: &[u8]| bytes.windows(7).any(|part| part == b"refresh");
        assert!(holds(&plain) && !holds(&raw.bytes));
        assert!(sealed("t", "oauth").get_value("oauth/a").await.is_err());
        assert!(sealed("s", "other").get_value("oauth/a").await.is_err());
        // Moved to another key, or changed by a bit.
        inner
            .put_value("oauth/b", WritePrecondition::Absent, Some(raw.bytes.clone()))
            .await
            .unwrap();
        assert!(ours.get_value("oauth/b").await.is_err());
        let mut bent = raw.bytes.to_vec();
        bent[20] ^= 1;
        inner
            .put_value("oauth/a", WritePrecondition::Version(raw.version), Some(bent.into()))
            .await
            .unwrap();
        assert!(ours.get_value("oauth/a").await.is_err());
        // A removal is told as one.
        let version = inner.get_value("oauth/a").await.unwrap().unwrap().version;
        ours.put_value("oauth/a", WritePrecondition::Version(version), None).await.unwrap();
        assert!(ours.get_value("oauth/a").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn changes_of_others_are_listed_and_not_opened() {
        let inner = Arc::new(MemoryStore::new());
        let open =
            || EncryptedStore::new(Arc::clone(&inner) as Arc<dyn Store>, &Secret::new("s"), "x");
        let plain = Bytes::from_static(b"plain");
        for key in ["other/a", "other/b"] {
            inner.put_value(key, WritePrecondition::Absent, Some(plain.clone())).await.unwrap();
        }
        let ours = open().with_prefix("ours/");
        ours.put_value("ours/a", WritePrecondition::Absent, Some(plain.clone())).await.unwrap();
        inner.put_value("ours/b", WritePrecondition::Absent, Some(plain.clone())).await.unwrap();
        let last = inner.put_value("other/c", WritePrecondition::Absent, Some(plain.clone())).await;
        let changes = ours.changes_since(Version(0)).await.unwrap();
        assert_eq!(changes.iter().map(|row| row.version).max(), Some(last.unwrap()));
        let bytes = |changes: &[VersionedValue], key: &str| {
            changes.iter().find(|row| row.key == key).unwrap().bytes.clone()
        };
        assert_eq!(bytes(&changes, "ours/a"), plain);
        assert_eq!(bytes(&changes, "ours/b"), REJECTED_VALUE, "a row of its own is damaged");
        assert!(bytes(&changes, "other/a").is_empty() && bytes(&changes, "other/c").is_empty());
        let all = open().changes_since(Version(0)).await.unwrap();
        assert_eq!(bytes(&all, "other/a"), REJECTED_VALUE, "control: without the prefix");
    }
}
