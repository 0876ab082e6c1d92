//! Tests of the package routes: bodies, texts and statuses of contract 4.5, and rights.

use std::io::{Cursor, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use identity::Right;
use packages::PackageStore;
use serde_json::{Value, json};
use store::MemoryStore;
use tool::PermissionLevel;
use tool::tool_packages::ToolPackageStore;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::support::{Client, FixtureServer, Reply, ServerSetup};

/// A catalogue, as long as the folder is kept.
pub(crate) async fn open_registry() -> (Arc<dyn ToolPackageStore>, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("catalogue");
    (Arc::new(PackageStore::open(Arc::new(MemoryStore::new()), &folder).await.unwrap()), home)
}

struct PackageFixture {
    server: FixtureServer,
    home: tempfile::TempDir,
}

impl PackageFixture {
    async fn new() -> Self {
        let (catalogue, home) = open_registry().await;
        let server = FixtureServer::with_setup(ServerSetup {
            package_registry: Some(catalogue),
            ..ServerSetup::default()
        })
        .await;
        Self { server, home }
    }

    async fn writer(&self) -> Client {
        let writer = self.server.client_with(|key| {
            key.is_agent = false;
            key.rights = [Right::NodesWrite].into();
        });
        writer.await
    }

    async fn reader(&self) -> Client {
        self.server.client_with(|key| key.rights = [].into()).await
    }
}

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn package(spec: &Value) -> Vec<u8> {
    let code = zip(&[("code/function.py", b"class AgentSpaceV1Tool: ...\n")]);
    let spec = spec.to_string();
    zip(&[("spec.json", spec.as_bytes()), ("tool.zip", &code), ("tool.md", b"# How\n")])
}

async fn upload(client: &Client, file: &str, content: &[u8]) -> Reply {
    let head = format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{file}\"\r\n\r\n"
    );
    let body = [head.as_bytes(), content, b"\r\n--b--\r\n"].concat();
    let client = client.with_header("content-type", "multipart/form-data; boundary=b");
    client.send(Method::POST, "/catalogue/tools/upload", Bytes::from(body)).await
}

fn status_and_body(reply: &Reply) -> (u16, Value) {
    (reply.status.as_u16(), reply.json())
}

fn spec(id: &str) -> Value {
    json!({
        "tool_id": id, "tool_type": "local", "tool_tags": ["text", "fast"],
        "tool_search_description": "Reverses a Text", "tool_execution_mode": "sync",
        "tool_policy_rule_uri": "policy://one", "tool_metadata": { "stars": 4 },
        "tool_runtime_type": "python",
    })
}

#[tokio::test]
async fn hidden_characters_of_an_entry_are_written_out() {
    let world = PackageFixture::new().await;
    let writer = world.writer().await;
    let mut hiding = spec("rev");
    hiding["tool_search_description"] = "Reverses\u{202e} a text".into();
    assert_eq!(upload(&writer, "a.zip", &package(&hiding)).await.status, 200);
    for path in ["/catalogue/tools/rev", "/catalogue/tools/query/by-tag?tag=fast"] {
        let shown = world.reader().await.get(path).await.expect_ok().to_string();
        // The control: it is there, in letters.
        assert!(shown.contains(r"Reverses\\u{202e} a text"), "{path}: {shown}");
        assert!(!shown.contains('\u{202e}'), "{path}: {shown}");
    }
}

