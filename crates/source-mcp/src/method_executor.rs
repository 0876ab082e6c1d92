//! MCP methods that a server offers beside tool calls: prompts, resources, completion, log levels.

use std::sync::Arc;

use ::mcp::ProtocolEra;
use ::mcp::events::{EVENTS_EXTENSION, POLL_METHOD, STREAM_METHOD};
use ::mcp::extensions::{SKILLS_EXTENSION, catalog_method_name};
use serde_json::json;
use tool::{
    BoxFuture, CallContext, CallerType, CatalogItem, ExecuteError, ExecutionState, Executor, Json,
    MCP_METHODS, McpMethod, Offer, Outcome, OutcomeBody, RecordedCall, SafetyLevel, SideEffects,
    Tool, ToolName, ToolTraits,
};

use super::negotiation::ServerCapabilities;
use super::outgoing_request::RequestParams;
use super::resource_subscription::ResourceSubscribeExecutor;
use super::server_supervisor::ServerSupervisor;
use super::skill_files::SkillFiles;
use super::tool_executor::TaskSupport;
use super::upstream_call::{CallSpec, UpstreamCall};

/// MCP method that creates a subscription.
const SUBSCRIBE_METHOD: &str = "resources/subscribe";
/// MCP method that reads a resource.
const READ_METHOD: &str = "resources/read";
/// MCP method that sets the log level of a connection.
const SET_LEVEL_METHOD: &str = "logging/setLevel";

/// Returns an offer for each method that the server declares.
pub(super) fn method_offers(
    upstream: &Arc<ServerSupervisor>,
    (can, era): (ServerCapabilities, ProtocolEra),
    declared: Option<&Json>,
    skill_files: &Arc<SkillFiles>,
) -> Vec<Offer> {
    let extensions = &upstream.options.extensions;
    let can = ServerCapabilities {
        skills: can.skills.filter(|_| extensions.allows(SKILLS_EXTENSION)),
        events: can.events && extensions.allows(EVENTS_EXTENSION),
        ..can
    };
    let has = MCP_METHODS.into_iter().filter(|it| supports_method(can, it.method, era));
    let own = has.filter_map(|McpMethod { name, method }| {
        let item = describe_method(upstream, (name, method), SideEffects::Declared(Vec::new()))?;
        let item = CatalogItem::Method(Arc::new(item));
        let upstream = Arc::clone(upstream);
        let executor: Arc<dyn Executor> = if method == SUBSCRIBE_METHOD {
            Arc::new(ResourceSubscribeExecutor::new(upstream))
        } else {
            let skill_files = Arc::clone(skill_files);
            let method = method.into();
            Arc::new(McpMethodExecutor { supervisor: upstream, method, skill_files })
        };
        Some(Offer { item, executor })
    });
    let methods = extensions.relayed_methods(declared).into_iter();
    let of_extensions = methods.filter_map(|method| {
        let name = catalog_method_name(method);
        // What a method of an extension does is not known.
        let item = describe_method(upstream, (&name, method), SideEffects::Unknown)?;
        let (supervisor, skill_files) = (Arc::clone(upstream), Arc::clone(skill_files));
        let executor = McpMethodExecutor { supervisor, method: method.into(), skill_files };
        Some(Offer { item: CatalogItem::Method(Arc::new(item)), executor: Arc::new(executor) })
    });
    own.chain(of_extensions).collect()
}

fn supports_method(can: ServerCapabilities, method: &str, era: ProtocolEra) -> bool {
    match method {
        "prompts/get" => can.prompts.is_some(),
        READ_METHOD => can.resources.is_some(),
        "resources/directory/read" => can.skills.is_some_and(|skills| skills.reads_directories),
        SUBSCRIBE_METHOD => can.resources.is_some_and(|listed| listed.supports_subscribe),
        "completion/complete" => can.completions,
        POLL_METHOD | STREAM_METHOD => can.events,
        // Since 2026-07-28, each request carries its log level.
        SET_LEVEL_METHOD => can.logging && era == ProtocolEra::Handshake,
        _ => false,
    }
}

/// Describes the method as a catalog item, with the permission level of its source.
fn describe_method(
    upstream: &ServerSupervisor,
    (name, method): (&str, &str),
    effects: SideEffects,
) -> Option<Tool> {
    let input = json!({"type": "object"});
    let description = format!("`{method}` of the source `{}`.", upstream.name);
    let received = json!({"name": name, "description": description, "inputSchema": input});
    let marks = &upstream.options.overrides;
    Some(Tool {
        name: ToolName::new(name).ok()?,
        title: None,
        description,
        input_schema: Json::encode(&input),
        output_schema: None,
        traits: ToolTraits {
            min_level: marks.min_level.unwrap_or(tool::PermissionLevel::Guest),
            safety: SafetyLevel::Safe,
            effects,
            allowed_callers: vec![CallerType::Direct],
            timeout: marks.timeout,
            ..ToolTraits::default()
        },
        raw_definition: Json::encode(&received),
    })
}

/// Executes one method of one server. The arguments are its params.
#[derive(Debug)]
struct McpMethodExecutor {
    supervisor: Arc<ServerSupervisor>,
    method: Arc<str>,
    skill_files: Arc<SkillFiles>,
}

impl McpMethodExecutor {
    async fn run_method(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        if &*self.method == SET_LEVEL_METHOD && self.supervisor.waits_for_call() {
            // Nothing is logged, and a client that only sets its level does not start a server.
            return Ok(ExecutionState::Completed(Outcome::from_value(Json::empty_object())));
        }
        let call = call.call();
        let params = RequestParams::Object(call.arguments.as_json());
        let support = TaskSupport::Forbidden;
        let job = CallSpec {
            method: &self.method,
            params,
            argument_headers: None,
            is_handshake_only: false,
            task_support: support,
        };
        let own = self.supervisor.server_for_caller(call, ctx).await?;
        let own = own.as_ref().unwrap_or(&self.supervisor);
        let state = UpstreamCall::new(own, call, ctx).run_call(job).await?;
        if &*self.method == READ_METHOD
            && let ExecutionState::Completed(outcome) = &state
            && let OutcomeBody::Mcp(result) | OutcomeBody::Value(result) = &outcome.body
        {
            let uri = call.arguments.as_json().get("uri");
            let uri = uri.as_ref().and_then(Json::string_value).unwrap_or_default();
            self.skill_files.verify_content(&uri, result)?;
        }
        Ok(state)
    }
}

impl Executor for McpMethodExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_method(call, ctx))
    }
}
