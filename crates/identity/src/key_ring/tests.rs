use std::collections::HashSet;
use std::marker::PhantomData;

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use tool::{PermissionLevel, Secret, WallTime};

use super::{CallerCredential, KeyRing};
use crate::{
    CredentialError, CredentialErrorKind, DelegationRequest, KeyId, KeyRecord, NewKey, Persona,
    PersonaSet, Principal, Right,
};

const NOW: WallTime = WallTime(1_000);

fn key(id: &str) -> (Secret, KeyRecord) {
    let expires = Some(WallTime(2_000));
    let new = NewKey { expires_at: expires, ..NewKey::for_user(KeyId::new(id).unwrap(), "ann") };
    new.issue_key([id.as_bytes()[1]; 32], NOW).unwrap()
}

/// The same key with another last character.
fn guess(secret: &Secret) -> String {
    let mut text = secret.expose().to_owned();
    text.pop();
    text + "z"
}

/// Tells at compile time whether a type can be read by serde: the inherent constant wins where its
/// bound holds.
struct Reads<T>(PhantomData<T>);
trait Otherwise {
    const FROM_JSON: bool = false;
}
impl<T> Otherwise for T {}
impl<T: DeserializeOwned> Reads<T> {
    const FROM_JSON: bool = true;
}

#[test]
fn a_principal_cannot_come_from_json() {
    let read = [Reads::<Principal>::FROM_JSON, Reads::<KeyRecord>::FROM_JSON];
    // The record beside it can be read: the test would see it if the principal could.
    assert_eq!(read, [false, true]);
}

#[test]
fn a_key_gives_its_principal() {
    let (secret, record) = key("k1");
    let principal = KeyRing::new([record]).verify_key(Some(secret.expose()), NOW).unwrap();
    assert_eq!(
        (principal.subject(), principal.key_id(), principal.level()),
        ("ann", "k1", PermissionLevel::User)
    );
    assert_eq!(principal.caller().subject, "ann");
}

#[test]
fn all_refusals_show_one_face() {
    let (secret, record) = key("k1");
    let mut revoked = key("k2").1;
    revoked.revoked_at = Some(WallTime(1));
    let revoked_secret = key("k2").0;
    let ring = KeyRing::new([record, revoked]);
    let mut wrong = secret.expose().to_owned();
    wrong.replace_range(10..11, "!");
    let other = guess(&secret);
    let cases = [
        ("", NOW, CredentialErrorKind::Malformed),
        ("Bearer", NOW, CredentialErrorKind::Malformed),
        (&format!("{}\n", secret.expose()), NOW, CredentialErrorKind::Malformed),
        (&format!(" {}", secret.expose()), NOW, CredentialErrorKind::Malformed),
        (wrong.as_str(), NOW, CredentialErrorKind::Malformed),
        (&secret.expose().replace("k1", "k9"), NOW, CredentialErrorKind::UnknownId),
        (&other, NOW, CredentialErrorKind::WrongSecret),
        (&secret.expose().replace("k1", "k2"), NOW, CredentialErrorKind::WrongSecret),
        (secret.expose(), WallTime(2_000), CredentialErrorKind::Expired),
        (revoked_secret.expose(), NOW, CredentialErrorKind::Revoked),
    ];
    for (presented, now, reason) in cases {
        let error = ring.verify_key(Some(presented), now).unwrap_err();
        assert_eq!(error.reason(), reason, "{presented}");
        assert_eq!(error.to_string(), "the credential is invalid: unknown, expired or revoked");
        assert_eq!(
            format!("{error:?}"),
            "CredentialError(the credential is invalid: unknown, expired or revoked)"
        );
    }
    assert!(ring.verify_key(Some(secret.expose()), WallTime(1_999)).is_ok());
}

#[test]
fn who_does_not_hold_the_secret_does_not_learn_that_the_key_was_revoked() {
    let (secret, mut record) = key("k1");
    record.revoked_at = Some(NOW);
    let ring = KeyRing::new([record]);
    assert_eq!(
        ring.verify_key(Some(&guess(&secret)), NOW).unwrap_err().reason(),
        CredentialErrorKind::WrongSecret
    );
}

#[test]
fn only_an_opened_ring_takes_no_credential() {
    let (secret, record) = key("k1");
    let closed = KeyRing::new([record]);
    assert_eq!(
        closed.verify_key(None, NOW).unwrap_err(),
        CredentialError::new(CredentialErrorKind::Missing)
    );
    let open = closed.with_anonymous_access(PermissionLevel::User);
    let anyone = open.verify_key(None, NOW).unwrap();
    assert_eq!((anyone.level(), anyone.is_agent()), (PermissionLevel::User, true));
    assert!(!Right::ALL.iter().any(|right| anyone.has_right(*right)));
    assert!(open.verify_key(Some("tk_k1_wrong"), NOW).is_err(), "a bad credential is not none");
    assert_eq!(open.verify_key(Some(secret.expose()), NOW).unwrap().subject(), "ann");
}

