//! What `doctor` says of what is wrong: each finding with its state and what to do.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use builtins::{Cages, WorkerError};
use builtins_llm::Installed;
use sandbox::Tier;
use serde_json::{Value, json};
use tool::{Problem, Secret};

use super::{Finding, State, checks, keys, model, redis, running};
use crate::tests::played::{Played, Ran};
use cli_core::data::{DataDir, Server};
use cli_core::launch::launcher;
use cli_core::wiring::Review;

/// What was found of one thing: state, detail, fix.
fn all(ran: &Ran, what: &str) -> Vec<[String; 3]> {
    let findings = ran.json();
    let own = findings["findings"].as_array().unwrap().iter().filter(|one| one["what"] == what);
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    own.map(|one| [text(one, "state"), text(one, "detail"), text(one, "fix")]).collect()
}

fn fix(finding: &Finding) -> &str {
    finding.fix.as_deref().unwrap_or_default()
}

#[test]
fn a_data_directory_that_cannot_be_used_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let of = |path: &Path| checks::directory(&DataDir::at(path.to_owned()));
    let found = of(&file);
    assert_eq!((found.len(), found[0].state), (1, State::Wrong));
    assert!(found[0].detail.ends_with("/file is no directory"), "{}", found[0].detail);
    assert_eq!(fix(&found[0]), "choose another one with `--data DIR`");
    // The kernel's own: others may read it, nothing can be written there, and it has no room.
    let found = of(Path::new("/proc"));
    let words: Vec<_> = found.iter().map(|it| (it.what.as_str(), it.state)).collect();
    let wrong = State::Wrong;
    assert_eq!(words, [("data directory", wrong), ("writing", wrong), ("disk", wrong)]);
    assert_eq!(found[0].detail, "/proc is open to others (mode 555)");
    assert_eq!(fix(&found[0]), "chmod 700 '/proc'");
    assert!(found[1].detail.starts_with("/proc cannot be written: "), "{}", found[1].detail);
    assert!(fix(&found[1]).starts_with("mount its disk for writing"), "{}", fix(&found[1]));
    assert_eq!(found[2].detail, "0 MiB free");
    assert!(fix(&found[2]).starts_with("make room: "), "{}", fix(&found[2]));
    // The control: one of its own is good in all three, and nothing is left of the trial.
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let found = of(&own);
    assert!(found.iter().take(2).all(|it| it.state == State::Good), "{found:?}");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
}

#[test]
fn a_key_file_that_is_missing_or_open_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::at(folder.path().to_owned());
    fs::write(folder.path().join("owner.key"), "tk_a_b").unwrap();
    let owner = folder.path().join("owner.key");
    fs::set_permissions(&owner, fs::Permissions::from_mode(0o640)).unwrap();
    let [open, missing] = keys::files(&data).try_into().unwrap();
    assert_eq!((open.state, missing.state), (State::Wrong, State::Doubtful));
    assert!(open.detail.ends_with("owner.key can be read by others (mode 640)"), "{open:?}");
    assert!(fix(&open).starts_with(&format!("chmod 600 '{}'", owner.display())), "{open:?}");
    assert!(missing.detail.ends_with("agent.key is not there"), "{missing:?}");
    assert!(fix(&missing).contains("toolkeep key recover"), "{missing:?}");
}

#[tokio::test]
async fn a_redis_that_does_not_answer_says_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = Secret::new(format!("redis://:hush@{free}"));
    let found = redis::finding(Some(&url)).await.unwrap();
    assert_eq!((found.what.as_str(), found.state), ("redis", State::Wrong));
    assert!(fix(&found).starts_with("check `redis:` in the configuration"), "{found:?}");
    assert!(!format!("{found:?}").contains("hush"), "{found:?}");
    // The control: without one nothing is said.
    assert!(redis::finding(None).await.is_none());
}

