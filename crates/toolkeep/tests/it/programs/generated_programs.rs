//! Tests of generated programs: sequential, parallel and CPython results agree.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{run, start_default_server};
use crate::support::run_count;
use crate::support::seeded_random::Random;

/// Harness that runs the same in CPython: the two tools as functions, and one script per line.
const PYTHON: &str = r"
import json, sys

def json_query(data, query):
    if query == 'length(@)':
        return len(data)
    value = data[int(query[1:query.index(']')])]
    return value['k'] if query.endswith('.k') else value

def calculate(expression):
    return eval(expression)

def CALL(name, *args, **kwargs):
    return {'json_query': json_query, 'calculate': calculate}[name](*args, **kwargs)

for line in sys.stdin:
    names = {'json_query': json_query, 'calculate': calculate, 'CALL': CALL}
    script = json.loads(line)
    body, _, last = script.rpartition('\n')
    exec(body, names)
    print(json.dumps(eval(last, names)))
";

/// A program of calls alone, whose arguments name what came before; and one with more of Python in it.
fn generated(random: &mut Random, plain: bool) -> String {
    let calls = 2 + random.next_below(8);
    let mut code = String::new();
    for n in 0..calls {
        let number = |random: &mut Random| random.next_below(100);
        let earlier = |random: &mut Random| match random.next_below(n + 1) {
            it if it < n => format!("v{it}"),
            _ => random.next_below(100).to_string(),
        };
        let call = match random.next_below(5) {
            0 => {
                format!("calculate('{} * {} - {}')", number(random), number(random), number(random))
            }
            1 => {
                format!("json_query(data=[{}, {}], query='[1]')", earlier(random), earlier(random))
            }
            2 => format!("json_query([1, {{'k': {}}}], '[1].k')", earlier(random)),
            3 => format!(
                "json_query(data=[{}, {}, 3], query='length(@)')",
                earlier(random),
                earlier(random)
            ),
            _ => format!("CALL('json_query', data=[{}], query='[0]')", earlier(random)),
        };
        writeln!(code, "v{n} = {call}").unwrap();
    }
    if !plain {
        let last = calls - 1;
        let more = match random.next_below(5) {
            0 => {
                format!("t = 0\nfor x in [v0, v{last}, 5]:\n    t += x * 3 if x % 2 else x // 2\n")
            }
            1 => format!("t = {{str(k): calculate(f'{{k}} + {{v{last}}}') for k in range(4)}}\n"),
            2 => format!("t = sorted([v0, v{last}, 4, -1], reverse=True)[:3]\n"),
            3 => "t = []\nwhile len(t) < 4:\n    t.append(json_query([len(t), v0], '[0]') * v0)\n"
                .to_owned(),
            _ => format!(
                "def f(a, b=2):\n    return a if b == 0 else f(a + b, b - 1)\ntry:\n    t = f(v{last}) // 0\nexcept ZeroDivisionError:\n    t = 'none of ' + str(v0)\n"
            ),
        };
        code.push_str(&more);
    }
    let names: Vec<String> = (0..calls).map(|n| format!("v{n}")).collect();
    let more = if plain { "" } else { ", t" };
    write!(code, "[{}{more}]", names.join(", ")).unwrap();
    code
}

#[expect(clippy::disallowed_methods, reason = "another Python, to compare with")]
fn in_cpython(scripts: &[String]) -> Vec<Value> {
    let mut python = Command::new("python3")
        .args(["-I", "-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = python.stdin.take().unwrap();
    let lines: Vec<String> = scripts.iter().map(|it| json!(it).to_string()).collect();
    let lines = lines.join("\n");
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writing.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn in_order_in_waves_and_in_cpython_the_same_comes_out() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let count = run_count(200, 2_000);
    let scripts: Vec<String> = (0..count).map(|n| generated(&mut random, n % 4 != 3)).collect();
    let theirs = in_cpython(&scripts);
    assert_eq!(theirs.len(), count, "seed {seed}");
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let (mut waves, mut beside) = (0, 0);
    for (script, theirs) in scripts.iter().zip(&theirs) {
        let seq = run(&agent, json!({ "code": script, "mode": "legacy" })).await;
        assert_eq!(&seq["result"], theirs, "seed {seed}:\n{script}\n{seq}");
        let dep = run(&agent, json!({ "code": script, "mode": "dep" })).await;
        assert_eq!(dep["result"], seq["result"], "seed {seed}:\n{script}\n{dep}");
        let chain = &dep["tool_chains"][0];
        assert_eq!(seq["tools_used"], dep["tools_used"], "seed {seed}:\n{script}");
        if chain["mode_used"] == "dep" {
            waves += 1;
            beside += usize::from(chain["waves"].as_u64() < chain["steps"].as_u64());
        } else {
            assert_eq!(chain["fallback_to_seq"], true, "seed {seed}:\n{script}");
        }
    }
    println!(
        "generated programs: seed {seed}: {count} the same in order, in waves and in CPython; {waves} in waves, {beside} of them with calls beside each other"
    );
    assert!(waves * 2 >= count && beside * 4 >= count, "{waves} and {beside} of {count}");
    assert!(server.stop().await.success());
}
