//! Observers that list and call continuously, and what they observed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{EXTRA, POOL};
use crate::support::rest_client::Client;

/// Called all the time; each is in every state.
const STEADY: [&str; 4] = ["save", "good.work", "always", "echo"];
/// Between two calls of one caller: the load shall be there, and not be all.
const BREATH: Duration = Duration::from_millis(10);

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct ObservedLists {
    pub(crate) listings: usize,
    /// States that listings showed, by the changes they are from.
    pub(crate) whole: usize,
    pub(crate) calls: Vec<String>,
    pub(crate) wrong: Vec<String>,
}

/// Problems of a listing, compared with the `newest` changes seen before: no listing may be older.
pub(crate) fn faults(listed: &Value, newest: &mut (usize, usize)) -> Vec<String> {
    let tools = listed["tools"].as_array().into_iter().flatten();
    let names: BTreeSet<_> = tools.filter_map(|tool| tool["name"].as_str()).collect();
    let mut faults: Vec<_> = STEADY
        .iter()
        .filter(|name| !names.contains(*name))
        .map(|name| format!("`{name}` is missing"))
        .collect();
    faults.extend(names.contains("secret").then(|| "`secret` is there".to_owned()));
    let numbered = |kind: &str, all: usize, before: &mut usize| {
        let mut of_change = BTreeMap::<usize, usize>::new();
        let own = names.iter().filter_map(|name| name.strip_prefix(kind)?.split_once('_'));
        own.for_each(|(change, _)| *of_change.entry(change.parse().unwrap()).or_default() += 1);
        let whole = of_change.len() == 1 && of_change.values().all(|found| *found == all);
        let newest = of_change.keys().max().copied().unwrap_or(*before);
        let back = newest < *before;
        *before = newest;
        // A source that comes with a configuration may not be there yet; the other always is.
        let absent = of_change.is_empty() && kind == "extra";
        (back || !(whole || absent)).then(|| format!("of `{kind}` there are {of_change:?}"))
    };
    faults.extend(numbered("pool", POOL, &mut newest.0));
    faults.extend(numbered("extra", EXTRA, &mut newest.1));
    faults
}

pub(crate) fn begin(
    agent: &Client,
    owner: &Client,
    stop: &CancellationToken,
) -> JoinSet<ObservedLists> {
    let mut all = JoinSet::new();
    for client in [agent, owner] {
        all.spawn(list(client.clone(), stop.clone()));
        all.spawn(try_denied(client.clone(), stop.clone()));
    }
    for tool in STEADY {
        all.spawn(call(agent.clone(), tool, stop.clone()));
    }
    all
}

pub(crate) async fn end(all: JoinSet<ObservedLists>) -> ObservedLists {
    let mut sum = ObservedLists::default();
    for seen in all.join_all().await {
        sum.listings += seen.listings;
        sum.whole = sum.whole.max(seen.whole);
        sum.calls.extend(seen.calls);
        sum.wrong.extend(seen.wrong);
    }
    sum
}

async fn list(client: Client, stop: CancellationToken) -> ObservedLists {
    let (mut seen, mut newest, mut whole) = (ObservedLists::default(), (0, 0), BTreeSet::new());
    while !stop.is_cancelled() {
        let reply = client.get("/v1/tools?limit=1000").await;
        seen.listings += 1;
        seen.wrong.extend(faults(&reply.body, &mut newest));
        whole.insert(newest);
        sleep(BREATH).await;
    }
    seen.whole = whole.len();
    seen
}

/// A denied tool is unknown, whatever the files contain.
async fn try_denied(client: Client, stop: CancellationToken) -> ObservedLists {
    let mut seen = ObservedLists::default();
    while !stop.is_cancelled() {
        let reply = client.call("secret", &json!({})).await;
        if reply.code() != "unknown_tool" {
            seen.wrong.push(format!("`secret` was called: {reply:?}"));
        }
        sleep(BREATH).await;
    }
    seen
}

async fn call(client: Client, tool: &'static str, stop: CancellationToken) -> ObservedLists {
    let mut seen = ObservedLists::default();
    while !stop.is_cancelled() {
        match client.try_call(tool, &json!({})).await {
            Ok(reply) if reply.status == 200 => seen.calls.push(reply.call_id().to_owned()),
            other => seen.wrong.push(format!("`{tool}`: {other:?}")),
        }
        sleep(BREATH).await;
    }
    seen
}

/// The calls that have not exactly one intent and one outcome on record.
pub(crate) async fn records(owner: &Client, calls: &[String]) -> Vec<String> {
    let mut found = HashMap::<String, [usize; 2]>::new();
    let mut cursor = String::new();
    loop {
        let page = owner.get(&format!("/v1/records?limit=1000{cursor}")).await.body;
        for record in page["records"].as_array().unwrap() {
            let kind = ["intent", "outcome"].iter().position(|kind| record["kind"] == *kind);
            if let (Some(kind), Some(call)) = (kind, record["call"].as_str()) {
                found.entry(call.to_owned()).or_default()[kind] += 1;
            }
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let once = |call: &&String| found.get(*call) != Some(&[1, 1]);
    let mut odd: Vec<_> = calls.iter().filter(once).cloned().collect();
    let different: BTreeSet<_> = calls.iter().collect();
    odd.extend((different.len() != calls.len()).then(|| "two calls have one id".to_owned()));
    odd
}
