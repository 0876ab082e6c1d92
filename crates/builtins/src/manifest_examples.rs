//! Tests of the built-in tools' manifests: every entry has a function, every function has an entry,
//! and every example is executed.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use egress::{Dialer, DnsResolver, EgressClient, EgressOptions};
use rooted_fs::rooted_dir::{AccessMode, RootedDir};
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;
use serde_json::Value;
use testkit::json_expectation::contains_json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tool::artifact::{ArtifactChunk, ArtifactError, ArtifactStore, ByteRange, StoredArtifact};
use tool::{BoxFuture, Caller, OutcomeBody};

use crate::tests::{clock, execute};
use crate::{
    FileRoots, SandboxProvider, SearchEngine, ToolDependencies, WebEndpoint, WebEndpoints,
    build_io_tools, build_pure_tools, build_sandboxed_tools,
};
use builtin_manifests::ToolFamily;
use serde::Deserialize;
use tool_manifest::BuiltinTool;

/// Examples of a tool, beside its other fields.
#[derive(Deserialize)]
struct Entry {
    name: String,
    examples: Vec<Example>,
}

/// Example call with its result: an answer, a failure with an answer, or an error message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    #[serde(default, rename = "description")]
    _description: String,
    input: Value,
    #[serde(default, deserialize_with = "present")]
    output: Option<Value>,
    failed: Option<Value>,
    error: Option<String>,
}

/// Deserializes a present `null` as `Some`.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

fn entries() -> Vec<Entry> {
    serde_json::from_str(ToolFamily::General.text()).unwrap()
}

/// Archive with `docs/guide.md` in two sections, and `plain.txt`.
const BUNDLE: &[u8] = include_bytes!("archive/bundle.zip");

/// Resolver and dialer that lead every name to one local listener.
#[derive(Debug)]
struct Net(SocketAddr);

impl Dialer for Net {
    fn dial_address(
        &self,
        address: SocketAddr,
    ) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        Box::pin(async move {
            #[expect(clippy::disallowed_methods, reason = "the test leads it elsewhere")]
            let stream = TcpStream::connect(self.0).await?;
            Ok((stream, address))
        })
    }
}

impl DnsResolver for Net {
    fn resolve_host<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec!["93.184.216.34".parse().unwrap()])))
    }
}

const OK: &str = "200 OK";

/// Responds like DuckDuckGo and Wikipedia; else echoes the request.
fn answered(line: &str, body: &str) -> (&'static str, String) {
    let fixed = |text: &str| (OK, text.to_owned());
    match line {
        "GET /html/?q=rust%20language&kl=wt-wt" => fixed(
            r#"<div class="result web-result"><a class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.rust-lang.org%2F&amp;rut=x">Rust</a>
            <a class="result__snippet" href="x">A <b>language</b>.</a></div>"#,
        ),
        "GET /html/?q=challenge&kl=wt-wt" => {
            ("202 Accepted", "<div class=anomaly-modal>".to_owned())
        }
        "GET /api/rest_v1/page/summary/Ferris?redirect=true" => fixed(
            r#"{"type":"standard","title":"Ferris","extract":"Ferris is a crab. It is orange.",
            "content_urls":{"desktop":{"page":"https://en.wikipedia.org/wiki/Ferris"}}}"#,
        ),
        "GET /api/rest_v1/page/summary/Lonely?redirect=true" => {
            fixed(r#"{"type":"standard","title":"Lonely","extract":"It has no categories here."}"#)
        }
        line if line.contains("prop=categories") && line.contains("titles=Lonely") => {
            ("503 Service Unavailable", String::new())
        }
        line if line.starts_with("GET /api/rest_v1/") => ("404 Not Found", "{}".to_owned()),
        line if line.contains("list=search") => {
            fixed(r#"{"query":{"search":[{"ns":0,"title":"Ferris"}]}}"#)
        }
        line if line.contains("prop=categories") => fixed(
            r#"{"query":{"pages":[{"title":"Ferris","categories":[{"title":"Category:Crabs"}]}]}}"#,
        ),
        line if line.contains("action=opensearch") => ("503 Service Unavailable", String::new()),
        _ => (OK, format!("{line} {body}").trim_end().to_owned()),
    }
}

/// Responds with the method, path and body of each request.
#[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
async fn net() -> EgressClient {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let net = Arc::new(Net(listener.local_addr().unwrap()));
    drop(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 64 << 10];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            let line = head.split(" HTTP/1.1").next().unwrap();
            let (status, told) = answered(line, body);
            let length = told.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{told}");
            // A client that has read enough may have disconnected.
            let _gone = stream.write_all(answer.as_bytes()).await;
        }
    }));
    let (resolver, dialer) = (net.clone(), net);
    EgressClient::new(EgressOptions { resolver, dialer, ..EgressOptions::default() }).unwrap()
}