#[tokio::test]
async fn a_language_model_that_is_broken_says_which_tools_fail() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::at(folder.path().to_owned());
    let cages = Arc::new(Cages::new(launcher(), None, Tier::Fenced));
    let none = model::finding(&data, &cages).await;
    assert_eq!(none.state, State::Good);
    assert!(none.detail.contains("`toolkeep model install` adds one"), "{}", none.detail);
    let place = data.models().join("embedding");
    fs::create_dir_all(&place).unwrap();
    for name in ["model.onnx", "tokenizer.json"] {
        fs::write(place.join(name), "no model").unwrap();
    }
    let found = Installed::find(&data.models(), &cages).unwrap();
    let refused = WorkerError::Refused("no model".to_owned());
    let broken = model::judged(&found, Err(refused), "");
    assert_eq!(broken.state, State::Wrong, "{broken:?}");
    assert!(broken.detail.contains("so embed_text, ") && broken.detail.contains(" fail: "));
    assert_eq!(fix(&broken), format!("install it again, or remove {}", place.display()));
    // Without a sandbox the tools work, by the word vectors.
    let blocked = WorkerError::Blocked("no cage can be made here".to_owned());
    let unused = model::judged(&found, Err(blocked), "get a newer kernel");
    assert_eq!((unused.state, fix(&unused)), (State::Doubtful, "get a newer kernel"));
    assert!(unused.detail.contains("run by toolkeep-word-vectors"), "{}", unused.detail);
    assert!(unused.detail.ends_with("no cage can be made here"), "{}", unused.detail);
}

#[test]
fn a_source_shows_its_first_problems_and_tools_that_wait() {
    let problem =
        |n: usize| json!({"place": format!("a.yaml:{n}"), "message": "bad", "fix": "mend"});
    let problems: Vec<_> = (1..=4).map(problem).collect();
    let source = |state: &str, problems: &[Value], waiting: usize| {
        running::source(&json!({
            "name": "a", "state": state, "tools": 2, "problems": problems, "waiting": waiting,
        }))
    };
    let found = source("ok", &problems, 2);
    let details: Vec<_> = found.iter().map(|it| (it.state, it.detail.as_str())).collect();
    let look = State::Doubtful;
    assert_eq!(
        details,
        [
            (look, "ok, 2 tools, 4 problems"),
            (look, "a.yaml:1: bad"),
            (look, "a.yaml:2: bad"),
            (look, "a.yaml:3: bad"),
            (look, "2 wait to be looked at, and are in no list until then"),
        ]
    );
    assert_eq!(fix(&found[0]), "`toolkeep source list` shows all of them");
    assert_eq!(fix(&found[1]), "mend");
    assert_eq!(found[4].what, "tools of a");
    assert_eq!(fix(&found[4]), "`toolkeep pin list`, then `toolkeep pin diff TOOL`");
    let failed = source("failed", &problems[..1], 0);
    assert!(failed.len() == 2 && failed.iter().all(|it| it.state == State::Wrong), "{failed:?}");
    // The control: one that is well has one line.
    let [well] = source("ok", &[], 0).try_into().unwrap();
    assert_eq!((well.state, well.detail.as_str()), (State::Good, "ok, 2 tools, 0 problems"));
}

#[test]
fn faults_of_the_file_and_what_a_server_would_leave_out_are_found() {
    let problem = |message: &str| Problem::new("a.yaml:3", message);
    let review = Review {
        left_out: (0..7).map(|n| problem(&format!("tool {n}")).fix("mend it")).collect(),
        warnings: vec![problem("no such name")],
    };
    let played = Played::default().reviewed(review);
    let file = played.data().with_file_name("t.yaml");
    fs::write(&file, "version: 1\nsources: [{ name: a, tols: x }]\n").unwrap();
    let ran = played.run(&["doctor", "--config", file.to_str().unwrap(), "-o", "json"]);
    assert_eq!(ran.exit, 1);
    let found = all(&ran, "configuration");
    let of_file = |it: &[String; 3]| it[1].contains("t.yaml:2:22: unknown key `tols`");
    assert_eq!(found.iter().filter(|it| of_file(it)).count(), 1, "{found:?}");
    let of_review: Vec<_> =
        found.iter().filter(|[_, detail, _]| detail.starts_with("a.yaml")).collect();
    // The first five; `config check` has them all.
    let states: Vec<_> = of_review.iter().map(|[state, ..]| state.as_str()).collect();
    assert_eq!(states, ["wrong", "wrong", "wrong", "wrong", "wrong", "doubtful"]);
    assert_eq!(*of_review[0], ["wrong", "a.yaml:3: tool 0", "mend it"].map(str::to_owned));
    let told = ["doubtful", "a.yaml:3: no such name", "`toolkeep config check FILE`"];
    assert_eq!(*of_review[5], told.map(str::to_owned));
    assert_eq!(played.starts(), 0, "it starts nothing");
    // The control: a file without a fault is good.
    let played = Played::default();
    let file = played.data().with_file_name("t.yaml");
    fs::write(&file, "version: 1\n").unwrap();
    let ran = played.run(&["doctor", "--config", file.to_str().unwrap(), "-o", "json"]);
    let [[state, detail, _]] = all(&ran, "configuration").try_into().unwrap();
    assert_eq!(state, "good");
    assert!(detail.ends_with("t.yaml, 0 sources"), "{detail}");
}

