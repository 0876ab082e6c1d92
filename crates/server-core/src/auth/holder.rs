//! Cache of the principal of a connection, so that its key is not verified for each call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use identity::{KeyRing, Principal};
use tool::WallTime;

/// The principal of one credential, as verified with one key ring. With another ring it is verified
/// again.
#[derive(Default)]
pub struct Holder(Mutex<Option<(Weak<KeyRing>, Principal)>>);

impl Holder {
    /// Returns the principal that was verified with this ring, if its key is still valid.
    pub(crate) fn of(&self, key_ring: &Arc<KeyRing>, now: WallTime) -> Option<Principal> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (by, principal) = kept.as_ref()?;
        let same = std::ptr::eq(by.as_ptr(), Arc::as_ptr(key_ring));
        (same && key_ring.is_still_valid(principal, now)).then(|| principal.clone())
    }

    /// Stores the principal. Principals of tokens are not stored, because a token can be revoked
    /// without a new ring.
    pub(crate) fn keep(&self, key_ring: &Arc<KeyRing>, principal: &Principal) {
        if !principal.is_from_token() {
            let kept = Some((Arc::downgrade(key_ring), principal.clone()));
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holder")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use identity::{KeyId, KeyRing, NewKey};
    use tool::WallTime;

    use super::Holder;

    #[test]
    fn a_holder_is_known_to_one_ring_and_until_the_key_ends() {
        let mut key = NewKey::for_user(KeyId::new("a").unwrap(), "ann");
        key.expires_at = Some(WallTime(100));
        let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
        let ring = Arc::new(KeyRing::new([record.clone()]));
        let ann = ring.verify_key(Some(secret.expose()), WallTime(1)).unwrap();
        let holder = Holder::default();
        assert!(holder.of(&ring, WallTime(1)).is_none());
        holder.keep(&ring, &ann);
        assert_eq!(holder.of(&ring, WallTime(99)).unwrap().key_id(), "a");
        assert!(holder.of(&ring, WallTime(100)).is_none(), "it ended");
        let same = Arc::new(KeyRing::new([record]));
        assert!(holder.of(&same, WallTime(1)).is_none(), "another ring may have revoked it");
    }
}
