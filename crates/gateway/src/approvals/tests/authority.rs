//! Tests of the authorization of pending calls: visibility, decisions, own calls.

use std::collections::BTreeSet;

use identity::{KeyDelegation, KeyId, KeyRing, NewKey, Persona, Principal, Right};
use policy::{LocatedName, Policy, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect};
use testkit::executor::MockExecutor;
use tool::call_outcome::{CallFailure, CallStatus};
use tool::{
    CallId, ErrorCode, ExecutionState, Interface, Json, JsonLimits, Outcome, PermissionLevel,
    WallTime,
};

use super::{Bench, agent, catalog_snapshot, deny_policy, edit_of, owner, principal, tool};

/// A person of this organisation with the right to approve.
fn approver(id: u8, subject: &str, change: impl FnOnce(&mut NewKey)) -> Principal {
    principal([id; 6], |key| {
        (key.subject, key.level, key.is_agent) =
            (subject.to_owned(), PermissionLevel::Admin, false);
        key.rights = [Right::Approve].into();
        change(key);
    })
}

/// The same by a key that another one of the same person was delegated to.
fn delegated(id: u8, change: impl FnOnce(&mut KeyDelegation)) -> Principal {
    let above = KeyId::random([id + 100; 6]);
    let new = |id: KeyId, delegations: Vec<KeyDelegation>| {
        let key = NewKey {
            level: PermissionLevel::Admin,
            is_agent: false,
            rights: [Right::Approve].into(),
            delegations,
            ..NewKey::for_user(id, "eve")
        };
        key.issue_key([id_byte(&above); 32], WallTime(0)).unwrap()
    };
    let mut delegation = KeyDelegation {
        delegated_by: above.to_string(),
        allowed_tools: None,
        denied_tools: Vec::new(),
        is_read_only: false,
        denies_network: false,
        is_created_key: false,
    };
    change(&mut delegation);
    let (_, first) = new(above.clone(), Vec::new());
    let (secret, second) = new(KeyId::random([id; 6]), vec![delegation]);
    KeyRing::new([first, second]).verify_key(Some(secret.expose()), WallTime(1)).unwrap()
}

fn id_byte(id: &KeyId) -> u8 {
    id.as_str().bytes().fold(0, u8::wrapping_add)
}

fn args(text: &str) -> Json {
    Json::parse(text.to_owned(), JsonLimits::ARGUMENTS).unwrap()
}

