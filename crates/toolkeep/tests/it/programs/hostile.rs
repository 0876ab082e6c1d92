//! Scripts that take too much: contained, told, and nothing else is the worse for it.

use serde_json::json;

use super::{run, served};

#[tokio::test]
async fn what_takes_too_much_is_ended_and_told() {
    let (_home, server) = served().await;
    let agent = server.agent();
    for (code, most) in [
        ("x = []\nwhile True:\n    x.append('y' * 1000000)", None),
        ("def f():\n    return f()\nf()", None),
        ("while True:\n    pass", None),
        ("2 ** (2 ** 40)", None),
        ("while True:\n    calculate('1')", Some(50)),
        ("open('/etc/passwd').read()", None),
        ("import os\nos.system('true')", None),
    ] {
        let came = agent.post("/v1/programs", &json!({ "code": code, "max_calls": most })).await;
        assert_ne!(came.body["status"], "succeeded", "{code}: {came:?}");
        let told = came.body["error"].to_string();
        assert!(told.len() > 10 && !told.contains("root:"), "{code}: {came:?}");
    }
    // The control: what takes little is done, by the same server.
    let came = run(&agent, json!({ "code": "sum(range(1000))" })).await;
    assert_eq!(came["result"], 499_500, "{came}");
    assert!(server.stop().await.success());
}
