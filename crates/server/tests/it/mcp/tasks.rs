//! Tests of tasks of 2026-07-28: ownership, notifications and completion.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, TaskPayload,
    TaskStatus, UpdateTaskParams,
};
use serde_json::{Value, json};
use store::MemoryStore;
use tokio::sync::Semaphore;
use tool::call_outcome::CallStatus;
use tool::executor::{TaskHandle, UpstreamRpcError};
use tool::{
    BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, Json, Outcome,
    OutcomeBody, PermissionLevel, RecordedCall, Secret, SideEffects, Store,
};

use crate::support::client::modern_message;
use crate::support::rmcp_peer::Peer;
use crate::support::test_server::{ServerSetup, within_a_minute};
use crate::support::{Client, FixtureServer, Reply, tools};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Becomes a task at once if possible, and then behaves as its arguments say, after `go` allows it.
#[derive(Debug)]
struct TaskExecutor {
    go: Arc<Semaphore>,
}

impl TaskExecutor {
    async fn run(
        &self,
        args: &Value,
        held: bool,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let done =
            |value: Value| Ok(ExecutionState::Completed(Outcome::from_value(Json::encode(&value))));
        if !held {
            return done(json!({"held": false}));
        }
        if args["asks"].is_null() {
            tokio::select! {
                permit = self.go.acquire() => permit.unwrap().forget(),
                () = ctx.cancel.cancelled() => {
                    return Err(ExecuteError::maybe_sent(ErrorCode::Cancelled, "given up"));
                }
            }
        }
        match &args["do"] {
            Value::Null => done(json!({"held": true, "n": args["n"]})),
            word if word == "fail" => {
                Ok(ExecutionState::Completed(Outcome::tool_failure("it failed")))
            }
            word if word == "error" => {
                let rpc =
                    UpstreamRpcError { code: -32_050, message: "broken".to_owned(), data: None };
                let error =
                    ExecuteError::maybe_sent(ErrorCode::UpstreamFailed, "it answered: broken");
                Err(ExecuteError { rpc_error: Some(Box::new(rpc)), ..error })
            }
            word if word == "large" => {
                let text = "x".repeat(4_000_000);
                let body = json!({"content": [{"type": "text", "text": text}]});
                Ok(ExecutionState::Completed(Outcome {
                    body: OutcomeBody::Mcp(Json::encode(&body)),
                    is_error: false,
                }))
            }
            word if word == "gone" => {
                Err(ExecuteError::maybe_sent(ErrorCode::UpstreamLost, "it is gone"))
            }
            word => panic!("{word}"),
        }
    }

    async fn ask(task: &dyn TaskHandle, count: &Value) -> Result<ExecutionState, ExecuteError> {
        task.set_status_message("asking\u{200b}");
        let questions = (0..count.as_u64().unwrap()).map(|n| {
            let params = json!({"message": format!("which {n}?"), "requestedSchema": schema()});
            task.send_request("elicitation/create", Json::encode(&params))
        });
        let answers = join_all(questions).await;
        let read = |answer: &Result<Json, _>| answer.as_ref().map_or(Value::Null, Json::to_value);
        let answers: Vec<Value> = answers.iter().map(read).collect();
        Ok(ExecutionState::Completed(Outcome::from_value(Json::encode(
            &json!({"answers": answers}),
        ))))
    }
}

impl Executor for TaskExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            let call = call.call();
            let held = ctx.task_handle.is_some_and(|task| task.promote_to_task(call, None));
            let args = call.arguments.as_value();
            match ctx.task_handle.filter(|_| held && !args["asks"].is_null()) {
                Some(task) => Self::ask(task, &args["asks"]).await,
                None => self.run(args, held, ctx).await,
            }
        })
    }
}

/// The requested schema of an input request.
fn schema() -> Value {
    json!({"type": "object", "properties": {}})
}

struct TaskServer {
    server: FixtureServer,
    go: Arc<Semaphore>,
}

impl TaskServer {
    async fn new() -> Self {
        Self::with(ServerSetup::default()).await
    }

    async fn with(setup: ServerSetup) -> Self {
        let go = Arc::new(Semaphore::new(0));
        let tasking = || Arc::new(TaskExecutor { go: Arc::clone(&go) });
        let schema = json!({"type": "object"});
        let offers = ["s.job", "s.reads"].map(|name| {
            let mut tool = testkit::read_only_tool(name, "A job.", &schema);
            if name == "s.reads" {
                tool.traits.effects = SideEffects::read_only();
            }
            tools::tool_offer(tool, tasking())
        });
        let server =
            FixtureServer::with_setup(ServerSetup { offers: offers.into(), ..setup }).await;
        Self { server, go }
    }

