//! A plugin that wants out, or wants everything: contained, told, and the others untouched. The same code
//! without a sandbox is the control: there it gets what it wants.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{SOON, Stage, called, processes, tried};

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

def fork(most=5000):
    children = []
    try:
        while len(children) < most:
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
    except OSError:
        pass
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return len(children)

def bomb():
    # Nobody counts, nobody waits, and all of them go on.
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)

def orphans():
    # Out of the group and the session, and left behind.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return "left"

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
        ["fork", "bomb", "orphans", "flood", "chatter", "never", "die", "eat", "fine"]
            .map(|it| (it, json!({}))),
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
    // Its own `/tmp` has the same name, and is another, wherever the tests have their folders.
    let name = stage.home.path().file_name().unwrap();
    let made = std::path::Path::new("/tmp").join(name).with_extension("made");
    assert_eq!(stage.call("bad", "write", json!({"path": made})).await.unwrap(), "written");
    assert!(!made.exists());
    others_are_well(&stage).await;
    stage.registry.close().await;
}

/// The same, as long as it takes or for a moment; what it wrote, and how it ended.
fn naive_for(call: &str, moment: Option<Duration>, most: u64) -> (usize, Option<i32>) {
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    let script = format!("import os\nos.dup2(1, 3)\n{CODE}\n{call}");
    let mut command = std::process::Command::new("/usr/bin/python3");
    command.args(["-c", &script]).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut bytes = Vec::new();
    if let Some(moment) = moment {
        std::thread::sleep(moment);
    } else {
        child.stdout.take().unwrap().take(most).read_to_end(&mut bytes).unwrap();
    }
    let over = moment.is_none() && (bytes.len() as u64) < most;
    let ended = if over { Some(child.wait().unwrap()) } else { child.try_wait().unwrap() };
    if ended.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    (bytes.len(), ended.and_then(|status| status.signal()))
}

#[tokio::test]
async fn forks_and_memory_are_bounded() {
    let stage = stage().await;
    assert_eq!(naive("fork(200)"), "200");
    let forked = stage.call("bad", "fork", json!({})).await;
    assert!(forked.as_ref().is_ok_and(|it| it.as_u64().unwrap() < 70), "{forked:?}");
    others_are_well(&stage).await;
    // What was left behind goes with its process, whatever session it is in.
    assert_eq!(stage.call("bad", "orphans", json!({})).await.unwrap(), "left");
    assert!(stage.call("bad", "die", json!({})).await.is_err());
    comes_back(&stage).await;
    let bomb = stage.offer("bad", "bomb").await;
    let error = tried(&bomb, json!({}), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.code, tool::ErrorCode::Cancelled);
    others_are_well(&stage).await;
    comes_back(&stage).await;
    assert_eq!(naive("eat()"), (3_u64 << 30).to_string());
    assert!(stage.call("bad", "eat", json!({})).await.is_err());
    others_are_well(&stage).await;
    let home = stage.home.path().to_owned();
    assert!(processes(&home) > 0, "those of the good one are seen");
    stage.registry.close().await;
    let began = std::time::Instant::now();
    while processes(&home) > 0 {
        assert!(began.elapsed() < SOON, "{} processes are left", processes(&home));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn who_floods_its_pipe_is_ended_and_told() {
    let stage = stage().await;
    // Who reads without a bound is given all that he can hold.
    assert_eq!(naive_for("flood()", None, 64 << 20).0, 64 << 20);
    for (tool, told) in [
        ("flood", "it wrote a line of more than"),
        ("chatter", "it wrote more than 1000 lines that are not responses"),
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
    // In one interpreter for all, one that waits for ever is waited for, and one that dies takes all.
    assert_eq!(naive_for("never()", Some(Duration::from_millis(500)), 0), (0, None));
    assert_eq!(naive_for("die()\nprint(fine())", None, 100), (0, Some(9)));
    let never = stage.offer("bad", "never").await;
    let error = tried(&never, json!({}), Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(error.code, tool::ErrorCode::Cancelled);
    others_are_well(&stage).await;
    let error = stage.call("bad", "die", json!({})).await.unwrap_err();
    assert!(error.contains("signal 9"), "{error}");
    others_are_well(&stage).await;
    comes_back(&stage).await;
    stage.registry.close().await;
}
