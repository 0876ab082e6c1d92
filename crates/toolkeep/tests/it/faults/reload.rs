//! A configuration that changes fifty times under load, and is broken every other time: what did not
//! change never notices, the last good one stays, and the fault is shown.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::child;
use crate::support::client::{Client, Reply};
use crate::support::home::{Home, TOOLS};
use crate::support::marks::{carriers, mark};
use crate::support::module::{Manner, Module};
use crate::support::server::serve;

/// Changes, in rounds of five.
const CHANGES: usize = 50;
/// What stays, called all the time.
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
    let (module, mark) = (Module::start("good", Manner::Good).await, mark());
    let steady = format!(
        "version: 1\nsources:\n  - {{ name: local, tools: ./tools.yaml }}\n  \
         - {{ name: good, module: '{}' }}\n{}",
        module.url(),
        child::source("child", "echo", &mark)
    );
    let draft = Draft { steady };
    let home = Home::new(&draft.with("extra"));
    home.write("tools.yaml", TOOLS);
    home.write("extra.yaml", &TOOLS.replace("name: save", "name: extra"));
    let server = serve(&home).await;
    let owner = server.owner();
    let children = carriers(&mark);
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
    assert_eq!((carriers(&mark), children.len()), (children, 1), "the child was left running");
    // Control: the same calls do notice when their sources are taken away.
    put(&home, "version: 1\n");
    let gone = || async { server.agent().call(STEADY[0], &json!({})).await.status == 404 };
    while !gone().await {
        sleep(Duration::from_millis(20)).await;
    }
    assert!(server.stop().await.success());
}

/// Makes one change and waits until it is seen. Answers the extra source of what counts then.
async fn change(home: &Home, draft: &Draft, owner: &Client, (n, good): (usize, String)) -> String {
    let new = format!("extra{n}");
    home.write(&format!("{new}.yaml"), &TOOLS.replace("name: save", &format!("name: {new}")));
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
    taken(owner, &new).await;
    new
}

/// Writes the file anew and puts it in the place of the old one.
fn put(home: &Home, text: &str) {
    home.write("toolkeep.new", text);
    fs::rename(home.path("toolkeep.new"), home.config()).unwrap();
}

/// As Kubernetes does: the file is a link into a folder that is itself a link, and that link is
/// swapped.
fn swap(home: &Home, text: &str, n: usize) {
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
async fn taken(owner: &Client, new: &str) {
    owner.source_that(new, |source| source["state"] == "ok").await;
    assert_eq!(extras(owner).await, [new]);
    assert_eq!(owner.source("configuration").await, None);
    let reply = owner.call(new, &json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// The last good configuration counts, and the fault is shown with its place.
async fn fault_is_shown(owner: &Client, good: String, message: &str) -> String {
    let shown = |source: &Value| {
        let problem = source["problems"][0].to_string();
        problem.contains(message) && problem.contains("toolkeep.yaml")
    };
    owner.source_that("configuration", shown).await;
    assert_eq!(extras(owner).await, [good.as_str()]);
    let reply = owner.call(&good, &json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    good
}

/// Calls of what stays, until told to stop; how many there were, and those that failed.
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

/// Most of a configuration counts at once; the rest says that it does not.
#[tokio::test]
async fn what_counts_only_after_a_restart_is_told() {
    let home = Home::new("version: 1\n");
    let server = serve(&home).await;
    let told = async |words: &str| {
        while !server.said().contains(words) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    // The control: this counts at once, and nobody is sent to restart anything.
    put(&home, "version: 1\npolicy: { deny: [echo] }\n");
    told("configuration taken").await;
    assert_eq!(server.agent().call("echo", &json!({})).await.code(), "unknown_tool");
    assert!(!server.said().contains("after a restart"), "{}", server.said());
    put(&home, "version: 1\npolicy: {}\nlimits: { calls: 7 }\n");
    told("this change counts after a restart of the server key=\"limits\"").await;
    assert!(server.stop().await.success());
}
