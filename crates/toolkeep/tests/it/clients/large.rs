//! The `mcp` package for Python, which checks results against output schemas, and answers above the limit.

use serde_json::{Value, json};
use testkit::keyed;
use testkit::real::installed;
use tokio::process::Command;

use super::{output, script};
use crate::support::home::Home;
use crate::support::server::serve;
use crate::support_real::command;

/// Below the limit of 4 MiB; above it as text and structured content together; and above it with one of them.
const COUNTS: [usize; 3] = [1_000, 3_000_000, 5_000_000];

async fn seen(url: &str, mode: &str, tool: &str) -> Value {
    let mut client: Command = command(installed("venv-mcp/bin/python")).into();
    client.arg(script("large.py")).args([url, mode, tool]).args(COUNTS.map(|it| it.to_string()));
    client.current_dir(std::env::temp_dir());
    let (good, out, err) = output(client).await;
    assert!(good, "{mode} {tool}: {out}\n{err}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_of_a_tool_with_an_output_schema_raises_nothing_in_the_python_sdk() {
    let python = installed("venv-fastmcp/bin/python").display().to_string();
    let server = script("large_server.py").display().to_string();
    let source = format!("{{ name: large, mcp: {{ command: '{python}', args: ['{server}'] }} }}");
    let home = Home::new(&format!("version: 1\nsources: [{source}]\n"));
    let server = serve(&home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    for (path, tool) in [("/mcp/large", "letters"), ("/mcp", "large.letters")] {
        let door = keyed::start(&format!("{}{path}", server.url), key.trim()).await.unwrap();
        for mode in ["legacy", "2026-07-28"] {
            let seen = seen(&door.url, mode, tool).await;
            assert_eq!(seen["schema"], true, "{mode}: without a schema the package checks nothing");
            let calls = seen["calls"].as_array().unwrap();
            let how: Vec<_> =
                calls.iter().map(|it| (it["error"].clone(), it["length"].clone())).collect();
            let expected = [
                (json!(false), json!(COUNTS[0])),
                (json!(false), json!(COUNTS[1])),
                (json!(true), Value::Null),
            ];
            assert_eq!(how, expected, "{mode} {tool}: {seen}");
            let told = calls[2]["texts"][1].as_str().unwrap();
            assert!(told.contains("the tool ran and succeeded"), "{told}");
            assert!(told.contains("/v1/artefacts/art_"), "{told}");
        }
    }
    assert!(server.stop().await.success());
}
