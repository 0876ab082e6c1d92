//! Issues and revokes certificates of nodes: what is stored of them, and what follows for connections.

use std::sync::Arc;
use std::time::Duration;

use tool::node::{Certified, KeyState, NodeFault, Speaks};
use tool::store::Expect;
use tool::{Json, StoreError};

use super::kept::CERTIFICATES;
use super::{MOST_NODES, Registry, TRIES, busy, unsigned};
use crate::certificates::CertificateRecord;
use crate::news::Word;

/// How often a server that shares the registry reads what others have revoked, beside what it hears.
const REVIEW: Duration = Duration::from_secs(30);

impl Registry {
    /// Asks these for the keys that certificates were issued with; the first time alone. Whenever they
    /// change, somebody must call [`Registry::review_keys`].
    pub fn set_keys(&self, keys: Arc<dyn KeyState>) {
        self.shared.certificates.set_keys(keys);
    }

    /// Revokes the certificates whose keys hold no more, and cuts the connections of their nodes at once.
    pub async fn review_keys(&self) {
        for node in self.shared.certificates.with_ended_keys() {
            self.shared.cut_if_revoked(&node);
            if let Err(error) = self.revoke_all(&node).await {
                // It does not count here all the same.
                tracing::warn!(node, %error, "the revocation of the node is not stored");
            }
        }
    }

    /// Reads what other servers have issued and revoked, for ever, where they share the registry.
    pub async fn follow_certificates(&self) {
        if !self.is_shared {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(REVIEW).await;
            for node in self.shared.known() {
                let key = format!("{CERTIFICATES}{node}");
                if self.shared.read_again(&key).await.is_err() {
                    break;
                }
            }
        }
    }

    pub(super) async fn issue(
        &self,
        (by, node): (&Speaks, &str),
        proved: (&[u8], &[u8]),
        issued_with: Option<&str>,
    ) -> Result<Certified, NodeFault> {
        if !by.is_for(node) {
            return Err(NodeFault::Foreign(node.to_owned()));
        }
        let now = self.shared.clock.wall();
        let signed = self.authority()?.certify(node, proved, now).map_err(unsigned)?;
        // Stored before anybody has it.
        self.change_certificates(node, |record| record.add(&signed, (proved.0, issued_with), now))
            .await?;
        tracing::info!(node, serial = signed.serial, until = %signed.until, "node certified");
        Ok(signed)
    }

    pub(super) async fn revoke_by(&self, by: &Speaks, node: &str) -> Result<(), NodeFault> {
        if *by != Speaks::All {
            return Err(NodeFault::Foreign(node.to_owned()));
        }
        let known = self.shared.is_known(node) || self.shared.certificates.record(node).is_some();
        if !known {
            return Err(NodeFault::Missing);
        }
        self.revoke_all(node).await?;
        tracing::info!(node, "node revoked");
        Ok(())
    }

    async fn revoke_all(&self, node: &str) -> Result<(), NodeFault> {
        let now = self.shared.clock.wall();
        self.change_certificates(node, |record| record.revoke(now)).await?;
        self.shared.cut_if_revoked(node);
        Ok(())
    }

    async fn change_certificates(
        &self,
        node: &str,
        change: impl Fn(&mut CertificateRecord),
    ) -> Result<(), NodeFault> {
        let key = format!("{CERTIFICATES}{node}");
        for _ in 0..TRIES {
            let (mut record, expect) = match self.shared.certificates.record(node) {
                Some((record, version)) => (record, Expect::Version(version)),
                None if self.shared.certificates.versions().len() >= MOST_NODES => {
                    let told = format!("there are certificates of {MOST_NODES} nodes already");
                    return Err(NodeFault::Full(told));
                }
                None => (CertificateRecord::default(), Expect::Absent),
            };
            change(&mut record);
            let bytes = Json::of(&record).bytes().clone();
            match self.shared.keep.put(&key, expect, Some(bytes)).await {
                Ok(version) => {
                    let newer = |old: Option<tool::Version>| old.is_none_or(|old| old < version);
                    self.shared.certificates.settle(node, Some((record, version)), newer);
                    self.shared.outbox.tell(|| Word::Written(key.clone()));
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => self.shared.read_again(&key).await?,
                Err(StoreError::Unavailable(why)) => return Err(NodeFault::Unavailable(why)),
            }
        }
        Err(busy(&key))
    }
}
