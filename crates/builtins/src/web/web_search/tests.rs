//! Tests of the search backends against local servers.

use std::sync::{Arc, Mutex};

use egress::{EgressClient, EgressOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tool::OutcomeBody;

use super::SearchEngine;
use crate::tests::execute;
use crate::web::{WebEndpoint, WebEndpoints};
use builtin_manifests::ToolFamily;

type Heard = Arc<Mutex<Vec<String>>>;

/// Responds to each request with the same answer, and records the requests.
#[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
async fn site(status: &'static str, body: String) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 64 << 10];
            let read = stream.read(&mut request).await.unwrap();
            let line = String::from_utf8_lossy(&request[..read]).lines().next().unwrap().to_owned();
            told.lock().unwrap().push(line);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (format!("http://{address}/searx"), heard)
}

async fn searched(at: &str, args: Value) -> (bool, Value) {
    let search = SearchEngine::SearXng(WebEndpoint::operator_site(at).unwrap());
    let endpoints = WebEndpoints { search_engine: search, ..WebEndpoints::default() };
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let builtin = super::build_tool(ToolFamily::General.registry(), egress, &endpoints).unwrap();
    let outcome = execute(builtin, &args.to_string()).await;
    let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
    (outcome.is_error, json.to_value())
}

/// Builds a response in SearXNG's format.
fn page(results: &Value, silent: &Value) -> String {
    json!({
        "query": "rust language", "number_of_results": 0, "results": results, "answers": [],
        "corrections": [], "infoboxes": [], "suggestions": ["rust lang"], "unresponsive_engines": silent,
    })
    .to_string()
}

fn result(url: &str, title: &str) -> Value {
    json!({
        "url": url, "title": title, "content": " A language. ", "publishedDate": null, "thumbnail": "",
        "engine": "brave", "template": "default.html", "parsed_url": ["https", "www.rust-lang.org", "/", "", "", ""],
        "img_src": "", "priority": "", "engines": ["brave", "bing"], "positions": [1, 2], "score": 3.0,
        "category": "general",
    })
}

#[tokio::test]
async fn a_searxng_is_asked_in_its_own_words() {
    let found = json!([
        result("https://a.example/", "A"),
        result("", "none"),
        result("https://b.example/", "B")
    ]);
    let (at, heard) = site("200 OK", page(&found, &json!([]))).await;
    let (failed, told) =
        searched(&at, json!({"query": "rust & language", "region": "de-de"})).await;
    let one = |url: &str, title: &str| json!({"title": title, "url": url, "snippet": "A language.", "source": "searxng"});
    assert_eq!(
        (failed, told),
        (false, json!([one("https://a.example/", "A"), one("https://b.example/", "B")]))
    );
    let (_, told) = searched(&at, json!({"query": "rust", "max_results": 1})).await;
    assert_eq!(told, json!([one("https://a.example/", "A")]));
    let heard = heard.lock().unwrap().clone();
    assert_eq!(
        heard,
        [
            "GET /searx/search?q=rust%20%26%20language&format=json&language=de-DE HTTP/1.1",
            "GET /searx/search?q=rust&format=json&language=all HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn what_a_searxng_cannot_say_is_told() {
    let silent = json!([["brave", "Suspended: too many requests"]]);
    for (status, body, says) in [
        ("403 Forbidden", String::new(), "add `json` to `search.formats`"),
        ("200 OK", page(&json!([]), &silent), "engines did not respond"),
        ("200 OK", "<html></html>".to_owned(), "parse_error"),
        ("429 Too Many Requests", String::new(), "rate_limit"),
    ] {
        let (at, _) = site(status, body).await;
        let (failed, told) = searched(&at, json!({"query": "x"})).await;
        assert!(failed && told.as_str().unwrap().contains(says), "{status}: {told}");
    }
    let (at, _) = site("200 OK", page(&json!([]), &json!([]))).await;
    assert_eq!(searched(&at, json!({"query": "x"})).await, (false, json!([])));
}
