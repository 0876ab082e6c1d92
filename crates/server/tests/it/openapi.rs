//! The document that describes the routes, and the routes it describes.

use std::sync::Arc;

use serde_json::{Value, json};
use store::{ArtefactBounds, FileArtefacts};
use testkit::clock::FakeClock;
use tool::artefact::Artefacts;

use crate::support::issuer::{Signer, believes};
use crate::support::{Client, Server, Setup, tools};

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
    let server = Server::of(vec![]).await;
    assert_eq!(server.anyone().get("/openapi.json").await.good(), server::openapi());
}

fn artefacts(dir: &std::path::Path) -> Arc<dyn Artefacts> {
    let clock = Arc::new(FakeClock::default());
    Arc::new(FileArtefacts::open(dir, ArtefactBounds::default(), clock).unwrap())
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
        "/v1/nodes/{node_id}/join" => super::cluster::joining("n1"),
        "/v1/sources/login" => json!({"source": "s", "redirect_uri": "http://127.0.0.1:1/"}),
        "/v1/sources/login/finish" => json!({"source": "s", "query": "code=1"}),
        "/v1/sources/logout" => json!({"source": "s"}),
        path if path.starts_with("/v1/pins/") => definition.clone(),
        _ => json!({}),
    }
}

/// What the paths of the document are filled with.
struct Things {
    held: Vec<Value>,
    kept: Value,
    key: Value,
    call: Value,
    definition: Value,
}

impl Things {
    /// Makes one of each.
    async fn of(server: &Server, owner: &Client) -> Self {
        owner.post("/v1/orgs", &json!({"name": "acme"})).await.good();
        owner.put("/v1/roles/notes.append", &json!({})).await.good();
        let (subject, key) = ("owner".to_owned(), owner.key_id.clone());
        let who = tool::Caller { subject, key, ..testkit::context::caller() };
        let kept = server.gateway.artefacts().unwrap().keep(&who, "1".into()).await.unwrap();
        let kept = json!(kept.id.as_str());
        let call = owner.call("notes.append", json!({})).await.good()["call_id"].clone();
        // Of a tool that nothing else here needs, something waits.
        let pin = owner.get("/v1/pins/s/needs.guest").await.good();
        let definition = json!({"definition": pin["active"]["definition"]});
        owner.post("/v1/pins/s/needs.guest/reject", &definition).await.good();
        let key = owner.post("/v1/keys", &json!({"subject": "bob"})).await.good()["id"].clone();
        // What decides gets a held call of its own.
        let agent = server.agent("ann", tool::Level::User).await;
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(agent.call("dangerous", json!({})).await.json()["call_id"].clone());
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
        path.replace("{tool}", "needs.guest")
    }
}

/// How a route may answer here.
fn statuses(method: &str, path: &str) -> &'static [u16] {
    let of_nodes = path.starts_with("/tools/{") || path.starts_with("/cluster-tools/");
    // Spec 4's have statuses of their own: of tools that are made and gone on the way.
    if of_nodes || (path == "/tools" && method == "post") {
        return &[200, 201, 404];
    }
    // Of a package that is none, of queries that say nothing, of an entry that is made and gone.
    if path.starts_with("/catalogue/") {
        return &[200, 201, 400, 404];
    }
    // There is no tool that runs one here.
    if path == "/v1/programs" && method == "post" {
        return &[404];
    }
    // Of a call that was never held.
    if path == "/v1/calls/{id}/resume" { &[404] } else { &[200] }
}

#[tokio::test]
async fn every_route_in_the_document_is_there() {
    let (patience, trust) = (Some(gateway::Patience::default()), Some(tool::Trust::Full));
    let dir = tempfile::tempdir().unwrap();
    let artefacts = Some(artefacts(dir.path()));
    let nodes = Some(super::cluster::one_node().await);
    let (catalogue, _packages) = super::catalogue::made().await;
    let offers = tools::standard();
    let plugins = Some(Arc::new(super::plugins::One::default()) as _);
    let programs = Some(Arc::new(super::programs::One) as _);
    let setup = Setup { offers, patience, trust, artefacts, nodes, ..Setup::default() };
    let server = Setup { programs, plugins, catalogue: Some(catalogue), ..setup };
    let server = Server::with(server).await;
    believes(&server, &Signer::new("k1"));
    let owner = server.owner().await;
    let things = Things::of(&server, &owner).await;
    let document = server::openapi();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let (at, body) = (things.fill(path), body(path, &things.definition));
            let reply = match method.as_str() {
                "get" => owner.get(&at).await,
                "delete" => owner.delete(&at).await,
                "post" => owner.post(&at, &body).await,
                "put" => owner.put(&at, &body).await,
                other => panic!("{other} {path}"),
            };
            let (status, told) = (reply.status.as_u16(), reply.text());
            assert!(statuses(method, path).contains(&status), "{method} {path}: {status} {told}");
            assert!(!told.contains("there is nothing at"), "{method} {path}: {told}");
            let keyed = operation.get("security").is_some();
            let open = server.anyone().get(&at).await.status;
            assert_eq!(keyed, open == 401, "{method} {path}: {open}");
            asked += 1;
        }
    }
    assert!(asked >= 15, "{asked}");
}

/// Every `$ref` points at something, and every answer has a schema or says what it is.
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
