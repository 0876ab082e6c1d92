//! Tests of sessions and stateless requests, as endpoints see them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::Response;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use source_mcp::{EraSelection, McpOptions};
use tokio::time::timeout;
use tool::{ErrorCode, Source as _};

use super::peer::{Peer, definition, names, text};
use super::runs::{Client, Setup, Watch, done, runner, said};
use super::site::{Asked, Site, endless, reply, stream};

const SOON: Duration = Duration::from_secs(20);
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// Requests seen by an endpoint: HTTP method, MCP method, version and session.
type Seen = Arc<Mutex<Vec<[String; 4]>>>;

fn note(seen: &Seen, asked: &Asked) {
    let header = |name| asked.header(name).unwrap_or("-").to_owned();
    let line = [
        asked.parts.method.to_string(),
        asked.method().to_owned(),
        header("mcp-protocol-version"),
        header("mcp-session-id"),
    ];
    seen.lock().unwrap().push(line);
}

fn within(mut response: Response, session: &str) -> Response {
    response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    response
}

#[tokio::test]
async fn a_session_has_its_revision_and_its_id_on_every_request_and_is_ended() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let seen = Seen::default();
        let noted = Arc::clone(&seen);
        let site = Site::script(move |asked| {
            note(&noted, &asked);
            async move {
                match asked.method() {
                    "initialize" => {
                        assert_eq!(asked.header("mcp-method"), Some("initialize"));
                        let params = &asked.message["params"];
                        assert_eq!(params["protocolVersion"], "2025-11-25");
                        let can = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {},
                            "extensions": {"io.modelcontextprotocol/ui":
                                {"mimeTypes": ["text/html;profile=mcp-app"]},
                                "io.modelcontextprotocol/skills": {}}});
                        assert_eq!(params["capabilities"], can);
                        let result = json!({"protocolVersion": version, "capabilities": {}});
                        within(reply(200, &JSON, asked.answer(&result)), "s 1")
                    }
                    "" if asked.parts.method == "DELETE" => reply(204, &[], ""),
                    _ => asked.usual(),
                }
            }
        });
        let source = site.source(McpOptions::default());
        assert_eq!(names(&source).await, ["web.tool"]);
        timeout(SOON, source.shut_down()).await.unwrap();
        let mut seen = seen.lock().unwrap().clone();
        assert_eq!(seen.remove(0), ["POST", "server/discover", "2026-07-28", "-"]);
        assert_eq!(seen[0], ["POST", "initialize", "-", "-"]);
        assert_eq!(seen[1], ["POST", "notifications/initialized", version, "s 1"]);
        assert!(seen.contains(&["POST", "tools/list", version, "s 1"].map(str::to_owned)));
        assert!(seen.contains(&["GET", "", version, "s 1"].map(str::to_owned)));
        assert_eq!(seen.last().unwrap(), &["DELETE", "", version, "s 1"]);
    }
}

/// Endpoint of 2026-07-28 with these tools; rejects `initialize` with MCP's error.
fn stateless(tools: Value) -> Site {
    Site::script(move |asked| {
        let tools = tools.clone();
        async move {
            match asked.method() {
                "server/discover" => {
                    let result =
                        json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
                    reply(200, &JSON, asked.answer(&result))
                }
                "tools/list" => reply(200, &JSON, asked.answer(&json!({"tools": tools}))),
                "tools/call" => {
                    let error = json!({"code": -32602, "message": "no", "data": [1]});
                    let error =
                        json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
                    reply(404, &JSON, error.to_string())
                }
                _ => {
                    let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
                    let error = json!({"code": -32022, "message": "unsupported", "data": data});
                    let error =
                        json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
                    reply(400, &JSON, error.to_string())
                }
            }
        }
    })
}

