//! Issues and revokes node certificates: stores the records and closes the affected connections.

use std::sync::Arc;
use std::time::Duration;

use tool::node_registry::{IssuedCertificate, KeyProof, NodeAccess, NodeError, NodeKeyStatus};
use tool::store::WritePrecondition;
use tool::{Json, StoreError};

use super::records::CERTIFICATE_PREFIX;
use super::{
    MAX_NODES, MAX_WRITE_ATTEMPTS, PersistentNodeRegistry, authority_error, contention_error,
};
use crate::certificate_index::CertificateRecord;
use crate::peer_events::PeerEvent;

/// Interval of polling the revocations of other servers, in addition to their events.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

impl PersistentNodeRegistry {
    /// Sets the source of the status of API keys that requested certificates. Later calls have no
    /// effect. After a change of keys the caller calls [`PersistentNodeRegistry::revoke_ended_keys`].
    pub fn set_key_status(&self, keys: Arc<dyn NodeKeyStatus>) {
        self.context.certificates.set_key_status(keys);
    }

    /// Revokes the certificates whose API keys have ended, and closes the connections of their
    /// nodes at once.
    pub async fn revoke_ended_keys(&self) {
        for node in self.context.certificates.nodes_with_ended_keys() {
            self.context.cut_if_revoked(&node);
            if let Err(error) = self.store_revocation(&node).await {
                // The certificate is rejected here nevertheless.
                tracing::warn!(node, %error, "cannot store the revocation of the node");
            }
        }
    }

    /// Polls the certificates that other servers issued and revoked, until it is cancelled.
    pub async fn poll_certificates(&self) {
        if !self.is_shared {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            for node in self.context.node_ids() {
                let key = format!("{CERTIFICATE_PREFIX}{node}");
                if self.context.reload_key(&key).await.is_err() {
                    break;
                }
            }
        }
    }

    pub(super) async fn sign_certificate(
        &self,
        (access, node): (&NodeAccess, &str),
        proof: KeyProof<'_>,
        key_id: Option<&str>,
    ) -> Result<IssuedCertificate, NodeError> {
        if !access.allows_node(node) {
            return Err(NodeError::NotAuthorized(node.to_owned()));
        }
        let now = self.context.clock.wall_now();
        let signed = self
            .require_authority()?
            .issue_node_certificate(node, proof, now)
            .map_err(authority_error)?;
        // Stored before the certificate is handed out.
        self.update_certificates(node, |record| {
            record.add_certificate(&signed, (proof.public_key, key_id), now);
        })
        .await?;
        tracing::info!(node, serial = signed.serial, until = %signed.expires_at, "node certified");
        Ok(signed)
    }

    pub(super) async fn revoke_node(
        &self,
        access: &NodeAccess,
        node: &str,
    ) -> Result<(), NodeError> {
        if *access != NodeAccess::All {
            return Err(NodeError::NotAuthorized(node.to_owned()));
        }
        let is_known =
            self.context.has_node(node) || self.context.certificates.get_record(node).is_some();
        if !is_known {
            return Err(NodeError::NotFound);
        }
        self.store_revocation(node).await?;
        tracing::info!(node, "node revoked");
        Ok(())
    }

    async fn store_revocation(&self, node: &str) -> Result<(), NodeError> {
        let now = self.context.clock.wall_now();
        self.update_certificates(node, |record| record.revoke_all(now)).await?;
        self.context.cut_if_revoked(node);
        Ok(())
    }

    async fn update_certificates(
        &self,
        node: &str,
        change: impl Fn(&mut CertificateRecord),
    ) -> Result<(), NodeError> {
        let key = format!("{CERTIFICATE_PREFIX}{node}");
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let (mut record, expect) = match self.context.certificates.get_record(node) {
                Some((record, version)) => (record, WritePrecondition::Version(version)),
                None if self.context.certificates.record_versions().len() >= MAX_NODES => {
                    let message = format!(
                        "there are already certificates of {MAX_NODES} nodes, \
                        the maximum"
                    );
                    return Err(NodeError::LimitReached(message));
                }
                None => (CertificateRecord::default(), WritePrecondition::Absent),
            };
            change(&mut record);
            let bytes = Json::encode(&record).bytes().clone();
            match self.context.store.put_record(&key, expect, Some(bytes)).await {
                Ok(version) => {
                    let is_newer = |old: Option<tool::Version>| old.is_none_or(|old| old < version);
                    self.context.certificates.apply_record(node, Some((record, version)), is_newer);
                    self.context.outbox.send_event(|| PeerEvent::ToolChanged(key.clone()));
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => self.context.reload_key(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeError::Unavailable(why)),
            }
        }
        Err(contention_error(&key))
    }
}
