//! Tests of problems outside the configuration file: commands of MCP servers and stored personas.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use store::SqliteStore;
use tool::store::WritePrecondition;
use tool::{Problem, Store as _};

use super::review_config;
use config::{Environment, LoadOptions, load_config};

async fn review_text(folder: &Path, text: &str) -> super::ConfigReview {
    fs::write(folder.join("t.yaml"), text).unwrap();
    let environment: Environment =
        [("HOME", "/home/me"), ("PATH", "/bin:/usr/bin")].into_iter().collect();
    let environment = Arc::new(environment);
    let setting = LoadOptions {
        file: Some("t.yaml".into()),
        listen: None,
        data_dir: Some(folder.join("data")),
        allowed_hosts: Vec::new(),
        behind_tls: false,
        current_dir: folder.to_owned(),
        environment: Arc::clone(&environment),
    };
    let config = load_config(&setting).into_valid_config().unwrap();
    review_config(&config, &environment).await.unwrap()
}

fn problem_lines(problems: &[Problem]) -> Vec<String> {
    let line = |it: &Problem| {
        format!("{}: {}\n  = {}", it.location, it.message, it.help.as_deref().unwrap_or_default())
    };
    problems.iter().map(line).collect()
}

/// `config check` called a server good whose program was not there.
#[tokio::test]
async fn commands_that_cannot_be_started_are_found_all_at_once_and_none_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // Each script would leave a file if it ran.
    for (name, mode) in [("runs.sh", 0o755), ("plain.sh", 0o644)] {
        let script = format!("#!/bin/sh\ntouch '{}'\n", at("started").display());
        fs::write(at(name), script).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(at("bin")).unwrap();
    fs::copy(at("runs.sh"), at("bin/mine")).unwrap();
    fs::write(
        at("mcp.json"),
        r#"{ "mcpServers": { "files": { "command": "npxx" }, "off": { "command": "npxx", "disabled": true } } }"#,
    )
    .unwrap();
    let text = "version: 1
sources:
  - { name: found, mcp: { command: sh } }
  - { name: path, mcp: { command: ./runs.sh } }
  - { name: own, mcp: { command: mine, env: { PATH: ./bin } } }
  - { name: missing, mcp: { command: no-such-program } }
  - { name: gone, mcp: { command: ./gone.sh } }
  - { name: plain, mcp: { command: ./plain.sh } }
  - { name: away, mcp: { command: sh, cwd: ./nowhere } }
  - { mcp_servers: ./mcp.json }
";
    let found = problem_lines(&review_text(folder.path(), text).await.left_out);
    let folder = folder.path().display();
    for (place, what, fix) in [
        ("t.yaml:6:", "`no-such-program` of the source `missing`", "install it"),
        ("t.yaml:7:", &format!("the file `{folder}/gone.sh` does not exist"), "correct the path"),
        ("t.yaml:8:", "is not executable", "chmod +x"),
        ("t.yaml:9:", &format!("working directory `{folder}/nowhere`"), "create the folder"),
        ("mcp.json:1:", "`npxx` of the source `files`", "install it"),
    ] {
        let fits =
            |line: &&String| line.contains(place) && line.contains(what) && line.contains(fix);
        assert_eq!(found.iter().filter(fits).count(), 1, "{place} {what}: {found:#?}");
    }
    // The control: commands that exist give no problem, and nothing was started.
    assert_eq!(found.len(), 5, "{found:#?}");
    assert!(!at("started").exists());
}

#[tokio::test]
async fn personas_of_the_store_that_name_what_is_not_there_are_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let text = "version: 1\nsources:\n  - { name: research, tools: ./r.yaml }\n";
    fs::write(
        folder.path().join("r.yaml"),
        "version: 1\ntools:\n  - { name: m, description: d, parameters: { type: object }, \
         implementation: { type: mock, mock_response: 1 } }\n",
    )
    .unwrap();
    // The control: without a store there is no warning, and none is created.
    assert!(review_text(folder.path(), text).await.warnings.is_empty());
    assert!(!folder.path().join("data").exists());

    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let store = SqliteStore::open_file(data.join("store.db")).unwrap();
    for (key, value) in [
        ("persona/coder", r#"{"name":"coder","allowed_modules":["reserch","builtin","node.gpu"]}"#),
        ("persona/right", r#"{"name":"right","allowed_modules":["research"]}"#),
        ("persona/open", r#"{"name":"open","allowed_modules":null}"#),
        ("persona/later", r#"{"name":"later","allowed_modules":["zzz"]}"#),
        ("default_persona", "codr"),
    ] {
        store.put_value(key, WritePrecondition::Absent, Some(Bytes::from(value))).await.unwrap();
    }
    // While a server has the file open.
    let found = problem_lines(&review_text(folder.path(), text).await.warnings);
    assert_eq!(found.len(), 3, "{found:#?}");
    for (line, (place, what, fix)) in found.iter().zip([
        ("persona/coder", "names the module `reserch`", "did you mean `research`?"),
        ("persona/later", "names the module `zzz`", "toolkeep persona set later"),
        ("default_persona", "the default persona `codr`", "toolkeep persona default NAME"),
    ]) {
        assert!(line.contains(place) && line.contains(what) && line.contains(fix), "{line}");
    }
}
