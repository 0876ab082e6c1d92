//! Sessions of the console: in memory, short and limited in number.
//!
//! A session stores which caller signed in, and no key. Its rights are those of the key at each
//! request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tool::{Caller, ErrorCode, MonotonicTime, Secret};

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
    caller: Caller,
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
    /// Starts a session of this caller and returns its token.
    ///
    /// # Errors
    /// [`ErrorCode::Busy`] if there are too many sessions.
    pub(crate) fn start_session(
        &self,
        caller: Caller,
        now: MonotonicTime,
    ) -> Result<Secret, ApiError> {
        let token = random_token()?;
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last_use = table.next_use();
        let sessions = &mut table.by_digest;
        sessions.retain(|_, session| !session.is_over(now));
        let of_key = |session: &StoredSession| session.caller.key_id == caller.key_id;
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
        let session = StoredSession { caller, started: now, used: now, last_use };
        sessions.insert(token_digest(token.expose()), session);
        Ok(token)
    }

    /// Returns the caller of a session that is not over, and prolongs it.
    pub(crate) fn find_caller(&self, token: &str, now: MonotonicTime) -> Option<Caller> {
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
        Some(session.caller.clone())
    }

    /// Returns the caller of a session that is not over, without prolonging it.
    pub(crate) fn peek_caller(&self, token: &str, now: MonotonicTime) -> Option<Caller> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = table.by_digest.get(&token_digest(token))?;
        (!session.is_over(now)).then(|| session.caller.clone())
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
    use tool::{Caller, MonotonicTime, WallTime};

    use super::{IDLE_TIMEOUT, MAX_AGE, MAX_PER_KEY, MAX_SESSIONS, SessionStore, form_token};

    fn caller(id: &str) -> Caller {
        let key = NewKey::for_user(KeyId::new(id).unwrap(), "ann");
        let (_, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
        let ring = KeyRing::new([record]);
        ring.principal_of_key(id).unwrap().caller().clone()
    }

    fn at(seconds: u64) -> MonotonicTime {
        MonotonicTime(Duration::from_secs(seconds))
    }

    #[test]
    fn a_session_ends_when_it_is_unused_and_when_it_is_old() {
        let store = SessionStore::default();
        let token = store.start_session(caller("a"), at(0)).unwrap();
        let idle = IDLE_TIMEOUT.as_secs();
        assert_eq!(store.find_caller(token.expose(), at(idle - 1)).unwrap().key_id, "a");
        assert!(store.find_caller(token.expose(), at(2 * idle - 2)).is_some(), "it was used");
        assert!(store.peek_caller(token.expose(), at(3 * idle - 3)).is_some());
        assert!(store.peek_caller(token.expose(), at(3 * idle)).is_none(), "a look is no use");
        assert!(store.find_caller(token.expose(), at(3 * idle)).is_none());
        assert!(store.find_caller(token.expose(), at(3 * idle)).is_none(), "it does not come back");
        let token = store.start_session(caller("a"), at(0)).unwrap();
        let last = MAX_AGE.as_secs();
        for second in (0..last).step_by(600) {
            assert!(store.find_caller(token.expose(), at(second)).is_some());
        }
        assert!(store.find_caller(token.expose(), at(last)).is_none());
    }

    #[test]
    fn one_key_has_few_sessions_and_ends_only_its_own() {
        let store = SessionStore::default();
        let other = store.start_session(caller("b"), at(0)).unwrap();
        let first = store.start_session(caller("a"), at(1)).unwrap();
        for second in 0..MAX_PER_KEY as u64 {
            store.start_session(caller("a"), at(2 + second)).unwrap();
        }
        assert!(store.find_caller(first.expose(), at(20)).is_none());
        assert!(store.find_caller(other.expose(), at(20)).is_some());
    }

    #[test]
    fn a_session_in_use_outlives_new_ones_of_the_same_moment() {
        let store = SessionStore::default();
        let used = store.start_session(caller("a"), at(0)).unwrap();
        let unused = store.start_session(caller("a"), at(0)).unwrap();
        for _ in 0..MAX_PER_KEY - 1 {
            assert!(store.find_caller(used.expose(), at(0)).is_some());
            store.start_session(caller("a"), at(0)).unwrap();
        }
        assert!(store.find_caller(used.expose(), at(0)).is_some());
        assert!(store.find_caller(unused.expose(), at(0)).is_none(), "the least recently used");
    }

    #[test]
    fn sessions_are_limited_until_some_are_over() {
        let store = SessionStore::default();
        for number in 0..MAX_SESSIONS {
            let mut caller = caller("a");
            caller.key_id = format!("k{number}");
            store.start_session(caller, at(0)).unwrap();
        }
        assert!(store.start_session(caller("late"), at(1)).is_err());
        assert!(store.start_session(caller("late"), at(IDLE_TIMEOUT.as_secs())).is_ok());
    }

    #[test]
    fn tokens_are_random_and_form_tokens_belong_to_one_session() {
        let store = SessionStore::default();
        let [a, b] = [0, 1].map(|_| store.start_session(caller("a"), at(0)).unwrap());
        assert_eq!(a.expose().len(), 64);
        assert_ne!(a.expose(), b.expose());
        assert_ne!(form_token(a.expose()), form_token(b.expose()));
        assert_ne!(form_token(a.expose()), a.expose());
        store.end_session(a.expose());
        assert!(store.find_caller(a.expose(), at(0)).is_none());
        assert!(store.find_caller(b.expose(), at(0)).is_some());
    }
}
