//! Tests of a server and the commands that talk to it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::command_runner::{CommandHome, wait_until};

/// One request without a key; the whole answer.
fn ask(address: &str, path: &str, key: Option<&str>) -> String {
    ask_as("localhost", address, path, key)
}

/// The same for a server that is addressed by this name.
fn ask_as(host: &str, address: &str, path: &str, key: Option<&str>) -> String {
    #[expect(clippy::disallowed_methods, reason = "the test stands where a client does")]
    let mut stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).unwrap();
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{key}Connection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn commands_speak_to_the_server_that_holds_the_data_directory() {
    let home = CommandHome::new();
    let serving = home.serve(&[]);
    wait_until("the built-in tools", || home.run(&["tool", "show", "calculator"]).code == 0);
    let called = home.run(&["tool", "call", "calculator", "expression=6*7"]);
    assert_eq!(
        (called.code, called.out.as_str()),
        (0, "{\"expression\":\"6*7\",\"result\":42}\n"),
        "{}",
        called.err
    );
    assert_eq!(
        home.run(&["record", "list", "-o", "json"]).json()["records"].as_array().unwrap().len(),
        2
    );
    let doctor = home.run(&["doctor"]);
    assert!(doctor.code == 0 && doctor.out.contains(&serving.address()), "{}", doctor.out);
    let second = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 4);
    assert!(
        second.err.contains(&format!("is in use by the server at {}", serving.address())),
        "{}",
        second.err
    );
    assert_eq!(serving.end(), 0);
    assert!(!home.data("server.json").exists());
    // The same command and the same record, without a server.
    let records = home.run(&["record", "list", "-o", "json"]).json();
    assert_eq!(records["records"].as_array().unwrap().len(), 2);
}

#[test]
fn a_server_that_was_killed_misleads_nobody() {
    let home = CommandHome::new();
    home.serve(&[]).kill();
    assert!(home.data("server.json").exists(), "as a crash leaves it");
    let called = home.run(&["tool", "call", "echo", "message=hi"]);
    assert_eq!(
        (called.code, called.out.as_str()),
        (0, "{\"echo\":{\"message\":\"hi\"}}\n"),
        "{}",
        called.err
    );
    assert_eq!(home.serve(&[]).end(), 0);
}

#[test]
fn no_key_no_answer_except_where_the_door_was_opened() {
    let home = CommandHome::new();
    let serving = home.serve(&[]);
    assert!(ask(&serving.address(), "/v1/tools", None).starts_with("HTTP/1.1 401"));
    let agent = fs::read_to_string(home.data("agent.key")).unwrap();
    assert!(ask(&serving.address(), "/v1/tools", Some(agent.trim())).starts_with("HTTP/1.1 200"));
    assert!(ask(&serving.address(), "/v1/keys", Some(agent.trim())).starts_with("HTTP/1.1 403"));
    assert_eq!(serving.end(), 0);
    let serving = home.serve(&["--open"]);
    assert!(ask(&serving.address(), "/v1/tools", None).starts_with("HTTP/1.1 200"));
    assert!(ask(&serving.address(), "/v1/keys", None).starts_with("HTTP/1.1 403"));
    assert!(ask(&serving.address(), "/v1/tools", Some("tk_a_b")).starts_with("HTTP/1.1 401"));
}

#[test]
fn a_revoked_key_does_not_hold_from_there_on() {
    let home = CommandHome::new();
    let serving = home.serve(&[]);
    let made = home.run(&["key", "create", "--subject", "ann", "-o", "json"]).json();
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(ask(&serving.address(), "/v1/tools", Some(key)).starts_with("HTTP/1.1 200"));
    assert_eq!(home.run(&["key", "revoke", id]).code, 0);
    assert!(ask(&serving.address(), "/v1/tools", Some(key)).starts_with("HTTP/1.1 401"));
    // And not for commands either, in a process of their own.
    assert_eq!(serving.end(), 0);
    assert_eq!(home.run_with(&["tool", "list"], ("TOOLKEEP_KEY", key)).code, 3);
    assert_eq!(home.run(&["tool", "list"]).code, 0);
}

#[test]
fn the_configuration_is_followed_and_a_fault_takes_nothing_away() {
    let home = CommandHome::new();
    home.write("t.yaml", "version: 1\nsources: []\n");
    let _serving = home.serve(&["--config", "t.yaml"]);
    let sources = || home.run(&["source", "list", "-o", "json"]).json()["sources"].clone();
    let has =
        |name: &str| sources().as_array().unwrap().iter().any(|source| source["name"] == name);
    home.write("t.yaml", "version: 1\nsources: [{ name: mine, tools: ./gone.yaml }]\n");
    wait_until("the new source", || has("mine"));
    home.write(
        "t.yaml",
        "version: 1\nsources: [{ name: mine, tols: ./gone.yaml }, { name: other, tools: x }]\n",
    );
    wait_until("the fault", || sources().to_string().contains("unknown key `tols`"));
    assert!(has("mine") && !has("other"), "{}", sources());
    let tools = home.run(&["tool", "list", "-o", "json"]).json();
    assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "calculator"));
}

