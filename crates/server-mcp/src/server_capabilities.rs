//! The results of `initialize` and `server/discover`: server info, capabilities and instructions of
//! an endpoint.

use catalog::SourceCatalog;
use gateway::CatalogView;
use http::HeaderValue;
use mcp::events::EVENTS_EXTENSION;
use mcp::extensions::SKILLS_EXTENSION;
use mcp::{ProtocolEra, ProtocolVersion, headers, meta};
use serde_json::{Map, Value, json};
use tool::Json;

use super::endpoint::is_mcp_source;
use super::request_context::{RequestContext, require_string};
use super::request_error::RequestError;
use super::response_body::McpResponse;

/// Maximum number of extensions that an endpoint declares.
const MAX_EXTENSIONS: usize = 64;
/// Time for which a client may cache the description of an endpoint, in milliseconds.
const ENDPOINT_TTL_MS: u64 = 60_000;

/// The capabilities, server info and instructions that an endpoint reports.
struct EndpointDescription {
    capabilities: Value,
    server_info: Json,
    instructions: Option<Json>,
}

/// Handles `initialize`: negotiates the protocol version and creates a session.
pub(crate) fn handle_initialize(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let [version, declared, client_info] =
        request.pick_params(["protocolVersion", "capabilities", "clientInfo"]);
    let version = require_string("protocolVersion", version.as_ref())?;
    // A handshake belongs to the older versions, whichever version it names.
    let settled = ProtocolVersion::parse(&version)
        .filter(|revision| revision.era() == ProtocolEra::Handshake)
        .unwrap_or(ProtocolVersion::LAST_HANDSHAKE);
    let about = describe_endpoint(request)?;
    let (version, capabilities) =
        (Json::encode(settled.as_str()), Json::encode(&about.capabilities));
    let fields = [
        Some(("protocolVersion", &version)),
        Some(("capabilities", &capabilities)),
        Some(("serverInfo", &about.server_info)),
        about.instructions.as_ref().map(|text| ("instructions", text)),
    ];
    let mut reply = request.encode_result(&Json::object_from(fields.into_iter().flatten()));
    let caller = request.caller;
    let now = caller.received_at;
    let session = caller.state.mcp_components.sessions.create_session(
        (caller.principal, caller.endpoint),
        settled,
        (declared, client_info),
        now,
    );
    let session = session.and_then(|id| HeaderValue::try_from(id).ok());
    let session = session.ok_or_else(|| RequestError::internal_error("cannot start a session"))?;
    reply.headers_mut().insert(headers::SESSION_ID, session);
    Ok(reply)
}

/// Handles `server/discover`: reports the endpoint without a session.
pub(crate) fn handle_discover(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let about = describe_endpoint(request)?;
    let versions = Json::encode(&ProtocolVersion::ALL.map(ProtocolVersion::as_str));
    let capabilities = mcp::tasks::declare_in(&Json::encode(&about.capabilities));
    let capabilities = super::events::declare_in(request, &capabilities);
    let (ttl, scope) = (Json::encode(&ENDPOINT_TTL_MS), Json::encode("private"));
    let beside = Json::object_from([(meta::SERVER_INFO, &about.server_info)]);
    let fields = [
        Some(("supportedVersions", &versions)),
        Some(("capabilities", &capabilities)),
        about.instructions.as_ref().map(|text| ("instructions", text)),
        Some(("ttlMs", &ttl)),
        Some(("cacheScope", &scope)),
        Some((meta::META, &beside)),
    ];
    Ok(request.encode_result(&Json::object_from(fields.into_iter().flatten())))
}

