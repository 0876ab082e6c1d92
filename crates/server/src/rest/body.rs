//! Reading bodies and queries, with errors that name the place.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::response::IntoResponse as _;
use serde::de::DeserializeOwned;
use tool::{Code, Json, Limits};

use crate::error::ApiError;

/// A JSON body.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await.map_err(too_large)?;
        let bad = |message: String| {
            ApiError::new(Code::InvalidRequest, message)
                .fix("see /openapi.json for the body's shape")
        };
        let text = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        let json =
            Json::check(text, Limits::DOCUMENT).map_err(|e| bad(format!("the body: {e}")))?;
        json.read().map(Self).map_err(|error| bad(format!("the body: {error}")))
    }
}

fn too_large(rejection: BytesRejection) -> ApiError {
    let status = rejection.into_response().status();
    let code = if status.as_u16() == 413 { Code::TooLarge } else { Code::InvalidRequest };
    ApiError::new(
        code,
        format!("the body cannot be taken: it has more than {} bytes, or broke off", super::BODY),
    )
}

/// The query's parameters; unknown ones are refused by the types that read them.
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        read.map(|Query(params)| Self(params)).map_err(|rejection| {
            ApiError::new(Code::InvalidRequest, format!("the query: {}", rejection.body_text()))
                .fix("see /openapi.json for the parameters")
        })
    }
}
