//! Tests of operator output: `doctor`, the start and stop messages, and faults that `config check`
//! missed before.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::command_runner::{CommandHome, FollowedProcess, wait_until};
use crate::support::mcp_source;
use crate::support::process_marks::new_mark;

/// The findings of `doctor` about one thing: state, detail and fix.
fn findings(home: &CommandHome, what: &str, more: &[&str]) -> Vec<(String, String, String)> {
    let told = home.run(&[&["doctor", "-o", "json"], more].concat()).json();
    let all = told["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let fits = all.filter(|finding| finding["what"] == what);
    fits.map(|it| (text(it, "state"), text(it, "detail"), text(it, "fix"))).collect()
}

/// `record verify` found the damage, but `doctor` printed "ok record main".
#[test]
fn the_doctor_finds_damage_of_the_record_as_record_verify_does() {
    let home = CommandHome::new();
    for message in ["message=one", "message=two"] {
        assert_eq!(home.run(&["tool", "call", "echo", message]).code, 0);
    }
    // The control: before it is damaged all is well.
    let [(state, detail, _)] = findings(&home, "record verified", &[]).try_into().unwrap();
    assert!(state == "good" && detail.ends_with("records, verified"), "{state}: {detail}");
    let segments = fs::read_dir(home.data("records")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segments.filter(|path| fs::metadata(path).unwrap().len() > 1000).min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(4).position(|window| window == b"echo").unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert_eq!(home.run(&["record", "verify"]).code, 1);
    let ran = home.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    let [(state, detail, fix)] = findings(&home, "record verified", &[]).try_into().unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert!(state == "wrong" && detail.contains(name) && detail.contains(" at byte "), "{detail}");
    assert!(
        fix.contains("`toolkeep record verify` for all findings") && fix.contains("backup"),
        "{fix}"
    );
}

#[test]
fn the_doctor_checks_the_configuration_and_the_sources_of_the_server_that_runs() {
    let home = CommandHome::new();
    let bad = "version: 1\ntools:\n  - { name: m, description: d, parameters: { type: object }, \
               implementation: { type: mok } }\n";
    home.write("apart/bad.yaml", bad);
    home.write("apart/t.yaml", "version: 1\nsources: [{ name: bad, tools: ./bad.yaml }]\n");
    let own = home.path("apart/t.yaml");
    let own = own.to_str().unwrap();
    let serving = home.serve(&["--config", own]);
    wait_until("the source is listed", || home.run(&["source", "list"]).out.contains("mok"));
    // No flag names the file: the server does.
    let [(state, detail, _)] = findings(&home, "configuration", &[]).try_into().unwrap();
    let told = format!("{own} (of the running server), 1 source");
    assert!(state == "good" && detail.contains(&told), "{state}: {detail}");
    let found = findings(&home, "source bad", &[]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].1.contains("1 problem"), "{found:?}");
    assert!(found[1].1.contains("bad.yaml:3") && found[1].1.contains("mok"), "{found:?}");
    let [(state, detail, _)] = findings(&home, "server", &[]).try_into().unwrap();
    assert!(state == "good" && detail.contains(&serving.address()), "{detail}");
    // Another record is checked if it is named, with a note that the server has its own.
    home.write("other.yaml", "version: 1\n");
    let found = findings(&home, "configuration", &["--config", "other.yaml"]);
    let said = found.iter().find(|(state, ..)| state == "doubtful").unwrap();
    assert!(said.1.contains(&format!("the running server uses {own}, not ")), "{found:?}");
    assert!(said.2.contains("omit `--config`"), "{found:?}");
    assert_eq!(serving.end(), 0);
    // The control: without the server there is no such source to be seen, and no file.
    assert!(findings(&home, "source bad", &[]).is_empty());
    let [(_, detail, _)] = findings(&home, "configuration", &[]).try_into().unwrap();
    assert!(
        detail.contains("no file: a server started here serves the built-in tools"),
        "{detail}"
    );
}

/// Output of a server after its start.
fn banner(home: &CommandHome) -> (String, FollowedProcess) {
    let mut serving = home.follow(&["serve", "--listen", "127.0.0.1:0"]);
    let mut banner = String::new();
    while !banner.contains("Try in another terminal") {
        banner += &serving.line();
    }
    (banner, serving)
}

#[test]
fn the_banner_names_key_files_with_a_valid_key_alone_and_a_start_warns_of_open_ones() {
    let home = CommandHome::new();
    let (owner, agent) = (home.data("owner.key"), home.data("agent.key"));
    let (first, serving) = banner(&home);
    assert!(first.contains(&format!("owner  {}  (new)\n", owner.display())), "{first}");
    assert!(first.contains(&format!("agent  {}  (new)\n", agent.display())), "{first}");
    let (code, err) = serving.interrupted();
    assert!(code == 0 && !err.contains("is readable by other users"), "{err}");

    let key = fs::read_to_string(&owner).unwrap();
    fs::write(&owner, "tk_feb7e0537765_4N8sN06VB8IAYgLy9Gvky-OM67EJXartIAUkCledEbo\n").unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o644)).unwrap();
    let (second, serving) = banner(&home);
    let told = format!("owner  none: {} contains an invalid key", owner.display());
    assert!(second.contains(&told) && second.contains("toolkeep key recover"), "{second}");
    assert!(second.contains(&format!("agent  {}\n", agent.display())), "{second}");
    let (_, err) = serving.interrupted();
    let warned = format!("warning: `{}` is readable by other users (mode 644)", agent.display());
    assert!(err.contains(&warned) && err.contains("chmod 600 "), "{err}");

    fs::write(&owner, key).unwrap();
    fs::remove_file(&agent).unwrap();
    let (third, serving) = banner(&home);
    let told = format!("agent  none: {} does not exist; ", agent.display());
    assert!(third.contains(&told) && third.contains("toolkeep key recover"), "{third}");
    assert!(third.contains(&format!("owner  {}\n", owner.display())), "{third}");
    assert_eq!(serving.interrupt(), 0);
}

