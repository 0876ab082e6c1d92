//! Declaration of a route: its handler and its OpenAPI description.

use axum::http::Uri;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use tool::Code;

use crate::error::ApiError;
use crate::state::Doors;

/// Function that generates the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`.
pub fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A query parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// The parameter name.
    pub name: &'static str,
    /// The description in the OpenAPI document.
    pub what: &'static str,
    /// The JSON Schema type.
    pub kind: &'static str,
}

/// A route of the REST API.
#[expect(missing_debug_implementations, reason = "its handler has none")]
pub struct Route {
    /// The method in lower case, as in OpenAPI.
    pub method: &'static str,
    /// The path with `{name}` for parameters, as in axum and OpenAPI.
    pub path: &'static str,
    /// The summary in the OpenAPI document.
    pub summary: &'static str,
    /// The query parameters.
    pub query: &'static [Param],
    /// The schema of the request body.
    pub body: Option<SchemaOf>,
    /// The schema of the response body.
    pub reply: Option<SchemaOf>,
    /// Whether the route requires a key.
    pub keyed: bool,
    /// The handler.
    pub answer: MethodRouter<Doors>,
}

impl Route {
    /// Creates a route that requires a key.
    pub fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        answer: MethodRouter<Doors>,
    ) -> Self {
        Self { method, path, summary, query: &[], body: None, reply: None, keyed: true, answer }
    }

    /// Sets the query parameters.
    #[must_use]
    pub fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    /// Sets the schema of the request body.
    #[must_use]
    pub fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(schema::<T>);
        self
    }

    /// Sets the schema of the response body.
    #[must_use]
    pub fn reply<T: JsonSchema>(mut self) -> Self {
        self.reply = Some(schema::<T>);
        self
    }

    /// Makes the route public.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.keyed = false;
        self
    }
}

/// The escaped and truncated client input, for error messages.
pub fn shown(text: &str, most: usize) -> String {
    text.chars().take(most).flat_map(char::escape_debug).collect()
}

/// The error for an unknown path.
pub fn nothing_here(uri: &Uri) -> ApiError {
    let path = shown(uri.path(), 200);
    ApiError::new(Code::NotFound, format!("there is nothing at `{path}`"))
        .fix("see /openapi.json for what there is")
}
