use std::collections::BTreeSet;
use std::path::Path;

use super::without_comments;
use crate::tests::{faults, setting};
use crate::{Reading, SourceConfig, SourceKind, Tools, read};

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

fn notes(reading: &Reading) -> Vec<String> {
    let notes = &reading.config.as_ref().unwrap().notes.0;
    let line = |note: &crate::Fault| {
        let fix = note.fix.as_deref().unwrap_or_default();
        format!("{}:{} {} = {fix}", note.place.line, note.place.column, note.message)
    };
    notes.iter().map(line).collect()
}

/// Windsurf's and Gemini CLI's words for an address were no address.
#[test]
fn every_programs_word_for_an_address_is_read() {
    let json = r#"{"mcpServers": {
  "windsurf": { "serverUrl": "http://127.0.0.1:1/a", "headers": { "X-Key": "${TOKEN}" } },
  "gemini": { "httpUrl": "http://127.0.0.1:1/b" },
  "both": { "url": "http://127.0.0.1:1/c", "httpUrl": "http://127.0.0.1:1/d" }
}}"#;
    let reading = reading(json);
    let told =
        "4:3 an MCP server has one address, and here are `url` and `httpUrl` = remove one of them";
    assert_eq!(faults(&reading), [told]);
    let urls = reading.config.unwrap().sources.into_iter().map(|source| match source.kind {
        SourceKind::McpUrl { url, .. } => url.path().to_owned(),
        other => panic!("{other:?}"),
    });
    assert_eq!(urls.collect::<Vec<_>>(), ["/a", "/b"]);
}

/// A variable that is not set, in a server that is switched off and in one that is not.
#[test]
fn an_unset_variable_takes_its_own_server_down() {
    let json = r#"{"mcpServers": {
  "off": { "command": "c", "env": { "K": "${NOT_SET}" }, "disabled": true },
  "off too": { "command": "${NOT_SET}", "enabled": false },
  "needs": { "command": "c", "env": { "K": "${NOT_SET}" } },
  "good": { "command": "c", "cwd": "sub", "env": { "K": "${TOKEN}" } }
}}"#;
    let reading = reading(json);
    let told = "the environment variable `NOT_SET` is not set = set it, or give a default: `${NOT_SET:-…}`";
    assert_eq!(faults(&reading), [format!("4:44 {told}")]);
    let names: Vec<_> =
        reading.config.unwrap().sources.into_iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["good"]);
}

/// `disabledTools` was passed over in silence, and the tool was offered.
#[test]
fn tools_that_another_program_switches_off_are_off_here() {
    let json = r#"{"mcpServers": {
  "windsurf": { "command": "c", "disabledTools": ["drop"] },
  "gemini": { "command": "c", "excludeTools": ["drop"], "includeTools": ["read", "write"] },
  "cline": { "command": "c", "timeout": 60 },
  "milliseconds": { "command": "c", "timeout": 600000 },
  "unit": { "command": "c", "timeout": "90s" },
  "slip": { "command": "c", "disabeldTools": ["drop"] }
}}"#;
    let reading = reading(json);
    assert_eq!(
        faults(&reading),
        ["7:29 unknown key `disabeldTools` = did you mean `disabledTools`?"]
    );
    let sources = reading.config.unwrap().sources;
    let tools: Vec<_> = sources.iter().take(2).map(|it| it.mcp_tools.clone()).collect();
    assert_eq!(tools[0].disabled, BTreeSet::from(["drop".to_owned()]));
    assert_eq!(tools[1].disabled, BTreeSet::from(["drop".to_owned()]));
    assert_eq!(tools[1].enabled, Some(BTreeSet::from(["read", "write"].map(str::to_owned))));
    let times: Vec<_> = sources.iter().skip(2).map(|it| it.timeout.as_secs()).collect();
    assert_eq!(times, [60, 600, 90]);
}

