use std::time::Duration;

use super::run_query;

fn ask(args: &str) -> Result<String, String> {
    let answered = run_query(args.as_bytes(), Duration::from_secs(5));
    answered.map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn values_keep_their_types() {
    let answer = ask(r#"{"query":"select typeof(a) t, a from x order by rowid","tables":{"x":[
            {"a":1},{"a":1.5},{"a":"10"},{"a":true},{"a":null},{"a":[1,{"b":2}]},{},
            {"a":18446744073709551615},{"a":"\u00e9\n"}]}}"#);
    let expected = concat!(
        r#"[{"t":"integer","a":1},{"t":"real","a":1.5},{"t":"text","a":"10"},{"t":"integer","a":1},"#,
        r#"{"t":"null","a":null},{"t":"text","a":"[1,{\"b\":2}]"},{"t":"null","a":null},"#,
        r#"{"t":"real","a":1.8446744073709552e+19},{"t":"text","a":"é\n"}]"#,
    );
    assert_eq!(answer.unwrap(), expected);
}

#[test]
fn columns_may_come_later_and_tables_be_empty() {
    let answer = ask(r#"{"tables":{"a b":[{"x":1},{"y":2,"x":3}],"none":[]},
            "query":"select *, (select count(*) from none) as n from \"a b\""}"#);
    assert_eq!(answer.unwrap(), r#"[{"x":1,"y":null,"n":0},{"x":3,"y":2,"n":0}]"#);
}

/// Rows are inserted in batches, and one by one when the table grows or ends.
#[test]
fn every_row_is_there_however_many_wait() {
    for rows in [1, 63, 64, 65, 200] {
        for late in [0, 1, 64, 100, 190] {
            let row = |n: usize| match n {
                n if n == late => format!(r#"{{"n":{n},"late":"x{n}"}}"#),
                n if n % 3 == 0 => format!(r#"{{"n":{n}}}"#),
                n => format!(r#"{{"text":"\"{n}","n":{n}}}"#),
            };
            let rows: Vec<_> = (0..rows).map(row).collect();
            let args = format!(
                r#"{{"query":"select * from t order by rowid","tables":{{"t":[{}]}}}}"#,
                rows.join(",")
            );
            let told: Vec<serde_json::Value> = serde_json::from_str(&ask(&args).unwrap()).unwrap();
            assert_eq!(told.len(), rows.len());
            for (told, given) in told.iter().zip(&rows) {
                let given: serde_json::Value = serde_json::from_str(given).unwrap();
                for (name, value) in told.as_object().unwrap() {
                    assert_eq!(
                        value,
                        given.get(name).unwrap_or(&serde_json::Value::Null),
                        "{given}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_sorted_may_be_more_than_is_kept_at_a_time() {
    let rows: Vec<_> = (0..60_000_u64)
        .map(|n| format!(r#"{{"n":{},"pad":"{:0>80}"}}"#, n * 7_919 % 60_000, n))
        .collect();
    let args = format!(
        r#"{{"query":"select count(*) as n, min(d) as least from (select n - lag(n) over (order by n) as d from (select * from t order by pad desc) where n > 0)","tables":{{"t":[{}]}}}}"#,
        rows.join(",")
    );
    assert_eq!(ask(&args).unwrap(), r#"[{"n":59999,"least":1}]"#);
}

#[test]
fn two_columns_of_one_name_are_told_apart() {
    assert_eq!(ask(r#"{"query":"select 1 as a, 2 as a"}"#).unwrap(), r#"[{"a":1,"a_2":2}]"#);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (args, says) in [
        (r#"{"query":"selec 1"}"#, "query: near \"selec\": syntax error"),
        (r#"{"query":"select * from nobody"}"#, "query: no such table: nobody"),
        (r#"{"query":"select 1; select 2"}"#, "query: only one statement"),
        (r#"{"query":""}"#, "query: it returns no rows"),
        (r#"{"query":"select 1","tables":[1]}"#, "tables: expected an object of lists of rows"),
        (r#"{"query":"select 1","tables":{"t":{}}}"#, "a list of rows"),
        (r#"{"query":"select 1","tables":{"t":[3]}}"#, "a row must be an object"),
        (r#"{"query":"select 1","tables":{"":[]}}"#, "is not a valid name"),
        (r#"{"query":"select 1","tables":{"sqlite_x":[]}}"#, "is reserved by SQLite"),
        (r#"{"query":"select 1","tables":{"t":[{"a":1,"A":2}]}}"#, "duplicate column"),
    ] {
        let told = ask(args).unwrap_err();
        assert!(told.contains(says), "{args}: {told}");
    }
}

#[test]
fn it_only_reads() {
    for sql in [
        "create table t(a)",
        "attach ':memory:' as x",
        "pragma user_version",
        "select * from pragma_database_list",
        "select load_extension('x')",
        "vacuum",
        "begin",
        "insert into x values (1)",
        "delete from x",
        "create temp view v as select 1",
        "analyze",
    ] {
        let args = serde_json::json!({ "query": sql, "tables": { "x": [{ "a": 1 }] } });
        let told = ask(&args.to_string()).unwrap_err();
        assert!(told.starts_with("query: "), "{sql}: {told}");
    }
}

#[test]
fn it_ends_in_time_and_in_size() {
    let endless = "with recursive c(x) as (select 1 union all select x+1 from c) select ";
    let late = run_query(
        format!(r#"{{"query":"{endless} count(*) from c"}}"#).as_bytes(),
        Duration::from_millis(50),
    );
    assert!(late.unwrap_err().contains("too long"));
    for (sql, says) in [
        (format!("{endless} x from c"), "more than 10000 rows"),
        (format!("{endless} hex(zeroblob(100000)) from c"), "more than 8388608 bytes"),
        ("select zeroblob(2000000000)".to_owned(), "too big"),
    ] {
        let told = ask(&format!(r#"{{"query":"{sql}"}}"#)).unwrap_err();
        assert!(told.contains(says), "{sql}: {told}");
    }
}
