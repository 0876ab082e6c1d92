//! Tests of the authorization of pending calls: visibility, decisions, own calls.

use std::collections::BTreeSet;

use identity::{Delegation, KeyId, KeyRing, NewKey, Persona, Principal, Right};
use policy::{Effect, Layer, Policy, Rule, Rules, Word};
use testkit::executor::Scripted;
use tool::outcome::{Failure, Status};
use tool::{CallId, Code, Interface, Json, Level, Limits, Outcome, Step, Wall};

use super::{Bench, agent, denying, merged, owner, principal, tool};

/// A person of this organisation with the right to approve.
fn approver(id: u8, subject: &str, change: impl FnOnce(&mut NewKey)) -> Principal {
    principal([id; 6], |key| {
        (key.subject, key.level, key.agent) = (subject.to_owned(), Level::Admin, false);
        key.rights = [Right::Approve].into();
        change(key);
    })
}

/// The same by a key that another one of the same person was delegated to.
fn delegated(id: u8, change: impl FnOnce(&mut Delegation)) -> Principal {
    let above = KeyId::random([id + 100; 6]);
    let new = |id: KeyId, delegations: Vec<Delegation>| {
        let key = NewKey {
            level: Level::Admin,
            agent: false,
            rights: [Right::Approve].into(),
            delegations,
            ..NewKey::user(id, "eve")
        };
        key.issue([id_byte(&above); 32], Wall(0)).unwrap()
    };
    let mut delegation = Delegation {
        by: above.to_string(),
        allow: None,
        deny: Vec::new(),
        read_only: false,
        no_web: false,
        created: false,
    };
    change(&mut delegation);
    let (_, first) = new(above.clone(), Vec::new());
    let (secret, second) = new(KeyId::random([id; 6]), vec![delegation]);
    KeyRing::new([first, second]).verify(Some(secret.open()), Wall(1)).unwrap()
}

fn id_byte(id: &KeyId) -> u8 {
    id.as_str().bytes().fold(0, u8::wrapping_add)
}

fn args(text: &str) -> Json {
    Json::check(text.to_owned(), Limits::ARGUMENTS).unwrap()
}

