use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use egress::{Dialer, EgressClient, EgressOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tool::{AccessScope, BoxFuture, OutcomeBody};

use super::http_request;
use crate::tests::{clock, execute};
use builtin_manifests::ToolFamily;
use tool_manifest::BuiltinTool;

/// Dialer that leads every public address to one local listener.
#[derive(Debug)]
struct Lead(SocketAddr);

impl Dialer for Lead {
    fn dial_address(
        &self,
        address: SocketAddr,
    ) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        Box::pin(async move {
            #[expect(
                clippy::disallowed_methods,
                reason = "the test leads the connection elsewhere"
            )]
            let stream = TcpStream::connect(self.0).await?;
            Ok((stream, address))
        })
    }
}

struct Site {
    tools: [BuiltinTool; 2],
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

/// Responds to each request with the result of `answer`, then closes.
#[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
async fn site(answer: fn(&str) -> Vec<u8>) -> Site {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    drop(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 64 << 10];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            told.lock().unwrap().push(request.clone());
            // A client that has read enough may have disconnected.
            let _gone = stream.write_all(&answer(&request)).await;
        }
    }));
    let settings = EgressOptions { dialer: Arc::new(Lead(address)), ..EgressOptions::default() };
    let egress = EgressClient::new(settings).unwrap();
    let registry = ToolFamily::General.registry();
    let tools = http_request::build_tools(registry, &egress, &clock()).map(Option::unwrap);
    Site { tools, address, heard }
}

