//! Tests of a configuration that changes fifty times under load, half of them broken: unchanged
//! parts do not notice, the last valid version stays active.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::http_module::{Module, ModuleBehavior};
use crate::support::installation::{Installation, TOOL_FILE};
use crate::support::mcp_source;
use crate::support::process_marks::{marked_processes, new_mark};
use crate::support::rest_client::{Client, Reply};
use crate::support::server_process::start_server;

/// Changes, in rounds of five.
const CHANGES: usize = 50;
/// Unchanged parts, called continuously.
const STEADY: [&str; 4] = ["save", "good.work", "child.echo", "echo"];

/// A configuration in the making.
struct Draft {
    /// The sources that are in each.
    steady: String,
}

impl Draft {
    /// With one more source, whose one tool is called like it.
    fn with(&self, extra: &str) -> String {
        format!("{}  - {{ name: {extra}, tools: ./{extra}.yaml }}\n", self.steady)
    }

    /// The text of [`with`](Self::with), broken off inside its last source.
    fn half(&self, extra: &str) -> String {
        let mut text = self.with(extra);
        text.truncate(text.len() - extra.len());
        text
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_did_not_change_never_notices_a_changing_configuration() {
    let (module, mark) = (Module::start("good", ModuleBehavior::Good).await, new_mark());
    let steady = format!(
        "version: 1\nsources:\n  - {{ name: local, tools: ./tools.yaml }}\n  \
         - {{ name: good, module: '{}' }}\n{}",
        module.url(),
        mcp_source::source("child", "echo", &mark)
    );
    let draft = Draft { steady };
    let home = Installation::new(&draft.with("extra"));
    home.write("tools.yaml", TOOL_FILE);
    home.write("extra.yaml", &TOOL_FILE.replace("name: save", "name: extra"));
    let server = start_server(&home).await;
    let owner = server.owner();
    let children = marked_processes(&mark);
    let stop = CancellationToken::new();
    let callers = load(&server.agent(), &stop);
    let mut good = "extra".to_owned();
    for n in 0..CHANGES {
        good = change(&home, &draft, &owner, (n, good)).await;
    }
    stop.cancel();
    let (mut calls, mut failed) = (0, Vec::new());
    for (done, wrong) in callers.join_all().await {
        calls += done;
        failed.extend(wrong);
    }
    println!("reload: {CHANGES} changes under {calls} calls, {} failed", failed.len());
    assert!(failed.is_empty() && calls > CHANGES, "{failed:?}");
    assert_eq!(
        (marked_processes(&mark), children.len()),
        (children, 1),
        "the child was left running"
    );
    // Control: the same calls fail when their sources are removed.
    put(&home, "version: 1\n");
    let gone = || async { server.agent().call(STEADY[0], &json!({})).await.status == 404 };
    while !gone().await {
        sleep(Duration::from_millis(20)).await;
    }
    assert!(server.stop().await.success());
}

/// Makes one change and waits until it is seen. Answers the extra source of what counts then.
async fn change(
    home: &Installation,
    draft: &Draft,
    owner: &Client,
    (n, good): (usize, String),
) -> String {
    let new = format!("extra{n}");
    home.write(&format!("{new}.yaml"), &TOOL_FILE.replace("name: save", &format!("name: {new}")));
    match n % 5 {
        0 => put(home, &draft.with(&new)),
        1 => {
            home.write("toolkeep.yaml", &format!("{}  - [ {{", draft.with(&new)));
            return fault_is_shown(owner, good, "toolkeep.yaml").await;
        }
        2 => {
            home.write("toolkeep.yaml", &draft.half(&new));
            if n % 2 == 0 {
                fault_is_shown(owner, good, "").await;
            }
            home.write("toolkeep.yaml", &draft.with(&new));
        }
        3 => {
            let wrong = draft.with(&new).replace("  - { name: local,", "  - { nam: local,");
            put(home, &wrong);
            return fault_is_shown(owner, good, "name").await;
        }
        _ => swap(home, &draft.with(&new), n),
    }
    wait_until_applied(owner, &new).await;
    new
}

/// Writes a new file and replaces the old one with it.
fn put(home: &Installation, text: &str) {
    home.write("toolkeep.new", text);
    fs::rename(home.path("toolkeep.new"), home.config()).unwrap();
}

/// As Kubernetes does: the file is a link into a folder that is itself a link, and that link is
/// swapped.
fn swap(home: &Installation, text: &str, n: usize) {
    let folder = format!("version{n}");
    fs::create_dir(home.path(&folder)).unwrap();
    home.write(&format!("{folder}/toolkeep.yaml"), text);
    symlink(&folder, home.path("..new")).unwrap();
    fs::rename(home.path("..new"), home.path("..data")).unwrap();
    if !home.config().is_symlink() {
        symlink("..data/toolkeep.yaml", home.path("link.new")).unwrap();
        fs::rename(home.path("link.new"), home.config()).unwrap();
    }
}

async fn extras(owner: &Client) -> Vec<String> {
    let sources = owner.get("/v1/sources").await.body["sources"].take();
    let names = sources.as_array().unwrap().iter().filter_map(|source| source["name"].as_str());
    names.filter(|name| name.starts_with("extra")).map(str::to_owned).collect()
}

/// The new configuration counts, as a whole, and no fault is shown any more.
async fn wait_until_applied(owner: &Client, new: &str) {
    owner.wait_for_source(new, |source| source["state"] == "ok").await;
    assert_eq!(extras(owner).await, [new]);
    assert_eq!(owner.find_source("configuration").await, None);
    let reply = owner.call(new, &json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// The last good configuration counts, and the fault is shown with its place.
async fn fault_is_shown(owner: &Client, good: String, message: &str) -> String {
    let shown = |source: &Value| {
        let problem = source["problems"][0].to_string();
        problem.contains(message) && problem.contains("toolkeep.yaml")
    };
    owner.wait_for_source("configuration", shown).await;
    assert_eq!(extras(owner).await, [good.as_str()]);
    let reply = owner.call(&good, &json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    good
}

/// Calls the unchanged parts until it is stopped. Returns the number of calls and the failed ones.
fn load(agent: &Client, stop: &CancellationToken) -> JoinSet<(usize, Vec<Reply>)> {
    let mut callers = JoinSet::new();
    for tool in STEADY {
        let (agent, stop) = (agent.clone(), stop.clone());
        callers.spawn(async move {
            let (mut calls, mut failed) = (0, Vec::new());
            while !stop.is_cancelled() {
                let reply = agent.call(tool, &json!({})).await;
                calls += 1;
                if reply.status != 200 {
                    failed.push(reply);
                }
            }
            (calls, failed)
        });
    }
    callers
}

/// Most of a configuration applies at once; other parts report that they need a restart.
#[tokio::test]
async fn what_counts_only_after_a_restart_is_told() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    let told = async |words: &str| {
        while !server.log_text().contains(words) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    // Control: this applies at once, without a request to restart.
    put(&home, "version: 1\npolicy: { deny: [echo] }\n");
    told("configuration applied").await;
    assert_eq!(server.agent().call("echo", &json!({})).await.code(), "unknown_tool");
    assert!(!server.log_text().contains("restart the server"), "{}", server.log_text());
    put(&home, "version: 1\npolicy: {}\nlimits: { calls: 7 }\n");
    told("restart the server to apply this change key=\"limits\"").await;
    assert!(server.stop().await.success());
}
