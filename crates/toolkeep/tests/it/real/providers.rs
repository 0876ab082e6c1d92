//! Tests with the providers' own SDKs: their types accept the lists, and a complete round with a
//! scripted model succeeds.

use std::path::Path;

use serde_json::{Value, json};

use super::installed_programs::{self, file};
use crate::real_support::child_program::Program;
use crate::real_support::{CommandOutput, files, test_command, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::server_process::{Server, start_server};

/// Formats with a client of their own.
const CLIENTS: [&str; 6] =
    ["openai_chat", "openai_responses", "anthropic", "gemini", "gemini_per_tool", "ollama"];
/// Formats with types of their own; those of strict schemas are the same.
const TYPES: [&str; 8] = [
    "openai_chat",
    "openai_chat_strict",
    "openai_responses",
    "openai_responses_strict",
    "anthropic",
    "gemini",
    "gemini_per_tool",
    "ollama",
];

/// Runs the script; one object for each format.
fn judged(server: &Server, words: &[&str], formats: &[&str]) -> Vec<Value> {
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let mut python = test_command(file("venv-providers/bin/python"));
    python.arg(files().join("providers.py")).args(words).current_dir(std::env::temp_dir());
    let ran = CommandOutput::run_command(python.env("TOOLKEEP_KEY", key.trim()));
    let said: Vec<Value> =
        ran.expect_success().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = said.iter().map(|one| one["format"].as_str().unwrap()).collect();
    assert_eq!(told, formats);
    said
}

/// Definitions that are hard to convert, and those of shared data.
fn definitions() -> Vec<Value> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let hard = here.join("../formats/tests/it/golden/catalog.json");
    let hard: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(hard).unwrap()).unwrap();
    let hard =
        hard.into_iter().map(|tool| (tool["description"].clone(), tool["inputSchema"].clone()));
    let mut all: Vec<_> = hard.collect();
    for name in ["mcpm_registry", "livemcpbench", "github_server"] {
        for row in testkit::shared_data::read_rows(&format!("tools/mcp_{name}.jsonl.gz")) {
            if row["parameters"].is_object() {
                all.push((row["description"].clone(), row["parameters"].clone()));
            }
        }
    }
    let tool = |(index, (description, parameters)): (usize, (Value, Value))| {
        json!({
            "name": format!("t{index}"), "description": description.as_str().unwrap_or("none"),
            "parameters": parameters, "side_effects": ["read_only"],
            "implementation": { "type": "mock", "mock_response": {} },
        })
    };
    all.into_iter().enumerate().map(tool).collect()
}

#[tokio::test]
async fn every_list_is_of_the_sdks_own_types() {
    let home =
        Installation::new("version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\n");
    let tools = definitions();
    home.write("tools.yaml", &json!({ "version": 1, "tools": tools }).to_string());
    let server = start_server(&home).await;
    let sources = wait_for_sources(&server.owner()).await;
    println!("{} definitions: {}", tools.len(), sources[1]["tools"]);
    for one in judged(&server, &["types", &server.url], &TYPES) {
        let refused = one["refused"].as_array().unwrap();
        println!("{}: {} tools, {} left out", one["format"], one["tools"], one["left_out"]);
        assert!(
            refused.is_empty(),
            "{}: {} refused, {:#?}",
            one["format"],
            refused.len(),
            &refused[..refused.len().min(3)]
        );
        let (shown, left_out) = (one["tools"].as_u64().unwrap(), one["left_out"].as_u64().unwrap());
        assert!(shown >= 8 && left_out * 100 <= shown, "{one}");
    }
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_round_through_every_sdk_with_one_call_that_fails() {
    let (_module, notes) = installed_programs::notes();
    let mut node = test_command(file("bin/node"));
    node.arg(files().join("model.mjs")).arg(file("npm-aimock/node_modules"));
    let model = Program::start(&mut node);
    let model_url = model.json()["url"].as_str().unwrap().to_owned();
    let home = Installation::new("");
    let sources = json!([{ "name": "notes", "module": notes }]);
    home.write("toolkeep.yaml", &json!({ "version": 1, "sources": sources }).to_string());
    let server = start_server(&home).await;
    wait_for_sources(&server.owner()).await;
    for one in judged(&server, &["round", &server.url, &model_url], &CLIENTS) {
        let told = one["told"].as_array().unwrap();
        let calls: Vec<_> = told.iter().map(|call| (&call[1], &call[2])).collect();
        let expected = [
            (&json!("notes.append"), &json!("succeeded")),
            (&json!("notes.read"), &json!("refused")),
        ];
        assert_eq!(calls, expected, "{one}");
        let messages = one["messages"].to_string();
        assert!(messages.contains("number") && messages.contains("is not of type"), "{one}");
        assert_eq!(one["end"], "One is noted, one is not.", "{one}");
        println!("{}: {}", one["format"], one["told"]);
    }
    assert!(server.stop().await.success());
}
