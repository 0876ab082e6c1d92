//! Findings of `doctor` for each defect, with their state and help.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use builtins::{SandboxProvider, WorkerError};
use builtins_llm::InstalledModel;
use sandbox::SandboxLevel;
use serde_json::{Value, json};
use tool::{Problem, Secret};

use super::{CheckFinding, FindingLevel, checks, keys, model, redis, running_server};
use crate::tests::played::{Played, Ran};
use cli_core::data_dir::{DataDir, ServerDescriptor};
use cli_core::process_launcher::child_launcher;
use cli_core::server_launcher::ConfigReview;

/// What was found of one thing: state, detail, fix.
fn all(ran: &Ran, what: &str) -> Vec<[String; 3]> {
    let findings = ran.json();
    let own = findings["findings"].as_array().unwrap().iter().filter(|one| one["what"] == what);
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    own.map(|one| [text(one, "state"), text(one, "detail"), text(one, "fix")]).collect()
}

fn fix(finding: &CheckFinding) -> &str {
    finding.help.as_deref().unwrap_or_default()
}

#[test]
fn a_data_directory_that_cannot_be_used_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let of = |path: &Path| checks::directory_findings(&DataDir::new(path.to_owned()));
    let found = of(&file);
    assert_eq!((found.len(), found[0].level), (1, FindingLevel::Error));
    assert!(found[0].detail.ends_with("/file is not a directory"), "{}", found[0].detail);
    assert_eq!(fix(&found[0]), "choose another directory with `--data DIR`");
    // The kernel's own: others may read it, nothing can be written there, and it has no room.
    let found = of(Path::new("/proc"));
    let words: Vec<_> = found.iter().map(|it| (it.subject.as_str(), it.level)).collect();
    let wrong = FindingLevel::Error;
    assert_eq!(words, [("data directory", wrong), ("writing", wrong), ("disk", wrong)]);
    assert_eq!(found[0].detail, "/proc is accessible to other users (mode 555)");
    assert_eq!(fix(&found[0]), "chmod 700 '/proc'");
    assert!(found[1].detail.starts_with("/proc is not writable: "), "{}", found[1].detail);
    assert!(fix(&found[1]).starts_with("mount the disk writable"), "{}", fix(&found[1]));
    assert_eq!(found[2].detail, "0 MiB free");
    assert!(fix(&found[2]).starts_with("free disk space: "), "{}", fix(&found[2]));
    // The control: one of its own is good in all three, and nothing is left of the trial.
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let found = of(&own);
    assert!(found.iter().take(2).all(|it| it.level == FindingLevel::Ok), "{found:?}");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
}

#[test]
fn a_key_file_that_is_missing_or_open_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::new(folder.path().to_owned());
    fs::write(folder.path().join("owner.key"), "tk_a_b").unwrap();
    let owner = folder.path().join("owner.key");
    fs::set_permissions(&owner, fs::Permissions::from_mode(0o640)).unwrap();
    let [open, missing] = keys::key_file_findings(&data).try_into().unwrap();
    assert_eq!((open.level, missing.level), (FindingLevel::Error, FindingLevel::Warning));
    assert!(open.detail.ends_with("owner.key is readable by other users (mode 640)"), "{open:?}");
    assert!(fix(&open).starts_with(&format!("chmod 600 '{}'", owner.display())), "{open:?}");
    assert!(missing.detail.ends_with("agent.key does not exist"), "{missing:?}");
    assert!(fix(&missing).contains("toolkeep key recover"), "{missing:?}");
}

#[tokio::test]
async fn a_redis_that_does_not_answer_says_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = Secret::new(format!("redis://:hush@{free}"));
    let found = redis::redis_finding(Some(&url)).await.unwrap();
    assert_eq!((found.subject.as_str(), found.level), ("redis", FindingLevel::Error));
    assert!(fix(&found).starts_with("check `redis:` in the configuration"), "{found:?}");
    assert!(!format!("{found:?}").contains("hush"), "{found:?}");
    // The control: without one nothing is said.
    assert!(redis::redis_finding(None).await.is_none());
}

#[tokio::test]
async fn a_language_model_that_is_broken_says_which_tools_fail() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::new(folder.path().to_owned());
    let sandboxes =
        Arc::new(SandboxProvider::new(child_launcher(), None, SandboxLevel::NoNamespaces));
    let none = model::model_finding(&data, &sandboxes).await;
    assert_eq!(none.level, FindingLevel::Ok);
    assert!(none.detail.contains("`toolkeep model install` installs one"), "{}", none.detail);
    let place = data.models_dir().join("embedding");
    fs::create_dir_all(&place).unwrap();
    for name in ["model.onnx", "tokenizer.json"] {
        fs::write(place.join(name), "no model").unwrap();
    }
    let found = InstalledModel::locate_model(&data.models_dir(), &sandboxes).unwrap();
    let refused = WorkerError::Refused("no model".to_owned());
    let broken = model::judge_model(&found, Err(refused), "");
    assert_eq!(broken.level, FindingLevel::Error, "{broken:?}");
    assert!(broken.detail.contains("so embed_text, ") && broken.detail.contains(" fail: "));
    assert_eq!(fix(&broken), format!("install it again, or delete {}", place.display()));
    // Without a sandbox the tools work, by the word vectors.
    let blocked = WorkerError::Blocked("no sandbox is available".to_owned());
    let unused = model::judge_model(&found, Err(blocked), "get a newer kernel");
    assert_eq!((unused.level, fix(&unused)), (FindingLevel::Warning, "get a newer kernel"));
    assert!(unused.detail.contains(" use toolkeep-word-vectors"), "{}", unused.detail);
    assert!(unused.detail.ends_with("no sandbox is available"), "{}", unused.detail);
}

