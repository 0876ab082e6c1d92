//! Tests of the limits of pending calls, which count by the root key.

use identity::{DelegationRequest, KeyId, KeyRing, NewKey, Principal};
use tool::call_outcome::CallStatus;
use tool::{ErrorCode, WallTime};

use super::{Bench, ID, code, owner, principal};
use crate::CallRequest;
use crate::approvals::ApprovalSettings;

/// The agent's key, and one that was delegated from it.
fn delegated() -> [Principal; 2] {
    let (secret, record) =
        NewKey::for_user(KeyId::random(ID), "ann").issue_key([7; 32], WallTime(0)).unwrap();
    let maker =
        KeyRing::new([record.clone()]).verify_key(Some(secret.expose()), WallTime(1)).unwrap();
    let id = KeyId::random([8; 6]);
    let hand =
        DelegationRequest { expires_at: Some(WallTime(u64::MAX)), ..DelegationRequest::default() };
    let (other, second) = NewKey::delegate_key(id, (&record, &maker), hand, WallTime(1))
        .unwrap()
        .issue_key([9; 32], WallTime(1))
        .unwrap();
    let second =
        KeyRing::new([record, second]).verify_key(Some(other.expose()), WallTime(1)).unwrap();
    [maker, second]
}

#[tokio::test]
async fn a_key_and_those_delegated_from_it_hold_as_many_calls_as_one() {
    // Many may wait: of all that are kept, and of their bytes, it is the key's share that ends it.
    let few = ApprovalSettings {
        max_pending_per_key: 2,
        max_stored: 40,
        max_requests_per_minute: 1_000,
        ..ApprovalSettings::default()
    };
    let pending = ApprovalSettings { max_pending_per_key: 6, ..few.clone() };
    let bytes =
        ApprovalSettings { max_pending_per_key: 40, max_argument_bytes: 400, ..few.clone() };
    let text = format!(r#"{{"t": "{}"}}"#, "x".repeat(16));
    for (settings, args, most) in [(few, "{}", 2), (pending, "{}", 6), (bytes, text.as_str(), 4)] {
        let bench = Bench::with(settings);
        let keys = delegated();
        let hold = async |who: &Principal| {
            bench
                .gateway
                .call_tool(who, CallRequest::new("rm", args.to_owned(), tool::Interface::Mcp))
                .await
        };
        for number in 0..most {
            assert_eq!(
                hold(&keys[number % 2]).await.status,
                CallStatus::Pending,
                "{number} of {most}"
            );
        }
        for who in &keys {
            assert_eq!(code(&hold(who).await), Some(ErrorCode::RateLimited), "of {most}");
        }
        // The control: another key has a share of its own.
        let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
        assert_eq!(hold(&bob).await.status, CallStatus::Pending);
    }
    // Ended calls are kept for a while and count among the key's.
    let settings = ApprovalSettings {
        max_pending_per_key: 2,
        max_stored: 40,
        max_requests_per_minute: 1_000,
        ..ApprovalSettings::default()
    };
    let bench = Bench::with(settings);
    for _ in 0..10 {
        let id = bench.hold_call().await;
        bench.gateway.deny_call((&owner(), tool::Interface::Rest), id, None).await.unwrap();
    }
    assert_eq!(code(&bench.call("{}").await), Some(ErrorCode::RateLimited));
}
