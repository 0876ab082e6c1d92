//! Implementation of a tool: a fixed response, a built-in, an internal executor, HTTP, or code.

use std::collections::HashMap;
use std::sync::Arc;

use tool::{Boxed, Context, ExecuteError, Executor, Granted, Json, Outcome, Step, Traits};
use tool_manifest::Builtin;

use super::code::{self, Function, Host};
use super::document::{Settings, Version};
use super::fields::{Fault, Fields, Result, kind};
use super::http::{self, Web};

/// Internal executors by handler name.
pub type Internals = Arc<HashMap<String, Internal>>;

/// Internal executor with the default traits of its tools.
#[derive(Debug, Clone)]
pub struct Internal {
    /// Executor of the handler.
    pub executor: Arc<dyn Executor>,
    /// Default traits of the handler's tools.
    pub traits: Traits,
}

/// Registry of the implementations that tools of a file may name.
#[derive(Debug, Clone)]
pub struct Handlers {
    /// Built-in tools that only compute, in listing order: the first choice of `type: builtin`.
    pub computing: Arc<[Builtin]>,
    /// Internal executors of this program.
    pub internals: Internals,
    /// Dependencies of `http` tools.
    pub web: Web,
    /// Host of `python` and `cpp` tools; without it these kinds are unavailable.
    pub host: Option<Arc<dyn Host>>,
    /// Built-in tools of this installation by name. A tool without an implementation is the one of
    /// its name.
    pub own: OwnTools,
    /// Categories of the operator, in addition to the standard ones.
    pub categories: Arc<[String]>,
}

/// Built-in tools by name.
pub type OwnTools = Arc<HashMap<String, Builtin>>;

/// Executor of a tool with its default traits.
#[derive(Debug)]
pub(super) struct Implementation {
    pub(super) executor: Arc<dyn Executor>,
    pub(super) traits: Traits,
    /// Entry point of the code that replaces the executor.
    pub(super) code: Option<Function>,
    /// Schema of a built-in tool. The file can only make the tool's traits stricter.
    pub(super) own: Option<Json>,
}

impl Implementation {
    /// Creates an implementation without code.
    pub(super) fn new(executor: Arc<dyn Executor>, traits: Traits) -> Self {
        Self { executor, traits, code: None, own: None }
    }

    fn of(builtin: &Builtin) -> Self {
        let own = Some(builtin.tool.input.clone());
        let (executor, traits) = (Arc::clone(&builtin.executor), builtin.tool.traits.clone());
        Self { executor, traits, code: None, own }
    }
}

/// Tool kinds in the order of spec 2's messages.
const KINDS: [&str; 4] = ["mock", "builtin", "internal", "http"];
const HTTP: &str = "HTTP tools not yet supported (coming in v2)";
/// Kinds of spec 3 whose code runs like a plugin.
const OF_CODE: [&str; 2] = ["python", "cpp"];

/// Parses both forms: `implementation` with its own `type`, or a flat `type`.
pub(super) fn read(
    name: &str,
    fields: &Fields,
    input: &Result<Json>,
    (settings, handlers): (&Settings, &Handlers),
) -> Result<Implementation> {
    let inner = match fields.get("implementation") {
        None => None,
        Some(json) if json.kind() == "object" => Some(Fields::of(json)),
        Some(json) => return Err(kind("implementation", json, "a mapping")),
    };
    let outer = fields.text("type")?;
    let own = match &inner {
        Some(inner) => inner.text("type")?,
        None => None,
    };
    let Some(word) = own.or_else(|| outer.filter(|word| word != "function")) else {
        // The form that spec 3 prints: the installed built-in of this name runs.
        if let Some(builtin) = handlers.own.get(name).filter(|_| inner.is_none()) {
            return Ok(Implementation::of(builtin));
        }
        return Err(Fault::new(format!(
            "Tool \"{name}\" must have an \"implementation\" with a \"type\""
        ))
        .fix("add `implementation: {type: mock, mock_response: …}`, or `type: builtin`"));
    };
    if inner.is_some() {
        complete(name, fields, settings.requires_spec_2)?;
    }
    let place = inner.as_ref().unwrap_or(fields);
    let handler = |kind| match &inner {
        Some(inner) => inner_handler((name, kind), inner),
        None => flat_handler(name, fields),
    };
    match word.as_str() {
        "mock" => mock(name, place),
        "builtin" => builtin(&handler("builtin")?, handlers),
        "internal" => internal(&handler("internal")?, handlers),
        "http" if settings.version == Version::One => {
            Err(Fault::new(HTTP).fix("write `version: 2` at the top of the file, beside `tools:`"))
        }
        "http" if inner.is_none() => Err(Fault::new("an http tool needs a `url`")
            .fix("write `implementation: {type: http, url: https://host/path/{parameter}}`")),
        "http" => http::read(&handlers.web, place, input.as_ref().map_err(Clone::clone)?),
        kind if OF_CODE.contains(&kind) => code::read((name, kind), place, handlers.host.as_ref()),
        _ => {
            let word: String = word.chars().take(64).collect();
            let kinds = KINDS.split_last().map(|(_, kinds)| kinds.join(", ")).unwrap_or_default();
            Err(Fault::new(format!(
                "Tool \"{name}\" has invalid type \"{}\". Must be one of: {kinds}",
                word.escape_debug()
            )))
        }
    }
}

