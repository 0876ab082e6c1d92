//! `http_post`: sends JSON to a public URL with HTTP POST.

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
    let declared = registry.find_tool("http_post")?;
    let seconds = declared.numeric_limit("timeout");
    Some(declared.with_executor(HttpToolExecutor {
        egress,
        clock,
        method: Method::POST,
        timeout_limit: seconds,
    }))
}
