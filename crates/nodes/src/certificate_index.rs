//! Index of the certificates issued to nodes. Only the newest certificate of a node is accepted, as
//! long as neither it nor the API key that requested it is revoked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use proto::tls::{self, CertificateAcceptance};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::node_registry::{CertificateState, IssuedCertificate, NodeCertificate, NodeKeyStatus};
use tool::{Clock, Version, WallTime};

/// Maximum number of stored certificates of a node; the oldest are removed first.
const MAX_STORED_CERTIFICATES: usize = 8;

/// The stored certificates of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateRecord {
    /// The certificates, newest last.
    #[serde(default)]
    #[serde(rename = "issued")]
    entries: Vec<CertificateEntry>,
    /// The time of the last revocation of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "revoked")]
    revoked_at: Option<WallTime>,
}

/// The public data of one certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CertificateEntry {
    serial: String,
    /// SHA-256 of the certificate.
    fingerprint: String,
    /// SHA-256 of the public key.
    #[serde(rename = "public_key")]
    public_key_digest: String,
    #[serde(rename = "issued")]
    issued_at: WallTime,
    #[serde(rename = "expires")]
    expires_at: WallTime,
    /// Id of the API key that requested the certificate, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "key")]
    key_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "revoked")]
    revoked_at: Option<WallTime>,
}

impl CertificateRecord {
    /// Adds a certificate, which replaces the previous ones.
    pub(crate) fn add_certificate(
        &mut self,
        certificate: &IssuedCertificate,
        (public_key, key_id): (&[u8], Option<&str>),
        now: WallTime,
    ) {
        self.entries.push(CertificateEntry {
            serial: certificate.serial.clone(),
            fingerprint: certificate.fingerprint.clone(),
            public_key_digest: sha256_hex(public_key),
            issued_at: now,
            expires_at: certificate.expires_at,
            key_id: key_id.map(str::to_owned),
            revoked_at: None,
        });
        let surplus = self.entries.len().saturating_sub(MAX_STORED_CERTIFICATES);
        drop(self.entries.drain(..surplus));
    }

    /// Revokes all certificates that were issued so far.
    pub(crate) fn revoke_all(&mut self, now: WallTime) {
        self.revoked_at = Some(now);
        for entry in &mut self.entries {
            entry.revoked_at.get_or_insert(now);
        }
    }

    fn newest_entry(&self) -> Option<&CertificateEntry> {
        self.entries.last()
    }

    /// Whether the newest certificate, or the node itself, is revoked.
    fn is_revoked(&self) -> bool {
        self.newest_entry().map_or(self.revoked_at, |newest| newest.revoked_at).is_some()
    }
}

