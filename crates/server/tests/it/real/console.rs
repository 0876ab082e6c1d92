//! The web console in Chromium: what operators do in it by keyboard alone and without a script, and
//! each page's accessibility, width, and requests to nobody else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use intake::ConfiguredSource;
use serde_json::{Value, json};
use testkit::executor::MockExecutor;
use testkit::installed_programs::browser_script;
use testkit::source::{MockListing, MockSource};
use tokio::sync::oneshot::{self, Sender};
use tool::call_outcome::OutcomeBody;
use tool::{CallId, ExecutionState, Outcome, SourceListing, SourceTrust};

use crate::approvals::ApprovalServer;
use crate::node_tools::registry_with_node;
use crate::plugins::StubPlugins;
use crate::support::configuration::FixtureConfiguration;
use crate::support::{ServerSetup, tools};

/// Texts that would act if a page took them as markup.
const HOSTILE: &str = "<img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}\u{200b}\
    <a href=javascript:alert(3)>x</a> <iframe src=//evil.example></iframe>";

/// A drawing with a script, which must not run: `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"
/// onload="alert(4)"><rect width="40" height="30" fill="green"/></svg>`.
const PICTURE: &str = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0MCIgaGVpZ2h0PSIzMCIgb25sb2FkPSJhbGVydCg0KSI+PHJlY3Qgd2lkdGg9IjQwIiBoZWlnaHQ9IjMwIiBmaWxsPSJncmVlbiIvPjwvc3ZnPg==";

/// A script that uses the console of a server. Each line that is "watching" is passed on to the next
/// of the senders.
struct ConsoleScript {
    file: &'static str,
    address: String,
    key: String,
    program: CallId,
    /// The folder of the pictures.
    pictures: PathBuf,
    watching: Vec<Sender<()>>,
}

impl ConsoleScript {
    /// A script that signs in as the server's owner.
    async fn with_owner(file: &'static str, bench: &ApprovalServer) -> Self {
        let bearer = bench.owner.bearer();
        Self {
            file,
            address: format!("http://{}", bench.server.address),
            key: bearer.strip_prefix("Bearer ").unwrap().to_owned(),
            program: run_program(bench).await,
            pictures: Self::empty_picture_folder(file),
            watching: Vec::new(),
        }
    }

    fn empty_picture_folder(file: &str) -> PathBuf {
        let name = Path::new(file).file_stem().unwrap();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Pictures of pages that are gone would be counted.
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Runs the script, and returns what it found.
    fn run_script(self) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real").join(self.file);
        let mut node = browser_script(&script);
        node.arg(&self.address).arg(&self.pictures).arg(self.program.to_string());
        let mut node = node.spawn().unwrap();
        node.stdin.take().unwrap().write_all(self.key.as_bytes()).unwrap();
        let (mut watching, mut output) = (self.watching.into_iter(), String::new());
        for line in BufReader::new(node.stdout.take().unwrap()).lines() {
            match line.unwrap().as_str() {
                "watching" => watching.next().unwrap().send(()).unwrap(),
                line => output.push_str(line),
            }
        }
        assert!(node.wait().unwrap().success(), "{output}");
        serde_json::from_str(&output).unwrap()
    }
}

/// Checks that no page did what none may do.
fn assert_harmless(found: &Value) {
    for nothing in ["dialogs", "errors", "foreign", "violations", "wide"] {
        assert_eq!(found[nothing], json!([]), "{nothing}");
    }
}

/// A server with everything that operators look at.
async fn operators_server() -> ApprovalServer {
    let configuration = FixtureConfiguration {
        policy: "policy:\n  # Nobody deletes.\n  deny: [delete]\n".to_owned(),
        ..FixtureConfiguration::default()
    };
    let setup = ServerSetup {
        trust: Some(SourceTrust::Full),
        node_registry: Some(registry_with_node().await),
        plugins: Some(Arc::new(StubPlugins::default())),
        configuration: Some(Arc::new(configuration)),
        ..ServerSetup::default()
    };
    let wait = std::time::Duration::from_millis(300);
    ApprovalServer::with_setup(gateway::ApprovalSettings::default(), wait, setup).await
}

