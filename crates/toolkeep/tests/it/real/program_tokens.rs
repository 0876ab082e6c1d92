//! Measures the tokens of multi-step work: single calls of listed tools compared with tools that are
//! found by a search, and with one program, on third-party servers, counted with the vocabulary `o200k`.

use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

use super::fifteen_servers::gateway_peer::{GatewayPeer, Revision};
use super::installed_programs::{file, stdio};
use crate::real_support::{test_command, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

const SOURCES: [&str; 5] = ["time", "files", "sqlite", "git", "calculator"];

/// Work, the calls that do it one by one, and the program that does.
struct Task {
    what: &'static str,
    calls: Vec<(&'static str, Value)>,
    code: String,
    /// What a model searches for, one query for each sub-task.
    queries: &'static [&'static str],
}

fn tokens(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

fn tasks(home: &Installation) -> Vec<Task> {
    let folder = home.path("work").into_os_string().into_string().unwrap();
    let zones =
        ["Asia/Tokyo", "America/New_York", "Europe/Paris", "Australia/Sydney", "Asia/Kolkata"];
    let meeting = |zone: &&str| {
        let args =
            json!({ "source_timezone": "Etc/UTC", "time": "12:30", "target_timezone": zone });
        ("time.convert_time", args)
    };
    let read =
        |name: &str| ("files.read_text_file", json!({ "path": format!("{folder}/{name}.txt") }));
    let query =
        |table: &str| ("sqlite.read_query", json!({ "query": format!("SELECT * FROM {table}") }));
    let interest = |year: u32| {
        ("calculator.calculate", json!({ "expression": format!("1000 * 1.05 ** {year}") }))
    };
    let git = |tool| (tool, json!({ "repo_path": folder }));
    vec![
        Task {
            what: "a time in five cities",
            queries: &["convert a time between time zones"],
            calls: zones.iter().map(meeting).collect(),
            code: format!(
                "def at(zone):\n    t = time_convert_time(source_timezone='Etc/UTC', time='12:30', target_timezone=zone)\n    return t['target']['datetime']\n{{zone: at(zone) for zone in {zones:?}}}"
            ),
        },
        Task {
            what: "which of three files name a word",
            queries: &["read the text of a file"],
            calls: ["a", "b", "c"].map(read).into(),
            code: format!(
                "[n for n in 'abc' if 'hare' in str(files_read_text_file(path='{folder}/' + n + '.txt'))]"
            ),
        },
        Task {
            what: "how many rows of three tables name a word",
            queries: &["query rows of a database table"],
            calls: ["spring", "summer", "autumn"].map(query).into(),
            code: "{t: str(sqlite_read_query(query='SELECT * FROM ' + t)).count('hare') for t in ['spring', 'summer', 'autumn']}".to_owned(),
        },
        Task {
            what: "what changed in a repository",
            queries: &["status of a repository", "changes that are not staged", "log of commits"],
            calls: vec![git("git.git_status"), git("git.git_diff_unstaged"), git("git.git_log")],
            code: format!(
                "p = '{folder}'\nd = str(git_git_diff_unstaged(repo_path=p))\n[str(git_git_status(repo_path=p)).count('modified:'), d.count('+another'), str(git_git_log(repo_path=p)).count('Commit: ')]"
            ),
        },
        Task {
            what: "eight years of interest",
            queries: &["calculate an arithmetic expression"],
            calls: (1..=8).map(interest).collect(),
            code: "[calculator_calculate(expression=f'1000 * 1.05 ** {y}') for y in range(1, 9)]".to_owned(),
        },
    ]
}

/// Files, a repository and a database with something in them.
fn furnish(home: &Installation) {
    std::fs::create_dir(home.path("work")).unwrap();
    for (name, word) in [("a", "hare"), ("b", "owl"), ("c", "hare")] {
        let lines: Vec<String> =
            (0..60).map(|n| format!("{n}: seen at dusk, a {word}, near the mill")).collect();
        home.write(&format!("work/{name}.txt"), &lines.join("\n"));
    }
    let folder = home.path("work");
    for words in [
        "init -q -b main .",
        "add .",
        "-c user.name=A -c user.email=a@example.com commit -q -m begin",
    ] {
        assert!(
            test_command("git")
                .args(words.split(' '))
                .current_dir(&folder)
                .status()
                .unwrap()
                .success()
        );
    }
    home.write("work/b.txt", &"another line\n".repeat(80));
    let tables = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nfor t in ('spring', 'summer', 'autumn'):\n    c.execute(f'CREATE TABLE {t} (id INTEGER PRIMARY KEY, what TEXT, place TEXT)')\n    c.executemany(f'INSERT INTO {t} (what, place) VALUES (?, ?)', [('hare' if n % 3 else 'owl', f'field {n}') for n in range(40)])\nc.commit()\n";
    let made = test_command(file("venv-sqlite/bin/python"))
        .args(["-c", tables])
        .arg(home.path("t.db"))
        .status();
    assert!(made.unwrap().success());
}

fn configuration(home: &Installation) -> String {
    let at = |name: &str| home.path(name).into_os_string().into_string().unwrap();
    let words = |program: &str, args: &[&str]| {
        let args = args.iter().map(|&it| it.to_owned());
        std::iter::once(file(program)).chain(args).collect::<Vec<_>>()
    };
    let all = [
        stdio("time", &[]),
        stdio("filesystem", &[&at("work")]),
        words("venv-sqlite/bin/mcp-server-sqlite", &["--db-path", &at("t.db")]),
        words("venv-git/bin/mcp-server-git", &["--repository", &at("work")]),
        words("venv-calculator/bin/mcp-server-calculator", &[]),
    ];
    let source = |(name, words): (&str, Vec<String>)| {
        json!({
            "name": name, "chain": true, "read_only": true,
            "mcp": { "command": words[0], "args": words[1..] },
        })
    };
    let sources: Vec<Value> = SOURCES.into_iter().zip(all).map(source).collect();
    json!({ "version": 1, "sources": sources }).to_string()
}

/// All tools, page by page.
async fn all_tools(door: &mut GatewayPeer) -> Vec<Value> {
    let (mut all, mut asked) = (Vec::new(), json!({}));
    loop {
        let page = door.ask("tools/list", asked).await.unwrap();
        let mut page: Value = serde_json::from_str(page.get()).unwrap();
        all.append(page["tools"].as_array_mut().unwrap());
        let Some(next) = page["nextCursor"].as_str() else { return all };
        asked = json!({ "cursor": next });
    }
}

async fn called(door: &mut GatewayPeer, call: &Value) -> Value {
    let answer = door.ask("tools/call", call.clone()).await.unwrap();
    serde_json::from_str(answer.get()).unwrap()
}

fn text(result: &Value) -> String {
    let content = result["content"].as_array().unwrap();
    content.iter().filter_map(|it| it["text"].as_str()).collect()
}

/// Tokens of a task whose tools a search finds: the search and its results, then each call. Each
/// tool must be among the results.
async fn searched(door: &mut GatewayPeer, task: &Task) -> usize {
    let call = json!({ "name": "search_tools", "arguments": { "queries": task.queries } });
    let answer = text(&called(door, &call).await);
    let found: Value = serde_json::from_str(&answer).unwrap();
    let is_found = |tool: &str| {
        found["results"].as_array().unwrap().iter().any(|result| result["name"] == tool)
    };
    let mut sum = tokens(&call.to_string()) + tokens(&answer);
    for (tool, args) in &task.calls {
        assert!(is_found(tool), "{}: {tool} is not found: {answer}", task.what);
        let arguments = json!({ "name": tool, "arguments": args });
        let call = json!({ "name": "call_tool", "arguments": arguments });
        let answer = called(door, &call).await;
        assert_ne!(answer["isError"], true, "{tool}: {answer}");
        sum += tokens(&call.to_string()) + tokens(&text(&answer));
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_takes_fewer_tokens_than_its_calls_one_by_one() {
    let home = Installation::new("");
    furnish(&home);
    home.write("toolkeep.yaml", &configuration(&home));
    let server = start_server(&home).await;
    wait_for_sources(&server.owner()).await;
    let mut door = GatewayPeer::open(&server, "", Revision::Handshake).await;
    let listed = all_tools(&mut door).await;
    let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
    // The same tools on both sides: as a list, or as functions in one description.
    let of_programs = ["run_program", "program_status", "get_chainable_tools"];
    let others = listed.iter().filter(|it| !of_programs.contains(&name(it).as_str()));
    let list: usize = others.map(|it| tokens(&it.to_string())).sum();
    let run = listed.iter().find(|it| name(it) == "run_program").unwrap();
    let own = tokens(&run.to_string());
    let mut searching = GatewayPeer::open(&server, "?mode=search", Revision::Handshake).await;
    let three: usize =
        all_tools(&mut searching).await.iter().map(|it| tokens(&it.to_string())).sum();
    println!(
        "| task | calls | tools + calls one by one | search tools + search and calls | of it | run_program + one program | of it |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for task in tasks(&home) {
        let mut one_by_one = list;
        for (tool, args) in &task.calls {
            let call = json!({ "name": tool.replace('.', "_"), "arguments": args });
            let answer = called(&mut door, &call).await;
            assert_ne!(answer["isError"], true, "{tool}: {answer}");
            one_by_one += tokens(&call.to_string()) + tokens(&text(&answer));
        }
        let call = json!({ "name": "run_program", "arguments": { "code": task.code } });
        let answer = called(&mut door, &call).await;
        let told: Value = serde_json::from_str(&text(&answer)).unwrap();
        assert_eq!(told["status"], "succeeded", "{}: {told}", task.what);
        assert_eq!(told["tools_called"].as_array().unwrap().len(), task.calls.len(), "{told}");
        let program = own + tokens(&call.to_string()) + tokens(&text(&answer));
        let search = three + searched(&mut searching, &task).await;
        let [part, share] = [search, program].map(|it| it * 100 / one_by_one);
        let (calls, less, more) = (task.calls.len(), one_by_one - list, program - own);
        let found = search - three;
        println!(
            "| {} | {calls} | {list} + {less} | {three} + {found} | {part} % | {own} + {more} | {share} % |",
            task.what
        );
        assert!(search < one_by_one, "{}: {search} and {one_by_one}", task.what);
        assert!(program < one_by_one, "{}: {program} and {one_by_one}: {told}", task.what);
    }
    assert!(server.stop().await.success());
}
