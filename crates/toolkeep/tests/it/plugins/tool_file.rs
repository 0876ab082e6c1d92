//! Tests of `python` and `cpp` implementations in tool files, whose code runs like a plugin.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::installation::Installation;
use crate::support::server_process::{READY_LIMIT, start_server};

/// As the research registry's file has them: by name, with parameters of its form.
const FILE: &str = "\
metadata: { version: '1.0' }
tools:
  word_count:
    category: data
    description: Count words
    parameters: { text: { type: string, required: true }, least: { type: integer, default: 1 } }
    implementation: { type: python, module: orchestration.tools.words, function: count }
    permissions: []
    allowed_callers: [direct, chain]
    side_effects: [read_only]
  my_svd:
    category: math
    description: Singular values
    parameters: { A: { type: array, required: true } }
    implementation: { type: cpp, binary: llama-math-tools, command: matrix_op }
    side_effects: [read_only]
  fetch:
    category: web
    description: Wants the net
    parameters: { type: object }
    implementation: { type: python, module: words, function: count }
    permissions: [network]
  gone:
    category: data
    description: Not there
    parameters: { type: object }
    implementation: { type: python, module: words, function: none }
  other:
    category: data
    description: Not there
    parameters: { type: object }
    implementation: { type: cpp, binary: no-such-binary, command: x }
";

/// It implements the protocol of the research registry: one object in, one out.
const PROGRAM: &str = r#"#!/usr/bin/env python3
import json, sys
asked = json.load(sys.stdin)
if not asked["A"]:
    print(json.dumps({"status": "error", "result": None, "error": "A is empty"}))
else:
    print(json.dumps({"status": "success", "result": asked, "stats": {"rows": len(asked["A"])}, "error": None}))
"#;

fn code(version: u32) -> String {
    format!(
        "import os\n\ndef count(text, least=1):\n    if text == 'files':\n        \
         return sorted(os.listdir('.'))\n    words = [it for it in text.split() if len(it) >= least]\n    \
         return {{'words': len(words), 'version': {version}}}\n"
    )
}

#[tokio::test]
async fn python_and_cpp_of_a_tool_file_run_as_a_plugin_does() {
    let config = "version: 1\nsources:\n  - name: words\n    tools: ./tools/tools.yaml\n";
    let home = Installation::new(config);
    std::fs::create_dir_all(home.path("tools")).unwrap();
    home.write("tools/tools.yaml", FILE);
    home.write("tools/words.py", &code(1));
    home.write("tools/secret.txt", "hunter2");
    home.write("tools/llama-math-tools", PROGRAM);
    let run = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path("tools/llama-math-tools"), run).unwrap();
    let server = start_server(&home).await;
    let (agent, owner) = (server.agent(), server.owner());
    let counted = agent.call("word_count", &json!({"text": "a bb ccc", "least": 2})).await;
    assert_eq!(counted.body["result"], json!({"words": 2, "version": 1}), "{counted:?}");
    // It runs in a copy, with the code of the folder alone.
    let files = agent.call("word_count", &json!({"text": "files"})).await;
    assert_eq!(
        files.body["result"],
        json!(["llama-math-tools", "manifest.json", "toolkeep_programs.py", "words.py"])
    );
    let extra = agent.call("word_count", &json!({"text": "a", "c": 3})).await;
    assert_eq!((extra.status, extra.code()), (400, "invalid_arguments"));
    let svd = agent.call("my_svd", &json!({"A": [[1, 2]]})).await;
    assert_eq!(
        svd.body["result"],
        json!({"command": "matrix_op", "A": [[1, 2]], "stats": {"rows": 1}}),
        "{svd:?}"
    );
    let failed = agent.call("my_svd", &json!({"A": []})).await;
    assert!(failed.body.to_string().contains("A is empty"), "{failed:?}");
    // The others report why they are not listed.
    let source = owner.find_source("words").await.unwrap();
    let problems = source["problems"].to_string();
    for told in [
        "it needs the network, but none is granted",
        "write it under `plugins: { grants: { words: { network: [HOST] } } }`",
        "`words.py` has no function `none`",
        "the command `no-such-binary` is not installed",
    ] {
        assert!(problems.contains(told), "{told}: {problems}");
    }
    assert_eq!(agent.call("fetch", &json!({})).await.code(), "unknown_tool");
    // The code reloads, and a broken change is not taken.
    home.write("tools/words.py", &code(2));
    let began = Instant::now();
    let version = || async {
        agent.call("word_count", &json!({"text": "a"})).await.body["result"]["version"].clone()
    };
    while version().await != 2 {
        assert!(began.elapsed() < READY_LIMIT, "{}", server.log_text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    home.write("tools/words.py", "def count(:\n");
    let began = Instant::now();
    loop {
        let source = owner.find_source("words").await.unwrap();
        if source["problems"].to_string().contains("the new version is invalid") {
            break;
        }
        assert!(began.elapsed() < READY_LIMIT, "{source}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(version().await, 2);
    assert!(server.stop().await.success());
}
