//! The upstream MCP server: rmcp without sessions, with JSON responses.
//!
//! Its first two tools represent the two classes of effects: `echo` declares itself read-only,
//! `echo_unknown` declares nothing. Both return their text.

use std::sync::Arc;

use hyper_util::service::TowerToHyperService;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http_loop;

/// Serves `count` echo tools over MCP.
pub(super) async fn serve_tools(listener: TcpListener, count: usize) -> Result<(), String> {
    let echo = EchoServer { tools: Arc::new(build_tools(count)) };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(echo.clone()), sessions, config);
    http_loop::serve_forever(listener, TowerToHyperService::new(service)).await
}

#[derive(Clone)]
struct EchoServer {
    tools: Arc<Vec<Tool>>,
}

fn build_tools(count: usize) -> Vec<Tool> {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text to give back."}},
        "required": ["text"],
        "additionalProperties": false
    });
    let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
    let named = |name: String| {
        let description = "Gives the text back as it is. Made for measuring what a call costs.";
        Tool::new(name, description, Arc::clone(&schema))
    };
    let reads = named("echo".to_owned()).with_annotations(ToolAnnotations::new().read_only(true));
    let unknown = named("echo_unknown".to_owned());
    let more = (2..count).map(|number| named(format!("echo_{number}")));
    [reads, unknown].into_iter().chain(more).take(count).collect()
}

impl ServerHandler for EchoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.as_ref().clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.tools.iter().any(|tool| tool.name == request.name) {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        }
        let text = request.arguments.as_ref().and_then(|arguments| arguments.get("text"));
        let text = text
            .and_then(Value::as_str)
            .ok_or_else(|| ErrorData::invalid_params("`text` is missing", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}
