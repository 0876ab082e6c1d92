//! Tests of the limits of pending calls, which count by the root key.

use identity::{Hand, KeyId, KeyRing, NewKey, Principal};
use tool::outcome::Status;
use tool::{Code, Wall};

use super::{Bench, ID, code, owner, principal};
use crate::Request;
use crate::waits::Patience;

/// The agent's key, and one that was delegated from it.
fn delegated() -> [Principal; 2] {
    let (secret, record) = NewKey::user(KeyId::random(ID), "ann").issue([7; 32], Wall(0)).unwrap();
    let maker = KeyRing::new([record.clone()]).verify(Some(secret.open()), Wall(1)).unwrap();
    let id = KeyId::random([8; 6]);
    let hand = Hand { expires: Some(Wall(u64::MAX)), ..Hand::default() };
    let (other, second) = NewKey::delegated(id, (&record, &maker), hand, Wall(1))
        .unwrap()
        .issue([9; 32], Wall(1))
        .unwrap();
    let second = KeyRing::new([record, second]).verify(Some(other.open()), Wall(1)).unwrap();
    [maker, second]
}

#[tokio::test]
async fn a_key_and_those_delegated_from_it_hold_as_many_calls_as_one() {
    // Many may wait: of all that are kept, and of their bytes, it is the key's share that ends it.
    let few = Patience { pending: 2, total: 40, per_minute: 1_000, ..Patience::default() };
    let pending = Patience { pending: 6, ..few.clone() };
    let bytes = Patience { pending: 40, bytes: 400, ..few.clone() };
    let text = format!(r#"{{"t": "{}"}}"#, "x".repeat(16));
    for (patience, args, most) in [(few, "{}", 2), (pending, "{}", 6), (bytes, text.as_str(), 4)] {
        let bench = Bench::with(patience);
        let keys = delegated();
        let hold = async |who: &Principal| {
            bench.gateway.call(who, Request::new("rm", args.to_owned(), tool::Interface::Mcp)).await
        };
        for number in 0..most {
            assert_eq!(hold(&keys[number % 2]).await.status, Status::Waiting, "{number} of {most}");
        }
        for who in &keys {
            assert_eq!(code(&hold(who).await), Some(Code::RateLimited), "of {most}");
        }
        // The control: another key has a share of its own.
        let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
        assert_eq!(hold(&bob).await.status, Status::Waiting);
    }
    // Ended calls are kept for a while and count among the key's.
    let patience = Patience { pending: 2, total: 40, per_minute: 1_000, ..Patience::default() };
    let bench = Bench::with(patience);
    for _ in 0..10 {
        let id = bench.held().await;
        bench.gateway.deny((&owner(), tool::Interface::Rest), id, None).await.unwrap();
    }
    assert_eq!(code(&bench.call("{}").await), Some(Code::RateLimited));
}
