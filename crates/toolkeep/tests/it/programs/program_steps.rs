//! Tests of program data, multi-call turns, progress streams and cancellation.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{run, start_default_server};
use crate::real_support::recording_module::{Module, manifest};
use crate::real_support::{expect_ok, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::server_process::{READY_LIMIT, Server, start_server};

#[tokio::test]
async fn steps_run_in_waves_and_name_what_others_came_to() {
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let steps = json!([
        { "id": "mean", "tool": "statistics", "arguments": { "data": ["$b", "$a"], "metrics": ["mean"] } },
        { "id": "b", "tool": "calculate", "arguments": { "expression": "40 + 2" } },
        { "id": "a", "tool": "calculate", "arguments": { "expression": "$text" } },
        { "id": "last", "tool": "calculate", "arguments": { "expression": "1" }, "depends_on": ["mean"] },
    ]);
    let came = run(&agent, json!({ "steps": steps, "inputs": { "text": "6 * 3" } })).await;
    assert_eq!(
        came["result"],
        json!({ "a": 18, "b": 42, "mean": { "mean": 30.0 }, "last": 1 }),
        "{came}"
    );
    let chain = &came["tool_chains"][0];
    assert_eq!(
        (&chain["waves"], &chain["steps"], &chain["mode_used"]),
        (&json!(3), &json!(4), &json!("dep"))
    );
    assert_eq!(
        came["observation"],
        "Observation:\n[mean]: {\"mean\":30.0}\n---\n[b]: 42\n---\n[a]: 18\n---\n[last]: 1"
    );
    for (steps, told) in [
        (
            json!([{ "id": "a", "tool": "calculate" }, { "id": "a", "tool": "calculate" }]),
            "steps[1].id: duplicate step `a`",
        ),
        (
            json!([{ "id": "a", "tool": "calculate", "depends_on": ["z"] }]),
            "steps[0].depends_on: unknown step `z`",
        ),
        (
            json!([
                { "id": "a", "tool": "calculate", "depends_on": ["b"] },
                { "id": "b", "tool": "calculate", "depends_on": ["a"] },
            ]),
            "steps: these wait for each other, or for one that does: a, b",
        ),
        (
            json!([{ "id": "a", "tool": "run_program" }]),
            "Structured mode: multi-tool chaining requires chain opt-in for non-read-only tools. Blocked tools: run_program.",
        ),
    ] {
        let came = agent.post("/v1/programs", &json!({ "steps": steps })).await;
        assert_eq!(came.body["error"], told, "{came:?}");
        assert_eq!(came.body["calls"], json!([]));
    }
    let both = agent.post("/v1/programs", &json!({ "steps": [], "code": "1" })).await;
    assert_eq!(both.status, 400, "{both:?}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn steps_with_effects_wait_for_a_person_too() {
    let (home, server) = start_default_server().await;
    let agent = server.agent();
    let steps = json!([
        { "id": "write", "tool": "write_file", "arguments": { "path": "s.txt", "content": "$$5" } },
        { "id": "read", "tool": "read_file", "arguments": { "path": "s.txt" }, "depends_on": ["write"] },
    ]);
    let reply = agent.post("/v1/programs", &json!({ "steps": steps })).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let call = reply.body["pending"][0]["approval"].as_str().unwrap();
    let path = format!("/v1/approvals/{call}/approve");
    assert_eq!(server.owner().post(&path, &json!({})).await.status, 200);
    let id = reply.body["program"].as_str().unwrap();
    let came = expect_ok(agent.get(&format!("/v1/programs/{id}?wait=30s")).await);
    assert_eq!(came["result"]["read"]["content"], "$5", "{came}");
    assert!(home.data().join("work/s.txt").exists());
    assert!(server.stop().await.success());
}

/// A service, and a server with one tool that asks it and only looks.
async fn looking() -> (Module, Installation, Server) {
    let service = Module::start(manifest("m", &[]));
    let home =
        Installation::new("version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\n");
    let url = service.url();
    let tool = format!(
        "version: 2\ntools:\n  - name: look\n    description: Looks.\n    side_effects: [read_only]\n    \
         allowed_callers: [direct, chain]\n    parameters: {{ type: object, properties: {{ n: {{ type: integer }} }} }}\n    \
         implementation: {{ type: http, method: POST, url: '{url}/execute' }}\n"
    );
    home.write("tools.yaml", &tool);
    let server = start_server(&home).await;
    wait_for_sources(&server.owner()).await;
    (service, home, server)
}

/// Until so many calls have come in.
async fn came_in(service: &Module, calls: usize) {
    let there = async {
        while service.received().len() < calls {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(READY_LIMIT, there).await.unwrap();
}

#[tokio::test]
async fn four_calls_of_a_wave_run_at_once_and_no_more() {
    let (service, _home, server) = looking().await;
    service.hold_calls(true);
    let lines: Vec<String> = (0..10).map(|n| format!("a{n} = look(n={n})")).collect();
    let code = lines.join("\n");
    let agent = server.agent();
    let mut program =
        JoinSet::from_iter([async move { run(&agent, json!({ "code": code })).await }]);
    came_in(&service, 4).await;
    // No fifth comes while these are not answered.
    sleep(Duration::from_millis(200)).await;
    assert_eq!(service.received().len(), 4);
    service.hold_calls(false);
    let came = timeout(READY_LIMIT, program.join_next()).await.unwrap().unwrap().unwrap();
    let chain = &came["tool_chains"][0];
    assert_eq!(
        (&chain["mode_used"], &chain["waves"]),
        (&json!("parallel_read_only"), &json!(1)),
        "{came}"
    );
    assert_eq!(service.received().len(), 10);
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn ten_slow_calls_of_a_wave_take_the_time_of_three() {
    let (service, _home, server) = looking().await;
    let agent = server.agent();
    let lines: Vec<String> = (0..10).map(|n| format!("a{n} = look(n={n})")).collect();
    let code = lines.join("\n");
    run(&agent, json!({ "code": code })).await;
    service.set_delay(200);
    let came = run(&agent, json!({ "code": code })).await;
    let took = came["tool_chains"][0]["elapsed_ms"].as_u64().unwrap();
    println!("ten calls of 200 ms in one wave: {took} ms");
    // One after the other they take two seconds.
    assert!((600..2_000).contains(&took), "{came}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_program_that_runs_is_followed_and_given_up() {
    let (service, _home, server) = looking().await;
    service.hold_calls(true);
    let agent = server.agent();
    let begun = agent.clone();
    let code = json!({ "code": "for n in range(5):\n    look(n=n)" });
    let mut program = JoinSet::from_iter([async move { begun.post("/v1/programs", &code).await }]);
    came_in(&service, 1).await;
    let list = expect_ok(agent.get("/v1/programs").await);
    assert_eq!(list["programs"][0]["status"], "running", "{list}");
    let path = format!("/v1/programs/{}", list["programs"][0]["program"].as_str().unwrap());
    assert_eq!(expect_ok(agent.get(&path).await)["status"], "running");
    assert_eq!(server.owner().get(&path).await.status, 404);
    let cancelled =
        timeout(READY_LIMIT, agent.post(&format!("{path}/cancel"), &json!({}))).await.unwrap();
    assert_eq!(cancelled.body["status"], "cancelled", "{cancelled:?}");
    let came = timeout(READY_LIMIT, program.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(came.body["status"], "cancelled", "{came:?}");
    service.hold_calls(false);
    assert_eq!(service.received().len(), 1);
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn changes_of_a_program_come_as_events() {
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let code = json!({ "code": "a = write_file(path='e.txt', content='x')\ncalculate('1')\n7" });
    let held = agent.post("/v1/programs", &code).await.body;
    let path = format!("/v1/programs/{}", held["program"].as_str().unwrap());
    let following = agent.events(&path);
    let call = held["pending"][0]["approval"].as_str().unwrap().to_owned();
    let owner = server.owner();
    let decides = async {
        sleep(Duration::from_millis(100)).await;
        owner.post(&format!("/v1/approvals/{call}/approve"), &json!({})).await
    };
    let (events, decided) =
        timeout(READY_LIMIT, async { tokio::join!(following, decides) }).await.unwrap();
    assert_eq!(decided.status, 200);
    let states: Vec<&str> = events.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(
        (states[0], states[states.len() - 1]),
        ("pending_approval", "succeeded"),
        "{states:?}"
    );
    assert!(states.len() >= 3 && states.contains(&"running"), "{states:?}");
    assert_eq!(events.last().unwrap()["result"], 7);
    // A program that has ended is reported once.
    assert_eq!(timeout(READY_LIMIT, agent.events(&path)).await.unwrap().len(), 1);
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn the_tool_that_runs_programs_lists_the_functions_of_its_caller() {
    let (_home, server) = start_default_server().await;
    let of = |list: &Value, key: &str| {
        let all = list["tools"].as_array().unwrap();
        let own =
            |it: &&Value| it["name"] == "run_program" || it["function"]["name"] == "run_program";
        all.iter()
            .find(own)
            .map(|it| it.pointer(key).unwrap().as_str().unwrap().to_owned())
            .unwrap()
    };
    let agent = server.agent();
    let openai = expect_ok(agent.get("/v1/tools?format=openai_chat").await);
    let text = of(&openai, "/function/description");
    assert!(text.contains("Functions:\n"), "{text}");
    assert!(text.contains("\ncalculate(expression: str)\n"), "{text}");
    // Neither itself nor more than a few tokens.
    assert!(!text.contains("\nrun_program(") && text.len() < 8_000, "{text}");
    // Who may not write has no function that does.
    let guest = expect_ok(agent.get("/v1/tools?format=openai_chat&read_only=true").await);
    let less =
        guest["tools"].as_array().unwrap().iter().any(|it| it["function"]["name"] == "run_program");
    assert!(!less || !of(&guest, "/function/description").contains("\nwrite_file("), "{guest}");
    assert!(text.contains("\nwrite_file("), "{text}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_script_leaves_its_place_to_others_while_its_call_takes_long() {
    let (service, _home, server) = looking().await;
    service.hold_calls(true);
    // More than there are places; a loop is no wave.
    let mut programs = JoinSet::new();
    for own in 0..12 {
        let agent = server.agent();
        programs.spawn(async move {
            let code = "all = []\nfor n in range(3):\n    look(n=n)\n    all.append(own * n)\nall";
            run(&agent, json!({ "code": code, "inputs": { "own": own } })).await
        });
    }
    // The first call of each is there, and none is answered.
    came_in(&service, 12).await;
    service.hold_calls(false);
    let mut results = Vec::new();
    while let Some(came) = timeout(READY_LIMIT, programs.join_next()).await.unwrap() {
        let came = came.unwrap();
        assert_eq!((&came["status"], &came["tools_used"]), (&json!("succeeded"), &json!(3)));
        results.push(came["result"].to_string());
    }
    results.sort();
    let mut right: Vec<_> = (0..12).map(|own| format!("[0,{own},{}]", 2 * own)).collect();
    right.sort();
    assert_eq!(results, right);
    assert_eq!(service.received().len(), 36);
    assert!(server.stop().await.success());
}
