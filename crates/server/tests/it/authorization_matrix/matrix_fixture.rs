//! Fixture of the matrix: a server with every kind of object that requests refer to.

use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, EgressOptions};
use gateway::ApprovalSettings;
use identity::{NewKey, OrgRecord, Persona, Right, RoleRecord, UserRecord};
use intake::ConfiguredSource;
use nodes::{NodeAddresses, PersistentNodeRegistry};
use proto::client::GrpcChannel;
use proto::server::{FunctionResult, IncomingCall, ServiceFuture, ToolService, serve_tcp};
use proto::{MetadataMap, Status};
use serde_json::{Value, json};
use server_core::KeyStore;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::executor::echo_executor;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::node_registry::{NodeAccess, NodeRegistry, NodeTool};
use tool::plugin_admin::PluginAdmin;
use tool::tool_packages::ToolPackageStore;
use tool::{Clock as _, Org, PermissionLevel, Source, SourceTrust, WallTime};

use super::model::{self, METHODS, MODEL_TOOLS, Person, SUBJECT_LIMITS, dangerous};
use super::requests::{FAR_TOOL, NEAR_TOOL};
use crate::grpc::connect_grpc;
use crate::support::client::modern_message;
use crate::support::configuration::FixtureConfiguration;
use crate::support::{Client, FixtureServer, ServerSetup, tools, within_a_minute};

/// A node whose every tool answers.
struct StubNode;

