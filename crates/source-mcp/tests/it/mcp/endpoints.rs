//! Tests of HTTP endpoints with invalid or hostile behaviour.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::response::Response;
use serde_json::json;
use source_mcp::{HttpEndpoint, McpOptions, McpSource, ServerLimits};
use tokio::time::timeout;
use tool::executor::DispatchState;
use tool::source::SourceErrorKind;
use tool::{ErrorCode, Secret, Source as _};

use super::peer::text;
use super::runs::{Watch, body, runner, said};
use super::site::{Asked, Site, cut_reply, egress, reply, stream};

const SOON: Duration = Duration::from_secs(20);

fn event(text: &str) -> String {
    format!("data: {text}\n\n")
}

/// Answers calls by `then`, and all other requests normally.
fn calling(then: impl Fn(&Asked) -> Response + Clone + Send + Sync + 'static) -> Site {
    Site::script(move |asked| {
        let then = then.clone();
        async move { if asked.method() == "tools/call" { then(&asked) } else { asked.usual() } }
    })
}

/// Answers the handshake by `then`.
fn greeting(then: impl Fn(&Asked) -> Response + Clone + Send + Sync + 'static) -> Site {
    Site::script(move |asked| {
        let then = then.clone();
        async move { then(&asked) }
    })
}

#[tokio::test]
async fn headers_of_the_operator_are_on_every_request_and_results_pass_untouched() {
    const RESULT: &str =
        r#"{"content":[{"type":"hologram","x":1.0e2}],"n":123456789012345678901234567890}"#;
    let site = calling(|asked| {
        assert_eq!(asked.header("x-key"), Some("open sesame"));
        assert_eq!(asked.header("mcp-protocol-version"), Some("2025-11-25"));
        let id = &asked.message["id"];
        assert!(asked.body.ends_with(b"\"arguments\":{\"n\" : 1.50,\n\"z\":[1,2]}}}"));
        stream(&[
            ": hello\n\nevent: odd\ndata: {}\n\nother: field\n\n".to_owned(),
            event(
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#,
            ),
            event(&format!("{{\"id\":{id},\ndata: \"result\":{RESULT},\"jsonrpc\":\"2.0\"}}")),
        ])
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let outcome = tool.call("{\"n\" : 1.50,\n\"z\":[1,2]}").await.unwrap();
    assert_eq!(body(&outcome), RESULT);
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_message_past_the_bound_fails_its_call_alone() {
    let site = calling(|asked| {
        let size = asked.message["params"]["arguments"]["n"].as_u64().unwrap();
        let answer = asked.answer(&text(&"x".repeat(usize::try_from(size).unwrap())));
        if asked.message["params"]["arguments"]["sse"] == true {
            stream(&[event(&answer)])
        } else {
            reply(200, &[("content-type", "application/json")], answer)
        }
    });
    let bounds = ServerLimits { max_message_bytes: 10_000, ..ServerLimits::default() };
    let source = site.source(McpOptions { limits: bounds, ..McpOptions::default() });
    let tool = runner(&source, "web.tool").await;
    for sse in [true, false] {
        let call = |n: u32| tool.clone().owned(format!("{{\"n\":{n},\"sse\":{sse}}}"));
        let error = timeout(SOON, call(20_000)).await.unwrap().unwrap_err();
        assert!(error.message.contains("more than 10000 bytes"), "{error}");
        assert_eq!(said(&call(9).await.unwrap()), "xxxxxxxxx");
    }
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn statuses_that_are_no_success_are_told_in_words() {
    let site = calling(|asked| match asked.message["params"]["arguments"]["n"].as_u64().unwrap() {
        0 => reply(401, &[("www-authenticate", "Bearer realm=x")], "secret words"),
        1 => reply(429, &[("retry-after", "7")], ""),
        2 => reply(500, &[], "<h1>oh\u{1b}</h1>"),
        3 => reply(307, &[("location", "http://169.254.169.254/latest")], ""),
        4 => reply(200, &[("content-type", "text/html")], "<html>"),
        5 => reply(200, &[("content-type", "application/json")], "{\"hello\":1}"),
        6 => {
            let error = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": {"code": -32602, "message": "no n"}});
            reply(400, &[("content-type", "application/json")], error.to_string())
        }
        _ => stream(&[": nothing\n\n".to_owned()]),
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    for (n, code, part) in [
        (0, ErrorCode::UpstreamFailed, "rejected the request with HTTP 401"),
        (1, ErrorCode::RateLimited, "HTTP 429, retry after 7"),
        (2, ErrorCode::UpstreamFailed, "HTTP 500 Internal Server Error: <h1>oh\\u{1b}</h1>"),
        (
            3,
            ErrorCode::UpstreamFailed,
            "redirects to `http://169.254.169.254/latest`, which is not followed",
        ),
        (4, ErrorCode::UpstreamFailed, "content of type `text/html`"),
        (5, ErrorCode::UpstreamFailed, "invalid MCP message"),
        (6, ErrorCode::UpstreamFailed, "answered: no n (error -32602)"),
        (7, ErrorCode::UpstreamLost, "closed the connection during the call"),
    ] {
        let error = timeout(SOON, tool.call(&format!("{{\"n\":{n}}}"))).await.unwrap().unwrap_err();
        assert_eq!((error.code, error.dispatch), (code, DispatchState::MaybeSent), "{n}: {error}");
        assert!(error.message.contains(part), "{n}: {error}");
        assert!(!error.message.contains("secret words"), "{error}");
    }
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_session_that_expired_is_opened_anew_and_the_call_goes_through() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let site = Site::script(move |asked| {
        let opened = Arc::clone(&count);
        async move {
            let mut response = match asked.method() {
                "initialize" => {
                    opened.fetch_add(1, Ordering::SeqCst);
                    asked.usual()
                }
                "tools/call" if asked.header("mcp-session-id") == Some("s1") => {
                    return reply(404, &[], "");
                }
                "tools/call" => {
                    let answer = asked.answer(&text(asked.header("mcp-session-id").unwrap()));
                    return reply(200, &[("content-type", "application/json")], answer);
                }
                _ => asked.usual(),
            };
            let id = format!("s{}", opened.load(Ordering::SeqCst));
            response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
            response
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    assert_eq!(said(&timeout(SOON, tool.call("{}")).await.unwrap().unwrap()), "s2");
    assert_eq!(opened.load(Ordering::SeqCst), 2);
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_of_the_newest_revision_only_is_met_in_its_dialect_alone() {
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let site = greeting(move |asked| {
        let json = [("content-type", "application/json")];
        match asked.method() {
            "server/discover" => {
                assert_eq!(asked.header("mcp-method"), Some("server/discover"));
                let result = json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                });
                reply(200, &json, asked.answer(&result))
            }
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
                let tool = json!({"name": "tool", "description": "", "inputSchema": schema});
                let result = json!({"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"});
                reply(200, &json, asked.answer(&result))
            }
            "tools/call" => {
                assert_eq!(asked.header("mcp-name"), Some("tool"));
                assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
                assert_eq!(asked.header("mcp-session-id"), None);
                let region = asked.header("mcp-param-region").unwrap_or("none");
                let mut result = text(region);
                result["resultType"] = json!("complete");
                reply(200, &json, asked.answer(&result))
            }
            _ => {
                count.fetch_add(1, Ordering::SeqCst);
                reply(400, &[], "no such thing")
            }
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    assert_eq!(said(&tool.call(r#"{"region":"eu"}"#).await.unwrap()), "eu");
    assert_eq!(refused.load(Ordering::SeqCst), 0, "nothing but its dialect is spoken");
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_an_endpoint_is_said_at_the_list() {
    let listed = async |site: &Site| {
        let source = site.source(McpOptions::default());
        let error = timeout(SOON, source.list_offers()).await.unwrap().unwrap_err();
        timeout(SOON, source.shut_down()).await.unwrap();
        error
    };
    let site = greeting(|_| reply(404, &[], "no page here"));
    let error = listed(&site).await;
    assert_eq!(error.kind, SourceErrorKind::ErrorReply);
    assert_eq!(error.problem.message, "rejected the handshake: HTTP 404 Not Found: no page here");
    assert_eq!(error.problem.location, format!("`http://{}`", site.address));

    let error = listed(&greeting(|_| reply(401, &[], ""))).await;
    assert_eq!(error.problem.message, "rejected the request with HTTP 401");
    assert!(error.problem.help.unwrap().contains("`headers`"));

    let error = listed(&greeting(|_| reply(301, &[("location", "/mcp/")], ""))).await;
    assert!(error.problem.message.contains("redirects to `/mcp/`"), "{error}");

    let address = site.address;
    drop(site);
    let http = HttpEndpoint::new(&egress(), &format!("http://{address}/mcp"), &[]).unwrap();
    let source =
        McpSource::with_http(tool::SourceName::new("web").unwrap(), McpOptions::default(), http);
    let error = timeout(SOON, source.list_offers()).await.unwrap().unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Unreachable);
    assert!(error.problem.message.contains("cannot be reached"), "{error}");
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_that_never_answers_delays_nobody() {
    let site = Site::script(|_| std::future::pending());
    let bounds =
        ServerLimits { start_timeout: Duration::from_millis(200), ..ServerLimits::default() };
    let source = site.source(McpOptions { limits: bounds, ..McpOptions::default() });
    let error = timeout(SOON, source.list_offers()).await.unwrap().unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::TimedOut);
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// A server whose stream ends at once, repeatedly, and requests reconnects without delay.
#[tokio::test]
async fn a_stream_that_ends_at_once_is_not_opened_in_a_circle() {
    let gets = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&gets);
    let site = greeting(move |asked| match asked.parts.method.as_str() {
        "GET" if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => {
            stream(&["id: 1\nretry: 0\ndata:\n\n".to_owned()])
        }
        "GET" => cut_reply("text/event-stream", "data"),
        _ => {
            let mut response = asked.usual();
            response.headers_mut().insert("mcp-session-id", "s".parse().unwrap());
            response
        }
    });
    let source = site.source(McpOptions::default());
    source.list_offers().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let gets = gets.load(Ordering::SeqCst);
    assert!((1..=6).contains(&gets), "{gets}");
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_closes_its_stream() {
    let open = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&open);
    let site = calling(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        let counted = Arc::clone(&count);
        let guard = scopeguard(move || {
            counted.fetch_sub(1, Ordering::SeqCst);
        });
        let body = futures_util::stream::unfold(guard, |guard| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(": still here\n\n"), guard))
        });
        let body = axum::body::Body::from_stream(body);
        Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let watch = Watch::default();
    let (result, ()) = tokio::join!(tool.watched("{}", &watch), async {
        while open.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        watch.cancel.cancel();
    });
    assert_eq!(result.unwrap_err().code, ErrorCode::Cancelled);
    let closed = async {
        while open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, closed).await.unwrap();
    timeout(SOON, source.shut_down()).await.unwrap();
}

struct Guard<F: FnMut()>(F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn scopeguard<F: FnMut()>(then: F) -> Guard<F> {
    Guard(then)
}

#[test]
fn addresses_and_headers_that_cannot_be_used_are_named() {
    let made = |url: &str, name: &str, value: &str| {
        let headers = [(name.to_owned(), Secret::new(value))];
        HttpEndpoint::new(&egress(), url, &headers).unwrap_err()
    };
    assert!(made("ftp://x/", "a", "b").message.contains("`ftp`"));
    assert!(made("http://u:p@x/", "a", "b").message.contains("user name or password"));
    let reserved = made("http://x/", "Mcp-Session-Id", "b");
    assert_eq!(
        (&*reserved.location, &*reserved.message),
        ("headers.Mcp-Session-Id", "is set by the protocol")
    );
    assert!(made("http://x/", "a b", "b").message.contains("not a valid header name"));
    let broken = made("http://x/", "a", "b\nsecret");
    assert!(broken.message.contains("line break") && !format!("{broken:?}").contains("secret"));
}
