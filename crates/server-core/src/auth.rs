//! Who asks. The principal comes from the credential alone and travels in the request's extensions.

mod holder;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use identity::{Principal, Token};
use tool::{Code, Wall};

use crate::error::ApiError;
use crate::pending_connections::mark_authenticated;
use crate::state::{Doors, Parts};
pub use holder::Holder;

/// Who asks, by the credential alone; `source` is that of the endpoint, which a token may be for. A key that
/// was verified with the ring of now is not verified again where `holder` has it, which is of this credential
/// and no other.
///
/// # Errors
/// [`Code::Unauthenticated`]; [`Code::Forbidden`] for a token for which nothing is granted;
/// [`Code::StoreUnavailable`] and [`Code::UpstreamLost`] where nobody can tell.
pub async fn principal(
    doors: &Doors,
    (headers, source): (&HeaderMap, Option<&str>),
    holder: Option<&Holder>,
    now: Wall,
) -> Result<Principal, ApiError> {
    let Parts { keys, clock, .. } = &doors.parts;
    let ring = keys.ring();
    if let Some(principal) = holder.and_then(|holder| holder.of(&ring, now)) {
        keys.fresh(clock.as_ref())?;
        return Ok(principal);
    }
    let principal = verified(doors, (headers, source), now).await?;
    if let Some(holder) = holder {
        holder.keep(&ring, &principal);
    }
    Ok(principal)
}

async fn verified(
    doors: &Doors,
    (headers, source): (&HeaderMap, Option<&str>),
    now: Wall,
) -> Result<Principal, ApiError> {
    let Parts { keys, clock, issuers, .. } = &doors.parts;
    let presented = presented(headers).map_err(|error| issuers.challenged(error, source, None))?;
    keys.fresh(clock.as_ref())?;
    let ring = keys.ring();
    if let Some(token) = presented.filter(|presented| Token::is_one(presented)) {
        // Few come with one, and all would carry about what it takes.
        let verified = Box::pin(issuers.verify(token, source, (&ring, clock))).await;
        return verified.inspect(|_| mark_authenticated());
    }
    let verified = ring.verify(presented, now).inspect(|_| mark_authenticated());
    verified.map_err(|error| {
        tracing::info!(reason = error.reason().as_str(), "credential refused");
        let fault = presented.map(|_| "invalid_token");
        let error = ApiError::new(Code::Unauthenticated, error.to_string())
            .fix(
                "send `Authorization: Bearer KEY` with a key of `toolkeep key create`; where owner.key itself is \
                 not valid, `toolkeep key recover` on the server's machine makes a new one",
            );
        issuers.challenged(error, source, fault)
    })
}

/// The bearer token; nothing where there is no header at all.
fn presented(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (all.next(), all.next());
    let Some(value) = first else { return Ok(None) };
    let unreadable = || {
        ApiError::new(Code::Unauthenticated, "the Authorization header cannot be read")
            .fix("send it once, as `Authorization: Bearer KEY`")
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
