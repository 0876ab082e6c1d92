//! A client that calls a tool of a node directly over gRPC.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use egress::{Egress, EgressSettings, Origin};
use proto::connect::{Duplex, Line};
use proto::toolrpc::CallFunctionRequest;
use serde::Serialize;
use serde_json::Value;

/// Time for the connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Spec 4's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Called {
    /// Whether the tool succeeded.
    pub success: bool,
    /// What it answered: JSON where it is such, else text; null where there is no answer.
    pub output: Value,
    /// What went wrong; `RPC failed: …` where the tool was not reached.
    pub error: String,
    /// Beside it.
    pub metadata: BTreeMap<String, String>,
}

/// Calls a tool of the server at `host:port`. What goes wrong is in the result.
pub async fn call_tool(tool_name: &str, input: &Value, host: &str, port: u16) -> Called {
    let failed = |error: String| Called {
        success: false,
        output: Value::Null,
        error: format!("RPC failed: {error}"),
        metadata: BTreeMap::new(),
    };
    let line = match line(host, port) {
        Ok(line) => line,
        Err(error) => return failed(error),
    };
    let input = input.to_string().into();
    let request = CallFunctionRequest { tool_name: tool_name.to_owned(), input };
    match line.executor().call_function(request).await {
        Ok(response) => {
            let said = response.into_inner();
            let text = || Value::String(String::from_utf8_lossy(&said.output).into_owned());
            Called {
                success: said.success,
                output: serde_json::from_slice(&said.output).unwrap_or_else(|_| text()),
                error: said.error,
                metadata: said.metadata.into_iter().collect(),
            }
        }
        Err(status) => failed(status.to_string()),
    }
}

fn line(host: &str, port: u16) -> Result<Line, String> {
    let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let origin = Origin::parse(&format!("http://{bracketed}:{port}"));
    let origin = Arc::new(origin.map_err(|error| error.to_string())?);
    let egress = Egress::new(EgressSettings::default()).map_err(|error| error.to_string())?;
    Ok(Line::new(move || {
        let (egress, origin) = (egress.clone(), Arc::clone(&origin));
        Box::pin(async move {
            let stream = egress.stream(&origin, CONNECT).await.map_err(io::Error::other)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }))
}
