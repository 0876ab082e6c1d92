//! Tests of the rows of learned evidence: bounds, age, other servers, and rows that cannot be read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use option_types::ListingOptions;
use search::{CallerHashes, MAX_EVIDENCE_DAYS, MIN_IDLE_DAYS};
use store::{EncryptedStore, MemoryStore};
use testkit::clock::FakeClock;
use testkit::store::FaultyStore;
use tool::store::WritePrecondition;
use tool::{Org, Secret, SourceName, Store, ToolKey, ToolName, Version};

use super::super::call_feedback::CallFeedback;
use super::super::org_evidence::MAX_ORG_TOOLS;
use super::{MAX_ORGS, OrgTag, SearchLearning};

const DAY: Duration = Duration::from_hours(24);

fn learning_on<S: Store + 'static>(store: &Arc<S>, clock: &Arc<FakeClock>) -> SearchLearning {
    let options = ListingOptions {
        learning_orgs: vec![ListingOptions::ALL_ORGS.to_owned()],
        ..ListingOptions::default()
    };
    let (store, clock) = (Arc::clone(store) as _, Arc::clone(clock) as _);
    SearchLearning::new(&options, store, clock, &Secret::new("key"))
}

fn encrypted(store: &Arc<MemoryStore>) -> EncryptedStore {
    EncryptedStore::new(Arc::clone(store) as _, &Secret::new("s"), "search learning")
}

fn new_store() -> (Arc<MemoryStore>, Arc<FakeClock>) {
    (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()))
}

fn org(learning: &SearchLearning, number: usize) -> OrgTag {
    learning.hasher.org_tag(&format!("org{number}"))
}

fn feedback(org: OrgTag, tool: usize, caller: u32) -> CallFeedback {
    let tool = ToolKey {
        org: Org::default(),
        source: SourceName::new("s").unwrap(),
        name: ToolName::new(format!("t{tool:04}")).unwrap(),
    };
    let caller = CallerHashes { root_key: caller, subject: caller };
    CallFeedback { org, tool, stems: vec![7], caller, attempts: 0 }
}

async fn teach(learning: &SearchLearning, feedback: CallFeedback) {
    learning.lock_feedback().push_back(feedback);
    learning.flush_feedback().await.unwrap();
}

async fn rows_of(store: &dyn Store, org: OrgTag) -> usize {
    let prefix = SearchLearning::row_key(org, "");
    store.scan_prefix(&prefix, None, 10_000).await.unwrap().len()
}

fn learned(learning: &SearchLearning, org: OrgTag) -> usize {
    let today = learning.today();
    learning.read_evidence().get(&org).map_or(0, |it| it.tools_of(7, today).count())
}

/// Replaces the row of a tool by bytes that do not open.
async fn damage_row(store: &MemoryStore, learning: &SearchLearning, of: &CallFeedback) {
    let key = SearchLearning::row_key(of.org, &learning.hasher.row_name(&of.tool));
    let row = store.get_value(&key).await.unwrap();
    let bytes = Some(Bytes::from_static(b"changed by another program"));
    store.put_value(&key, super::precondition_of(row.as_ref()), bytes).await.unwrap();
}

#[tokio::test]
async fn tools_of_an_organisation_are_bounded_in_memory_and_in_the_store() {
    let (store, clock) = new_store();
    let one = learning_on(&store, &clock);
    let acme = org(&one, 0);
    for tool in 0..=MAX_ORG_TOOLS {
        teach(&one, feedback(acme, tool, 1)).await;
    }
    let bounded = (MAX_ORG_TOOLS, MAX_ORG_TOOLS);
    assert_eq!((rows_of(&*store, acme).await, learned(&one, acme)), bounded);
    for round in [2_000, 3_000] {
        // A server that read nothing adds rows beyond the bound.
        let unread = learning_on(&store, &clock);
        for tool in round..round + 3 {
            teach(&unread, feedback(acme, tool, 1)).await;
        }
        assert_eq!(rows_of(&*store, acme).await, MAX_ORG_TOOLS + 3, "control");
        let reader = learning_on(&store, &clock);
        if round == 2_000 { one.follow_store().await } else { reader.load_stored().await }.unwrap();
        let reader = if round == 2_000 { &one } else { &reader };
        assert_eq!((rows_of(&*store, acme).await, learned(reader, acme)), bounded, "{round}");
    }
}

