//! Declaration of a route: its handler and its OpenAPI description.

use axum::http::Uri;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use tool::ErrorCode;
use tool::display_text::truncate_and_escape_debug;

use crate::error::ApiError;
use crate::server_state::ServerState;

/// Function that generates the schema of a type.
pub(crate) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`.
pub fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A query parameter of a route.
#[derive(Debug, Clone, Copy)]
pub struct QueryParam {
    /// The parameter name.
    pub name: &'static str,
    /// The description in the OpenAPI document.
    pub description: &'static str,
    /// The JSON Schema type.
    pub schema_type: &'static str,
}

/// A route of the REST API.
#[expect(missing_debug_implementations, reason = "its handler has none")]
pub struct ApiRoute {
    /// The method in lower case, as in OpenAPI.
    pub method: &'static str,
    /// The path with `{name}` for parameters, as in axum and OpenAPI.
    pub path: &'static str,
    /// The summary in the OpenAPI document.
    pub summary: &'static str,
    /// The query parameters.
    pub query: &'static [QueryParam],
    /// The schema of the request body.
    pub body: Option<SchemaFn>,
    /// The schema of the response body.
    pub reply: Option<SchemaFn>,
    /// Whether the route requires a key.
    pub requires_key: bool,
    /// The handler.
    pub handler: MethodRouter<ServerState>,
}

impl ApiRoute {
    /// Creates a route that requires a key.
    pub fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        answer: MethodRouter<ServerState>,
    ) -> Self {
        Self {
            method,
            path,
            summary,
            query: &[],
            body: None,
            reply: None,
            requires_key: true,
            handler: answer,
        }
    }

    /// Sets the query parameters.
    #[must_use]
    pub fn with_query(mut self, query: &'static [QueryParam]) -> Self {
        self.query = query;
        self
    }

    /// Sets the schema of the request body.
    #[must_use]
    pub fn with_body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(schema_of::<T>);
        self
    }

    /// Sets the schema of the response body.
    #[must_use]
    pub fn with_reply<T: JsonSchema>(mut self) -> Self {
        self.reply = Some(schema_of::<T>);
        self
    }

    /// Makes the route public.
    #[must_use]
    pub fn without_key(mut self) -> Self {
        self.requires_key = false;
        self
    }
}

/// The error for an unknown path.
pub fn not_found(uri: &Uri) -> ApiError {
    let path = truncate_and_escape_debug(uri.path(), 200);
    ApiError::new(ErrorCode::NotFound, format!("no route at `{path}`"))
        .with_help("see /openapi.json for all routes")
}
