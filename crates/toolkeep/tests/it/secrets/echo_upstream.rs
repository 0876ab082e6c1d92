//! An upstream that echoes what it receives, as debug pages do.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// It listens until the test ends.
pub(super) struct EchoUpstream {
    url: String,
    heard: Arc<Mutex<String>>,
}

impl EchoUpstream {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                std::thread::spawn(move || answer(stream, &all));
            }
        });
        Self { url, heard }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// All requests so far.
    pub(super) fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

/// Answers one request.
fn answer(stream: TcpStream, all: &Mutex<String>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    all.lock().unwrap().push_str(&head);
    let told = format!("You sent: {}", head.replace("\r\n", " | "));
    let path = head.split(' ').nth(1)?;
    let (status, kind, body) = match path {
        "/module/manifest" => (200, "application/json", manifest()),
        path if path.starts_with("/mcp") => (
            200,
            "application/json",
            message(&serde_json::from_slice(&body).unwrap_or_default(), &told),
        ),
        path if path.starts_with("/200") => (200, "text/plain", told),
        path if path.starts_with("/401") => (401, "text/plain", told),
        _ => (500, "text/plain", told),
    };
    let status = if body.is_empty() { 202 } else { status };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    reader.get_mut().write_all((head + &body).as_bytes()).ok()
}

fn manifest() -> String {
    let tool = json!({ "name": "module-listed.work", "description": "d", "parameters": [] });
    json!({ "module_name": "module-listed", "description": "", "tools": [tool] }).to_string()
}

/// An MCP server: `tell` returns the request, `fail` an error that contains it.
fn message(request: &Value, told: &str) -> String {
    let Some(id) = request.get("id") else { return String::new() };
    let tool = |name: &str| json!({ "name": name, "description": "d", "inputSchema": { "type": "object" } });
    let result = match (request["method"].as_str(), request["params"]["name"].as_str()) {
        (Some("initialize"), _) => {
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "echo", "version": "1" } })
        }
        (Some("tools/list"), _) => json!({ "tools": [tool("tell"), tool("fail")] }),
        (Some("tools/call"), Some("tell")) => {
            json!({ "content": [{ "type": "text", "text": told }] })
        }
        _ => {
            let error = json!({ "code": -32_000, "message": told });
            return json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
        }
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}
