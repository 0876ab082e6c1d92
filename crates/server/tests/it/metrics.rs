//! `/metrics`: what a scraper reads.

use std::collections::BTreeMap;

use serde_json::json;
use tool::Level;

use crate::support::Server;
use crate::support::client::message;

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
    let server = Server::new().await;
    let ann = server.agent("ann", Level::User).await;
    ann.call("notes.append", json!({})).await.good();
    ann.call("notes.append", json!({"n": "x"})).await;
    ann.call("says_error", json!({})).await.good();
    let call = json!({"name": "notes.append"});
    ann.legacy(&message("tools/call", call)).await.good();
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
    assert!((value("toolkeep_call_seconds", "toolkeep_call_seconds_count") - 4.0).abs() < 0.1);
    assert!((value("toolkeep_tools", "toolkeep_tools") - 11.0).abs() < 0.1);
    assert!((value("toolkeep_ledger_up", "toolkeep_ledger_up") - 1.0).abs() < 0.1);
    for secret in ["ann", "append", &ann.key_id, "says_error"] {
        assert!(!page.text().contains(secret), "{secret}");
    }
}
