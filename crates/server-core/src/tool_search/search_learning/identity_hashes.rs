//! Keyed hashes of what learning keeps: organisations, callers and stems of words.
//!
//! HMAC-SHA256 under keys derived from the installation's secret, truncated. All servers of an
//! installation make the same hashes; the stems of one organisation say nothing of another's.

use aws_lc_rs::hmac;
use identity::Principal;
use search::CallerHashes;
use tool::{Secret, ToolKey};

/// Hash of the name of an organisation, as in the keys of its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct OrgTag([u8; 8]);

impl OrgTag {
    /// Returns it as in the keys of rows.
    pub(super) fn to_hex(self) -> String {
        data_encoding::HEXLOWER.encode(&self.0)
    }

    /// Reads it from the key of a row.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

/// Makes the hashes of one installation.
pub(super) struct IdentityHasher(hmac::Key);

impl IdentityHasher {
    pub(super) fn new(secret: &Secret) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        let derived = hmac::sign(&root, b"what tool search learned");
        Self(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    /// Hashes parts, each after its length so that different lists differ.
    fn hash_parts<const N: usize>(&self, parts: [&str; N]) -> [u8; 8] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        context.sign().as_ref().first_chunk().copied().unwrap_or_default()
    }

    pub(super) fn org_tag(&self, org: &str) -> OrgTag {
        OrgTag(self.hash_parts(["org", org]))
    }

    pub(super) fn stem_hash(&self, org: &str, stem: &str) -> u64 {
        u64::from_be_bytes(self.hash_parts(["stem", org, stem]))
    }

    /// Hashes a caller, for its own searches: its key, and its user.
    pub(super) fn caller_hash(&self, principal: &Principal) -> u64 {
        let (org, key) = (principal.org().as_str(), principal.key_id());
        u64::from_be_bytes(self.hash_parts(["caller", org, key, principal.subject()]))
    }

    /// Hashes a caller for evidence: the key that all its delegated keys come from, and the user. The key id of a token
    /// is that of its issuer, so its user alone counts.
    pub(super) fn caller_hashes(&self, principal: &Principal) -> CallerHashes {
        let (org, subject) = (principal.org().as_str(), principal.subject());
        let short = |parts: [&str; 3]| {
            let hash = self.hash_parts(parts);
            u32::from_be_bytes(hash.first_chunk().copied().unwrap_or_default())
        };
        let key = if principal.is_from_token() {
            short(["token", org, subject])
        } else {
            short(["key", org, principal.limit_key_id()])
        };
        CallerHashes { root_key: key, subject: short(["subject", org, subject]) }
    }

    /// Returns the name of the row of a tool.
    pub(super) fn row_name(&self, tool: &ToolKey) -> String {
        let parts = ["tool", tool.org.as_str(), tool.source.as_str(), tool.name.as_str()];
        data_encoding::HEXLOWER.encode(&self.hash_parts(parts))
    }
}

impl std::fmt::Debug for IdentityHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdentityHasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tool::Secret;

    use super::IdentityHasher;

    #[test]
    fn stems_of_organisations_differ_and_servers_agree() {
        let hasher = |secret: &str| IdentityHasher::new(&Secret::new(secret.to_owned()));
        let (one, same, other) = (hasher("a"), hasher("a"), hasher("b"));
        assert_eq!(one.stem_hash("acme", "mail"), same.stem_hash("acme", "mail"));
        assert_ne!(one.stem_hash("acme", "mail"), one.stem_hash("umbrella", "mail"));
        assert_ne!(one.stem_hash("acme", "mail"), other.stem_hash("acme", "mail"));
        assert_ne!(one.hash_parts(["a", "bc"]), one.hash_parts(["ab", "c"]));
        let tag = one.org_tag("acme");
        assert_eq!(super::OrgTag::from_hex(&tag.to_hex()), Some(tag));
        assert_eq!(super::OrgTag::from_hex("12"), None);
    }
}
