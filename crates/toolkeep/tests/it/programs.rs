//! Tests of programs: Python over the caller's tools, with approvals in between.

mod generated_programs;
mod pending_programs;
mod program_crash;
mod program_steps;
mod resource_limits;

use serde_json::{Value, json};

use crate::real_support::{expect_ok, run_cli, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::{Server, spawn_under, start_server};

pub(crate) async fn start_default_server() -> (Installation, Server) {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    (home, server)
}

pub(crate) async fn run(client: &Client, program: Value) -> Value {
    expect_ok(client.post("/v1/programs", &program).await)
}

/// KiB of a process that are in memory now.
pub(crate) fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_script_calls_tools_by_name_by_place_and_by_keyword() {
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let code = "\
a = calculator(expression='6 * 7')
b = calculate('2 ** 10')
c = CALL('statistics', data=[1, 2, 3], metrics=['mean'])
print('so far', b)
rows = csv_to_json('n\\n1\\n2\\n')
{'a': a, 'b': b + offset, 'mean': c['mean'], 'rows': len(rows)}
";
    let came = run(&agent, json!({ "code": code, "inputs": { "offset": 6 } })).await;
    assert_eq!(came["status"], "succeeded", "{came}");
    assert_eq!(
        (&came["result"]["b"], &came["result"]["mean"]),
        (&json!(1030), &json!(2.0)),
        "{came}"
    );
    assert_eq!(came["printed"], "so far 1024\n");
    let called = json!(["calculator", "calculate", "statistics", "csv_to_json"]);
    assert_eq!(came["tools_called"], called);
    let chain = &came["tool_chains"][0];
    assert_eq!((&chain["mode_used"], &chain["success"]), (&json!("seq"), &json!(true)), "{chain}");
    // Each call is on record, as a chain's and as the program's.
    let records = run_cli(&server, &["record", "list", "-o", "json"]).expect_success();
    assert!(records.matches(came["program"].as_str().unwrap()).count() >= 4, "{records}");
    // A program's record has the usage of its script and the sandbox.
    let of_program =
        run_cli(&server, &["record", "show", came["program"].as_str().unwrap(), "-o", "json"]);
    assert!(of_program.expect_success().contains("\"cpu_ms\""), "{records}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn what_fails_raises_and_can_be_caught() {
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let code = "\
told = []
try:
    calculator(expression='1 / 0')
except RuntimeError as error:
    told.append('failed')
try:
    calculator(formula=1, expression=[1])
except TypeError as error:
    told.append('arguments')
try:
    calculator('1', '2', '3')
except TypeError as error:
    told.append(str(error))
told
";
    let came = run(&agent, json!({ "code": code })).await;
    assert_eq!(came["status"], "succeeded", "{came}");
    assert_eq!(
        came["result"],
        json!(["failed", "arguments", "calculator() takes at most 1 arguments, got 3"]),
        "{came}"
    );
    let thrown = run(&agent, json!({ "code": "x = 1\ncalculator(expression='1 / 0')" })).await;
    assert_eq!(thrown["status"], "failed", "{thrown}");
    assert!(thrown["error"].as_str().unwrap().contains("line 2"), "{thrown}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn plain_calls_run_in_waves_by_what_each_needs() {
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let code = "\
a = calculate('1 + 1')
b = calculate('2 + 2')
c = statistics(data=[a, b], metrics=['mean'])
d = calculate('5 + 5')
{'c': c, 'd': d}
";
    let dep = run(&agent, json!({ "code": code, "mode": "dep" })).await;
    let seq = run(&agent, json!({ "code": code, "mode": "legacy" })).await;
    assert_eq!(dep["result"], json!({ "c": { "mean": 3.0 }, "d": 10 }), "{dep}");
    assert_eq!(seq["result"], dep["result"]);
    let chain = &dep["tool_chains"][0];
    assert_eq!((&chain["waves"], &chain["steps"]), (&json!(2), &json!(4)), "{chain}");
    assert_eq!(chain["wave_timeline"][0]["tools"], json!(["calculate", "calculate", "calculate"]));
    // Without a need between them they run at once, unasked.
    let at_once =
        run(&agent, json!({ "code": "a = calculate('1')\nb = calculate('2')\n[a, b]" })).await;
    assert_eq!(at_once["tool_chains"][0]["mode_used"], "parallel_read_only", "{at_once}");
    assert_eq!(at_once["result"], json!([1, 2]));
    // A script that does more than calls runs as Python, as its plan states.
    let more = json!({ "code": "a = calculate('1')\nb = calculate('2')\na + b", "mode": "dep" });
    let more = run(&agent, more).await;
    let chain = &more["tool_chains"][0];
    assert_eq!((&chain["fallback_to_seq"], &chain["mode_used"]), (&json!(true), &json!("seq")));
    assert_eq!(more["result"], 3);
    // The record has each call's chain and its place there, and `parent` is the program's own call.
    let all = expect_ok(server.owner().get("/v1/records?tool=calculate").await);
    let all = all["records"].as_array().unwrap();
    let mut intents: Vec<_> = all.iter().filter(|it| it["kind"] == "intent").collect();
    intents.reverse();
    let chains = intents.iter().map(|it| &it["body"]["chain_id"]).collect::<Vec<_>>();
    let of_more = intents.iter().filter(|it| it["body"]["chain_id"] == chain["chain_id"]);
    let of_more: Vec<_> = of_more.map(|it| it["body"]["chain_index"].clone()).collect();
    assert_eq!(of_more, [json!(0), json!(1)], "{chains:?}");
    // Positive control: a call of a model is in none.
    expect_ok(agent.call("calculate", &json!({ "expression": "1" })).await);
    let last = expect_ok(server.owner().get("/v1/records?tool=calculate&limit=2").await);
    let intent = last["records"].as_array().unwrap().iter().find(|it| it["kind"] == "intent");
    let body = &intent.unwrap()["body"];
    assert_eq!((&body["chain_id"], &body["caller_type"]), (&json!(null), &json!("direct")));
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn what_programs_may_not_call_is_told_before_anything_runs() {
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let code = "a = calculate('1')\nb = run_program(code='1')\nCALL('nobody.has_this')\n";
    let came = agent.post("/v1/programs", &json!({ "code": code })).await;
    assert_eq!(came.body["status"], "failed", "{came:?}");
    assert_eq!(came.body["calls"], json!([]));
    assert_eq!(
        came.body["error"],
        "Structured mode: multi-tool chaining requires chain opt-in for non-read-only tools. Blocked tools: CALL(nobody.has_this), run_program."
    );
    let dry = json!({ "code": "write_file(path='a', content='b')", "dry_run": true });
    let dry = run(&agent, dry).await;
    assert_eq!(dry["decisions"]["write_file"]["decision"], "hold", "{dry}");
    let functions = expect_ok(agent.get("/v1/programs/tools").await);
    let signature = |name: &str| {
        let all = functions["tools"].as_array().unwrap();
        all.iter().find(|it| it["tool"] == name).map(|it| it["signature"].clone())
    };
    assert_eq!(signature("calculate"), Some(json!("calculate(expression: str)")));
    assert_eq!(signature("run_program"), None);
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn another_caller_has_no_such_program() {
    let (_home, server) = start_default_server().await;
    let (agent, owner) = (server.agent(), server.owner());
    let came = run(&agent, json!({ "code": "calculate('1')" })).await;
    let path = format!("/v1/programs/{}", came["program"].as_str().unwrap());
    assert_eq!(expect_ok(agent.get(&path).await)["result"], 1);
    assert_eq!(owner.get(&path).await.status, 404);
    assert_eq!(expect_ok(owner.get("/v1/programs").await)["programs"], json!([]));
    assert_eq!(
        expect_ok(agent.get("/v1/programs").await)["programs"][0]["program"],
        came["program"]
    );
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn what_fails_beside_others_is_a_value() {
    let (_home, server) = start_default_server().await;
    let code = "a = calculator('1 / 0')\nb = calculate('2')\n[a, b]";
    let came = run(&server.agent(), json!({ "code": code })).await;
    assert_eq!((&came["status"], &came["result"][1]), (&json!("succeeded"), &json!(2)), "{came}");
    assert!(came["result"][0].as_str().unwrap().starts_with("[ERROR: "), "{came}");
    assert_eq!(came["tools_success"], false);
    // In a chain the first error ends it.
    let came = run(&server.agent(), json!({ "code": code, "mode": "dep" })).await;
    assert_eq!(came["status"], "failed", "{came}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn the_environment_says_how_calls_follow_each_other() {
    let home = Installation::new("version: 1\n");
    let words = ["env", "ORCHESTRATOR_TOOL_CHAIN_MODE=dep"].map(std::ffi::OsString::from);
    let server = spawn_under(&home, &words).wait_until_ready().await;
    let code = "a = calculate('1')\nb = calculate('2')\n[a, b]";
    let came = run(&server.agent(), json!({ "code": code })).await;
    assert_eq!(came["tool_chains"][0]["mode_requested"], "dep", "{came}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn routing_tools_are_no_functions() {
    let home = Installation::new(
        r#"{ "version": 1, "sources": [{ "name": "own", "tools": "./tools.yaml" }] }"#,
    );
    let tool = |name: &str| {
        format!(
            "  - name: {name}\n    description: Lists tools.\n    allowed_callers: [direct, chain]\n    \
             side_effects: [read_only]\n    parameters: {{type: object}}\n    \
             implementation: {{type: internal, handler: catalog.list}}\n"
        )
    };
    let direct = tool("no_fx").replace("    allowed_callers: [direct, chain]\n", "");
    let file = format!("version: 2\ntools:\n{}{}{direct}", tool("delegate"), tool("lists"));
    home.write("tools.yaml", &file);
    let server = start_server(&home).await;
    wait_for_sources(&server.owner()).await;
    let came = run(&server.agent(), json!({ "code": "lists()['count'] > 2" })).await;
    assert_eq!(came["result"], true, "{came}");
    let came = run(&server.agent(), json!({ "code": "delegate()" })).await;
    assert_eq!(came["error"], "Structured mode: `delegate` routes and never runs in a chain.");
    // Blocked before any call: it has no success.
    let made = server.agent().post("/v1/programs", &json!({ "code": "no_fx()" })).await;
    let error = "Structured mode: `no_fx` does not allow `chain` under `allowed_callers`.";
    assert_eq!(made.body["error"], error, "{made:?}");
    let chain = &made.body["tool_chains"][0];
    assert_eq!((&chain["success"], &made.body["tools_success"]), (&json!(false), &json!(false)));
    // Positive control: one that ran did.
    let made = server.agent().post("/v1/programs", &json!({ "code": "lists()" })).await;
    let chain = &made.body["tool_chains"][0];
    assert_eq!((&chain["success"], &made.body["tools_success"]), (&json!(true), &json!(true)));
    assert!(server.stop().await.success());
}
