//! The MCP Registry API v0.1 (read routes): one server for each source that the caller's view has,
//! reachable at `/mcp/{source}`.
//!
//! The view of the MCP endpoints decides which servers exist, so a hidden source and an unknown one
//! get the same bytes. Format: `docs/reference/api/openapi.yaml` of `modelcontextprotocol/registry`.

mod server_entry;

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Json as Reply};
use catalog::SourceCatalog;
use gateway::CatalogView;
use http::{HeaderMap, StatusCode, Uri};
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{CallerType, ErrorCode, WallTime};

use server_core::error::ApiError;
use server_core::public_address::PublicAddress;
use server_core::query_string::{check_limit, parse_query};
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

use server_entry::ServerEntry;

/// Default number of servers per page.
const DEFAULT_PAGE_SIZE: usize = 30;
/// Maximum number of servers per page.
const MAX_PAGE_SIZE: usize = 100;
/// The version that stands for the latest one.
const LATEST: &str = "latest";

const LIST_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "cursor",
        description: "`metadata.nextCursor` of the previous page",
        schema_type: "string",
    },
    QueryParam {
        name: "limit",
        description: "number of servers per page, 1 to 100; default 30",
        schema_type: "integer",
    },
    QueryParam {
        name: "search",
        description: "part of the server's name, in any letter case",
        schema_type: "string",
    },
    QueryParam {
        name: "version",
        description: "`latest`, or an exact version",
        schema_type: "string",
    },
    QueryParam {
        name: "updated_since",
        description: "an RFC 3339 time; no times of change are stored, so every server is listed",
        schema_type: "string",
    },
];

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v0.1/servers",
            "MCP Registry: list the caller's servers, one for each source",
            get(list_servers),
        )
        .with_query(LIST_QUERY)
        .with_reply::<ServerList>(),
        ApiRoute::new(
            "get",
            "/v0.1/servers/{server}/versions",
            "MCP Registry: list the versions of a server; each has one",
            get(list_versions),
        )
        .with_reply::<ServerList>(),
        ApiRoute::new(
            "get",
            "/v0.1/servers/{server}/versions/{version}",
            "MCP Registry: show a version of a server, or `latest`",
            get(show_version),
        )
        .with_reply::<ServerEntry>(),
    ]
}

/// A page of servers.
#[derive(Debug, Serialize, JsonSchema)]
struct ServerList {
    /// The servers, by name.
    servers: Vec<ServerEntry>,
    metadata: ListMetadata,
}

/// Position of a page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    /// Cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Number of servers in this page.
    count: usize,
}

/// The query of a list. Unknown parameters are ignored, because the API allows additions.
#[derive(Debug, Default, Deserialize)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<usize>,
    search: Option<String>,
    version: Option<String>,
    updated_since: Option<String>,
}

/// The servers of one caller.
struct CallerServers<'a> {
    state: &'a ServerState,
    view: Arc<CatalogView>,
    address: PublicAddress,
    namespace: String,
}

impl<'a> CallerServers<'a> {
    fn new(state: &'a ServerState, principal: &Principal, headers: &HeaderMap) -> Self {
        let view = state.components.gateway.view_for(principal, CallerType::Direct);
        let address = PublicAddress::from_request(state, headers);
        let namespace = address.namespace();
        Self { state, view, address, namespace }
    }

    /// Iterates over the sources that the caller reaches at `/mcp/{source}`.
    fn sources(&self) -> impl Iterator<Item = &Arc<SourceCatalog>> {
        self.view.list_sources()
    }

    fn server_name(&self, source: &SourceCatalog) -> String {
        format!("{}/{}", self.namespace, source.source)
    }

    fn server_entry(&self, source: &SourceCatalog) -> ServerEntry {
        ServerEntry::new(
            (self.state, &self.address),
            &self.view,
            (self.server_name(source), source),
        )
    }

    /// Finds a server by name; `None` for hidden and unknown ones.
    fn find_entry(&self, name: &str) -> Option<ServerEntry> {
        let source = name.strip_prefix(&self.namespace)?.strip_prefix('/')?;
        self.view.source_catalog(source).map(|source| self.server_entry(source))
    }
}

async fn list_servers(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply<ServerList>, ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
    let query: ListQuery = parse_query(&uri).map_err(invalid)?;
    let limit = check_limit(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    if let Some(Err(error)) = query.updated_since.as_deref().map(str::parse::<WallTime>) {
        return Err(invalid(format!("`updated_since`: {error}")));
    }
    let servers = CallerServers::new(&state, &principal, &headers);
    let after = query.cursor.unwrap_or_default();
    let search = query.search.unwrap_or_default().to_lowercase();
    let mut found: Vec<_> = servers
        .sources()
        .map(|source| (servers.server_name(source), source))
        .filter(|(name, _)| *name > after && name.to_lowercase().contains(&search))
        .collect();
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let wanted = query.version.filter(|version| version != LATEST);
    let has_version =
        |entry: &ServerEntry| wanted.as_deref().is_none_or(|version| entry.version() == version);
    let entries = found.into_iter().map(|(_, source)| servers.server_entry(source));
    let mut page: Vec<_> = entries.filter(has_version).take(limit + 1).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    let last = page.last().filter(|_| has_more).map(|entry| entry.name().to_owned());
    let metadata = ListMetadata { next_cursor: last, count: page.len() };
    Ok(Reply(ServerList { servers: page, metadata }))
}

async fn list_versions(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let servers = CallerServers::new(&state, &principal, &headers);
    let entry = name.ok().and_then(|Path(name)| servers.find_entry(&name));
    let Some(entry) = entry else { return server_not_found() };
    let metadata = ListMetadata { next_cursor: None, count: 1 };
    Reply(ServerList { servers: vec![entry], metadata }).into_response()
}

async fn show_version(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let servers = CallerServers::new(&state, &principal, &headers);
    let entry = path.ok().and_then(|Path((name, version))| {
        let entry = servers.find_entry(&name)?;
        (version == LATEST || version == entry.version()).then_some(entry)
    });
    entry.map_or_else(server_not_found, |entry| Reply(entry).into_response())
}

/// The error of the registry API, which says the same of hidden and of unknown servers.
fn server_not_found() -> Response {
    (StatusCode::NOT_FOUND, Reply(json!({"error": "Server not found"}))).into_response()
}
