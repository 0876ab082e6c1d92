//! A minimal server as baseline: axum with one route that always returns the same bytes.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use bytes::Bytes;
use tokio::net::TcpListener;

/// Serves the content of `file` at `/mcp`.
pub(super) async fn serve_bytes(listener: TcpListener, file: &str) -> Result<(), String> {
    let bytes = Bytes::from(std::fs::read(file).map_err(|e| format!("`{file}`: {e}"))?);
    // Reads the request body, as every server must to keep the connection alive.
    let answer = move |_request: Bytes| {
        let bytes = bytes.clone();
        async move { ([(CONTENT_TYPE, "application/json")], bytes) }
    };
    let router = Router::new().route("/mcp", post(answer));
    axum::serve(listener, router).await.map_err(|e| e.to_string())
}