async fn prepared_server() -> ApprovalServer {
    let bench = operators_server().await;
    let hostile = tools::tool_with("hostile", |tool| {
        (tool.description, tool.title) = (HOSTILE.to_owned(), Some(HOSTILE.to_owned()));
        tool.input_schema = tool::Json::encode(&json!({"type": "object", "properties": {
            HOSTILE: {"type": "string", "description": HOSTILE, "default": HOSTILE}}}));
        tool.raw_definition = tool::Json::encode(HOSTILE);
    });
    let rm = tools::tool_with("rm", |tool| {
        tool.description = "Removes a file or folder.\nReturns the number of entries.".to_owned();
        tool.input_schema = tool::Json::encode(&json!({"type": "object", "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "File or folder, relative.", "maxLength": 4096},
                "options": {"type": "object", "properties": {
                    "recursive": {"type": "boolean", "default": false},
                    "depth": {"type": "integer", "minimum": 1, "maximum": 64}}}}}));
        tool.traits.safety = tool::SafetyLevel::Dangerous;
        tool.traits.effects = tool::SideEffects::Declared(vec![tool::SideEffect::ModifiesFiles]);
    });
    let plot = tools::tool_with("plot", |tool| {
        tool.input_schema = tool::Json::encode(&json!({"type": "object",
            "properties": {"title": {"type": "string", "description": "Above the plot."}}}));
    });
    let mut offers = tools::many_offers(60);
    offers.push(tools::tool_offer(
        plot,
        Arc::new(MockExecutor::new(|_| {
            let body = OutcomeBody::Mcp(tool::Json::encode(&json!({"content": [
            {"type": "image", "mimeType": "image/svg+xml", "data": PICTURE}]})));
            Ok(ExecutionState::Completed(Outcome { body, is_error: false }))
        })),
    ));
    offers.extend([hostile, rm].map(|it| tools::tool_offer(it, Arc::clone(&bench.ran) as _)));
    bench.server.replace_offers(offers).await;
    add_changed_source(&bench).await;
    add_toolset(&bench).await;
    // The charts of the first page.
    for calls in [3, 1, 7, 0, 5, 9, 4] {
        for _ in 0..calls {
            bench.agent.call_tool("plot", json!({"title": "x"})).await.expect_ok();
        }
        bench.server.state.add_activity_sample();
    }
    // The pending calls are compared with this one.
    let former = bench.pending_call(json!({"path": "build/old", "options": {"depth": 2}})).await;
    bench.decide(&former, "approve", json!({})).await;
    bench.server.clock.advance(std::time::Duration::from_millis(1));
    for (n, path) in
        ["build/cache", "notes/\u{202e}gpj.exe", HOSTILE, "old.log", "new.log"].iter().enumerate()
    {
        bench.pending_call(json!({"path": path, "options": {"recursive": n % 2 == 0}})).await;
    }
    bench
}

/// Runs the calls of a program, some at the same time, and returns its ID.
async fn run_program(bench: &ApprovalServer) -> CallId {
    let program = bench.server.gateway.new_call_id();
    let ring = bench.server.keys.key_ring();
    let principal = ring.principal_of_key(&bench.agent.key_id).unwrap().clone();
    for index in 0..4 {
        let arguments = json!({"title": index.to_string()}).to_string();
        let request = gateway::CallRequest {
            parent_id: Some(program),
            chain_index: Some(index),
            ..gateway::CallRequest::new("plot", arguments, tool::Interface::Program)
        };
        bench.server.gateway.call_tool(&principal, request).await.result.unwrap();
        if index != 1 {
            bench.server.clock.advance(std::time::Duration::from_millis(35));
        }
    }
    program
}