impl Site {
    async fn call(&self, name: &str, args: Value) -> (bool, Value) {
        let tool = self.tools.iter().find(|tool| tool.tool.name.as_str() == name).unwrap();
        let outcome = execute(tool.clone(), &args.to_string()).await;
        let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
        (outcome.is_error, json.to_value())
    }
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn an_answer_comes_in_the_research_registry_format() {
    let site = site(|_| answer("404 Not Found\r\nx-a: 1\r\nx-a: 2", b"not here")).await;
    let args = json!({ "url": "http://8.8.8.8/x?y=z#part", "headers": { "X-Mine": "v" } });
    let (failed, answered) = site.call("http_get", args).await;
    assert!(!failed);
    let wanted = json!({
        "status_code": 404,
        "headers": { "x-a": "1, 2", "content-length": "8" },
        "body": "not here",
        "truncated": false,
        "elapsed_ms": 0,
    });
    assert_eq!(answered, wanted);
    let heard = &site.heard()[0];
    assert!(
        heard.starts_with("GET /x?y=z HTTP/1.1\r\n") && heard.contains("x-mine: v\r\n"),
        "{heard}"
    );
}

#[tokio::test]
async fn data_goes_as_json() {
    let site = site(|_| answer("200 OK", b"{}")).await;
    let args = json!({ "url": "http://8.8.8.8/", "data": { "a": [1, "x"] } });
    assert_eq!(site.call("http_post", args).await.1["status_code"], 200);
    let heard = &site.heard()[0];
    assert!(heard.starts_with("POST / HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains("content-type: application/json\r\n"), "{heard}");
    assert!(heard.ends_with(r#"{"a":[1,"x"]}"#), "{heard}");
}

#[tokio::test]
async fn a_redirect_is_followed_and_judged() {
    let site = site(|request| {
        if request.starts_with("GET /inside ") {
            answer("302 Found\r\nlocation: http://127.0.0.1/", b"")
        } else if request.starts_with("GET /next ") {
            answer("302 Found\r\nlocation: /there", b"")
        } else {
            answer("200 OK", b"there")
        }
    })
    .await;
    let (_, answered) = site.call("http_get", json!({ "url": "http://8.8.8.8/next" })).await;
    assert_eq!(answered["body"], "there");
    let (failed, answered) = site.call("http_get", json!({ "url": "http://8.8.8.8/inside" })).await;
    assert!(failed && answered["status_code"] == 0, "{answered}");
    assert_eq!(site.heard().len(), 3);
}

#[tokio::test]
async fn what_is_not_public_is_never_asked() {
    let site = site(|_| answer("200 OK", b"secret")).await;
    let own = format!("http://{}/", site.address);
    for url in [
        &own,
        "http://localhost/",
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "file:///etc/passwd",
        "x",
    ] {
        let (failed, answered) = site.call("http_get", json!({ "url": url })).await;
        assert!(failed && answered["status_code"] == 0, "{url}: {answered}");
        assert!(!answered["error"].as_str().unwrap().is_empty());
    }
    assert!(site.heard().is_empty());
    // Control: the listener is reachable by a public address.
    let (_, answered) = site.call("http_get", json!({ "url": "http://8.8.8.8/" })).await;
    assert_eq!(answered["body"], "secret");
}

#[tokio::test]
async fn a_long_body_is_cut_and_an_old_one_is_read() {
    let site = site(|request| {
        if request.starts_with("GET /long ") {
            answer("200 OK", "é".repeat(300_000).as_bytes())
        } else {
            answer("200 OK\r\ncontent-type: text/plain; charset=ISO-8859-1", b"\xe9")
        }
    })
    .await;
    let (_, answered) = site.call("http_get", json!({ "url": "http://8.8.8.8/long" })).await;
    assert_eq!(answered["truncated"], true);
    assert_eq!(answered["body"].as_str().unwrap().chars().count(), 100_000);
    let (_, answered) = site.call("http_get", json!({ "url": "http://8.8.8.8/old" })).await;
    assert_eq!(answered["body"], "é");
}

/// Regression: `iso-8859-1` was decoded as Latin-1, in which these bytes are control characters.
#[tokio::test]
async fn a_charset_is_that_of_the_whatwg() {
    let site = site(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
        let kind = format!("200 OK\r\ncontent-type: text/html; charset={path}");
        answer(&kind, b"\x93\x80 5\x94 \xe9")
    })
    .await;
    let typographic = "\u{201c}€ 5\u{201d} é";
    for (label, expected) in [
        ("iso-8859-1", typographic),
        ("latin1", typographic),
        ("Windows-1252", typographic),
        ("us-ascii;x=y", typographic),
        // Controls: other labels are other encodings, an unknown one is UTF-8.
        ("koi8-r", "⌠─ 5■ И"),
        ("iso-8859-15", "\u{93}\u{80} 5\u{94} é"),
        ("no-such", "\u{fffd}\u{fffd} 5\u{fffd} \u{fffd}"),
    ] {
        let url = format!("http://8.8.8.8/{label}");
        let (_, answered) = site.call("http_get", json!({ "url": url })).await;
        assert_eq!(answered["body"], expected, "{label}");
    }
}

#[tokio::test]
async fn headers_of_the_connection_are_not_the_callers() {
    let site = site(|_| answer("200 OK", b"")).await;
    for (name, value) in [("Host", "x"), ("content-length", "0"), ("a b", "x"), ("x", "a\nb: c")] {
        let args = json!({ "url": "http://8.8.8.8/", "headers": { name: value } });
        let (failed, answered) = site.call("http_get", args).await;
        assert!(
            failed && answered["error"].as_str().unwrap().starts_with("headers: "),
            "{answered}"
        );
    }
    assert!(site.heard().is_empty());
}

#[tokio::test]
async fn they_say_what_they_reach_for() {
    let [get, post] = site(|_| Vec::new()).await.tools;
    assert!(
        !get.tool.traits.effects.may_change_state() && post.tool.traits.effects.may_change_state()
    );
    for tool in [get, post] {
        assert_eq!(
            (tool.tool.traits.scopes.as_slice(), tool.tool.traits.categories.as_slice()),
            (&[AccessScope::Network][..], &["web".to_owned()][..])
        );
    }
}
