//! The fifteen servers: how each is started and which calls it gets.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::backing_services::BackingServices;
use crate::real::installed_programs::{file, stdio};
use crate::real_support::{CommandOutput, test_command};
use crate::support::installation::Installation;
use crate::support::process_marks;

/// Separate folders for the servers behind Toolkeep and for the direct ones, so that a call's
/// changes on one side do not affect the other.
pub(super) struct Side {
    pub(super) word: &'static str,
    pub(super) folder: PathBuf,
    pub(super) mark: String,
}

impl Side {
    pub(super) fn new(home: &Installation, word: &'static str) -> Self {
        let folder = home.path(word);
        std::fs::create_dir_all(folder.join("repo")).unwrap();
        std::fs::create_dir_all(folder.join("home")).unwrap();
        std::fs::write(folder.join("a.txt"), "first\nsecond\n").unwrap();
        std::fs::write(folder.join("repo/a.txt"), "first\n").unwrap();
        for words in ["init -q -b main .", "add a.txt", "commit -q -m begin"] {
            CommandOutput::run_command(git(&folder.join("repo")).args(words.split(' ')))
                .expect_success();
        }
        Self { word, folder, mark: process_marks::new_mark() }
    }

    fn at(&self, name: &str) -> String {
        self.folder.join(name).into_os_string().into_string().unwrap()
    }

    /// Text for both sides, except for the side's own names.
    pub(super) fn neutral(&self, text: &str) -> String {
        text.replace(&self.at(""), "/FOLDER/").replace(&format!("of_{}", self.word), "of_SIDE")
    }
}

/// A commit that is identical wherever it is created.
fn git(folder: &Path) -> std::process::Command {
    let mut git = test_command("git");
    git.args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).current_dir(folder);
    git.env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z").env("GIT_CONFIG_SYSTEM", "/dev/null");
    git
}

/// One server.
pub(super) struct Upstream {
    pub(super) name: &'static str,
    pub(super) words: Vec<String>,
    env: Vec<(&'static str, String)>,
    pub(super) calls: Vec<Call>,
}

impl Upstream {
    /// Variables in its environment in addition to those of every program.
    pub(super) fn env(&self, side: &Side) -> impl Iterator<Item = (String, String)> {
        // Its own files are removed with the test.
        let home = ["HOME", "TMPDIR"].map(|name| (name.to_owned(), side.at("home")));
        let own: Vec<_> = self.env.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        own.into_iter().chain(home)
    }
}

/// One call.
pub(super) struct Call {
    pub(super) tool: &'static str,
    arguments: Value,
    /// Required content of its result, so that two failures do not count as equal.
    holds: &'static str,
    /// Content between these marks differs each time: a time, or an ID.
    varies: &'static [(&'static str, &'static str)],
}

impl Call {
    fn new(tool: &'static str, arguments: Value, holds: &'static str) -> Self {
        Self { tool, arguments, holds, varies: &[] }
    }

    fn varying(self, varies: &'static [(&'static str, &'static str)]) -> Self {
        Self { varies, ..self }
    }

    pub(super) fn params(&self) -> Value {
        json!({ "name": self.tool, "arguments": self.arguments })
    }

    pub(super) fn is_answered_by(&self, result: &str) -> bool {
        result.contains(self.holds) && !result.replace(' ', "").contains("\"isError\":true")
    }

