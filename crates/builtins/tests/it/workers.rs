//! Tests of the workers: reuse, limits and replacement after a crash.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::calls::{Stage, value};

#[tokio::test]
async fn many_calls_at_once_are_all_answered() {
    let stage = Stage::new().await;
    let calls = (0..40).map(|n| {
        let args = json!({"query": format!("select {n} + 1 as n")});
        let stage = &stage;
        async move { value(&stage.call("sql_query", &args).await) }
    });
    let answers = futures_util::future::join_all(calls).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer, &json!([{"n": n + 1}]));
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_takes_his_worker_along_and_no_other() {
    let stage = Stage::new().await;
    let endless = json!({"query": "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c"});
    for _ in 0..6 {
        let cancel = CancellationToken::new();
        let call = stage.tried("sql_query", &endless, &cancel);
        let (ended, ()) = tokio::join!(call, async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            cancel.cancel();
        });
        assert_eq!(ended.unwrap_err().code, tool::ErrorCode::Cancelled);
    }
    let next = stage.call("sql_query", &json!({"query": "select 1 as n"})).await;
    assert_eq!(value(&next), json!([{"n": 1}]));
}

#[tokio::test]
async fn tables_of_one_call_are_not_there_for_the_next() {
    let stage = Stage::new().await;
    let args = json!({"query": "select count(*) as n from t", "tables": {"t": [{"a": 1}]}});
    assert_eq!(value(&stage.call("sql_query", &args).await), json!([{"n": 1}]));
    let told = stage.call("sql_query", &json!({"query": "select count(*) from t"})).await;
    assert!(told.is_error, "{told:?}");
}

/// SQLite sorts large sets through temporary files, of which the sandbox has none.
#[tokio::test]
async fn more_is_sorted_than_is_kept_at_a_time() {
    let stage = Stage::new().await;
    let numbers =
        "with recursive c(x) as (select 1 union all select x + 1 from c where x < 150000)";
    let sorted = format!(
        "{numbers} select count(*) as n, sum(x * p) as s from (select x, row_number() over (order by p) as p from \
         (select x, hex(x * 7919 % 150001) || 'a pad that makes it larger' as p from c))"
    );
    let found = value(&stage.call("sql_query", &json!({"query": sorted})).await);
    assert_eq!(found[0]["n"], 150_000, "{found}");
    let wide = format!("{numbers} select count(distinct x || '{}') as n from c", "x".repeat(50));
    assert_eq!(
        value(&stage.call("sql_query", &json!({"query": wide})).await),
        json!([{"n": 150_000}])
    );
}
