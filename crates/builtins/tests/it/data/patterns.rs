//! Patterns that make others run for ever: here as names to fit and texts to find.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::rows;
use super::table::{Family, Row, text};
use crate::stage::Stage;

/// For one call, on a machine that does much else; the naive way would take years.
const LONG: Duration = Duration::from_secs(20);

pub(super) async fn run() -> Option<Family> {
    let rows = rows::<Row>("regex_dos.jsonl")?;
    let stage = Stage::new().await;
    let long = "a".repeat(200);
    fs::write(stage.work().join(&long), "").unwrap();
    let (mut tried, mut refused, mut slow, mut naive) = (0, 0, 0, 0);
    let bombs = [
        "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
        "**/**/**/**/**/b",
        "[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*!",
    ];
    let patterns = rows.iter().filter_map(|row| text(row, "pattern")).chain(bombs);
    for pattern in patterns {
        let began = Instant::now();
        let args = json!({ "path": ".", "pattern": pattern, "recursive": true });
        refused += usize::from(stage.call("list_directory", &args).await.is_err());
        let args = json!({ "data": [long], "query": pattern });
        refused += usize::from(stage.call("json_query", &args).await.is_err());
        tried += 2;
        slow += usize::from(began.elapsed() > LONG);
        naive += usize::from(doubles(pattern));
    }
    Some(Family {
        name: "patterns without end",
        tools: "list_directory, json_query",
        tried,
        refused,
        escapes: slow,
        naive,
    })
}

/// Whether what tries every way would try twice as many for each character: a repeated group of a repeated
/// part, or several `*` of a name in a row.
fn doubles(pattern: &str) -> bool {
    let nested = ["+)+", "*)*", "+)*", "*)+"].iter().any(|it| pattern.contains(it));
    nested || pattern.matches('*').count() > 12
}
