//! What rmcp asks this server for one request: of one principal, about one message.

use std::sync::Arc;

use formats::CallsError;
use gateway::{Request, View};
use identity::Principal;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
    Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tool::outcome::{Answer, Failure};
use tool::{CallerType, Code};

use super::message::Called;
use super::outcome::{failed, written};
use super::progress;
use crate::lists::{self, Names, PAGE};
use crate::state::Doors;

/// How long a client may keep a list, in milliseconds: nothing tells it of a change.
const LIST_TTL: u64 = 10_000;
/// How long a client may keep what this server is.
const DISCOVER_TTL: u64 = 60_000;
/// Requests that this server takes: where rmcp does not know one of them, its params are at fault.
const METHODS: [&str; 3] = ["server/discover", "tools/call", "tools/list"];
/// The same, of the older revisions only.
const OLDER: [&str; 2] = ["initialize", "ping"];

/// One request. Whose it is was settled by the credential before it came here.
#[derive(Debug, Clone)]
pub(super) struct Served {
    doors: Doors,
    principal: Principal,
    names: Names,
    call: Option<Result<Called, CallsError>>,
}

impl Served {
    pub(super) fn new(
        doors: Doors,
        principal: Principal,
        names: Names,
        call: Option<Result<Called, CallsError>>,
    ) -> Self {
        Self { doors, principal, names, call }
    }

    fn view(&self) -> Arc<View> {
        self.doors.parts.gateway.view(&self.principal, CallerType::Direct)
    }

    async fn call(&self, ctx: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let called = match &self.call {
            Some(Ok(called)) => called,
            Some(Err(error)) => return Err(ErrorData::invalid_params(error.to_string(), None)),
            None => return Err(ErrorData::internal_error("the message holds no call", None)),
        };
        let tool = self.doors.lists.native(&self.view(), &called.name);
        let request = Request::new(tool, called.args.bytes().clone(), "mcp");
        // rmcp goes on with a request whose client is gone. Dropped here, the call ends as the gateway
        // ends a call whose caller went away; nobody reads what is answered.
        tokio::select! {
            answer = self.told(request, ctx) => {
                self.doors.metrics.ended("mcp", &answer);
                written(answer)
            }
            () = ctx.ct.cancelled() => {
                Ok(failed(&Failure::new(Code::Cancelled, "the caller gave the call up")))
            }
        }
    }

    /// Runs the call, and tells of its progress where the client asked for that.
    async fn told(&self, mut request: Request, ctx: &RequestContext<RoleServer>) -> Answer {
        let Some(token) = ctx.meta.get_progress_token() else {
            return self.doors.parts.gateway.call(&self.principal, request).await;
        };
        let (progress, reports) = progress::channel();
        request.progress = Some(progress);
        let call = self.doors.parts.gateway.call(&self.principal, request);
        // Side by side: a client that does not read holds up its progress, never the call.
        let relay = progress::relay(reports, token, ctx.peer.clone());
        futures_util::future::join(call, relay).await.0
    }
}

fn is_modern(ctx: &RequestContext<RoleServer>) -> bool {
    // Revisions are dates, so that their texts order them.
    let modern = ProtocolVersion::V_2026_07_28;
    ctx.protocol_version().is_some_and(|version| version.as_str() >= modern.as_str())
}

impl ServerHandler for Served {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if let Some(tools) = &mut capabilities.tools {
            tools.list_changed = Some(false);
        }
        let this = Implementation::new("toolkeep", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(this)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(DISCOVER_TTL)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let view = self.view();
        let cursor = request.and_then(|request| request.cursor);
        let page = lists::page(&view, PAGE, cursor.as_deref()).ok_or_else(|| {
            let told = "the cursor's tool is no longer there; list from the beginning";
            ErrorData::invalid_params(told, None)
        })?;
        let typed = self.doors.mcp.typed.of(&self.doors.lists, &view, self.names);
        let tools = page.tools.iter().filter_map(|e| typed.get(e.key.name.as_str()).cloned());
        let mut list = ListToolsResult::with_all_items(tools.collect());
        list.next_cursor = page.next;
        if is_modern(&ctx) {
            list = list.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private);
        }
        Ok(list)
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(&ctx).await.map(CallToolResponse::from)
    }

    /// For `Mcp-Param-*` headers alone, which rmcp holds against the schema: only tools that have
    /// such parameters need to be given, and only to those who see them.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let view = self.view();
        let (entry, _) = view.find(&self.doors.lists.native(&view, name))?;
        let input = entry.tool.input.as_str();
        let schema: serde_json::Map<_, _> =
            input.contains("x-mcp-header").then(|| serde_json::from_str(input).ok())??;
        Some(Tool::new_with_raw(name.to_owned(), None, schema))
    }

    /// What rmcp knows under no method, or under none with these params.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if method == "tools/call" && matches!(self.call, Some(Ok(_))) {
            // Arguments that are no object: refused by the pipeline, as at every door, and on record.
            let mut result = self.call(&ctx).await?;
            result.result_type = result.result_type.filter(|_| is_modern(&ctx));
            return Ok(CustomResult::new(tool::Json::of(&result).value()));
        }
        if let Some(Err(error)) = &self.call {
            return Err(ErrorData::invalid_params(error.to_string(), None));
        }
        let older = OLDER.contains(&method.as_str()) && !is_modern(&ctx);
        if older || METHODS.contains(&method.as_str()) {
            let told = format!("the params of `{method}` cannot be read");
            return Err(ErrorData::invalid_params(told, None));
        }
        let shown: String = method.chars().take(128).collect();
        let told = format!("unknown method `{}`", shown.escape_debug());
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, told, None))
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }
}