#[test]
fn a_server_starts_with_the_sources_that_have_no_fault() {
    let home = CommandHome::new();
    home.write(
        "t.yaml",
        "version: 1\nsources: [{ name: bad, tols: x }, { name: good, tools: x }]\n",
    );
    let serving = home.serve(&["--config", "t.yaml"]);
    let faults = serving.started["faults"].to_string();
    assert!(faults.contains("unknown key `tols`"), "{faults}");
    let sources = home.run(&["source", "list", "-o", "json"]).json().to_string();
    assert!(sources.contains("\"good\"") && !sources.contains("\"bad\""), "{sources}");
    home.write("t.yaml", "version: 1\nlissten: x\n");
    assert_eq!(serving.end(), 0);
    let refused = home.run(&["serve", "--config", "t.yaml", "--listen", "127.0.0.1:0"]);
    assert!(refused.code == 1 && refused.err.contains("did you mean `listen`?"), "{}", refused.err);
}

#[test]
fn a_source_that_is_added_is_taken_up_by_the_server_that_runs() {
    let home = CommandHome::new();
    home.write("t.yaml", "version: 1 # kept as it is\nlimits: { calls: 64 }\n");
    home.write(
        "tools/mine.yaml",
        "tools:\n  - name: mine\n    description: Mine.\n    parameters: { type: object, properties: {} }\n    \
         implementation: { type: mock, mock_response: { a: 1 } }\n",
    );
    let config = ["--config", "t.yaml"];
    let _serving = home.serve(&config);
    let add = [&["source", "add", "own", "--tools", "tools/mine.yaml"], &config[..]].concat();
    let ran = home.run(&add);
    assert!(ran.code == 0 && ran.out.starts_with("added at "), "{}{}", ran.out, ran.err);
    wait_until("the added source", || home.run(&["tool", "show", "mine"]).code == 0);
    let text = std::fs::read_to_string(home.path("t.yaml")).unwrap();
    assert!(text.starts_with("version: 1 # kept as it is\nlimits: { calls: 64 }\n"), "{text}");
    let again = home.run(&add);
    assert!(again.code == 1 && again.err.contains("t.yaml:4:5: the source"), "{}", again.err);
}

#[test]
fn log_lines_are_json_where_that_is_asked_for() {
    let home = CommandHome::new();
    for (flag, is_json) in [(&["--log-format", "json"][..], true), (&[][..], false)] {
        let mut serving = home.follow(&[&["serve", "--listen", "127.0.0.1:0"], flag].concat());
        assert!(serving.line().contains(" listens on http://"));
        let (code, err) = serving.interrupted();
        assert_eq!(code, 0, "{err}");
        let is_line = |line: &&str| {
            let read: Result<serde_json::Value, _> = serde_json::from_str(line);
            read.is_ok_and(|line| {
                line["level"].is_string() && line["fields"]["message"].is_string()
            })
        };
        let (all, json) = (err.lines().count(), err.lines().filter(is_line).count());
        assert!(all > 0, "nothing was logged");
        assert_eq!(json, if is_json { all } else { 0 }, "{err}");
    }
}

/// As a service of a network of containers is: no configuration file, and addressed by its name.
#[test]
fn a_server_is_addressed_by_a_name_that_a_flag_or_a_variable_allows() {
    let home = CommandHome::new();
    let refused = home.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    for word in ["is open to the network", "--behind-tls", "TOOLKEEP_BEHIND_TLS=true"] {
        assert!(refused.err.contains(word), "{}", refused.err);
    }
    let serving = home.serve(&["--allowed-host", "core", "--allowed-host", "Portal"]);
    for (host, status) in [("core:8000", "200"), ("portal", "200"), ("other:8000", "403")] {
        let answer = ask_as(host, &serving.address(), "/healthz", None);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
        assert_eq!(answer.contains("TOOLKEEP_ALLOWED_HOSTS"), status == "403", "{answer}");
    }
    assert_eq!(serving.end(), 0);
    let bad = ["serve", "--listen", "127.0.0.1:0"];
    let refused = home.run_with(&bad, ("TOOLKEEP_ALLOWED_HOSTS", "core:8000"));
    assert!(refused.err.contains("invalid host name `core:8000`"), "{}", refused.err);
}

/// The opener gets a private file, which other users cannot read, and not the link.
#[test]
fn a_link_is_opened_by_way_of_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = CommandHome::new();
    let serving = home.serve(&[]);
    let opener = home.path("xdg-open");
    let script = "#!/bin/sh\nprintf '%s\n' \"$@\" > \"$0.arguments\"\n";
    std::fs::write(&opener, script).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let folder = opener.parent().unwrap().to_str().unwrap();
    let opened = home.run_with(&["ui", "--open"], ("PATH", &format!("{folder}:/usr/bin:/bin")));
    let link = opened.out.trim().to_owned();
    assert!(
        link.starts_with(&format!("{}/ui/sign-in#link=", serving.address())),
        "{link} {}",
        opened.err
    );
    let arguments = std::fs::read_to_string(home.path("xdg-open.arguments")).unwrap();
    let [file] = arguments.lines().collect::<Vec<_>>()[..] else { panic!("{arguments}") };
    let is_page = std::path::Path::new(file).extension().is_some_and(|end| end == "html");
    assert!(!file.contains("link-") && is_page, "{file}");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    let page = std::fs::read_to_string(file).unwrap();
    assert!(page.contains(&format!("url={link}\"")), "{page}");
    std::fs::remove_file(file).unwrap();
    // Without an opener the link is printed all the same.
    let missing = home.run_with(&["ui", "--open"], ("PATH", "/nonexistent"));
    assert!(
        missing.out.contains("#link=") && missing.err.contains("does not start"),
        "{} {}",
        missing.out,
        missing.err
    );
}