/// Adds a source whose tool has changed since it was pinned.
async fn add_changed_source(bench: &ApprovalServer) {
    let described = |text: &str| {
        let tool = tools::tool_with("files.read", |tool| {
            text.clone_into(&mut tool.description);
            tool.raw_definition =
                tool::Json::encode(&json!({"name": "files.read", "description": text}));
        });
        let offers = vec![tools::tool_offer(tool, testkit::executor::echo_executor())];
        MockListing::Listing(SourceListing { offers, ..SourceListing::default() })
    };
    let source = Arc::new(MockSource::new("files", described("Reads a file and returns it.")));
    bench.server.intake.add_source(Some(ConfiguredSource {
        source: Arc::clone(&source) as _,
        kind: "mcp",
        trust: SourceTrust::FirstUse,
        durability: None,
        defer_mode: tool::DeferMode::Auto,
        poll_interval: None,
        fingerprint: 1,
    }));
    bench.server.intake.wait_until_listed().await;
    source.set_answer(described(&format!("Reads a file and returns it. {HOSTILE}")));
    let pins = async || bench.owner.get("/v1/pins?state=waiting").await.expect_ok();
    for _ in 0..600 {
        if pins().await["total"] == 1 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the change waits for no review: {}", pins().await);
}

/// Adds a toolset of which a tool is accepted, and others wait.
async fn add_toolset(bench: &ApprovalServer) {
    // Of the texts of its own, a toolset has no invisible character.
    let title = HOSTILE.replace(['\u{202e}', '\u{200b}'], "");
    for tools in [json!(["plot"]), json!(["plot", "hostile", "many.t0000*"])] {
        let body = json!({"title": title, "description": "Use plot first.", "roles": ["team"],
            "tools": tools});
        bench.owner.put("/v1/toolsets/team", &body).await.expect_ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_is_readable_by_everybody_in_both_themes_and_each_width() {
    let bench = prepared_server().await;
    let script = ConsoleScript::with_owner("console_pages.mjs", &bench).await;
    let pictures = script.pictures.clone();
    let found = tokio::task::spawn_blocking(move || script.run_script()).await.unwrap();
    println!("{found:#}\npictures in {}", pictures.display());
    assert_harmless(&found);
    for (page, bytes) in found["bytes"].as_object().unwrap() {
        assert!(bytes.as_u64().unwrap() < 100_000, "{page}: {bytes} bytes");
    }
    assert_eq!(std::fs::read_dir(pictures).unwrap().count(), 116);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_approves_by_keyboard_and_no_text_acts() {
    let bench = prepared_server().await;
    let mut script = ConsoleScript::with_owner("console.mjs", &bench).await;
    let (watching, is_watching) = oneshot::channel();
    let (watching_calls, is_watching_calls) = oneshot::channel();
    script.watching.extend([watching, watching_calls]);
    let found = tokio::task::spawn_blocking(move || script.run_script());
    // After a failure the result says why.
    if is_watching.await.is_ok() {
        bench.pending_call(json!({"path": "while somebody looks"})).await;
    }
    if is_watching_calls.await.is_ok() {
        for _ in 0..90 {
            bench.agent.call_tool("plot", json!({"title": HOSTILE})).await.expect_ok();
        }
    }
    let found = found.await.unwrap();
    println!("{found:#}");
    assert_harmless(&found);
    assert_eq!(
        found["steps"],
        json!({"crossOrigin": 403, "sameOrigin": 303, "focused": "Approve", "approved": true,
            "denied": "denied", "reason": true, "tool": "rm", "keys": "",
            "withoutScript": true, "signedOut": "/ui/sign-in", "explained": true, "kept": "a \"title\"",
            "linkHidden": true, "edited": true, "compared": true, "changed": true, "pinned": "active",
            "created": true, "revoked": true, "persona": true, "organisation": true, "exported": true, "off": "off", "on": "on",
            "usedLink": "This key, link or sign-in is not valid: it is unknown, used, expired or revoked.",
            "picture": 40, "appeared": 1, "liveRows": 100, "paused": true, "previewed": true,
            "tried": true, "added": true, "drained": true, "typed": 1, "bars": 4})
    );
    assert_eq!(bench.ran.call_count(), 4);
}
