//! A client that calls a tool of a node directly over gRPC.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, EgressOptions, Origin};
use proto::client::{ConnectFuture, GrpcChannel, IoStream};
use proto::toolrpc::CallFunctionRequest;
use serde::Serialize;
use serde_json::Value;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a cluster tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolResult {
    /// Whether the tool succeeded.
    pub success: bool,
    /// Answer: JSON if it parses as such, else text; null if there is none.
    pub output: Value,
    /// Error message; `RPC failed: …` if the tool was not reached.
    pub error: String,
    /// Metadata beside the answer.
    pub metadata: BTreeMap<String, String>,
}

/// Calls a tool of the server at `host:port`. Errors are part of the result.
pub async fn call_tool(tool_name: &str, input: &Value, host: &str, port: u16) -> ToolResult {
    let failed = |error: String| ToolResult {
        success: false,
        output: Value::Null,
        error: format!("RPC failed: {error}"),
        metadata: BTreeMap::new(),
    };
    let line = match open_channel(host, port) {
        Ok(line) => line,
        Err(error) => return failed(error),
    };
    let input = input.to_string().into();
    let request = CallFunctionRequest { tool_name: tool_name.to_owned(), input };
    match line.executor_client().call_function(request).await {
        Ok(response) => {
            let said = response.into_inner();
            let text = || Value::String(String::from_utf8_lossy(&said.output).into_owned());
            ToolResult {
                success: said.success,
                output: serde_json::from_slice(&said.output).unwrap_or_else(|_| text()),
                error: said.error,
                metadata: said.metadata.into_iter().collect(),
            }
        }
        Err(status) => failed(status.to_string()),
    }
}

fn open_channel(host: &str, port: u16) -> Result<GrpcChannel, String> {
    let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let connect = new_connector(&format!("{bracketed}:{port}"))?;
    Ok(GrpcChannel::new(move || connect()))
}

/// Creates a function that opens a plaintext connection to `HOST:PORT` each time it is called.
pub(crate) fn new_connector(
    address: &str,
) -> Result<Arc<dyn Fn() -> ConnectFuture + Send + Sync>, String> {
    let origin = Origin::parse(&format!("http://{address}")).map_err(|error| error.to_string())?;
    let egress = EgressClient::new(EgressOptions::default()).map_err(|error| error.to_string())?;
    Ok(Arc::new(move || {
        let (egress, origin) = (egress.clone(), origin.clone());
        Box::pin(async move {
            let stream =
                egress.connect_stream(&origin, CONNECT_TIMEOUT).await.map_err(io::Error::other)?;
            Ok(Box::new(stream) as Box<dyn IoStream>)
        })
    }))
}
