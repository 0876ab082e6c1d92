//! Every entry of the manifests has a function, every function an entry, and every example is
//! what happens.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use egress::{Dial, Egress, EgressSettings, Resolve};
use rooted_fs::roots::{Access, Root};
use sandbox::Tier;
use sandbox::process::Launcher;
use serde_json::Value;
use testkit::expected::holds;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tool::artefact::{ArtefactError, Artefacts, Kept, Part};
use tool::{Body, Boxed, Caller};

use crate::tests::{clock, execute};
use crate::{Cages, Endpoint, Endpoints, Engine, Files, Means, caged, computing, reaching};
use builtin_manifests::Family;
use serde::Deserialize;
use tool_manifest::Builtin;

/// A tool's examples, beside its other fields.
#[derive(Deserialize)]
struct Entry {
    name: String,
    examples: Vec<Example>,
}

/// A call and what comes of it: an answer, a failure with an answer, or a failure in words.
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

/// `null` is an answer too.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

fn entries() -> Vec<Entry> {
    serde_json::from_str(Family::General.text()).unwrap()
}

/// `docs/guide.md` with two sections, and `plain.txt`.
const BUNDLE: &[u8] = include_bytes!("archive/bundle.zip");

/// Every name is at a public address, and every address leads to one listener of this machine.
#[derive(Debug)]
struct Net(SocketAddr);

impl Dial for Net {
    fn dial(&self, address: SocketAddr) -> Boxed<'_, io::Result<(TcpStream, SocketAddr)>> {
        Box::pin(async move {
            #[expect(clippy::disallowed_methods, reason = "the test leads it elsewhere")]
            let stream = TcpStream::connect(self.0).await?;
            Ok((stream, address))
        })
    }
}

impl Resolve for Net {
    fn resolve<'a>(&'a self, _: &'a str) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec!["93.184.216.34".parse().unwrap()])))
    }
}

const OK: &str = "200 OK";

/// As DuckDuckGo and Wikipedia answer; else with what was asked.
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

/// Answers with the method, the path and the body of what it was asked.
#[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
async fn net() -> Egress {
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
            // Who has read enough may be gone.
            let _gone = stream.write_all(answer.as_bytes()).await;
        }
    }));
    let (resolver, dialer) = (net.clone(), net);
    Egress::new(EgressSettings { resolver, dialer, ..EgressSettings::default() }).unwrap()
}

/// The same pages, without TLS.
fn endpoints() -> Endpoints {
    let at = |url| Endpoint::operators(url).unwrap();
    let search = Engine::DuckDuckGo(at("http://html.duckduckgo.com"));
    Endpoints { search, wikipedia: at("http://en.wikipedia.org/") }
}

/// One artefact.
#[derive(Debug)]
struct Aside;

impl Artefacts for Aside {
    fn keep<'a>(&'a self, _: &'a Caller, _: Bytes) -> Boxed<'a, Result<Kept, ArtefactError>> {
        Box::pin(async { Err(ArtefactError::Missing) })
    }
    fn read<'a>(
        &'a self,
        _: &'a Caller,
        id: &'a str,
        (from, most): (u64, usize),
    ) -> Boxed<'a, Result<Part, ArtefactError>> {
        Box::pin(async move {
            if id != "art_1" {
                return Err(ArtefactError::Missing);
            }
            let all = Bytes::from_static(b"an answer kept aside");
            let from = usize::try_from(from).unwrap().min(all.len());
            let bytes = all.slice(from..(from + most).min(all.len()));
            Ok(Part { bytes, total: all.len() as u64 })
        })
    }
}

