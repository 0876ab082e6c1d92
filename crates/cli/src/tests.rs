//! Whole commands, from the line to the output, against a server that is played.

mod check;
mod held;
mod joining;
mod plaintext;
pub(crate) mod played;
mod routes;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use played::Played;

#[test]
fn tools_are_listed_page_after_page() {
    let tool = |name: &str, source: &str| {
        json!({ "name": name, "source": source, "description": "Does it.\nAt length.",
            "traits": { "level": "guest", "safety": "safe" } })
    };
    let played = Played::default()
        .answers(
            "GET /v1/tools",
            &json!({ "tools": [tool("a", "x")], "next_cursor": "c 1", "catalog": 7 }),
        )
        .answers(
            "GET /v1/tools?cursor=c+1",
            &json!({ "tools": [tool("b", "y")], "next_cursor": null }),
        )
        .answers(
            "GET /v1/tools?source=y",
            &json!({ "tools": [tool("b", "y")], "next_cursor": null }),
        )
        .answers(
            "GET /v1/tools?format=mcp&source=y",
            &json!({ "tools": [{ "name": "b" }], "next_cursor": null }),
        );
    let ran = played.run(&["tool", "list"]);
    let expected = "\
NAME  SOURCE  LEVEL  SAFETY  DESCRIPTION
a     x       guest  safe    Does it.
b     y       guest  safe    Does it.

2 tools
";
    assert_eq!((ran.exit, ran.out.as_str(), ran.err.as_str()), (0, expected, ""));
    let json = played.run(&["tool", "list", "--source", "y", "-o", "json"]).json();
    assert_eq!(json["tools"].as_array().unwrap().len(), 1);
    assert_eq!((&json["tools"][0]["name"], &json["next_cursor"]), (&json!("b"), &json!(null)));
    let json = played.run(&["tool", "list", "--source", "y", "--format", "mcp"]).json();
    assert_eq!(json["tools"], json!([{ "name": "b" }]));
}

#[test]
fn one_answer_in_every_form() {
    let source = json!({ "name": "files", "kind": "mcp", "tools": 2, "problems": [] });
    let played = Played::default().answers("GET /v1/sources", &json!({ "sources": [source] }));
    let of = |form: &str| played.run(&["source", "list", "-o", form]).out;
    assert_eq!(of("table"), "NAME   KIND  TOOLS\nfiles  mcp   2\n");
    assert_eq!(of("yaml"), "sources:\n- name: files\n  kind: mcp\n  tools: 2\n  problems: []\n");
    let yaml: serde_json::Value = serde_saphyr::from_str(&of("yaml")).unwrap();
    assert_eq!(yaml, serde_json::from_str::<serde_json::Value>(&of("json")).unwrap());
    assert!(of("text").starts_with("NAME   KIND  STATE"));
    let ran = played.run(&["key", "list", "-o", "yaml"]);
    assert!(ran.exit != 0 && ran.err.starts_with("error:\n  message: "), "{}", ran.err);
}

