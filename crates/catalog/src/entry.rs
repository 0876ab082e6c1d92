//! One tool in a catalog, with all that is worked out once.

use std::sync::Arc;

use tool::{Args, Digest, Executor, Org, SourceName, Tool, ToolKey};

use crate::canonical;
use crate::schema::{ArgumentFault, Schema};

/// A tool with what runs it: what is shown is bound to what runs.
#[derive(Debug)]
pub struct Entry {
    /// Its identity.
    pub key: ToolKey,
    /// Its definition.
    pub tool: Arc<Tool>,
    /// What runs it.
    pub executor: Arc<dyn Executor>,
    /// The hash of its definition as received.
    pub definition: Digest,
    schema: Schema,
}

impl Entry {
    /// Compiles the schema and hashes the definition.
    ///
    /// # Errors
    /// What is wrong with the schema, in words.
    pub fn new(
        org: Org,
        source: SourceName,
        tool: Arc<Tool>,
        executor: Arc<dyn Executor>,
    ) -> Result<Self, String> {
        let schema = Schema::compile(&tool.input)?;
        let definition = canonical::digest(&tool.received);
        let key = ToolKey { org, source, name: tool.name.clone() };
        Ok(Self { key, tool, executor, definition, schema })
    }

    /// Checks arguments against the schema.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, args: &Args) -> Result<(), Vec<ArgumentFault>> {
        self.schema.check(args.value())
    }
}
