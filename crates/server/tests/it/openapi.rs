//! Tests that the OpenAPI document and the routes agree.

use std::sync::Arc;

use serde_json::{Value, json};
use store::{ArtifactLimits, FileArtifactStore};
use testkit::clock::FakeClock;
use tool::artifact::ArtifactStore;

use crate::support::configuration::FixtureConfiguration;
use crate::support::token_issuer::{Signer, trust_issuer};
use crate::support::{Client, FixtureServer, ServerSetup, tools};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");

#[test]
#[expect(clippy::disallowed_methods, reason = "whether to write the document anew")]
fn golden_openapi_document() {
    let document = serde_json::to_string_pretty(&server::openapi()).unwrap() + "\n";
    if std::env::var("TOOLKEEP_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(DOCUMENT, &document).unwrap();
    }
    let kept = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(
        kept == document,
        "docs/reference/openapi.json is stale; `cargo xtask generate` writes it anew"
    );
}

#[tokio::test]
async fn the_document_is_served_as_it_is() {
    let server = FixtureServer::with_offers(vec![]).await;
    assert_eq!(server.keyless_client().get("/openapi.json").await.expect_ok(), server::openapi());
}

fn artefacts(dir: &std::path::Path) -> Arc<dyn ArtifactStore> {
    let clock = Arc::new(FakeClock::default());
    Arc::new(FileArtifactStore::open_directory(dir, ArtifactLimits::default(), clock).unwrap())
}

/// A body that each route takes.
fn body(path: &str, definition: &Value) -> Value {
    match path {
        "/v1/approvals/{id}/edit" => json!({"arguments": {}}),
        "/v1/calls" | "/v1/explain" => json!({"tool": "notes.append"}),
        "/v1/keys" => json!({"subject": "bob"}),
        "/v1/programs" => json!({"code": "1"}),
        "/v1/users" => json!({"subject": "carl"}),
        "/v1/users/{subject}/level" => json!({"level": "user"}),
        "/v1/personas" => json!({"name": "p"}),
        "/v1/orgs" => json!({"name": "beta"}),
        "/v1/orgs/{org}/tools" => json!({"tools": []}),
        "/execute" | "/api/modules/{module}/execute" => json!({"tool_name": "notes.append"}),
        "/tools" => json!({"name": "say", "node_id": "n1", "description": ""}),
        "/tools/{node_id}/{name}" => json!({"description": "x"}),
        "/cluster-tools/execute" | "/cluster-tools/resolve" => {
            json!({"tool_name": "x", "input": {}})
        }
        "/catalogue/create" => json!({"tool_id": "t"}),
        "/catalogue/query" => json!({"query": {}}),
        "/catalogue/search/tags" => json!({"tags": []}),
        "/v1/nodes/{node_id}/heartbeat" => json!({"state": "serving"}),
        "/v1/nodes/{node_id}/join" => super::node_tools::join_body("n1"),
        "/v1/policy/preview" => json!({"policy": "{}"}),
        "/v1/sources" | "/v1/sources/try" => json!({"name": "b", "module": "https://h.example"}),
        "/v1/sources/login" => json!({"source": "s", "redirect_uri": "http://127.0.0.1:1/"}),
        "/v1/sources/login/finish" => json!({"source": "s", "query": "code=1"}),
        "/v1/sources/logout" => json!({"source": "s"}),
        "/v1/switches" => json!({"source": "s", "tool": "none", "enabled": true}),
        "/v1/toolsets/{name}/accept" => json!({"revision": format!("sha256:{}", "0".repeat(64))}),
        path if path.starts_with("/v1/pins/") => definition.clone(),
        _ => json!({}),
    }
}

/// Values of the path parameters.
struct SampleIds {
    held: Vec<Value>,
    kept: Value,
    key: Value,
    call: Value,
    definition: Value,
}

