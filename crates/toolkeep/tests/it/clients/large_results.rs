//! Tests of results above the size limit with the Python package `mcp`, which validates output
//! schemas.

use serde_json::{Value, json};
use testkit::installed_programs::installed_file;
use testkit::key_proxy;
use tokio::process::Command;

use super::{output, script};
use crate::real_support::test_command;
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

/// Below the limit of 4 MiB; above it with text and structured content together; and above it with
/// one of them.
const COUNTS: [usize; 3] = [1_000, 3_000_000, 5_000_000];

async fn seen(url: &str, mode: &str, tool: &str) -> Value {
    let mut client: Command = test_command(installed_file("venv-mcp/bin/python")).into();
    client.arg(script("large.py")).args([url, mode, tool]).args(COUNTS.map(|it| it.to_string()));
    client.current_dir(std::env::temp_dir());
    let (good, out, err) = output(client).await;
    assert!(good, "{mode} {tool}: {out}\n{err}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_of_a_tool_with_an_output_schema_raises_nothing_in_the_python_sdk() {
    let python = installed_file("venv-fastmcp/bin/python").display().to_string();
    let server = script("large_server.py").display().to_string();
    let source = format!("{{ name: large, mcp: {{ command: '{python}', args: ['{server}'] }} }}");
    let home = Installation::new(&format!("version: 1\nsources: [{source}]\n"));
    let server = start_server(&home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    for (path, tool) in [("/mcp/large", "letters"), ("/mcp", "large.letters")] {
        let door =
            key_proxy::start_proxy(&format!("{}{path}", server.url), key.trim()).await.unwrap();
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
