//! One-time links that sign a browser in to the console, for whoever has a key already.
//!
//! A link is a credential of two minutes. It is kept as a digest, in memory, with the caller that it was made for, and
//! counts once. What it may do is what the key may do at each request of the session, as for a key that was typed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use identity::Principal;
use tool::{Caller, ErrorCode, MonotonicTime, Secret};

use crate::error::ApiError;
use crate::key_store::random_bytes;

/// Time after which an unused link is void.
pub const LINK_LIFETIME: Duration = Duration::from_mins(2);
/// Start of the token of a link, which no key has.
const TOKEN_PREFIX: &str = "link-";
/// Maximum number of unused links of one key; the oldest is void after that.
const MAX_PER_KEY: usize = 4;
/// Maximum number of unused links.
const MAX_LINKS: usize = 1_024;

/// The unused links, oldest first.
#[derive(Debug, Default)]
pub struct SignInLinks(Mutex<VecDeque<UnusedLink>>);

#[derive(Debug)]
struct UnusedLink {
    digest: Vec<u8>,
    caller: Caller,
    created_at: MonotonicTime,
}

/// Checks that this principal may have a session of the console.
///
/// # Errors
/// [`ErrorCode::Forbidden`] for an access token: a session asks the key store for its rights, which has no tokens.
pub fn check_console_credential(principal: &Principal) -> Result<(), ApiError> {
    if !principal.is_from_token() {
        return Ok(());
    }
    let message = "a token cannot sign in to the console";
    Err(ApiError::new(ErrorCode::Forbidden, message)
        .with_help("use an API key, or sign in with its issuer"))
}

/// Returns true if the text has the form of a link's token.
pub fn is_link_token(text: &str) -> bool {
    text.starts_with(TOKEN_PREFIX)
}

impl SignInLinks {
    /// Makes a link for the key of this principal, and returns its token.
    ///
    /// # Errors
    /// As [`check_console_credential`]; [`ErrorCode::Busy`] if there are too many links.
    pub fn create_token(
        &self,
        principal: &Principal,
        now: MonotonicTime,
    ) -> Result<Secret, ApiError> {
        check_console_credential(principal)?;
        let token = format!("{TOKEN_PREFIX}{}", HEXLOWER.encode(&random_bytes::<32>()?));
        let caller = principal.caller().clone();
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.is_valid(now));
        let of_key = |link: &UnusedLink| link.caller.key_id == caller.key_id;
        if links.iter().filter(|link| of_key(link)).count() >= MAX_PER_KEY {
            let oldest = links.iter().position(of_key);
            oldest.and_then(|index| links.remove(index));
        }
        if links.len() >= MAX_LINKS {
            let message = format!("there are {MAX_LINKS} unused links, the maximum");
            return Err(
                ApiError::new(ErrorCode::Busy, message).with_help("try again in two minutes")
            );
        }
        links.push_back(UnusedLink { digest: token_digest(&token), caller, created_at: now });
        Ok(Secret::new(token))
    }

    /// Uses a link up, and returns the caller that it was made for.
    pub fn take_caller(&self, token: &str, now: MonotonicTime) -> Option<Caller> {
        let digest = token_digest(token);
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = links.iter().position(|link| link.digest == digest)?;
        links.remove(index).filter(|link| link.is_valid(now)).map(|link| link.caller)
    }
}

impl UnusedLink {
    fn is_valid(&self, now: MonotonicTime) -> bool {
        now.saturating_duration_since(self.created_at) < LINK_LIFETIME
    }
}

fn token_digest(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use identity::{KeyId, KeyRing, NewKey};
    use tool::WallTime;

    use super::*;

    fn principal(id: &str) -> Principal {
        let key = NewKey::for_user(KeyId::new(id).unwrap(), "ann");
        let (_, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
        KeyRing::new([record]).principal_of_key(id).unwrap().clone()
    }

    fn at(seconds: u64) -> MonotonicTime {
        MonotonicTime(Duration::from_secs(seconds))
    }

    #[test]
    fn a_link_counts_once_and_for_two_minutes() {
        let links = SignInLinks::default();
        let token = links.create_token(&principal("a"), at(0)).unwrap();
        assert!(is_link_token(token.expose()) && token.expose().len() == 69);
        assert_eq!(links.take_caller(token.expose(), at(119)).unwrap().key_id, "a");
        assert!(links.take_caller(token.expose(), at(119)).is_none(), "used");
        let token = links.create_token(&principal("a"), at(0)).unwrap();
        assert!(links.take_caller(token.expose(), at(120)).is_none(), "expired");
        assert!(links.take_caller(token.expose(), at(0)).is_none(), "an expired one is gone");
        for other in ["", "link-", "tk_0123"] {
            assert!(links.take_caller(other, at(0)).is_none(), "{other}");
        }
    }

    #[test]
    fn a_key_has_few_links_and_voids_only_its_own() {
        let links = SignInLinks::default();
        let other = links.create_token(&principal("b"), at(0)).unwrap();
        let all: Vec<_> = (0..=MAX_PER_KEY as u64)
            .map(|second| links.create_token(&principal("a"), at(second)).unwrap())
            .collect();
        assert!(links.take_caller(all[0].expose(), at(9)).is_none());
        assert!(links.take_caller(all[1].expose(), at(9)).is_some());
        assert!(links.take_caller(other.expose(), at(9)).is_some());
    }
}