/// The same endpoints, without TLS.
fn endpoints() -> WebEndpoints {
    let at = |url| WebEndpoint::operator_site(url).unwrap();
    let search = SearchEngine::DuckDuckGo(at("http://html.duckduckgo.com"));
    WebEndpoints { search_engine: search, wikipedia: at("http://en.wikipedia.org/") }
}

/// Artifact store with one artifact.
#[derive(Debug)]
struct Aside;

impl ArtifactStore for Aside {
    fn store_artifact<'a>(
        &'a self,
        _: &'a Caller,
        _: Bytes,
    ) -> BoxFuture<'a, Result<StoredArtifact, ArtifactError>> {
        Box::pin(async { Err(ArtifactError::NotFound) })
    }
    fn read_chunk<'a>(
        &'a self,
        _: &'a Caller,
        id: &'a str,
        ByteRange { offset, max_bytes }: ByteRange,
    ) -> BoxFuture<'a, Result<ArtifactChunk, ArtifactError>> {
        Box::pin(async move {
            if id != "art_1" {
                return Err(ArtifactError::NotFound);
            }
            let all = Bytes::from_static(b"an answer kept aside");
            let start = usize::try_from(offset).unwrap().min(all.len());
            let bytes = all.slice(start..(start + max_bytes).min(all.len()));
            Ok(ArtifactChunk { bytes, total_bytes: all.len() as u64 })
        })
    }
}

/// Sets up what the examples use: a working folder, a network and an artifact.
async fn stage() -> (tempfile::TempDir, Vec<BuiltinTool>) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("secret"), "secret").unwrap();
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("notes.txt"), "one\ntwo\n").unwrap();
    std::fs::write(work.join("bundle.zip"), BUNDLE).unwrap();
    let root = RootedDir::open_root(&work, AccessMode::ReadWrite).unwrap();
    // Built with the tests of the crate, beside their folder.
    let built = std::env::current_exe().unwrap();
    let launch = built.parent().and_then(Path::parent).unwrap().join("builtins-launch");
    let launcher = ProcessLauncher::new(launch, vec!["__launch".into()]);
    let means = ToolDependencies {
        file_roots: Some(Arc::new(FileRoots::new(vec![(work.clone(), root)]))),
        egress: Some(net().await),
        artifacts: Some(Arc::new(Aside)),
        sandboxes: Some(Arc::new(SandboxProvider::new(
            launcher,
            Some(work),
            SandboxLevel::NoNamespaces,
        ))),
        endpoints: endpoints(),
        ruff: None,
        restrictions: BTreeMap::new(),
    };
    let mut builtins = build_pure_tools(ToolFamily::General.registry(), &clock());
    builtins.extend(build_io_tools(ToolFamily::General.registry(), &means, &clock()));
    builtins.extend(build_sandboxed_tools(ToolFamily::General.registry(), &means, &clock()));
    (home, builtins)
}

