//! The least a server can do: axum, one route, the same bytes each time.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use bytes::Bytes;
use tokio::net::TcpListener;

/// Serves what stands in `file`.
pub(super) async fn run(listener: TcpListener, file: &str) -> Result<(), String> {
    let bytes = Bytes::from(std::fs::read(file).map_err(|e| format!("`{file}`: {e}"))?);
    // Read as every server must read it, so that the connection can be kept.
    let answer = move |_request: Bytes| {
        let bytes = bytes.clone();
        async move { ([(CONTENT_TYPE, "application/json")], bytes) }
    };
    let router = Router::new().route("/mcp", post(answer));
    axum::serve(listener, router).await.map_err(|e| e.to_string())
}
