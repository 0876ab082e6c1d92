//! Tests of endpoints that speak both eras, and of their negotiation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::Response;
use serde_json::json;
use source_mcp::McpOptions;
use tokio::time::{sleep, timeout};
use tool::{Json, Source as _};

use super::peer::{definition, text};
use super::runs::{Runner, Setup, done, json as checked, runner, said};
use super::site::{Asked, Site, reply};

const SOON: Duration = Duration::from_secs(20);
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// Eras that an endpoint speaks at the moment.
#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Both,
    Older,
    Newer,
}

fn stateless(asked: &Asked) -> bool {
    let meta = &asked.message["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
}

/// Answers each call with the era in which it arrived.
fn answer(asked: &Asked, speaks: Speaks) -> Response {
    let era = if stateless(asked) { "newer" } else { "older" };
    let (older, newer) = (speaks != Speaks::Newer, speaks != Speaks::Older);
    let refused = || {
        let error = json!({"code": -32_000, "message": "Bad Request: no valid session"});
        let error = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
        reply(400, &JSON, error.to_string())
    };
    match asked.method() {
        "server/discover" if newer => {
            let spoken: &[&str] =
                if older { &["2026-07-28", "2025-11-25"] } else { &["2026-07-28"] };
            let result = json!({"supportedVersions": spoken, "capabilities": {"tools": {}}});
            reply(200, &JSON, asked.answer(&result))
        }
        "initialize" if older && !stateless(asked) => {
            let mut response = asked.usual();
            response.headers_mut().insert("mcp-session-id", "s".parse().unwrap());
            response
        }
        "tools/list" => {
            let mut marked = definition("marked");
            marked["inputSchema"]["properties"] =
                json!({"a": {"type": "number", "x-mcp-header": "A"}});
            let tools = json!({"tools": [definition("tool"), marked]});
            reply(200, &JSON, asked.answer(&tools))
        }
        "tools/call" if stateless(asked) && newer || !stateless(asked) && older => {
            reply(200, &JSON, asked.answer(&text(era)))
        }
        "initialize" | "server/discover" | "tools/call" => refused(),
        _ => asked.usual(),
    }
}

/// Received methods.
type Heard = Arc<Mutex<Vec<String>>>;

/// Creates the endpoint with its switchable eras.
fn site(speaks: Speaks) -> (Site, Arc<Mutex<Speaks>>, Heard) {
    let (now, heard) = (Arc::new(Mutex::new(speaks)), Arc::new(Mutex::new(Vec::new())));
    let (of, log) = (Arc::clone(&now), Arc::clone(&heard));
    let site = Site::script(move |asked| {
        let (of, log) = (Arc::clone(&of), Arc::clone(&log));
        async move {
            let speaks = *of.lock().unwrap();
            log.lock().unwrap().push(asked.method().to_owned());
            answer(&asked, speaks)
        }
    });
    (site, now, heard)
}

fn newer() -> Json {
    checked(r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#)
}

async fn of_older_client(tool: &Runner) -> String {
    said(&done(timeout(SOON, tool.step("{}", Setup::default())).await.unwrap().unwrap()))
}

async fn of_newer_client(tool: &Runner) -> String {
    let meta = newer();
    let setup = Setup { meta: Some(&meta), ..Setup::default() };
    said(&done(timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap()))
}

#[tokio::test]
async fn a_call_goes_out_in_the_era_of_its_caller() {
    for (speaks, older, newer) in [
        (Speaks::Both, "older", "newer"),
        (Speaks::Older, "older", "older"),
        (Speaks::Newer, "newer", "newer"),
    ] {
        let (site, _, heard) = site(speaks);
        let source = site.source(McpOptions::default());
        let tool = runner(&source, "web.tool").await;
        assert_eq!(of_older_client(&tool).await, older);
        assert_eq!(of_newer_client(&tool).await, newer);
        timeout(SOON, source.shut_down()).await.unwrap();
        let heard = heard.lock().unwrap();
        let greetings = |method: &str| heard.iter().filter(|heard| *heard == method).count();
        let initialized = usize::from(speaks != Speaks::Newer);
        assert_eq!((greetings("server/discover"), greetings("initialize")), (1, initialized));
    }
}

/// Headers repeat nothing in the handshake era, so invalid annotations do not matter there.
#[tokio::test]
async fn a_tool_whose_marks_do_not_hold_is_called_in_the_older_era() {
    let (site, ..) = site(Speaks::Both);
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.marked").await;
    assert_eq!(of_newer_client(&tool).await, "older");
    timeout(SOON, source.shut_down()).await.unwrap();

    let (site, ..) = self::site(Speaks::Newer);
    let source = site.source(McpOptions::default());
    let listing = timeout(SOON, source.list_offers()).await.unwrap().unwrap();
    let mut problems = listing.problems.iter();
    assert!(problems.any(|it| it.location == "tool `marked`"), "{:?}", listing.problems);
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// One era stops and the other continues.
#[tokio::test]
async fn either_era_may_go_alone() {
    let (site, now, _) = site(Speaks::Both);
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    assert_eq!(of_newer_client(&tool).await, "newer");
    *now.lock().unwrap() = Speaks::Newer;
    let (meta, failed) = (newer(), AtomicUsize::new(0));
    let met_anew = async {
        loop {
            // The older session is refused; the remaining era is negotiated.
            match tool.step("{}", Setup::default()).await {
                Ok(step) => break said(&done(step)),
                Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
            }
            let setup = Setup { meta: Some(&meta), ..Setup::default() };
            assert_eq!(said(&done(tool.step("{}", setup).await.unwrap())), "newer");
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(timeout(SOON, met_anew).await.unwrap(), "newer");
    assert!(failed.load(Ordering::Relaxed) > 0);
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// MCP: a version that is rejected but listed as supported is tried again.
#[tokio::test]
async fn a_revision_that_is_refused_and_named_is_asked_for_once_more() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let site = Site::script(move |asked| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if !first {
                return answer(&asked, Speaks::Newer);
            }
            let error =
                json!({"code": -32_022, "message": "no", "data": {"supported": ["2026-07-28"]}});
            let error = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
            reply(400, &JSON, error.to_string())
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    assert_eq!(of_older_client(&tool).await, "newer");
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// Counts requests whose client has given up.
struct Waits(Arc<AtomicUsize>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An older server may never answer an unknown method: it gets `initialize` in parallel, and the
/// second time at once.
#[tokio::test]
async fn one_that_never_answers_is_greeted_in_the_older_words_meanwhile() {
    let (waiting, beside) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (waits, saw) = (Arc::clone(&waiting), Arc::clone(&beside));
    let site = Site::script(move |asked| {
        let (waits, saw) = (Arc::clone(&waits), Arc::clone(&saw));
        async move {
            if asked.method() == "server/discover" {
                waits.fetch_add(1, Ordering::SeqCst);
                let _waits = Waits(waits);
                return std::future::pending().await;
            }
            if asked.method() == "initialize" {
                saw.lock().unwrap().push(waits.load(Ordering::SeqCst));
            }
            answer(&asked, Speaks::Older)
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    assert_eq!(of_newer_client(&tool).await, "older");
    assert_eq!(*beside.lock().unwrap(), [1], "it was greeted while the probe was on its way");
    timeout(SOON, source.shut_down()).await.unwrap();
    timeout(SOON, async {
        while waiting.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the probe is given up");
}
