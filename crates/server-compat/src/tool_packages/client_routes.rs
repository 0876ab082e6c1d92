//! The routes of the registry's own client, which wrap every response in an envelope.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::Json;

use super::{PackageEntry, RegistryRequest, has_tag};
use crate::compat_error::CompatError;
use server_core::body::DecodedBody;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(super) fn client_routes() -> Vec<ApiRoute> {
    let of = |method, path, what, answer| {
        ApiRoute::new(method, path, what, answer).with_reply::<ClientEnvelope>()
    };
    vec![
        of("post", "/catalogue/create", "Create an entry of the catalogue", post(create_entry))
            .with_body::<PackageEntry>(),
        of("get", "/catalogue/get/{tool_id}", "Get an entry, in an envelope", get(show_entry)),
        of(
            "put",
            "/catalogue/update/{tool_id}",
            "Update an entry, in an envelope",
            put(update_entry),
        )
        .with_body::<PackageEntry>(),
        of(
            "delete",
            "/catalogue/delete/{tool_id}",
            "Delete an entry, in an envelope",
            delete(remove_entry),
        ),
        of(
            "post",
            "/catalogue/query",
            "List the entries that match a filter, in an envelope",
            post(query_entries),
        )
        .with_body::<FilterBody>(),
        of(
            "post",
            "/catalogue/search/tags",
            "List the entries with one of these \
            tags",
            post(search_tags),
        )
        .with_body::<TagSearchBody>(),
        of(
            "post",
            "/catalogue/search/advanced",
            "List the entries that match all of these fields",
            post(search_advanced),
        )
        .with_body::<AdvancedSearchBody>(),
    ]
}

/// The response of each of these routes.
#[derive(Debug, Serialize, JsonSchema)]
struct ClientEnvelope {
    /// Whether the operation succeeded.
    success: bool,
    /// An entry or a list of entries; null on failure.
    data: Option<EnvelopeData>,
    /// Message for people; may be empty.
    message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum EnvelopeData {
    SingleEntry(PackageEntry),
    EntryList(Vec<PackageEntry>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FilterBody {
    /// Filter in MongoDB's query format.
    query: Map<String, Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TagSearchBody {
    /// Tags of which an entry must have at least one.
    tags: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AdvancedSearchBody {
    /// Tags of which an entry must have at least one.
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// Type of the entry.
    #[serde(default)]
    tool_type: Option<String>,
    /// Substring of the search description, case-insensitive.
    #[serde(default)]
    description: Option<String>,
    /// Fields that the metadata must contain.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

type ClientResult = Result<(StatusCode, EnvelopeData, &'static str), CompatError>;

fn envelope_response(answer: ClientResult) -> Response {
    match answer {
        Ok((status, data, message)) => {
            let told =
                ClientEnvelope { success: true, data: Some(data), message: message.to_owned() };
            (status, Reply(told)).into_response()
        }
        Err(refusal) => {
            let (status, message) = refusal.into_parts();
            (status, Reply(ClientEnvelope { success: false, data: None, message })).into_response()
        }
    }
}

fn entries_response(entries: Vec<PackageEntry>) -> (StatusCode, EnvelopeData, &'static str) {
    (StatusCode::OK, EnvelopeData::EntryList(entries), "")
}

async fn create_entry(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(entry): DecodedBody<Json>,
) -> Response {
    let made = async {
        let request = RegistryRequest::for_write(&state, &principal)?;
        let id = request.registry.create_entry(request.org, entry).await?;
        let entry = PackageEntry::with_visible_characters(
            request.registry.get_entry(request.org, &id).await?,
        );
        Ok((StatusCode::CREATED, EnvelopeData::SingleEntry(entry), "Tool created successfully"))
    };
    envelope_response(made.await)
}

async fn show_entry(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let shown = async {
        let request = RegistryRequest::for_read(&state, &principal)?;
        Ok((
            StatusCode::OK,
            EnvelopeData::SingleEntry(PackageEntry::with_visible_characters(
                request.registry.get_entry(request.org, &id).await?,
            )),
            "",
        ))
    };
    envelope_response(shown.await)
}

async fn update_entry(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    DecodedBody(changes): DecodedBody<Json>,
) -> Response {
    let updated = async {
        let request = RegistryRequest::for_write(&state, &principal)?;
        request.registry.update_entry(request.org, &id, changes).await?;
        let entry = PackageEntry::with_visible_characters(
            request.registry.get_entry(request.org, &id).await?,
        );
        Ok((StatusCode::OK, EnvelopeData::SingleEntry(entry), "Tool updated successfully"))
    };
    envelope_response(updated.await)
}

async fn remove_entry(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let removed = async {
        let request = RegistryRequest::for_write(&state, &principal)?;
        let entry = PackageEntry::with_visible_characters(
            request.registry.get_entry(request.org, &id).await?,
        );
        request.registry.remove_entry(request.org, &id).await?;
        Ok((StatusCode::OK, EnvelopeData::SingleEntry(entry), "Tool deleted successfully"))
    };
    envelope_response(removed.await)
}

async fn query_entries(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(FilterBody { query }): DecodedBody<FilterBody>,
) -> Response {
    let fitting = async {
        let request = RegistryRequest::for_read(&state, &principal)?;
        Ok(entries_response(request.find_by_filter(&Json::encode(&query)).await?))
    };
    envelope_response(fitting.await)
}

async fn search_tags(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(TagSearchBody { tags }): DecodedBody<TagSearchBody>,
) -> Response {
    let wanted =
        AdvancedSearchBody { tags: Some(tags), tool_type: None, description: None, metadata: None };
    run_search(&state, &principal, wanted).await
}

async fn search_advanced(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(wanted): DecodedBody<AdvancedSearchBody>,
) -> Response {
    run_search(&state, &principal, wanted).await
}

async fn run_search(
    state: &ServerState,
    principal: &Principal,
    wanted: AdvancedSearchBody,
) -> Response {
    let fitting = async {
        let request = RegistryRequest::for_read(state, principal)?;
        Ok(entries_response(request.find_entries(move |entry| wanted.matches_entry(entry)).await?))
    };
    envelope_response(fitting.await)
}

impl AdvancedSearchBody {
    fn matches_entry(&self, entry: &Value) -> bool {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let has = |(key, value): (&String, &Value)| {
            entry.get("tool_metadata").and_then(|all| all.get(key)) == Some(value)
        };
        self.tags.as_ref().is_none_or(|tags| tags.iter().any(|tag| has_tag(entry, tag)))
            && self.tool_type.as_ref().is_none_or(|wanted| text("tool_type") == wanted)
            && self.description.as_ref().is_none_or(|part| {
                text("tool_search_description").to_lowercase().contains(&part.to_lowercase())
            })
            && self.metadata.as_ref().is_none_or(|wanted| wanted.iter().all(has))
    }
}
