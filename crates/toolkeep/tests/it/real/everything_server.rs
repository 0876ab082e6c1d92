//! Test that `server-everything` behind `/mcp` gives the TypeScript SDK what it gives the SDK alone: item
//! by item, with a list of the differences and their reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use serde_json::{Value, json};

use super::installed_programs::{file, stdio};
use crate::real_support::{files, test_command};
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

/// Name of the source, which is in front of the names of its tools and prompts at `/mcp`.
const SOURCE: &str = "everything";

/// Sections of what the client saw, with the number of their items.
const SECTIONS: [(&str, usize); 11] = [
    ("server", 4),
    ("tools", 17),
    ("prompts", 4),
    // Seven documents, and one that a tool adds.
    ("resources", 8),
    ("templates", 2),
    // Calls of all tools but those that turn updates and log lines on, and the list of the others.
    ("calls", 26),
    ("prompts fetched", 7),
    ("resources read", 10),
    ("notifications", 1),
    ("completions", 9),
    ("subscriptions", 10),
];
/// Items of the section `logging`.
const LOGGING: usize = 11;

/// Something that `/mcp` answers in another way than the server alone.
struct Difference {
    section: &'static str,
    item: &'static str,
    reason: &'static str,
    /// Whether the two values, alone and behind `/mcp`, differ as the reason says.
    is_expected: fn(&Value, &Value) -> bool,
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        section: "server",
        item: "info",
        reason: "the server at `/mcp` is Toolkeep, with all its sources",
        is_expected: |alone, through| {
            alone["name"] == "mcp-servers/everything" && through["name"] == "toolkeep"
        },
    },
    Difference {
        section: "server",
        item: "instructions",
        reason: "instructions of one source would speak for all; `/mcp/everything` has them",
        is_expected: |alone, through| alone.is_string() && through.is_null(),
    },
    Difference {
        section: "server",
        item: "capabilities",
        reason: "clients of 2025-11-25 create no tasks at Toolkeep, which runs them for their calls",
        is_expected: |alone, through| {
            // Toolkeep's own guides are skills.
            let (mut rest, mut through) = (alone.clone(), through.clone());
            rest.as_object_mut().unwrap().remove("tasks").is_some()
                && through.as_object_mut().unwrap().remove("extensions").is_some()
                && rest == through
        },
    },
    Difference {
        section: "calls",
        item: "22 simulate-research-query",
        reason: "a result names its task to clients that created one",
        is_expected: |alone, through| {
            let mut rest = alone.clone();
            rest.as_object_mut().unwrap().remove("_meta").is_some() && rest == *through
        },
    },
    Difference {
        section: "calls",
        item: "23 simulate-research-query",
        reason: "a result names its task to clients that created one",
        is_expected: |alone, through| {
            let mut rest = alone.clone();
            rest["value"].as_object_mut().unwrap().remove("_meta").is_some() && rest == *through
        },
    },
    Difference {
        section: "calls",
        item: "3 get-env",
        reason: "the environment of a process is made by the program that starts it",
        is_expected: |alone, through| {
            let variables = |result: &Value| -> Value {
                serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
            };
            variables(alone)["EVERYTHING"] == "both sides"
                && variables(through)["EVERYTHING"] == "both sides"
        },
    },
    Difference {
        section: "logging",
        item: "a line outside of calls",
        reason: "a log line belongs to a client if the protocol or the connection names its call",
        is_expected: |alone, through| alone[0]["level"] == "info" && *through == json!([]),
    },
];

/// Runs the client against the server alone, or against an address with a key, and returns what it saw.
fn what_client_sees(prefix: &str, words: &[String], key: Option<&str>) -> Value {
    let mut node = test_command(file("bin/node"));
    node.arg(files().join("everything.mjs")).args([&file("npm-sdk/node_modules"), prefix]);
    node.args(words).envs(key.map(|key| ("TOOLKEEP_KEY", key)));
    let ended = node.current_dir(std::env::temp_dir()).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{words:?}: {out}\n{err}");
    serde_json::from_str(&out).unwrap()
}

