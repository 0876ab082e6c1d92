//! `/v1/tools`: the tools that the caller may call, natively or in a provider's format.

mod list_query;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use catalog::CatalogEntry;
use formats::{ProviderFormat, SchemaLoss, ToolSearcher};
use gateway::CatalogView;
use gateway::result_formats::list_tool;
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::{AccessScope, CallerType, ErrorCode, Json, PermissionLevel, SafetyLevel};

use super::provider_list::{self, ProviderListBuilder};
use list_query::{LIST_QUERY, SHOW_QUERY, ToolListQuery};
use server_core::body::QueryParams;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::tool_lists::{
    self, CachedList, ListKey, ListKind, MAX_PAGE_TOOLS, RenderedTools, ToolPage,
};
use server_core::tool_search::DeferringList;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/tools",
            "List the tools that the caller may call",
            get(list_tools),
        )
        .with_query(LIST_QUERY)
        .with_reply::<ToolListSchema>(),
        ApiRoute::new("get", "/v1/tools/{name}", "Get a tool", get(show_tool))
            .with_query(SHOW_QUERY)
            .with_reply::<ToolReply>(),
    ]
}

/// A tool list, natively or in a provider's format.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what there is; the bytes are put together elsewhere")]
enum ToolListSchema {
    Native(ToolListReply),
    Provider(provider_list::ProviderToolList),
}

/// A tool list in the native format.
#[derive(Debug, Serialize, JsonSchema)]
struct ToolListReply {
    /// Tools in the order of the catalog.
    #[schemars(with = "Vec<ToolReply>")]
    tools: Json,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
    /// Version of the catalog.
    catalog: u64,
}

/// A tool in the native format.
#[derive(Debug, Serialize, JsonSchema)]
struct ToolReply {
    /// Name of the tool.
    name: String,
    /// Alias that every provider accepts as a name.
    alias: String,
    /// Source of the tool.
    source: String,
    /// Nodes that may run the tool, preferred one first; absent for other tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
    /// Title for people.
    title: Option<String>,
    /// Description of the tool.
    description: String,
    /// JSON Schema of the arguments.
    #[schemars(with = "serde_json::Value")]
    input_schema: Json,
    /// JSON Schema of the structured result.
    #[schemars(with = "Option<serde_json::Value>")]
    output_schema: Option<Json>,
    /// Traits used by the policy.
    traits: TraitsReply,
    /// SHA-256 of the definition as received.
    definition: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TraitsReply {
    #[schemars(with = "String")]
    level: PermissionLevel,
    #[schemars(with = "String")]
    safety: SafetyLevel,
    /// Declared side effects, or `unknown`.
    effects: Vec<&'static str>,
    destructive: bool,
    idempotent: bool,
    categories: Vec<String>,
    #[schemars(with = "Vec<String>")]
    scopes: Vec<AccessScope>,
    #[schemars(with = "Vec<String>")]
    callers: Vec<CallerType>,
    timeout_ms: Option<u64>,
}

async fn list_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    QueryParams(query): QueryParams<ToolListQuery>,
) -> Result<Response, ApiError> {
    let view = state.components.gateway.view_for(&principal, CallerType::Direct);
    let (format, search) = (query.parse_format()?, query.parse_search()?);
    let names = query.name_style()?;
    let catalog = view.full_catalog().version;
    if query.uses_envelope()? {
        let ToolPage { tools, next } = query.find_page(&state, &view)?;
        let kind = |entry: &CatalogEntry| {
            view.full_catalog()
                .find_source(entry.tool_key.source.as_str())
                .map(|source| source.kind)
        };
        let tools = tools.iter().map(|entry| list_tool(entry, kind(entry).unwrap_or_default()));
        let tools = Json::encode(&tools.collect::<Vec<_>>());
        return Ok(native_response(&headers, &ToolListReply { tools, next_cursor: next, catalog }));
    }
    let Some(format) = format else {
        let rendered = state.tool_lists.render_view(&view, ProviderFormat::OpenaiChat, names);
        let page = query.find_page(&state, &view)?;
        let tools: Vec<_> = page.tools.iter().map(|entry| tool_reply(entry, &rendered)).collect();
        let reply = ToolListReply { tools: Json::encode(&tools), next_cursor: page.next, catalog };
        return Ok(native_response(&headers, &reply));
    };
    // The unfiltered list is the common case, so its bytes are cached; filtered lists are not.
    let list_kind = match search {
        Some((format, searcher)) => ListKind::DeferredTools(format, searcher),
        None => ListKind::AllTools(format, names),
    };
    let list = ProviderList { state: &state, principal: &principal, view: &view, format, search };
    list.respond(&query, &headers, list_kind)
}

fn native_response(headers: &HeaderMap, reply: &ToolListReply) -> Response {
    let body = Json::encode(reply).bytes().clone();
    let tag = provider_list::entity_tag(std::slice::from_ref(&body));
    provider_list::conditional_response(headers, &tag, [body])
}