/// What the examples find: a working folder, the net, an artefact.
async fn stage() -> (tempfile::TempDir, Vec<Builtin>) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("secret"), "secret").unwrap();
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("notes.txt"), "one\ntwo\n").unwrap();
    std::fs::write(work.join("bundle.zip"), BUNDLE).unwrap();
    let root = Root::open(&work, Access::ReadWrite).unwrap();
    // Built with the tests of the crate, beside their folder.
    let built = std::env::current_exe().unwrap();
    let launch = built.parent().and_then(Path::parent).unwrap().join("builtins-launch");
    let launcher = Launcher::new(launch, vec!["__launch".into()]);
    let means = Means {
        files: Some(Arc::new(Files::new(vec![(work.clone(), root)]))),
        egress: Some(net().await),
        artefacts: Some(Arc::new(Aside)),
        cages: Some(Arc::new(Cages::new(launcher, Some(work), Tier::Fenced))),
        endpoints: endpoints(),
        ruff: None,
        narrowings: BTreeMap::new(),
    };
    let mut builtins = computing(Family::General.registry(), &clock());
    builtins.extend(reaching(Family::General.registry(), &means, &clock()));
    builtins.extend(caged(Family::General.registry(), &means, &clock()));
    (home, builtins)
}

#[tokio::test]
async fn each_entry_has_a_function_and_each_function_an_entry() {
    let (_home, builtins) = stage().await;
    let mut made: Vec<_> = builtins.iter().map(|it| it.tool.name.as_str()).collect();
    let mut declared: Vec<_> = Family::General.registry().names().collect();
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
            // Each on a stage of its own: some change it.
            let (_home, builtins) = stage().await;
            let builtin = builtins.into_iter().find(|it| it.tool.name.as_str() == name);
            run(builtin.unwrap(), example).await;
            ran += 1;
        }
    }
    assert!(ran > 20, "{ran}");
}

/// Categories that could not be read were an empty list, as of an article without any.
#[tokio::test]
async fn categories_that_cannot_be_read_are_reported() {
    let ask = async |title: &str| {
        let (_home, builtins) = stage().await;
        let mut builtins = builtins.into_iter();
        let builtin = builtins.find(|it| it.tool.name.as_str() == "fetch_wikipedia").unwrap();
        let args = serde_json::json!({ "title": title });
        let outcome = execute(builtin, &args.to_string()).await;
        let Body::Value(json) = &outcome.body else { panic!("an MCP result") };
        (outcome.is_error, json.value())
    };
    let (failed, lonely) = ask("Lonely").await;
    assert!(!failed && lonely["summary"] == "It has no categories here.", "{lonely}");
    let said = "the categories could not be read: Wikipedia answered with status 503 [network]";
    assert_eq!(
        (&lonely["categories"], lonely["warning"].as_str()),
        (&serde_json::json!([]), Some(said))
    );
    // The control: where they are read nothing is said.
    let (_, ferris) = ask("Ferris").await;
    assert_eq!((ferris["categories"][0].as_str(), ferris.get("warning")), (Some("Crabs"), None));
}

async fn run(builtin: Builtin, example: &Example) {
    let (name, input) = (builtin.tool.name.clone(), &example.input);
    let valid = |schema: &tool::Json, value: &Value| {
        let schema = jsonschema::validator_for(&schema.value()).unwrap();
        assert!(schema.is_valid(value), "{name}: {value} is not as its schema says");
    };
    valid(&builtin.tool.input, input);
    let output = builtin.tool.output.clone().unwrap();
    let outcome = execute(builtin, &input.to_string()).await;
    let Body::Value(json) = &outcome.body else { panic!("an MCP result") };
    let answered = json.value();
    match (&example.output, &example.failed, &example.error) {
        (Some(wanted), None, None) => {
            assert!(!outcome.is_error, "{name} {input}: {answered}");
            valid(&output, &answered);
            assert!(holds(&answered, wanted), "{name} {input}: {answered} lacks {wanted}");
        }
        (None, Some(wanted), None) => {
            assert!(outcome.is_error && holds(&answered, wanted), "{name} {input}: {answered}");
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
    assert!(holds(&json!({ "a": 1, "b": [{ "c": 2, "d": 3 }] }), &json!({ "b": [{ "c": 2 }] })));
    for lacking in [json!({ "a": 2 }), json!({ "c": 1 }), json!({ "b": [] }), json!([1])] {
        assert!(!holds(&json!({ "a": 1, "b": [1] }), &lacking), "{lacking}");
    }
}
