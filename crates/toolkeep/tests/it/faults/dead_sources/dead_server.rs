//! Servers that never answer: no listener, one that accepts, and one that answers with headers alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// How a server is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeadKind {
    /// Its port refuses connections.
    Refuses,
    /// It accepts connections and never answers.
    Silent,
    /// It answers with the headers of a response, and the body never comes.
    HeadersOnly,
}

impl DeadKind {
    pub(super) const ALL: [Self; 3] = [Self::Refuses, Self::Silent, Self::HeadersOnly];
}

/// A dead server. Its port is its own until it is dropped.
pub(super) struct DeadServer {
    pub(super) url: String,
    requests: Arc<RequestCounts>,
    _port: Option<TcpSocket>,
    _tasks: JoinSet<()>,
}

/// Connections with a request that was never answered.
#[derive(Debug, Default)]
struct RequestCounts {
    begun: AtomicUsize,
    /// Those of which the client closed the connection.
    given_up: AtomicUsize,
}

impl DeadServer {
    pub(super) async fn start(kind: DeadKind) -> Self {
        let (requests, mut tasks) = (Arc::new(RequestCounts::default()), JoinSet::new());
        let local = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let (address, port) = if kind == DeadKind::Refuses {
            // Bound and not listening, so that nobody else gets the port.
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(local).unwrap();
            (socket.local_addr().unwrap(), Some(socket))
        } else {
            let listener = TcpListener::bind(local).await.unwrap();
            let address = listener.local_addr().unwrap();
            tasks.spawn(accept_all(listener, kind, Arc::clone(&requests)));
            (address, None)
        };
        Self { url: format!("http://{address}/mcp"), requests, _port: port, _tasks: tasks }
    }

    /// Requests that were received and never answered.
    pub(super) fn begun(&self) -> usize {
        self.requests.begun.load(Ordering::SeqCst)
    }

    /// Requests that the client gave up.
    pub(super) fn given_up(&self) -> usize {
        self.requests.given_up.load(Ordering::SeqCst)
    }
}

async fn accept_all(listener: TcpListener, kind: DeadKind, requests: Arc<RequestCounts>) {
    let mut open = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        open.spawn(hold_request(stream, kind, Arc::clone(&requests)));
    }
}

async fn hold_request(mut stream: TcpStream, kind: DeadKind, requests: Arc<RequestCounts>) {
    let mut buffer = [0; 4_096];
    let mut is_first = true;
    while let Ok(1..) = stream.read(&mut buffer).await {
        if !std::mem::take(&mut is_first) {
            continue;
        }
        requests.begun.fetch_add(1, Ordering::SeqCst);
        if kind == DeadKind::HeadersOnly {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
            stream.write_all(head).await.unwrap();
        }
    }
    if !is_first {
        requests.given_up.fetch_add(1, Ordering::SeqCst);
    }
}
