//! Applies rows of the store to the cache.

use tool::{Json, JsonLimits, Version, VersionedValue};

use super::{NameOwner, RegistryContext};
use crate::certificate_index::CertificateRecord;
use crate::peer_events;
use crate::registry::records::{
    CERTIFICATE_PREFIX, CachedTool, NODE_PREFIX, NodeRecord, OWNER_PREFIX, OwnerRecord, ToolRecord,
    parse_tool_key, tool_key,
};

/// A decoded record of the store.
enum DecodedRecord {
    Node(u64),
    Owner(OwnerRecord),
    Certificates(CertificateRecord),
    Tool(CachedTool),
}

impl RegistryContext {
    /// Replaces a cached record with the stored one, if the predicate accepts the cached version.
    /// An unreadable record is logged and ignored: a newer Toolkeep may have written it.
    pub(in crate::registry) fn apply_record(
        &self,
        key: &str,
        row: Option<&VersionedValue>,
        if_version: impl Fn(Option<Version>) -> bool,
    ) {
        if key == peer_events::SIGNING_KEY {
            return;
        }
        let read = row.map(|row| decode_row(row).ok_or(&row.key)).transpose();
        let read = match read {
            Ok(read) => read,
            Err(key) => {
                tracing::warn!(key, "cannot parse a record of the node registry");
                return;
            }
        };
        if let (Some(node), Some(DecodedRecord::Node(created))) =
            (key.strip_prefix(NODE_PREFIX), &read)
        {
            self.add_node(node, *created);
        } else if let Some(node) = key.strip_prefix(CERTIFICATE_PREFIX) {
            let row = match (read, row) {
                (Some(DecodedRecord::Certificates(record)), Some(row)) => {
                    Some((record, row.version))
                }
                _ => None,
            };
            self.certificates.apply_record(node, row, if_version);
            self.cut_if_revoked(node);
        } else if let Some(name) = key.strip_prefix(OWNER_PREFIX) {
            let mut state = self.lock_cache();
            if if_version(state.owners.get(name).map(|owner| owner.version)) {
                let owner = match (read, row) {
                    (Some(DecodedRecord::Owner(record)), Some(row)) => {
                        Some(NameOwner { record, version: row.version })
                    }
                    _ => None,
                };
                state.set_owner(name, owner);
            }
        } else if let Some((node, name)) = parse_tool_key(key) {
            match read {
                Some(DecodedRecord::Tool(kept)) => self.upsert_tool_if(kept, if_version),
                _ => self.remove_tool_if(node, name, if_version),
            }
        }
    }

    /// Returns the cached version of a key.
    pub(in crate::registry) fn cached_version(&self, key: &str) -> Option<Version> {
        if let Some(node) = key.strip_prefix(CERTIFICATE_PREFIX) {
            return self.certificates.get_record(node).map(|(_, version)| version);
        }
        let state = self.lock_cache();
        if let Some(name) = key.strip_prefix(OWNER_PREFIX) {
            return state.owners.get(name).map(|owner| owner.version);
        }
        let (node, name) = parse_tool_key(key)?;
        Some(state.nodes.get(node)?.tools.get(name)?.version)
    }

    /// Returns the keys of tools, owners and certificates with their versions.
    pub(in crate::registry) fn key_versions(&self) -> Vec<(String, Version)> {
        let state = self.lock_cache();
        let owners = state.owners.iter();
        let owners = owners.map(|(name, owner)| (format!("{OWNER_PREFIX}{name}"), owner.version));
        let tools = state.nodes.values().flat_map(|node| node.tools.values());
        let tools = tools.map(|kept| (tool_key(&kept.tool.node_id, &kept.tool.name), kept.version));
        let certificates = self.certificates.record_versions().into_iter();
        let certificates = certificates.map(|(node, v)| (format!("{CERTIFICATE_PREFIX}{node}"), v));
        owners.chain(tools).chain(certificates).collect()
    }
}

fn decode_row(row: &VersionedValue) -> Option<DecodedRecord> {
    let json = Json::parse(row.bytes.clone(), JsonLimits::DOCUMENT).ok()?;
    if row.key.starts_with(NODE_PREFIX) {
        let NodeRecord { sequence: created } = json.decode().ok()?;
        Some(DecodedRecord::Node(created))
    } else if row.key.starts_with(OWNER_PREFIX) {
        Some(DecodedRecord::Owner(json.decode().ok()?))
    } else if row.key.starts_with(CERTIFICATE_PREFIX) {
        Some(DecodedRecord::Certificates(json.decode().ok()?))
    } else {
        let ToolRecord { id, sequence: created, tool } = json.decode().ok()?;
        let cached = CachedTool { id, sequence: created, version: row.version, tool };
        // A record under another key than its own is ignored.
        (tool_key(&cached.tool.node_id, &cached.tool.name) == row.key)
            .then_some(DecodedRecord::Tool(cached))
    }
}
