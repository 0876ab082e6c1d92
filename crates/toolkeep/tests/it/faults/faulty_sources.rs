//! Tests of one server with every kind of faulty source next to healthy ones.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::http_module::{Module, ModuleBehavior};
use crate::support::installation::Installation;
use crate::support::mcp_source;
use crate::support::process_marks::new_mark;
use crate::support::rest_client::{Client, Reply};
use crate::support::server_process::{Server, spawn_server};

/// Calls of good sources while the others misbehave, at least.
const CALLS: usize = 500;
/// Calls that hang at once, and how often that is done meanwhile.
const HUNG: (usize, usize) = (8, 3);
/// Callers of good sources at once.
const CALLERS: usize = 4;
/// The limit of the module that hangs.
const LIMIT: Duration = Duration::from_secs(2);

const TOOLS: &str = "\
version: 1
tools:
  - name: save
    description: Stands for something that writes.
    parameters: { type: object }
    side_effects: [modifies_files]
    implementation: { type: mock, mock_response: { saved: true } }
  - name: bad
    description: Its level is none.
    parameters: { type: object }
    required_permission: gest
    implementation: { type: mock, mock_response: 1 }
";

/// Modules, by name and manner.
const MODULES: &[(&str, ModuleBehavior)] = &[
    ("good", ModuleBehavior::Good),
    ("silent", ModuleBehavior::Silent),
    ("refuses", ModuleBehavior::Refuses),
    ("garbled", ModuleBehavior::Garbled),
    ("hangs", ModuleBehavior::HangsInCalls),
    ("fails", ModuleBehavior::FailsInCalls),
    ("dies", ModuleBehavior::DiesInCalls),
];

/// Faulty sources: their state, the location of their fault, and its message.
const SHOWN: &[(&str, &str, &str, &str)] = &[
    ("local", "ok", "tools.yaml:8 tool `bad`", "unknown permission level"),
    ("silent", "failed", "http://127.0.0.1:", "no manifest was received"),
    ("refuses", "failed", "http://127.0.0.1:", "status 500"),
    ("garbled", "failed", "http://127.0.0.1:", "cannot parse the manifest"),
    ("dies", "stale", "http://127.0.0.1:", ""),
    ("crashes", "failed", "it-mcp", "out of cheese"),
    ("babbles", "failed", "it-mcp", "not MCP messages"),
    ("absent", "failed", "no-such-program", "is it installed"),
    ("missing", "failed", "no-such-file.yaml", ""),
];

/// Faulty sources whose error has no advice yet.
const NO_ADVICE: &[&str] = &["crashes"];

/// Duration of a call to the hanging module: its `timeout`.
const HANG: Duration = Duration::from_secs(2);

struct FaultScene {
    home: Installation,
    modules: Vec<Module>,
}

async fn scene() -> FaultScene {
    let (mut sources, mut modules) = (String::new(), Vec::new());
    let mark = new_mark();
    for &(name, manner) in MODULES {
        let module = Module::start(name, manner).await;
        let limit = if manner == ModuleBehavior::HangsInCalls { ", timeout: 2s" } else { "" };
        sources.extend(["  - { name: ", name, ", module: '", &module.url(), "'", limit, " }\n"]);
        modules.push(module);
    }
    sources += "  - { name: local, tools: ./tools.yaml }\n";
    sources += "  - { name: missing, tools: ./no-such-file.yaml }\n";
    sources += "  - { name: absent, mcp: { command: no-such-program } }\n";
    for (name, mode) in [("child", "echo"), ("crashes", "crash"), ("babbles", "babble")] {
        sources += &mcp_source::source(name, mode, &mark);
    }
    let home = Installation::new(&format!("version: 1\nsources:\n{sources}"));
    home.write("tools.yaml", TOOLS);
    FaultScene { home, modules }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_sources_reach_no_call_of_the_good_ones_and_are_named() {
    let scene = scene().await;
    let server = spawn_server(&scene.home).wait_until_ready().await;
    let (agent, owner) = (server.agent(), server.owner());
    for name in ["good", "child", "local", "hangs", "fails", "dies"] {
        owner.wait_for_source(name, |source| source["state"] == "ok").await;
    }
    let silent = owner.find_source("silent").await.unwrap();
    let stop = CancellationToken::new();
    let trouble = make_trouble(&server, &stop);
    let none = json!({});
    let (good, lost) = tokio::join!(call_the_good(&agent, &stop), agent.call("dies.work", &none));
    let mut troubled = trouble.join_all().await;
    troubled.sort_by_key(|(what, _)| *what);
    println!(
        "faults: {} calls of good sources, {} errors, slowest {:?}; meanwhile {troubled:?}; the \
         silent source was {} at the beginning",
        good.calls,
        good.errors.len(),
        good.slowest,
        silent["state"],
    );
    assert!(good.calls >= CALLS && good.errors.is_empty(), "{:?}", good.errors);
    // None waited behind a call that hangs; some may be late on a busy machine all the same.
    assert!(good.late * 100 < good.calls, "{} of {} calls were late", good.late, good.calls);
    assert!(troubled.iter().all(|(_, count)| *count > 0));
    assert_eq!(scene.modules[0].execution_count(), good.executed);
    assert!(["upstream_lost", "upstream_failed"].contains(&lost.code()), "{lost:?}");
    recorded(&owner, &lost).await;
    owner.post("/v1/sources/refresh", &json!({ "source": "dies" })).await;
    for shown in SHOWN {
        assert_reported(&owner, shown).await;
    }
    assert!(server.stop().await.success());
}

/// Results of the calls of good sources.
#[derive(Debug, Default)]
struct HealthySources {
    calls: usize,
    /// Of them, those that the good module ran.
    executed: usize,
    slowest: Duration,
    /// Those that took as long as a call to a source that hangs.
    late: usize,
    /// All that were not answered well.
    errors: Vec<Reply>,
}

impl HealthySources {
    async fn call(&mut self, agent: &Client) {
        let n = self.calls;
        let (tool, expected) = match n % 4 {
            0 => ("good.work", None),
            1 => ("child.echo", Some(Value::from(json!({ "n": n }).to_string()))),
            2 => ("save", Some(json!({ "saved": true }))),
            _ => ("echo", Some(json!({ "echo": { "n": n } }))),
        };
        let since = Instant::now();
        let reply = agent.call(tool, &json!({ "n": n })).await;
        self.slowest = self.slowest.max(since.elapsed());
        self.late += usize::from(since.elapsed() >= HANG);
        self.calls += 1;
        self.executed += usize::from(tool == "good.work");
        let right = expected.is_none_or(|expected| reply.body["result"] == expected);
        if reply.status != 200 || !right {
            self.errors.push(reply);
        }
    }
}

/// Calls four kinds of good tools in rotation until it is stopped, at least [`CALLS`] times.
async fn call_the_good(agent: &Client, stop: &CancellationToken) -> HealthySources {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (agent, stop) = (agent.clone(), stop.clone());
        callers.spawn(async move {
            let mut good = HealthySources::default();
            while good.calls < CALLS / CALLERS || !stop.is_cancelled() {
                good.call(&agent).await;
            }
            good
        });
    }
    let mut all = HealthySources::default();
    for good in callers.join_all().await {
        all.calls += good.calls;
        all.executed += good.executed;
        all.slowest = all.slowest.max(good.slowest);
        all.errors.extend(good.errors);
    }
    all
}

