use std::path::Path;
use std::time::Duration;

use option_types::ToolSelection;
use sandbox::SandboxLevel;
use tool::SourceTrust;

use crate::tests::{error_lines, load_yaml, valid_config};
use crate::{Config, LoadOptions, SourceKind, load_config};

fn load_errors(text: &str) -> Vec<String> {
    error_lines(&load_yaml(text, &[]))
}

fn source(yaml: &str) -> Vec<String> {
    load_errors(&format!("version: 1\nsources:\n  - {yaml}\n"))
}

/// One named `builtin` was called good and lost when it was served.
#[test]
fn a_source_cannot_have_a_name_of_toolkeeps_own() {
    for name in ["builtin", "node.a", "plugin.notes", "configuration"] {
        let messages = source(&format!("{{ name: {name}, tools: ./tools.yaml }}"));
        let expected = format!("the name `{name}` is reserved for Toolkeep's own sources");
        assert!(messages.len() == 1 && messages[0].contains(&expected), "{messages:?}");
    }
    assert_eq!(source("{ name: builtins, tools: ./tools.yaml }"), [""; 0], "the control");
}

#[test]
fn the_example_of_the_issue_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
version: 1
sources:
  - name: local
    tools: ./tools.yaml                  # a tool file
  - name: research
    module: http://127.0.0.1:8000        # an HTTP module
    slow: true
  - name: files
    mcp: { command: npx, args: ["-y", "@modelcontextprotocol/server-filesystem", "./work"] }
  - name: docs
    mcp: { url: "http://127.0.0.1:3001/mcp" }
  - mcp_servers: ./mcp.json
redis: ${REDIS_URL:-}
"#;
    std::fs::write(folder.path().join("t.yaml"), text).unwrap();
    std::fs::write(folder.path().join("mcp.json"), r#"{"mcpServers":{"time":{"command":"t"}}}"#)
        .unwrap();
    let report = load_config(&crate::tests::load_options(folder.path(), &[]));
    let files: Vec<_> = report.files.iter().map(|file| file.path.clone()).collect();
    assert_eq!(files, ["t.yaml", "./mcp.json"].map(|file| folder.path().join(file)));
    let config = report.into_valid_config().unwrap();
    let kinds: Vec<_> =
        config.sources.iter().map(|s| (s.name.as_str(), s.kind.as_str(), s.trust)).collect();
    assert_eq!(
        kinds,
        [
            ("local", "tools", SourceTrust::Full),
            ("research", "module", SourceTrust::Full),
            ("files", "mcp", SourceTrust::FirstUse),
            ("docs", "mcp", SourceTrust::FirstUse),
            ("time", "mcp", SourceTrust::FirstUse),
        ]
    );
    let times: Vec<_> = config.sources.iter().map(|s| s.timeout.as_secs()).collect();
    assert_eq!(times, [30, 120, 30, 30, 30]);
    let SourceKind::ToolFile(path) = &config.sources[0].kind else { panic!() };
    assert_eq!(path, &folder.path().join("./tools.yaml"));
    let SourceKind::McpCommand(command) = &config.sources[2].kind else { panic!() };
    assert_eq!((command.command.as_str(), command.working_dir.as_path()), ("npx", folder.path()));
    assert_eq!(command.args[2].expose(), "./work");
}

#[test]
fn an_mcp_server_has_time_to_start_and_a_limit_of_messages_and_other_sources_have_neither() {
    let config = valid_config(
        "version: 1\nserver: { idle_timeout: 2h }\nsources:\n  - { name: a, mcp: { command: npx } }\n  - { name: b, mcp: { url: 'http://h/mcp' } }\n  - { name: c, mcp: { command: npx }, startup_timeout: 40m, max_message: 64MiB }\n  - { name: d, mcp: { command: npx }, start: on_first_call }\n  - { name: e, mcp: { url: 'http://h/' }, start: on_first_call, idle_stop: 90s }\n",
    );
    let of = |at: usize| {
        (config.sources[at].startup_timeout.as_secs(), config.sources[at].max_message_bytes)
    };
    assert_eq!([of(0), of(1), of(2)], [(300, 16 << 20), (20, 16 << 20), (2_400, 64 << 20)]);
    assert_eq!(config.server.idle_timeout.as_secs(), 7_200);
    let idle: Vec<_> =
        config.sources.iter().map(|one| one.idle_stop.map(|it| it.as_secs())).collect();
    assert_eq!(idle, [None, None, None, Some(300), Some(90)]);
    let alone = source("{ name: a, mcp: { command: npx }, idle_stop: 2m }");
    assert!(alone.len() == 1 && alone[0].contains("start: on_first_call"), "{alone:?}");
    let long = source("{ name: a, mcp: { command: npx }, startup_timeout: 2h }");
    assert!(long.len() == 1 && long[0].contains("invalid duration `2h`"), "{long:?}");
    for key in ["startup_timeout: 1m", "max_message: 1MiB", "start: on_first_call"] {
        let messages = source(&format!("{{ name: a, tools: ./t.yaml, {key} }}"));
        assert!(
            messages.len() == 1 && messages[0].contains("is only for an MCP server"),
            "{messages:?}"
        );
    }
}

