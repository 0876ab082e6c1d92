//! The authorization matrix: what each of many random principals may do, by every interface, against one
//! plain model of it. What one interface shows, another does not hide, and what one refuses, no other does.

mod model;
mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gateway::Patience;
use proto::connect::Line;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::Level;
use tool::plugin::Plugins;

use crate::grpc::listening;
use crate::support::{Client, Server, Setup};
use model::{Action, Dice, Mistake, Person, THINGS, dangerous, expected};

/// How many principals.
const PEOPLE: usize = 500;
/// How many tools each of them shows, calls and has explained.
const TRIED: usize = 3;

/// A server with everything that the matrix asks about.
struct Fixture {
    server: Server,
    /// An agent that called each dangerous tool.
    bot: Client,
    /// Those calls, in the order of the tools; they were denied.
    decided: Vec<String>,
}

/// The interfaces beside HTTP.
struct Interfaces {
    line: Line,
    _stop: CancellationToken,
    _tasks: TaskTracker,
}

impl Fixture {
    async fn new() -> Self {
        let patience = Patience { pending: 100_000, per_minute: 100_000, ..Patience::default() };
        let plugins: Arc<dyn Plugins> = Arc::new(crate::plugins::One::default());
        let notices =
            server::Notices { page: None, poll: Duration::ZERO, open: Duration::from_millis(1) };
        let server = Server::with(Setup {
            offers: THINGS.iter().map(|tool| tool.offer()).collect(),
            patience: Some(patience),
            plugins: Some(plugins),
            trust: Some(tool::Trust::FirstUse),
            notices,
            ..Setup::default()
        })
        .await;
        server.intake.rule(&model::policy());
        let (bot, owner) = (server.agent("bot", Level::Owner).await, server.owner().await);
        let mut decided = Vec::new();
        for tool in dangerous() {
            let reply = bot.call(THINGS[tool].name, json!({"n": 1})).await.json();
            let id = reply["call_id"].as_str().unwrap().to_owned();
            owner.post(&format!("/v1/approvals/{id}/deny"), &json!({})).await.good();
            decided.push(id);
        }
        Self { server, bot, decided }
    }

    async fn interfaces(&self) -> Interfaces {
        let (line, stop, tasks) = listening(&self.server).await;
        Interfaces { line, _stop: stop, _tasks: tasks }
    }

    /// Whether this principal approves a call that is pending now.
    async fn approves(&self, client: &Client, tool: usize) -> String {
        let called = self.bot.call(THINGS[tool].name, json!({"n": 3})).await.json();
        let path = format!("/v1/approvals/{}/approve", called["call_id"].as_str().unwrap());
        match client.post(&path, &json!({})).await.status.as_u16() {
            200 => "allowed".to_owned(),
            403 => "forbidden".to_owned(),
            404 => "hidden".to_owned(),
            other => other.to_string(),
        }
    }
}

/// What somebody got, by an interface.
type Seen = (usize, Action, &'static str, String);

/// Where the model says something else.
fn differences(people: &[Person], seen: &[Seen], mistake: Mistake) -> Vec<String> {
    let differs = |(who, action, interface, came): &Seen| {
        let person = &people[*who];
        let expected = expected(person, *action, mistake);
        (expected != *came).then(|| {
            format!("{action:?} by {interface}: `{came}`, and not `{expected}`, for {person:?}")
        })
    };
    seen.iter().filter_map(differs).collect()
}

#[tokio::test]
async fn five_hundred_random_principals_get_the_same_at_every_interface_as_in_the_model() {
    let fixture = Fixture::new().await;
    let interfaces = fixture.interfaces().await;
    let mut dice = Dice(0x5eed_2026);
    let people: Vec<_> = (0..PEOPLE).map(|number| Person::random(&mut dice, number)).collect();
    let mut seen: Vec<Seen> = Vec::new();
    for (who, person) in people.iter().enumerate() {
        let (client, _) = fixture.server.known(person.key()).await;
        let tools: BTreeSet<_> = (0..TRIED).map(|_| dice.below(THINGS.len())).collect();
        let tools: Vec<_> = tools.into_iter().collect();
        let all = observe::all((&fixture, &interfaces), &client, &tools).await;
        seen.extend(all.into_iter().map(|(action, came)| (who, action, came.0, came.1)));
        let tool = dangerous().nth(dice.below(3)).unwrap();
        let came = fixture.approves(&client, tool).await;
        seen.push((who, Action::Approve(tool), "rest, pending", came));
    }
    let differs = differences(&people, &seen, Mistake::None);
    let shown = differs.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differs.is_empty(), "{} of {} differ:\n{shown}", differs.len(), seen.len());
    // The control: the comparison finds each of these mistakes in the model, and so would find the same
    // fault in the server.
    for mistake in Mistake::ALL {
        let found = differences(&people, &seen, mistake).len();
        assert!(found > 0, "{mistake:?} makes no difference");
        println!("control: {mistake:?}: {found} differences");
    }
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (_, action, interface, came) in &seen {
        let names = matches!(action, Action::List | Action::Approvals | Action::Sources);
        *counts.entry((*interface, if names { "names" } else { came })).or_default() += 1;
    }
    println!("authorization matrix: {} outcomes of {PEOPLE} principals: {counts:?}", seen.len());
    // Each interface has shown and refused something.
    for interface in ["rest", "modules", "mcp 2025-11-25", "mcp 2026-07-28", "grpc"] {
        for class in ["allowed", "hidden", "pending"] {
            let count = counts.get(&(interface, class)).copied().unwrap_or_default();
            assert!(count > 50, "{interface} was {class} only {count} times");
        }
    }
}
