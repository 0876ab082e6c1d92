//! Python code that attempts to escape.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::shared_data::read_rows;

use super::{marks, naive};
use crate::calls::{Stage, value};

#[tokio::test]
async fn no_expression_gets_out() {
    let rows = read_rows("attacks/python_escapes.jsonl");
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let (mut refused, mut naively) = (0, 0);
    for row in &rows {
        let code = row["code"].as_str().unwrap();
        let began = Instant::now();
        let told = stage.call("python_eval", &json!({"expression": code})).await;
        let words = value(&told).to_string();
        assert!(began.elapsed() < Duration::from_secs(30), "{}", row["id"]);
        assert!(!words.contains("root:") && !words.contains("uid="), "{}: {words}", row["id"]);
        refused += usize::from(told.is_error);
        // Whatever happened to its worker, the next call gets one.
        let next = stage.call("python_eval", &json!({"expression": "6 * 7"})).await;
        assert_eq!(value(&next), json!(42), "after {}", row["id"]);
        let harmless =
            ["open('/etc/passwd')", "getoutput", "getcwd", "__subclasses__", "__globals__"];
        if harmless.iter().any(|part| code.contains(part)) {
            let done = naive("python3", &["-c", &format!("print(eval({code:?}))")], folder.path());
            naively += usize::from(done.is_some_and(|(done, text)| done && !text.is_empty()));
        }
    }
    assert_eq!(marks(), [] as [std::path::PathBuf; 0]);
    assert!(naively >= 3, "CPython does not let them out either: {naively}");
    println!(
        "python_escapes: {} rows, {refused} refused, 0 out; CPython: {naively} out",
        rows.len()
    );
}
