//! One route: how it is mounted and what is said of it.

use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::state::Doors;

/// Makes a type's schema.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`.
pub(super) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A parameter of the query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) kind: &'static str,
}

/// A route.
pub(super) struct Route {
    pub(super) method: &'static str,
    /// With `{name}` for parts that vary, as both axum and OpenAPI write it.
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Param],
    pub(super) body: Option<SchemaOf>,
    pub(super) reply: Option<SchemaOf>,
    pub(super) keyed: bool,
    pub(super) answer: MethodRouter<Doors>,
}

impl Route {
    pub(super) fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        answer: MethodRouter<Doors>,
    ) -> Self {
        Self { method, path, summary, query: &[], body: None, reply: None, keyed: true, answer }
    }

    pub(super) fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    pub(super) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(schema::<T>);
        self
    }

    pub(super) fn reply<T: JsonSchema>(mut self) -> Self {
        self.reply = Some(schema::<T>);
        self
    }

    pub(super) fn open(mut self) -> Self {
        self.keyed = false;
        self
    }
}
