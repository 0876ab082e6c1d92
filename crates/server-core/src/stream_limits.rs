//! Limits for open event streams and waiting requests by root key. Each occupies a connection for
//! as long as its client wants, so no key may have most of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::Principal;

/// Maximum number of streams and waiting requests of one root key with all keys delegated from it:
/// a tenth of the connections of a port.
pub(crate) const MAX_STREAMS_PER_KEY: usize = 1_000;

/// The number of open streams by root key.
#[derive(Debug, Clone, Default)]
pub struct StreamLimits(Arc<Mutex<HashMap<Box<str>, usize>>>);

/// An open stream; it counts until dropped.
#[derive(Debug)]
pub struct OpenStream {
    streams: StreamLimits,
    key: Box<str>,
}

impl StreamLimits {
    fn lock_counts(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a stream for this caller.
    ///
    /// # Errors
    /// Returns a message if its key has the maximum.
    pub fn open_stream(&self, principal: &Principal) -> Result<OpenStream, String> {
        let key: Box<str> =
            format!("{}/{}", principal.org().as_str(), principal.limit_key_id()).into();
        let mut all = self.lock_counts();
        let count = all.entry(key.clone()).or_default();
        if *count >= MAX_STREAMS_PER_KEY {
            return Err(format!(
                "this key already has {MAX_STREAMS_PER_KEY} open event streams and waiting \
                 requests, the maximum; close some"
            ));
        }
        *count += 1;
        Ok(OpenStream { streams: self.clone(), key })
    }

    /// Returns how long a request of this caller may wait, at most `requested`. It is zero if its
    /// key has the maximum of streams and waiting requests: the request then returns the current
    /// state.
    pub fn allowed_wait(&self, principal: &Principal, requested: Duration) -> AllowedWait {
        let open = if requested.is_zero() { None } else { self.open_stream(principal).ok() };
        AllowedWait {
            duration: if open.is_some() { requested } else { Duration::ZERO },
            _open: open,
        }
    }
}

/// The permitted wait of a request, which counts for its key until dropped.
#[derive(Debug)]
pub struct AllowedWait {
    /// The permitted time.
    pub duration: Duration,
    _open: Option<OpenStream>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut all = self.streams.lock_counts();
        if let Some(count) = all.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use identity::{DelegationRequest, KeyId, KeyRing, NewKey, Principal};
    use tool::WallTime;

    use super::{MAX_STREAMS_PER_KEY, StreamLimits};

    /// A key, and one delegated from it.
    fn keys() -> [Principal; 2] {
        let now = WallTime(1);
        let first = NewKey::for_user(KeyId::new("first").unwrap(), "ann");
        let (secret, record) = first.issue_key([1; 32], now).unwrap();
        let maker = KeyRing::new([record.clone()]).verify_key(Some(secret.expose()), now).unwrap();
        let id = KeyId::new("second").unwrap();
        let second =
            NewKey::delegate_key(id, (&record, &maker), DelegationRequest::default(), now).unwrap();
        let (other_secret, other) = second.issue_key([2; 32], now).unwrap();
        let ring = KeyRing::new([record, other]);
        [secret, other_secret].map(|it| ring.verify_key(Some(it.expose()), now).unwrap())
    }

    #[test]
    fn a_key_and_those_delegated_from_it_have_so_many_streams_together() {
        let (streams, [first, second]) = (StreamLimits::default(), keys());
        let mut open: Vec<_> = (0..MAX_STREAMS_PER_KEY)
            .map(|number| {
                streams.open_stream(if number % 2 == 0 { &first } else { &second }).unwrap()
            })
            .collect();
        assert!(streams.open_stream(&first).is_err() && streams.open_stream(&second).is_err());
        // Controls: another key has its own limit, and a closed stream frees its place.
        let other = KeyRing::default()
            .with_anonymous_access(tool::PermissionLevel::User)
            .verify_key(None, WallTime(1))
            .unwrap();
        let theirs = streams.open_stream(&other).unwrap();
        open.pop();
        let again = streams.open_stream(&second).unwrap();
        drop((open, theirs, again));
        assert!(streams.lock_counts().is_empty());
    }
}
