//! Test of 500 sources of which 50 are dead: lists and streams at `/mcp` have the items of the others, and
//! no list waits for a dead one.

mod dead_server;
mod live_servers;
mod mcp_session;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::{Server, spawn_server};
use dead_server::{DeadKind, DeadServer};
use live_servers::LiveServers;
use mcp_session::{ClientEra, McpSession};

const LIVE_SOURCES: usize = 450;
const DEAD_SOURCES: usize = 50;
/// Requests for which dead sources are given up come seldom; so many times the lists are read at most.
const MAX_ATTEMPTS: usize = 40;

/// The lists, with what names an item and how many items of each source they have at first.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

/// The servers, by the names of their sources.
struct Scene {
    live: LiveServers,
    dead: BTreeMap<String, (DeadKind, DeadServer)>,
    home: Installation,
}

impl Scene {
    async fn new() -> Self {
        let (live, mut dead) = (LiveServers::start().await, BTreeMap::new());
        let mut config = "version: 1\nsources:\n".to_owned();
        let mut add = |name: &str, url: &str| {
            // What is new is listed without a review.
            writeln!(config, "  - {{ name: {name}, mcp: {{ url: '{url}' }}, trust: full }}")
                .unwrap();
        };
        // The dead ones are among the others, the first one before all.
        for number in 0..DEAD_SOURCES {
            let kind = DeadKind::ALL[number % DeadKind::ALL.len()];
            let (name, server) = (format!("dead{number}"), DeadServer::start(kind).await);
            add(&name, &server.url);
            dead.insert(name, (kind, server));
            let each = LIVE_SOURCES / DEAD_SOURCES;
            for name in (number * each..(number + 1) * each).map(live_name) {
                add(&name, &live.url(&name));
            }
        }
        let home = Installation::new(&config);
        Self { live, dead, home }
    }

    /// Dead sources that have a connection.
    fn hanging(&self) -> impl Iterator<Item = &DeadServer> {
        self.dead.values().filter(|(kind, _)| *kind != DeadKind::Refuses).map(|(_, it)| it)
    }
}

fn live_name(number: usize) -> String {
    format!("live{number}")
}

/// The state and the first problem of each source where operators look.
async fn source_states(owner: &Client) -> BTreeMap<String, (String, Value)> {
    let sources = owner.get("/v1/sources").await.body["sources"].take();
    let state = |source: &Value| {
        let text = |key: &str| source[key].as_str().unwrap().to_owned();
        (text("name"), (text("state"), source["problems"][0].clone()))
    };
    sources.as_array().unwrap().iter().map(state).collect()
}

