//! Tests of the shipped plugins: each tool succeeds once and fails once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::start_server;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").canonicalize().unwrap()
}

async fn result(agent: &Client, tool: &str, args: Value) -> Value {
    let reply = agent.call(tool, &args).await;
    assert_eq!(reply.status, 200, "{tool} {args}: {reply:?}");
    reply.body["result"].clone()
}

fn config(folder: &Path, more: &str) -> String {
    let (all, work) = (shipped().display().to_string(), folder.display().to_string());
    format!(
        "version: 1\npolicy: {{}}\nplugins:\n  folders: [{all}]\n  grants:\n    \
         file: {{ read: [{work}] }}\n    code: {{ write: {work} }}\n    \
         canvas_tools: {{ write: {work} }}\n{more}"
    )
}

#[tokio::test]
async fn files_data_and_code() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    let home = Installation::new(&config(&folder, ""));
    std::fs::write(folder.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(folder.join("bad.py"), "import os\nx = 1\n").unwrap();
    std::fs::write(
        folder.join("test_it.py"),
        "import unittest\nclass T(unittest.TestCase):\n    def test_good(self): pass\n    \
         def test_bad(self): self.fail()\n",
    )
    .unwrap();
    let server = start_server(&home).await;
    let agent = server.agent();
    let read =
        result(&agent, "file.read_file", json!({"path": "a.txt", "start_line": 2, "end_line": 2}))
            .await;
    assert_eq!(read["content"], "     2\ttwo");
    assert_eq!(
        (&read["total_lines"], &read["lines_returned"], &read["offset"]),
        (&json!(3), &json!(1), &json!(1))
    );
    // The sandbox has its own files at such paths; none of them is in a granted folder.
    std::os::unix::fs::symlink("/etc", folder.join("out")).unwrap();
    std::os::unix::fs::symlink("a.txt", folder.join("in.txt")).unwrap();
    for path in ["/etc/shadow", "/etc/passwd", "/usr/lib/os-release", "../x", "out/passwd"] {
        for (tool, key) in [("file.read_file", "path"), ("file.list_dir", "path")] {
            let none = result(&agent, tool, json!({key: path})).await;
            let error = none["error"].as_str().unwrap_or_default();
            assert!(error.starts_with("Path not allowed: "), "{tool} {path}: {none}");
        }
    }
    // Positive control: a link that stays inside is followed.
    assert_eq!(result(&agent, "file.read_file", json!({"path": "in.txt"})).await["success"], true);
    std::fs::remove_file(folder.join("in.txt")).unwrap();
    std::fs::remove_file(folder.join("out")).unwrap();
    let list = result(&agent, "file.list_dir", json!({"pattern": "*.py"})).await;
    let names: Vec<_> =
        list["entries"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!((names, &list["total_count"]), (vec!["bad.py", "test_it.py"], &json!(2)));
    assert_eq!(result(&agent, "list_dir", json!({"path": "none"})).await["success"], false);
    let parsed =
        result(&agent, "json_parse", json!({"content": "{\"a\":[1,2]}", "extract_path": "a[1]"}))
            .await;
    assert_eq!(parsed, json!({"success": true, "data": 2, "type": "integer"}));
    assert_eq!(result(&agent, "data.json_parse", json!({"content": "{"})).await["success"], false);
    assert!(server.stop().await.success());
}

/// The research registry's `allowed_paths`: a relative path begins in the tool's own folder, and a
/// call that names none is judged by it.
#[tokio::test]
async fn relative_paths_and_calls_without_one_are_judged_by_the_folders_of_the_tool() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    std::fs::write(folder.join("a.txt"), "one\n").unwrap();
    let allow = |paths: &str| {
        config(&folder, "").replace(
            "policy: {}",
            &format!(
                "policy: {{ permissions: {{ filesystem: {{ requires_approval: false, \
                 allowed_paths: [{paths}] }} }} }}"
            ),
        )
    };
    let home = Installation::new(&allow(&format!("{}/", folder.display())));
    let server = start_server(&home).await;
    let agent = server.agent();
    let said = async |tool: &str, args: Value| agent.call(tool, &args).await;
    let read = said("read_file", json!({"path": "a.txt"})).await;
    assert_eq!(read.body["result"]["content"], "one\n", "{read:?}");
    for (tool, args) in [
        ("list_directory", json!({"path": "."})),
        ("git_status", json!({})),
        ("file.list_dir", json!({})),
        ("file.read_file", json!({"path": "a.txt"})),
        ("export_reasoning_canvas", json!({})),
        ("canvas_tools.list_canvases", json!({})),
    ] {
        // The tool ran; the validity of its arguments is its own concern.
        let reply = said(tool, args).await;
        assert_eq!(reply.status, 200, "{tool}: {reply:?}");
    }
    let allowed = format!("{}/", folder.display());
    for (tool, path) in [("read_file", "/etc/passwd"), ("file.read_file", "../x")] {
        let reply = said(tool, json!({"path": path})).await;
        let told = reply.body["error"]["message"].as_str().unwrap();
        let expected = format!("`{path}` is not below {allowed}, the allowed path");
        assert!(told.starts_with(&expected), "{told}");
    }
    assert!(server.stop().await.success());

    // Positive control: if the granted folder is not among the allowed ones, none of it is visible.
    let home = Installation::new(&allow("/srv/other/"));
    let server = start_server(&home).await;
    let agent = server.agent();
    let told = agent.call("file.list_dir", &json!({})).await;
    let expected = "`file.list_dir` was called without a path; pass a path below /srv/other/";
    assert_eq!(told.body["error"]["message"], expected, "{told:?}");
    assert!(server.stop().await.success());
}