#[test]
fn what_a_holder_began_stands_with_the_key_as_it_is_now() {
    let (secret, record) = key("k1");
    let ring = KeyRing::new([record.clone()]);
    let caller = ring.verify_key(Some(secret.expose()), NOW).unwrap().caller().clone();
    // The level of a valid key; `Err(true)` if the ring has the key.
    let level = |ring: &KeyRing, now| match ring.principal_of_caller(&caller, now) {
        CallerCredential::Valid(principal) => Ok(principal.level()),
        CallerCredential::Invalid => Err(true),
        CallerCredential::NotStoredHere => Err(false),
    };
    assert_eq!(level(&ring, NOW), Ok(PermissionLevel::User));
    assert_eq!(level(&ring, WallTime(2_000)), Err(true), "it has expired");
    let lowered = KeyRecord { level: PermissionLevel::Guest, ..record.clone() };
    assert_eq!(level(&KeyRing::new([lowered]), NOW), Ok(PermissionLevel::Guest));
    let revoked = KeyRecord { revoked_at: Some(NOW), ..record.clone() };
    assert_eq!(level(&KeyRing::new([revoked]), NOW), Err(true));
    let anothers = KeyRecord { subject: "bob".to_owned(), ..record };
    assert_eq!(level(&KeyRing::new([anothers]), NOW), Err(true));
    assert_eq!(
        level(&KeyRing::new([]).with_anonymous_access(PermissionLevel::User), NOW),
        Err(false),
        "it is kept elsewhere"
    );
}

#[test]
fn one_bad_record_leaves_the_others() {
    let (secret, record) = key("k1");
    let good = serde_json::to_vec(&record).unwrap();
    let stored: [(&str, &[u8]); 3] = [("key/k1", &good), ("key/k2", b"{}"), ("key/k3", &good)];
    let (ring, problems) = KeyRing::parse_rows(stored, PersonaSet::default());
    assert!(ring.verify_key(Some(secret.expose()), NOW).is_ok());
    let places: Vec<_> = problems.iter().map(|problem| problem.location.as_str()).collect();
    assert_eq!(places, ["key/k2", "key/k3"]);
    assert_eq!(ring.sorted_records().len(), 1);
}

#[test]
fn an_empty_list_of_modules_allows_none_and_no_list_allows_all() {
    let with = |allowed: Option<&[&str]>| {
        let persona = allowed.map(|list| {
            let list = list.iter().map(|&module| module.to_owned()).collect();
            Persona { name: "p".to_owned(), allowed_modules: Some(list) }
        });
        let new = NewKey { persona, ..NewKey::for_user(KeyId::new("k").unwrap(), "s") };
        let (secret, record) = new.issue_key([0; 32], NOW).unwrap();
        KeyRing::new([record])
            .verify_key(Some(secret.expose()), NOW)
            .unwrap()
            .rights_class()
            .clone()
    };
    assert!(with(None).allows_source("web"));
    assert!(!with(Some(&[])).allows_source("web"));
    assert!(with(Some(&["web"])).allows_source("web") && !with(Some(&["web"])).allows_source("we"));
}

#[test]
fn a_level_can_only_be_lowered() {
    let (secret, record) = key("k1");
    let user = KeyRing::new([record]).verify_key(Some(secret.expose()), NOW).unwrap();
    assert_eq!(user.with_max_level(PermissionLevel::Owner), user);
    let guest = user.with_max_level(PermissionLevel::Guest);
    assert_eq!(
        (guest.level(), guest.caller().level, guest.subject()),
        (PermissionLevel::Guest, PermissionLevel::Guest, "ann")
    );
    assert_ne!(guest.rights_class(), user.rights_class());
}

fn facts() -> impl Strategy<Value = NewKey> {
    let subject = "[a-z]{1,4}";
    let roles = proptest::collection::vec("[ab]", 0..4);
    let modules = proptest::option::of(proptest::collection::btree_set("[ab]", 0..3));
    (subject, roles, modules, any::<bool>(), any::<bool>()).prop_map(
        |(subject, roles, list, agent, read)| {
            let persona =
                list.map(|list| Persona { name: "p".to_owned(), allowed_modules: Some(list) });
            let rights = read.then_some(Right::RecordsRead).into_iter().collect();
            NewKey {
                roles,
                persona,
                rights,
                is_agent: agent,
                ..NewKey::for_user(KeyId::new("k").unwrap(), subject)
            }
        },
    )
}

fn class_of(new: NewKey) -> crate::RightsClass {
    let (secret, record) = new.issue_key([0; 32], NOW).unwrap();
    KeyRing::new([record]).verify_key(Some(secret.expose()), NOW).unwrap().rights_class().clone()
}

