//! One route: how it is mounted and what is said of it.

use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::state::Doors;

/// Makes a type's schema.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`.
pub(crate) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A parameter of the query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) kind: &'static str,
}

/// A route.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// With `{name}` for parts that vary, as both axum and OpenAPI write it.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [Param],
    pub(crate) body: Option<SchemaOf>,
    pub(crate) reply: Option<SchemaOf>,
    pub(crate) keyed: bool,
    pub(crate) answer: MethodRouter<Doors>,
}

impl Route {
    pub(crate) fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        answer: MethodRouter<Doors>,
    ) -> Self {
        Self { method, path, summary, query: &[], body: None, reply: None, keyed: true, answer }
    }

    pub(crate) fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(schema::<T>);
        self
    }

    pub(crate) fn reply<T: JsonSchema>(mut self) -> Self {
        self.reply = Some(schema::<T>);
        self
    }

    pub(crate) fn open(mut self) -> Self {
        self.keyed = false;
        self
    }
}
