//! Tasks of 2026-07-28: whose they are, what they tell, how they end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, TaskPayload,
    TaskStatus, UpdateTaskParams,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tool::executor::{Rpc, Task};
use tool::outcome::Status;
use tool::{
    Body, Boxed, Code, Context, Effects, ExecuteError, Executor, Granted, Json, Level, Outcome,
    Secret, Step,
};

use crate::support::bench::{Setup, soon};
use crate::support::client::modern_message;
use crate::support::peer::Peer;
use crate::support::{Client, Reply, Server, tools};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Becomes a task at once where it may, and then does as its arguments say, once `go` lets it.
#[derive(Debug)]
struct Tasking {
    go: Arc<Semaphore>,
}

impl Tasking {
    async fn run(&self, args: &Value, held: bool, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let done = |value: Value| Ok(Step::Done(Outcome::value(Json::of(&value))));
        if !held {
            return done(json!({"held": false}));
        }
        if args["asks"].is_null() {
            tokio::select! {
                permit = self.go.acquire() => permit.unwrap().forget(),
                () = ctx.cancel.cancelled() => {
                    return Err(ExecuteError::during(Code::Cancelled, "given up"));
                }
            }
        }
        match &args["do"] {
            Value::Null => done(json!({"held": true, "n": args["n"]})),
            word if word == "fail" => Ok(Step::Done(Outcome::failed("it failed"))),
            word if word == "error" => {
                let rpc = Rpc { code: -32_050, message: "broken".to_owned(), data: None };
                let error = ExecuteError::during(Code::UpstreamFailed, "it answered: broken");
                Err(ExecuteError { rpc: Some(Box::new(rpc)), ..error })
            }
            word if word == "large" => {
                let text = "x".repeat(4_000_000);
                let body = json!({"content": [{"type": "text", "text": text}]});
                Ok(Step::Done(Outcome { body: Body::Mcp(Json::of(&body)), is_error: false }))
            }
            word if word == "gone" => Err(ExecuteError::during(Code::UpstreamLost, "it is gone")),
            word => panic!("{word}"),
        }
    }

    async fn ask(task: &dyn Task, count: &Value) -> Result<Step, ExecuteError> {
        task.tell("asking\u{200b}");
        let questions = (0..count.as_u64().unwrap()).map(|n| {
            let params = json!({"message": format!("which {n}?"), "requestedSchema": schema()});
            task.ask("elicitation/create", Json::of(&params))
        });
        let answers = join_all(questions).await;
        let read = |answer: &Result<Json, _>| answer.as_ref().map_or(Value::Null, Json::value);
        let answers: Vec<Value> = answers.iter().map(read).collect();
        Ok(Step::Done(Outcome::value(Json::of(&json!({"answers": answers})))))
    }
}

impl Executor for Tasking {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            let call = call.call();
            let held = ctx.task.is_some_and(|task| task.hold(call));
            let args = call.args.value();
            match ctx.task.filter(|_| held && !args["asks"].is_null()) {
                Some(task) => Self::ask(task, &args["asks"]).await,
                None => self.run(args, held, ctx).await,
            }
        })
    }
}

/// What a question asks for.
fn schema() -> Value {
    json!({"type": "object", "properties": {}})
}

struct Bench {
    server: Server,
    go: Arc<Semaphore>,
}

impl Bench {
    async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    async fn with(setup: Setup) -> Self {
        let go = Arc::new(Semaphore::new(0));
        let tasking = || Arc::new(Tasking { go: Arc::clone(&go) });
        let schema = json!({"type": "object"});
        let offers = ["s.job", "s.reads"].map(|name| {
            let mut tool = testkit::tool(name, "A job.", &schema);
            if name == "s.reads" {
                tool.traits.effects = Effects::read_only();
            }
            tools::offer(tool, tasking())
        });
        let server = Server::with(Setup { offers: offers.into(), ..setup }).await;
        Self { server, go }
    }

    async fn ann(&self) -> Client {
        self.server.agent("ann", Level::User).await
    }