    async fn ann(&self) -> Client {
        self.server.agent_client("ann", PermissionLevel::User).await
    }

    /// Waits until so many calls have ended.
    async fn ended(&self, count: usize) -> Vec<CallStatus> {
        let ended = || self.server.recorded_ends().iter().map(|end| end.status).collect::<Vec<_>>();
        within_a_minute(async {
            while ended().len() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        ended()
    }
}

/// A request of a client that follows tasks.
async fn send(client: &Client, method: &str, params: Value) -> Reply {
    let mut message = modern_message(method, params);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {}, "extensions": {EXTENSION: {}}});
    client.modern_message(&message).await
}

async fn call(client: &Client, args: Value) -> Value {
    let params = json!({"name": "s.job", "arguments": args});
    send(client, "tools/call", params).await.expect_ok()["result"].clone()
}

/// A new task's id.
async fn start_task(client: &Client, args: Value) -> Value {
    let created = call(client, args).await;
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].clone()
}

async fn get_task(client: &Client, id: &Value) -> Value {
    send(client, "tasks/get", json!({"taskId": id})).await.expect_ok()["result"].clone()
}

/// The task once it is stored.
async fn wait_for_status(client: &Client, id: &Value, status: &str) -> Value {
    within_a_minute(async {
        loop {
            let told = get_task(client, id).await;
            if told["status"] == status {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_call_goes_on_as_a_task_and_is_one_call_on_record() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    let created = call(&ann, json!({"n": 7})).await;
    let id = created["taskId"].clone();
    let time = created["createdAt"].clone();
    let expected = json!({"resultType": "task", "taskId": id, "status": "working",
        "createdAt": time, "lastUpdatedAt": time, "ttlMs": 4_200_000, "pollIntervalMs": 1_000});
    assert_eq!(created, expected);
    let mut working = expected.clone();
    working["resultType"] = json!("complete");
    assert_eq!(get_task(&ann, &id).await, working);
    assert_eq!((bench.server.recorded_intents().len(), bench.server.recorded_ends().len()), (1, 0));
    bench.go.add_permits(1);
    let told = wait_for_status(&ann, &id, "completed").await;
    assert_eq!(told["result"]["structuredContent"], json!({"held": true, "n": 7}));
    assert_eq!(told["result"]["resultType"], "complete");
    // It is reported on every query, and can no longer be cancelled.
    assert_eq!(get_task(&ann, &id).await, told);
    let acknowledged = json!({"resultType": "complete"});
    let cancel = send(&ann, "tasks/cancel", json!({"taskId": id})).await.expect_ok();
    assert_eq!(cancel["result"], acknowledged);
    assert_eq!(get_task(&ann, &id).await, told);
    assert_eq!(
        (bench.server.recorded_intents().len(), bench.ended(1).await),
        (1, vec![CallStatus::Succeeded])
    );
    assert_eq!(bench.server.recorded_intents()[0].call_id, bench.server.call_outcomes()[0].0);
}

#[tokio::test]
async fn only_who_declares_the_extension_sees_tasks() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    let id = start_task(&ann, json!({})).await;
    let params = json!({"name": "s.job", "arguments": {}});
    let plain = ann.modern_request("tools/call", params.clone()).await.expect_ok();
    assert_eq!(plain["result"]["structuredContent"], json!({"held": false}));
    let older = ann.open_session(json!({"extensions": {EXTENSION: {}}})).await;
    let older = older
        .legacy_request(&crate::support::client::message("tools/call", params))
        .await
        .expect_ok();
    assert_eq!(older["result"]["structuredContent"], json!({"held": false}));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in [&id, &json!("x")] {
            let reply =
                ann.modern_request(method, json!({"taskId": id, "inputResponses": {}})).await;
            assert_eq!(reply.status, 400);
            let error = reply.json()["error"].clone();
            assert_eq!(error["code"], -32_021);
            assert_eq!(error["data"]["requiredCapabilities"]["extensions"], json!({EXTENSION: {}}));
        }
    }
    for method in ["tasks/list", "tasks/result"] {
        assert_eq!(
            send(&ann, method, json!({"taskId": id})).await.json()["error"]["code"],
            -32_601
        );
    }
    assert_eq!(get_task(&ann, &id).await["status"], "working");
}

/// A task of another caller or endpoint, a forged ID and an expired one get the same error, without
/// an effect.
#[tokio::test]
pub(crate) async fn a_task_is_nobody_elses() {
    let bench = TaskServer::new().await;
    let (ann, eve) =
        (bench.ann().await, bench.server.agent_client("eve", PermissionLevel::User).await);
    let twin = bench.ann().await;
    let other =
        TaskServer::with(ServerSetup { secret: Some(Secret::new("x")), ..ServerSetup::default() })
            .await;
    let elsewhere = start_task(&other.ann().await, json!({})).await;
    let (mine, hers) =
        (start_task(&ann, json!({"asks": 1})).await, start_task(&eve, json!({})).await);
    wait_for_status(&ann, &mine, "input_required").await;
    let text = mine.as_str().unwrap();
    let mut forged = text.as_bytes().to_vec();
    forged[20] = if forged[20] == b'A' { b'B' } else { b'A' };
    let forged = json!(String::from_utf8(forged).unwrap());
    let call = json!(bench.server.recorded_intents()[0].call_id);
    let mut tried = 0;
    for (client, id) in [
        (&ann, &json!("tasks-of-nobody")),
        (&ann, &json!("")),
        (&ann, &forged),
        (&ann, &json!(text.split_at(30).0)),
        (&ann, &call),
        (&ann, &hers),
        (&ann, &elsewhere),
        (&eve, &mine),
        (&twin, &mine),
        (&ann.with_endpoint("/mcp/s"), &mine),
    ] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            // An empty name cannot be sent in a header of these tests.
            if id == "" {
                continue;
            }
            let answers = json!({"q1": {"action": "accept"}});
            let params = json!({"taskId": id, "inputResponses": answers});
            let error = send(client, method, params).await.expect_ok()["error"].clone();
            let unknown = "the task does not exist or has expired";
            assert_eq!(error, json!({"code": -32_602, "message": unknown}), "{method} {id}");
            tried += 1;
        }
    }
    assert_eq!(tried, 27);
    // Control: each is there for whom it belongs to, and nothing was done to it.
    assert_eq!(get_task(&ann, &mine).await["status"], "input_required");
    assert_eq!(get_task(&eve, &hers).await["status"], "working");
    assert!(bench.server.recorded_ends().is_empty());
    // And at the endpoint it was made at.
    let alone = ann.with_endpoint("/mcp/s");
    let id = start_task(&alone, json!({})).await;
    assert_eq!(get_task(&alone, &id).await["status"], "working");
    assert_eq!(
        send(&ann, "tasks/get", json!({"taskId": id})).await.expect_ok()["error"]["code"],
        -32_602
    );
}

