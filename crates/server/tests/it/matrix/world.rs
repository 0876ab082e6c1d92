//! The server of the matrix, with everything that is asked about.

use std::sync::Arc;
use std::time::Duration;

use egress::{Egress, EgressSettings};
use gateway::Patience;
use identity::{NewKey, OrgRecord, Persona, Right, Role, User};
use intake::Sourced;
use nodes::{Addresses, Registry};
use proto::connect::Line;
use proto::serve::{Asked, Boxed, Said, Tools, serve};
use proto::{MetadataMap, Status};
use serde_json::{Value, json};
use server_core::Keys;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::executor::echo;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::catalogue::Catalogue;
use tool::node::{NodeTool, Nodes, Speaks};
use tool::plugin::Plugins;
use tool::{Clock as _, Level, Org, Source, Trust, Wall};

use super::model::{self, METHODS, Person, THINGS, WARDS, dangerous};
use super::requests::{FAR_TOOL, NEAR_TOOL};
use crate::grpc::listening;
use crate::support::client::modern_message;
use crate::support::{Client, Server, Setup, soon, tools};

/// A node whose every tool answers.
struct Node;

impl Tools for Node {
    fn who(&self, _: MetadataMap) -> Boxed<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn list(&self, _: MetadataMap) -> Boxed<Result<Vec<proto::node::Tool>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call(&self, _: Asked) -> Boxed<Result<Said, Status>> {
        let said = Said { success: true, output: "{}".into(), ..Said::default() };
        Box::pin(async { Ok(said) })
    }
    fn node_id(&self) -> String {
        String::new()
    }
    fn draining(&self) -> bool {
        false
    }
}

/// A server with everything that the matrix asks about.
pub(super) struct Fixture {
    server: Server,
    /// An agent that called each dangerous tool.
    bot: Client,
    /// Those calls, in the order of the tools; they were denied.
    pub(super) decided: Vec<String>,
    /// A call of the agent's by MCP that is pending, with what it was given to come back with.
    pub(super) resumed_by_bot: Value,
    /// A key that was revoked.
    revoked: String,
    /// What the node `n1` sends to join.
    joining: String,
    _catalogue: tempfile::TempDir,
    _node: CancellationToken,
}

/// The interfaces beside HTTP.
pub(super) struct Interfaces {
    pub(super) line: Line,
    _stop: CancellationToken,
    _tasks: TaskTracker,
}

