use std::collections::BTreeSet;
use std::path::Path;

use option_types::ToolSelection;

use super::blank_out_comments;
use crate::tests::{error_lines, load_options};
use crate::{LoadReport, SourceConfig, SourceKind, load_config};

/// Reads `json` as the `mcp_servers` file of a configuration.
fn load_json_at(at: &str, json: &str, extra: &str) -> (tempfile::TempDir, LoadReport) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(at);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, json).unwrap();
    let yaml = format!("version: 1\nsources:\n  - mcp_servers: {at}\n{extra}");
    std::fs::write(folder.path().join("t.yaml"), yaml).unwrap();
    let report = load_config(&load_options(folder.path(), &[("TOKEN", "s3cret")]));
    (folder, report)
}

fn load_yaml(json: &str) -> LoadReport {
    load_json_at("mcp.json", json, "").1
}

fn command(source: &SourceConfig) -> (String, Vec<String>, Vec<(String, String)>) {
    let SourceKind::McpCommand(command) = &source.kind else { panic!("{source:?}") };
    let args = command.args.iter().map(|arg| arg.expose().to_owned()).collect();
    let env = command.env.iter().map(|(n, v)| (n.clone(), v.expose().to_owned())).collect();
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
    let config = load_yaml(json).into_valid_config().unwrap();
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
    let (folder, report) = load_json_at(".vscode/mcp.json", json, "");
    let config = report.into_valid_config().unwrap();
    let SourceKind::McpUrl { url, headers, .. } = &config.sources[0].kind else { panic!() };
    assert_eq!((url.as_str(), headers[0].1.expose()), ("http://127.0.0.1:1/mcp", "s3cret"));
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
    let report = load_yaml(json);
    assert_eq!(
        error_lines(&report),
        [
            "2:3 the MCP server has neither `command` nor `url` = write `command: PROGRAM` or `url: URL`",
            "3:44 invalid variable reference `${input:key}` = use `${NAME}` or `${NAME:-default}`; `$${` stands for the characters `${`",
            "4:20 `old` uses the deprecated SSE transport = use the server's streamable HTTP address, with the type `http`",
            "6:11 expected a mapping of keys to values, found `c`",
            "7:40 `envFile` is not supported = put the variables under `env`",
        ]
    );
    assert!(report.errors.0.iter().all(|error| error.file.ends_with("mcp.json")));
    let names: Vec<_> =
        report.config.unwrap().sources.into_iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["good"]);
}