#[tokio::test]
async fn the_header_names_the_task() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    let id = start_task(&ann, json!({})).await;
    let mut message = modern_message("tasks/get", json!({"taskId": id}));
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {EXTENSION: {}}});
    let headers = |name: &str| {
        let name = ("mcp-name", name);
        let all = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tasks/get"), name];
        all.iter().fold(ann.clone(), |client, (name, value)| client.with_header(name, value))
    };
    for (name, status) in [("another", 400), (id.as_str().unwrap(), 200)] {
        let body = message.to_string().into();
        let reply = headers(name).send(hyper::Method::POST, "/mcp", body).await;
        assert_eq!(reply.status, status, "{}", reply.text());
    }
}

#[tokio::test]
async fn what_a_task_asks_is_answered_piece_by_piece() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    let id = start_task(&ann, json!({"asks": 2})).await;
    let asked = wait_for_status(&ann, &id, "input_required").await;
    let question = |n: u64| {
        json!({"method": "elicitation/create",
        "params": {"message": format!("which {n}?"), "requestedSchema": schema()}})
    };
    assert_eq!(asked["inputRequests"], json!({"q1": question(0), "q2": question(1)}));
    // Hidden characters are shown, as in all that comes from outside.
    assert_eq!(asked["statusMessage"], "asking\\u{200b}");
    let update = async |answers: Value| {
        send(&ann, "tasks/update", json!({"taskId": id, "inputResponses": answers}))
            .await
            .expect_ok()
    };
    let acknowledged = json!({"resultType": "complete"});
    for strange in [json!({}), json!({"q3": {}, "x": 1})] {
        assert_eq!(update(strange).await["result"], acknowledged);
    }
    assert_eq!(get_task(&ann, &id).await["inputRequests"], asked["inputRequests"]);
    for (wrong, kind) in [(json!([]), "array"), (json!("x"), "string")] {
        let told = update(wrong).await["error"]["message"].clone();
        assert_eq!(told, format!("`params.inputResponses` is {kind}; expected an object"));
    }
    let (one, two) = (json!({"action": "decline"}), json!({"action": "accept", "content": {}}));
    assert_eq!(update(json!({"q2": two})).await["result"], acknowledged);
    assert_eq!(get_task(&ann, &id).await["inputRequests"], json!({"q1": question(0)}));
    // An answered key is not requested again, and its second answer is ignored.
    assert_eq!(update(json!({"q1": one, "q2": one})).await["result"], acknowledged);
    let told = wait_for_status(&ann, &id, "completed").await;
    assert_eq!(told["result"]["structuredContent"]["answers"], json!([one, two]));
    assert_eq!(bench.ended(1).await, [CallStatus::Succeeded]);
}

