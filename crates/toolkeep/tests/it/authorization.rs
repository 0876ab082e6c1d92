//! Tests of upstream servers that require tokens: requests, stored credentials and messages.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use egress::{EgressClient, EgressOptions, Origin, RequestLimits, UrlTrust};
use http::{Request, header};
use serde_json::{Value, json};
use testkit::oauth::{AuthorityBehavior, AuthorizationServer, ProtectedServer};

use crate::real_support::{CommandOutput, expect_ok, run_cli, toolkeep};
use crate::support::installation::Installation;
use crate::support::server_process::{Server, start_server};

fn home(resource: &ProtectedServer, oauth: &Value) -> Installation {
    let mcp = json!({ "url": resource.url(), "oauth": oauth });
    Installation::new(
        &json!({ "version": 1, "sources": [{ "name": "guarded", "mcp": mcp }] }).to_string(),
    )
}

/// Where a browser is sent.
async fn sent(url: &str) -> Option<String> {
    let class = UrlTrust::Configured { origin: Origin::parse(url).unwrap() };
    let mut request = Request::new(bytes::Bytes::new());
    *request.uri_mut() = url.parse().unwrap();
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let answer = egress.send_request(&class, request, RequestLimits::default()).await.unwrap();
    Some(answer.headers().get(header::LOCATION)?.to_str().unwrap().to_owned())
}

/// `toolkeep source login`, with a browser that agrees.
async fn log_in(server: &Server) -> String {
    let mut command = toolkeep();
    command.args(["source", "login", "guarded", "--data"]).arg(&server.data);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let url = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("  http"));
    let url = url.expect("it prints an address").trim().to_owned();
    let back = sent(&url).await.unwrap();
    assert_eq!(sent(&back).await, None);
    let ended =
        tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert!(ended.status.success(), "{:?}", lines.map(Result::unwrap).collect::<Vec<_>>());
    url + &String::from_utf8(ended.stdout).unwrap()
}

fn list(server: &Server) -> String {
    let CommandOutput { out, .. } = run_cli(server, &["source", "list"]);
    out
}

/// Every byte that an installation wrote.
fn written(home: &Installation) -> Vec<u8> {
    let mut all = std::fs::read(home.log()).unwrap();
    let mut folders = vec![home.data()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.extend(std::fs::read(path).unwrap());
            }
        }
    }
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_logs_in_once_and_out_again() {
    let authority = AuthorizationServer::start_server(AuthorityBehavior::default());
    let resource = ProtectedServer::start_server(&authority);
    let home = home(&resource, &json!({ "any_loopback_port": true }));
    let server = start_server(&home).await;
    let told = list(&server);
    assert!(told.contains("needs the consent of a person"), "{told}");
    assert!(told.contains("help: run `toolkeep source login guarded`\n"), "{told}");
    let said = log_in(&server).await;
    assert!(said.ends_with("logged in to guarded\n"), "{said}");
    let owner = server.owner();
    expect_ok(owner.call("guarded.read", &json!({})).await);
    assert!(!list(&server).contains("consent"));
    // A scope without consent.
    let reply = owner.call("guarded.write", &json!({})).await;
    assert_eq!((reply.status, reply.code()), (502, "credential_missing"), "{reply:?}");
    log_in(&server).await;
    expect_ok(owner.call("guarded.write", &json!({})).await);
    // An agent cannot consent for anyone.
    let body = json!({ "source": "guarded", "redirect_uri": "http://127.0.0.1:1/" });
    assert_eq!(server.agent().post("/v1/sources/login", &body).await.status, 403);
    server.stop().await;
    // The tokens persist across a restart, and the files do not reveal them.
    let server = start_server(&home).await;
    expect_ok(server.owner().call("guarded.read", &json!({})).await);
    let tokens = resource
        .tool_calls()
        .into_iter()
        .map(|it| it.header_text("authorization").unwrap().split_at(7).1.to_owned());
    let (tokens, written): (Vec<_>, _) = (tokens.collect(), written(&home));
    assert!(
        tokens.len() >= 3 && holds(&written, "oauth/guarded"),
        "the control: it is looked for well"
    );
    for secret in tokens.iter().map(String::as_str).chain(["refresh-", "code_verifier"]) {
        assert!(!holds(&written, secret), "{secret}");
    }
    let CommandOutput { out, .. } = run_cli(&server, &["source", "logout", "guarded"]);
    assert_eq!(out, "logged out of guarded\n");
    assert!(list(&server).contains("`toolkeep source login guarded`"));
    assert_eq!(authority.requests_at("/revoke").len(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_own_credential_is_never_passed_on() {
    let authority = AuthorizationServer::start_server(AuthorityBehavior::default());
    let resource = ProtectedServer::start_server(&authority);
    let oauth = json!({ "grant": "client_credentials", "client_id": "known",
        "issuer": authority.url(), "client_secret_file": "./secret.txt" });
    let home = home(&resource, &oauth);
    home.write("secret.txt", "s3cret\n");
    let server = start_server(&home).await;
    let key = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    let key = key.trim().to_owned();
    expect_ok(server.owner().call("guarded.read", &json!({})).await);
    expect_ok(server.owner().call("guarded.read", &json!({ "authorization": key })).await);
    let heard: Vec<_> =
        resource.requests_at("/").into_iter().chain(authority.requests_at("/")).collect();
    // Control: the token is found where it does occur, in an argument of the caller.
    let bodies = heard.iter().filter(|seen| holds(&seen.body, &key)).count();
    assert_eq!(bodies, 1);
    for seen in &heard {
        let headers = format!(
            "{:?} {}",
            seen.uri,
            seen.headers
                .iter()
                .map(|(_, value)| { String::from_utf8_lossy(value.as_bytes()).into_owned() })
                .collect::<Vec<_>>()
                .join("\n")
        );
        assert!(!headers.contains(&key), "{headers}");
    }
    assert_eq!(resource.tool_calls().len(), 2);
    assert!(!holds(&written(&home), "s3cret"));
    server.stop().await;
}
