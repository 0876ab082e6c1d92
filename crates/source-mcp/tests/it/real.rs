//! The reference server, over its pipes and over HTTP: what it can ask, tell and be asked.
//!
//! Needs what `cargo xtask provision` installs; `TOOLKEEP_REAL` names the folder.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sandbox::process::{Launcher, Spec};
use serde_json::{Value, json};
use source_mcp::{Http, McpSource, Options, Stdio as Pipes};
use testkit::real::installed;
use tokio::time::{sleep, timeout};
use tool::executor::{Ask, Unanswered};
use tool::{Boxed, Json, Source as _, SourceName};

use crate::mcp::runs::{
    Setup, Watch, body, declares, done, json as checked, questions, resume, runner, said,
};
use crate::mcp::site::egress;

const BIN: &str = env!("CARGO_BIN_EXE_fake-mcp");
const SOON: Duration = Duration::from_secs(30);
const ANSWER: &str = r#"{"action":"accept","content":{"name":"Ann"}}"#;

fn file(path: &str) -> String {
    installed(path).into_os_string().into_string().unwrap()
}

fn everything() -> String {
    file("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

fn over_pipes() -> McpSource {
    let launcher = Launcher::new(PathBuf::from(BIN), vec![OsString::from("__launch")]);
    let (command, args) = (file("bin/node"), vec![everything(), "stdio".to_owned()]);
    let spec = Spec { command, args, ..Spec::default() };
    let pipes = Arc::new(Pipes::new(launcher, spec));
    McpSource::pipes(SourceName::new("real").unwrap(), Options::default(), pipes)
}

/// A program that ends with the test, and what it still prints.
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
    let http = Http::new(&egress(), &url, &[]).unwrap();
    (program, McpSource::http(SourceName::new("real").unwrap(), Options::default(), http))
}

/// Answers everything the reference server can ask.
struct Person;

impl Ask for Person {
    fn ask<'a>(&'a self, method: &'a str, _: Json) -> Boxed<'a, Result<Json, Unanswered>> {
        Box::pin(std::future::ready(Ok(checked(match method {
            "elicitation/create" => ANSWER,
            "sampling/createMessage" => {
                r#"{"role":"assistant","model":"m","content":{"type":"text","text":"forty-two"}}"#
            }
            _ => r#"{"roots":[{"uri":"file:///home/ann","name":"home"}]}"#,
        }))))
    }
}

/// Its tools for clients that can be asked come after the handshake.
async fn whole(source: &McpSource, name: &str) {
    let there = async {
        loop {
            let listing = source.list().await.unwrap();
            let named = |item: &tool::Item| matches!(item, tool::Item::Tool(tool) if tool.name.as_str() == name);
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

/// Its tool that must be called as a task, and asks something in the midst of it.
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
    let rpc = prompt.call(r#"{"name":"none"}"#).await.unwrap_err().rpc.unwrap();
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
    timeout(SOON, source.close()).await.unwrap();
}

#[tokio::test]
async fn the_reference_server_over_http() {
    let (_program, source) = over_http();
    asks(&source).await;
    works(&source).await;
    tells(&source).await;
    changes(&source).await;
    timeout(SOON, source.close()).await.unwrap();
}
