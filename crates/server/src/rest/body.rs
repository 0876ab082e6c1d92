//! Reading bodies and queries, bounded in size and time, with errors that name the place.

use std::error::Error;
use std::time::Duration;

use axum::body::{Body as Incoming, Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use tool::{Code, Json, Limits};

use crate::context;
use crate::error::ApiError;
use crate::state::Doors;

/// The longest a body may take to arrive.
const WAIT: Duration = Duration::from_secs(30);

/// The whole body.
///
/// # Errors
/// Where it is too large, too slow, or broke off.
pub(crate) async fn read(body: Incoming, limit: usize) -> Result<Bytes, ApiError> {
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

/// A JSON body, checked and not yet read.
pub(super) struct Checked(pub(super) Json);

impl Checked {
    /// Reads it into `T`.
    ///
    /// # Errors
    /// What does not fit.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
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

/// A JSON body, read.
pub(crate) struct Body<T>(pub(crate) T);

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
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let read = Query::<T>::try_from_uri(&context::without(&parts.uri));
        read.map(|Query(params)| Self(params)).map_err(|rejection| {
            ApiError::new(Code::InvalidRequest, format!("the query: {}", rejection.body_text()))
                .fix("see /openapi.json for the parameters")
        })
    }
}
