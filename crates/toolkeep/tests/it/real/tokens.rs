//! Tests of tokens from a third-party authorization server, npm's `oidc-provider`.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::installed_programs::{client, file};
use crate::real_support::child_program::Program;
use crate::real_support::{CommandOutput, files, test_command};
use crate::support::installation::{Installation, TOOL_FILE};
use crate::support::rest_client::Client;
use crate::support::server_process::start_server;

/// Audience of the tokens.
const HERE: &str = "https://tools.example/mcp";

fn issuer() -> (Program, Value) {
    let mut node = test_command(file("bin/node"));
    node.arg(files().join("issuer.mjs")).arg(file("npm-oidc/node_modules")).arg(HERE);
    let program = Program::start(node.stderr(Stdio::null()));
    let told = program.json();
    (program, told)
}

const PLAIN: &str = "version: 1\nsources: [{ name: local, tools: ./tools.yaml }]\n";

fn home(config: &str) -> Installation {
    let home = Installation::new(config);
    home.write("tools.yaml", TOOL_FILE);
    home
}

fn believing(resource: &str, issuer: &str) -> String {
    format!(
        "{PLAIN}tokens:
  resource: {resource}
  issuers:
    - name: op
      issuer: {issuer}
      algorithms: [RS256, ES256]
      grants:
        - {{ claim: scope, value: tools, level: user }}
        - {{ claim: scope, value: admin, level: admin }}
"
    )
}

#[tokio::test]
async fn tokens_of_a_real_issuer_hold_for_what_they_were_made() {
    let (program, told) = issuer();
    let home = home(&believing(HERE, told["issuer"].as_str().unwrap()));
    let server = start_server(&home).await;
    let with =
        |name: &str| Client::for_url(&server.url).with_key(told["tokens"][name].as_str().unwrap());
    let call = json!({"tool": "save", "arguments": {}});
    for name in ["tools", "admin", "rsa"] {
        let reply = with(name).post("/v1/calls", &call).await;
        assert_eq!(reply.status, 200, "{name}: {reply:?}\n{}", server.log_text());
    }
    assert_eq!(with("elsewhere").post("/v1/calls", &call).await.status, 401);
    let bad = format!("{}A", told["tokens"]["tools"].as_str().unwrap());
    let bad = Client::for_url(&server.url).with_key(&bad);
    assert_eq!(bad.post("/v1/calls", &call).await.status, 401);
    let records = server.owner().get("/v1/records").await.body["records"].clone();
    let subjects: Vec<_> = records.as_array().unwrap().iter().map(subject).collect();
    assert!(subjects.contains(&"op:bot") && subjects.contains(&"op:rsa"), "{records}");
    let path = "/.well-known/oauth-protected-resource/mcp";
    let metadata = Client::for_url(&server.url).get(path).await.body;
    assert_eq!(metadata["authorization_servers"], json!([told["issuer"]]));
    assert_eq!(metadata["resource"], HERE);
    // A client that others wrote lists and calls with one; the issuer need not be there for it.
    drop(program);
    let token = told["tokens"]["tools"].as_str().unwrap();
    let url = format!("{}/mcp", server.url);
    let seen = client(&["http", &url, "legacy"], Some(token), &[("save", json!({}))]);
    assert!(seen.names().contains(&"save".to_owned()), "{:?}", seen.names());
    assert!(server.stop().await.success());
}

/// A client that others wrote comes without a token and finds its way to one.
#[tokio::test]
async fn a_client_without_a_token_finds_its_way_to_one() {
    let (_program, told) = issuer();
    let home = home(PLAIN);
    let server = start_server(&home).await;
    let url = format!("{}/mcp", server.url);
    // The address is known only now, so the configuration is reloaded.
    home.write("toolkeep.yaml", &believing(&url, told["issuer"].as_str().unwrap()));
    let anyone = Client::for_url(&server.url);
    let path = "/.well-known/oauth-protected-resource/mcp";
    while anyone.get(path).await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut python = test_command(file("venv-mcp/bin/python"));
    python.arg(files().join("oauth_client.py")).args([url.as_str(), "save"]);
    let seen =
        tokio::task::spawn_blocking(move || CommandOutput::run_command(&mut python)).await.unwrap();
    let seen: Value = serde_json::from_str(&seen.expect_success()).unwrap();
    assert!(seen["tools"].as_array().unwrap().contains(&json!("save")), "{seen}");
    assert_eq!(seen["error"], false);
    let records = server.owner().get("/v1/records").await.body["records"].clone();
    assert!(records.as_array().unwrap().iter().any(|record| subject(record) == "op:bot"));
    assert!(server.stop().await.success());
}

fn subject(record: &Value) -> &str {
    record.pointer("/body/caller/subject").and_then(Value::as_str).unwrap_or_default()
}
