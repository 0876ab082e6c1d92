//! Reading and decoding of request bodies and queries, limited in size and time, with errors that
//! name the position.

use std::error::Error;
use std::time::Duration;

use axum::body::{Body as Incoming, Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use http_body_util::LengthLimitError;
use identity::Principal;
use serde::de::DeserializeOwned;
use tool::{Code, Json, JsonError, Limits};

use super::query;
use crate::error::ApiError;
use crate::state::Doors;

/// The maximum time for a body to arrive.
const WAIT: Duration = Duration::from_secs(30);

/// Reads the complete body.
///
/// # Errors
/// Returns an error if it is too large, too slow, or incomplete.
pub async fn read(body: Incoming, limit: usize) -> Result<Bytes, ApiError> {
    let bad = |message: String| ApiError::new(Code::InvalidRequest, message);
    match tokio::time::timeout(WAIT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.source().is_some_and(<dyn Error>::is::<LengthLimitError>) => {
            let told = format!("the body has more than {limit} bytes");
            Err(ApiError::new(Code::TooLarge, told))
        }
        Ok(Err(_)) => Err(bad("the body broke off before its end".to_owned())),
        Err(_) => Err(bad(format!("the body did not arrive within {} s", WAIT.as_secs()))),
    }
}

/// Reads the body of a call. If the caller has tools with large arguments, bytes beyond the usual
/// limit are reserved from the body budget.
///
/// # Errors
/// As [`read`], and if the body budget is exhausted.
pub async fn read_large(
    doors: &Doors,
    principal: &Principal,
    body: Incoming,
) -> Result<Bytes, ApiError> {
    let (usual, most) = (doors.parts.max_body, doors.largest_body(principal));
    if most <= usual {
        return read(body, usual).await;
    }
    let taken = tokio::time::timeout(WAIT, doors.room.taken(body, usual, most)).await;
    taken.unwrap_or_else(|_| {
        let told = format!("the body did not arrive within {} s", WAIT.as_secs());
        Err(ApiError::new(Code::InvalidRequest, told))
    })
}

/// Nesting levels around the arguments in the body of a single call.
pub const AROUND_ARGUMENTS: usize = 1;
/// Nesting levels around the arguments in a model message, for any format: a Gemini response has
/// seven.
const AROUND_IN_FORMAT: usize = 8;

/// The JSON limits for a body of this size: those of a document, or those of large arguments.
pub fn limits(size: usize) -> Limits {
    let (document, large) = (Limits::DOCUMENT, Limits::arguments(size));
    Limits { bytes: document.bytes.max(size), nodes: document.nodes.max(large.nodes), ..document }
}

/// A JSON body that was checked against the limits and is not decoded yet.
#[derive(Debug)]
pub struct Checked(pub Json);

impl Checked {
    /// Decodes the body into `T`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.0.read().map_err(|error| bad_body(&error.to_string()))
    }
}

impl FromRequest<Doors> for Checked {
    type Rejection = ApiError;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, ApiError> {
        let bytes = read(request.into_body(), doors.parts.max_body).await?;
        let text = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        Json::check(text, Limits::DOCUMENT).map(Self).map_err(|error| bad_body(&error.to_string()))
    }
}

/// The JSON body of a call, with its `arguments` separated in the same pass. Large arguments are
/// allowed.
#[expect(missing_debug_implementations, reason = "what a caller sent is not logged")]
pub struct Large {
    /// The body without `arguments`.
    pub body: Checked,
    /// The member `arguments`.
    arguments: Option<Json>,
    /// The limits that the body was checked against.
    limits: Limits,
}

impl Large {
    fn check(bytes: Bytes, around: usize) -> Result<Self, JsonError> {
        let text = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        let limits = limits(text.len()).around_arguments(around);
        let keys = ["arguments"];
        let checked = gateway::aside(text.len(), || Json::check_and_pick(text, limits, keys));
        let (body, [arguments]) = checked?;
        Ok(Self { body: Checked(body), arguments, limits })
    }

    /// Decodes the body into `T` and returns the arguments separately, unchanged: they may be
    /// large, and are neither copied nor checked again. Missing or null arguments become `{}`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Result<(T, Json, Limits), ApiError> {
        let rest = match &self.arguments {
            Some(arguments) => Checked(self.body.0.replaced(arguments, &Json::of(&()))).read()?,
            None => self.body.read()?,
        };
        let given = self.arguments.clone().filter(|args| args.kind() != "null");
        let depth = self.limits.depth.saturating_sub(AROUND_ARGUMENTS);
        Ok((rest, given.unwrap_or_else(Json::empty), Limits { depth, ..self.limits }))
    }
}

impl FromRequest<Doors> for Large {
    type Rejection = ApiError;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, ApiError> {
        let principal = request.extensions().get::<Principal>().cloned();
        let in_format = request.uri().query().is_some_and(|query| query.contains("format="));
        let around = if in_format { AROUND_IN_FORMAT } else { AROUND_ARGUMENTS };
        let bytes = match principal {
            Some(principal) => read_large(doors, &principal, request.into_body()).await?,
            None => read(request.into_body(), doors.parts.max_body).await?,
        };
        Self::check(bytes, around).map_err(|error| bad_body(&error.to_string()))
    }
}

/// A decoded JSON body.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Doors> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, ApiError> {
        Checked::from_request(request, doors).await?.read().map(Self)
    }
}

fn bad_body(error: &str) -> ApiError {
    ApiError::new(Code::InvalidRequest, format!("the body: {error}"))
        .fix("see /openapi.json for the body's shape")
}

/// The decoded query parameters; the decoded types reject unknown ones.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        query::read(&parts.uri).map(Self).map_err(|told| {
            ApiError::new(Code::InvalidRequest, told).fix("see /openapi.json for the parameters")
        })
    }
}