/// Checks that spec 2's form is complete: `type: function` and `handler` beside `implementation`.
///
/// The short form has neither; with `is_required` it is not allowed.
fn complete(name: &str, fields: &Fields, is_required: bool) -> Result<()> {
    let (kind, handler) = (fields.text("type")?, fields.text("handler")?);
    if !is_required && kind.is_none() && handler.is_none() {
        return Ok(());
    }
    let kind_fix = "write `type: function`; what runs the tool stands in `implementation.type`";
    match kind.as_deref() {
        Some("function") => {}
        None => {
            let message = format!("Tool \"{name}\" must have the \"type\" \"function\"");
            return Err(Fault::new(message).fix(kind_fix));
        }
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            let message = format!(
                "Tool \"{name}\" has the \"type\" \"{}\"; expected \"function\"",
                other.escape_debug()
            );
            return Err(Fault::new(message).fix(kind_fix));
        }
    }
    if handler.is_none_or(|handler| handler.trim().is_empty()) {
        let message = format!("Tool \"{name}\" must have a non-empty string \"handler\"");
        return Err(
            Fault::new(message).fix(format!("add `handler`, for example `handler: {name}`"))
        );
    }
    Ok(())
}

/// Returns `implementation.handler`, the only place that spec 2 has for it.
fn inner_handler((name, kind): (&str, &str), inner: &Fields) -> Result<String> {
    inner.text("handler")?.filter(|handler| !handler.trim().is_empty()).ok_or_else(|| {
        let message =
            format!("Tool \"{name}\" of type {kind} must have \"implementation.handler\"");
        let example = if kind == "builtin" { "math_eval" } else { "catalog.list" };
        Fault::new(message)
            .fix(format!("add `handler` to `implementation`, for example `{example}`"))
    })
}

/// Returns the handler of the flat form: the field of spec 2's program, or the tool's name.
fn flat_handler(name: &str, fields: &Fields) -> Result<String> {
    for key in ["handler", "builtin_handler"] {
        if let Some(handler) = fields.text(key)? {
            return Ok(handler);
        }
    }
    Ok(name.to_owned())
}

fn mock(name: &str, place: &Fields) -> Result<Implementation> {
    let response = place.any("mock_response").cloned().ok_or_else(|| {
        Fault::new(format!("Tool \"{name}\" of type mock must have a \"mock_response\""))
            .fix("add `mock_response`, with any JSON value")
    })?;
    // A fixed response stands for a future tool, whose traits the file must declare.
    Ok(Implementation::new(Arc::new(Mock { response }), Traits::default()))
}

fn builtin(handler: &str, handlers: &Handlers) -> Result<Implementation> {
    let named = |builtin: &&Builtin| &*builtin.handler == handler;
    let own = || handlers.own.get(handler).or_else(|| handlers.own.values().find(named));
    let by_name = |it: &&Builtin| named(it) || it.tool.name.as_str() == handler;
    if let Some(found) = handlers.computing.iter().find(by_name) {
        let (executor, traits) = (Arc::clone(&found.executor), found.tool.traits.clone());
        return Ok(Implementation::new(executor, traits));
    }
    if let Some(builtin) = own() {
        return Ok(Implementation::of(builtin));
    }
    let known: Vec<_> = handlers.computing.iter().map(|builtin| &*builtin.handler).collect();
    Err(not_found("Builtin", handler, &known))
}

fn internal(handler: &str, handlers: &Handlers) -> Result<Implementation> {
    let found = handlers.internals.get(handler).ok_or_else(|| {
        let mut known: Vec<_> = handlers.internals.keys().map(String::as_str).collect();
        known.sort_unstable();
        not_found("Internal", handler, &known)
    })?;
    Ok(Implementation::new(Arc::clone(&found.executor), found.traits.clone()))
}

fn not_found(what: &str, handler: &str, known: &[&str]) -> Fault {
    let handler: String = handler.chars().take(64).collect();
    let fault = Fault::new(format!("{what} handler '{}' not found", handler.escape_debug()));
    if known.is_empty() {
        fault.fix("there are none")
    } else {
        fault.fix(format!("use one of {}", known.join(", ")))
    }
}

/// Executor that always returns the same response.
#[derive(Debug)]
struct Mock {
    response: Json,
}

impl Executor for Mock {
    fn execute<'a>(
        &'a self,
        _call: Granted<'a>,
        _ctx: &'a Context<'a>,
    ) -> Boxed<'a, std::result::Result<Step, ExecuteError>> {
        let outcome = Outcome::value(self.response.clone());
        Box::pin(std::future::ready(Ok(Step::Done(outcome))))
    }
}
