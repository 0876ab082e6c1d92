//! A tool with name, description, input schema and handler, and a set of tools.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use proto::serve::Told;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool::ToolName;

/// What a registry is told of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema, or spec 4's shorthand; an object.
    pub input_spec: Value,
    /// Anything, as an object.
    pub metadata: Value,
}

impl Described {
    /// The node that its metadata name.
    pub(crate) fn node_id(&self) -> Option<&str> {
        self.metadata.get("node_id")?.as_str()
    }
}

/// Why a tool could not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The name is taken, in spec 4's words.
    #[error("Tool '{0}' is already registered.")]
    Taken(String),
    /// No registry takes this name.
    #[error(transparent)]
    Name(#[from] tool::NameError),
    /// `input_spec` or `metadata` is no object.
    #[error("`{0}` of a tool is a JSON object")]
    NoObject(&'static str),
}

/// What went wrong in a tool, for its caller: words on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// What a tool may know of the call it runs in.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) progress: Told,
    /// Fires when the caller cancels. One that goes away drops the call.
    pub cancelled: CancellationToken,
}

impl Call {
    /// Tells how far it came, where the caller asked for that. Never waits.
    pub fn report(&self, done: f64, total: Option<f64>, message: &str) {
        self.progress.tell(done, total, message);
    }
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Bytes, Failure>> + Send>>;
type Run = Arc<dyn Fn(Bytes, Call) -> Running + Send + Sync>;

/// A tool.
#[derive(Clone)]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_spec: Value,
    pub(crate) metadata: Value,
    pub(crate) run: Run,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tool {
    /// Spec 4's form: bytes in, bytes out.
    pub fn bytes<R, E>(
        name: impl Into<String>,
        run: impl Fn(Bytes) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<Bytes, E>> + Send + 'static,
        E: Into<Failure>,
    {
        Self::bytes_with_call(name, move |input, _| run(input))
    }

    /// The same for a tool that tells progress, or looks whether it is cancelled.
    pub fn bytes_with_call<R, E>(
        name: impl Into<String>,
        run: impl Fn(Bytes, Call) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<Bytes, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let run = move |input: Bytes, call: Call| -> Running {
            let running = run(input, call);
            Box::pin(async move { running.await.map_err(Into::into) })
        };
        Self::of(name.into(), Value::Object(Map::new()), Arc::new(run))
    }

    /// Types in, types out: the input's schema is made of its type.
    pub fn typed<I, O, R, E>(
        name: impl Into<String>,
        run: impl Fn(I) -> R + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize,
        R: Future<Output = Result<O, E>> + Send + 'static,
        E: Into<Failure>,
    {
        Self::with_call(name, move |input, _| run(input))
    }

    /// The same for a tool that tells progress, or looks whether it is cancelled.
    pub fn with_call<I, O, R, E>(
        name: impl Into<String>,
        run: impl Fn(I, Call) -> R + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize,
        R: Future<Output = Result<O, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let schema = schemars::schema_for!(I).to_value();
        let run = move |input: Bytes, call: Call| -> Running {
            let read: &[u8] = if input.is_empty() { b"{}" } else { &input };
            let input: I = match serde_json::from_slice(read) {
                Ok(input) => input,
                Err(error) => {
                    let told = Failure(format!("the input does not fit: {error}"));
                    return Box::pin(std::future::ready(Err(told)));
                }
            };
            let running = run(input, call);
            Box::pin(async move {
                let output = running.await.map_err(Into::into)?;
                let text = serde_json::to_vec(&output);
                text.map(Bytes::from).map_err(|error| Failure(format!("the output: {error}")))
            })
        };
        Self::of(name.into(), schema, Arc::new(run))
    }

    fn of(name: String, input_spec: Value, run: Run) -> Self {
        let (description, metadata) = (String::new(), Value::Object(Map::new()));
        Self { name, description, input_spec, metadata, run }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does, as it is told.
    pub fn about(&self) -> &str {
        &self.description
    }

    /// What it takes: JSON Schema, or spec 4's shorthand.
    pub fn spec(&self) -> &Value {
        &self.input_spec
    }

    /// What it does.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// JSON Schema, or spec 4's shorthand, in the place of what is made of a type; an object.
    #[must_use]
    pub fn input_spec(mut self, spec: Value) -> Self {
        self.input_spec = spec;
        self
    }

    /// Anything, as an object. `node_id` in it names the node.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }

    /// The node that its metadata name.
    pub(crate) fn node_id(&self) -> Option<&str> {
        self.metadata.get("node_id")?.as_str()
    }

    pub(crate) fn described(&self) -> Described {
        let Self { name, description, input_spec, metadata, .. } = self.clone();
        Described { name, description, input_spec, metadata }
    }

    /// Beside an answer: every value as text, for gRPC's map carries nothing else.
    pub(crate) fn told_metadata(&self, node: &str) -> BTreeMap<String, String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let all = self.metadata.as_object().into_iter().flatten();
        let mut told: BTreeMap<_, _> = all.map(|(key, value)| (key.clone(), text(value))).collect();
        if !node.is_empty() {
            told.entry("node_id".to_owned()).or_insert_with(|| node.to_owned());
        }
        told
    }
}

/// Tools by name, in the order they came. A name is given once.
#[derive(Debug, Clone, Default)]
pub struct Tools(Vec<Tool>);

impl Tools {
    /// Adds one.
    ///
    /// # Errors
    /// [`ToolError`].
    pub fn add(&mut self, tool: Tool) -> Result<(), ToolError> {
        ToolName::new(&tool.name)?;
        if self.find(&tool.name).is_some() {
            return Err(ToolError::Taken(tool.name));
        }
        for (part, value) in [("input_spec", &tool.input_spec), ("metadata", &tool.metadata)] {
            if !value.is_object() {
                return Err(ToolError::NoObject(part));
            }
        }
        self.0.push(tool);
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name == name)
    }

    pub(crate) fn all(&self) -> &[Tool] {
        &self.0
    }
}
