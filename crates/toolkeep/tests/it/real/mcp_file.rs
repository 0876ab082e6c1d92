//! Tests of an `mcpServers` file as other programs write it.

use serde_json::{Value, json};

use super::installed_programs::{client, stdio};
use super::record;
use crate::real_support::{run_cli, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::process_marks::{self, MARK_VARIABLE, marked_processes};
use crate::support::server_process::start_server;

/// Comments, a server that is switched off, one that is not there, and a name with a blank in it.
fn file(mark: &str) -> String {
    let server = |words: Vec<String>| {
        json!({ "command": words[0], "args": words[1..], "env": { MARK_VARIABLE: mark } })
            .to_string()
    };
    let everything = server(stdio("everything", &["stdio"]));
    let files = server(stdio("filesystem", &["./work"]));
    format!(
        "{{\n\
         // What the editor starts, too.\n\
         \"mcpServers\": {{\n\
           \"every thing\": {everything},\n\
           \"files\": {files}, /* one folder */\n\
           \"gone\": {{ \"command\": \"./no-such-server\", \"type\": \"stdio\" }},\n\
           \"off\": {{ \"command\": \"node\", \"args\": [\"x.js\"], \"disabled\": true }}\n\
         }},\n\
         \"inputs\": []\n}}\n"
    )
}

#[tokio::test]
async fn the_servers_of_an_mcp_file_work_beside_one_that_does_not_start() {
    let home =
        Installation::new("version: 1\nsources: [{ name: mine, mcp_servers: ./mcp.json }]\n");
    let mark = process_marks::new_mark();
    std::fs::create_dir(home.path("work")).unwrap();
    home.write("work/a.txt", "first\n");
    home.write("mcp.json", &file(&mark));
    let server = start_server(&home).await;
    let sources = wait_for_sources(&server.agent()).await;
    let states: Vec<_> = sources.iter().map(|it| [&it["name"], &it["state"]]).collect();
    let expected = json!([
        ["mine.every-thing", "ok"],
        ["mine.files", "ok"],
        ["mine.gone", "failed"],
        ["builtin", "ok"],
    ]);
    assert_eq!(json!(states), expected, "{sources:#?}");
    let lines = run_cli(&server, &["source", "list"]).expect_success();
    assert!(lines.contains("no-such-server"), "{lines}");

    let (supervisors, servers) = (process_marks::children(server.pid), marked_processes(&mark));
    assert_eq!(servers.len(), 2);
    let calls: [(&str, Value); 2] = [
        ("mine.every-thing.echo", json!({ "message": "one" })),
        ("mine.files.read_text_file", json!({ "path": "a.txt" })),
    ];
    let url = format!("{}/mcp", server.url);
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let seen = client(&["http", &url, "auto"], Some(key.trim()), &calls);
    let names: Vec<_> = seen.tools.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let own =
        builtin_manifests::tool_names().filter(|name| names.iter().any(|it| it == name)).count();
    assert!(own >= 16, "{names:?}");
    assert_eq!(names.len(), own + 17 + 14);
    assert_eq!(seen.calls[0]["answer"]["content"][0]["text"], "Echo: one");
    assert_eq!(seen.calls[1]["answer"]["structuredContent"]["content"], "first\n");
    let said = server.log_text();
    assert!(server.stop().await.success(), "{said}");
    assert_eq!(
        (process_marks::count_running(&supervisors), marked_processes(&mark)),
        (0, vec![]),
        "left behind"
    );
    record::holds(&home.records(), calls.len(), &[]).await;
}
