//! Patterns with catastrophic backtracking, as name patterns and search texts.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox::process::ProcessLauncher;
use serde_json::json;
use testkit::shared_data::read_rows_as;

use super::table::{Family, Row, text};
use crate::calls::BIN;
use crate::stage::Stage;

/// Limit of one call on a busy machine; an unprotected search would take years.
const LONG: Duration = Duration::from_secs(20);

pub(super) async fn run() -> Family {
    let rows = read_rows_as::<Row>("attacks/regex_dos.jsonl");
    let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec!["__launch".into()]);
    let stage = Stage::with(Some(launcher), None).await;
    let long = "a".repeat(200);
    fs::write(stage.work().join(&long), "").unwrap();
    let mut archive = tar::Builder::new(fs::File::create(stage.work().join("a.tar")).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(long.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, &long, long.as_bytes()).unwrap();
    archive.finish().unwrap();
    let (mut tried, mut refused, mut slow) = (0, 0, 0);
    let bombs = [
        "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
        "**/**/**/**/**/b",
        "[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*!",
    ];
    let patterns = rows.iter().filter_map(|row| text(row, "pattern")).chain(bombs);
    let deep = std::env::var_os("TOOLKEEP_DEEP").is_some_and(|word| word == "1");
    for (number, pattern) in patterns.enumerate() {
        let search = "import re\nre.search(p, s) is None";
        let calls = [
            ("list_directory", json!({ "path": ".", "pattern": pattern, "recursive": true })),
            (
                "archive_extract",
                json!({ "archive_name": "a.tar", "pattern": pattern, "into": "out" }),
            ),
            ("archive_search", json!({ "archive_name": "a.tar", "query": pattern })),
            (
                "sql_query",
                json!({ "query": format!("SELECT a GLOB '{0}' OR a LIKE '{0}' AS x FROM t", pattern.replace('\'', "''")), "tables": { "t": [{ "a": long }] } }),
            ),
            (
                "python_eval",
                json!({ "expression": search, "variables": { "p": pattern, "s": format!("{long}b") } }),
            ),
        ];
        for (tool, args) in calls {
            // Each may use the tool's whole time limit, so all of them run in deep tests only.
            if tool == "python_eval" && !deep && number % 8 > 0 {
                continue;
            }
            let began = Instant::now();
            refused += usize::from(stage.call(tool, &args).await.is_err());
            tried += 1;
            slow += usize::from(began.elapsed() > LONG);
        }
    }
    let naive = never_end(&rows.iter().filter_map(|row| text(row, "pattern")).collect::<Vec<_>>());
    Family {
        name: "patterns without end",
        tools: "list_directory, archive_extract, archive_search, sql_query, python_eval",
        control: "Python's `re` is still searching after 200 ms of processor time",
        tried,
        refused,
        escapes: slow,
        naive,
    }
}

/// Searches with each pattern for 200 ms of CPU time, and prints how many were still searching.
const SEARCH: &str = "
import json, re, signal, sys
class Late(Exception):
    pass
def late(signum, frame):
    raise Late
signal.signal(signal.SIGVTALRM, late)
ended, endless = 0, 0
for pattern in json.load(open(sys.argv[1])):
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.2)
    try:
        re.search(pattern, 'a' * 200 + '!')
        ended += 1
    except Late:
        endless += 1
    except (re.error, RecursionError, OverflowError):
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
print(endless if ended else 0)
";

/// Counts the patterns that a backtracking engine does not finish. Includes a plain pattern that
/// must finish.
fn never_end(patterns: &[&str]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patterns");
    let all: Vec<_> = patterns.iter().chain(&["b"]).collect();
    fs::write(&file, serde_json::to_string(&all).unwrap()).unwrap();
    let output = std::process::Command::new("python3")
        .args(["-c", SEARCH, file.to_str().unwrap()])
        .output()
        .expect("python3");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    told.trim().parse().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}