#[tokio::test]
async fn questions_are_bounded() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    let id = start_task(&ann, json!({"asks": 100})).await;
    let asked = wait_for_status(&ann, &id, "input_required").await["inputRequests"].clone();
    assert_eq!(asked.as_object().unwrap().len(), 64);
    let answers = asked.as_object().unwrap().keys().map(|key| (key.clone(), json!({"a": 1})));
    let answers = Value::Object(answers.collect());
    send(&ann, "tasks/update", json!({"taskId": id, "inputResponses": answers})).await.expect_ok();
    let told = wait_for_status(&ann, &id, "completed").await["result"]["structuredContent"].clone();
    let nulls =
        told["answers"].as_array().unwrap().iter().filter(|answer| answer.is_null()).count();
    assert_eq!(nulls, 36);
}

#[tokio::test]
async fn each_end_is_told_and_recorded_once() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await.with_endpoint("/mcp/s");
    for (what, status, recorded) in [
        (json!("fail"), "completed", CallStatus::Failed),
        (json!("error"), "failed", CallStatus::Failed),
        (json!("gone"), "completed", CallStatus::Failed),
    ] {
        let id = start_task(&ann, json!({"do": what})).await;
        bench.go.add_permits(1);
        let told = wait_for_status(&ann, &id, status).await;
        assert_eq!(told["result"]["isError"] == true, status == "completed", "{told}");
        if status == "failed" {
            assert_eq!(told["error"], json!({"code": -32_050, "message": "broken"}));
            assert_eq!(told["statusMessage"], "broken");
        }
        assert_eq!(
            *bench.ended(bench.server.recorded_intents().len()).await.last().unwrap(),
            recorded
        );
    }
    // At the endpoint of all, errors of a source are words for the model, but a task fails there too.
    let all = ann.with_endpoint("/mcp");
    let id = start_task(&all, json!({"do": "error"})).await;
    bench.go.add_permits(1);
    let told = wait_for_status(&all, &id, "failed").await;
    assert_eq!(told["error"], json!({"code": -32_050, "message": "broken"}));
    assert_eq!((bench.server.recorded_intents().len(), bench.ended(4).await.len()), (4, 4));
}

#[tokio::test]
async fn a_task_that_is_given_up_is_cancelled_on_record_whether_it_has_effects_or_not() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    for name in ["s.job", "s.reads"] {
        for args in [json!({}), json!({"asks": 1})] {
            let params = json!({"name": name, "arguments": args});
            let created = send(&ann, "tools/call", params).await.expect_ok();
            let id = created["result"]["taskId"].clone();
            let cancel = send(&ann, "tasks/cancel", json!({"taskId": id})).await.expect_ok();
            assert_eq!(cancel["result"], json!({"resultType": "complete"}));
            let told = wait_for_status(&ann, &id, "cancelled").await;
            assert!(["result", "error", "inputRequests"].iter().all(|it| told.get(it).is_none()));
        }
    }
    assert_eq!(bench.ended(4).await, [CallStatus::Cancelled; 4]);
    assert_eq!(bench.server.recorded_intents().len(), 4);
}