#[test]
fn records_of_ended_keys_are_kept_for_ninety_days_unless_the_operator_says_otherwise() {
    let days = |text: &str| {
        let kept = valid_config(&format!("version: 1\n{text}")).server.ended_key_retention;
        kept.as_secs() / 86_400
    };
    assert_eq!(days(""), 90);
    assert_eq!(days("server: { keep_ended_keys: 30d }\n"), 30);
    assert_eq!(days("server: { keep_ended_keys: 52w }\n"), 364);
    let messages = load_errors("version: 1\nserver: { keep_ended_keys: '30' }\n");
    assert!(messages.len() == 1 && messages[0].contains("invalid age `30`"), "{messages:?}");
}

#[test]
fn what_is_said_of_a_source_is_kept() {
    let config = valid_config(
        "version: 1\nsources:\n  - name: a\n    mcp: { url: 'https://h/mcp', headers: { X-Key: k } }\n    trust: review\n    durability: full\n    defer: always\n    read_only: [get, list]\n    idempotent: true\n    timeout: 2m\n    credential: { bearer_env: TOKEN }\n",
    );
    let source = &config.sources[0];
    assert_eq!(
        (source.trust, source.durability),
        (SourceTrust::Review, Some(tool::Durability::Full))
    );
    assert_eq!(source.defer_mode, tool::DeferMode::Always);
    assert!(source.read_only.contains("get") && !source.read_only.contains("put"));
    assert_eq!(source.idempotent, ToolSelection::All);
    assert_eq!(source.timeout, Duration::from_mins(2));
    assert_eq!(source.credential.as_ref().unwrap().expose(), "s3cret");
    let SourceKind::McpUrl { headers, .. } = &source.kind else { panic!() };
    assert_eq!((headers[0].0.as_str(), headers[0].1.expose()), ("x-key", "k"));
}