/// What each way of looking and deciding answers.
async fn tried(bench: &Bench, who: &Principal, id: CallId) -> Vec<CallFailure> {
    let (gateway, by) = (&bench.gateway, (who, Interface::Rest));
    let all = [
        gateway.get_approval(who, id).await,
        gateway.approve_call(by, id, None).await,
        gateway.deny_call(by, id, None).await,
        gateway.edit_arguments(by, id, edit_of(args(r#"{"n": 2}"#))).await,
        gateway.last_approved_call(who, id).await.map(|found| found.unwrap()),
    ];
    all.into_iter().map(|came| came.unwrap_err()).collect()
}

async fn listed(bench: &Bench, who: &Principal) -> Vec<CallId> {
    let mut ids = BTreeSet::new();
    for pending in [true, false] {
        let page = bench.gateway.list_approvals(who, pending, (None, 10)).await.unwrap();
        ids.extend(page.approvals.iter().map(|shown| shown.id));
    }
    ids.into_iter().collect()
}

/// Persons who have the right to approve and cannot see the tool.
fn who_see_nothing() -> [(&'static str, Principal); 5] {
    let other = |key: &mut NewKey| {
        let modules = Some(BTreeSet::from(["other".to_owned()]));
        key.persona = Some(Persona { name: "key".to_owned(), allowed_modules: modules });
    };
    [
        ("a persona without its source", approver(20, "eve", other)),
        ("a level below the tool's", approver(21, "eve", |key| key.level = PermissionLevel::Guest)),
        (
            "a delegation that allows nothing",
            delegated(22, |request| request.allowed_tools = Some(Vec::new())),
        ),
        (
            "a delegation that denies it",
            delegated(23, |request| request.denied_tools = vec!["rm".to_owned()]),
        ),
        ("a delegation that only reads", delegated(24, |request| request.is_read_only = true)),
    ]
}

#[tokio::test]
async fn an_approver_decides_only_about_tools_in_its_own_view() {
    for (what, who) in who_see_nothing() {
        let bench = Bench::new();
        let user = tool("rm", |tool| tool.traits.min_level = PermissionLevel::User);
        bench.set_catalog(catalog_snapshot(2, vec![user], &bench.executor));
        let id = bench.hold_call().await;
        let missing = CallId(uuid::Uuid::from_u128(7));
        let unknown = tried(&bench, &who, missing).await;
        for (hidden, unknown) in tried(&bench, &who, id).await.iter().zip(unknown) {
            let message = unknown.message.replace(&missing.to_string(), &id.to_string());
            assert_eq!((hidden.code, &hidden.message), (unknown.code, &message), "{what}");
            assert_eq!(hidden.code, ErrorCode::NotFound, "{what}");
        }
        assert_eq!(listed(&bench, &who).await, [], "{what}");
        // The control: one who sees the tool sees the call and decides about it, as it was made.
        let sees = approver(30, "eve", |_| {});
        assert_eq!(listed(&bench, &sees).await, [id], "{what}");
        bench.gateway.approve_call((&sees, Interface::Rest), id, None).await.unwrap();
        let answer = bench.wait_for_response(id).await;
        assert_eq!((answer.status, super::body(&answer)), (CallStatus::Succeeded, r#"{"n": 1}"#));
    }
}

#[tokio::test]
async fn a_caller_sees_its_own_pending_call_also_where_its_tool_is_gone() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    bench.set_policy(&deny_policy(vec![policy::ToolPattern::new("rm").unwrap()]));
    assert_eq!(listed(&bench, &agent()).await, [id]);
    assert_eq!(bench.gateway.get_approval(&agent(), id).await.unwrap().id, id);
    assert_eq!(bench.gateway.withdraw_call(&agent(), id).await.unwrap().id, id);
    // To all others it is not there, and it never runs.
    assert_eq!(listed(&bench, &owner()).await, []);
    assert_eq!(bench.executor.call_count(), 0);
}

#[tokio::test]
async fn another_tool_under_the_name_shows_nobody_the_call() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let executor = std::sync::Arc::new(MockExecutor::new(|args| {
        Ok(ExecutionState::Completed(Outcome::from_value(args)))
    }));
    bench.set_catalog(super::catalog_with_source("t", 2, vec![tool("rm", |_| {})], &executor));
    assert_eq!(listed(&bench, &owner()).await, []);
    assert_eq!(bench.approve(id).await.unwrap_err().code, ErrorCode::NotFound);
    assert_eq!((bench.executor.call_count(), executor.call_count()), (0, 0));
}

/// Denies one subject what the other may do.
fn denies(subject: &str) -> Policy {
    let when = LocatedName {
        text: format!("principal.subject == '{subject}' && args.n > 5"),
        position: policy::FilePosition::default(),
    };
    let rule = PolicyRule {
        name: "small numbers".to_owned(),
        effect: RuleEffect::Deny,
        tools: None,
        condition: Some(when),
        time_window: None,
        examples: Vec::new(),
        position: policy::FilePosition::default(),
    };
    let global = PolicyLayer { rules: vec![rule], ..PolicyLayer::default() };
    Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap()
}

#[tokio::test]
async fn edited_arguments_are_decided_for_the_approver_and_for_the_caller() {
    let eve = approver(31, "eve", |_| {});
    for (whose, text) in [("eve", "you may not"), ("ann", "caller may not")] {
        let bench = Bench::new();
        bench.set_policy(&denies(whose));
        let id = bench.hold_call().await;
        let edit = async |text: &str| {
            bench.gateway.edit_arguments((&eve, Interface::Rest), id, edit_of(args(text))).await
        };
        let refused = edit(r#"{"n": 6}"#).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Forbidden, "{whose}: {refused:?}");
        assert!(refused.message.contains(text), "{whose}: {}", refused.message);
        // Nothing changed: what waits is what was called.
        let shown = bench.gateway.get_approval(&eve, id).await.unwrap();
        assert_eq!((shown.edit_count, shown.arguments.as_str()), (0, r#"{"n": 1}"#), "{whose}");
        // The control: arguments that both may call with are taken, and run.
        edit(r#"{"n": 5}"#).await.unwrap();
        bench.gateway.approve_call((&eve, Interface::Rest), id, None).await.unwrap();
        assert_eq!(super::body(&bench.wait_for_response(id).await), r#"{"n": 5}"#, "{whose}");
    }
}

/// A person's key, which another one created where `creator` says so.
fn person(id: u8, subject: &str, creator: Option<&str>) -> Principal {
    approver(id, subject, |key| key.creator = creator.map(str::to_owned))
}

/// An agent's.
fn agent_of(id: u8, subject: &str, creator: Option<&str>) -> Principal {
    principal([id; 6], |key| {
        (key.subject, key.creator) = (subject.to_owned(), creator.map(str::to_owned));
    })
}

/// A call of `who` that is pending; its key holds.
async fn pending(bench: &Bench, who: &Principal) -> CallId {
    bench.ports.principals.lock().unwrap().push(who.clone());
    let answer =
        bench.gateway.call_tool(who, crate::CallRequest::new("rm", "{}", Interface::Mcp)).await;
    assert_eq!(answer.status, CallStatus::Pending, "{answer:?}");
    answer.call_id
}

#[tokio::test]
async fn nobody_approves_an_own_call_by_whatever_interface_or_key() {
    let cases = [
        ("the same key", person(40, "ann", None), person(40, "ann", None)),
        ("another key of the subject", person(40, "ann", None), person(41, "ann", None)),
        ("a key that it created", person(42, "bot", Some("ann")), person(41, "ann", None)),
        ("a key that the caller created", person(40, "ann", None), person(43, "bob", Some("ann"))),
    ];
    for (what, caller, who) in cases {
        let bench = Bench::new();
        let id = pending(&bench, &caller).await;
        for interface in Interface::ALL.iter().copied() {
            let refused =
                bench.gateway.approve_call((&who, interface), id, None).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::Forbidden, "{what} by {interface}");
            let message = &refused.message;
            assert!(
                message.contains("own call") && message.contains("--agent"),
                "{what}: {message}"
            );
        }
        assert_eq!(
            (bench.executor.call_count(), bench.state(id).await),
            (0, super::ApprovalState::Pending)
        );
        // It may refuse it, as anyone may who sees it.
        let other = pending(&bench, &caller).await;
        bench.gateway.deny_call((&who, Interface::Rest), other, None).await.unwrap();
        // The control: another person's key approves the same call.
        bench
            .gateway
            .approve_call((&person(44, "eve", None), Interface::Rest), id, None)
            .await
            .unwrap();
        let answer =
            bench.gateway.wait_for_result(&caller, id, std::time::Duration::from_mins(9)).await;
        assert_eq!(answer.unwrap().status, CallStatus::Succeeded, "{what}");
    }
}

#[tokio::test]
async fn a_person_approves_the_calls_of_its_agents_by_every_interface() {
    let cases = [
        ("the first agent's", agent_of(50, "agent", None), person(51, "owner", None)),
        ("one that it created", agent_of(50, "bot", Some("ann")), person(51, "ann", None)),
        ("one of the same subject", agent_of(50, "ann", Some("ann")), person(51, "ann", None)),
    ];
    for (what, caller, who) in cases {
        for interface in [Interface::Mcp, Interface::Rest] {
            let bench = Bench::new();
            let id = pending(&bench, &caller).await;
            bench.gateway.approve_call((&who, interface), id, None).await.unwrap();
            let answer =
                bench.gateway.wait_for_result(&caller, id, std::time::Duration::from_mins(9)).await;
            assert_eq!(answer.unwrap().status, CallStatus::Succeeded, "{what} by {interface}");
        }
    }
}
