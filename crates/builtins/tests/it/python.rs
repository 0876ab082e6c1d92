//! `python_eval`.

use serde_json::json;

use crate::calls::{Stage, value, words};

#[tokio::test]
async fn values_come_and_go_as_json() {
    let stage = Stage::new().await;
    for (expression, variables, wanted) in [
        ("x + 1", json!({"x": 41}), json!(42)),
        ("[a, b]", json!({"a": null, "b": {"k": [1.5, true]}}), json!([null, {"k": [1.5, true]}])),
        ("(1, 'é')", json!({}), json!([1, "é"])),
        ("2 ** 100", json!({}), json!("1267650600228229401496703205376")),
        ("{1: 'a'}", json!({}), json!({"1": "a"})),
        ("sorted({3, 1, 2})", json!({}), json!([1, 2, 3])),
        ("float('inf')", json!({}), json!("inf")),
        ("def f(n):\n    return n * 2\nf(21)", json!({}), json!(42)),
        ("import math\nmath.sqrt(16)", json!({}), json!(4.0)),
        ("import json\njson.loads('{\"a\": [1]}')['a'][0]", json!({}), json!(1)),
        ("None", json!({}), json!(null)),
        ("round(2.675, 2)", json!({}), json!(2.67)),
        ("[round(x, 1) for x in [0.25, 0.35, -0.05]]", json!({}), json!([0.2, 0.3, -0.1])),
        (
            "[round(2.5), round(-3.5), round(7), round(1250.0, -2)]",
            json!({}),
            json!([2, -4, 7, 1200.0]),
        ),
        ("round(1e300, 2) == 1e300 and round(5e-324, 323) == 0.0", json!({}), json!(true)),
        ("list(map(round, [0.5, 1.5]))", json!({}), json!([0, 2])),
        ("x = 'round'\nx", json!({}), json!("round")),
    ] {
        let args = json!({"expression": expression, "variables": variables});
        let told = stage.call("python_eval", &args).await;
        assert!(!told.is_error, "{expression}: {told:?}");
        assert_eq!(value(&told), wanted, "{expression}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_told_as_python_tells_it() {
    let stage = Stage::new().await;
    for (expression, says) in [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("undefined", "NameError"),
        ("(", "SyntaxError"),
        ("   ", "expression: is empty"),
        ("x = [1]\nx[3]", "IndexError"),
        ("x = 1\ny = round(0.5)\nx / y", "(line 3)"),
        ("x = 1\nround('a', 1)", "(line 2)"),
        ("round(1,\n", "SyntaxError"),
    ] {
        let told = words(&stage.call("python_eval", &json!({"expression": expression})).await);
        assert!(told.contains(says), "{expression}: {told}");
        assert!(!told.contains('\n'), "{told}");
    }
    let odd = json!({"expression": "1", "variables": {"a b": 1}});
    assert!(words(&stage.call("python_eval", &odd).await).contains("`a b` is no name"));
}

#[tokio::test]
async fn time_and_memory_end_and_the_next_call_works() {
    let stage = Stage::new().await;
    for expression in [
        "[0] * 10 ** 9",
        "'a' * 10 ** 12",
        "x = []\nwhile True: x.append('y' * 1000000)",
        "2 ** (2 ** 40)",
        "f = lambda: f()\nf()",
    ] {
        let told = stage.call("python_eval", &json!({"expression": expression})).await;
        assert!(told.is_error, "{expression}: {told:?}");
        let next = stage.call("python_eval", &json!({"expression": "1 + 1"})).await;
        assert_eq!(value(&next), json!(2), "after {expression}");
    }
}

#[tokio::test]
async fn an_endless_program_ends() {
    let stage = Stage::new().await;
    let outcome = stage.call("python_eval", &json!({"expression": "while True: pass"})).await;
    let message = words(&outcome);
    assert!(
        outcome.is_error && message.starts_with("TimeoutError: time limit exceeded"),
        "{message}"
    );
}

#[tokio::test]
async fn nothing_of_one_call_is_there_for_the_next() {
    let stage = Stage::new().await;
    stage.call("python_eval", &json!({"expression": "left = 1\nleft"})).await;
    let told = words(&stage.call("python_eval", &json!({"expression": "left"})).await);
    assert!(told.contains("NameError"), "{told}");
}