    /// Waits until so many calls have ended.
    async fn ended(&self, count: usize) -> Vec<Status> {
        let ended = || self.server.ends().iter().map(|end| end.status).collect::<Vec<_>>();
        soon(async {
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
    send(client, "tools/call", params).await.good()["result"].clone()
}

/// A new task's id.
async fn begin(client: &Client, args: Value) -> Value {
    let created = call(client, args).await;
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].clone()
}

async fn look(client: &Client, id: &Value) -> Value {
    send(client, "tasks/get", json!({"taskId": id})).await.good()["result"].clone()
}

/// The task once it stands there.
async fn until(client: &Client, id: &Value, status: &str) -> Value {
    soon(async {
        loop {
            let told = look(client, id).await;
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
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    let created = call(&ann, json!({"n": 7})).await;
    let id = created["taskId"].clone();
    let time = created["createdAt"].clone();
    let expected = json!({"resultType": "task", "taskId": id, "status": "working",
        "createdAt": time, "lastUpdatedAt": time, "ttlMs": 4_200_000, "pollIntervalMs": 1_000});
    assert_eq!(created, expected);
    let mut working = expected.clone();
    working["resultType"] = json!("complete");
    assert_eq!(look(&ann, &id).await, working);
    assert_eq!((bench.server.intents().len(), bench.server.ends().len()), (1, 0));
    bench.go.add_permits(1);
    let told = until(&ann, &id, "completed").await;
    assert_eq!(told["result"]["structuredContent"], json!({"held": true, "n": 7}));
    assert_eq!(told["result"]["resultType"], "complete");
    // It is told as often as it is asked for, and given up no more.
    assert_eq!(look(&ann, &id).await, told);
    let acknowledged = json!({"resultType": "complete"});
    let cancel = send(&ann, "tasks/cancel", json!({"taskId": id})).await.good();
    assert_eq!(cancel["result"], acknowledged);
    assert_eq!(look(&ann, &id).await, told);
    assert_eq!((bench.server.intents().len(), bench.ended(1).await), (1, vec![Status::Succeeded]));
    assert_eq!(bench.server.intents()[0].call, bench.server.outcomes()[0].0);
}

#[tokio::test]
async fn only_who_declares_the_extension_sees_tasks() {
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    let id = begin(&ann, json!({})).await;
    let params = json!({"name": "s.job", "arguments": {}});
    let plain = ann.modern("tools/call", params.clone()).await.good();
    assert_eq!(plain["result"]["structuredContent"], json!({"held": false}));
    let older = ann.session(json!({"extensions": {EXTENSION: {}}})).await;
    let older = older.legacy(&crate::support::client::message("tools/call", params)).await.good();
    assert_eq!(older["result"]["structuredContent"], json!({"held": false}));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in [&id, &json!("x")] {
            let reply = ann.modern(method, json!({"taskId": id, "inputResponses": {}})).await;
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
    assert_eq!(look(&ann, &id).await["status"], "working");
}

/// What is another's, of another endpoint, made up or gone: one answer, and no effect.
#[tokio::test]
pub(crate) async fn a_task_is_nobody_elses() {
    let bench = Bench::new().await;
    let (ann, eve) = (bench.ann().await, bench.server.agent("eve", Level::User).await);
    let twin = bench.ann().await;
    let other = Bench::with(Setup { secret: Some(Secret::new("x")), ..Setup::default() }).await;
    let elsewhere = begin(&other.ann().await, json!({})).await;
    let (mine, hers) = (begin(&ann, json!({"asks": 1})).await, begin(&eve, json!({})).await);
    until(&ann, &mine, "input_required").await;
    let text = mine.as_str().unwrap();
    let mut forged = text.as_bytes().to_vec();
    forged[20] = if forged[20] == b'A' { b'B' } else { b'A' };
    let forged = json!(String::from_utf8(forged).unwrap());
    let call = json!(bench.server.intents()[0].call);
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
        (&ann.at("/mcp/s"), &mine),
    ] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            // An empty name cannot stand in a header of these tests.
            if id == "" {
                continue;
            }
            let answers = json!({"q1": {"action": "accept"}});
            let params = json!({"taskId": id, "inputResponses": answers});
            let error = send(client, method, params).await.good()["error"].clone();
            let unknown = "there is no such task here: its id is unknown, or it has expired";
            assert_eq!(error, json!({"code": -32_602, "message": unknown}), "{method} {id}");
            tried += 1;
        }
    }
    assert_eq!(tried, 27);
    // Control: each is there for whom it belongs to, and nothing was done to it.
    assert_eq!(look(&ann, &mine).await["status"], "input_required");
    assert_eq!(look(&eve, &hers).await["status"], "working");
    assert!(bench.server.ends().is_empty());
    // And at the endpoint it was made at.
    let alone = ann.at("/mcp/s");
    let id = begin(&alone, json!({})).await;
    assert_eq!(look(&alone, &id).await["status"], "working");
    assert_eq!(
        send(&ann, "tasks/get", json!({"taskId": id})).await.good()["error"]["code"],
        -32_602
    );
}

#[tokio::test]
async fn the_header_names_the_task() {
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    let id = begin(&ann, json!({})).await;
    let mut message = modern_message("tasks/get", json!({"taskId": id}));
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {EXTENSION: {}}});
    let headers = |name: &str| {
        let name = ("mcp-name", name);
        let all = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tasks/get"), name];
        all.iter().fold(ann.clone(), |client, (name, value)| client.with(name, value))
    };
    for (name, status) in [("another", 400), (id.as_str().unwrap(), 200)] {
        let body = message.to_string().into();
        let reply = headers(name).send(hyper::Method::POST, "/mcp", body).await;
        assert_eq!(reply.status, status, "{}", reply.text());
    }
}

#[tokio::test]
async fn what_a_task_asks_is_answered_piece_by_piece() {
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    let id = begin(&ann, json!({"asks": 2})).await;
    let asked = until(&ann, &id, "input_required").await;
    let question = |n: u64| {
        json!({"method": "elicitation/create",
        "params": {"message": format!("which {n}?"), "requestedSchema": schema()}})
    };
    assert_eq!(asked["inputRequests"], json!({"q1": question(0), "q2": question(1)}));
    // Hidden characters are shown, as in all that comes from outside.
    assert_eq!(asked["statusMessage"], "asking\\u{200b}");
    let update = async |answers: Value| {
        send(&ann, "tasks/update", json!({"taskId": id, "inputResponses": answers})).await.good()
    };
    let acknowledged = json!({"resultType": "complete"});
    for strange in [json!({}), json!({"q3": {}, "x": 1})] {
        assert_eq!(update(strange).await["result"], acknowledged);
    }
    assert_eq!(look(&ann, &id).await["inputRequests"], asked["inputRequests"]);
    for (wrong, kind) in [(json!([]), "array"), (json!("x"), "string")] {
        let told = update(wrong).await["error"]["message"].clone();
        assert_eq!(told, format!("`params.inputResponses` is {kind}; expected an object"));
    }
    let (one, two) = (json!({"action": "decline"}), json!({"action": "accept", "content": {}}));
    assert_eq!(update(json!({"q2": two})).await["result"], acknowledged);
    assert_eq!(look(&ann, &id).await["inputRequests"], json!({"q1": question(0)}));
    // A key that was answered is not asked again, and its second answer counts for nothing.
    assert_eq!(update(json!({"q1": one, "q2": one})).await["result"], acknowledged);
    let told = until(&ann, &id, "completed").await;
    assert_eq!(told["result"]["structuredContent"]["answers"], json!([one, two]));
    assert_eq!(bench.ended(1).await, [Status::Succeeded]);
}

#[tokio::test]
async fn questions_are_bounded() {
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    let id = begin(&ann, json!({"asks": 100})).await;
    let asked = until(&ann, &id, "input_required").await["inputRequests"].clone();
    assert_eq!(asked.as_object().unwrap().len(), 64);
    let answers = asked.as_object().unwrap().keys().map(|key| (key.clone(), json!({"a": 1})));
    let answers = Value::Object(answers.collect());
    send(&ann, "tasks/update", json!({"taskId": id, "inputResponses": answers})).await.good();
    let told = until(&ann, &id, "completed").await["result"]["structuredContent"].clone();
    let nulls =
        told["answers"].as_array().unwrap().iter().filter(|answer| answer.is_null()).count();
    assert_eq!(nulls, 36);
}

#[tokio::test]
async fn each_end_is_told_and_recorded_once() {
    let bench = Bench::new().await;
    let ann = bench.ann().await.at("/mcp/s");
    for (what, status, recorded) in [
        (json!("fail"), "completed", Status::Failed),
        (json!("error"), "failed", Status::Failed),
        (json!("gone"), "completed", Status::Failed),
    ] {
        let id = begin(&ann, json!({"do": what})).await;
        bench.go.add_permits(1);
        let told = until(&ann, &id, status).await;
        assert_eq!(told["result"]["isError"] == true, status == "completed", "{told}");
        if status == "failed" {
            assert_eq!(told["error"], json!({"code": -32_050, "message": "broken"}));
            assert_eq!(told["statusMessage"], "broken");
        }
        assert_eq!(*bench.ended(bench.server.intents().len()).await.last().unwrap(), recorded);
    }
    // At the endpoint of all, errors of one source are words for the model.
    let all = ann.at("/mcp");
    let id = begin(&all, json!({"do": "error"})).await;
    bench.go.add_permits(1);
    assert_eq!(until(&all, &id, "completed").await["result"]["isError"], true);
    assert_eq!((bench.server.intents().len(), bench.ended(4).await.len()), (4, 4));
}

#[tokio::test]
async fn a_task_that_is_given_up_is_cancelled_on_record_whether_it_has_effects_or_not() {
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    for name in ["s.job", "s.reads"] {
        for args in [json!({}), json!({"asks": 1})] {
            let params = json!({"name": name, "arguments": args});
            let created = send(&ann, "tools/call", params).await.good();
            let id = created["result"]["taskId"].clone();
            let cancel = send(&ann, "tasks/cancel", json!({"taskId": id})).await.good();
            assert_eq!(cancel["result"], json!({"resultType": "complete"}));
            let told = until(&ann, &id, "cancelled").await;
            assert!(["result", "error", "inputRequests"].iter().all(|it| told.get(it).is_none()));
        }
    }
    assert_eq!(bench.ended(4).await, [Status::Cancelled; 4]);
    assert_eq!(bench.server.intents().len(), 4);
}

#[tokio::test]
async fn a_task_expires_and_is_given_up() {
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    let ended = begin(&ann, json!({})).await;
    bench.go.add_permits(1);
    until(&ann, &ended, "completed").await;
    let runs = begin(&ann, json!({})).await;
    bench.server.clock.advance(Duration::from_secs(70 * 60 - 1));
    assert_eq!(look(&ann, &runs).await["status"], "working");
    assert_eq!(look(&ann, &ended).await["status"], "completed");
    bench.server.clock.advance(Duration::from_secs(1));
    for id in [runs, ended] {
        let error = send(&ann, "tasks/get", json!({"taskId": id})).await.good()["error"].clone();
        assert_eq!(error["code"], -32_602);
    }
    assert_eq!(bench.ended(2).await, [Status::Succeeded, Status::Cancelled]);
}

#[tokio::test]
async fn the_end_of_the_server_gives_tasks_up() {
    let bench = Bench::new().await;
    let ann = bench.ann().await;
    let (_, _) = (begin(&ann, json!({})).await, begin(&ann, json!({"asks": 1})).await);
    bench.server.doors.close();
    // What comes after is no task any more, and the end waits for nobody.
    assert_eq!(call(&ann, json!({})).await["structuredContent"], json!({"held": false}));
    bench.server.drained().await;
    let mut ends = bench.ended(3).await;
    ends.sort_by_key(|status| *status == Status::Succeeded);
    assert_eq!(ends, [Status::Cancelled, Status::Cancelled, Status::Succeeded]);
}

/// Control within: another key has its own, and what was fetched makes room.
#[tokio::test]
async fn a_flood_of_tasks_is_bounded() {
    let bench = Bench::new().await;
    let (ann, eve) = (bench.ann().await, bench.server.agent("eve", Level::User).await);
    let mut ids = Vec::new();
    for _ in 0..64 {
        ids.push(begin(&ann, json!({})).await);
    }
    for _ in 0..10 {
        assert_eq!(call(&ann, json!({})).await["structuredContent"], json!({"held": false}));
    }
    begin(&eve, json!({})).await;
    bench.go.add_permits(65);
    assert!(bench.ended(75).await.iter().all(|status| *status == Status::Succeeded));
    // Ended is not enough: what nobody fetched is kept.
    assert_eq!(call(&ann, json!({})).await["structuredContent"], json!({"held": false}));
    until(&ann, &ids[5], "completed").await;
    begin(&ann, json!({})).await;
    let gone = send(&ann, "tasks/get", json!({"taskId": ids[5]})).await.good();
    assert_eq!(gone["error"]["code"], -32_602);
    assert_eq!(look(&ann, &ids[6]).await["status"], "completed");
}

#[tokio::test]
async fn results_that_nobody_fetches_are_bounded() {
    let bench = Bench::new().await;
    let (ann, eve) = (bench.ann().await, bench.server.agent("eve", Level::User).await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(begin(&ann, json!({"do": "large"})).await);
        bench.go.add_permits(1);
        bench.ended(ids.len()).await;
    }
    let over = begin(&ann, json!({"do": "large"})).await;
    let other = begin(&eve, json!({"do": "large"})).await;
    bench.go.add_permits(2);
    let told = until(&ann, &over, "failed").await;
    assert!(told["error"]["message"].as_str().unwrap().contains("cannot be kept"), "{told}");
    // What happened is on record as it happened.
    assert_eq!(bench.ended(6).await, [Status::Succeeded; 6]);
    until(&eve, &other, "completed").await;
    // Control: what was fetched makes room.
    until(&ann, &ids[0], "completed").await;
    let id = begin(&ann, json!({"do": "large"})).await;
    bench.go.add_permits(1);
    until(&ann, &id, "completed").await;
}

#[tokio::test]
async fn who_listens_hears_of_each_change() {
    let bench = Bench::new().await;
    let (ann, eve) = (bench.ann().await, bench.server.agent("eve", Level::User).await);
    let (id, hers) = (begin(&ann, json!({"asks": 1})).await, begin(&eve, json!({})).await);
    until(&ann, &id, "input_required").await;
    let wanted = json!({"taskIds": [id, hers, "made-up"]});
    let refused = ann.modern("subscriptions/listen", json!({"notifications": wanted})).await;
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
    send(&ann, "tasks/update", json!({"taskId": id, "inputResponses": answers})).await.good();
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
    let bench = Bench::new().await;
    for _ in 0..2 {
        let ann = bench.ann().await;
        for _ in 0..64 {
            begin(&ann, json!({})).await;
        }
    }
    let eve = bench.server.agent("eve", Level::User).await;
    assert_eq!(call(&eve, json!({})).await["structuredContent"], json!({"held": false}));
    // Control: there is room again where one has ended.
    bench.go.add_permits(1);
    bench.ended(2).await;
    begin(&eve, json!({})).await;
}

/// Another's client reads every message on the way.
#[tokio::test]
async fn a_client_of_others_follows_a_task_to_its_end() {
    let bench = Bench::new().await;
    let peer = Peer::new(&bench.ann().await, true).await.client;
    let args = json!({"asks": 1}).as_object().cloned().unwrap();
    let call = CallToolRequestParams::new("s.job").with_arguments(args);
    let CallToolResponse::Task(created) = soon(peer.call_tool_once(call)).await.unwrap() else {
        panic!("no task");
    };
    let id = created.task.task_id;
    let look = async |wanted: TaskStatus| {
        soon(async {
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
    soon(peer.update_task(UpdateTaskParams::new(&id, answers))).await.unwrap();
    let TaskPayload::Completed { result } = look(TaskStatus::Completed).await else {
        panic!("no result");
    };
    assert_eq!(result["structuredContent"]["answers"], json!([{"action": "decline"}]));
    soon(peer.cancel_task(CancelTaskParams::new(&id))).await.unwrap();
    let unknown = soon(peer.get_task(GetTaskParams::new("x"))).await.unwrap_err();
    assert!(unknown.to_string().contains("no such task"), "{unknown}");
    soon(peer.cancel()).await.unwrap();
}