/// Answers requests by their paths.
fn answering(answers: &'static [(&'static str, &'static str, &'static str)]) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in socket.incoming() {
            let (mut stream, mut head, mut byte) = (stream.unwrap(), Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                head.extend(byte);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split([' ', '?']).nth(1).unwrap_or_default();
            let answer = answers.iter().find(|(of, ..)| *of == path);
            let (_, status, body) = answer.unwrap_or(&("", "404 Not Found", "{}"));
            let length = body.len();
            let told = write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            drop(told);
        }
    });
    address
}

#[test]
fn a_server_that_is_another_version_or_does_not_answer_well_is_found() {
    let played = Played::default();
    let data = DataDir::at(played.data());
    let held = data.hold().unwrap().unwrap();
    // Held by one that says nothing of itself.
    let ran = played.run(&["doctor", "-o", "json"]);
    let [[state, detail, fix]] = all(&ran, "server").try_into().unwrap();
    assert_eq!(state, "doubtful");
    assert_eq!(detail, "another process holds the data directory and tells no address");
    assert_eq!(fix, "look again in a few seconds");

    let address = answering(&[
        ("/version", "200 OK", r#"{"version":"0.0.1"}"#),
        (
            "/readyz",
            "503 Service Unavailable",
            r#"{"error":{"code":"record_unavailable","message":"the disk is full"}}"#,
        ),
        (
            "/v1/sources",
            "401 Unauthorized",
            r#"{"error":{"code":"unauthenticated","message":"no such key"}}"#,
        ),
        (
            "/v1/tools",
            "401 Unauthorized",
            r#"{"error":{"code":"unauthenticated","message":"no such key"}}"#,
        ),
    ]);
    fs::write(data.path().join("owner.key"), "tk_a_b\n").unwrap();
    held.tell_server(&Server {
        address,
        pid: std::process::id(),
        version: "0.0.1".to_owned(),
        background: false,
        configuration: None,
        variables: BTreeMap::new(),
        listed: true,
    })
    .unwrap();
    let ran = played.run(&["doctor", "-o", "json"]);
    assert_eq!(ran.exit, 1, "{}", ran.out);
    let [[state, detail, fix]] = all(&ran, "server").try_into().unwrap();
    assert!(state == "doubtful" && detail.contains(", version 0.0.1, process "), "{detail}");
    assert_eq!(fix, "this program has another version; restart the server to use it");
    let [[state, detail, fix]] = all(&ran, "ready").try_into().unwrap();
    assert_eq!((state.as_str(), detail.as_str()), ("wrong", "the disk is full"));
    assert_eq!(fix, "`toolkeep error record_unavailable`");
    let [[state, detail, _]] = all(&ran, "sources").try_into().unwrap();
    assert_eq!(state, "doubtful");
    assert_eq!(detail, "the key is not valid there, so that sources were not checked");
    let key = all(&ran, "key");
    assert!(
        key.iter().any(|[state, detail, fix]| {
            state == "wrong"
                && detail.contains("owner.key holds a key that is not valid")
                && fix.contains("toolkeep key recover")
        }),
        "{key:?}"
    );
    let configuration = all(&ran, "configuration");
    assert_eq!(configuration[0][1], "the running server has none: the built-in tools");
}
