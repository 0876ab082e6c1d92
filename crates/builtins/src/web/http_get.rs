//! `http_get`: sends an HTTP GET request to a public URL.

use std::sync::Arc;

use egress::EgressClient;
use http::Method;
use tool::Clock;

use super::http_request::HttpToolExecutor;
use tool_manifest::BuiltinTool;
use tool_manifest::ManifestRegistry;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    egress: EgressClient,
    clock: Arc<dyn Clock>,
) -> Option<BuiltinTool> {
    let declared = registry.find_tool("http_get")?;
    let seconds = declared.numeric_limit("timeout");
    Some(declared.with_executor(HttpToolExecutor {
        egress,
        clock,
        method: Method::GET,
        timeout_limit: seconds,
    }))
}
