//! Implementation of a tool: a fixed response, a built-in, an internal executor, HTTP, or code.

use std::collections::HashMap;
use std::sync::Arc;

use tool::{
    BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, Json, Outcome, RecordedCall,
    ToolTraits,
};
use tool_manifest::BuiltinTool;

use super::code_tools::{self, CodeEntryPoint, CodeHost};
use super::document::{FileFormatVersion, FileSettings};
use super::field_reader::{EntryError, EntryFields, EntryResult, escape_word, type_error};
use super::http_tool::{self, HttpToolDependencies};

/// Internal executors by handler name.
pub type InternalHandlers = Arc<HashMap<String, InternalHandler>>;

/// Internal executor with the default traits of its tools.
#[derive(Debug, Clone)]
pub struct InternalHandler {
    /// Executor of the handler.
    pub executor: Arc<dyn Executor>,
    /// Default traits of the handler's tools.
    pub traits: ToolTraits,
}

/// Registry of the implementations that tools of a file may name.
#[derive(Debug, Clone)]
pub struct ImplementationRegistry {
    /// Built-in tools that only compute, in listing order: the first choice of `type: builtin`.
    pub computing_builtins: Arc<[BuiltinTool]>,
    /// Internal executors of this program.
    pub internal_handlers: InternalHandlers,
    /// Dependencies of `http` tools.
    pub http: HttpToolDependencies,
    /// Host of `python` and `cpp` tools; without it these kinds are unavailable.
    pub code_host: Option<Arc<dyn CodeHost>>,
    /// Built-in tools of this installation by name. A tool without an implementation is the one of
    /// its name.
    pub installed_builtins: InstalledBuiltins,
    /// Categories of the operator, in addition to the standard ones.
    pub own_categories: Arc<[String]>,
}

/// Built-in tools by name.
pub type InstalledBuiltins = Arc<HashMap<String, BuiltinTool>>;

/// Executor of a tool with its default traits.
#[derive(Debug)]
pub(super) struct FileToolImplementation {
    pub(super) executor: Arc<dyn Executor>,
    pub(super) traits: ToolTraits,
    /// Entry point of the code that replaces the executor.
    pub(super) entry_point: Option<CodeEntryPoint>,
    /// Schema of a built-in tool. The file can only make the tool's traits stricter.
    pub(super) own_schema: Option<Json>,
    /// True if the entry of the file alone decides it: no secret and no code.
    pub(super) is_reusable: bool,
}

impl FileToolImplementation {
    /// Creates an implementation without code.
    pub(super) fn new(executor: Arc<dyn Executor>, traits: ToolTraits) -> Self {
        Self { executor, traits, entry_point: None, own_schema: None, is_reusable: false }
    }

    fn into_reusable(self) -> Self {
        Self { is_reusable: true, ..self }
    }

    fn from_builtin(builtin: &BuiltinTool) -> Self {
        let own = Some(builtin.tool.input_schema.clone());
        let (executor, traits) = (Arc::clone(&builtin.executor), builtin.tool.traits.clone());
        Self { executor, traits, entry_point: None, own_schema: own, is_reusable: true }
    }
}

/// Tool kinds in the order of the tool-file registry's messages.
const TOOL_KINDS: [&str; 4] = ["mock", "builtin", "internal", "http"];
const HTTP_REQUIRES_V2: &str = "HTTP tools not yet supported (coming in v2)";
/// Kinds of the research registry whose code runs like a plugin.
const CODE_KINDS: [&str; 2] = ["python", "cpp"];

