//! A server that says exactly what a test wants, and what the requests to it were.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use egress::{Dialer, DnsResolver};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tool::BoxFuture;

/// What a site does after a request.
pub(crate) enum Answer {
    /// Sends this and waits for the next request.
    Say(Vec<u8>),
    /// Sends this and closes.
    Last(Vec<u8>),
    /// Sends this, then nothing until the other side closes.
    Hold(Vec<u8>),
}

pub(crate) fn ok(body: &str) -> Answer {
    Answer::Say(
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes(),
    )
}

pub(crate) fn redirect_to(status: u16, to: &str) -> Answer {
    Answer::Say(
        format!("HTTP/1.1 {status} x\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes(),
    )
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct ServerLog {
    pub(crate) accepted: AtomicUsize,
    /// Connections that the other side closed.
    pub(crate) closed: AtomicUsize,
    requests: Mutex<Vec<String>>,
}

impl ServerLog {
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }
}

/// It stops when it is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<ServerLog>,
    _tasks: JoinSet<()>,
}

impl TestServer {
    pub(crate) async fn start(
        answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::with(None, answer).await
    }

    pub(crate) async fn with(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(ServerLog::default());
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                log.accepted.fetch_add(1, Ordering::SeqCst);
                let (log, answer, tls) = (Arc::clone(&log), Arc::clone(&answer), tls.clone());
                open.spawn(async move {
                    match tls {
                        None => serve_connection(stream, &log, &*answer).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve_connection(stream, &log, &*answer).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn serve_connection<S, F>(mut stream: S, seen: &ServerLog, answer: &F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(usize, &str) -> Answer,
{
    let mut inbox = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut inbox).await {
        let count = {
            let mut requests = seen.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len()
        };
        match answer(count, &request) {
            Answer::Say(bytes) | Answer::Hold(bytes) => {
                stream.write_all(&bytes).await.unwrap_or_default();
            }
            Answer::Last(bytes) => {
                stream.write_all(&bytes).await.unwrap_or_default();
                drop(stream.shutdown().await);
                return;
            }
        }
    }
    seen.closed.fetch_add(1, Ordering::SeqCst);
}

/// The next whole request, or `None` where the other side closed.
async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    inbox: &mut Vec<u8>,
) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(inbox).to_ascii_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
                rest.split("\r\n").next().unwrap().parse::<usize>().unwrap()
            });
            if inbox.len() >= head.len() + 4 + length {
                let rest = inbox.split_off(head.len() + 4 + length);
                return String::from_utf8(std::mem::replace(inbox, rest)).ok();
            }
        }
        match stream.read_buf(inbox).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return None,
        }
    }
}

/// Leads public addresses to sites on this machine, and writes down what was dialled. What is not
/// listed is refused.
#[derive(Debug, Default)]
pub(crate) struct RoutingDialer {
    to: HashMap<IpAddr, SocketAddr>,
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
}

impl RoutingDialer {
    pub(crate) fn to(sites: &[(&str, &TestServer)]) -> Arc<Self> {
        let to =
            sites.iter().map(|(public, site)| (public.parse().unwrap(), site.address)).collect();
        Arc::new(Self { to, dialled: Mutex::default() })
    }

    pub(crate) fn count(&self) -> usize {
        self.dialled.lock().unwrap().len()
    }
}

impl Dialer for RoutingDialer {
    fn dial_address(
        &self,
        address: SocketAddr,
    ) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        self.dialled.lock().unwrap().push(address);
        let to = self.to.get(&address.ip()).copied();
        Box::pin(async move {
            let to = to.ok_or(io::ErrorKind::ConnectionRefused)?;
            #[expect(
                clippy::disallowed_methods,
                reason = "the test leads the connection elsewhere"
            )]
            let stream = TcpStream::connect(to).await?;
            Ok((stream, address))
        })
    }
}

/// Answers each look-up as a test says: by name and by how many there were before.
pub(crate) struct ScriptedResolver<F>(pub(crate) F, pub(crate) AtomicUsize);

impl<F> ScriptedResolver<F>
where
    F: Fn(&str, usize) -> Vec<IpAddr> + Send + Sync + 'static,
{
    pub(crate) fn by(answer: F) -> Arc<Self> {
        Arc::new(Self(answer, AtomicUsize::new(0)))
    }
}

impl<F> std::fmt::Debug for ScriptedResolver<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

impl<F> DnsResolver for ScriptedResolver<F>
where
    F: Fn(&str, usize) -> Vec<IpAddr> + Send + Sync + 'static,
{
    fn resolve_host<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let found = (self.0)(host, self.1.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move { Ok(found) })
    }
}
