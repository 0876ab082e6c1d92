//! Discovery documents for clients without a key: the AI catalog of this host, and the MCP server
//! card of `/mcp` (SEP-2127).
//!
//! They describe how to connect, and name no source and no tool. Formats: `docs/discovery.md` and
//! `schema.ts` of `modelcontextprotocol/experimental-ext-server-card`, and AI Catalog 1.0.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mcp::ProtocolVersion;
use schemars::JsonSchema;
use serde::Serialize;
use tool::ErrorCode;

use server_core::error::ApiError;
use server_core::public_address::PublicAddress;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

use remote_endpoint::RemoteEndpoint;

pub(crate) mod remote_endpoint;

/// Media type of a server card.
const CARD_TYPE: &str = "application/mcp-server-card+json";
/// Media type of an AI catalog.
const CATALOG_TYPE: &str = "application/ai-catalog+json";
/// The schema of a server card.
const CARD_SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";
/// The path of the server card: the reserved location below the endpoint.
const CARD_PATH: &str = "/mcp/server-card";
/// Name of this server within its namespace, equal to the name in its server info.
const SERVER_NAME: &str = "toolkeep";

/// Headers of both documents, as SEP-2127 requires them for clients in browsers and for caches.
const DOCUMENT_HEADERS: [(HeaderName, &str); 5] = [
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (ACCESS_CONTROL_ALLOW_METHODS, "GET"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type, If-None-Match"),
    (ACCESS_CONTROL_EXPOSE_HEADERS, "ETag"),
    (CACHE_CONTROL, "public, max-age=3600"),
];

pub(crate) fn public_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/.well-known/ai-catalog.json",
            "AI catalog of this host, which names the server card",
            get(ai_catalog),
        )
        .with_reply::<AiCatalog>()
        .without_key(),
        ApiRoute::new(
            "get",
            CARD_PATH,
            "MCP server card: how clients connect to `/mcp`",
            get(server_card),
        )
        .with_reply::<ServerCard>()
        .without_key(),
    ]
}

/// AI catalog of this host, with one entry.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AiCatalog {
    /// Version of the catalog format.
    spec_version: &'static str,
    /// The entry of the server card.
    entries: [AiCatalogEntry; 1],
}

/// Entry of the server card.
#[derive(Debug, Serialize, JsonSchema)]
struct AiCatalogEntry {
    /// Name of the server: `urn:air:HOST:mcp:NAME`.
    identifier: String,
    /// Media type of the server card.
    #[serde(rename = "type")]
    media_type: &'static str,
    /// URL of the server card.
    url: String,
}

/// Server card of `/mcp`.
#[derive(Debug, Serialize, JsonSchema)]
struct ServerCard {
    /// Schema of this document.
    #[serde(rename = "$schema")]
    schema: &'static str,
    /// Name of the server: its host in reverse order, `/` and `toolkeep`.
    name: String,
    /// Version of Toolkeep.
    version: &'static str,
    /// Description of the server.
    description: &'static str,
    /// Name of the server for people.
    title: &'static str,
    /// The endpoint.
    remotes: [RemoteEndpoint; 1],
}

async fn ai_catalog(State(state): State<ServerState>, headers: HeaderMap) -> Response {
    let address = PublicAddress::from_request(&state, &headers);
    let entry = AiCatalogEntry {
        identifier: format!("urn:air:{}:mcp:{SERVER_NAME}", address.host()),
        media_type: CARD_TYPE,
        url: format!("{}{CARD_PATH}", address.base_url()),
    };
    let catalog = AiCatalog { spec_version: "1.0", entries: [entry] };
    document_response(&headers, CATALOG_TYPE, &catalog)
}

async fn server_card(State(state): State<ServerState>, headers: HeaderMap) -> Response {
    let address = PublicAddress::from_request(&state, &headers);
    let versions = ProtocolVersion::ALL.map(ProtocolVersion::as_str).to_vec();
    let endpoint =
        RemoteEndpoint::at_path(&state, &address, "/mcp").with_protocol_versions(versions);
    let card = ServerCard {
        schema: CARD_SCHEMA,
        name: format!("{}/{SERVER_NAME}", address.namespace()),
        version: env!("CARGO_PKG_VERSION"),
        description: "Lists and calls the tools that an agent may use, and records every call.",
        title: "Toolkeep",
        remotes: [endpoint],
    };
    document_response(&headers, CARD_TYPE, &card)
}

/// Builds the response with a validator, or 304 if the client has this document already.
fn document_response<T: Serialize>(
    headers: &HeaderMap,
    media_type: &'static str,
    document: &T,
) -> Response {
    let Ok(body) = serde_json::to_vec(document) else {
        return ApiError::new(ErrorCode::Internal, "cannot encode the document").into_response();
    };
    let mut hash = DefaultHasher::new();
    body.hash(&mut hash);
    let tag = format!("\"{:016x}\"", hash.finish());
    let mut response = if is_unchanged(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, media_type)], body).into_response()
    };
    let fields = response.headers_mut();
    for (name, value) in DOCUMENT_HEADERS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::try_from(tag) {
        fields.insert(ETAG, tag);
    }
    response
}

/// Whether `If-None-Match` names this validator (RFC 9110, 13.1.2: a weak comparison).
fn is_unchanged(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).any(|candidate| {
        candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == tag
    })
}