#[tokio::test]
async fn a_task_expires_and_is_given_up() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    let ended = start_task(&ann, json!({})).await;
    bench.go.add_permits(1);
    wait_for_status(&ann, &ended, "completed").await;
    let runs = start_task(&ann, json!({})).await;
    bench.server.clock.advance(Duration::from_secs(70 * 60 - 1));
    assert_eq!(get_task(&ann, &runs).await["status"], "working");
    assert_eq!(get_task(&ann, &ended).await["status"], "completed");
    bench.server.clock.advance(Duration::from_secs(1));
    for id in [runs, ended] {
        let error =
            send(&ann, "tasks/get", json!({"taskId": id})).await.expect_ok()["error"].clone();
        assert_eq!(error["code"], -32_602);
    }
    assert_eq!(bench.ended(2).await, [CallStatus::Succeeded, CallStatus::Cancelled]);
}

#[tokio::test]
async fn the_end_of_the_server_gives_tasks_up() {
    let bench = TaskServer::new().await;
    let ann = bench.ann().await;
    let (_, _) = (start_task(&ann, json!({})).await, start_task(&ann, json!({"asks": 1})).await);
    bench.server.state.close();
    // Later requests are no tasks any more, and the shutdown waits for none.
    assert_eq!(call(&ann, json!({})).await["structuredContent"], json!({"held": false}));
    bench.server.wait_until_drained().await;
    let mut ends = bench.ended(3).await;
    ends.sort_by_key(|status| *status == CallStatus::Succeeded);
    assert_eq!(ends, [CallStatus::Cancelled, CallStatus::Cancelled, CallStatus::Succeeded]);
}

/// Control within: another key has its own, and what was fetched makes room.
#[tokio::test]
async fn a_flood_of_tasks_is_bounded() {
    let bench = TaskServer::new().await;
    let (ann, eve) =
        (bench.ann().await, bench.server.agent_client("eve", PermissionLevel::User).await);
    let mut ids = Vec::new();
    for _ in 0..64 {
        ids.push(start_task(&ann, json!({})).await);
    }
    for _ in 0..10 {
        assert_eq!(call(&ann, json!({})).await["structuredContent"], json!({"held": false}));
    }
    start_task(&eve, json!({})).await;
    bench.go.add_permits(65);
    assert!(bench.ended(75).await.iter().all(|status| *status == CallStatus::Succeeded));
    // A finished task without a fetched result is kept.
    assert_eq!(call(&ann, json!({})).await["structuredContent"], json!({"held": false}));
    wait_for_status(&ann, &ids[5], "completed").await;
    start_task(&ann, json!({})).await;
    let gone = send(&ann, "tasks/get", json!({"taskId": ids[5]})).await.expect_ok();
    assert_eq!(gone["error"]["code"], -32_602);
    assert_eq!(get_task(&ann, &ids[6]).await["status"], "completed");
}

/// Control within: a task that nobody fetched keeps its row.
#[tokio::test]
async fn rows_in_the_store_go_with_their_tasks() {
    let bench = TaskServer::new().await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    assert_eq!(bench.server.state.restore_tasks(Arc::clone(&store)).await.unwrap(), 0);
    let rows = async || store.scan_prefix("mcp_task/", None, 1_000).await.unwrap().len();
    let ann = bench.ann().await;
    let first = start_task(&ann, json!({})).await;
    for _ in 1..64 {
        start_task(&ann, json!({})).await;
    }
    bench.go.add_permits(64);
    bench.ended(64).await;
    wait_for_status(&ann, &first, "completed").await;
    assert_eq!(rows().await, 64);
    start_task(&ann, json!({})).await;
    assert_eq!(rows().await, 64, "the fetched one made room");
    bench.server.clock.advance(Duration::from_mins(70));
    start_task(&ann, json!({})).await;
    assert_eq!(rows().await, 1, "all others have expired");
}

#[tokio::test]
async fn results_that_nobody_fetches_are_bounded() {
    let bench = TaskServer::new().await;
    let (ann, eve) =
        (bench.ann().await, bench.server.agent_client("eve", PermissionLevel::User).await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(start_task(&ann, json!({"do": "large"})).await);
        bench.go.add_permits(1);
        bench.ended(ids.len()).await;
    }
    let over = start_task(&ann, json!({"do": "large"})).await;
    let other = start_task(&eve, json!({"do": "large"})).await;
    bench.go.add_permits(2);
    let told = wait_for_status(&ann, &over, "failed").await;
    assert!(told["error"]["message"].as_str().unwrap().contains("cannot be stored"), "{told}");
    // The record has what happened.
    assert_eq!(bench.ended(6).await, [CallStatus::Succeeded; 6]);
    wait_for_status(&eve, &other, "completed").await;
    // Control: a fetched result makes room.
    wait_for_status(&ann, &ids[0], "completed").await;
    let id = start_task(&ann, json!({"do": "large"})).await;
    bench.go.add_permits(1);
    wait_for_status(&ann, &id, "completed").await;
}

