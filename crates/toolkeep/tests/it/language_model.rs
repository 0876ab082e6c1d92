//! Tests of an installed language model, which runs in a worker process that may end.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::small_model::{Costs, Shape, write};
use crate::support::installation::Installation;
use crate::support::server_process::{Server, TOOLKEEP, start_server};

fn toolkeep(home: &Installation, line: &[&str]) -> Output {
    #[expect(clippy::disallowed_methods, reason = "the binary under test is run as people run it")]
    let mut command = std::process::Command::new(TOOLKEEP);
    command.args(line).arg("--data").arg(home.data()).current_dir(home.path(""));
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Processes with a language model that descend from the server.
fn workers(server: &Server) -> Vec<u32> {
    let field = |pid: u32, line: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|it| it.strip_prefix(line)?.trim().parse::<u32>().ok())
    };
    let descends = |pid: u32| {
        std::iter::successors(Some(pid), |pid| field(*pid, "PPid:")).any(|it| it == server.pid)
    };
    let serves = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"__model")
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| serves(*pid) && descends(*pid)).collect()
}

async fn embedded(server: &Server, text: &str) -> Value {
    server.agent().call("embed_text", &json!({ "text": text })).await.body
}

#[tokio::test]
async fn a_model_that_takes_all_memory_ends_its_process_and_the_server_answers_on() {
    let home = Installation::new("version: 1\n");
    write(&home.path("small"), Shape::COSTLY);
    let installed = toolkeep(&home, &["model", "install", "small"]);
    assert!(installed.status.success(), "{}", text(&installed));
    let server = start_server(&home).await;
    // A model is not loaded before it is needed.
    assert_eq!(workers(&server), [] as [u32; 0]);
    let cat = embedded(&server, "cat").await;
    assert_eq!(cat["result"].as_array().map(Vec::len), Some(4), "{cat}");
    let first = workers(&server);
    assert_eq!(first.len(), 1);
    let boom = embedded(&server, "boom").await;
    assert!(boom.to_string().contains("exceeded its memory limit"), "{boom}");
    let other = server.agent().call("calculator", &json!({ "expression": "6 * 7" })).await;
    assert_eq!((other.status, &other.body["result"]["result"]), (200, &json!(42)));
    assert_eq!(embedded(&server, "cat").await["result"], cat["result"]);
    let second = workers(&server);
    assert!(second.len() == 1 && second != first, "{first:?} {second:?}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_broken_model_is_found_by_doctor_and_not_installed() {
    let home = Installation::new("version: 1\n");
    write(&home.path("small"), Shape::PUBLIC);
    write(&home.path("bad"), Shape { costs: Costs::AtLoad, ..Shape::PUBLIC });
    let refused = toolkeep(&home, &["model", "install", "bad"]);
    assert!(!refused.status.success());
    assert!(text(&refused).contains("the worker that tested it ended"), "{}", text(&refused));
    let language = || {
        let output = toolkeep(&home, &["doctor", "-o", "json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut found = found["findings"].as_array().unwrap().clone().into_iter();
        found.find(|it| it["what"] == "language model").unwrap()
    };
    assert!(language()["detail"].as_str().unwrap().starts_with("none installed"));
    assert!(toolkeep(&home, &["model", "install", "small"]).status.success());
    let good = language();
    assert_eq!(good["state"], "good", "{good}");
    assert!(good["detail"].as_str().unwrap().contains("use small, 4 dimensions"), "{good}");
    fs::write(home.data().join("models/embedding/model.onnx"), "no model").unwrap();
    let broken = language();
    assert_eq!(broken["state"], "wrong");
    let detail = broken["detail"].as_str().unwrap();
    assert!(detail.contains("so embed_text, ") && detail.contains(" fail: "), "{detail}");
    assert!(detail.contains("model.onnx: "), "{detail}");
}

#[tokio::test]
async fn an_installed_model_ranks_tools_after_the_first_search() {
    let home = Installation::new("version: 1\n");
    write(&home.path("small"), Shape::PUBLIC);
    let installed = toolkeep(&home, &["model", "install", "small"]);
    assert!(installed.status.success(), "{}", text(&installed));
    let server = start_server(&home).await;
    assert_eq!(workers(&server), [] as [u32; 0], "not before the first search");
    let search = async || server.agent().get("/v1/search?q=a+cat&k=3").await.body;
    let mut found = search().await;
    assert_eq!(found["model"], Value::Null, "{found}");
    for _ in 0..600 {
        if found["model"] != Value::Null {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        found = search().await;
    }
    assert_eq!(found["model"], "small, 4 dimensions", "{found}");
    assert_eq!(found["results"].as_array().map(Vec::len), Some(3), "{found}");
    assert!(server.stop().await.success());
}