#[test]
fn secrets_do_not_show_in_debug() {
    let config = valid_config(
        "version: 1\nredis: redis://:hunter2@h:1\nsources:\n  - { name: a, mcp: { command: c, args: [hunter2], env: { K: hunter2 } } }\n  - { name: b, mcp: { url: 'http://h', headers: { K: hunter2 } }, credential: { bearer: hunter2 } }\n",
    );
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_source_is_exactly_one_thing() {
    for (yaml, error) in [
        (
            "{ name: a }",
            "3:5 the source has no kind = write one of `tools: FILE`, `module: URL`, `mcp: {…}` and `mcp_servers: FILE`",
        ),
        (
            "{ name: a, tools: t, module: 'http://h' }",
            "3:5 a source has one kind; found tools and module = write one source for each",
        ),
        (
            "{ name: a, mcp: {} }",
            "3:21 the MCP server has neither `command` nor `url` = write `command: PROGRAM` or `url: URL`",
        ),
        (
            "{ name: a, mcp: { command: c, url: 'http://h' } }",
            "3:21 an MCP server is either a `command` or a `url` = remove one of them",
        ),
        (
            "{ name: a, mcp: { url: 'http://h', env: { A: b } } }",
            "3:21 `env` is only for a `command`, and this is a `url` = remove it",
        ),
        (
            "{ name: a, mcp: { command: c, headers: { A: b } } }",
            "3:21 `headers` is only for a `url`, and this is a `command` = remove it",
        ),
        (
            "{ name: a, tools: t, credential: { bearer: x } }",
            "3:5 `credential` is only for a source with a URL = pass secrets to a command in `env`",
        ),
        (
            "{ name: a, tools: t, trust: ful }",
            "3:33 expected one of full, first_use, review, found `ful` = did you mean `full`?",
        ),
        (
            "{ name: a, tools: t, read_only: 5 }",
            "3:37 expected `true`, `false` or a list of tool names, found integer `5`",
        ),
        (
            "{ name: a, tools: t, timeout: 30 }",
            "3:35 invalid call timeout `30` = write a number and its unit, such as `500ms`, `30s` or `2m`",
        ),
    ] {
        assert_eq!(source(yaml), [error], "{yaml}");
    }
}

#[test]
fn what_cannot_be_sent_is_refused_without_showing_it() {
    for yaml in [
        "{ name: a, module: 'http://me:hunter2@h' }",
        "{ name: a, module: 'http://h', credential: { bearer: 'hunter2 x' } }",
        "{ name: a, module: 'http://h', credential: { bearer: hunter2, bearer_env: B } }",
        "{ name: a, mcp: { url: 'http://h', headers: { Host: hunter2 } } }",
        "{ name: a, mcp: { url: 'http://h', headers: { A: \"hunter2\\n\" } } }",
        "{ name: a, mcp: { command: c, env: { 'A=B': hunter2 } } }",
        "{ name: a, mcp: { command: c, args: [\"hunter2\\0\"] } }",
    ] {
        let report = load_yaml(&format!("version: 1\nsources:\n  - {yaml}\n"), &[]);
        assert_eq!(report.errors.0.len(), 1, "{yaml}");
        assert!(!report.errors.to_string().contains("hunter2"), "{}", report.errors);
        assert!(report.config.unwrap().sources.is_empty());
    }
}

#[test]
fn of_two_sources_with_one_name_the_first_stays() {
    let text = "version: 1\nsources:\n  - { name: a, tools: one }\n  - { name: a, tools: two }\n";
    let report = load_yaml(text, &[]);
    assert_eq!(
        error_lines(&report),
        ["4:5 a source named `a` is already defined = choose another name"]
    );
    let sources = report.config.unwrap().sources;
    assert!(
        matches!(&sources[..], [one] if matches!(&one.kind, SourceKind::ToolFile(p) if p.ends_with("one")))
    );
}

#[test]
fn the_server_part_is_checked() {
    let config = valid_config(
        "version: 1\nserver: { allowed_hosts: [Tools.Example, '[::2]'], allowed_origins: ['https://c.example', 'http://l:3/'], max_body: 64KiB }\nlimits: { result_bytes: 2MiB }\n",
    );
    assert_eq!(config.server.allowed_hosts, ["tools.example", "[::2]"]);
    assert_eq!(config.server.allowed_origins, ["https://c.example", "http://l:3"]);
    assert_eq!((config.server.max_body_bytes, config.limits.max_result_bytes), (64 << 10, 2 << 20));
    let text = "version: 1\nserver:\n  allowed_hosts: ['a/b', '', 'h:1']\n  allowed_origins: ['https://c/x', '*', 'null', 'file:///x']\n  max_body: 1B\n";
    let messages: Vec<_> = load_yaml(text, &[]).errors.0.into_iter().map(|f| f.message).collect();
    assert_eq!(
        messages,
        [
            "invalid host name `a/b`",
            "invalid host name ``",
            "invalid host name `h:1`",
            "invalid origin `https://c/x`",
            "invalid origin `*`",
            "invalid origin `null`",
            "invalid origin `file:///x`",
            "`1B` is out of range",
        ]
    );
}

#[test]
fn the_public_url_is_an_origin_with_tls_or_on_this_machine() {
    let read =
        |url: &str| load_yaml(&format!("version: 1\nserver: {{ public_url: '{url}' }}\n"), &[]);
    for (url, origin) in [
        ("https://Tools.example", "https://tools.example"),
        ("https://tools.example:8443/", "https://tools.example:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ] {
        assert_eq!(read(url).config.unwrap().server.public_url.as_deref(), Some(origin), "{url}");
    }
    for url in [
        "http://tools.example",
        "https://tools.example/mcp",
        "https://a:b@h",
        "tools.example",
        "ftp://h",
    ] {
        let errors = read(url).errors.0;
        assert_eq!(errors.len(), 1, "{url}: {errors:?}");
        assert!(!errors[0].message.contains("a:b"), "{errors:?}");
    }
}

#[test]
fn a_key_is_read_by_its_former_name_with_a_note() {
    let config = valid_config("version: 1\nserver: { cage: fenced }\n");
    assert_eq!(config.server.min_sandbox_level, SandboxLevel::NoNamespaces);
    let notes: Vec<_> = config.notes.0.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(notes, ["`cage` is the former name of `min_sandbox`"]);
    let named = valid_config("version: 1\nserver: { min_sandbox: fenced }\n");
    assert_eq!((named.server, named.notes.0.len()), (config.server, 0));
    let both = load_yaml("version: 1\nserver: { cage: fenced, min_sandbox: whole }\n", &[]);
    assert_eq!(both.errors.0[0].help.as_deref(), Some("remove `cage`"));
    let unknown = load_yaml("version: 1\nserver: { cagee: fenced }\n", &[]);
    assert!(!unknown.errors.0[0].help.as_deref().unwrap().contains("`cage`"));
}

fn with_flags(yaml: &str, listen: Option<&str>) -> Result<Config, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), yaml).unwrap();
    let options = crate::tests::load_options(folder.path(), &[]);
    let options = LoadOptions { listen: listen.map(str::to_owned), ..options };
    load_config(&options)
        .into_valid_config()
        .map_err(|errors| errors.0.iter().map(|f| f.message.clone()).collect())
}

