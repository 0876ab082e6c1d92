//! A tool of a catalog with its executor, definition digest and compiled schema.

use std::sync::Arc;

use json::escape_invisible_text;
use serde_json::Value;
use tool::{
    CallArguments, Digest, Durability, Executor, Json, Org, SourceName, Tool, ToolKey, ToolName,
};

use crate::definition_digest;
use crate::input_schema::{ArgumentError, InputSchema};

/// Maximum number of retries without invalid nulls.
const MAX_NULL_REMOVALS: usize = 16;

/// A tool with its executor: the listed definition is bound to the executor that runs it.
#[derive(Debug)]
pub struct CatalogEntry {
    /// Identity of the tool, by which pins, policy and records refer to it.
    pub tool_key: ToolKey,
    /// Name by which it is listed and called in its catalog: its own, or its qualified name if
    /// another source has that.
    pub name: ToolName,
    /// Definition of the tool.
    pub tool: Arc<Tool>,
    /// Executor of the tool.
    pub executor: Arc<dyn Executor>,
    /// Digest of its definition as received.
    pub definition_digest: Digest,
    /// True if the definition contains invisible characters. `tool` holds the escaped form.
    pub has_invisible_chars: bool,
    /// True if a toolset offers it with another title or description.
    pub has_overrides: bool,
    /// Durability of its records, if the operator sets it; otherwise its effects decide.
    pub durability: Option<Durability>,
    schema: InputSchema,
}

impl CatalogEntry {
    /// Compiles the schema and hashes the definition.
    ///
    /// # Errors
    /// A message about the invalid schema.
    pub fn new(
        org: Org,
        source: SourceName,
        tool: Arc<Tool>,
        executor: Arc<dyn Executor>,
    ) -> Result<Self, String> {
        let definition = definition_digest::definition_digest(&tool.raw_definition);
        let seen = escape_invisible(&tool);
        let (hidden, tool) = (seen.is_some(), seen.map_or(tool, Arc::new));
        let schema = InputSchema::compile_schema(&tool.input_schema)?;
        let name = tool.name.clone();
        let key = ToolKey { org, source, name: name.clone() };
        Ok(Self {
            tool_key: key,
            name,
            tool,
            executor,
            definition_digest: definition,
            has_invisible_chars: hidden,
            has_overrides: false,
            durability: None,
            schema,
        })
    }

    /// Sets the operator's durability for its records.
    #[must_use]
    pub fn with_durability(mut self, durability: Option<Durability>) -> Self {
        self.durability = durability;
        self
    }

    /// Returns the same tool with another executor.
    pub(crate) fn with_executor(&self, executor: Arc<dyn Executor>) -> Self {
        Self { executor, ..self.with_name(self.name.clone()) }
    }

    /// Returns the same tool under another name.
    pub(crate) fn with_name(&self, name: ToolName) -> Self {
        Self {
            tool_key: self.tool_key.clone(),
            name,
            tool: Arc::clone(&self.tool),
            executor: Arc::clone(&self.executor),
            definition_digest: self.definition_digest,
            has_invisible_chars: self.has_invisible_chars,
            has_overrides: self.has_overrides,
            durability: self.durability,
            schema: self.schema.clone_uncompiled(),
        }
    }

    /// Returns true if this executor runs it.
    pub(crate) fn has_executor(&self, executor: &Arc<dyn Executor>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.executor), Arc::as_ptr(executor))
    }

    /// Returns true if it is certainly compiled from this definition as it was received. The
    /// received form of a definition with invisible characters is not stored.
    pub(crate) fn is_of_definition(&self, tool: &Arc<Tool>) -> bool {
        !self.has_invisible_chars && (Arc::ptr_eq(&self.tool, tool) || *self.tool == **tool)
    }

    /// Returns the same tool with another title or description, in its definition too.
    pub(crate) fn with_overrides(self, title: Option<&str>, description: Option<&str>) -> Self {
        if title.is_none() && description.is_none() {
            return self;
        }
        let mut tool = Tool::clone(&self.tool);
        if let Some(title) = title {
            tool.title = Some(title.to_owned());
        }
        if let Some(description) = description {
            description.clone_into(&mut tool.description);
        }
        tool.raw_definition = override_texts(tool.raw_definition, title, description);
        Self { tool: Arc::new(tool), has_overrides: true, ..self }
    }

    /// Returns true if the definition and the executor are the same.
    pub(crate) fn is_same_entry(&self, other: &Self) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        self.has_executor(&other.executor)
            && self.tool_key == other.tool_key
            && self.name == other.name
            && self.definition_digest == other.definition_digest
            && self.durability == other.durability
            && self.tool == other.tool
    }

    /// Returns the required durability of the call records: the operator's setting, or synced if
    /// the tool itself may change state.
    pub fn required_durability(&self) -> Durability {
        let effects =
            self.tool.traits.effects.may_change_state() && !self.executor.only_makes_nested_calls();
        self.durability.unwrap_or(if effects { Durability::Synced } else { Durability::Written })
    }

    /// Validates the arguments against the schema. Models send null for omitted arguments: a null
    /// for an optional argument that cannot be null is removed.
    ///
    /// # Errors
    /// The validation errors.
    pub fn validate_arguments(
        &self,
        mut args: CallArguments,
    ) -> Result<CallArguments, Vec<ArgumentError>> {
        // Each round reports a few errors only.
        for _ in 0..MAX_NULL_REMOVALS {
            let Err(faults) = self.schema.validate_arguments(&args) else { return Ok(args) };
            args = self.drop_invalid_nulls(&args, &faults).ok_or(faults)?;
        }
        self.schema.validate_arguments(&args).map(|()| args)
    }

    /// Removes optional arguments that are null and invalid; `None` if there are none.
    fn drop_invalid_nulls(
        &self,
        args: &CallArguments,
        faults: &[ArgumentError],
    ) -> Option<CallArguments> {
        let input = self.tool.input_schema.to_value();
        let required = input.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
        let given = args.as_value();
        let mut left = args.as_json().clone();
        let mut any = false;
        for fault in faults {
            let Some(name) = fault.member_name().filter(|name| !is_required(name)) else {
                continue;
            };
            if given.get(&*name).is_some_and(Value::is_null) {
                (left, any) = (left.without_member(&name), true);
            }
        }
        any.then(|| CallArguments::from_json(left).ok()).flatten()
    }
}

