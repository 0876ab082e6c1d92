//! Limits of pending calls: their number, their rate, their time and their memory.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;
use tool::call_outcome::CallStatus;
use tool::{ErrorCode, Interface};

use super::{Bench, agent, code, owner, principal};
use crate::CallRequest;
use crate::approvals::{ApprovalDetails, ApprovalSettings};

#[tokio::test(start_paused = true)]
async fn other_times_and_bounds_count_from_when_they_are_said() {
    let bench =
        Bench::with(ApprovalSettings { max_pending_per_key: 1, ..ApprovalSettings::default() });
    let first = bench.hold_call().await;
    let lifetime_ms = |shown: &ApprovalDetails| shown.expires_at.0 - shown.created_at.0;
    assert_eq!(code(&bench.call("{}").await), Some(ErrorCode::RateLimited));
    let client_confirming_keys = HashSet::from([agent().key_id().to_owned()]);
    assert!(!bench.gateway.allows_client_confirmation(&agent()));
    bench.gateway.set_approval_settings(ApprovalSettings {
        max_pending_per_key: 2,
        decision_timeout: Duration::from_mins(1),
        client_confirming_keys,
        ..ApprovalSettings::default()
    });
    let second = bench.hold_call().await;
    let (old, new) = (
        bench.gateway.get_approval(&owner(), first).await.unwrap(),
        bench.gateway.get_approval(&owner(), second).await.unwrap(),
    );
    assert_eq!(
        (lifetime_ms(&old), lifetime_ms(&new)),
        (600_000, 60_000),
        "what waits keeps its time"
    );
    assert!(bench.gateway.allows_client_confirmation(&agent()));
    assert_eq!(code(&bench.call("{}").await), Some(ErrorCode::RateLimited));
}

#[tokio::test]
async fn one_key_cannot_tire_people_out() {
    let settings = ApprovalSettings {
        max_pending_per_key: 3,
        max_requests_per_minute: 5,
        ..ApprovalSettings::default()
    };
    let bench = Bench::with(settings);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bench.hold_call().await);
    }
    let fourth = bench.call("{}").await;
    assert_eq!((fourth.status, code(&fourth)), (CallStatus::Refused, Some(ErrorCode::RateLimited)));
    for id in ids {
        bench.gateway.deny_call((&owner(), Interface::Rest), id, None).await.unwrap();
    }
    bench.hold_call().await;
    bench.hold_call().await;
    assert_eq!(code(&bench.call("{}").await), Some(ErrorCode::RateLimited), "six within a minute");
    bench.clock.advance(Duration::from_mins(1));
    bench.hold_call().await;
    // Another key is not in its way.
    let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
    let answer = bench.gateway.call_tool(&bob, CallRequest::new("rm", "{}", Interface::Mcp)).await;
    assert_eq!(answer.status, CallStatus::Pending);
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// In a process of its own, as nextest runs it.
#[tokio::test]
async fn ten_thousand_pending_calls_take_bounded_memory_and_each_can_go_on() {
    let settings = ApprovalSettings {
        max_pending_per_key: 100_000,
        max_requests_per_minute: 100_000,
        ..ApprovalSettings::default()
    };
    let bench = Bench::with(settings);
    let before = resident_bytes();
    let mut ids = Vec::new();
    for _ in 0..10_000 {
        ids.push(bench.call(r#"{"n": 1}"#).await.call_id);
    }
    let grown = resident_bytes().saturating_sub(before);
    let mut durations = Vec::new();
    for id in ids.iter().rev().take(200) {
        let started = Instant::now();
        bench.approve(*id).await.unwrap();
        assert_eq!(bench.wait_for_response(*id).await.status, CallStatus::Succeeded);
        durations.push(started.elapsed());
    }
    durations.sort();
    let (middle, last) = (durations[durations.len() / 2], durations[durations.len() * 99 / 100]);
    println!(
        "held: 10000 calls: {} MiB with store and record in memory; \
         approved and ended in {middle:?} (p50), {last:?} (p99)",
        grown >> 20
    );
    assert_eq!(bench.gateway.pending_approval_count(), 9_800);
    assert!(grown < 50 << 20, "{grown}");
}