#[tokio::test]
async fn a_package_is_uploaded_shown_changed_and_deleted_with_the_contracts_texts() {
    let world = PackageFixture::new().await;
    let writer = world.writer().await;
    let good = upload(&writer, "../../a.zip", &package(&spec("rev"))).await;
    let uploaded = json!({ "message": "Tool uploaded successfully", "tool_id": "rev" });
    assert_eq!(status_and_body(&good), (200, uploaded));
    let entry = writer.get("/catalogue/tools/rev").await.expect_ok();
    assert_eq!(
        (&entry["tool_type"], &entry["tool_man_page_doc"]),
        (&json!("local"), &json!("# How\n"))
    );
    assert_eq!(entry.as_object().unwrap().len(), 19);
    assert_eq!(entry["tool_service_url"], "");
    // An id that is there, and what is no package.
    for (content, why) in [
        (package(&spec("rev")), "the entry `rev` already exists"),
        (b"x".to_vec(), "the package: it is no archive"),
    ] {
        let (status, body) = status_and_body(&upload(&writer, "a.zip", &content).await);
        assert_eq!((status, &body["error"]), (500, &json!("Failed to process tool package")));
        assert!(body["reason"].as_str().unwrap().starts_with(why), "{body}");
    }
    let missing = (400, json!({ "error": "Missing file part" }));
    assert_eq!(status_and_body(&writer.post("/catalogue/tools/upload", &json!({})).await), missing);
    let unnamed = (400, json!({ "error": "No selected file" }));
    assert_eq!(status_and_body(&upload(&writer, "", b"x").await), unnamed);

    let one = "/catalogue/tools/rev";
    let changed = writer.put(one, &json!({ "tool_type": "remote" })).await;
    assert_eq!(status_and_body(&changed), (200, json!({ "message": "Tool updated successfully" })));
    assert_eq!(writer.get(one).await.expect_ok()["tool_type"], "remote");
    let nothing = (400, json!({ "error": "Missing update payload" }));
    assert_eq!(status_and_body(&writer.put(one, &json!({})).await), nothing);
    assert_eq!(status_and_body(&writer.send(Method::PUT, one, Bytes::new()).await), nothing);
    let (status, body) = status_and_body(&writer.put(one, &json!({ "tool_tags": 1 })).await);
    assert_eq!((status, body), (400, json!({ "error": "`tool_tags` must be a list of strings" })));

    let deleted = writer.delete(one).await;
    assert_eq!(status_and_body(&deleted), (200, json!({ "message": "Tool deleted successfully" })));
    let gone = (404, json!({ "error": "Tool not found" }));
    assert_eq!(status_and_body(&writer.get(one).await), gone);
    assert_eq!(status_and_body(&writer.put(one, &json!({ "tool_type": "x" })).await), gone);
    assert_eq!(status_and_body(&writer.delete(one).await), gone);
    let left = std::fs::read_dir(world.home.path().join("catalogue")).unwrap();
    assert_eq!(left.count(), 0, "its package went with it");
}

#[tokio::test]
async fn entries_are_found_by_each_of_the_contracts_queries() {
    let world = PackageFixture::new().await;
    let writer = world.writer().await;
    upload(&writer, "a.zip", &package(&spec("rev"))).await.expect_ok();
    let other = json!({
        "tool_id": "sum", "tool_type": "system", "tool_tags": ["text"], "tool_metadata": { "stars": 1 },
        "tool_search_description": "Adds", "tool_execution_mode": "async",
    });
    assert_eq!(writer.post("/catalogue/create", &other).await.status, 201);
    let reader = world.reader().await;
    let ids = |found: &Value| -> Vec<String> {
        let all = found.as_array().unwrap().iter();
        all.map(|entry| entry["tool_id"].as_str().unwrap().to_owned()).collect()
    };
    for (query, found) in [
        ("by-type?type=local", &["rev"][..]),
        ("by-type?type=none", &[]),
        ("by-tag?tag=text", &["rev", "sum"]),
        ("by-tag?tag=fast", &["rev"]),
        ("by-keyword?keyword=reverses%20a%20t", &["rev"]),
        ("by-keyword?keyword=%5E(adds%7Creverses)", &["rev", "sum"]),
        ("by-execution-mode?mode=async", &["sum"]),
        ("by-policy-uri?uri=policy%3A%2F%2Fone", &["rev"]),
    ] {
        let reply = reader.get(&format!("/catalogue/tools/query/{query}")).await.expect_ok();
        assert_eq!(ids(&reply), found, "{query}");
    }
    let bad = reader.get("/catalogue/tools/query/by-keyword?keyword=(").await;
    assert_eq!(bad.status, 400, "{}", bad.text());
    for (filter, found) in [
        (json!({ "tool_metadata.stars": { "$gt": 2 } }), &["rev"][..]),
        (json!({ "$or": [{ "tool_id": "rev" }, { "tool_type": "system" }] }), &["rev", "sum"]),
        (json!({}), &["rev", "sum"]),
        // Code and invalid filters find nothing.
        (json!({ "$where": "1" }), &[]),
        (json!([]), &[]),
    ] {
        let reply = reader.post("/catalogue/tools/query/generic", &filter).await.expect_ok();
        assert_eq!(ids(&reply), found, "{filter}");
    }
    for (path, body, found) in [
        ("query", json!({ "query": { "tool_tags": "fast" } }), &["rev"][..]),
        ("search/tags", json!({ "tags": ["fast", "none"] }), &["rev"]),
        ("search/advanced", json!({ "tags": ["text"], "metadata": { "stars": 1 } }), &["sum"]),
        ("search/advanced", json!({ "description": "reverses", "tool_type": "local" }), &["rev"]),
        ("search/advanced", json!({}), &["rev", "sum"]),
    ] {
        let reply = reader.post(&format!("/catalogue/{path}"), &body).await.expect_ok();
        assert_eq!((&reply["success"], &reply["message"]), (&json!(true), &json!("")));
        assert_eq!(ids(&reply["data"]), found, "{path} {body}");
    }
}

