//! Tests of server tasks in both eras, for clients with and without task support.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use source_mcp::McpOptions;
use tokio::time::{Instant, sleep};
use tool::executor::{
    ClientCapabilities, ClientRequestError, ClientRequester, DispatchState, TaskHandle,
};
use tool::{BoxFuture, ErrorCode, ExecuteError, Json, Source as _, ToolCall};

use super::peer::{Peer, Talk, definition, text};
use super::runs::{
    Client, Setup, Watch, body, declares, done, json as checked, questions, resume, runner, said,
};

const ELICITS: &str = r#"{"elicitation":{"form":{}}}"#;
const STATELESS: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
const CAN: &str = "io.modelcontextprotocol/clientCapabilities";

/// Client that supports tasks and answers their input requests.
#[derive(Debug, Default)]
struct Follower {
    full: bool,
    holds: AtomicUsize,
    held: AtomicBool,
    lines: Mutex<Vec<String>>,
    client: Client,
    /// Number of input requests that are open at once.
    open: AtomicUsize,
    most: AtomicUsize,
}

impl ClientRequester for Follower {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        params: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>> {
        Box::pin(async move {
            let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(open, Ordering::SeqCst);
            sleep(Duration::from_millis(10)).await;
            self.open.fetch_sub(1, Ordering::SeqCst);
            self.client.send_request(method, params).await
        })
    }
}

impl TaskHandle for Follower {
    fn promote_to_task(&self, _: &ToolCall, _: Option<bytes::Bytes>) -> bool {
        self.holds.fetch_add(1, Ordering::SeqCst);
        self.held.store(!self.full, Ordering::SeqCst);
        !self.full
    }
    fn time_limit(&self) -> Option<Duration> {
        self.held.load(Ordering::SeqCst).then_some(Duration::from_hours(1))
    }
    fn set_status_message(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }
}

/// Scripted answers of a test server: to the call, and then to each poll of the task. The last one
/// repeats.
#[derive(Clone)]
struct Play {
    call: Value,
    looks: Vec<Value>,
    /// Whether it creates no task for clients that do not declare the extension.
    strict: bool,
    offers: bool,
}

