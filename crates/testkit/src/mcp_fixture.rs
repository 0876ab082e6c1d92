//! MCP server that validates its clients, in both eras of the protocol. It has every tool, prompt
//! and resource that the conformance suites require, and is implemented from the specification with
//! plain JSON.
//!
//! It shares no code with Toolkeep's own MCP implementation, because it is the counterpart. It only
//! listens where requested.

mod caller_link;
mod counter_events;
mod event_stream;
mod fixture_state;
mod headers;
mod http;
mod input_rounds;
mod json_rpc;
mod legacy_era;
mod listed_content;
mod modern_era;
mod session;
mod tasks;
mod tool_calls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use fixture_state::FixtureState;

/// The protocol eras that a fixture supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FixtureEra {
    /// 2024-11-05 to 2025-11-25: `initialize` and sessions.
    Legacy,
    /// 2026-07-28: without either.
    Modern,
    /// Both at one URL.
    #[default]
    Both,
}

/// The options of a fixture.
#[derive(Debug, Clone, Copy, Default)]
pub struct FixtureOptions {
    /// The supported eras.
    pub era: FixtureEra,
    /// Entries per list page; 0 for one page with all of them.
    pub page_size: usize,
}

/// A running fixture; it stops when dropped.
#[derive(Debug)]
pub struct RunningFixture {
    /// The URL: `http://127.0.0.1:PORT/mcp`.
    pub url: String,
    _task: JoinSet<()>,
}

/// Starts a fixture on a free loopback port.
///
/// # Errors
/// Returns an error if no port is available.
pub async fn start_fixture(options: FixtureOptions) -> io::Result<RunningFixture> {
    start_with_state(FixtureState::new(options)).await
}

/// Starts a fixture that also has events.
///
/// # Errors
/// Returns an error if no port is available.
pub async fn start_event_fixture(options: FixtureOptions) -> io::Result<RunningFixture> {
    start_with_state(FixtureState { has_events: true, ..FixtureState::new(options) }).await
}

async fn start_with_state(fixture: FixtureState) -> io::Result<RunningFixture> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let mut task = JoinSet::new();
    task.spawn(serve_state(listener, fixture));
    Ok(RunningFixture { url, _task: task })
}

/// Serves on `listener` forever; connections end when this is dropped.
pub async fn serve_fixture(listener: TcpListener, options: FixtureOptions) {
    serve_state(listener, FixtureState::new(options)).await;
}

async fn serve_state(listener: TcpListener, fixture: FixtureState) {
    let fixture = Arc::new(fixture);
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let world = Arc::clone(&fixture);
        open.spawn(async move {
            let answer = service_fn(|request| http::answer_http(Arc::clone(&world), request));
            // A disconnected client is expected.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}

#[cfg(test)]
mod tests;
