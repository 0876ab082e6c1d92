//! Sources that are added to a running server, its policy compared, and its view in a terminal.

use std::fs;

use serde_json::json;

use crate::real_support::{expect_ok, run_cli};
use crate::support::http_module::{Module, ModuleBehavior};
use crate::support::installation::Installation;
use crate::support::mcp_source;
use crate::support::server_process::start_server;

const FILE: &str = "version: 1 # mine\npolicy:\n  deny: [none] # nobody\n";

#[tokio::test]
async fn a_source_is_tried_and_added_to_a_server_that_runs() {
    let module = Module::start("work", ModuleBehavior::Good).await;
    let home = Installation::new(FILE);
    let server = start_server(&home).await;
    let owner = server.owner();
    let entry = json!({"name": "work", "module": module.url()});
    let tried = expect_ok(owner.post("/v1/sources/try", &entry).await);
    assert_eq!(tried["listed"]["tool_count"], 1, "{tried}");
    assert_eq!(tried["listed"]["tools"][0]["name"], "work.work", "{tried}");
    let has_work = async || {
        let sources = expect_ok(owner.get("/v1/sources").await)["sources"].take();
        sources.as_array().unwrap().iter().any(|it| it["name"] == "work" && it["tools"] == 1)
    };
    assert!(!has_work().await, "tried, and not added");
    assert_eq!(fs::read_to_string(home.config()).unwrap(), FILE);
    let added = expect_ok(owner.post("/v1/sources", &entry).await);
    let lines = added["lines"].as_str().unwrap();
    assert_eq!(fs::read_to_string(home.config()).unwrap(), format!("{FILE}{lines}"));
    while !has_work().await {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let events = expect_ok(owner.get("/v1/records?kind=event").await);
    assert_eq!(events["records"][0]["body"]["event"], "source_added", "{events}");
    assert_eq!(events["records"][0]["body"]["source"], "work");
    let again = owner.post("/v1/sources", &entry).await;
    assert_eq!(again.status, 400, "{}", again.body);
    assert!(again.body.to_string().contains("exists already"), "{}", again.body);
    // A program runs with the server's rights: not without the permission of the file.
    let program = json!({"name": "local", "mcp": {"command": mcp_source::program()}});
    let refused = owner.post("/v1/sources", &program).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    let trial = expect_ok(owner.post("/v1/sources/try", &program).await);
    assert!(trial.get("listed").is_none(), "{trial}");
    let agent = server.agent();
    assert_eq!(agent.post("/v1/sources", &entry).await.status, 403);
}

#[tokio::test]
async fn a_program_is_tried_where_the_file_allows_it() {
    let home = Installation::new("version: 1\nserver: { add_local_sources: true }\n");
    let server = start_server(&home).await;
    let entry =
        json!({"name": "local", "mcp": {"command": mcp_source::program(), "args": ["echo"]}});
    let tried = expect_ok(server.owner().post("/v1/sources/try", &entry).await);
    let listed = &tried["listed"];
    assert!(listed.get("failure").is_none(), "{tried}");
    assert!(listed["tool_count"].as_u64().unwrap() > 0, "{tried}");
    let missing = json!({"name": "local", "mcp": {"command": "no-such-program-here"}});
    let failed = server.owner().post("/v1/sources/try", &missing).await;
    assert!(failed.body.to_string().contains("no-such-program-here"), "{}", failed.body);
}

#[tokio::test]
async fn a_policy_is_previewed_and_the_terminal_view_printed() {
    let home = Installation::new(FILE);
    let server = start_server(&home).await;
    let edited = home.config().with_file_name("edited.yaml");
    fs::write(&edited, "version: 1\npolicy:\n  deny: [calculator]\n").unwrap();
    let shown = run_cli(&server, &["policy", "preview", edited.to_str().unwrap()]);
    assert_eq!(shown.code, Some(1), "{}", shown.err);
    assert!(shown.out.contains("calculator") && shown.out.contains("hidden"), "{}", shown.out);
    let same = run_cli(&server, &["policy", "preview", home.config().to_str().unwrap()]);
    assert_eq!(same.code, Some(0), "{}", same.err);
    let top = run_cli(&server, &["top", "--once"]).expect_success();
    assert!(top.contains("Approvals (0)") && top.contains("Records, newest first"), "{top}");
    let none = run_cli(&server, &["top"]);
    assert!(none.err.contains("this is not a terminal"), "{}", none.err);
}