/// Parses both forms: `implementation` with its own `type`, or a flat `type`.
pub(super) fn parse_implementation(
    name: &str,
    fields: &EntryFields,
    input_schema: &EntryResult<Json>,
    (settings, handlers): (&FileSettings, &ImplementationRegistry),
) -> EntryResult<FileToolImplementation> {
    let inner_fields = match fields.get("implementation") {
        None => None,
        Some(json) if json.kind() == "object" => Some(EntryFields::from_object(json)),
        Some(json) => return Err(type_error("implementation", json, "a mapping")),
    };
    let outer = fields.string_field("type")?;
    let inner_type = match &inner_fields {
        Some(inner) => inner.string_field("type")?,
        None => None,
    };
    let Some(implementation_type) = inner_type.or_else(|| outer.filter(|word| word != "function"))
    else {
        // The form that the research registry prints: the installed built-in of this name runs.
        if let Some(builtin) =
            handlers.installed_builtins.get(name).filter(|_| inner_fields.is_none())
        {
            return Ok(FileToolImplementation::from_builtin(builtin));
        }
        return Err(EntryError::new(format!(
            "Tool \"{name}\" must have an \"implementation\" with a \"type\""
        ))
        .with_help("add `implementation: {type: mock, mock_response: …}`, or `type: builtin`"));
    };
    if inner_fields.is_some() {
        check_complete_form(name, fields, settings.requires_complete_form)?;
    }
    let implementation_fields = inner_fields.as_ref().unwrap_or(fields);
    let handler = |kind| match &inner_fields {
        Some(inner) => nested_handler_name((name, kind), inner),
        None => flat_handler_name(name, fields),
    };
    match implementation_type.as_str() {
        "mock" => mock_implementation(name, implementation_fields),
        "builtin" => builtin_implementation(&handler("builtin")?, handlers),
        "internal" => internal_implementation(&handler("internal")?, handlers),
        "http" if settings.format_version == FileFormatVersion::V1 => {
            Err(EntryError::new(HTTP_REQUIRES_V2)
                .with_help("write `version: 2` at the top of the file, beside `tools:`"))
        }
        "http" if inner_fields.is_none() => Err(EntryError::new("an http tool needs a `url`")
            .with_help("write `implementation: {type: http, url: https://host/path/{parameter}}`")),
        "http" => http_tool::parse_http_tool(
            &handlers.http,
            implementation_fields,
            input_schema.as_ref().map_err(Clone::clone)?,
        ),
        kind if CODE_KINDS.contains(&kind) => code_tools::parse_code_tool(
            (name, kind),
            implementation_fields,
            handlers.code_host.as_ref(),
        ),
        _ => {
            let kinds =
                TOOL_KINDS.split_last().map(|(_, kinds)| kinds.join(", ")).unwrap_or_default();
            Err(EntryError::new(format!(
                "Tool \"{name}\" has invalid type \"{}\". Must be one of: {kinds}",
                escape_word(&implementation_type)
            )))
        }
    }
}

/// Checks that the tool-file registry's form is complete: `type: function` and `handler` beside
/// `implementation`.
///
/// The short form has neither; with `is_required` it is not allowed.
fn check_complete_form(name: &str, fields: &EntryFields, is_required: bool) -> EntryResult<()> {
    let (kind, handler) = (fields.string_field("type")?, fields.string_field("handler")?);
    if !is_required && kind.is_none() && handler.is_none() {
        return Ok(());
    }
    let kind_fix = "write `type: function`; `implementation.type` says what executes the tool";
    match kind.as_deref() {
        Some("function") => {}
        None => {
            let message = format!("Tool \"{name}\" must have the \"type\" \"function\"");
            return Err(EntryError::new(message).with_help(kind_fix));
        }
        Some(other) => {
            let message = format!(
                "Tool \"{name}\" has the \"type\" \"{}\"; expected \"function\"",
                escape_word(other)
            );
            return Err(EntryError::new(message).with_help(kind_fix));
        }
    }
    if handler.is_none_or(|handler| handler.trim().is_empty()) {
        let message = format!("Tool \"{name}\" must have a non-empty string \"handler\"");
        return Err(EntryError::new(message)
            .with_help(format!("add `handler`, for example `handler: {name}`")));
    }
    Ok(())
}