/// Returns a definition with another title or description.
pub(crate) fn override_texts(
    definition: Json,
    title: Option<&str>,
    description: Option<&str>,
) -> Json {
    let texts = [("title", title), ("description", description)];
    texts.into_iter().fold(definition, |definition, (member, text)| match text {
        Some(text) => definition.with_member(member, &Json::encode(text)),
        None => definition,
    })
}

/// Returns the definition with invisible characters escaped; `None` if it has none.
fn escape_invisible(tool: &Tool) -> Option<Tool> {
    let json = Json::escape_invisible_in_definition;
    let (received, input) = (json(&tool.raw_definition), json(&tool.input_schema));
    let output = tool.output_schema.as_ref().and_then(json);
    let description = escape_invisible_text(&tool.description);
    let title = tool.title.as_deref().and_then(escape_invisible_text);
    let parts = [received.is_some(), input.is_some(), output.is_some(), description.is_some()];
    if !parts.contains(&true) && title.is_none() {
        return None;
    }
    let mut seen = tool.clone();
    seen.raw_definition = received.unwrap_or(seen.raw_definition);
    seen.input_schema = input.unwrap_or(seen.input_schema);
    seen.output_schema = output.or(seen.output_schema);
    seen.description = description.unwrap_or(seen.description);
    seen.title = title.or(seen.title);
    Some(seen)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use tool::{CallArguments, Json, Org, SourceName};

    use super::CatalogEntry;

    #[test]
    fn null_leaves_an_optional_argument_out_where_it_cannot_be_null() {
        let many: serde_json::Map<_, _> =
            (0..40).map(|at| (format!("o{at}"), json!({"type": "string"}))).collect();
        let mut properties = many.clone();
        properties.insert("n".to_owned(), json!({"type": "integer"}));
        properties.insert("a/b~c".to_owned(), json!({"type": "integer"}));
        properties.insert("open".to_owned(), json!({"type": ["string", "null"]}));
        properties.insert(
            "deep".to_owned(),
            json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        );
        let schema = json!({"type": "object", "properties": properties, "required": ["n"],
            "additionalProperties": false});
        let tool = Arc::new(testkit::read_only_tool("t", "d", &schema));
        let source = SourceName::new("s").unwrap();
        let entry =
            CatalogEntry::new(Org::default(), source, tool, testkit::executor::echo_executor())
                .unwrap();
        let accepted = |args: &Value| {
            let args = CallArguments::parse(Json::encode(args).bytes().clone()).unwrap();
            entry.validate_arguments(args).map(|args| args.as_value().clone())
        };
        assert_eq!(accepted(&json!({"a/b~c": null, "n": 1, "o1": null})).unwrap(), json!({"n": 1}));
        // One that may be null stays, and what fits stays as it is.
        let open = json!({"n": 1, "open": null});
        assert_eq!(accepted(&open).unwrap(), open);
        // More than one round tells of.
        let mut all: serde_json::Map<_, _> =
            many.keys().map(|name| (name.clone(), Value::Null)).collect();
        all.insert("n".to_owned(), json!(2));
        assert_eq!(accepted(&Value::Object(all)).unwrap(), json!({"n": 2}));
        // A required one, an unknown one, another fault and a null within are faults as before.
        for wrong in [
            json!({"n": null}),
            json!({"n": "x", "o1": null}),
            json!({"n": 1, "deep": {"n": null}}),
            json!({"n": 1, "o1": 5, "o2": null}),
            json!({"n": 1, "strange": null}),
        ] {
            accepted(&wrong).unwrap_err();
        }
    }
}
