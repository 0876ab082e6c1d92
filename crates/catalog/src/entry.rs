//! One tool in a catalog, with all that is worked out once.

use std::sync::Arc;

use json::made_visible;
use serde_json::Value;
use tool::{Args, Digest, Durability, Executor, Json, Org, SourceName, Tool, ToolKey, ToolName};

use crate::canonical;
use crate::schema::{ArgumentFault, Schema};

/// How often arguments are tried again without the nulls that are at fault.
const ROUNDS: usize = 16;

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

    /// The arguments as they fit the schema. Models send null for what they leave out: a null in the place of an
    /// optional argument that cannot be null is left out here.
    ///
    /// # Errors
    /// What does not fit.
    pub fn accept(&self, mut args: Args) -> Result<Args, Vec<ArgumentFault>> {
        // Each round tells of a few faults only.
        for _ in 0..ROUNDS {
            let Err(faults) = self.schema.check_args(&args) else { return Ok(args) };
            args = self.without_nulls(&args, &faults).ok_or(faults)?;
        }
        self.schema.check_args(&args).map(|()| args)
    }

    /// The arguments without optional ones that are null and at fault; `None` where there are none.
    fn without_nulls(&self, args: &Args, faults: &[ArgumentFault]) -> Option<Args> {
        let input = self.tool.input.value();
        let required = input.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
        let given = args.value();
        let mut left = args.raw().clone();
        let mut any = false;
        for fault in faults {
            let Some(name) = fault.member().filter(|name| !is_required(name)) else { continue };
            if given.get(&*name).is_some_and(Value::is_null) {
                (left, any) = (left.without(&name), true);
            }
        }
        any.then(|| Args::from_json(left).ok()).flatten()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use tool::{Args, Json, Org, SourceName};

    use super::Entry;

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
        let tool = Arc::new(testkit::tool("t", "d", &schema));
        let source = SourceName::new("s").unwrap();
        let entry = Entry::new(Org::default(), source, tool, testkit::executor::echo()).unwrap();
        let accepted = |args: &Value| {
            let args = Args::check(Json::of(args).bytes().clone()).unwrap();
            entry.accept(args).map(|args| args.value().clone())
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