fn notes(report: &LoadReport) -> Vec<String> {
    let notes = &report.config.as_ref().unwrap().notes.0;
    let line = |note: &crate::ConfigError| {
        let fix = note.help.as_deref().unwrap_or_default();
        format!("{}:{} {} = {fix}", note.position.line, note.position.column, note.message)
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
    let report = load_yaml(json);
    let messages = "4:3 an MCP server has one URL; found `url` and `httpUrl` = remove one of them";
    assert_eq!(error_lines(&report), [messages]);
    let urls = report.config.unwrap().sources.into_iter().map(|source| match source.kind {
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
    let report = load_yaml(json);
    let messages = "the environment variable `NOT_SET` is not set = set it, or give a default: `${NOT_SET:-…}`";
    assert_eq!(error_lines(&report), [format!("4:44 {messages}")]);
    let names: Vec<_> =
        report.config.unwrap().sources.into_iter().map(|s| s.name.to_string()).collect();
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
    let report = load_yaml(json);
    assert_eq!(
        error_lines(&report),
        ["7:29 unknown key `disabeldTools` = did you mean `disabledTools`?"]
    );
    let sources = report.config.unwrap().sources;
    let tools: Vec<_> = sources.iter().take(2).map(|source| source.mcp_tools.clone()).collect();
    assert_eq!(tools[0].disabled_tools, BTreeSet::from(["drop".to_owned()]));
    assert_eq!(tools[1].disabled_tools, BTreeSet::from(["drop".to_owned()]));
    assert_eq!(tools[1].enabled_tools, Some(BTreeSet::from(["read", "write"].map(str::to_owned))));
    let times: Vec<_> = sources.iter().skip(2).map(|source| source.timeout.as_secs()).collect();
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
    let report = load_yaml(json);
    assert_eq!(error_lines(&report), [""; 0]);
    let approves = "is ignored = set which calls need an approval in the configuration: `policy`";
    let ours = "is ignored in this file = write it in the configuration: `servers: { NAME: … }` next to `mcp_servers`";
    assert_eq!(
        notes(&report),
        [
            format!("2:26 `autoApprove` {approves}"),
            format!("2:48 `alwaysAllow` {approves}"),
            format!("2:70 `trust` {ours}"),
            format!("3:10 `trust_annotations` {ours}"),
            format!("3:37 `read_only` {ours}"),
            format!("3:56 `chain` {ours}"),
            "3:71 unknown key `gallery` is ignored = ".to_owned(),
        ]
    );
    let source = &report.config.unwrap().sources[0];
    assert_eq!(
        (source.trust, source.mcp_tools.trust_annotations),
        (tool::SourceTrust::FirstUse, false)
    );
    assert_eq!(
        (&source.read_only, &source.callable_by_programs),
        (&ToolSelection::NONE, &ToolSelection::NONE)
    );
}

#[test]
fn the_operator_has_settings_for_each_server() {
    let json = r#"{"mcpServers": {"git hub": {"command": "c", "disabledTools": ["drop"], "timeout": 5}, "b": {"command": "c"}}}"#;
    let extra = "    read_only: [status]
    servers:
      git hub: { trust: review, trust_annotations: true, read_only: true, chain: [log], slow: true,
        destructive: [push], disabled_tools: [gc], timeout: 2m, startup_timeout: 20m, max_message: 64MiB }
";
    let (_folder, report) = load_json_at("m.json", json, extra);
    let config = report.into_valid_config().unwrap();
    let [hub, b] = config.sources.as_slice() else { panic!("{:?}", config.sources) };
    assert_eq!(
        (hub.trust, hub.is_slow, hub.timeout.as_secs()),
        (tool::SourceTrust::Review, true, 120)
    );
    let bounds =
        [hub, b].map(|server| (server.startup_timeout.as_secs(), server.max_message_bytes >> 20));
    assert_eq!(bounds, [(1_200, 64), (300, 16)], "the second is the control");
    assert!(
        hub.mcp_tools.trust_annotations
            && hub.read_only == ToolSelection::All
            && hub.callable_by_programs.contains("log")
    );
    assert_eq!(hub.mcp_tools.disabled_tools, BTreeSet::from(["drop", "gc"].map(str::to_owned)));
    assert!(hub.mcp_tools.destructive.as_ref().unwrap().contains("push"));
    // The control: the other has what holds for all, and no more.
    assert!(
        !b.mcp_tools.trust_annotations
            && b.read_only.contains("status")
            && !b.read_only.contains("log")
    );
    assert_eq!((b.trust, b.mcp_tools.destructive.clone()), (tool::SourceTrust::FirstUse, None));
    // A name that is not there is a slip, which would leave a server without its setting.
    let (folder, report) =
        load_json_at("m.json", json, "    servers: { github: { trust: review } }\n");
    let messages = format!(
        "3:18 `servers` names `github`, which is not in `{}` = write the name as in that file",
        folder.path().join("m.json").display()
    );
    assert_eq!(error_lines(&report), [messages]);
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
        let messages = format!("3:5 `{name}` is only for {of} = remove it");
        assert_eq!(error_lines(&crate::tests::load_yaml(&yaml, &[])), [messages]);
    }
}

#[test]
fn a_name_is_put_before_and_settings_hold_for_all() {
    let json = r#"{"mcpServers": {"a": {"command": "c"}, "b": {"command": "c"}}}"#;
    let (_folder, report) =
        load_json_at("m.json", json, "    name: web\n    trust: review\n    timeout: 5s\n");
    let config = report.into_valid_config().unwrap();
    let all: Vec<_> =
        config.sources.iter().map(|s| (s.name.as_str(), s.trust, s.timeout.as_secs())).collect();
    assert_eq!(
        all,
        [("web.a", tool::SourceTrust::Review, 5), ("web.b", tool::SourceTrust::Review, 5)]
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault_of_its_entry() {
    for (json, message) in [
        ("{}", "the mapping `mcpServers` or `servers` is missing"),
        (r#"{"mcpServers": []}"#, "the mapping `mcpServers` or `servers` is missing"),
        ("{\"mcpServers\": {", "unclosed bracket"),
    ] {
        let report = load_yaml(json);
        assert_eq!(report.errors.0.len(), 1, "{json}: {}", report.errors);
        assert!(report.errors.0[0].message.contains(message), "{}", report.errors);
        assert!(report.config.unwrap().sources.is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("t.yaml"),
        "version: 1\nsources:\n  - mcp_servers: gone.json\n",
    )
    .unwrap();
    let report = load_config(&load_options(folder.path(), &[]));
    assert_eq!(report.errors.0[0].position.line, 3);
    assert!(report.errors.0[0].message.contains("gone.json` cannot be read"));
}

#[test]
fn comments_are_blanked_and_every_place_stays() {
    let text = "{ // a\n \"k\": \"// no\", /* x\n y */ \"q\\\"//\": 1 }";
    let blank = blank_out_comments(text);
    assert_eq!(blank, "{     \n \"k\": \"// no\",     \n      \"q\\\"//\": 1 }");
    assert_eq!(blank.chars().count(), text.chars().count());
    assert_eq!(blank_out_comments("a /*/ b */ c"), "a          c");
    assert_eq!(blank_out_comments("a /* open"), "a        ");
}
