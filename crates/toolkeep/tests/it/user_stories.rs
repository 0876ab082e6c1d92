//! Tests of an assistant builder's setup: HTTP modules and a key for each kind of user. Lists and
//! calls agree, a failed module is only a status, and no user can act as another.

mod file_tools;
mod policy_rules;
mod tool_file;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::real_support::mcp_caller::McpCaller;
use crate::real_support::recording_module::{Module, manifest};
use crate::real_support::{expect_ok, run_cli, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::rest_client::{Client, Reply};
use crate::support::server_process::{Server, start_server};

/// Two modules that live, one with slips in its manifest, and the address of one that is not there.
struct Modules {
    notes: Module,
    home: Module,
    odd: Module,
    gone: String,
}

impl Modules {
    fn start() -> Self {
        let notes = manifest(
            "notes",
            &[
                ("notes.look", "guest", &["topic"]),
                ("notes.append", "user", &["text", "user_id"]),
                ("notes.purge", "admin", &[]),
                ("notes.export", "owner", &[]),
            ],
        );
        let home = manifest("home", &[("home.lamp", "guest", &[]), ("home.door", "user", &[])]);
        // A slip of the pen, and a tool under another module's name.
        let odd = manifest(
            "odd",
            &[("odd.good", "guest", &[]), ("odd.slip", "gues", &[]), ("notes.steal", "guest", &[])],
        );
        let (notes, home, odd) = (Module::start(notes), Module::start(home), Module::start(odd));
        let mut gone = Module::start(json!({}));
        gone.stop_module();
        Self { notes, home, odd, gone: gone.url() }
    }

    /// A server that has them all as sources, and its home.
    async fn served(&self) -> (Installation, Server) {
        let source = |name: &str, url: &str| json!({ "name": name, "module": url });
        let sources = [
            source("notes", &self.notes.url()),
            source("home", &self.home.url()),
            source("odd", &self.odd.url()),
            source("gone", &self.gone),
        ];
        let home = Installation::new(&json!({ "version": 1, "sources": sources }).to_string());
        let server = start_server(&home).await;
        wait_for_sources(&server.owner()).await;
        (home, server)
    }

    /// Calls that reached any module.
    fn received(&self) -> usize {
        [&self.notes, &self.home, &self.odd].iter().map(|module| module.received().len()).sum()
    }
}

/// A caller at both doors.
struct Caller {
    rest: Client,
    mcp: McpCaller,
}

/// One with a key that the operator made on the command line; it may use the tools of `modules` alone.
fn caller(server: &Server, subject: &str, level: &str, modules: &[&str]) -> Caller {
    let mut words = vec!["key", "create", "--subject", subject, "--level", level];
    words.extend(modules.iter().flat_map(|module| ["--module", module]));
    let made = run_cli(server, &words).expect_success();
    let rest = Client::for_url(&server.url).with_key(made.trim());
    Caller { rest, mcp: McpCaller::new(&server.url, made.trim()) }
}

fn names(tools: &Value) -> BTreeSet<String> {
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools["tools"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn what_a_key_lists_is_what_it_can_call_at_every_door() {
    let modules = Modules::start();
    let (_home, server) = modules.served().await;
    let all = names(&expect_ok(server.owner().get("/v1/tools").await));
    let own = builtin_manifests::tool_names();
    let own = own.filter(|name| all.contains(*name)).count();
    assert!(own >= 16, "{all:?}");
    assert_eq!(all.len(), own + 4 + 2 + 1, "{all:?}");
    for (level, persona, expected) in [
        ("guest", &["notes"][..], &["notes.look"][..]),
        ("guest", &["notes", "home"], &["home.lamp", "notes.look"]),
        ("user", &["notes", "home"], &["home.door", "home.lamp", "notes.append", "notes.look"]),
        ("admin", &["notes"], &["notes.append", "notes.look", "notes.purge"]),
    ] {
        let ann = caller(&server, "ann", level, persona);
        let expected: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(names(&expect_ok(ann.rest.get("/v1/tools").await)), expected, "{level}");
        assert_eq!(
            names(&ann.mcp.send_request("tools/list", &json!({})).await["result"]),
            expected,
            "{level}"
        );
        for tool in &all {
            let before = modules.received();
            let called = CallResult::with(&ann, tool).await;
            if expected.contains(tool) {
                called.succeeded(&json!({ "for": "ann" }));
                assert_eq!(modules.received(), before + 2, "{level} {tool}");
            } else {
                called.looks_like(&CallResult::with(&ann, "nobody.has_this").await);
                assert_eq!(modules.received(), before, "{level} {tool}");
            }
        }
    }
    assert!(server.stop().await.success());
}

/// One tool, called at both doors.
struct CallResult {
    tool: String,
    rest: Reply,
    mcp: Value,
}

impl CallResult {
    async fn with(caller: &Caller, tool: &str) -> Self {
        let rest = caller.rest.call(tool, &json!({})).await;
        let params = json!({ "name": tool, "arguments": {} });
        let mcp = caller.mcp.send_request("tools/call", &params).await;
        Self { tool: tool.to_owned(), rest, mcp }
    }

    fn succeeded(&self, result: &Value) {
        assert_eq!((self.rest.status, &self.rest.body["result"]), (200, result), "{:?}", self.rest);
        assert_eq!(&self.mcp["result"]["structuredContent"], result, "{}", self.mcp);
    }

    /// The answers are the other's letter by letter, but for the name and the number of the call.
    fn looks_like(&self, other: &Self) {
        let told = |called: &Self| {
            let rest = called.rest.body.to_string().replace(called.rest.call_id(), "ID");
            let texts = (rest, called.mcp.to_string());
            (texts.0.replace(&called.tool, "NAME"), texts.1.replace(&called.tool, "NAME"))
        };
        assert_eq!((self.rest.status, self.rest.code()), (404, "unknown_tool"), "{}", self.tool);
        assert!(self.mcp["error"].is_object(), "{}", self.mcp);
        assert_eq!(told(self), told(other));
    }
}

#[tokio::test]
async fn a_slip_in_a_manifest_opens_nothing_and_is_told() {
    let modules = Modules::start();
    let (_home, server) = modules.served().await;
    let tools = names(&expect_ok(server.owner().get("/v1/tools").await));
    assert!(tools.contains("odd.good"), "{tools:?}");
    assert!(!tools.contains("odd.slip") && !tools.contains("notes.steal"), "{tools:?}");
    let odd = server.owner().find_source("odd").await.unwrap();
    let told = odd["problems"].to_string();
    assert_eq!(odd["state"], "ok");
    for words in ["odd.slip", "gues", "notes.steal"] {
        assert!(told.contains(words), "{words} is not in {told}");
    }
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_module_that_is_down_is_a_line_and_no_outage() {
    let mut modules = Modules::start();
    let (_home, server) = modules.served().await;
    let (owner, ann) = (server.owner(), caller(&server, "ann", "user", &["notes", "home"]));
    let gone = owner.find_source("gone").await.unwrap();
    assert_eq!((&gone["state"], &gone["fault"]), (&json!("failed"), &json!("unreachable")));
    assert!(gone["problems"][0]["fix"].is_string(), "{gone}");

    modules.home.stop_module();
    let lost = ann.rest.call("home.lamp", &json!({})).await;
    assert_eq!(lost.code(), "upstream_lost", "{lost:?}");
    run_cli(&server, &["source", "refresh"]).expect_success();
    let home = owner.find_source("home").await.unwrap();
    assert_eq!((&home["state"], &home["tools"]), (&json!("stale"), &json!(2)), "{home}");
    let lines = run_cli(&server, &["source", "list"]).expect_success();
    for (name, state) in [("gone", "failed"), ("home", "stale"), ("notes", "ok")] {
        let line = lines.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains(state), "{line}");
    }
    assert_eq!(expect_ok(ann.rest.call("notes.look", &json!({})).await)["status"], "succeeded");
    assert_eq!(ann.rest.get("/readyz").await.status, 200);

    modules.home.restart_module();
    run_cli(&server, &["source", "refresh"]).expect_success();
    assert_eq!(owner.find_source("home").await.unwrap()["state"], "ok");
    assert_eq!(expect_ok(ann.rest.call("home.lamp", &json!({})).await)["status"], "succeeded");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn nobody_acts_as_someone_else() {
    let modules = Modules::start();
    let (_home, server) = modules.served().await;
    let ann = caller(&server, "ann", "user", &["notes"]);
    // Control: called directly, the module trusts the arguments.
    let foreign = json!({ "text": "hi", "user_id": "bob" });
    let call = json!({ "tool_name": "notes.append", "arguments": foreign, "user_id": "ann" });
    let naive = expect_ok(Client::for_url(&modules.notes.url()).post("/execute", &call).await);
    assert_eq!(naive["result"], json!({ "for": "bob" }));

    let own = json!({ "text": "hi", "user_id": "ann" });
    let params = json!({ "name": "notes.append", "arguments": foreign });
    let kept = expect_ok(ann.rest.call("notes.append", &foreign).await)["result"].take();
    let by_mcp =
        ann.mcp.send_request("tools/call", &params).await["result"]["structuredContent"].take();
    assert_eq!([kept, by_mcp], [json!({ "for": "ann" }), json!({ "for": "ann" })]);
    for received in modules.notes.received().split_off(1) {
        assert_eq!((&received["user_id"], &received["arguments"]), (&json!("ann"), &own));
    }
    // A parameter that the manifest does not know is no way round.
    expect_ok(ann.rest.call("notes.look", &json!({ "user_id": "bob" })).await);
    let received = modules.notes.received().pop().unwrap();
    assert_eq!(received["arguments"], json!({ "user_id": "ann" }));
    // Nor is the body of the call.
    let body = json!({ "tool": "notes.look", "arguments": {}, "user_id": "bob" });
    assert_eq!(ann.rest.post("/v1/calls", &body).await.code(), "invalid_request");
    assert!(server.stop().await.success());
}
