//! Plugins that are MCP servers: the session of `source-mcp`, in a sandbox of a plugin.

use std::time::{Duration, Instant};

use crate::stage::{SOON, Stage, processes, tried, value};
use serde_json::{Value, json};
use tool::{CatalogItem, Json, PermissionLevel, SafetyLevel};

const SERVER: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
settings = json.loads(os.environ["TOOLKEEP_SETTINGS"])
VERSION = 1
tools = ["which", "Look-Up", "grow", "outside", "die"]

def listed():
    text = {"type": "object", "properties": {"path": {"type": "string"}, "wait": {"type": "number"}}}
    return [{"name": name, "description": "of the server", "inputSchema": text} for name in tools]

def call(name, args):
    if name == "which":
        time.sleep(args.get("wait", 0))
        return {"version": VERSION, "settings": settings, "cwd": os.getcwd()}
    if name == "Look-Up":
        return {"found": sorted(os.listdir("."))}
    if name == "grow":
        tools.append("more")
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return {}
    if name == "outside":
        return {"text": open(args["path"]).read()}
    if name == "die":
        os._exit(3)
    raise KeyError(name)

def say(message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    said = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        said["result"] = {"protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        said["result"] = {"tools": listed()}
    elif method == "tools/call":
        try:
            value = call(params["name"], params.get("arguments", {}))
            said["result"] = {"content": [{"type": "text", "text": "x"}], "structuredContent": value}
        except Exception as error:
            said["result"] = {"content": [{"type": "text", "text": f"{type(error).__name__}: {error}"}], "isError": True}
    else:
        said["result"] = {}
    say(said)
"#;

fn manifest() -> Value {
    json!({
        "schema_version": "1.0", "name": "s", "version": "1.0.0", "description": "d", "kind": "mcp",
        "command": ["./main.py"], "settings_schema": {"greeting": {"type": "string", "default": "Hi"}},
        "tools": [{"name": "which", "side_effects": ["read_only"], "safety": "cautious",
            "required_permission": "admin", "category": "data"}],
    })
}

fn server(stage: &Stage, code: &str) {
    stage.write("s", "main.py", code);
    let at = stage.folder("s").join("main.py");
    let run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(at, run).unwrap();
}

async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.manifest("s", &manifest());
    server(&stage, SERVER);
    stage.reload().await;
    stage
}

#[tokio::test]
async fn a_server_is_a_plugin_and_the_manifest_says_what_holds_for_its_tools() {
    let stage = stage().await;
    let listing = stage.listing("s").await;
    assert_eq!(listing.problems, []);
    let names = listing.offers.iter().filter_map(|offer| match &offer.item {
        CatalogItem::Tool(tool) => Some(tool.name.as_str().to_owned()),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    assert_eq!(names, ["s.which", "s.Look-Up", "s.grow", "s.outside", "s.die"]);
    let tool = |name: &'static str| async { stage.offer("s", name).await.item };
    let CatalogItem::Tool(which) = tool("which").await else { panic!() };
    assert_eq!(
        (which.traits.min_level, which.traits.safety),
        (PermissionLevel::Admin, SafetyLevel::Cautious)
    );
    assert_eq!(which.traits.categories, ["data"]);
    assert_eq!(which.description, "of the server");
    let CatalogItem::Tool(other) = tool("Look-Up").await else { panic!() };
    assert_eq!(
        (other.traits.min_level, other.traits.safety),
        (PermissionLevel::User, SafetyLevel::Safe)
    );
    // A pin holds the folder and the definition.
    let received = which.raw_definition.to_value();
    let content = serde_json::to_value(stage.standing("s").content_digest).unwrap();
    assert_eq!((&received["content"], &received["tool"]["name"]), (&content, &json!("which")));
    let said = stage.call("s", "which", json!({})).await.unwrap();
    assert_eq!((&said["version"], &said["settings"]), (&json!(1), &json!({"greeting": "Hi"})));
    assert_eq!(
        stage.call("s", "Look-Up", json!({})).await.unwrap()["found"],
        json!(["main.py", "manifest.json"])
    );
    let alias = listing.aliases.iter().map(|it| it.alias.as_str()).collect::<Vec<_>>();
    assert_eq!(alias[..2], ["which", "Look-Up"]);
    // It is in a sandbox.
    let secret = stage.home.path().join("secret");
    std::fs::write(&secret, "hunter2").unwrap();
    let error = stage.call("s", "outside", json!({"path": secret})).await.unwrap_err();
    assert!(error.starts_with("FileNotFoundError"), "{error}");
    stage.registry.close().await;
}

#[tokio::test]
async fn a_server_reloads_and_calls_finish_on_the_version_they_began_with() {
    let stage = stage().await;
    let old = stage.offer("s", "which").await;
    let running = tokio::spawn(async move { tried(&old, json!({"wait": 1.5}), SOON).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server(&stage, &SERVER.replace("VERSION = 1", "VERSION = 2"));
    assert_eq!(stage.reload().await, (vec!["s".to_owned()], vec![]));
    assert_eq!(stage.call("s", "which", json!({})).await.unwrap()["version"], 2);
    assert_eq!(value(&running.await.unwrap().unwrap()).unwrap()["version"], 1);
    // Settings are a new version too.
    let changes = Json::encode(&json!({"custom_config": {"greeting": "Ho"},
        "tool_overrides": {"die": {"enabled": false}}}));
    stage.registry.update_settings("s", &changes).await.unwrap();
    let said = stage.call("s", "which", json!({})).await.unwrap();
    assert_eq!((&said["version"], &said["settings"]), (&json!(2), &json!({"greeting": "Ho"})));
    let standing = stage.standing("s");
    let die = standing.tools.iter().find(|tool| tool.name == "die").unwrap();
    assert_eq!((die.is_enabled, die.disabled_reason.as_deref()), (false, Some("it is disabled")));
    // A broken one keeps the last good version.
    for (code, told) in [
        (
            "#!/usr/bin/env python3\nimport sys\nsys.exit(4)\n".to_owned(),
            "its server does not start: ",
        ),
        (SERVER.replace("\"which\", ", ""), "the server has no tool `which`"),
    ] {
        server(&stage, &code);
        assert_eq!(stage.reload().await, (vec![], vec!["s".to_owned()]));
        let problem = &stage.listing("s").await.problems[0].message;
        assert!(
            problem.starts_with(
                "the new version is invalid, so version 1.0.0 stays \
            active: "
            ),
            "{problem}"
        );
        assert!(problem.contains(told), "{problem}");
        assert_eq!(stage.call("s", "which", json!({})).await.unwrap()["version"], 2);
    }
    let home = stage.home.path().to_owned();
    stage.registry.close().await;
    assert_eq!(processes(&home), 0);
}

#[tokio::test]
async fn a_server_that_lists_other_things_or_dies_is_followed() {
    let stage = stage().await;
    stage.call("s", "grow", json!({})).await.unwrap();
    let began = Instant::now();
    while stage.listing("s").await.offers.len() < 6 {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(stage.call("s", "die", json!({})).await.is_err());
    let which = stage.offer("s", "which").await;
    let began = Instant::now();
    while tried(&which, json!({}), SOON).await.is_err() {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.registry.close().await;
}

/// A manifest whose parameters do not fit what runs is told at load, of this kind too.
#[tokio::test]
async fn a_manifest_that_does_not_fit_its_server_is_told_at_load() {
    let stage = Stage::new().await;
    let mut all = manifest();
    let text = json!({"type": "string"});
    all["tools"] = json!([
        {"name": "which", "parameters": {"wait": {"type": "number", "maximum": 1}}},
        {"name": "Look-Up", "parameters": {"other": text}},
        {"name": "none"},
    ]);
    stage.manifest("s", &all);
    let strict = SERVER.replace(
        "text = {\"type\": \"object\", ",
        "text = {\"type\": \"object\", \"additionalProperties\": False, ",
    );
    server(&stage, &strict);
    stage.reload().await;
    let told: Vec<_> =
        stage.listing("s").await.problems.iter().map(|it| it.message.clone()).collect();
    assert_eq!(
        told,
        [
            "the manifest does not match the tool: the server's tool has no parameter `other`",
            "the server has no tool `none`"
        ]
    );
    // What the manifest declares narrows what the server takes.
    let CatalogItem::Tool(which) = stage.offer("s", "which").await.item else { panic!() };
    assert_eq!(
        which.input_schema.to_value()["properties"],
        json!({"wait": {"type": "number", "maximum": 1}})
    );
    // A sandboxed server has no network; the problem names the way that has.
    all["needs"] = json!({"network": ["docs.rs"]});
    stage.manifest("n", &{
        let mut other = all.clone();
        other["name"] = json!("n");
        other
    });
    stage.reload().await;
    let problem = &stage.listing("n").await.problems[0];
    assert!(
        problem.message.starts_with("it needs network access, which a sandboxed MCP server"),
        "{problem:?}"
    );
    assert!(problem.help.as_deref().unwrap().starts_with(
        "configure the server as a separate \
        source"
    ));
    stage.registry.close().await;
}
