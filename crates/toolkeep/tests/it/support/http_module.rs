//! HTTP modules that behave well or badly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How a module behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModuleBehavior {
    /// As it should.
    Good,
    /// Accepts every connection and never responds.
    Silent,
    /// Answers everything with status 500.
    Refuses,
    /// Its manifest is none.
    Garbled,
    /// Takes a call and never answers it.
    HangsInCalls,
    /// Answers a call with status 500.
    FailsInCalls,
    /// Dies when it is called: the connection breaks off, and there is no other.
    DiesInCalls,
}

/// A module with one tool, `work`. Gone when dropped.
#[derive(Debug)]
pub(crate) struct Module {
    address: SocketAddr,
    executed: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct ModuleListener {
    name: &'static str,
    manner: ModuleBehavior,
    executed: Arc<AtomicUsize>,
    dead: CancellationToken,
}

impl Module {
    pub(crate) async fn start(name: &'static str, manner: ModuleBehavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let executed = Arc::new(AtomicUsize::new(0));
        let dead = CancellationToken::new();
        let served = ModuleListener { name, manner, executed: Arc::clone(&executed), dead };
        let mut tasks = JoinSet::new();
        tasks.spawn(served.listen(listener));
        Self { address, executed, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Number of calls that it ran.
    pub(crate) fn execution_count(&self) -> usize {
        self.executed.load(Ordering::SeqCst)
    }
}

impl ModuleListener {
    async fn listen(self, listener: TcpListener) {
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.unwrap();
                    open.spawn(self.clone().serve(stream));
                }
                Some(_) = open.join_next() => {}
                () = self.dead.cancelled() => return,
            }
        }
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        if self.manner == ModuleBehavior::Silent {
            return std::future::pending().await;
        }
        while let Some(line) = request(&mut stream, &mut buffer).await {
            let called = line.starts_with("post /execute");
            let (status, body) = match (self.manner, called) {
                (ModuleBehavior::HangsInCalls, true) => return std::future::pending().await,
                (ModuleBehavior::DiesInCalls, true) => return self.dead.cancel(),
                (ModuleBehavior::Refuses, _) | (ModuleBehavior::FailsInCalls, true) => {
                    (500, "out of order".into())
                }
                (ModuleBehavior::Garbled, false) => (200, "{\"tools\": [".into()),
                (_, false) => (200, self.manifest()),
                (_, true) => {
                    let nth = self.executed.fetch_add(1, Ordering::SeqCst) + 1;
                    (200, json!({ "success": true, "result": { "nth": nth } }).to_string())
                }
            };
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn manifest(&self) -> String {
        let tool = json!({
            "name": format!("{}.work", self.name),
            "description": "Counts its calls.",
            "parameters": [],
        });
        json!({ "module_name": self.name, "description": "", "tools": [tool] }).to_string()
    }
}

/// The request line of the next request, lower case; nothing at the end.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    buffer.drain(..end + length);
    head.lines().next().map(str::to_owned)
}
