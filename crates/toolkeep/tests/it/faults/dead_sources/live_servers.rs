//! Many small MCP servers of 2025-11-25 at one address, each with a tool, a prompt, a resource and a
//! template of its own name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The servers. They end when dropped.
pub(super) struct LiveServers {
    address: String,
    counts: Arc<ServerCounts>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct ServerCounts {
    requests: AtomicUsize,
    /// Further tools, prompts and resources of each server.
    additions: AtomicUsize,
}

impl LiveServers {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let counts = Arc::new(ServerCounts::default());
        let router = axum::Router::new()
            .route("/{name}/mcp", post(answer_message))
            .with_state(Arc::clone(&counts));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, counts, _tasks: tasks }
    }

    pub(super) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}/mcp", self.address)
    }

    /// Messages that were received so far.
    pub(super) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// Gives each server one item more of each kind, from its next listing on.
    pub(super) fn add_items(&self) {
        self.counts.additions.fetch_add(1, Ordering::SeqCst);
    }
}

async fn answer_message(
    State(counts): State<Arc<ServerCounts>>,
    Path(name): Path<String>,
    Json(message): Json<Value>,
) -> Response {
    counts.requests.fetch_add(1, Ordering::SeqCst);
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let additions = counts.additions.load(Ordering::SeqCst);
    let answer = match result_of(&message, &name, additions) {
        Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        None => json!({
            "jsonrpc": "2.0", "id": id, "error": { "code": -32_601, "message": "unknown method" },
        }),
    };
    Json(answer).into_response()
}

fn result_of(message: &Value, name: &str, additions: usize) -> Option<Value> {
    let items = |one: &dyn Fn(&str) -> Value| -> Value {
        (0..=additions).map(|number| one(&format!("{name}-{number}"))).collect()
    };
    Some(match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "serverInfo": { "name": name, "version": "1" },
            "capabilities": { "tools": {}, "prompts": {}, "resources": {} },
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": items(&|item| json!({
            "name": item, "description": "A tool.", "inputSchema": { "type": "object" },
        })) }),
        "prompts/list" => json!({ "prompts": items(&|item| json!({ "name": item })) }),
        "resources/list" => json!({ "resources": items(&|item| json!({
            "name": item, "uri": format!("test://{item}"),
        })) }),
        "resources/templates/list" => json!({ "resourceTemplates": [{
            "name": name, "uriTemplate": format!("{name}://{{id}}"),
        }] }),
        _ => return None,
    })
}
