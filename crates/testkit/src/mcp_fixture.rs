//! An MCP server that judges others: every tool, prompt and resource that the conformance suites ask
//! for, in both eras of the protocol, written from the specification with plain JSON.
//!
//! It knows nothing of Toolkeep's own MCP code, because it stands on the other side of it. It binds
//! nothing itself and listens only where it is told to.

mod calls;
mod content;
mod headers;
mod http;
mod input;
mod legacy;
mod link;
mod modern;
mod rpc;
mod session;
mod stream;
mod tasks;
mod world;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use world::World;

/// Which eras of the protocol a fixture speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: `initialize` and sessions.
    Legacy,
    /// 2026-07-28: neither.
    Modern,
    /// Both on one address.
    #[default]
    Both,
}

/// How a fixture behaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The eras it speaks.
    pub era: Era,
    /// Entries of a page of a list; 0 for all of them in one.
    pub page: usize,
}

/// A fixture that answers until this is dropped.
#[derive(Debug)]
pub struct Running {
    /// Where: `http://127.0.0.1:PORT/mcp`.
    pub url: String,
    _task: JoinSet<()>,
}

/// Starts a fixture on a free port of the loopback.
///
/// # Errors
/// Where no port can be had.
pub async fn start(options: Options) -> io::Result<Running> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let mut task = JoinSet::new();
    task.spawn(serve(listener, options));
    Ok(Running { url, _task: task })
}

/// Answers on `listener` for ever; connections end when this is dropped.
pub async fn serve(listener: TcpListener, options: Options) {
    let world = Arc::new(World::new(options));
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let world = Arc::clone(&world);
        open.spawn(async move {
            let answer = service_fn(|request| http::answer(Arc::clone(&world), request));
            // A caller that goes away is no news.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}

#[cfg(test)]
mod tests;
