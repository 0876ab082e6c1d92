//! Cache of the principal of a connection, so that its key is not verified for each call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use identity::{KeyRing, Principal};
use tool::WallTime;

/// The principal of one credential, as verified with one key ring. With another ring it is verified
/// again.
#[derive(Default)]
pub struct PrincipalCache(Mutex<Option<(Weak<KeyRing>, Principal)>>);

impl PrincipalCache {
    /// Returns the principal that was verified with this ring, if its key is still valid.
    pub(crate) fn get_principal(
        &self,
        key_ring: &Arc<KeyRing>,
        now: WallTime,
    ) -> Option<Principal> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (cached_ring, principal) = cached.as_ref()?;
        let is_same_ring = std::ptr::eq(cached_ring.as_ptr(), Arc::as_ptr(key_ring));
        (is_same_ring && key_ring.is_still_valid(principal, now)).then(|| principal.clone())
    }

    /// Stores the principal. Principals of tokens are not stored, because a token can be revoked
    /// without a new ring.
    pub(crate) fn store_principal(&self, key_ring: &Arc<KeyRing>, principal: &Principal) {
        if !principal.is_from_token() {
            let entry = Some((Arc::downgrade(key_ring), principal.clone()));
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = entry;
        }
    }
}

impl fmt::Debug for PrincipalCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrincipalCache")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use identity::{KeyId, KeyRing, NewKey};
    use tool::WallTime;

    use super::PrincipalCache;

    #[test]
    fn a_cached_principal_holds_for_one_ring_and_until_its_key_expires() {
        let mut key = NewKey::for_user(KeyId::new("a").unwrap(), "ann");
        key.expires_at = Some(WallTime(100));
        let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
        let ring = Arc::new(KeyRing::new([record.clone()]));
        let ann = ring.verify_key(Some(secret.expose()), WallTime(1)).unwrap();
        let cache = PrincipalCache::default();
        assert!(cache.get_principal(&ring, WallTime(1)).is_none());
        cache.store_principal(&ring, &ann);
        assert_eq!(cache.get_principal(&ring, WallTime(99)).unwrap().key_id(), "a");
        assert!(cache.get_principal(&ring, WallTime(100)).is_none(), "it ended");
        let same = Arc::new(KeyRing::new([record]));
        assert!(
            cache.get_principal(&same, WallTime(1)).is_none(),
            "another ring may have revoked it"
        );
    }
}
