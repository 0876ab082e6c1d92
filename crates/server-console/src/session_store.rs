//! Sessions of the console: in memory, short and limited in number.
//!
//! A session stores which user signed in, and no credential. Its rights are those of the user's key,
//! or of the person at the issuer, at each request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tool::{ErrorCode, MonotonicTime, Secret};

use server_core::authentication::SessionUser;
use server_core::error::ApiError;
use server_core::key_store::random_bytes;

/// Time after which an unused session ends.
const IDLE_TIMEOUT: Duration = Duration::from_mins(30);
/// Time after which every session ends.
const MAX_AGE: Duration = Duration::from_hours(12);
/// Maximum number of sessions of one key; the least recently used one ends for a new one.
const MAX_PER_KEY: usize = 8;
/// Maximum number of sessions.
const MAX_SESSIONS: usize = 4_096;

type TokenDigest = [u8; 32];

/// All sessions, by the digest of their token.
#[derive(Debug, Default)]
pub(crate) struct SessionStore(Mutex<SessionTable>);

#[derive(Debug, Default)]
struct SessionTable {
    by_digest: HashMap<TokenDigest, StoredSession>,
    /// Number of uses so far: orders uses that happen at the same time of the clock.
    use_count: u64,
}

#[derive(Debug)]
struct StoredSession {
    user: SessionUser,
    /// The key, or what stands for it in records.
    key_id: String,
    started: MonotonicTime,
    used: MonotonicTime,
    /// Number of its last use.
    last_use: u64,
}

impl StoredSession {
    fn is_over(&self, now: MonotonicTime) -> bool {
        now.saturating_duration_since(self.used) >= IDLE_TIMEOUT
            || now.saturating_duration_since(self.started) >= MAX_AGE
    }
}

impl SessionTable {
    fn next_use(&mut self) -> u64 {
        self.use_count += 1;
        self.use_count
    }
}

impl SessionStore {
    /// Starts a session of this user and returns its token. `key_id` is that of the user's principal.
    ///
    /// # Errors
    /// [`ErrorCode::Busy`] if there are too many sessions.
    pub(crate) fn start_session(
        &self,
        user: SessionUser,
        key_id: &str,
        now: MonotonicTime,
    ) -> Result<Secret, ApiError> {
        let token = random_token()?;
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last_use = table.next_use();
        let sessions = &mut table.by_digest;
        sessions.retain(|_, session| !session.is_over(now));
        let of_key = |session: &StoredSession| session.key_id == key_id;
        if sessions.values().filter(|session| of_key(session)).count() >= MAX_PER_KEY {
            let oldest = sessions.iter().filter(|(_, session)| of_key(session));
            let oldest =
                oldest.min_by_key(|(_, session)| session.last_use).map(|(digest, _)| *digest);
            oldest.and_then(|digest| sessions.remove(&digest));
        }
        if sessions.len() >= MAX_SESSIONS {
            let message = format!("the console has {MAX_SESSIONS} sessions, the maximum");
            return Err(ApiError::new(ErrorCode::Busy, message).with_help("try again later"));
        }
        let session =
            StoredSession { user, key_id: key_id.to_owned(), started: now, used: now, last_use };
        sessions.insert(token_digest(token.expose()), session);
        Ok(token)
    }

    /// Returns the user of a session that is not over, and prolongs it.
    pub(crate) fn find_user(&self, token: &str, now: MonotonicTime) -> Option<SessionUser> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last_use = table.next_use();
        let sessions = &mut table.by_digest;
        let digest = token_digest(token);
        if sessions.get(&digest)?.is_over(now) {
            sessions.remove(&digest);
            return None;
        }
        let session = sessions.get_mut(&digest)?;
        (session.used, session.last_use) = (now, last_use);
        Some(session.user.clone())
    }

    /// Returns the user of a session that is not over, without prolonging it.
    pub(crate) fn peek_user(&self, token: &str, now: MonotonicTime) -> Option<SessionUser> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = table.by_digest.get(&token_digest(token))?;
        (!session.is_over(now)).then(|| session.user.clone())
    }

    /// Ends the session of this token.
    pub(crate) fn end_session(&self, token: &str) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.by_digest.remove(&token_digest(token));
    }
}

/// Creates a token of 256 random bits.
///
/// # Errors
/// [`ErrorCode::Internal`] if the system has no random bytes.
pub(crate) fn random_token() -> Result<Secret, ApiError> {
    Ok(Secret::new(HEXLOWER.encode(&random_bytes::<32>()?)))
}

