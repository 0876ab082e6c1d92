//! Tests of `/metrics` as a scraper reads it.

use std::collections::BTreeMap;

use serde_json::json;
use tool::{Durability, PermissionLevel, SideEffects};

use crate::support::client::message;
use crate::support::{FixtureServer, Gate, tools, within_a_minute};

#[derive(Debug, Default)]
struct Family {
    kind: Option<String>,
    help: Option<String>,
    samples: Vec<(String, f64)>,
}

/// Reads the text as a scraper does, and refuses what one would.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    let body = text.strip_suffix("# EOF\n").expect("the page ends with its mark");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let [word, name, told] = rest.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let family = families.entry(name.to_owned()).or_default();
            let slot = if word == "TYPE" { &mut family.kind } else { &mut family.help };
            assert!(slot.replace(told.to_owned()).is_none(), "{word} twice: {line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let of = ["_total", "_bucket", "_count", "_sum"].iter().find_map(|s| name.strip_suffix(s));
        let family = families.get_mut(of.unwrap_or(name)).unwrap_or_else(|| panic!("{line}"));
        if family.kind.as_deref() == Some("counter") {
            assert!(name.ends_with("_total"), "{line}");
        }
        family.samples.push((sample.to_owned(), value.parse().unwrap()));
    }
    families
}

#[tokio::test]
async fn the_page_can_be_read_and_names_nobody() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    ann.call_tool("notes.append", json!({})).await.expect_ok();
    ann.call_tool("notes.append", json!({"n": "x"})).await;
    ann.call_tool("says_error", json!({})).await.expect_ok();
    let call = json!({"name": "notes.append"});
    ann.legacy_request(&message("tools/call", call)).await.expect_ok();
    let page = ann.get("/metrics").await;
    assert_eq!(
        page.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let families = parse(page.text());
    for (name, family) in &families {
        assert!(name.starts_with("toolkeep_"), "{name}");
        assert!(family.kind.is_some() && family.help.is_some(), "{name}: {family:?}");
    }
    let value = |family: &str, sample: &str| {
        let found = families[family].samples.iter().find(|(name, _)| name == sample);
        found.unwrap_or_else(|| panic!("no {sample} in {:?}", families[family])).1
    };
    let calls = |door: &str, status: &str| {
        let sample = format!(r#"toolkeep_calls_total{{door="{door}",status="{status}"}}"#);
        value("toolkeep_calls", &sample)
    };
    assert!((calls("rest", "succeeded") - 1.0).abs() < 0.1);
    assert!((calls("rest", "refused") - 1.0).abs() < 0.1);
    assert!((calls("rest", "failed") - 1.0).abs() < 0.1);
    assert!((calls("mcp", "succeeded") - 1.0).abs() < 0.1);
    let answered = |door: &str| {
        value("toolkeep_call_seconds", &format!(r#"toolkeep_call_seconds_count{{door="{door}"}}"#))
    };
    assert!((answered("rest") - 3.0).abs() < 0.1 && (answered("mcp") - 1.0).abs() < 0.1);
    assert!((value("toolkeep_tools", "toolkeep_tools") - 11.0).abs() < 0.1);
    assert!((value("toolkeep_ledger_up", "toolkeep_ledger_up") - 1.0).abs() < 0.1);
    for secret in ["ann", "append", &ann.key_id, "says_error"] {
        assert!(!page.text().contains(secret), "{secret}");
    }
}

/// Calls by interface and outcome, as the page tells them.
async fn counted(server: &FixtureServer) -> BTreeMap<String, u64> {
    let page = server.owner_client().await.get("/metrics").await;
    let lines = page.text().lines().filter_map(|l| l.strip_prefix("toolkeep_calls_total{"));
    let read = |line: &str| {
        let (labels, number) = line.rsplit_once("} ").unwrap();
        let words = labels.split('"').skip(1).step_by(2).collect::<Vec<_>>();
        (words.join(" "), number.parse().unwrap())
    };
    lines.map(read).collect()
}

/// The same for the record: every refusal and every outcome.
fn recorded(server: &FixtureServer) -> BTreeMap<String, u64> {
    let mut recorded = BTreeMap::new();
    let doors: BTreeMap<_, _> =
        server.recorded_intents().into_iter().map(|i| (i.call_id, i.interface)).collect();
    for (call, end) in server.call_outcomes() {
        *recorded.entry(format!("{} {}", doors[&call], word(end.status))).or_default() += 1;
    }
    for refusal in server.recorded_refusals() {
        *recorded.entry(format!("{} refused", refusal.interface)).or_default() += 1;
    }
    recorded
}

fn word(status: tool::call_outcome::CallStatus) -> String {
    json!(status).as_str().unwrap().to_owned()
}

#[tokio::test]
async fn however_a_call_ends_it_is_counted_once() {
    let (writes, reads) = (Gate::new(), Gate::new());
    let with =
        |name: &str, effects: SideEffects| tools::tool_with(name, |t| t.traits.effects = effects);
    let mut offers = tools::standard_offers();
    offers.push(tools::tool_offer(with("writes", SideEffects::Unknown), writes.clone()));
    offers.push(tools::tool_offer(with("reads", SideEffects::read_only()), reads.clone()));
    let server = FixtureServer::with_offers(offers).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for tool in ["notes.append", "notes.append", "says_error", "fails", "dangerous", "none"] {
        ann.call_tool(tool, json!({})).await;
        let call = json!({ "name": tool });
        ann.legacy_request(&message("tools/call", call.clone())).await;
        ann.modern_request("tools/call", call).await;
    }
    // Callers that go away while their calls run.
    for (tool, gate) in [("writes", &writes), ("reads", &reads)] {
        for _ in 0..2 {
            let before = server.recorded_intents().len();
            tokio::select! {
                reply = ann.call_tool(tool, json!({})) => panic!("{reply:?}"),
                () = gate.entered() => {}
            }
            let ended = async {
                while server.call_outcomes().len() < before + 1 {
                    tokio::task::yield_now().await;
                }
            };
            within_a_minute(ended).await;
        }
    }
    let expected = [
        ("mcp failed", 4),
        ("mcp refused", 4),
        ("mcp succeeded", 4),
        ("rest abandoned", 2),
        ("rest cancelled", 2),
        ("rest failed", 2),
        ("rest refused", 2),
        ("rest succeeded", 2),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(name, n)| (name.to_owned(), n)).into();
    assert_eq!(recorded(&server), expected);
    assert_eq!(counted(&server).await, expected);
    // A call that cannot be recorded is refused and counted.
    server.ledger.fail_from(Some(Durability::Written));
    assert_eq!(ann.call_tool("notes.append", json!({})).await.error().1, "record_unavailable");
    assert_eq!(counted(&server).await["rest refused"], 3);
}