#[tokio::test]
async fn another_organisation_replaces_one_without_a_call_for_a_week_and_no_other() {
    let (store, clock) = new_store();
    let learning = learning_on(&store, &clock);
    let (first, last) = (org(&learning, 0), org(&learning, MAX_ORGS));
    teach(&learning, feedback(first, 1, 1)).await;
    teach(&learning, feedback(first, 2, 1)).await;
    clock.advance(DAY);
    for number in 1..MAX_ORGS {
        teach(&learning, feedback(org(&learning, number), 1, 1)).await;
    }
    clock.advance(DAY * (MIN_IDLE_DAYS - 2));
    teach(&learning, feedback(last, 1, 1)).await;
    assert_eq!((learned(&learning, last), rows_of(&*store, last).await), (0, 0), "refused");
    assert_eq!((learned(&learning, first), rows_of(&*store, first).await), (2, 2));
    clock.advance(DAY);
    teach(&learning, feedback(last, 1, 1)).await;
    assert_eq!((learned(&learning, last), rows_of(&*store, last).await), (1, 1), "control");
    assert_eq!((learned(&learning, first), rows_of(&*store, first).await), (0, 0));
    assert_eq!(learned(&learning, org(&learning, 1)), 1, "the oldest leaves alone");
}

#[tokio::test]
async fn organisations_beyond_the_bound_are_not_read() {
    let (store, clock) = new_store();
    let one = learning_on(&store, &clock);
    for number in 0..MAX_ORGS {
        teach(&one, feedback(org(&one, number), 1, 1)).await;
    }
    // A server that read nothing adds another organisation.
    let last = org(&one, MAX_ORGS);
    teach(&learning_on(&store, &clock), feedback(last, 1, 1)).await;
    one.follow_store().await.unwrap();
    assert_eq!((learned(&one, last), one.read_evidence().len()), (0, MAX_ORGS));
    let loaded = learning_on(&store, &clock);
    loaded.load_stored().await.unwrap();
    assert_eq!(loaded.read_evidence().len(), MAX_ORGS);
    let prefix = SearchLearning::STORE_PREFIX;
    assert_eq!(store.scan_prefix(prefix, None, 1_000).await.unwrap().len(), MAX_ORGS);
}

#[tokio::test]
async fn evidence_that_is_too_old_leaves_memory_and_the_store() {
    let (store, clock) = new_store();
    let (learning, other) = (learning_on(&store, &clock), learning_on(&store, &clock));
    let acme = org(&learning, 0);
    teach(&learning, feedback(acme, 1, 1)).await;
    clock.advance(DAY * MAX_EVIDENCE_DAYS);
    learning.follow_store().await.unwrap();
    assert_eq!((rows_of(&*store, acme).await, learned(&learning, acme)), (1, 1), "control");
    clock.advance(DAY);
    assert_eq!(learned(&learning, acme), 0, "it does not count at once");
    learning.follow_store().await.unwrap();
    assert_eq!(rows_of(&*store, acme).await, 0);
    // Another server reads that too, and a start removes what nobody did.
    other.load_stored().await.unwrap();
    assert_eq!(learned(&other, acme), 0);
    teach(&other, feedback(acme, 1, 1)).await;
    clock.advance(DAY * (MAX_EVIDENCE_DAYS + 1));
    learning_on(&store, &clock).load_stored().await.unwrap();
    assert_eq!(rows_of(&*store, acme).await, 0);
}

#[tokio::test]
async fn a_removed_row_leaves_the_memory_of_other_servers() {
    let (store, clock) = new_store();
    let (one, other) = (learning_on(&store, &clock), learning_on(&store, &clock));
    let acme = org(&one, 0);
    teach(&one, feedback(acme, 1, 1)).await;
    teach(&one, feedback(acme, 2, 1)).await;
    other.load_stored().await.unwrap();
    assert_eq!(learned(&other, acme), 2);
    one.remove_tool(acme, &feedback(acme, 1, 1).tool).await;
    other.follow_store().await.unwrap();
    assert_eq!((learned(&one, acme), learned(&other, acme)), (1, 1));
}