async fn wait_for_states(
    owner: &Client,
    what: &str,
    fits: impl Fn(&BTreeMap<String, (String, Value)>) -> bool,
) {
    let mut last = BTreeMap::new();
    for _ in 0..1_200 {
        last = source_states(owner).await;
        if fits(&last) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}: {last:#?}");
}

/// What lists of `additions` changes have of the live sources.
fn expected_names(list: &str, additions: usize) -> BTreeSet<String> {
    let names = (0..LIVE_SOURCES).map(live_name).flat_map(|source| {
        let items = (0..=additions).map(|item| match list {
            "tools/list" | "prompts/list" => format!("{source}.{source}-{item}"),
            "resources/list" => format!("test://{source}-{item}"),
            _ => format!("{source}://{{id}}"),
        });
        items.collect::<Vec<_>>()
    });
    names.collect()
}

/// Reads each list and compares it with what live sources have.
async fn read_lists(client: &McpSession, additions: usize) {
    for (method, member, key) in LISTS {
        let names = client.list(method, member, key).await;
        let seen: BTreeSet<String> =
            names.into_iter().filter(|name| name.contains("live")).collect();
        let expected = expected_names(method, additions);
        assert!(seen == expected, "{method}: {} of {} items", seen.len(), expected.len());
    }
}

/// Reads all lists until each hanging source has waited during a whole reading. Nothing is ever answered
/// to it, so a list that waited for it would come only after Toolkeep gave it up.
async fn read_while_sources_hang(scene: &Scene, clients: &[McpSession], additions: usize) {
    let (mut waited, mut asked_none) = (BTreeSet::new(), false);
    for _ in 0..MAX_ATTEMPTS {
        let before: Vec<_> = scene.hanging().map(|it| (it.begun(), it.given_up())).collect();
        let requests = scene.live.requests();
        for client in clients {
            read_lists(client, additions).await;
        }
        asked_none |= scene.live.requests() == requests;
        for (index, (source, (begun, given_up))) in scene.hanging().zip(before).enumerate() {
            if begun > given_up && source.given_up() == given_up {
                waited.insert(index);
            }
        }
        if asked_none && waited.len() == scene.hanging().count() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!(
        "{} of {} sources waited; a list asks no source: {asked_none}",
        waited.len(),
        scene.hanging().count()
    );
}

/// Each dead source is named, with its address and what is wrong.
async fn assert_dead_sources_named(owner: &Client, scene: &Scene) {
    wait_for_states(owner, "the dead sources have failed", |states| {
        scene.dead.keys().all(|name| states[name].0 == "failed")
    })
    .await;
    let states = source_states(owner).await;
    for (name, (kind, server)) in &scene.dead {
        let (_, problem) = &states[name];
        let text = |key: &str| problem[key].as_str().unwrap_or_default();
        let place = server.url.trim_end_matches("/mcp");
        assert!(text("place").contains(place), "{name}, {kind:?}: {problem}");
        assert!(text("message").len() > 10, "{name}, {kind:?}: {problem}");
    }
    let ok = states.iter().filter(|(name, (state, _))| name.starts_with("live") && state == "ok");
    assert_eq!(ok.count(), LIVE_SOURCES);
}

async fn start_with_live_sources(scene: &Scene) -> Server {
    let server = spawn_server(&scene.home).wait_until_ready().await;
    wait_for_states(&server.owner(), "the live sources are listed", |states| {
        states.len() > LIVE_SOURCES
            && (0..LIVE_SOURCES).all(|number| states[&live_name(number)].0 == "ok")
    })
    .await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_dead_sources_of_five_hundred_delay_no_list_and_are_named() {
    let scene = Scene::new().await;
    let server = start_with_live_sources(&scene).await;
    let owner = server.owner();
    let mut clients = Vec::new();
    let mut streams = Vec::new();
    for era in [ClientEra::Handshake, ClientEra::Stateless] {
        let client = McpSession::open(&server, era).await;
        streams.push(client.open_stream().await);
        clients.push(client);
    }
    read_while_sources_hang(&scene, &clients, 0).await;

    // One source changes: streams tell it, and the lists have it, while the dead ones hang.
    scene.live.add_items();
    for number in 0..LIVE_SOURCES {
        let body = json!({ "source": live_name(number) });
        assert_eq!(owner.post("/v1/sources/refresh", &body).await.status, 200);
    }
    for stream in &mut streams {
        let mut methods = BTreeSet::new();
        while methods.len() < 3 {
            let message = stream.next().await;
            methods.insert(message["method"].as_str().unwrap().to_owned());
        }
        let lists = ["prompts", "resources", "tools"];
        let expected = lists.map(|list| format!("notifications/{list}/list_changed"));
        assert_eq!(methods, BTreeSet::from(expected));
    }
    read_while_sources_hang(&scene, &clients, 1).await;

    assert_dead_sources_named(&owner, &scene).await;
    // The control: who asks a dead source itself waits until it is given up.
    let mut dead = scene.dead.iter();
    let (silent, (_, dead)) = dead.find(|(_, (kind, _))| *kind == DeadKind::Silent).unwrap();
    let given_up = dead.given_up();
    let reply = owner.post("/v1/sources/refresh", &json!({ "source": silent })).await;
    assert_eq!(reply.status, 200);
    // The dead server may read the end of the connection a little later.
    for _ in 0..600 {
        if dead.given_up() > given_up {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(dead.given_up() > given_up, "a refresh of `{silent}` asks it");
    assert!(server.stop().await.success());
}
