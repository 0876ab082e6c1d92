//! SQL that accesses files or never ends.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::shared_data::read_rows;

use super::marks;
use crate::calls::{Stage, value};

/// Returns the SQL of a row; some rows are compressed.
fn sql(row: &Value) -> Option<String> {
    if let Some(sql) = row["sql"].as_str() {
        return Some(sql.to_owned());
    }
    let packed = STANDARD.decode(row["sql_zlib_b64"].as_str()?).unwrap();
    let mut sql = String::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_string(&mut sql).unwrap();
    Some(sql)
}

#[tokio::test]
async fn no_query_reaches_a_file_or_takes_for_ever() {
    let rows = read_rows("attacks/sql_attacks.jsonl");
    let stage = Stage::new().await;
    let many: Vec<_> = (0..300).map(|n| json!({"x": n.to_string().repeat(20)})).collect();
    let (mut ran, mut refused) = (0, 0);
    for row in &rows {
        let sql = sql(row).unwrap_or_else(|| panic!("{} has no query", row["id"]));
        let args = json!({"query": sql, "tables": {"t": many, "table_name": [{"column_name": 1}]}});
        let began = Instant::now();
        let told = stage.call("sql_query", &args).await;
        // The limit is ten seconds; the machine may be busy.
        assert!(began.elapsed() < Duration::from_secs(20), "{}: {:?}", row["id"], began.elapsed());
        let words = value(&told).to_string();
        assert!(!words.contains("root:") && words.len() < 1 << 20, "{}: {words:.200}", row["id"]);
        ran += 1;
        refused += usize::from(told.is_error);
    }
    assert!(ran == rows.len() && refused > 0 && refused < ran, "{refused} of {ran} refused");
    assert_eq!(marks(), [] as [PathBuf; 0]);
    let next = stage.call("sql_query", &json!({"query": "select 1 as n"})).await;
    assert_eq!(value(&next), json!([{"n": 1}]));
    println!("sql_attacks: {ran} rows, {refused} refused, 0 files");
}

/// Control: unrestricted SQLite creates the files.
#[test]
fn plain_sqlite_makes_the_files() {
    let rows = read_rows("attacks/sql_attacks.jsonl");
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    for row in
        rows.iter().filter_map(|row| row["sql"].as_str()).filter(|sql| sql.contains("gw_pwned"))
    {
        let plain = Connection::open_in_memory().unwrap();
        // Errors of the second statement are acceptable.
        drop(plain.execute_batch(&row.replace("/tmp", &place)));
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().count() >= 2);
}
