//! Attribution of messages that name no call: to the only caller of the connection, or to none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use source_mcp::McpOptions;
use tokio::sync::watch;
use tokio::time::timeout;
use tool::{Caller, ExecuteError, Outcome, Source as _};

use super::peer::{Peer, Talk, definition, text};
use super::runs::{Client, Runner, Setup, Watch, done, runner, said};
use super::site::{Asked, Site, reply};

const SOON: Duration = Duration::from_secs(20);
const SECRET: &str = "A-SECRET-FILE";

/// Server whose tool starts a background job (`begin`) or never answers (`hold`). On any other word
/// it sends messages for its job and answers with the messages it received.
fn late() -> Peer {
    Peer::new(speaks_late)
}

async fn speaks_late(mut talk: Talk) -> String {
    talk.handshake(json!({"tools": {}})).await;
    let mut speaker = Value::Null;
    while let Some(request) = talk.hear().await {
        match (request["method"].as_str(), request["params"]["arguments"]["do"].as_str()) {
            (Some("tools/list"), _) => {
                talk.answer(&request, json!({"tools": [definition("tool")]})).await;
            }
            (Some("tools/call"), Some("begin")) => talk.answer(&request, text("begun")).await,
            (Some("tools/call"), Some("hold")) => {}
            (Some("tools/call"), _) => {
                speaker = request;
                talk.say(log()).await;
                talk.say(question()).await;
            }
            (None, _) => {
                let heard = request.get("result").unwrap_or(&request["error"]);
                talk.answer(&speaker, text(&heard.to_string())).await;
            }
            _ => {}
        }
    }
    String::new()
}

fn log() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": SECRET}})
}

fn question() -> Value {
    let message = format!("Delete {SECRET}?");
    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": {}}})
}

fn named(subject: &str) -> Caller {
    let caller = testkit::context::test_caller();
    Caller { subject: subject.to_owned(), key_id: format!("k-{subject}"), ..caller }
}