#[test]
fn a_source_shows_its_first_problems_and_tools_that_wait() {
    let problem =
        |n: usize| json!({"place": format!("a.yaml:{n}"), "message": "bad", "fix": "mend"});
    let problems: Vec<_> = (1..=4).map(problem).collect();
    let source = |state: &str, problems: &[Value], waiting: usize| {
        running_server::source_findings(&json!({
            "name": "a", "state": state, "tools": 2, "problems": problems, "waiting": waiting,
        }))
    };
    let found = source("ok", &problems, 2);
    let details: Vec<_> = found.iter().map(|it| (it.level, it.detail.as_str())).collect();
    let look = FindingLevel::Warning;
    assert_eq!(
        details,
        [
            (look, "ok, 2 tools, 4 problems"),
            (look, "a.yaml:1: bad"),
            (look, "a.yaml:2: bad"),
            (look, "a.yaml:3: bad"),
            (look, "2 wait for approval and are not listed"),
        ]
    );
    assert_eq!(fix(&found[0]), "run `toolkeep source list` to see all problems");
    assert_eq!(fix(&found[1]), "mend");
    assert_eq!(found[4].subject, "tools of a");
    assert_eq!(fix(&found[4]), "run `toolkeep pin list`, then `toolkeep pin diff TOOL`");
    let failed = source("failed", &problems[..1], 0);
    assert!(
        failed.len() == 2 && failed.iter().all(|it| it.level == FindingLevel::Error),
        "{failed:?}"
    );
    // The control: one that is well has one line.
    let [well] = source("ok", &[], 0).try_into().unwrap();
    assert_eq!((well.level, well.detail.as_str()), (FindingLevel::Ok, "ok, 2 tools, 0 problems"));
}

#[test]
fn faults_of_the_file_and_what_a_server_would_leave_out_are_found() {
    let problem = |message: &str| Problem::new("a.yaml:3", message);
    let review = ConfigReview {
        left_out: (0..7).map(|n| problem(&format!("tool {n}")).with_help("mend it")).collect(),
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
    let told = ["doubtful", "a.yaml:3: no such name", "run `toolkeep config check FILE`"];
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
    let data = DataDir::new(played.data());
    let held = data.try_lock().unwrap().unwrap();
    // Held by one that says nothing of itself.
    let ran = played.run(&["doctor", "-o", "json"]);
    let [[state, detail, fix]] = all(&ran, "server").try_into().unwrap();
    assert_eq!(state, "doubtful");
    assert_eq!(detail, "another process uses the data directory and has not published an address");
    assert_eq!(fix, "try again in a few seconds");

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
    held.publish_server(&ServerDescriptor {
        address,
        pid: std::process::id(),
        version: "0.0.1".to_owned(),
        is_background: false,
        configuration: None,
        variable_hashes: BTreeMap::new(),
        has_listed_sources: true,
    })
    .unwrap();
    let ran = played.run(&["doctor", "-o", "json"]);
    assert_eq!(ran.exit, 1, "{}", ran.out);
    let [[state, detail, fix]] = all(&ran, "server").try_into().unwrap();
    assert!(state == "doubtful" && detail.contains(", version 0.0.1, process "), "{detail}");
    assert_eq!(fix, "this program has another version; restart the server to update it");
    let [[state, detail, fix]] = all(&ran, "ready").try_into().unwrap();
    assert_eq!((state.as_str(), detail.as_str()), ("wrong", "the disk is full"));
    assert_eq!(fix, "see `toolkeep error record_unavailable`");
    let [[state, detail, _]] = all(&ran, "sources").try_into().unwrap();
    assert_eq!(state, "doubtful");
    assert_eq!(detail, "the server rejected the key, so sources were not checked");
    let key = all(&ran, "key");
    assert!(
        key.iter().any(|[state, detail, fix]| {
            state == "wrong"
                && detail.contains("owner.key contains an invalid key")
                && fix.contains("toolkeep key recover")
        }),
        "{key:?}"
    );
    let configuration = all(&ran, "configuration");
    assert_eq!(configuration[0][1], "the running server uses the built-in tools, without a file");
}