proptest! {
    #[test]
    fn classes_are_equal_exactly_where_all_but_the_subject_is(a in facts(), b in facts()) {
        let sorted = |new: &NewKey| new.roles.iter().cloned().collect::<std::collections::BTreeSet<_>>();
        let same = sorted(&a) == sorted(&b) && a.persona == b.persona && a.is_agent == b.is_agent
            && a.rights == b.rights;
        let (one, two) = (class_of(a), class_of(b));
        prop_assert_eq!(one == two, same);
        let set: HashSet<_> = [one, two].into_iter().collect();
        prop_assert_eq!(set.len() == 1, same);
    }

    #[test]
    fn no_changed_byte_verifies(at in 0_usize..49, byte in 33_u8..127) {
        let (secret, record) = key("k1");
        let mut text = secret.expose().as_bytes().to_vec();
        prop_assume!(at < text.len() && text[at] != byte);
        text[at] = byte;
        let text = String::from_utf8(text).unwrap();
        prop_assert!(KeyRing::new([record]).verify_key(Some(&text), NOW).is_err());
    }
}

/// A key that `maker` handed on.
fn handed_on(ring: &KeyRing, maker: &str, id: &str) -> KeyRecord {
    let (own, principal) =
        (ring.find_record(maker).unwrap(), ring.principal_of_key(maker).unwrap());
    let hand = DelegationRequest {
        rights: [Right::KeysWrite].into(),
        is_person: true,
        ..DelegationRequest::default()
    };
    let new = NewKey::delegate_key(KeyId::new(id).unwrap(), (own, principal), hand, NOW).unwrap();
    new.issue_key([5; 32], NOW).unwrap().1
}

fn owner(id: &str) -> KeyRecord {
    NewKey::for_owner(KeyId::new(id).unwrap()).issue_key([4; 32], NOW).unwrap().1
}

/// An owner's chain of three, one beside it, and others.
fn chained() -> KeyRing {
    let mut ring = KeyRing::new((0..5_000).map(|n| owner(&format!("k{n}"))));
    for (maker, id) in [("k1", "a"), ("a", "b"), ("b", "c"), ("k1", "d")] {
        ring = ring.with_record(handed_on(&ring, maker, id), 1);
    }
    ring
}

#[test]
fn a_ring_with_one_change_is_the_ring_of_all_records_and_touches_the_chain_alone() {
    let ring = chained();
    let changed = |id: &str, change: fn(&mut KeyRecord)| {
        let mut record = ring.find_record(id).unwrap().clone();
        change(&mut record);
        ring.with_record(record, 2)
    };
    let revoke = |record: &mut KeyRecord| record.revoked_at = Some(WallTime(1));
    let lower = |record: &mut KeyRecord| record.level = PermissionLevel::Guest;
    for (what, next, touched) in [
        ("revoked the first", changed("k1", revoke), 5),
        ("revoked in the middle", changed("a", revoke), 3),
        ("lowered in the middle", changed("b", lower), 2),
        ("revoked the last", changed("c", revoke), 1),
        ("removed in the middle", ring.without_record("a"), 3),
        ("removed the first", ring.without_record("k1"), 5),
        ("made another", ring.with_record(owner("new"), 2), 1),
    ] {
        let all = KeyRing::new(next.sorted_records().into_iter().cloned());
        for record in next.sorted_records() {
            let id = record.id.as_str();
            assert_eq!(next.principal_of_key(id), all.principal_of_key(id), "{what}: {id}");
            assert_eq!(next.invalid_reason(id, NOW), all.invalid_reason(id, NOW), "{what}: {id}");
        }
        assert_eq!(next.len(), all.len());
        // Of 256 shards only those with a key of the chain are others.
        assert!(next.entries.shared_with(&ring.entries) >= 256 - touched, "{what}");
        // The control: built of all records it shares none.
        assert_eq!(all.entries.shared_with(&ring.entries), 0);
        let came = |ring: &KeyRing| {
            let mut ids: Vec<_> = ring.delegated_from("k1").map(|one| one.id.to_string()).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(came(&next), came(&all), "{what}");
    }
    assert_eq!(
        (ring.version("c"), ring.version("k1"), ring.version("none")),
        (Some(1), Some(0), None)
    );
}

#[test]
fn pages_go_through_all_keys_in_order() {
    let ring = chained();
    let (mut seen, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = ring.page_records(after.as_deref(), 700, |record| record.id.as_str() != "d");
        let Some(last) = page.last() else { break };
        after = Some(last.id.to_string());
        seen.extend(page.iter().map(|record| record.id.to_string()));
    }
    let mut all: Vec<_> =
        ring.sorted_records().iter().map(|record| record.id.to_string()).collect();
    all.retain(|id| id != "d");
    assert_eq!(seen, all);
    assert!(ring.page_records(None, 0, |_| true).is_empty());
}

#[test]
fn keys_that_ended_long_ago_are_found_with_all_that_came_of_them() {
    let ring = chained();
    let mut first = ring.find_record("a").unwrap().clone();
    first.revoked_at = Some(WallTime(500));
    let ring = ring.with_record(first, 2);
    let ended = |ring: &KeyRing, until| {
        let mut ids: Vec<_> = ring.ended_before(until).map(|one| one.id.to_string()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ended(&ring, WallTime(499)), [""; 0]);
    assert_eq!(ended(&ring, WallTime(500)), ["a", "b", "c"]);
    assert_eq!(ended(&ring.without_record("a"), WallTime(499)), ["b", "c"]);
    assert_eq!((ring.count_valid(WallTime(600)), ring.len()), (5_001, 5_004));
}
