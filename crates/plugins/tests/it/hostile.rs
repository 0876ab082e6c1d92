//! A plugin that wants out, or wants everything: contained, told, and the others untouched. The same code
//! without a cage is the control: there it gets what it wants.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Stage, called, tried};

const CODE: &str = r#"
import os, socket, sys, time

def read(path):
    return open(path).read()

def dial(port):
    socket.create_connection(("127.0.0.1", port), timeout=2).close()
    return "connected"

def write(path):
    with open(path, "w") as file:
        file.write("x")
    return "written"

def fork():
    children = 0
    try:
        while children < 5000:
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            children += 1
    except OSError:
        pass
    return children

def flood():
    line = b"x" * 65536
    while True:
        os.write(3, line)

def chatter():
    while True:
        os.write(3, b'{"call": 999999, "result": 1}\n')

def never():
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass

def die():
    os.kill(os.getpid(), 9)

def eat():
    return len(bytearray(3 << 30))

def fine():
    return 1
"#;

fn tools() -> Vec<(&'static str, Value)> {
    let path = json!({"path": {"type": "string", "required": true}});
    let port = json!({"port": {"type": "integer", "required": true}});
    let mut tools = vec![("read", path.clone()), ("write", path), ("dial", port)];
    tools.extend(
        ["fork", "flood", "chatter", "never", "die", "eat", "fine"].map(|it| (it, json!({}))),
    );
    tools
}

async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.python("bad", CODE, &tools());
    stage.python("good", "def fine(): return 'well'\n", &[("fine", json!({}))]);
    stage.reload().await;
    stage
}

async fn others_are_well(stage: &Stage) {
    assert_eq!(stage.call("good", "fine", json!({})).await.unwrap(), "well");
}

/// The next call, once its process is there again.
async fn comes_back(stage: &Stage) {
    let fine = stage.offer("bad", "fine").await;
    for _ in 0..200 {
        if called(&fine, json!({})).await == Ok(json!(1)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it does not come back");
}

/// What the naive way comes to: the function in an interpreter of nobody's.
fn naive(call: &str) -> String {
    let script = format!("{CODE}\nprint({call})");
    let output = std::process::Command::new("/usr/bin/python3").args(["-c", &script]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn files_outside_and_the_net_are_out_of_reach() {
    let stage = stage().await;
    let secret = stage.home.path().join("secret");
    std::fs::write(&secret, "hunter2").unwrap();
    let path = secret.display().to_string();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(naive(&format!("read({path:?})")), "hunter2");
    assert_eq!(naive(&format!("dial({port})")), "connected");
    assert_eq!(
        naive(&format!("write({:?})", stage.home.path().join("w").display().to_string())),
        "written"
    );
    for (tool, args) in [
        ("read", json!({"path": path})),
        ("read", json!({"path": "/proc/1/environ"})),
        ("read", json!({"path": stage.folder("good").join("tools.py")})),
        ("write", json!({"path": "tools.py"})),
        ("dial", json!({"port": port})),
    ] {
        let error = stage.call("bad", tool, args.clone()).await.unwrap_err();
        assert!(error.contains("Error: "), "{tool} {args}: {error}");
    }
    // Its own temporary folder has the same name, and is another.
    let made = stage.home.path().join("made");
    assert_eq!(stage.call("bad", "write", json!({"path": made})).await.unwrap(), "written");
    assert!(!made.exists());
    others_are_well(&stage).await;
    stage.registry.close().await;
}

#[tokio::test]
async fn forks_and_memory_are_bounded() {
    let stage = stage().await;
    let forked = stage.call("bad", "fork", json!({})).await;
    assert!(forked.as_ref().is_ok_and(|it| it.as_u64().unwrap() < 70), "{forked:?}");
    others_are_well(&stage).await;
    assert_eq!(naive("eat()"), (3_u64 << 30).to_string());
    assert!(stage.call("bad", "eat", json!({})).await.is_err());
    others_are_well(&stage).await;
    stage.registry.close().await;
}

#[tokio::test]
async fn who_floods_its_pipe_is_ended_and_told() {
    let stage = stage().await;
    for (tool, told) in [
        ("flood", "it wrote a line of more than"),
        ("chatter", "it wrote more than 1000 lines that answer nothing"),
    ] {
        let error = stage.call("bad", tool, json!({})).await.unwrap_err();
        assert!(error.contains(told), "{tool}: {error}");
        others_are_well(&stage).await;
        comes_back(&stage).await;
    }
    stage.registry.close().await;
}

#[tokio::test]
async fn who_never_answers_or_dies_costs_only_itself() {
    let stage = stage().await;
    let never = stage.offer("bad", "never").await;
    let error = tried(&never, json!({}), Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(error.code, tool::Code::Cancelled);
    others_are_well(&stage).await;
    let error = stage.call("bad", "die", json!({})).await.unwrap_err();
    assert!(error.contains("signal 9"), "{error}");
    others_are_well(&stage).await;
    comes_back(&stage).await;
    stage.registry.close().await;
}
