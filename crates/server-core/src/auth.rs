//! Authentication. The principal depends on the credential alone and is stored in the request's
//! extensions.

mod holder;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use identity::{Principal, UnverifiedJwt};
use tool::{ErrorCode, WallTime};

use crate::error::ApiError;
use crate::pending_connections::mark_authenticated;
use crate::server_state::{ServerComponents, ServerState};
pub use holder::Holder;

/// Authenticates a request by its credential. `source` is the source of the endpoint, to which a
/// token may be limited. A key in `holder` that was verified with the current ring is not verified
/// again; `holder` must belong to this credential.
///
/// # Errors
/// [`ErrorCode::Unauthenticated`]; [`ErrorCode::Forbidden`] for a token without grants;
/// [`ErrorCode::StoreUnavailable`] and [`ErrorCode::UpstreamLost`] if verification is impossible.
pub async fn principal(
    state: &ServerState,
    (headers, source): (&HeaderMap, Option<&str>),
    holder: Option<&Holder>,
    now: WallTime,
) -> Result<Principal, ApiError> {
    let ServerComponents { keys, clock, .. } = &state.components;
    let ring = keys.key_ring();
    if let Some(principal) = holder.and_then(|holder| holder.of(&ring, now)) {
        keys.check_not_stale(clock.as_ref())?;
        return Ok(principal);
    }
    let principal = verified(state, (headers, source), now).await?;
    if let Some(holder) = holder {
        holder.keep(&ring, &principal);
    }
    Ok(principal)
}

async fn verified(
    doors: &ServerState,
    (headers, source): (&HeaderMap, Option<&str>),
    now: WallTime,
) -> Result<Principal, ApiError> {
    let ServerComponents { keys, clock, issuers, .. } = &doors.components;
    let presented =
        presented(headers).map_err(|error| issuers.with_challenge(error, source, None))?;
    keys.check_not_stale(clock.as_ref())?;
    let ring = keys.key_ring();
    if let Some(token) = presented.filter(|presented| UnverifiedJwt::looks_like_jwt(presented)) {
        // Boxed: few requests have a token, and all futures would be larger.
        let verified = Box::pin(issuers.verify_token(token, source, (&ring, clock))).await;
        return verified.inspect(|_| mark_authenticated());
    }
    let verified = ring.verify_key(presented, now).inspect(|_| mark_authenticated());
    verified.map_err(|error| {
        tracing::info!(reason = error.reason().as_str(), "credential rejected");
        let fault = presented.map(|_| "invalid_token");
        let error = ApiError::new(ErrorCode::Unauthenticated, error.to_string()).with_help(
            "send `Authorization: Bearer KEY` with a key from `toolkeep key create`; if \
                 owner.key itself is invalid, run `toolkeep key recover` on the server's machine",
        );
        issuers.with_challenge(error, source, fault)
    })
}

/// Returns the bearer token; `None` without an Authorization header.
fn presented(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (all.next(), all.next());
    let Some(value) = first else { return Ok(None) };
    let unreadable = || {
        ApiError::new(ErrorCode::Unauthenticated, "the Authorization header cannot be read")
            .with_help("send it once, as `Authorization: Bearer KEY`")
    };
    if second.is_some() {
        return Err(unreadable());
    }
    let text = value.to_str().map_err(|_| unreadable())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(unreadable)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unreadable());
    }
    Ok(Some(token.trim()))
}