/// By default, write access needs an approval; here the operator configured otherwise.
fn free(folder: &Path) -> String {
    let free = "policy:\n  permissions:\n    filesystem: { requires_approval: false }\n";
    config(folder, "").replace("policy: {}\n", free)
}

#[tokio::test]
async fn tests_and_faults_of_code() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    let home = Installation::new(&free(&folder));
    std::fs::write(folder.join("bad.py"), "import os\nx = 1\n").unwrap();
    std::fs::write(
        folder.join("test_it.py"),
        "import unittest\nclass T(unittest.TestCase):\n    def test_good(self): pass\n    \
         def test_bad(self): self.fail()\n",
    )
    .unwrap();
    let server = start_server(&home).await;
    let agent = server.agent();
    let tests = result(&agent, "code.run_tests", json!({})).await;
    assert_eq!(
        (&tests["passed"], &tests["failed"], &tests["success"]),
        (&json!(1), &json!(1), &json!(false)),
        "{tests}"
    );
    let good = result(&agent, "code.run_tests", json!({"pattern": "good"})).await;
    assert_eq!(
        (&good["passed"], &good["exit_code"], &good["success"]),
        (&json!(1), &json!(0), &json!(true)),
        "{good}"
    );
    let lint = result(&agent, "code.lint_code", json!({"path": "bad.py"})).await;
    assert_eq!(
        (&lint["issue_count"], &lint["issues"][0]["code"]),
        (&json!(1), &json!("F401")),
        "{lint}"
    );
    assert_eq!(
        result(&agent, "code.lint_code", json!({"path": "none.py"})).await["success"],
        false
    );
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn canvases_are_exported_edited_and_read_back() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    let home = Installation::new(&free(&folder));
    let graph = json!({"hypothesis": {
        "nodes": [{"id": "a", "label": "It is the cache", "kind": "open", "evidence": ["slow at noon"]},
                  {"id": "b", "label": "It is the disk"}],
        "edges": [{"from": "a", "to": "b", "relation": "excludes"}],
    }});
    std::fs::write(folder.join("graphs.json"), graph.to_string()).unwrap();
    let server = start_server(&home).await;
    let agent = server.agent();
    let done = result(&agent, "export_reasoning_canvas", json!({})).await;
    assert_eq!((&done["node_count"], &done["edge_count"]), (&json!(2), &json!(1)), "{done}");
    let path = done["canvas_path"].as_str().unwrap();
    let mut canvas: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // JSON Canvas 1.0: required fields of every node and edge.
    for node in canvas["nodes"].as_array().unwrap() {
        assert!(
            ["id", "type", "x", "y", "width", "height", "text"]
                .iter()
                .all(|key| node.get(key).is_some())
        );
    }
    assert_eq!(
        canvas["edges"][0],
        json!({"id": "edge-0", "fromNode": "a", "toNode": "b", "label": "excludes"})
    );
    let same = result(&agent, "import_canvas_edits", json!({"canvas_path": path})).await;
    assert_eq!(same["change_count"], 0);
    canvas["nodes"][1]["text"] = json!("It was the disk");
    canvas["edges"] = json!([]);
    std::fs::write(path, canvas.to_string()).unwrap();
    let edits = result(&agent, "import_canvas_edits", json!({"canvas_path": path})).await;
    assert_eq!(edits["nodes"]["changed"][0]["fields"], json!(["text"]), "{edits}");
    assert_eq!(edits["edges"]["removed"][0]["id"], "edge-0");
    let list = result(&agent, "list_canvases", json!({})).await;
    assert_eq!(
        (&list["count"], &list["canvases"][0]["name"]),
        (&json!(1), &json!("hypothesis.canvas"))
    );
    let none =
        result(&agent, "canvas_tools.export_reasoning_canvas", json!({"graph_type": "x"})).await;
    assert_eq!(none["success"], false);
    assert_eq!(
        result(&agent, "import_canvas_edits", json!({"canvas_path": "x"})).await["success"],
        false
    );
    assert_eq!(
        result(&agent, "list_canvases", json!({"directory": "/none"})).await["success"],
        false
    );
    assert!(server.stop().await.success());
}

