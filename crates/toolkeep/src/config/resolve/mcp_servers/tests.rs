use std::path::Path;

use super::without_comments;
use crate::config::tests::{faults, setting};
use crate::config::{Reading, SourceConfig, SourceKind, read};

/// Reads `json` as the `mcp_servers` file of a configuration.
fn reading_in(at: &str, json: &str, extra: &str) -> (tempfile::TempDir, Reading) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(at);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, json).unwrap();
    let yaml = format!("version: 1\nsources:\n  - mcp_servers: {at}\n{extra}");
    std::fs::write(folder.path().join("t.yaml"), yaml).unwrap();
    let reading = read(&setting(folder.path(), &[("TOKEN", "s3cret")]));
    (folder, reading)
}

fn reading(json: &str) -> Reading {
    reading_in("mcp.json", json, "").1
}

fn command(source: &SourceConfig) -> (String, Vec<String>, Vec<(String, String)>) {
    let SourceKind::McpCommand(command) = &source.kind else { panic!("{source:?}") };
    let args = command.args.iter().map(|arg| arg.open().to_owned()).collect();
    let env = command.env.iter().map(|(n, v)| (n.clone(), v.open().to_owned())).collect();
    (command.command.clone(), args, env)
}

#[test]
fn the_file_of_claude_desktop_is_understood() {
    let json = r#"{
  "mcpServers": {
    "filesystem": { "command": "npx", "args": ["-y", "server-filesystem", "/tmp"] },
    "git hub": { "command": "docker", "args": ["run"], "env": { "GITHUB_TOKEN": "${TOKEN}", "EMPTY": "" } }
  },
  "globalShortcut": ""
}"#;
    let config = reading(json).whole().unwrap();
    let names: Vec<_> = config.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["filesystem", "git-hub"]);
    let (program, args, env) = command(&config.sources[1]);
    assert_eq!((program.as_str(), args), ("docker", vec!["run".to_owned()]));
    let pairs = [("EMPTY", ""), ("GITHUB_TOKEN", "s3cret")];
    assert_eq!(env, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn the_file_of_vs_code_is_understood() {
    let json = r#"{
  // Servers of this workspace.
  "inputs": [{ "type": "promptString", "id": "key" }],
  "servers": {
    "docs": { "type": "http", "url": "http://127.0.0.1:1/mcp", "headers": { "X-Key": "${env:TOKEN}" } },
    "local": { "type": "stdio", "command": "./run", "args": ["${workspaceFolder}/x", "http://a//b"], },
    /* "old": { "command": "gone" }, */
  },
}"#;
    let (folder, reading) = reading_in(".vscode/mcp.json", json, "");
    let config = reading.whole().unwrap();
    let SourceKind::McpUrl { url, headers, .. } = &config.sources[0].kind else { panic!() };
    assert_eq!((url.as_str(), headers[0].1.open()), ("http://127.0.0.1:1/mcp", "s3cret"));
    let (program, args, _) = command(&config.sources[1]);
    let workspace = folder.path().to_string_lossy();
    assert_eq!(Path::new(&program), folder.path().join("./run"));
    assert_eq!(args, [format!("{workspace}/x"), "http://a//b".to_owned()]);
}

#[test]
fn one_bad_server_leaves_the_others() {
    let json = r#"{"mcpServers": {
  "none": {},
  "needs": { "command": "c", "env": { "K": "${input:key}" } },
  "old": { "type": "sse", "url": "http://127.0.0.1:1/sse" },
  "off": { "command": "c", "disabled": true },
  "text": "c",
  "file": { "command": "c", "envFile": ".env" },
  "good": { "command": "c", "timeout": 60, "alwaysAllow": ["x"] }
}}"#;
    let reading = reading(json);
    assert_eq!(
        faults(&reading),
        [
            "2:3 the MCP server has neither `command` nor `url` = say `command: PROGRAM` or `url: ADDRESS`",
            "3:44 `${input:key}` is no variable = use `${NAME}` or `${NAME:-default}`; `$${` stands for the characters `${`",
            "4:20 `old` speaks the old SSE transport = use the server's streamable HTTP address, with the type `http`",
            "6:11 expected a mapping of keys to values, found `c`",
            "7:40 `envFile` is not read = put the variables under `env`",
        ]
    );
    assert!(reading.faults.0.iter().all(|fault| fault.file.ends_with("mcp.json")));
    let names: Vec<_> =
        reading.config.unwrap().sources.into_iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["good"]);
}

#[test]
fn a_name_is_put_before_and_settings_hold_for_all() {
    let json = r#"{"mcpServers": {"a": {"command": "c"}, "b": {"command": "c"}}}"#;
    let (_folder, reading) =
        reading_in("m.json", json, "    name: web\n    trust: review\n    timeout: 5s\n");
    let config = reading.whole().unwrap();
    let all: Vec<_> =
        config.sources.iter().map(|s| (s.name.as_str(), s.trust, s.timeout.as_secs())).collect();
    assert_eq!(all, [("web.a", tool::Trust::Review, 5), ("web.b", tool::Trust::Review, 5)]);
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault_of_its_entry() {
    for (json, message) in [
        ("{}", "there is no mapping `mcpServers` or `servers`"),
        (r#"{"mcpServers": []}"#, "there is no mapping `mcpServers` or `servers`"),
        ("{\"mcpServers\": {", "unclosed bracket"),
    ] {
        let reading = reading(json);
        assert_eq!(reading.faults.0.len(), 1, "{json}: {}", reading.faults);
        assert!(reading.faults.0[0].message.contains(message), "{}", reading.faults);
        assert!(reading.config.unwrap().sources.is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("t.yaml"),
        "version: 1\nsources:\n  - mcp_servers: gone.json\n",
    )
    .unwrap();
    let reading = read(&setting(folder.path(), &[]));
    assert_eq!(reading.faults.0[0].place.line, 3);
    assert!(reading.faults.0[0].message.contains("gone.json` cannot be read"));
}

#[test]
fn comments_are_blanked_and_every_place_stays() {
    let text = "{ // a\n \"k\": \"// no\", /* x\n y */ \"q\\\"//\": 1 }";
    let blank = without_comments(text);
    assert_eq!(blank, "{     \n \"k\": \"// no\",     \n      \"q\\\"//\": 1 }");
    assert_eq!(blank.chars().count(), text.chars().count());
    assert_eq!(without_comments("a /*/ b */ c"), "a          c");
    assert_eq!(without_comments("a /* open"), "a        ");
}