#[tokio::test]
async fn a_refusal_with_a_status_is_the_refusal_and_leads_to_the_other_era() {
    let site = stateless(json!([definition("tool")]));
    let source = site.source(McpOptions::default());
    let error = runner(&source, "web.tool").await.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    let rpc = error.rpc_error.unwrap();
    assert_eq!((rpc.code, &*rpc.message, rpc.data.unwrap().as_str()), (-32602, "no", "[1]"));
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_tool_whose_marks_do_not_hold_is_left_out_where_headers_count() {
    let mut odd = definition("odd");
    odd["inputSchema"]["properties"] = json!({"a": {"type": "string", "x-mcp-header": "b c"}});
    let tools = json!([odd, definition("good")]);
    let site = stateless(tools.clone());
    let source = site.source(McpOptions::default());
    let listing = timeout(SOON, source.list_offers()).await.unwrap().unwrap();
    assert_eq!(listing.offers.len(), 1);
    let [problem] = &listing.problems[..] else { panic!("{:?}", listing.problems) };
    assert_eq!(problem.location, "tool `odd`");
    assert!(problem.message.contains("x-mcp-header") && problem.help.is_some(), "{problem:?}");
    timeout(SOON, source.shut_down()).await.unwrap();

    // Over pipes there are no headers to compare.
    let source = Peer::echo(tools.as_array().unwrap().clone()).source("s", McpOptions::default());
    assert_eq!(names(&source).await, ["s.odd", "s.good"]);
    source.shut_down().await;
}

#[tokio::test]
async fn one_bad_definition_takes_no_other_down_over_http() {
    const TOOLS: &str =
        r#"{"tools":[{"name":"a","name":"b","inputSchema":{}},{"name":"good","inputSchema":{}}]}"#;
    for streamed in [false, true] {
        let site = Site::script(move |asked| async move {
            if asked.method() != "tools/list" {
                return asked.usual();
            }
            let id = &asked.message["id"];
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{TOOLS}}}");
            if streamed {
                stream(&[format!("data: {answer}\n\n")])
            } else {
                reply(200, &JSON, answer)
            }
        });
        let source = site.source(McpOptions::default());
        assert_eq!(names(&source).await, ["web.good"]);
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

/// A server that restarted knows neither the session nor its subscriptions.
#[tokio::test]
async fn a_new_session_has_the_subscriptions_of_the_one_before() {
    let (opened, subscribed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&opened), Arc::clone(&subscribed));
    let site = Site::script(move |asked| {
        let (opened, subscribed) = counts.clone();
        async move {
            let session = asked.header("mcp-session-id").map(str::to_owned);
            let now = format!("s{}", opened.load(Ordering::SeqCst));
            match asked.method() {
                "initialize" => {
                    let now = opened.fetch_add(1, Ordering::SeqCst) + 1;
                    let can = json!({"tools": {}, "resources": {"subscribe": true}});
                    let result = json!({"protocolVersion": "2025-06-18", "capabilities": can});
                    within(reply(200, &JSON, asked.answer(&result)), &format!("s{now}"))
                }
                "tools/call" if session.as_deref() == Some("s1") => reply(404, &[], ""),
                "tools/call" => reply(200, &JSON, asked.answer(&text("there"))),
                "resources/subscribe" => {
                    assert_eq!(session, Some(now));
                    subscribed.fetch_add(1, Ordering::SeqCst);
                    reply(200, &JSON, asked.answer(&json!({})))
                }
                "" if asked.parts.method == "GET" => endless(": nothing\n\n".to_owned()),
                method if method.ends_with("/list") && method != "tools/list" => {
                    let lists = json!({"resources": [], "resourceTemplates": []});
                    reply(200, &JSON, asked.answer(&lists))
                }
                _ => asked.usual(),
            }
        }
    });
    let source = site.source(McpOptions::default());
    let subscribe = runner(&source, "mcp.resources.subscribe").await;
    let tool = runner(&source, "web.tool").await;
    let watch = Watch::default();
    let (ended, ()) = tokio::join!(subscribe.watched(r#"{"uri":"a:b"}"#, &watch), async {
        watch.heard("notifications/subscriptions/acknowledged", 1).await;
        assert_eq!(said(&tool.call("{}").await.unwrap()), "there");
        // Changes in between are unknown, so an update is reported.
        let told = watch.heard("notifications/resources/updated", 1);
        timeout(SOON, told).await.unwrap();
        watch.cancel.cancel();
    });
    assert!(ended.is_ok());
    assert_eq!((opened.load(Ordering::SeqCst), subscribed.load(Ordering::SeqCst)), (2, 2));
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// A stateless server that was replaced by a handshake-era one is negotiated again.
#[tokio::test]
async fn a_server_that_changed_its_era_is_met_in_the_other() {
    let stateless = Arc::new(AtomicUsize::new(1));
    let era = Arc::clone(&stateless);
    let peer = Peer::new(move |mut talk| {
        let era = Arc::clone(&era);
        async move {
            while let Some(request) = talk.hear().await {
                let now = era.load(Ordering::SeqCst) == 1;
                match request["method"].as_str() {
                    Some("server/discover") if now => {
                        let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
                        talk.answer(&request, result).await;
                    }
                    Some("initialize") if !now => {
                        let result =
                            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}});
                        talk.answer(&request, result).await;
                    }
                    Some("tools/list") => {
                        talk.answer(&request, json!({"tools": [definition("tool")]})).await;
                    }
                    Some("tools/call")
                        if !now
                            && request["params"]["_meta"]
                                .get("io.modelcontextprotocol/protocolVersion")
                                .is_none() =>
                    {
                        talk.answer(&request, text("older")).await;
                    }
                    Some(_) if request.get("id").is_some() => {
                        talk.refuse(&request, -32022, "unsupported revision").await;
                    }
                    _ => {}
                }
            }
            String::new()
        }
    });
    let source = peer
        .source("s", McpOptions { era_selection: EraSelection::Detect, ..McpOptions::default() });
    let tool = runner(&source, "s.tool").await;
    stateless.store(0, Ordering::SeqCst);
    assert_eq!(tool.call("{}").await.unwrap_err().rpc_error.unwrap().code, -32022);
    let again = async {
        loop {
            if let Ok(outcome) = tool.call("{}").await {
                return said(&outcome);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(timeout(SOON, again).await.unwrap(), "older");
    source.shut_down().await;
}

/// Server that sends requests on the server stream, as many do.
async fn asks_on_its_session(streams: bool) {
    let (begun, begins) = tokio::sync::watch::channel(0);
    let (told, heard) = tokio::sync::watch::channel(Vec::<Value>::new());
    let (begun, told) = (Arc::new(begun), Arc::new(told));
    let site = Site::script(move |asked| {
        let (begun, told) = (Arc::clone(&begun), Arc::clone(&told));
        let (mut begins, mut heard) = (begins.clone(), heard.clone());
        async move {
            match asked.method() {
                "initialize" => within(asked.usual(), "s"),
                "tools/call" => {
                    begun.send_modify(|count| *count += 1);
                    // Answered once its request is.
                    let id = asked.message["id"].clone();
                    if !streams {
                        let all = heard.wait_for(|all| !all.is_empty()).await.unwrap().clone();
                        return reply(200, &JSON, asked.answer(&text(&all[0].to_string())));
                    }
                    let rest = async move {
                        let all = heard.wait_for(|all| !all.is_empty()).await.unwrap().clone();
                        let result = json!({"jsonrpc": "2.0", "id": id, "result": text(&all[0].to_string())});
                        Ok::<_, std::io::Error>(format!("data: {result}\n\n"))
                    };
                    let body = axum::body::Body::from_stream(futures_util::stream::once(rest));
                    let response = Response::builder().header("content-type", "text/event-stream");
                    response.body(body).unwrap()
                }
                "" if asked.parts.method == "GET" => {
                    let question = async move {
                        begins.wait_for(|count| *count > 0).await.unwrap();
                        let question = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
                        Ok::<_, std::io::Error>(format!("data: {question}\n\n"))
                    };
                    let all = futures_util::stream::once(question);
                    let body =
                        axum::body::Body::from_stream(all.chain(futures_util::stream::pending()));
                    let response = Response::builder().header("content-type", "text/event-stream");
                    response.body(body).unwrap()
                }
                "" if asked.message["id"] == "q" => {
                    told.send_modify(|all| all.push(asked.message.clone()));
                    reply(202, &[], "")
                }
                _ => asked.usual(),
            }
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let client = Client::default();
    let setup = Setup { ask: Some(&client), ..Setup::default() };
    let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
    assert!(said(&done(step)).contains("file:///home"));
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_question_on_the_sessions_stream_is_of_the_only_call() {
    asks_on_its_session(true).await;
}

/// Such a server begins its response only when it is complete.
#[tokio::test]
async fn a_question_may_come_before_the_answer_begins() {
    asks_on_its_session(false).await;
}

/// Servers that report an unknown session with status 400 may have executed the call.
#[tokio::test]
async fn a_session_that_is_gone_in_words_only_fails_one_call_and_is_opened_anew() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let site = Site::script(move |asked| {
        let opened = Arc::clone(&count);
        async move {
            let session = asked.header("mcp-session-id").map(str::to_owned);
            match asked.method() {
                "initialize" => {
                    let now = opened.fetch_add(1, Ordering::SeqCst) + 1;
                    within(asked.usual(), &format!("s{now}"))
                }
                "tools/call" if session.as_deref() == Some("s1") => {
                    let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
                    let error = json!({"jsonrpc": "2.0", "id": null, "error": error});
                    reply(400, &JSON, error.to_string())
                }
                "tools/call" => reply(200, &JSON, asked.answer(&text("there"))),
                _ => asked.usual(),
            }
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let error = timeout(SOON, tool.call("{}")).await.unwrap().unwrap_err();
    assert_eq!(error.rpc_error.unwrap().code, -32000);
    assert_eq!(said(&timeout(SOON, tool.call("{}")).await.unwrap().unwrap()), "there");
    assert_eq!(opened.load(Ordering::SeqCst), 2);
    timeout(SOON, source.shut_down()).await.unwrap();
}
