//! Reading bodies and queries, bounded in size and time, with errors that name the place.

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

/// The longest a body may take to arrive.
const WAIT: Duration = Duration::from_secs(30);

/// The whole body.
///
/// # Errors
/// Where it is too large, too slow, or broke off.
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

/// The same of a caller who has tools that take more: what is more than usual needs room.
///
/// # Errors
/// As [`read`], and where there is no room.
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

/// Levels of a body around the arguments of the call that it is.
pub const AROUND_ARGUMENTS: usize = 1;
/// The same of a model's message, in whichever format: Gemini's response has seven around an object of arguments.
const AROUND_IN_FORMAT: usize = 8;

/// What a body of this size may hold: a document's limits, or those of large arguments.
pub fn limits(size: usize) -> Limits {
    let (document, large) = (Limits::DOCUMENT, Limits::arguments(size));
    Limits { bytes: document.bytes.max(size), nodes: document.nodes.max(large.nodes), ..document }
}

/// A JSON body, checked and not yet read.
#[derive(Debug)]
pub struct Checked(pub Json);

impl Checked {
    /// Reads it into `T`.
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

/// The same, of a caller who has tools that take more, with one member taken out of it in the same pass.
#[expect(missing_debug_implementations, reason = "what a caller sent is not logged")]
pub struct Large {
    /// The rest.
    pub body: Checked,
    /// Its member `arguments`.
    arguments: Option<Json>,
    /// What it was held against.
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

    /// Reads it into `T`, without its arguments, and these as they were given: they may be large, and are
    /// neither copied nor checked again. They are `{}` where there are none, or null.
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

/// A JSON body, read.
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

/// The query's parameters; unknown ones are refused by the types that read them.
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
