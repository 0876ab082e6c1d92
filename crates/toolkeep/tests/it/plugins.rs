//! Tests of plugins over REST and the command line.

mod shipped_plugins;
mod tool_file;

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::Instant;

use crate::support::installation::Installation;
use crate::support::server_process::{READY_LIMIT, Server, TOOLKEEP, start_server};

const CONFIG: &str = "version: 1\nplugins:\n  folders: [./plugins]\n";

fn code(version: u32) -> String {
    format!(
        "def which():\n    return {version}\n\ndef add(a, b=1):\n    return {{'sum': a + b}}\n\n\
         def read_file(path):\n    return 'of the plugin'\n"
    )
}

fn manifest() -> Value {
    let tool = |name: &str, parameters: Value| {
        json!({"name": name, "description": "d", "module": "tools", "function": name,
            "parameters": parameters, "side_effects": ["read_only"]})
    };
    let number = json!({"type": "integer", "required": true});
    json!({
        "schema_version": "1.0", "name": "p", "version": "1.2.3", "description": "for a test",
        "tools": [
            tool("which", json!({})),
            tool("add", json!({"a": number, "b": {"type": "integer"}})),
            tool("read_file", json!({"path": {"type": "string", "required": true}})),
        ],
    })
}

fn write(home: &Installation, file: &str, text: &str) {
    std::fs::create_dir_all(home.path("plugins/p")).unwrap();
    home.write(&format!("plugins/p/{file}"), text);
}

pub(crate) fn home(config: &str) -> Installation {
    let home = Installation::new(config);
    write(&home, "manifest.json", &manifest().to_string());
    write(&home, "tools.py", &code(1));
    home
}

async fn toolkeep(home: &Installation, server: &Server, words: &[&str]) -> Output {
    let key = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    let mut command = Command::new(TOOLKEEP);
    command.args(words).args(["--url", &server.url]).env("TOOLKEEP_KEY", key.trim());
    command.current_dir(home.path("."));
    command.output().await.unwrap()
}

