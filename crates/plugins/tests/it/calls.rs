//! Calls of Python functions and programs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plugins::{AccessGrant, PluginTemplate};
use serde_json::json;
use tool::{AccessScope, CatalogItem};

use crate::stage::{Stage, called, manifest, tried};

const CODE: &str = r#"
import asyncio, os, sys, time
import toolkeep

def add(a, b=1):
    print("said on the way")
    return {"sum": a + b, "text": "é\u2028", "none": None}

async def later(ms=0):
    await asyncio.sleep(ms / 1000)
    return ms

def fail():
    raise ValueError("no\nsuch luck")

def leave():
    os._exit(3)

def odd():
    return {1, 2}

def mine(settings):
    return settings

def sleep(seconds):
    time.sleep(seconds)
    return "slept"

def spin():
    while True:
        pass

def where():
    return [os.getcwd(), sorted(os.listdir(".")), os.environ.get("HOME")]
"#;

async fn stage() -> Stage {
    let stage = Stage::new().await;
    let number = |required: bool| json!({"type": "integer", "required": required});
    stage.python(
        "p",
        CODE,
        &[
            ("add", json!({"a": number(true), "b": number(false)})),
            ("later", json!({"ms": number(false)})),
            ("fail", json!({})),
            ("leave", json!({})),
            ("odd", json!({})),
            ("mine", json!({})),
            ("sleep", json!({"seconds": {"type": "number", "required": true}})),
            ("spin", json!({})),
            ("where", json!({})),
        ],
    );
    stage.reload().await;
    stage
}

#[tokio::test]
async fn a_function_is_a_tool() {
    let stage = stage().await;
    let listing = stage.listing("p").await;
    assert_eq!(listing.problems, []);
    let sum = stage.call("p", "add", json!({"a": 2})).await.unwrap();
    assert_eq!(sum, json!({"sum": 3, "text": "é\u{2028}", "none": null}));
    assert_eq!(stage.call("p", "later", json!({"ms": 5})).await.unwrap(), 5);
    let error = stage.call("p", "fail", json!({})).await.unwrap_err();
    assert_eq!(error, "ValueError: no such luck (tools.py line 14)");
    let error = stage.call("p", "odd", json!({})).await.unwrap_err();
    assert!(error.starts_with("the answer is no JSON: "), "{error}");
    let alias = listing.aliases.iter().map(|it| it.alias.as_str()).collect::<Vec<_>>();
    assert_eq!(alias[..2], ["add", "later"]);
    stage.registry.close().await;
}