#[tokio::test]
async fn the_clients_routes_answer_in_its_envelope() {
    let world = PackageFixture::new().await;
    let writer = world.writer().await;
    let made = writer.post("/catalogue/create", &spec("rev")).await;
    assert_eq!((made.status.as_u16(), &made.json()["data"]["tool_id"]), (201, &json!("rev")));
    let (status, again) = status_and_body(&writer.post("/catalogue/create", &spec("rev")).await);
    let exists =
        json!({ "success": false, "data": null, "message": "the entry `rev` already exists" });
    assert_eq!((status, again), (409, exists));
    let updated =
        writer.put("/catalogue/update/rev", &json!({ "tool_type": "remote" })).await.expect_ok();
    assert_eq!(updated["data"]["tool_type"], "remote");
    assert_eq!(writer.get("/catalogue/get/rev").await.expect_ok()["data"], updated["data"]);
    assert_eq!(writer.delete("/catalogue/delete/rev").await.expect_ok()["success"], true);
    let gone = json!({ "success": false, "data": null, "message": "Tool not found" });
    for reply in [
        writer.get("/catalogue/get/rev").await,
        writer.put("/catalogue/update/rev", &json!({ "tool_type": "x" })).await,
        writer.delete("/catalogue/delete/rev").await,
    ] {
        assert_eq!(status_and_body(&reply), (404, gone.clone()));
    }
}

#[tokio::test]
async fn only_who_looks_after_nodes_changes_the_catalogue_and_no_other_organisation_sees_it() {
    let world = PackageFixture::new().await;
    let writer = world.writer().await;
    upload(&writer, "a.zip", &package(&spec("rev"))).await.expect_ok();
    let owner = world.server.owner_client().await;
    owner.post("/v1/orgs", &json!({ "name": "acme" })).await.expect_ok();
    let reader = world.reader().await;
    let agent = world.server.agent_client("ann", PermissionLevel::User).await;
    for client in [&reader, &agent] {
        assert_eq!(upload(client, "b.zip", &package(&spec("b"))).await.status, 403);
        assert_eq!(
            client.put("/catalogue/tools/rev", &json!({ "tool_type": "x" })).await.status,
            403
        );
        assert_eq!(client.delete("/catalogue/tools/rev").await.status, 403);
        assert_eq!(client.post("/catalogue/create", &spec("c")).await.status, 403);
        assert_eq!(
            client.put("/catalogue/update/rev", &json!({ "tool_type": "x" })).await.status,
            403
        );
        assert_eq!(client.delete("/catalogue/delete/rev").await.status, 403);
        assert_eq!(client.get("/catalogue/tools/rev").await.status, 200);
    }
    let foreign = world.server.client_with(|key| {
        key.org = tool::Org::new("acme").unwrap();
        key.rights = [].into();
    });
    let foreign = foreign.await;
    assert_eq!(foreign.get("/catalogue/tools/rev").await.status, 404);
    let found = foreign.post("/catalogue/tools/query/generic", &json!({})).await.expect_ok();
    assert_eq!(found, json!([]));
    assert_eq!(world.server.keyless_client().get("/catalogue/tools/rev").await.status, 401);
    assert_eq!(
        reader.get("/catalogue/tools/rev").await.expect_ok()["tool_type"],
        "local",
        "unchanged"
    );
}
