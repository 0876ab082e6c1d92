//! Tests against the MCP reference server over pipes and HTTP: requests, notifications and methods.
//!
//! Requires the programs that `cargo xtask provision` installs in the folder `TOOLKEEP_REAL`.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sandbox::process::{CommandSpec, ProcessLauncher};
use serde_json::{Value, json};
use source_mcp::{HttpEndpoint, McpOptions, McpSource, StdioConnector as Pipes};
use testkit::installed_programs::installed_file;
use tokio::time::{sleep, timeout};
use tool::executor::{ClientRequestError, ClientRequester};
use tool::{BoxFuture, Json, Source as _, SourceName};

use crate::mcp::runs::{
    Setup, Watch, body, declares, done, json as checked, questions, resume, runner, said,
};
use crate::mcp::site::egress;

const BIN: &str = env!("CARGO_BIN_EXE_fake-mcp");
const SOON: Duration = Duration::from_secs(30);
const ANSWER: &str = r#"{"action":"accept","content":{"name":"Ann"}}"#;

fn file(path: &str) -> String {
    installed_file(path).into_os_string().into_string().unwrap()
}

fn everything() -> String {
    file("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

fn over_pipes() -> McpSource {
    let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec![OsString::from("__launch")]);
    let (command, args) = (file("bin/node"), vec![everything(), "stdio".to_owned()]);
    let spec = CommandSpec { command, args, ..CommandSpec::default() };
    let pipes = Arc::new(Pipes::new(launcher, spec));
    McpSource::with_pipes(SourceName::new("real").unwrap(), McpOptions::default(), pipes)
}

/// Program that ends with the test, with its remaining output.
struct Program(Child, Option<Lines<BufReader<ChildStdout>>>);

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn over_http() -> (Program, McpSource) {
    let loopback = concat!(env!("CARGO_MANIFEST_DIR"), "/../toolkeep/tests/real/loopback.cjs");
    #[expect(clippy::disallowed_methods, reason = "the other side of the test")]
    let mut node = std::process::Command::new(file("bin/node"));
    node.arg(everything()).arg("streamableHttp").env("PORT", "0");
    node.env("NODE_OPTIONS", format!("--require \"{loopback}\""));
    let node = node.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut program = Program(node, None);
    let mut out = BufReader::new(program.0.stdout.take().unwrap()).lines();
    let told = out.find_map(|line| serde_json::from_str::<Value>(&line.unwrap()).ok()).unwrap();
    program.1 = Some(out);
    let url = format!("http://127.0.0.1:{}/mcp", told["port"]);
    let http = HttpEndpoint::new(&egress(), &url, &[]).unwrap();
    (program, McpSource::with_http(SourceName::new("real").unwrap(), McpOptions::default(), http))
}

/// Client that answers every request of the reference server.
struct Person;

impl ClientRequester for Person {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        _: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>> {
        Box::pin(std::future::ready(Ok(checked(match method {
            "elicitation/create" => ANSWER,
            "sampling/createMessage" => {
                r#"{"role":"assistant","model":"m","content":{"type":"text","text":"forty-two"}}"#
            }
            _ => r#"{"roots":[{"uri":"file:///home/ann","name":"home"}]}"#,
        }))))
    }
}

/// Waits for the tools that the server adds after the handshake for clients that can be asked.
async fn whole(source: &McpSource, name: &str) {
    let there = async {
        loop {
            let listing = source.list_offers().await.unwrap();
            let named = |item: &tool::CatalogItem| matches!(item, tool::CatalogItem::Tool(tool) if tool.name.as_str() == name);
            if listing.offers.iter().any(|offer| named(&offer.item)) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, there).await.unwrap_or_else(|_| panic!("no {name}"));
}

async fn asks(source: &McpSource) {
    whole(source, "real.trigger-elicitation-request").await;
    whole(source, "real.trigger-sampling-request").await;
    let can = declares(r#"{"elicitation":{},"sampling":{},"roots":{}}"#);
    let live = Setup { ask: Some(&Person), client: Some(&can), ..Setup::default() };
    for (tool, args, heard) in [
        ("real.trigger-elicitation-request", "{}", "Ann"),
        ("real.trigger-sampling-request", r#"{"prompt":"what?"}"#, "forty-two"),
        ("real.get-roots-list", "{}", "file:///home/ann"),
    ] {
        let tool = runner(source, tool).await;
        let step = timeout(SOON, tool.step(args, live)).await.unwrap().unwrap();
        let said = body(&done(step));
        assert!(said.contains(heard), "{said}");
    }
    let tool = runner(source, "real.trigger-elicitation-request").await;
    let stands = Setup { client: Some(&can), ..Setup::default() };
    let first = timeout(SOON, tool.step("{}", stands)).await.unwrap().unwrap();
    assert!(questions(&first).contains("elicitation/create"));
    let resumed = resume(first, &format!("{{\"q1\":{ANSWER}}}"));
    let again = Setup { resume: Some(&resumed), ..stands };
    let second = timeout(SOON, tool.step("{}", again)).await.unwrap().unwrap();
    assert!(body(&done(second)).contains("Ann"));
}

/// Tests its tool that must be called as a task and asks for input during it.
async fn works(source: &McpSource) {
    let tool = runner(source, "real.simulate-research-query").await;
    let can = declares(r#"{"elicitation":{}}"#);
    let live = Setup { ask: Some(&Person), client: Some(&can), ..Setup::default() };
    let plain = tool.step(r#"{"topic":"x"}"#, Setup::default());
    let asked = tool.step(r#"{"topic":"python","ambiguous":true}"#, live);
    let (plain, asked) = timeout(SOON, async { tokio::join!(plain, asked) }).await.unwrap();
    let (plain, asked) = (body(&done(plain.unwrap())), body(&done(asked.unwrap())));
    assert!(plain.contains("# Research Report: x"), "{plain}");
    assert!(asked.contains("# Research Report: python (User accepted"), "{asked}");
    assert!(!asked.contains("related-task"), "{asked}");
    let stands = Setup { client: Some(&can), ..Setup::default() };
    let first = tool.step(r#"{"topic":"python","ambiguous":true}"#, stands);
    let first = timeout(SOON, first).await.unwrap().unwrap();
    assert!(questions(&first).contains("multiple interpretations"));
    let answer = r#"{"q1":{"action":"accept","content":{"interpretation":"snake"}}}"#;
    let resumed = resume(first, answer);
    let again = Setup { resume: Some(&resumed), ..stands };
    let second = tool.step(r#"{"topic":"python","ambiguous":true}"#, again);
    let second = body(&done(timeout(SOON, second).await.unwrap().unwrap()));
    assert!(second.contains("# Research Report: python (snake)"), "{second}");
}

async fn tells(source: &McpSource) {
    let watch = Watch::default();
    let long = runner(source, "real.trigger-long-running-operation").await;
    let outcome = long.watched(r#"{"duration":0.2,"steps":4}"#, &watch).await.unwrap();
    assert!(said(&outcome).contains("Long running operation completed"));
    assert_eq!(watch.progress.lock().unwrap().len(), 4);

    let prompt = runner(source, "mcp.prompts.get").await;
    assert!(body(&prompt.call(r#"{"name":"simple-prompt"}"#).await.unwrap()).contains("messages"));
    let rpc = prompt.call(r#"{"name":"none"}"#).await.unwrap_err().rpc_error.unwrap();
    assert_eq!(rpc.code, -32602, "{rpc:?}");
    let complete = runner(source, "mcp.completion.complete").await;
    let asked = json!({"ref": {"type": "ref/prompt", "name": "completable-prompt"},
        "argument": {"name": "department", "value": "E"}});
    let completed = body(&complete.call(&asked.to_string()).await.unwrap());
    assert!(completed.contains("Engineering"), "{completed}");
}

async fn changes(source: &McpSource) {
    let uri = "demo://resource/dynamic/text/1";
    let args = json!({"uri": uri}).to_string();
    let read = runner(source, "mcp.resources.read").await;
    assert!(body(&read.call(&args).await.unwrap()).contains(uri));
    let watch = Watch::default();
    let subscribe = runner(source, "mcp.resources.subscribe").await;
    let toggle = runner(source, "real.toggle-subscriber-updates").await;
    let (ended, ()) = tokio::join!(subscribe.watched(&args, &watch), async {
        watch.heard("notifications/subscriptions/acknowledged", 1).await;
        toggle.call("{}").await.unwrap();
        let told = watch.heard("notifications/resources/updated", 1);
        timeout(SOON, told).await.unwrap();
        watch.cancel.cancel();
    });
    assert_eq!(body(&ended.unwrap()), "{}");
    toggle.call("{}").await.unwrap();
}

#[tokio::test]
async fn the_reference_server_over_its_pipes() {
    let source = over_pipes();
    asks(&source).await;
    works(&source).await;
    tells(&source).await;
    changes(&source).await;
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn the_reference_server_over_http() {
    let (_program, source) = over_http();
    asks(&source).await;
    works(&source).await;
    tells(&source).await;
    changes(&source).await;
    timeout(SOON, source.shut_down()).await.unwrap();
}