#[test]
fn beyond_loopback_it_listens_only_behind_tls() {
    let listen = |yaml: &str, flag: Option<&str>| {
        with_flags(yaml, flag).map(|c| c.listen_address.to_string())
    };
    assert_eq!(listen("version: 1", None).unwrap(), "127.0.0.1:8080");
    assert_eq!(listen("{version: 1, listen: 'localhost:0'}", None).unwrap(), "127.0.0.1:0");
    assert_eq!(listen("{version: 1, listen: '127.0.0.1:1'}", Some("[::1]:2")).unwrap(), "[::1]:2");
    let open = "`0.0.0.0:80` is open to the network, and this is plain HTTP";
    assert_eq!(listen("{version: 1, listen: '0.0.0.0:80'}", None).unwrap_err(), [open]);
    assert_eq!(listen("version: 1", Some("0.0.0.0:80")).unwrap_err(), [open]);
    let behind = "{version: 1, server: {behind_tls: true}}";
    assert_eq!(listen(behind, Some("0.0.0.0:80")).unwrap(), "0.0.0.0:80");
    assert_eq!(listen("version: 1", Some("8080")).unwrap_err(), ["invalid listen address `8080`"]);
}

/// The flags of containers, and what they are without the file.
#[test]
fn hosts_and_tls_are_said_by_flags_as_in_the_file() {
    let listen = |yaml: &str, hosts: &[&str], behind_tls: bool| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.yaml"), yaml).unwrap();
        let options = LoadOptions {
            listen: Some("0.0.0.0:8000".to_owned()),
            allowed_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            behind_tls,
            ..crate::tests::load_options(folder.path(), &[])
        };
        load_config(&options).into_valid_config().map(|config| config.server.allowed_hosts)
    };
    let file = "{version: 1, server: {behind_tls: true, allowed_hosts: [a.b]}}";
    assert_eq!(listen("version: 1", &["Core"], true).unwrap(), ["core"]);
    assert_eq!(listen(file, &["core"], false).unwrap(), ["a.b", "core"]);
    let refused = listen("version: 1", &["core"], false).unwrap_err().to_string();
    assert!(refused.contains("--listen: `0.0.0.0:8000` is open to the network"), "{refused}");
    assert!(
        refused.contains("--behind-tls") && refused.contains("TOOLKEEP_BEHIND_TLS"),
        "{refused}"
    );
    let refused = listen("version: 1", &["core:8000"], true).unwrap_err().to_string();
    let expected = "--allowed-host: invalid host name `core:8000`\n  help: write the name alone, such as `tools.example`";
    assert_eq!(refused, expected);
}

#[test]
fn data_is_found_by_flag_file_and_home_in_that_order() {
    let folder = Path::new("/w");
    let options = crate::tests::load_options(folder, &[]);
    let none = LoadOptions { file: None, ..options };
    let data = |options: &LoadOptions| load_config(options).into_valid_config().unwrap().data_dir;
    assert_eq!(data(&none), Path::new("/home/me/.local/share/toolkeep"));
    let flag = LoadOptions { data_dir: Some("d".into()), ..none.clone() };
    assert_eq!(data(&flag), Path::new("/w/d"));
    let homeless = LoadOptions { environment: std::sync::Arc::default(), ..none };
    assert_eq!(
        load_config(&homeless).errors.to_string(),
        "--data: HOME is not set, so there is no default data directory\n  help: name one: `--data DIR`"
    );
    let config = valid_config("version: 1\ndata: ~/tk\n");
    assert_eq!(config.data_dir, Path::new("/home/me/tk"));
}