/// The certificates of all nodes, in memory.
#[derive(Debug)]
pub(crate) struct CertificateIndex {
    state: Mutex<CertificateIndexState>,
    /// Reports whether an API key has ended.
    key_status: OnceLock<Arc<dyn NodeKeyStatus>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct CertificateIndexState {
    records: HashMap<String, (CertificateRecord, Version)>,
    /// Node ids by certificate name.
    nodes_by_name: HashMap<String, String>,
}

impl CertificateIndex {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), key_status: OnceLock::new(), clock }
    }

    /// Sets the source of the API key status. Later calls have no effect.
    pub(crate) fn set_key_status(&self, keys: Arc<dyn NodeKeyStatus>) {
        drop(self.key_status.set(keys));
    }

    fn lock_state(&self) -> MutexGuard<'_, CertificateIndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_record(&self, node: &str) -> Option<(CertificateRecord, Version)> {
        self.lock_state().records.get(node).cloned()
    }

    /// Returns the known nodes with the versions of their records.
    pub(crate) fn record_versions(&self) -> Vec<(String, Version)> {
        self.lock_state()
            .records
            .iter()
            .map(|(node, (_, version))| (node.clone(), *version))
            .collect()
    }

    /// Replaces a cached record with the stored one, if the predicate accepts the cached version.
    pub(crate) fn apply_record(
        &self,
        node: &str,
        row: Option<(CertificateRecord, Version)>,
        if_version: impl Fn(Option<Version>) -> bool,
    ) {
        let mut state = self.lock_state();
        if !if_version(state.records.get(node).map(|(_, version)| *version)) {
            return;
        }
        match row {
            Some(row) => {
                state.nodes_by_name.insert(tls::node_name(node), node.to_owned());
                state.records.insert(node.to_owned(), row);
            }
            None => drop(state.records.remove(node)),
        }
    }

    /// Checks that a node may be called.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub(crate) fn check_node(&self, node: &str) -> Result<(), String> {
        let record = self.get_record(node).map(|(record, _)| record);
        if record.as_ref().is_some_and(CertificateRecord::is_revoked) {
            return Err("its certificate was revoked; it must join again".to_owned());
        }
        let key = record.as_ref().and_then(|record| record.newest_entry()?.key_id.as_deref());
        if key.is_some_and(|key| self.has_key_ended(key)) {
            let message = "the key that issued its certificate was revoked; it must join again";
            return Err(message.to_owned());
        }
        Ok(())
    }

    fn has_key_ended(&self, key: &str) -> bool {
        self.key_status.get().is_some_and(|keys| keys.is_key_ended(key, self.clock.wall_now()))
    }

    /// Returns the nodes whose certificates must be revoked because their API key has ended.
    pub(crate) fn nodes_with_ended_keys(&self) -> Vec<String> {
        let candidates: Vec<(String, String)> = {
            let state = self.lock_state();
            let live = state.records.iter().filter(|(_, (record, _))| !record.is_revoked());
            live.filter_map(|(node, (record, _))| {
                Some((node.clone(), record.newest_entry()?.key_id.clone()?))
            })
            .collect()
        };
        let ended = candidates.into_iter().filter(|(_, key)| self.has_key_ended(key));
        ended.map(|(node, _)| node).collect()
    }

    /// Checks that this is the current certificate of the node. For a node without a record the
    /// signature of the authority is sufficient: it joined before certificates were stored, or at
    /// another server.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub(crate) fn check_certificate(&self, node: &str, certificate: &[u8]) -> Result<(), String> {
        self.check_node(node)?;
        let Some((record, _)) = self.get_record(node) else { return Ok(()) };
        let presented = certificate_fingerprint(certificate);
        match record.newest_entry() {
            Some(newest) if newest.fingerprint != presented => {
                let serial = &newest.serial;
                Err(format!("its certificate was replaced by the one with the serial {serial}"))
            }
            _ => Ok(()),
        }
    }

    /// Lists the certificates of a node, newest first.
    pub(crate) fn list_certificates(&self, node: &str) -> Vec<NodeCertificate> {
        let Some((record, _)) = self.get_record(node) else { return Vec::new() };
        let (now, last) = (self.clock.wall_now(), record.entries.len());
        let state = |at: usize, one: &CertificateEntry| {
            if one.revoked_at.is_some()
                || one.key_id.as_deref().is_some_and(|key| self.has_key_ended(key))
            {
                CertificateState::Revoked
            } else if at < last {
                CertificateState::Replaced
            } else if one.expires_at <= now {
                CertificateState::Expired
            } else {
                CertificateState::Current
            }
        };
        let all = record.entries.iter().zip(1..).map(|(one, at)| NodeCertificate {
            serial: one.serial.clone(),
            public_key_digest: one.public_key_digest.clone(),
            issued_at: one.issued_at,
            expires_at: one.expires_at,
            state: state(at, one),
        });
        let mut all: Vec<_> = all.collect();
        all.reverse();
        all
    }
}

impl CertificateAcceptance for CertificateIndex {
    fn check_acceptance(&self, name: &str, certificate: &[u8]) -> Result<(), String> {
        let node = self.lock_state().nodes_by_name.get(name).cloned();
        node.map_or(Ok(()), |node| Self::check_certificate(self, &node, certificate))
    }
}

/// Returns the SHA-256 of a certificate, in hexadecimal digits.
pub(crate) fn certificate_fingerprint(certificate: &[u8]) -> String {
    sha256_hex(certificate)
}

fn sha256_hex(bytes: &[u8]) -> String {
    tool::Digest(Sha256::digest(bytes).into()).to_string()
}