#[tokio::test]
async fn who_listens_hears_of_each_change() {
    let bench = TaskServer::new().await;
    let (ann, eve) =
        (bench.ann().await, bench.server.agent_client("eve", PermissionLevel::User).await);
    let (id, hers) =
        (start_task(&ann, json!({"asks": 1})).await, start_task(&eve, json!({})).await);
    wait_for_status(&ann, &id, "input_required").await;
    let wanted = json!({"taskIds": [id, hers, "made-up"]});
    let refused =
        ann.modern_request("subscriptions/listen", json!({"notifications": wanted})).await;
    assert_eq!(refused.json()["error"]["code"], -32_021);
    let listening = json!({"extensions": {EXTENSION: {}}});
    let mut stream = ann
        .modern_stream_of("subscriptions/listen", json!({"notifications": wanted}), listening)
        .await;
    let first = stream.next().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    // Only what is there for this client is agreed to.
    assert_eq!(first["params"]["notifications"], json!({"taskIds": [id]}));
    let now = stream.next().await;
    assert_eq!(now["method"], "notifications/tasks");
    assert_eq!(now["params"]["status"], "input_required");
    assert_eq!(now["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    assert!(now["params"].get("resultType").is_none());
    let answers = json!({"q1": {"action": "accept"}});
    send(&ann, "tasks/update", json!({"taskId": id, "inputResponses": answers})).await.expect_ok();
    let mut heard = Vec::new();
    while heard.last().is_none_or(|status| status != "completed") {
        let told = stream.next().await["params"].clone();
        assert_eq!(told["taskId"], id);
        if told["status"] == "completed" {
            let answers = &told["result"]["structuredContent"]["answers"];
            assert_eq!(*answers, json!([{"action": "accept"}]));
        }
        heard.push(told["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(heard.first().unwrap(), "working");
}

#[tokio::test]
async fn a_source_has_room_for_other_calls_than_tasks() {
    let bench = TaskServer::new().await;
    for _ in 0..2 {
        let ann = bench.ann().await;
        for _ in 0..64 {
            start_task(&ann, json!({})).await;
        }
    }
    let eve = bench.server.agent_client("eve", PermissionLevel::User).await;
    assert_eq!(call(&eve, json!({})).await["structuredContent"], json!({"held": false}));
    // Control: a finished task makes room.
    bench.go.add_permits(1);
    bench.ended(2).await;
    start_task(&eve, json!({})).await;
}

/// Another's client reads every message on the way.
#[tokio::test]
async fn a_client_of_others_follows_a_task_to_its_end() {
    let bench = TaskServer::new().await;
    let peer = Peer::new(&bench.ann().await, true).await.client;
    let args = json!({"asks": 1}).as_object().cloned().unwrap();
    let call = CallToolRequestParams::new("s.job").with_arguments(args);
    let CallToolResponse::Task(created) = within_a_minute(peer.call_tool_once(call)).await.unwrap()
    else {
        panic!("no task");
    };
    let id = created.task.task_id;
    let look = async |wanted: TaskStatus| {
        within_a_minute(async {
            loop {
                let told = peer.get_task(GetTaskParams::new(&id)).await.unwrap().task;
                if told.status() == wanted {
                    return told.payload;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
    };
    let TaskPayload::InputRequired { input_requests } = look(TaskStatus::InputRequired).await
    else {
        panic!("no questions");
    };
    let keys: Vec<_> = input_requests.keys().cloned().collect();
    assert_eq!(keys, ["q1"]);
    let answers = serde_json::from_value(json!({"q1": {"action": "decline"}})).unwrap();
    within_a_minute(peer.update_task(UpdateTaskParams::new(&id, answers))).await.unwrap();
    let TaskPayload::Completed { result } = look(TaskStatus::Completed).await else {
        panic!("no result");
    };
    assert_eq!(result["structuredContent"]["answers"], json!([{"action": "decline"}]));
    within_a_minute(peer.cancel_task(CancelTaskParams::new(&id))).await.unwrap();
    let unknown = within_a_minute(peer.get_task(GetTaskParams::new("x"))).await.unwrap_err();
    assert!(unknown.to_string().contains("does not exist or has expired"), "{unknown}");
    within_a_minute(peer.cancel()).await.unwrap();
}
