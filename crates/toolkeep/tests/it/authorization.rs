//! Servers that want tokens, behind the whole program: what goes out, what is kept, what is told.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use egress::{Class, Egress, EgressSettings, HttpLimits, Origin};
use http::{Request, header};
use serde_json::{Value, json};
use testkit::oauth::{Authority, Habits, Resource};

use crate::support::home::Home;
use crate::support::server::{Server, serve};
use crate::support_real::{Ran, cli, good, toolkeep};

fn home(resource: &Resource, oauth: &Value) -> Home {
    let mcp = json!({ "url": resource.url(), "oauth": oauth });
    Home::new(&json!({ "version": 1, "sources": [{ "name": "guarded", "mcp": mcp }] }).to_string())
}

/// Where a browser is sent.
async fn sent(url: &str) -> Option<String> {
    let class = Class::Operator { origin: Origin::parse(url).unwrap() };
    let mut request = Request::new(bytes::Bytes::new());
    *request.uri_mut() = url.parse().unwrap();
    let egress = Egress::new(EgressSettings::default()).unwrap();
    let answer = egress.send(&class, request, HttpLimits::default()).await.unwrap();
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
    let Ran { out, .. } = cli(server, &["source", "list"]);
    out
}

/// Every byte that an installation wrote.
fn written(home: &Home) -> Vec<u8> {
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
    let authority = Authority::start(Habits::default());
    let resource = Resource::start(&authority);
    let home = home(&resource, &json!({ "any_loopback_port": true }));
    let server = serve(&home).await;
    let told = list(&server);
    assert!(told.contains("needs the consent of a person"), "{told}");
    assert!(told.contains("= run `toolkeep source login guarded`\n"), "{told}");
    let said = log_in(&server).await;
    assert!(said.ends_with("logged in to guarded\n"), "{said}");
    let owner = server.owner();
    good(owner.call("guarded.read", &json!({})).await);
    assert!(!list(&server).contains("consent"));
    // A right that nobody agreed to yet.
    let reply = owner.call("guarded.write", &json!({})).await;
    assert_eq!((reply.status, reply.code()), (502, "credential_missing"), "{reply:?}");
    log_in(&server).await;
    good(owner.call("guarded.write", &json!({})).await);
    // An agent gives nobody's consent.
    let body = json!({ "source": "guarded", "redirect_uri": "http://127.0.0.1:1/" });
    assert_eq!(server.agent().post("/v1/sources/login", &body).await.status, 403);
    server.stop().await;
    // What was given is there after a start, and readable to nobody who has the files.
    let server = serve(&home).await;
    good(server.owner().call("guarded.read", &json!({})).await);
    let tokens = resource
        .calls()
        .into_iter()
        .map(|it| it.header("authorization").unwrap().split_at(7).1.to_owned());
    let (tokens, written): (Vec<_>, _) = (tokens.collect(), written(&home));
    assert!(
        tokens.len() >= 3 && holds(&written, "oauth/guarded"),
        "the control: it is looked for well"
    );
    for secret in tokens.iter().map(String::as_str).chain(["refresh-", "code_verifier"]) {
        assert!(!holds(&written, secret), "{secret}");
    }
    let Ran { out, .. } = cli(&server, &["source", "logout", "guarded"]);
    assert_eq!(out, "logged out of guarded\n");
    assert!(list(&server).contains("`toolkeep source login guarded`"));
    assert_eq!(authority.seen("/revoke").len(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_own_credential_is_never_passed_on() {
    let authority = Authority::start(Habits::default());
    let resource = Resource::start(&authority);
    let oauth = json!({ "grant": "client_credentials", "client_id": "known",
        "issuer": authority.url(), "client_secret_file": "./secret.txt" });
    let home = home(&resource, &oauth);
    home.write("secret.txt", "s3cret\n");
    let server = serve(&home).await;
    let key = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    let key = key.trim().to_owned();
    good(server.owner().call("guarded.read", &json!({})).await);
    good(server.owner().call("guarded.read", &json!({ "authorization": key })).await);
    let heard: Vec<_> = resource.seen("/").into_iter().chain(authority.seen("/")).collect();
    // The control: it is found where it does stand, in an argument that the caller itself wrote.
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
    assert_eq!(resource.calls().len(), 2);
    assert!(!holds(&written(&home), "s3cret"));
    server.stop().await;
}