/// One item of one section.
type Item = (String, String);

/// All items with their values.
fn items(seen: &Value) -> BTreeMap<Item, &Value> {
    let sections = seen.as_object().unwrap();
    let all = sections.iter().flat_map(|(section, items)| {
        let items = items.as_object().unwrap();
        items.iter().map(move |(item, value)| ((section.clone(), item.clone()), value))
    });
    all.collect()
}

/// The items that differ, or that one side lacks.
fn find_differences(alone: &Value, through: &Value) -> BTreeSet<Item> {
    let (alone, through) = (items(alone), items(through));
    let names: BTreeSet<&Item> = alone.keys().chain(through.keys()).collect();
    names.into_iter().filter(|name| alone.get(*name) != through.get(*name)).cloned().collect()
}

#[test]
fn a_changed_item_and_a_missing_one_are_differences() {
    let seen = json!({"calls": {"a": {"n": 1}, "b": 2}, "tools": {"t": {}}});
    assert_eq!(find_differences(&seen, &seen), BTreeSet::new());
    let name = |section: &str, item: &str| BTreeSet::from([(section.to_owned(), item.to_owned())]);
    let changed = json!({"calls": {"a": {"n": 1.5}, "b": 2}, "tools": {"t": {}}});
    assert_eq!(find_differences(&seen, &changed), name("calls", "a"));
    let missing = json!({"calls": {"a": {"n": 1}, "b": 2}, "tools": {}});
    assert_eq!(find_differences(&seen, &missing), name("tools", "t"));
    assert_eq!(find_differences(&missing, &seen), name("tools", "t"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_everything_behind_mcp_gives_an_sdk_client_what_it_gives_alone() {
    let words = stdio("everything", &["stdio"]);
    let home = Installation::new("");
    let (command, args) = words.split_first().unwrap();
    let mcp = json!({ "command": command, "args": args, "env": { "EVERYTHING": "both sides" } });
    // A resource that a tool adds is listed without a review.
    let source = json!({
        "name": SOURCE, "mcp": mcp, "trust": "full", "trust_annotations": true, "destructive": false,
    });
    home.write("toolkeep.yaml", &json!({ "version": 1, "sources": [source] }).to_string());
    let server = start_server(&home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let url = format!("{}/mcp?names=native", server.url);
    let (alone, through) = tokio::task::spawn_blocking(move || {
        let direct = [vec!["stdio".to_owned()], words].concat();
        let behind = ["http".to_owned(), url];
        (
            what_client_sees("", &direct, None),
            what_client_sees(&format!("{SOURCE}."), &behind, Some(key.trim())),
        )
    })
    .await
    .unwrap();
    assert!(server.stop().await.success());

    for (section, count) in SECTIONS.into_iter().chain([("logging", LOGGING)]) {
        let found = alone[section].as_object().map_or(0, serde_json::Map::len);
        assert_eq!(found, count, "items of `{section}` of the server alone: {}", alone[section]);
    }
    for section in ["calls", "prompts fetched"] {
        assert_eq!(alone[section]["untouched"], json!([]), "each item of `{section}` is used");
    }
    let found = find_differences(&alone, &through);
    let (alone, through) = (items(&alone), items(&through));
    for name in &found {
        let (section, item) = name;
        let known = DIFFERENCES.iter().find(|it| it.section == section && it.item == item);
        let values = (alone.get(name), through.get(name));
        let is_expected = match (known, values) {
            (Some(known), (Some(alone), Some(through))) => (known.is_expected)(alone, through),
            _ => false,
        };
        assert!(is_expected, "{section}: {item}\nalone: {:?}\nbehind: {:?}", values.0, values.1);
    }
    for Difference { section, item, reason, .. } in DIFFERENCES {
        let name = ((*section).to_owned(), (*item).to_owned());
        assert!(found.contains(&name), "{section}: {item} is the same; remove it from the list");
        println!("{section}, {item}: {reason}");
    }
    println!("{} of {} items are the same", alone.len() - found.len(), alone.len());
}