#[test]
fn a_second_signal_ends_a_server_at_once_and_says_that_calls_were_cut_off() {
    let (home, mark) = (CommandHome::new(), new_mark());
    let row = mcp_source::source("works", "echo, hang", &mark);
    home.write("toolkeep.yaml", &format!("version: 1\nsources:\n{row}"));
    let (_, serving) = banner(&home);
    wait_until("the tool", || home.run(&["tool", "show", "works.hang"]).code == 0);
    let _call = home.follow(&["tool", "call", "works.hang"]);
    wait_until("the call runs", || {
        home.run(&["record", "list", "--kind", "intent", "-o", "json"]).out.contains("works.hang")
    });
    serving.signal();
    wait_until("the server is ending", || !home.data("server.json").exists());
    let (code, err) = serving.interrupted();
    assert!(
        code == 1 && err.contains("stopped at once; running calls were cancelled"),
        "{code}: {err}"
    );
    // The control: nothing is cut off where no call runs, and one signal is enough.
    let (_, serving) = banner(&home);
    let (code, err) = serving.interrupted();
    assert!(code == 0 && !err.contains("were cancelled"), "{code}: {err}");
}

/// The server dropped the source without a word, and `config check` called the file good.
#[test]
fn a_source_named_builtin_is_refused_with_its_line() {
    let home = CommandHome::new();
    home.write(
        "bt.yaml",
        "version: 1\ntools:\n  - { name: mine, description: d, parameters: { type: object }, \
         implementation: { type: mock, mock_response: 1 } }\n",
    );
    home.write("f.yaml", "version: 1\nsources: [{name: builtin, tools: ./bt.yaml}]\n");
    home.write("mcp.json", "{ \"mcpServers\": {\n  \"builtin\": { \"command\": \"sh\" } } }\n");
    home.write("g.yaml", "version: 1\nsources: [{mcp_servers: ./mcp.json}]\n");
    home.write("good.yaml", "version: 1\nsources: [{name: mine, tools: ./bt.yaml}]\n");
    for (file, place) in [("f.yaml", "f.yaml:2:18: "), ("g.yaml", "mcp.json:2:")] {
        let ran = home.run(&["config", "check", file]);
        assert!(ran.code == 1 && ran.err.contains(place), "{file}: {}", ran.err);
        assert!(ran.err.contains("`builtin`"), "{file}: {}", ran.err);
    }
    // The control: under another name it is served.
    assert_eq!(home.run(&["config", "check", "good.yaml"]).code, 0);
    assert_eq!(home.run(&["--config", "good.yaml", "tool", "call", "mine"]).out, "1\n");
}