#[tokio::test]
async fn rows_of_others_in_the_store_are_not_opened() {
    let (store, clock) = new_store();
    let put = async |key: &str| {
        let bytes = Some(Bytes::from_static(b"of another"));
        store.put_value(key, WritePrecondition::Absent, bytes).await.unwrap()
    };
    put("keys/a").await;
    let sealed = Arc::new(encrypted(&store).with_prefix(SearchLearning::STORE_PREFIX));
    let (one, other) = (learning_on(&sealed, &clock), learning_on(&sealed, &clock));
    other.load_stored().await.unwrap();
    let acme = org(&one, 0);
    teach(&one, feedback(acme, 1, 1)).await;
    let last = put("keys/b").await;
    other.follow_store().await.unwrap();
    assert_eq!(learned(&other, acme), 1);
    assert_eq!(*other.read_version.lock().unwrap(), last, "others' rows advance the version");
    let opened = async |store: &EncryptedStore| {
        let changes = store.changes_since(Version(0)).await.unwrap();
        let values = changes.into_iter().map(|row| (row.key, row.bytes.len()));
        values.filter(|(key, bytes)| key.starts_with("keys/") && *bytes > 0).count()
    };
    assert_eq!(opened(&sealed).await, 0);
    assert_eq!(opened(&encrypted(&store)).await, 2, "control: reported as damaged");
}

#[tokio::test]
async fn more_removals_than_the_store_remembers_are_one_reload() {
    let (store, clock) = (Arc::new(FaultyStore::new(MemoryStore::new())), Arc::default());
    let (one, other) = (learning_on(&store, &clock), learning_on(&store, &clock));
    let acme = org(&one, 0);
    teach(&one, feedback(acme, 1, 1)).await;
    other.load_stored().await.unwrap();
    let elsewhere = store.inner_store();
    for number in 0..1_100 {
        let (key, bytes) = (format!("keys/{number}"), Some(Bytes::from_static(b"x")));
        let put = elsewhere.put_value(&key, WritePrecondition::Absent, bytes).await;
        let written = WritePrecondition::Version(put.unwrap());
        elsewhere.put_value(&key, written, None).await.unwrap();
    }
    teach(&one, feedback(acme, 2, 1)).await;
    // Evidence stays while it cannot be read again.
    store.set_down(true);
    assert!(other.follow_store().await.is_err());
    assert_eq!(learned(&other, acme), 1);
    store.set_down(false);
    let scans = || store.take_requests()[2];
    scans();
    other.follow_store().await.unwrap();
    assert!(scans() > 0, "control: it is read again");
    assert_eq!(learned(&other, acme), 2);
    for tool in [3, 4] {
        teach(&one, feedback(acme, tool, 1)).await;
        other.follow_store().await.unwrap();
        assert_eq!((scans(), learned(&other, acme)), (0, tool), "no second time");
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_no_other_from_being_learned() {
    let (store, clock) = new_store();
    let sealed = Arc::new(encrypted(&store).with_prefix(SearchLearning::STORE_PREFIX));
    let learning = learning_on(&sealed, &clock);
    let acme = org(&learning, 0);
    damage_row(&store, &learning, &feedback(acme, 1, 1)).await;
    for tool in [1, 2] {
        learning.lock_feedback().push_back(feedback(acme, tool, 1));
    }
    assert!(learning.flush_feedback().await.is_err(), "control");
    assert_eq!(learned(&learning, acme), 1, "the good one is learned beside it");
    assert!(learning.flush_feedback().await.is_err());
    assert_eq!(learning.lock_feedback().len(), 1);
    assert!(learning.flush_feedback().await.is_err());
    assert!(learning.lock_feedback().is_empty(), "dropped after three attempts");
    teach(&learning, feedback(acme, 3, 1)).await;
    assert_eq!(learned(&learning, acme), 2);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_no_old_evidence_beside_it() {
    let (store, clock) = new_store();
    let sealed = Arc::new(encrypted(&store).with_prefix(SearchLearning::STORE_PREFIX));
    let learning = learning_on(&sealed, &clock);
    let acme = org(&learning, 0);
    for tool in 1..=9 {
        teach(&learning, feedback(acme, tool, 1)).await;
    }
    damage_row(&store, &learning, &feedback(acme, 5, 1)).await;
    clock.advance(DAY * MAX_EVIDENCE_DAYS);
    learning.follow_store().await.unwrap();
    assert_eq!(rows_of(&*store, acme).await, 9, "control: not too old yet");
    clock.advance(DAY);
    learning.follow_store().await.unwrap();
    assert_eq!(rows_of(&*store, acme).await, 1, "the damaged one alone");
}
