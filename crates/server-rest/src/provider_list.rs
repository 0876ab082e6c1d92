//! The tool list in a provider's format, with name mapping, omitted tools and losses, as cached
//! bytes.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use catalog::CatalogEntry;
use formats::{ProviderFormat, SchemaLoss};
use gateway::CatalogView;
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::Json;

use super::chunked_body::ChunkedBody;
use server_core::gzip_response;
use server_core::program_runner::describe_run_program;
use server_core::server_state::ServerState;
use server_core::tool_lists::{CachedList, RenderedTools};
use server_core::tool_search::DeferringList;

/// A tool list in a provider's format.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProviderToolList {
    /// The `tools` field of a request to the provider.
    tools: Vec<Value>,
    /// Tool names by the names used in the format.
    names: Map<String, Value>,
    /// Tools that the format cannot express, with the reason.
    #[serde(rename = "left_out")]
    omitted: Vec<SkippedTool>,
    /// Schema details that the format cannot express, by tool; only with `losses=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    losses: Option<Map<String, Value>>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
    /// Version of the catalog.
    catalog: u64,
}

/// A tool that a format cannot express.
#[derive(Debug, Serialize, JsonSchema)]
struct SkippedTool {
    /// Name of the tool.
    name: String,
    /// Location in the tool's schema, as a JSON pointer.
    place: String,
    /// Schema keyword at this location; empty if the schema is not the reason.
    keyword: String,
    /// Reason.
    why: &'static str,
}

/// The inputs of a provider's tool list.
pub(crate) struct ProviderListBuilder<'a> {
    pub(crate) format: ProviderFormat,
    /// The server state and the caller for whom the list is built.
    pub(crate) caller: (&'a ServerState, &'a Principal),
    pub(crate) rendered: &'a RenderedTools,
    pub(crate) tools: Vec<&'a Arc<CatalogEntry>>,
    /// With search: which of the tools are deferred, and the view of the caller.
    pub(crate) search: Option<(&'a DeferringList<'a>, &'a CatalogView)>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) catalog: u64,
    pub(crate) include_losses: bool,
}

impl ProviderListBuilder<'_> {
    /// Builds the list as bytes: the array, and the members after it.
    pub(crate) fn build_list(self) -> CachedList {
        let (mut names, mut losses) = (Map::new(), Map::new());
        let (mut fragments, mut left_out) = (Vec::with_capacity(self.tools.len()), Vec::new());
        let own = |entry: &&Arc<CatalogEntry>| {
            let name = entry.name.as_str();
            let alias = self.rendered.names.alias_of(name).unwrap_or(name);
            describe_run_program(self.caller, entry, (self.format, alias))
        };
        let own: Vec<Option<Json>> = self.tools.iter().map(own).collect();
        let rendered = |entry: &&Arc<CatalogEntry>| self.rendered.render_tool(entry);
        let rendered: Vec<_> = self.tools.iter().map(rendered).collect();
        for ((entry, own), tool) in self.tools.iter().zip(&own).zip(&rendered) {
            let name = entry.name.as_str();
            if self.include_losses && !tool.losses.is_empty() {
                let message = serde_json::to_value(&tool.losses).unwrap_or_default();
                losses.insert(name.to_owned(), message);
            }
            let alias = self.rendered.names.alias_of(name).unwrap_or(name);
            let reserved = self.search.and_then(|(list, _)| list.reserved_name(alias));
            if let Some(why) = reserved {
                left_out.push(SkippedTool::from_reserved_name(name, why));
                continue;
            }
            let Some(fragment) = own.as_ref().or(tool.json.as_ref()) else {
                left_out.extend(tool.losses.first().map(|loss| SkippedTool::from_loss(name, loss)));
                continue;
            };
            fragments.push((&***entry, fragment));
            names.insert(alias.to_owned(), Value::String(name.to_owned()));
        }
        let list = match self.search {
            Some((list, view)) => list.join_tools(view, &fragments),
            None => formats::join_tools(self.format, fragments.iter().map(|(_, json)| *json)),
        };
        let list = list.bytes().clone();
        let losses = self.include_losses.then_some(losses);
        let (next_cursor, catalog) = (self.next_cursor.clone(), self.catalog);
        let around = ProviderToolList {
            tools: Vec::new(),
            names,
            omitted: left_out,
            losses,
            next_cursor,
            catalog,
        };
        // The array is the first member, so that the rest follows it.
        let around = Json::encode(&around).bytes().clone();
        let tail = around.slice(EMPTY_LIST.len().min(around.len())..);
        let tag = Some(entity_tag(&[LIST_PREFIX, list.clone(), tail.clone()]).into());
        CachedList::new(list, self.next_cursor, tail, tag)
    }
}

/// The start of an encoded list without tools.
const EMPTY_LIST: &[u8] = br#"{"tools":[]"#;
/// The bytes before the array.
const LIST_PREFIX: Bytes = Bytes::from_static(br#"{"tools":"#);

impl SkippedTool {
    fn from_loss(name: &str, loss: &SchemaLoss) -> Self {
        let (place, keyword) = (loss.pointer.clone(), loss.keyword.clone());
        Self { name: name.to_owned(), place, keyword, why: loss.reason }
    }

    fn from_reserved_name(name: &str, why: &'static str) -> Self {
        Self { name: name.to_owned(), place: String::new(), keyword: String::new(), why }
    }
}

/// Responds with a list, compressed if the client accepts gzip.
pub(crate) fn list_response(request_headers: &HeaderMap, list: &CachedList) -> Response {
    let tag = list.etag.as_deref().unwrap_or_default();
    if gzip_response::accepts_gzip(request_headers)
        && let Some(packed) = list.gzip_body()
    {
        // Other bytes need another tag.
        let tag = format!("{}-gzip\"", tag.trim_end_matches('"'));
        let mut answer =
            conditional_response(request_headers, &tag, packed.wrap_pieces(&LIST_PREFIX, &[]));
        if answer.status() == StatusCode::OK {
            answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        return answer;
    }
    conditional_response(
        request_headers,
        tag,
        [LIST_PREFIX, list.array.clone(), list.suffix.clone()],
    )
}

/// Responds with the body, or with 304 if the client already has it.
pub(crate) fn conditional_response<const N: usize>(
    request_headers: &HeaderMap,
    tag: &str,
    pieces: [Bytes; N],
) -> Response {
    let same = request_headers.get_all(IF_NONE_MATCH).iter().any(|given| etag_matches(given, tag));
    // The list is specific to the caller and may change with any source: it may be cached, but must
    // be revalidated.
    let kept = [
        (CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
        (VARY, HeaderValue::from_static("authorization, accept-encoding")),
        (ETAG, HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))),
    ];
    if same {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    let body = Body::new(ChunkedBody::from_pieces(pieces));
    (kept, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Computes the entity tag of a response, which changes with every byte.
pub(crate) fn entity_tag(pieces: &[Bytes]) -> String {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for piece in pieces {
        hash.update(piece);
    }
    let digest = <[u8; 32]>::try_from(hash.finish().as_ref()).unwrap_or_default();
    format!("\"{}\"", tool::Digest(digest))
}

/// Whether `If-None-Match` contains the tag; weak tags match too.
fn etag_matches(given: &HeaderValue, tag: &str) -> bool {
    let Ok(given) = given.to_str() else { return false };
    given.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}