/// Returns the token that the forms of a session carry. It is derived from the session's, which it
/// does not disclose.
pub(crate) fn form_token(session_token: &str) -> String {
    HEXLOWER.encode(&token_digest(&format!("form {session_token}")))
}

fn token_digest(token: &str) -> TokenDigest {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use identity::{KeyId, KeyRing, NewKey};
    use server_core::authentication::SessionUser;
    use server_core::error::ApiError;
    use tool::{MonotonicTime, Secret, WallTime};

    use super::{IDLE_TIMEOUT, MAX_AGE, MAX_PER_KEY, MAX_SESSIONS, SessionStore, form_token};

    fn start(store: &SessionStore, id: &str, now: MonotonicTime) -> Result<Secret, ApiError> {
        store.start_session(key_holder(id), id, now)
    }

    fn key_holder(id: &str) -> SessionUser {
        let key = NewKey::for_user(KeyId::new(id).unwrap(), "ann");
        let (_, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
        let ring = KeyRing::new([record]);
        SessionUser::KeyHolder(ring.principal_of_key(id).unwrap().caller().clone())
    }

    fn at(seconds: u64) -> MonotonicTime {
        MonotonicTime(Duration::from_secs(seconds))
    }

    #[test]
    fn a_session_ends_when_it_is_unused_and_when_it_is_old() {
        let store = SessionStore::default();
        let token = start(&store, "a", at(0)).unwrap();
        let idle = IDLE_TIMEOUT.as_secs();
        let user = store.find_user(token.expose(), at(idle - 1));
        assert!(matches!(user, Some(SessionUser::KeyHolder(caller)) if caller.key_id == "a"));
        assert!(store.find_user(token.expose(), at(2 * idle - 2)).is_some(), "it was used");
        assert!(store.peek_user(token.expose(), at(3 * idle - 3)).is_some());
        assert!(store.peek_user(token.expose(), at(3 * idle)).is_none(), "a look is no use");
        assert!(store.find_user(token.expose(), at(3 * idle)).is_none());
        assert!(store.find_user(token.expose(), at(3 * idle)).is_none(), "it does not come back");
        let token = start(&store, "a", at(0)).unwrap();
        let last = MAX_AGE.as_secs();
        for second in (0..last).step_by(600) {
            assert!(store.find_user(token.expose(), at(second)).is_some());
        }
        assert!(store.find_user(token.expose(), at(last)).is_none());
    }

    #[test]
    fn one_key_has_few_sessions_and_ends_only_its_own() {
        let store = SessionStore::default();
        let other = start(&store, "b", at(0)).unwrap();
        let first = start(&store, "a", at(1)).unwrap();
        for second in 0..MAX_PER_KEY as u64 {
            start(&store, "a", at(2 + second)).unwrap();
        }
        assert!(store.find_user(first.expose(), at(20)).is_none());
        assert!(store.find_user(other.expose(), at(20)).is_some());
    }

    #[test]
    fn a_session_in_use_outlives_new_ones_of_the_same_moment() {
        let store = SessionStore::default();
        let used = start(&store, "a", at(0)).unwrap();
        let unused = start(&store, "a", at(0)).unwrap();
        for _ in 0..MAX_PER_KEY - 1 {
            assert!(store.find_user(used.expose(), at(0)).is_some());
            start(&store, "a", at(0)).unwrap();
        }
        assert!(store.find_user(used.expose(), at(0)).is_some());
        assert!(store.find_user(unused.expose(), at(0)).is_none(), "the least recently used");
    }

    #[test]
    fn sessions_are_limited_until_some_are_over() {
        let store = SessionStore::default();
        for number in 0..MAX_SESSIONS {
            store.start_session(key_holder("a"), &format!("k{number}"), at(0)).unwrap();
        }
        assert!(start(&store, "late", at(1)).is_err());
        assert!(start(&store, "late", at(IDLE_TIMEOUT.as_secs())).is_ok());
    }

    #[test]
    fn tokens_are_random_and_form_tokens_belong_to_one_session() {
        let store = SessionStore::default();
        let [a, b] = [0, 1].map(|_| start(&store, "a", at(0)).unwrap());
        assert_eq!(a.expose().len(), 64);
        assert_ne!(a.expose(), b.expose());
        assert_ne!(form_token(a.expose()), form_token(b.expose()));
        assert_ne!(form_token(a.expose()), a.expose());
        store.end_session(a.expose());
        assert!(store.find_user(a.expose(), at(0)).is_none());
        assert!(store.find_user(b.expose(), at(0)).is_some());
    }
}