/// A list of a caller's tools in a provider's format.
struct ProviderList<'a> {
    state: &'a ServerState,
    principal: &'a Principal,
    view: &'a CatalogView,
    format: ProviderFormat,
    /// Who searches the list, if it has deferred tools.
    search: Option<(ProviderFormat, ToolSearcher)>,
}

impl ProviderList<'_> {
    fn respond(
        &self,
        query: &ToolListQuery,
        headers: &HeaderMap,
        list_kind: ListKind,
    ) -> Result<Response, ApiError> {
        if !query.is_unfiltered() {
            let tools = query.limit.unwrap_or(MAX_PAGE_TOOLS);
            let list = tool_lists::run_blocking_if_many_tools(tools, || self.build_list(query))?;
            return Ok(provider_list::list_response(headers, &list));
        }
        let mut refused = None;
        let build = || self.build_list(query).map_err(|error| refused = Some(error)).ok();
        let key = ListKey { view: self.view.id, list_kind, from: None };
        let cached = self.state.tool_lists.get_or_build(key, build);
        let unwritable = || ApiError::new(ErrorCode::Internal, "cannot encode the list");
        cached
            .map(|list| provider_list::list_response(headers, &list))
            .ok_or_else(|| refused.unwrap_or_else(unwritable))
    }

    fn build_list(&self, query: &ToolListQuery) -> Result<CachedList, ApiError> {
        let Self { state, view, .. } = *self;
        let options = &state.components.listing_options;
        let list = self.search.map(|search| DeferringList::new(options, view, search));
        let ToolPage { tools, next } = match &list {
            Some(list) => query.find_searchable((state, view), list)?,
            None => query.find_page(state, view)?,
        };
        let rendered = state.tool_lists.render_view(view, self.format, query.name_style()?);
        let builder = ProviderListBuilder {
            format: self.format,
            caller: (state, self.principal),
            rendered: &rendered,
            tools,
            search: list.as_ref().map(|list| (list, view)),
            next_cursor: next,
            catalog: view.full_catalog().version,
            include_losses: query.include_losses,
        };
        Ok(builder.build_list())
    }
}

/// A tool in a provider's format, with its losses.
#[derive(Serialize)]
struct ToolWithLosses<'a> {
    tool: &'a Json,
    losses: &'a [SchemaLoss],
}

async fn show_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Path(name): Path<String>,
    QueryParams(query): QueryParams<ToolListQuery>,
) -> Result<Response, ApiError> {
    let view = state.components.gateway.view_for(&principal, CallerType::Direct);
    let (format, names) = (query.parse_format()?, query.name_style()?);
    let native = state.tool_lists.resolve_tool_name(&view, &name);
    let rendered =
        state.tool_lists.render_view(&view, format.unwrap_or(ProviderFormat::OpenaiChat), names);
    let unknown =
        || ApiError::new(ErrorCode::UnknownTool, format!("unknown tool `{}`", name.escape_debug()));
    let (entry, _) = view.find_tool(&native).ok_or_else(unknown)?;
    let written = match format {
        None => Json::encode(&tool_reply(entry, &rendered)),
        Some(format) => {
            let tool = rendered.render_tool(entry);
            let json = tool
                .json
                .as_ref()
                .ok_or_else(|| not_representable(&native, format, &tool.losses))?;
            if query.include_losses {
                Json::encode(&ToolWithLosses { tool: json, losses: &tool.losses })
            } else {
                json.clone()
            }
        }
    };
    let body = written.bytes().clone();
    let tag = provider_list::entity_tag(std::slice::from_ref(&body));
    Ok(provider_list::conditional_response(&headers, &tag, [body]))
}

fn not_representable(name: &str, format: ProviderFormat, losses: &[SchemaLoss]) -> ApiError {
    let why = losses.first().map(|loss| format!(": `{}`: {}", loss.pointer, loss.reason));
    let message = format!("`{name}` cannot be expressed as {format}{}", why.unwrap_or_default());
    ApiError::new(ErrorCode::InvalidRequest, message).with_help(
        "request it in the native or mcp \
        format",
    )
}

fn tool_reply(entry: &CatalogEntry, rendered: &RenderedTools) -> ToolReply {
    let (tool, traits) = (&entry.tool, &entry.tool.traits);
    let name = entry.name.to_string();
    ToolReply {
        alias: rendered.names.alias_of(&name).unwrap_or(&name).to_owned(),
        name,
        source: entry.tool_key.source.to_string(),
        nodes: entry.executor.node_ids(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        traits: TraitsReply {
            level: traits.min_level,
            safety: traits.safety,
            effects: traits.effects.effect_names(),
            destructive: traits.is_destructive,
            idempotent: traits.is_idempotent,
            categories: traits.categories.clone(),
            scopes: traits.scopes.clone(),
            callers: traits.allowed_callers.clone(),
            timeout_ms: traits.timeout.map(tool::clock::duration_millis),
        },
        definition: entry.definition_digest.to_string(),
    }
}
