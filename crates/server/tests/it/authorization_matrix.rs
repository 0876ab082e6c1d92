//! Tests of the authorization matrix: random principals at every interface, compared with a plain
//! model. All interfaces must show and refuse the same.

mod console;
mod inventory;
mod matrix_fixture;
mod model;
mod observe;
mod requests;

use std::collections::{BTreeMap, BTreeSet};

use matrix_fixture::{Fixture, Interfaces};
use model::{Action, MODEL_TOOLS, Mistake, Person, RandomSource, dangerous, expected};

/// Number of principals: 250, or 500 where `TOOLKEEP_DEEP` is set. With 100, some mistakes in the model
/// make no difference.
fn people_count() -> usize {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 500 } else { 250 }
}

/// Number of tools that each principal lists, calls and explains.
const TRIED: usize = 2;

/// Result of an action at an interface.
type MatrixObservation = (usize, Action, &'static str, String);

/// Actions that are tested together, for all principals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Lists, tools, calls, methods of MCP.
    Tools,
    /// Pending calls.
    Decisions,
    /// Everything else.
    Requests,
}

/// Actions whose result differs from the model.
fn differences(people: &[Person], seen: &[MatrixObservation], mistake: Mistake) -> Vec<String> {
    let differs = |(who, action, interface, came): &MatrixObservation| {
        let person = &people[*who];
        let expected = expected(person, *action, mistake);
        let what = || match action {
            Action::Request(index) => format!("{:?}", requests::REQUESTS[*index]),
            action => format!("{action:?}"),
        };
        (expected != *came).then(|| {
            format!("{} by {interface}: `{came}`, and not `{expected}`, for {person:?}", what())
        })
    };
    seen.iter().filter_map(differs).collect()
}

/// Has each principal try what the group tries, and compares it with the model; with each mistake in the model a
/// difference must be found.
async fn run_matrix(group: Group, mistakes: &[Mistake]) -> Vec<MatrixObservation> {
    let fixture = Fixture::new().await;
    let interfaces = fixture.interfaces().await;
    let mut dice = RandomSource(0x5eed_2026);
    let people: Vec<_> =
        (0..people_count()).map(|number| Person::random(&mut dice, number)).collect();
    let mut seen: Vec<MatrixObservation> = Vec::new();
    for (who, person) in people.iter().enumerate() {
        let client = fixture.client(person).await;
        let came = match group {
            Group::Tools => {
                let tools: BTreeSet<_> =
                    (0..TRIED).map(|_| dice.below(MODEL_TOOLS.len())).collect();
                observe::tools(&interfaces, &client, &tools.into_iter().collect::<Vec<_>>()).await
            }
            Group::Decisions => {
                let mut any = || dangerous().nth(dice.below(3)).unwrap();
                let mut came = observe::decisions(&fixture, &client, any()).await;
                let tool = any();
                let approved = fixture.approves(&client, tool).await;
                came.push((Action::Approve(tool), ("rest, pending", approved)));
                came
            }
            Group::Requests => {
                let mut came = observe::managed(&client).await;
                came.extend(observe::requests(&fixture, &client, who).await);
                came
            }
        };
        seen.extend(came.into_iter().map(|(action, came)| (who, action, came.0, came.1)));
    }
    let differs = differences(&people, &seen, Mistake::None);
    let shown = differs.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differs.is_empty(), "{} of {} differ:\n{shown}", differs.len(), seen.len());
    inventory::assert_tried(group, &seen);
    // The control: the comparison finds each of these mistakes in the model, and so would find the same
    // fault in the server.
    for mistake in mistakes {
        let found = differences(&people, &seen, *mistake).len();
        assert!(found > 0, "{mistake:?} makes no difference");
        println!("control: {mistake:?}: {found} differences");
    }
    println!("authorization matrix: {} outcomes of {} principals", seen.len(), people.len());
    seen
}

