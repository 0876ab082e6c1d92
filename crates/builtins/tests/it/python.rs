//! Tests of the tool `python_eval`.

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
    assert!(
        words(&stage.call("python_eval", &odd).await).contains("`a b` is not a valid Python name")
    );
}

/// Regression: valid Python programs that were rejected. Printed output is returned beside the
/// value.
#[tokio::test]
async fn plain_python_is_answered_as_by_python() {
    let stage = Stage::new().await;
    for (expression, wanted) in [
        ("'%d' % 3", json!("3")),
        ("'%05.1f|%-6s|%+d|%x|%%' % (2.25, 'ab', 7, 255)", json!("002.2|ab    |+7|ff|%")),
        ("'%(a)s is %(b).2e' % {'a': 'x', 'b': 12345.678}", json!("x is 1.23e+04")),
        (
            "'%5s|%.2s|%r|%c|%#o|%*d' % ('ab', 'abc', 'q', 65, 8, 4, 7)",
            json!("   ab|ab|'q'|A|0o10|   7"),
        ),
        ("x = 7\ny = 'n=%s' % x\ny", json!("n=7")),
        ("True + 1", json!(2)),
        ("sum([True, False, True])", json!(2)),
        ("sum(x > 1 for x in [1, 2, 3])", json!(2)),
        ("n = 0\nfor x in [1, 2, 3]:\n    n += x > 1\nn", json!(2)),
        ("(True - False) * 3 / (True + True) ** 2 % 5 // True", json!(0.0)),
        ("n = 1\nn *= (2 + True)\nn -= (True)\nn", json!(2)),
        ("a = [1]\nb = a\na += [True + 1]\nb", json!([1, 2])),
        ("d = {'k': 1}\nd['k'] += d['k'] == 1\nd", json!({"k": 2})),
        ("s = '%s-%s'\ns %= ('a', True + 0)\nf'{s} {True + 1}'", json!("a-1 2")),
        ("a = (1 + True) * (2 -\n  True)\na", json!(2)),
        (
            "import statistics\n[statistics.mean([1, 2, 3, 4]), statistics.median([3, 1, 2])]",
            json!([2.5, 2]),
        ),
        (
            "from statistics import stdev as s, pvariance\n[s([2, 4, 4, 4, 5, 5, 7, 9]), pvariance([1, 2, 3, 4])]",
            json!([2.138_089_935_299_395, 1.25]),
        ),
        (
            "import math, statistics as st\nst.quantiles([1, 2, 3, 4, 5]) + [math.floor(2.5)]",
            json!([1.5, 3.0, 4.5, 2]),
        ),
        // CPython's numbers for this seed.
        (
            "import random\nrandom.seed(42)\n[random.random(), random.randint(1, 6), random.choice('abc')]",
            json!([0.639_426_798_457_883_8, 1, "c"]),
        ),
        (
            "import random\nrandom.seed(7)\nx = list(range(6))\nrandom.shuffle(x)\n[x, random.sample(range(100), 3)]",
            json!([[4, 0, 5, 3, 1, 2], [9, 68, 12]]),
        ),
        ("import random\n0 <= random.random() < 1", json!(true)),
        ("import string\nstring.ascii_lowercase[:3] + string.digits[-1]", json!("abc9")),
        ("print('a', 1)\nprint('b', end='')\n42", json!({"value": 42, "printed": "a 1\nb"})),
        ("print(True + 1)", json!({"value": null, "printed": "2\n"})),
    ] {
        let outcome = stage.call("python_eval", &json!({"expression": expression})).await;
        assert!(!outcome.is_error, "{expression}: {outcome:?}");
        assert_eq!(value(&outcome), wanted, "{expression}");
    }
}

/// Line numbers refer to the caller's own text.
#[tokio::test]
async fn what_python_refuses_is_refused_with_its_line() {
    let stage = Stage::new().await;
    for (expression, says) in [
        ("'%d' % 'x'", "TypeError: %d format: a real number is required, not str"),
        ("'%d %d' % 3", "TypeError: not enough arguments for format string"),
        ("x = 1\nTrue + 'a'", "(line 2)"),
        (
            "import statistics\nstatistics.mean([])",
            "ValueError: mean requires at least one data point (line 2)",
        ),
        ("import decimal", "there are math, json, re, datetime, collections, itertools, functools"),
        (
            "from decimal import Decimal",
            "whole numbers are exact at any size: count in the smallest unit",
        ),
        ("import numpy as np", "the tool calculate has np. functions"),
        (
            "print('so far')\n1 / 0",
            "ZeroDivisionError: division by zero (line 2); printed before: so far",
        ),
    ] {
        let said = words(&stage.call("python_eval", &json!({"expression": expression})).await);
        assert!(said.contains(says), "{expression}: {said}");
    }
}

#[tokio::test]
async fn what_a_program_prints_is_bounded_and_two_calls_draw_other_numbers() {
    let stage = Stage::new().await;
    let long = json!({"expression": "for i in range(20000):\n    print('x' * 100)\n'end'"});
    let answer = value(&stage.call("python_eval", &long).await);
    let printed = answer["printed"].as_str().unwrap();
    assert!((65_536..65_700).contains(&printed.len()), "{}", printed.len());
    assert!(printed.ends_with("the output was cut after 65536 bytes"));
    assert_eq!(answer["value"], json!("end"));
    let draw = json!({"expression": "import random\nrandom.getrandbits(64)"});
    let draws = [stage.call("python_eval", &draw).await, stage.call("python_eval", &draw).await];
    assert_ne!(value(&draws[0]), value(&draws[1]));
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
    // The worker stops it by its own clock, or is killed by the server: on a busy machine either
    // may be first.
    let by_worker = message.starts_with("TimeoutError: time limit exceeded");
    let by_server = message == "it ran longer than 5 s and was stopped; request less";
    assert!(outcome.is_error && (by_worker || by_server), "{message}");
}

#[tokio::test]
async fn nothing_of_one_call_is_there_for_the_next() {
    let stage = Stage::new().await;
    stage.call("python_eval", &json!({"expression": "left = 1\nleft"})).await;
    let told = words(&stage.call("python_eval", &json!({"expression": "left"})).await);
    assert!(told.contains("NameError"), "{told}");
}