/// Nothing that a file brings from elsewhere loosens what Toolkeep asks of a call; each of its keys that does not
/// count is told, and takes nothing down.
#[test]
fn what_would_weaken_approvals_is_told_and_does_not_count() {
    let json = r#"{"mcpServers": {
  "a": { "command": "c", "autoApprove": ["x"], "alwaysAllow": ["y"], "trust": true,
         "trust_annotations": true, "read_only": true, "chain": true, "gallery": "z" },
  "empty": { "command": "c", "autoApprove": [], "alwaysAllow": [] }
}}"#;
    let reading = reading(json);
    assert_eq!(faults(&reading), [""; 0]);
    let approves = "approves nothing here = which calls need an approval is for `policy` in the configuration to say";
    let ours = "is not read from this file = write it in the configuration: `servers: { NAME: … }` beside `mcp_servers`";
    assert_eq!(
        notes(&reading),
        [
            format!("2:26 `autoApprove` {approves}"),
            format!("2:48 `alwaysAllow` {approves}"),
            format!("2:70 `trust` {ours}"),
            format!("3:10 `trust_annotations` {ours}"),
            format!("3:37 `read_only` {ours}"),
            format!("3:56 `chain` {ours}"),
            "3:71 unknown key `gallery`, which is not used = ".to_owned(),
        ]
    );
    let source = &reading.config.unwrap().sources[0];
    assert_eq!((source.trust, source.mcp_tools.trust_annotations), (tool::Trust::FirstUse, false));
    assert_eq!((&source.read_only, &source.chain), (&Tools::NONE, &Tools::NONE));
}

#[test]
fn the_operator_has_settings_for_each_server() {
    let json = r#"{"mcpServers": {"git hub": {"command": "c", "disabledTools": ["drop"], "timeout": 5}, "b": {"command": "c"}}}"#;
    let extra = "    read_only: [status]
    servers:
      git hub: { trust: review, trust_annotations: true, read_only: true, chain: [log], slow: true,
        destructive: [push], disabled_tools: [gc], timeout: 2m, startup_timeout: 20m, max_message: 64MiB }
";
    let (_folder, reading) = reading_in("m.json", json, extra);
    let config = reading.whole().unwrap();
    let [hub, b] = config.sources.as_slice() else { panic!("{:?}", config.sources) };
    assert_eq!((hub.trust, hub.slow, hub.timeout.as_secs()), (tool::Trust::Review, true, 120));
    let bounds =
        [hub, b].map(|server| (server.startup_timeout.as_secs(), server.max_message >> 20));
    assert_eq!(bounds, [(1_200, 64), (300, 16)], "the second is the control");
    assert!(hub.mcp_tools.trust_annotations && hub.read_only == Tools::All && hub.chain.has("log"));
    assert_eq!(hub.mcp_tools.disabled, BTreeSet::from(["drop", "gc"].map(str::to_owned)));
    assert!(hub.mcp_tools.destructive.as_ref().unwrap().has("push"));
    // The control: the other has what holds for all, and no more.
    assert!(!b.mcp_tools.trust_annotations && b.read_only.has("status") && !b.read_only.has("log"));
    assert_eq!((b.trust, b.mcp_tools.destructive.clone()), (tool::Trust::FirstUse, None));
    // A name that is not there is a slip, which would leave a server without its setting.
    let (folder, reading) =
        reading_in("m.json", json, "    servers: { github: { trust: review } }\n");
    let told = format!(
        "3:18 `servers` names `github`, which is not in `{}` = write the name as that file has it",
        folder.path().join("m.json").display()
    );
    assert_eq!(faults(&reading), [told]);
}

#[test]
fn settings_of_mcp_servers_belong_to_them_alone() {
    for (key, of) in [
        ("trust_annotations: true", "an MCP server"),
        ("destructive: false", "an MCP server"),
        ("disabled_tools: [x]", "an MCP server"),
        ("startup_timeout: 1m", "an MCP server"),
        ("max_message: 1MiB", "an MCP server"),
        ("servers: {}", "`mcp_servers`"),
    ] {
        let yaml = format!("version: 1\nsources:\n  - {{ name: a, tools: ./t.yaml, {key} }}\n");
        let name = key.split(':').next().unwrap();
        let told = format!("3:5 `{name}` is a setting of {of} = remove it");
        assert_eq!(faults(&crate::tests::reading(&yaml, &[])), [told]);
    }
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