/// The id of another key is no credential of one's own.
#[test]
fn an_explanation_for_another_key_is_asked_for_with_ones_own() {
    let answer = json!({ "tool": "a", "key": "k1", "decision": "allow", "text": "it runs" });
    let played = Played::default().answers("POST /v1/explain", &answer);
    let ran = played.run(&["policy", "explain", "--as", "k1", "--tool", "a"]);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    assert!(ran.out.starts_with("allow: it runs"), "{}", ran.out);
    assert!(played.body().contains(r#""as":"k1""#), "{}", played.body());
    assert!(played.keys().iter().all(|key| key != "Bearer k1"));
}

#[test]
fn tools_are_counted_over_all_pages() {
    let tool = |source: &str| json!({ "name": "t", "source": source });
    let played = Played::default()
        .answers("GET /v1/tools", &json!({ "tools": [tool("x"), tool("y")], "next_cursor": "c" }))
        .answers("GET /v1/tools?cursor=c", &json!({ "tools": [tool("x")], "next_cursor": null }));
    assert_eq!(played.run(&["tool", "count"]).out, "3\n");
    assert_eq!(played.run(&["tool", "count", "--source", "y"]).out, "1\n");
    assert_eq!(played.run(&["tool", "count", "--source", "none"]).out, "0\n");
    let table = "NAME  TOOLS\nx     2\ny     1\n\ntools: 3\n";
    assert_eq!(played.run(&["tool", "count", "-o", "table"]).out, table);
}

#[test]
fn an_export_is_the_list_alone_and_tells_its_losses_beside_it() {
    let listed = json!({ "tools": [{ "name": "a_b" }], "names": { "a_b": "a.b", "c": "c" },
        "left_out": [{ "name": "d\u{1b}", "place": "/x", "keyword": "not", "why": "no word for it" }],
        "losses": { "a.b": [{ "place": "/y", "keyword": "if", "why": "is dropped" }] },
        "next_cursor": null });
    let played = Played::default().answers("GET /v1/tools?format=anthropic&losses=true", &listed);
    let export = ["tool", "export", "--format", "anthropic"];
    let ran = played.run(&export);
    assert_eq!((ran.exit, ran.json()), (0, json!([{ "name": "a_b" }])));
    let told = "\
omitted: `d\u{fffd}`: at `/x`: no word for it
schema reduced: `a.b`: at `/y`: is dropped
renamed: `a.b` to `a_b`
";
    assert_eq!(ran.err, told);
    let file = played.data().with_file_name("tools.json");
    let onto = [&export[..], &[file.to_str().unwrap()]].concat();
    fs::write(&file, "older, and longer than what comes: it is replaced whole").unwrap();
    let ran = played.run(&onto);
    assert_eq!((ran.exit, ran.out), (0, format!("{}: 2 tools as anthropic\n", file.display())));
    assert_eq!(fs::read_to_string(&file).unwrap(), played.run(&export).out);
    let answer = played.run(&[&onto[..], &["-o", "json"]].concat()).json();
    assert_eq!(
        (&answer["tools"], &answer["left_out"][0]["why"]),
        (&json!(2), &json!("no word for it"))
    );
    let nowhere = [&export[..], &["/no/such/folder/x.json"]].concat();
    let ran = played.run(&nowhere);
    assert!(ran.exit == 1 && ran.err.contains("cannot write"), "{}", ran.err);
    let starts = played.starts();
    let ran = played.run(&["tool", "export", "--format", "antropic"]);
    assert!(
        ran.exit == 2 && ran.err.contains("to see the formats") && played.starts() == starts,
        "{}",
        ran.err
    );
}

#[test]
fn every_request_carries_the_owners_key_of_the_directory_or_the_one_given() {
    let played = Played::default().answers("GET /v1/sources", &json!({ "sources": [] }));
    assert_eq!(played.run(&["source", "list"]).exit, 0);
    let owner = fs::read_to_string(played.data().join("owner.key")).unwrap();
    assert!(owner.starts_with("tk_"));
    // The list, and before it which sources it leaves out.
    let bearer = format!("Bearer {}", owner.trim());
    assert_eq!(played.keys(), [bearer.clone(), bearer]);
    assert_eq!(played.run(&["source", "list", "--key", "tk_other"]).exit, 0);
    assert_eq!(played.keys().pop().unwrap(), "Bearer tk_other");
    let mode = fs::metadata(played.data().join("owner.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_call_is_typed_by_the_tools_schema() {
    let schema = json!({ "properties": { "n": { "type": "integer" }, "s": { "type": "string" } } });
    let played = Played::default()
        .answers("GET /v1/tools/add", &json!({ "name": "add", "input_schema": schema }))
        .answers("POST /v1/calls", &json!({ "result": "a\u{1b}b", "is_error": false }));
    let ran = played.run(&["tool", "call", "add", "n=3", "s=3"]);
    assert_eq!((ran.exit, ran.out.as_str()), (0, "a\u{fffd}b\n"));
    assert_eq!(played.body(), r#"{"tool":"add","arguments":{"n":3,"s":"3"}}"#);
    let ran = played.run(&["tool", "call", "add", "n=three"]);
    assert_eq!((ran.exit, ran.out.as_str()), (2, ""));
    assert!(ran.err.starts_with("error: `n` must be integer, and `three` is not\n"), "{}", ran.err);
}

#[test]
fn no_digit_is_lost_on_the_way() {
    let exact = r#"{"big": 123456789012345678901234567890, "price": 1.10}"#;
    let played = Played::default()
        .says("POST /v1/calls", &format!(r#"{{"result":{exact},"is_error":false}}"#));
    let ran = played.run(&["tool", "call", "pay", "--args", exact, "--timeout-ms", "5"]);
    assert_eq!((ran.exit, ran.out.trim_end()), (0, exact));
    assert_eq!(played.body(), format!(r#"{{"tool":"pay","arguments":{exact},"timeout_ms":5}}"#));
    // The same without a flag.
    let ran = played.run(&["tool", "call", "pay", exact]);
    assert_eq!((ran.exit, ran.out.trim_end()), (0, exact));
    assert_eq!(played.body(), format!(r#"{{"tool":"pay","arguments":{exact}}}"#));
    assert!(
        played.run(&["tool", "call", "pay", "--args", exact, "-o", "json"]).out.contains(exact)
    );
}

#[test]
fn failures_have_their_exit_and_tell_what_to_do() {
    let error = |code: &str| json!({ "error": { "code": code, "message": "no", "fix": "do", "call_id": "c" } });
    let tool_failed = json!({ "result": "it broke", "is_error": true });
    let played = Played::default()
        .refuses("POST /v1/calls", 404, &error("unknown_tool"))
        .refuses("GET /v1/sources", 503, &error("shutting_down"))
        .refuses("GET /v1/keys", 500, &error("internal"));
    let ran = played.run(&["tool", "call", "x"]);
    assert_eq!(
        (ran.exit, ran.err.as_str()),
        (3, "error[unknown_tool]: no\n  call c\n  help: do\n")
    );
    let ran = played.run(&["tool", "call", "x", "-o", "json"]);
    assert_eq!((ran.exit, ran.out.as_str()), (3, ""));
    let told: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(told, error("unknown_tool"));
    assert_eq!(played.run(&["source", "list"]).exit, 4);
    assert_eq!(played.run(&["key", "list"]).exit, 1);
    let played = Played::default().answers("POST /v1/calls", &tool_failed);
    let ran = played.run(&["tool", "call", "x"]);
    assert_eq!((ran.exit, ran.out.as_str()), (1, "it broke\n"));
}

#[test]
fn a_name_that_nobody_has_is_told_with_the_nearest_and_where_all_stand() {
    let error = |code: &str| json!({ "error": { "code": code, "message": "no" } });
    let played = Played::default()
        .refuses("POST /v1/calls", 404, &error("unknown_tool"))
        .refuses("GET /v1/tools/calculater", 404, &error("unknown_tool"))
        .refuses("GET /v1/tools/xyzzy", 404, &error("unknown_tool"))
        .refuses("POST /v1/sources/refresh", 404, &error("not_found"))
        .refuses("DELETE /v1/keys/nope", 404, &error("not_found"))
        .answers(
            "GET /v1/tools",
            &json!({ "tools": [{ "name": "calculator" }, { "name": "echo" }] }),
        )
        .answers("GET /v1/sources", &json!({ "sources": [{ "name": "files" }] }));
    let near = "  help: did you mean `calculator`? run `toolkeep tool list` to see all names\n";
    let all = "  help: run `toolkeep tool list` to see all names\n";
    for (line, fix) in [
        (&["tool", "call", "Calculator"][..], near),
        (&["tool", "call", "calculater", "expression=1"], near),
        (&["tool", "show", "calculater"], near),
        (&["tool", "show", "xyzzy"], all),
        (
            &["source", "refresh", "flies"],
            "  help: did you mean `files`? run `toolkeep source list` to see all names\n",
        ),
        (&["key", "revoke", "nope"], "  help: run `toolkeep key list` to see the IDs\n"),
    ] {
        let ran = played.run(line);
        assert_eq!(ran.exit, 3, "{line:?}");
        assert!(ran.err.ends_with(fix), "{line:?}: {}", ran.err);
    }
}

/// A client sees a tool whose definition changed as one that is not there; who may decide about it is told.
#[test]
fn a_tool_in_quarantine_is_told_with_the_command_that_shows_why() {
    let error = json!({ "error": { "code": "unknown_tool", "message": "no" } });
    let tools = json!({ "tools": [{ "name": "files.list" }] });
    let pins = json!({ "pins": [{ "source": "files", "tool": "files.lost", "state": "quarantined" }],
        "total": 1, "next_cursor": null });
    let of = |played: Played| {
        played
            .refuses("POST /v1/calls", 404, &error)
            .refuses("GET /v1/tools/files.lost", 404, &error)
            .answers("GET /v1/tools", &tools)
    };
    let may = of(Played::default()).answers("GET /v1/pins?state=waiting", &pins);
    let may_not = of(Played::default()).refuses("GET /v1/pins?state=waiting", 403, &error);
    for line in [&["tool", "call", "files.lost"][..], &["tool", "show", "files.lost"]] {
        let told = may.run(line).err;
        assert!(
            told.contains("quarantined") && told.contains("`toolkeep pin diff files/files.lost`"),
            "{told}"
        );
        // The controls: without the right nothing is told, and another name is another's.
        let told = may_not.run(line).err;
        assert!(
            told.contains("did you mean `files.list`?") && !told.contains("quarantined"),
            "{told}"
        );
    }
    assert!(!may.run(&["tool", "call", "files.lists"]).err.contains("quarantined"));
}

#[test]
fn a_source_that_is_refreshed_by_name_is_shown_alone_and_fails_the_command_where_it_failed() {
    let source = |name: &str, state: &str, problems: serde_json::Value| json!({ "name": name, "kind": "module", "state": state, "tools": 0, "problems": problems });
    let refused = json!([{ "place": "http://late", "message": "Connection refused" }]);
    let sources = [source("files", "ok", json!([])), source("late", "failed", refused)];
    let played =
        Played::default().answers("POST /v1/sources/refresh", &json!({ "sources": sources }));
    let late = played.run(&["source", "refresh", "late"]);
    assert_eq!(late.exit, 1);
    assert!(late.out.contains("Connection refused") && !late.out.contains("files"), "{}", late.out);
    assert!(late.err.contains("cannot refresh `late`"), "{}", late.err);
    // The controls: one that is well, and all of them.
    assert_eq!(played.run(&["source", "refresh", "files"]).exit, 0);
    let all = played.run(&["source", "refresh"]);
    assert!(all.exit == 0 && all.out.contains("files") && all.out.contains("late"), "{}", all.out);
}

#[test]
fn a_word_that_is_no_argument_is_told_with_the_keys() {
    let schema = json!({ "properties": { "expression": { "type": "string" } } });
    let tool = json!({ "name": "calculator", "input_schema": schema });
    let played = Played::default().answers("GET /v1/tools/calculator", &tool);
    let ran = played.run(&["tool", "call", "calculator", "1+1"]);
    let told = "error: `1+1` is not an argument\n  help: use `key=value`, `key:=JSON`, or `--arguments JSON`; keys: `expression`\n";
    assert_eq!((ran.exit, ran.err.as_str()), (2, told));
}

#[test]
fn a_wrong_line_starts_no_server() {
    let played = Played::default();
    for line in [
        &["tool", "call", "x", "--args", "[]"][..],
        &["tool", "call", "x", "--args", "{"],
        &["config", "check"],
    ] {
        assert_eq!(played.run(line).exit, 2, "{line:?}");
    }
    assert_eq!(played.starts(), 0);
    assert_eq!(played.run(&["source", "list"]).exit, 4, "the control does start one");
    assert_eq!(played.starts(), 1);
}

#[test]
fn keys_are_asked_for_as_they_are_typed() {
    let played = Played::default()
        .answers("POST /v1/keys", &json!({ "key": "tk_a_b", "id": "a" }))
        .answers("DELETE /v1/keys/a", &json!({ "id": "a", "subject": "ann", "revoked": "R" }));
    let line = [
        "key",
        "create",
        "--subject",
        "ann",
        "--person",
        "--right",
        "approve",
        "--module",
        "m",
        "--expires",
        "1h",
    ];
    let ran = played.run(&line);
    assert_eq!((ran.exit, ran.out.as_str()), (0, "tk_a_b\n"));
    let body: serde_json::Value = serde_json::from_str(&played.body()).unwrap();
    let expected = json!({ "subject": "ann", "level": "user", "person": true, "rights": ["approve"],
        "label": "", "modules": ["m"], "expires_in": 3600 });
    assert_eq!(body, expected);
    assert!(played.run(&["key", "revoke", "a"]).out.contains("revoked R"));
}

#[test]
fn a_configuration_with_faults_starts_nothing() {
    let played = Played::default().answers("GET /v1/sources", &json!({ "sources": [] }));
    let file = played.data().with_file_name("t.yaml");
    fs::write(&file, "version: 1\nlissten: x\n").unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let ran = played.run(&[&["config", "check"], &config[..]].concat());
    assert_eq!(ran.exit, 1);
    assert!(
        ran.err.contains(
            ":2:1: unknown key `lissten`\n  |\n2 | lissten: x\n  | ^\n  help: did you mean `listen`?"
        ),
        "{}",
        ran.err
    );
    assert!(
        ran.err.ends_with("error[invalid_config]: 1 error in the configuration\n  help: a server does not start with this file; see `toolkeep error invalid_config`\n"),
        "{}",
        ran.err
    );
    let ran = played.run(&[&["config", "check", "-o", "json"], &config[..]].concat());
    let told: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(told["error"]["faults"][0]["line"], 2);
    assert_eq!(told["error"]["faults"][0]["fix"], "did you mean `listen`?");
    assert_eq!(played.run(&[&["source", "list"], &config[..]].concat()).exit, 1);
    assert_eq!(played.starts(), 0);
    fs::write(&file, "version: 1\nsources: [{ name: a, tools: t }]\n").unwrap();
    let ran = played.run(&[&["config", "check"], &config[..]].concat());
    assert!(ran.exit == 0 && ran.out.ends_with("t.yaml: valid, with 1 source\n"), "{}", ran.out);
    assert_eq!(played.run(&[&["source", "list"], &config[..]].concat()).exit, 0);
}

#[test]
fn the_doctor_finds_what_is_wrong_and_changes_nothing() {
    let played = Played::default().answers("GET /v1/sources", &json!({ "sources": [] }));
    let ran = played.run(&["doctor"]);
    assert_eq!(ran.exit, 0, "{}", ran.out);
    assert!(!played.data().exists() && ran.out.contains("will be created on the first start"));
    assert_eq!(played.run(&["source", "list"]).exit, 0);
    assert_eq!(played.run(&["doctor"]).exit, 0);
    let key = played.data().join("owner.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(played.data().join("store.db"), "no database at all, only some text").unwrap();
    let ran = played.run(&["doctor", "-o", "json"]);
    assert_eq!(ran.exit, 1);
    let wrong = |what: &str| {
        let findings = ran.json();
        let found = findings["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["state"] == "wrong" && one["what"] == what)
            .cloned();
        found.unwrap_or_else(|| panic!("{what}: {}", ran.out))
    };
    assert!(wrong("key")["fix"].as_str().unwrap().starts_with("chmod 600 "));
    assert!(wrong("store")["detail"].as_str().unwrap().contains("not a database"));
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn the_help_of_key_create_names_every_right() {
    let mut line = <super::Cli as clap::CommandFactory>::command();
    let create = line.find_subcommand_mut("key").and_then(|key| key.find_subcommand_mut("create"));
    let help = create.unwrap().render_long_help().to_string();
    for right in identity::Right::ALL {
        // An invitation's alone, which `toolkeep node invite` makes.
        let is_given = *right != identity::Right::NodesJoin;
        assert_eq!(help.contains(right.as_str()), is_given, "{right:?}:\n{help}");
    }
}

#[test]
fn error_pages_are_printed() {
    let played = Played::default();
    let ran = played.run(&["error", "unknown_tool"]);
    assert!(ran.exit == 0 && ran.out.starts_with("# unknown_tool\n"), "{}", ran.out);
    let ran = played.run(&["error", "no_such"]);
    assert_eq!(
        (ran.exit, ran.err.as_str()),
        (
            3,
            "error: unknown error code `no_such`\n  help: run `toolkeep error` to list the codes\n"
        )
    );
    assert_eq!(played.run(&["error"]).out.lines().count(), 1 + tool::ErrorCode::ALL.len());
}

#[test]
fn the_owners_key_goes_to_no_other_server() {
    // A server of somebody else, who only wants to see the key.
    let played = Played::default().answers("GET /v1/sources", &json!({ "sources": [] }));
    assert_eq!(played.run(&["source", "list"]).exit, 0, "the key is there");
    let (url, seen) = played::listener();
    let ran = played.run(&["source", "list", "--url", &url]);
    assert_ne!(ran.exit, 0);
    assert!(!seen.recv().unwrap().to_lowercase().contains("authorization"));
    // The control: a key that is given does go there.
    let (url, seen) = played::listener();
    let _answer = played.run(&["source", "list", "--url", &url, "--key", "tk_given"]);
    assert!(seen.recv().unwrap().to_lowercase().contains("authorization: bearer tk_given"));
}

#[test]
fn an_address_that_is_none_is_told() {
    let played = Played::default();
    for url in ["nowhere", "ftp://h", "http://h/path", "http://h?q", "http://u:p@h"] {
        assert_eq!(played.run(&["source", "list", "--url", url]).exit, 2, "{url}");
    }
    let ran = played.run(&["source", "list", "--url", "http://127.0.0.1:1"]);
    assert_eq!(ran.exit, 4, "{}", ran.err);
}