/// How often each interface gave what.
fn counts(seen: &[MatrixObservation]) -> BTreeMap<(&'static str, &str), usize> {
    let mut counts = BTreeMap::new();
    for (_, _, interface, came) in seen {
        *counts.entry((*interface, came.as_str())).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn random_principals_get_the_same_at_every_interface_as_in_the_model() {
    let mistakes = [
        Mistake::LevelIsIgnored,
        Mistake::PersonaIsIgnored,
        Mistake::RoleIsIgnored,
        Mistake::DenyIsIgnored,
        Mistake::ReadOnlyIsIgnored,
        Mistake::NoWebIsIgnored,
        Mistake::LastDelegationOnly,
        Mistake::ChainIsIgnored,
        Mistake::OrgIsIgnored,
        Mistake::ActorIsIgnored,
        Mistake::WardIsIgnored,
    ];
    let seen = run_matrix(Group::Tools, &mistakes).await;
    // Each interface has shown and refused something.
    let counts = counts(&seen);
    let all = ["rest", "modules", "one module", "mcp 2025-11-25", "mcp 2026-07-28", "one source"];
    for interface in all.into_iter().chain(["grpc", "grpc node"]) {
        for class in ["allowed", "hidden", "pending"] {
            let count = counts.get(&(interface, class)).copied().unwrap_or_default();
            assert!(count > people_count() / 16, "{interface} was {class} only {count} times");
        }
    }
    for class in ["allowed", "hidden"] {
        let count = counts.get(&("cluster", class)).copied().unwrap_or_default();
        assert!(count > people_count() / 25, "cluster was {class} only {count} times");
    }
}

#[tokio::test]
async fn random_principals_decide_about_pending_calls_as_in_the_model() {
    let mistakes = [
        Mistake::ApproversSeeAll,
        Mistake::AgentsApprove,
        Mistake::RightsAreIgnored,
        Mistake::LevelIsIgnored,
        Mistake::PersonaIsIgnored,
        Mistake::RoleIsIgnored,
        Mistake::DenyIsIgnored,
        Mistake::OrgIsIgnored,
        Mistake::WardIsIgnored,
    ];
    let seen = run_matrix(Group::Decisions, &mistakes).await;
    let counts = counts(&seen);
    for (interface, class) in [
        ("rest", "allowed"),
        ("rest", "hidden"),
        ("rest, own", "forbidden"),
        ("modules, own", "forbidden"),
        ("mcp 2026-07-28, own", "forbidden"),
        ("mcp 2026-07-28", "hidden"),
        ("rest, pending", "allowed"),
    ] {
        let count = counts.get(&(interface, class)).copied().unwrap_or_default();
        assert!(count > people_count() / 16, "{interface} was {class} only {count} times");
    }
}

#[tokio::test]
async fn random_principals_read_and_change_the_server_as_in_the_model() {
    let mistakes = [
        Mistake::RightsAreIgnored,
        Mistake::LevelIsIgnored,
        Mistake::PersonaIsIgnored,
        Mistake::OrgIsIgnored,
        Mistake::WardIsIgnored,
        Mistake::ActorIsIgnored,
        Mistake::AgentIsIgnored,
        Mistake::DelegatedIsIgnored,
        Mistake::AnyNodeIsOwn,
    ];
    let seen = run_matrix(Group::Requests, &mistakes).await;
    // Each request was allowed for some and refused for others, except for those that are for all
    // or for none.
    let mut came = BTreeMap::<usize, BTreeSet<&str>>::new();
    for (_, action, _, class) in &seen {
        if let Action::Request(index) = action {
            came.entry(*index).or_default().insert(class);
        }
    }
    for (index, classes) in came {
        let request = &requests::REQUESTS[index];
        let same = request.route.contains(" /catalogue/")
            || request.route == "GET /metrics"
            || ["POST /v1/sign-in-links", "GET /v1/attention", "GET /v1/activity"]
                .contains(&request.route)
            || request.route == "GET /v1/approvals/{id}/last-approved"
            || request.route == "GET /v1/calls/{id}/children"
            || ["GET /v1/toolsets", "GET /v1/toolsets/{name}"].contains(&request.route)
            || request.body.contains(r#""subject":"owner-"#);
        assert!(classes.len() > 1 || same, "{request:?}: {classes:?}");
    }
}
