//! A file with `mcpServers`, as other programs keep it: taken as it is.

use serde_json::{Value, json};

use super::installed::{client, stdio};
use super::record;
use crate::support::home::Home;
use crate::support::marks::{self, MARK, carriers};
use crate::support::server::serve;
use crate::support_real::{cli, settled};

/// Comments, a server that is switched off, one that is not there, and a name with a blank in it.
fn file(mark: &str) -> String {
    let server = |words: Vec<String>| {
        json!({ "command": words[0], "args": words[1..], "env": { MARK: mark } }).to_string()
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
    let home = Home::new("version: 1\nsources: [{ name: mine, mcp_servers: ./mcp.json }]\n");
    let mark = marks::mark();
    std::fs::create_dir(home.path("work")).unwrap();
    home.write("work/a.txt", "first\n");
    home.write("mcp.json", &file(&mark));
    let server = serve(&home).await;
    let sources = settled(&server.agent()).await;
    let states: Vec<_> = sources.iter().map(|it| [&it["name"], &it["state"]]).collect();
    let expected = json!([
        ["mine.every-thing", "ok"],
        ["mine.files", "ok"],
        ["mine.gone", "failed"],
        ["builtin", "ok"],
    ]);
    assert_eq!(json!(states), expected, "{sources:#?}");
    let lines = cli(&server, &["source", "list"]).good();
    assert!(lines.contains("no-such-server"), "{lines}");

    let (supervisors, servers) = (marks::children(server.pid), carriers(&mark));
    assert_eq!(servers.len(), 2);
    let calls: [(&str, Value); 2] = [
        ("mine.every-thing.echo", json!({ "message": "one" })),
        ("mine.files.read_text_file", json!({ "path": "a.txt" })),
    ];
    let url = format!("{}/mcp", server.url);
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let seen = client(&["http", &url, "auto"], Some(key.trim()), &calls);
    let names: Vec<_> = seen.tools.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let own = builtin_manifests::names().filter(|name| names.iter().any(|it| it == name)).count();
    assert!(own >= 16, "{names:?}");
    assert_eq!(names.len(), own + 17 + 14);
    assert_eq!(seen.calls[0]["answer"]["content"][0]["text"], "Echo: one");
    assert_eq!(seen.calls[1]["answer"]["structuredContent"]["content"], "first\n");
    let said = server.said();
    assert!(server.stop().await.success(), "{said}");
    assert_eq!((marks::running(&supervisors), carriers(&mark)), (0, vec![]), "left behind");
    record::holds(&home.records(), calls.len(), &[]).await;
}