    /// The result without what varies.
    pub(super) fn mask(&self, mut text: String) -> String {
        for (from, to) in self.varies {
            let mut parts = text.split(from);
            let first = parts.next().unwrap_or_default().to_owned();
            text = parts.fold(first, |kept, part| {
                let after = part.find(to).map_or(part, |end| part.split_at(end).1);
                format!("{kept}{from}{after}")
            });
        }
        text
    }
}

/// All servers, as one side starts and calls them.
pub(super) fn all(around: &BackingServices, side: &Side) -> Vec<Upstream> {
    let mut all = of_node(side);
    all.extend(of_python(around, side));
    all.extend(before_something(around, side));
    all
}

fn upstream(name: &'static str, words: Vec<String>, calls: Vec<Call>) -> Upstream {
    Upstream { name, words, env: Vec::new(), calls }
}

fn words(program: &[&str], args: &[&str]) -> Vec<String> {
    let args = args.iter().map(|&word| word.to_owned());
    program.iter().map(|path| file(path)).chain(args).collect()
}

fn of_node(side: &Side) -> Vec<Upstream> {
    let entity = json!({ "name": "Ada", "entityType": "person", "observations": ["wrote notes"] });
    let thought = json!({
        "thought": "Look first.", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1,
    });
    let sum = Call::new("get-sum", json!({ "a": 2, "b": 40 }), "42");
    let read = Call::new("read_text_file", json!({ "path": side.at("a.txt") }), "second");
    let create = Call::new("create_entities", json!({ "entities": [entity] }), "Ada");
    let think = Call::new("sequentialthinking", thought, "thoughtNumber");
    let mut memory = upstream(
        "memory",
        stdio("memory", &[]),
        vec![create, Call::new("read_graph", json!({}), "wrote notes")],
    );
    memory.env = vec![("MEMORY_FILE_PATH", side.at("memory.jsonl"))];
    vec![
        upstream("everything", stdio("everything", &["stdio"]), vec![sum]),
        upstream("filesystem", stdio("filesystem", &[&side.at("")]), vec![read]),
        memory,
        upstream("thinking", stdio("sequential-thinking", &[]), vec![think]),
    ]
}

fn of_python(around: &BackingServices, side: &Side) -> Vec<Upstream> {
    let repo = side.at("repo");
    let zones = json!({
        "source_timezone": "Etc/UTC", "time": "12:30", "target_timezone": "Asia/Tokyo",
    });
    let lines = json!({ "files": [{ "file_path": side.at("a.txt"), "ranges": [{ "start": 2 }] }] });
    let log = Call::new("git_log", json!({ "repo_path": repo, "max_count": 1 }), "begin");
    // The day is today's.
    let zones = Call::new("convert_time", zones, "+9.0h").varying(&[("datetime\\\": \\\"", "T")]);
    let page = Call::new("fetch", json!({ "url": around.page }), "9 to 17");
    let table = json!({ "query": "CREATE TABLE seen (id INTEGER PRIMARY KEY, what TEXT)" });
    let query = |sql: &str| json!({ "query": sql });
    vec![
        upstream(
            "git",
            words(&["venv-git/bin/mcp-server-git"], &["--repository", &repo]),
            vec![log],
        ),
        upstream("time", stdio("time", &[]), vec![zones]),
        upstream(
            "fetch",
            words(&["venv-fetch/bin/mcp-server-fetch"], &["--allow-private-ips"]),
            vec![page],
        ),
        upstream(
            "sqlite",
            words(&["venv-sqlite/bin/mcp-server-sqlite"], &["--db-path", &side.at("t.db")]),
            vec![
                Call::new("create_table", table, "success"),
                Call::new("write_query", query("INSERT INTO seen (what) VALUES ('a hare')"), "1"),
                Call::new("read_query", query("SELECT id, what FROM seen"), "a hare"),
            ],
        ),
        upstream(
            "duckdb",
            words(&["venv-duckdb/bin/mcp-server-duckdb"], &["--db-path", &side.at("d.duckdb")]),
            vec![Call::new("query", query("SELECT 40 + 2 AS answer"), "42")],
        ),
        upstream(
            "editor",
            words(&["venv-editor/bin/mcp-text-editor"], &[]),
            vec![Call::new("get_text_file_contents", lines, "second")],
        ),
        upstream(
            "calculator",
            words(&["venv-calculator/bin/mcp-server-calculator"], &[]),
            vec![Call::new("calculate", json!({ "expression": "2**10 + 1" }), "1025")],
        ),
    ]
}

fn before_something(around: &BackingServices, side: &Side) -> Vec<Upstream> {
    // The connection that its command line names.
    let place = json!({
        "connectionId": "preconfigured",
        "database": format!("of_{}", side.word),
        "collection": "seen",
    });
    let with = |key: &str, value: Value| {
        let mut place = place.clone();
        place[key] = value;
        place
    };
    let key = format!("of_{}", side.word);
    let config = side.at("kubeconfig");
    std::fs::write(&config, kubeconfig(&around.nowhere)).unwrap();
    let mut kubernetes = upstream(
        "kubernetes",
        words(&["bin/node", "npm-kubernetes/node_modules/kubernetes-mcp-server/bin/index.js"], &[]),
        vec![Call::new("configuration_view", json!({}), "current-context")],
    );
    kubernetes.env = vec![("KUBECONFIG", config)];
    let mongodb = "npm-mongodb/node_modules/mongodb-mcp-server/dist/index.js";
    let mongodb = words(
        &["bin/node", mongodb],
        &["--connectionString", &around.mongodb, "--telemetry", "disabled"],
    );
    // Database content is between random marks.
    let marked = &[("untrusted-user-data-", ">")];
    let documents = json!([{ "_id": 1, "what": "a hare" }, { "_id": 2, "what": "an owl" }]);
    vec![
        upstream(
            "redis",
            words(&["venv-redis/bin/redis-mcp-server"], &["--url", &around.redis]),
            vec![
                Call::new("set", json!({ "key": key, "value": "a hare" }), "of_"),
                Call::new("get", json!({ "key": key }), "a hare"),
            ],
        ),
        upstream(
            "mongodb",
            mongodb,
            vec![
                Call::new("insert-many", with("documents", documents), "2").varying(marked),
                Call::new("find", with("filter", json!({ "_id": 2 })), "an owl").varying(marked),
            ],
        ),
        playwright(around),
        kubernetes,
    ]
}

fn playwright(around: &BackingServices) -> Upstream {
    let browser = words(
        &["bin/node", "npm-playwright/node_modules/@playwright/mcp/cli.js"],
        &["--headless", "--no-sandbox", "--isolated", "--executable-path", &around.chromium],
    );
    upstream(
        "playwright",
        browser,
        vec![
            // It keeps what it saw in a file named by the time.
            Call::new("browser_navigate", json!({ "url": around.page }), "Opening hours")
                .varying(&[("page-", ".yml")]),
            Call::new(
                "browser_evaluate",
                json!({ "function": "() => document.body.innerText" }),
                "9 to 17",
            ),
        ],
    )
}

/// No server listens at its address: the calls use only the file.
fn kubeconfig(address: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{ "name": "near", "cluster": { "server": address } }],
        "users": [{ "name": "me", "user": { "token": "none" } }],
        "contexts": [{ "name": "here", "context": { "cluster": "near", "user": "me" } }],
    })
    .to_string()
}