/// Returns `implementation.handler`, the only place that the tool-file registry has for it.
fn nested_handler_name((name, kind): (&str, &str), inner: &EntryFields) -> EntryResult<String> {
    inner.string_field("handler")?.filter(|handler| !handler.trim().is_empty()).ok_or_else(|| {
        let message =
            format!("Tool \"{name}\" of type {kind} must have \"implementation.handler\"");
        let example = if kind == "builtin" { "math_eval" } else { "catalog.list" };
        EntryError::new(message)
            .with_help(format!("add `handler` to `implementation`, for example `{example}`"))
    })
}

/// Returns the handler of the flat form: the field of the tool-file registry's program, or the
/// tool's name.
fn flat_handler_name(name: &str, fields: &EntryFields) -> EntryResult<String> {
    for key in ["handler", "builtin_handler"] {
        if let Some(handler) = fields.string_field(key)? {
            return Ok(handler);
        }
    }
    Ok(name.to_owned())
}

fn mock_implementation(name: &str, place: &EntryFields) -> EntryResult<FileToolImplementation> {
    let response = place.get_or_null("mock_response").cloned().ok_or_else(|| {
        EntryError::new(format!("Tool \"{name}\" of type mock must have a \"mock_response\""))
            .with_help("add `mock_response`, with any JSON value")
    })?;
    // A fixed response stands for a future tool, whose traits the file must declare.
    let executor = Arc::new(MockResponseExecutor { mock_response: response });
    Ok(FileToolImplementation::new(executor, ToolTraits::default()).into_reusable())
}

fn builtin_implementation(
    handler: &str,
    handlers: &ImplementationRegistry,
) -> EntryResult<FileToolImplementation> {
    let has_handler = |builtin: &&BuiltinTool| &*builtin.handler == handler;
    let find_installed = || {
        handlers
            .installed_builtins
            .get(handler)
            .or_else(|| handlers.installed_builtins.values().find(has_handler))
    };
    let by_name = |it: &&BuiltinTool| has_handler(it) || it.tool.name.as_str() == handler;
    if let Some(found) = handlers.computing_builtins.iter().find(by_name) {
        let (executor, traits) = (Arc::clone(&found.executor), found.tool.traits.clone());
        return Ok(FileToolImplementation::new(executor, traits).into_reusable());
    }
    if let Some(builtin) = find_installed() {
        return Ok(FileToolImplementation::from_builtin(builtin));
    }
    let known: Vec<_> =
        handlers.computing_builtins.iter().map(|builtin| &*builtin.handler).collect();
    Err(handler_not_found("Builtin", handler, &known))
}

fn internal_implementation(
    handler: &str,
    handlers: &ImplementationRegistry,
) -> EntryResult<FileToolImplementation> {
    let found = handlers.internal_handlers.get(handler).ok_or_else(|| {
        let mut known: Vec<_> = handlers.internal_handlers.keys().map(String::as_str).collect();
        known.sort_unstable();
        handler_not_found("Internal", handler, &known)
    })?;
    let (executor, traits) = (Arc::clone(&found.executor), found.traits.clone());
    Ok(FileToolImplementation::new(executor, traits).into_reusable())
}

fn handler_not_found(handler_kind: &str, handler: &str, known: &[&str]) -> EntryError {
    let fault =
        EntryError::new(format!("{handler_kind} handler '{}' not found", escape_word(handler)));
    if known.is_empty() {
        fault.with_help("no handlers are registered")
    } else {
        fault.with_help(format!("use one of {}", known.join(", ")))
    }
}

/// Executor that always returns the same response.
#[derive(Debug)]
struct MockResponseExecutor {
    mock_response: Json,
}

impl Executor for MockResponseExecutor {
    fn execute<'a>(
        &'a self,
        _call: RecordedCall<'a>,
        _ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, std::result::Result<ExecutionState, ExecuteError>> {
        let outcome = Outcome::from_value(self.mock_response.clone());
        Box::pin(std::future::ready(Ok(ExecutionState::Completed(outcome))))
    }
}
