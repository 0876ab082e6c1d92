//! Admission: what stands before every interface over HTTP, in one order. Host and Origin, then the credential,
//! then what the request takes from its caller's rights.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, Uri};
use identity::Principal;
use tool::Wall;

use crate::auth::{self, Holder};
use crate::context;
use crate::error::ApiError;
use crate::state::Doors;

/// What of a request admission reads.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The target, for what its query takes from the caller's rights.
    pub uri: &'a Uri,
    /// The source of the endpoint, which a token may be for.
    pub source: Option<&'a str>,
}

/// What admission found of one head, for requests with the same bytes.
#[derive(Debug, Default)]
pub struct AdmissionCache {
    /// Whether Host and Origin passed: true for as long as the server runs.
    site_passed: AtomicBool,
    holder: Holder,
}

/// Which check refused a request, with the answer.
#[derive(Debug)]
pub enum AdmissionError {
    /// Host or Origin.
    Site(ApiError),
    /// The credential.
    Credential(ApiError),
    /// What the request takes from its caller's rights cannot be read.
    Restriction(ApiError),
}

impl From<AdmissionError> for ApiError {
    fn from(refused: AdmissionError) -> Self {
        match refused {
            AdmissionError::Site(error)
            | AdmissionError::Credential(error)
            | AdmissionError::Restriction(error) => error,
        }
    }
}

/// Admits a request that needs a credential: the principal, as its request restricts it. `cache` is of this
/// very head, and `now` when it came.
///
/// # Errors
/// [`AdmissionError`], of the first check that refuses.
pub async fn admit(
    doors: &Doors,
    request: AdmissionRequest<'_>,
    cache: Option<&AdmissionCache>,
    now: Wall,
) -> Result<Principal, AdmissionError> {
    let AdmissionRequest { headers, uri, source } = request;
    admit_site(doors, headers, cache).map_err(AdmissionError::Site)?;
    let holder = cache.map(|cache| &cache.holder);
    let principal = auth::principal(doors, (headers, source), holder, now).await;
    let principal = principal.map_err(AdmissionError::Credential)?;
    context::narrowed(doors, principal, (headers, uri)).map_err(AdmissionError::Restriction)
}

/// The first of these checks, which is all that a request without a credential needs.
///
/// # Errors
/// As of [`Hosts::check`](crate::Hosts::check).
pub fn admit_site(
    doors: &Doors,
    headers: &HeaderMap,
    cache: Option<&AdmissionCache>,
) -> Result<(), ApiError> {
    if cache.is_some_and(|cache| cache.site_passed.load(Ordering::Relaxed)) {
        return Ok(());
    }
    doors.parts.hosts.check(headers)?;
    if let Some(cache) = cache {
        cache.site_passed.store(true, Ordering::Relaxed);
    }
    Ok(())
}
