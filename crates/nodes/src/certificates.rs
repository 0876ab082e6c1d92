//! The certificates that were issued to nodes, and which one of a node counts: the newest, as long as it
//! is not revoked and the key that it was issued with holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use proto::tls::{self, Acceptance};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::node::{CertificateState, Certified, KeyState, NodeCertificate};
use tool::{Clock, Version, Wall};

/// Certificates of one node that are remembered; the oldest go first.
const REMEMBERED: usize = 8;

/// What is stored of one node's certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateRecord {
    /// The newest last.
    #[serde(default)]
    issued: Vec<IssuedCertificate>,
    /// When the node was revoked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<Wall>,
}

/// One certificate, without anything secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct IssuedCertificate {
    serial: String,
    /// SHA-256 of the certificate.
    fingerprint: String,
    /// SHA-256 of the public key.
    public_key: String,
    issued: Wall,
    expires: Wall,
    /// Id of the key that the node registers with, where it was issued with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<Wall>,
}

impl CertificateRecord {
    /// Adds the newest one, which replaces those before it.
    pub(crate) fn add(
        &mut self,
        signed: &Certified,
        (public, key): (&[u8], Option<&str>),
        now: Wall,
    ) {
        self.issued.push(IssuedCertificate {
            serial: signed.serial.clone(),
            fingerprint: signed.fingerprint.clone(),
            public_key: hash(public),
            issued: now,
            expires: signed.until,
            key: key.map(str::to_owned),
            revoked: None,
        });
        let surplus = self.issued.len().saturating_sub(REMEMBERED);
        drop(self.issued.drain(..surplus));
    }

    /// Revokes all that were issued until now.
    pub(crate) fn revoke(&mut self, now: Wall) {
        self.revoked = Some(now);
        for one in &mut self.issued {
            one.revoked.get_or_insert(now);
        }
    }

    fn newest(&self) -> Option<&IssuedCertificate> {
        self.issued.last()
    }

    /// Whether nothing that was issued counts any more.
    fn is_revoked(&self) -> bool {
        self.newest().map_or(self.revoked, |newest| newest.revoked).is_some()
    }
}

/// What is known of all nodes' certificates.
#[derive(Debug)]
pub(crate) struct Certificates {
    known: Mutex<Known>,
    /// Who knows whether a key holds.
    keys: OnceLock<Arc<dyn KeyState>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Known {
    records: HashMap<String, (CertificateRecord, Version)>,
    /// Nodes by the names in their certificates.
    names: HashMap<String, String>,
}

impl Certificates {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { known: Mutex::default(), keys: OnceLock::new(), clock }
    }

    /// Asks these for keys; the first time alone.
    pub(crate) fn set_keys(&self, keys: Arc<dyn KeyState>) {
        drop(self.keys.set(keys));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, node: &str) -> Option<(CertificateRecord, Version)> {
        self.lock().records.get(node).cloned()
    }

    /// Nodes of which something is known here, with the versions.
    pub(crate) fn versions(&self) -> Vec<(String, Version)> {
        self.lock().records.iter().map(|(node, (_, version))| (node.clone(), *version)).collect()
    }

    /// Puts what stands in the store in the place of what is known, where `holds` of the version known.
    pub(crate) fn settle(
        &self,
        node: &str,
        row: Option<(CertificateRecord, Version)>,
        holds: impl Fn(Option<Version>) -> bool,
    ) {
        let mut known = self.lock();
        if !holds(known.records.get(node).map(|(_, version)| *version)) {
            return;
        }
        match row {
            Some(row) => {
                known.names.insert(tls::node_name(node), node.to_owned());
                known.records.insert(node.to_owned(), row);
            }
            None => drop(known.records.remove(node)),
        }
    }

    /// Whether a node may be called at all.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_node(&self, node: &str) -> Result<(), String> {
        let record = self.record(node).map(|(record, _)| record);
        if record.as_ref().is_some_and(CertificateRecord::is_revoked) {
            return Err("its certificate was revoked; let it join again".to_owned());
        }
        let key = record.as_ref().and_then(|record| record.newest()?.key.as_deref());
        if key.is_some_and(|key| self.has_ended(key)) {
            let told =
                "the key that its certificate was issued with was revoked; let it join again";
            return Err(told.to_owned());
        }
        Ok(())
    }

    fn has_ended(&self, key: &str) -> bool {
        self.keys.get().is_some_and(|keys| keys.has_ended(key, self.clock.wall()))
    }

    /// Nodes whose certificate is to be revoked, because its key holds no more.
    pub(crate) fn with_ended_keys(&self) -> Vec<String> {
        let candidates: Vec<(String, String)> = {
            let known = self.lock();
            let live = known.records.iter().filter(|(_, (record, _))| !record.is_revoked());
            live.filter_map(|(node, (record, _))| {
                Some((node.clone(), record.newest()?.key.clone()?))
            })
            .collect()
        };
        let ended = candidates.into_iter().filter(|(_, key)| self.has_ended(key));
        ended.map(|(node, _)| node).collect()
    }

    /// Whether this is the certificate that the node must show now. Of a node of which nothing is known
    /// the authority's word is enough: it joined before certificates were kept, or at another server.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, node: &str, certificate: &[u8]) -> Result<(), String> {
        self.check_node(node)?;
        let Some((record, _)) = self.record(node) else { return Ok(()) };
        let shown = fingerprint(certificate);
        match record.newest() {
            Some(newest) if newest.fingerprint != shown => {
                let serial = &newest.serial;
                Err(format!("its certificate was replaced by the one with the serial {serial}"))
            }
            _ => Ok(()),
        }
    }

    /// The certificates of a node, the newest first.
    pub(crate) fn of(&self, node: &str) -> Vec<NodeCertificate> {
        let Some((record, _)) = self.record(node) else { return Vec::new() };
        let (now, last) = (self.clock.wall(), record.issued.len());
        let state = |at: usize, one: &IssuedCertificate| {
            if one.revoked.is_some() || one.key.as_deref().is_some_and(|key| self.has_ended(key)) {
                CertificateState::Revoked
            } else if at < last {
                CertificateState::Replaced
            } else if one.expires <= now {
                CertificateState::Expired
            } else {
                CertificateState::Current
            }
        };
        let all = record.issued.iter().zip(1..).map(|(one, at)| NodeCertificate {
            serial: one.serial.clone(),
            public_key: one.public_key.clone(),
            issued: one.issued,
            expires: one.expires,
            state: state(at, one),
        });
        let mut all: Vec<_> = all.collect();
        all.reverse();
        all
    }
}

impl Acceptance for Certificates {
    fn check(&self, name: &str, certificate: &[u8]) -> Result<(), String> {
        let node = self.lock().names.get(name).cloned();
        node.map_or(Ok(()), |node| Self::check(self, &node, certificate))
    }
}

/// SHA-256 of a certificate, in hexadecimal digits.
pub(crate) fn fingerprint(certificate: &[u8]) -> String {
    hash(certificate)
}

fn hash(bytes: &[u8]) -> String {
    tool::Digest(Sha256::digest(bytes).into()).to_string()
}