/// A site on loopback: its granted origin is requested, any other is not.
#[tokio::test]
async fn pages_and_searches_through_granted_hosts() {
    use axum::Router;
    use axum::response::{Html, Redirect};
    use axum::routing::get;
    let found = r#"<a class="result__a" href="//x/l/?uddg=https%3A%2F%2Fdocs.rs%2F">Docs</a>
        <a class="result__snippet">All <b>crates</b></a>"#;
    let site = Router::new()
        .route(
            "/page",
            get(|| async {
                Html("<head><title>t</title></head><p>Hello</p><script>no</script><p>there")
            }),
        )
        .route("/moved", get(|| async { Redirect::temporary("/page") }))
        .route("/out", get(|| async { Redirect::temporary("http://127.0.0.1:1/page") }))
        .route("/html/", get(move || async move { Html(found) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = TaskTracker::new().spawn(async move { axum::serve(listener, site).await });
    let home = Installation::new(&format!(
        "version: 1\nplugins:\n  folders: [{}]\n  grants:\n    web: {{ network: [\"{url}\"] }}\n",
        shipped().display()
    ));
    let server = start_server(&home).await;
    let set = json!({"custom_config": {"search_url": format!("{url}/html/")}});
    let set = server.owner().post("/v1/plugins/web/settings", &set).await;
    assert_eq!(set.status, 200, "{set:?}");
    let agent = server.agent();
    for path in ["page", "moved"] {
        let page = result(&agent, "web.fetch_docs", json!({"url": format!("{url}/{path}")})).await;
        assert_eq!(
            (&page["content"], &page["success"]),
            (&json!("Hello\nthere"), &json!(true)),
            "{page}"
        );
        assert_eq!((&page["trust_level"], &page["truncated"]), (&json!("unknown"), &json!(false)));
    }
    for bad in [
        format!("{url}/out"),
        "http://127.0.0.1:1/".to_owned(),
        "http://169.254.169.254/".to_owned(),
    ] {
        let page = result(&agent, "web.fetch_docs", json!({"url": bad})).await;
        assert_eq!(page["success"], false, "{page}");
        let told = page["error"].as_str().unwrap();
        let (host, end) = ("the host of `http://", "` is not granted to this plugin");
        assert!(told.starts_with(host) && told.ends_with(end), "{page}");
    }
    let search = result(&agent, "web.web_search", json!({"query": "crates"})).await;
    assert_eq!(
        search["results"],
        json!([{"title": "Docs", "url": "https://docs.rs/", "snippet": "All crates"}])
    );
    assert_eq!((&search["result_count"], &search["backend"]), (&json!(1), &json!("duckduckgo")));
    assert_eq!(result(&agent, "web.web_search", json!({"query": " "})).await["success"], false);
    serving.abort();
    assert!(server.stop().await.success());
}

/// Every tool of every shipped plugin except the image's, with its arguments and whether it
/// succeeds. The image's are in `real::lisp`.
fn cases(url: &str) -> Vec<(&'static str, Value, bool)> {
    vec![
        ("web.fetch_docs", json!({"url": format!("{url}/page")}), true),
        ("web.fetch_docs", json!({"url": "http://127.0.0.1:1/"}), false),
        ("web.web_search", json!({"query": "crates"}), true),
        ("web.web_search", json!({"query": " "}), false),
        ("file.read_file", json!({"path": "a.txt"}), true),
        ("file.read_file", json!({"path": "../a.txt"}), false),
        ("file.list_dir", json!({}), true),
        ("file.list_dir", json!({"path": "none"}), false),
        ("code.run_tests", json!({"pattern": "good"}), true),
        ("code.run_tests", json!({"path": "none"}), false),
        ("code.lint_code", json!({"path": "good.py"}), true),
        ("code.lint_code", json!({"path": "none.py"}), false),
        ("data.json_parse", json!({"content": "[1]"}), true),
        ("data.json_parse", json!({"content": "["}), false),
        ("canvas_tools.export_reasoning_canvas", json!({}), true),
        ("canvas_tools.export_reasoning_canvas", json!({"graph_type": "x"}), false),
        // Of the canvas that is listed.
        ("canvas_tools.import_canvas_edits", json!({}), true),
        ("canvas_tools.import_canvas_edits", json!({"canvas_path": "x"}), false),
        ("canvas_tools.list_canvases", json!({}), true),
        ("canvas_tools.list_canvases", json!({"directory": "/none"}), false),
    ]
}

/// Counted against what the server lists: a tool without both cases fails this.
#[tokio::test]
async fn every_tool_that_ships_has_a_success_and_a_failure() {
    use axum::Router;
    use axum::response::Html;
    use axum::routing::get;
    let found = r#"<a class="result__a" href="//x/l/?uddg=https%3A%2F%2Fdocs.rs%2F">Docs</a>"#;
    let site = Router::new()
        .route("/page", get(|| async { Html("<p>Hello") }))
        .route("/html/", get(move || async move { Html(found) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = TaskTracker::new().spawn(async move { axum::serve(listener, site).await });
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    let graph =
        json!({"hypothesis": {"nodes": [{"id": "a", "label": "It is the cache"}], "edges": []}});
    for (file, text) in [
        ("a.txt", "one\n"),
        ("good.py", "x = 1\n"),
        ("graphs.json", graph.to_string().as_str()),
        (
            "test_it.py",
            "import unittest\nclass T(unittest.TestCase):\n    def test_good(self): pass\n",
        ),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let config = format!("{}    web: {{ network: [\"{url}\"] }}\n", free(&folder));
    let home = Installation::new(&config);
    let server = start_server(&home).await;
    let set = json!({"custom_config": {"search_url": format!("{url}/html/")}});
    let set = server.owner().post("/v1/plugins/web/settings", &set).await;
    assert_eq!(set.status, 200, "{set:?}");
    let agent = server.agent();
    let mut met: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for (tool, mut args, good) in cases(&url) {
        if tool == "canvas_tools.import_canvas_edits" && good {
            let canvases = result(&agent, "list_canvases", json!({})).await;
            args = json!({"canvas_path": canvases["canvases"][0]["path"]});
        }
        let answer = result(&agent, tool, args.clone()).await;
        assert_eq!(answer["success"], good, "{tool} {args}: {answer}");
        // Contracts 3.7: a failure has a reason.
        assert_eq!(answer.get("error").is_some(), !good, "{tool} {args}: {answer}");
        let both = met.entry(tool.to_owned()).or_default();
        if good { both.0 = true } else { both.1 = true }
    }
    assert!(met.values().all(|both| *both == (true, true)), "{met:?}");
    let listed = server.owner().get("/v1/plugins").await;
    let plugins = listed.body["plugins"].as_array().unwrap();
    let names = plugins.iter().filter(|it| it["name"] != "lisp_image").flat_map(|plugin| {
        let name = plugin["name"].as_str().unwrap();
        let tools = plugin["tools"].as_array().unwrap().iter();
        tools.map(move |tool| format!("{name}.{}", tool["name"].as_str().unwrap()))
    });
    let names: BTreeSet<_> = names.collect();
    assert_eq!(names, met.into_keys().collect(), "tools and their cases");
    assert_eq!(research_registry_plugins(), names);
    serving.abort();
    assert!(server.stop().await.success());
}

/// The research registry's table of current plugins.
fn research_registry_plugins() -> BTreeSet<String> {
    let all = [
        ("web", &["fetch_docs", "web_search"][..]),
        ("file", &["read_file", "list_dir"]),
        ("code", &["run_tests", "lint_code"]),
        ("data", &["json_parse"]),
        ("canvas_tools", &["export_reasoning_canvas", "import_canvas_edits", "list_canvases"]),
    ];
    all.iter()
        .flat_map(|(plugin, tools)| tools.iter().map(move |tool| format!("{plugin}.{tool}")))
        .collect()
}
