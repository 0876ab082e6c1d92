//! The handler of `tools/call`, with the argument headers and native tool names it needs.

use std::sync::{Arc, Mutex, PoisonError};

use catalog::{Catalog, MergedSource, ToolPosition};
use gateway::{CallRequest, CatalogView, RequestArguments};
use http::HeaderName;
use mcp::headers::{ArgumentHeaders, HeaderMismatch};
use mcp::{ProtocolEra, error_codes};
use tool::{FastMap, Interface, Json, JsonLimits};

use super::call_completion::CallCompletion;
use super::call_execution::run_call;
use super::endpoint::{Endpoint, is_mcp_source};
use super::request_context::{RequestContext, require_string};
use super::request_error::RequestError;
use super::response_body::McpResponse;
use server_core::tool_lists::run_blocking_if_large;

/// Handles the method `tools/call`.
pub(crate) async fn call_tool(context: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let name = require_string("name", context.named_params.name.as_ref())?;
    let args = context.named_params.arguments.clone().filter(|args| args.kind() != "null");
    let args = args.unwrap_or_else(Json::empty_object);
    let view = context.caller.tool_view();
    let native = resolve_native_name(context, &view, &name);
    if context.era == ProtocolEra::Stateless {
        check_argument_headers(context, &view, (&native, &args))?;
    }
    let mut finish = CallCompletion::for_tool(context, (&native, name), &args);
    let continues = finish.take_resumption(context).await?;
    // The limits that the message was parsed with, less the levels around the arguments; the number
    // of nodes depends on the size.
    let by = JsonLimits { max_bytes: usize::MAX, max_nodes: usize::MAX, ..JsonLimits::ARGUMENTS };
    let mut request =
        Box::new(CallRequest::new(native, RequestArguments::Validated(args, by), Interface::Mcp));
    request.unsolicited_input = continues.is_none().then(|| context.unsolicited_input()).flatten();
    request.resumption = continues;
    Ok(run_call(context, finish, request).await)
}

/// Resolves the name that a client used to the native tool name. A name unknown at the endpoint
/// becomes one that no tool can have, so that no tool of another source matches.
fn resolve_native_name(request: &RequestContext<'_>, view: &CatalogView, name: &str) -> String {
    let Endpoint::Source(source) = request.caller.endpoint else {
        return request.caller.state.tool_lists.resolve_tool_name(view, name);
    };
    let own = request.caller.state.mcp_components.native_names.for_source(
        view,
        request.caller.endpoint,
        source,
    );
    own.get(name).cloned().unwrap_or_else(|| format!("{source}/{name}"))
}

/// Checks that arguments repeated in headers equal those in the body. Only callers who see the tool
/// learn that it has such arguments.
fn check_argument_headers(
    request: &RequestContext<'_>,
    view: &CatalogView,
    (name, args): (&str, &Json),
) -> Result<(), RequestError> {
    let mirrors =
        request.caller.state.mcp_components.argument_headers.for_catalog(view.full_catalog());
    let known = mirrors.has_any.then(|| view.full_catalog().find_tool(name)).flatten();
    let at = known.filter(|_| view.find_tool(name).is_some());
    // Only for the primary name: an alias has no headers.
    let Some(mirror) = at.and_then(|(at, _)| mirrors.get(at, name)) else { return Ok(()) };
    if args.kind() != "object" {
        return Ok(());
    }
    let header = |name: &str| {
        let Ok(name) = HeaderName::try_from(name) else { return Ok(None) };
        request.headers.single_value(&name).map_err(|refused| HeaderMismatch(refused.error.message))
    };
    mirror.verify_headers(&args.to_value(), header).map_err(|mismatch| {
        RequestError::bad_request(error_codes::HEADER_MISMATCH, mismatch.to_string())
    })
}

/// A map from native tool names.
type NameMap<T> = Arc<FastMap<String, T>>;

