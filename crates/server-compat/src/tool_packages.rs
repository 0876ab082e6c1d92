//! `/catalogue`: the cluster tools' registry of tool packages, with the routes of its contract
//! (4.5) and of its client over the same entries. Every key reads its organization's entries;
//! `nodes:write` changes them.

mod client_routes;
mod mongo_filter;
mod multipart;

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::tool_packages::{ToolPackageError, ToolPackageStore};
use tool::{Json, Org};

use super::compat_error::CompatError;
use mongo_filter::MongoFilter;
use server_core::body::{DecodedBody, QueryParams, read_body};
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

/// Maximum bytes of a package.
const MAX_PACKAGE_BYTES: usize = 16 << 20;
/// Maximum bytes of a filter, and of the changes to one entry.
const MAX_FILTER_BYTES: usize = 256 << 10;
/// Maximum bytes of a compiled regular expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

pub(crate) fn package_routes() -> Vec<ApiRoute> {
    let one = "/catalogue/tools/{tool_id}";
    let query = |path, what, param: &'static [QueryParam], answer| {
        ApiRoute::new("get", path, what, answer).with_query(param).with_reply::<Vec<PackageEntry>>()
    };
    let mut routes = vec![
        ApiRoute::new(
            "post",
            "/catalogue/tools/upload",
            "Upload a tool package",
            post(upload_package),
        )
        .with_reply::<UploadPackageReply>(),
        ApiRoute::new("get", one, "Get an entry of the catalogue", get(show_package))
            .with_reply::<PackageEntry>(),
        ApiRoute::new("put", one, "Update an entry of the catalogue", put(update_package))
            .with_body::<PackageEntry>()
            .with_reply::<PackageMessageReply>(),
        ApiRoute::new("delete", one, "Delete an entry of the catalogue", delete(remove_package))
            .with_reply::<PackageMessageReply>(),
        query("/catalogue/tools/query/by-type", "List entries by type", TYPE_QUERY, get(by_type)),
        query("/catalogue/tools/query/by-tag", "List entries by tag", TAG_QUERY, get(list_by_tag)),
        query(
            "/catalogue/tools/query/by-keyword",
            "List the entries whose search description matches a case-insensitive pattern",
            KEYWORD_QUERY,
            get(list_by_keyword),
        ),
        query(
            "/catalogue/tools/query/by-execution-mode",
            "List entries by execution mode",
            MODE_QUERY,
            get(by_mode),
        ),
        query(
            "/catalogue/tools/query/by-policy-uri",
            "List entries by policy",
            POLICY_QUERY,
            get(by_policy),
        ),
        ApiRoute::new(
            "post",
            "/catalogue/tools/query/generic",
            "List the entries that match a filter",
            post(query_by_filter),
        )
        .with_body::<Map<String, Value>>()
        .with_reply::<Vec<PackageEntry>>(),
    ];
    routes.extend(client_routes::client_routes());
    routes
}

const TYPE_QUERY: &[QueryParam] =
    &[QueryParam { name: "type", description: "Type of the entries", schema_type: "string" }];
const TAG_QUERY: &[QueryParam] =
    &[QueryParam { name: "tag", description: "Tag of the entries", schema_type: "string" }];
const KEYWORD_QUERY: &[QueryParam] = &[QueryParam {
    name: "keyword",
    description: "Regular expression for the search description",
    schema_type: "string",
}];
const MODE_QUERY: &[QueryParam] = &[QueryParam {
    name: "mode",
    description: "Execution mode of the entries",
    schema_type: "string",
}];
const POLICY_QUERY: &[QueryParam] =
    &[QueryParam { name: "uri", description: "Policy rule of the entries", schema_type: "string" }];

