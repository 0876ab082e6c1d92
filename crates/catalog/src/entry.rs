//! One tool in a catalog, with all that is worked out once.

use std::sync::Arc;

use tool::json::made_visible;
use tool::{Args, Digest, Durability, Executor, Json, Org, SourceName, Tool, ToolKey, ToolName};

use crate::canonical;
use crate::schema::{ArgumentFault, Schema};

/// A tool with what runs it: what is shown is bound to what runs.
#[derive(Debug)]
pub struct Entry {
    /// Its identity: pins, policy and records go by it.
    pub key: ToolKey,
    /// The name it is listed and called by in its catalog: its own, or its qualified name where another
    /// source has that.
    pub name: ToolName,
    /// Its definition.
    pub tool: Arc<Tool>,
    /// What runs it.
    pub executor: Arc<dyn Executor>,
    /// The hash of its definition as received.
    pub definition: Digest,
    /// Whether that holds characters that nobody sees. In `tool` they are written out.
    pub hidden: bool,
    /// How sure its records must be, where the operator says; otherwise its effects decide.
    pub durability: Option<Durability>,
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
        let definition = canonical::digest(&tool.received);
        let seen = visible(&tool);
        let (hidden, tool) = (seen.is_some(), seen.map_or(tool, Arc::new));
        let schema = Schema::compile(&tool.input)?;
        let name = tool.name.clone();
        let key = ToolKey { org, source, name: name.clone() };
        Ok(Self { key, name, tool, executor, definition, hidden, durability: None, schema })
    }

    /// The same with the operator's word on its records.
    #[must_use]
    pub fn durable(mut self, durability: Option<Durability>) -> Self {
        self.durability = durability;
        self
    }

    /// The same tool, run by another executor.
    pub(crate) fn run_by(&self, executor: Arc<dyn Executor>) -> Self {
        Self { executor, ..self.called(self.name.clone()) }
    }

    /// The same tool under another name.
    pub(crate) fn called(&self, name: ToolName) -> Self {
        Self {
            key: self.key.clone(),
            name,
            tool: Arc::clone(&self.tool),
            executor: Arc::clone(&self.executor),
            definition: self.definition,
            hidden: self.hidden,
            durability: self.durability,
            schema: self.schema.again(),
        }
    }

    /// Whether this is the same definition, run by the very same executor.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.executor), Arc::as_ptr(&other.executor))
            && self.key == other.key
            && self.name == other.name
            && self.definition == other.definition
            && self.durability == other.durability
            && self.tool == other.tool
    }

    /// How sure the records of its calls must be: as the operator says, or synced where a call may
    /// change something by itself.
    pub fn need(&self) -> Durability {
        let effects = self.tool.traits.effects.any() && !self.executor.only_calls();
        self.durability.unwrap_or(if effects { Durability::Synced } else { Durability::Written })
    }

    /// Checks arguments against the schema.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, args: &Args) -> Result<(), Vec<ArgumentFault>> {
        self.schema.check_args(args)
    }
}

/// The same definition with hidden characters written out; `None` where there are none.
fn visible(tool: &Tool) -> Option<Tool> {
    let json = Json::definition_made_visible;
    let (received, input) = (json(&tool.received), json(&tool.input));
    let output = tool.output.as_ref().and_then(json);
    let description = made_visible(&tool.description);
    let title = tool.title.as_deref().and_then(made_visible);
    let parts = [received.is_some(), input.is_some(), output.is_some(), description.is_some()];
    if !parts.contains(&true) && title.is_none() {
        return None;
    }
    let mut seen = tool.clone();
    seen.received = received.unwrap_or(seen.received);
    seen.input = input.unwrap_or(seen.input);
    seen.output = output.or(seen.output);
    seen.description = description.unwrap_or(seen.description);
    seen.title = title.or(seen.title);
    Some(seen)
}
