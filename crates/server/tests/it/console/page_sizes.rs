//! Pages stay small however much there is: 10,000 tools, 500 sources, 1,000 waiting calls, 500 keys.

use std::time::Duration;

use gateway::ApprovalSettings;
use intake::ConfiguredSource;
use serde_json::json;
use testkit::source::{MockListing, MockSource};
use tool::source::SourceErrorKind;
use tool::{PermissionLevel, Problem, SafetyLevel, SourceError, SourceTrust};

use crate::support::{Browser, FixtureServer, ServerSetup, tools};

/// Maximum size of a page in bytes.
const MAX_PAGE_BYTES: usize = 100_000;
/// Number of sources beside the first.
const SOURCES: usize = 499;
/// Number of waiting calls.
const CALLS: usize = 1_000;

async fn large_server() -> FixtureServer {
    let mut offers = tools::many_offers(10_000);
    let rm = tools::tool_with("rm", |tool| tool.traits.safety = SafetyLevel::Dangerous);
    offers.push(tools::tool_offer(rm, testkit::executor::echo_executor()));
    let settings = ApprovalSettings {
        max_pending_per_key: CALLS,
        max_requests_per_minute: CALLS,
        ..ApprovalSettings::default()
    };
    let server = FixtureServer::with_setup(ServerSetup {
        offers,
        approval_settings: Some(settings),
        ..ServerSetup::default()
    })
    .await;
    for number in 0..SOURCES {
        let problem = Problem::new(
            format!("/etc/toolkeep/toolkeep.yaml:{number}: mcp_servers.server{number}.command"),
            "the command `uvx` ended with status 1: the package was not found in the registry",
        );
        let problem =
            problem.with_help("check the name of the package, and that `uv` is installed");
        let error = SourceError { kind: SourceErrorKind::Crashed, problem };
        let source = MockSource::new(&format!("server{number}"), MockListing::Error(error));
        server.intake.add_source(Some(ConfiguredSource {
            source: std::sync::Arc::new(source),
            kind: "mcp",
            trust: SourceTrust::Full,
            durability: None,
            defer_mode: tool::DeferMode::Auto,
            poll_interval: None,
            fingerprint: 1,
        }));
    }
    server.intake.wait_until_listed().await;
    server
}

#[tokio::test]
async fn pages_stay_small_however_much_there_is() {
    let server = large_server().await;
    let owner = server.owner_client().await;
    for number in 0..500 {
        let _key = server.agent_client(&format!("agent{number}"), PermissionLevel::User).await;
    }
    let agent = server.agent_client("caller", PermissionLevel::Owner).await;
    let mut last = String::new();
    for number in 0..CALLS {
        let arguments = json!({"n": 1, "call": number, "path": "/var/lib/data ".repeat(60)});
        let reply = agent.call_tool("rm", arguments).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        last = reply.json()["call_id"].as_str().unwrap().to_owned();
        server.clock.advance(Duration::from_millis(1));
    }
    let browser = Browser::sign_in(&server, &owner).await;
    let call = format!("/ui/approvals/{last}");
    let (mut sizes, mut largest) = (Vec::new(), 0);
    for path in [
        "/ui",
        "/ui/approvals",
        "/ui/approvals?state=all",
        &call,
        "/ui/calls",
        "/ui/sources",
        "/ui/sources?problems=true",
        "/ui/tools",
        "/ui/tools?q=many.t0999",
        "/ui/tools/many.t00001",
        "/ui/pins",
        "/ui/access",
        "/ui/access/users",
        "/ui/access/roles",
        "/ui/record",
    ] {
        let reply = browser.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        let bytes = reply.text().len();
        sizes.push(format!("{path}: {bytes} bytes"));
        largest = largest.max(bytes);
    }
    println!("{}", sizes.join("\n"));
    assert!(largest < MAX_PAGE_BYTES, "{sizes:#?}");
    // Each entry of a long list is on one page.
    for (first, count) in
        [("/ui/approvals", CALLS), ("/ui/sources?problems=true", SOURCES), ("/ui/access", 502)]
    {
        let (mut found, mut path) = (0, first.to_owned());
        loop {
            let page = browser.page(&path).await;
            let rows = page.tags.iter().filter(|tag| tag.attributes.contains_key("data-row"));
            found += rows.count();
            let mut next = page.tags.iter();
            let next = next.find(|tag| tag.attributes.get("rel").is_some_and(|it| it == "next"));
            let Some(next) = next else { break };
            path.clone_from(&next.attributes["href"]);
        }
        assert_eq!(found, count, "{first}");
    }
}
