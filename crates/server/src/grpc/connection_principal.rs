//! The principal of a connection's last call, so that a key is not verified again for each call.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use identity::Principal;
use proto::Status;

use super::{apply_restrictions, grpc_status};
use server_core::authentication::{self, PrincipalCache, RequestCredentials};
use server_core::server_state::ServerState;

/// The credential of a connection's last call and the principal cache that belongs to it.
#[derive(Debug, Default)]
pub(super) struct ConnectionPrincipal(Mutex<Option<(HeaderValue, Arc<PrincipalCache>)>>);

impl ConnectionPrincipal {
    /// Returns the cache for this credential; a new one if the last call had another credential.
    fn cache_for(&self, credential: &HeaderValue) -> Arc<PrincipalCache> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, cache)) if known == credential => Arc::clone(cache),
            _ => Arc::clone(&last.insert((credential.clone(), Arc::default())).1),
        }
    }
}

/// Authenticates a call. A key that this connection already verified with the current key ring is
/// not verified again.
pub(super) async fn authenticate_cached(
    state: &ServerState,
    headers: HeaderMap,
    cached: Option<&ConnectionPrincipal>,
) -> Result<Principal, Status> {
    let mut credentials = headers.get_all(AUTHORIZATION).iter();
    let (Some(cached), Some(said), None) = (cached, credentials.next(), credentials.next()) else {
        return super::authenticate(state, headers).await;
    };
    let (cache, now) = (cached.cache_for(said), state.components.clock.wall_now());
    let credentials = RequestCredentials { headers: &headers, source: None };
    let found = authentication::authenticate_request(state, credentials, Some(&cache), now).await;
    apply_restrictions(state, found.map_err(|error| grpc_status(&error))?, &headers)
}