#[tokio::test]
async fn each_entry_has_a_function_and_each_function_an_entry() {
    let (_home, builtins) = stage().await;
    let mut made: Vec<_> = builtins.iter().map(|it| it.tool.name.as_str()).collect();
    let mut declared: Vec<_> = ToolFamily::General.registry().tool_names().collect();
    made.sort_unstable();
    declared.sort_unstable();
    assert_eq!(made, declared);
}

#[tokio::test]
async fn every_example_is_what_happens() {
    let mut ran = 0;
    for Entry { name, examples } in entries() {
        assert!(!examples.is_empty(), "{name} has no example");
        for example in &examples {
            // Each in its own setup, since some change it.
            let (_home, builtins) = stage().await;
            let builtin = builtins.into_iter().find(|it| it.tool.name.as_str() == name);
            run(builtin.unwrap(), example).await;
            ran += 1;
        }
    }
    assert!(ran > 20, "{ran}");
}

/// Regression: categories that could not be read were returned as an empty list.
#[tokio::test]
async fn categories_that_cannot_be_read_are_reported() {
    let ask = async |title: &str| {
        let (_home, builtins) = stage().await;
        let mut builtins = builtins.into_iter();
        let builtin = builtins.find(|it| it.tool.name.as_str() == "fetch_wikipedia").unwrap();
        let args = serde_json::json!({ "title": title });
        let outcome = execute(builtin, &args.to_string()).await;
        let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
        (outcome.is_error, json.to_value())
    };
    let (failed, lonely) = ask("Lonely").await;
    assert!(!failed && lonely["summary"] == "It has no categories here.", "{lonely}");
    let said = "the categories could not be read: Wikipedia answered with status 503 [network]";
    assert_eq!(
        (&lonely["categories"], lonely["warning"].as_str()),
        (&serde_json::json!([]), Some(said))
    );
    // Control: without a failure there is no warning.
    let (_, ferris) = ask("Ferris").await;
    assert_eq!((ferris["categories"][0].as_str(), ferris.get("warning")), (Some("Crabs"), None));
}

async fn run(builtin: BuiltinTool, example: &Example) {
    let (name, input) = (builtin.tool.name.clone(), &example.input);
    let valid = |schema: &tool::Json, value: &Value| {
        let schema = jsonschema::validator_for(&schema.to_value()).unwrap();
        assert!(schema.is_valid(value), "{name}: {value} is not as its schema says");
    };
    valid(&builtin.tool.input_schema, input);
    let output = builtin.tool.output_schema.clone().unwrap();
    let outcome = execute(builtin, &input.to_string()).await;
    let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
    let answered = json.to_value();
    match (&example.output, &example.failed, &example.error) {
        (Some(wanted), None, None) => {
            assert!(!outcome.is_error, "{name} {input}: {answered}");
            valid(&output, &answered);
            assert!(contains_json(&answered, wanted), "{name} {input}: {answered} lacks {wanted}");
        }
        (None, Some(wanted), None) => {
            assert!(
                outcome.is_error && contains_json(&answered, wanted),
                "{name} {input}: {answered}"
            );
            valid(&output, &answered);
        }
        (None, None, Some(wanted)) => {
            assert!(outcome.is_error, "{name} {input}: {answered}");
            assert_eq!(answered, **wanted, "{name} {input}");
        }
        _ => panic!("an example of {name} has either `output`, `failed` or `error`"),
    }
}

#[test]
fn an_answer_that_lacks_something_does_not_hold_it() {
    use serde_json::json;
    assert!(contains_json(
        &json!({ "a": 1, "b": [{ "c": 2, "d": 3 }] }),
        &json!({ "b": [{ "c": 2 }] })
    ));
    for lacking in [json!({ "a": 2 }), json!({ "c": 1 }), json!({ "b": [] }), json!([1])] {
        assert!(!contains_json(&json!({ "a": 1, "b": [1] }), &lacking), "{lacking}");
    }
}