/// What each way of looking and deciding answers.
async fn tried(bench: &Bench, who: &Principal, id: CallId) -> Vec<Failure> {
    let (gateway, by) = (&bench.gateway, (who, Interface::Rest));
    let all = [
        gateway.approval(who, id).await,
        gateway.approve(by, id, None).await,
        gateway.deny(by, id, None).await,
        gateway.edit(by, id, args(r#"{"n": 2}"#)).await,
    ];
    all.into_iter().map(|came| came.unwrap_err()).collect()
}

async fn listed(bench: &Bench, who: &Principal) -> Vec<CallId> {
    let mut ids = BTreeSet::new();
    for pending in [true, false] {
        let page = bench.gateway.approvals(who, pending, (None, 10)).await.unwrap();
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
        ("a level below the tool's", approver(21, "eve", |key| key.level = Level::Guest)),
        ("a delegation that allows nothing", delegated(22, |it| it.allow = Some(Vec::new()))),
        ("a delegation that denies it", delegated(23, |it| it.deny = vec!["rm".to_owned()])),
        ("a delegation that only reads", delegated(24, |it| it.read_only = true)),
    ]
}

#[tokio::test]
async fn an_approver_decides_only_about_tools_in_its_own_view() {
    for (what, who) in who_see_nothing() {
        let bench = Bench::new();
        let user = tool("rm", |tool| tool.traits.level = Level::User);
        bench.swapped(merged(2, vec![user], &bench.ran));
        let id = bench.held().await;
        let missing = CallId(uuid::Uuid::from_u128(7));
        let unknown = tried(&bench, &who, missing).await;
        for (hidden, unknown) in tried(&bench, &who, id).await.iter().zip(unknown) {
            let told = unknown.message.replace(&missing.to_string(), &id.to_string());
            assert_eq!((hidden.code, &hidden.message), (unknown.code, &told), "{what}");
            assert_eq!(hidden.code, Code::NotFound, "{what}");
        }
        assert_eq!(listed(&bench, &who).await, [], "{what}");
        // The control: one who sees the tool sees the call and decides about it, as it was made.
        let sees = approver(30, "eve", |_| {});
        assert_eq!(listed(&bench, &sees).await, [id], "{what}");
        bench.gateway.approve((&sees, Interface::Rest), id, None).await.unwrap();
        let answer = bench.settled(id).await;
        assert_eq!((answer.status, super::body(&answer)), (Status::Succeeded, r#"{"n": 1}"#));
    }
}

#[tokio::test]
async fn a_caller_sees_its_own_pending_call_also_where_its_tool_is_gone() {
    let bench = Bench::new();
    let id = bench.held().await;
    bench.ruled(&denying(vec![policy::Pattern::new("rm").unwrap()]));
    assert_eq!(listed(&bench, &agent()).await, [id]);
    assert_eq!(bench.gateway.approval(&agent(), id).await.unwrap().id, id);
    assert_eq!(bench.gateway.withdraw(&agent(), id).await.unwrap().id, id);
    // To all others it is not there, and it never runs.
    assert_eq!(listed(&bench, &owner()).await, []);
    assert_eq!(bench.ran.calls(), 0);
}

#[tokio::test]
async fn another_tool_under_the_name_shows_nobody_the_call() {
    let bench = Bench::new();
    let id = bench.held().await;
    let ran = std::sync::Arc::new(Scripted::new(|args| Ok(Step::Done(Outcome::value(args)))));
    bench.swapped(super::merged_of("t", 2, vec![tool("rm", |_| {})], &ran));
    assert_eq!(listed(&bench, &owner()).await, []);
    assert_eq!(bench.approve(id).await.unwrap_err().code, Code::NotFound);
    assert_eq!((bench.ran.calls(), ran.calls()), (0, 0));
}

/// Denies one subject what the other may do.
fn denies(subject: &str) -> Policy {
    let when = Word {
        text: format!("principal.subject == '{subject}' && args.n > 5"),
        at: policy::At::default(),
    };
    let rule = Rule {
        name: "small numbers".to_owned(),
        effect: Effect::Deny,
        tools: None,
        when: Some(when),
        time: None,
        examples: Vec::new(),
        at: policy::At::default(),
    };
    let global = Layer { rules: vec![rule], ..Layer::default() };
    Policy::new(Rules { global, ..Rules::default() }).unwrap()
}

#[tokio::test]
async fn edited_arguments_are_decided_for_the_approver_and_for_the_caller() {
    let eve = approver(31, "eve", |_| {});
    for (whose, says) in [("eve", "you may not"), ("ann", "caller may not")] {
        let bench = Bench::new();
        bench.ruled(&denies(whose));
        let id = bench.held().await;
        let edit =
            async |text: &str| bench.gateway.edit((&eve, Interface::Rest), id, args(text)).await;
        let refused = edit(r#"{"n": 6}"#).await.unwrap_err();
        assert_eq!(refused.code, Code::Forbidden, "{whose}: {refused:?}");
        assert!(refused.message.contains(says), "{whose}: {}", refused.message);
        // Nothing changed: what waits is what was called.
        let shown = bench.gateway.approval(&eve, id).await.unwrap();
        assert_eq!((shown.edits, shown.arguments.as_str()), (0, r#"{"n": 1}"#), "{whose}");
        // The control: arguments that both may call with are taken, and run.
        edit(r#"{"n": 5}"#).await.unwrap();
        bench.gateway.approve((&eve, Interface::Rest), id, None).await.unwrap();
        assert_eq!(super::body(&bench.settled(id).await), r#"{"n": 5}"#, "{whose}");
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
    bench.world.now.lock().unwrap().push(who.clone());
    let answer = bench.gateway.call(who, crate::Request::new("rm", "{}", Interface::Mcp)).await;
    assert_eq!(answer.status, Status::Waiting, "{answer:?}");
    answer.call
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
            let refused = bench.gateway.approve((&who, interface), id, None).await.unwrap_err();
            assert_eq!(refused.code, Code::Forbidden, "{what} by {interface}");
            let told = &refused.message;
            assert!(told.contains("own call") && told.contains("--agent"), "{what}: {told}");
        }
        assert_eq!((bench.ran.calls(), bench.state(id).await), (0, super::State::Pending));
        // It may refuse it, as anyone may who sees it.
        let other = pending(&bench, &caller).await;
        bench.gateway.deny((&who, Interface::Rest), other, None).await.unwrap();
        // The control: another person's key approves the same call.
        bench.gateway.approve((&person(44, "eve", None), Interface::Rest), id, None).await.unwrap();
        let answer = bench.gateway.settled(&caller, id, std::time::Duration::from_mins(9)).await;
        assert_eq!(answer.unwrap().status, Status::Succeeded, "{what}");
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
            bench.gateway.approve((&who, interface), id, None).await.unwrap();
            let answer =
                bench.gateway.settled(&caller, id, std::time::Duration::from_mins(9)).await;
            assert_eq!(answer.unwrap().status, Status::Succeeded, "{what} by {interface}");
        }
    }
}
