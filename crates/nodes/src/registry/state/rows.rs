//! Rows of the store, and what is remembered of them.

use tool::{Json, Limits, Version, Versioned};

use super::Shared;
use crate::certificates::CertificateRecord;
use crate::news;
use crate::registry::kept::{
    CERTIFICATES, Document, Kept, NODE, NodeRecord, OWNER, OwnerRecord, tool_key, tool_of,
};

/// What a key has in the store.
enum Read {
    Node(u64),
    Owner(OwnerRecord),
    Certificates(CertificateRecord),
    Tool(Kept),
}

impl Shared {
    /// Puts what stands in the store under a key in the place of what is remembered, where `holds` of
    /// the version that is remembered. What cannot be read is told and left alone: a newer Toolkeep may
    /// have written it.
    pub(in crate::registry) fn settle(
        &self,
        key: &str,
        row: Option<&Versioned>,
        holds: impl Fn(Option<Version>) -> bool,
    ) {
        if key == news::KEY {
            return;
        }
        let read = row.map(|row| read(row).ok_or(&row.key)).transpose();
        let read = match read {
            Ok(read) => read,
            Err(key) => {
                tracing::warn!(key, "a record of the nodes' registry cannot be read");
                return;
            }
        };
        if let (Some(node), Some(Read::Node(created))) = (key.strip_prefix(NODE), &read) {
            self.entered(node, *created);
        } else if let Some(node) = key.strip_prefix(CERTIFICATES) {
            let row = match (read, row) {
                (Some(Read::Certificates(record)), Some(row)) => Some((record, row.version)),
                _ => None,
            };
            self.certificates.settle(node, row, holds);
            self.cut_if_revoked(node);
        } else if let Some(name) = key.strip_prefix(OWNER) {
            let mut state = self.lock();
            if holds(state.owners.get(name).map(|(_, version)| *version)) {
                let owner = match (read, row) {
                    (Some(Read::Owner(owner)), Some(row)) => Some((owner, row.version)),
                    _ => None,
                };
                state.set_owner(name, owner);
            }
        } else if let Some((node, name)) = tool_of(key) {
            match read {
                Some(Read::Tool(kept)) => self.took_where(kept, holds),
                _ => self.lost_where(node, name, holds),
            }
        }
    }

    /// The version that is remembered under a key.
    pub(in crate::registry) fn version_of(&self, key: &str) -> Option<Version> {
        if let Some(node) = key.strip_prefix(CERTIFICATES) {
            return self.certificates.record(node).map(|(_, version)| version);
        }
        let state = self.lock();
        if let Some(name) = key.strip_prefix(OWNER) {
            return state.owners.get(name).map(|(_, version)| *version);
        }
        let (node, name) = tool_of(key)?;
        Some(state.nodes.get(node)?.tools.get(name)?.version)
    }

    /// All keys of tools and owners with their versions.
    pub(in crate::registry) fn versions(&self) -> Vec<(String, Version)> {
        let state = self.lock();
        let owners = state.owners.iter().map(|(name, (_, v))| (format!("{OWNER}{name}"), *v));
        let tools = state.nodes.values().flat_map(|node| node.tools.values());
        let tools = tools.map(|kept| (tool_key(&kept.tool.node_id, &kept.tool.name), kept.version));
        let certificates = self.certificates.versions().into_iter();
        let certificates = certificates.map(|(node, v)| (format!("{CERTIFICATES}{node}"), v));
        owners.chain(tools).chain(certificates).collect()
    }
}

fn read(row: &Versioned) -> Option<Read> {
    let json = Json::check(row.bytes.clone(), Limits::DOCUMENT).ok()?;
    if row.key.starts_with(NODE) {
        let NodeRecord { created } = json.read().ok()?;
        Some(Read::Node(created))
    } else if row.key.starts_with(OWNER) {
        Some(Read::Owner(json.read().ok()?))
    } else if row.key.starts_with(CERTIFICATES) {
        Some(Read::Certificates(json.read().ok()?))
    } else {
        let Document { id, created, tool } = json.read().ok()?;
        let kept = Kept { id, created, version: row.version, tool };
        // What stands under another key than its own is nobody's.
        (tool_key(&kept.tool.node_id, &kept.tool.name) == row.key).then_some(Read::Tool(kept))
    }
}