/// Tools with arguments that are repeated in headers, of the newest catalog.
#[derive(Debug, Default)]
pub(crate) struct ArgumentHeaderCache(Mutex<Arc<CatalogArgumentHeaders>>);

/// The argument headers of one catalog. Sources that did not change since the previous catalog are
/// not indexed again.
#[derive(Debug, Default)]
struct CatalogArgumentHeaders {
    catalog_number: Option<u64>,
    /// Whether any tool has such arguments.
    has_any: bool,
    /// The argument headers of each merged source, by its slot.
    by_slot: Vec<Option<(Arc<MergedSource>, NameMap<ArgumentHeaders>)>>,
}

impl ArgumentHeaderCache {
    fn for_catalog(&self, catalog: &Catalog) -> Arc<CatalogArgumentHeaders> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&lock());
        if before.catalog_number == Some(catalog.version) {
            return before;
        }
        // Indexed outside the lock: two callers may do it at once after a change, with equal
        // results.
        let marked = Arc::new(run_blocking_if_large(catalog.len(), || {
            CatalogArgumentHeaders::index_catalog(catalog, &before)
        }));
        *lock() = Arc::clone(&marked);
        marked
    }
}

impl CatalogArgumentHeaders {
    fn index_catalog(catalog: &Catalog, before: &Self) -> Self {
        let slots = catalog.merged_sources().iter().enumerate();
        let parts = slots.map(|(slot, part)| {
            let part = part.as_ref()?;
            let known = before.by_slot.get(slot).and_then(Option::as_ref);
            let known = known.filter(|(known, _)| Arc::ptr_eq(known, part));
            Some(known.cloned().unwrap_or_else(|| (Arc::clone(part), index_source(part))))
        });
        let parts: Vec<_> = parts.collect();
        let any = parts.iter().flatten().any(|(_, marked)| !marked.is_empty());
        Self { catalog_number: Some(catalog.version), has_any: any, by_slot: parts }
    }

    /// The argument headers of a tool; `None` if it has none.
    fn get(&self, at: ToolPosition, name: &str) -> Option<&ArgumentHeaders> {
        self.by_slot.get(at.slot_index())?.as_ref()?.1.get(name)
    }
}

fn index_source(part: &MergedSource) -> NameMap<ArgumentHeaders> {
    let marked =
        part.tools().filter(|entry| entry.tool.input_schema.as_str().contains("x-mcp-header"));
    // A schema with invalid marks has no argument headers: clients must not list it, and cannot
    // send them.
    let read = marked.filter_map(|entry| {
        let mirror = ArgumentHeaders::from_schema(&entry.tool.input_schema.to_value()).ok()?;
        Some((entry.name.to_string(), mirror))
    });
    Arc::new(read.filter(|(_, mirror)| !mirror.is_empty()).collect())
}

/// The native names of a source's tools, as its endpoint lists them, with their names in the
/// catalog.
#[derive(Debug, Default)]
pub(crate) struct NativeNameCache(Mutex<FastMap<(u64, String), NameMap<String>>>);

/// Maximum number of cached views and sources; the cache is cleared beyond that.
const MAX_CACHED_SOURCES: usize = 1_024;

impl NativeNameCache {
    fn for_source(&self, view: &CatalogView, scope: &Endpoint, source: &str) -> NameMap<String> {
        let key = (view.id, source.to_owned());
        if let Some(found) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(found);
        }
        let received =
            scope.source_catalog(view).ok().flatten().is_some_and(|shelf| is_mcp_source(shelf));
        let names = view.tools_of(source).map(|entry| {
            let own = entry.tool.raw_definition.get("name").filter(|_| received);
            let own = own.and_then(|own| own.decode().ok());
            (own.unwrap_or_else(|| entry.tool_key.name.to_string()), entry.name.to_string())
        });
        let names = Arc::new(names.collect());
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= MAX_CACHED_SOURCES {
            cached.clear();
        }
        cached.insert(key, Arc::clone(&names));
        names
    }
}
