//! Tests of `server.http`: calls, streams and rejected framing are the same on the fast path and
//! with hyper.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::real_support::expect_ok;
use crate::real_support::recording_module::{Module, manifest};
use crate::support::installation::Installation;
use crate::support::server_process::{Server, start_server};

/// Rounds of calls on one connection each way.
const ROUNDS: usize = 20;

/// A server with a module, and this value of the setting `http`.
async fn server(module: &Module, http: &str) -> (Installation, Server) {
    let source = json!({ "name": "research", "module": module.url(), "read_only": true });
    let config = json!({ "version": 1, "server": { "http": http }, "sources": [source] });
    let home = Installation::new(&config.to_string());
    let server = start_server(&home).await;
    (home, server)
}

fn module() -> Module {
    let tools: [(&str, &str, &[&str]); 1] =
        [("research.web_search", "guest", &["query", "user_id"])];
    Module::start(manifest("research", &tools))
}

fn tool_call(id: usize) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "research.web_search", "arguments": { "query": "x" } } })
}

/// Sends bytes on a connection of their own, and reads to its end.
#[expect(clippy::disallowed_methods, reason = "sends bytes that no client would send")]
async fn raw(server: &Server, request: &str) -> String {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is reset was refused as well.
    let _read = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(server: &Server, framing: &str, body: &str) -> String {
    let host = server.url.strip_prefix("http://").unwrap();
    let key = server.agent_key();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nConnection: close\r\n{framing}\r\n{body}"
    )
}

/// Results of calls, a stream and different framings, without the parts that differ between runs.
async fn results(http: &str) -> Vec<String> {
    let module = module();
    let (_home, server) = server(&module, http).await;
    let (agent, mut results) = (server.agent(), Vec::new());
    for round in 0..ROUNDS {
        let call = json!({ "tool_name": "research.web_search", "arguments": { "query": "x" } });
        results.push(expect_ok(agent.post("/execute", &call).await).to_string());
        let body = tool_call(round).to_string();
        let framing = format!("Content-Length: {}\r\n", body.len());
        let answer = raw(&server, &request(&server, &framing, &body)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{http}: {answer}");
        results.push(answer.split_once("\r\n\r\n").unwrap().1.to_owned());
    }
    assert_eq!(module.received().len(), 2 * ROUNDS, "{http}");
    let body = tool_call(0).to_string();
    let length = body.len();
    // The control: the same call in one chunk is answered.
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let framing = "Transfer-Encoding: chunked\r\n";
    let answer = raw(&server, &request(&server, framing, &chunked)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{http}: {answer}");
    for (framing, sent) in [
        (format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"), &body),
        (format!("Content-Length: {length}\r\nContent-Length: {}\r\n", length + 1), &body),
        (format!("Content-Length: +{length}\r\n"), &body),
        (format!("Content-Length : {length}\r\n"), &body),
        ("Transfer-Encoding: chunked, identity\r\n".to_owned(), &chunked),
        ("Transfer-Encoding: chunked\r\n".to_owned(), &body),
    ] {
        let answer = raw(&server, &request(&server, &framing, sent)).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{http}: {framing:?}: {answer}");
        results.push(answer.split_once("\r\n").map_or("", |(line, _)| line).to_owned());
    }
    assert_eq!(
        module.received().len(),
        2 * ROUNDS + 1,
        "{http}: a refused request reached the module"
    );
    results
}

#[tokio::test]
async fn both_http_settings_answer_the_same_and_refuse_the_same_framing() {
    let (fast, standard) = (results("fast").await, results("standard").await);
    assert_eq!(fast, standard);
}