/// A catalogue entry, as it is returned and stored.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(transparent)]
struct PackageEntry(#[schemars(with = "Map<String, Value>")] Json);

impl PackageEntry {
    /// Creates an entry for display, with hidden characters written out.
    fn with_visible_characters(entry: Json) -> Self {
        Self(entry.escape_invisible_in_definition().unwrap_or(entry))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct UploadPackageReply {
    /// The text `Tool uploaded successfully`.
    message: &'static str,
    /// ID of the entry.
    tool_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PackageMessageReply {
    /// Text that names the completed operation.
    message: &'static str,
}

/// The registry and the organization of a request.
struct RegistryRequest<'a> {
    registry: &'a Arc<dyn ToolPackageStore>,
    org: &'a Org,
}

impl<'a> RegistryRequest<'a> {
    fn for_read(state: &'a ServerState, principal: &'a Principal) -> Result<Self, CompatError> {
        let entries = state.components.package_registry.as_ref().ok_or_else(|| {
            CompatError::new(StatusCode::NOT_FOUND, "this server has no catalogue")
        })?;
        Ok(Self { registry: entries, org: principal.org() })
    }

    fn for_write(state: &'a ServerState, principal: &'a Principal) -> Result<Self, CompatError> {
        if !principal.has_right(Right::NodesWrite) {
            let message = "the key lacks the right `nodes:write` to change the catalogue";
            return Err(CompatError::new(StatusCode::FORBIDDEN, message));
        }
        Self::for_read(state, principal)
    }

    /// Finds the matching entries on a blocking thread.
    async fn find_entries(
        &self,
        fits: impl Fn(&Value) -> bool + Send + 'static,
    ) -> Result<Vec<PackageEntry>, CompatError> {
        let all = self.registry.list_entries(self.org).await?;
        let found = tokio::task::spawn_blocking(move || {
            let fitting = all.into_iter().filter(|entry| fits(&entry.to_value()));
            fitting.map(PackageEntry::with_visible_characters).collect()
        });
        found.await.map_err(|_| CompatError::new(StatusCode::INTERNAL_SERVER_ERROR, "cancelled"))
    }

    async fn find_by_field(self, field: &'static str, wanted: String) -> EntriesResult {
        let fits = move |entry: &Value| entry.get(field).is_some_and(|it| it == wanted.as_str());
        self.find_entries(fits).await.map(Reply)
    }
}

type EntriesResult = Result<Reply<Vec<PackageEntry>>, CompatError>;

impl From<ToolPackageError> for CompatError {
    fn from(fault: ToolPackageError) -> Self {
        let status = match &fault {
            ToolPackageError::NotFound => return Self::tool_not_found(),
            ToolPackageError::AlreadyExists(_) => StatusCode::CONFLICT,
            ToolPackageError::Invalid(_) => StatusCode::BAD_REQUEST,
            ToolPackageError::LimitReached(_) => StatusCode::INSUFFICIENT_STORAGE,
            ToolPackageError::Unavailable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, fault.to_string())
    }
}

/// Uploads a package. In the package registry's contract every error of a package is the same text
/// with status 500; the cause is added in `reason`.
async fn upload_package(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Reply<UploadPackageReply>, CompatError> {
    let registry_request = RegistryRequest::for_write(&state, &principal)?;
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    let usual = state.components.max_body_bytes;
    // Only the file part of the form may be large.
    let most = MAX_PACKAGE_BYTES.max(usual);
    let taken = tokio::time::timeout(
        multipart::UPLOAD_TIMEOUT,
        state.body_budget.read_body(request.into_body(), usual, most),
    );
    let slow = || CompatError::new(StatusCode::BAD_REQUEST, "the package was not received in time");
    let body = taken.await.map_err(|_| slow())??;
    let package = multipart::extract_file(&kind, &body)
        .map_err(|missing| CompatError::new(StatusCode::BAD_REQUEST, missing))?;
    match registry_request.registry.upload_package(registry_request.org, package).await {
        Ok(tool_id) => {
            Ok(Reply(UploadPackageReply { message: "Tool uploaded successfully", tool_id }))
        }
        Err(fault) => {
            let message_text = "Failed to process tool package";
            Err(CompatError::new(StatusCode::INTERNAL_SERVER_ERROR, message_text)
                .with_reason(fault.to_string()))
        }
    }
}

async fn show_package(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<PackageEntry>, CompatError> {
    let request = RegistryRequest::for_read(&state, &principal)?;
    Ok(Reply(PackageEntry::with_visible_characters(
        request.registry.get_entry(request.org, &id).await?,
    )))
}

async fn update_package(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Reply<PackageMessageReply>, CompatError> {
    let registry_request = RegistryRequest::for_write(&state, &principal)?;
    let missing = || CompatError::new(StatusCode::BAD_REQUEST, "Missing update payload");
    let bytes = read_body(request.into_body(), MAX_FILTER_BYTES).await?;
    let unread = |error: tool::JsonError| {
        CompatError::new(StatusCode::BAD_REQUEST, format!("the body: {error}"))
    };
    if bytes.is_empty() {
        return Err(missing());
    }
    let changes = Json::parse(bytes, tool::JsonLimits::DEFINITION).map_err(unread)?;
    if changes.kind() == "null" || changes.to_value().as_object().is_some_and(Map::is_empty) {
        return Err(missing());
    }
    registry_request.registry.update_entry(registry_request.org, &id, changes).await?;
    Ok(Reply(PackageMessageReply { message: "Tool updated successfully" }))
}

async fn remove_package(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<PackageMessageReply>, CompatError> {
    let request = RegistryRequest::for_write(&state, &principal)?;
    request.registry.remove_entry(request.org, &id).await?;
    Ok(Reply(PackageMessageReply { message: "Tool deleted successfully" }))
}

macro_rules! field_query_handlers {
    ($($name:ident: $key:ident $word:literal => $field:literal;)+) => { $(
        async fn $name(
            State(state): State<ServerState>,
            Extension(principal): Extension<Principal>,
            QueryParams($key): QueryParams<$key::FieldQuery>,
        ) -> EntriesResult {
            RegistryRequest::for_read(&state, &principal)?.find_by_field($field, $key.value).await
        }
        mod $key {
            #[derive(serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            pub(super) struct FieldQuery {
                #[serde(rename = $word)]
                pub(super) value: String,
            }
        }
    )+ };
}
field_query_handlers! {
    by_type: kind "type" => "tool_type";
    by_mode: mode "mode" => "tool_execution_mode";
    by_policy: uri "uri" => "tool_policy_rule_uri";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TagQuery {
    tag: String,
}

async fn list_by_tag(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(TagQuery { tag }): QueryParams<TagQuery>,
) -> EntriesResult {
    let request = RegistryRequest::for_read(&state, &principal)?;
    request.find_entries(move |entry| has_tag(entry, &tag)).await.map(Reply)
}

fn has_tag(entry: &Value, tag: &str) -> bool {
    let tags = entry.get("tool_tags").and_then(Value::as_array);
    tags.is_some_and(|tags| tags.iter().any(|it| it == tag))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeywordQuery {
    keyword: String,
}

async fn list_by_keyword(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(KeywordQuery { keyword }): QueryParams<KeywordQuery>,
) -> EntriesResult {
    let request = RegistryRequest::for_read(&state, &principal)?;
    let pattern =
        RegexBuilder::new(&keyword).case_insensitive(true).size_limit(MAX_REGEX_BYTES).build();
    let unread = |_| {
        let message = "`keyword` is not a valid regular expression, or is too large";
        CompatError::new(StatusCode::BAD_REQUEST, message)
    };
    let pattern = pattern.map_err(unread)?;
    let fits = move |entry: &Value| {
        let described = entry.get("tool_search_description").and_then(Value::as_str);
        described.is_some_and(|text| pattern.is_match(text))
    };
    request.find_entries(fits).await.map(Reply)
}

/// Queries entries by a filter. An invalid filter matches nothing, as in the contract.
async fn query_by_filter(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(filter): DecodedBody<Json>,
) -> EntriesResult {
    let request = RegistryRequest::for_read(&state, &principal)?;
    request.find_by_filter(&filter).await.map(Reply)
}

impl RegistryRequest<'_> {
    async fn find_by_filter(&self, filter: &Json) -> Result<Vec<PackageEntry>, CompatError> {
        if filter.bytes().len() > MAX_FILTER_BYTES {
            return Ok(Vec::new());
        }
        match MongoFilter::parse(&filter.to_value()) {
            Some(filter) => self.find_entries(move |entry| filter.matches(entry)).await,
            None => Ok(Vec::new()),
        }
    }
}
