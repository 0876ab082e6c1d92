//! A mock HTTP server with scripted responses and failures.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The scripted response to one request.
#[derive(Debug, Clone)]
pub enum MockResponse {
    /// Responds with a status and a body.
    Body(u16, String),
    /// Responds with a redirect status and location.
    Redirect(u16, String),
    /// Reads the request and never responds.
    Hang,
    /// Reads the request and closes the connection.
    Disconnect,
    /// Starts a body and closes the connection.
    Truncate,
    /// Sends an endless body.
    Endless,
}

impl MockResponse {
    /// A response with status 200 and a JSON body.
    pub fn from_json(value: &Value) -> Self {
        Self::Body(200, value.to_string())
    }
}

/// A request as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The request line in lower case.
    pub request_line: String,
    /// The headers as `name: value` in lower case.
    pub headers: Vec<String>,
    /// The request body.
    pub body: String,
}

/// A server that sends its responses in order and repeats the last one. It stops when dropped.
#[derive(Debug)]
pub struct MockServer {
    /// The address it listens on.
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    script: Arc<Mutex<Vec<MockResponse>>>,
    _tasks: JoinSet<()>,
}

impl MockServer {
    /// Starts the server on a free loopback port.
    pub async fn start_server(answers: Vec<MockResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(answers));
        let mut tasks = JoinSet::new();
        let (log, answers) = (Arc::clone(&seen), Arc::clone(&script));
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                open.spawn(serve_connection(stream, Arc::clone(&answers), Arc::clone(&log)));
            }
        });
        Self { address, received: seen, script, _tasks: tasks }
    }

    /// Replaces the responses, for those that name the address of the server.
    pub fn set_answers(&self, answers: Vec<MockResponse>) {
        *self.script.lock().unwrap() = answers;
    }

    /// The base URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests received so far.
    pub fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve_connection(
    mut stream: TcpStream,
    script: Arc<Mutex<Vec<MockResponse>>>,
    log: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut stream, &mut buffer).await {
        log.lock().unwrap().push(seen);
        let answer = {
            let mut script = script.lock().unwrap();
            if script.len() > 1 { script.remove(0) } else { script[0].clone() }
        };
        match answer {
            MockResponse::Body(status, body) => {
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).await.unwrap();
            }
            MockResponse::Redirect(status, to) => {
                let head =
                    format!("HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
            }
            MockResponse::Hang => std::future::pending().await,
            MockResponse::Disconnect => return,
            MockResponse::Truncate => {
                let head = b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{\"tool_name\"";
                stream.write_all(head).await.unwrap();
                return;
            }
            MockResponse::Endless => {
                let head = b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head).await.unwrap();
                let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
                while stream.write_all(chunk.as_bytes()).await.is_ok() {}
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<ReceivedRequest> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap().to_lowercase();
    let mut lines = head.lines().map(str::to_owned).filter(|line| !line.is_empty());
    let (line, headers) = (lines.next().unwrap(), lines.collect::<Vec<_>>());
    let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let rest = buffer.split_off(end + length);
    let body = String::from_utf8(buffer.split_off(end)).unwrap();
    *buffer = rest;
    Some(ReceivedRequest { request_line: line, headers, body })
}
