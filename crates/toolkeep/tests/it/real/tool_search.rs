//! Test of the providers' own tool search with their SDKs: a model that sees no tool but those that
//! it found searches, calls and ends.

use serde_json::{Value, json};

use super::installed_programs::{self, file};
use crate::real_support::child_program::Program;
use crate::real_support::{CommandOutput, files, test_command, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

#[tokio::test]
async fn a_model_finds_and_calls_a_deferred_tool_through_every_sdk() {
    let (_module, notes) = installed_programs::notes();
    let mut python = test_command(file("venv-providers/bin/python"));
    let model = Program::start(python.arg(files().join("search_model.py")));
    let model_url = model.json()["url"].as_str().unwrap().to_owned();
    let home = Installation::new("");
    let sources = json!([{ "name": "notes", "module": notes }]);
    home.write("toolkeep.yaml", &json!({ "version": 1, "sources": sources }).to_string());
    let server = start_server(&home).await;
    wait_for_sources(&server.owner()).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let mut python = test_command(file("venv-providers/bin/python"));
    python.arg(files().join("tool_search.py")).args([&server.url, &model_url]);
    python.current_dir(std::env::temp_dir()).env("TOOLKEEP_KEY", key.trim());
    let ran = CommandOutput::run_command(&mut python).expect_success();
    let rounds: Vec<Value> = ran.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rounds.len(), 6, "{ran}");
    for round in &rounds {
        println!("{} {}: {} {}", round["format"], round["search"], round["calls"], round["end"]);
        assert_eq!(round["calls"], json!([["notes.append", "succeeded"]]), "{round}");
        let end = round["end"].as_str().unwrap();
        assert!(end.starts_with("Done: ") && end.contains("number"), "{round}");
        let searches = round["searches"].as_array().unwrap();
        if round["search"] == "toolkeep" {
            assert_eq!(searches[0]["queries"], json!(["Adds a note"]), "{round}");
            assert_eq!(searches[0]["tools"][0], "notes.append", "{round}");
        } else {
            assert!(searches.is_empty(), "{round}");
        }
    }
    let refused: Vec<_> = rounds.iter().filter_map(|round| round["refused"].as_array()).collect();
    assert_eq!(refused.len(), 3);
    let reasons = |at: usize| refused[at].iter().map(|it| it.as_str().unwrap()).collect::<Vec<_>>();
    assert!(reasons(0)[0].contains("Missing namespace for function_call"), "{refused:?}");
    assert!(reasons(2)[0].contains("All tools have defer_loading set"), "{refused:?}");
    assert!(reasons(2)[1].contains("has no corresponding tool definition"), "{refused:?}");
    assert!(server.stop().await.success());
}
