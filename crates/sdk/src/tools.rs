//! Tools that a node serves: name, description, input schema and handler. Also the set of these
//! tools.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use proto::server::ProgressSender;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool::ToolName;

/// Definition of a tool, as sent to a registry.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Tool name.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// Input schema: JSON Schema, or the cluster tools' shorthand; an object.
    pub input_spec: Value,
    /// Arbitrary metadata; an object.
    pub metadata: Value,
}

impl ToolDefinition {
    /// Returns the node id in its metadata.
    pub(crate) fn node_id(&self) -> Option<&str> {
        self.metadata.get("node_id")?.as_str()
    }
}

/// Reason why a tool could not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddToolError {
    /// The name is taken. The text is that of the cluster tools.
    #[error("Tool '{0}' is already registered.")]
    NameTaken(String),
    /// The name is not valid in any registry.
    #[error(transparent)]
    InvalidName(#[from] tool::NameError),
    /// `input_spec` or `metadata` is not an object.
    #[error("`{0}` of a tool must be a JSON object")]
    NotAnObject(&'static str),
}

/// Error of a tool for its caller: a message on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Context of the call that a tool runs in.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) progress: ProgressSender,
    /// Fires when the caller cancels. If the caller disconnects, the call is dropped instead.
    pub cancelled: CancellationToken,
}

impl Call {
    /// Reports progress, if the caller asked for it. Never waits.
    pub fn report_progress(&self, done: f64, total: Option<f64>, message: &str) {
        self.progress.send_progress(done, total, message);
    }
}

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Bytes, Failure>> + Send>>;
type ToolHandler = Arc<dyn Fn(Bytes, Call) -> HandlerFuture + Send + Sync>;

/// Tool with its definition and handler.
#[derive(Clone)]
pub struct Tool {
    pub(crate) definition: ToolDefinition,
    pub(crate) handler: ToolHandler,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

impl Tool {
    /// Creates a tool in the cluster tools' form: bytes in, bytes out.
    pub fn bytes<R, E>(
        name: impl Into<String>,
        handler: impl Fn(Bytes) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<Bytes, E>> + Send + 'static,
        E: Into<Failure>,
    {
        Self::bytes_with_call(name, move |input, _| handler(input))
    }

    /// Creates a bytes tool that reports progress or observes cancellation.
    pub fn bytes_with_call<R, E>(
        name: impl Into<String>,
        handler: impl Fn(Bytes, Call) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<Bytes, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let handler = move |input: Bytes, call: Call| -> HandlerFuture {
            let running = handler(input, call);
            Box::pin(async move { running.await.map_err(Into::into) })
        };
        Self::of(name.into(), Value::Object(Map::new()), Arc::new(handler))
    }

    /// Creates a tool with typed input and output. The input type defines the schema.
    pub fn typed<I, O, R, E>(
        name: impl Into<String>,
        handler: impl Fn(I) -> R + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize,
        R: Future<Output = Result<O, E>> + Send + 'static,
        E: Into<Failure>,
    {
        Self::with_call(name, move |input, _| handler(input))
    }

    /// Creates a typed tool that reports progress or observes cancellation.
    pub fn with_call<I, O, R, E>(
        name: impl Into<String>,
        handler: impl Fn(I, Call) -> R + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize,
        R: Future<Output = Result<O, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let schema = schemars::schema_for!(I).to_value();
        let handler = move |input: Bytes, call: Call| -> HandlerFuture {
            let read: &[u8] = if input.is_empty() { b"{}" } else { &input };
            let input: I = match serde_json::from_slice(read) {
                Ok(input) => input,
                Err(error) => {
                    let told = Failure(format!("invalid input: {error}"));
                    return Box::pin(std::future::ready(Err(told)));
                }
            };
            let running = handler(input, call);
            Box::pin(async move {
                let output = running.await.map_err(Into::into)?;
                let text = serde_json::to_vec(&output);
                text.map(Bytes::from).map_err(|error| Failure(format!("the output: {error}")))
            })
        };
        Self::of(name.into(), schema, Arc::new(handler))
    }

    fn of(name: String, input_spec: Value, run: ToolHandler) -> Self {
        let (description, metadata) = (String::new(), Value::Object(Map::new()));
        let definition = ToolDefinition { name, description, input_spec, metadata };
        Self { definition, handler: run }
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the description of the tool.
    pub fn about(&self) -> &str {
        &self.definition.description
    }

    /// Returns the input schema: JSON Schema, or the cluster tools' shorthand.
    pub fn spec(&self) -> &Value {
        &self.definition.input_spec
    }

    /// Sets the description of the tool.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.definition.description = text.into();
        self
    }

    /// Sets the input schema instead of the one derived from a type: JSON Schema, or the cluster
    /// tools' shorthand; an object.
    #[must_use]
    pub fn input_spec(mut self, spec: Value) -> Self {
        self.definition.input_spec = spec;
        self
    }

    /// Sets the metadata, an object. Its `node_id` names the node.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.definition.metadata = metadata;
        self
    }

    /// Metadata of an answer, with all values as text: gRPC's map carries nothing else.
    pub(crate) fn response_metadata(&self, node: &str) -> BTreeMap<String, String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let all = self.definition.metadata.as_object().into_iter().flatten();
        let mut told: BTreeMap<_, _> = all.map(|(key, value)| (key.clone(), text(value))).collect();
        if !node.is_empty() {
            told.entry("node_id".to_owned()).or_insert_with(|| node.to_owned());
        }
        told
    }
}

/// Tools in insertion order, with unique names.
#[derive(Debug, Clone, Default)]
pub struct ToolSet(Vec<Tool>);

impl ToolSet {
    /// Adds a tool to the set.
    ///
    /// # Errors
    /// [`AddToolError`].
    pub fn add_tool(&mut self, tool: Tool) -> Result<(), AddToolError> {
        let ToolDefinition { name, input_spec, metadata, .. } = &tool.definition;
        ToolName::new(name)?;
        if self.find_tool(name).is_some() {
            return Err(AddToolError::NameTaken(name.clone()));
        }
        for (part, value) in [("input_spec", input_spec), ("metadata", metadata)] {
            if !value.is_object() {
                return Err(AddToolError::NotAnObject(part));
            }
        }
        self.0.push(tool);
        Ok(())
    }

    pub(crate) fn find_tool(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.definition.name == name)
    }

    pub(crate) fn as_slice(&self) -> &[Tool] {
        &self.0
    }
}