/// Calls the tool so that the server sends messages. Returns what the server received, how often
/// the caller was asked, and the number of its log lines.
async fn speak(tool: &Runner, caller: &Caller) -> (String, usize, usize) {
    let (client, watch) = (Client::default(), Watch::default());
    let setup =
        Setup { ask: Some(&client), watch: Some(&watch), caller: Some(caller), ..Setup::default() };
    let step = timeout(SOON, tool.step(r#"{"do":"speak"}"#, setup)).await.unwrap().unwrap();
    let (asked, logged) = (client.asked.lock().unwrap().len(), watch.notices.lock().unwrap().len());
    (said(&done(step)), asked, logged)
}

/// Makes a call that succeeds, or one that is cancelled while its server continues.
async fn first(
    tool: &Runner,
    peer: &Peer,
    (word, caller): (&str, &Caller),
) -> Result<Outcome, ExecuteError> {
    let watch = Watch::default();
    let args = json!({"do": word}).to_string();
    let setup = Setup { watch: Some(&watch), caller: Some(caller), ..Setup::default() };
    let gives_up = async {
        if word == "hold" {
            peer.hears(|m| m["params"]["arguments"]["do"] == "hold").await;
            watch.cancel.cancel();
        }
    };
    let (step, ()) = tokio::join!(tool.step(&args, setup), gives_up);
    step.map(done)
}

/// A server may send messages for a call that has ended: no other caller receives them.
#[tokio::test]
async fn what_an_ended_call_left_behind_reaches_no_other_caller() {
    let (ann, bob) = (named("ann"), named("bob"));
    for word in ["begin", "hold"] {
        let peer = late();
        let source = peer.source("s", McpOptions::default());
        let tool = runner(&source, "s.tool").await;
        assert_eq!(first(&tool, &peer, (word, &ann)).await.is_ok(), word == "begin");
        let (heard, asked, logged) = speak(&tool, &bob).await;
        assert_eq!((asked, logged), (0, 0), "{word}: {heard}");
        assert!(heard.contains("cannot be attributed"), "{word}: {heard}");
        source.shut_down().await;

        // Control: the only caller of a connection is asked and gets the log line.
        let peer = late();
        let source = peer.source("s", McpOptions::default());
        let tool = runner(&source, "s.tool").await;
        drop(first(&tool, &peer, (word, &ann)).await);
        let (heard, asked, logged) = speak(&tool, &ann).await;
        assert_eq!((asked, logged), (1, 1), "{word}: {heard}");
        assert!(heard.contains("accept"), "{word}: {heard}");
        source.shut_down().await;
    }
}

/// The same key of another subject, and another key of the same subject, are different callers.
#[tokio::test]
async fn a_caller_is_one_key_of_one_subject() {
    let ann = named("ann");
    for other in [
        Caller { subject: "bob".to_owned(), ..ann.clone() },
        Caller {
            key_id: "k-other".to_owned(),
            root_key_id: Some(ann.key_id.clone()),
            ..ann.clone()
        },
        Caller { org: tool::Org::new("other").unwrap(), ..ann.clone() },
    ] {
        let peer = late();
        let source = peer.source("s", McpOptions::default());
        let tool = runner(&source, "s.tool").await;
        first(&tool, &peer, ("begin", &ann)).await.unwrap();
        let (heard, asked, logged) = speak(&tool, &other).await;
        assert_eq!((asked, logged), (0, 0), "{other:?}: {heard}");
        source.shut_down().await;
    }
}

/// Once a server sends requests, each caller gets its own connection.
#[tokio::test]
async fn callers_of_a_server_that_asks_have_connections_of_their_own() {
    let (ann, bob) = (named("ann"), named("bob"));
    let peer = late();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    // Shared by two callers: no client is asked.
    first(&tool, &peer, ("begin", &ann)).await.unwrap();
    assert_eq!(speak(&tool, &bob).await.1, 0);
    assert_eq!(peer.starts(), 1);
    // From then on each caller is asked on its own connection, only about its own calls.
    for caller in [&ann, &bob, &ann] {
        let (heard, asked, logged) = speak(&tool, caller).await;
        assert_eq!((asked, logged), (1, 1), "{heard}");
    }
    assert_eq!(peer.starts(), 3);
    timeout(SOON, source.shut_down()).await.unwrap();
    assert_eq!(peer.alive(), 0);
}

/// If a caller was alone when the server first sent a request, it keeps the connection and its
/// server state.
#[tokio::test]
async fn the_first_caller_of_a_server_that_asks_keeps_its_connection() {
    let (ann, bob) = (named("ann"), named("bob"));
    let peer = late();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    for (caller, starts) in [(&ann, 1), (&bob, 2), (&ann, 2), (&bob, 2)] {
        let (heard, asked, logged) = speak(&tool, caller).await;
        assert_eq!((asked, logged), (1, 1), "{heard}");
        assert_eq!(peer.starts(), starts);
    }
    source.shut_down().await;
}

type Sessions<T> = watch::Sender<BTreeMap<String, T>>;

/// HTTP server that sends requests and logs on the server stream when its tool is told to.
#[derive(Default)]
struct Stage {
    /// Sessions in which it sends messages.
    speaks: Sessions<()>,
    /// Answers that it received in each session.
    heard: Sessions<Value>,
    opened: watch::Sender<usize>,
}

impl Stage {
    async fn answer(self: Arc<Self>, asked: Asked) -> Response {
        let session = asked.header("mcp-session-id").unwrap_or_default().to_owned();
        let json = [("content-type", "application/json")];
        match asked.method() {
            "server/discover" => reply(404, &[], ""),
            "initialize" => {
                self.opened.send_modify(|count| *count += 1);
                let mut answer = asked.usual();
                let number = self.opened.borrow().to_string();
                answer.headers_mut().insert("mcp-session-id", number.parse().unwrap());
                answer
            }
            "tools/call" if asked.message["params"]["arguments"]["do"] == "begin" => {
                reply(200, &json, asked.answer(&text("begun")))
            }
            "tools/call" => {
                self.speaks.send_modify(|all| all.extend([(session.clone(), ())]));
                let mut heard = self.heard.subscribe();
                let heard = heard.wait_for(|all| all.contains_key(&session)).await.unwrap();
                let said = text(&heard[&session].to_string());
                reply(200, &json, asked.answer(&said))
            }
            "" if asked.parts.method == "GET" => {
                let mut speaks = self.speaks.subscribe();
                let events = async move {
                    speaks.wait_for(|all| all.contains_key(&session)).await.unwrap();
                    let events = format!("data: {}\n\ndata: {}\n\n", log(), question());
                    Ok::<_, std::io::Error>(events)
                };
                let events = futures_util::stream::once(events);
                let body = Body::from_stream(events.chain(futures_util::stream::pending()));
                let response = Response::builder().header("content-type", "text/event-stream");
                response.body(body).unwrap()
            }
            "" if asked.message["id"] == "q" => {
                let heard = asked.message.get("result").unwrap_or(&asked.message["error"]);
                self.heard.send_modify(|all| drop(all.insert(session, heard.clone())));
                reply(202, &[], "")
            }
            _ => asked.usual(),
        }
    }

    fn site(self: &Arc<Self>) -> Site {
        let stage = Arc::clone(self);
        Site::script(move |asked| Arc::clone(&stage).answer(asked))
    }
}

#[tokio::test]
async fn what_comes_on_the_stream_of_a_shared_session_reaches_no_other_caller() {
    let (ann, bob) = (named("ann"), named("bob"));
    let stage = Arc::new(Stage::default());
    let site = stage.site();
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let begun = Setup { caller: Some(&ann), ..Setup::default() };
    tool.step(r#"{"do":"begin"}"#, begun).await.unwrap();
    let (heard, asked, logged) = speak(&tool, &bob).await;
    assert_eq!((asked, logged), (0, 0), "{heard}");
    assert!(heard.contains("cannot be attributed"), "{heard}");
    // Control: from then on each caller has its own session and is asked there.
    for caller in [&ann, &bob] {
        let (heard, asked, logged) = speak(&tool, caller).await;
        assert_eq!((asked, logged), (1, 1), "{heard}");
    }
    assert_eq!(*stage.opened.borrow(), 3);
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// Two tasks at once. The server asks in the name of the second, then of an unknown task.
fn with_tasks() -> Peer {
    Peer::new(|mut talk| async move {
        let tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        talk.handshake(json!({"tools": {}, "tasks": tasks})).await;
        let (mut results, mut answers) = (Vec::new(), Vec::new());
        while let Some(request) = talk.hear().await {
            let task = |id: &Value| json!({"taskId": id, "status": "input_required", "ttl": 1, "pollInterval": 1});
            match request["method"].as_str() {
                Some("tools/list") => {
                    let mut tool = definition("tool");
                    tool["execution"] = json!({"taskSupport": "required"});
                    talk.answer(&request, json!({"tools": [tool]})).await;
                }
                Some("tools/call") => {
                    let id = request["params"]["arguments"]["task"].clone();
                    talk.answer(&request, json!({"task": task(&id)})).await;
                }
                Some("tasks/get") => {
                    talk.answer(&request, task(&request["params"]["taskId"])).await;
                }
                Some("tasks/result") => {
                    results.push(request);
                    if results.len() == 2 {
                        for id in ["two", "gone"] {
                            let mut asks = question();
                            asks["id"] = json!(id);
                            let meta =
                                json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
                            asks["params"]["_meta"] = meta.clone();
                            talk.say(asks).await;
                            let mut line = log();
                            line["params"]["_meta"] = meta;
                            talk.say(line).await;
                        }
                    }
                }
                None => {
                    answers.push(request);
                    let gone = answers.iter().find(|answer| answer["id"] == "gone");
                    if let Some(gone) = gone.filter(|_| answers.len() == 2) {
                        for result in results.drain(..) {
                            talk.answer(&result, text(&gone["error"].to_string())).await;
                        }
                    }
                }
                _ => {}
            }
        }
        String::new()
    })
}

#[tokio::test]
async fn a_message_that_names_a_task_reaches_the_call_of_that_task() {
    let peer = with_tasks();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let (ann, bob) = (named("ann"), named("bob"));
    let (clients, watches) =
        ([Client::default(), Client::default()], [Watch::default(), Watch::default()]);
    let run = |at: usize, caller, args| {
        let setup = Setup {
            ask: Some(&clients[at]),
            watch: Some(&watches[at]),
            caller: Some(caller),
            ..Setup::default()
        };
        timeout(SOON, tool.step(args, setup))
    };
    let (one, two) =
        tokio::join!(run(0, &ann, r#"{"task":"one"}"#), run(1, &bob, r#"{"task":"two"}"#));
    for step in [one, two] {
        let heard = said(&done(step.unwrap().unwrap()));
        assert!(heard.contains("cannot be attributed"), "{heard}");
    }
    let asked = clients.each_ref().map(|client| client.asked.lock().unwrap().len());
    let logs = watches.each_ref().map(|watch| {
        let notices = watch.notices.lock().unwrap();
        notices.iter().filter(|(method, _)| method == "notifications/message").count()
    });
    assert_eq!((asked, logs), ([0, 1], [0, 1]));
    source.shut_down().await;
}
