//! The tool list in a provider's format, with name mapping, omitted tools and losses, as cached
//! bytes.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use catalog::Entry;
use formats::{Format, Loss};
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::Json;

use super::frames::Frames;
use server_core::lists::{Kept, Rendered};
use server_core::packed;
use server_core::programs::described;
use server_core::state::Doors;

/// A list as a provider writes it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sheet {
    /// The `tools` of a request to the provider.
    tools: Vec<Value>,
    /// Under each name that stands in it, the tool's own.
    names: Map<String, Value>,
    /// Tools that the format cannot say, and why.
    left_out: Vec<LeftOut>,
    /// What the format does not say as the tools' schemas do, by tool; only where `losses=true` asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    losses: Option<Map<String, Value>>,
    /// Give it as `cursor` for the next page; null at the end.
    next_cursor: Option<String>,
    /// The catalog's number.
    catalog: u64,
}

/// One tool that a format cannot say.
#[derive(Debug, Serialize, JsonSchema)]
struct LeftOut {
    /// The tool.
    name: String,
    /// Where in its schema, as a JSON pointer.
    place: String,
    /// The keyword there.
    keyword: String,
    /// Why.
    why: &'static str,
}

/// The inputs of a provider's tool list.
pub(crate) struct Parts<'a> {
    pub(crate) format: Format,
    /// The server state and the caller for whom the list is built.
    pub(crate) to: (&'a Doors, &'a Principal),
    pub(crate) rendered: &'a Rendered,
    pub(crate) tools: Vec<&'a Arc<Entry>>,
    pub(crate) next: Option<String>,
    pub(crate) catalog: u64,
    pub(crate) losses: bool,
}

impl Parts<'_> {
    /// Builds the list as bytes: the array, and the members after it.
    pub(crate) fn written(self) -> Kept {
        let (mut names, mut losses) = (Map::new(), Map::new());
        let (mut fragments, mut left_out) = (Vec::with_capacity(self.tools.len()), Vec::new());
        let own = |entry: &&Arc<Entry>| {
            let name = entry.name.as_str();
            let alias = self.rendered.names.alias(name).unwrap_or(name);
            described(self.to, entry, (self.format, alias))
        };
        let own: Vec<Option<Json>> = self.tools.iter().map(own).collect();
        let rendered = |entry: &&Arc<Entry>| self.rendered.tool(entry.name.as_str());
        let rendered: Vec<_> = self.tools.iter().map(rendered).collect();
        for ((entry, own), tool) in self.tools.iter().zip(&own).zip(&rendered) {
            let name = entry.name.as_str();
            let Some(tool) = tool else { continue };
            if self.losses && !tool.losses.is_empty() {
                let told = serde_json::to_value(&tool.losses).unwrap_or_default();
                losses.insert(name.to_owned(), told);
            }
            let Some(fragment) = own.as_ref().or(tool.json.as_ref()) else {
                left_out.extend(tool.losses.first().map(|loss| LeftOut::new(name, loss)));
                continue;
            };
            fragments.push(fragment);
            let alias = self.rendered.names.alias(name).unwrap_or(name);
            names.insert(alias.to_owned(), Value::String(name.to_owned()));
        }
        let list = formats::list(self.format, fragments).bytes().clone();
        let losses = self.losses.then_some(losses);
        let (next_cursor, catalog) = (self.next.clone(), self.catalog);
        let around = Sheet { tools: Vec::new(), names, left_out, losses, next_cursor, catalog };
        // The array is the first member, so that the rest follows it.
        let around = Json::of(&around).bytes().clone();
        let tail = around.slice(EMPTY.len().min(around.len())..);
        let tag = Some(tag(&[HEAD, list.clone(), tail.clone()]).into());
        Kept::new(list, self.next, tail, tag)
    }
}

/// The start of an encoded list without tools.
const EMPTY: &[u8] = br#"{"tools":[]"#;
/// The bytes before the array.
const HEAD: Bytes = Bytes::from_static(br#"{"tools":"#);

impl LeftOut {
    fn new(name: &str, loss: &Loss) -> Self {
        let (place, keyword) = (loss.place.clone(), loss.keyword.clone());
        Self { name: name.to_owned(), place, keyword, why: loss.why }
    }
}

/// Responds with a list, compressed if the client accepts gzip.
pub(crate) fn answer(asked: &HeaderMap, kept: &Kept) -> Response {
    let tag = kept.tag.as_deref().unwrap_or_default();
    if packed::wanted(asked)
        && let Some(packed) = kept.packed()
    {
        // Other bytes need another tag.
        let tag = format!("{}-gzip\"", tag.trim_end_matches('"'));
        let mut answer = tagged(asked, &tag, packed.between(&HEAD, &[]));
        if answer.status() == StatusCode::OK {
            answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        return answer;
    }
    tagged(asked, tag, [HEAD, kept.list.clone(), kept.tail.clone()])
}

/// Responds with the body, or with 304 if the client already has it.
pub(crate) fn tagged<const N: usize>(asked: &HeaderMap, tag: &str, pieces: [Bytes; N]) -> Response {
    let same = asked.get_all(IF_NONE_MATCH).iter().any(|given| names(given, tag));
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
    let body = Body::new(Frames::new(pieces));
    (kept, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Computes the entity tag of a response, which changes with every byte.
pub(crate) fn tag(pieces: &[Bytes]) -> String {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for piece in pieces {
        hash.update(piece);
    }
    let digest = <[u8; 32]>::try_from(hash.finish().as_ref()).unwrap_or_default();
    format!("\"{}\"", tool::Digest(digest))
}

/// Whether `If-None-Match` contains the tag; weak tags match too.
fn names(given: &HeaderValue, tag: &str) -> bool {
    let Ok(given) = given.to_str() else { return false };
    given.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}
