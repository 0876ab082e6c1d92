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
use tool::{ErrorCode, Json, JsonError, JsonLimits};

use super::query_string;
use crate::error::ApiError;
use crate::server_state::ServerState;

/// The maximum time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the complete body.
///
/// # Errors
/// Returns an error if it is too large, too slow, or incomplete.
pub async fn read_body(body: Incoming, limit: usize) -> Result<Bytes, ApiError> {
    let bad = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.source().is_some_and(<dyn Error>::is::<LengthLimitError>) => {
            let message_text = format!("the body is larger than {limit} bytes");
            Err(ApiError::new(ErrorCode::TooLarge, message_text))
        }
        Ok(Err(_)) => Err(bad("the body ended early".to_owned())),
        Err(_) => Err(bad(format!(
            "the body was not received within {} \
            s",
            BODY_TIMEOUT.as_secs()
        ))),
    }
}

/// Reads the body of a call. If the caller has tools with large arguments, bytes beyond the usual
/// limit are reserved from the body budget.
///
/// # Errors
/// As [`read_body`], and if the body budget is exhausted.
pub async fn read_call_body(
    state: &ServerState,
    principal: &Principal,
    body: Incoming,
) -> Result<Bytes, ApiError> {
    let (usual, most) = (state.components.max_body_bytes, state.max_body_for(principal));
    if most <= usual {
        return read_body(body, usual).await;
    }
    let taken =
        tokio::time::timeout(BODY_TIMEOUT, state.body_budget.read_body(body, usual, most)).await;
    taken.unwrap_or_else(|_| {
        let message = format!("the body was not received within {} s", BODY_TIMEOUT.as_secs());
        Err(ApiError::new(ErrorCode::InvalidRequest, message))
    })
}

/// Nesting levels around the arguments in the body of a single call.
pub const AROUND_ARGUMENTS: usize = 1;
/// Nesting levels around the arguments in a model message, for any format: a Gemini response has
/// seven.
const AROUND_IN_FORMAT: usize = 8;

/// The JSON limits for a body of this size: those of a document, or those of large arguments.
pub fn json_limits_for(size: usize) -> JsonLimits {
    let (document, large) = (JsonLimits::DOCUMENT, JsonLimits::for_arguments(size));
    JsonLimits {
        max_bytes: document.max_bytes.max(size),
        max_nodes: document.max_nodes.max(large.max_nodes),
        ..document
    }
}

/// A JSON body that was checked against the limits and is not decoded yet.
#[derive(Debug)]
pub struct JsonBody(pub Json);

impl JsonBody {
    /// Decodes the body into `T`.
    ///
    /// # Errors
    /// The mismatch between the body and `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.0.decode().map_err(|error| bad_body(&error.to_string()))
    }
}

impl FromRequest<ServerState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ServerState) -> Result<Self, ApiError> {
        let bytes = read_body(request.into_body(), state.components.max_body_bytes).await?;
        let text = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        Json::parse(text, JsonLimits::DOCUMENT)
            .map(Self)
            .map_err(|error| bad_body(&error.to_string()))
    }
}

/// The JSON body of a call, with its `arguments` separated in the same pass. Large arguments are
/// allowed.
#[expect(missing_debug_implementations, reason = "what a caller sent is not logged")]
pub struct CallRequestBody {
    /// The body without `arguments`.
    pub body: JsonBody,
    /// The member `arguments`.
    arguments: Option<Json>,
    /// The limits that the body was checked against.
    limits: JsonLimits,
}

impl CallRequestBody {
    fn check(bytes: Bytes, around: usize) -> Result<Self, JsonError> {
        let text = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        let limits = json_limits_for(text.len()).around_arguments(around);
        let keys = ["arguments"];
        let checked =
            gateway::run_blocking_if_large(text.len(), || Json::parse_and_pick(text, limits, keys));
        let (body, [arguments]) = checked?;
        Ok(Self { body: JsonBody(body), arguments, limits })
    }

    /// Decodes the body into `T` and returns the arguments separately, unchanged: they may be
    /// large, and are neither copied nor checked again. Missing or null arguments become `{}`.
    ///
    /// # Errors
    /// The mismatch between the body and `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<(T, Json, JsonLimits), ApiError> {
        let rest = match &self.arguments {
            Some(arguments) => {
                JsonBody(self.body.0.with_part_replaced(arguments, &Json::encode(&()))).decode()?
            }
            None => self.body.decode()?,
        };
        let given = self.arguments.clone().filter(|args| args.kind() != "null");
        let depth = self.limits.max_depth.saturating_sub(AROUND_ARGUMENTS);
        Ok((
            rest,
            given.unwrap_or_else(Json::empty_object),
            JsonLimits { max_depth: depth, ..self.limits },
        ))
    }
}

impl FromRequest<ServerState> for CallRequestBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ServerState) -> Result<Self, ApiError> {
        let principal = request.extensions().get::<Principal>().cloned();
        let in_format = request.uri().query().is_some_and(|query| query.contains("format="));
        let around = if in_format { AROUND_IN_FORMAT } else { AROUND_ARGUMENTS };
        let bytes = match principal {
            Some(principal) => read_call_body(state, &principal, request.into_body()).await?,
            None => read_body(request.into_body(), state.components.max_body_bytes).await?,
        };
        Self::check(bytes, around).map_err(|error| bad_body(&error.to_string()))
    }
}

/// A decoded JSON body.
#[derive(Debug)]
pub struct DecodedBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<ServerState> for DecodedBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ServerState) -> Result<Self, ApiError> {
        JsonBody::from_request(request, state).await?.decode().map(Self)
    }
}

fn bad_body(error: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, format!("the body: {error}"))
        .with_help("see /openapi.json for the schema of the body")
}

/// The decoded query parameters; the decoded types reject unknown ones.
#[derive(Debug)]
pub struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        query_string::parse_query(&parts.uri).map(Self).map_err(|message| {
            ApiError::new(ErrorCode::InvalidRequest, message)
                .with_help("see /openapi.json for the parameters")
        })
    }
}