impl SampleIds {
    /// Makes one of each.
    async fn of(server: &FixtureServer, owner: &Client) -> Self {
        owner.post("/v1/orgs", &json!({"name": "acme"})).await.expect_ok();
        owner.put("/v1/roles/notes.append", &json!({})).await.expect_ok();
        let (subject, key) = ("owner".to_owned(), owner.key_id.clone());
        let who = tool::Caller { subject, key_id: key, ..testkit::context::test_caller() };
        let kept = server
            .gateway
            .artifact_store()
            .unwrap()
            .store_artifact(&who, "1".into())
            .await
            .unwrap();
        let kept = json!(kept.id.as_str());
        let call = owner.call_tool("notes.append", json!({})).await.expect_ok()["call_id"].clone();
        // Of a tool that nothing else here needs, something waits.
        let pin = owner.get("/v1/pins/s/needs.guest").await.expect_ok();
        let definition = json!({"definition": pin["active"]["definition"]});
        owner.post("/v1/pins/s/needs.guest/reject", &definition).await.expect_ok();
        let key =
            owner.post("/v1/keys", &json!({"subject": "bob"})).await.expect_ok()["id"].clone();
        // Decisions get a pending call of their own.
        let agent = server.agent_client("ann", tool::PermissionLevel::User).await;
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(agent.call_tool("dangerous", json!({})).await.json()["call_id"].clone());
        }
        Self { held, kept, key, call, definition }
    }

    fn fill(&self, path: &str) -> String {
        let id = match path {
            "/v1/approvals/{id}/approve" => &self.held[0],
            "/v1/approvals/{id}/deny" => &self.held[1],
            "/v1/approvals/{id}/edit" => &self.held[2],
            "/v1/approvals/{id}" => &self.held[3],
            _ if path.starts_with("/v1/artefacts") => &self.kept,
            _ if path.starts_with("/v1/keys") => &self.key,
            _ => &self.call,
        };
        let name = match path {
            _ if path.starts_with("/v1/personas") => "p",
            _ if path.starts_with("/v1/plugins") => "notes",
            _ => "notes.append",
        };
        let path = path.replace("{name}", name).replace("{id}", id.as_str().unwrap());
        let path = path.replace("{subject}", "bob").replace("{module}", "notes");
        let path = path.replace("{node_id}", "n1").replace("{tool_id}", "t");
        let path = path.replace("{org}", "acme").replace("{source}", "s");
        let path = path.replace("{server}", "example.tools%2Fs").replace("{version}", "latest");
        path.replace("{tool}", "needs.guest")
    }
}

/// How a route may answer here.
fn statuses(method: &str, path: &str) -> &'static [u16] {
    let of_nodes = path.starts_with("/tools/{") || path.starts_with("/cluster-tools/");
    // The cluster tools' routes have statuses of their own, for tools that are created and removed
    // in between.
    if of_nodes || (path == "/tools" && method == "post") {
        return &[200, 201, 404];
    }
    // An invalid package, empty queries, and an entry that is created and removed.
    if path.starts_with("/catalogue/") {
        return &[200, 201, 400, 404];
    }
    // The record is in memory here.
    if path == "/v1/records/verification" && method == "post" {
        return &[404];
    }
    // It is removed in between, and nobody reviewed it.
    if path.starts_with("/v1/toolsets/{name}") {
        return &[200, 404, 409];
    }
    // There is no tool that runs one here.
    if path == "/v1/programs" && method == "post" {
        return &[404];
    }
    // Of a call that was never held, or is not held now.
    let missing = ["/v1/calls/{id}/resume", "/v1/approvals/{id}/last-approved"];
    if missing.contains(&path) { &[404] } else { &[200] }
}

#[tokio::test]
async fn every_route_in_the_document_is_there() {
    let (patience, trust) =
        (Some(gateway::ApprovalSettings::default()), Some(tool::SourceTrust::Full));
    let dir = tempfile::tempdir().unwrap();
    let artefacts = Some(artefacts(dir.path()));
    let nodes = Some(super::node_tools::registry_with_node().await);
    let (catalogue, _packages) = super::tool_packages::open_registry().await;
    let offers = tools::standard_offers();
    let plugins = Some(Arc::new(super::plugins::StubPlugins::default()) as _);
    let programs = Some(Arc::new(super::programs::StubPrograms) as _);
    let configuration = Some(Arc::new(FixtureConfiguration::default()) as _);
    let setup = ServerSetup {
        offers,
        approval_settings: patience,
        trust,
        artifacts: artefacts,
        node_registry: nodes,
        configuration,
        ..ServerSetup::default()
    };
    let server = ServerSetup { programs, plugins, package_registry: Some(catalogue), ..setup };
    let server = FixtureServer::with_setup(server).await;
    trust_issuer(&server, &Signer::new("k1"));
    let owner = server.owner_client().await;
    let things = SampleIds::of(&server, &owner).await;
    let document = server::openapi();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let (mut at, body) = (things.fill(path), body(path, &things.definition));
            if path == "/v1/search" {
                at += "?q=notes";
            }
            let reply = match method.as_str() {
                "get" => owner.get(&at).await,
                "delete" => owner.delete(&at).await,
                "post" => owner.post(&at, &body).await,
                "put" => owner.put(&at, &body).await,
                other => panic!("{other} {path}"),
            };
            let (status, told) = (reply.status.as_u16(), reply.text());
            assert!(statuses(method, path).contains(&status), "{method} {path}: {status} {told}");
            assert!(!told.contains("no route at"), "{method} {path}: {told}");
            let keyed = operation.get("security").is_some();
            let open = server.keyless_client().get(&at).await.status;
            assert_eq!(keyed, open == 401, "{method} {path}: {open}");
            asked += 1;
        }
    }
    assert!(asked >= 15, "{asked}");
}

/// Every `$ref` resolves, and every response has a schema or a media type.
#[test]
fn the_document_holds_together() {
    let document = server::openapi();
    let mut refs = Vec::new();
    collect(&document, &mut refs);
    assert!(!refs.is_empty());
    for reference in refs {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn collect<'a>(value: &'a Value, refs: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            refs.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|value| collect(value, refs));
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, refs)),
        _ => {}
    }
}
