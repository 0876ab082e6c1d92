//! Tests of raw requests that two HTTP parsers could frame differently.

use serde_json::Value;
use testkit::shared_data::read_rows;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tool::PermissionLevel;

use super::{bytes, with_key};
use crate::support::client::connect;
use crate::support::{Client, FixtureServer, within_a_minute};

const FILE: &str = "attacks/http_framing.jsonl";

/// The rows of these families that are there as bytes.
fn rows_of(families: &[&str]) -> Vec<Value> {
    let rows = read_rows(FILE);
    let belongs = |row: &Value| {
        let name = row["name"].as_str().unwrap();
        row["raw_b64"].is_string() && families.iter().any(|family| name.starts_with(family))
    };
    rows.into_iter().filter(belongs).collect()
}

/// All that comes back until the other side closes.
async fn answered(server: &FixtureServer, request: &[u8]) -> String {
    let mut stream = connect(server.address).await;
    // The server may close before all is written.
    drop(stream.write_all(request).await);
    drop(stream.shutdown().await);
    let mut answer = Vec::new();
    drop(within_a_minute(stream.read_to_end(&mut answer)).await);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The statuses in it.
fn statuses(answer: &str) -> Vec<&str> {
    let lines = answer.match_indices("HTTP/1.1 ").filter_map(|(at, _)| answer.get(at + 9..at + 12));
    lines.filter(|status| status.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// Bytes after the head.
fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// Number of requests for a parser that trusts `Content-Length` alone.
fn by_length(mut request: &[u8]) -> usize {
    let mut seen = 0;
    while let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
        seen += 1;
        let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        request = request.get(end + 4 + length..).unwrap_or_default();
    }
    seen
}

#[tokio::test]
async fn one_request_is_never_two() {
    let rows = rows_of(&["cl-", "te-", "chunk-"]);
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut fooled = 0;
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let request = with_key(&bytes(row), &ann.authorization_line());
        // Positive control: a reader that believes one of the two headers is fooled.
        fooled += usize::from(by_length(&request) > 1);
        let answer = answered(&server, &request).await;
        let statuses = statuses(&answer);
        // Requests that the server's parser rejects have no body; all others were parsed as
        // requests.
        assert!(answer.matches("content-type: ").count() <= 1, "{name}: {answer}");
        assert!(statuses.iter().all(|status| status.starts_with('4')), "{name}: {answer}");
    }
    assert!(rows.len() > 15 && fooled > 0, "{} rows, {fooled} fooled", rows.len());
    assert_eq!(server.ledger.all_records(), []);
}

#[tokio::test]
async fn odd_lines_and_headers_open_nothing() {
    let rows = rows_of(&["line-", "header-"]);
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut reached = 0;
    for row in &rows {
        let (name, request) = (row["name"].as_str().unwrap(), bytes(row));
        let bare = answered(&server, &request).await;
        let refused = statuses(&bare).iter().all(|status| status.starts_with('4'));
        assert!(refused && !bare.is_empty(), "{name} without a key: {bare}");
        // With a key, the request is the one of its request line, and no header changes that.
        let keyed = answered(&server, &with_key(&request, &ann.authorization_line())).await;
        let statuses = statuses(&keyed);
        assert!(!keyed.is_empty() && statuses.len() <= 1, "{name}: {keyed}");
        assert!(!statuses.concat().starts_with('5'), "{name}: {keyed}");
        if statuses == ["200"] {
            let plain = format!(
                "GET /tools HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
                ann.authorization_line()
            );
            assert_eq!(body(&keyed), body(&answered(&server, plain.as_bytes()).await), "{name}");
            reached += 1;
        }
    }
    // Positive control: with a key some of them find a resource.
    assert!(reached > 0 && reached < rows.len(), "{reached} of {}", rows.len());
}

#[tokio::test]
async fn a_page_of_another_site_executes_nothing() {
    let rows = rows_of(&["csrf-ct-"]);
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let request = with_key(&bytes(row), &ann.authorization_line());
        assert_eq!(statuses(&answered(&server, &request).await), ["403"], "{name}");
        // The same without an origin: the media type alone decides.
        let text =
            String::from_utf8(request).unwrap().replace("Origin: http://evil.example\r\n", "");
        let accept = "Accept: application/json, text/event-stream\r\n";
        let text = with_key(text.as_bytes(), accept);
        let expected =
            if row["expect"].as_str().unwrap().starts_with("ok") { "200" } else { "415" };
        assert_eq!(statuses(&answered(&server, &text).await), [expected], "{name}");
    }
    assert!(rows.len() > 4, "{}", rows.len());
    assert_eq!(server.ledger.all_records(), []);
}

/// The row with what else a request must have, so that only its own fault is one.
fn whole(row: &Value, client: &Client) -> Vec<u8> {
    let text = String::from_utf8(with_key(&bytes(row), &client.authorization_line())).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    let body = body.replace(version, &format!("{version},{capabilities}"));
    let body = body.replace("run_shell", "region");
    let head = head.replace("run_shell", "region").replace("cnVuX3NoZWxs", "cmVnaW9u");
    let old = format!("Content-Length: {}", text.split_once("\r\n\r\n").unwrap().1.len());
    let head = head.replace(&old, &format!("Content-Length: {}", body.len()));
    format!("{head}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn headers_that_say_something_else_than_the_body_are_refused() {
    let rows = rows_of(&["mcp-header-"]);
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut taken = 0;
    for row in &rows {
        let answer = answered(&server, &whole(row, &ann)).await;
        let status = statuses(&answer).concat();
        if row["expect"].as_str().unwrap().starts_with("400") {
            assert_eq!(status, "400", "{}: {answer}", row["name"]);
            assert!(answer.contains("-32020"), "{answer}");
        } else {
            // Positive control: consistent headers in another notation are accepted.
            assert_eq!(status, "200", "{}: {answer}", row["name"]);
            taken += 1;
        }
    }
    assert_eq!((server.recorded_intents().len(), taken > 0), (taken, true));
    assert!(
        server.recorded_intents().iter().all(|intent| intent.tool_key.name.as_str() == "region")
    );
}

/// Whether a line of the head is a `Set-Cookie` header.
fn sets_cookie(answer: &str) -> bool {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let mut lines = head.split(['\r', '\n']);
    lines.any(|line| line.to_lowercase().starts_with("set-cookie"))
}

/// The path with its `%XX` as bytes.
fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(2.min(part.len()));
        match u8::from_str_radix(digits, 16) {
            Ok(byte) => text.push(char::from(byte)),
            Err(_) => text.push_str(digits),
        }
        text.push_str(rest);
    }
    text
}

#[tokio::test]
async fn a_path_splits_no_answer() {
    let rows = read_rows(FILE);
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let paths: Vec<_> = rows.iter().filter_map(|row| row["path"].as_str()).collect();
    let mut fooled = 0;
    for path in &paths {
        // Positive control: a server that answers with the decoded path in a header splits its answer.
        let naive = format!("HTTP/1.1 302 Found\r\nLocation: {}\r\n\r\n", decoded(path));
        fooled += usize::from(sets_cookie(&naive));
        for path in [(*path).to_owned(), format!("/mcp{path}"), format!("/v1/tools{path}")] {
            let key = ann.authorization_line();
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{key}\r\n");
            let answer = answered(&server, request.as_bytes()).await;
            assert!(!sets_cookie(&answer), "{path}: {answer}");
            assert_eq!(statuses(&answer).len(), 1, "{path}");
        }
    }
    assert!(fooled > 0, "none of {} paths would split a careless answer", paths.len());
}