/// A registry with two nodes, which a process of their own would be.
async fn registry() -> (Arc<Registry>, CancellationToken) {
    let egress = Egress::new(EgressSettings::default()).unwrap();
    let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
    let registry = Arc::new(Registry::open(store, egress, clock).await.unwrap());
    let authority = nodes::Authority::make(Wall(0)).unwrap();
    registry.set_authority(nodes::Authority::open(&authority).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    drop(TaskTracker::new().spawn(serve(Arc::new(Node), listener, None, stop.clone())));
    let url = |node: &str| (node.to_owned(), format!("http://{address}"));
    let nodes = ["n1", "n2"].map(url).into_iter().collect();
    registry.set_addresses(Addresses { nodes, ..Addresses::default() });
    for tool in [NEAR_TOOL, FAR_TOOL] {
        let tool: NodeTool = serde_json::from_str(tool).unwrap();
        registry.register(&Speaks::All, tool).await.unwrap();
    }
    (registry, stop)
}

/// Has the catalog list the tools of both nodes.
async fn listed(server: &Server, registry: &Registry) {
    for source in registry.sources() {
        let (source, kind) = (source as Arc<dyn Source>, "node");
        server.intake.add(Some(Sourced {
            source,
            kind,
            trust: Trust::Full,
            durability: None,
            poll: None,
            fingerprint: 1,
        }));
    }
    let mut numbers = server.intake.numbers();
    let of_nodes = || {
        let catalog = server.intake.catalog();
        catalog.tools().filter(|entry| entry.key.source.as_str().starts_with("node.")).count()
    };
    soon(numbers.wait_for(|_| of_nodes() == 2)).await.unwrap();
}

/// Users, personas, roles and organisations that the requests are about.
async fn directory(server: &Server) {
    let keys = &server.keys;
    let (home, other) = (Org::default(), Org::new("other").unwrap());
    let third = Org::new("third").unwrap();
    for persona in WARDS.iter().filter_map(|ward| ward.persona()) {
        keys.keep_persona(&persona, true).await.unwrap();
    }
    let sources = Some(["s".to_owned()].into());
    let fixed = Persona { name: "fixed".to_owned(), allowed_modules: sources };
    keys.keep_persona(&fixed, true).await.unwrap();
    let user = |org: &Org, subject: &str, level| User {
        org: org.clone(),
        subject: subject.to_owned(),
        level,
        roles: Vec::new(),
        persona: None,
        disabled: None,
    };
    for org in [&home, &other] {
        for ward in WARDS {
            keys.keep_user(&ward.user(org.clone())).await.unwrap();
        }
        keys.keep_user(&user(org, "twin", Level::Guest)).await.unwrap();
        keys.keep_user(&user(org, "target", Level::User)).await.unwrap();
        let sleeper = user(org, "sleeper", Level::Admin);
        keys.keep_user(&User { disabled: Some(Wall(1)), ..sleeper }).await.unwrap();
        let key = NewKey { org: org.clone(), ..NewKey::user(Keys::fresh_id().unwrap(), "target") };
        keys.create(key, server.clock.wall()).await.unwrap();
    }
    keys.keep_user(&user(&third, "third-party", Level::Guest)).await.unwrap();
    roles_and_orgs(keys).await;
}

async fn roles_and_orgs(keys: &Keys) {
    let org = |name: &Org, disabled| OrgRecord {
        name: name.clone(),
        description: String::new(),
        disabled,
    };
    keys.keep_org(&org(&Org::new("other").unwrap(), None)).await.unwrap();
    keys.keep_org(&org(&Org::new("asleep").unwrap(), Some(Wall(1)))).await.unwrap();
    let role = |name: &str, rights: &[Right], revoked| Role {
        name: name.to_owned(),
        description: String::new(),
        level: None,
        rights: rights.iter().copied().collect(),
        revoked,
    };
    keys.keep_role(&role("plain", &[], None)).await.unwrap();
    keys.keep_role(&role("giver", &[Right::RecordsRead], None)).await.unwrap();
    keys.keep_role(&role("over", &[], Some(Wall(1)))).await.unwrap();
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let patience = Patience { pending: 100_000, per_minute: 100_000, ..Patience::default() };
        let plugins: Arc<dyn Plugins> = Arc::new(crate::plugins::One::default());
        let (registry, node) = registry().await;
        let (catalogue, folder) = crate::catalogue::made().await;
        let notices = server_core::Notices {
            page: None,
            poll: Duration::ZERO,
            open: Duration::from_millis(1),
        };
        let of_source = THINGS.iter().filter(|thing| thing.source == "s");
        let methods = METHODS.iter().map(|name| tools::method(name, echo()));
        let beside = [
            tools::prompt(&json!({"name": "p"})),
            tools::resource(&json!({"uri": "test:///r", "name": "r"})),
        ];
        let mut offers: Vec<_> = of_source.map(|thing| thing.offer()).collect();
        offers.extend(methods.chain(beside));
        let server = Server::with(Setup {
            offers,
            kind: Some("module"),
            patience: Some(patience),
            plugins: Some(plugins),
            nodes: Some(Arc::clone(&registry) as Arc<dyn Nodes>),
            catalogue: Some(catalogue as Arc<dyn Catalogue>),
            trust: Some(Trust::FirstUse),
            notices,
            ..Setup::default()
        })
        .await;
        server.intake.rule(&model::policy());
        listed(&server, &registry).await;
        directory(&server).await;
        let revoked = server.agent("revoked", Level::User).await;
        server.revoke(&revoked).await;
        let bot = server.agent("bot", Level::Owner).await;
        let mut fixture = Self {
            bot,
            decided: Vec::new(),
            resumed_by_bot: Value::Null,
            revoked: revoked.key_id,
            joining: crate::cluster::joining("n1").to_string(),
            server,
            _catalogue: folder,
            _node: node,
        };
        fixture.decide().await;
        fixture
    }

    /// The agent's calls, which an owner denies, and one that stays pending.
    async fn decide(&mut self) {
        let owner = self.server.owner().await;
        for tool in dangerous() {
            let reply = self.bot.call(THINGS[tool].name, json!({"n": 1})).await.json();
            let id = reply["call_id"].as_str().unwrap().to_owned();
            owner.post(&format!("/v1/approvals/{id}/deny"), &json!({})).await.good();
            self.decided.push(id);
        }
        let mut params = json!({"name": THINGS[dangerous().next().unwrap()].name, "arguments": {}});
        let held = self.bot.modern_message(&modern_message("tools/call", params.clone())).await;
        let state = held.messages().pop().unwrap()["result"]["requestState"].clone();
        assert!(state.is_string(), "{}", held.text());
        params["requestState"] = state;
        self.resumed_by_bot = params;
    }

    pub(super) async fn interfaces(&self) -> Interfaces {
        let (line, stop, tasks) = listening(&self.server).await;
        Interfaces { line, _stop: stop, _tasks: tasks }
    }

    /// The principal as a client: with its key, or with one by which it acts for a user.
    pub(super) async fn client(&self, person: &Person) -> Client {
        let (client, _) = self.server.known(person.key()).await;
        let Some(ward) = person.ward else { return client };
        let body = json!({ "act_as": WARDS[ward].subject });
        let acting = client.post("/v1/keys/delegate", &body).await.good();
        let word = |name: &str| acting[name].as_str().unwrap().to_owned();
        self.server.anyone().key(&word("key"), &word("id"))
    }

    /// What a request is filled with.
    pub(super) fn filled(&self, text: &str, number: usize) -> String {
        text.replace("{n}", &number.to_string())
            .replace("{revoked}", &self.revoked)
            .replace("{call}", &self.decided[0])
            .replace("{bot}", &self.bot.key_id)
            .replace("{joining}", &self.joining)
    }

    /// Whether this principal approves a call that is pending now.
    pub(super) async fn approves(&self, client: &Client, tool: usize) -> String {
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