impl ToolService for StubNode {
    fn caller_id(&self, _: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<proto::node::Tool>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call_tool(&self, _: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let said =
            FunctionResult { success: true, output: "{}".into(), ..FunctionResult::default() };
        Box::pin(async { Ok(said) })
    }
    fn node_id(&self) -> String {
        String::new()
    }
    fn is_draining(&self) -> bool {
        false
    }
}

/// A server with everything that the matrix asks about.
pub(super) struct Fixture {
    pub(super) server: FixtureServer,
    /// An agent that called each dangerous tool.
    bot: Client,
    /// Those calls, in the order of the tools; they were denied.
    pub(super) decided: Vec<String>,
    /// A call of the agent's by MCP that is pending, with what it was given to come back with.
    pub(super) resumed_by_bot: Value,
    /// A key that was revoked.
    revoked: String,
    /// Join request of the node `n1`.
    joining: String,
    _catalogue: tempfile::TempDir,
    _node: CancellationToken,
}

/// Interfaces besides HTTP.
pub(super) struct Interfaces {
    pub(super) line: GrpcChannel,
    _stop: CancellationToken,
    _tasks: TaskTracker,
}

/// A registry with two nodes, which a process of their own would be.
async fn registry() -> (Arc<PersistentNodeRegistry>, CancellationToken) {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
    let registry =
        Arc::new(PersistentNodeRegistry::open_local(store, egress, clock).await.unwrap());
    let authority = nodes::CertificateAuthority::generate(WallTime(0)).unwrap();
    registry.set_authority(nodes::CertificateAuthority::from_stored(&authority).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    drop(TaskTracker::new().spawn(serve_tcp(Arc::new(StubNode), listener, None, stop.clone())));
    let url = |node: &str| (node.to_owned(), format!("http://{address}"));
    let nodes = ["n1", "n2"].map(url).into_iter().collect();
    registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
    for tool in [NEAR_TOOL, FAR_TOOL] {
        let tool: NodeTool = serde_json::from_str(tool).unwrap();
        registry.register_tool(&NodeAccess::All, tool).await.unwrap();
    }
    (registry, stop)
}

/// Has the catalog list the tools of both nodes.
async fn listed(server: &FixtureServer, registry: &PersistentNodeRegistry) {
    for source in registry.node_sources() {
        let (source, kind) = (source as Arc<dyn Source>, "node");
        server.intake.add_source(Some(ConfiguredSource {
            source,
            kind,
            trust: SourceTrust::Full,
            durability: None,
            defer_mode: tool::DeferMode::Auto,
            poll_interval: None,
            fingerprint: 1,
        }));
    }
    let mut numbers = server.intake.subscribe_versions();
    let of_nodes = || {
        let catalog = server.intake.catalog();
        catalog
            .list_tools()
            .filter(|entry| entry.tool_key.source.as_str().starts_with("node."))
            .count()
    };
    within_a_minute(numbers.wait_for(|_| of_nodes() == 2)).await.unwrap();
}

/// Users, personas, roles and organisations that the requests are about.
async fn directory(server: &FixtureServer) {
    let keys = &server.keys;
    let (home, other) = (Org::default(), Org::new("other").unwrap());
    let third = Org::new("third").unwrap();
    for persona in SUBJECT_LIMITS.iter().filter_map(|ward| ward.persona()) {
        keys.put_persona(&persona, true).await.unwrap();
    }
    let sources = Some(["s".to_owned()].into());
    let fixed = Persona { name: "fixed".to_owned(), allowed_modules: sources };
    keys.put_persona(&fixed, true).await.unwrap();
    let user = |org: &Org, subject: &str, level| UserRecord {
        org: org.clone(),
        subject: subject.to_owned(),
        level,
        roles: Vec::new(),
        persona: None,
        disabled_at: None,
    };
    for org in [&home, &other] {
        for ward in SUBJECT_LIMITS {
            keys.upsert_user(&ward.user(org.clone())).await.unwrap();
        }
        keys.upsert_user(&user(org, "twin", PermissionLevel::Guest)).await.unwrap();
        keys.upsert_user(&user(org, "target", PermissionLevel::User)).await.unwrap();
        let sleeper = user(org, "sleeper", PermissionLevel::Admin);
        keys.upsert_user(&UserRecord { disabled_at: Some(WallTime(1)), ..sleeper }).await.unwrap();
        let key = NewKey {
            org: org.clone(),
            ..NewKey::for_user(KeyStore::generate_key_id().unwrap(), "target")
        };
        keys.create_key(key, server.clock.wall_now()).await.unwrap();
    }
    keys.upsert_user(&user(&third, "third-party", PermissionLevel::Guest)).await.unwrap();
    roles_and_orgs(keys).await;
}

async fn roles_and_orgs(keys: &KeyStore) {
    let org = |name: &Org, disabled| OrgRecord {
        name: name.clone(),
        description: String::new(),
        disabled_at: disabled,
    };
    keys.upsert_org(&org(&Org::new("other").unwrap(), None)).await.unwrap();
    keys.upsert_org(&org(&Org::new("asleep").unwrap(), Some(WallTime(1)))).await.unwrap();
    let role = |name: &str, rights: &[Right], revoked| RoleRecord {
        name: name.to_owned(),
        description: String::new(),
        max_level: None,
        rights: rights.iter().copied().collect(),
        revoked_at: revoked,
    };
    keys.upsert_role(&role("plain", &[], None)).await.unwrap();
    keys.upsert_role(&role("giver", &[Right::RecordsRead], None)).await.unwrap();
    keys.upsert_role(&role("over", &[], Some(WallTime(1)))).await.unwrap();
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let patience = ApprovalSettings {
            max_pending_per_key: 100_000,
            max_requests_per_minute: 100_000,
            ..ApprovalSettings::default()
        };
        let plugins: Arc<dyn PluginAdmin> = Arc::new(crate::plugins::StubPlugins::default());
        let (registry, node) = registry().await;
        let (catalogue, folder) = crate::tool_packages::open_registry().await;
        let notices = server_core::PendingCallOptions {
            approval_page: None,
            poll_timeout: Duration::ZERO,
            response_timeout: Duration::from_millis(1),
        };
        let of_source = MODEL_TOOLS.iter().filter(|thing| thing.source == "s");
        let methods = METHODS.iter().map(|name| tools::method_offer(name, echo_executor()));
        let beside = [
            tools::prompt_offer(&json!({"name": "p"})),
            tools::resource_offer(&json!({"uri": "test:///r", "name": "r"})),
        ];
        let mut offers: Vec<_> = of_source.map(|thing| thing.offer()).collect();
        offers.extend(methods.chain(beside));
        let server = FixtureServer::with_setup(ServerSetup {
            offers,
            kind: Some("module"),
            approval_settings: Some(patience),
            plugins: Some(plugins),
            configuration: Some(Arc::new(FixtureConfiguration::default())),
            node_registry: Some(Arc::clone(&registry) as Arc<dyn NodeRegistry>),
            package_registry: Some(catalogue as Arc<dyn ToolPackageStore>),
            trust: Some(SourceTrust::FirstUse),
            pending_call_options: notices,
            ..ServerSetup::default()
        })
        .await;
        server.intake.set_policy(&model::policy());
        listed(&server, &registry).await;
        directory(&server).await;
        let revoked = server.agent_client("revoked", PermissionLevel::User).await;
        server.revoke_key(&revoked).await;
        let bot = server.agent_client("bot", PermissionLevel::Owner).await;
        let mut fixture = Self {
            bot,
            decided: Vec::new(),
            resumed_by_bot: Value::Null,
            revoked: revoked.key_id,
            joining: crate::node_tools::join_body("n1").to_string(),
            server,
            _catalogue: folder,
            _node: node,
        };
        fixture.decide().await;
        fixture
    }

    /// The agent's calls, which an owner denies, and one that stays pending.
    async fn decide(&mut self) {
        let owner = self.server.owner_client().await;
        for tool in dangerous() {
            let reply = self.bot.call_tool(MODEL_TOOLS[tool].name, json!({"n": 1})).await.json();
            let id = reply["call_id"].as_str().unwrap().to_owned();
            owner.post(&format!("/v1/approvals/{id}/deny"), &json!({})).await.expect_ok();
            self.decided.push(id);
        }
        let mut params =
            json!({"name": MODEL_TOOLS[dangerous().next().unwrap()].name, "arguments": {}});
        let held = self.bot.modern_message(&modern_message("tools/call", params.clone())).await;
        let state = held.messages().pop().unwrap()["result"]["requestState"].clone();
        assert!(state.is_string(), "{}", held.text());
        params["requestState"] = state;
        self.resumed_by_bot = params;
    }

    pub(super) async fn interfaces(&self) -> Interfaces {
        let (line, stop, tasks) = connect_grpc(&self.server).await;
        Interfaces { line, _stop: stop, _tasks: tasks }
    }

    /// The principal as a client: with its key, or with one by which it acts for a user.
    pub(super) async fn client(&self, person: &Person) -> Client {
        let (client, _) = self.server.client_and_principal(person.key()).await;
        let Some(ward) = person.ward else { return client };
        let body = json!({ "act_as": SUBJECT_LIMITS[ward].subject });
        let acting = client.post("/v1/keys/delegate", &body).await.expect_ok();
        let word = |name: &str| acting[name].as_str().unwrap().to_owned();
        self.server.keyless_client().with_key(&word("key"), &word("id"))
    }

    /// Values of a request template.
    pub(super) fn filled(&self, text: &str, number: usize) -> String {
        text.replace("{n}", &number.to_string())
            .replace("{revoked}", &self.revoked)
            .replace("{call}", &self.decided[0])
            .replace("{bot}", &self.bot.key_id)
            .replace("{joining}", &self.joining)
    }

    /// Whether this principal approves a call that is pending now.
    pub(super) async fn approves(&self, client: &Client, tool: usize) -> String {
        let called = self.bot.call_tool(MODEL_TOOLS[tool].name, json!({"n": 3})).await.json();
        let path = format!("/v1/approvals/{}/approve", called["call_id"].as_str().unwrap());
        match client.post(&path, &json!({})).await.status.as_u16() {
            200 => "allowed".to_owned(),
            403 => "forbidden".to_owned(),
            404 => "hidden".to_owned(),
            other => other.to_string(),
        }
    }
}
