//! Keys over plain http: to this machine, and elsewhere only where that is meant. Nothing leaves this
//! machine: the address that reads as another one's is the loopback's, mapped into IPv6.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::played::{Played, listener};

fn mapped(url: &str) -> String {
    url.replace("127.0.0.1", "[::ffff:127.0.0.1]")
}

#[test]
fn a_key_goes_over_plain_http_beyond_this_machine_only_with_insecure() {
    let played = Played::default();
    let (url, seen) = listener();
    let (url, key) = (mapped(&url), "tk_given");
    // Whatever command makes the client, and the invitation of a join too.
    let folder = played.data().join("node");
    let join = ["node", "join", "n1", "--dir", folder.to_str().unwrap()];
    for command in [&["source", "list"][..], &["tool", "call", "a"], &["mcp"], &join] {
        for url in [url.as_str(), "http://192.0.2.1:8080", "http://tools.example"] {
            let ran = played.run(&[command, &["--url", url, "--key", key]].concat());
            assert_eq!(ran.exit, 2, "{command:?} {}", ran.err);
            assert!(ran.err.contains("is not on this machine") && ran.err.contains("--insecure"));
            assert!(!ran.err.contains(key), "{}", ran.err);
        }
    }
    let dialled = seen.recv_timeout(Duration::from_millis(1));
    assert_eq!(dialled, Err(RecvTimeoutError::Timeout), "nobody was dialled");
    // The control: the very same address, where it is meant.
    let _answer = played.run(&["source", "list", "--url", &url, "--key", key, "--insecure"]);
    assert!(seen.recv().unwrap().to_lowercase().contains("authorization: bearer tk_given"));
}

#[test]
fn a_node_registers_with_its_key_over_plain_http_only_with_insecure() {
    let played = Played::default();
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("functions.yaml"), folder.path().join("runtime.sock"));
    std::fs::write(&file, "version: 1\nrules: []\ndefinitions: {}\n").unwrap();
    let forward = ["node", "forward", "n1", "--listen", "127.0.0.1:0", "--registry"];
    let files = [file.to_str().unwrap(), "--socket", socket.to_str().unwrap()];
    let server = ["--url", "http://192.0.2.1:1", "--key", "tk_given"];
    let ran = played.run(&[&forward[..], &files, &server].concat());
    assert_eq!(ran.exit, 2, "{}", ran.err);
    assert!(
        ran.err.contains("is not on this machine") && ran.err.contains("--insecure"),
        "{}",
        ran.err
    );
}

#[test]
fn without_a_key_there_is_nothing_to_keep_from_the_way() {
    let played = Played::default();
    let (url, seen) = listener();
    let _answer = played.run(&["source", "list", "--url", &mapped(&url)]);
    assert!(!seen.recv().unwrap().to_lowercase().contains("authorization"));
}