fn describe_endpoint(request: &RequestContext<'_>) -> Result<EndpointDescription, RequestError> {
    let view = request.caller.tool_view();
    let shelf =
        request.caller.endpoint.source_catalog(&view).map_err(RequestError::invalid_params)?;
    let own = json!({"name": "toolkeep", "version": env!("CARGO_PKG_VERSION")});
    let mut capabilities = Map::new();
    capabilities.insert("logging".to_owned(), json!({}));
    capabilities.insert("tools".to_owned(), json!({"listChanged": true}));
    if let Some(extensions) = source_extensions(request, &view) {
        capabilities.insert("extensions".to_owned(), extensions.to_value());
    }
    let Some(shelf) = shelf else {
        // Sources come and go while a client is connected, and it reads the capabilities once.
        capabilities.insert("prompts".to_owned(), json!({"listChanged": true}));
        let resources = json!({"listChanged": true, "subscribe": true});
        capabilities.insert("resources".to_owned(), resources);
        capabilities.insert("completions".to_owned(), json!({}));
        return Ok(EndpointDescription {
            capabilities: Value::Object(capabilities),
            server_info: Json::encode(&own),
            instructions: toolset_instructions(&view),
        });
    };
    add_source_capabilities(&mut capabilities, &view, shelf);
    let said = shelf.initialize_result.as_ref().filter(|_| is_mcp_source(shelf));
    Ok(EndpointDescription {
        capabilities: Value::Object(capabilities),
        server_info: source_server_info(shelf).unwrap_or_else(|| Json::encode(&own)),
        instructions: said
            .and_then(|about| about.get("instructions"))
            .filter(|text| text.kind() == "string"),
    })
}

/// The description of the view's toolset.
fn toolset_instructions(view: &CatalogView) -> Option<Json> {
    let described = view.toolset().filter(|toolset| !toolset.description.is_empty());
    described.map(|toolset| Json::encode(&toolset.description))
}

fn reads_directories(settings: &Json) -> bool {
    settings.get("directoryRead").is_some_and(|can| can.as_str() == "true")
}

/// The extensions that the endpoint's sources declare; of several settings of one extension the
/// first.
fn source_extensions(request: &RequestContext<'_>, view: &CatalogView) -> Option<Json> {
    let scope = request.caller.endpoint.source();
    let sources = view.list_sources();
    let sources = sources.filter(|it| scope.is_none_or(|only| it.source.as_str() == only));
    let declared = sources.filter_map(|source| source.extensions.as_ref());
    let mut all: Vec<(String, Json)> = Vec::new();
    // Events are declared by the module that serves them, in the era that has them.
    let declared = declared.flat_map(Json::members).filter(|(name, _)| name != EVENTS_EXTENSION);
    for (name, settings) in declared {
        match all.iter().position(|(known, _)| *known == name) {
            None if all.len() < MAX_EXTENSIONS => all.push((name, settings)),
            // Directories can be read if one source can.
            Some(index) if name == SKILLS_EXTENSION && reads_directories(&settings) => {
                all.swap_remove(index);
                all.push((name, settings));
            }
            Some(_) | None => {}
        }
    }
    let joined = all
        .iter()
        .fold(Json::empty_object(), |joined, (name, settings)| joined.with_member(name, settings));
    (!all.is_empty()).then_some(joined)
}

/// The server info of an MCP source, as its own endpoint reports it.
pub(crate) fn source_server_info(source: &SourceCatalog) -> Option<Json> {
    let about = source.initialize_result.as_ref().filter(|_| is_mcp_source(source))?;
    let beside = meta::get_meta(about).and_then(|beside| beside.get(meta::SERVER_INFO));
    beside.or_else(|| about.get("serverInfo")).filter(|server| server.kind() == "object")
}

/// Adds the capabilities of the endpoint's source that this caller can use and that are forwarded.
fn add_source_capabilities(
    capabilities: &mut Map<String, Value>,
    view: &CatalogView,
    shelf: &SourceCatalog,
) {
    let source = shelf.source.as_str();
    let has = |method: &str| view.find_method(source, method).is_some();
    if has("mcp.prompts.get") {
        capabilities.insert("prompts".to_owned(), json!({"listChanged": true}));
    }
    if has("mcp.resources.read") {
        let mut resources = json!({"listChanged": true});
        if has("mcp.resources.subscribe") {
            resources = json!({"listChanged": true, "subscribe": true});
        }
        capabilities.insert("resources".to_owned(), resources);
    }
    if has("mcp.completion.complete") {
        capabilities.insert("completions".to_owned(), json!({}));
    }
}