/// Calls the hanging source this many times, and meanwhile calls the failing ones and refreshes the
/// faulty sources. Returns how often each was done.
fn make_trouble(server: &Server, stop: &CancellationToken) -> JoinSet<(&'static str, usize)> {
    let mut trouble = JoinSet::new();
    let (agent, owner, stopped) = (server.agent(), server.owner(), stop.clone());
    trouble.spawn(async move {
        let mut count = 0;
        for _ in 0..HUNG.1 {
            let hung = (0..HUNG.0).map(|_| call_hung(agent.clone(), owner.clone()));
            count += hung.collect::<JoinSet<_>>().join_all().await.len();
        }
        stopped.cancel();
        ("hung", count)
    });
    let (agent, owner, stopped) = (server.agent(), server.owner(), stop.clone());
    trouble.spawn(async move {
        let mut count = 0;
        while count == 0 || !stopped.is_cancelled() {
            let reply = agent.call("fails.work", &json!({})).await;
            assert_eq!((reply.status, reply.code()), (502, "upstream_failed"), "{reply:?}");
            recorded(&owner, &reply).await;
            count += 1;
        }
        ("failed", count)
    });
    let (owner, stopped) = (server.owner(), stop.clone());
    trouble.spawn(async move {
        let mut count = 0;
        while count == 0 || !stopped.is_cancelled() {
            for source in ["crashes", "babbles", "refuses", "garbled", "absent", "missing"] {
                let reply = owner.post("/v1/sources/refresh", &json!({ "source": source })).await;
                assert_eq!(reply.status, 200, "{reply:?}");
                count += 1;
            }
        }
        ("refreshed", count)
    });
    trouble
}

/// A call without a response ends at its time limit, with the matching code.
async fn call_hung(agent: Client, owner: Client) {
    let since = Instant::now();
    let reply = agent.call("hangs.work", &json!({})).await;
    let took = since.elapsed();
    assert_eq!((reply.status, reply.code()), (504, "timeout"), "{reply:?}");
    // Never before its limit; how long after depends on the machine.
    assert!(took >= LIMIT && took < LIMIT * 10, "{took:?}");
    recorded(&owner, &reply).await;
}

/// A call that failed has its outcome on record, with the code it was answered with.
async fn recorded(owner: &Client, reply: &Reply) {
    let state = owner.fetch_record(reply.call_id()).await.body;
    let (status, code) = (state["status"].as_str(), state["code"].as_str());
    assert_eq!((status, code), (Some("failed"), Some(reply.code())), "{state}");
    let kinds: Vec<_> =
        state["records"].as_array().unwrap().iter().map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["intent", "outcome"]);
}

/// A source's fault is shown: where, what, and what to do.
async fn assert_reported(
    owner: &Client,
    &(name, state, place, message): &(&str, &str, &str, &str),
) {
    let source = owner.wait_for_source(name, |source| source["state"] == state).await;
    let problem = &source["problems"][0];
    let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    assert!(text("place").contains(place), "`{name}` says where: {source}");
    assert!(text("message").contains(message) && text("message").len() > 10, "{source}");
    let advised = text("fix").len() > 10 || NO_ADVICE.contains(&name);
    assert!(advised, "`{name}` says what to do: {source}");
}
