//! Tests that `/mcp` lists and serves exactly the items of the sources that the caller may use, for many
//! random callers: the expected answer is computed from levels and personas alone.

use std::collections::BTreeSet;

use identity::Persona;
use serde_json::{Value, json};
use server_core::event_log::EventKind;
use tool::{Offer, PermissionLevel};

use super::all_sources::{answering, asked, method_for, methods};
use crate::support::client::message;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

const LEVELS: [PermissionLevel; 4] =
    [PermissionLevel::Guest, PermissionLevel::User, PermissionLevel::Admin, PermissionLevel::Owner];

/// Sources and callers: a sample, or the full counts.
fn counts() -> (usize, u64) {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { (100, 1_000) } else { (12, 24) }
}

/// A generator of numbers that are the same in each run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    /// Some of these, each with an even chance.
    pub(super) fn some<T: Copy>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().copied().filter(|_| self.below(2) == 0).collect()
    }
}

/// A source: who may use it, and what it has.
struct Described {
    name: &'static str,
    level: PermissionLevel,
}

impl Described {
    fn new(number: usize, numbers: &mut Numbers) -> Self {
        // Leaked: the executors of tests answer with a name that outlives them.
        let name = Box::leak(format!("s{number}").into_boxed_str());
        Self { name, level: LEVELS[numbers.below(LEVELS.len())] }
    }

    fn offers(&self) -> Vec<Offer> {
        let name = self.name;
        let mut offers = methods(name, self.level);
        offers.push(tools::prompt_offer_of(name, &json!({"name": "greet"})));
        offers.push(tools::resource_offer(&json!({"uri": format!("{name}://r"), "name": "r"})));
        offers.push(tools::resource_offer(&json!({"uri": "test://shared", "name": "r"})));
        offers.push(tools::resource_offer(
            &json!({"uriTemplate": format!("{name}://t/{{id}}"), "name": "t"}),
        ));
        offers.push(tools::skill_offer(&format!("skill://{name}"), "d", &["a.md"]));
        let page = answering(move |_| json!({"events": [], "cursor": name}));
        offers.push(method_for("mcp.events.poll", page, self.level));
        offers.push(tools::event_offer(name, &json!({"name": "made", "delivery": ["poll"]})));
        offers
    }
}

async fn listed(client: &Client, method: &str, member: &str, key: &str) -> BTreeSet<String> {
    let list = asked(client, method, json!({})).await["result"][member].clone();
    list.as_array().unwrap().iter().map(|it| it[key].as_str().unwrap().to_owned()).collect()
}

/// Compares what the caller is listed with the sources that it may use.
async fn compare_lists(client: &Client, sources: &[Described], may: &dyn Fn(&Described) -> bool) {
    let seen: Vec<_> = sources.iter().filter(|it| may(it)).map(|it| it.name).collect();
    let all =
        |write: &dyn Fn(&str) -> String| seen.iter().map(|it| write(it)).collect::<BTreeSet<_>>();
    let prompts = listed(client, "prompts/list", "prompts", "name").await;
    assert_eq!(prompts, all(&|it| format!("{it}.greet")));
    let mut resources = all(&|it| format!("{it}://r"));
    match seen.as_slice() {
        [] => {}
        [_] => drop(resources.insert("test://shared".to_owned())),
        several => resources.extend(several.iter().map(|it| format!("{it}+test://shared"))),
    }
    assert_eq!(listed(client, "resources/list", "resources", "uri").await, resources);
    let templates = listed(client, "resources/templates/list", "resourceTemplates", "uriTemplate");
    assert_eq!(templates.await, all(&|it| format!("{it}://t/{{id}}")));
    let skills = listed(client, "skills/list", "skills", "uri").await;
    assert_eq!(skills, all(&|it| format!("skill://{it}/SKILL.md")));
    // Only the newer era has events.
    let events = client.modern_request("events/list", json!({})).await.json();
    let events = events["result"]["events"].as_array().unwrap().clone();
    let names = events.iter().map(|it| it["name"].as_str().unwrap().to_owned());
    let of_sources: BTreeSet<_> = names.filter(|it| EventKind::parse(it).is_none()).collect();
    assert_eq!(of_sources, all(&|it| format!("{it}.made")));
}

/// Compares what the caller is served: the rest is answered as what nobody has.
async fn compare_answers(client: &Client, sources: &[Described], may: &dyn Fn(&Described) -> bool) {
    for source in sources {
        let name = source.name;
        for (method, params) in [
            ("prompts/get", json!({"name": format!("{name}.greet")})),
            ("resources/read", json!({"uri": format!("{name}://r")})),
            ("resources/read", json!({"uri": format!("{name}://t/1")})),
            ("skills/get", json!({"uri": format!("skill://{name}/SKILL.md")})),
        ] {
            let answer =
                client.legacy_request(&message(method, params.clone())).await.text().to_owned();
            if may(source) {
                assert!(answer.contains("\"result\""), "{method} {params} {answer}");
                continue;
            }
            let unknown: Value =
                serde_json::from_str(&params.to_string().replace(name, "none")).unwrap();
            let unknown = client.legacy_request(&message(method, unknown)).await;
            assert_eq!(answer.replace(name, "none"), unknown.text(), "{method} {params}");
        }
        for method in ["events/poll", "events/stream"] {
            let ask = async |name: &str| {
                client.modern_request(method, json!({"name": format!("{name}.made")})).await
            };
            let answer = ask(name).await.text().to_owned();
            if may(source) {
                // The control of a stream, which this source does not have, is another error.
                let word = if method == "events/poll" { "\"result\"" } else { "-32026" };
                assert!(answer.contains(word), "{method} {name} {answer}");
                continue;
            }
            assert_eq!(answer.replace(name, "none"), ask("none").await.text(), "{method} {name}");
        }
    }
}

#[tokio::test]
async fn each_caller_gets_the_items_of_the_sources_that_it_may_use() {
    let (source_count, callers) = counts();
    let mut numbers = Numbers(7);
    let server =
        FixtureServer::with_setup(ServerSetup { kind: Some("mcp"), ..ServerSetup::default() })
            .await;
    let mut sources = Vec::new();
    for number in 0..source_count {
        let source = Described::new(number, &mut numbers);
        server.add_mcp_source(source.name, source.offers()).await;
        sources.push(source);
    }
    for caller in 0..callers {
        let level = LEVELS[numbers.below(LEVELS.len())];
        let modules: BTreeSet<String> =
            sources.iter().filter(|_| numbers.below(2) == 0).map(|it| it.name.to_owned()).collect();
        let persona = (numbers.below(3) > 0).then(|| Persona {
            name: format!("p{caller}"),
            allowed_modules: Some(modules.clone()),
        });
        let client = server
            .client_with(|key| {
                (key.subject, key.level) = (format!("caller{caller}"), level);
                key.persona.clone_from(&persona);
            })
            .await;
        let may = |it: &Described| {
            level >= it.level && persona.as_ref().is_none_or(|_| modules.contains(it.name))
        };
        compare_lists(&client, &sources, &may).await;
        compare_answers(&client, &sources, &may).await;
    }
}