fn task(status: &str) -> Value {
    json!({"resultType": "complete", "taskId": "t1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 500})
}

fn with(mut task: Value, key: &str, value: Value) -> Value {
    task[key] = value;
    task
}

fn created() -> Value {
    with(task("working"), "resultType", json!("task"))
}

fn ended(result: Value) -> Value {
    with(task("completed"), "result", result)
}

fn play(looks: Vec<Value>) -> Play {
    Play { call: created(), looks, strict: false, offers: true }
}

impl Play {
    /// Creates a server of 2026-07-28.
    fn peer(self) -> Peer {
        Peer::new(move |talk| self.clone().run(talk))
    }

    async fn run(self, mut talk: Talk) -> String {
        let mut looks = 0;
        while let Some(request) = talk.hear().await {
            let params = &request["params"];
            match request["method"].as_str() {
                Some("server/discover") => {
                    let mut capabilities = json!({"tools": {}});
                    if self.offers {
                        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
                    }
                    talk.answer(
                        &request,
                        json!({"resultType": "complete",
                        "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                        "ttlMs": 0, "cacheScope": "private"}),
                    )
                    .await;
                }
                Some("tools/list") => {
                    talk.answer(&request, json!({"tools": [definition("tool")]})).await;
                }
                Some("tools/call") if self.strict && declared(params).is_null() => {
                    let data = json!({"requiredCapabilities": {"extensions":
                        {"io.modelcontextprotocol/tasks": {}}}});
                    let error = json!({"code": -32021, "message": "tasks only", "data": data});
                    talk.say(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
                }
                Some("tools/call") => talk.answer(&request, self.call.clone()).await,
                Some("tasks/get") => {
                    let look = self.looks.get(looks).or(self.looks.last()).unwrap();
                    looks += 1;
                    talk.answer(&request, look.clone()).await;
                }
                Some("tasks/update" | "tasks/cancel") => {
                    talk.answer(&request, json!({"resultType": "complete"})).await;
                }
                Some(_) if request.get("id").is_some() => {
                    talk.refuse(&request, -32601, "Method not found").await;
                }
                _ => {}
            }
        }
        String::new()
    }
}

fn declared(params: &Value) -> &Value {
    &params["_meta"][CAN]["extensions"]["io.modelcontextprotocol/tasks"]
}

fn heard(peer: &Peer, method: &str) -> Vec<Value> {
    let heard = peer.heard().into_iter().filter(|message| message["method"] == method);
    heard.map(|message| message["params"].clone()).collect()
}

/// Makes one call by a client without task support.
async fn waited(play: Play) -> (Peer, Result<tool::Outcome, ExecuteError>) {
    let peer = play.peer();
    let source = peer.source("s", McpOptions::default());
    let ended = runner(&source, "s.tool").await.call("{}").await;
    source.shut_down().await;
    (peer, ended)
}

#[tokio::test(start_paused = true)]
async fn a_client_without_tasks_waits_for_the_result() {
    let result = json!({"content": [{"type": "text", "text": "there"}], "odd": 1.50});
    let looks = vec![task("working"), task("working"), ended(result)];
    let (peer, outcome) = waited(play(looks)).await;
    assert_eq!(said(&outcome.unwrap()), "there");
    assert_eq!(heard(&peer, "tools/call").len(), 1);
    let looks = heard(&peer, "tasks/get");
    assert_eq!(looks.len(), 3);
    assert_eq!(looks[0]["taskId"], "t1");
    assert!(looks.iter().all(|params| declared(params).is_object()));
    assert!(heard(&peer, "tasks/cancel").is_empty());
    // It does not declare task support, so that the server may answer at once.
    assert!(declared(&heard(&peer, "tools/call")[0]).is_null());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_has_ended_and_an_error_of_the_protocol_is_one() {
    let failed = json!({"content": [], "isError": true});
    assert!(waited(play(vec![ended(failed)])).await.1.unwrap().is_error);
    let error = json!({"code": -32050, "message": "broken", "data": {"a": 1.0}});
    let error = waited(play(vec![with(task("failed"), "error", error)])).await.1.unwrap_err();
    let rpc = error.rpc_error.unwrap();
    assert_eq!((rpc.code, &*rpc.message), (-32050, "broken"));
    let gone = waited(play(vec![task("cancelled")])).await.1.unwrap_err();
    assert_eq!((gone.code, gone.dispatch), (ErrorCode::Cancelled, DispatchState::MaybeSent));
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_for_as_often_as_its_server_says_within_bounds() {
    for (says, millis) in [
        (json!(500), 500),
        (json!(0), 100),
        (json!(1), 100),
        (json!(86_400_000), 30_000),
        (json!(null), 1_000),
        (json!("soon"), 1_000),
        (json!(-5), 1_000),
    ] {
        let call = with(created(), "pollIntervalMs", says.clone());
        let looks = vec![with(task("working"), "pollIntervalMs", says.clone()), ended(text("x"))];
        let peer = Play { call, ..play(looks) }.peer();
        let source = peer.source("s", McpOptions::default());
        let tool = runner(&source, "s.tool").await;
        let begun = Instant::now();
        tool.call("{}").await.unwrap();
        let took = begun.elapsed().as_millis();
        assert!((2 * millis..2 * millis + 50).contains(&took), "{says}: {took}");
        source.shut_down().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_follows_tasks_gets_one() {
    let line = with(task("working"), "statusMessage", json!("half\u{7} way"));
    let peer = play(vec![line, ended(text("there"))]).peer();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let follower = Follower::default();
    let setup = Setup { task: Some(&follower), ..Setup::default() };
    assert_eq!(said(&done(tool.step("{}", setup).await.unwrap())), "there");
    assert_eq!(follower.holds.load(Ordering::SeqCst), 1);
    assert_eq!(follower.lines.lock().unwrap().len(), 1);
    assert!(declared(&heard(&peer, "tools/call")[0]).is_object());
    // If too many tasks exist, the call waits as for any other client.
    let full = Follower { full: true, ..Follower::default() };
    let setup = Setup { task: Some(&full), ..Setup::default() };
    assert_eq!(said(&done(tool.step("{}", setup).await.unwrap())), "there");
    assert!(full.lines.lock().unwrap().is_empty());
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn who_answers_at_once_makes_no_task() {
    let peer = Play { call: text("now"), ..play(vec![]) }.peer();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let follower = Follower::default();
    let setup = Setup { task: Some(&follower), ..Setup::default() };
    assert_eq!(said(&done(tool.step("{}", setup).await.unwrap())), "now");
    assert_eq!(follower.holds.load(Ordering::SeqCst), 0);
    source.shut_down().await;
}

/// The extension is declared on behalf of the client, unless it uses this source alone.
#[tokio::test(start_paused = true)]
async fn a_server_that_insists_on_tasks_gets_them_declared() {
    let peer = Play { strict: true, ..play(vec![ended(text("there"))]) }.peer();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    assert_eq!(said(&tool.call("{}").await.unwrap()), "there");
    let calls = heard(&peer, "tools/call");
    assert_eq!(calls.len(), 2);
    assert!(declared(&calls[0]).is_null() && declared(&calls[1]).is_object());

    let (alone, meta) = (
        ClientCapabilities { is_single_source: true, ..ClientCapabilities::default() },
        checked(STATELESS),
    );
    let setup = Setup { client: Some(&alone), meta: Some(&meta), ..Setup::default() };
    let error = tool.step("{}", setup).await.unwrap_err();
    let rpc = error.rpc_error.unwrap();
    assert_eq!(rpc.code, -32021);
    assert_eq!(
        rpc.data.unwrap().to_value()["requiredCapabilities"]["extensions"],
        json!({"io.modelcontextprotocol/tasks": {}})
    );
    assert_eq!(heard(&peer, "tools/call").len(), 3);
    source.shut_down().await;
}

fn asks(keys: &[&str]) -> Value {
    let question = |key: &&str| {
        let params = json!({"message": key, "requestedSchema": {}});
        ((*key).to_owned(), json!({"method": "elicitation/create", "params": params}))
    };
    let all: serde_json::Map<_, _> = keys.iter().map(question).collect();
    with(task("input_required"), "inputRequests", Value::Object(all))
}

#[tokio::test(start_paused = true)]
async fn what_a_task_asks_goes_to_its_client_at_once_and_only_once() {
    let looks = vec![asks(&["a", "b"]), asks(&["a", "b"]), asks(&["b", "c"]), ended(text("there"))];
    let peer = play(looks).peer();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let follower = Follower::default();
    let setup = Setup { task: Some(&follower), ..Setup::default() };
    assert_eq!(said(&done(tool.step("{}", setup).await.unwrap())), "there");
    let mut updates = Vec::new();
    for update in heard(&peer, "tasks/update") {
        assert_eq!(update["taskId"], "t1");
        for (key, answer) in update["inputResponses"].as_object().unwrap() {
            assert_eq!(answer["content"]["n"], 100.0);
            updates.push(key.clone());
        }
    }
    assert_eq!(updates, ["a", "b", "c"]);
    assert_eq!(follower.client.asked.lock().unwrap().len(), 3);
    assert_eq!(follower.most.load(Ordering::SeqCst), 2);
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_live_client_is_asked_while_it_waits_and_one_that_refuses_has_cancelled() {
    let peer = play(vec![asks(&["a"]), ended(text("there"))]).peer();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    for (refuses, action) in [(false, "accept"), (true, "cancel")] {
        let client = Client { refuses, ..Client::default() };
        let setup = Setup { ask: Some(&client), ..Setup::default() };
        done(tool.step("{}", setup).await.unwrap());
        let update = heard(&peer, "tasks/update").pop().unwrap_or_default();
        if !refuses {
            assert_eq!(update["inputResponses"]["a"]["action"], action);
        }
    }
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_stateless_client_without_tasks_comes_back_with_the_answers() {
    let peer = play(vec![task("working"), asks(&["a"]), ended(text("there"))]).peer();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let (can, meta) = (declares(ELICITS), checked(STATELESS));
    let setup = Setup { client: Some(&can), meta: Some(&meta), ..Setup::default() };
    let step = tool.step("{}", setup).await.unwrap();
    let asked: Value = serde_json::from_str(&questions(&step)).unwrap();
    assert_eq!(asked["a"]["method"], "elicitation/create");
    assert!(heard(&peer, "tasks/cancel").is_empty());
    let resumed = resume(step, r#"{"a":{"action":"accept"}}"#);
    let again = Setup { resume: Some(&resumed), ..setup };
    assert_eq!(said(&done(tool.step("{}", again).await.unwrap())), "there");
    assert_eq!(heard(&peer, "tools/call").len(), 1);
    let update = &heard(&peer, "tasks/update")[0];
    assert_eq!(
        (&update["taskId"], &update["inputResponses"]),
        (&json!("t1"), &json!({"a": {"action": "accept"}}))
    );
    // A client that cannot be asked gets an error, and the task is cancelled.
    let deaf = Setup { meta: Some(&meta), ..Setup::default() };
    let peer = play(vec![asks(&["a"])]).peer();
    let other = peer.source("s", McpOptions::default());
    let error = runner(&other, "s.tool").await.step("{}", deaf).await.unwrap_err();
    assert_eq!(error.rpc_error.unwrap().code, -32021);
    peer.hears(|message| message["method"] == "tasks/cancel").await;
    for source in [source, other] {
        source.shut_down().await;
    }
}

/// Includes a control: a task that ended is not cancelled.
#[tokio::test(start_paused = true)]
async fn a_task_that_never_ends_is_given_up_with_its_call() {
    let peer = play(vec![task("working")]).peer();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    for follows in [false, true] {
        let (watch, follower) = (Watch::default(), Follower::default());
        let task = follows.then_some(&follower as &dyn TaskHandle);
        let setup = Setup { watch: Some(&watch), task, ..Setup::default() };
        let before = heard(&peer, "tasks/get").len();
        let ended = tokio::join!(tool.step("{}", setup), async {
            sleep(Duration::from_mins(50)).await;
            watch.cancel.cancel();
        });
        assert_eq!(ended.0.unwrap_err().code, ErrorCode::Cancelled);
        assert!(heard(&peer, "tasks/get").len() > before + 5_000);
        sleep(Duration::from_secs(1)).await;
    }
    let cancels = heard(&peer, "tasks/cancel");
    assert_eq!(cancels.len(), 2);
    assert!(cancels.iter().all(|it| it["taskId"] == "t1" && declared(it).is_object()));
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn garbage_ends_the_call_and_nothing_else() {
    let long = "x".repeat(2_000);
    let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (call, look, why) in [
        (None, with(task("working"), "taskId", json!("t2")), "the ID of another task"),
        (None, with(task("working"), "taskId", json!(7)), "no `taskId`"),
        (None, task("finished"), "its `status` is unknown"),
        (None, json!({}), "no `taskId`"),
        (None, json!([]), "no `taskId`"),
        (None, task("completed"), "without a `result`"),
        (None, ended(json!([1])), "its `result` is not a call result"),
        (None, ended(created()), "its `result` is not a call result"),
        (None, task("failed"), "without an `error`"),
        (None, with(task("failed"), "error", json!({"code": "x"})), "not a JSON-RPC error"),
        (None, asks(&many), "more than 64 input requests"),
        (
            None,
            with(task("input_required"), "inputRequests", json!({"a": {"method": "tools/call"}})),
            "the input request `a`, whose method is not supported",
        ),
        (Some(json!({"resultType": "task"})), task("working"), "no `taskId`"),
        (Some(with(created(), "taskId", json!(long))), task("working"), "has 2000 bytes"),
    ] {
        let call = call.unwrap_or_else(created);
        let (_, ended) = waited(Play { call, ..play(vec![look.clone()]) }).await;
        let error = ended.expect_err(&look.to_string());
        assert_eq!(error.code, ErrorCode::UpstreamFailed, "{look}");
        assert!(error.message.contains(why), "{look}: {}", error.message);
    }
    // A server without task support creates none.
    let (_, ended) = waited(Play { offers: false, ..play(vec![task("working")]) }).await;
    assert!(ended.unwrap_err().message.contains("which was not requested"));
}

#[tokio::test(start_paused = true)]
async fn endless_questions_have_an_end() {
    let looks = (0..30).map(|round| {
        let keys: Vec<String> = (0..60).map(|n| format!("{round}-{n}")).collect();
        asks(&keys.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let peer = play(looks.collect()).peer();
    let source = peer.source("s", McpOptions::default());
    let follower = Follower::default();
    let setup = Setup { task: Some(&follower), ..Setup::default() };
    let error = runner(&source, "s.tool").await.step("{}", setup).await.unwrap_err();
    assert!(error.message.contains("more than 1000 input requests"), "{error}");
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_lost_may_have_run_it() {
    let peer = Peer::new(|talk| async move {
        let script = play(vec![task("working")]).run(talk);
        // The server exits during the task.
        drop(tokio::time::timeout(Duration::from_secs(20), script).await);
        "exit status 1".to_owned()
    });
    let source = peer.source("s", McpOptions::default());
    let error = runner(&source, "s.tool").await.call("{}").await.unwrap_err();
    assert_eq!((error.code, error.dispatch), (ErrorCode::UpstreamLost, DispatchState::MaybeSent));
    source.shut_down().await;
}

/// Server of 2025-11-25 whose tool declares `support`, takes two seconds and asks once if it runs
/// as a task.
fn older(support: &'static str, offers: bool) -> Peer {
    Peer::new(move |mut talk| async move {
        let tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        let capabilities = if offers { json!({"tools": {}, "tasks": tasks}) } else { json!({}) };
        talk.handshake(capabilities).await;
        let (mut looks, mut result) = (0, Value::Null);
        while let Some(request) = talk.hear().await {
            let task = |status: &str| json!({"taskId": "o1", "status": status, "ttl": 1, "pollInterval": 200});
            match request["method"].as_str() {
                Some("tools/list") => {
                    let mut tool = definition("tool");
                    tool["execution"] = json!({"taskSupport": support});
                    talk.answer(&request, json!({"tools": [tool]})).await;
                }
                Some("tools/call") if request["params"].get("task").is_some() => {
                    talk.answer(&request, json!({"task": task("working")})).await;
                }
                Some("tools/call") if support == "required" && offers => {
                    talk.refuse(&request, -32601, "as a task only").await;
                }
                Some("tools/call") => {
                    let long = request["params"]["arguments"]["ms"].as_u64().unwrap_or(0);
                    sleep(Duration::from_millis(long)).await;
                    talk.answer(&request, text("plain")).await;
                }
                Some("tasks/get") => {
                    looks += 1;
                    let status = if looks < 3 { "working" } else { "input_required" };
                    talk.answer(&request, task(status)).await;
                }
                Some("tasks/result") => {
                    result = request.clone();
                    let params = json!({"message": "sure?", "requestedSchema": {}});
                    talk.say(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                        "params": params}))
                        .await;
                }
                None if request["id"] == "q" => {
                    let heard = request.get("result").unwrap_or(&request["error"]);
                    let mut said = text(&heard.to_string());
                    said["_meta"] =
                        json!({"io.modelcontextprotocol/related-task": {"taskId": "o1"}});
                    talk.answer(&result, said).await;
                }
                Some("tasks/cancel") => talk.answer(&request, task("cancelled")).await,
                _ => {}
            }
        }
        String::new()
    })
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_before_that_must_be_a_task_is_called_as_one() {
    let peer = older("required", true);
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let client = Client::default();
    let setup = Setup { ask: Some(&client), ..Setup::default() };
    let outcome = done(tool.step(r#"{"a":1.50}"#, setup).await.unwrap());
    assert!(said(&outcome).contains("accept"));
    // The task id stays between this server and Toolkeep.
    assert!(!body(&outcome).contains("o1"), "{}", body(&outcome));
    let call = heard(&peer, "tools/call").remove(0);
    assert_eq!(
        (&call["task"], &call["arguments"]),
        (&json!({"ttl": 3_600_000}), &json!({"a": 1.5}))
    );
    assert_eq!(heard(&peer, "tasks/get").len(), 3);
    assert!(heard(&peer, "tasks/cancel").is_empty());
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn each_client_gets_the_task_of_before_in_its_own_way() {
    // A client that cannot be asked: its server gets an error and continues.
    let peer = older("required", true);
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let outcome = tool.call("{}").await.unwrap();
    assert!(said(&outcome).contains("did not declare support for"), "{}", said(&outcome));
    source.shut_down().await;
    // A client with task support is asked through its task.
    let source = older("required", true).source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let follower = Follower::default();
    let setup = Setup { task: Some(&follower), ..Setup::default() };
    assert!(said(&done(tool.step("{}", setup).await.unwrap())).contains("accept"));
    assert_eq!(follower.holds.load(Ordering::SeqCst), 1);
    source.shut_down().await;
    // A stateless client comes back with the answer.
    let source = older("required", true).source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let (can, meta) = (declares(ELICITS), checked(STATELESS));
    let setup = Setup { client: Some(&can), meta: Some(&meta), ..Setup::default() };
    let step = tool.step("{}", setup).await.unwrap();
    let resumed = resume(step, r#"{"q1":{"action":"decline"}}"#);
    let again = Setup { resume: Some(&resumed), ..setup };
    let outcome = done(tool.step("{}", again).await.unwrap());
    assert!(said(&outcome).contains("decline") && !body(&outcome).contains("o1"));
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_before_that_can_be_a_task_is_called_like_any_other() {
    let peer = older("optional", true);
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    assert_eq!(said(&tool.call(r#"{"ms":2000}"#).await.unwrap()), "plain");
    // A client with task support gets a task if the call takes long.
    for (args, holds) in [(r#"{"ms":100}"#, 0), (r#"{"ms":2000}"#, 1)] {
        let follower = Follower::default();
        let setup = Setup { task: Some(&follower), ..Setup::default() };
        assert_eq!(said(&done(tool.step(args, setup).await.unwrap())), "plain");
        assert_eq!(follower.holds.load(Ordering::SeqCst), holds, "{args}");
    }
    assert!(heard(&peer, "tools/call").iter().all(|call| call.get("task").is_none()));
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_says_of_tasks_counts_only_where_its_server_has_them() {
    let peer = older("required", false);
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    assert_eq!(said(&tool.call("{}").await.unwrap()), "plain");
    let follower = Follower::default();
    let setup = Setup { task: Some(&follower), ..Setup::default() };
    assert_eq!(said(&done(tool.step(r#"{"ms":2000}"#, setup).await.unwrap())), "plain");
    assert_eq!(follower.holds.load(Ordering::SeqCst), 0);
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_alone_with_a_server_of_before_is_told_what_to_declare() {
    let peer = older("required", true);
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let (alone, meta) = (
        ClientCapabilities { is_single_source: true, ..ClientCapabilities::default() },
        checked(STATELESS),
    );
    let setup = Setup { client: Some(&alone), meta: Some(&meta), ..Setup::default() };
    let error = tool.step("{}", setup).await.unwrap_err();
    assert_eq!((error.rpc_error.unwrap().code, error.dispatch), (-32021, DispatchState::NotSent));
    assert!(heard(&peer, "tools/call").is_empty());
    source.shut_down().await;
}
