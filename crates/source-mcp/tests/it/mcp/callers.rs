//! Tests of callers with their own secrets at one server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::HeaderName;
use source_mcp::{HttpEndpoint, McpOptions, McpSource};
use testkit::context::test_caller;
use tool::executor::{CredentialProvider, UpstreamCredential};
use tool::{
    BoxFuture, Caller, ErrorCode, ExecuteError, Json, JsonLimits, Secret, Source as _, SourceName,
};

use super::runs::{Runner, Setup, done, runner, said};
use super::site::{Asked, Site, egress, reply};

const KEY: &str = "x-key";

/// Caller, session and request of each message.
type Log = Arc<Mutex<Vec<(String, String, String)>>>;

/// Server that opens a session for each handshake and answers calls with caller and session.
fn site() -> (Site, Log) {
    let (log, sessions): (Log, _) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let written = Arc::clone(&log);
    let site = Site::script(move |asked: Asked| {
        let (log, sessions) = (Arc::clone(&written), Arc::clone(&sessions));
        async move {
            let key = asked.header(KEY).unwrap_or("nobody").to_owned();
            let session = asked.header("mcp-session-id").unwrap_or_default().to_owned();
            log.lock().unwrap().push((key.clone(), session.clone(), asked.method().to_owned()));
            let kind = ("content-type", "application/json");
            match asked.method() {
                "initialize" if key == "revoked" => reply(401, &[], "no"),
                "initialize" => {
                    let number = sessions.fetch_add(1, Ordering::SeqCst).to_string();
                    let mut answer = asked.usual();
                    answer.headers_mut().insert("mcp-session-id", number.parse().unwrap());
                    answer
                }
                "tools/call" => {
                    let text = super::peer::text(&format!("{key} in {session}"));
                    reply(200, &[kind], asked.answer(&text))
                }
                "server/discover" => reply(404, &[], ""),
                _ => asked.usual(),
            }
        }
    });
    (site, log)
}

fn source(site: &Site) -> McpSource {
    let url = format!("http://{}/mcp", site.address);
    let http = HttpEndpoint::new(&egress(), &url, &[])
        .unwrap()
        .with_caller_header(HeaderName::from_static(KEY));
    McpSource::with_http(SourceName::new("web").unwrap(), McpOptions::default(), http)
}

/// Secrets of an installation, by subject.
#[derive(Debug, Default)]
struct Secrets(Mutex<BTreeMap<String, String>>);

impl Secrets {
    fn with(all: &[(&str, &str)]) -> Self {
        let pairs = all.iter().map(|(subject, key)| ((*subject).to_owned(), (*key).to_owned()));
        Self(Mutex::new(pairs.collect()))
    }
}

impl CredentialProvider for Secrets {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        caller: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        let found = self.0.lock().unwrap().get(&caller.subject).cloned();
        let missing = || UpstreamCredential::Missing(format!("none for `{}`", caller.subject));
        let found = found.map_or_else(missing, |key| UpstreamCredential::Secret(Secret::new(key)));
        Box::pin(std::future::ready(found))
    }
}

async fn call(tool: &Runner, secrets: &Secrets, subject: &str) -> Result<String, ExecuteError> {
    // Metadata that a caller sends never becomes a credential.
    let meta =
        Json::parse(r#"{"authorization":"Bearer stolen","x-key":"stolen"}"#, JsonLimits::DOCUMENT);
    let meta = meta.unwrap();
    let caller = Caller { subject: subject.to_owned(), ..test_caller() };
    let setup = Setup {
        caller: Some(&caller),
        credentials: Some(secrets),
        meta: Some(&meta),
        ..Setup::default()
    };
    tool.step("{}", setup).await.map(|step| said(&done(step)))
}

#[tokio::test]
async fn each_caller_has_a_secret_a_session_and_connections_of_its_own() {
    let (site, log) = site();
    let source = source(&site);
    let tool = runner(&source, "web.tool").await;
    let secrets = Secrets::with(&[("ann", "key-ann"), ("bob", "key-bob")]);
    let before = site.connections();
    let mut said = Vec::new();
    for subject in ["ann", "bob", "ann", "bob"] {
        said.push(call(&tool, &secrets, subject).await.unwrap());
    }
    assert_eq!(said, ["key-ann in 1", "key-bob in 2", "key-ann in 1", "key-bob in 2"]);
    assert!(site.connections() >= before + 2, "no connection serves two of them");
    let log = log.lock().unwrap().clone();
    let listed: Vec<_> = log.iter().filter(|(_, _, method)| method == "tools/list").collect();
    assert!(listed.iter().all(|(key, ..)| key == "nobody"), "{listed:?}");
    // Control and attack: each session belongs to one key, and the sent metadata appears nowhere.
    for (key, session, _) in &log {
        let others = log.iter().filter(|(_, of, _)| of == session && !of.is_empty());
        assert!(others.into_iter().all(|(other, ..)| other == key), "{log:?}");
        assert_ne!(key, "stolen");
    }
    source.shut_down().await;
}

#[tokio::test]
async fn who_has_no_secret_is_told_what_is_missing_and_reaches_nothing() {
    let (site, log) = site();
    let source = source(&site);
    let tool = runner(&source, "web.tool").await;
    let secrets = Secrets::with(&[("ann", "key-ann")]);
    let before = log.lock().unwrap().len();
    let error = call(&tool, &secrets, "eve").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::CredentialMissing);
    assert!(error.message.ends_with("none for `eve`"), "{error}");
    assert_eq!(log.lock().unwrap().len(), before);
    call(&tool, &secrets, "ann").await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn a_bad_secret_fails_its_caller_alone_and_a_new_one_works_at_once() {
    let (site, _) = site();
    let source = source(&site);
    let tool = runner(&source, "web.tool").await;
    let secrets = Secrets::with(&[("ann", "revoked"), ("bob", "key-bob")]);
    let error = call(&tool, &secrets, "ann").await.unwrap_err();
    assert!(error.message.contains("401"), "{error}");
    call(&tool, &secrets, "bob").await.unwrap();
    secrets.0.lock().unwrap().insert("ann".to_owned(), "key-ann".to_owned());
    assert!(call(&tool, &secrets, "ann").await.unwrap().starts_with("key-ann in "));
    source.shut_down().await;
}

#[tokio::test]
async fn a_source_of_callers_with_secrets_never_goes_out_without_one() {
    let (site, log) = site();
    let source = source(&site);
    let tool = runner(&source, "web.tool").await;
    // The credential port has no secret for this source.
    let error = tool.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::CredentialMissing);
    assert!(log.lock().unwrap().iter().all(|(_, _, method)| method != "tools/call"));
    source.shut_down().await;
}
