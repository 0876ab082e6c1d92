//! Tests that scripts with excessive resource use are contained and reported.

use serde_json::json;

use super::{memory, run, start_default_server};

#[tokio::test]
async fn what_takes_too_much_is_ended_and_told() {
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    run(&agent, json!({ "code": "calculate('1')" })).await;
    let before = memory(server.pid);
    for (code, most) in [
        ("x = []\nwhile True:\n    x.append('y' * 1000000)", None),
        ("def f():\n    return f()\nf()", None),
        ("while True:\n    pass", None),
        ("2 ** (2 ** 40)", None),
        ("x = 'a'\nwhile True:\n    print(x)\n    x = x + x", None),
        ("x = [0]\nfor n in range(60):\n    x = x + x", None),
        ("calculate('1' * (10 ** 8))", None),
        ("while True:\n    calculate('1')", Some(50)),
        ("open('/etc/passwd').read()", None),
        ("import os\nos.system('true')", None),
    ] {
        let came = agent.post("/v1/programs", &json!({ "code": code, "max_calls": most })).await;
        assert_ne!(came.body["status"], "succeeded", "{code}: {came:?}");
        let told = came.body["error"].to_string();
        assert!(told.len() > 10 && !told.contains("root:"), "{code}: {came:?}");
    }
    let grown = memory(server.pid).saturating_sub(before);
    assert!(grown < 20 << 10, "the server has {grown} KiB more");
    // Control: the same server completes a small program.
    let came = run(&agent, json!({ "code": "sum(range(1000))" })).await;
    assert_eq!(came["result"], 499_500, "{came}");
    assert!(server.stop().await.success());
}
