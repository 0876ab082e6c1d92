//! Signing in to the console with a third-party issuer, npm's `oidc-provider`, in a browser.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::installed_programs::browser_script;

use super::installed_programs::file;
use crate::real_support::child_program::Program;
use crate::real_support::{files, test_command};
use crate::support::installation::{Installation, TOOL_FILE};
use crate::support::rest_client::Client;
use crate::support::server_process::start_server;

const PLAIN: &str = "version: 1\nsources: [{ name: local, tools: ./tools.yaml }]\n";

fn start_issuer(redirect: &str) -> (Program, String) {
    let mut node = test_command(file("bin/node"));
    node.arg(files().join("login_issuer.mjs")).arg(file("npm-oidc/node_modules")).arg(redirect);
    let program = Program::start(node.stderr(Stdio::null()));
    let issuer = program.json()["issuer"].as_str().unwrap().to_owned();
    (program, issuer)
}

fn config(resource: &str, issuer: &str) -> String {
    format!(
        "{PLAIN}tokens:
  resource: {resource}/mcp
  issuers:
    - name: op
      issuer: {issuer}
      sign_in: {{ client_id: console, client_secret: 'a secret/of+it', scopes: [groups], user_info: true }}
      grants: [{{ claim: groups, value: operators, level: admin }}]
"
    )
}

fn drive_browser(address: &str, pictures: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real/issuer_sign_in.mjs");
    let node = browser_script(&script).arg(address).arg(pictures).spawn().unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_person_signs_in_with_an_issuer_that_others_wrote() {
    let home = Installation::new(PLAIN);
    home.write("tools.yaml", TOOL_FILE);
    let server = start_server(&home).await;
    let redirect = format!("{}/ui/sign-in/issuers/op/callback", server.url);
    let (_program, issuer) = start_issuer(&redirect);
    home.write("toolkeep.yaml", &config(&server.url, &issuer));
    let anyone = Client::for_url(&server.url);
    while anyone.get("/.well-known/oauth-protected-resource/mcp").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("issuer-sign-in");
    std::fs::create_dir_all(&pictures).unwrap();
    let (address, folder) = (server.url.clone(), pictures.clone());
    let seen = tokio::task::spawn_blocking(move || drive_browser(&address, &folder)).await.unwrap();
    println!("{seen:#}\npictures in {}", pictures.display());
    for user in [&seen["first"]["user"], &seen["second"]["user"]] {
        let user = user.as_str().unwrap();
        assert!(user.contains("op:ann") && user.contains("person, admin"), "{user}");
    }
    assert_eq!(seen["first"]["search"], json!("?q=save"), "the page that was asked for");
    let cancelled = seen["cancelled"].as_str().unwrap();
    assert!(cancelled.contains("refused or cancelled"), "{cancelled}");
    assert!(server.stop().await.success());
}
