//! Callers that come again on a connection: their key is not verified for each call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use identity::{KeyRing, Principal};
use tool::Wall;

/// Whose key it is, as one ring of keys says it: with another ring it is verified anew. Kept beside the very
/// credential.
#[derive(Default)]
pub struct Holder(Mutex<Option<(Weak<KeyRing>, Principal)>>);

impl Holder {
    /// Who was found with this ring, where the key still holds.
    pub(crate) fn of(&self, ring: &Arc<KeyRing>, now: Wall) -> Option<Principal> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (by, principal) = kept.as_ref()?;
        let same = std::ptr::eq(by.as_ptr(), Arc::as_ptr(ring));
        (same && ring.holds(principal, now)).then(|| principal.clone())
    }

    /// It is this one's. Tokens are not kept: what they say may be taken back without a new ring.
    pub(crate) fn keep(&self, ring: &Arc<KeyRing>, principal: &Principal) {
        if !principal.is_token() {
            let kept = Some((Arc::downgrade(ring), principal.clone()));
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
    use tool::Wall;

    use super::Holder;

    #[test]
    fn a_holder_is_known_to_one_ring_and_until_the_key_ends() {
        let mut key = NewKey::user(KeyId::new("a").unwrap(), "ann");
        key.expires = Some(Wall(100));
        let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
        let ring = Arc::new(KeyRing::new([record.clone()]));
        let ann = ring.verify(Some(secret.open()), Wall(1)).unwrap();
        let holder = Holder::default();
        assert!(holder.of(&ring, Wall(1)).is_none());
        holder.keep(&ring, &ann);
        assert_eq!(holder.of(&ring, Wall(99)).unwrap().key(), "a");
        assert!(holder.of(&ring, Wall(100)).is_none(), "it ended");
        let same = Arc::new(KeyRing::new([record]));
        assert!(holder.of(&same, Wall(1)).is_none(), "another ring may have revoked it");
    }
}