fn told(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[tokio::test]
async fn a_python_plugin_is_called_through_rest_and_reloads() {
    let home = home(CONFIG);
    let server = start_server(&home).await;
    let (agent, owner) = (server.agent(), server.owner());
    let sum = agent.call("p.add", &json!({"a": 2})).await;
    assert_eq!((sum.status, &sum.body["result"]), (200, &json!({"sum": 3})), "{sum:?}");
    // As in the research registry, undeclared arguments are rejected.
    let extra = agent.call("p.add", &json!({"a": 2, "c": 3})).await;
    assert_eq!((extra.status, extra.code()), (400, "invalid_arguments"));
    // The bare name, if it is available.
    assert_eq!(agent.call("which", &json!({})).await.body["result"], 1);
    let builtin = agent.call("read_file", &json!({"path": "none"})).await;
    assert_ne!(builtin.body["result"], "of the plugin");
    let mine = agent.call("p.read_file", &json!({"path": "none"})).await;
    assert_eq!(mine.body["result"], "of the plugin");
    // A change is applied automatically, within two seconds and some more on a busy machine.
    write(&home, "tools.py", &code(2));
    let began = Instant::now();
    while agent.call("p.which", &json!({})).await.body["result"] != 2 {
        assert!(began.elapsed() < READY_LIMIT, "{}", server.log_text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A broken change is rejected with its reason.
    write(&home, "tools.py", "def which(:\n");
    let done = owner.post("/v1/plugins/reload", &json!({})).await;
    assert_eq!(done.body["failed"], json!(["p"]), "{done:?}");
    let problem = done.body["plugins"][0]["problems"][0]["message"].as_str().unwrap();
    assert!(
        problem.starts_with(
            "the new version is invalid, so version 1.2.3 stays active: \
            SyntaxError"
        ),
        "{problem}"
    );
    assert_eq!(agent.call("p.which", &json!({})).await.body["result"], 2);
    // Mended on request: the next call has it.
    write(&home, "tools.py", &code(3));
    let done = owner.post("/v1/plugins/reload", &json!({"plugin": "p"})).await;
    assert_eq!(done.body["reloaded"], json!(["p"]), "{done:?}");
    assert_eq!(agent.call("p.which", &json!({})).await.body["result"], 3);
    let none = owner.post("/v1/plugins/reload", &json!({"plugin": "q"})).await;
    assert_eq!((none.status, none.code()), (404, "not_found"));
    assert!(server.stop().await.success());
}

/// Contracts 3.9: the results of the tools.
#[tokio::test]
async fn agents_see_the_plugins_and_those_with_the_right_reload_them() {
    let home = home(CONFIG);
    let server = start_server(&home).await;
    let (agent, owner) = (server.agent(), server.owner());
    let listed = agent.call("list_plugins", &json!({})).await.body["result"].clone();
    assert_eq!(
        listed,
        json!({
            "status": "success", "plugin_count": 1, "tool_count": 3,
            "plugins": {"p": {"tools": ["which", "add", "read_file"], "enabled": true}},
        })
    );
    // As in the REST interface, reloading requires a right that an agent has only if granted.
    let refused = agent.call("reload_plugins", &json!({})).await;
    assert_eq!(refused.code(), "forbidden", "{refused:?}");
    let none = owner.call("reload_plugins", &json!({})).await.body["result"].clone();
    assert_eq!(none, json!({"status": "success", "reloaded": 0, "message": "Reloaded 0 plugins"}));
    write(&home, "tools.py", &code(5));
    // Watching may have been first.
    let one = owner.call("reload_plugins", &json!({})).await.body["result"].clone();
    assert!(one["reloaded"].as_u64().unwrap() <= 1, "{one}");
    assert_eq!(agent.call("p.which", &json!({})).await.body["result"], 5);
    // Settings are no agent's.
    let refused = agent.post("/v1/plugins/p/settings", &json!({"enabled": false})).await;
    assert_eq!(refused.status, 403);
    let off = json!({"tool_overrides": {"add": {"enabled": false}}});
    let set = server.owner().post("/v1/plugins/p/settings", &off).await;
    assert_eq!(
        set.body["settings"]["tool_overrides"],
        json!({"add": {"enabled": false}}),
        "{set:?}"
    );
    assert_eq!(agent.call("p.add", &json!({"a": 1})).await.code(), "unknown_tool");
    let listed = agent.call("list_plugins", &json!({})).await.body["result"].clone();
    assert_eq!(listed["plugins"]["p"]["tools"], json!(["which", "read_file"]));
    assert!(server.stop().await.success());
}

/// Hazard S12: with this setting, a changed folder is not called until a person has approved it.
#[tokio::test]
async fn a_changed_folder_waits_for_a_look_where_plugins_are_not_trusted() {
    let home = home(&format!("{CONFIG}  trust: first_use\n"));
    let server = start_server(&home).await;
    let (agent, owner) = (server.agent(), server.owner());
    assert_eq!(agent.call("p.which", &json!({})).await.body["result"], 1);
    write(&home, "tools.py", &code(2));
    owner.post("/v1/plugins/reload", &json!({})).await;
    assert_eq!(agent.call("p.which", &json!({})).await.code(), "unknown_tool");
    let waiting = owner.find_source("plugin.p").await.unwrap();
    assert_eq!(waiting["waiting"], 3, "{waiting}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_plugin_is_begun_tried_and_set_on_the_command_line() {
    let home = Installation::new(CONFIG);
    let server = start_server(&home).await;
    for (name, kind) in [("greeter", "python"), ("shouter", "command"), ("caller", "mcp")] {
        let new = toolkeep(&home, &server, &["plugin", "new", name, "--kind", kind]).await;
        assert!(new.status.success(), "{}", told(&new));
        let folder = format!("plugins/{name}");
        let tried = toolkeep(&home, &server, &["plugin", "test", &folder]).await;
        assert!(tried.status.success(), "{}", told(&tried));
        assert!(told(&tried).contains("2 of 2 examples passed"), "{}", told(&tried));
    }
    let reloaded = toolkeep(&home, &server, &["plugin", "reload"]).await;
    assert!(reloaded.status.success(), "{}", told(&reloaded));
    let agent = server.agent();
    let hello = agent.call("greeter.greet", &json!({"name": "Ann"})).await;
    assert_eq!(hello.body["result"], json!({"text": "Hello, Ann!"}), "{hello:?}");
    let server_of = agent.call("caller.greet", &json!({"name": "Ann"})).await;
    assert!(server_of.body["result"].to_string().contains("Hello, Ann!"), "{server_of:?}");
    let set =
        toolkeep(&home, &server, &["plugin", "settings", "caller", "greeting=Good night"]).await;
    assert!(set.status.success(), "{}", told(&set));
    let server_of = agent.call("caller.greet", &json!({"name": "Ann"})).await;
    assert!(server_of.body["result"].to_string().contains("Good night, Ann!"), "{server_of:?}");
    let set =
        toolkeep(&home, &server, &["plugin", "settings", "greeter", "greeting=Good day"]).await;
    assert!(told(&set).contains("greeting: Good day"), "{}", told(&set));
    let hello = agent.call("greeter.greet", &json!({"name": "Ann"})).await;
    assert_eq!(hello.body["result"], json!({"text": "Good day, Ann!"}));
    let bad = toolkeep(&home, &server, &["plugin", "settings", "greeter", "greeting=7"]).await;
    assert!(!bad.status.success() && told(&bad).contains("`greeting`"), "{}", told(&bad));
    home.write("plugins/greeter/tools.py", "def greet(name): return name\n");
    let tried = toolkeep(&home, &server, &["plugin", "test", "plugins/greeter"]).await;
    assert!(!tried.status.success(), "{}", told(&tried));
    assert!(told(&tried).contains("greet example 1: expected"), "{}", told(&tried));
    let list = toolkeep(&home, &server, &["plugin", "list"]).await;
    assert!(told(&list).contains("shouter"), "{}", told(&list));
    assert!(server.stop().await.success());
}
