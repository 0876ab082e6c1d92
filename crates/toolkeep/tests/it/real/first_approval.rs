//! A newcomer's path: from `toolkeep serve` to the first approved call, in a browser.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::installed_programs::browser_script;

use crate::command_runner::CommandHome;

/// Maximum number of clicks from the printed link to the approved call.
const MAX_CLICKS: usize = 5;

fn run_script(address: &str, input: &Value, pictures: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real/first_approval.mjs");
    let mut node = browser_script(&script).arg(address).arg(pictures).spawn().unwrap();
    node.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_first_call_is_approved_within_five_clicks() {
    let home = CommandHome::new();
    let serving = home.serve(&[]);
    let link = home.run(&["ui", "-o", "json"]).json();
    let link = link["url"].as_str().unwrap_or_else(|| panic!("no link in {link}")).to_owned();
    let agent_key = std::fs::read_to_string(home.data("agent.key")).unwrap();
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("first-approval");
    std::fs::create_dir_all(&pictures).unwrap();
    let input = json!({"link": link, "agentKey": agent_key.trim()});
    let came = run_script(&serving.address(), &input, &pictures);
    println!("{came:#}\npictures in {}", pictures.display());
    assert_eq!((&came["asked"], &came["status"]), (&json!(202), &json!("succeeded")));
    let clicks = came["clicks"].as_array().unwrap();
    assert_eq!(clicks.last(), Some(&json!("Approve")));
    assert!(clicks.len() <= MAX_CLICKS, "{clicks:?}");
}
