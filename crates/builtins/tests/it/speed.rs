//! Benchmarks of the tools that run code, reported without a limit: `TOOLKEEP_DEEP=1`, with
//! `--no-capture`.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::calls::{Stage, value};

async fn median(stage: &Stage, name: &str, args: &Value, rounds: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        let told = stage.call(name, args).await;
        times.push(began.elapsed());
        assert!(!told.is_error, "{told:?}");
    }
    times.sort_unstable();
    times[rounds / 2]
}

/// Reference: Python parses the same text, loads it, runs the same query and writes the answer.
const AUTHORITY: &str = "
import json, sqlite3, sys, time
began = time.perf_counter()
call = json.loads(open(sys.argv[1]).read())
c = sqlite3.connect(':memory:')
for name, rows in call['tables'].items():
    columns = list(rows[0])
    c.execute('create table %s (%s)' % (name, ','.join(columns)))
    c.executemany('insert into %s values (%s)' % (name, ','.join('?' * len(columns))),
                  [tuple(row.values()) for row in rows])
cursor = c.execute(call['query'])
names = [d[0] for d in cursor.description]
answer = json.dumps([dict(zip(names, row)) for row in cursor])
print(json.dumps({'ms': (time.perf_counter() - began) * 1000, 'answer': json.loads(answer)}))
";

#[tokio::test]
async fn what_they_cost() {
    let deep = std::env::var_os("TOOLKEEP_DEEP").is_some();
    // A million rows fit into the tool's time limit of 10 s only with optimisation.
    let (rounds, rows) = match (deep, cfg!(debug_assertions)) {
        (true, false) => (100, 1_000_000),
        (true, true) => (100, 100_000),
        (false, _) => (5, 20_000),
    };
    let stage = Stage::new().await;
    let shell = median(&stage, "run_shell", &json!({"command": "true"}), rounds).await;
    let python =
        median(&stage, "python_eval", &json!({"expression": "sum(range(10))"}), rounds).await;
    let mut tables = String::new();
    for n in 0..rows {
        let comma = if n == 0 { "" } else { "," };
        let (city, amount) = (n % 97, n * 7 % 1000);
        write!(tables, r#"{comma}{{"id":{n},"city":"city {city}","amount":{amount}.5}}"#).unwrap();
    }
    let query = "select city, count(*) as n, sum(amount) as total from sales group by city order by total desc, city limit 3";
    let text = format!(r#"{{"query":"{query}","tables":{{"sales":[{tables}]}}}}"#);
    let file = stage.work.path().join("call.json");
    std::fs::write(&file, &text).unwrap();
    // Parses and validates the text as the gateway does, including its tree.
    let began = Instant::now();
    let args: Value = serde_json::from_str(&text).unwrap();
    let told = stage.call("sql_query", &args).await;
    let ours = began.elapsed();
    let answer = value(&told);
    let authority =
        Command::new("/usr/bin/python3").args(["-c", AUTHORITY]).arg(&file).output().unwrap();
    let authority: Value = serde_json::from_slice(&authority.stdout).unwrap();
    assert_eq!(answer, authority["answer"]);
    println!("run_shell of `true`: {shell:?} median of {rounds}");
    println!("python_eval of a short expression, warm: {python:?} median of {rounds}");
    println!(
        "sql_query over {rows} rows ({} MB): {ours:?}; Python: {} ms",
        text.len() >> 20,
        authority["ms"]
    );
}