#[tokio::test]
async fn calls_run_at_once_and_a_dead_process_is_replaced() {
    let stage = stage().await;
    let sleep = stage.offer("p", "later").await;
    let began = Instant::now();
    let all = (0..10).map(|_| called(&sleep, json!({"ms": 300})));
    let all = futures(all).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
    let error = stage.call("p", "leave", json!({})).await.unwrap_err();
    assert!(
        error.starts_with(
            "upstream_lost: the process of the plugin `p` ended during the call: \
            exit status 3"
        ),
        "{error}"
    );
    assert_eq!(stage.call("p", "add", json!({"a": 1})).await.unwrap()["sum"], 2);
    stage.registry.close().await;
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut done = Vec::new();
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        all.retain_mut(|one| match one.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_in_the_plugin_too() {
    let stage = stage().await;
    let spin = stage.offer("p", "spin").await;
    for _ in 0..3 {
        let error = tried(&spin, json!({}), Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(error.code, tool::ErrorCode::Cancelled);
    }
    // A pure loop is left by the exception: the process is the same, and free.
    assert_eq!(stage.call("p", "add", json!({"a": 1})).await.unwrap()["sum"], 2);
    // One that hears nothing costs its process, and no other call.
    let sleep = stage.offer("p", "sleep").await;
    let long = tokio::spawn({
        let sleep = sleep.clone();
        async move { called(&sleep, json!({"seconds": 4})).await }
    });
    let error = tried(&sleep, json!({"seconds": 1000}), Duration::from_millis(50)).await;
    assert!(error.is_err());
    assert_eq!(long.await.unwrap().unwrap(), "slept");
    assert_eq!(stage.call("p", "add", json!({"a": 1})).await.unwrap()["sum"], 2);
    stage.registry.close().await;
}

/// Contracts 3.7 names what the original leaves out; here it is checked at load.
#[tokio::test]
async fn a_manifest_that_does_not_fit_its_function_is_told_at_load() {
    let stage = Stage::new().await;
    let text = json!({"type": "string"});
    let sure = json!({"type": "string", "required": true});
    let code = "def good(path, limit=1): return path\ndef less(a): return a\n\
                def any(**more): return more\ndef wants(path, other): return path\n";
    stage.python(
        "p",
        code,
        &[
            ("good", json!({"path": sure, "limit": {"type": "integer"}})),
            ("less", json!({"a": sure, "b": text})),
            ("any", json!({"x": text})),
            ("wants", json!({"path": text})),
            ("none", json!({})),
        ],
    );
    stage.reload().await;
    let listing = stage.listing("p").await;
    let told: Vec<_> = listing.problems.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "the manifest does not fit `less`: the function has no parameter `b`",
            "the manifest does not fit `wants`: the function wants `path`, which the manifest does not require; \
         the function wants `other`, which the manifest does not declare",
            "`tools.py` has no function `none`",
        ]
    );
    assert_eq!(listing.offers.len(), 2, "the others are offered");
    assert_eq!(stage.call("p", "good", json!({"path": "x"})).await.unwrap(), "x");
    let standing = stage.standing("p");
    let why: Vec<_> = standing.tools.iter().map(|tool| tool.is_enabled).collect();
    assert_eq!(why, [true, false, true, false, false]);
    stage.registry.close().await;
}

/// Contracts 3.7: declared, and never checked.
#[tokio::test]
async fn a_missing_dependency_disables_the_tool_with_the_reason() {
    let programs = tempfile::tempdir().unwrap();
    let own = programs.path().canonicalize().unwrap();
    let grant = AccessGrant { program_dirs: vec![own.clone()], ..AccessGrant::default() };
    let stage = Stage::with(BTreeMap::from([("v".to_owned(), grant)])).await;
    let mut all = manifest("p", &[("a", json!({})), ("b", json!({})), ("c", json!({}))]);
    all["tools"][1]["dependencies"] = json!(["no_such_module_here", "python>=3.2"]);
    all["tools"][2]["dependencies"] = json!(["command:no-such-command", "python>=99"]);
    stage.manifest("p", &all);
    stage.write("p", "tools.py", "def a(): return 1\ndef b(): return 1\ndef c(): return 1\n");
    // Programs are asked for their version, in the sandbox.
    let mut of = manifest("v", &[("old", json!({})), ("new", json!({})), ("mute", json!({}))]);
    let words = ["command:teller>=2.10", "command:teller >= 2.9", "command:mute>=1"];
    for (at, word) in words.iter().enumerate() {
        of["tools"][at]["dependencies"] = json!([word]);
    }
    for (name, text) in [("teller", "echo 'Teller v2.9.4 (x)'"), ("mute", "true")] {
        let path = own.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        let run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, run).unwrap();
    }
    stage.manifest("v", &of);
    stage.write(
        "v",
        "tools.py",
        "def old(): return 1\ndef new(): return 1\ndef mute(): return 1\n",
    );
    let mut whole = manifest("q", &[("a", json!({}))]);
    whole["dependencies"] = json!(["json", "python>=99.1"]);
    stage.manifest("q", &whole);
    stage.write("q", "tools.py", "def a(): return 1\n");
    stage.reload().await;
    let why = |plugin: &str| {
        let tools = stage.standing(plugin).tools;
        tools.into_iter().map(|tool| tool.disabled_reason.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(why("p")[..2], ["", "the Python module `no_such_module_here` is not installed"]);
    assert_eq!(why("p")[2], "the command `no-such-command` is not installed");
    assert!(why("q")[0].ends_with("99.1 is required"), "{:?}", why("q"));
    assert_eq!(
        why("v"),
        [
            "the command `teller` has version 2.9.4; 2.10 is required",
            "",
            "the version of the command `mute` is unknown (it prints no version); 1 is required"
        ]
    );
    assert_eq!(stage.call("v", "new", json!({})).await.unwrap(), 1);
    assert_eq!(stage.call("p", "a", json!({})).await.unwrap(), 1);
    stage.registry.close().await;
}

#[tokio::test]
async fn settings_reach_the_function_and_switch_tools() {
    let stage = Stage::new().await;
    let mut all = manifest("p", &[("mine", json!({})), ("other", json!({}))]);
    all["settings_schema"] =
        json!({"directory": {"type": "string", "default": "/c"}, "most": {"type": "integer"}});
    stage.manifest("p", &all);
    let code = "import toolkeep\ndef mine(settings): return settings\ndef other(): return toolkeep.settings\n";
    stage.write("p", "tools.py", code);
    stage.reload().await;
    assert_eq!(stage.call("p", "mine", json!({})).await.unwrap(), json!({"directory": "/c"}));
    let changes =
        json!({"custom_config": {"most": 3}, "tool_overrides": {"other": {"enabled": false}}});
    let now = stage
        .registry
        .update_settings("p", &tool::Json::encode(&changes))
        .await
        .unwrap()
        .to_value();
    assert_eq!(now["custom_config"], json!({"directory": "/c", "most": 3}));
    assert_eq!(
        stage.call("p", "mine", json!({})).await.unwrap(),
        json!({"directory": "/c", "most": 3})
    );
    assert_eq!(stage.listing("p").await.offers.len(), 1);
    let bad = tool::Json::encode(&json!({"custom_config": {"most": "x"}}));
    let error = stage.registry.update_settings("p", &bad).await.unwrap_err().to_string();
    assert!(error.starts_with("`most`: "), "{error}");
    // Contracts 3.7, TRAP: a plugin that settings switch off stays off when it is reloaded.
    let off = tool::Json::encode(&json!({"enabled": false}));
    stage.registry.update_settings("p", &off).await.unwrap();
    stage.write("p", "tools.py", &format!("{code}\n# changed\n"));
    stage.reload().await;
    assert!(stage.listing("p").await.offers.is_empty() && !stage.standing("p").is_enabled);
    stage.registry.close().await;
}

#[tokio::test]
async fn what_is_begun_from_a_template_works() {
    let stage = Stage::new().await;
    let folder = stage.home.path().join("plugins");
    plugins::create_plugin(&folder, "one", PluginTemplate::Python).unwrap();
    plugins::create_plugin(&folder, "two", PluginTemplate::Command).unwrap();
    plugins::create_plugin(&folder, "three", PluginTemplate::Mcp).unwrap();
    assert!(plugins::create_plugin(&folder, "one", PluginTemplate::Python).is_err());
    assert!(plugins::create_plugin(&folder, "../x", PluginTemplate::Python).is_err());
    stage.reload().await;
    for name in ["one", "two", "three"] {
        assert_eq!(stage.listing(name).await.problems, []);
        let said = stage.call(name, "greet", json!({"name": "Ann"})).await.unwrap();
        assert_eq!(said, json!({"text": "Hello, Ann!"}));
        let error = stage.call(name, "greet", json!({"name": ""})).await.unwrap_err();
        assert!(error.contains("name is empty"), "{error}");
    }
    stage.registry.close().await;
}

#[tokio::test]
async fn granted_folders_are_there_and_scopes_say_so() {
    let granted = tempfile::tempdir().unwrap();
    std::fs::write(granted.path().join("a.txt"), "text").unwrap();
    let path = granted.path().canonicalize().unwrap();
    let grant = AccessGrant { readable_dirs: vec![path.clone()], ..AccessGrant::default() };
    let stage = Stage::with(BTreeMap::from([("p".to_owned(), grant)])).await;
    let code =
        "def read(path): return open(path).read()\ndef write(path): open(path, 'w').write('x')\n";
    let path_of = json!({"path": {"type": "string", "required": true}});
    let mut all = manifest("p", &[("read", path_of.clone()), ("write", path_of.clone())]);
    all["needs"] = json!({"files": "read"});
    stage.manifest("p", &all);
    stage.write("p", "tools.py", code);
    all["name"] = json!("q");
    stage.manifest("q", &all);
    stage.write("q", "tools.py", code);
    stage.reload().await;
    let file = path.join("a.txt").display().to_string();
    assert_eq!(stage.call("p", "read", json!({"path": file})).await.unwrap(), "text");
    let error = stage.call("p", "write", json!({"path": file})).await.unwrap_err();
    assert!(error.contains("Read-only") || error.contains("Permission"), "{error}");
    let CatalogItem::Tool(tool) = stage.offer("p", "read").await.item else { panic!() };
    assert_eq!(tool.traits.scopes, [AccessScope::Filesystem]);
    // What a call may touch is known, also where it names no path.
    assert_eq!(tool.traits.base_folders, Some(vec![path.display().to_string()]));
    // Nothing is granted to the other one.
    let listing = stage.listing("q").await;
    assert!(listing.offers.is_empty());
    assert_eq!(listing.problems[0].message, "it needs readable folders, but none are granted");
    stage.registry.close().await;
}
