//! One route: how it is mounted and what is said of it.

use axum::http::Uri;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use tool::Code;

use crate::error::ApiError;
use crate::state::Doors;

/// Makes a type's schema.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`.
pub fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A parameter of the query.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// As it is written.
    pub name: &'static str,
    /// What it means, for the document.
    pub what: &'static str,
    /// Its type in JSON Schema.
    pub kind: &'static str,
}

/// A route.
#[expect(missing_debug_implementations, reason = "its handler has none")]
pub struct Route {
    /// In lower case, as OpenAPI writes it.
    pub method: &'static str,
    /// With `{name}` for parts that vary, as both axum and OpenAPI write it.
    pub path: &'static str,
    /// What it does, for the document.
    pub summary: &'static str,
    /// Its parameters.
    pub query: &'static [Param],
    /// The schema of its body.
    pub body: Option<SchemaOf>,
    /// The schema of its answer.
    pub reply: Option<SchemaOf>,
    /// Whether it needs a key.
    pub keyed: bool,
    /// What answers.
    pub answer: MethodRouter<Doors>,
}

impl Route {
    /// A route that needs a key.
    pub fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        answer: MethodRouter<Doors>,
    ) -> Self {
        Self { method, path, summary, query: &[], body: None, reply: None, keyed: true, answer }
    }

    /// With these parameters.
    #[must_use]
    pub fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    /// With a body.
    #[must_use]
    pub fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(schema::<T>);
        self
    }

    /// With an answer.
    #[must_use]
    pub fn reply<T: JsonSchema>(mut self) -> Self {
        self.reply = Some(schema::<T>);
        self
    }

    /// Without a key.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.keyed = false;
        self
    }
}

/// The beginning of what a client sent, as it is named in an error.
pub fn shown(text: &str, most: usize) -> String {
    text.chars().take(most).flat_map(char::escape_debug).collect()
}

/// The answer at a path that is none.
pub fn nothing_here(uri: &Uri) -> ApiError {
    let path = shown(uri.path(), 200);
    ApiError::new(Code::NotFound, format!("there is nothing at `{path}`"))
        .fix("see /openapi.json for what there is")
}
