//! Checks that the record contains the acknowledged calls.

use std::collections::BTreeMap;

use serde_json::Value;

use super::call_load::Acknowledgement;
use crate::support::rest_client::Client;

/// An acknowledged call that the record does not hold as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) id: String,
    pub(crate) why: String,
}

/// Looks an acknowledged call up: one intent, one outcome, and both are of this very call.
pub(crate) async fn acknowledged(owner: &Client, ack: &Acknowledgement) -> Result<(), Missing> {
    let reply = owner.fetch_record(&ack.id).await;
    let missing = |why: String| Missing { id: ack.id.clone(), why };
    if reply.status != 200 {
        return Err(missing(format!("status {}", reply.status)));
    }
    let state = &reply.body;
    let records = state["records"].as_array().cloned().unwrap_or_default();
    let kinds: Vec<_> = records.iter().filter_map(|record| record["kind"].as_str()).collect();
    if state["status"] != "succeeded" || kinds != ["intent", "outcome"] {
        return Err(missing(format!("{} with {kinds:?}", state["status"])));
    }
    let (intent, outcome) = (&records[0]["body"], &records[1]["body"]);
    let expected = [
        (&state["tool"], Value::from(ack.work.tool)),
        (&intent["effects"], Value::from(ack.work.has_effects())),
        (&intent["args_bytes"], Value::from(ack.work.args.to_string().len())),
        (&outcome["bytes"], Value::from(ack.bytes)),
    ];
    for (found, expected) in expected {
        if *found != expected {
            return Err(missing(format!("{found} instead of {expected}: another call's record?")));
        }
    }
    Ok(())
}

/// Result of a query for the newest records.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    /// Calls with an intent and no outcome.
    pub(crate) open: Vec<String>,
    /// The number of the last record.
    pub(crate) last: u64,
    /// Intents.
    pub(crate) intents: usize,
}

/// Goes through the records behind number `seen`, newest first.
pub(crate) async fn newest(owner: &Client, seen: u64) -> Newest {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut newest = Newest { last: seen, ..Newest::default() };
    let mut path = "/v1/records?limit=1000".to_owned();
    loop {
        let page = owner.get(&path).await;
        assert_eq!(page.status, 200, "{:?}", page.body);
        let records = page.body["records"].as_array().cloned().unwrap();
        let new = records.iter().filter(|record| record["seq"].as_u64().unwrap() > seen);
        let count = new
            .map(|record| {
                newest.last = newest.last.max(record["seq"].as_u64().unwrap());
                let (call, kind) = (&record["call"], &record["kind"]);
                // An event is no call's.
                let Some(call) = call.as_str() else { return assert_eq!(kind, "event") };
                let kinds = kinds.entry(call.to_owned()).or_default();
                kinds.push(kind.as_str().unwrap().to_owned());
            })
            .count();
        match page.body["next_cursor"].as_str() {
            Some(cursor) if count == records.len() => {
                path = format!("/v1/records?limit=1000&cursor={cursor}");
            }
            _ => break,
        }
    }
    for (call, kinds) in kinds {
        newest.intents += 1;
        match kinds.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["outcome", "intent"] => {}
            ["intent"] => newest.open.push(call),
            _ => panic!("the call `{call}` has {kinds:?}"),
        }
    }
    newest
}
